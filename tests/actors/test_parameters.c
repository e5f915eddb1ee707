/* test_parameters.c - what a request body of the OpenAI API says, and what is refused by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "actors/gateway/openai.h"
#include "actors/rank/convert.h"
#include "model/sampler.h"

static model_config_t config;
static const model_generation_t defaults = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};

static int open_model(void **state)
{
    (void)state;
    return model_config_load("model/tiny", &config) == STATUS_OK ? 0 : -1;
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

/* What a rank finds wrong with a step costs its whole group the epoch, so nothing that a client may
 * say may be found wrong there. */
static void test_no_rank_refuses_what_is_accepted(void **state)
{
    static const char *const names[] = {
        "temperature",        "top_p", "min_p", "presence_penalty", "frequency_penalty",
        "repetition_penalty", "top_k", "seed",  "logprobs",
    };
    static const double values[] = {-1e308, -0x1p53, -2,    -1,   0,      1e-308, 1e-60,
                                    1e-45,  1e-38,   1e-30, 1e-9, 0.01,   0.5,    1,
                                    2,      10,      20,    100,  0x1p20, 0x1p53, 1e308};
    static convert_step_t room;
    device_step_t step;
    uint32_t accepted = 0;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(names) * COUNT_OF(values); i++) {
        record_step_item_t item = {.kind = DEVICE_RUN, .count = 1};
        message_step_t message = {.items = {&item, 1}};
        openai_parameters_t p;
        openai_error_t error;
        char body[128];

        (void)snprintf(body, sizeof(body), "{\"model\": \"tiny\", \"%s\": %.17g}",
                       names[i / COUNT_OF(values)], values[i % COUNT_OF(values)]);
        if (parse(body, false, &p, &error) != STATUS_OK)
            continue;
        accepted++;
        item.sampling = p.sampling;
        assert_int_equal(convert_step(&message, &room, &step), STATUS_OK);
        if (sampler_check(&room.samplings[0], config.vocabulary) != STATUS_OK)
            fail_msg("%s: %s", body, trail_text());
    }
    assert_true(accepted > 3 * COUNT_OF(names));
}

static void test_parameters_are_read(void **state)
{
    openai_parameters_t p;
    openai_error_t error;

    (void)state;
    assert_int_equal(
        parse("{\"model\": \"tiny\", \"temperature\": 0.5, \"top_p\": 0.9, \"seed\": -3, "
              "\"max_completion_tokens\": 12, \"stop\": [\"a\", \"bc\"], \"stream\": true, "
              "\"stream_options\": {\"include_usage\": true}, \"logprobs\": true, "
              "\"top_logprobs\": 2, \"logit_bias\": {\"17\": -100, \"3\": 1.5}, \"top_k\": -1, "
              "\"parallel_tool_calls\": false, \"user\": \"x\", \"n\": 1}",
              true, &p, &error),
        STATUS_OK);
    assert_true(p.stream && p.include_usage && p.logprobs && !p.parallel_tool_calls);
    assert_int_equal(p.limits.output_tokens_max, 12);
    assert_string_equal(p.length_param, "max_completion_tokens");
    assert_int_equal(p.stop_count, 2);
    assert_memory_equal(p.stops[1].text, "bc", 2);
    assert_true(p.sampling.seed == (uint64_t)-3 && p.sampling.top_k == 0 &&
                p.sampling.logprobs == 3);
    assert_int_equal(p.sampling.bias_tokens.count, 2);
    assert_int_equal(p.sampling.bias_tokens.data[1], 3);
    assert_true(p.sampling.bias_values.data[0] == -100.0f);
}

/* A length that somebody sent is refused by its name; one that nobody sent may be cut. */
static void test_a_length_has_the_name_that_brought_it(void **state)
{
    static const struct {
        const char *body;
        const char *chat, *completion; /* NULL: a default */
        uint32_t chat_tokens, completion_tokens;
    } rows[] = {
        {"{\"model\": \"tiny\"}", NULL, NULL, 0, 16},
        {"{\"model\": \"tiny\", \"max_tokens\": null}", NULL, NULL, 0, 16},
        {"{\"model\": \"tiny\", \"max_tokens\": 5}", "max_tokens", "max_tokens", 5, 5},
        {"{\"model\": \"tiny\", \"max_completion_tokens\": 6}", "max_completion_tokens", NULL, 6,
         16},
        {"{\"model\": \"tiny\", \"max_tokens\": 5, \"max_completion_tokens\": 6}",
         "max_completion_tokens", "max_tokens", 6, 5},
        {"{\"model\": \"tiny\", \"max_tokens\": 5, \"max_completion_tokens\": null}", "max_tokens",
         "max_tokens", 5, 5},
        {"{\"max_tokens\": 1e12}", "max_tokens", "max_tokens", UINT32_MAX, UINT32_MAX},
    };

    (void)state;
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        const bool chat = i % 2;
        const char *name = chat ? rows[i / 2].chat : rows[i / 2].completion;
        openai_parameters_t p;
        openai_error_t error;

        assert_int_equal(parse(rows[i / 2].body, chat, &p, &error), STATUS_OK);
        assert_int_equal(p.limits.output_tokens_max,
                         chat ? rows[i / 2].chat_tokens : rows[i / 2].completion_tokens);
        assert_int_equal(p.length_param != NULL, name != NULL);
        if (name)
            assert_string_equal(p.length_param, name);
    }
}

static void test_the_least_of_three_timeouts_counts(void **state)
{
    static const struct {
        uint32_t body;
        const char *header;
        uint32_t limit;
        uint32_t counts;
    } rows[] = {{0, NULL, 0, 0},        {500, NULL, 0, 500},    {0, "400", 0, 400},
                {0, NULL, 300, 300},    {500, "400", 300, 300}, {500, "400", 700, 400},
                {200, "400", 300, 200}, {500, "0", 0, 500}};
    static const char *const wrong[] = {"", "-1", "5s", "1e3", "4294967296", " 5"};
    openai_parameters_t parameters;
    openai_error_t error;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        parameters.timeout_ms = rows[i].body;
        assert_int_equal(openai_timeout(rows[i].header, rows[i].limit, &parameters, &error),
                         STATUS_OK);
        assert_int_equal(parameters.timeout_ms, rows[i].counts);
    }
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_int_equal(openai_timeout(wrong[i], 0, &parameters, &error), STATUS_INVALID);
        assert_int_equal(error.status, 400);
        assert_string_equal(error.param, OPENAI_TIMEOUT_HEADER);
    }
}

#define TOOL "{\"type\": \"function\", \"function\": {\"name\": \"f\"}}"
/* The second call of the second message has these arguments. */
#define HISTORY(arguments)                                                                         \
    "{\"messages\": [{\"role\": \"user\"}, {\"role\": \"assistant\", \"tool_calls\": ["            \
    "{\"function\": {\"arguments\": \"{}\"}}, {\"function\": {\"arguments\": " arguments "}}]}]}"

static void test_seeds_are_exact(void **state)
{
    static const struct {
        const char *text;
        uint64_t seed;
    } rows[] = {
        {"0", 0},
        {"-1", UINT64_MAX},
        {"9007199254740993", 9007199254740993},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", UINT64_C(1) << 63},
        {"18446744073709551615", UINT64_MAX},
        {"1e3", 1000},
        {"5.0", 5},
        {"null", 7}, /* the gateway's own */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        openai_parameters_t p;
        openai_error_t error;
        char body[64];

        (void)snprintf(body, sizeof(body), "{\"seed\": %s}", rows[i].text);
        assert_int_equal(parse(body, i % 2, &p, &error), STATUS_OK);
        assert_true(p.sampling.seed == rows[i].seed);
    }
}

static void test_what_others_take_is_taken(void **state)
{
    static const char *const bodies[] = {
        "{}",
        "{\"model\": null, \"best_of\": 1, \"n\": 1, \"top_p\": 0, \"temperature\": 1}",
        "{\"response_format\": {\"type\": \"text\"}, \"tool_choice\": \"auto\"}",
        "{\"tools\": [" TOOL "], \"tool_choice\": \"none\", \"x\": {\"a\": 1, \"a\": 2}}",
        HISTORY("\"{\\\"a\\\": 1}\""),
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        openai_parameters_t p;
        openai_error_t error;

        if (parse(bodies[i], true, &p, &error) != STATUS_OK)
            fail_msg("%s: %s", bodies[i], error.message);
        if (i == 1) /* the best token */
            assert_true(p.sampling.temperature == 0 && p.sampling.top_p > 0);
    }
}

static void test_a_prompt_has_four_forms(void **state)
{
    static const struct {
        const char *prompt;
        uint32_t ids; /* 0: text, UINT32_MAX: refused */
    } rows[] = {
        {"\"a\"", 0},
        {"[\"a\"]", 0},
        {"[1, 2]", 2},
        {"[[1, 2, 3]]", 3},
        {"[]", UINT32_MAX},
        {"[[]]", UINT32_MAX},
        {"5", UINT32_MAX},
        {"[[1], [2]]", UINT32_MAX},
        {"[\"a\", \"b\"]", UINT32_MAX},
        {"[1, \"a\"]", UINT32_MAX},
        {"[{}]", UINT32_MAX},
        {"[[1, 2, 3, 4, 5]]", UINT32_MAX},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        document_t document = {0};
        openai_error_t error = {0};
        uint32_t ids[4], count, text;
        char body[64];
        status_t status;

        (void)snprintf(body, sizeof(body), "{\"prompt\": %s}", rows[i].prompt);
        assert_int_equal(document_parse(&document, DOCUMENT_STRICT, body, strlen(body)), STATUS_OK);
        status =
            openai_prompt(&document, config.vocabulary, ids, COUNT_OF(ids), &count, &text, &error);
        assert_int_equal(status != STATUS_OK, rows[i].ids == UINT32_MAX);
        if (status != STATUS_OK)
            assert_string_equal(error.param, "prompt");
        else
            assert_true(count == rows[i].ids && (text != DOCUMENT_NONE) == (count == 0));
        document_fini(&document);
    }
}

static void test_wrong_parameters_are_named(void **state)
{
    static const struct {
        const char *body;
        const char *param;
        unsigned status;
    } cases[] = {
        {"{\"model\": 7}", "model", 400},
        {"{\"seed\": 1, \"stop\": \"a\", \"s\\u0065ed\": 2}", "seed", 400},
        {"{\"seed\": 18446744073709551616}", "seed", 400},
        {"{\"seed\": -9223372036854775809}", "seed", 400},
        {"{\"seed\": 1.5}", "seed", 400},
        {"{\"top_p\": -0.1}", "top_p", 400},
        {"{\"best_of\": 2}", "best_of", 400},
        {"{\"guided_json\": {}}", "guided_json", 400},
        {"{\"response_format\": {\"type\": \"json_object\"}}", "response_format", 400},
        {"{\"response_format\": {}}", "response_format", 400},
        {"{\"tool_choice\": \"required\"}", "tool_choice", 400},
        {"{\"tools\": [], \"tool_choice\": \"required\"}", "tool_choice", 400},
        {"{\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"f\"}}}",
         "tool_choice", 400},
        {"{\"tools\": [" TOOL "], \"tool_choice\": \"required\"}", "tool_choice", 400},
        {"{\"tools\": [" TOOL ", " TOOL "]}", "tools[0].function.name", 400},
        {HISTORY("\"{\\\"city\\\": \\\"Par\""), "messages[1].tool_calls[1].function.arguments",
         400},
        {HISTORY("\"[1]\""), "messages[1].tool_calls[1].function.arguments", 400},
        {HISTORY("\"\""), "messages[1].tool_calls[1].function.arguments", 400},
        {"{\"model\": \"other\"}", "model", 404},
        {"{\"model\": \"tiny\", \"temperature\": 3}", "temperature", 400},
        {"{\"model\": \"tiny\", \"temperature\": \"hot\"}", "temperature", 400},
        {"{\"model\": \"tiny\", \"n\": 2}", "n", 400},
        {"{\"model\": \"tiny\", \"max_tokens\": 0}", "max_tokens", 400},
        {"{\"model\": \"tiny\", \"max_tokens\": 1.5}", "max_tokens", 400},
        {"{\"model\": \"tiny\", \"stream\": 1}", "stream", 400},
        {"{\"model\": \"tiny\", \"stream_options\": {}}", "stream_options", 400},
        {"{\"model\": \"tiny\", \"stop\": 5}", "stop", 400},
        {"{\"model\": \"tiny\", \"stop\": [\"\"]}", "stop", 400},
        {"{\"model\": \"tiny\", \"logit_bias\": {\"x\": 1}}", "logit_bias", 400},
        {"{\"model\": \"tiny\", \"logit_bias\": {\"1536\": 1}}", "logit_bias", 400},
        {"{\"model\": \"tiny\", \"top_logprobs\": 3}", "top_logprobs", 400},
        {"{\"model\": \"tiny\", \"functions\": []}", "functions", 400},
        {"[]", "", 400},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        openai_parameters_t p;
        openai_error_t error;

        assert_int_equal(parse(cases[i].body, true, &p, &error), STATUS_INVALID);
        assert_string_equal(error.param, cases[i].param);
        assert_int_equal(error.status, cases[i].status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_rank_refuses_what_is_accepted),
        cmocka_unit_test(test_parameters_are_read),
        cmocka_unit_test(test_a_length_has_the_name_that_brought_it),
        cmocka_unit_test(test_the_least_of_three_timeouts_counts),
        cmocka_unit_test(test_seeds_are_exact),
        cmocka_unit_test(test_what_others_take_is_taken),
        cmocka_unit_test(test_a_prompt_has_four_forms),
        cmocka_unit_test(test_wrong_parameters_are_named),
    };

    return cmocka_run_group_tests(tests, open_model, NULL);
}
