/* The symbolic device against its own oracle: any chunking and any way of moving units gives the
 * answer that the prompt demands, and every wrong byte is found by the first step that reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/backend.h"
#include "device/symbolic/symbolic.h"
#include "runtime/base/random.h"

enum { PAGES = 12, BORDERS = 4, SLOTS = 4, PROMPT = 600, ANSWER = 300 };

static symbolic_setup_t setup = {
    .weights = 7, .vocabulary = 1000, .end_token = 1, .answer_tokens = 64};
static const device_sampling_t greedy = {.top_p = 1, .repetition_penalty = 1};
static uint32_t prompt[PROMPT];

static device_t *device_new(symbolic_world_t *world, const char *name)
{
    device_config_t config = {.world = 1,
                              .page_count = PAGES,
                              .border_count = BORDERS,
                              .slot_count = SLOTS,
                              .incarnation = 3};
    device_t *device = NULL;
    snprintf(config.pool.name, sizeof config.pool.name, "%s", name);
    setup.world = world;
    assert_int_equal(symbolic_ops.open(&config, &setup, NULL, &device), STATUS_OK);
    assert_int_equal(symbolic_ops.reform(device, 1, ""), STATUS_OK);
    return device;
}

static status_t step(device_t *device, const device_item_t *items, uint32_t count,
                     device_result_t *result)
{
    device_step_t one = {.epoch = 1, .seq = 1, .items = items, .item_count = count};
    return symbolic_ops.step(device, &one, result);
}

static device_item_t open_item(uint32_t slot, uint32_t position, const uint32_t *pages,
                               uint32_t count)
{
    return (device_item_t){.kind = DEVICE_OPEN,
                           .slot = slot,
                           .position = position,
                           .pages = pages,
                           .page_count = count,
                           .sampling = &greedy};
}

static device_item_t run_item(uint32_t slot, uint32_t position, const uint32_t *tokens,
                              uint32_t count)
{
    return (device_item_t){.kind = DEVICE_RUN,
                           .slot = slot,
                           .position = position,
                           .count = count,
                           .tokens = tokens,
                           .token_count = tokens == NULL ? 0 : count};
}

static const uint32_t some_pages[] = {5, 2, 9, 3};

/* Runs the prompt in chunks and says which token follows. */
static uint32_t prefill(device_t *device, uint32_t slot, const uint32_t *pages, uint32_t chunk,
                        device_result_t *result)
{
    device_item_t items[2] = {open_item(slot, 0, pages, 4)};
    assert_int_equal(step(device, items, 1, result), STATUS_OK);
    for (uint32_t at = 0; at < PROMPT; at += chunk) {
        uint32_t count = PROMPT - at < chunk ? PROMPT - at : chunk;
        items[0] = run_item(slot, at, prompt + at, count);
        items[0].sample = items[0].tail = at + count == PROMPT;
        items[0].border_count = at < PAGE_TOKENS && at + count >= PAGE_TOKENS;
        items[0].border_pages[0] = 0;
        items[0].border_targets[0] = 2;
        assert_int_equal(step(device, items, 1, result), STATUS_OK);
    }
    assert_int_equal(result->token_count, 1);
    return result->tokens[0].token;
}

static void test_any_chunking_gives_the_answer_of_the_oracle(void **state)
{
    (void)state;
    uint32_t answer[ANSWER];
    uint32_t length = 0;
    const uint32_t chunks[] = {1, 7, 256, 257, PROMPT};
    for (size_t i = 0; i < COUNT_OF(chunks); i++) {
        symbolic_world_t *world = symbolic_world_open();
        device_t *device = device_new(world, "/a");
        device_result_t result;
        length = symbolic_answer(&setup, prompt, PROMPT, &greedy, false, NULL, 0, ANSWER, answer,
                                 ANSWER);
        assert_int_equal(prefill(device, 1, some_pages, chunks[i], &result), answer[0]);
        /* page 2 is open: its digest and the slot's are the tail */
        assert_int_equal(result.closed[result.closed_count - 2].index, some_pages[2]);
        assert_int_equal(result.closed[result.closed_count - 1].unit, UNIT_SLOT);
        for (uint32_t n = 1; n < length; n++) {
            device_item_t item = run_item(1, PROMPT + n - 1, NULL, 1);
            item.sample = true;
            assert_int_equal(step(device, &item, 1, &result), STATUS_OK);
            assert_int_equal(result.tokens[0].token, answer[n]);
        }
        symbolic_ops.close(device);
        symbolic_world_close(world);
    }
    assert_true(length > 1);
    assert_int_equal(answer[length - 1], setup.end_token);
}

static void test_a_border_continues_at_its_page_end(void **state)
{
    (void)state;
    symbolic_world_t *world = symbolic_world_open();
    device_t *device = device_new(world, "/a");
    device_result_t result;
    uint32_t want = prefill(device, 0, some_pages, PROMPT, &result);
    const uint32_t pages[] = {5, 7, 8}; /* the first is shared */
    device_item_t items[3] = {open_item(3, 0, pages, 3),
                              {.kind = DEVICE_LOAD, .slot = 3, .position = 256, .border = 2},
                              run_item(3, 256, prompt + 256, PROMPT - 256)};
    items[2].sample = true;
    assert_int_equal(step(device, items, 3, &result), STATUS_OK);
    assert_int_equal(result.tokens[0].token, want);
    symbolic_ops.close(device);
    symbolic_world_close(world);
}

/* With penalties, tokens of the answer that are replayed count as answer, and the prompt as prompt. */
static void test_replayed_tokens_are_the_answers(void **state)
{
    (void)state;
    const device_sampling_t penalties[] = {
        {.top_p = 1, .repetition_penalty = 1.5f},
        {.top_p = 1, .repetition_penalty = 1, .presence_penalty = 1},
        {.top_p = 1, .repetition_penalty = 1, .frequency_penalty = 1}};
    for (size_t i = 0; i < COUNT_OF(penalties); i++) {
        symbolic_world_t *world = symbolic_world_open();
        device_t *device = device_new(world, "/a");
        device_result_t result;
        uint32_t answer[4];
        uint32_t plain[4];
        symbolic_answer(&setup, prompt, PROMPT, &penalties[i], true, NULL, 0, 4, answer, 4);
        symbolic_answer(&setup, prompt, PROMPT, &greedy, true, NULL, 0, 4, plain, 4);
        assert_memory_not_equal(answer, plain, sizeof answer);
        prefill(device, 1, some_pages, PROMPT, &result);
        device_item_t items[3] = {{.kind = DEVICE_CLOSE, .slot = 1},
                                  open_item(1, PROMPT, some_pages, 4),
                                  run_item(1, PROMPT, answer, 2)};
        items[1].sampling = &penalties[i];
        items[1].tokens = prompt;
        items[1].token_count = PROMPT;
        items[2].sample = true;
        assert_int_equal(step(device, items, 3, &result), STATUS_OK);
        assert_int_equal(result.tokens[0].token, answer[2]);
        items[0] = run_item(1, PROMPT + 2, NULL, 1);
        items[0].sample = true;
        assert_int_equal(step(device, items, 1, &result), STATUS_OK);
        assert_int_equal(result.tokens[0].token, answer[3]);
        symbolic_ops.close(device);
        symbolic_world_close(world);
    }
}

static void copy_all(device_t *target, const device_result_t *tail, const uint64_t *page_digests,
                     const uint32_t *pages, status_t *status)
{
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t failed;
        device_copy_t copy = {.unit = i == 3 ? UNIT_SLOT : UNIT_HISTORY,
                              .source = i == 3 ? 1 : some_pages[i],
                              .source_generation = 11,
                              .target = i == 3 ? 2 : pages[i],
                              .target_generation = 21,
                              .rows = i == 2 ? PROMPT % PAGE_TOKENS : PAGE_TOKENS,
                              .digest = i == 3   ? tail->closed[tail->closed_count - 1].digest
                                        : i == 2 ? tail->closed[tail->closed_count - 2].digest
                                                 : page_digests[i]};
        *status = symbolic_ops.copy(target, 4, &copy, 1, &failed);
        if (*status != STATUS_OK)
            return;
    }
}

static void generations_set(device_t *device, uint64_t generation)
{
    for (uint32_t i = 0; i < 3; i++)
        symbolic_ops.generation_set(device, UNIT_HISTORY, some_pages[i], generation);
    symbolic_ops.generation_set(device, UNIT_SLOT, 1, generation);
}

/* One hand-over between two devices, in plain or in named shared memory. */
static void hand_over(symbolic_world_t *world, const char *source_name, const char *target_name)
{
    device_t *source = device_new(world, source_name);
    device_t *target = device_new(world, target_name);
    device_result_t result;
    device_pool_t pool;
    device_digests_t digests;
    status_t status = STATUS_OK;
    generations_set(source, 11);
    uint32_t first = prefill(source, 1, some_pages, PROMPT, &result);
    uint64_t page_digests[2] = {result.closed[0].digest, result.closed[2].digest};
    assert_int_equal(result.closed[1].unit, UNIT_BORDER);
    symbolic_ops.describe(source, &pool, &digests);
    assert_int_equal(symbolic_ops.map(target, 4, &pool), STATUS_OK);
    const uint32_t pages[] = {1, 10, 4, 6};
    copy_all(target, &result, page_digests, pages, &status);
    assert_int_equal(status, STATUS_OK);

    uint32_t answer[2];
    symbolic_answer(&setup, prompt, PROMPT, &greedy, true, NULL, 0, 2, answer, 2);
    assert_int_equal(first, answer[0]);
    device_item_t items[2] = {open_item(2, PROMPT, pages, 4), run_item(2, PROMPT, &first, 1)};
    items[1].sample = true;
    device_result_t next;
    assert_int_equal(step(target, items, 2, &next), STATUS_OK);
    assert_int_equal(next.tokens[0].token, answer[1]);

    /* The source page is leased to another: stale. The target is: stale. */
    symbolic_ops.generation_set(source, UNIT_HISTORY, some_pages[1], 12);
    copy_all(target, &result, page_digests, pages, &status);
    assert_int_equal(status, STATUS_STALE);
    symbolic_ops.generation_set(source, UNIT_HISTORY, some_pages[1], 11);
    symbolic_ops.generation_set(target, UNIT_HISTORY, pages[0], 22);
    copy_all(target, &result, page_digests, pages, &status);
    assert_int_equal(status, STATUS_STALE);
    /* A flipped bit in the source: corrupt. */
    symbolic_ops.generation_set(target, UNIT_HISTORY, pages[0], 21);
    symbolic_flip(source, UNIT_HISTORY, some_pages[0], 3, 40);
    copy_all(target, &result, page_digests, pages, &status);
    assert_int_equal(status, STATUS_CORRUPT);
    symbolic_ops.close(source);
    symbolic_ops.close(target);
}

static void test_a_hand_over_keeps_the_answer_and_refuses_stale_and_flipped_units(void **state)
{
    (void)state;
    symbolic_world_t *world = symbolic_world_open();
    hand_over(world, "/a", "/b");
    symbolic_world_close(world);
    char names[2][64];
    snprintf(names[0], sizeof names[0], "/lockstep-test-%d-a", (int)getpid());
    snprintf(names[1], sizeof names[1], "/lockstep-test-%d-b", (int)getpid());
    hand_over(NULL, names[0], names[1]);
}

/* Another lease of the source's page, while its words are copied. */
static const device_backend_t *honest;
static device_t *leased;
static uint64_t lease;

static status_t copy_under_a_lease(device_generic_t *device, const device_memory_t *from,
                                   const device_copy_t *copies, uint32_t count)
{
    TRY(honest->copy(device, from, copies, count));
    symbolic_ops.generation_set(leased, copies[0].unit, copies[0].source, lease);
    return STATUS_OK;
}

static void test_a_lease_during_a_copy_is_seen_in_either_order(void **state)
{
    (void)state;
    symbolic_world_t *world = symbolic_world_open();
    device_t *target = device_new(world, "/b");
    device_backend_t backend;
    device_pool_t pool;
    device_digests_t digests;
    device_result_t result;
    const uint64_t leases[2][2] = {{11, 12}, {10, 11}}; /* before and after the copy */
    leased = device_new(world, "/a");
    prefill(leased, 1, some_pages, PROMPT, &result);
    symbolic_ops.describe(leased, &pool, &digests);
    assert_int_equal(symbolic_ops.map(target, 4, &pool), STATUS_OK);
    honest = ((device_generic_t *)target)->backend;
    backend = *honest;
    backend.copy = copy_under_a_lease;
    ((device_generic_t *)target)->backend = &backend;
    for (uint32_t i = 0; i < 2; i++) {
        const device_copy_t copy = {.unit = UNIT_HISTORY,
                                    .source = some_pages[0],
                                    .source_generation = 11,
                                    .target = 1,
                                    .target_generation = 21,
                                    .rows = PAGE_TOKENS,
                                    .digest = result.closed[0].digest};
        uint32_t failed = 9;
        symbolic_ops.generation_set(leased, UNIT_HISTORY, some_pages[0], leases[i][0]);
        lease = leases[i][1];
        assert_int_equal(symbolic_ops.copy(target, 4, &copy, 1, &failed), STATUS_STALE);
        assert_int_equal(failed, 0);
    }
    symbolic_ops.close(leased);
    symbolic_ops.close(target);
    symbolic_world_close(world);
}

/* A list tells which of its units is the first that is not good. */
static void test_a_list_names_its_first_failure(void **state)
{
    (void)state;
    symbolic_world_t *world = symbolic_world_open();
    device_t *source = device_new(world, "/a");
    device_t *target = device_new(world, "/b");
    device_copy_t copies[2] = {0};
    device_pool_t pool;
    device_digests_t digests;
    device_result_t result;
    uint32_t failed = 9;
    generations_set(source, 11);
    prefill(source, 1, some_pages, PROMPT, &result);
    symbolic_ops.describe(source, &pool, &digests);
    assert_int_equal(symbolic_ops.map(target, 4, &pool), STATUS_OK);
    for (uint32_t i = 0; i < 2; i++)
        copies[i] = (device_copy_t){.unit = UNIT_HISTORY,
                                    .source = some_pages[i],
                                    .source_generation = 11,
                                    .target = 1 + i,
                                    .target_generation = 21,
                                    .rows = PAGE_TOKENS,
                                    .digest = result.closed[i == 0 ? 0 : 2].digest};
    assert_int_equal(symbolic_ops.copy(target, 4, copies, 2, &failed), STATUS_OK);
    copies[1].digest++;
    assert_int_equal(symbolic_ops.copy(target, 4, copies, 2, &failed), STATUS_CORRUPT);
    assert_int_equal(failed, 1);
    copies[1].source = PAGES;
    assert_int_equal(symbolic_ops.copy(target, 4, copies, 2, &failed), STATUS_INVALID);
    assert_int_equal(failed, 1);
    assert_int_equal(symbolic_ops.copy(target, 5, copies, 2, &failed), STATUS_NOT_FOUND);
    symbolic_ops.close(source);
    symbolic_ops.close(target);
    symbolic_world_close(world);
}

static void test_every_flipped_word_is_found_by_the_next_step(void **state)
{
    (void)state;
    symbolic_world_t *world = symbolic_world_open();
    device_t *device = device_new(world, "/a");
    device_result_t result;
    prefill(device, 1, some_pages, PROMPT, &result);
    for (uint32_t unit = 0; unit < 4; unit++) {
        for (uint32_t word = 0; word < SYMBOLIC_WORDS; word++) {
            unit_kind_t kind = unit == 3 ? UNIT_SLOT : UNIT_HISTORY;
            uint32_t index = unit == 3 ? 1 : some_pages[unit];
            device_item_t item = run_item(1, PROMPT, NULL, 1);
            item.sample = true;
            symbolic_flip(device, kind, index, word, 17);
            assert_int_equal(step(device, &item, 1, &result), STATUS_CORRUPT);
            assert_non_null(strstr(trail_text(), "expected"));
            symbolic_flip(device, kind, index, word, 17);
        }
    }
    device_item_t item = run_item(1, PROMPT, NULL, 1);
    assert_int_equal(step(device, &item, 1, &result), STATUS_OK);
    symbolic_ops.close(device);
    symbolic_world_close(world);
}

static void test_pages_of_another_prefix_are_found(void **state)
{
    (void)state;
    symbolic_world_t *world = symbolic_world_open();
    device_t *device = device_new(world, "/a");
    device_result_t result;
    prefill(device, 1, some_pages, PROMPT, &result);
    prompt[3]++;
    const uint32_t others[] = {1, 4, 6, 7};
    prefill(device, 2, others, PROMPT, &result);
    prompt[3]--;
    uint32_t mixed[] = {5, 4, 9}; /* the middle page is of the other prompt */
    device_item_t items[2] = {{.kind = DEVICE_CLOSE, .slot = 1}, open_item(1, PROMPT, mixed, 3)};
    assert_int_equal(step(device, items, 2, &result), STATUS_CORRUPT);
    symbolic_ops.close(device);
    symbolic_world_close(world);
}

static void test_a_mistake_changes_the_result_digest(void **state)
{
    (void)state;
    symbolic_world_t *world = symbolic_world_open();
    device_t *a = device_new(world, "/a");
    device_t *b = device_new(world, "/b");
    device_result_t right;
    device_result_t wrong;
    prefill(a, 1, some_pages, PROMPT, &right);
    uint64_t digest = right.digest.sum;
    prefill(b, 1, some_pages, PROMPT, &wrong);
    assert_int_equal(digest, wrong.digest.sum);
    symbolic_ops.close(b);
    b = device_new(world, "/b");
    symbolic_mistake(b, 1);
    prefill(b, 1, some_pages, PROMPT, &wrong);
    assert_int_not_equal(digest, wrong.digest.sum);
    symbolic_ops.close(a);
    symbolic_ops.close(b);
    symbolic_world_close(world);
}

static void test_steps_that_ask_for_what_is_not_there_are_refused(void **state)
{
    (void)state;
    symbolic_world_t *world = symbolic_world_open();
    device_t *device = device_new(world, "/a");
    device_result_t result;
    device_item_t closed = run_item(0, 0, prompt, 1);
    assert_int_equal(step(device, &closed, 1, &result), STATUS_INVALID);
    device_item_t items[2] = {open_item(0, 0, some_pages, 1), run_item(0, 0, prompt, 257)};
    assert_int_equal(step(device, items, 2, &result), STATUS_INVALID); /* page missing */
    items[0] = run_item(0, 0, NULL, 1);
    assert_int_equal(step(device, items, 1, &result), STATUS_INVALID); /* nothing carried */
    items[0] = run_item(0, 5, prompt, 1);
    assert_int_equal(step(device, items, 1, &result), STATUS_CORRUPT); /* state is at 0 */
    const uint32_t counts[UNIT_COUNT] = {PAGES, BORDERS, SLOTS};
    for (uint32_t unit = 0; unit < UNIT_COUNT; unit++) /* as a STEP that names them sets them */
        symbolic_ops.generation_set(device, (unit_kind_t)unit, counts[unit], 7);
    items[0] = open_item(1, 0, (const uint32_t[]){PAGES}, 1);
    assert_int_equal(step(device, items, 1, &result), STATUS_INVALID);
    device_step_t old = {.epoch = 0, .seq = 1};
    assert_int_equal(symbolic_ops.step(device, &old, &result), STATUS_STALE);
    symbolic_ops.interrupt(device, 2);
    items[0] = run_item(0, 0, prompt, 1);
    assert_int_equal(step(device, items, 1, &result), STATUS_BROKEN);
    symbolic_ops.close(device);
    symbolic_world_close(world);
}

int main(void)
{
    random_t random;
    random_init(&random, 5);
    for (uint32_t i = 0; i < PROMPT; i++)
        prompt[i] = (uint32_t)random_below(&random, 1000);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_chunking_gives_the_answer_of_the_oracle),
        cmocka_unit_test(test_a_border_continues_at_its_page_end),
        cmocka_unit_test(test_replayed_tokens_are_the_answers),
        cmocka_unit_test(test_a_hand_over_keeps_the_answer_and_refuses_stale_and_flipped_units),
        cmocka_unit_test(test_a_lease_during_a_copy_is_seen_in_either_order),
        cmocka_unit_test(test_a_list_names_its_first_failure),
        cmocka_unit_test(test_every_flipped_word_is_found_by_the_next_step),
        cmocka_unit_test(test_pages_of_another_prefix_are_found),
        cmocka_unit_test(test_a_mistake_changes_the_result_digest),
        cmocka_unit_test(test_steps_that_ask_for_what_is_not_there_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
