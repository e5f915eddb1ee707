/* message.h - the structs of all messages, and what can be done with any of them.
 *
 * Made from schema.h: message_<name>_t for each row, record_<name>_t for each record inside,
 * MESSAGE_<name> ids. The five verbs are ordinary loops over the descriptor table; what they do
 * with floats, text and limits is in runtime/codec.h.
 */
#ifndef MESSAGES_MESSAGE_H
#define MESSAGES_MESSAGE_H

#include "messages/schema.h"
#include "runtime/base/arena.h"
#include "runtime/base/random.h"
#include "runtime/base/status.h"
#include "runtime/message.h"

/* ---- structs ---- */

#define MESSAGE_CTYPE_u8 uint8_t
#define MESSAGE_CTYPE_u16 uint16_t
#define MESSAGE_CTYPE_u32 uint32_t
#define MESSAGE_CTYPE_u64 uint64_t
#define MESSAGE_CTYPE_f32 float
#define MESSAGE_CTYPE_bytes bytes_view_t
#define MESSAGE_CTYPE_text text_view_t
#define MESSAGE_CTYPE_u32s u32s_view_t
#define MESSAGE_CTYPE_u64s u64s_view_t
#define MESSAGE_CTYPE_f32s f32s_view_t
#define MESSAGE_CTYPE_token uint32_t
#define MESSAGE_CTYPE_tokens u32s_view_t
#define MESSAGE_CTYPE_actor actor_id_t

#define MESSAGE_MEMBER(r, type, name, limit, text) MESSAGE_CTYPE_##type name;
#define MESSAGE_MEMBER_RECORD(r, inner, name, text) record_##inner##_t name;
#define MESSAGE_MEMBER_ITEMS(r, inner, name, limit, text)                                          \
    struct {                                                                                       \
        const record_##inner##_t *data;                                                            \
        uint32_t count;                                                                            \
    } name;

#define RECORD_STRUCT(name, FIELDS)                                                                \
    typedef struct {                                                                               \
        FIELDS(MESSAGE_MEMBER, MESSAGE_MEMBER_RECORD, MESSAGE_MEMBER_ITEMS, name)                  \
    } record_##name##_t;
RECORD_TABLE(RECORD_STRUCT)
#undef RECORD_STRUCT

#define MESSAGE_STRUCT(name, FIELDS)                                                               \
    typedef struct {                                                                               \
        FIELDS(MESSAGE_MEMBER, MESSAGE_MEMBER_RECORD, MESSAGE_MEMBER_ITEMS, name)                  \
    } message_##name##_t;
MESSAGE_FIELDS_TABLE(MESSAGE_STRUCT)
#undef MESSAGE_STRUCT

/* ---- ids ---- */

enum {
#define MESSAGE_ID(name, id, class, scope, from, to, answers, text) MESSAGE_##name = id,
    MESSAGE_TABLE(MESSAGE_ID)
#undef MESSAGE_ID
        MESSAGE_COUNT = 67
};

/* ---- enums that travel as u8 ---- */

typedef enum {
    EXIT_CLEAN,
    EXIT_FAILED_ITSELF,
    EXIT_CRASHED,
    EXIT_KILLED_OUTSIDE,
    EXIT_KILLED_BY_US,
    EXIT_HUNG /* killed by us, since it did nothing though nobody had stopped it */
} exit_cause_t;

typedef enum {
    END_STOP,    /* end token or stop token */
    END_LENGTH,  /* output_tokens_max */
    END_STOPPED, /* a stop string was met at the gateway */
    END_ABORTED, /* the client left */
    END_DEADLINE,
    END_LOST,        /* a part of the deployment died or lost it: the gateway replays */
    END_RETRACTED,   /* decode pages ran out: the gateway replays */
    END_POISONED,    /* it took its group down twice while alone */
    END_OVERLOADED,  /* not admitted */
    END_REFUSED,     /* cannot be served as it is: `detail` says why */
    END_UNAVAILABLE, /* no instance was ready for as long as the gateway waits */
    END_REASON_COUNT
} end_reason_t;

typedef enum { ROUTE_OK, ROUTE_OVERLOADED, ROUTE_TOO_LARGE, ROUTE_NO_INSTANCE } route_outcome_t;
typedef enum { PAIR_UNTESTED, PAIR_OK, PAIR_REFUSED, PAIR_LEAVING } pair_state_t;

/* ---- verbs ---- */

extern const message_table_t message_table;

/* STATUS_TOO_LARGE: it does not fit `size`. Views of numbers and items longer than their limit are
 * a programmer error (ASSERT); text is cut there. `*used` is the encoded size. */
MUST_USE status_t message_encode(uint16_t id, const void *body, uint8_t *bytes, size_t size,
                                 size_t *used);

/* Decodes one body into a struct in `arena`. Views of numbers are copied into the arena
 * (alignment); bytes and text stay views of `bytes`. Refuses (STATUS_MALFORMED, with the field
 * named) what is not valid or longer than its limit, and STATUS_TOO_LARGE what does not fit the
 * arena; never takes memory for what a header merely claims. */
MUST_USE status_t message_decode(uint16_t id, const uint8_t *bytes, size_t size, arena_t *arena,
                                 const void **body);

bool message_equal(uint16_t id, const void *a, const void *b);
/* One line without its end. Token ids are counted, not shown. */
void message_print(uint16_t id, const void *body, FILE *out);
/* A random valid body in `arena`; NULL if it does not fit. */
const void *message_random(uint16_t id, random_t *random, arena_t *arena);

/* Prints what is wrong with a table, a line each, and returns how many lines: ids without a row
 * that are not retired, names used twice, replies to nothing, requests without a reply, scopes that
 * their fields do not bear. */
uint32_t message_table_check(const message_table_t *table, FILE *out);
/* docs/messages.md, whole. */
void message_print_docs(FILE *out);

#endif
