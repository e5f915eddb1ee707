/* stream.h - what one actor knows of one peer: its life, what was sent to it and not yet
 * acknowledged, what came.
 *
 * A pure state machine: frames in, frames out, time as an argument; no socket, no clock, no thread.
 * A stream delivers in seq order, once each, over connections that may be lost at any time, and it
 * starts anew with each life of a peer. docs/wire.md shows the frames. Memory grows with what is
 * unacknowledged, to a limit.
 *
 *            peer's HELLO               peer's HELLO that knows our life
 *     DOWN ----------------> KNOWN -----------------------------------------> UP   (JOINED)
 *      ^                                                                       |
 *      +------------ EXITED from a supervisor, or HELLO of a later life -------+   (EXITED)
 *
 * S1 an actor sees JOINED and EXITED of a peer in turns, JOINED first
 * S2 a message is delivered only in state UP, only of the life that JOINED, and only if its seq is
 * the next S3 unacknowledged REQUESTs never exceed the peer's credit; it may be passed in bytes by
 * one message S4 at most one STATE of each type is unacknowledged S5 what is acknowledged was
 * dispatched
 */
#ifndef RUNTIME_STREAM_H
#define RUNTIME_STREAM_H

#include "runtime/base/limits.h"
#include "runtime/base/status.h"
#include "runtime/message.h"
#include "runtime/queue.h"

/* What must be equal on both sides before they speak; 0 where a side does not know. */
typedef struct {
    uint64_t topology;
    uint64_t weights;
    uint64_t geometry;
    uint64_t numerics;
} stream_digests_t;

typedef enum { STREAM_DOWN, STREAM_KNOWN, STREAM_UP } stream_state_t;

/* Counters, all since this process began. */
typedef struct {
    uint64_t frames_sent;
    uint64_t frames_received;
    uint64_t messages_sent; /* resent ones again */
    uint64_t messages_received;
    uint64_t duplicates;   /* messages that came again after a resume */
    uint64_t gaps;         /* frames ahead of their turn: something was lost */
    uint64_t resumes;      /* HELLOs that made us send again */
    uint64_t stale;        /* frames of or to an earlier life */
    uint64_t malformed;    /* frames that do not decode */
    uint64_t mismatches;   /* HELLOs refused */
    uint64_t excess;       /* messages beyond what the peer may have unacknowledged */
    uint64_t dropped_down; /* replies and controls to a peer that is not up */
} stream_counters_t;

/* Fixed facts of one side. */
typedef struct {
    const message_table_t *table;
    actor_id_t self;
    incarnation_t incarnation;
    actor_id_t peer;
    bool observer; /* the peer is one: it has less room than an actor */
    stream_digests_t digests;
    uint8_t before;           /* how the life before this one ended, for peers that knew it */
    uint32_t credit_messages; /* granted to the peer; 0: STREAM_CREDIT_MESSAGES */
    const char *name;         /* of self, for the peer's log; borrowed */
    const char *endpoint;     /* where the peer shall answer; "" if it knows; borrowed */
} stream_birth_t;

/* Open, so that figures and tests can look. Changed by the verbs below only. */
typedef struct {
    stream_birth_t birth;
    stream_state_t state;
    incarnation_t peer_incarnation;         /* 0: none known */
    incarnation_t dead_incarnation;         /* the latest that is known to have ended */
    char peer_endpoint[ENDPOINT_BYTES_MAX]; /* from its HELLO */

    /* out: encoded messages from seq out_acked + 1 on; those up to out_sent are on their way */
    queue_t out;
    uint64_t out_next; /* seq of the next message pushed */
    uint64_t out_sent; /* seq of the last one put into a frame since the last resume */
    uint64_t out_acked;
    uint64_t out_place; /* in the queue, of message out_sent + 1 */
    uint32_t credit_messages;
    uint64_t credit_bytes;
    uint32_t requests_out;
    uint64_t request_bytes_out;
    uint8_t states_out[MESSAGES_MAX];

    /* in */
    uint64_t received;
    uint64_t applied;
    uint64_t waiting_bytes; /* of bodies received and not applied */
    uint64_t told;          /* applied, as last told the peer */
    uint64_t applied_bytes; /* since told */

    /* what is due */
    bool hello_due;
    bool hello_asks;
    bool ack_due;
    bool refuse_due;
    bool resuming; /* a gap was seen; no second HELLO for it before its time */
    char refusal[REASON_BYTES_MAX];
    incarnation_t refused_incarnation; /* logged once per life */
    incarnation_t malformed_incarnation;
    uint64_t hello_us;      /* when the last one was sent */
    uint64_t hello_wait_us; /* before the next one unasked */
    uint64_t moved_us;      /* when something was last sent or acknowledged */
    uint64_t later_life_us; /* when a HELLO of a later life was first seen while this one is up; 0:
                               none */

    stream_counters_t counters;
} stream_t;

/* What a frame or a tick leads to, told while it is read. */
typedef struct {
    void *context;
    void (*joined)(void *context, actor_id_t peer, incarnation_t incarnation);
    void (*exited)(void *context, actor_id_t peer, incarnation_t incarnation, uint8_t cause);
    /* False: no room; the stream takes it as lost and the peer will send it again. */
    bool (*message)(void *context, actor_id_t peer, incarnation_t incarnation, uint64_t seq,
                    uint16_t id, const uint8_t *body, size_t size);
} stream_events_t;

typedef void stream_emit_t(void *context, actor_id_t peer, const uint8_t *frame, size_t size);

void stream_init(stream_t *stream, const stream_birth_t *birth, uint64_t now_us);
void stream_fini(stream_t *stream);

/* The transport has a new connection to the peer: say HELLO, resume. */
void stream_connected(stream_t *stream, uint64_t now_us);
/* One frame of this peer. Never fails: what is wrong with it is counted, logged once per life, and
 * dropped. */
void stream_receive(stream_t *stream, const uint8_t *frame, size_t size, uint64_t now_us,
                    const stream_events_t *events);
/* The supervisor says that this life ended: forget all of it. True if the actor must hear of it (it
 * JOINED). */
bool stream_exited(stream_t *stream, incarnation_t incarnation);

bool stream_may_send(const stream_t *stream, const message_row_t *row);
/* Queues one encoded body. For a REQUEST or STATE stream_may_send must be true (ASSERT); a REPLY or
 * CONTROL to a peer that is not up is counted and dropped. STATUS_TOO_LARGE: the unacknowledged
 * exceed their limit. */
MUST_USE status_t stream_push(stream_t *stream, const message_row_t *row, const uint8_t *body,
                              size_t size, uint64_t now_us);
/* Message `seq` of that life was dispatched; `size` of its body. */
void stream_applied(stream_t *stream, incarnation_t incarnation, uint64_t seq,
                    const message_row_t *row, size_t size);

/* Bytes of messages that the next flush would send. */
size_t stream_unsent_bytes(const stream_t *stream);
/* Frames that are due: HELLO, refusal, messages, acknowledgement; built in `frame`, which has room
 * for FRAME_BYTES_MAX. Batches; cheap if there is nothing to say. */
void stream_flush(stream_t *stream, uint64_t now_us, uint8_t *frame, stream_emit_t *emit,
                  void *context);
/* Once per TICK period: what only time brings (HELLO again, acknowledgements, doubt about a silent
 * peer). */
void stream_tick(stream_t *stream, uint64_t now_us);

/* Who a frame is from and for, without judging it. False if it does not even say that. */
bool stream_peek(const uint8_t *frame, size_t size, actor_id_t *from, actor_id_t *to);
const char *stream_state_name(stream_state_t state);
void stream_print(const stream_t *stream, FILE *out);

#endif
