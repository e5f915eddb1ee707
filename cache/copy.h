/* copy.h - the one copy operator: a list of runs, planned from the geometry, executed in one place.
 *
 * Every movement of cached bytes (transfer, backup, restore, border kept or taken) is a list of
 * (source, target, count, strides, bytes) between two blocks of memory. The planner knows units,
 * pools and layouts; the executor knows none of them, so a CUDA form needs no more than the list.
 *
 *     copy_list_t list;
 *     copy_list_init(&list, items, COUNT_OF(items), "restore");
 *     TRY(copy_plan(&list, &geometry, &(copy_units_t){&host, &device, source, target, 0, 256}));
 *     TRY(copy_execute(&list, host_memory, host_bytes, pool_memory, pool_bytes));
 *
 * Whole pages and ranges of entries come from the same function, and padding is copied only where
 * that makes runs longer. The executor checks both sides of all runs before it moves the first byte.
 */
#ifndef CACHE_COPY_H
#define CACHE_COPY_H

#include "cache/layout.h"

enum {
    COPY_UNIT_ITEMS_MAX = 24, /* items that one planned unit, or one border, adds to a list */
};

/* `count` runs of `bytes` bytes, from source + i * source_stride to target + i * target_stride. */
typedef struct {
    uint64_t source;
    uint64_t target;
    uint64_t source_stride;
    uint64_t target_stride;
    uint64_t bytes;
    uint32_t count;
    uint32_t number;  /* of the target unit; of the first, if units were merged: for messages */
    pool_kind_t pool; /* likewise */
} copy_item_t;

typedef enum { COPY_WHOLE, COPY_ENTRIES } copy_granularity_t;

/* What the probe copy.path is told, once per pool that a plan touches. */
typedef struct {
    pool_kind_t pool;
    const char *op;
    layout_order_t source_order;
    layout_order_t target_order;
    copy_granularity_t granularity;
    uint32_t entries; /* rows per layer */
    uint32_t page;    /* number of the target unit */
} copy_path_t;

typedef void copy_probe_t(void *context, const copy_path_t *path);

typedef struct {
    copy_item_t *items; /* the caller's */
    uint32_t count;
    uint32_t items_max;
    const char *op;
    copy_probe_t *probe; /* NULL: nobody looks */
    void *probe_context;
} copy_list_t;

/* The same unit in two places. */
typedef struct {
    const layout_t *source_layout;
    const layout_t *target_layout;
    unit_t source;
    unit_t target;
    uint32_t first;  /* history: token positions [first, first + tokens) of the page */
    uint32_t tokens; /* history: PAGE_TOKENS for a whole page; others: ignored */
} copy_units_t;

void copy_list_init(copy_list_t *list, copy_item_t *items, uint32_t items_max, const char *op);

/* Adds one unit. Of a history page, the entries that these positions close: consecutive ranges give
 * each entry once. INVALID: a number or a range beyond its limit, by name; MISMATCH: layouts of
 * other geometries; TOO_LARGE: the list is full. After a failure the list is as it was. */
MUST_USE status_t copy_plan(copy_list_t *list, const geometry_t *g, const copy_units_t *units);
/* Keeps the border of a sequence at `end`, a page's end, from a slot that stands exactly there, in
 * one block of memory. */
MUST_USE status_t copy_plan_border_keep(copy_list_t *list, const geometry_t *g,
                                        const layout_t *layout, slot_t slot, border_t border,
                                        position_t end);
/* The way back, into a cleared slot, which then goes on at `end`. */
MUST_USE status_t copy_plan_border_take(copy_list_t *list, const geometry_t *g,
                                        const layout_t *layout, border_t border, slot_t slot,
                                        position_t end);

/* INVALID, and no byte moved, if any run leaves its block. Source and target runs do not overlap. */
MUST_USE status_t copy_execute(const copy_list_t *list, const void *source, uint64_t source_bytes,
                               void *target, uint64_t target_bytes);
uint64_t copy_bytes(const copy_list_t *list);

#endif
