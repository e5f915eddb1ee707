/* pool.c - pools in memory that others can map, and copies between them; the bytes of a unit are the backend's. */
#include <string.h>
#include <sys/mman.h>

#include "cache/geometry.h"
#include "device/backend.h"
#include "runtime/base/shared.h"

static const uint64_t pool_magic = 0x6c6f636b73746570; /* "lockstep" */

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + DEVICE_POOL_ALIGN - 1) / DEVICE_POOL_ALIGN * DEVICE_POOL_ALIGN;
}

static uint64_t units_offset(const uint32_t counts[UNIT_COUNT])
{
    uint64_t words = (uint64_t)counts[UNIT_HISTORY] + counts[UNIT_BORDER] + counts[UNIT_SLOT];

    return round_up(sizeof(device_header_t) + words * sizeof(generation_word_t));
}

/* Counts and size of a pool. */
static status_t shape_pool(const device_generic_t *self, device_memory_t *pool,
                           const uint32_t counts[UNIT_COUNT])
{
    uint64_t units;

    TRY(self->backend->units_bytes(self, counts, &units));
    memcpy(pool->counts, counts, sizeof(pool->counts));
    pool->bytes = units_offset(counts) + round_up(units);
    return STATUS_OK;
}

static void place_pool(device_memory_t *pool, void *memory)
{
    uint8_t *bytes = memory;

    pool->memory = memory;
    pool->header = memory;
    pool->generations = (generation_word_t *)(void *)(bytes + sizeof(device_header_t));
    pool->units = bytes + units_offset(pool->counts);
}

generation_word_t *generic_generation(const device_memory_t *pool, unit_kind_t unit, uint32_t index)
{
    const uint32_t *counts = pool->counts;

    ASSERT((unsigned)unit < UNIT_COUNT && index < counts[unit]);
    if (unit != UNIT_HISTORY)
        index += counts[UNIT_HISTORY];
    return pool->generations + index + (unit == UNIT_SLOT ? counts[UNIT_BORDER] : 0);
}

void generic_generation_set(device_t *device, unit_kind_t unit, uint32_t index, uint64_t generation)
{
    device_generic_t *self = (device_generic_t *)device;

    if (index < self->pool.counts[unit])
        generation_publish(generic_generation(&self->pool, unit, index), 0,
                           generation_unpack(generation));
}

static uint64_t test_digest(const device_generic_t *self, const device_memory_t *pool)
{
    return self->backend->digest(self, pool, UNIT_HISTORY, 0, PAGE_TOKENS);
}

status_t generic_pool_create(device_generic_t *self)
{
    const device_config_t *c = &self->config;
    const uint32_t counts[UNIT_COUNT] = {[UNIT_HISTORY] = c->page_count,
                                         [UNIT_BORDER] = c->border_count,
                                         [UNIT_SLOT] = c->slot_count};
    device_header_t *header;
    void *memory = NULL;

    TRY(shape_pool(self, &self->pool, counts));
    if (self->backend->create)
        TRY(self->backend->create(self, self->pool.bytes, &memory));
    else
        TRY(shared_create(c->pool.name, self->pool.bytes, &memory));
    place_pool(&self->pool, memory);
    self->backend->test_fill(self);
    header = memory;
    header->magic = pool_magic;
    header->incarnation = c->incarnation;
    header->geometry = self->shape.digests.geometry;
    header->test_digest = test_digest(self, &self->pool);
    memcpy(header->counts, counts, sizeof(counts));
    atomic_store(&header->ready, 1);
    self->config.pool.bytes = self->pool.bytes;
    self->config.pool.incarnation = c->incarnation;
    return STATUS_OK;
}

static void unmap(device_generic_t *self, device_memory_t *pool, bool own)
{
    if (!pool->memory)
        return;
    if (self->backend->unmap) {
        self->backend->unmap(self, pool->memory, own);
    } else {
        if (own)
            shared_unlink(self->config.pool.name);
        munmap(pool->memory, pool->bytes);
    }
    pool->memory = NULL;
}

void generic_pools_close(device_generic_t *self)
{
    for (uint32_t i = 0; i < self->peer_count; i++)
        unmap(self, &self->peers[i].pool, false);
    unmap(self, &self->pool, true);
}

/* -- peers ------------------------------------------------------------------------------------ */

/* The header says what it must, sizes fit, and page 0 has its digest when read from here. */
static status_t check_peer(const device_generic_t *self, const device_pool_t *wanted,
                           device_memory_t *pool)
{
    const device_header_t *header = pool->memory;
    uint64_t digest;

    if (header->magic != pool_magic || !atomic_load(&header->ready))
        return FAIL(STATUS_MISMATCH, "%s is no pool of a device", wanted->name);
    if (header->incarnation != wanted->incarnation)
        return FAIL(STATUS_STALE, "pool %s: expected incarnation %llu, found %llu", wanted->name,
                    (unsigned long long)wanted->incarnation,
                    (unsigned long long)header->incarnation);
    if (header->geometry != self->shape.digests.geometry)
        return FAIL(STATUS_MISMATCH, "pool %s: expected geometry %016llx, found %016llx",
                    wanted->name, (unsigned long long)self->shape.digests.geometry,
                    (unsigned long long)header->geometry);
    TRY(shape_pool(self, pool, header->counts));
    if (pool->bytes != wanted->bytes || header->counts[UNIT_HISTORY] == 0)
        return FAIL(STATUS_MISMATCH, "pool %s: its counts need %llu bytes, it has %llu",
                    wanted->name, (unsigned long long)pool->bytes,
                    (unsigned long long)wanted->bytes);
    place_pool(pool, pool->memory);
    digest = test_digest(self, pool);
    if (digest != header->test_digest)
        return FAIL(STATUS_CORRUPT, "pool %s: expected test page %016llx, found %016llx",
                    wanted->name, (unsigned long long)header->test_digest,
                    (unsigned long long)digest);
    return STATUS_OK;
}

status_t generic_map(device_t *device, uint32_t peer, const device_pool_t *wanted)
{
    device_generic_t *self = (device_generic_t *)device;
    device_memory_t pool = {0};
    uint32_t place = 0;
    status_t status;

    while (place < self->peer_count && self->peers[place].peer != peer)
        place++;
    if (place == DEVICE_PEERS_MAX)
        return FAIL(STATUS_NO_MEMORY, "more than %d peers", DEVICE_PEERS_MAX);
    if (wanted->bytes < sizeof(device_header_t))
        return FAIL(STATUS_MISMATCH, "pool %s: %llu bytes are none", wanted->name,
                    (unsigned long long)wanted->bytes);
    if (self->backend->map)
        TRY(self->backend->map(self, wanted, &pool.memory));
    else
        TRY(shared_open(wanted->name, wanted->bytes, false, &pool.memory));
    status = check_peer(self, wanted, &pool);
    if (status != STATUS_OK) {
        pool.bytes = wanted->bytes;
        unmap(self, &pool, false);
        return status;
    }
    if (place == self->peer_count)
        self->peer_count++;
    else
        unmap(self, &self->peers[place].pool, false);
    self->peers[place].peer = peer;
    self->peers[place].pool = pool;
    return STATUS_OK;
}

/* -- copies ----------------------------------------------------------------------------------- */

static const device_memory_t *find_peer(const device_generic_t *self, uint32_t peer)
{
    for (uint32_t i = 0; i < self->peer_count; i++)
        if (self->peers[i].peer == peer)
            return &self->peers[i].pool;
    return NULL;
}

static status_t take_target(device_generic_t *self, const device_memory_t *from,
                            const device_copy_t *copy)
{
    generation_word_t *word;
    uint64_t now;

    if ((unsigned)copy->unit >= UNIT_COUNT || copy->source >= from->counts[copy->unit] ||
        copy->target >= self->pool.counts[copy->unit])
        return FAIL(STATUS_INVALID, "copy of unit %d from %u to %u", (int)copy->unit, copy->source,
                    copy->target);
    if (copy->unit == UNIT_HISTORY && (copy->rows == 0 || copy->rows > PAGE_TOKENS))
        return FAIL(STATUS_INVALID, "copy of %u positions of a page", copy->rows);
    word = generic_generation(&self->pool, copy->unit, copy->target);
    now = generation_pack(generation_read(word, 0));
    if (now > copy->target_generation)
        return FAIL(STATUS_STALE, "%s %u: leased as %llx, copy is for %llx",
                    unit_kind_name(copy->unit), copy->target, (unsigned long long)now,
                    (unsigned long long)copy->target_generation);
    generation_publish(word, 0, generation_unpack(copy->target_generation));
    return STATUS_OK;
}

static status_t check_source(const device_memory_t *from, uint32_t peer, const device_copy_t *copy,
                             bool after)
{
    const generation_word_t *word = generic_generation(from, copy->unit, copy->source);
    const generation_t expected = generation_unpack(copy->source_generation);

    if (after ? generation_still(word, 0, expected) : generation_is(word, 0, expected))
        return STATUS_OK;
    return FAIL(STATUS_STALE, "%s %u of peer %u: expected generation %llx, found %llx",
                unit_kind_name(copy->unit), copy->source, peer,
                (unsigned long long)copy->source_generation,
                (unsigned long long)generation_pack(generation_read(word, 0)));
}

static status_t check_digest(const device_generic_t *self, uint32_t peer, const device_copy_t *copy)
{
    uint64_t digest =
        self->backend->digest(self, &self->pool, copy->unit, copy->target, copy->rows);

    if (digest == copy->digest)
        return STATUS_OK;
    return FAIL(STATUS_CORRUPT, "%s %u of peer %u: expected digest %016llx, found %016llx",
                unit_kind_name(copy->unit), copy->source, peer, (unsigned long long)copy->digest,
                (unsigned long long)digest);
}

status_t generic_copy(device_t *device, uint32_t peer, const device_copy_t *copies, uint32_t count,
                      uint32_t *failed)
{
    device_generic_t *self = (device_generic_t *)device;
    const device_memory_t *from = find_peer(self, peer);

    ASSERT(count <= DEVICE_COPIES_MAX);
    *failed = 0;
    if (!from)
        return FAIL(STATUS_NOT_FOUND, "peer %u is not mapped", peer);
    for (*failed = 0; *failed < count; ++*failed) {
        TRY(take_target(self, from, &copies[*failed]));
        TRY(check_source(from, peer, &copies[*failed], false));
    }
    *failed = 0;
    TRY(self->backend->copy(self, from, copies, count));
    for (; *failed < count; ++*failed) {
        TRY(check_source(from, peer, &copies[*failed], true));
        TRY(check_digest(self, peer, &copies[*failed]));
    }
    return STATUS_OK;
}
