/* queue.h - a bounded first-in first-out of byte records in one block that grows and never gives
 * back.
 *
 * Records are contiguous and 8-byte aligned. A place names a record for good: places count bytes
 * ever pushed, so they stay valid while the block moves. Growing doubles up to a limit; at the
 * limit a push returns NULL.
 */
#ifndef RUNTIME_QUEUE_H
#define RUNTIME_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Open: owners embed one. */
typedef struct {
    uint8_t *bytes;
    size_t size;   /* of the block */
    size_t limit;  /* most it may grow to */
    size_t head;   /* offset of the oldest record */
    size_t tail;   /* offset behind the newest */
    uint64_t base; /* place of offset 0 */
    uint32_t count;
} queue_t;

void queue_init(queue_t *queue, size_t limit);
void queue_fini(queue_t *queue);
/* Room for one record behind all others; the caller writes it before the next call. NULL at the
 * limit. */
void *queue_push(queue_t *queue, size_t size);
/* The oldest record, or NULL. Valid until the next push. */
void *queue_front(const queue_t *queue, size_t *size);
/* There must be one (ASSERT). */
void queue_pop(queue_t *queue);
void queue_clear(queue_t *queue);
/* Bytes held, headers included. */
size_t queue_bytes(const queue_t *queue);

/* Walking without popping: from queue_first, each record and the place behind it; NULL at the end.
 * A place older than the oldest record is a programmer error (ASSERT). */
uint64_t queue_first(const queue_t *queue);
uint64_t queue_end(const queue_t *queue);
void *queue_at(const queue_t *queue, uint64_t place, size_t *size, uint64_t *next);

#endif
