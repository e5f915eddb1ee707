/* actor.h - an actor: a state, a rule table, a refusal table, a planner.
 *
 * The runtime calls one actor from one thread. A handler reads its message, changes its own state
 * and fills the outbox; it does not block, allocate, read a clock or touch a socket. State is one
 * relocatable block (indices, no pointers into itself), so a snapshot is a copy. Every (state,
 * message) pair is in exactly one of the two tables; actor_type_check says which are not, and a
 * test runs it on every type.
 */
#ifndef RUNTIME_ACTOR_H
#define RUNTIME_ACTOR_H

#include "runtime/base/status.h"
#include "runtime/message.h"

typedef struct outbox outbox_t;

/* What a handler is called with. `body` is the decoded struct of message `id`; for SCOPE_ITEMS it
 * is the whole message and `item` the one record this call is about. Valid until the handler
 * returns. */
typedef struct {
    actor_id_t from;
    incarnation_t incarnation; /* of the sender */
    uint16_t id;
    const void *body;
    const void *item;
} envelope_t;

typedef status_t actor_handler_t(void *self, const envelope_t *envelope, outbox_t *outbox);

typedef struct {
    uint8_t state;
    uint16_t message;
    actor_handler_t *handler;
    uint32_t leaves_in; /* BIT(state) of every state it may end in */
} actor_rule_t;

/* The pair is decided: it is counted under `reason`, and the message is dropped. */
typedef struct {
    uint8_t state;
    uint16_t message;
    const char *reason;
} actor_refusal_t;

enum {
    ACTOR_STATES_MAX = 16,
    ACTOR_STATE_ANY = 0xff /* in a table row: every state not named otherwise */
};

/* One table: the actor's own states, or the states of an attempt in it. */
typedef struct {
    const char *const *state_names;
    uint32_t state_count;
    const actor_rule_t *rules;
    uint32_t rule_count;
    const actor_refusal_t *refusals;
    uint32_t refusal_count;
} actor_table_t;

/* Facts an actor is born with. `topology` is the parsed file, shared and constant. */
typedef struct {
    actor_id_t id;
    incarnation_t incarnation;
    const struct topology *topology;
    const void *setup;  /* what this kind needs besides (its folder's header says), or NULL */
    size_t setup_bytes; /* of it, for a journal; 0: it holds pointers, or is not to be kept */
} actor_birth_t;

/* What an actor cannot go on without, for those who look on. */
typedef struct {
    uint16_t message; /* that must come */
    uint64_t number;  /* of which step, epoch or request */
    actor_id_t first; /* from whom: first + n for each bit n of whom */
    uint64_t whom;
    uint64_t age_ms; /* since the last progress; 0: unknown */
} actor_wait_t;

enum { ACTOR_WAITS_MAX = 2, ACTOR_ATTEMPT_WAITS_MAX = 8 };

typedef struct {
    actor_kind_t kind;
    size_t state_bytes; /* of its struct, whose tables are inside or behind it: asked with `bytes`
                           if that is set */
    size_t (*bytes)(const actor_birth_t *birth);
    status_t (*init)(void *self, const actor_birth_t *birth);
    /* Called after every dispatch and whenever credit returned: turns facts in the state into
     * REQUEST and STATE messages, as far as outbox_may_send allows. Must be idempotent. */
    void (*plan)(void *self, outbox_t *outbox);
    uint8_t (*state)(const void *self);
    /* State of an attempt here; 0 is NONE: unknown. NULL for actors without attempts. */
    uint8_t (*attempt_state)(const void *self, uint64_t request, uint32_t attempt);
    /* Attempts that live here, to be shown; NULL for actors without attempts. */
    uint32_t (*attempt_count)(const void *self);
    /* How many attempts wait for what before they are forgotten, by the names that follow (NULL
     * behind the last). NULL: it does not say. Called after every message, so it must be cheap. */
    void (*attempt_waits)(const void *self, uint32_t counts[ACTOR_ATTEMPT_WAITS_MAX]);
    const char *const *attempt_wait_names; /* ACTOR_ATTEMPT_WAITS_MAX of them */
    /* Whom it waits for now: returns how many; NULL for actors that wait for nobody in particular.
     * Called after every message, so it must be cheap. */
    uint32_t (*waits)(const void *self, actor_wait_t waits[ACTOR_WAITS_MAX]);
    /* Sets [*from, *to) to bytes of the block that were never written and may be many, so that a
     * journal need not read them; NULL: there is no such part. */
    void (*untouched)(const void *self, size_t *from, size_t *to);
    /* Asserts every invariant of the struct. May be O(n); called in tests and the simulator. */
    void (*check)(const void *self);
    actor_table_t table;
    actor_table_t attempts;
} actor_type_t;

/* Pushes one message, encoded at once: views need to live only until it returns. Asserts that the
 * message's class allows it here (REQUEST and STATE: only inside `plan`, and outbox_may_send was
 * true) and that the table lets this kind send it to that kind. */
void outbox_push(outbox_t *outbox, actor_id_t to, uint16_t id, const void *body);
/* The same to `count` actors whose ids follow each other; encoded once for all. */
void outbox_push_all(outbox_t *outbox, actor_id_t first, uint32_t count, uint16_t id,
                     const void *body);

/* REQUEST: outbox_is_up, and of the credit that the receiver gave (messages and bytes) some is
 * left. STATE: outbox_is_up, and no message of this type is unacknowledged there. Always true for
 * replies, controls and ports; always false outside `plan` for the other two. */
bool outbox_may_send(const outbox_t *outbox, actor_id_t to, uint16_t id);

/* The stream to `to` is up, and the actor has handled JOINED of the life it is up with. Until
 * then, and from EXITED on, a REPLY or CONTROL to it is dropped and counted, since it is meant
 * for an ended life. */
bool outbox_is_up(const outbox_t *outbox, actor_id_t to);

/* Prints a line for every (state, message) pair that the message table lets this kind receive and
 * that is decided not at all or more than once (a row for any state gives way to one that names
 * it), and for rows that cannot apply. Returns how many lines. */
uint32_t actor_type_check(const actor_type_t *type, const message_table_t *messages, FILE *out);

/* The state diagrams of the tables in mermaid, for docs. */
void actor_print_table(const actor_type_t *type, const message_table_t *messages, FILE *out);

#endif
