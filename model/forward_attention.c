/* forward_attention.c - the attention sublayer: projections, window rows, the core, and the way
 * out.
 *
 * Columns of both output projections are shared out and gathered: no rank ever adds another's part,
 * so a product has the same bits at every size of the group.
 */
#include <math.h>
#include <string.h>

#include "model/forward_parts.h"

static const float *turns_of(const forward_t *f, const forward_layer_t *layer)
{
    return layer->ratio ? f->r.turns_compressed : f->r.turns;
}

/* Norms and rotations of some rows, and their window rows in cache form. */
static void project_rows(forward_t *f, const void *context, uint32_t first, uint32_t count)
{
    const forward_layer_t *layer = context;
    uint32_t dim = f->config->head_dim, width = f->heads * dim;
    const float *turns = turns_of(f, layer) + (size_t)first * f->config->rope_dim;
    float *q = f->r.q + (size_t)first * width, *kv = f->r.kv + (size_t)first * dim;

    forward_norm(f, count * f->heads, dim, q, NULL, q);
    f->o->rope(&(rope_t){count, f->heads, dim, f->rope.pairs, width, false, turns, q});
    forward_norm(f, count, dim, kv, layer->kv_norm, kv);
    f->o->rope(&(rope_t){count, 1, dim, f->rope.pairs, dim, false, turns, kv});
    f->o->rows_store(&(rows_store_t){.rows = count,
                                     .form = f->row_form,
                                     .x = kv,
                                     .first = first,
                                     .view = forward_window_state(f, layer).step});
}

/* qr, q of this rank's heads, window rows in cache form. */
static void project(forward_t *f, const forward_layer_t *layer)
{
    const model_config_t *c = f->config;
    uint32_t rows = f->r.rows, dim = c->head_dim;
    const geometry_pool_t *ring = &f->geometry->pools[POOL_SLOT_WINDOW];

    forward_gemm(f, &layer->wq_a, rows, f->r.u, c->hidden, f->r.qr, c->query_rank);
    forward_norm(f, rows, c->query_rank, f->r.qr, layer->q_norm, f->r.qr);
    forward_gemm(f, &layer->wq_b, rows, f->r.qr, c->query_rank, f->r.q, f->heads * dim);
    forward_gemm(f, &layer->wkv, rows, f->r.u, c->hidden, f->r.kv, dim);
    forward_by_rows(f, rows, project_rows, layer);
    if (!f->options.trace)
        return;
    for (size_t m = 0; m < rows; m++)
        row_decode(&f->row_form, f->r.row_data + m * ring->data_bytes,
                   f->r.row_scale + m * ring->scale_bytes, f->r.trace + m * dim);
    forward_note(f, layer->name, "attn.rows", TRACE_F32, rows, dim, f->r.trace);
}

/* -- the core
 * ----------------------------------------------------------------------------------------------------
 * */

typedef struct {
    forward_t *f;
    const forward_layer_t *layer;
    uint32_t heads; /* at once */
    batch_state_t window;
} core_work_t;

/* A few queries of one sequence and some of their heads, on one thread. */
typedef struct {
    const core_work_t *w;
    const batch_item_t *item;
    forward_scratch_t *scratch;
    uint32_t row, count; /* queries: rows of the step */
    uint32_t position;   /* of the first */
    uint32_t head, heads;
    uint32_t tile; /* first position or entry of the tile */
    uint64_t visible[FORWARD_QUERIES];
    uint32_t next[FORWARD_QUERIES]; /* into selected */
} core_t;

/* The tile's rows whose bits stand in `any` are in scratch->values; runs them through the operator.
 * */
static void core_tile(core_t *core, uint64_t any, const uint8_t *places)
{
    const forward_t *f = core->w->f;
    uint32_t dim = f->config->head_dim, rows = (uint32_t)__builtin_popcountll(any);
    size_t width = (size_t)f->heads * dim, at = core->row * width + (size_t)core->head * dim;

    f->o->attention_keys(
        &(attention_keys_t){rows, dim, core->scratch->values, core->scratch->keys});
    f->o->attention_tile(&(attention_tile_t){
        .queries = core->count,
        .heads = core->heads,
        .channels = dim,
        .rows = rows,
        .scale = (float)(1.0 / sqrt((double)dim)),
        .q_stride = width,
        .q = f->r.q + at,
        .values = core->scratch->values,
        .keys = core->scratch->keys,
        .places = places,
        .visible = core->visible,
        .max = core->scratch->max,
        .sum = core->scratch->sum,
        .out = f->r.core + at,
        .workspace = core->scratch->workspace,
    });
}

static void core_window(core_t *core)
{
    const forward_t *f = core->w->f;
    uint32_t window = f->config->window, dim = f->config->head_dim,
             last = core->position + core->count - 1;
    uint32_t first = core->position + 1 > window ? core->position + 1 - window : 0;

    for (uint32_t tile = first / ATTENTION_TILE * ATTENTION_TILE; tile <= last;
         tile += ATTENTION_TILE) {
        uint8_t places[ATTENTION_TILE];
        uint64_t any = 0;
        uint32_t rows = 0;
        memset(core->visible, 0, sizeof(core->visible));
        for (uint32_t i = 0; i < ATTENTION_TILE; i++) {
            uint32_t s = tile + i;
            if (s < first || s > last)
                continue;
            for (uint32_t m = 0; m < core->count; m++)
                if (s <= core->position + m && s + window > core->position + m)
                    core->visible[m] |= 1ull << i;
            row_decode(&f->row_form, batch_state_data(&core->w->window, core->item, s),
                       batch_state_scale(&core->w->window, core->item, s),
                       core->scratch->values + (size_t)rows * dim);
            places[rows++] = (uint8_t)i;
            any |= 1ull << i;
        }
        core_tile(core, any, places);
    }
}

/* Bits of the entries of this tile that query m reads. */
static uint64_t core_visible_entries(core_t *core, uint32_t m)
{
    const forward_rows_t *r = &core->w->f->r;
    uint32_t row = core->row + m, topk = core->w->f->config->index_topk;
    uint32_t seen = (r->positions[row] + 1) / core->w->layer->ratio;
    uint64_t bits = 0;

    if (core->w->layer->ratio != 4 || r->selected_count[row] == UINT32_MAX) {
        uint32_t count = seen > core->tile ? seen - core->tile : 0;
        return count >= ATTENTION_TILE ? UINT64_MAX : (1ull << count) - 1;
    }
    for (; core->next[m] < r->selected_count[row]; core->next[m]++) {
        uint32_t entry = r->selected[(size_t)row * topk + core->next[m]];
        if (entry >= core->tile + ATTENTION_TILE)
            break;
        bits |= 1ull << (entry - core->tile);
    }
    return bits;
}

static void core_entries(core_t *core)
{
    const forward_t *f = core->w->f;
    const forward_layer_t *layer = core->w->layer;
    uint32_t dim = f->config->head_dim, per_page = PAGE_TOKENS / layer->ratio;
    uint32_t entries = (core->position + core->count) / layer->ratio;
    layout_view_t view = layout_view(f->cache.layout, f->geometry, f->cache.memory,
                                     layer->ratio == 4 ? POOL_C4 : POOL_C128, layer->index);

    memset(core->next, 0, sizeof(core->next));
    for (core->tile = 0; core->tile < entries; core->tile += ATTENTION_TILE) {
        uint8_t places[ATTENTION_TILE];
        uint64_t any = 0;
        uint32_t rows = 0;
        for (uint32_t m = 0; m < core->count; m++)
            any |= core->visible[m] = core_visible_entries(core, m);
        if (!any)
            continue;
        for (uint64_t left = any; left; left &= left - 1) {
            uint32_t place = (uint32_t)__builtin_ctzll(left), entry = core->tile + place;
            uint32_t page = core->item->pages[entry / per_page], at = entry % per_page;
            row_decode(&f->row_form, view_data(&view, page, at), view_scale(&view, page, at),
                       core->scratch->values + (size_t)rows * dim);
            places[rows++] = (uint8_t)place;
        }
        core_tile(core, any, places);
    }
}

/* How many queries of an item share a tile: matters for speed only. */
static uint32_t queries_at_once(const forward_t *f, const forward_layer_t *layer,
                                const batch_item_t *item)
{
    uint32_t queries = FORWARD_LINES / f->heads;

    if (layer->ratio == 4 && (item->position + item->count) / 4 > 4 * f->config->index_topk)
        return 1; /* each query reads its own few entries */
    return queries < 1 ? 1 : queries > FORWARD_QUERIES ? FORWARD_QUERIES : queries;
}

static void core_part(void *context, uint32_t part, uint32_t thread)
{
    const core_work_t *w = context;
    const forward_t *f = w->f;
    uint32_t head_parts = (f->heads + w->heads - 1) / w->heads, block = part / head_parts, i = 0;
    core_t core = {.w = w, .scratch = &f->scratch[thread]};
    uint32_t dim = f->config->head_dim, queries, first;

    while (block >= f->r.block_ends[i])
        i++;
    core.item = &f->r.batch_items[i];
    queries = queries_at_once(f, w->layer, core.item);
    first = (block - (i ? f->r.block_ends[i - 1] : 0)) * queries;
    core.row = core.item->row + first;
    core.count = core.item->count - first < queries ? core.item->count - first : queries;
    core.position = core.item->position + first;
    core.head = part % head_parts * w->heads;
    core.heads = f->heads - core.head < w->heads ? f->heads - core.head : w->heads;
    for (uint32_t line = 0; line < core.count * core.heads; line++)
        core.scratch->max[line] = -INFINITY;
    core_window(&core);
    if (w->layer->ratio)
        core_entries(&core);
    f->o->attention_finish(&(attention_finish_t){
        core.count, core.heads, dim, w->layer->sinks + core.head, core.scratch->max,
        core.scratch->sum, f->r.core + ((size_t)core.row * f->heads + core.head) * dim});
}

/* Blocks of all items run side by side; a single token is cut by heads instead. */
static void run_core(forward_t *f, const forward_layer_t *layer)
{
    core_work_t work = {f, layer, f->heads, forward_window_state(f, layer)};
    uint32_t threads = team_threads(f->team), blocks = 0;

    for (uint32_t i = 0; i < f->r.item_count; i++) {
        uint32_t queries = queries_at_once(f, layer, &f->r.batch_items[i]);
        blocks += (f->r.items[i].count + queries - 1) / queries;
        f->r.block_ends[i] = blocks;
    }
    if (f->r.rows == 1)
        work.heads = (f->heads + threads - 1) / threads;
    team_run(f->team, blocks * ((f->heads + work.heads - 1) / work.heads), core_part, &work);
}

/* -- the way out
 * -------------------------------------------------------------------------------------------------
 * */

static status_t project_out(forward_t *f, const forward_layer_t *layer)
{
    const model_config_t *c = f->config;
    uint32_t rows = f->r.rows, width = f->heads * c->head_dim, group_width = width / f->groups;
    float *z = forward_part(f, f->r.z), *y;

    if (f->options.trace)
        forward_note(f, layer->name, "attn.core", TRACE_F32, rows, width, f->r.core);
    f->o->rope(&(rope_t){rows, f->heads, c->head_dim, f->rope.pairs, width, true,
                         turns_of(f, layer), f->r.core});
    forward_gemm_groups(f, &(gemm_groups_t){.groups = f->groups,
                                            .rows = rows,
                                            .w = layer->wo_a,
                                            .x_stride = width,
                                            .x_group = group_width,
                                            .y_stride = (size_t)f->groups * c->output_rank,
                                            .y_group = c->output_rank,
                                            .x = f->r.core,
                                            .y = z});
    TRY(forward_gather(f, SITE_ATTENTION_GROUPS, &f->group_cut, rows, z, f->r.z));
    y = forward_part(f, f->r.y);
    forward_gemm(f, &layer->wo_b, rows, f->r.z, (size_t)c->output_groups * c->output_rank, y,
                 forward_share(f, &f->hidden_cut));
    return forward_gather(f, SITE_ATTENTION_OUTPUT, &f->hidden_cut, rows, y, f->r.y);
}

static void keep_window(forward_t *f, const forward_layer_t *layer)
{
    const geometry_pool_t *border = &f->geometry->pools[POOL_BORDER_WINDOW];

    f->o->ring_keep(&(ring_keep_t){.batch = &f->r.batch,
                                   .item_count = f->r.item_count,
                                   .state = forward_window_state(f, layer),
                                   .border = forward_view(f, layer, POOL_BORDER_WINDOW),
                                   .border_rows = border->rows,
                                   .parts = 1,
                                   .data_bytes = border->data_bytes,
                                   .border_bytes = border->data_bytes,
                                   .scale_bytes = border->scale_bytes});
}

status_t forward_attention(forward_t *f, const forward_layer_t *layer)
{
    project(f, layer);
    forward_compress(f, layer);
    if (layer->ratio == 4)
        forward_select(f, layer);
    run_core(f, layer);
    keep_window(f, layer);
    return project_out(f, layer);
}
