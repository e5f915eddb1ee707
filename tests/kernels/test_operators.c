/* test_operators.c - every form of every operator computes the bits of its reference, at the edges
 * of its shapes.
 *
 * One table. A row builds inputs from a seed (values that repeat with no shape's period), runs one
 * operator through a table of forms and leaves its outputs in a buffer; the buffer of every
 * instruction set must equal the reference's, bit for bit. Accuracy is looked at where a form
 * cannot vouch for itself: tests/kernels/test_units.c and tests/golden.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/format.h"
#include "kernels/operators.h"
#include "runtime/base/random.h"
#if defined(OPERATORS_CUDA)
#include "tests/cuda/column.h"
#endif

enum { FLOATS_MAX = 1 << 19 };

typedef struct {
    random_t random;
    const uint32_t *shape;
    float *out; /* what is compared */
    size_t out_used;
    float *memory; /* inputs */
    size_t used;
} bench_t;

static float *floats(bench_t *b, size_t count, float scale)
{
    float *x = b->memory + b->used;

    b->used += (count + 15) / 16 * 16;
    assert_true(b->used <= FLOATS_MAX);
    for (size_t i = 0; i < count; i++)
        x[i] = ((float)random_unit(&b->random) * 2.0f - 1.0f) * scale;
    return x;
}

/* Bytes of the inputs' memory, of any kind. */
static void *bytes(bench_t *b, size_t count)
{
    return floats(b, count / sizeof(float) + 1, 0.0f);
}

static float *outputs(bench_t *b, size_t count)
{
    float *x = b->out + b->out_used;

    b->out_used += count;
    assert_true(b->out_used <= FLOATS_MAX);
    return x;
}

static void fill_codes(bench_t *b, uint8_t *codes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        codes[i] = (uint8_t)random_next(&b->random);
        if ((codes[i] & 0x7f) == 0x7f)
            codes[i] = 0;
    }
}

/* A packed matrix of any form; the caller frees. */
static void make_matrix(bench_t *b, uint32_t outputs_count, uint32_t inputs, weight_form_t form,
                        gemm_matrix_t *matrix)
{
    uint8_t *data = (uint8_t *)floats(b, (size_t)outputs_count * inputs, 1.0f);
    uint8_t *scale = (uint8_t *)floats(b, (size_t)outputs_count * (inputs / 16 + 1), 1.0f);
    bool e8m0 = form == WEIGHT_FP8_E8M0 || form == WEIGHT_MXFP4, fp8_float = form == WEIGHT_FP8_F32;

    if (form == WEIGHT_BF16)
        for (size_t i = 0; i < (size_t)outputs_count * inputs; i++) {
            uint16_t code = format_bf16_encode((float)random_unit(&b->random) - 0.5f);
            memcpy(data + 2 * i, &code, sizeof(code));
        }
    else if (form != WEIGHT_F32)
        fill_codes(b, data, (size_t)outputs_count * inputs);
    for (size_t i = 0; !fp8_float && i < (size_t)outputs_count * (inputs / 16 + 1); i++)
        scale[i] = (uint8_t)((e8m0 ? 120 : 0x20) + random_below(&b->random, 12));

    bool scaled = form != WEIGHT_F32 && form != WEIGHT_BF16;
    weight_t weight = weight_view(form, outputs_count, inputs, data, scaled ? scale : NULL,
                                  form == WEIGHT_NVFP4 ? 0.37f : 1.0f);
    assert_int_equal(gemm_pack(&weight, bytes(b, gemm_pack_bytes(&weight)), matrix), STATUS_OK);
}

/* shape: rows, outputs, inputs, weight form */
static void run_gemm(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], outputs_count = b->shape[1], inputs = b->shape[2];
    gemm_matrix_t matrix;

    make_matrix(b, outputs_count, inputs, (weight_form_t)b->shape[3], &matrix);
    o->gemm(&(gemm_t){rows, inputs + 3, outputs_count, floats(b, (size_t)rows * (inputs + 3), 1.0f),
                      &matrix, 0, gemm_panels(outputs_count),
                      outputs(b, (size_t)rows * outputs_count)});
}

/* shape: rows, outputs, inputs, weight form, groups by rows (else one more by columns). Runs in two
 * shares, the first of which ends within a group. */
static void run_gemm_groups(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], outputs_count = b->shape[1], inputs = b->shape[2];
    uint32_t groups = b->shape[4] ? b->shape[4] : 2;
    uint32_t *offsets = bytes(b, (groups + 1) * sizeof(*offsets));
    uint32_t panels = gemm_panels(outputs_count) * groups;
    gemm_matrix_t *matrices = bytes(b, groups * sizeof(*matrices));
    gemm_groups_t p = {.groups = groups, .rows = rows, .w = matrices};

    offsets[0] = 0;
    for (uint32_t g = 0; g < groups; g++) {
        make_matrix(b, outputs_count, inputs, (weight_form_t)b->shape[3], &matrices[g]);
        offsets[g + 1] = g + 1 == groups ? rows : offsets[g] + (g % 3) * rows / 8; /* some empty */
    }
    p.offsets = b->shape[4] ? offsets : NULL;
    p.x_group = p.offsets ? 0 : inputs;
    p.y_group = p.offsets ? 0 : outputs_count;
    p.x_stride = (p.offsets ? 1 : groups) * (size_t)inputs + 3;
    p.y_stride = (p.offsets ? 1 : groups) * (size_t)outputs_count;
    p.x = floats(b, rows * p.x_stride, 1.0f);
    p.y = outputs(b, rows * p.y_stride);
    p.panel_count = panels / 2 + 1;
    o->gemm_groups(&p);
    p.panel_first = p.panel_count;
    p.panel_count = panels - p.panel_first;
    o->gemm_groups(&p);
}

/* shape: rows, width, rows there are */
static void run_rows_gather(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], width = b->shape[1];
    uint32_t *sources = bytes(b, rows * sizeof(*sources));

    for (uint32_t j = 0; j < rows; j++)
        sources[j] = (uint32_t)random_below(&b->random, b->shape[2]);
    o->rows_gather(&(rows_gather_t){rows, width, floats(b, (size_t)b->shape[2] * width, 1.0f),
                                    sources, outputs(b, (size_t)rows * width)});
}

/* shape: rows, count, weighted */
static void run_rmsnorm(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], count = b->shape[1];
    o->rmsnorm(&(rmsnorm_t){
        rows, count, count + 1, count, floats(b, (size_t)rows * (count + 1), 3.0f),
        b->shape[2] ? floats(b, count, 1.0f) : NULL, 1e-6f, outputs(b, (size_t)rows * count)});
}

/* shape: rows, heads, channels, pairs, inverse */
static void run_rope(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], heads = b->shape[1], channels = b->shape[2], pairs = b->shape[3];
    size_t count = (size_t)rows * heads * channels;
    float *x = outputs(b, count), *turns = floats(b, (size_t)rows * 2 * pairs, 1.0f);

    memcpy(x, floats(b, count, 2.0f), count * sizeof(float));
    o->rope(&(rope_t){rows, heads, channels, pairs, (size_t)heads * channels, b->shape[4] != 0,
                      turns, x});
}

/* shape: rows, streams, hidden, rounds */
static void run_hyper_mix(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], s = b->shape[1], hidden = b->shape[2], rounds = b->shape[3];
    uint32_t width = rounds ? (2 + s) * s : s;
    hyper_mix_t p = {rows, s, hidden, rounds, .norm_eps = 1e-6f, .eps = 1e-6f};

    p.x = floats(b, (size_t)rows * s * hidden, 1.0f);
    p.raw = floats(b, (size_t)rows * width, 4.0f);
    p.base = floats(b, width, 1.0f);
    p.scale = floats(b, 3, 1.0f);
    p.pre = outputs(b, (size_t)rows * s);
    p.post = outputs(b, rounds ? (size_t)rows * s : 0);
    p.comb = outputs(b, rounds ? (size_t)rows * s * s : 0);
    o->hyper_mix(&p);
}

/* shape: rows, streams, hidden */
static void run_hyper_read(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], s = b->shape[1], hidden = b->shape[2];
    o->hyper_read(&(hyper_read_t){rows, s, hidden, floats(b, (size_t)rows * s * hidden, 1.0f),
                                  floats(b, (size_t)rows * s, 1.0f),
                                  outputs(b, (size_t)rows * hidden)});
}

static void run_hyper_write(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], s = b->shape[1], hidden = b->shape[2];
    size_t count = (size_t)rows * s * hidden;
    float *x = outputs(b, count);

    memcpy(x, floats(b, count, 1.0f), count * sizeof(float));
    o->hyper_write(&(hyper_write_t){rows, s, hidden, floats(b, (size_t)rows * hidden, 1.0f),
                                    floats(b, (size_t)rows * s, 1.0f),
                                    floats(b, (size_t)rows * s * s, 1.0f), x});
}

/* A step of a few slots, each at another place, with rings whose older rows are random. */
enum { ITEMS_MAX = 6, RING_ROWS = 9, PAGE_ROWS = 16, PAGES = 9 };

typedef struct {
    batch_item_t items[ITEMS_MAX];
    batch_border_t borders[ITEMS_MAX];
    uint32_t firsts[ITEMS_MAX], block_items[256], numbers[256];
    uint32_t positions[256];
    rows_place_t places[256];
    batch_t batch;
    batch_blocks_t blocks;
} step_t;

/* `count` tokens of each item, from positions that `spread` lies between. */
static void make_step(step_t *s, uint32_t items, uint32_t count, uint32_t spread, uint32_t ratio)
{
    uint32_t row = 0, blocks = 0;

    assert_true(items <= ITEMS_MAX);
    for (uint32_t i = 0; i < items; i++) {
        batch_item_t *item = &s->items[i];
        *item = (batch_item_t){
            .slot = items - 1 - i, .position = i * spread, .count = count + i % 2, .row = row};
        item->border = i;
        s->borders[i] = (batch_border_t){item->position + item->count - (item->count > 2), i};
        item->border_count = s->borders[i].end >= 4 && i % 3 != 1;
        s->firsts[i] = blocks;
        for (uint32_t n = item->position / ratio; n < (item->position + item->count) / ratio; n++) {
            s->block_items[blocks] = i;
            s->numbers[blocks] = n;
            s->places[blocks++] = (rows_place_t){i, n % PAGE_ROWS};
        }
        for (uint32_t m = 0; m < item->count; m++)
            s->positions[row++] = item->position + m;
    }
    s->batch = (batch_t){row, items, s->items, s->borders, s->positions, NULL};
    s->blocks =
        (batch_blocks_t){ratio, blocks, s->firsts, s->block_items, s->numbers, s->places, NULL};
}

/* `units` units of `rows` rows of `width` floats, with as many bytes of scales behind the rows. */
static rows_view_t view_of(float *memory, uint32_t rows, uint32_t width, uint32_t scale_bytes)
{
    size_t data = (size_t)rows * width * sizeof(float);

    return (rows_view_t){(uint8_t *)memory, (uint8_t *)memory + data,
                         data + (size_t)rows * scale_bytes, width * sizeof(float), scale_bytes};
}

/* Random rows that are also compared. */
static float *state(bench_t *b, size_t count)
{
    float *x = outputs(b, count);

    memcpy(x, floats(b, count, 2.0f), count * sizeof(float));
    return x;
}

/* shape: rows, ratio, channels */
static void run_compressor_bias(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], ratio = b->shape[1], channels = b->shape[2], positions[64];

    for (uint32_t m = 0; m < rows; m++)
        positions[m] = 3 + m * 5;
    o->compressor_bias(&(compressor_bias_t){rows, ratio, channels, positions,
                                            floats(b, (size_t)ratio * channels, 1.0f), channels + 3,
                                            state(b, (size_t)rows * (channels + 3))});
}

/* shape: channels, items, tokens of an item, positions between items, ratio */
static void run_compressor_fold(const operators_t *o, bench_t *b)
{
    static step_t s;
    uint32_t w = b->shape[0];
    compressor_fold_t p = {.batch = &s.batch, .blocks = &s.blocks, .channels = w};

    make_step(&s, b->shape[1], b->shape[2], b->shape[3], b->shape[4]);
    p.item_count = s.batch.item_count;
    p.step = floats(b, (size_t)s.batch.rows * 2 * w, 3.0f);
    p.ring_rows = RING_ROWS;
    float *ring = state(b, (size_t)s.batch.item_count * RING_ROWS * 3 * w);
    for (uint32_t r = 0; r < s.batch.item_count * RING_ROWS; r++) /* sums are positive */
        for (uint32_t c = 0; c < w; c++)
            ring[(size_t)r * 3 * w + w + c] = 1.0f + fabsf(ring[(size_t)r * 3 * w + w + c]);
    p.ring = view_of(ring, RING_ROWS, 3 * w, 0);
    p.entries = outputs(b, (size_t)s.blocks.count * w);
    o->compressor_fold(&p);
}

/* shape: channels, items, tokens of an item, positions between items */
static void run_compressor_overlap(const operators_t *o, bench_t *b)
{
    static step_t s;
    uint32_t w = b->shape[0];
    compressor_overlap_t p = {.batch = &s.batch, .blocks = &s.blocks, .channels = w};

    make_step(&s, b->shape[1], b->shape[2], b->shape[3], COMPRESSOR_OVERLAP);
    p.block_first = s.blocks.count > 2; /* a share that is not all */
    p.block_count = s.blocks.count - p.block_first;
    p.state.step = view_of(floats(b, (size_t)s.batch.rows * 4 * w, 5.0f), 0, 4 * w, 0);
    p.state.ring = view_of(floats(b, (size_t)s.batch.item_count * RING_ROWS * 4 * w, 5.0f),
                           RING_ROWS, 4 * w, 0);
    p.state.ring_rows = RING_ROWS;
    p.entries = outputs(b, (size_t)s.blocks.count * w);
    o->compressor_overlap(&p);
}

/* shape: width, items, tokens of an item, positions between items, parts of a border's row */
static void run_ring_keep(const operators_t *o, bench_t *b)
{
    static step_t s;
    uint32_t w = b->shape[0] * 4, parts = b->shape[4], scale = parts == 1 ? 8 : 0;
    ring_keep_t p = {.batch = &s.batch, .border_rows = 4, .parts = parts, .scale_bytes = scale};

    make_step(&s, b->shape[1], b->shape[2], b->shape[3], 4);
    p.item_count = s.batch.item_count;
    size_t step = (size_t)s.batch.rows * (w + scale / 4);
    p.state.step = view_of(floats(b, step, 1.0f), s.batch.rows, w, scale);
    p.state.ring =
        view_of(state(b, (size_t)p.item_count * RING_ROWS * (w + scale / 4)), RING_ROWS, w, scale);
    p.state.ring_rows = RING_ROWS;
    p.data_bytes = w * 4;
    p.border_bytes = p.data_bytes / parts;
    p.border = view_of(outputs(b, (size_t)ITEMS_MAX * 4 * (w + scale / 4)), 4, w / parts, scale);
    o->ring_keep(&p);
}

/* shape: rows, channels, form, with places */
static void run_rows_store(const operators_t *o, bench_t *b)
{
    enum { UNITS = 3, UNIT_ROWS = 24 };
    uint32_t rows = b->shape[0], channels = b->shape[1], width = channels + 8;
    rows_place_t places[UNIT_ROWS];
    rows_store_t p = {.rows = rows, .form = {(geometry_form_t)b->shape[2], channels, 0}};

    for (uint32_t j = 0; j < rows; j++)
        places[j] = (rows_place_t){j % UNITS, (j * 5 + 1) % UNIT_ROWS};
    p.places = b->shape[3] ? places : NULL;
    p.first = 2;
    p.x = floats(b, (size_t)rows * channels, 3.0f);
    float *memory = outputs(b, (size_t)UNITS * UNIT_ROWS * (width + 8));
    p.view = view_of(memory, UNIT_ROWS, width, 32);
    o->rows_store(&p);
}

/* shape: rows, channels, form */
static void run_rows_round(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], channels = b->shape[1];
    float *x = state(b, (size_t)rows * channels);

    o->rows_round(&(rows_round_t){rows, {(geometry_form_t)b->shape[2], channels, 0}, x});
    o->rows_scale(&(rows_scale_t){(size_t)rows * channels, 0.3f, x});
}

/* shape: rows, width, copies */
static void run_rows_embed(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], width = b->shape[1], copies = b->shape[2], tokens[64];
    weight_t table =
        weight_view(WEIGHT_F32, 50, width, floats(b, 50 * (size_t)width, 1.0f), NULL, 1.0f);

    for (uint32_t m = 0; m < rows; m++)
        tokens[m] = (uint32_t)random_below(&b->random, 50);
    o->rows_embed(
        &(rows_embed_t){rows, copies, &table, tokens, outputs(b, (size_t)rows * copies * width)});
}

/* Pages of the step's items, PAGE_ROWS entries of `channels` floats each, and which they are. */
static rows_view_t make_pages(bench_t *b, step_t *s, uint32_t channels, uint32_t pages[][PAGES])
{
    uint32_t units = s->batch.item_count * PAGES;

    for (uint32_t i = 0; i < units; i++)
        pages[i / PAGES][i % PAGES] = (i * 7 + 3) % units; /* 7 divides no count of units here */
    for (uint32_t i = 0; i < s->batch.item_count; i++)
        s->items[i].pages = pages[i];
    return view_of(floats(b, (size_t)units * PAGE_ROWS * channels, 2.0f), PAGE_ROWS, channels, 0);
}

/* shape: channels, heads, tokens of an item, positions between items, kind: no entries, all, or
 * selected ones. In two shares of rows; the first row's last head is done again, alone. */
static void run_attend(const operators_t *o, bench_t *b)
{
    enum { WINDOW = 70, RING = 75, TOP = 6, ITEMS = 4 };
    static step_t s;
    static uint32_t pages[ITEMS][PAGES], selected[256 * TOP], selected_count[256];
    uint32_t channels = b->shape[0], heads = b->shape[1];
    attend_t p = {.batch = &s.batch, .head_count = heads, .heads = heads, .channels = channels};

    make_step(&s, ITEMS, b->shape[2], b->shape[3], 4);
    p.window = WINDOW;
    p.scale = 0.3f;
    p.form = (row_form_t){FORM_FLOAT32, channels, 0};
    p.state.step = view_of(floats(b, (size_t)s.batch.rows * channels, 2.0f), 0, channels, 0);
    p.state.ring = view_of(floats(b, (size_t)ITEMS * RING * channels, 2.0f), RING, channels, 0);
    p.state.ring_rows = RING;
    p.ratio = b->shape[4] ? 4 : 0;
    p.entries = make_pages(b, &s, channels, pages);
    p.page_entries = PAGE_ROWS;
    for (uint32_t m = 0; m < s.batch.rows; m++) {
        uint32_t seen = (s.positions[m] + 1) / 4;
        selected_count[m] = seen > TOP ? TOP : (uint32_t)ATTEND_ALL;
        for (uint32_t i = 0; seen > TOP && i < TOP; i++)
            selected[m * TOP + i] = i * seen / TOP + m % (seen / TOP);
    }
    p.selected_max = TOP;
    p.selected = b->shape[4] == 2 ? selected : NULL;
    p.selected_count = selected_count;
    p.sinks = floats(b, heads, 3.0f);
    p.q = floats(b, (size_t)s.batch.rows * heads * channels, 2.0f);
    p.out = outputs(b, (size_t)s.batch.rows * heads * channels);
    p.workspace = aligned_alloc(64, attend_workspace(heads, channels) * sizeof(float));
    p.row_count = s.batch.rows / 2;
    o->attend(&p);
    p.row_first = p.row_count;
    p.row_count = s.batch.rows - p.row_first;
    o->attend(&p);
    p.row_first = 0;
    p.row_count = 1;
    p.head_first = heads - 1;
    p.head_count = 1;
    o->attend(&p);
    free(p.workspace);
}

/* shape: channels, heads, tokens of an item, positions between items, topk. In two shares. */
static void run_index_select(const operators_t *o, bench_t *b)
{
    enum { ITEMS = 4, ENTRIES = PAGES * PAGE_ROWS };
    static step_t s;
    static uint32_t pages[ITEMS][PAGES];
    uint32_t channels = b->shape[0], heads = b->shape[1];
    index_select_t p = {.batch = &s.batch, .heads = heads, .channels = channels};

    make_step(&s, ITEMS, b->shape[2], b->shape[3], 4);
    p.topk = b->shape[4];
    p.entries_max = ENTRIES;
    p.form = (row_form_t){FORM_FLOAT32, channels, 0};
    p.keys = make_pages(b, &s, channels, pages);
    p.page_entries = PAGE_ROWS;
    p.q = floats(b, (size_t)s.batch.rows * heads * channels, 1.0f);
    p.weights = floats(b, (size_t)s.batch.rows * heads, 1.0f);
    p.scores = b->shape[2] % 2 ? outputs(b, (size_t)s.batch.rows * ENTRIES) : NULL;
    p.selected = (uint32_t *)(void *)outputs(b, (size_t)s.batch.rows * p.topk);
    p.selected_count = (uint32_t *)(void *)outputs(b, s.batch.rows);
    p.workspace = aligned_alloc(64, select_workspace(heads, channels, ENTRIES) * sizeof(float));
    p.row_count = s.batch.rows / 2;
    o->index_select(&p);
    p.row_first = p.row_count;
    p.row_count = s.batch.rows - p.row_first;
    o->index_select(&p);
    free(p.workspace);
}

/* shape: rows, experts, chosen, by token id */
static void run_moe_route(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], experts = b->shape[1], k = b->shape[2];
    uint32_t *ids = bytes(b, (size_t)rows * k * sizeof(*ids));
    uint32_t *tokens = bytes(b, rows * sizeof(*tokens));
    moe_route_t p = {
        .rows = rows, .experts = experts, .chosen_count = k, .normalize = true, .scale = 1.5f};

    for (uint32_t i = 0; i < rows * k; i++)
        ids[i] = (uint32_t)random_below(&b->random, experts);
    p.logits = floats(b, (size_t)rows * experts, 6.0f);
    p.bias = b->shape[3] ? NULL : floats(b, experts, 0.5f);
    for (uint32_t m = 0; m < rows; m++)
        tokens[m] = (uint32_t)random_below(&b->random, rows);
    p.table = ids;
    p.tokens = tokens;
    p.scores = outputs(b, (size_t)rows * experts);
    p.chosen = (uint32_t *)(void *)outputs(b, (size_t)rows * k);
    p.order = (uint32_t *)(void *)outputs(b, (size_t)rows * k);
    p.weights = outputs(b, (size_t)rows * k);
    p.margin = outputs(b, rows);
    o->moe_route(&p);
}

/* shape: rows, experts, chosen */
static void run_moe_sort(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], experts = b->shape[1], k = b->shape[2];
    uint32_t *chosen = bytes(b, (size_t)rows * k * sizeof(*chosen));

    for (uint32_t i = 0; i < rows * k; i++)
        chosen[i] = (uint32_t)random_below(&b->random, experts);
    o->moe_sort(&(moe_sort_t){rows, experts, k, chosen, (uint32_t *)(void *)outputs(b, experts + 1),
                              (uint32_t *)(void *)outputs(b, (size_t)rows * k),
                              (uint32_t *)(void *)outputs(b, (size_t)rows * k)});
}

/* shape: rows, width */
static void run_swiglu(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], width = b->shape[1];
    const float *joined = floats(b, 2 * (size_t)rows * width, 15.0f);
    o->swiglu(&(swiglu_t){rows, width, 2 * (size_t)width, joined, joined + width, 10.0f,
                          outputs(b, (size_t)rows * width)});
}

/* shape: rows, channels, chosen */
static void run_moe_combine(const operators_t *o, bench_t *b)
{
    uint32_t rows = b->shape[0], channels = b->shape[1], k = b->shape[2];
    uint32_t *places = bytes(b, (size_t)rows * k * sizeof(*places));

    for (uint32_t i = 0; i < rows * k; i++) /* 7 shares no factor with any of these counts */
        places[i] = (i * 7 + 1) % (rows * k);
    o->moe_combine(&(moe_combine_t){rows, channels, k, floats(b, (size_t)rows * k, 1.0f), places,
                                    floats(b, (size_t)rows * k * channels, 1.0f),
                                    floats(b, (size_t)rows * channels, 1.0f), channels,
                                    outputs(b, (size_t)rows * channels)});
}

/* shape: rows, vocabulary, temperature in tenths, top_k, logprobs. Parameters go in turns by row; the
 * last row has a fault if there are more than four. */
static void run_sample(const operators_t *o, bench_t *b)
{
    enum { ROWS_MAX = 32, HISTORY = 40, WORDS = 4096 / 32 };
    uint32_t rows = b->shape[0], n = b->shape[1], bias_tokens[3], history[HISTORY], mask[WORDS];
    static const float bias[3] = {3.0f, -100.0f, 0.5f};
    sample_row_t how[ROWS_MAX] = {0};
    float *logits = floats(b, (size_t)rows * n, 6.0f);
    void *workspace = aligned_alloc(64, sample_workspace(n));

    for (uint32_t i = 0; i < HISTORY; i++)
        history[i] = (uint32_t)random_below(&b->random, n);
    for (uint32_t i = 0; i < 3; i++)
        bias_tokens[i] = (uint32_t)random_below(&b->random, n);
    for (uint32_t i = 0; i < WORDS; i++)
        mask[i] = (uint32_t)random_next(&b->random) | 1;
    for (uint32_t m = 0; m < rows; m++) {
        how[m] = (sample_row_t){.seed = m * 77 + 1,
                                .position = m,
                                .temperature = (float)b->shape[2] / 10.0f,
                                .top_p = m % 4 == 1   ? 0.7f
                                         : m % 4 == 2 ? 0.05f
                                                      : 1.0f,
                                .min_p = m % 5 == 4 ? 0.1f : 0.0f,
                                .presence_penalty = m % 3 == 1 ? 0.5f : 0.0f,
                                .frequency_penalty = m % 6 == 1 ? -0.25f : 0.0f,
                                .repetition_penalty = m % 7 == 6 ? 1.3f : 1.0f,
                                .top_k = m % 2 ? b->shape[3] : 0,
                                .logprobs = b->shape[4],
                                .bias_count = m % 4 == 3 ? 3 : 0,
                                .bias_tokens = bias_tokens,
                                .bias_values = bias,
                                .allowed = m % 8 >= 6 ? mask : NULL,
                                .prompt_count = HISTORY / 2,
                                .output_count = HISTORY / 2,
                                .prompt = history,
                                .output = history + HISTORY / 3};
        for (uint32_t i = 0; i < n; i += 3) /* many equals */
            logits[(size_t)m * n + i] = (float)random_below(&b->random, 5);
    }
    if (rows > 4)
        logits[(size_t)rows * n - 1] = NAN;
    o->sample(&(sample_t){
        rows, n, logits, how, workspace,
        (sample_choice_t *)(void *)outputs(b, rows * sizeof(sample_choice_t) / sizeof(float))});
    free(workspace);
}

typedef struct {
    const char *name;
    void (*run)(const operators_t *o, bench_t *b);
    uint32_t shapes[12][5]; /* up to the first that starts with 0 */
} row_t;

static const row_t table[] = {
    {"gemm f32",
     run_gemm,
     {{1, 1, 1, WEIGHT_F32},
      {1, 127, 129, WEIGHT_F32},
      {2, 17, 128, WEIGHT_F32},
      {7, 31, 127, WEIGHT_F32},
      {8, 48, 256, WEIGHT_F32},
      {9, 130, 257, WEIGHT_F32},
      {25, 33, 96, WEIGHT_F32}}},
    {"gemm bf16",
     run_gemm,
     {{1, 129, 129, WEIGHT_BF16},
      {3, 16, 64, WEIGHT_BF16},
      {8, 49, 128, WEIGHT_BF16},
      {17, 15, 300, WEIGHT_BF16}}},
    {"gemm fp8 e8m0",
     run_gemm,
     {{1, 200, 256, WEIGHT_FP8_E8M0},
      {5, 129, 130, WEIGHT_FP8_E8M0},
      {8, 127, 127, WEIGHT_FP8_E8M0},
      {16, 256, 128, WEIGHT_FP8_E8M0}}},
    {"gemm fp8 float", run_gemm, {{1, 16, 128, WEIGHT_FP8_F32}, {11, 140, 200, WEIGHT_FP8_F32}}},
    {"gemm mxfp4",
     run_gemm,
     {{1, 128, 64, WEIGHT_MXFP4},
      {1, 129, 32, WEIGHT_MXFP4},
      {8, 24, 96, WEIGHT_MXFP4},
      {13, 65, 160, WEIGHT_MXFP4}}},
    {"gemm nvfp4", run_gemm, {{1, 130, 48, WEIGHT_NVFP4}, {9, 64, 128, WEIGHT_NVFP4}}},
    {"gemm groups",
     run_gemm_groups,
     {{1, 33, 128, WEIGHT_MXFP4, 8},
      {24, 49, 64, WEIGHT_MXFP4, 5},
      {17, 16, 130, WEIGHT_FP8_E8M0, 4},
      {9, 40, 96, WEIGHT_F32, 1},
      {1, 64, 128, WEIGHT_BF16, 0},
      {7, 31, 100, WEIGHT_FP8_E8M0, 0}}},
    {"rows gather", run_rows_gather, {{1, 1, 1}, {5, 33, 3}, {64, 16, 9}}},
    {"rmsnorm",
     run_rmsnorm,
     {{1, 1, 1}, {3, 15, 0}, {2, 16, 1}, {2, 17, 1}, {5, 512, 0}, {1, 1023, 1}}},
    {"rope", run_rope, {{1, 1, 64, 32, 0}, {3, 2, 128, 32, 1}, {2, 5, 70, 7, 0}, {1, 1, 2, 1, 1}}},
    {"hyper mix",
     run_hyper_mix,
     {{1, 4, 64, 20}, {16, 4, 17, 20}, {17, 4, 32, 1}, {15, 2, 8, 3}, {2, 8, 8, 2}, {5, 4, 32, 0}}},
    {"hyper read", run_hyper_read, {{1, 4, 64}, {3, 2, 17}, {2, 8, 15}}},
    {"hyper write", run_hyper_write, {{1, 4, 64}, {3, 2, 17}, {2, 8, 15}}},
    {"compressor bias", run_compressor_bias, {{1, 4, 1}, {9, 4, 33}, {5, 128, 16}}},
    {"compressor fold",
     run_compressor_fold,
     {{1, 1, 1, 0, 4}, {17, 3, 5, 7, 4}, {64, 6, 20, 3, 8}, {130, 2, 1, 15, 16}}},
    {"compressor overlap",
     run_compressor_overlap,
     {{1, 1, 4, 0}, {65, 3, 9, 3}, {128, 4, 5, 6}, {63, 6, 1, 3}}},
    {"ring keep",
     run_ring_keep,
     {{1, 1, 4, 0, 1}, {5, 6, 3, 7, 2}, {3, 4, 20, 5, 1}, {2, 3, 1, 7, 2}, {4, 2, 9, 9, 1}}},
    {"rows store",
     run_rows_store,
     {{1, 16, FORM_FLOAT32, 0},
      {24, 33, FORM_BF16, 1},
      {7, 128, FORM_FP8_BLOCKS, 1},
      {9, 64, FORM_FP8_ROW, 0},
      {24, 64, FORM_FP4_BLOCKS, 1}}},
    {"rows round",
     run_rows_round,
     {{3, 16, FORM_FLOAT32}, {5, 64, FORM_FP8_ROW}, {6, 32, FORM_FP4_BLOCKS}}},
    {"rows embed", run_rows_embed, {{1, 1, 1}, {9, 33, 4}, {3, 16, 2}}},
    {"index select",
     run_index_select,
     {{16, 1, 1, 0, 1}, {16, 3, 3, 90, 6}, {32, 8, 20, 120, 31}, {130, 2, 5, 150, 64}}},
    {"attend",
     run_attend,
     {{16, 1, 1, 0, 0},
      {16, 3, 1, 150, 0},
      {64, 2, 20, 41, 1},
      {33, 4, 7, 150, 1},
      {16, 3, 33, 150, 2},
      {128, 2, 3, 130, 2},
      {16, 130, 1, 66, 2}}},
    {"moe route",
     run_moe_route,
     {{1, 8, 2, 0}, {5, 12, 3, 0}, {3, 4, 4, 0}, {17, 33, 6, 1}, {2, 1, 1, 0}}},
    {"moe sort", run_moe_sort, {{1, 1, 1}, {1, 256, 6}, {40, 3, 6}, {7, 16, 2}, {3, 8, 8}}},
    {"swiglu", run_swiglu, {{1, 1}, {3, 31}, {2, 128}}},
    {"sample",
     run_sample,
     {{1, 1, 10, 1, 1},
      {32, 100, 0, 0, 21},
      {32, 1000, 10, 20, 6},
      {16, 333, 3, 400, 0},
      {24, 31, 25, 5, 21}}},
    {"moe combine", run_moe_combine, {{1, 64, 2}, {3, 33, 6}, {2, 15, 1}}},
};

static size_t run_row(const row_t *row, const operators_t *o, const uint32_t *shape, float *out,
                      float *memory)
{
    bench_t b = {.shape = shape, .out = out, .memory = memory};

    random_init(&b.random, 7);
    row->run(o, &b);
    return b.out_used;
}

/* A form of all operators, and in how many orders of its threads it is run. */
typedef struct {
    const char *name;
    const operators_t *operators;
    int orders;
} form_t;

static void compare(const row_t *row, const uint32_t *shape, const form_t *form, float *memory,
                    float *found)
{
    float *want = calloc(FLOATS_MAX, sizeof(float));

    run_row(row, &operators_ref, shape, want, memory);
    for (int order = 0; order < form->orders; order++) {
        memset(found, 0, FLOATS_MAX * sizeof(float));
        run_row(row, form->operators, shape, found, memory);
        for (size_t i = 0; i < FLOATS_MAX; i++) { /* nothing is written beside the outputs either */
            uint32_t a, b;
            memcpy(&a, want + i, sizeof(a));
            memcpy(&b, found + i, sizeof(b));
            if (a != b)
                fail_msg("%s %s at %u x %u x %u x %u: output %zu is %.9g (%08x), not %.9g (%08x)",
                         row->name, form->name, shape[0], shape[1], shape[2], shape[3], i,
                         (double)found[i], b, (double)want[i], a);
        }
    }
    free(want);
}

static void compare_all(const form_t *form, float *memory, float *found)
{
    for (size_t r = 0; r < COUNT_OF(table); r++)
        for (int i = 0; i < 12 && table[r].shapes[i][0]; i++)
            compare(&table[r], table[r].shapes[i], form, memory, found);
}

static void test_every_form_has_the_bits_of_the_reference(void **state)
{
    float *memory = aligned_alloc(64, FLOATS_MAX * sizeof(float));
    float *found = aligned_alloc(64, FLOATS_MAX * sizeof(float));

    (void)state;
#if defined(OPERATORS_CUDA)
    column_pin(memory, FLOATS_MAX * sizeof(float));
    column_pin(found, FLOATS_MAX * sizeof(float));
    compare_all(&(form_t){"cuda", column_operators(), 8}, memory, found);
    column_unpin(memory);
    column_unpin(found);
#else
    isa_cap_set(ISA_AVX512);
    for (isa_t isa = ISA_SCALAR; isa <= isa_level(); isa++)
        compare_all(&(form_t){isa_name(isa), operators_at(isa), 1}, memory, found);
#endif
    free(memory);
    free(found);
}

#if !defined(OPERATORS_CUDA)

/* The same row alone, and among others, at any place: the same bits. */
static void test_gemm_rows_do_not_see_each_other(void **state)
{
    enum { ROWS = 37, OUTPUTS = 75, INPUTS = 160 };
    float *x = malloc(ROWS * INPUTS * sizeof(float)), *w = malloc(OUTPUTS * INPUTS * sizeof(float));
    float *all = malloc(ROWS * OUTPUTS * sizeof(float)), one[OUTPUTS];
    random_t random;

    (void)state;
    random_init(&random, 3);
    for (int i = 0; i < ROWS * INPUTS; i++)
        x[i] = (float)random_unit(&random) - 0.5f;
    for (int i = 0; i < OUTPUTS * INPUTS; i++)
        w[i] = (float)random_unit(&random) - 0.5f;
    weight_t weight = weight_view(WEIGHT_F32, OUTPUTS, INPUTS, w, NULL, 1.0f);
    void *packed = aligned_alloc(64, gemm_pack_bytes(&weight));
    gemm_matrix_t matrix;
    assert_int_equal(gemm_pack(&weight, packed, &matrix), STATUS_OK);
    operators()->gemm(&(gemm_t){ROWS, INPUTS, OUTPUTS, x, &matrix, 0, gemm_panels(OUTPUTS), all});
    for (int m = 0; m < ROWS; m++) {
        operators()->gemm(
            &(gemm_t){1, INPUTS, OUTPUTS, x + m * INPUTS, &matrix, 0, gemm_panels(OUTPUTS), one});
        assert_memory_equal(one, all + m * OUTPUTS, sizeof(one));
    }
    free(packed);
    free(x);
    free(w);
    free(all);
}

static void test_gemm_refuses_weights_that_are_not_numbers(void **state)
{
    uint8_t codes[16 * 4] = {0}, scale = 127, packed[4096] __attribute__((aligned(64)));
    weight_t weight = weight_view(WEIGHT_FP8_E8M0, 4, 16, codes, &scale, 1.0f);
    gemm_matrix_t matrix;

    (void)state;
    assert_true(gemm_pack_bytes(&weight) <= sizeof(packed));
    assert_int_equal(gemm_pack(&weight, packed, &matrix), STATUS_OK);
    codes[21] = 0xff;
    assert_int_equal(gemm_pack(&weight, packed, &matrix), STATUS_BAD_FILE);
    codes[21] = 0;
    scale = 255;
    assert_int_equal(gemm_pack(&weight, packed, &matrix), STATUS_BAD_FILE);
}

static int by_rank(const void *a, const void *b)
{
    indexer_rank_t x = *(const indexer_rank_t *)a, y = *(const indexer_rank_t *)b;
    return (x < y) - (x > y);
}

static void test_indexer_keeps_the_best_and_the_earlier_of_equals(void **state)
{
    enum { COUNT = 300 };
    indexer_rank_t ranks[COUNT], sorted[COUNT];
    uint32_t kept[COUNT], wanted[COUNT];
    random_t random;

    (void)state;
    random_init(&random, 11);
    for (uint32_t keep = 1; keep < COUNT; keep += 13) {
        for (uint32_t i = 0; i < COUNT; i++) /* few values: many ties, zeros of both signs */
            ranks[i] = indexer_rank(((float)random_below(&random, 9) - 4.0f) *
                                        (random_below(&random, 2) ? 0.0f : 0.5f),
                                    i);
        memcpy(sorted, ranks, sizeof(ranks));
        qsort(sorted, COUNT, sizeof(sorted[0]), by_rank);
        indexer_best(ranks, COUNT, keep);
        indexer_entries(ranks, keep, kept);
        indexer_entries(sorted, keep, wanted);
        assert_memory_equal(kept, wanted, keep * sizeof(kept[0]));
    }
    assert_true(indexer_rank(0.0f, 4) == indexer_rank(-0.0f, 4));
    assert_true(indexer_rank(0.0f, 4) > indexer_rank(0.0f, 5));
    assert_true(indexer_rank(-1.0f, 4) < indexer_rank(-0.5f, 5));
    assert_true(indexer_rank_score(indexer_rank(-1.25f, 9)) == -1.25f);
    assert_int_equal(indexer_rank_entry(indexer_rank(-1.25f, 9)), 9);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form_has_the_bits_of_the_reference),
#if !defined(OPERATORS_CUDA)
        cmocka_unit_test(test_gemm_rows_do_not_see_each_other),
        cmocka_unit_test(test_gemm_refuses_weights_that_are_not_numbers),
        cmocka_unit_test(test_indexer_keeps_the_best_and_the_earlier_of_equals),
#endif
    };
    return cmocka_run_group_tests_name("operators", tests, NULL, NULL);
}
