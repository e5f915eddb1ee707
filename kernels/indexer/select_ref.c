/* select_ref.c - see select.h. Row by row, entry by entry. */
#include "kernels/indexer/select.h"

#include <math.h>
#include <string.h>

#include "kernels/attention/attend.h"
#include "kernels/gemm/gemm.h"

static size_t aligned(size_t floats)
{
    return (floats + 15) / 16 * 16;
}

size_t select_workspace(uint32_t heads, uint32_t channels, uint32_t entries_max)
{
    size_t tile = aligned((size_t)ATTENTION_TILE * channels + GEMM_PANEL);

    return 2 * tile + (size_t)SELECT_QUERIES * heads * ATTENTION_TILE +
           aligned((size_t)SELECT_QUERIES * entries_max) + 2 * aligned(entries_max);
}

select_workspace_t select_workspace_split(const index_select_t *p)
{
    size_t tile = aligned((size_t)ATTENTION_TILE * p->channels + GEMM_PANEL);
    select_workspace_t w = {.values = p->workspace};

    w.keys = w.values + tile;
    w.dots = w.keys + tile;
    w.scores = w.dots + (size_t)SELECT_QUERIES * p->heads * ATTENTION_TILE;
    w.ranks =
        (indexer_rank_t *)(void *)(w.scores + aligned((size_t)SELECT_QUERIES * p->entries_max));
    return w;
}

void select_row(const index_select_t *p, uint32_t row, const float *scores, indexer_rank_t *ranks)
{
    uint32_t seen = (p->batch->positions[row] + 1) / SELECT_RATIO;

    if (p->scores)
        memcpy(p->scores + (size_t)row * p->entries_max, scores, seen * sizeof(float));
    p->selected_count[row] = (uint32_t)SELECT_ALL;
    if (seen <= p->topk)
        return;
    for (uint32_t j = 0; j < seen; j++)
        ranks[j] = indexer_rank(scores[j], j);
    indexer_best(ranks, seen, p->topk);
    indexer_entries(ranks, p->topk, p->selected + (size_t)row * p->topk);
    p->selected_count[row] = p->topk;
}

/* A product in the order of gemm.h. */
static float dot(const float *a, const float *b, uint32_t count)
{
    float total = 0.0f;

    for (uint32_t first = 0; first < count; first += GEMM_BLOCK) {
        float sum = 0.0f;
        for (uint32_t k = first; k < count && k < first + GEMM_BLOCK; k++)
            sum = fmaf(a[k], b[k], sum);
        total = fmaf(sum, 1.0f, total);
    }
    return total;
}

void index_select_ref(const index_select_t *p)
{
    select_workspace_t w = select_workspace_split(p);

    for (uint32_t row = p->row_first; row < p->row_first + p->row_count; row++) {
        const batch_item_t *item = attend_item(p->batch, row);
        uint32_t seen = (p->batch->positions[row] + 1) / SELECT_RATIO;
        for (uint32_t j = 0; j < seen; j++) {
            uint32_t page = item->pages[j / p->page_entries], at = j % p->page_entries;
            row_decode(&p->form, rows_data(&p->keys, page, at), rows_scale(&p->keys, page, at),
                       w.values);
            for (uint32_t h = 0; h < p->heads; h++)
                w.dots[h] =
                    dot(p->q + ((size_t)row * p->heads + h) * p->channels, w.values, p->channels);
            indexer_score_ref(&(indexer_score_t){
                1, p->heads, 1, 1, 1, p->weights + (size_t)row * p->heads, w.dots, w.scores + j});
        }
        select_row(p, row, w.scores, w.ranks);
    }
}
