/* outbox.h - where handlers put messages: checks each against the table, encodes it at once, hands
 * it to a sink.
 *
 * The contract that actors see (outbox_push, outbox_may_send, outbox_is_up) is in actor.h. The sink
 * is the node's streams and ports (node.c), or a capture for tests (capture.h). One thread; encodes
 * into a scratch buffer that is given to it, so several outboxes of one thread may share one.
 */
#ifndef RUNTIME_OUTBOX_H
#define RUNTIME_OUTBOX_H

#include "runtime/actor.h"
#include "runtime/roster.h"

/* Bytes are borrowed for the call. */
typedef struct {
    void *context;
    void (*put)(void *context, actor_id_t to, const message_row_t *row, const uint8_t *body,
                size_t size);
    bool (*is_up)(const void *context, actor_id_t to);
    /* Only asked for REQUEST and STATE to actors. */
    bool (*may_send)(const void *context, actor_id_t to, const message_row_t *row);
    /* After put, with what was encoded; NULL: nobody looks. */
    void (*pushed)(void *context, actor_id_t to, uint16_t id, const void *body);
} outbox_sink_t;

/* Open: whoever runs an actor embeds one. */
struct outbox {
    const message_table_t *table;
    const roster_t *roster;
    actor_id_t self;
    bool planning; /* the planner runs: REQUEST and STATE are allowed */
    uint8_t *scratch;
    size_t scratch_bytes;
    outbox_sink_t sink;
    uint64_t pushed;
};

/* `scratch` of MESSAGE_BYTES_MAX bytes stays the caller's. */
void outbox_init(outbox_t *outbox, const message_table_t *table, const roster_t *roster,
                 actor_id_t self, outbox_sink_t sink, uint8_t *scratch, size_t scratch_bytes);

#endif
