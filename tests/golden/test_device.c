/* test_device.c - the CPU device runs golden cases: steps, hand-over between groups of different
 * sizes, prefixes taken from borders, and what it refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "device/collective.h"
#include "device/cpu/cpu.h"
#include "tests/golden/harness.h"

enum { PAGES = 12, BORDERS = 4, SLOTS = 4, RANKS = 2, EPOCH = 7, ITEMS = 8 };

static harness_model_t model;
static harness_case_t golden;
static uint64_t incarnations;

static const device_sampling_t greedy = {.top_p = 1.0f, .repetition_penalty = 1.0f};

/* A group of devices and the segment between them. */
typedef struct {
    uint32_t world;
    char segment[64];
    device_t *devices[RANKS];
    device_result_t results[RANKS];
    status_t statuses[RANKS];
    uint64_t seq;
    const device_item_t *items;
    uint32_t item_count;
} ranks_t;

static void must(status_t status)
{
    if (status != STATUS_OK)
        fail_msg("%s: %s", status_name(status), trail_text());
}

static void open_ranks(ranks_t *g, uint32_t world, uint32_t rows_max)
{
    device_cpu_setup_t setup = {.folder = model.place.folder,
                                .cache_form = FORM_FP8_BLOCKS,
                                .index_form = FORM_FP4_BLOCKS,
                                .threads = 1,
                                .rows_max = rows_max,
                                .positions_max = 1024};
    *g = (ranks_t){.world = world};
    for (uint32_t r = 0; r < world; r++) {
        device_config_t config = {r, world, PAGES, BORDERS, SLOTS, ++incarnations, {{0}, 0, 0}};
        uint32_t progress = 0;
        snprintf(config.pool.name, sizeof(config.pool.name), "/lockstep-test-%d-%u", (int)getpid(),
                 (unsigned)incarnations);
        must(device_cpu_ops.open(&config, &setup, &progress, &g->devices[r]));
        assert_int_equal(progress, 1000);
    }
    snprintf(g->segment, sizeof(g->segment), "/lockstep-test-%d-s%u", (int)getpid(),
             (unsigned)incarnations);
    for (uint32_t r = 0; r < world; r++)
        must(g->devices[r]->ops->reform(g->devices[r], EPOCH, g->segment));
}

static void close_ranks(ranks_t *g)
{
    for (uint32_t r = 0; r < g->world; r++)
        g->devices[r]->ops->close(g->devices[r]);
    if (g->world > 1)
        collective_unlink(g->segment);
}

typedef struct {
    ranks_t *g;
    uint32_t rank;
} rank_call_t;

static void *step_rank(void *argument)
{
    const rank_call_t *call = argument;
    ranks_t *g = call->g;
    device_t *device = g->devices[call->rank];
    device_step_t step = {EPOCH, g->seq, g->items, g->item_count};

    g->statuses[call->rank] = device->ops->step(device, &step, &g->results[call->rank]);
    if (g->statuses[call->rank] != STATUS_OK)
        print_message("  rank %u: %s\n", call->rank, trail_text());
    return NULL;
}

/* All ranks run the items and must agree. */
static const device_result_t *step_ranks(ranks_t *g, const device_item_t *items, uint32_t count)
{
    pthread_t thread;
    rank_call_t calls[RANKS] = {{g, 0}, {g, 1}};

    g->seq++;
    g->items = items;
    g->item_count = count;
    if (g->world > 1)
        assert_int_equal(pthread_create(&thread, NULL, step_rank, &calls[1]), 0);
    step_rank(&calls[0]);
    if (g->world > 1)
        assert_int_equal(pthread_join(thread, NULL), 0);
    for (uint32_t r = 0; r < g->world; r++) {
        assert_int_equal(g->statuses[r], STATUS_OK);
        assert_true(g->results[r].digest.sum == g->results[0].digest.sum);
    }
    return &g->results[0];
}

static uint32_t wanted_token(uint32_t index)
{
    return (uint32_t)json_integer_value(
        json_array_get(json_object_get(golden.facts, "generated"), index));
}

/* Builds without optimisation (sanitizers) are content with the first few. */
static uint32_t wanted_count(void)
{
#ifdef __OPTIMIZE__
    return (uint32_t)json_array_size(json_object_get(golden.facts, "generated"));
#else
    return 4;
#endif
}

static device_item_t run_of(uint32_t slot, uint32_t position, uint32_t count, bool last)
{
    return (device_item_t){.kind = DEVICE_RUN,
                           .slot = slot,
                           .position = position,
                           .count = count,
                           .tokens = golden.tokens + position,
                           .token_count = count,
                           .sample = last,
                           .tail = last};
}

/* The whole prompt in one step after OPEN; its pages are pages[0..2]. */
static const device_result_t *prefill(ranks_t *g, uint32_t slot, const uint32_t *pages)
{
    device_item_t items[2] = {
        {.kind = DEVICE_OPEN, .slot = slot, .pages = pages, .page_count = 3, .sampling = &greedy},
        run_of(slot, 0, golden.count, true)};
    items[1].border_count = 1;
    items[1].border_targets[0] = 1;
    return step_ranks(g, items, 2);
}

static void decode(ranks_t *g, uint32_t slot, uint32_t first)
{
    for (uint32_t i = first; i < wanted_count(); i++) {
        uint32_t token = wanted_token(first - 1);
        device_item_t item = {.kind = DEVICE_RUN,
                              .slot = slot,
                              .position = golden.count + i - 1,
                              .count = 1,
                              .tokens = i == first ? &token : NULL, /* then carried */
                              .token_count = i == first,
                              .sample = true};
        const device_result_t *result = step_ranks(g, &item, 1);
        assert_int_equal(result->token_count, 1);
        assert_int_equal(result->tokens[0].token, wanted_token(i));
    }
}

static void test_steps_answer_golden_tokens(void **state)
{
    static const uint32_t pages[3] = {3, 5, 1}, worlds[3] = {1, 2, 1}, rows[3] = {512, 100, 37};

    (void)state;
    for (int i = 0; i < 3; i++) {
        ranks_t g;
        open_ranks(&g, worlds[i], rows[i]);
        const device_result_t *result = prefill(&g, 2, pages);
        assert_int_equal(result->token_count, 1);
        assert_int_equal(result->tokens[0].token, wanted_token(0));
        /* a full page, its border, then the open page and the slot */
        assert_int_equal(result->closed_count, 4);
        assert_int_equal(result->closed[0].unit, UNIT_HISTORY);
        assert_int_equal(result->closed[0].index, 3);
        assert_int_equal(result->closed[1].unit, UNIT_BORDER);
        assert_int_equal(result->closed[1].index, 1);
        assert_int_equal(result->closed[2].index, 5);
        assert_int_equal(result->closed[3].unit, UNIT_SLOT);
        decode(&g, 2, 1);
        close_ranks(&g);
    }
}

static status_t pull(ranks_t *to, uint32_t rank, const device_closed_t *unit, uint32_t target,
                     uint32_t rows, uint64_t generation)
{
    uint32_t failed;
    device_copy_t copy = {.unit = unit->unit,
                          .source = unit->index,
                          .source_generation = generation,
                          .target = target,
                          .target_generation = 9,
                          .rows = rows,
                          .digest = unit->digest};
    return to->devices[rank]->ops->copy(to->devices[rank], 40, &copy, 1, &failed);
}

/* Prefill on one rank, decode on two, which pull everything from it. */
static void test_a_hand_over_goes_on_with_the_same_tokens(void **state)
{
    static const uint32_t pages[3] = {3, 5, 1}, there[3] = {8, 2, 4};
    ranks_t p, d;
    device_closed_t units[4];
    device_pool_t pool;
    device_digests_t from, to;

    (void)state;
    open_ranks(&p, 1, 512);
    open_ranks(&d, 2, 512);
    p.devices[0]->ops->generation_set(p.devices[0], UNIT_HISTORY, 3, 77);
    memcpy(units, prefill(&p, 0, pages)->closed, sizeof(units));
    p.devices[0]->ops->describe(p.devices[0], &pool, &from);
    d.devices[0]->ops->describe(d.devices[0], &(device_pool_t){0}, &to);
    assert_memory_equal(&from, &to, sizeof(from));
    for (uint32_t r = 0; r < 2; r++) {
        device_t *device = d.devices[r];
        assert_int_equal(pull(&d, r, &units[0], there[0], PAGE_TOKENS, 77), STATUS_NOT_FOUND);
        must(device->ops->map(device, 40, &pool));
        assert_int_equal(pull(&d, r, &units[0], there[0], PAGE_TOKENS, 78), STATUS_STALE);
        must(pull(&d, r, &units[0], there[0], PAGE_TOKENS, 77));
        must(pull(&d, r, &units[2], there[1], golden.count % PAGE_TOKENS, 0));
        must(pull(&d, r, &units[3], 1, 0, 0));
        units[3].digest ^= 1;
        assert_int_equal(pull(&d, r, &units[3], 1, 0, 0), STATUS_CORRUPT);
        units[3].digest ^= 1;
        must(pull(&d, r, &units[3], 1, 0, 0));
        device->ops->generation_set(device, UNIT_HISTORY, 9, 10); /* leased again since */
        assert_int_equal(pull(&d, r, &units[0], 9, PAGE_TOKENS, 77), STATUS_STALE);
        pool.incarnation++;
        assert_int_equal(device->ops->map(device, 40, &pool), STATUS_STALE);
        pool.incarnation--;
    }
    device_item_t open = {.kind = DEVICE_OPEN,
                          .slot = 1,
                          .position = golden.count,
                          .pages = there,
                          .page_count = 3,
                          .sampling = &greedy};
    step_ranks(&d, &open, 1);
    close_ranks(&p); /* nothing of it is needed any more */
    decode(&d, 1, 1);
    close_ranks(&d);
}

/* Another slot takes the first page and its border, beside the first slot's decoding. */
static void test_a_cached_prefix_goes_on_with_the_same_tokens(void **state)
{
    static const uint32_t pages[3] = {3, 5, 1}, shared[3] = {3, 9, 10};
    ranks_t g;

    (void)state;
    open_ranks(&g, 1, 64);
    prefill(&g, 0, pages);
    device_item_t items[4] = {
        {.kind = DEVICE_CLOSE, .slot = 0},
        {.kind = DEVICE_OPEN, .slot = 3, .pages = shared, .page_count = 3, .sampling = &greedy},
        {.kind = DEVICE_LOAD, .slot = 3, .border = 1, .position = PAGE_TOKENS},
        run_of(3, PAGE_TOKENS, golden.count - PAGE_TOKENS, true),
    };
    const device_result_t *result = step_ranks(&g, items, 4);
    assert_int_equal(result->tokens[0].token, wanted_token(0));
    decode(&g, 3, 1);
    close_ranks(&g);
}

static void test_an_interrupt_ends_a_step_that_waits(void **state)
{
    static const uint32_t pages[3] = {3, 5, 1};
    pthread_t thread;
    ranks_t g;

    (void)state;
    open_ranks(&g, 2, 512);
    device_item_t items[2] = {
        {.kind = DEVICE_OPEN, .pages = pages, .page_count = 3, .sampling = &greedy},
        run_of(0, 0, 5, true)};
    rank_call_t call = {&g, 0};
    g.items = items;
    g.item_count = 2;
    assert_int_equal(pthread_create(&thread, NULL, step_rank, &call), 0); /* rank 1 never comes */
    g.devices[0]->ops->interrupt(g.devices[0], EPOCH + 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(g.statuses[0], STATUS_BROKEN);

    snprintf(g.segment + strlen(g.segment), 4, "-n");
    for (uint32_t r = 0; r < 2; r++)
        must(g.devices[r]->ops->reform(g.devices[r], EPOCH + 1, g.segment));
    device_step_t old = {EPOCH, 1, items, 2};
    assert_int_equal(g.devices[0]->ops->step(g.devices[0], &old, &g.results[0]), STATUS_STALE);
    collective_unlink(g.segment);
    g.segment[strlen(g.segment) - 2] = 0;
    close_ranks(&g);
}

static void test_items_that_do_not_fit_are_refused(void **state)
{
    static const uint32_t pages[3] = {3, 5, 1}, zero[1] = {0};
    const struct {
        device_item_t item;
        status_t status;
    } rows[] = {
        {{.kind = DEVICE_RUN, .slot = 1, .count = 1, .tokens = pages}, STATUS_INVALID},
        {{.kind = DEVICE_OPEN, .slot = SLOTS, .sampling = &greedy}, STATUS_INVALID},
        {{.kind = DEVICE_OPEN, .pages = zero, .page_count = 1, .sampling = &greedy},
         STATUS_INVALID},
        {{.kind = DEVICE_RUN, .slot = 0, .count = 1}, STATUS_INVALID},
        {{.kind = DEVICE_RUN, .slot = 0, .position = 1023, .count = 2, .tokens = pages},
         STATUS_INVALID},
        {{.kind = DEVICE_LOAD, .slot = 0, .border = BORDERS, .position = 256}, STATUS_INVALID},
        {{.kind = DEVICE_LOAD, .slot = 0, .border = 0, .position = 255}, STATUS_INVALID},
    };
    uint32_t foreign = 1 << 20;
    ranks_t g;

    (void)state;
    open_ranks(&g, 1, 64);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        device_step_t step = {EPOCH, i, &rows[i].item, 1};
        assert_int_equal(g.devices[0]->ops->step(g.devices[0], &step, &g.results[0]),
                         rows[i].status);
    }
    device_item_t run = {.kind = DEVICE_RUN, .slot = 2, .count = 1, .tokens = &foreign};
    device_item_t items[2] = {
        {.kind = DEVICE_OPEN, .slot = 2, .pages = pages, .page_count = 1, .sampling = &greedy},
        run};
    device_step_t step = {EPOCH, 9, items, 2};
    assert_int_equal(g.devices[0]->ops->step(g.devices[0], &step, &g.results[0]), STATUS_INVALID);
    close_ranks(&g);
}

/* A model with a case long enough; false if there is none. */
static bool open_golden(void)
{
    harness_place_t places[HARNESS_MODELS_MAX];
    uint32_t count = harness_places(places);

    for (uint32_t p = 0; p < count; p++) {
        harness_open(&model, &places[p]);
        for (size_t i = 0; i < harness_case_count(&model); i++)
            if (harness_case(&model, i, "fp8", &golden) && golden.count > PAGE_TOKENS + 100 &&
                golden.count < 2 * PAGE_TOKENS && model.config.layer_count > 4 &&
                forward_world_check(&model.config, RANKS) == STATUS_OK)
                return true;
        harness_close(&model);
    }
    return false;
}

static int close_golden(void **state)
{
    (void)state;
    harness_close(&model);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_answer_golden_tokens),
        cmocka_unit_test(test_a_hand_over_goes_on_with_the_same_tokens),
        cmocka_unit_test(test_a_cached_prefix_goes_on_with_the_same_tokens),
        cmocka_unit_test(test_an_interrupt_ends_a_step_that_waits),
        cmocka_unit_test(test_items_that_do_not_fit_are_refused),
    };
    if (!open_golden()) {
        print_error("no golden case of the right length in %s\n", harness_root());
        return getenv("LOCKSTEP_GOLDEN") ? HARNESS_SKIPPED : 1;
    }
    return cmocka_run_group_tests_name("device", tests, NULL, close_golden);
}
