/* select_cpu.h - see select.h. Compiled once per instruction set. Neighbouring rows of an item are
 * scored together, so that a tile of keys is decoded once for all of them. */
#ifndef KERNELS_INDEXER_SELECT_CPU_H
#define KERNELS_INDEXER_SELECT_CPU_H

#include "kernels/attention/attend.h"
#include "kernels/attention/attention_cpu.h"
#include "kernels/gemm/gemm_cpu.h"
#include "kernels/indexer/indexer_cpu.h"
#include "kernels/indexer/select.h"

/* Scores of `count` rows against `entries` entries, tile by tile: w->scores[row][entry]. */
static void select_score(const index_select_t *p, const select_workspace_t *w,
                         const batch_item_t *item, uint32_t row, uint32_t count, uint32_t entries)
{
    uint32_t tile;

    for (uint32_t entry = 0; entry < entries; entry += tile) {
        tile = entries - entry < ATTENTION_TILE ? entries - entry : ATTENTION_TILE;
        for (uint32_t i = 0; i < tile; i++) {
            uint32_t page = item->pages[(entry + i) / p->page_entries];
            uint32_t at = (entry + i) % p->page_entries;
            row_decode(&p->form, rows_data(&p->keys, page, at), rows_scale(&p->keys, page, at),
                       w->values + (size_t)i * p->channels);
        }
        attention_keys_cpu(&(attention_keys_t){tile, p->channels, w->values, w->keys});
        gemm_matrix_t keys = {GEMM_F32,   gemm_panels(tile) * GEMM_PANEL,   p->channels, GEMM_BLOCK,
                              GEMM_PANEL, (size_t)p->channels * GEMM_PANEL, w->keys,     NULL};
        gemm_cpu_f32(&(gemm_t){count * p->heads, p->channels, ATTENTION_TILE,
                               p->q + (size_t)row * p->heads * p->channels, &keys, 0,
                               gemm_panels(tile), w->dots});
        indexer_score_cpu(&(indexer_score_t){count, p->heads, tile, ATTENTION_TILE, p->entries_max,
                                             p->weights + (size_t)row * p->heads, w->dots,
                                             w->scores + entry});
    }
}

static void index_select_cpu(const index_select_t *p)
{
    const uint32_t end = p->row_first + p->row_count;
    const select_workspace_t w = select_workspace_split(p);
    uint32_t count;

    for (uint32_t row = p->row_first; row < end; row += count) {
        const batch_item_t *item = attend_item(p->batch, row);
        uint32_t seen;
        count = item->row + item->count < end ? item->row + item->count - row : end - row;
        count = count < SELECT_QUERIES ? count : SELECT_QUERIES;
        seen = (p->batch->positions[row + count - 1] + 1) / SELECT_RATIO;
        if (seen > p->topk || p->scores)
            select_score(p, &w, item, row, count, seen);
        for (uint32_t m = 0; m < count; m++)
            select_row(p, row + m, w.scores + (size_t)m * p->entries_max, w.ranks);
    }
}

#endif
