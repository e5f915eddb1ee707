/* Records are copied by words with relaxed atomics, so that a reader which races with the writer
 * reads stale words, never undefined ones; whether it raced it learns from `oldest` afterwards
 * (a sequence lock by position). */
#include "runtime/ring.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/base/shared.h"

enum {
    RING_WORDS = RING_BYTES / 8,
    RECORD_WORDS = sizeof(ring_record_t) / 8,
    RING_MAGIC = 0x4c6b5247,
    OBJECT_BYTES_MAX = 160
};

_Static_assert(sizeof(ring_record_t) % 8 == 0, "records are whole words");
_Static_assert((RING_WORDS & (RING_WORDS - 1)) == 0, "positions wrap by masking");

/* Positions count words ever written. */
typedef struct {
    _Atomic uint64_t magic;
    _Atomic uint64_t oldest; /* of the oldest record that is whole */
    _Atomic uint64_t tail;   /* behind the newest record that is whole */
    _Atomic uint64_t words[RING_WORDS];
} shared_t;

struct ring {
    shared_t *shared;
    bool mapped;
};

static uint64_t load(const shared_t *shared, uint64_t at)
{
    return atomic_load_explicit(&shared->words[at & (RING_WORDS - 1)], memory_order_relaxed);
}

static void store(shared_t *shared, uint64_t at, uint64_t word)
{
    atomic_store_explicit(&shared->words[at & (RING_WORDS - 1)], word, memory_order_relaxed);
}

static void load_record(const shared_t *shared, uint64_t at, ring_record_t *record)
{
    uint64_t words[RECORD_WORDS];

    for (uint32_t i = 0; i < RECORD_WORDS; i++)
        words[i] = load(shared, at + i);
    memcpy(record, words, sizeof(*record));
}

static uint64_t span(uint32_t size)
{
    return RECORD_WORDS + ((uint64_t)size + 7) / 8;
}

/* Memory that others map may have been written by anybody: what cannot be is the end of a ring, and
 * neither its writer nor a supervisor that reads it goes round in it for ever. */
static bool is_sound(uint64_t at, uint64_t tail, const ring_record_t *record)
{
    return tail - at <= RING_WORDS && record->size <= RING_RECORD_BYTES_MAX;
}

void ring_write(ring_t *ring, const ring_record_t *record, const uint8_t *bytes)
{
    shared_t *shared = ring->shared;
    uint64_t tail = atomic_load_explicit(&shared->tail, memory_order_relaxed);
    uint64_t oldest = atomic_load_explicit(&shared->oldest, memory_order_relaxed);
    uint64_t words[RECORD_WORDS];
    ring_record_t kept = *record;

    kept.whole = record->size;
    if (kept.size > RING_RECORD_BYTES_MAX)
        kept.size = RING_RECORD_BYTES_MAX;
    /* What will be overwritten is given up before the first word of it changes. */
    while (tail + span(kept.size) - oldest > RING_WORDS) {
        ring_record_t lost;

        load_record(shared, oldest, &lost);
        oldest = is_sound(oldest, tail, &lost) ? oldest + span(lost.size) : tail;
    }
    atomic_store_explicit(&shared->oldest, oldest, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    memcpy(words, &kept, sizeof(kept));
    for (uint32_t i = 0; i < RECORD_WORDS; i++)
        store(shared, tail + i, words[i]);
    for (uint32_t at = 0; at < kept.size; at += 8) {
        uint64_t word = 0;

        memcpy(&word, bytes + at, kept.size - at < 8 ? kept.size - at : 8);
        store(shared, tail + RECORD_WORDS + at / 8, word);
    }
    atomic_store_explicit(&shared->tail, tail + span(kept.size), memory_order_release);
}

void ring_reader_begin(const ring_t *ring, bool from_oldest, ring_reader_t *reader)
{
    const shared_t *shared = ring->shared;

    *reader = (ring_reader_t){0};
    reader->at =
        atomic_load_explicit(from_oldest ? &shared->oldest : &shared->tail, memory_order_acquire);
}

bool ring_read(const ring_t *ring, ring_reader_t *reader, ring_record_t *record, uint8_t *bytes)
{
    const shared_t *shared = ring->shared;

    for (;;) {
        uint64_t tail = atomic_load_explicit(&shared->tail, memory_order_acquire);
        uint64_t oldest = atomic_load_explicit(&shared->oldest, memory_order_relaxed);

        if (reader->at < oldest) {
            reader->missed += 8 * (oldest - reader->at);
            reader->at = oldest;
        }
        if (reader->at >= tail)
            return false;
        load_record(shared, reader->at, record);
        for (uint32_t i = 0; record->size <= RING_RECORD_BYTES_MAX && i < record->size; i += 8) {
            uint64_t word = load(shared, reader->at + RECORD_WORDS + i / 8);

            memcpy(bytes + i, &word, record->size - i < 8 ? record->size - i : 8);
        }
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&shared->oldest, memory_order_relaxed) <= reader->at) {
            if (!is_sound(reader->at, tail, record))
                return false;
            reader->at += span(record->size);
            return true;
        }
    }
}

/* ---- life ---- */

static status_t object_name(const char *prefix, const char *actor, char *object)
{
    int length = snprintf(object, OBJECT_BYTES_MAX, "%s%s.ring", prefix, actor);

    if (length < 0 || length >= OBJECT_BYTES_MAX)
        return FAIL(STATUS_TOO_LARGE, "a shared memory name of %d bytes", length);
    for (char *at = object + strlen(prefix); *at; at++)
        if (*at == '/')
            *at = '.';
    return STATUS_OK;
}

static status_t wrap(shared_t *shared, bool mapped, ring_t **ring_p)
{
    ring_t *ring = malloc(sizeof(*ring));

    if (!ring)
        return FAIL(STATUS_NO_MEMORY, "a ring");
    *ring = (ring_t){shared, mapped};
    *ring_p = ring;
    return STATUS_OK;
}

status_t ring_create_private(ring_t **ring)
{
    shared_t *shared = calloc(1, sizeof(*shared));

    if (!shared)
        return FAIL(STATUS_NO_MEMORY, "a ring of %zu bytes", sizeof(*shared));
    atomic_store(&shared->magic, RING_MAGIC);
    TRY(wrap(shared, false, ring));
    return STATUS_OK;
}

status_t ring_create(const char *prefix, const char *actor, ring_t **ring)
{
    char object[OBJECT_BYTES_MAX];
    void *memory = NULL;

    TRY(object_name(prefix, actor, object));
    TRY(shared_create(object, sizeof(shared_t), &memory));
    TRY(wrap(memory, true, ring));
    atomic_store_explicit(&(*ring)->shared->magic, RING_MAGIC, memory_order_release);
    return STATUS_OK;
}

status_t ring_open(const char *prefix, const char *actor, ring_t **ring)
{
    char object[OBJECT_BYTES_MAX];
    void *memory = NULL;
    shared_t *shared;

    TRY(object_name(prefix, actor, object));
    TRY(shared_open(object, sizeof(shared_t), false, &memory));
    shared = memory;
    if (atomic_load_explicit(&shared->magic, memory_order_acquire) != RING_MAGIC) {
        (void)munmap(memory, sizeof(shared_t));
        return FAIL(STATUS_MISMATCH, "%s is no ring of this version", object);
    }
    TRY(wrap(shared, true, ring));
    return STATUS_OK;
}

void ring_close(ring_t *ring)
{
    if (!ring)
        return;
    if (ring->mapped)
        (void)munmap(ring->shared, sizeof(shared_t));
    else
        free(ring->shared);
    free(ring);
}

void ring_unlink(const char *prefix, const char *actor)
{
    char object[OBJECT_BYTES_MAX];

    if (object_name(prefix, actor, object) == STATUS_OK)
        shared_unlink(object);
}
