/* forward_cache.c - a slot that continues from a border. */
#include "cache/copy.h"
#include "model/forward_parts.h"

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
