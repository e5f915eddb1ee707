/* free_list.h - which entries of a bounded table are free, in memory that may be copied away.
 *
 * Entries that were given back are linked by an index that each keeps itself; those never used are only counted, so a
 * new table is not touched, however large it is. Last in, first out.
 */
#ifndef RUNTIME_BASE_FREE_LIST_H
#define RUNTIME_BASE_FREE_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/check.h"

enum { FREE_LIST_END = 0xffffffff };

typedef struct {
    uint32_t first; /* given back last; FREE_LIST_END: none */
    uint32_t fresh; /* this one and all behind it were never used */
    uint32_t max;   /* entries of the table */
} free_list_t;

static inline void free_list_init(free_list_t *list, uint32_t max)
{
    *list = (free_list_t){.first = FREE_LIST_END, .max = max};
}

static inline bool free_list_is_empty(const free_list_t *list)
{
    return list->first == FREE_LIST_END && list->fresh == list->max;
}

/* The entry that the next take is about; the list is not empty (ASSERT). */
static inline uint32_t free_list_next(const free_list_t *list)
{
    ASSERT(!free_list_is_empty(list));
    return list->first != FREE_LIST_END ? list->first : list->fresh;
}

/* `link` is what that entry keeps from free_list_give; it means nothing if the entry is fresh. */
static inline void free_list_take(free_list_t *list, uint32_t link)
{
    if (list->first != FREE_LIST_END)
        list->first = link;
    else
        list->fresh++;
}

/* Returns the link that the entry must keep until it is taken again. */
static inline uint32_t free_list_give(free_list_t *list, uint32_t index)
{
    uint32_t link = list->first;

    list->first = index;
    return link;
}

#endif
