/* test_slots.c - what a slot of the CPU device remembers of an attempt: nothing of the one before,
 * for penalties the whole prompt and answer, and the same of each whether tokens ran here, came with
 * a border, or are replayed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "device/cpu/cpu.h"

enum { PAGES = 20, BORDERS = 4, SLOTS = 2, EPOCH = 1, CONTEXT = 1024, ANSWER = 8, BORDER = 3 };

static const uint32_t pages_of_slot[SLOTS][4] = {{3, 7, 5, 9}, {11, 2, 13, 4}};
static uint32_t prompt[CONTEXT];
static uint64_t incarnations, seq;

static void must(status_t status)
{
    if (status != STATUS_OK)
        fail_msg("%s: %s", status_name(status), trail_text());
}

static int setup(void **state)
{
    const device_cpu_setup_t cpu = {.folder = "model/tiny",
                                    .cache_form = FORM_FP8_BLOCKS,
                                    .index_form = FORM_FP4_BLOCKS,
                                    .threads = 1,
                                    .rows_max = 256,
                                    .positions_max = CONTEXT};
    device_config_t config = {0, 1, PAGES, BORDERS, SLOTS, ++incarnations, {{0}, 0, 0}};
    uint32_t progress = 0;
    device_t *device = NULL;

    (void)snprintf(config.pool.name, sizeof(config.pool.name), "/lockstep-slots-%d-%u",
                   (int)getpid(), (unsigned)incarnations);
    must(device_cpu_ops.open(&config, &cpu, &progress, &device));
    must(device->ops->reform(device, EPOCH, ""));
    for (uint32_t i = 0; i < CONTEXT; i++)
        prompt[i] = (i < 768 ? 300 : 600) + i * i % 89; /* what a border brings is other text */
    seq = 0;
    *state = device;
    return 0;
}

static int teardown(void **state)
{
    device_t *device = *state;

    device->ops->close(device);
    return 0;
}

static device_result_t run(device_t *device, const device_item_t *items, uint32_t count)
{
    const device_step_t step = {EPOCH, ++seq, items, count};
    device_result_t result = {0};

    must(device->ops->step(device, &step, &result));
    return result;
}

static void close_slot(device_t *device, uint32_t slot)
{
    const device_item_t item = {.kind = DEVICE_CLOSE, .slot = slot};

    run(device, &item, 1);
}

/* The whole prompt, the first `cached` tokens from the border; the slot stays open. */
static device_result_t prefill(device_t *device, uint32_t slot, uint32_t count, uint32_t cached,
                               const device_sampling_t *sampling)
{
    const device_item_t open = {.kind = DEVICE_OPEN,
                                .slot = slot,
                                .pages = pages_of_slot[cached ? 0 : slot],
                                .page_count = 4,
                                .tokens = cached ? prompt : NULL,
                                .token_count = cached,
                                .sampling = sampling};
    const device_item_t load = {
        .kind = DEVICE_LOAD, .slot = slot, .position = cached, .border = BORDER};
    device_item_t rest = {.kind = DEVICE_RUN,
                          .slot = slot,
                          .position = cached,
                          .count = count - cached,
                          .tokens = prompt + cached,
                          .token_count = count - cached,
                          .sample = true,
                          .tail = true};
    const device_item_t items[] = {open, cached ? load : rest, rest};

    rest.border_count = count > 768 && cached == 0;
    rest.border_pages[0] = 2;
    rest.border_targets[0] = BORDER;
    return rest.border_count ? run(device, (const device_item_t[]){open, rest}, 2)
                             : run(device, items, cached ? 3 : 2);
}

/* The answer behind a prompt of `count` tokens in the slot; the first `given` of its tokens are
 * replayed, the others drawn. */
static void answer(device_t *device, uint32_t slot, uint32_t count, uint32_t given,
                   const device_sampling_t *sampling, uint32_t tokens[ANSWER])
{
    const device_item_t items[] = {{.kind = DEVICE_OPEN,
                                    .slot = slot,
                                    .position = count,
                                    .tokens = prompt,
                                    .token_count = count,
                                    .pages = pages_of_slot[slot],
                                    .page_count = 4,
                                    .sampling = sampling},
                                   {.kind = DEVICE_RUN,
                                    .slot = slot,
                                    .position = count,
                                    .count = given,
                                    .tokens = tokens,
                                    .token_count = given,
                                    .sample = true}};

    tokens[given] = run(device, items, 2).tokens[0].token;
    for (uint32_t i = given; i + 1 < ANSWER; i++) {
        const device_item_t item = {
            .kind = DEVICE_RUN, .slot = slot, .position = count + i, .count = 1, .sample = true};

        tokens[i + 1] = run(device, &item, 1).tokens[0].token;
    }
    close_slot(device, slot);
}

static void test_nothing_of_an_earlier_attempt_stays(void **state)
{
    const device_sampling_t greedy = {.top_p = 1, .repetition_penalty = 1};
    void *other = NULL;
    device_result_t used, fresh;

    prefill(*state, 0, 1000, 0, &greedy);
    close_slot(*state, 0);
    used = prefill(*state, 0, 40, 0, &greedy);
    setup(&other);
    fresh = prefill(other, 0, 40, 0, &greedy);
    assert_int_equal(used.closed_count, 2); /* the open page and the slot */
    assert_int_equal(fresh.closed_count, 2);
    assert_true(used.closed[0].digest == fresh.closed[0].digest);
    assert_true(used.closed[1].digest == fresh.closed[1].digest);
    assert_int_equal(used.tokens[0].token, fresh.tokens[0].token);
    teardown(&other);
}

static void test_replayed_tokens_are_the_answers(void **state)
{
    /* Liked the more, the more often it was said: what counts as prompt would not be. */
    const device_sampling_t liking = {
        .top_p = 1, .repetition_penalty = 1.2f, .presence_penalty = -2, .frequency_penalty = -2};
    uint32_t tokens[ANSWER], again[ANSWER];

    tokens[0] = prefill(*state, 0, 40, 0, &liking).tokens[0].token;
    close_slot(*state, 0);
    answer(*state, 0, 40, 1, &liking, tokens);
    for (uint32_t given = 2; given < ANSWER; given++) {
        memcpy(again, tokens, sizeof(again));
        memset(again + given, 0, sizeof(again) - given * sizeof(*again));
        assert_int_equal(prefill(*state, 1, 40, 0, &liking).tokens[0].token, tokens[0]);
        close_slot(*state, 1);
        answer(*state, 1, 40, given, &liking, again);
        assert_memory_equal(again, tokens, sizeof(tokens));
    }
}

static void test_a_prompt_as_long_as_the_context_counts_whether_cached_or_not(void **state)
{
    const device_sampling_t plain = {.top_p = 1, .repetition_penalty = 1};
    const device_sampling_t penalty = {.top_p = 1, .repetition_penalty = 10};
    uint32_t likely = prefill(*state, 0, CONTEXT - 1, 0, &plain).tokens[0].token, token;

    close_slot(*state, 0);
    for (uint32_t i = 0; i < 768; i += 7)
        prompt[i] = likely; /* only what the border brings makes it unlikely */
    assert_int_equal(prefill(*state, 0, CONTEXT - 1, 0, &plain).tokens[0].token, likely);
    close_slot(*state, 0);
    token = prefill(*state, 0, CONTEXT - 1, 0, &penalty).tokens[0].token;
    close_slot(*state, 0);
    assert_int_not_equal(token, likely);
    assert_int_equal(prefill(*state, 1, CONTEXT - 1, 768, &penalty).tokens[0].token, token);
    close_slot(*state, 1);
}

/* An attempt's tokens are no other attempt's prompt. */
static void test_penalties_begin_anew(void **state)
{
    const device_sampling_t liking = {.top_p = 1, .repetition_penalty = 0.01f};
    uint32_t clean[ANSWER], used[ANSWER];

    clean[0] = prefill(*state, 0, 40, 0, &liking).tokens[0].token;
    close_slot(*state, 0);
    answer(*state, 0, 40, 1, &liking, clean);
    for (uint32_t i = 0; i < CONTEXT; i++)
        prompt[i] += 400;
    prefill(*state, 1, 300, 0, &liking);
    close_slot(*state, 1);
    for (uint32_t i = 0; i < CONTEXT; i++)
        prompt[i] -= 400;
    used[0] = prefill(*state, 1, 40, 0, &liking).tokens[0].token;
    close_slot(*state, 1);
    answer(*state, 1, 40, 1, &liking, used);
    assert_memory_equal(used, clean, sizeof(clean));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_of_an_earlier_attempt_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replayed_tokens_are_the_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_a_prompt_as_long_as_the_context_counts_whether_cached_or_not, setup, teardown),
        cmocka_unit_test_setup_teardown(test_penalties_begin_anew, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
