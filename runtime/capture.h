/* capture.h - an outbox that keeps what is pushed, for tests of actors without streams.
 *
 * Everybody is up and every message may be sent, until a test says otherwise. Pushes come back in
 * order, decoded. Allocates as it grows; nothing in a running deployment uses it.
 */
#ifndef RUNTIME_CAPTURE_H
#define RUNTIME_CAPTURE_H

#include "runtime/base/arena.h"
#include "runtime/dispatch.h"
#include "runtime/outbox.h"

typedef struct capture capture_t;

typedef struct {
    actor_id_t to;
    uint16_t id;
    const void *body; /* in the capture's arena, valid until capture_forget or close */
} capture_push_t;

/* Owner closes. Table and roster must outlive it. */
capture_t *capture_open(const message_table_t *table, const roster_t *roster, actor_id_t self);
void capture_close(capture_t *capture);

outbox_t *capture_outbox(capture_t *capture);
void capture_up_set(capture_t *capture, actor_id_t to, bool up);
/* Whether REQUEST or STATE `id` may go to `to`; it stays so until set again. */
void capture_may_send_set(capture_t *capture, actor_id_t to, uint16_t id, bool may);

/* Runs the planner of `self` as the runtime does. */
void capture_plan(capture_t *capture, const actor_type_t *type, void *self);

/* The oldest push not yet seen; false if there is none. */
bool capture_next(capture_t *capture, capture_push_t *push);
/* The oldest push of that message to that actor, wherever it stands; it is taken out. NULL if there
 * is none. */
const void *capture_find(capture_t *capture, actor_id_t to, uint16_t id);
/* Pushes not yet seen. */
uint32_t capture_count(const capture_t *capture);
/* Drops all pushes and all bodies handed out. */
void capture_forget(capture_t *capture);

#endif
