/* The table, built in one pass over the pools: which layers, what a row is, how many rows, then
 * sizes and offsets.
 *
 * A border is self-contained, that is, a page's end needs nothing but its own border and the
 * history before it, because
 * 1. the page is a multiple of 128: no ratio-128 entry is open at its end (limits.h asserts it);
 * 2. the page is a multiple of 4: no ratio-4 block is open, only the previous halves live on;
 * 3. the page is at least as long as the window, which so lies in it; checked here, since the
 *    window is the model's.
 */
#include "cache/geometry.h"

#include <string.h>

#include "cache/digest.h"
#include "kernels/format.h"

_Static_assert(PAGE_TOKENS % 128 == 0, "no ratio-128 entry is open at a page's end");
_Static_assert(PAGE_TOKENS % 4 == 0, "no ratio-4 block is open at a page's end");

enum {
    C4_RATIO = 4,
    C128_RATIO = 128,
    STATE_C4_PARTS = 4,     /* kv and score, two halves each */
    STATE_BORDER_PARTS = 2, /* kv and score, the first half */
    STATE_C128_PARTS = 3,   /* max, sum, weighted */
    STATE_BLOCKS = 2        /* previous and current */
};

typedef struct {
    const char *name;
    unit_kind_t unit;
    uint32_t ratio; /* layers of this ratio are covered; 0: all layers */
} pool_description_t;

static const pool_description_t descriptions[POOL_COUNT] = {
    [POOL_C4] = {"c4", UNIT_HISTORY, C4_RATIO},
    [POOL_C4_INDEX] = {"c4_index", UNIT_HISTORY, C4_RATIO},
    [POOL_C128] = {"c128", UNIT_HISTORY, C128_RATIO},
    [POOL_BORDER_WINDOW] = {"border_window", UNIT_BORDER, 0},
    [POOL_BORDER_C4] = {"border_c4", UNIT_BORDER, C4_RATIO},
    [POOL_BORDER_C4_INDEX] = {"border_c4_index", UNIT_BORDER, C4_RATIO},
    [POOL_SLOT_WINDOW] = {"slot_window", UNIT_SLOT, 0},
    [POOL_SLOT_C4] = {"slot_c4", UNIT_SLOT, C4_RATIO},
    [POOL_SLOT_C4_INDEX] = {"slot_c4_index", UNIT_SLOT, C4_RATIO},
    [POOL_SLOT_C128] = {"slot_c128", UNIT_SLOT, C128_RATIO},
};

static const char *const unit_names[UNIT_COUNT] = {"history", "border", "slot"};
static const char *const form_names[FORM_COUNT] = {"float32", "bf16", "fp8", "fp8_row", "fp4"};

const char *unit_kind_name(unit_kind_t unit)
{
    return (unsigned)unit < UNIT_COUNT ? unit_names[unit] : "?";
}

const char *pool_kind_name(pool_kind_t pool)
{
    return (unsigned)pool < POOL_COUNT ? descriptions[pool].name : "?";
}

const char *geometry_form_name(geometry_form_t form)
{
    return (unsigned)form < FORM_COUNT ? form_names[form] : "?";
}

void geometry_config_init(geometry_config_t *config)
{
    *config = (geometry_config_t){
        .window = 128,
        .cache_form = FORM_FP8_BLOCKS,
        .index_form = FORM_FP4_BLOCKS,
        .overlap_rows = STEPS_AHEAD_MAX - 1,
    };
}

static status_t check_sizes(const geometry_config_t *c)
{
    if (c->layers == 0 || c->layers > GEOMETRY_LAYERS_MAX ||
        c->draft_layers > GEOMETRY_LAYERS_MAX - c->layers)
        return FAIL(STATUS_TOO_LARGE, "%u layers and %u drafting blocks; 1 to %d are possible",
                    c->layers, c->draft_layers, GEOMETRY_LAYERS_MAX);
    if (c->head_dim == 0 || c->head_dim > GEOMETRY_DIM_MAX)
        return FAIL(STATUS_TOO_LARGE, "head_dim %u; 1 to %d are possible", c->head_dim,
                    GEOMETRY_DIM_MAX);
    if (c->rope_dim > c->head_dim)
        return FAIL(STATUS_INVALID, "rope_dim %u is larger than head_dim %u", c->rope_dim,
                    c->head_dim);
    if (c->window == 0 || c->window > GEOMETRY_WINDOW_MAX)
        return FAIL(STATUS_TOO_LARGE, "window %u; 1 to %d are possible", c->window,
                    GEOMETRY_WINDOW_MAX);
    if (c->window > PAGE_TOKENS)
        return FAIL(STATUS_UNSUPPORTED,
                    "window %u: a page of %d tokens would not hold it, so a page's end would need "
                    "the page before it",
                    c->window, PAGE_TOKENS);
    if (c->speculation_tokens > GEOMETRY_SPECULATION_MAX)
        return FAIL(STATUS_TOO_LARGE, "%u drafted tokens; %d are possible", c->speculation_tokens,
                    GEOMETRY_SPECULATION_MAX);
    if (c->overlap_rows > GEOMETRY_WINDOW_MAX)
        return FAIL(STATUS_TOO_LARGE, "%u overlap rows; %d are possible", c->overlap_rows,
                    GEOMETRY_WINDOW_MAX);
    return STATUS_OK;
}

static status_t check_forms(const geometry_config_t *c)
{
    bool indexed = false;

    for (uint32_t i = 0; i < c->layers + c->draft_layers; i++) {
        if (c->ratios[i] != 0 && c->ratios[i] != C4_RATIO && c->ratios[i] != C128_RATIO)
            return FAIL(STATUS_UNSUPPORTED, "layer %u has compress ratio %u; 0, 4, 128 are known",
                        i, c->ratios[i]);
        if (i >= c->layers && c->ratios[i] != 0)
            return FAIL(STATUS_UNSUPPORTED,
                        "drafting block %u has compress ratio %u; only 0 is known", i - c->layers,
                        c->ratios[i]);
        indexed = indexed || c->ratios[i] == C4_RATIO;
    }
    if (c->cache_form != FORM_FLOAT32 && c->cache_form != FORM_BF16 &&
        c->cache_form != FORM_FP8_BLOCKS)
        return FAIL(STATUS_UNSUPPORTED, "cache form %s; float32, bf16 and fp8 are possible",
                    geometry_form_name(c->cache_form));
    if (c->cache_form == FORM_FP8_BLOCKS && (c->head_dim - c->rope_dim) % GEOMETRY_FP8_BLOCK != 0)
        return FAIL(STATUS_UNSUPPORTED,
                    "head_dim %u without rope_dim %u is no multiple of %d, as fp8 wants",
                    c->head_dim, c->rope_dim, GEOMETRY_FP8_BLOCK);
    if (c->index_form != FORM_FLOAT32 && c->index_form != FORM_BF16 &&
        c->index_form != FORM_FP8_ROW && c->index_form != FORM_FP4_BLOCKS)
        return FAIL(STATUS_UNSUPPORTED,
                    "index form %s; float32, bf16, fp8_row and fp4 are possible",
                    geometry_form_name(c->index_form));
    if (indexed && (c->index_head_dim == 0 || c->index_head_dim > GEOMETRY_DIM_MAX))
        return FAIL(STATUS_TOO_LARGE, "index_head_dim %u; 1 to %d are possible", c->index_head_dim,
                    GEOMETRY_DIM_MAX);
    if (indexed && c->index_form == FORM_FP4_BLOCKS && c->index_head_dim % GEOMETRY_FP4_BLOCK != 0)
        return FAIL(STATUS_UNSUPPORTED, "index_head_dim %u is no multiple of %d, as fp4 wants",
                    c->index_head_dim, GEOMETRY_FP4_BLOCK);
    return STATUS_OK;
}

static uint32_t round_up(uint32_t n, uint32_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Form, channels and rows of a pool. */
static void pool_shape(geometry_pool_t *pool, pool_kind_t kind, const geometry_config_t *c)
{
    /* Rejected drafts give rows back, so the rings are longer by the tokens that may be drafted. */
    const uint32_t state_rows =
        (uint32_t)C4_RATIO * STATE_BLOCKS + round_up(c->speculation_tokens, C4_RATIO);
    const struct {
        geometry_form_t form;
        uint32_t channels, rows, ratio;
    } shapes[POOL_COUNT] = {
        [POOL_C4] = {c->cache_form, c->head_dim, PAGE_TOKENS / C4_RATIO, C4_RATIO},
        [POOL_C4_INDEX] = {c->index_form, c->index_head_dim, PAGE_TOKENS / C4_RATIO, C4_RATIO},
        [POOL_C128] = {c->cache_form, c->head_dim, PAGE_TOKENS / C128_RATIO, C128_RATIO},
        [POOL_BORDER_WINDOW] = {c->cache_form, c->head_dim, c->window, 1},
        [POOL_BORDER_C4] = {FORM_FLOAT32, c->head_dim * STATE_BORDER_PARTS, C4_RATIO, 1},
        [POOL_BORDER_C4_INDEX] = {FORM_FLOAT32, c->index_head_dim * STATE_BORDER_PARTS, C4_RATIO,
                                  1},
        [POOL_SLOT_WINDOW] = {c->cache_form, c->head_dim,
                              c->window + c->overlap_rows + c->speculation_tokens, 1},
        [POOL_SLOT_C4] = {FORM_FLOAT32, c->head_dim * STATE_C4_PARTS, state_rows, 1},
        [POOL_SLOT_C4_INDEX] = {FORM_FLOAT32, c->index_head_dim * STATE_C4_PARTS, state_rows, 1},
        [POOL_SLOT_C128] = {FORM_FLOAT32, c->head_dim * STATE_C128_PARTS, 1 + c->speculation_tokens,
                            1},
    };

    pool->unit = descriptions[kind].unit;
    pool->form = shapes[kind].form;
    pool->channels = shapes[kind].channels;
    pool->rows = shapes[kind].rows;
    pool->ratio = shapes[kind].ratio;
}

static void pool_layers(geometry_pool_t *pool, pool_kind_t kind, const geometry_config_t *c)
{
    const uint32_t ratio = descriptions[kind].ratio;

    for (uint32_t layer = 0; layer < GEOMETRY_LAYERS_MAX; layer++) {
        const bool covered =
            layer < c->layers + c->draft_layers && (ratio == 0 || c->ratios[layer] == ratio);

        pool->index[layer] = covered ? (int16_t)pool->layer_count : -1;
        if (covered)
            pool->layers[pool->layer_count++] = (uint16_t)layer;
    }
}

/* Sizes of a row and a part; what a packed row is, kernels/format.h says. Bounded by the limits
 * above: no product exceeds 32 bits. */
static void pool_sizes(geometry_pool_t *pool, uint32_t rope_dim)
{
    format_page_t page = {.rows = pool->rows};

    switch (pool->form) {
    case FORM_FLOAT32:
        page.data_bytes = pool->channels * 4;
        page.page_bytes = (uint64_t)pool->rows * page.data_bytes;
        break;
    case FORM_BF16:
        page.data_bytes = pool->channels * 2;
        page.page_bytes = (uint64_t)pool->rows * page.data_bytes;
        break;
    case FORM_FP8_BLOCKS:
        page = format_page_packed(pool->rows, pool->channels, rope_dim);
        break;
    case FORM_FP8_ROW:
        page = format_page_index_fp8(pool->rows, pool->channels);
        break;
    case FORM_FP4_BLOCKS:
        page = format_page_index_fp4(pool->rows, pool->channels);
        break;
    case FORM_COUNT:
        ASSERT(false);
    }
    pool->data_bytes = page.data_bytes;
    pool->scale_bytes = page.scale_bytes;
    pool->raw_bytes = pool->rows * (pool->data_bytes + pool->scale_bytes);
    pool->part_bytes = (uint32_t)page.page_bytes;
    pool->stride = round_up(pool->part_bytes, GEOMETRY_ALIGN);
}

status_t geometry_init(geometry_t *g, const geometry_config_t *config)
{
    geometry_t made = {.config = *config};
    char text[GEOMETRY_TEXT_MAX];

    TRY(check_sizes(config));
    TRY(check_forms(config));
    for (int kind = 0; kind < POOL_COUNT; kind++) {
        geometry_pool_t *pool = &made.pools[kind];

        pool_shape(pool, (pool_kind_t)kind, config);
        pool_layers(pool, (pool_kind_t)kind, config);
        if (pool->layer_count > 0)
            pool_sizes(pool, config->rope_dim);
        if (pool->data_bytes % 8 != 0)
            return FAIL(STATUS_UNSUPPORTED, "pool %s: rows of %u bytes are not whole 8-byte words",
                        descriptions[kind].name, pool->data_bytes);
        pool->unit_offset = made.unit_bytes[pool->unit];
        made.unit_bytes[pool->unit] += (uint64_t)pool->layer_count * pool->stride;
        made.unit_raw_bytes[pool->unit] += (uint64_t)pool->layer_count * pool->raw_bytes;
    }
    made.digest = digest_bytes(text, geometry_text(&made, text), 0);
    *g = made;
    return STATUS_OK;
}

bool geometry_covers(const geometry_t *g, pool_kind_t pool, uint32_t layer)
{
    ASSERT((unsigned)pool < POOL_COUNT);
    return layer < GEOMETRY_LAYERS_MAX && g->pools[pool].index[layer] >= 0;
}

uint32_t geometry_index(const geometry_t *g, pool_kind_t pool, uint32_t layer)
{
    ASSERT(geometry_covers(g, pool, layer));
    return (uint32_t)g->pools[pool].index[layer];
}

uint32_t geometry_ring_rows(const geometry_t *g)
{
    return g->pools[POOL_SLOT_WINDOW].rows;
}

size_t geometry_text(const geometry_t *g, char text[GEOMETRY_TEXT_MAX])
{
    FILE *out = fmemopen(text, GEOMETRY_TEXT_MAX, "w");
    long length;

    ASSERT(out != NULL);
    fprintf(out, "lockstep geometry 1, page %d, window %u\n", PAGE_TOKENS, g->config.window);
    for (int kind = 0; kind < POOL_COUNT; kind++) {
        const geometry_pool_t *pool = &g->pools[kind];

        fprintf(out, "%s %s %s rows %u channels %u data %u scale %u raw %u part %u at %llu layers",
                unit_kind_name(pool->unit), pool_kind_name((pool_kind_t)kind),
                geometry_form_name(pool->form), pool->rows, pool->channels, pool->data_bytes,
                pool->scale_bytes, pool->raw_bytes, pool->part_bytes,
                (unsigned long long)pool->unit_offset);
        for (uint32_t i = 0; i < pool->layer_count; i++)
            fprintf(out, " %u", pool->layers[i]);
        fprintf(out, "\n");
    }
    length = ftell(out);
    fclose(out);
    ASSERT(length > 0 && length < GEOMETRY_TEXT_MAX);
    return (size_t)length;
}

void geometry_print(const geometry_t *g, FILE *out)
{
    fprintf(out, "%-8s %-16s %-8s %6s %5s %6s %6s %10s %10s %12s\n", "unit", "pool", "form",
            "layers", "rows", "data", "scale", "raw", "part", "bytes");
    for (int unit = 0; unit < UNIT_COUNT; unit++) {
        for (int kind = 0; kind < POOL_COUNT; kind++) {
            const geometry_pool_t *pool = &g->pools[kind];

            if (pool->unit != (unit_kind_t)unit || pool->layer_count == 0)
                continue;
            fprintf(out, "%-8s %-16s %-8s %6u %5u %6u %6u %10u %10u %12llu\n",
                    unit_kind_name(pool->unit), pool_kind_name((pool_kind_t)kind),
                    geometry_form_name(pool->form), pool->layer_count, pool->rows, pool->data_bytes,
                    pool->scale_bytes, pool->raw_bytes, pool->part_bytes,
                    (unsigned long long)pool->layer_count * pool->stride);
        }
        fprintf(out, "%-8s %-16s %73llu\n", unit_kind_name((unit_kind_t)unit), "= one unit",
                (unsigned long long)g->unit_bytes[unit]);
    }
    fprintf(out, "a page is %d tokens, %.1f bytes a token; geometry digest %016llx\n", PAGE_TOKENS,
            (double)g->unit_bytes[UNIT_HISTORY] / PAGE_TOKENS, (unsigned long long)g->digest);
}
