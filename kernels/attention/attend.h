/* attend.h - attention of all rows of a step over their cached rows.
 *
 * A row at position t of its item sees the window's rows max(0, t + 1 - window) .. t, then, with a
 * ratio, the compressed entries below (t + 1) / ratio: all of them, or those selected for it. Tiles
 * of 64 at absolute multiples of 64, ascending, the window's first; what happens in a tile and at
 * the end: attention.h. Cached rows are read in their stored form, those of this step too.
 */
#ifndef KERNELS_ATTENTION_ATTEND_H
#define KERNELS_ATTENTION_ATTEND_H

#include "kernels/attention/attention.h"
#include "kernels/batch.h"

enum {
    ATTEND_QUERIES = 16, /* of one item that go through a tile together, at most */
    ATTEND_LINES = 128,  /* queries times heads that do, unless one query has more heads */
    ATTEND_ALL = -1,     /* as a count of selected entries: all visible ones */
};

typedef struct {
    const batch_t *batch;
    uint32_t row_first, row_count;   /* a thread's share: these rows, */
    uint32_t head_first, head_count; /* these heads of them */
    uint32_t heads;                  /* of q and out */
    uint32_t channels;
    uint32_t window;
    float scale;
    row_form_t form;
    batch_state_t state;            /* window rows */
    uint32_t ratio;                 /* 0: no entries */
    rows_view_t entries;            /* units are pages */
    uint32_t page_entries;          /* of a page */
    uint32_t selected_max;          /* from one row's selected entries to the next row's */
    const uint32_t *selected;       /* [rows, selected_max], ascending; NULL: every row sees all */
    const uint32_t *selected_count; /* [rows]; (uint32_t)ATTEND_ALL */
    const float *sinks;             /* [heads] */
    const float *q;                 /* [rows, heads, channels] */
    float *workspace;               /* attend_workspace floats, aligned to 64 */
    float *out;                     /* [rows, heads, channels] */
} attend_t;

size_t attend_workspace(uint32_t heads, uint32_t channels);
void attend_ref(const attend_t *p);

/* Shared by all forms: floats of workspace, each part aligned. */
typedef struct {
    float *values, *keys, *max, *sum, *tile;
} attend_workspace_t;

attend_workspace_t attend_workspace_split(float *memory, uint32_t heads, uint32_t channels);
/* The item of a row of the step. */
const batch_item_t *attend_item(const batch_t *batch, uint32_t row);

#endif
