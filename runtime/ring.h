/* ring.h - the last frames of an actor in shared memory, for tap, journal and crash report
 * alike.
 *
 * One writer, any number of readers, who need no leave and cannot slow it down. The writer
 * overwrites the oldest; a reader that falls behind is told how many records it missed. Readers
 * may be other processes, and may come after the writer's death: then they find what it did
 * last.
 *
 * A record is claimed by moving `head`, written, and published by moving `tail`; a reader copies
 * a record and then looks whether `head` has passed into it meanwhile.
 */
#ifndef RUNTIME_RING_H
#define RUNTIME_RING_H

#include "runtime/base/status.h"
#include "runtime/message.h"

enum { RING_BYTES = 1 << 20, RING_RECORD_BYTES_MAX = RING_BYTES / 8 };

typedef enum { RING_RECEIVED, RING_SENT, RING_PORT_RECEIVED, RING_PORT_SENT } ring_what_t;

/* In front of every record. */
typedef struct {
    uint64_t us;    /* of the writer's clock */
    uint32_t size;  /* of the bytes kept, behind this */
    uint32_t whole; /* of the frame or body; more than `size` if it was cut */
    uint16_t peer;  /* actor or port */
    uint16_t id;    /* of a port message */
    uint8_t what;   /* ring_what_t */
    uint8_t unused[3];
} ring_record_t;

typedef struct ring ring_t;

/* As in figures.h: named shared memory objects "<prefix><actor>.ring"; the writer creates. */
MUST_USE status_t ring_create(const char *prefix, const char *actor, ring_t **ring);
MUST_USE status_t ring_open(const char *prefix, const char *actor, ring_t **ring);
/* In private memory: for tests and threads. */
MUST_USE status_t ring_create_private(ring_t **ring);
void ring_close(ring_t *ring);
void ring_unlink(const char *prefix, const char *actor);

/* The writer. Longer bytes are cut to RING_RECORD_BYTES_MAX. */
void ring_write(ring_t *ring, const ring_record_t *record, const uint8_t *bytes);

/* A reader's place. */
typedef struct {
    uint64_t at;
    uint64_t missed; /* bytes overwritten before they were read, since the reader began */
} ring_reader_t;

/* From the oldest record that is whole, or from now on. */
void ring_reader_begin(const ring_t *ring, bool from_oldest, ring_reader_t *reader);
/* Copies the next record; `bytes` has room for RING_RECORD_BYTES_MAX. False if there is none
 * yet. */
bool ring_read(const ring_t *ring, ring_reader_t *reader, ring_record_t *record, uint8_t *bytes);

#endif
