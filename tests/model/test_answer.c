/* test_answer.c - golden answers at every chunking, each rule of the policy, random markup, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/answer.h"
#include "model/document.h"
#include "model/utf8.h"
#include "runtime/base/limits.h"
#include "runtime/base/random.h"
#include "tests/model/golden.h"

/* What a client would have put together, as one text: "R:", "C:", "name(arguments)", "S:" entries. */
typedef struct {
    text_buffer_t reasoning;
    text_buffer_t content;
    text_buffer_t calls;      /* per call: name, \x01, arguments, \x02 */
    text_buffer_t suppressed; /* per entry: text, \x02 */
    uint32_t call_count;
    size_t event_count;
    answer_reason_t reason;
} result_t;

static void result_init(result_t *result)
{
    *result = (result_t){0};
    text_buffer_init(&result->reasoning, 1 << 26);
    text_buffer_init(&result->content, 1 << 26);
    text_buffer_init(&result->calls, 1 << 26);
    text_buffer_init(&result->suppressed, 1 << 26);
}

static void result_fini(result_t *result)
{
    text_buffer_fini(&result->reasoning);
    text_buffer_fini(&result->content);
    text_buffer_fini(&result->calls);
    text_buffer_fini(&result->suppressed);
}

static void collect(void *context, const answer_event_t *event)
{
    result_t *result = context;
    size_t broken_at;
    assert_true(event->length > 0);
    assert_true(utf8_check(event->text, event->length, &broken_at));
    result->event_count++;
    switch (event->kind) {
    case ANSWER_REASONING:
        text_put(&result->reasoning, event->text, event->length);
        break;
    case ANSWER_CONTENT:
        text_put(&result->content, event->text, event->length);
        break;
    case ANSWER_CALL:
        assert_int_equal(event->call, result->call_count);
        text_put(&result->calls, "\x02", result->call_count++ > 0);
        text_put(&result->calls, event->text, event->length);
        text_put(&result->calls, "\x01", 1);
        break;
    case ANSWER_ARGUMENTS:
        assert_int_equal(event->call + 1, result->call_count);
        text_put(&result->calls, event->text, event->length);
        break;
    default:
        assert_int_equal(event->kind, ANSWER_SUPPRESSED);
        text_put(&result->suppressed, event->text, event->length);
        text_put(&result->suppressed, "\x02", 1);
    }
}

/* Ends of pieces: everything at once, one byte each, given ones, or random ones. */
typedef struct {
    size_t step;        /* 0: see below */
    const json_t *cuts; /* offsets, or NULL */
    random_t *random;   /* or NULL: one piece */
} cutting_t;

static size_t piece_end(const cutting_t *cutting, size_t index, size_t at, size_t length)
{
    size_t end = length;
    if (cutting->step > 0)
        end = at + cutting->step;
    else if (cutting->cuts != NULL && index < json_array_size(cutting->cuts))
        end = (size_t)json_integer_value(json_array_get(cutting->cuts, index));
    else if (cutting->random != NULL)
        end = at + 1 + (size_t)random_below(cutting->random, 1 + random_below(cutting->random, 40));
    return end < length ? end : length;
}

static void parse(const answer_options_t *options, const char *text, size_t length,
                  answer_end_t ended_by, const cutting_t *cutting, result_t *result)
{
    answer_t answer;
    result_init(result);
    answer_init(&answer, options, collect, result);
    size_t index = 0;
    for (size_t at = 0; at < length; index++) {
        size_t end = piece_end(cutting, index, at, length);
        char *piece = malloc(end - at); /* of its own, so that reading beyond it is seen */
        memcpy(piece, text + at, end - at);
        assert_int_equal(answer_feed(&answer, piece, end - at), STATUS_OK);
        free(piece);
        at = end;
    }
    assert_int_equal(answer_finish(&answer, ended_by, &result->reason), STATUS_OK);
    answer_fini(&answer);
}

static bool same(const text_buffer_t *a, const text_buffer_t *b)
{
    return a->used == b->used && (a->used == 0 || memcmp(a->bytes, b->bytes, a->used) == 0);
}

static bool same_result(const result_t *a, const result_t *b)
{
    return same(&a->reasoning, &b->reasoning) && same(&a->content, &b->content) &&
           same(&a->calls, &b->calls) && same(&a->suppressed, &b->suppressed) &&
           a->reason == b->reason;
}

static void print_result(const char *what, const result_t *r)
{
    static const char *const reasons[] = {"stop", "tool_calls", "length"};
    const text_buffer_t *buffers[] = {&r->reasoning, &r->content, &r->calls, &r->suppressed};
    static const char *const names[] = {"reasoning", "content", "calls", "suppressed"};
    for (size_t i = 0; i < COUNT_OF(buffers); i++)
        print_error("%s %s: [%.*s]\n", what, names[i], (int)buffers[i]->used,
                    buffers[i]->used == 0 ? "" : buffers[i]->bytes);
    print_error("%s reason: %s\n", what, reasons[r->reason]);
}

/* ---- golden ---- */

static void put_value(text_buffer_t *buffer, const json_t *object, const char *key)
{
    size_t length;
    const char *text = golden_text(object, key, &length);
    text_put(buffer, text, length);
}

static void expected(const json_t *vector, result_t *want)
{
    result_init(want);
    const json_t *expect = json_object_get(vector, "expect");
    put_value(&want->reasoning, expect, "reasoning_content");
    put_value(&want->content, expect, "content");
    size_t index;
    json_t *entry;
    json_array_foreach(json_object_get(expect, "tool_calls"), index, entry)
    {
        text_put(&want->calls, "\x02", index > 0);
        put_value(&want->calls, entry, "name");
        text_put(&want->calls, "\x01", 1);
        put_value(&want->calls, entry, "arguments");
    }
    json_array_foreach(json_object_get(expect, "suppressed"), index, entry)
    {
        text_put(&want->suppressed, json_string_value(entry), json_string_length(entry));
        text_put(&want->suppressed, "\x02", 1);
    }
    const char *reason = json_string_value(json_object_get(expect, "finish_reason"));
    want->reason = strcmp(reason, "length") == 0       ? ANSWER_LENGTH
                   : strcmp(reason, "tool_calls") == 0 ? ANSWER_TOOL_CALLS
                                                       : ANSWER_STOP;
}

static void check_golden(const json_t *vector, const cutting_t *cutting, const result_t *want)
{
    size_t length;
    const char *text = golden_text(vector, "text", &length);
    answer_options_t options = {json_is_true(json_object_get(vector, "thinking")),
                                json_is_true(json_object_get(vector, "tools")),
                                json_is_true(json_object_get(vector, "parallel_tool_calls"))};
    bool eos = strcmp(json_string_value(json_object_get(vector, "ended_by")), "eos") == 0;
    result_t result;
    parse(&options, text, length, eos ? ANSWER_ENDED_BY_EOS : ANSWER_ENDED_BY_LENGTH, cutting,
          &result);
    if (!same_result(&result, want)) {
        print_result("got", &result);
        print_result("want", want);
        fail_msg("%s", json_string_value(json_object_get(vector, "name")));
    }
    result_fini(&result);
}

static void test_golden_answers_at_every_chunking(void **state)
{
    (void)state;
    json_t *root = golden_load("chat/output.json"), *vector, *cuts;
    json_t *vectors = json_object_get(root, "vectors");
    size_t index, cut_index;
    random_t random;
    random_init(&random, 17);
    json_array_foreach(vectors, index, vector)
    {
        result_t want;
        expected(vector, &want);
        check_golden(vector, &(cutting_t){0}, &want);
        check_golden(vector, &(cutting_t){.step = 1}, &want);
        json_array_foreach(json_object_get(vector, "cuts"), cut_index, cuts)
            check_golden(vector, &(cutting_t){.cuts = cuts}, &want);
        for (unsigned i = 0; i < 20; i++)
            check_golden(vector, &(cutting_t){.random = &random}, &want);
        result_fini(&want);
    }
    print_message("%zu vectors\n", index);
    assert_true(index > 0);
    json_decref(root);
}

/* ---- whole replies of the tiny model's evaluation ---- */

#define EOS "<｜end▁of▁sentence｜>"

static void check_reply(const json_t *vector)
{
    size_t length;
    const char *text = golden_text(vector, "expected", &length);
    assert_true(length > strlen(EOS));
    bool thinking = strcmp(json_string_value(json_object_get(vector, "mode")), "thinking") == 0;
    answer_options_t options = {thinking, json_array_size(json_object_get(vector, "tools")) > 0,
                                true};
    const json_t *message = json_object_get(vector, "expected_message"), *call;
    result_t want, result;
    result_init(&want);
    put_value(&want.content, message, "content");
    if (thinking)
        put_value(&want.reasoning, message, "reasoning_content");
    const json_t *calls = json_object_get(message, "tool_calls");
    for (size_t i = 0; i < json_array_size(calls); i++) {
        call = json_object_get(json_array_get(calls, i), "function");
        text_put(&want.calls, "\x02", i > 0);
        put_value(&want.calls, call, "name");
        text_put(&want.calls, "\x01", 1);
        put_value(&want.calls, call, "arguments");
    }
    want.reason = json_array_size(calls) > 0 ? ANSWER_TOOL_CALLS : ANSWER_STOP;
    parse(&options, text, length - strlen(EOS), ANSWER_ENDED_BY_EOS, &(cutting_t){.step = 3},
          &result);
    if (!same_result(&result, &want)) {
        print_result("got", &result);
        print_result("want", &want);
        fail_msg("%s", json_string_value(json_object_get(vector, "id")));
    }
    result_fini(&want);
    result_fini(&result);
}

static void test_replies_parse_to_their_messages(void **state)
{
    (void)state;
    static const char *const files[] = {"call", "call2", "notool", "result", "small_qa"};
    size_t replies = 0;
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        char path[128];
        snprintf(path, sizeof(path), "tests/golden/tiny_eval/%s.jsonl", files[i]);
        FILE *file = NULL;
        json_t *vector;
        while (golden_line(&file, path, &vector)) {
            check_reply(vector);
            json_decref(vector);
            replies++;
        }
    }
    assert_int_equal(replies, 166);
}

/* ---- rules ---- */

/* D stands for the mark and quotes are single: <D invoke name='f'> without the space. */
static char *spelled(const char *text)
{
    text_buffer_t out;
    text_buffer_init(&out, 1 << 24);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '@')
            text_put_text(&out, "｜DSML｜");
        else
            text_put(&out, *at == '\'' ? "\"" : at, 1);
    }
    text_put(&out, "", 1);
    return out.bytes;
}

#define WRAP "<@tool_calls>\n"
#define UNWRAP "\n</@tool_calls>"
#define F "<@invoke name='f'>\n"
#define G "<@invoke name='g'>\n"
#define END "\n</@invoke>"
#define P "<@parameter name='p' string='true'>"
#define Q "<@parameter name='q' string='false'>"
#define X "</@parameter>"

typedef struct {
    const char *text;
    const char *options; /* t: thinking, n: no tools, 1: one call, l: ended by length */
    const char *reasoning;
    const char *content;
    const char *calls;      /* name=arguments, separated by ; */
    const char *suppressed; /* entries, separated by ; */
} rule_t;

static const rule_t rules[] = {
    /* think marks */
    {"a<think>b<think>c</think>d</think>e", "", "bc", "ade", "", ""},
    {"<think>", "t", "", "", "", ""},
    {"a\n\n<think>b", "", "b", "a\n\n", "", ""},
    {"a</think", "tl", "a</think", "", "", ""},
    /* a call begins, with each of its three ways */
    {WRAP F P "v" X END UNWRAP, "", "", "", "f={'p': 'v'}", ""},
    {WRAP F END UNWRAP, "", "", "", "f={}", ""},
    {WRAP F "{}" END UNWRAP, "", "", "", "f={}", ""},
    {WRAP F " { 'a' : [1, {}] } " END UNWRAP, "", "", "", "f={ 'a' : [1, {}] }", ""},
    {WRAP F P "v", "l", "", "", "f={'p': 'v", ""},
    {WRAP F Q " 1", "l", "", "", "f=", "1"},
    {WRAP F Q " 1", "", "", "", "f=", "1"},
    {WRAP F "{'a': 1", "l", "", "", "", WRAP F "{'a': 1"},
    {WRAP F "{'a': 1", "", "", WRAP F "{'a': 1", "", ""},
    {WRAP F "{'a': 1}", "l", "", "", "f={'a': 1", ""},
    {WRAP F "{'a': 1}", "", "", "", "f={'a': 1}", ""},
    {WRAP F "{'a': '</@invoke>'}" END UNWRAP, "", "", "", "f={'a': '</@invoke>'}", ""},
    {WRAP F "{'a': 1, 'a': 2}" END UNWRAP, "", "", WRAP F "{'a': 1, 'a': 2}" END UNWRAP, "", ""},
    {WRAP F "{'a': NaN}" END, "l", "", WRAP F "{'a': NaN}" END, "", ""},
    {WRAP F "{'a': 1} x" END, "", "", "", "f={'a': 1}", "x"},
    /* what cannot begin one is text, and text is scanned behind its first bracket */
    {WRAP "</think>x", "t", WRAP, "x", "", ""},
    {WRAP WRAP F END UNWRAP, "", "", WRAP, "f={}", ""},
    {"a\n\n" WRAP F "x", "t", "a\n\n" WRAP F "x", "", "", ""},
    {"<@invoke name='a/>", "", "", "<@invoke name='a/>", "", ""},
    {"<@invoke name='a' >", "", "", "<@invoke name='a' >", "", ""},
    {WRAP "<@invoke name='a\nb'>" END UNWRAP, "", "", WRAP "<@invoke name='a\nb'>" END UNWRAP, "",
     ""},
    {WRAP F "<@parameter name='' string='true'>v" X END, "", "",
     WRAP F "<@parameter name='' string='true'>v" X END, "", ""},
    {WRAP F "<@parameter name='p' string='true' >v" X END, "", "",
     WRAP F "<@parameter name='p' string='true' >v" X END, "", ""},
    /* an invoke without a wrapper */
    {"<@invoke name='f'/>x", "", "", "x", "f={}", ""},
    {F P "v" X, "", "", F P "v" X, "", ""},
    {F P "v" X, "l", "", "", "", F P "v" X},
    {F P "v" X P "w" X END, "", "", "", "f={'p': 'v'}", P "w" X},
    {F P "v" X "stray" END, "", "", F P "v" X "stray" END, "", ""},
    {F Q "1" X END G "{'a': 2}" END " z", "", "", " z", "f={'q': 1};g={'a': 2}", ""},
    {F END UNWRAP "\n", "", "", "", "f={}", ""},
    {F P WRAP G END UNWRAP, "", "", F P, "g={}", ""},
    {"a\n\n" F END, "t", "a", "", "f={}", ""},
    /* strings, literals */
    {WRAP F P "</@parameter></@parameter" X END UNWRAP, "", "", "", "f={'p': ''}",
     "</@parameter" X},
    {WRAP F P "a</@parame" X END UNWRAP, "", "", "", "f={'p': 'a</@parame'}", ""},
    {WRAP F Q X END UNWRAP, "", "", "", "f={'q': ''}", ""},
    {WRAP F Q " x " X END UNWRAP, "", "", "", "f={'q': ' x '}", ""},
    {WRAP F Q " -0 " X END UNWRAP, "", "", "", "f={'q': -0}", ""},
    {WRAP F Q "01" X P "\t" X END UNWRAP, "", "", "", "f={'q': '01', 'p': '\\t'}", ""},
    {WRAP F "<@parameter name='a\\b'>1" X END UNWRAP, "", "", "", "f={'a\\\\b': 1}", ""},
    /* what does not belong into a call */
    {WRAP F P "v" X P "w" X END UNWRAP, "", "", "", "f={'p': 'v'}", P "w" X},
    {WRAP F P "v" X P "w" X P "x" X END UNWRAP, "", "", "", "f={'p': 'v'}", P "w" X ";" P "x" X},
    {WRAP F P "v" X P "w", "", "", "", "f={'p': 'v'", P "w"},
    {WRAP F P "v" X P "w\n</@par", "l", "", "", "f={'p': 'v'", P "w\n</@par"},
    {WRAP F P "v" X "{}" END, "", "", "", "f={'p': 'v'}", "{}"},
    {WRAP F "{'a': 1}" P "v" X END, "", "", "", "f={'a': 1}", P "v" X},
    {WRAP F P "v" X "</think>w", "", "", "", "f={'p': 'v'", "</think>w"},
    {WRAP F P "v" X "\n<think>w", "", "", "", "f={'p': 'v'", "<think>w"},
    {WRAP F P "v" X " a < b " Q "1" X END, "", "", "", "f={'p': 'v', 'q': 1}", "a < b"},
    {WRAP F P "v" X "<@parameter name=''>" Q "1" X END, "", "", "", "f={'p': 'v', 'q': 1}",
     "<@parameter name=''>"},
    {WRAP F P "v" X "\n\n" WRAP G END UNWRAP, "", "", "", "f={'p': 'v'};g={}", "<@tool_calls>"},
    {WRAP F P "v" X "stray" UNWRAP "x", "", "", "x", "f={'p': 'v'}", "stray"},
    {WRAP F P "v" X "stray </@inv", "", "", "", "f={'p': 'v'", "stray </@inv"},
    /* ended inside by itself: a begun end is forgiven, a begun parameter is not */
    {WRAP F P "v" X "\n<", "", "", "", "f={'p': 'v'}", "<"},
    {WRAP F P "v" X "\n</@", "", "", "", "f={'p': 'v'}", "</@"},
    {WRAP F P "v" X "\n<@", "", "", "", "f={'p': 'v'}", "<@"},
    {WRAP F P "v" X "\n<@invoke na", "", "", "", "f={'p': 'v'}", "<@invoke na"},
    {WRAP F P "v" X "\n<@p", "", "", "", "f={'p': 'v'", "<@p"},
    {WRAP F P "v" X "\n<", "l", "", "", "f={'p': 'v'", "<"},
    {WRAP F P "v<", "", "", "", "f={'p': 'v", "<"},
    {WRAP F P "v</@parameter ", "", "", "", "f={'p': 'v</@parameter ", ""},
    /* ASCII bars, where tools were rendered */
    {"<|DSML|tool_calls><@invoke name='f'>" P "v</|DSML|parameter>" END UNWRAP, "", "", "",
     "f={'p': 'v'}", ""},
    {"<|DSML|tool_calls>", "n", "", "<|DSML|tool_calls>", "", ""},
    {"a\n\n<|DSML|", "l", "", "a", "", "<|DSML|"},
    {"a\n\n<|DSML", "l", "", "a\n\n<|DSML", "", ""},
    {WRAP F P "v" X "<|DSML|/invoke>" END, "", "", "", "f={'p': 'v'}", "<|DSML|/invoke>"},
    /* missing ends */
    {WRAP F P "v" X G END UNWRAP, "", "", "", "f={'p': 'v'};g={}", ""},
    {WRAP F P "v" X "\n", "", "", "", "f={'p': 'v'}", ""},
    {WRAP F P "v" X "\n", "l", "", "", "f={'p': 'v'", ""},
    {WRAP F P "v" X "\n</@tool", "l", "", "", "f={'p': 'v'", "</@tool"},
    {WRAP F END "\n" WRAP G END UNWRAP, "", "", "", "f={};g={}", ""},
    {WRAP F END "\n</@toolcalls>x", "", "", "x", "f={}", ""},
    {WRAP F END UNWRAP UNWRAP, "", "", UNWRAP, "f={}", ""},
    {WRAP F END " \n", "", "", "", "f={}", ""},
    {WRAP F END " \n", "l", "", "", "f={}", ""},
    {WRAP F END "\n<", "l", "", "", "f={}", "<"},
    {WRAP F END "\n<", "", "", "", "f={}", "<"},
    {WRAP F END "\n</thi", "l", "", "\n</thi", "f={}", ""},
    {WRAP F END UNWRAP "\n<", "l", "", "\n<", "f={}", ""},
    {WRAP F END UNWRAP "\n<@", "l", "", "", "f={}", "<@"},
    {WRAP F END UNWRAP "\n<@x", "l", "", "\n<@x", "f={}", ""},
    {WRAP F END G "x" END, "", "", G "x" END, "f={}", ""},
    /* ended by length */
    {"a\n\n<｜DSM", "l", "", "a\n\n<｜DSM", "", ""},
    {"a\n\n<@", "l", "", "a", "", "<@"},
    {"a\n\n<@", "", "", "a\n\n<@", "", ""},
    {"a\n\n</@", "l", "", "a\n\n</@", "", ""},
    {"a\n\n<@inv", "nl", "", "a\n\n<@inv", "", ""},
    {"a\n\n<@too", "nl", "", "a", "", "<@too"},
    {"a\n\n", "l", "", "a\n\n", "", ""},
    {"a\n\n" WRAP, "tl", "a", "", "", WRAP},
    /* suppressed */
    {"a\n\n" WRAP F P "v" X END UNWRAP " \n" WRAP G END UNWRAP "\n", "n", "", "a", "",
     WRAP F P "v" X END UNWRAP ";" WRAP G END UNWRAP},
    {WRAP F P "v" X UNWRAP, "n", "", WRAP F P "v" X UNWRAP, "", ""},
    {WRAP UNWRAP, "n", "", WRAP UNWRAP, "", ""},
    {F END, "n", "", F END, "", ""},
    {"r" WRAP F END UNWRAP "s</think>c", "tn", "rs", "c", "", WRAP F END UNWRAP},
    {F END G END, "1", "", "", "f={}", "<@invoke name='g'>\n\n</@invoke>"},
    {WRAP F P "v" X G END UNWRAP "z", "1", "", "z", "f={'p': 'v'}", G END},
    {WRAP F END "\n" G P "w" X, "1", "", "", "f={}", G P "w" X},
    {WRAP F END "\n" G P "w" X "\n", "1", "", "", "f={}", G P "w" X},
    {WRAP F END "\n" G P "w" X UNWRAP "z", "1", "", "z", "f={}", G P "w" X},
    {WRAP F END G P "w" X F "{}" END UNWRAP "z", "1", "", "z", "f={}", G P "w" X ";" F "{}" END},
    {WRAP F END "\n" G P "w" X, "1l", "", "", "f={}", G P "w" X},
    {WRAP F END "\n" G P "w", "1", "", "", "f={}", G P "w"},
    {WRAP F END "\n" G P "w" X "stray", "1", "", "", "f={}", G P "w" X "stray"},
    {WRAP F END "\n" G P "w" X "stray" P "x" X END UNWRAP "z", "1", "", "z", "f={}",
     G P "w" X "stray" P "x" X END},
    {WRAP F END UNWRAP WRAP G P "w" X, "1", "", "", "f={}", WRAP G P "w" X},
    {WRAP F END UNWRAP WRAP G P "w" X G END UNWRAP, "1", "", "", "f={}",
     WRAP G P "w" X G END UNWRAP},
    {WRAP F END UNWRAP WRAP G END "\nstray", "1", "", "\nstray", "f={}", WRAP G END},
    {WRAP F END UNWRAP WRAP G END "\n</@to", "1", "", "", "f={}", WRAP G END "\n</@to"},
    {WRAP F END UNWRAP WRAP G END UNWRAP, "1", "", "", "f={}", WRAP G END UNWRAP},
    {WRAP F END "\n" G "\n<@para", "l", "", "", "f={}", G "\n<@para"},
    {WRAP F END "\n" G "\n<@para", "", "", "", "f={}", G "\n<@para"},
    {F END "\n<", "l", "", "\n<", "f={}", ""},
    {F END "\n<@in", "l", "", "", "f={}", "<@in"},
};

static void put_entries(text_buffer_t *buffer, const char *entries, bool calls)
{
    char *text = spelled(entries);
    if (calls) {
        bool name = true;
        for (char *at = text; *at != '\0'; at++) {
            bool mark = (name && *at == '=') || *at == ';';
            text_put(buffer, mark ? (*at == '=' ? "\x01" : "\x02") : at, 1);
            name = mark ? *at == ';' : name;
        }
    } else {
        for (char *rest = text, *end; *rest != '\0'; rest = end + (*end != '\0')) {
            end = strchrnul(rest, ';');
            text_put(buffer, rest, (size_t)(end - rest));
            text_put(buffer, "\x02", 1);
        }
    }
    free(text);
}

static void rule_result(const rule_t *rule, result_t *want)
{
    result_init(want);
    char *reasoning = spelled(rule->reasoning), *content = spelled(rule->content);
    text_put_text(&want->reasoning, reasoning);
    text_put_text(&want->content, content);
    free(reasoning);
    free(content);
    put_entries(&want->calls, rule->calls, true);
    put_entries(&want->suppressed, rule->suppressed, false);
    size_t calls = strlen(rule->calls);
    bool open = calls > 0 && rule->calls[calls - 1] != '}';
    want->reason = open || strchr(rule->options, 'l') != NULL ? ANSWER_LENGTH
                   : calls > 0                                ? ANSWER_TOOL_CALLS
                                                              : ANSWER_STOP;
}

static void test_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        const char *flags = rules[i].options;
        answer_options_t options = {strchr(flags, 't') != NULL, strchr(flags, 'n') == NULL,
                                    strchr(flags, '1') == NULL};
        char *text = spelled(rules[i].text);
        result_t want;
        rule_result(&rules[i], &want);
        for (size_t step = 0; step < 3; step++) {
            result_t result;
            parse(&options, text, strlen(text),
                  strchr(flags, 'l') != NULL ? ANSWER_ENDED_BY_LENGTH : ANSWER_ENDED_BY_EOS,
                  &(cutting_t){.step = step}, &result);
            if (!same_result(&result, &want)) {
                print_result("got", &result);
                print_result("want", &want);
                fail_msg("rule %zu (%s): %s", i, flags, text);
            }
            result_fini(&result);
        }
        result_fini(&want);
        free(text);
    }
}

/* ---- random markup ---- */

static size_t random_markup(random_t *random, char *text, size_t room)
{
    static const char *const fragments[] = {WRAP,
                                            WRAP,
                                            UNWRAP,
                                            F,
                                            F,
                                            G,
                                            END,
                                            END,
                                            P,
                                            P,
                                            Q,
                                            Q,
                                            X,
                                            X,
                                            "<think>",
                                            "</think>",
                                            "\n",
                                            "\n\n",
                                            " ",
                                            "{'a': 1}",
                                            "{'a'",
                                            "[1, 2]",
                                            "NaN",
                                            "'",
                                            "<",
                                            "</",
                                            "<@",
                                            "</@",
                                            "<｜DS",
                                            "<@tool",
                                            "<@invoke name='",
                                            "<@invoke name='h'/>",
                                            "text",
                                            "é🙂",
                                            "\xf0\x9f",
                                            "\xff",
                                            ">",
                                            "@",
                                            "<@toolcalls>",
                                            "</@tool>",
                                            "<@parameter name='r'>",
                                            "\\",
                                            "\r\n",
                                            WRAP F P "v" X END UNWRAP,
                                            F "{'k': [1]}" END};
    size_t used = 0, count = (size_t)random_below(random, 16);
    for (size_t i = 0; i < count; i++) {
        char *part = spelled(fragments[random_below(random, COUNT_OF(fragments))]);
        size_t length = strlen(part);
        assert_true(used + length <= room);
        memcpy(text + used, part, length);
        used += length;
        free(part);
    }
    /* Cut anywhere, also inside a character. */
    return random_below(random, 2) ? used : (size_t)random_below(random, used + 1);
}

/* Arguments are one JSON object, or not JSON because they were never closed. */
static void check_arguments(const result_t *result)
{
    for (size_t at = 0; at < result->calls.used;) {
        const char *start = result->calls.bytes + at;
        const char *limit = result->calls.bytes + result->calls.used;
        const char *arguments = (const char *)memchr(start, '\x01', (size_t)(limit - start)) + 1;
        const char *end = memchr(arguments, '\x02', (size_t)(limit - arguments));
        end = end == NULL ? limit : end;
        document_t document;
        size_t length = (size_t)(end - arguments);
        if (document_parse(&document, DOCUMENT_STRICT, arguments, length) == STATUS_OK) {
            assert_int_equal(document_kind(&document, 0), DOCUMENT_OBJECT);
            assert_false(document.twins);
        }
        document_fini(&document);
        at = (size_t)(end - result->calls.bytes) + 1;
    }
}

static void test_random_markup_is_the_same_at_every_chunking(void **state)
{
    (void)state;
    random_t random;
    random_init(&random, 23);
    size_t calls = 0, suppressed = 0;
    unsigned rounds = getenv("LOCKSTEP_LONG") == NULL ? 3000 : 300000;
    for (unsigned round = 0; round < rounds; round++) {
        char text[4096];
        size_t length = random_markup(&random, text, sizeof(text));
        answer_options_t options = {random_below(&random, 2), random_below(&random, 4) > 0,
                                    random_below(&random, 3) > 0};
        answer_end_t end = random_below(&random, 2) ? ANSWER_ENDED_BY_EOS : ANSWER_ENDED_BY_LENGTH;
        result_t whole;
        parse(&options, text, length, end, &(cutting_t){0}, &whole);
        check_arguments(&whole);
        calls += whole.call_count;
        suppressed += whole.suppressed.used > 0;
        const cutting_t cuttings[] = {{.step = 1}, {.step = 5}, {.random = &random}};
        for (size_t i = 0; i < COUNT_OF(cuttings); i++) {
            result_t result;
            parse(&options, text, length, end, &cuttings[i], &result);
            if (!same_result(&result, &whole)) {
                print_result("cut", &result);
                print_result("whole", &whole);
                fail_msg("round %u: %.*s", round, (int)length, text);
            }
            result_fini(&result);
        }
        result_fini(&whole);
    }
    /* The fragments do what they are for. */
    assert_true(calls > rounds / 10);
    assert_true(suppressed > rounds / 50);
}

/* ---- streaming and limits ---- */

static void test_a_long_string_value_streams(void **state)
{
    (void)state;
    answer_options_t options = {false, true, true};
    answer_t answer;
    result_t result;
    result_init(&result);
    answer_init(&answer, &options, collect, &result);
    char *head = spelled(WRAP F P);
    assert_int_equal(answer_feed(&answer, head, strlen(head)), STATUS_OK);
    for (unsigned i = 0; i < 1000; i++) {
        size_t events = result.event_count;
        assert_int_equal(answer_feed(&answer, "0123456789", 10), STATUS_OK);
        assert_true(result.event_count > events);
    }
    assert_int_equal(answer_finish(&answer, ANSWER_ENDED_BY_LENGTH, &result.reason), STATUS_OK);
    assert_int_equal(result.calls.used, strlen("f_{'p': '") + 10000);
    free(head);
    answer_fini(&answer);
    result_fini(&result);
}

/* `fill` bytes of a value between head and tail. */
static char *filled(const char *head, size_t fill, const char *tail, size_t *length)
{
    char *front = spelled(head), *back = spelled(tail);
    *length = strlen(front) + fill + strlen(back);
    char *text = malloc(*length + 1);
    memcpy(text, front, strlen(front));
    memset(text + strlen(front), '1', fill);
    memcpy(text + strlen(front) + fill, back, strlen(back) + 1);
    free(front);
    free(back);
    return text;
}

static void test_what_waits_too_long_is_text(void **state)
{
    (void)state;
    static const struct {
        const char *head, *tail;
        size_t calls; /* beyond the limit */
    } cases[] = {
        {F P, X END, 0},                     /* an invoke without a wrapper */
        {WRAP F "{'a': ", "}" END UNWRAP, 0} /* an object as body */
    };
    answer_options_t options = {false, true, true};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (size_t over = 0; over < 2; over++) {
            size_t length;
            char *text = filled(cases[i].head, ANSWER_HELD_BYTES_MAX - 400 + 800 * over,
                                cases[i].tail, &length);
            result_t whole, pieces;
            parse(&options, text, length, ANSWER_ENDED_BY_EOS, &(cutting_t){0}, &whole);
            parse(&options, text, length, ANSWER_ENDED_BY_EOS, &(cutting_t){.step = 997}, &pieces);
            assert_true(same_result(&whole, &pieces));
            assert_int_equal(whole.call_count, over ? cases[i].calls : 1);
            assert_int_equal(whole.content.used > 0, over);
            result_fini(&whole);
            result_fini(&pieces);
            free(text);
        }
    }
}

/* Nothing of a begun call becomes content; entries that are too long are cut. */
static void test_what_waits_too_long_in_a_call_is_suppressed(void **state)
{
    (void)state;
    static const char *const heads[] = {
        WRAP F Q,              /* a literal */
        WRAP F P "v" X P,      /* a second parameter of one name */
        WRAP F P "v" X "stray" /* text between parameters */
    };
    static const char *const tails[] = {X END UNWRAP, X END UNWRAP, END UNWRAP};
    answer_options_t options = {false, true, true};
    for (size_t i = 0; i < COUNT_OF(heads); i++) {
        for (size_t times = 1; times < 4; times++) {
            size_t length;
            char *text =
                filled(heads[i], ANSWER_HELD_BYTES_MAX * times + 400, tails[i], &length);
            result_t whole, pieces;
            parse(&options, text, length, ANSWER_ENDED_BY_EOS, &(cutting_t){0}, &whole);
            parse(&options, text, length, ANSWER_ENDED_BY_EOS, &(cutting_t){.step = 997}, &pieces);
            assert_true(same_result(&whole, &pieces));
            assert_int_equal(whole.call_count, 1);
            assert_int_equal(whole.content.used, 0);
            assert_true(whole.suppressed.used > ANSWER_HELD_BYTES_MAX * times + 400);
            assert_int_equal(whole.reason, ANSWER_TOOL_CALLS);
            result_fini(&whole);
            result_fini(&pieces);
            free(text);
        }
    }
}

static void test_the_limit_does_not_depend_on_chunking(void **state)
{
    (void)state;
    answer_options_t options = {false, true, true};
    size_t frame = strlen("<｜DSML｜invoke name=\"f\">\n") + strlen("\n</｜DSML｜invoke>") +
                   strlen("<｜DSML｜parameter name=\"p\" string=\"true\"></｜DSML｜parameter>");
    for (size_t excess = 0; excess < 3; excess++) {
        size_t length;
        char *text = filled(F P, ANSWER_HELD_BYTES_MAX - frame - 1 + excess, X END, &length);
        result_t whole, pieces;
        parse(&options, text, length, ANSWER_ENDED_BY_EOS, &(cutting_t){0}, &whole);
        parse(&options, text, length, ANSWER_ENDED_BY_EOS, &(cutting_t){.step = 1021}, &pieces);
        assert_true(same_result(&whole, &pieces));
        assert_int_equal(whole.call_count, excess < 2);
        result_fini(&whole);
        result_fini(&pieces);
        free(text);
    }
}

static void test_names_and_parameters_are_bounded(void **state)
{
    (void)state;
    answer_options_t options = {false, true, true};
    for (size_t over = 0; over < 2; over++) {
        size_t length;
        char *text = filled("<@invoke name='", ANSWER_NAME_BYTES_MAX + over, "'/>", &length);
        result_t result;
        parse(&options, text, length, ANSWER_ENDED_BY_EOS, &(cutting_t){.step = 7}, &result);
        assert_int_equal(result.call_count, 1 - over);
        result_fini(&result);
        free(text);

        text_buffer_t many;
        text_buffer_init(&many, 1 << 20);
        text_put_text(&many, "<@tool_calls><@invoke name='f'>");
        for (size_t i = 0; i < ANSWER_PARAMETERS_MAX + over; i++) {
            char parameter[64];
            snprintf(parameter, sizeof(parameter), "<@parameter name='p%zu'>1</@parameter>", i);
            text_put_text(&many, parameter);
        }
        text_put_text(&many, END UNWRAP);
        text_put(&many, "", 1);
        text = spelled(many.bytes);
        parse(&options, text, strlen(text), ANSWER_ENDED_BY_EOS, &(cutting_t){0}, &result);
        assert_int_equal(result.suppressed.used > 0, over);
        assert_int_equal(result.content.used, 0);
        assert_int_equal(result.reason, ANSWER_TOOL_CALLS);
        result_fini(&result);
        free(text);
        text_buffer_fini(&many);
    }
}

/* The machine that follows an object agrees with the parser on every prefix of random text. */
static void test_object_scan_agrees_with_the_parser(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "{",       "}",     "[",   "]", ",",  ":", "\"", "\"a\"", "\"b\":", "\"c\":{",
        "\\u00e4", "\\n",   "\\x", "1", "0",  "-", ".5", "e3",    "E-1",    "null",
        "true",    "false", "nul", " ", "\n", "é", "\\", "[]",    "{}",     "\"d\":["};
    random_t random;
    random_init(&random, 5);
    size_t done = 0;
    for (unsigned round = 0; round < 40000; round++) {
        char text[128] = "{";
        size_t used = 1, count = (size_t)random_below(&random, 10), end = 0;
        for (size_t i = 0; i < count; i++) {
            const char *part = parts[random_below(&random, COUNT_OF(parts))];
            memcpy(text + used, part, strlen(part));
            used += strlen(part);
        }
        object_scan_t scan = {0};
        object_scan_result_t result = OBJECT_SCAN_MORE;
        while (end < used && result == OBJECT_SCAN_MORE)
            result = object_scan_push(&scan, text[end++]);
        done += result == OBJECT_SCAN_DONE;
        for (size_t length = 1; length <= used; length++) {
            document_t document;
            bool whole = document_parse(&document, DOCUMENT_STRICT, text, length) == STATUS_OK;
            document_fini(&document);
            if (whole != (result == OBJECT_SCAN_DONE && length >= end) && text[length - 1] == '}')
                fail_msg("%.*s", (int)length, text);
            if (whole)
                break;
        }
    }
    assert_true(done > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_answers_at_every_chunking),
        cmocka_unit_test(test_replies_parse_to_their_messages),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_random_markup_is_the_same_at_every_chunking),
        cmocka_unit_test(test_a_long_string_value_streams),
        cmocka_unit_test(test_what_waits_too_long_is_text),
        cmocka_unit_test(test_what_waits_too_long_in_a_call_is_suppressed),
        cmocka_unit_test(test_the_limit_does_not_depend_on_chunking),
        cmocka_unit_test(test_names_and_parameters_are_bounded),
        cmocka_unit_test(test_object_scan_agrees_with_the_parser),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
