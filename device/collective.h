/* collective.h - the ranks of a group exchange slices through shared memory. Collectives move; they
 * never add.
 *
 * All ranks make the same calls in the same order. A call posts this rank's bytes, waits until all
 * have posted, compares what each one believes this call to be, and copies what it wants out of the
 * others' buffers. Waiting polls for a bounded time (not at all with more ranks than cores), then
 * sleeps. Every wait watches one word, `broken`: once it is set, by anyone who maps the segment,
 * all calls return STATUS_BROKEN, now and for ever. A new epoch has a new segment.
 *
 * A zeroed segment is a valid one, so whoever comes first creates it and nobody initialises it.
 * Each rank's place also shows where it is (epoch, seq, layer, site, calls posted, entered and
 * left): collective_look maps it read-only for those who look for the one that hangs.
 */
#ifndef DEVICE_COLLECTIVE_H
#define DEVICE_COLLECTIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/limits.h"
#include "runtime/base/status.h"

enum { COLLECTIVE_BUFFERS = 2 };

/* What a rank believes the call to be; all must agree. */
typedef struct {
    uint64_t epoch;
    uint64_t seq;
    uint32_t layer;
    uint32_t site; /* which of the layer's calls; its caller has the names */
    uint32_t call; /* counts the calls of this segment from 1 */
    uint64_t bytes;
} collective_call_t;

/* One rank's place. Counters of calls: posted >= entered >= left, each by this rank alone. */
typedef struct {
    _Alignas(64) atomic_uint posted;
    atomic_uint entered;
    atomic_uint left;
    collective_call_t calls[COLLECTIVE_BUFFERS];
    _Atomic uint64_t epoch; /* where it is, for observers; layer and site of call `posted` */
    _Atomic uint64_t seq;
    _Atomic uint32_t layer;
    _Atomic uint32_t site;
} collective_place_t;

/* The segment; buffers follow, COLLECTIVE_BUFFERS of `capacity` bytes for each rank. */
typedef struct {
    _Atomic uint64_t shape;           /* world and capacity, written by whoever comes first */
    _Alignas(64) atomic_uint broken;  /* 0, or 1 + the rank or observer that broke it */
    _Alignas(64) atomic_uint arrived; /* posts of all ranks, all calls */
    _Alignas(64) atomic_uint open;    /* calls that all ranks have posted; futex */
    collective_place_t places[RANKS_MAX];
} collective_segment_t;

/* This rank's handle. Open: the caller embeds it. One thread at a time. */
typedef struct {
    collective_segment_t *segment;
    uint8_t *buffers;
    size_t bytes; /* mapped by us; 0: the memory is the caller's */
    uint64_t capacity;
    uint32_t rank;
    uint32_t world;
    uint32_t polls;
    uint64_t epoch; /* as the calls say */
    uint64_t seq;
    uint32_t layer;
    uint32_t site;
    uint32_t call;
} collective_t;

/* Bytes of a segment whose ranks post at most `capacity` bytes in one call. */
size_t collective_bytes(uint32_t world, uint64_t capacity);
/* In memory that all ranks share (threads, or processes after fork), zeroed before the first one
 * comes. */
MUST_USE status_t collective_init(collective_t *c, void *memory, uint32_t rank, uint32_t world,
                                  uint64_t capacity);
/* In named shared memory ("/lockstep-..."), created by whoever comes first. */
MUST_USE status_t collective_open(collective_t *c, const char *name, uint32_t rank, uint32_t world,
                                  uint64_t capacity);
void collective_close(collective_t *c);
/* Names vanish; those who have it mapped keep it. */
void collective_unlink(const char *name);

/* Following calls belong to this step. */
void collective_step(collective_t *c, uint64_t epoch, uint64_t seq);
void collective_layer(collective_t *c, uint32_t layer);

/* all[row][offsets[r] .. offsets[r + 1]) = rank r's mine[row][..], for every rank. Floats; mine is
 * dense. BROKEN, or MISMATCH with both calls in words. */
MUST_USE status_t collective_gather(collective_t *c, uint32_t site, const float *mine,
                                    uint32_t rows, const uint32_t *offsets, float *all,
                                    size_t all_stride);
/* out[row] = columns [first, first + count) of row `row` of the rank owners[row]; out is dense. */
MUST_USE status_t collective_pick(collective_t *c, uint32_t site, const float *mine, uint32_t rows,
                                  uint32_t columns, const uint8_t *owners, uint32_t first,
                                  uint32_t count, float *out);

/* Releases every waiter. Any thread or process, at any time. */
void collective_break(collective_segment_t *segment, uint32_t who);
bool collective_broken(const collective_t *c);

/* The segment of a running group, read-only and without its buffers; NOT_FOUND or MISMATCH. */
MUST_USE status_t collective_look(const char *name, const collective_segment_t **segment);
void collective_look_end(const collective_segment_t *segment);
/* Ranks of a segment; 0 before the first one came. */
uint32_t collective_world(const collective_segment_t *segment);
/* Whom `rank` waits for now, as bits: those that have not posted the call that it has. */
uint64_t collective_missing(const collective_segment_t *segment, uint32_t rank);

#endif
