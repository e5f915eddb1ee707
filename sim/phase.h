/* phase.h - how far a request of a simulated deployment has come: what its gateway and the leaders that
 * know its attempt say of it, in one word. Faults wait for phases, and coverage counts pairs of both. */
#ifndef SIM_PHASE_H
#define SIM_PHASE_H

#include "sim/world.h"

/*    name         what */
#define PHASE_TABLE(P)                                                                             \
    P(coming, "the client has not come yet, or was turned away")                                   \
    P(waiting, "its gateway has it, and no prefill group")                                         \
    P(queued, "a prefill group has it, without memory")                                            \
    P(reserving, "pages are leased at prefill; decode is asked")                                   \
    P(prefilling, "chunks run")                                                                    \
    P(handing, "all is computed, and on its way to decode")                                        \
    P(running, "decode runs it")                                                                   \
    P(ending, "the answer has ended, or will not come; memory is on its way back")                 \
    P(ended, "nobody knows it any more")

typedef enum {
#define PHASE_ENUM(name, text) PHASE_##name,
    PHASE_TABLE(PHASE_ENUM)
#undef PHASE_ENUM
        PHASE_COUNT
} phase_t;

extern const char *const phase_names[PHASE_COUNT];

phase_t phase_of(world_t *world, uint32_t client);

#endif
