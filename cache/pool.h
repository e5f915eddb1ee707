/* pool.h - who holds each page, border and slot of one group's device pools.
 *
 * The leader of a group keeps it; it moves no bytes. Every unit is in one state:
 *
 *             lease            release
 *     FREE ---------> LEASED -----------> FREE        one owner: an attempt's handle
 *                       | cache
 *                       v           evict
 *                     CACHED -----------> FREE        no owner, any number of references
 *
 *     any --quarantine_all--> QUARANTINED --quarantine_release--> FREE
 *
 * 1. FREE + LEASED + CACHED + QUARANTINED units are all units.
 * 2. A leased unit has one owner and no references; a cached one has references and no owner.
 * 3. Each lease is a new generation; a generation never comes back, whatever the epoch.
 * 4. Everything starts in quarantine: a new leader knows nothing about copies still under way.
 * 5. Page 0 stays in quarantine for ever: it is what peers test their mapping with.
 *
 * One relocatable block without pointers: a copy of its bytes is a copy of the pool. Not thread
 * safe; never blocks or allocates. Wrong calls (another's unit, a doubled release) are assertions.
 */
#ifndef CACHE_POOL_H
#define CACHE_POOL_H

#include <stddef.h>
#include <stdio.h>

#include "cache/generation.h"
#include "cache/geometry.h"
#include "cache/units.h"

#define POOL_TEST_PAGE 0u      /* never leased */
#define POOL_NOBODY UINT32_MAX /* not an owner */

typedef enum {
    POOL_FREE,
    POOL_LEASED,
    POOL_CACHED,
    POOL_QUARANTINED,
    POOL_STATE_COUNT
} pool_state_t;

typedef struct {
    generation_t generation;
    uint32_t owner;
    uint32_t references;
    uint32_t next_free;
    pool_state_t state;
} pool_item_t;

typedef struct {
    uint32_t first; /* index of number 0 in items */
    uint32_t count;
    uint32_t free_head;
    uint32_t in_state[POOL_STATE_COUNT];
} pool_unit_t;

typedef struct {
    size_t bytes; /* of the whole block */
    uint32_t epoch;
    pool_unit_t units[UNIT_COUNT];
    pool_item_t items[]; /* pages, then borders, then slots */
} pool_t;

size_t pool_bytes(const uint32_t counts[UNIT_COUNT]);
/* Lays the pool into `memory` of pool_bytes, aligned to 8. Everything is in quarantine, epoch 0. */
pool_t *pool_init(void *memory, size_t bytes, const uint32_t counts[UNIT_COUNT]);

/* True if that many of each are free. */
bool pool_has(const pool_t *pool, const uint32_t counts[UNIT_COUNT]);
/* All `count` pages or none: BUSY. Lowest numbers first in a fresh pool, last freed first later. */
MUST_USE status_t pool_lease_pages(pool_t *pool, uint32_t owner, uint32_t count, page_t *pages);
MUST_USE status_t pool_lease_border(pool_t *pool, uint32_t owner, border_t *border);
MUST_USE status_t pool_lease_slot(pool_t *pool, uint32_t owner, slot_t *slot);
void pool_release(pool_t *pool, unit_t unit, uint32_t owner);

/* From the owner to everybody: nobody writes it any more. The former owner holds one reference. */
void pool_cache(pool_t *pool, unit_t unit, uint32_t owner);
void pool_share(pool_t *pool, unit_t unit);
/* Returns the references that are left. The unit stays cached, also without any. */
uint32_t pool_unshare(pool_t *pool, unit_t unit);
/* A cached unit without references becomes free. */
void pool_evict(pool_t *pool, unit_t unit);

/* A new epoch: everything is in quarantine, whoever held it. The epoch must have grown. */
void pool_quarantine_all(pool_t *pool, uint32_t epoch);
/* After QUIESCED of all ranks: what is in quarantine, but for the test page, is free. Returns how
 * many units that were. */
uint32_t pool_quarantine_release(pool_t *pool);

const pool_item_t *pool_item(const pool_t *pool, unit_t unit);
uint32_t pool_count(const pool_t *pool, unit_kind_t unit, pool_state_t state);
/* Units that an owner holds; O(n), for checks. */
uint32_t pool_owned(const pool_t *pool, uint32_t owner);

/* Invariant 1 by the running counts; O(1). */
void pool_check(const pool_t *pool);
/* All invariants by looking at every unit; O(n). */
void pool_check_all(const pool_t *pool);
void pool_print(const pool_t *pool, FILE *out);

#endif
