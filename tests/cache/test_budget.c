#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/budget.h"
#include "cache/layout.h"
#include "tests/cache/configs.h"

#define GIB (UINT64_C(1) << 30)

/* Bytes of the device that the counts take. */
static uint64_t bytes_of(const geometry_t *g, const uint32_t counts[UNIT_COUNT])
{
    layout_t layout;

    assert_int_equal(layout_init(&layout, g, LAYOUT_LAYER_FIRST, counts), STATUS_OK);
    return layout.bytes;
}

static void test_budget_fills_the_device_and_not_more(void **state)
{
    static const uint32_t per_border[] = {0, 1, 2, 8, 64};
    geometry_config_t config = config_flash();
    geometry_t g = geometry_make(&config);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(per_border); i++) {
        const budget_t budget = {.device_bytes = 80 * GIB,
                                 .weights_bytes = 40 * GIB,
                                 .workspace_bytes = 2 * GIB,
                                 .reserve_permille = 50,
                                 .slots = 256,
                                 .pages_per_border = per_border[i]};
        const uint64_t left = 80 * GIB - 42 * GIB - 80 * GIB / 1000 * 50;
        const uint64_t group =
            g.unit_bytes[UNIT_HISTORY] * (per_border[i] > 0 ? per_border[i] : 1) +
            g.unit_bytes[UNIT_BORDER];
        uint32_t counts[UNIT_COUNT];

        assert_int_equal(budget_counts(&g, &budget, counts), STATUS_OK);
        assert_int_equal(counts[UNIT_SLOT], 256);
        assert_in_range(bytes_of(&g, counts), left - group, left);
        if (per_border[i] == 0)
            assert_int_equal(counts[UNIT_BORDER], 0);
        else
            assert_int_equal(counts[UNIT_BORDER], counts[UNIT_HISTORY] / per_border[i] + 1);
    }
}

static void test_budget_that_fits_nothing_is_refused_with_figures(void **state)
{
    geometry_config_t config = config_flash();
    geometry_t g = geometry_make(&config);
    budget_t budget = {.device_bytes = 8 * GIB, .weights_bytes = 9 * GIB, .slots = 1};
    uint32_t counts[UNIT_COUNT];

    (void)state;
    trail_reset();
    assert_int_equal(budget_counts(&g, &budget, counts), STATUS_BAD_CONFIG);
    assert_non_null(strstr(trail_text(), "0 bytes are left"));
    budget.weights_bytes = 0;
    assert_int_equal(budget_counts(&g, &budget, counts), STATUS_OK);
    budget.tokens_min = 1 << 20; /* 4 GB of history */
    assert_int_equal(budget_counts(&g, &budget, counts), STATUS_OK);
    budget.device_bytes = 4 * GIB / 2;
    assert_int_equal(budget_counts(&g, &budget, counts), STATUS_BAD_CONFIG);
    budget.slots = 0;
    assert_int_equal(budget_counts(&g, &budget, counts), STATUS_BAD_CONFIG);
    budget.slots = SLOTS_MAX + 1;
    assert_int_equal(budget_counts(&g, &budget, counts), STATUS_BAD_CONFIG);
    budget.slots = 1;
    budget.reserve_permille = 1000;
    assert_int_equal(budget_counts(&g, &budget, counts), STATUS_BAD_CONFIG);
}

static void test_smallest_budget_that_fits_is_taken(void **state)
{
    geometry_config_t config = config_flash();
    geometry_t g = geometry_make(&config);
    budget_t budget = {.slots = 2, .tokens_min = 1000, .pages_per_border = 8};
    uint32_t counts[UNIT_COUNT];

    (void)state;
    /* 4 pages and the test page, one border */
    budget.device_bytes =
        2 * g.unit_bytes[UNIT_SLOT] + 5 * g.unit_bytes[UNIT_HISTORY] + g.unit_bytes[UNIT_BORDER];
    assert_int_equal(budget_counts(&g, &budget, counts), STATUS_OK);
    assert_int_equal(counts[UNIT_HISTORY], 5);
    assert_int_equal(bytes_of(&g, counts), budget.device_bytes);
    budget.device_bytes--;
    assert_int_equal(budget_counts(&g, &budget, counts), STATUS_BAD_CONFIG);
}

static void test_model_without_compressed_layers_needs_no_history_bytes(void **state)
{
    static const uint16_t ratios[] = {0, 0};
    geometry_config_t config = config_make(2, ratios, 128);
    geometry_t g = geometry_make(&config);
    budget_t budget = {.device_bytes = GIB, .slots = 4, .tokens_min = 512};
    uint32_t counts[UNIT_COUNT];

    (void)state;
    assert_int_equal(budget_counts(&g, &budget, counts), STATUS_OK);
    assert_int_equal(counts[UNIT_HISTORY], 12);
    assert_true(bytes_of(&g, counts) < GIB);
}

static void test_capacity_names_its_limit(void **state)
{
    const uint32_t counts[UNIT_COUNT] = {64 * 128 + 1, 0, 80};
    const struct {
        uint32_t tokens, sessions;
        budget_limit_t limit;
    } rows[] = {
        {32768, 64, BUDGET_BY_PAGES}, {1000, 80, BUDGET_BY_SLOTS}, {1 << 20, 2, BUDGET_BY_PAGES}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const budget_capacity_t capacity = budget_capacity(counts, rows[i].tokens);

        assert_int_equal(capacity.sessions, rows[i].sessions);
        assert_int_equal(capacity.limit, rows[i].limit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget_fills_the_device_and_not_more),
        cmocka_unit_test(test_budget_that_fits_nothing_is_refused_with_figures),
        cmocka_unit_test(test_smallest_budget_that_fits_is_taken),
        cmocka_unit_test(test_model_without_compressed_layers_needs_no_history_bytes),
        cmocka_unit_test(test_capacity_names_its_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
