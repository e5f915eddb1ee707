#include "cache/layout.h"

#include <math.h>
#include <string.h>

static const char *const order_names[LAYOUT_ORDER_COUNT] = {"layer_first", "page_first"};

const char *layout_order_name(layout_order_t order)
{
    return (unsigned)order < LAYOUT_ORDER_COUNT ? order_names[order] : "?";
}

status_t layout_init(layout_t *layout, const geometry_t *g, layout_order_t order,
                     const uint32_t counts[UNIT_COUNT])
{
    layout_t made = {.geometry = g->digest, .order = order};
    uint64_t unit_base[UNIT_COUNT];

    ASSERT((unsigned)order < LAYOUT_ORDER_COUNT);
    for (int unit = 0; unit < UNIT_COUNT; unit++) {
        made.counts[unit] = counts[unit];
        unit_base[unit] = made.bytes;
        if (g->unit_bytes[unit] > 0 &&
            counts[unit] > ((uint64_t)INT64_MAX - made.bytes) / g->unit_bytes[unit])
            return FAIL(STATUS_TOO_LARGE, "%u units of %llu bytes (%s) do not fit 2^63 bytes",
                        counts[unit], (unsigned long long)g->unit_bytes[unit],
                        unit_kind_name((unit_kind_t)unit));
        made.bytes += counts[unit] * g->unit_bytes[unit];
    }
    for (int kind = 0; kind < POOL_COUNT; kind++) {
        const geometry_pool_t *pool = &g->pools[kind];
        layout_pool_t *place = &made.pools[kind];
        const uint64_t count = counts[pool->unit];

        if (order == LAYOUT_LAYER_FIRST) {
            place->base = unit_base[pool->unit] + count * pool->unit_offset;
            place->layer_stride = count * pool->stride;
            place->item_stride = pool->stride;
        } else {
            place->base = unit_base[pool->unit] + pool->unit_offset;
            place->layer_stride = pool->stride;
            place->item_stride = g->unit_bytes[pool->unit];
        }
    }
    *layout = made;
    return STATUS_OK;
}

uint64_t layout_offset(const layout_t *layout, const geometry_t *g, pool_kind_t pool,
                       uint32_t index, uint32_t item)
{
    ASSERT((unsigned)pool < POOL_COUNT);
    ASSERT(index < g->pools[pool].layer_count);
    ASSERT(item < layout->counts[g->pools[pool].unit]);
    return layout->pools[pool].base + index * layout->pools[pool].layer_stride +
           item * layout->pools[pool].item_stride;
}

layout_view_t layout_view(const layout_t *layout, const geometry_t *g, void *memory,
                          pool_kind_t pool, uint32_t layer)
{
    const uint32_t index = geometry_index(g, pool, layer);
    const layout_pool_t *place = &layout->pools[pool];

    return (layout_view_t){
        .base = (unsigned char *)memory + place->base + index * place->layer_stride,
        .item_stride = place->item_stride,
        .item_count = layout->counts[g->pools[pool].unit],
        .rows = g->pools[pool].rows,
        .data_bytes = g->pools[pool].data_bytes,
        .scale_bytes = g->pools[pool].scale_bytes,
    };
}

/* Numbers [first, first + count) of every row of a float32 part become -infinity. */
static void fill_rows(unsigned char *part, const geometry_pool_t *pool, uint32_t first,
                      uint32_t count)
{
    for (uint32_t row = 0; row < pool->rows; row++) {
        float *numbers = (float *)(void *)(part + (uint64_t)row * pool->data_bytes);

        for (uint32_t i = first; i < first + count; i++)
            numbers[i] = -INFINITY;
    }
}

void layout_slot_clear(const layout_t *layout, const geometry_t *g, void *memory, slot_t slot)
{
    for (int kind = 0; kind < POOL_COUNT; kind++) {
        const geometry_pool_t *pool = &g->pools[kind];

        if (pool->unit != UNIT_SLOT)
            continue;
        for (uint32_t index = 0; index < pool->layer_count; index++) {
            unsigned char *part = (unsigned char *)memory +
                                  layout_offset(layout, g, (pool_kind_t)kind, index, slot.value);

            memset(part, 0, pool->stride);
            if (kind == POOL_SLOT_C4 || kind == POOL_SLOT_C4_INDEX) /* [kv][score] */
                fill_rows(part, pool, pool->channels / 2, pool->channels / 2);
            else if (kind == POOL_SLOT_C128) /* [max][sum][weighted] */
                fill_rows(part, pool, 0, pool->channels / 3);
        }
    }
}
