/* select.h - which compressed entries each row of a step reads.
 *
 * A row at position t sees the entries below (t + 1) / 4. If those are at most topk it reads all of
 * them (SELECT_ALL); else the topk best by score (indexer.h), ascending.
 */
#ifndef KERNELS_INDEXER_SELECT_H
#define KERNELS_INDEXER_SELECT_H

#include "kernels/batch.h"
#include "kernels/indexer/indexer.h"

enum {
    SELECT_RATIO = 4,
    SELECT_QUERIES = 16, /* of one item that are scored together, at most */
    SELECT_ALL = -1,     /* as a count: all visible entries */
};

typedef struct {
    const batch_t *batch;
    uint32_t row_first, row_count; /* a thread's share */
    uint32_t heads;
    uint32_t channels;
    uint32_t topk;
    uint32_t entries_max; /* of any slot */
    row_form_t form;
    rows_view_t keys; /* units are pages */
    uint32_t page_entries;
    const float *q;           /* [rows, heads, channels] */
    const float *weights;     /* [rows, heads] */
    float *scores;            /* [rows, entries_max] of visible entries; NULL: not wanted */
    float *workspace;         /* select_workspace floats, aligned to 64 */
    uint32_t *selected;       /* [rows, topk] */
    uint32_t *selected_count; /* [rows] */
} index_select_t;

size_t select_workspace(uint32_t heads, uint32_t channels, uint32_t entries_max);
void index_select_ref(const index_select_t *p);

/* Shared by all forms: the workspace, and the choice of a row from its scores. */
typedef struct {
    float *values, *keys, *dots, *scores;
    indexer_rank_t *ranks;
} select_workspace_t;

select_workspace_t select_workspace_split(const index_select_t *p);
void select_row(const index_select_t *p, uint32_t row, const float *scores, indexer_rank_t *ranks);

#endif
