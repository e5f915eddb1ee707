/* scheduler.h - the actor that decides which prefill and decode instance serves an attempt. */
#ifndef ACTORS_SCHEDULER_SCHEDULER_H
#define ACTORS_SCHEDULER_SCHEDULER_H

#include "runtime/actor.h"

enum {
    SCHEDULER_KEYS_SETS =
        1 << 14, /* page keys whose holder is remembered: sets of SCHEDULER_KEYS_WAYS */
    SCHEDULER_KEYS_WAYS = 4,
    SCHEDULER_RECENT_MAX =
        256, /* attempts routed to one instance that it has not counted as opened yet */
    SCHEDULER_RECENT_MS = 2000, /* after this one is taken for lost on the way */
};

extern const actor_type_t scheduler_type;

#endif
