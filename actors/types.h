/* types.h - which code stands behind which kind of actor. */
#ifndef ACTORS_TYPES_H
#define ACTORS_TYPES_H

#include "runtime/actor.h"

/* NULL for a kind that is no actor of ours. */
const actor_type_t *actor_type_of(actor_kind_t kind);

#endif
