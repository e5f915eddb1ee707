/* node.h - one living actor with its streams, mailbox, outbox and ports: what all drivers drive.
 *
 * A driver brings frames, port messages and time in, and takes frames and port messages out; the
 * node does all that lies between, the same in every driver. One thread; blocks nowhere; reads
 * no clock but the driver's.
 *
 *      frame  -> streams -> mailbox -> dispatch -> outbox -> streams -> frame
 *      port message, TICK ----^                      +----> port message
 *
 * The first message of a life is a TICK, so an actor never acts without knowing the time. Later, TICK
 * goes into the mailbox when it falls due, behind what is there, in front of what comes
 * later; a second one never waits behind it, and each is worth at most two periods. EXITED, and
 * REAPED at a supervisor, closes the stream when it comes in, so nothing of that life stands behind
 * it in the mailbox.
 */
#ifndef RUNTIME_NODE_H
#define RUNTIME_NODE_H

#include "runtime/dispatch.h"
#include "runtime/figures.h"
#include "runtime/journal.h"
#include "runtime/outbox.h"
#include "runtime/stream.h"

typedef struct node node_t;

/* What a driver does for its node. Bytes are borrowed for the call. */
typedef struct {
    void *context;
    uint64_t (*clock_us)(void *context); /* monotonic; where it begins does not matter */
    uint64_t (*wall_ms)(void *context);
    void (*frame)(void *context, actor_id_t peer, const uint8_t *frame, size_t size);
    void (*port)(void *context, actor_id_t port, uint16_t id, const uint8_t *body, size_t size);
    /* An observer said HELLO and can be reached there. NULL: observers are turned away. */
    void (*observer)(void *context, actor_id_t observer, const char *endpoint);
    /* For the simulator's oracles; NULL in a deployment. `received`: the actor is about to handle
     * it. `pushed`: a handler or planner has said it, to a peer that it has met or to a port. */
    void (*received)(void *context, const envelope_t *envelope);
    void (*pushed)(void *context, actor_id_t to, uint16_t id, const void *body);
} node_driver_t;

/* Room for one message and one frame while a node works on them. Nothing stays there between calls
 * but node_last, so nodes that one thread drives may share one. */
typedef struct {
    uint8_t *encoded; /* MESSAGE_BYTES_MAX */
    uint8_t *decoded; /* MESSAGE_ARENA_BYTES */
    uint8_t *frame;   /* FRAME_BYTES_MAX */
} node_room_t;

MUST_USE status_t node_room_open(node_room_t *room);
void node_room_close(node_room_t *room);

typedef struct {
    const actor_type_t *type;
    const actor_birth_t *birth; /* borrowed while opening; what it points to until close */
    const message_table_t *table;
    const roster_t *roster;
    stream_digests_t digests;
    uint8_t before;       /* put into HELLO: how the life before this one ended; 0 if none was */
    const char *endpoint; /* put into HELLO for peers that do not know it; "" or NULL: none */
    node_driver_t driver;
    uint64_t tick_us;               /* period of TICK, for its worth */
    figures_t *figures;             /* where to show them (shared memory), or NULL */
    bool check;                     /* run the type's check after every message */
    dispatch_met_t *met;            /* dispatch.h; NULL: nobody asks */
    const journal_place_t *journal; /* where to keep one, or NULL; borrowed while opening */
    const node_room_t *room;        /* borrowed until close; NULL: the node has its own */
    uint32_t credit_messages;       /* granted to each peer; 0: STREAM_CREDIT_MESSAGES */
} node_config_t;

/* Allocates all an actor ever needs but what queues grow by. Owner closes. */
MUST_USE status_t node_open(const node_config_t *config, node_t **node);
void node_close(node_t *node);

/* ---- in ---- */

/* One frame of anybody. `stranger`: its sender is no process of this deployment, and so no actor of it, whatever
 * it says. */
void node_receive(node_t *node, const uint8_t *frame, size_t size, bool stranger);
/* The transport has a new connection to that peer. */
void node_connected(node_t *node, actor_id_t peer);
/* A port says this; `body` is encoded. */
void node_post(node_t *node, actor_id_t port, uint16_t id, const uint8_t *body, size_t size);
/* A TICK period is over. The driver has taken in all frames that came before. */
void node_tick(node_t *node);

/* ---- work ---- */

/* Handles one message of the mailbox and runs the planner. False in `*worked` if it was empty.
 * An ENGINE status ends the process. */
MUST_USE status_t node_work(node_t *node, bool *worked);
/* Sends what is due. After every batch of messages and every tick. */
void node_flush(node_t *node);

/* ---- looking inside ---- */

const dispatch_t *node_dispatch(const node_t *node);
const stream_t *node_stream(const node_t *node, actor_id_t peer); /* NULL: no peer */
/* Nothing waits to be handled or planned: node_work would do nothing. */
bool node_is_idle(const node_t *node);
uint32_t node_depth(const node_t *node);
/* The message handled last, printed as text; for traces. Valid until the next node_work. */
const envelope_t *node_last(const node_t *node);
void node_print(const node_t *node, FILE *out);

#endif
