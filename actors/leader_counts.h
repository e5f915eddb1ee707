/* leader_counts.h - what a leader counts, for the simulator's oracles, tests and `ps`. */
#ifndef ACTORS_LEADER_COUNTS_H
#define ACTORS_LEADER_COUNTS_H

#include <stdint.h>

#include "cache/pool.h"

/* Of one life. */
typedef struct {
    uint64_t opened;
    uint64_t fenced;    /* openings whose FENCED went out, or whose opener is gone */
    uint64_t ended;     /* END said, handed over, or nobody was left to hear it */
    uint64_t handed;    /* prefill: decode runs it */
    uint64_t retracted; /* decode: pages ran out */
    uint64_t reforms;
    uint64_t steps;
    uint64_t prompt_tokens; /* prefill: of started attempts */
    uint64_t cached_tokens; /* of these, found in the prefix cache */
    uint64_t differing;     /* prefill's first token was not the replayed one: must stay 0 */
    uint32_t live;
    uint32_t pages_held; /* by attempts, cached ones included */
} leader_counts_t;

/* `self` is the state of a prefill or decode leader. */
const leader_counts_t *leader_counts(const void *self);
/* Who holds what, by its own account. */
const pool_t *leader_pool(const void *self);

#endif
