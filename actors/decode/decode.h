/* decode.h - the actor that leads a decode group: it decides what each decode step holds.
 *
 * Its `setup` is a leader_setup_t (actors/group.h). How an attempt lives here is in attempt.h.
 */
#ifndef ACTORS_DECODE_DECODE_H
#define ACTORS_DECODE_DECODE_H

#include "cache/pool.h"
#include "runtime/actor.h"

enum {
    DECODE_STORE_WORDS =
        1 << 22, /* tokens kept for gateways and replays, unless contexts need more */
    DECODE_MESSAGE_TOKENS = 4096, /* tokens of one TOKENS; the rest follows */
};

extern const actor_type_t decode_type;

/* For the simulator's oracles, tests and `ps`. */
typedef struct {
    uint64_t opened;
    uint64_t fenced;    /* openings whose FENCED went out, or whose opener is gone */
    uint64_t ended;     /* END said, or nobody was left to hear it */
    uint64_t retracted; /* pages ran out */
    uint64_t reforms;
    uint64_t steps;
    uint64_t differing; /* prefill's first token was not the replayed one: must stay 0 */
    uint32_t live;
    uint32_t pages_held; /* by attempts */
} decode_counts_t;

const decode_counts_t *decode_counts(const void *self);
/* Likewise: who holds what, by its own account. */
const pool_t *decode_pool(const void *self);

#endif
