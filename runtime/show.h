/* show.h - messages as lines for people, out of a ring or a journal. Token ids are counted, not
 * shown, unless asked for. */
#ifndef RUNTIME_SHOW_H
#define RUNTIME_SHOW_H

#include "runtime/base/arena.h"
#include "runtime/ring.h"
#include "runtime/roster.h"

typedef struct {
    uint64_t us; /* of the clock of whoever saw it */
    actor_id_t from;
    actor_id_t to;
    uint16_t id;
    const uint8_t *body;
    size_t size;
} show_t;

/* "decode/0", "client": an actor, a port or an observer. */
const char *show_name(const roster_t *roster, actor_id_t id);

/* Without an end of line. Says why if it does not decode. The arena has MESSAGE_ARENA_BYTES and is
 * reset. */
void show_message(const show_t *message, const message_table_t *table, const roster_t *roster,
                  bool reveal, arena_t *arena, FILE *out);

/* Calls for each message in one record of `actor`'s ring that it received, or sent to a port: what
 * it sends to others is received by them. */
typedef void show_each_t(void *context, const show_t *message);
void show_record(const ring_record_t *record, const uint8_t *bytes, actor_id_t actor,
                 show_each_t *each, void *context);

#endif
