/* decode.h - the actor that leads a decode group: it decides what each decode step holds.
 *
 * Its `setup` is a leader_setup_t (actors/group.h). How an attempt lives here is in attempt.h.
 */
#ifndef ACTORS_DECODE_DECODE_H
#define ACTORS_DECODE_DECODE_H

#include "actors/leader_counts.h"
#include "runtime/actor.h"

enum {
    DECODE_MESSAGE_TOKENS = 4096, /* tokens of one TOKENS; the rest follows */
};

extern const actor_type_t decode_type;

#endif
