/* dispatch.h - one live actor: its state, and the dense tables that find a handler for any (state,
 * message).
 *
 * The tables are built once from the type's rules and refusals. A message of scope ATTEMPT is
 * dispatched by the state of that attempt, one of scope ITEMS once for each item, all others by the
 * actor's own state; an actor that keeps no attempts takes them all by its own. After each handler
 * the new state must be one of the rule's (ASSERT). What a handler returns is acted upon by its
 * class: REQUEST and PEER are counted and logged once, ENGINE is passed on.
 */
#ifndef RUNTIME_DISPATCH_H
#define RUNTIME_DISPATCH_H

#include "runtime/actor.h"
#include "runtime/base/arena.h"
#include "runtime/base/limits.h"
#include "runtime/roster.h"

typedef struct {
    actor_handler_t *handler; /* NULL: refused */
    uint32_t leaves_in;
    const char *reason;
} dispatch_cell_t;

/* How often each pair of a type was dispatched: by the states of the actor, and of its attempts. */
typedef struct {
    uint32_t actor[ACTOR_STATES_MAX][MESSAGES_MAX];
    uint32_t attempts[ACTOR_STATES_MAX][MESSAGES_MAX];
} dispatch_met_t;

/* Open: drivers embed one and show its counters. */
typedef struct {
    const actor_type_t *type;
    const message_table_t *table;
    void *self; /* the actor's state: `self_bytes` that may be copied away */
    size_t self_bytes;
    dispatch_cell_t *actor;    /* [state][message] */
    dispatch_cell_t *attempts; /* [state][message]; NULL if there are none */
    bool check;                /* run type->check after every message */
    dispatch_met_t *met; /* counts what was met, of all lives that share it; NULL: nobody asks */
    uint64_t handled[MESSAGES_MAX];
    uint64_t refused[MESSAGES_MAX];
    const char *refused_why[MESSAGES_MAX]; /* the last reason */
    uint64_t failed[MESSAGES_MAX];
} dispatch_t;

/* Of the state alone. */
size_t dispatch_state_bytes(const actor_type_t *type, const actor_birth_t *birth);
/* Memory that dispatch_init takes from its arena. */
size_t dispatch_bytes(const actor_type_t *type, const message_table_t *table,
                      const actor_birth_t *birth);
/* Calls the type's init on zeroed memory. */
MUST_USE status_t dispatch_init(dispatch_t *dispatch, const actor_type_t *type,
                                const message_table_t *table, const actor_birth_t *birth,
                                arena_t *arena);

/* Decodes what `sender` sent into `arena`. STATUS_MALFORMED: it does not decode, no such message goes
 * from there to here, or it names an actor of a kind that its field does not allow. */
MUST_USE status_t dispatch_admit(const dispatch_t *dispatch, const roster_t *roster,
                                 actor_id_t sender, uint16_t id, const uint8_t *body, size_t size,
                                 arena_t *arena, const void **decoded);
/* Handles one decoded message. Only an ENGINE status comes back; then the process must end. */
MUST_USE status_t dispatch_message(dispatch_t *dispatch, const envelope_t *envelope,
                                   outbox_t *outbox);
/* Runs the planner. Idempotent. */
void dispatch_plan(dispatch_t *dispatch, outbox_t *outbox);

const char *dispatch_state_name(const dispatch_t *dispatch);
/* One line per message that was refused or failed, with count and last reason. */
void dispatch_print(const dispatch_t *dispatch, FILE *out);

#endif
