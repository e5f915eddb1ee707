/* ring_ref.c - see ring.h. */
#include "kernels/ring/ring.h"

#include <string.h>

static void keep_border(const ring_keep_t *p, const batch_item_t *item, const batch_border_t *b)
{
    uint32_t bytes = p->border_bytes / p->parts;

    for (uint32_t i = 0; i < p->border_rows; i++) {
        uint32_t position = b->end - p->border_rows + i;
        const uint8_t *from = batch_state_data(&p->state, item, position);
        uint8_t *to = rows_data(&p->border, b->target, i);
        for (uint32_t part = 0; part < p->parts; part++)
            memcpy(to + part * bytes, from + part * (p->data_bytes / p->parts), bytes);
        if (p->scale_bytes)
            memcpy(rows_scale(&p->border, b->target, i),
                   batch_state_scale(&p->state, item, position), p->scale_bytes);
    }
}

void ring_keep_ref(const ring_keep_t *p)
{
    const batch_state_t *s = &p->state;

    for (uint32_t i = p->item_first; i < p->item_first + p->item_count; i++) {
        const batch_item_t *item = &p->batch->items[i];
        uint32_t last = item->count < s->ring_rows ? item->count : s->ring_rows;
        for (uint32_t b = 0; b < item->border_count; b++)
            keep_border(p, item, &p->batch->borders[item->border + b]);
        for (uint32_t t = item->position + item->count - last; last > 0; t++, last--) {
            memcpy(rows_data(&s->ring, item->slot, t % s->ring_rows), batch_state_data(s, item, t),
                   p->data_bytes);
            if (p->scale_bytes)
                memcpy(rows_scale(&s->ring, item->slot, t % s->ring_rows),
                       batch_state_scale(s, item, t), p->scale_bytes);
        }
    }
}
