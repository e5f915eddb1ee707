/* Planning has one shape for all pools: rows [first, first + rows) of all layers, data and scales.
 *
 *     all rows:  one item, the parts with their padding, count = layers
 *     some rows: two items, a run of data and a run of scales per layer
 *
 * An item whose runs lie one behind the other on both sides becomes one run, and a run that continues
 * the item before it is merged into it; so a page-first unit is one run, and pages that stand in a
 * row are one item per pool.
 */
#include "cache/copy.h"

#include <string.h>

#include "cache/stream.h"

/* Longer lists would push out of a core's caches what it is working on. */
enum { STREAM_BYTES_MIN = 256 << 10 };

void copy_list_init(copy_list_t *list, copy_item_t *items, uint32_t items_max, const char *op)
{
    *list = (copy_list_t){.items = items, .items_max = items_max, .op = op};
}

/* True if `next` continues `last` on both sides, run by run. */
static bool continues(const copy_item_t *last, const copy_item_t *next)
{
    if (last->source + last->bytes != next->source || last->target + last->bytes != next->target)
        return false;
    if (last->count != next->count)
        return false;
    return last->count == 1 || (last->source_stride == next->source_stride &&
                                last->target_stride == next->target_stride);
}

static status_t add(copy_list_t *list, copy_item_t item)
{
    if (item.bytes == 0 || item.count == 0)
        return STATUS_OK;
    if (item.count > 1 && item.source_stride == item.bytes && item.target_stride == item.bytes) {
        item.bytes *= item.count;
        item.count = 1;
    }
    if (list->count > 0 && continues(&list->items[list->count - 1], &item)) {
        list->items[list->count - 1].bytes += item.bytes;
        return STATUS_OK;
    }
    if (list->count == list->items_max)
        return FAIL(STATUS_TOO_LARGE, "the list has room for %u items", list->items_max);
    list->items[list->count++] = item;
    return STATUS_OK;
}

/* Rows of one pool in two units, all layers. */
typedef struct {
    pool_kind_t pool;
    const layout_t *source_layout;
    const layout_t *target_layout;
    uint32_t source;
    uint32_t target;
} copy_pair_t;

static copy_item_t pair_item(const copy_pair_t *pair, const geometry_t *g, uint64_t source_at,
                             uint64_t target_at, uint64_t bytes)
{
    const pool_kind_t pool = pair->pool;

    return (copy_item_t){
        .source = layout_offset(pair->source_layout, g, pool, 0, pair->source) + source_at,
        .target = layout_offset(pair->target_layout, g, pool, 0, pair->target) + target_at,
        .source_stride = pair->source_layout->pools[pool].layer_stride,
        .target_stride = pair->target_layout->pools[pool].layer_stride,
        .bytes = bytes,
        .count = g->pools[pool].layer_count,
        .number = pair->target,
        .pool = pool,
    };
}

static status_t add_rows(copy_list_t *list, const geometry_t *g, const copy_pair_t *pair,
                         uint32_t first, uint32_t rows)
{
    const geometry_pool_t *pool = &g->pools[pair->pool];
    const uint64_t data_at = (uint64_t)first * pool->data_bytes;
    const uint64_t scales_at =
        (uint64_t)pool->rows * pool->data_bytes + (uint64_t)first * pool->scale_bytes;

    if (rows == pool->rows)
        return add(list, pair_item(pair, g, 0, 0, pool->stride));
    TRY(add(list, pair_item(pair, g, data_at, data_at, (uint64_t)rows * pool->data_bytes)));
    return add(list, pair_item(pair, g, scales_at, scales_at, (uint64_t)rows * pool->scale_bytes));
}

static status_t check_side(const geometry_t *g, const layout_t *layout, unit_t unit,
                           const char *side)
{
    ASSERT((unsigned)unit.kind < UNIT_COUNT);
    if (layout->geometry != g->digest)
        return FAIL(STATUS_MISMATCH, "the %s has geometry %016llx, ours is %016llx", side,
                    (unsigned long long)layout->geometry, (unsigned long long)g->digest);
    if (unit.number >= layout->counts[unit.kind])
        return FAIL(STATUS_INVALID, "%s %s %u is out of range, the limit is %u", side,
                    unit_kind_name(unit.kind), unit.number, layout->counts[unit.kind]);
    return STATUS_OK;
}

static status_t check_units(const geometry_t *g, const copy_units_t *units)
{
    TRY(check_side(g, units->source_layout, units->source, "source"));
    TRY(check_side(g, units->target_layout, units->target, "target"));
    if (units->source.kind != units->target.kind)
        return FAIL(STATUS_INVALID, "a %s does not fit a %s", unit_kind_name(units->source.kind),
                    unit_kind_name(units->target.kind));
    if (units->source.kind == UNIT_HISTORY &&
        (units->first > PAGE_TOKENS || units->tokens > PAGE_TOKENS - units->first))
        return FAIL(STATUS_INVALID, "page %u: positions from %u, %u of them, leave a page of %d",
                    units->source.number, units->first, units->tokens, PAGE_TOKENS);
    return STATUS_OK;
}

static void tell_probe(const copy_list_t *list, const copy_pair_t *pair, uint32_t rows, bool whole)
{
    if (list->probe == NULL)
        return;
    list->probe(list->probe_context, &(copy_path_t){
                                         .pool = pair->pool,
                                         .op = list->op,
                                         .source_order = pair->source_layout->order,
                                         .target_order = pair->target_layout->order,
                                         .granularity = whole ? COPY_WHOLE : COPY_ENTRIES,
                                         .entries = rows,
                                         .page = pair->target,
                                     });
}

static status_t plan_pools(copy_list_t *list, const geometry_t *g, const copy_units_t *units)
{
    for (int kind = 0; kind < POOL_COUNT; kind++) {
        const geometry_pool_t *pool = &g->pools[kind];
        const copy_pair_t pair = {(pool_kind_t)kind, units->source_layout, units->target_layout,
                                  units->source.number, units->target.number};
        uint32_t first = 0, rows = pool->rows;

        if (pool->unit != units->source.kind || pool->layer_count == 0)
            continue;
        if (pool->unit == UNIT_HISTORY) {
            first = tokens_entries(units->first, pool->ratio);
            rows = tokens_entries(units->first + units->tokens, pool->ratio) - first;
        }
        if (rows == 0)
            continue;
        TRY(add_rows(list, g, &pair, first, rows));
        tell_probe(list, &pair, rows, rows == pool->rows);
    }
    return STATUS_OK;
}

/* Takes items back that a plan added before it failed; what was merged into `last` goes with it. */
static status_t undo(copy_list_t *list, uint32_t count, copy_item_t last, status_t status)
{
    list->count = count;
    if (count > 0)
        list->items[count - 1] = last;
    return trail_pass(status, __func__, __LINE__);
}

status_t copy_plan(copy_list_t *list, const geometry_t *g, const copy_units_t *units)
{
    const uint32_t count = list->count;
    const copy_item_t last = count > 0 ? list->items[count - 1] : (copy_item_t){0};
    status_t status;

    TRY(check_units(g, units));
    status = plan_pools(list, g, units);
    return status == STATUS_OK ? STATUS_OK : undo(list, count, last, status);
}

/* Borders and slots. The planner thinks of slot -> border; `take` swaps source and target. */

typedef struct {
    const geometry_t *g;
    const layout_t *layout;
    slot_t slot;
    border_t border;
    position_t end;
    bool take;
} copy_border_t;

static status_t add_both_ways(copy_list_t *list, const copy_border_t *b, pool_kind_t slot_pool,
                              pool_kind_t border_pool, uint64_t slot_at, uint64_t border_at,
                              uint64_t bytes)
{
    const copy_pair_t from = {slot_pool, b->layout, b->layout, b->slot.value, b->slot.value};
    const copy_pair_t to = {border_pool, b->layout, b->layout, b->border.value, b->border.value};
    const copy_item_t slot = pair_item(&from, b->g, slot_at, slot_at, bytes);
    copy_item_t item = pair_item(&to, b->g, border_at, border_at, bytes);

    if (b->take) {
        item.target = slot.target;
        item.target_stride = slot.target_stride;
        item.number = slot.number;
        item.pool = slot.pool;
    } else {
        item.source = slot.source;
        item.source_stride = slot.source_stride;
    }
    return add(list, item);
}

/* The last `window` positions; the ring may wrap once. */
static status_t plan_window(copy_list_t *list, const copy_border_t *b)
{
    const geometry_pool_t *slot = &b->g->pools[POOL_SLOT_WINDOW];
    const geometry_pool_t *border = &b->g->pools[POOL_BORDER_WINDOW];
    const uint64_t slot_scales = (uint64_t)slot->rows * slot->data_bytes;
    const uint64_t border_scales = (uint64_t)border->rows * border->data_bytes;
    uint32_t row = 0;

    while (row < border->rows) {
        const uint32_t ring = (b->end.value - border->rows + row) % slot->rows;
        const uint32_t to_wrap = slot->rows - ring, left = border->rows - row;
        const uint64_t rows = to_wrap < left ? to_wrap : left;

        TRY(add_both_ways(list, b, POOL_SLOT_WINDOW, POOL_BORDER_WINDOW,
                          (uint64_t)ring * slot->data_bytes, (uint64_t)row * border->data_bytes,
                          rows * border->data_bytes));
        TRY(add_both_ways(list, b, POOL_SLOT_WINDOW, POOL_BORDER_WINDOW,
                          slot_scales + (uint64_t)ring * slot->scale_bytes,
                          border_scales + (uint64_t)row * border->scale_bytes,
                          rows * border->scale_bytes));
        row += (uint32_t)rows;
    }
    return STATUS_OK;
}

/* Of the previous block's rows [kv 2w][score 2w] the first halves: [kv w][score w]. */
static status_t plan_state(copy_list_t *list, const copy_border_t *b, pool_kind_t slot_pool,
                           pool_kind_t border_pool)
{
    const geometry_pool_t *slot = &b->g->pools[slot_pool];
    const geometry_pool_t *border = &b->g->pools[border_pool];
    const uint64_t half = border->data_bytes / 2;

    if (border->layer_count == 0)
        return STATUS_OK;
    for (uint32_t row = 0; row < border->rows; row++) {
        const uint64_t slot_at =
            (uint64_t)((b->end.value - border->rows + row) % slot->rows) * slot->data_bytes;
        const uint64_t border_at = (uint64_t)row * border->data_bytes;

        TRY(add_both_ways(list, b, slot_pool, border_pool, slot_at, border_at, half));
        TRY(add_both_ways(list, b, slot_pool, border_pool, slot_at + 2 * half, border_at + half,
                          half));
    }
    return STATUS_OK;
}

static status_t plan_border(copy_list_t *list, const copy_border_t *b)
{
    static const pool_kind_t pools[] = {POOL_BORDER_WINDOW, POOL_BORDER_C4, POOL_BORDER_C4_INDEX};

    TRY(plan_window(list, b));
    TRY(plan_state(list, b, POOL_SLOT_C4, POOL_BORDER_C4));
    TRY(plan_state(list, b, POOL_SLOT_C4_INDEX, POOL_BORDER_C4_INDEX));
    for (size_t i = 0; i < COUNT_OF(pools); i++) {
        const copy_pair_t pair = {pools[i], b->layout, b->layout, b->border.value, b->border.value};

        if (b->g->pools[pools[i]].layer_count > 0)
            tell_probe(list, &pair, b->g->pools[pools[i]].rows, true);
    }
    return STATUS_OK;
}

static status_t check_and_plan_border(copy_list_t *list, const copy_border_t *b)
{
    const uint32_t count = list->count;
    const copy_item_t last = count > 0 ? list->items[count - 1] : (copy_item_t){0};
    status_t status;

    TRY(check_side(b->g, b->layout, unit_slot(b->slot), b->take ? "target" : "source"));
    TRY(check_side(b->g, b->layout, unit_border(b->border), b->take ? "source" : "target"));
    if (b->end.value == 0 || b->end.value % PAGE_TOKENS != 0)
        return FAIL(STATUS_INVALID, "position %u is no page's end", b->end.value);
    status = plan_border(list, b);
    return status == STATUS_OK ? STATUS_OK : undo(list, count, last, status);
}

status_t copy_plan_border_keep(copy_list_t *list, const geometry_t *g, const layout_t *layout,
                               slot_t slot, border_t border, position_t end)
{
    TRY(check_and_plan_border(list, &(copy_border_t){g, layout, slot, border, end, .take = false}));
    return STATUS_OK;
}

status_t copy_plan_border_take(copy_list_t *list, const geometry_t *g, const layout_t *layout,
                               border_t border, slot_t slot, position_t end)
{
    TRY(check_and_plan_border(list, &(copy_border_t){g, layout, slot, border, end, .take = true}));
    return STATUS_OK;
}

/* True if runs at first, first + stride, ... of `bytes` lie in [0, limit), without overflow. */
static bool inside(uint64_t first, uint64_t stride, uint32_t count, uint64_t bytes, uint64_t limit)
{
    uint64_t last;

    if (__builtin_mul_overflow(stride, (uint64_t)count - 1, &last) ||
        __builtin_add_overflow(last, first, &last) || __builtin_add_overflow(last, bytes, &last))
        return false;
    return last <= limit;
}

static status_t check_item(const copy_item_t *item, uint64_t source_bytes, uint64_t target_bytes)
{
    if (!inside(item->source, item->source_stride, item->count, item->bytes, source_bytes))
        return FAIL(STATUS_INVALID,
                    "pool %s, for unit %u: %u runs of %llu bytes from %llu leave the source, whose "
                    "limit is %llu",
                    pool_kind_name(item->pool), item->number, item->count,
                    (unsigned long long)item->bytes, (unsigned long long)item->source,
                    (unsigned long long)source_bytes);
    if (!inside(item->target, item->target_stride, item->count, item->bytes, target_bytes))
        return FAIL(STATUS_INVALID,
                    "pool %s, unit %u: %u runs of %llu bytes from %llu leave the target, whose "
                    "limit is %llu",
                    pool_kind_name(item->pool), item->number, item->count,
                    (unsigned long long)item->bytes, (unsigned long long)item->target,
                    (unsigned long long)target_bytes);
    return STATUS_OK;
}

static void execute(const copy_item_t *item, const unsigned char *source, unsigned char *target,
                    bool stream)
{
    const unsigned char *from = source + item->source;
    unsigned char *to = target + item->target;

    for (uint32_t run = 0; run < item->count; run++) {
        if (stream)
            stream_copy(to, from, item->bytes,
                        run + 1 < item->count ? from + item->source_stride : NULL);
        else
            memcpy(to, from, item->bytes);
        from += item->source_stride;
        to += item->target_stride;
    }
}

status_t copy_execute(const copy_list_t *list, const void *source, uint64_t source_bytes,
                      void *target, uint64_t target_bytes)
{
    const bool stream = copy_bytes(list) >= STREAM_BYTES_MIN;

    for (uint32_t i = 0; i < list->count; i++) {
        if (list->items[i].count > 0)
            TRY(check_item(&list->items[i], source_bytes, target_bytes));
    }
    for (uint32_t i = 0; i < list->count; i++)
        execute(&list->items[i], source, target, stream);
    if (stream)
        stream_end();
    return STATUS_OK;
}

uint64_t copy_bytes(const copy_list_t *list)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < list->count; i++)
        bytes += list->items[i].count * list->items[i].bytes;
    return bytes;
}
