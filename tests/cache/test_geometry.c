#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/geometry.h"
#include "cache/layout.h"
#include "tests/cache/configs.h"

static void test_flash_units_have_the_designs_bytes(void **state)
{
    geometry_config_t config = config_flash();
    geometry_t g = geometry_make(&config);
    const geometry_pool_t *window = &g.pools[POOL_BORDER_WINDOW];

    (void)state;
    assert_int_equal(g.unit_bytes[UNIT_HISTORY], 998208);
    assert_int_equal(g.pools[POOL_C4].layer_count, 21);
    assert_int_equal(g.pools[POOL_C4_INDEX].layer_count, 21);
    assert_int_equal(g.pools[POOL_C128].layer_count, 20);
    assert_int_equal(window->layer_count, 43);
    assert_int_equal((uint64_t)window->layer_count * window->raw_bytes, 3214336);
    assert_int_equal(g.unit_raw_bytes[UNIT_BORDER] - 3214336, 430080);
    /* 129 ring rows; the states as in facts 5.1: 1,376,256 + 344,064 + 20 * 6,144 */
    assert_int_equal(geometry_ring_rows(&g), 129);
    assert_int_equal(g.unit_raw_bytes[UNIT_SLOT], 43 * 129 * 584 + 1376256 + 344064 + 122880);
    assert_in_range(g.unit_bytes[UNIT_SLOT], 5050000, 5149999);
}

static void test_parts_have_the_published_page_sizes(void **state)
{
    geometry_config_t config = config_flash();
    geometry_t g = geometry_make(&config);

    (void)state;
    assert_int_equal(g.pools[POOL_C4].data_bytes, 576);
    assert_int_equal(g.pools[POOL_C4].scale_bytes, 8);
    assert_int_equal(g.pools[POOL_C4].raw_bytes, 37376);
    assert_int_equal(g.pools[POOL_C4].part_bytes, 37440);
    assert_int_equal(g.pools[POOL_C128].raw_bytes, 1168);
    assert_int_equal(g.pools[POOL_C128].part_bytes, 1728);
    assert_int_equal(g.pools[POOL_C4_INDEX].part_bytes, 8448);
    config.index_form = FORM_FP4_BLOCKS;
    g = geometry_make(&config);
    assert_int_equal(g.pools[POOL_C4_INDEX].part_bytes, 4352);
    config.window = 256; /* a part of 256 rows, as the golden page */
    config.overlap_rows = 0;
    g = geometry_make(&config);
    assert_int_equal(g.pools[POOL_SLOT_WINDOW].raw_bytes, 149504);
    assert_int_equal(g.pools[POOL_SLOT_WINDOW].part_bytes, 149760);
}

static void test_rows_of_other_widths_have_the_golden_sizes(void **state)
{
    static const struct {
        uint32_t head_dim, data, scale, part;
    } rows[] = {{128, 192, 2, 12480}, {320, 384, 5, 24960}, {512, 576, 8, 37440}};
    static const uint16_t ratios[] = {4};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        geometry_config_t config = config_make(1, ratios, rows[i].head_dim);
        geometry_t g = geometry_make(&config);

        assert_int_equal(g.pools[POOL_C4].data_bytes, rows[i].data);
        assert_int_equal(g.pools[POOL_C4].scale_bytes, rows[i].scale);
        assert_int_equal(g.pools[POOL_C4].part_bytes, rows[i].part);
    }
}

static void test_wide_forms_have_no_scales(void **state)
{
    geometry_config_t config = config_tiny();
    geometry_t g;

    (void)state;
    config.cache_form = FORM_BF16;
    config.index_form = FORM_BF16;
    g = geometry_make(&config);
    assert_int_equal(g.pools[POOL_C4].data_bytes, 256);
    assert_int_equal(g.pools[POOL_C4].scale_bytes, 0);
    assert_int_equal(g.pools[POOL_C4].raw_bytes, g.pools[POOL_C4].stride);
    assert_int_equal(g.pools[POOL_C4_INDEX].data_bytes, 256);
    config.cache_form = FORM_FLOAT32;
    config.index_form = FORM_FLOAT32;
    g = geometry_make(&config);
    assert_int_equal(g.pools[POOL_BORDER_WINDOW].data_bytes, 512);
    assert_int_equal(g.pools[POOL_C4_INDEX].data_bytes, 512);
}

static void test_speculation_widens_every_ring(void **state)
{
    geometry_config_t config = config_tiny();
    geometry_t g;

    (void)state;
    config.speculation_tokens = 3;
    g = geometry_make(&config);
    assert_int_equal(g.pools[POOL_SLOT_WINDOW].rows, 128 + 1 + 3);
    assert_int_equal(g.pools[POOL_SLOT_C4].rows, 12);
    assert_int_equal(g.pools[POOL_SLOT_C4_INDEX].rows, 12);
    assert_int_equal(g.pools[POOL_SLOT_C128].rows, 4);
    assert_int_equal(g.pools[POOL_BORDER_C4].rows, 4);
}

static void test_drafting_blocks_have_windows_only(void **state)
{
    geometry_config_t config = config_tiny();
    geometry_t g;

    (void)state;
    config.draft_layers = 1;
    g = geometry_make(&config);
    assert_true(geometry_covers(&g, POOL_SLOT_WINDOW, 4));
    assert_true(geometry_covers(&g, POOL_BORDER_WINDOW, 4));
    assert_false(geometry_covers(&g, POOL_C4, 4));
    config.ratios[4] = 4;
    assert_int_equal(geometry_init(&g, &config), STATUS_UNSUPPORTED);
}

static void test_layers_far_apart_are_packed_and_found(void **state)
{
    geometry_config_t config = {0};
    geometry_t g;

    (void)state;
    geometry_config_init(&config);
    config.layers = 87;
    config.head_dim = 128;
    config.rope_dim = 64;
    config.index_head_dim = 128;
    config.ratios[0] = config.ratios[49] = config.ratios[86] = 4;
    g = geometry_make(&config);
    assert_int_equal(g.pools[POOL_C4].layer_count, 3);
    assert_int_equal(geometry_index(&g, POOL_C4, 86), 2);
    assert_int_equal(g.pools[POOL_C4].layers[1], 49);
    assert_false(geometry_covers(&g, POOL_C4, 1));
    assert_false(geometry_covers(&g, POOL_C4, UINT32_MAX));
    /* what is mirrored is the sum over the layers that produce it */
    assert_int_equal(g.unit_bytes[UNIT_HISTORY], 3 * (64 * 194 + 64 + 64 * 68));
}

static void test_shapes_that_cannot_be_served_are_refused_by_name(void **state)
{
    static const struct {
        size_t offset;
        uint32_t value;
        const char *says;
    } bad[] = {
        {offsetof(geometry_config_t, layers), 0, "layers"},
        {offsetof(geometry_config_t, layers), GEOMETRY_LAYERS_MAX + 1, "layers"},
        {offsetof(geometry_config_t, draft_layers), UINT32_MAX, "drafting"},
        {offsetof(geometry_config_t, head_dim), 0, "head_dim"},
        {offsetof(geometry_config_t, head_dim), 1u << 30, "head_dim"},
        {offsetof(geometry_config_t, head_dim), 160, "fp8"},
        {offsetof(geometry_config_t, rope_dim), 129, "rope_dim"},
        {offsetof(geometry_config_t, window), 0, "window"},
        {offsetof(geometry_config_t, window), PAGE_TOKENS + 1, "window"},
        {offsetof(geometry_config_t, window), UINT32_MAX, "window"},
        {offsetof(geometry_config_t, index_head_dim), 0, "index_head_dim"},
        {offsetof(geometry_config_t, index_head_dim), 40, "fp4"},
        {offsetof(geometry_config_t, overlap_rows), UINT32_MAX, "overlap"},
        {offsetof(geometry_config_t, speculation_tokens), UINT32_MAX, "drafted"},
        {offsetof(geometry_config_t, cache_form), FORM_FP4_BLOCKS, "cache form fp4"},
        {offsetof(geometry_config_t, cache_form), 77, "cache form ?"},
        {offsetof(geometry_config_t, index_form), FORM_FP8_BLOCKS, "index form fp8"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        geometry_config_t config = config_tiny();
        geometry_t g = {.digest = 7};

        memcpy((char *)&config + bad[i].offset, &bad[i].value, sizeof(bad[i].value));
        trail_reset();
        assert_int_not_equal(geometry_init(&g, &config), STATUS_OK);
        assert_non_null(strstr(trail_text(), bad[i].says));
        assert_int_equal(g.digest, 7);
    }
}

static void test_rows_that_are_no_whole_words_are_refused(void **state)
{
    geometry_config_t config = config_tiny();
    geometry_t g;

    (void)state;
    config.cache_form = FORM_BF16;
    config.head_dim = 131;
    assert_int_equal(geometry_init(&g, &config), STATUS_UNSUPPORTED);
    assert_non_null(strstr(trail_text(), "pool c4: rows of 262 bytes"));
}

static void test_unknown_ratio_is_refused_with_its_layer(void **state)
{
    geometry_config_t config = config_tiny();
    geometry_t g;

    (void)state;
    config.ratios[2] = 16;
    assert_int_equal(geometry_init(&g, &config), STATUS_UNSUPPORTED);
    assert_non_null(strstr(trail_text(), "layer 2 has compress ratio 16"));
}

static void test_digest_follows_every_figure(void **state)
{
    geometry_config_t base = config_tiny(), other;
    const uint64_t digest = geometry_make(&base).digest;

    (void)state;
    assert_int_equal(geometry_make(&base).digest, digest);
    other = base, other.cache_form = FORM_BF16;
    assert_int_not_equal(geometry_make(&other).digest, digest);
    other = base, other.index_form = FORM_FP8_ROW;
    assert_int_not_equal(geometry_make(&other).digest, digest);
    other = base, other.head_dim = 512;
    assert_int_not_equal(geometry_make(&other).digest, digest);
    other = base, other.window = 64;
    assert_int_not_equal(geometry_make(&other).digest, digest);
    other = base, other.ratios[3] = 128;
    assert_int_not_equal(geometry_make(&other).digest, digest);
    other = base, other.draft_layers = 1;
    assert_int_not_equal(geometry_make(&other).digest, digest);
    other = base, other.speculation_tokens = 1;
    assert_int_not_equal(geometry_make(&other).digest, digest);
    other = base, other.ratios[200] = 4; /* beyond the layers: no figure */
    assert_int_equal(geometry_make(&other).digest, digest);
}

static void test_table_shows_pools_and_sums(void **state)
{
    geometry_config_t config = config_flash();
    geometry_t g = geometry_make(&config);
    char text[8192] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    (void)state;
    geometry_print(&g, out);
    fclose(out);
    assert_non_null(strstr(text, "c4_index"));
    assert_non_null(strstr(text, "998208"));
    assert_non_null(strstr(text, "3899.2 bytes a token"));
}

static void test_largest_shape_fits_its_text(void **state)
{
    geometry_config_t config = config_tiny();
    char text[GEOMETRY_TEXT_MAX];
    geometry_t g;

    (void)state;
    config.layers = GEOMETRY_LAYERS_MAX;
    for (int i = 0; i < GEOMETRY_LAYERS_MAX; i++)
        config.ratios[i] = i == 0 ? 128 : 4;
    config.head_dim = GEOMETRY_DIM_MAX;
    g = geometry_make(&config);
    assert_in_range(geometry_text(&g, text), 4000, GEOMETRY_TEXT_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flash_units_have_the_designs_bytes),
        cmocka_unit_test(test_parts_have_the_published_page_sizes),
        cmocka_unit_test(test_rows_of_other_widths_have_the_golden_sizes),
        cmocka_unit_test(test_wide_forms_have_no_scales),
        cmocka_unit_test(test_speculation_widens_every_ring),
        cmocka_unit_test(test_drafting_blocks_have_windows_only),
        cmocka_unit_test(test_layers_far_apart_are_packed_and_found),
        cmocka_unit_test(test_shapes_that_cannot_be_served_are_refused_by_name),
        cmocka_unit_test(test_rows_that_are_no_whole_words_are_refused),
        cmocka_unit_test(test_unknown_ratio_is_refused_with_its_layer),
        cmocka_unit_test(test_digest_follows_every_figure),
        cmocka_unit_test(test_table_shows_pools_and_sums),
        cmocka_unit_test(test_largest_shape_fits_its_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
