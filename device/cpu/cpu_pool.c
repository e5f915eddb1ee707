/* device_cpu_pool.c - the pool of a CPU device, those of its peers, and copies between them. */
#include <string.h>
#include <sys/mman.h>

#include "cache/copy.h"
#include "cache/digest.h"
#include "device/cpu/cpu_parts.h"
#include "runtime/base/probe.h"
#include "runtime/base/random.h"
#include "runtime/base/shared.h"

static const uint64_t pool_magic = 0x6c6f636b73746570; /* "lockstep" */

enum { POOL_ALIGN = 4096 };

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
}

static uint64_t units_offset(const uint32_t counts[UNIT_COUNT])
{
    uint64_t words = (uint64_t)counts[UNIT_HISTORY] + counts[UNIT_BORDER] + counts[UNIT_SLOT];
    return round_up(sizeof(device_cpu_header_t) + words * sizeof(generation_word_t));
}

/* Layout and size of a pool with these counts. */
static status_t pool_shape(device_cpu_pool_t *pool, const geometry_t *g,
                           const uint32_t counts[UNIT_COUNT])
{
    TRY(layout_init(&pool->layout, g, LAYOUT_LAYER_FIRST, counts));
    pool->size = units_offset(counts) + round_up(pool->layout.bytes);
    return STATUS_OK;
}

static void pool_place(device_cpu_pool_t *pool, void *bytes)
{
    pool->bytes = bytes;
    pool->header = bytes;
    pool->generations = (generation_word_t *)(void *)(pool->bytes + sizeof(device_cpu_header_t));
    pool->units = pool->bytes + units_offset(pool->layout.counts);
}

void device_cpu_pool_close(device_cpu_pool_t *pool)
{
    if (pool->bytes)
        munmap(pool->bytes, pool->size);
    pool->bytes = NULL;
}

generation_word_t *device_cpu_generation(const device_cpu_pool_t *pool, unit_kind_t unit,
                                         uint32_t index)
{
    const uint32_t *counts = pool->layout.counts;

    ASSERT((unsigned)unit < UNIT_COUNT && index < counts[unit]);
    if (unit != UNIT_HISTORY)
        index += counts[UNIT_HISTORY];
    return pool->generations + index + (unit == UNIT_SLOT ? counts[UNIT_BORDER] : 0);
}

/* A pattern that only this pool's life has, in every part of page 0. */
static void fill_test_page(device_cpu_t *self)
{
    const geometry_t *g = &self->geometry;
    random_t random;

    random_init(&random, self->config.incarnation);
    for (int kind = 0; kind < POOL_COUNT; kind++) {
        const geometry_pool_t *p = &g->pools[kind];
        for (uint32_t i = 0; p->unit == UNIT_HISTORY && i < p->layer_count; i++) {
            uint8_t *part =
                self->pool.units + layout_offset(&self->pool.layout, g, (pool_kind_t)kind, i, 0);
            for (uint32_t at = 0; at < p->raw_bytes; at++)
                part[at] = (uint8_t)random_next(&random);
        }
    }
}

status_t device_cpu_pool_create(device_cpu_t *self)
{
    const device_config_t *c = &self->config;
    const uint32_t counts[UNIT_COUNT] = {[UNIT_HISTORY] = c->page_count,
                                         [UNIT_BORDER] = c->border_count,
                                         [UNIT_SLOT] = c->slot_count};
    device_cpu_header_t *header;
    void *memory = NULL;

    TRY(pool_shape(&self->pool, &self->geometry, counts));
    TRY(shared_create(c->pool.name, self->pool.size, &memory));
    pool_place(&self->pool, memory);
    fill_test_page(self);
    header = memory;
    header->magic = pool_magic;
    header->incarnation = c->incarnation;
    header->geometry = self->geometry.digest;
    header->test_digest =
        digest_unit(&self->geometry, &self->pool.layout, self->pool.units, unit_page(page_at(0)));
    memcpy(header->counts, counts, sizeof(counts));
    atomic_store(&header->ready, 1);
    self->config.pool.bytes = self->pool.size;
    self->config.pool.incarnation = c->incarnation;
    return STATUS_OK;
}

/* -- peers ------------------------------------------------------------------------------------ */

/* The header says what it must, sizes fit, and page 0 has its digest when read from here. */
static status_t map_check(const device_cpu_t *self, const device_pool_t *wanted, void *memory,
                          device_cpu_pool_t *pool)
{
    const device_cpu_header_t *header = memory;
    uint64_t digest;

    if (header->magic != pool_magic || !atomic_load(&header->ready))
        return FAIL(STATUS_MISMATCH, "%s is no pool of a CPU device", wanted->name);
    if (header->incarnation != wanted->incarnation)
        return FAIL(STATUS_STALE, "pool %s: expected incarnation %llu, found %llu", wanted->name,
                    (unsigned long long)wanted->incarnation,
                    (unsigned long long)header->incarnation);
    if (header->geometry != self->geometry.digest)
        return FAIL(STATUS_MISMATCH, "pool %s: expected geometry %016llx, found %016llx",
                    wanted->name, (unsigned long long)self->geometry.digest,
                    (unsigned long long)header->geometry);
    TRY(pool_shape(pool, &self->geometry, header->counts));
    if (pool->size != wanted->bytes || header->counts[UNIT_HISTORY] == 0)
        return FAIL(STATUS_MISMATCH, "pool %s: its counts need %llu bytes, it has %llu",
                    wanted->name, (unsigned long long)pool->size,
                    (unsigned long long)wanted->bytes);
    pool_place(pool, memory);
    digest = digest_unit(&self->geometry, &pool->layout, pool->units, unit_page(page_at(0)));
    if (digest != header->test_digest)
        return FAIL(STATUS_CORRUPT, "pool %s: expected test page %016llx, found %016llx",
                    wanted->name, (unsigned long long)header->test_digest,
                    (unsigned long long)digest);
    return STATUS_OK;
}

status_t device_cpu_map(device_t *device, uint32_t peer, const device_pool_t *wanted)
{
    device_cpu_t *self = (device_cpu_t *)device;
    device_cpu_pool_t pool = {0};
    uint32_t place = 0;
    status_t status;
    void *memory = NULL;

    while (place < self->peer_count && self->peers[place].peer != peer)
        place++;
    if (place == DEVICE_CPU_PEERS_MAX)
        return FAIL(STATUS_NO_MEMORY, "more than %d peers", DEVICE_CPU_PEERS_MAX);
    if (wanted->bytes < sizeof(device_cpu_header_t))
        return FAIL(STATUS_MISMATCH, "pool %s: %llu bytes are none", wanted->name,
                    (unsigned long long)wanted->bytes);
    TRY(shared_open(wanted->name, wanted->bytes, false, &memory));
    status = map_check(self, wanted, memory, &pool);
    if (status != STATUS_OK) {
        munmap(memory, wanted->bytes);
        return status;
    }
    if (place == self->peer_count)
        self->peer_count++;
    else
        device_cpu_pool_close(&self->peers[place].pool);
    self->peers[place].peer = peer;
    self->peers[place].pool = pool;
    return STATUS_OK;
}

/* -- copies ----------------------------------------------------------------------------------- */

static const device_cpu_pool_t *find_peer(const device_cpu_t *self, uint32_t peer)
{
    for (uint32_t i = 0; i < self->peer_count; i++)
        if (self->peers[i].peer == peer)
            return &self->peers[i].pool;
    return NULL;
}

static uint64_t digest_of(const device_cpu_t *self, const device_copy_t *copy)
{
    if (copy->unit == UNIT_HISTORY)
        return digest_page_open(&self->geometry, &self->pool.layout, self->pool.units,
                                page_at(copy->target), copy->rows);
    return digest_unit(&self->geometry, &self->pool.layout, self->pool.units,
                       (unit_t){copy->unit, copy->target});
}

static status_t copy_take_target(device_cpu_t *self, const device_copy_t *copy)
{
    generation_word_t *word = device_cpu_generation(&self->pool, copy->unit, copy->target);
    uint64_t now = generation_pack(generation_read(word, 0));

    if (now > copy->target_generation)
        return FAIL(STATUS_STALE, "%s %u: leased as %llx, copy is for %llx",
                    unit_kind_name(copy->unit), copy->target, (unsigned long long)now,
                    (unsigned long long)copy->target_generation);
    generation_publish(word, 0, generation_unpack(copy->target_generation));
    return STATUS_OK;
}

static status_t fail_stale(const device_copy_t *copy, const generation_word_t *word)
{
    return FAIL(STATUS_STALE, "%s %u of peer %u: expected generation %llx, found %llx",
                unit_kind_name(copy->unit), copy->source, copy->peer,
                (unsigned long long)copy->source_generation,
                (unsigned long long)generation_pack(generation_read(word, 0)));
}

enum { PULL = 0 /* op of the probe copy_path; backup and restore will follow */ };

static void raise_path(void *context, const copy_path_t *path)
{
    (void)context;
    PROBE(copy_path, path->pool, PULL, (uint64_t)path->source_order << 8 | path->target_order,
          path->granularity, path->entries, path->page);
}

status_t device_cpu_copy(device_t *device, const device_copy_t *copy)
{
    device_cpu_t *self = (device_cpu_t *)device;
    const device_cpu_pool_t *peer = find_peer(self, copy->peer);
    const generation_t expected = generation_unpack(copy->source_generation);
    copy_item_t items[COPY_UNIT_ITEMS_MAX];
    copy_list_t list;
    uint64_t digest;

    if (!peer)
        return FAIL(STATUS_NOT_FOUND, "peer %u is not mapped", copy->peer);
    if ((unsigned)copy->unit >= UNIT_COUNT || copy->source >= peer->layout.counts[copy->unit] ||
        copy->target >= self->pool.layout.counts[copy->unit])
        return FAIL(STATUS_INVALID, "copy of unit %d from %u to %u", (int)copy->unit, copy->source,
                    copy->target);
    if (copy->unit == UNIT_HISTORY && (copy->rows == 0 || copy->rows > PAGE_TOKENS))
        return FAIL(STATUS_INVALID, "copy of %u positions of a page", copy->rows);
    copy_list_init(&list, items, COUNT_OF(items), "pull");
    list.probe = raise_path;
    TRY(copy_plan(&list, &self->geometry,
                  &(copy_units_t){&peer->layout, &self->pool.layout,
                                  (unit_t){copy->unit, copy->source},
                                  (unit_t){copy->unit, copy->target}, 0, copy->rows}));
    TRY(copy_take_target(self, copy));

    const generation_word_t *word = device_cpu_generation(peer, copy->unit, copy->source);
    if (!generation_is(word, 0, expected))
        return fail_stale(copy, word);
    TRY(copy_execute(&list, peer->units, peer->layout.bytes, self->pool.units,
                     self->pool.layout.bytes));
    if (!generation_still(word, 0, expected))
        return fail_stale(copy, word);
    digest = digest_of(self, copy);
    if (digest != copy->digest)
        return FAIL(STATUS_CORRUPT, "%s %u of peer %u: expected digest %016llx, found %016llx",
                    unit_kind_name(copy->unit), copy->source, copy->peer,
                    (unsigned long long)copy->digest, (unsigned long long)digest);
    return STATUS_OK;
}
