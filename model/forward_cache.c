/* forward_cache.c - the running state of slots: window rings, ratio-4 states, borders.
 *
 * A token of the step itself is read from the step's rows, an earlier one from the ring; rings move
 * on only after the layer has been computed, so a chunk never overwrites what its own queries read.
 */
#include <string.h>

#include "cache/copy.h"
#include "model/forward_parts.h"

static layout_view_t view_of(const forward_t *f, const forward_layer_t *layer, pool_kind_t pool)
{
    return layout_view(f->cache.layout, f->geometry, f->cache.memory, pool, layer->index);
}

void forward_window_row(const forward_t *f, const forward_layer_t *layer,
                        const forward_item_t *item, uint32_t first_row, uint32_t position,
                        const uint8_t **data, const uint8_t **scale)
{
    layout_view_t ring = view_of(f, layer, POOL_SLOT_WINDOW);

    if (position >= item->position) {
        size_t row = first_row + position - item->position;
        *data = f->r.row_data + row * ring.data_bytes;
        *scale = f->r.row_scale + row * ring.scale_bytes;
    } else {
        *data = view_data(&ring, item->slot, position % ring.rows);
        *scale = view_scale(&ring, item->slot, position % ring.rows);
    }
}

void forward_window_keep(forward_t *f, const forward_layer_t *layer, const forward_item_t *item,
                         uint32_t first_row)
{
    layout_view_t ring = view_of(f, layer, POOL_SLOT_WINDOW),
                  border = view_of(f, layer, POOL_BORDER_WINDOW);
    uint32_t end = item->position + item->count, position;
    const uint8_t *data, *scale;

    for (uint32_t b = 0; b < item->border_count; b++) {
        uint32_t page_end = (item->border_ordinals[b] + 1) * PAGE_TOKENS,
                 target = item->border_targets[b];
        ASSERT(page_end > item->position && page_end <= end);
        for (uint32_t i = 0; i < border.rows; i++) {
            forward_window_row(f, layer, item, first_row, page_end - border.rows + i, &data,
                               &scale);
            memcpy(view_data(&border, target, i), data, border.data_bytes);
            memcpy(view_scale(&border, target, i), scale, border.scale_bytes);
        }
    }
    position = item->count > ring.rows ? end - ring.rows : item->position;
    for (; position < end; position++) {
        forward_window_row(f, layer, item, first_row, position, &data, &scale);
        memcpy(view_data(&ring, item->slot, position % ring.rows), data, ring.data_bytes);
        memcpy(view_scale(&ring, item->slot, position % ring.rows), scale, ring.scale_bytes);
    }
}

forward_pair_t forward_state_row(const forward_t *f, const forward_layer_t *layer, pool_kind_t pool,
                                 const forward_item_t *item, uint32_t first_row, uint32_t position)
{
    bool main = pool == POOL_SLOT_C4;
    size_t channels = main ? layer->compressor.channels : layer->index_compressor.channels;
    layout_view_t ring = view_of(f, layer, pool);

    if (position >= item->position) {
        size_t at = (first_row + position - item->position) * channels;
        return (forward_pair_t){(main ? f->r.k : f->r.index_k) + at,
                                (main ? f->r.s : f->r.index_s) + at};
    }
    const float *row =
        (const float *)(const void *)view_data(&ring, item->slot, position % ring.rows);
    return (forward_pair_t){row, row + channels};
}

void forward_state_keep(forward_t *f, const forward_layer_t *layer, pool_kind_t pool,
                        const forward_item_t *item, uint32_t first_row)
{
    layout_view_t ring = view_of(f, layer, pool);
    layout_view_t border =
        view_of(f, layer, pool == POOL_SLOT_C4 ? POOL_BORDER_C4 : POOL_BORDER_C4_INDEX);
    uint32_t end = item->position + item->count, half = border.data_bytes / 2, position;

    for (uint32_t b = 0; b < item->border_count; b++) {
        uint32_t page_end = (item->border_ordinals[b] + 1) * PAGE_TOKENS;
        for (uint32_t i = 0; i < border.rows; i++) {
            uint8_t *row = view_data(&border, item->border_targets[b], i);
            forward_pair_t pair =
                forward_state_row(f, layer, pool, item, first_row, page_end - border.rows + i);
            memcpy(row, pair.k, half);
            memcpy(row + half, pair.s, half);
        }
    }
    position = item->count > ring.rows ? end - ring.rows : item->position;
    for (; position < end; position++) {
        uint8_t *row = view_data(&ring, item->slot, position % ring.rows);
        forward_pair_t pair = forward_state_row(f, layer, pool, item, first_row, position);
        memcpy(row, pair.k, 2 * half);
        memcpy(row + 2 * half, pair.s, 2 * half);
    }
}

status_t forward_border_load(const geometry_t *g, const forward_cache_t *cache, uint32_t border,
                             uint32_t slot, uint32_t position)
{
    copy_item_t items[COPY_UNIT_ITEMS_MAX];
    copy_list_t list;

    copy_list_init(&list, items, COUNT_OF(items), "load");
    TRY(copy_plan_border_take(&list, g, cache->layout, border_at(border), slot_at(slot),
                              position_at(position)));
    layout_slot_clear(cache->layout, g, cache->memory, slot_at(slot));
    return copy_execute(&list, cache->memory, cache->layout->bytes, cache->memory,
                        cache->layout->bytes);
}
