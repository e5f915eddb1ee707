#include <setjmp.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/layout.h"
#include "tests/cache/assertion.h"
#include "tests/cache/configs.h"

static const uint32_t counts[UNIT_COUNT] = {3, 2, 4};

/* Every part is aligned, inside, and shares no byte with another; together they fill the block. */
static void parts_tile_the_block(const geometry_t *g, layout_order_t order)
{
    layout_t layout;
    unsigned char *taken;

    assert_int_equal(layout_init(&layout, g, order, counts), STATUS_OK);
    assert_int_equal(layout.bytes, 3 * g->unit_bytes[UNIT_HISTORY] +
                                       2 * g->unit_bytes[UNIT_BORDER] +
                                       4 * g->unit_bytes[UNIT_SLOT]);
    taken = calloc(layout.bytes, 1);
    for (int kind = 0; kind < POOL_COUNT; kind++) {
        const geometry_pool_t *pool = &g->pools[kind];

        for (uint32_t index = 0; index < pool->layer_count; index++) {
            for (uint32_t item = 0; item < counts[pool->unit]; item++) {
                const uint64_t at = layout_offset(&layout, g, (pool_kind_t)kind, index, item);

                assert_int_equal(at % GEOMETRY_ALIGN, 0);
                assert_true(at + pool->stride <= layout.bytes);
                for (uint32_t i = 0; i < pool->stride; i++)
                    assert_int_equal(taken[at + i]++, 0);
            }
        }
    }
    assert_null(memchr(taken, 0, layout.bytes));
    free(taken);
}

static void test_parts_tile_the_block_in_both_orders(void **state)
{
    geometry_config_t config = config_tiny();
    geometry_t g = geometry_make(&config);

    (void)state;
    parts_tile_the_block(&g, LAYOUT_LAYER_FIRST);
    parts_tile_the_block(&g, LAYOUT_PAGE_FIRST);
}

static void test_page_first_unit_is_one_run(void **state)
{
    geometry_config_t config = config_flash();
    geometry_t g = geometry_make(&config);
    layout_t layout;

    (void)state;
    assert_int_equal(layout_init(&layout, &g, LAYOUT_PAGE_FIRST, counts), STATUS_OK);
    assert_int_equal(layout_offset(&layout, &g, POOL_C4, 0, 1), 998208);
    assert_int_equal(layout_offset(&layout, &g, POOL_C128, 19, 1) + 1728, 2 * 998208);
}

static void test_view_finds_rows_and_scales_by_layer(void **state)
{
    geometry_config_t config = config_tiny();
    geometry_t g = geometry_make(&config);
    unsigned char *memory;
    layout_t layout;
    layout_view_t view;

    (void)state;
    assert_int_equal(layout_init(&layout, &g, LAYOUT_LAYER_FIRST, counts), STATUS_OK);
    memory = aligned_alloc(GEOMETRY_ALIGN, layout.bytes);
    view = layout_view(&layout, &g, memory, POOL_C4, 3); /* the second layer of ratio 4 */
    assert_ptr_equal(view_part(&view, 2), memory + layout_offset(&layout, &g, POOL_C4, 1, 2));
    assert_int_equal(view_data(&view, 2, 5) - view_part(&view, 2), 5 * 192);
    assert_int_equal(view_scale(&view, 2, 5) - view_part(&view, 2), 64 * 192 + 5 * 2);
    EXPECT_ASSERTION(layout_view(&layout, &g, memory, POOL_C4, 2)); /* a ratio-128 layer */
    EXPECT_ASSERTION(view_data(&view, 3, 0));
    EXPECT_ASSERTION(view_data(&view, 0, 64));
    EXPECT_ASSERTION(view_scale(&view, 0, 64));
    EXPECT_ASSERTION(layout_offset(&layout, &g, POOL_C4, 2, 0));
    EXPECT_ASSERTION(layout_offset(&layout, &g, POOL_C4, 0, 3));
    free(memory);
}

static void test_cleared_slot_weighs_nothing(void **state)
{
    geometry_config_t config = config_tiny();
    geometry_t g = geometry_make(&config);
    unsigned char *memory, *before;
    layout_t layout;
    layout_view_t view;
    const float *row;

    (void)state;
    assert_int_equal(layout_init(&layout, &g, LAYOUT_LAYER_FIRST, counts), STATUS_OK);
    memory = aligned_alloc(GEOMETRY_ALIGN, layout.bytes);
    memset(memory, 0x5a, layout.bytes);
    layout_slot_clear(&layout, &g, memory, slot_at(1));
    view = layout_view(&layout, &g, memory, POOL_SLOT_C4, 1);
    row = (const float *)(const void *)view_data(&view, 1, 7);
    for (int i = 0; i < 512; i++)
        assert_true(i < 256 ? row[i] == 0 : row[i] == -INFINITY); /* [kv 2w][score 2w] */
    view = layout_view(&layout, &g, memory, POOL_SLOT_C4_INDEX, 3);
    row = (const float *)(const void *)view_data(&view, 1, 0);
    assert_true(row[255] == 0 && row[256] == -INFINITY && row[511] == -INFINITY);
    view = layout_view(&layout, &g, memory, POOL_SLOT_C128, 2);
    row = (const float *)(const void *)view_data(&view, 1, 0);
    for (int i = 0; i < 384; i++)
        assert_true(i < 128 ? row[i] == -INFINITY : row[i] == 0); /* [max][sum][weighted] */
    view = layout_view(&layout, &g, memory, POOL_SLOT_WINDOW, 0);
    assert_int_equal(view_data(&view, 1, 128)[0], 0);
    /* a second clear changes nothing, and the neighbours keep theirs */
    before = malloc(layout.bytes);
    memcpy(before, memory, layout.bytes);
    layout_slot_clear(&layout, &g, memory, slot_at(1));
    assert_memory_equal(before, memory, layout.bytes);
    assert_int_equal(view_data(&view, 0, 0)[0], 0x5a);
    assert_int_equal(view_data(&view, 2, 0)[0], 0x5a);
    free(before);
    free(memory);
}

static void test_counts_that_overflow_are_refused(void **state)
{
    geometry_config_t config = config_tiny();
    geometry_t g;
    const uint32_t many[UNIT_COUNT] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    layout_t layout = {.bytes = 3};

    (void)state;
    config.layers = GEOMETRY_LAYERS_MAX;
    config.head_dim = GEOMETRY_DIM_MAX;
    config.rope_dim = 0;
    for (int i = 0; i < GEOMETRY_LAYERS_MAX; i++)
        config.ratios[i] = 4;
    config.cache_form = FORM_FLOAT32;
    g = geometry_make(&config);
    assert_int_equal(layout_init(&layout, &g, LAYOUT_PAGE_FIRST, many), STATUS_TOO_LARGE);
    assert_int_equal(layout.bytes, 3);
}

static void test_units_convert_as_the_model_counts(void **state)
{
    (void)state;
    assert_int_equal(position_ordinal(position_at(255)).value, 0);
    assert_int_equal(position_ordinal(position_at(256)).value, 1);
    assert_int_equal(tokens_pages(0), 0);
    assert_int_equal(tokens_pages(256), 1);
    assert_int_equal(tokens_pages(257), 2);
    assert_int_equal(tokens_pages(UINT32_MAX), 1 << 24);
    assert_int_equal(tokens_entries(3, 4), 0); /* entry j is closed by position 4j + 3 */
    assert_int_equal(tokens_entries(4, 4), 1);
    assert_int_equal(position_entry(position_at(7), 4).value, 1);
    assert_int_equal(entry_position(entry_at(2), 128).value, 256);
    assert_int_equal(entry_ordinal(entry_at(63), 4).value, 0);
    assert_int_equal(entry_ordinal(entry_at(64), 4).value, 1);
    assert_int_equal(entry_row(entry_at(65), 4).value, 1);
    assert_int_equal(entry_row(entry_at(3), 128).value, 1);
    assert_int_equal(ordinal_position((ordinal_t){3}).value, 768);
    EXPECT_ASSERTION(tokens_entries(4, 0));
    EXPECT_ASSERTION(tokens_entries(4, 3)); /* an entry would straddle two pages */
    EXPECT_ASSERTION(ordinal_position((ordinal_t){1u << 24}));
    EXPECT_ASSERTION(entry_position(entry_at(1u << 30), 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_tile_the_block_in_both_orders),
        cmocka_unit_test(test_page_first_unit_is_one_run),
        cmocka_unit_test(test_view_finds_rows_and_scales_by_layer),
        cmocka_unit_test(test_cleared_slot_weighs_nothing),
        cmocka_unit_test(test_counts_that_overflow_are_refused),
        cmocka_unit_test(test_units_convert_as_the_model_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
