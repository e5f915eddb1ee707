#include "cache/pool.h"

#include <stdalign.h>
#include <string.h>

static const char *const state_names[POOL_STATE_COUNT] = {"free", "leased", "cached",
                                                          "quarantined"};

static pool_item_t *item_of(pool_t *pool, unit_t unit)
{
    ASSERT((unsigned)unit.kind < UNIT_COUNT);
    ASSERT(unit.number < pool->units[unit.kind].count);
    return &pool->items[pool->units[unit.kind].first + unit.number];
}

/* The only place where a state changes. */
static void become(pool_t *pool, unit_t unit, pool_item_t *item, pool_state_t state)
{
    pool_unit_t *kind = &pool->units[unit.kind];

    kind->in_state[item->state]--;
    kind->in_state[state]++;
    item->state = state;
    if (state == POOL_FREE) {
        item->next_free = kind->free_head;
        kind->free_head = unit.number;
    }
}

size_t pool_bytes(const uint32_t counts[UNIT_COUNT])
{
    size_t items = 0;

    for (int kind = 0; kind < UNIT_COUNT; kind++)
        items += counts[kind];
    return sizeof(pool_t) + items * sizeof(pool_item_t);
}

pool_t *pool_init(void *memory, size_t bytes, const uint32_t counts[UNIT_COUNT])
{
    pool_t *pool = memory;
    uint32_t first = 0;

    ASSERT((uintptr_t)memory % alignof(pool_t) == 0);
    ASSERT(bytes >= pool_bytes(counts));
    memset(pool, 0, pool_bytes(counts));
    pool->bytes = pool_bytes(counts);
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        ASSERT(counts[kind] <= UINT32_MAX - 1 - first);
        pool->units[kind] = (pool_unit_t){
            .first = first,
            .count = counts[kind],
            .free_head = UNITS_NONE,
            .in_state[POOL_QUARANTINED] = counts[kind],
        };
        first += counts[kind];
    }
    for (uint32_t i = 0; i < first; i++)
        pool->items[i] =
            (pool_item_t){.owner = POOL_NOBODY, .next_free = UNITS_NONE, .state = POOL_QUARANTINED};
    return pool;
}

bool pool_has(const pool_t *pool, const uint32_t counts[UNIT_COUNT])
{
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        if (pool->units[kind].in_state[POOL_FREE] < counts[kind])
            return false;
    }
    return true;
}

static uint32_t lease(pool_t *pool, unit_kind_t kind, uint32_t owner)
{
    const unit_t unit = {kind, pool->units[kind].free_head};
    pool_item_t *item = item_of(pool, unit);

    ASSERT(item->state == POOL_FREE);
    pool->units[kind].free_head = item->next_free;
    item->next_free = UNITS_NONE;
    item->owner = owner;
    item->generation.epoch = pool->epoch;
    item->generation.count++;
    ASSERT(item->generation.count != 0); /* 2^32 leases of one unit: generations would repeat */
    become(pool, unit, item, POOL_LEASED);
    return unit.number;
}

static status_t room(const pool_t *pool, unit_kind_t kind, uint32_t count)
{
    const pool_unit_t *unit = &pool->units[kind];

    if (unit->in_state[POOL_FREE] < count)
        return FAIL(STATUS_BUSY, "%u units of %s wanted, %u of %u are free", count,
                    unit_kind_name(kind), unit->in_state[POOL_FREE], unit->count);
    return STATUS_OK;
}

status_t pool_lease_pages(pool_t *pool, uint32_t owner, uint32_t count, page_t *pages)
{
    ASSERT(owner != POOL_NOBODY);
    TRY(room(pool, UNIT_HISTORY, count));
    for (uint32_t i = 0; i < count; i++)
        pages[i] = page_at(lease(pool, UNIT_HISTORY, owner));
    return STATUS_OK;
}

status_t pool_lease_border(pool_t *pool, uint32_t owner, border_t *border)
{
    ASSERT(owner != POOL_NOBODY);
    TRY(room(pool, UNIT_BORDER, 1));
    *border = border_at(lease(pool, UNIT_BORDER, owner));
    return STATUS_OK;
}

status_t pool_lease_slot(pool_t *pool, uint32_t owner, slot_t *slot)
{
    ASSERT(owner != POOL_NOBODY);
    TRY(room(pool, UNIT_SLOT, 1));
    *slot = slot_at(lease(pool, UNIT_SLOT, owner));
    return STATUS_OK;
}

/* The item, which this owner has leased; it has no owner afterwards. */
static pool_item_t *disown(pool_t *pool, unit_t unit, uint32_t owner)
{
    pool_item_t *item = item_of(pool, unit);

    ASSERT(item->state == POOL_LEASED);
    ASSERT(item->owner == owner);
    item->owner = POOL_NOBODY;
    return item;
}

void pool_release(pool_t *pool, unit_t unit, uint32_t owner)
{
    become(pool, unit, disown(pool, unit, owner), POOL_FREE);
}

void pool_cache(pool_t *pool, unit_t unit, uint32_t owner)
{
    pool_item_t *item = disown(pool, unit, owner);

    ASSERT(unit.kind != UNIT_SLOT); /* a slot is never cached */
    item->references = 1;
    become(pool, unit, item, POOL_CACHED);
}

void pool_share(pool_t *pool, unit_t unit)
{
    pool_item_t *item = item_of(pool, unit);

    ASSERT(item->state == POOL_CACHED);
    ASSERT(item->references < UINT32_MAX);
    item->references++;
}

uint32_t pool_unshare(pool_t *pool, unit_t unit)
{
    pool_item_t *item = item_of(pool, unit);

    ASSERT(item->state == POOL_CACHED);
    ASSERT(item->references > 0);
    return --item->references;
}

void pool_evict(pool_t *pool, unit_t unit)
{
    pool_item_t *item = item_of(pool, unit);

    ASSERT(item->state == POOL_CACHED);
    ASSERT(item->references == 0);
    become(pool, unit, item, POOL_FREE);
}

void pool_quarantine_all(pool_t *pool, uint32_t epoch)
{
    ASSERT(epoch > pool->epoch);
    pool->epoch = epoch;
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        pool_unit_t *unit = &pool->units[kind];

        for (uint32_t i = 0; i < unit->count; i++) {
            pool_item_t *item = &pool->items[unit->first + i];

            item->owner = POOL_NOBODY;
            item->references = 0;
            item->next_free = UNITS_NONE;
            item->state = POOL_QUARANTINED;
        }
        unit->free_head = UNITS_NONE;
        memset(unit->in_state, 0, sizeof(unit->in_state));
        unit->in_state[POOL_QUARANTINED] = unit->count;
    }
}

static bool is_test_page(unit_t unit)
{
    return unit.kind == UNIT_HISTORY && unit.number == POOL_TEST_PAGE;
}

uint32_t pool_quarantine_release(pool_t *pool)
{
    uint32_t freed = 0;

    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        /* from the last to the first, so that the lowest number is leased first */
        for (uint32_t i = pool->units[kind].count; i-- > 0;) {
            const unit_t unit = {(unit_kind_t)kind, i};
            pool_item_t *item = item_of(pool, unit);

            if (item->state == POOL_QUARANTINED && !is_test_page(unit)) {
                become(pool, unit, item, POOL_FREE);
                freed++;
            }
        }
    }
    return freed;
}

const pool_item_t *pool_item(const pool_t *pool, unit_t unit)
{
    ASSERT((unsigned)unit.kind < UNIT_COUNT);
    ASSERT(unit.number < pool->units[unit.kind].count);
    return &pool->items[pool->units[unit.kind].first + unit.number];
}

uint32_t pool_count(const pool_t *pool, unit_kind_t unit, pool_state_t state)
{
    ASSERT((unsigned)unit < UNIT_COUNT);
    ASSERT((unsigned)state < POOL_STATE_COUNT);
    return pool->units[unit].in_state[state];
}

uint32_t pool_owned(const pool_t *pool, uint32_t owner)
{
    uint32_t owned = 0;

    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        const pool_item_t *items = &pool->items[pool->units[kind].first];
        uint32_t leased = pool->units[kind].in_state[POOL_LEASED]; /* nobody owns others */

        for (uint32_t i = 0; leased > 0 && i < pool->units[kind].count; i++) {
            leased -= items[i].state == POOL_LEASED;
            owned += items[i].owner == owner;
        }
    }
    return owned;
}

void pool_check(const pool_t *pool)
{
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        uint64_t sum = 0;

        for (int state = 0; state < POOL_STATE_COUNT; state++)
            sum += pool->units[kind].in_state[state];
        ASSERT(sum == pool->units[kind].count);
    }
}

static void check_item(const pool_item_t *item, uint32_t epoch)
{
    ASSERT((unsigned)item->state < POOL_STATE_COUNT);
    ASSERT((item->owner != POOL_NOBODY) == (item->state == POOL_LEASED));
    if (item->state != POOL_CACHED)
        ASSERT(item->references == 0);
    if (item->state != POOL_FREE)
        ASSERT(item->next_free == UNITS_NONE);
    ASSERT(item->generation.epoch <= epoch);
}

void pool_check_all(const pool_t *pool)
{
    pool_check(pool);
    if (pool->units[UNIT_HISTORY].count > 0)
        ASSERT(pool_item(pool, unit_page(page_at(POOL_TEST_PAGE)))->state == POOL_QUARANTINED);
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        const pool_unit_t *unit = &pool->units[kind];
        uint32_t seen[POOL_STATE_COUNT] = {0}, listed = 0;

        for (uint32_t i = 0; i < unit->count; i++) {
            const pool_item_t *item = &pool->items[unit->first + i];

            check_item(item, pool->epoch);
            seen[item->state]++;
        }
        for (int state = 0; state < POOL_STATE_COUNT; state++)
            ASSERT(seen[state] == unit->in_state[state]);
        for (uint32_t i = unit->free_head; i != UNITS_NONE;
             i = pool->items[unit->first + i].next_free) {
            ASSERT(i < unit->count);
            ASSERT(pool->items[unit->first + i].state == POOL_FREE);
            listed++;
            ASSERT(listed <= unit->count); /* a ring in the list would exceed it */
        }
        ASSERT(listed == unit->in_state[POOL_FREE]);
    }
}

void pool_print(const pool_t *pool, FILE *out)
{
    fprintf(out, "epoch %u\n", pool->epoch);
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        fprintf(out, "%-8s %8u", unit_kind_name((unit_kind_t)kind), pool->units[kind].count);
        for (int state = 0; state < POOL_STATE_COUNT; state++)
            fprintf(out, " %s %u", state_names[state], pool->units[kind].in_state[state]);
        fprintf(out, "\n");
    }
}
