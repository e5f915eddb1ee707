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

/* What a compressor's work on some rows or blocks needs. */
typedef struct {
    const forward_layer_t *layer;
    const forward_compressor_t *c;
    bool main;     /* entries; else index keys */
    float *states; /* [rows, 2 * channels] */
    const batch_blocks_t *blocks;
    pool_kind_t history;
} compress_t;

static compress_t compress_of(const forward_t *f, const forward_layer_t *layer, bool main)
{
    return (compress_t){
        .layer = layer,
        .c = main ? &layer->compressor : &layer->index_compressor,
        .main = main,
        .states = main ? f->r.states : f->r.index_states,
        .blocks = layer->ratio == 4 ? &f->r.blocks_4.blocks : &f->r.blocks_128.blocks,
        .history = layer->ratio == 128 ? POOL_C128
                   : main              ? POOL_C4
                                       : POOL_C4_INDEX,
    };
}

static void bias_rows(forward_t *f, const void *context, uint32_t first, uint32_t count)
{
    const compress_t *w = context;
    size_t stride = 2 * (size_t)w->c->channels;

    f->o->compressor_bias(&(compressor_bias_t){count, w->layer->ratio, w->c->channels,
                                               f->r.positions + first, w->c->ape, stride,
                                               w->states + first * stride + w->c->channels});
}

static void compressor_inputs(forward_t *f, const compress_t *w)
{
    uint32_t rows = f->r.rows, hidden = f->config->hidden, channels = w->c->channels;

    forward_gemm(f, &w->c->wkv, rows, f->r.u, hidden, w->states, 2 * (size_t)channels);
    forward_gemm(f, &w->c->wgate, rows, f->r.u, hidden, w->states + channels, 2 * (size_t)channels);
    forward_by_rows(f, rows, bias_rows, w);
}

/* Index queries and head weights of all heads, on every rank. */
static void index_queries(forward_t *f, const forward_layer_t *layer)
{
    const model_config_t *c = f->config;
    uint32_t rows = f->r.rows, width = f->index_heads * c->index_dim;
    float factor = (float)(1.0 / sqrt((double)c->index_dim * c->index_heads));

    forward_gemm(f, &layer->index_wq_b, rows, f->r.qr, c->query_rank, f->r.index_q, width);
    f->o->rope(&(rope_t){rows, f->index_heads, c->index_dim, f->rope.pairs, width, false,
                         f->r.turns_compressed, f->r.index_q});
    f->o->rows_round(&(rows_round_t){rows * f->index_heads, f->index_form, f->r.index_q});
    forward_gemm(f, &layer->index_weights, rows, f->r.u, c->hidden, f->r.index_w, f->index_heads);
    f->o->rows_scale(&(rows_scale_t){(size_t)rows * f->index_heads, factor, f->r.index_w});
}

/* Blocks of ratio 4 to entries, not yet normalised. */
static void overlap_blocks(forward_t *f, const void *context, uint32_t first, uint32_t count)
{
    const compress_t *w = context;

    f->o->compressor_overlap(
        &(compressor_overlap_t){&f->r.batch, w->blocks, first, count, w->c->width,
                                forward_pair_state(f, w->layer, w->main), f->r.entries});
}

/* Norm, rotation at the block's first position, and into the page. */
static void finish_blocks(forward_t *f, const void *context, uint32_t first, uint32_t count)
{
    const compress_t *w = context;
    uint32_t width = w->c->width;
    float *entries = f->r.entries + (size_t)first * width;

    forward_norm(f, count, width, entries, w->c->norm, entries);
    f->o->rope(&(rope_t){count, 1, width, f->rope_compressed.pairs, width, false,
                         w->blocks->turns + (size_t)first * f->config->rope_dim, entries});
    f->o->rows_store(&(rows_store_t){.rows = count,
                                     .form = w->main ? f->row_form : f->index_form,
                                     .x = entries,
                                     .places = w->blocks->places + first,
                                     .view = forward_view(f, w->layer, w->history)});
}

static void keep_pairs(forward_t *f, const compress_t *w)
{
    const geometry_pool_t *ring = &f->geometry->pools[w->main ? POOL_SLOT_C4 : POOL_SLOT_C4_INDEX];
    pool_kind_t pool = w->main ? POOL_BORDER_C4 : POOL_BORDER_C4_INDEX;

    f->o->ring_keep(&(ring_keep_t){.batch = &f->r.batch,
                                   .item_count = f->r.item_count,
                                   .state = forward_pair_state(f, w->layer, w->main),
                                   .border = forward_view(f, w->layer, pool),
                                   .border_rows = f->geometry->pools[pool].rows,
                                   .parts = 2,
                                   .data_bytes = ring->data_bytes,
                                   .border_bytes = f->geometry->pools[pool].data_bytes});
}

static void note_entries(forward_t *f, const forward_layer_t *layer, bool main,
                         const forward_item_t *item)
{
    const forward_compressor_t *c = main ? &layer->compressor : &layer->index_compressor;
    uint32_t count = (item->position + item->count) / layer->ratio,
             per_page = PAGE_TOKENS / layer->ratio;
    layout_view_t view = layout_view(f->cache.layout, f->geometry, f->cache.memory,
                                     layer->ratio == 128 ? POOL_C128
                                     : main              ? POOL_C4
                                                         : POOL_C4_INDEX,
                                     layer->index);

    for (uint32_t j = 0; j < count; j++)
        row_decode(main ? &f->row_form : &f->index_form,
                   view_data(&view, item->pages[j / per_page], j % per_page),
                   view_scale(&view, item->pages[j / per_page], j % per_page),
                   f->r.trace + (size_t)j * c->width);
    forward_note(f, layer->name,
                 main ? "attn.compressor.entries" : "attn.indexer.compressor.entries", TRACE_F32,
                 count, c->width, f->r.trace);
}

/* Inputs of all rows, then the blocks that end in this step. */
static void compress(forward_t *f, const compress_t *w)
{
    compressor_inputs(f, w);
    if (w->layer->ratio == 4)
        forward_by_rows(f, w->blocks->count, overlap_blocks, w);
    else
        f->o->compressor_fold(
            &(compressor_fold_t){&f->r.batch, w->blocks, 0, f->r.item_count, w->c->width, w->states,
                                 forward_view(f, w->layer, POOL_SLOT_C128),
                                 f->geometry->pools[POOL_SLOT_C128].rows, f->r.entries});
    forward_by_rows(f, w->blocks->count, finish_blocks, w);
    if (w->layer->ratio == 4)
        keep_pairs(f, w);
    for (uint32_t i = 0; f->options.trace && i < f->r.item_count; i++)
        note_entries(f, w->layer, w->main, &f->r.items[i]);
}

void forward_compress(forward_t *f, const forward_layer_t *layer)
{
    const compress_t main = compress_of(f, layer, true), index = compress_of(f, layer, false);

    if (layer->ratio)
        compress(f, &main);
    if (layer->ratio == 4) {
        compress(f, &index);
        index_queries(f, layer);
    }
}

/* -- choice
 * -----------------------------------------------------------------------------------------------------
 * */

static void note_choice(forward_t *f, const forward_layer_t *layer, uint32_t index)
{
    const forward_item_t *item = &f->r.items[index];
    uint32_t stride = f->options.positions_max / 4, entries = (item->position + item->count) / 4;
    uint32_t topk = f->config->index_topk;
    uint32_t row = f->r.batch_items[index].row;
    float *scores = f->r.trace;
    uint8_t *chosen = (uint8_t *)(f->r.trace + (size_t)item->count * entries);

    memset(chosen, 0, (size_t)item->count * entries);
    for (uint32_t m = 0; m < item->count; m++) {
        uint32_t seen = (f->r.positions[row + m] + 1) / 4, count = f->r.selected_count[row + m];
        for (uint32_t j = 0; j < entries; j++)
            scores[(size_t)m * entries + j] =
                j < seen ? f->r.index_scores[(size_t)(row + m) * stride + j] : -INFINITY;
        f->r.margin[m] = INFINITY;
        for (uint32_t j = 0; count == (uint32_t)SELECT_ALL && j < seen; j++)
            chosen[(size_t)m * entries + j] = 1;
        if (count == (uint32_t)SELECT_ALL)
            continue;
        float least = INFINITY, best = -INFINITY;
        for (uint32_t i = 0; i < count; i++)
            chosen[(size_t)m * entries + f->r.selected[(size_t)(row + m) * topk + i]] = 1;
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

static void select_rows(const forward_t *f, const void *context, uint32_t first, uint32_t count,
                        uint32_t thread)
{
    index_select_t p = *(const index_select_t *)context;

    p.row_first = first;
    p.row_count = count;
    p.workspace = forward_workspace(f, thread);
    f->o->index_select(&p);
}

void forward_select(forward_t *f, const forward_layer_t *layer)
{
    const model_config_t *c = f->config;
    const index_select_t p = {.batch = &f->r.batch,
                              .heads = c->index_heads,
                              .channels = c->index_dim,
                              .topk = c->index_topk,
                              .entries_max = f->options.positions_max / SELECT_RATIO,
                              .form = f->index_form,
                              .keys = forward_view(f, layer, POOL_C4_INDEX),
                              .page_entries = PAGE_TOKENS / SELECT_RATIO,
                              .q = f->r.index_q,
                              .weights = f->r.index_w,
                              .scores = f->options.trace ? f->r.index_scores : NULL,
                              .selected = f->r.selected,
                              .selected_count = f->r.selected_count};

    forward_by_slices(f, f->r.rows, select_rows, &p);
    for (uint32_t i = 0; f->options.trace && i < f->r.item_count; i++)
        note_choice(f, layer, i);
}
