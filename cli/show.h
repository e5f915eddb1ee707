/* show.h - one message as a line for people: of a ring, or of a journal. */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include "runtime/base/arena.h"
#include "topology/topology.h"

/* "decode/0", "client": an actor, a port or an observer. */
const char *show_name(const topology_t *topology, uint16_t id);

typedef struct {
    uint64_t us; /* of the clock of whoever saw it */
    const char *from;
    const char *to;
    uint16_t id;
    const uint8_t *body;
    size_t size;
} show_t;

/* Without an end of line. Says why if it does not decode. `reveal`: token ids too. The arena has
 * MESSAGE_ARENA_BYTES and is reset. */
void show_message(const show_t *message, bool reveal, arena_t *arena, FILE *out);

#endif
