/* prefill.h - the actor that leads a prefill group: it decides what each prefill step holds.
 *
 * Its `setup` is a leader_setup_t (actors/group.h). How an attempt lives here is in attempt.h.
 */
#ifndef ACTORS_PREFILL_PREFILL_H
#define ACTORS_PREFILL_PREFILL_H

#include "cache/pool.h"
#include "runtime/actor.h"

enum {
    PREFILL_ATTEMPTS_MAX = 1024,   /* that wait or run; more are answered BUSY */
    PREFILL_STORE_WORDS = 1 << 22, /* prompts and forced tokens of all, unless contexts need more */
};

extern const actor_type_t prefill_type;

/* For the simulator's oracles, tests and `ps`. */
typedef struct {
    uint64_t opened;
    uint64_t fenced; /* openings whose FENCED went out, or whose opener is gone */
    uint64_t ended;  /* END said, handed over to decode, or nobody was left to hear it */
    uint64_t handed; /* decode runs it */
    uint64_t reforms;
    uint64_t steps;
    uint64_t prompt_tokens; /* of started attempts */
    uint64_t cached_tokens; /* of these, found in the prefix cache */
    uint64_t differing;     /* the first token was not the replayed one: must stay 0 */
    uint32_t live;
    uint32_t pages_held; /* by attempts, cached ones included */
} prefill_counts_t;

const prefill_counts_t *prefill_counts(const void *self);
/* Likewise: who holds what, by its own account. */
const pool_t *prefill_pool(const void *self);

#endif
