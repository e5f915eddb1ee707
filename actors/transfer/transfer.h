/* transfer.h - the actor that hands finished KV over from prefill ranks to decode ranks.
 *
 * It moves no byte itself: it pairs, orders, cuts into pieces and cancels; ranks pull into their
 * own memory.
 */
#ifndef ACTORS_TRANSFER_TRANSFER_H
#define ACTORS_TRANSFER_TRANSFER_H

#include "runtime/actor.h"

enum {
    TRANSFER_ATTEMPTS_MAX = 2048,
    TRANSFER_UNITS = 1 << 18,     /* units of all attempts that are not landed yet */
    TRANSFER_PULL_UNITS_MAX = 64, /* units in one PULL: what a cancelled attempt may still move */
};

extern const actor_type_t transfer_type;

/* Attempts open here now. */
uint32_t transfer_live(const void *self);

#endif
