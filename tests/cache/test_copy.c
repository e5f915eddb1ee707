#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/copy.h"
#include "cache/digest.h"
#include "cache/stream.h"
#include "kernels/isa.h"
#include "runtime/base/random.h"
#include "tests/cache/configs.h"

enum { PAGES = 5, BORDERS = 3, SLOTS = 2, ITEMS = 256 };

static const uint32_t counts[UNIT_COUNT] = {PAGES, BORDERS, SLOTS};

/* A block of memory with its layout. */
typedef struct {
    layout_t layout;
    unsigned char *bytes;
} block_t;

static block_t block_make(const geometry_t *g, layout_order_t order)
{
    block_t block;

    ASSERT(layout_init(&block.layout, g, order, counts) == STATUS_OK);
    block.bytes = aligned_alloc(GEOMETRY_ALIGN, block.layout.bytes);
    memset(block.bytes, 0, block.layout.bytes);
    return block;
}

static void block_paint(block_t *block, uint64_t seed)
{
    random_t random;

    random_init(&random, seed);
    for (uint64_t i = 0; i < block->layout.bytes; i++)
        block->bytes[i] = (unsigned char)random_next(&random);
}

/* Bytes of row r of a part. */
static unsigned char *row_of(const geometry_t *g, const block_t *block, pool_kind_t pool,
                             uint32_t index, uint32_t item, uint32_t row, bool scale)
{
    const geometry_pool_t *p = &g->pools[pool];
    unsigned char *part = block->bytes + layout_offset(&block->layout, g, pool, index, item);

    return scale ? part + p->rows * p->data_bytes + row * p->scale_bytes
                 : part + row * p->data_bytes;
}

static uint64_t rows_differ(const geometry_t *g, pool_kind_t pool, const block_t *a,
                            uint32_t a_item, const block_t *b, uint32_t b_item, uint32_t row)
{
    uint64_t differ = 0;

    for (uint32_t index = 0; index < g->pools[pool].layer_count; index++) {
        differ +=
            memcmp(row_of(g, a, pool, index, a_item, row, false),
                   row_of(g, b, pool, index, b_item, row, false), g->pools[pool].data_bytes) != 0;
        differ +=
            memcmp(row_of(g, a, pool, index, a_item, row, true),
                   row_of(g, b, pool, index, b_item, row, true), g->pools[pool].scale_bytes) != 0;
    }
    return differ;
}

static uint64_t units_differ(const geometry_t *g, const block_t *a, unit_t a_unit, const block_t *b,
                             unit_t b_unit)
{
    uint64_t differ = 0;

    for (int pool = 0; pool < POOL_COUNT; pool++) {
        for (uint32_t row = 0; g->pools[pool].unit == a_unit.kind && row < g->pools[pool].rows;
             row++)
            differ += rows_differ(g, (pool_kind_t)pool, a, a_unit.number, b, b_unit.number, row);
    }
    return differ;
}

static void copy_one(const geometry_t *g, const block_t *source, block_t *target, unit_t from,
                     unit_t to, uint32_t first, uint32_t tokens)
{
    copy_item_t items[ITEMS];
    copy_list_t list;

    copy_list_init(&list, items, ITEMS, "test");
    assert_int_equal(
        copy_plan(&list, g,
                  &(copy_units_t){&source->layout, &target->layout, from, to, first, tokens}),
        STATUS_OK);
    assert_in_range(list.count, 0, COPY_UNIT_ITEMS_MAX);
    assert_int_equal(copy_execute(&list, source->bytes, source->layout.bytes, target->bytes,
                                  target->layout.bytes),
                     STATUS_OK);
}

static const unit_t last_units[UNIT_COUNT] = {
    {UNIT_HISTORY, PAGES - 1}, {UNIT_BORDER, BORDERS - 1}, {UNIT_SLOT, SLOTS - 1}};

/* Every unit, every pair of layouts, forth and back, the last one of each included. */
static void round_trip(const geometry_config_t *config)
{
    const geometry_t g = geometry_make(config);

    for (int pair = 0; pair < 4; pair++) {
        block_t device = block_make(&g, (layout_order_t)(pair & 1));
        block_t host = block_make(&g, (layout_order_t)(pair >> 1));

        block_paint(&device, 1);
        for (int kind = 0; kind < UNIT_COUNT; kind++) {
            const unit_t last = last_units[kind], first = {(unit_kind_t)kind, 0};
            const uint64_t digest = digest_unit(&g, &device.layout, device.bytes, last);
            block_t before = block_make(&g, host.layout.order);

            memcpy(before.bytes, host.bytes, host.layout.bytes);
            copy_one(&g, &device, &host, last, first, 0, PAGE_TOKENS);
            assert_int_equal(units_differ(&g, &device, last, &host, first), 0);
            assert_int_equal(digest_unit(&g, &host.layout, host.bytes, first), digest);
            /* nobody else's bytes have moved */
            assert_int_equal(units_differ(&g, &before, last, &host, last), 0);
            copy_one(&g, &host, &device, first, first, 0, PAGE_TOKENS);
            assert_int_equal(digest_unit(&g, &device.layout, device.bytes, first), digest);
            assert_int_equal(units_differ(&g, &device, last, &device, first), 0);
            free(before.bytes);
        }
        free(device.bytes);
        free(host.bytes);
    }
}

static void test_every_layout_pair_round_trips(void **state)
{
    static const geometry_form_t forms[][2] = {{FORM_FP8_BLOCKS, FORM_FP4_BLOCKS},
                                               {FORM_FP8_BLOCKS, FORM_FP8_ROW},
                                               {FORM_BF16, FORM_BF16},
                                               {FORM_FLOAT32, FORM_FLOAT32}};
    static const uint16_t odd_ratios[] = {4, 128}, full_ratios[] = {0, 0, 4, 128, 4, 128};
    static const uint16_t pro_ratios[] = {128, 128, 4, 128};
    geometry_config_t odd = config_make(2, odd_ratios, 512);
    geometry_config_t full = config_make(6, full_ratios, 128),
                      pro = config_make(4, pro_ratios, 128);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        geometry_config_t config = config_tiny();

        config.cache_form = forms[i][0];
        config.index_form = forms[i][1];
        round_trip(&config);
    }
    odd.speculation_tokens = 3;
    round_trip(&odd);
    full.draft_layers = 1;
    round_trip(&full);
    round_trip(&pro);
}

static void test_model_without_history_copies_nothing(void **state)
{
    static const uint16_t ratios[] = {0, 0};
    geometry_config_t config = config_make(2, ratios, 128);

    (void)state;
    round_trip(&config);
}

static void test_entry_ranges_add_up_to_the_page(void **state)
{
    static const uint32_t cuts[] = {0, 1, 3, 4, 5, 127, 128, 129, 200, 255, 256};
    geometry_config_t config = config_tiny();
    const geometry_t g = geometry_make(&config);
    block_t source = block_make(&g, LAYOUT_LAYER_FIRST), target = block_make(&g, LAYOUT_PAGE_FIRST);
    const unit_t from = unit_page(page_at(1)), to = unit_page(page_at(4));

    (void)state;
    block_paint(&source, 2);
    for (size_t i = 0; i + 1 < COUNT_OF(cuts); i++) {
        copy_one(&g, &source, &target, from, to, cuts[i], cuts[i + 1] - cuts[i]);
        for (int pool = POOL_C4; pool <= POOL_C128; pool++) {
            const uint32_t closed = cuts[i + 1] / g.pools[pool].ratio;

            for (uint32_t row = 0; row < g.pools[pool].rows; row++)
                assert_int_equal(rows_differ(&g, (pool_kind_t)pool, &source, 1, &target, 4, row) ==
                                     0,
                                 row < closed);
        }
        assert_int_equal(
            digest_page_open(&g, &target.layout, target.bytes, page_at(4), cuts[i + 1]),
            digest_page_open(&g, &source.layout, source.bytes, page_at(1), cuts[i + 1]));
    }
    assert_int_equal(units_differ(&g, &source, from, &target, to), 0);
    free(source.bytes);
    free(target.bytes);
}

/* Token t's mark, for rows of a ring or a border. */
static float mark(uint32_t layer, uint32_t token, uint32_t channel)
{
    return (float)(layer * 1000000 + token * 1000 + channel);
}

static void write_marks(const geometry_t *g, block_t *block, pool_kind_t pool, uint32_t item,
                        uint32_t first, uint32_t last)
{
    for (uint32_t token = first; token < last; token++) {
        for (uint32_t index = 0; index < g->pools[pool].layer_count; index++) {
            float *row = (float *)(void *)row_of(g, block, pool, index, item,
                                                 token % g->pools[pool].rows, false);

            for (uint32_t i = 0; i < g->pools[pool].channels; i++)
                row[i] = mark(index, token, i);
        }
    }
}

static void expect_marks(const geometry_t *g, const block_t *block, pool_kind_t pool, uint32_t item,
                         uint32_t row, uint32_t token, uint32_t to, uint32_t from, uint32_t count)
{
    for (uint32_t index = 0; index < g->pools[pool].layer_count; index++) {
        const float *numbers =
            (const float *)(const void *)row_of(g, block, pool, index, item, row, false);

        for (uint32_t i = 0; i < count; i++)
            assert_true(numbers[to + i] == mark(index, token, from + i));
    }
}

/* The border is where geometry.h says; and the slot taken from it is as the one it was kept from. */
static void keep_and_take(uint32_t end, uint32_t speculation)
{
    geometry_config_t config = config_tiny();
    geometry_t g;
    block_t block;
    copy_item_t items[COPY_UNIT_ITEMS_MAX];
    copy_list_t list;
    const uint32_t w = config.head_dim, v = config.index_head_dim;

    config.cache_form = config.index_form = FORM_FLOAT32;
    config.speculation_tokens = speculation;
    g = geometry_make(&config);
    block = block_make(&g, LAYOUT_LAYER_FIRST);
    write_marks(&g, &block, POOL_SLOT_WINDOW, 0, end - 128, end);
    write_marks(&g, &block, POOL_SLOT_C4, 0, end - 8, end);
    write_marks(&g, &block, POOL_SLOT_C4_INDEX, 0, end - 8, end);

    copy_list_init(&list, items, COPY_UNIT_ITEMS_MAX, "keep");
    assert_int_equal(
        copy_plan_border_keep(&list, &g, &block.layout, slot_at(0), border_at(2), position_at(end)),
        STATUS_OK);
    assert_int_equal(
        copy_execute(&list, block.bytes, block.layout.bytes, block.bytes, block.layout.bytes),
        STATUS_OK);
    for (uint32_t row = 0; row < 128; row++)
        expect_marks(&g, &block, POOL_BORDER_WINDOW, 2, row, end - 128 + row, 0, 0, w);
    for (uint32_t row = 0; row < 4; row++) {
        expect_marks(&g, &block, POOL_BORDER_C4, 2, row, end - 4 + row, 0, 0, w);
        expect_marks(&g, &block, POOL_BORDER_C4, 2, row, end - 4 + row, w, 2 * w, w);
        expect_marks(&g, &block, POOL_BORDER_C4_INDEX, 2, row, end - 4 + row, v, 2 * v, v);
    }

    layout_slot_clear(&block.layout, &g, block.bytes, slot_at(1));
    copy_list_init(&list, items, COPY_UNIT_ITEMS_MAX, "take");
    assert_int_equal(
        copy_plan_border_take(&list, &g, &block.layout, border_at(2), slot_at(1), position_at(end)),
        STATUS_OK);
    assert_int_equal(
        copy_execute(&list, block.bytes, block.layout.bytes, block.bytes, block.layout.bytes),
        STATUS_OK);
    for (uint32_t token = end - 128; token < end; token++)
        expect_marks(&g, &block, POOL_SLOT_WINDOW, 1, token % geometry_ring_rows(&g), token, 0, 0,
                     w);
    for (uint32_t token = end - 4; token < end; token++) {
        const uint32_t row = token % g.pools[POOL_SLOT_C4].rows;

        expect_marks(&g, &block, POOL_SLOT_C4, 1, row, token, 0, 0, w);
        expect_marks(&g, &block, POOL_SLOT_C4, 1, row, token, 2 * w, 2 * w, w);
        expect_marks(&g, &block, POOL_SLOT_C4_INDEX, 1, row, token, 2 * v, 2 * v, v);
    }
    free(block.bytes);
}

static void test_border_is_kept_and_taken_at_every_turn_of_the_ring(void **state)
{
    (void)state;
    for (uint32_t page = 1; page <= 12; page++) {
        keep_and_take(page * PAGE_TOKENS, 0);
        keep_and_take(page * PAGE_TOKENS, 3);
    }
    keep_and_take(4095 * PAGE_TOKENS, 0);
}

static void test_plans_out_of_range_are_refused_by_name(void **state)
{
    geometry_config_t config = config_tiny(), other_config = config;
    const geometry_t g = geometry_make(&config);
    geometry_t other;
    block_t a = block_make(&g, LAYOUT_LAYER_FIRST), b = block_make(&g, LAYOUT_PAGE_FIRST);
    const unit_t page = unit_page(page_at(1)), border = unit_border(border_at(0));
    struct {
        copy_units_t units;
        const char *says;
    } bad[] = {
        {{&a.layout, &b.layout, unit_page(page_at(PAGES)), page, 0, 256},
         "source history 5 is out of range, the limit is 5"},
        {{&a.layout, &b.layout, page, unit_page(page_at(UNITS_NONE)), 0, 256},
         "target history 4294967295 is out of range, the limit is 5"},
        {{&a.layout, &b.layout, page, page, 128, 256}, "page 1: positions from 128, 256 of them"},
        {{&a.layout, &b.layout, page, page, UINT32_MAX, 2}, "leave a page of 256"},
        {{&a.layout, &b.layout, page, page, 2, UINT32_MAX}, "leave a page of 256"},
        {{&a.layout, &b.layout, page, border, 0, 256}, "a history does not fit a border"},
    };
    copy_item_t items[ITEMS];
    copy_list_t list;
    layout_t foreign;

    (void)state;
    copy_list_init(&list, items, ITEMS, "test");
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        trail_reset();
        assert_int_equal(copy_plan(&list, &g, &bad[i].units), STATUS_INVALID);
        assert_non_null(strstr(trail_text(), bad[i].says));
        assert_int_equal(list.count, 0);
    }
    other_config.cache_form = FORM_BF16;
    other = geometry_make(&other_config);
    assert_int_equal(layout_init(&foreign, &other, LAYOUT_LAYER_FIRST, counts), STATUS_OK);
    assert_int_equal(copy_plan(&list, &g, &(copy_units_t){&foreign, &b.layout, page, page, 0, 256}),
                     STATUS_MISMATCH);
    assert_int_equal(
        copy_plan_border_keep(&list, &g, &a.layout, slot_at(0), border_at(0), position_at(255)),
        STATUS_INVALID);
    assert_int_equal(
        copy_plan_border_keep(&list, &g, &a.layout, slot_at(SLOTS), border_at(0), position_at(256)),
        STATUS_INVALID);
    assert_int_equal(copy_plan_border_take(&list, &g, &a.layout, border_at(BORDERS), slot_at(0),
                                           position_at(256)),
                     STATUS_INVALID);
    free(a.bytes);
    free(b.bytes);
}

static void test_full_list_is_refused_and_left_as_it_was(void **state)
{
    geometry_config_t config = config_tiny();
    const geometry_t g = geometry_make(&config);
    block_t a = block_make(&g, LAYOUT_LAYER_FIRST), b = block_make(&g, LAYOUT_PAGE_FIRST);
    const copy_units_t units = {&a.layout, &b.layout, unit_page(page_at(1)), unit_page(page_at(2)),
                                0,         256};
    copy_item_t items[4], before[4];
    copy_list_t list;

    (void)state;
    copy_list_init(&list, items, 4, "test");
    assert_int_equal(copy_plan(&list, &g, &units), STATUS_OK);
    assert_int_equal(list.count, 3);
    memcpy(before, items, sizeof(before));
    assert_int_equal(copy_plan(&list, &g, &units), STATUS_TOO_LARGE);
    assert_int_equal(list.count, 3);
    assert_memory_equal(before, items, 3 * sizeof(items[0]));
    assert_int_equal(
        copy_plan_border_keep(&list, &g, &a.layout, slot_at(0), border_at(0), position_at(256)),
        STATUS_TOO_LARGE);
    assert_int_equal(list.count, 3);
    free(a.bytes);
    free(b.bytes);
}

static void test_no_byte_moves_before_all_runs_are_checked(void **state)
{
    unsigned char source[64], target[64] = {0}, clean[64] = {0};
    const copy_item_t bad[] = {
        {.source = 60, .target = 0, .bytes = 5, .count = 1},
        {.source = 0, .target = 60, .bytes = 5, .count = 1},
        {.source = 0, .target = 0, .bytes = 8, .count = 9, .source_stride = 8},
        {.source = 0, .target = 0, .bytes = 8, .count = 9, .target_stride = 8},
        {.source = UINT64_MAX, .target = 0, .bytes = 2, .count = 1},
        {.source = 0, .target = 0, .bytes = UINT64_MAX, .count = 1},
        {.bytes = 1, .count = UINT32_MAX, .source_stride = UINT64_MAX / 2},
        {.bytes = 1, .count = 3, .target_stride = UINT64_MAX / 2 + 1},
    };

    (void)state;
    memset(source, 7, sizeof(source));
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        copy_item_t items[2] = {{.bytes = 16, .count = 1}, bad[i]};
        const copy_list_t list = {.items = items, .count = 2, .items_max = 2, .op = "test"};

        items[1].pool = POOL_C128;
        items[1].number = 4711;
        trail_reset();
        assert_int_equal(copy_execute(&list, source, 64, target, 64), STATUS_INVALID);
        assert_non_null(strstr(trail_text(), "pool c128"));
        assert_non_null(strstr(trail_text(), "unit 4711"));
        assert_non_null(strstr(trail_text(), "limit is 64"));
        assert_memory_equal(target, clean, 64);
    }
}

static void test_lists_of_any_length_and_alignment(void **state)
{
    enum { MANY = 65536 };
    copy_item_t *items = calloc(MANY, sizeof(*items));
    unsigned char *source = malloc(4 * MANY + 3), *target = calloc(1, 4 * MANY + 3);
    copy_list_t list;

    (void)state;
    for (uint32_t i = 0; i < 4 * MANY + 3; i++)
        source[i] = (unsigned char)(i * 31 + i / 256);
    copy_list_init(&list, items, MANY, "test");
    assert_int_equal(copy_execute(&list, source, 0, target, 0), STATUS_OK); /* empty */
    items[0] = (copy_item_t){.source = 1, .target = 3, .bytes = 7, .count = 1};
    list.count = 1;
    assert_int_equal(copy_execute(&list, source, 8, target, 10), STATUS_OK); /* unaligned */
    assert_memory_equal(target + 3, source + 1, 7);
    items[0].bytes = 0; /* an item without bytes */
    assert_int_equal(copy_execute(&list, source, 8, target, 10), STATUS_OK);
    for (uint32_t i = 0; i < MANY; i++) /* all of it, backwards and by three unaligned bytes */
        items[i] = (copy_item_t){.source = 4 * (uint64_t)(MANY - 1 - i) + 1,
                                 .target = 4 * (uint64_t)(MANY - 1 - i) + 3,
                                 .bytes = 4,
                                 .count = 1};
    list.count = MANY;
    assert_int_equal(copy_bytes(&list), 4 * MANY);
    assert_int_equal(copy_execute(&list, source, 4 * MANY + 1, target, 4 * MANY + 3), STATUS_OK);
    assert_memory_equal(target + 3, source + 1, 4 * MANY);
    free(items);
    free(source);
    free(target);
}

static void test_stream_copies_every_length_and_alignment(void **state)
{
    enum { ROOM = 2048 };
    unsigned char source[ROOM], target[ROOM], expected[ROOM];

    (void)state;
    for (int i = 0; i < ROOM; i++)
        source[i] = (unsigned char)random_at(11, (uint64_t)i);
    for (int level = ISA_SCALAR; level < ISA_COUNT; level++) {
        isa_cap_set((isa_t)level);
        for (size_t bytes = 0; bytes < 1600; bytes += 1 + bytes / 7) {
            for (size_t shift = 0; shift < 70; shift += 9) {
                memset(target, 0xaa, ROOM);
                memset(expected, 0xaa, ROOM);
                memcpy(expected + shift, source + 2 * shift, bytes);
                stream_copy(target + shift, source + 2 * shift, bytes, shift > 9 ? source : NULL);
                stream_end();
                assert_memory_equal(target, expected, ROOM);
            }
        }
    }
    isa_cap_set(ISA_AVX512);
}

static void test_long_strided_lists_arrive_whole(void **state)
{
    enum { RUNS = 40, RUN = 40001, STRIDE = RUN + 5 };
    unsigned char *source = malloc(RUNS * STRIDE), *target = calloc(RUNS, STRIDE);
    copy_item_t item = {.source = 2, .target = 1, .bytes = RUN, .count = RUNS};
    const copy_list_t list = {.items = &item, .count = 1, .items_max = 1, .op = "test"};

    (void)state;
    for (uint32_t i = 0; i < RUNS * STRIDE; i++)
        source[i] = (unsigned char)(i * 7 + i / 251);
    item.source_stride = STRIDE;
    item.target_stride = RUN + 3;
    assert_int_equal(copy_execute(&list, source, RUNS * STRIDE, target, RUNS * STRIDE), STATUS_OK);
    for (uint32_t run = 0; run < RUNS; run++) {
        const unsigned char *at = target + 1 + run * (RUN + 3);

        assert_memory_equal(at, source + 2 + run * STRIDE, RUN);
        assert_int_equal(at[-1] | at[RUN] | at[RUN + 1], 0); /* nothing between the runs */
    }
    free(source);
    free(target);
}

static void test_runs_that_touch_are_merged(void **state)
{
    geometry_config_t config = config_flash();
    const geometry_t g = geometry_make(&config);
    layout_t device, host;
    copy_item_t items[ITEMS];
    copy_list_t list;

    (void)state;
    assert_int_equal(layout_init(&device, &g, LAYOUT_LAYER_FIRST, counts), STATUS_OK);
    assert_int_equal(layout_init(&host, &g, LAYOUT_PAGE_FIRST, counts), STATUS_OK);
    copy_list_init(&list, items, ITEMS, "test"); /* page-first to page-first: one run */
    assert_int_equal(copy_plan(&list, &g,
                               &(copy_units_t){&host, &host, unit_page(page_at(0)),
                                               unit_page(page_at(1)), 0, 256}),
                     STATUS_OK);
    assert_int_equal(list.count, 1);
    assert_int_equal(items[0].bytes, 998208);
    assert_int_equal(copy_plan(&list, &g,
                               &(copy_units_t){&host, &host, unit_page(page_at(1)),
                                               unit_page(page_at(2)), 0, 256}),
                     STATUS_OK);
    assert_int_equal(list.count, 1);
    assert_int_equal(items[0].bytes, 2 * 998208);
    copy_list_init(&list, items, ITEMS, "test"); /* layer-first: one item per pool */
    assert_int_equal(copy_plan(&list, &g,
                               &(copy_units_t){&device, &host, unit_page(page_at(3)),
                                               unit_page(page_at(1)), 0, 256}),
                     STATUS_OK);
    assert_int_equal(list.count, 3);
    assert_int_equal(items[0].count, 21);
    assert_int_equal(items[0].bytes, 37440);
    assert_int_equal(items[0].source_stride, PAGES * 37440);
    assert_int_equal(items[0].target_stride, 37440);
}

static void note_path(void *context, const copy_path_t *path)
{
    FILE *out = context;

    fprintf(out, "%s %s %s>%s %s %u page %u\n", pool_kind_name(path->pool), path->op,
            layout_order_name(path->source_order), layout_order_name(path->target_order),
            path->granularity == COPY_WHOLE ? "whole" : "entries", path->entries, path->page);
}

static void test_probe_is_told_which_path_ran(void **state)
{
    geometry_config_t config = config_tiny();
    const geometry_t g = geometry_make(&config);
    block_t a = block_make(&g, LAYOUT_LAYER_FIRST), b = block_make(&g, LAYOUT_PAGE_FIRST);
    char text[1024] = "";
    copy_item_t items[ITEMS];
    copy_list_t list;

    (void)state;
    copy_list_init(&list, items, ITEMS, "backup");
    list.probe = note_path;
    list.probe_context = fmemopen(text, sizeof(text), "w");
    assert_int_equal(copy_plan(&list, &g,
                               &(copy_units_t){&a.layout, &b.layout, unit_page(page_at(1)),
                                               unit_page(page_at(2)), 0, 256}),
                     STATUS_OK);
    assert_int_equal(copy_plan(&list, &g,
                               &(copy_units_t){&b.layout, &a.layout, unit_page(page_at(2)),
                                               unit_page(page_at(1)), 4, 8}),
                     STATUS_OK);
    fclose(list.probe_context);
    assert_string_equal(text, "c4 backup layer_first>page_first whole 64 page 2\n"
                              "c4_index backup layer_first>page_first whole 64 page 2\n"
                              "c128 backup layer_first>page_first whole 2 page 2\n"
                              "c4 backup page_first>layer_first entries 2 page 1\n"
                              "c4_index backup page_first>layer_first entries 2 page 1\n");
    free(a.bytes);
    free(b.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_layout_pair_round_trips),
        cmocka_unit_test(test_model_without_history_copies_nothing),
        cmocka_unit_test(test_entry_ranges_add_up_to_the_page),
        cmocka_unit_test(test_border_is_kept_and_taken_at_every_turn_of_the_ring),
        cmocka_unit_test(test_plans_out_of_range_are_refused_by_name),
        cmocka_unit_test(test_full_list_is_refused_and_left_as_it_was),
        cmocka_unit_test(test_no_byte_moves_before_all_runs_are_checked),
        cmocka_unit_test(test_lists_of_any_length_and_alignment),
        cmocka_unit_test(test_stream_copies_every_length_and_alignment),
        cmocka_unit_test(test_long_strided_lists_arrive_whole),
        cmocka_unit_test(test_runs_that_touch_are_merged),
        cmocka_unit_test(test_probe_is_told_which_path_ran),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
