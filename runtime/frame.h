/* frame.h - the wire form of what streams say to each other: one ZeroMQ message, one msgpack
 * array.
 *
 * docs/wire.md is the specification for peers in other languages. Messages stand in a DATA frame
 * as pairs of id and body, the body as bin, so that a body which does not decode spoils nothing
 * behind it. Encoding cannot fail in a buffer of FRAME_BYTES_MAX; decoding refuses with
 * STATUS_MALFORMED.
 */
#ifndef RUNTIME_FRAME_H
#define RUNTIME_FRAME_H

#include "runtime/base/limits.h"
#include "runtime/cursor.h"
#include "runtime/message.h"
#include "runtime/stream.h"

enum { FRAME_PROTOCOL = 1 };

typedef enum { FRAME_HELLO, FRAME_DATA, FRAME_ACK, FRAME_REFUSE, FRAME_KIND_COUNT } frame_kind_t;

/* What every frame begins with. */
typedef struct {
    uint32_t protocol;
    frame_kind_t kind;
    actor_id_t from;
    incarnation_t from_incarnation;
    actor_id_t to;
    incarnation_t to_incarnation; /* 0: not known to the sender */
} frame_header_t;

typedef struct {
    bool asks; /* the sender waits for the receiver's HELLO */
    stream_digests_t digests;
    uint64_t
        received; /* seq of the last message taken of the receiver's life named in the header */
    uint32_t credit_messages;
    uint64_t credit_bytes;
    text_view_t name;
    text_view_t endpoint; /* where to answer; empty: the receiver knows */
    uint8_t before; /* how the sender's life before this one ended; a reader takes it as unknown
                       if it is left out, or makes no sense */
} frame_hello_t;

typedef struct {
    uint64_t applied; /* acknowledges all messages up to this seq */
    uint64_t first;   /* seq of the first message here */
    uint32_t count;   /* of messages */
} frame_data_t;

size_t frame_write_hello(uint8_t *frame, const frame_header_t *header, const frame_hello_t *hello);
size_t frame_write_ack(uint8_t *frame, const frame_header_t *header, uint64_t applied);
size_t frame_write_refuse(uint8_t *frame, const frame_header_t *header, const char *reason);
/* Everything in front of the messages; those follow as records. */
size_t frame_write_data(uint8_t *frame, const frame_header_t *header, const frame_data_t *data);

/* A message as it stands in a DATA frame and in a stream's queue: its id, then its body as bin. */
size_t frame_record_bytes(uint16_t id, size_t size);
void frame_write_record(uint8_t *record, uint16_t id, const uint8_t *body, size_t size);

/* The cursor stands behind what was read. */
MUST_USE status_t frame_read_header(cursor_t *cursor, frame_header_t *header);
MUST_USE status_t frame_read_hello(cursor_t *cursor, frame_hello_t *hello);
MUST_USE status_t frame_read_data(cursor_t *cursor, frame_data_t *data);
MUST_USE status_t frame_read_record(cursor_t *cursor, uint16_t *id, const uint8_t **body,
                                    uint32_t *size);
MUST_USE status_t frame_read_ack(cursor_t *cursor, uint64_t *applied);
MUST_USE status_t frame_read_refuse(cursor_t *cursor, text_view_t *reason);

#endif
