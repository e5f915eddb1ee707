/* ring.h - rings of slots move on behind a step.
 *
 *   1. each border of an item keeps its last border_rows rows before its end, in order: from a
 *      row's `parts` equal parts the first bytes of each, as many as the border's row has
 *   2. the item's last rows go into its ring, token t into row t mod ring_rows
 * Borders first: the ring's older rows are theirs.
 */
#ifndef KERNELS_RING_RING_H
#define KERNELS_RING_RING_H

#include "kernels/batch.h"

typedef struct {
    const batch_t *batch;
    uint32_t item_first, item_count; /* a thread's share */
    batch_state_t state;
    rows_view_t border;
    uint32_t border_rows;
    uint32_t parts;
    uint32_t data_bytes, border_bytes; /* of a row: of ring and border */
    uint32_t scale_bytes;              /* of both */
} ring_keep_t;

void ring_keep_ref(const ring_keep_t *p);

#endif
