/* message.h - what the runtime knows of messages: their table, given to it as data.
 *
 * A message is a struct whose fields a descriptor table names; messages/schema.h makes both from
 * one row. The runtime moves encoded bodies, checks classes, and calls handlers with decoded
 * structs; it knows nothing of language models. Views in a decoded struct are borrowed and die when
 * the handler returns.
 */
#ifndef RUNTIME_MESSAGE_H
#define RUNTIME_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/actor_kind.h" /* kinds are bits in `from` and `to` of a message row */

typedef uint16_t actor_id_t;    /* index in the topology's actor table, or one of PORT_* */
typedef uint32_t incarnation_t; /* a process's life, given by its supervisor, from 1; 0: none */

/* What stands behind an actor and is no actor: messages to and from it never leave the process. */
enum {
    PORT_FIRST = 0xff00,
    PORT_RUNTIME = PORT_FIRST, /* JOINED, EXITED, TICK come from here */
    PORT_DEVICE,               /* a rank's device: steps and copies */
    PORT_CLIENT,  /* a gateway's clients: HTTP in a deployment, generated load in the simulator */
    PORT_PROCESS, /* a supervisor's children */
    PORT_FIGURES, /* a monitor's host: figures of its actors */
    ACTOR_NONE = 0xffff,
};

/* The class decides when a message may be sent; this is what makes deadlock impossible (design 3).
 * CONTROL: a reserved place per peer and kind. REPLY: paid for by the request it answers, may
 * always be sent. REQUEST: from the planner only, with credit at hand. STATE: at most one
 * unacknowledged per stream and type, content made when sent, from the planner only. LOCAL: to or
 * from a port, never on the wire. */
typedef enum {
    MESSAGE_CONTROL,
    MESSAGE_REPLY,
    MESSAGE_REQUEST,
    MESSAGE_STATE,
    MESSAGE_LOCAL,
} message_class_t;

/* Whose state selects the rule. ATTEMPT: the first two fields are (u64 request, u32 attempt).
 * ITEMS: the first field of type items holds records that begin so, and each is dispatched by
 * itself. */
typedef enum { SCOPE_ACTOR, SCOPE_ATTEMPT, SCOPE_ITEMS } message_scope_t;

typedef enum {
    FIELD_U8, /* integers: msgpack integers, refused when out of range */
    FIELD_U16,
    FIELD_U32,
    FIELD_U64,
    FIELD_F32,
    FIELD_BYTES,  /* bytes_view_t: msgpack bin */
    FIELD_TEXT,   /* text_view_t: msgpack str, valid UTF-8, no NUL inside */
    FIELD_U32S,   /* u32s_view_t: msgpack bin, little endian, 4 bytes each */
    FIELD_TOKEN,  /* as U32: a token id, so somebody's text; not printed unless asked for */
    FIELD_TOKENS, /* as U32S: token ids */
    FIELD_U64S,   /* u64s_view_t: msgpack bin, little endian, 8 bytes each */
    FIELD_F32S,   /* f32s_view_t: msgpack bin, IEEE 754 little endian */
    FIELD_RECORD, /* one nested record: msgpack array */
    FIELD_ITEMS,  /* items_view_t of nested records: msgpack array of arrays */
    FIELD_ACTOR,  /* as U16: an actor of the kinds in `limit`, or ACTOR_NONE (roster_check) */
} field_type_t;

typedef struct {
    const uint8_t *data;
    uint32_t count;
} bytes_view_t;
typedef struct {
    const char *data; /* not terminated */
    uint32_t count;
} text_view_t;
typedef struct {
    const uint32_t *data;
    uint32_t count;
} u32s_view_t;
typedef struct {
    const uint64_t *data;
    uint32_t count;
} u64s_view_t;
typedef struct {
    const float *data;
    uint32_t count;
} f32s_view_t;

typedef struct record record_t;

typedef struct {
    const char *name;
    field_type_t type;
    uint32_t offset;        /* in the struct */
    uint32_t limit;         /* most elements of a view; of an actor its kinds, as bits; else 0 */
    const record_t *record; /* of FIELD_RECORD and FIELD_ITEMS */
    const char *text;
} field_t;

struct record {
    const char *name;
    uint32_t size; /* of the struct */
    const field_t *fields;
    uint32_t field_count;
};

typedef struct {
    const char *name;
    uint16_t id;
    message_class_t class;
    message_scope_t scope;
    uint32_t from; /* BIT(ACTOR_...) of who may send it */
    uint32_t to;
    const char
        *answers; /* of a REPLY: names of the requests that pay for it, separated by spaces */
    record_t record;
    const char *text;
} message_row_t;

/* rows[id], ids dense from 0; a retired id is a row without a name. */
typedef struct {
    const message_row_t *rows;
    uint32_t count;
} message_table_t;

/* What the runtime itself says to an actor, and must know when a supervisor or its process port says
 * it: these rows of every table. */
enum { RUNTIME_JOINED = 0, RUNTIME_EXITED = 1, RUNTIME_TICK = 2, RUNTIME_REAPED = 7 };

/* How a life ended. Where nobody knows, nobody may be charged for it: as if by a signal from outside. */
enum { RUNTIME_CAUSE_UNKNOWN = 3, RUNTIME_CAUSE_MAX = 4 };

typedef struct {
    actor_id_t actor;
    incarnation_t incarnation;
} runtime_joined_t;
typedef struct {
    actor_id_t actor;
    incarnation_t incarnation;
    uint8_t cause; /* 0 clean, 1 failed itself, 2 crashed, 3 killed from outside, 4 killed by us */
} runtime_exited_t;
typedef struct {
    uint64_t now_ms;
    uint64_t wall_ms;
} runtime_tick_t;

#endif
