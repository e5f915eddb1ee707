/* layout.h - where the parts of units lie in one block of memory.
 *
 * Layer-first is the device's order: a layer's kernel sees its parts at one stride, whatever the
 * unit number. Page-first is the host's: a unit is one run of bytes. Both are the same formula,
 *
 *     offset(pool, layer index, item) = base + layer index * layer_stride + item * item_stride
 *
 * so nothing but layout_init knows which order it is. Plain data without pointers.
 *
 *     layout_init(&layout, &geometry, LAYOUT_LAYER_FIRST, counts);
 *     view = layout_view(&layout, &geometry, memory, POOL_C4, layer);
 *     key = view_data(&view, page.value, row); scale = view_scale(&view, page.value, row);
 */
#ifndef CACHE_LAYOUT_H
#define CACHE_LAYOUT_H

#include "cache/geometry.h"
#include "cache/units.h"

typedef enum { LAYOUT_LAYER_FIRST, LAYOUT_PAGE_FIRST, LAYOUT_ORDER_COUNT } layout_order_t;

typedef struct {
    uint64_t base;
    uint64_t layer_stride;
    uint64_t item_stride;
} layout_pool_t;

typedef struct {
    uint64_t geometry; /* digest of the geometry it was made from */
    layout_order_t order;
    uint32_t counts[UNIT_COUNT]; /* pages, borders, slots */
    layout_pool_t pools[POOL_COUNT];
    uint64_t bytes; /* of the block that holds all of it */
} layout_t;

/* One layer's parts of one pool, for kernels. The memory belongs to the caller. */
typedef struct {
    unsigned char *base;
    uint64_t item_stride;
    uint32_t item_count;
    uint32_t rows;
    uint32_t data_bytes;
    uint32_t scale_bytes;
} layout_view_t;

/* TOO_LARGE if the counts do not fit 2^63 bytes. The block must be aligned to GEOMETRY_ALIGN and
 * zeroed once. */
MUST_USE status_t layout_init(layout_t *layout, const geometry_t *g, layout_order_t order,
                              const uint32_t counts[UNIT_COUNT]);
const char *layout_order_name(layout_order_t order);

/* Byte offset of a part; asserts its bounds. */
uint64_t layout_offset(const layout_t *layout, const geometry_t *g, pool_kind_t pool,
                       uint32_t index, uint32_t item);
/* Asserts that the pool covers the layer. */
layout_view_t layout_view(const layout_t *layout, const geometry_t *g, void *memory,
                          pool_kind_t pool, uint32_t layer);

/* A fresh slot: zeros, scores and running maxima -infinity. The rank does this when a slot is
 * opened. */
void layout_slot_clear(const layout_t *layout, const geometry_t *g, void *memory, slot_t slot);

static inline unsigned char *view_part(const layout_view_t *view, uint32_t item)
{
    ASSERT(item < view->item_count);
    return view->base + item * view->item_stride;
}

static inline unsigned char *view_data(const layout_view_t *view, uint32_t item, uint32_t row)
{
    ASSERT(row < view->rows);
    return view_part(view, item) + (uint64_t)row * view->data_bytes;
}

static inline unsigned char *view_scale(const layout_view_t *view, uint32_t item, uint32_t row)
{
    ASSERT(row < view->rows);
    return view_part(view, item) + (uint64_t)view->rows * view->data_bytes +
           (uint64_t)row * view->scale_bytes;
}

#endif
