/* actor_kind.h - which kinds of actors there are: for topologies, rosters and the message table alike.
 *
 * Those of a topology stand first, in the order of its actor table.
 */
#ifndef RUNTIME_BASE_ACTOR_KIND_H
#define RUNTIME_BASE_ACTOR_KIND_H

#include "runtime/base/check.h"

/*    name         word           what it decides, or is */
#define ACTOR_KIND_TABLE(K)                                                                        \
    K(SUPERVISOR, "supervisor", "restarts within limits; one per host, parent of its processes")   \
    K(SCHEDULER, "scheduler", "which prefill and decode instance serves an attempt")               \
    K(MONITOR, "monitor", "nothing: it shows")                                                     \
    K(GATEWAY, "gateway", "admission and replay")                                                  \
    K(PREFILL, "prefill", "what each prefill step holds (leader of a group)")                      \
    K(DECODE, "decode", "what each decode step holds (leader of a group)")                         \
    K(TRANSFER, "transfer", "pairing, order, chunking, cancelling of copies")                      \
    K(RANK, "rank", "nothing: it executes steps and copies")                                       \
    K(MIRROR, "mirror", "what is kept outside of groups: no topology has one yet")                 \
    K(OBSERVER, "observer", "a peer from outside the topology file: a tool, a test")               \
    K(PORT, "port", "what stands behind an actor and is none")

typedef enum {
#define ACTOR_KIND_ENUM(name, word, decides) ACTOR_##name,
    ACTOR_KIND_TABLE(ACTOR_KIND_ENUM)
#undef ACTOR_KIND_ENUM
        ACTOR_KIND_COUNT
} actor_kind_t;

enum {
    ACTOR_PLACED_KINDS = ACTOR_RANK + 1, /* those before are kinds of a topology */
    /* Who orders copies at ranks, as bits: all that a rank must know of its like. */
    ACTOR_ORDERERS = BIT(ACTOR_TRANSFER) | BIT(ACTOR_MIRROR),
};

/* "supervisor" ...; "unknown" of what is no kind. */
const char *actor_kind_word(actor_kind_t kind);

#endif
