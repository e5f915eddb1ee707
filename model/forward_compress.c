/* forward_compress.c - compressed entries and index keys, and which entries each query reads.
 *
 * An entry is closed by the last token of its block and written to the slot's pages at once, so
 * that this token's own query reads it there. The open state of a block lives in the slot
 * (forward_cache.c).
 */
#include <math.h>
#include <string.h>

#include "kernels/format.h"
#include "model/forward_parts.h"

static void compressor_inputs(forward_t *f, const forward_compressor_t *c, uint32_t ratio, float *k,
                              float *s)
{
    uint32_t rows = f->r.rows, hidden = f->config->hidden;

    forward_gemm(f, &c->wkv, rows, f->r.u, hidden, k, c->channels);
    forward_gemm(f, &c->wgate, rows, f->r.u, hidden, s, c->channels);
    for (uint32_t m = 0; m < rows; m++) {
        const float *ape = c->ape + (size_t)(f->r.positions[m] % ratio) * c->channels;
        float *score = s + (size_t)m * c->channels;
        for (uint32_t i = 0; i < c->channels; i++)
            score[i] = score[i] + ape[i];
    }
}

/* Index queries and head weights of all heads, on every rank. */
static void index_queries(forward_t *f, const forward_layer_t *layer)
{
    const model_config_t *c = f->config;
    uint32_t rows = f->r.rows, width = f->index_heads * c->index_dim;
    float factor = (float)(1.0 / sqrt((double)c->index_dim * c->index_heads));
    float *q = f->r.index_q, *w = f->r.index_w;

    forward_gemm(f, &layer->index_wq_b, rows, f->r.qr, c->query_rank, q, width);
    f->o->rope(&(rope_t){rows, f->index_heads, c->index_dim, f->rope.pairs, width, false,
                         f->r.turns_compressed, q});
    for (size_t i = 0; i < (size_t)rows * f->index_heads; i++)
        row_round_query(&f->index_form, q + i * c->index_dim);
    forward_gemm(f, &layer->index_weights, rows, f->r.u, c->hidden, w, f->index_heads);
    for (size_t i = 0; i < (size_t)rows * f->index_heads; i++)
        w[i] = w[i] * factor;
}

void forward_compress_inputs(forward_t *f, const forward_layer_t *layer)
{
    if (layer->ratio)
        compressor_inputs(f, &layer->compressor, layer->ratio, f->r.k, f->r.s);
    if (layer->ratio == 4) {
        compressor_inputs(f, &layer->index_compressor, layer->ratio, f->r.index_k, f->r.index_s);
        index_queries(f, layer);
    }
}

static pool_kind_t history_of(const forward_layer_t *layer, bool main)
{
    return layer->ratio == 128 ? POOL_C128 : main ? POOL_C4 : POOL_C4_INDEX;
}

/* Norm, rotation at the block's first position, and into the page. */
static void write_entry(forward_t *f, const forward_layer_t *layer, bool main,
                        const forward_item_t *item, uint32_t entry, float *row)
{
    const forward_compressor_t *c = main ? &layer->compressor : &layer->index_compressor;
    const row_form_t *form = main ? &f->row_form : &f->index_form;
    layout_view_t view = layout_view(f->cache.layout, f->geometry, f->cache.memory,
                                     history_of(layer, main), layer->index);
    uint32_t per_page = PAGE_TOKENS / layer->ratio, page = item->pages[entry / per_page];
    float turns[2 * ROPE_PAIRS_MAX];

    rope_turns(&f->rope_compressed, entry * layer->ratio, turns);
    f->o->rmsnorm(&(rmsnorm_t){1, c->width, c->width, c->width, row, c->norm,
                               (float)f->config->norm_eps, row});
    f->o->rope(&(rope_t){1, 1, c->width, f->rope_compressed.pairs, c->width, false, turns, row});
    if (row_form_rotates(form->form))
        format_hadamard(row, c->width, row);
    row_encode(form, row, view_data(&view, page, entry % per_page),
               view_scale(&view, page, entry % per_page));
}

/* Ratio 4: eight tokens, the earlier four with the first half of their channels. */
static void close_overlap(forward_t *f, const forward_layer_t *layer, bool main,
                          const forward_item_t *item, uint32_t first_row, uint32_t entry)
{
    const forward_compressor_t *c = main ? &layer->compressor : &layer->index_compressor;
    pool_kind_t pool = main ? POOL_SLOT_C4 : POOL_SLOT_C4_INDEX;
    compressor_overlap_t p = {.channels = c->width};
    float row[HEAD_DIM_MAX];

    for (uint32_t i = entry ? 0 : 4; i < COMPRESSOR_OVERLAP_TOKENS; i++, p.tokens++) {
        forward_pair_t pair = forward_state_row(f, layer, pool, item, first_row, 4 * entry + i - 4);
        uint32_t half = i < 4 ? 0 : c->width;
        p.values[p.tokens] = pair.k + half;
        p.scores[p.tokens] = pair.s + half;
    }
    p.entry = row;
    f->o->compressor_overlap(&p);
    write_entry(f, layer, main, item, entry, row);
}

static void compress_overlap(forward_t *f, const forward_layer_t *layer, bool main,
                             const forward_item_t *item, uint32_t first_row)
{
    uint32_t end = item->position + item->count;

    for (uint32_t entry = item->position / 4; entry < end / 4; entry++)
        close_overlap(f, layer, main, item, first_row, entry);
    forward_state_keep(f, layer, main ? POOL_SLOT_C4 : POOL_SLOT_C4_INDEX, item, first_row);
}

/* Ratio 128: token by token into (max, sum, weighted). The state after token t lies in row t mod
 * rows. */
static void compress_running(forward_t *f, const forward_layer_t *layer, const forward_item_t *item,
                             uint32_t first_row)
{
    layout_view_t view =
        layout_view(f->cache.layout, f->geometry, f->cache.memory, POOL_SLOT_C128, layer->index);
    uint32_t width = layer->compressor.width, end = item->position + item->count;
    float state[3 * HEAD_DIM_MAX], row[HEAD_DIM_MAX];

    if (item->position)
        memcpy(state, view_data(&view, item->slot, (item->position - 1) % view.rows),
               view.data_bytes);
    for (uint32_t t = item->position; t < end; t++) {
        size_t at = (size_t)(first_row + t - item->position) * width;
        if (t % layer->ratio == 0)
            for (uint32_t c = 0; c < width; c++) {
                state[c] = -INFINITY;
                state[width + c] = 0.0f;
                state[2 * width + c] = 0.0f;
            }
        f->o->compressor_fold(&(compressor_fold_t){width, f->r.k + at, f->r.s + at, state,
                                                   state + width, state + 2 * (size_t)width});
        if (t % layer->ratio == layer->ratio - 1) {
            for (uint32_t c = 0; c < width; c++)
                row[c] = state[2 * width + c] / state[width + c];
            write_entry(f, layer, true, item, t / layer->ratio, row);
        }
        if (end - t <= view.rows)
            memcpy(view_data(&view, item->slot, t % view.rows), state, view.data_bytes);
    }
}

static void note_entries(forward_t *f, const forward_layer_t *layer, bool main,
                         const forward_item_t *item)
{
    const forward_compressor_t *c = main ? &layer->compressor : &layer->index_compressor;
    uint32_t count = (item->position + item->count) / layer->ratio,
             per_page = PAGE_TOKENS / layer->ratio;
    layout_view_t view = layout_view(f->cache.layout, f->geometry, f->cache.memory,
                                     history_of(layer, main), layer->index);

    for (uint32_t j = 0; j < count; j++)
        row_decode(main ? &f->row_form : &f->index_form,
                   view_data(&view, item->pages[j / per_page], j % per_page),
                   view_scale(&view, item->pages[j / per_page], j % per_page),
                   f->r.trace + (size_t)j * c->width);
    forward_note(f, layer->name,
                 main ? "attn.compressor.entries" : "attn.indexer.compressor.entries", TRACE_F32,
                 count, c->width, f->r.trace);
}

void forward_compress_item(forward_t *f, const forward_layer_t *layer, uint32_t item_index,
                           uint32_t first_row)
{
    const forward_item_t *item = &f->r.items[item_index];

    if (layer->ratio == 4) {
        compress_overlap(f, layer, true, item, first_row);
        compress_overlap(f, layer, false, item, first_row);
    } else if (layer->ratio == 128) {
        compress_running(f, layer, item, first_row);
    }
    if (f->options.trace && layer->ratio)
        note_entries(f, layer, true, item);
    if (f->options.trace && layer->ratio == 4)
        note_entries(f, layer, false, item);
}

/* -- choice
 * -----------------------------------------------------------------------------------------------------
 * */

typedef struct {
    forward_t *f;
    const forward_layer_t *layer;
    const forward_item_t *item;
    uint32_t first_row;
    uint32_t entries; /* that the last row sees */
} select_work_t;

/* Scores of `count` rows against the entries, tile by tile: scratch->scores[row][entry]. */
static void score_rows(const select_work_t *w, uint32_t row, uint32_t count,
                       forward_scratch_t *scratch, size_t stride)
{
    const forward_t *f = w->f;
    const model_config_t *c = f->config;
    uint32_t per_page = PAGE_TOKENS / 4, width = c->index_heads * c->index_dim, tile;
    layout_view_t view =
        layout_view(f->cache.layout, f->geometry, f->cache.memory, POOL_C4_INDEX, w->layer->index);

    for (uint32_t entry = 0; entry < w->entries; entry += tile) {
        tile = w->entries - entry < ATTENTION_TILE ? w->entries - entry : ATTENTION_TILE;
        for (uint32_t i = 0; i < tile; i++) {
            uint32_t page = w->item->pages[(entry + i) / per_page], at = (entry + i) % per_page;
            row_decode(&f->index_form, view_data(&view, page, at), view_scale(&view, page, at),
                       scratch->values + (size_t)i * c->index_dim);
        }
        f->o->attention_keys(
            &(attention_keys_t){tile, c->index_dim, scratch->values, scratch->keys});
        gemm_matrix_t keys = {
            GEMM_F32,   gemm_panels(tile) * GEMM_PANEL,    c->index_dim,  GEMM_BLOCK,
            GEMM_PANEL, (size_t)c->index_dim * GEMM_PANEL, scratch->keys, NULL};
        f->o->gemm(&(gemm_t){count * c->index_heads, c->index_dim, ATTENTION_TILE,
                             f->r.index_q + (size_t)row * width, &keys, 0, gemm_panels(tile),
                             scratch->dots});
        f->o->indexer_score(&(indexer_score_t){count, c->index_heads, tile, ATTENTION_TILE, stride,
                                               f->r.index_w + (size_t)row * c->index_heads,
                                               scratch->dots, scratch->scores + entry});
    }
}

/* One group of neighbouring rows. */
static void select_part(void *context, uint32_t part, uint32_t thread)
{
    const select_work_t *w = context;
    forward_t *f = w->f;
    forward_scratch_t *scratch = &f->scratch[thread];
    uint32_t topk = f->config->index_topk, row = part * FORWARD_QUERIES,
             stride = f->options.positions_max / 4;
    uint32_t count =
        w->item->count - row < FORWARD_QUERIES ? w->item->count - row : FORWARD_QUERIES;

    score_rows(w, w->first_row + row, count, scratch, stride);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t m = w->first_row + row + i, seen = (f->r.positions[m] + 1) / 4, kept = 0;
        const float *scores = scratch->scores + (size_t)i * stride;
        if (f->options.trace)
            memcpy(f->r.index_scores + (size_t)m * stride, scores, w->entries * sizeof(float));
        if (seen <= topk)
            continue;
        for (; kept < seen; kept++)
            scratch->ranks[kept] = indexer_rank(scores[kept], kept);
        indexer_best(scratch->ranks, kept, topk);
        indexer_entries(scratch->ranks, topk, f->r.selected + (size_t)m * topk);
        f->r.selected_count[m] = topk;
    }
}

static void note_choice(forward_t *f, const forward_layer_t *layer, const forward_item_t *item)
{
    uint32_t stride = f->options.positions_max / 4, entries = (item->position + item->count) / 4;
    uint32_t topk = f->config->index_topk;
    float *scores = f->r.trace;
    uint8_t *chosen = (uint8_t *)(f->r.trace + (size_t)item->count * entries);

    memset(chosen, 0, (size_t)item->count * entries);
    for (uint32_t m = 0; m < item->count; m++) {
        uint32_t seen = (f->r.positions[m] + 1) / 4, count = f->r.selected_count[m];
        for (uint32_t j = 0; j < entries; j++)
            scores[(size_t)m * entries + j] =
                j < seen ? f->r.index_scores[(size_t)m * stride + j] : -INFINITY;
        f->r.margin[m] = INFINITY;
        for (uint32_t j = 0; count == UINT32_MAX && j < seen; j++)
            chosen[(size_t)m * entries + j] = 1;
        if (count == UINT32_MAX)
            continue;
        float least = INFINITY, best = -INFINITY;
        for (uint32_t i = 0; i < count; i++)
            chosen[(size_t)m * entries + f->r.selected[(size_t)m * topk + i]] = 1;
        for (uint32_t j = 0; j < seen; j++) {
            float score = scores[(size_t)m * entries + j];
            if (chosen[(size_t)m * entries + j])
                least = score < least ? score : least;
            else
                best = score > best ? score : best;
        }
        f->r.margin[m] = least - best;
    }
    forward_note(f, layer->name, "attn.indexer.scores", TRACE_F32, item->count, entries, scores);
    forward_note(f, layer->name, "attn.indexer.selected", TRACE_U8, item->count, entries, chosen);
    forward_note(f, layer->name, "attn.indexer.margin", TRACE_F32, item->count, 1, f->r.margin);
}

void forward_select(forward_t *f, const forward_layer_t *layer)
{
    uint32_t row = 0;

    for (uint32_t i = 0; i < f->r.item_count; row += f->r.items[i++].count) {
        const forward_item_t *item = &f->r.items[i];
        bool all = (item->position + item->count) / 4 <= f->config->index_topk;
        for (uint32_t m = 0; m < item->count; m++)
            f->r.selected_count[row + m] = UINT32_MAX;
        if (!all || f->options.trace) {
            select_work_t work = {f, layer, item, row, (item->position + item->count) / 4};
            team_run(f->team, (item->count + FORWARD_QUERIES - 1) / FORWARD_QUERIES, select_part,
                     &work);
        }
        if (f->options.trace)
            note_choice(f, layer, item);
    }
}
