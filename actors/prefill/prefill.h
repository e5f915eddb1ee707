/* prefill.h - the actor that leads a prefill group: it decides what each prefill step holds.
 *
 * Its `setup` is a leader_setup_t (actors/group.h). How an attempt lives here is in attempt.h.
 */
#ifndef ACTORS_PREFILL_PREFILL_H
#define ACTORS_PREFILL_PREFILL_H

#include "actors/leader_counts.h"
#include "runtime/actor.h"

enum {
    PREFILL_ATTEMPTS_MAX = 1024,   /* that wait or run; more are answered BUSY */
    PREFILL_STORE_WORDS = 1 << 22, /* prompts and forced tokens of those that wait for pages */
};

extern const actor_type_t prefill_type;

#endif
