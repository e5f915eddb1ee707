/* Answers: what a client of the OpenAI API sees, judged by a JSON library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "actors/gateway/metrics.h"
#include "actors/gateway/pending.h"
#include "actors/gateway/reply.h"
#include "model/utf8.h"

enum { TOKENS_MAX = 512, VOCABULARY = 1536, END_TOKEN = 1 };

static tokenizer_t *tokenizer;
static model_config_t config;
static const model_generation_t defaults = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};

static int open_model(void **state)
{
    (void)state;
    if (model_config_load("model/tiny", &config) != STATUS_OK)
        return -1;
    return tokenizer_open("model/tiny/tokenizer.json", &tokenizer) == STATUS_OK ? 0 : -1;
}

static int close_model(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    return 0;
}

static status_t parse(const char *body, bool chat, openai_parameters_t *parameters,
                      openai_error_t *error)
{
    document_t document = {0};
    status_t status = document_parse(&document, DOCUMENT_STRICT, body, strlen(body));

    assert_int_equal(status, STATUS_OK);
    status = openai_parse(&document, chat, "tiny", &config, &defaults, 7, parameters, error);
    document_fini(&document);
    return status;
}

/* What a client wrote may stand in it, such as a path, and be cut in the middle of a character. */
static void test_an_error_is_json_whatever_it_quotes(void **state)
{
    static const char *const texts[] = {"\xff", "\xc3(", "\xed\xa0\x80", "quote \" and \x01",
                                        "\xe2\x82"};
    char longest[400];

    (void)state;
    for (size_t i = 0; i <= COUNT_OF(texts); i++) {
        const char *text = i < COUNT_OF(texts) ? texts[i] : longest;
        openai_error_t error;
        text_buffer_t out;
        json_t *root;

        for (size_t n = 0; n + 3 < sizeof(longest); n += 3)
            memcpy(longest + n, "\xe2\x82\xac", 4);
        text_buffer_init(&out, 4096);
        openai_error_set(&error, 404, "", "there is no %s", text);
        reply_put_error(&out, &error);
        root = json_loadb(out.bytes, out.used, 0, NULL);
        assert_non_null(root);
        json_decref(root);
        text_buffer_fini(&out);
    }
}

/* ---- answers --------------------------------------------------------------------------------- */

typedef struct {
    openai_parameters_t parameters;
    reply_t reply;
} scene_t;

static scene_t *begin_within(const char *body, bool chat, bool thinking, bool tools,
                             size_t bytes_max)
{
    static const uint32_t end_tokens[] = {END_TOKEN};
    scene_t *scene = calloc(1, sizeof(*scene));
    openai_error_t error;
    reply_facts_t facts = {.tokenizer = tokenizer,
                           .parameters = &scene->parameters,
                           .model = "tiny",
                           .end_tokens = end_tokens,
                           .end_count = 1,
                           .number = 5,
                           .chat = chat,
                           .thinking = thinking,
                           .tools = tools,
                           .prompt_tokens = 10,
                           .bytes_max = bytes_max};

    assert_int_equal(parse(body, chat, &scene->parameters, &error), STATUS_OK);
    assert_int_equal(reply_init(&scene->reply, &facts), STATUS_OK);
    return scene;
}

static scene_t *begin(const char *body, bool chat, bool thinking, bool tools)
{
    return begin_within(body, chat, thinking, tools, REPLY_BYTES_MAX);
}

static void finish(scene_t *scene)
{
    reply_fini(&scene->reply);
    free(scene);
}

static void say(scene_t *scene, const char *text)
{
    uint32_t ids[TOKENS_MAX];
    size_t count;

    assert_int_equal(
        tokenizer_encode_trusted(tokenizer, text, strlen(text), ids, TOKENS_MAX, &count),
        STATUS_OK);
    for (size_t i = 0; i < count; i++) {
        record_token_t token = {.token = ids[i], .logprob = -0.5f};

        reply_token(&scene->reply, &token);
    }
}

/* The same by the tokens of these bytes, each of one byte. */
static void say_bytes(scene_t *scene, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        record_token_t token = {.token = VOCABULARY, .logprob = -0.5f};

        for (uint32_t id = 0; id < VOCABULARY && token.token == VOCABULARY; id++) {
            size_t length;
            const char *piece = tokenizer_piece(tokenizer, id, &length);

            if (length == 1 && piece[0] == bytes[i])
                token.token = id;
        }
        assert_true(token.token < VOCABULARY);
        reply_token(&scene->reply, &token);
    }
}

static bool says(const scene_t *scene, const char *text)
{
    return memmem(scene->reply.out.bytes, scene->reply.out.used, text, strlen(text)) != NULL;
}

static json_t *whole(scene_t *scene)
{
    json_error_t error;
    json_t *body =
        json_loadb(scene->reply.out.bytes, scene->reply.out.used, JSON_REJECT_DUPLICATES, &error);

    if (!body)
        fail_msg("%s in %.*s", error.text, (int)scene->reply.out.used, scene->reply.out.bytes);
    return body;
}

static const char *text_at(json_t *body, const char *one, const char *two)
{
    json_t *choice = json_array_get(json_object_get(body, "choices"), 0);

    return json_string_value(json_object_get(json_object_get(choice, one), two));
}

/* Joins what the deltas of a stream say under `key`; checks each chunk's form on the way. */
static void join(scene_t *scene, const char *key, char *joined, size_t size)
{
    char *copy = strndup(scene->reply.out.bytes, scene->reply.out.used), *save = NULL;
    bool done = false;
    size_t used = 0;

    for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        json_error_t error;
        json_t *chunk;
        const char *text;

        assert_memory_equal(line, "data: ", 6);
        assert_false(done);
        done = strcmp(line, "data: [DONE]") == 0;
        if (done)
            continue;
        chunk = json_loads(line + 6, JSON_REJECT_DUPLICATES, &error);
        if (!chunk)
            fail_msg("%s in %s", error.text, line);
        text = text_at(chunk, "delta", key);
        used += (size_t)snprintf(joined + used, size - used, "%s", text ? text : "");
        json_decref(chunk);
    }
    assert_true(done);
    free(copy);
}

#define CALL                                                                                       \
    "Let me look.\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"look\">\n"                   \
    "<｜DSML｜parameter name=\"at\" string=\"true\">a "                                          \
    "\"b\"</｜DSML｜parameter>\n</｜DSML｜invoke>\n"                                           \
    "</｜DSML｜tool_calls>"

static void test_whole_answer_has_reasoning_content_and_calls(void **state)
{
    scene_t *scene = begin("{\"model\": \"tiny\"}", true, true, true);
    json_t *body, *call, *function;

    (void)state;
    say(scene, "Hm.</think>" CALL);
    reply_token(&scene->reply, &(record_token_t){.token = END_TOKEN});
    reply_end(&scene->reply, END_STOP, 4, "");
    body = whole(scene);
    assert_string_equal(text_at(body, "message", "reasoning_content"), "Hm.");
    assert_string_equal(text_at(body, "message", "content"), "Let me look.");
    call = json_array_get(
        json_object_get(
            json_object_get(json_array_get(json_object_get(body, "choices"), 0), "message"),
            "tool_calls"),
        0);
    function = json_object_get(call, "function");
    assert_string_equal(json_string_value(json_object_get(function, "name")), "look");
    assert_string_equal(json_string_value(json_object_get(function, "arguments")),
                        "{\"at\": \"a \\\"b\\\"\"}");
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(json_object_get(body, "usage"), "prompt_tokens_details"),
                         "cached_tokens")),
                     4);
    json_decref(body);
    finish(scene);
}

static void test_stream_says_the_same_as_the_whole(void **state)
{
    scene_t *scene = begin(
        "{\"model\": \"tiny\", \"stream\": true, \"stream_options\": {\"include_usage\": true}}",
        true, true, true);
    char joined[512];

    (void)state;
    say(scene, "Hm.</think>" CALL);
    reply_end(&scene->reply, END_STOP, 0, "");
    join(scene, "reasoning_content", joined, sizeof(joined));
    assert_string_equal(joined, "Hm.");
    join(scene, "content", joined, sizeof(joined));
    assert_string_equal(joined, "Let me look.");
    assert_true(says(scene, "\"finish_reason\": \"tool_calls\""));
    assert_true(says(scene, "\"total_tokens\""));
    finish(scene);
}

static void test_stop_string_cuts_even_across_tokens(void **state)
{
    scene_t *scene =
        begin("{\"model\": \"tiny\", \"stop\": \"never seen, now\"}", true, false, false);
    json_t *body;

    (void)state;
    say(scene, "one never seen, not that; never seen, now and more");
    assert_true(scene->reply.stopped);
    reply_end(&scene->reply, END_STOPPED, 0, "");
    body = whole(scene);
    assert_string_equal(text_at(body, "message", "content"), "one never seen, not that; ");
    json_decref(body);
    finish(scene);
}

#define MARKED_CALL                                                                                \
    "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"look\">\n"                                   \
    "<｜DSML｜parameter name=\"at\" string=\"true\">Paris</｜DSML｜parameter>\n"               \
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>"

/* Content and reasoning as the client has them at the end, each in `room` bytes. */
static void texts_of(scene_t *scene, bool stream, char *content, char *reasoning, size_t room)
{
    json_t *answer = stream ? NULL : whole(scene);
    const char *text = answer ? text_at(answer, "message", "content") : "";
    const char *thought = answer ? text_at(answer, "message", "reasoning_content") : "";

    (void)snprintf(content, room, "%s", text ? text : "");
    (void)snprintf(reasoning, room, "%s", thought ? thought : "");
    if (stream) {
        join(scene, "content", content, room);
        join(scene, "reasoning_content", reasoning, room);
    }
    json_decref(answer);
}

/* A stop string is met in content alone, as a client sees it: in no reasoning, no tag, no name, no argument. */
static void test_stop_strings_look_at_content(void **state)
{
    static const struct {
        const char *stop, *said, *content, *reasoning, *finish;
        bool stopped, with; /* `with`: include_stop_str_in_output */
    } rows[] = {
        {"\"Paris\"",
         "In Paris.</think>It is "
         "Paris"
         " now.",
         "It is ", "In Paris.", "stop", true, false},
        {"\"Paris\"", "In Paris.</think>It is Paris now.", "It is Paris", "In Paris.", "stop", true,
         true},
        {"\"Paris\"", "In Paris.</think>No.", "No.", "In Paris.", "stop", false, false},
        {"\"Paris\"",
         "Hm</think>I look."
         "\n\n" MARKED_CALL,
         "I look.", "Hm", "tool_calls", false, false},
        {"[\"look\", \"DSML\", \"tool\", \"at\"]", "Hm</think>" MARKED_CALL, "", "Hm", "tool_calls",
         false, false},
        {"\"think\"", "Hm</think>I do.", "I do.", "Hm", "stop", false, false},
        {"\"m</\"", "Hm</think>I do.", "I do.", "Hm", "stop", false, false},
        {"\"then\"", "Hm</think>" MARKED_CALL "and then more", "and ", "Hm", "tool_calls", true,
         false},
        {"\"de\"",
         "Hm</think>abcd"
         "\n\n" MARKED_CALL "efg",
         "abc", "Hm", "tool_calls", true, false},
        {"[\"abcd\", \"bc\"]", "</think>xabcdy", "xa", "", "stop", true, false},
        {"[\"bc\", \"abc\", \"c\"]", "</think>xabcdy", "x", "", "stop", true, false},
        {"[\"bc\", \"abc\", \"c\"]", "</think>xabcdy", "xabc", "", "stop", true, true},
        {"\"aab\"", "</think>aaab", "a", "", "stop", true, false},
        {"\"\\n\\n\"", "</think>a\n\nb", "a", "", "stop", true, false},
        {"\"é!\"", "</think>caf\xc3\xa9!", "caf", "", "stop", true, false},
    };

    (void)state;
    for (size_t i = 0; i < 4 * COUNT_OF(rows); i++) {
        const bool stream = i % 2, bytewise = i / 2 % 2;
        char body[256], content[256] = "", reasoning[256] = "", finish_text[64];
        scene_t *scene;

        (void)snprintf(body, sizeof(body),
                       "{\"stop\": %s, \"stream\": %s, \"include_stop_str_in_output\": %s}",
                       rows[i / 4].stop, stream ? "true" : "false",
                       rows[i / 4].with ? "true" : "false");
        scene = begin(body, true, true, true);
        if (bytewise) {
            for (const char *at = rows[i / 4].said; *at && !scene->reply.stopped; at++)
                say_bytes(scene, at, 1);
        } else {
            say(scene, rows[i / 4].said);
        }
        assert_int_equal(reply_end(&scene->reply, END_STOP, 0, ""), 200);
        assert_int_equal(scene->reply.stopped, rows[i / 4].stopped);
        texts_of(scene, stream, content, reasoning, sizeof(content));
        assert_string_equal(content, rows[i / 4].content);
        assert_string_equal(reasoning, rows[i / 4].reasoning);
        (void)snprintf(finish_text, sizeof(finish_text), "\"finish_reason\": \"%s\"",
                       rows[i / 4].finish);
        assert_true(says(scene, finish_text));
        assert_int_equal(says(scene, "\"stop_reason\": \""), rows[i / 4].stopped);
        finish(scene);
    }
}

/* In a completion there is no markup: all of the text is looked at. What ended it is said. */
static void test_what_ended_an_answer_is_said(void **state)
{
    static const char *const bodies[] = {
        "{\"stop\": [\"zz\", \"at\"], \"include_stop_str_in_output\": %s, \"stream\": %s}",
        "{\"stop_token_ids\": [300], \"include_stop_str_in_output\": %s, \"stream\": %s}",
        "{\"stop\": \"zz\", \"include_stop_str_in_output\": %s, \"stream\": %s}"};
    static const char *const reasons[] = {"\"stop_reason\": \"at\"", "\"stop_reason\": 300",
                                          "\"stop_reason\""};

    (void)state;
    for (size_t i = 0; i < 8 * COUNT_OF(bodies); i++) {
        const bool chat = i % 2, shown = i / 2 % 2, stream = i / 4 % 2;
        const size_t which = i / 8;
        char body[160];
        scene_t *scene;

        (void)snprintf(body, sizeof(body), bodies[which], shown ? "true" : "false",
                       stream ? "true" : "false");
        scene = begin(body, chat, false, false);
        say(scene, "What");
        if (which == 1)
            reply_token(&scene->reply, &(record_token_t){.token = 300});
        reply_end(&scene->reply, END_STOP, 0, "");
        assert_int_equal(says(scene, reasons[which]), which < 2);
        assert_true(says(scene, "\"finish_reason\": \"stop\""));
        if (!stream) {
            json_t *answer = whole(scene);
            json_t *choice = json_array_get(json_object_get(answer, "choices"), 0);

            assert_string_equal(chat ? text_at(answer, "message", "content")
                                     : json_string_value(json_object_get(choice, "text")),
                                which > 0 ? "What"
                                : shown   ? "What"
                                          : "Wh");
            json_decref(answer);
        }
        finish(scene);
    }
}

/* Parts of characters have spellings of their own, so that no key of an object is there twice. */
static void test_every_alternative_has_a_key_of_its_own(void **state)
{
    enum { TOPS = 20 };
    uint32_t tops[TOPS];
    float logprobs[TOPS];
    uint32_t count = 0;

    (void)state;
    for (uint32_t token = 0; count < TOPS && token < config.vocabulary; token++) {
        size_t length, broken_at;
        const char *piece = tokenizer_piece(tokenizer, token, &length);

        if (!utf8_check(piece, length, &broken_at)) {
            logprobs[count] = -1;
            tops[count++] = token;
        }
    }
    assert_int_equal(count, TOPS);
    for (int chat = 0; chat < 2; chat++) {
        scene_t *scene =
            begin(chat ? "{\"logprobs\": true, \"top_logprobs\": 20}" : "{\"logprobs\": 20}", chat,
                  false, false);

        reply_token(&scene->reply, &(record_token_t){.token = tops[0],
                                                     .top_tokens = {tops, TOPS},
                                                     .top_logprobs = {logprobs, TOPS}});
        reply_end(&scene->reply, END_LENGTH, 0, "");
        json_decref(whole(scene)); /* refuses keys that are there twice */
        assert_true(says(scene, "\"bytes:\\\\x"));
        finish(scene);
    }
}

static void test_an_empty_answer_has_empty_logprobs(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool chat = i % 2, stream = i / 2;
        char body[64];
        scene_t *scene;

        (void)snprintf(body, sizeof(body), "{\"stream\": %s, \"logprobs\": %s}",
                       stream ? "true" : "false", chat ? "true" : "1");
        scene = begin(body, chat, false, false);
        reply_token(&scene->reply, &(record_token_t){.token = END_TOKEN});
        reply_end(&scene->reply, END_STOP, 0, "");
        assert_true(says(scene, chat ? "\"logprobs\": {\"content\": []}"
                                     : "\"logprobs\": {\"tokens\": [], \"token_logprobs\": []"));
        finish(scene);
    }
}

static void test_text_held_for_a_stop_string_comes_out_at_the_end(void **state)
{
    scene_t *scene = begin("{\"model\": \"tiny\", \"stop\": \"abcd\"}", true, false, false);
    json_t *body;

    (void)state;
    say(scene, "xx abc");
    reply_end(&scene->reply, END_LENGTH, 0, "");
    body = whole(scene);
    assert_string_equal(text_at(body, "message", "content"), "xx abc");
    json_decref(body);
    finish(scene);
}

/* An end for another reason may cross the abort for the stop string, as when a replay came between. */
static void test_a_stop_string_ends_whatever_comes_later(void **state)
{
    static const char *const bodies[] = {
        "{\"model\": \"tiny\", \"stop\": \"now\"}",
        "{\"model\": \"tiny\", \"stop\": \"now\", \"stream\": true}"};
    static const end_reason_t reasons[] = {END_STOP,     END_LENGTH,   END_STOPPED,    END_ABORTED,
                                           END_DEADLINE, END_POISONED, END_UNAVAILABLE};

    (void)state;
    for (size_t i = 0; i < 4 * COUNT_OF(reasons); i++) {
        scene_t *scene = begin(bodies[i / 2 % 2], i % 2, false, false);

        scene->reply.streaming = i / 2 % 2;
        say(scene, "one now two");
        assert_int_equal(reply_end(&scene->reply, reasons[i / 4], 0, "crossed"), 200);
        assert_true(says(scene, "\"finish_reason\": \"stop\""));
        assert_false(says(scene, "\"finish_reason\": \"length\""));
        assert_false(says(scene, "error"));
        finish(scene);
    }
}

/* Nothing of it goes out: not the part that had room, and no status that says otherwise. */
static void test_an_answer_without_room_is_an_error(void **state)
{
    static const char *const bodies[] = {
        "{\"model\": \"tiny\", \"logprobs\": %s}",
        "{\"model\": \"tiny\", \"logprobs\": %s, \"stop\": \"zz\"}"};

    (void)state;
    for (size_t i = 0; i < 4 * COUNT_OF(bodies); i++) {
        bool chat = i % 2;
        char body[128];
        scene_t *scene;
        json_t *answer, *error;

        (void)snprintf(body, sizeof(body), bodies[i / 4], chat ? "true" : "1");
        scene = begin_within(body, chat, false, false, i / 2 % 2 ? 400 : 2000);
        for (uint32_t n = 0; n < 40; n++)
            say(scene, "more text");
        assert_int_equal(reply_end(&scene->reply, END_LENGTH, 0, ""), 500);
        answer = whole(scene);
        error = json_object_get(answer, "error");
        assert_non_null(error);
        assert_string_equal(json_string_value(json_object_get(error, "code")), "answer_too_large");
        json_decref(answer);
        finish(scene);
    }
}

/* A stream goes out up to the last whole event, then says what happened. */
static void test_a_stream_without_room_ends_with_an_error_event(void **state)
{
    scene_t *scene =
        begin_within("{\"model\": \"tiny\", \"stream\": true}", true, false, false, 1000);

    (void)state;
    scene->reply.streaming = true;
    for (uint32_t n = 0; n < 40 && scene->reply.status == STATUS_OK; n++)
        say(scene, "more");
    assert_int_equal(scene->reply.status, STATUS_TOO_LARGE);
    assert_memory_equal(scene->reply.out.bytes + scene->reply.out.used - 2, "\n\n", 2);
    scene->reply.out.used = 0; /* sent */
    (void)reply_end(&scene->reply, END_ABORTED, 0, "");
    assert_true(says(scene, "data: {\"error\": {"));
    assert_true(says(scene, "answer_too_large"));
    assert_false(says(scene, "[DONE]"));
    finish(scene);
}

/* It counts as a token, so it has its entry; text it is not. */
static void test_an_end_token_that_is_ignored_has_its_logprob(void **state)
{
    static const char *const bodies[] = {
        "{\"model\": \"tiny\", \"ignore_eos\": true, \"logprobs\": 1, \"prompt\": \"a\"}",
        "{\"model\": \"tiny\", \"ignore_eos\": true, \"logprobs\": true}"};

    (void)state;
    for (size_t chat = 0; chat < 2; chat++) {
        scene_t *scene = begin(bodies[chat], chat, false, false);
        json_t *body, *choice, *entries;
        const char *text;

        say(scene, "one");
        reply_token(&scene->reply, &(record_token_t){.token = END_TOKEN, .logprob = -1});
        say(scene, "two");
        reply_end(&scene->reply, END_LENGTH, 0, "");
        body = whole(scene);
        choice = json_array_get(json_object_get(body, "choices"), 0);
        entries = json_object_get(json_object_get(choice, "logprobs"), chat ? "content" : "tokens");
        assert_int_equal(json_array_size(entries), scene->reply.completion_tokens);
        text = chat ? text_at(body, "message", "content")
                    : json_string_value(json_object_get(choice, "text"));
        assert_string_equal(text, "onetwo");
        json_decref(body);
        finish(scene);
    }
}

static void test_logprobs_have_one_entry_for_each_token(void **state)
{
    scene_t *scene = begin("{\"model\": \"tiny\", \"logprobs\": true}", true, false, false);
    json_t *body, *content;

    (void)state;
    say(scene, "caf\xc3\xa9 \xf0\x9f\x99\x82");
    reply_end(&scene->reply, END_LENGTH, 0, "");
    body = whole(scene);
    content = json_object_get(
        json_object_get(json_array_get(json_object_get(body, "choices"), 0), "logprobs"),
        "content");
    assert_int_equal(json_array_size(content), scene->reply.completion_tokens);
    json_decref(body);
    finish(scene);
}

static void test_completion_counts_characters(void **state)
{
    scene_t *scene =
        begin("{\"model\": \"tiny\", \"logprobs\": 1, \"prompt\": \"a\"}", false, false, false);
    json_t *body, *offsets;

    (void)state;
    say(scene, "\xc3\xa9\xc3\xa9 x");
    reply_end(&scene->reply, END_STOP, 0, "");
    body = whole(scene);
    offsets = json_object_get(
        json_object_get(json_array_get(json_object_get(body, "choices"), 0), "logprobs"),
        "text_offset");
    assert_int_equal(json_array_size(offsets), scene->reply.completion_tokens);
    assert_in_range(json_integer_value(json_array_get(offsets, json_array_size(offsets) - 1)), 1,
                    3);
    json_decref(body);
    finish(scene);
}

static void test_failed_stream_ends_with_an_error_event(void **state)
{
    scene_t *scene = begin("{\"model\": \"tiny\", \"stream\": true}", true, false, false);

    (void)state;
    scene->reply.streaming = true;
    say(scene, "Hello");
    reply_end(&scene->reply, END_POISONED, 0, "it \"broke\"");
    assert_true(says(scene, "data: {\"error\": {\"message\": \"it \\\"broke\\\"\""));
    assert_false(says(scene, "[DONE]"));
    finish(scene);
}

static void test_an_answer_that_ran_out_of_time_says_so(void **state)
{
    scene_t *scene = begin("{\"model\": \"tiny\"}", true, false, false);

    (void)state;
    reply_end(&scene->reply, END_DEADLINE, 0, "too late");
    assert_int_equal(reply_status(END_DEADLINE), 408);
    assert_true(says(scene, "{\"error\": {\"message\": \"too late\", \"type\": \"timeout_error\""));
    assert_true(says(scene, "\"code\": \"request_timeout\""));
    finish(scene);
}

/* A reader that comes and goes, with all alternatives, some or none. */
static void test_what_is_pending_comes_out_as_it_was(void **state)
{
    pending_t pending = {.logprobs = true};
    uint32_t put = 0, taken = 0, tops[LOGPROBS_MAX];
    float values[LOGPROBS_MAX];
    record_token_t token;

    (void)state;
    for (uint32_t i = 0; i < LOGPROBS_MAX; i++) {
        tops[i] = 100 + i;
        values[i] = -0.5f * (float)i;
    }
    for (uint32_t round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < round; i++, put++) {
            token = (record_token_t){.token = put, .logprob = (float)put};
            token.top_tokens = (u32s_view_t){tops, put % (LOGPROBS_MAX + 1)};
            token.top_logprobs = (f32s_view_t){values, put % (LOGPROBS_MAX + 1)};
            assert_true(pending_put(&pending, &token));
        }
        for (uint32_t i = 0; i < 25 && pending_take(&pending, &token); i++, taken++) {
            assert_int_equal(token.token, taken);
            assert_true(token.logprob == (float)taken);
            assert_int_equal(token.top_tokens.count, taken % (LOGPROBS_MAX + 1));
            assert_memory_equal(token.top_tokens.data, tops, token.top_tokens.count * 4);
            assert_memory_equal(token.top_logprobs.data, values, token.top_logprobs.count * 4);
        }
    }
    while (pending_take(&pending, &token))
        taken++;
    assert_int_equal(taken, put);
    pending_fini(&pending);
}

static void test_metrics_are_cumulative(void **state)
{
    metrics_t metrics = {0};
    static topology_t topology = {.actor_count = 2};
    availability_t availability = {.down = {false, true}};
    text_buffer_t out;

    (void)state;
    snprintf(topology.actors[0].name, ACTOR_NAME_BYTES_MAX, "decode/0");
    snprintf(topology.actors[1].name, ACTOR_NAME_BYTES_MAX, "decode/1");
    text_buffer_init(&out, 1 << 20);
    metrics_observe(&metrics.whole, 0.004);
    metrics_observe(&metrics.whole, 1000);
    metrics_put(&metrics, true, &topology, &availability, &out);
    text_put(&out, "", 1);
    assert_non_null(strstr(out.bytes, "lockstep_request_seconds_bucket{le=\"0.005\"} 1\n"));
    assert_non_null(strstr(out.bytes, "lockstep_request_seconds_bucket{le=\"+Inf\"} 2\n"));
    assert_non_null(strstr(out.bytes, "lockstep_actor_degraded{actor=\"decode/0\"} 0\n"));
    assert_non_null(strstr(out.bytes, "lockstep_actor_degraded{actor=\"decode/1\"} 1\n"));
    text_buffer_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stop_strings_look_at_content),
        cmocka_unit_test(test_what_ended_an_answer_is_said),
        cmocka_unit_test(test_every_alternative_has_a_key_of_its_own),
        cmocka_unit_test(test_an_empty_answer_has_empty_logprobs),
        cmocka_unit_test(test_an_error_is_json_whatever_it_quotes),
        cmocka_unit_test(test_whole_answer_has_reasoning_content_and_calls),
        cmocka_unit_test(test_stream_says_the_same_as_the_whole),
        cmocka_unit_test(test_stop_string_cuts_even_across_tokens),
        cmocka_unit_test(test_text_held_for_a_stop_string_comes_out_at_the_end),
        cmocka_unit_test(test_a_stop_string_ends_whatever_comes_later),
        cmocka_unit_test(test_an_answer_without_room_is_an_error),
        cmocka_unit_test(test_a_stream_without_room_ends_with_an_error_event),
        cmocka_unit_test(test_an_end_token_that_is_ignored_has_its_logprob),
        cmocka_unit_test(test_logprobs_have_one_entry_for_each_token),
        cmocka_unit_test(test_completion_counts_characters),
        cmocka_unit_test(test_failed_stream_ends_with_an_error_event),
        cmocka_unit_test(test_an_answer_that_ran_out_of_time_says_so),
        cmocka_unit_test(test_what_is_pending_comes_out_as_it_was),
        cmocka_unit_test(test_metrics_are_cumulative),
    };

    return cmocka_run_group_tests(tests, open_model, close_model);
}
