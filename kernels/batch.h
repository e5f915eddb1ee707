/* batch.h - the tables of one step: what operators know of items, slots and blocks.
 *
 * Built once a step from its items, the same for every layer. An operator that takes a batch does
 * all items at once; `first` and `count` in its parameters are a thread's share.
 */
#ifndef KERNELS_BATCH_H
#define KERNELS_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/rows/rows.h"

/* Tokens [position, position + count) of a slot: rows [row, row + count) of the step. */
typedef struct {
    uint32_t slot;
    uint32_t position;
    uint32_t count;
    uint32_t row;
    uint32_t border, border_count; /* in the batch's borders */
    const uint32_t *pages;         /* of the slot, from its first position on */
} batch_item_t;

/* Rows of a slot that end at `end`, a page's end within the item, are kept in unit `target`. */
typedef struct {
    uint32_t end;
    uint32_t target;
} batch_border_t;

typedef struct {
    uint32_t rows;
    uint32_t item_count;
    const batch_item_t *items;
    const batch_border_t *borders;
    const uint32_t *positions; /* [rows] */
    const uint32_t *tokens;    /* [rows] */
} batch_t;

/* Blocks of `ratio` tokens whose last token is in the batch, in order of items. */
typedef struct {
    uint32_t ratio;
    uint32_t count;
    const uint32_t *firsts;     /* [item_count]: the item's first block */
    const uint32_t *items;      /* [count] */
    const uint32_t *numbers;    /* [count]: block number in the slot; its entry's number too */
    const rows_place_t *places; /* [count]: page and row of its entry */
    const float *turns;         /* [count, rope channels]: of its first token */
} batch_blocks_t;

/* Running rows of slots. A token of the step is in the step's rows, an earlier one in its slot's
 * ring, row t mod ring_rows; rings move on behind all that reads them (ring.h). */
typedef struct {
    rows_view_t step; /* unit 0 */
    rows_view_t ring; /* units are slots */
    uint32_t ring_rows;
} batch_state_t;

static inline const uint8_t *batch_state_data(const batch_state_t *s, const batch_item_t *item,
                                              uint32_t position)
{
    if (position >= item->position)
        return rows_data(&s->step, 0, item->row + position - item->position);
    return rows_data(&s->ring, item->slot, position % s->ring_rows);
}

static inline const uint8_t *batch_state_scale(const batch_state_t *s, const batch_item_t *item,
                                               uint32_t position)
{
    if (position >= item->position)
        return rows_scale(&s->step, 0, item->row + position - item->position);
    return rows_scale(&s->ring, item->slot, position % s->ring_rows);
}

#endif
