/* What is kept of a poisoned request: a body that asks for the very same again, or no token id. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "actors/gateway/openai.h"
#include "actors/gateway/poisoned.h"
#include "runtime/base/log.h"

enum { VOCABULARY = 5000 };

static const uint32_t prompt[] = {7, 4999, 0, 31}, received[] = {12, 13}, stops[] = {3},
                      bias_tokens[] = {40, 41};
static const float bias_values[] = {-1.5f, 0.1f};

static message_client_poisoned_t sample(void)
{
    message_client_poisoned_t m = {
        .client = 5,
        .request = 0x123456789abc,
        .attempts = 3,
        .prompt = {prompt, COUNT_OF(prompt)},
        .received = {received, COUNT_OF(received)},
        .limits = {.output_tokens_max = 77, .ignore_eos = 1, .stop_tokens = {stops, 1}},
        .salt = 9,
    };

    m.sampling = (record_sampling_t){.seed = (uint64_t)-3,
                                     .temperature = 0.7f,
                                     .top_p = 0.9f,
                                     .min_p = 0.05f,
                                     .presence_penalty = -0.5f,
                                     .frequency_penalty = 0.25f,
                                     .repetition_penalty = 1.1f,
                                     .top_k = 20,
                                     .logprobs = 3,
                                     .bias_tokens = {bias_tokens, 2},
                                     .bias_values = {bias_values, 2}};
    return m;
}

static void test_it_asks_for_the_very_same_again(void **state)
{
    const poisoned_place_t place = {.model = "tiny \"quoted\"", .tokens = true};
    const model_config_t config = {.vocabulary = VOCABULARY};
    const model_generation_t defaults = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};
    message_client_poisoned_t m = sample(), again = {0};
    openai_parameters_t parameters;
    openai_error_t error = {0};
    document_t document = {0};
    uint32_t ids[16], count = 0, text_node = 0;
    text_buffer_t text;

    (void)state;
    text_buffer_init(&text, 1 << 16);
    poisoned_put(&place, &m, &text);
    assert_int_equal(text.status, STATUS_OK);
    assert_int_equal(document_parse(&document, DOCUMENT_STRICT, text.bytes, text.used), STATUS_OK);
    assert_int_equal(
        openai_parse(&document, false, place.model, &config, &defaults, 1, &parameters, &error),
        STATUS_OK);
    assert_int_equal(openai_prompt(&document, VOCABULARY, ids, 16, &count, &text_node, &error),
                     STATUS_OK);
    again = m;
    again.prompt = (u32s_view_t){ids, count};
    again.sampling = parameters.sampling;
    again.limits = parameters.limits;
    assert_true(message_equal(MESSAGE_client_poisoned, &m, &again));
    document_fini(&document);
    text_buffer_fini(&text);
}

static void test_without_leave_no_id_is_in_it(void **state)
{
    const poisoned_place_t place = {.model = "tiny"};
    message_client_poisoned_t m = sample();
    text_buffer_t text;

    (void)state;
    text_buffer_init(&text, 1 << 16);
    poisoned_put(&place, &m, &text);
    text_put(&text, "", 1);
    assert_null(strstr(text.bytes, "4999"));
    assert_null(strstr(text.bytes, "\"prompt\""));
    assert_null(strstr(text.bytes, "bias"));
    assert_null(strstr(text.bytes, "stop"));
    assert_non_null(strstr(text.bytes, "\"prompt_tokens\": 4, \"received_tokens\": 2"));
    text_buffer_fini(&text);
}

static void test_so_many_files_and_no_more(void **state)
{
    char folder[] = "/tmp/lockstep-poisoned-XXXXXX", path[128];
    poisoned_place_t place = {.folder = folder, .model = "tiny"};
    message_client_poisoned_t m = sample();

    (void)state;
    log_level_set(LOG_ERROR);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(rmdir(folder), 0); /* it is made with the first file */
    for (m.request = 1; m.request <= POISONED_FILES_MAX + 1; m.request++)
        poisoned_keep(&place, &m);
    assert_int_equal(place.count, POISONED_FILES_MAX);
    for (m.request = 1; m.request <= POISONED_FILES_MAX; m.request++) {
        snprintf(path, sizeof(path), "%s/poisoned-%016llx.json", folder,
                 (unsigned long long)m.request);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

/* Whoever asks, with whatever seed and length; but not what is another request, nor for ever. */
static void test_the_same_is_known_for_a_while(void **state)
{
    message_client_poisoned_t m = sample();
    message_client_request_t again = {.client = 9, .prompt = m.prompt};
    poisoned_known_t known = {0};

    (void)state;
    again.sampling = m.sampling;
    again.limits = m.limits;
    again.sampling.seed++;
    again.limits.output_tokens_max++;
    assert_false(poisoned_knows(&known, &again, 100));
    poisoned_learn(&known, &m, 100);
    assert_true(poisoned_knows(&known, &again, 101));
    assert_false(poisoned_knows(&known, &again, 101 + POISONED_KNOWN_S));
    again.prompt.count--;
    assert_false(poisoned_knows(&known, &again, 101));
    again.prompt.count++;
    again.sampling.temperature = 0;
    assert_false(poisoned_knows(&known, &again, 101));
    again.sampling = m.sampling;
    again.sampling.bias_values.data = (const float[]){-1.5f, 0.2f};
    assert_false(poisoned_knows(&known, &again, 101));
    again.sampling = m.sampling;
    for (uint32_t i = 0; i < POISONED_KNOWN_MAX; i++) {
        assert_true(poisoned_knows(&known, &again, 101));
        m.sampling.top_k++;
        poisoned_learn(&known, &m, 101);
    }
    assert_false(poisoned_knows(&known, &again, 101)); /* the oldest went */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_asks_for_the_very_same_again),
        cmocka_unit_test(test_without_leave_no_id_is_in_it),
        cmocka_unit_test(test_so_many_files_and_no_more),
        cmocka_unit_test(test_the_same_is_known_for_a_while),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
