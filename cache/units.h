/* units.h - positions, entries, pages, slots and borders as types that do not mix.
 *
 * Each is a struct around one number, so dividing a position by an entry count, or passing a slot
 * where a page is wanted, does not compile (tests/cache/violations holds the proof). A *count* is a
 * plain uint32_t; what names one thing of many is typed. The only ways from one type to another are
 * the functions below.
 *
 *   position   a token of a sequence, from 0
 *   ordinal    a page of a sequence, from 0: positions [256 * ordinal, 256 * ordinal + 256)
 *   entry      a compressed row of a sequence at one ratio: entry j covers positions [ratio * j,
 * ratio * j + ratio) row        a row inside one page of a pool page       a page of a device pool
 * or host store: where an ordinal's bytes lie border     a place for what is needed to go on at a
 * page's end slot       a place for the running state of one request
 */
#ifndef CACHE_UNITS_H
#define CACHE_UNITS_H

#include <stdint.h>

#include "runtime/base/check.h"
#include "runtime/base/limits.h"

#define UNITS_NONE UINT32_MAX /* value of a page, slot or border that names nothing */

typedef struct {
    uint32_t value;
} position_t;

typedef struct {
    uint32_t value;
} ordinal_t;

typedef struct {
    uint32_t value;
} entry_t;

typedef struct {
    uint32_t value;
} row_t;

typedef struct {
    uint32_t value;
} page_t;

typedef struct {
    uint32_t value;
} border_t;

typedef struct {
    uint32_t value;
} slot_t;

static inline position_t position_at(uint32_t value)
{
    return (position_t){value};
}

static inline page_t page_at(uint32_t value)
{
    return (page_t){value};
}

static inline border_t border_at(uint32_t value)
{
    return (border_t){value};
}

static inline slot_t slot_at(uint32_t value)
{
    return (slot_t){value};
}

static inline entry_t entry_at(uint32_t value)
{
    return (entry_t){value};
}

/* The page of the sequence that holds this position. */
static inline ordinal_t position_ordinal(position_t position)
{
    return (ordinal_t){position.value / PAGE_TOKENS};
}

/* Pages that `tokens` positions need. */
static inline uint32_t tokens_pages(uint32_t tokens)
{
    return tokens / PAGE_TOKENS + (tokens % PAGE_TOKENS != 0);
}

static inline position_t ordinal_position(ordinal_t ordinal)
{
    ASSERT(ordinal.value <= UINT32_MAX / PAGE_TOKENS);
    return (position_t){ordinal.value * PAGE_TOKENS};
}

/* Ratios divide a page, so an entry never straddles two. */
static inline void ratio_check(uint32_t ratio)
{
    ASSERT(ratio > 0);
    ASSERT(PAGE_TOKENS % ratio == 0);
}

/* Entries that are closed after `tokens` positions; also those that the query at position tokens -
 * 1 sees. */
static inline uint32_t tokens_entries(uint32_t tokens, uint32_t ratio)
{
    ratio_check(ratio);
    return tokens / ratio;
}

/* The entry that covers this position. */
static inline entry_t position_entry(position_t position, uint32_t ratio)
{
    ratio_check(ratio);
    return (entry_t){position.value / ratio};
}

/* The first position that an entry covers; its rotation uses this one. */
static inline position_t entry_position(entry_t entry, uint32_t ratio)
{
    ratio_check(ratio);
    ASSERT(entry.value <= UINT32_MAX / ratio);
    return (position_t){entry.value * ratio};
}

static inline ordinal_t entry_ordinal(entry_t entry, uint32_t ratio)
{
    ratio_check(ratio);
    return (ordinal_t){entry.value / (PAGE_TOKENS / ratio)};
}

static inline row_t entry_row(entry_t entry, uint32_t ratio)
{
    ratio_check(ratio);
    return (row_t){entry.value % (PAGE_TOKENS / ratio)};
}

#endif
