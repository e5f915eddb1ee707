/* shrink.h - makes the story of a violation as small as it can be: fewer requests, faults, actors, and
 * plainer ones of what is left. */
#ifndef SIM_SHRINK_H
#define SIM_SHRINK_H

#include "sim/scenario.h"

typedef struct {
    uint32_t runs;
    uint32_t kept; /* changes that the violation survived */
} shrink_counts_t;

/* `story` violates as `result` says when `scenario` runs it. In the end it is the smallest story found that
 * violates in the same way, that is, by the same word in front of the first colon, and `result` is
 * its own. At most `runs_max` runs. */
shrink_counts_t shrink(const scenario_t *scenario, story_t *story, scenario_result_t *result,
                       uint32_t runs_max);

#endif
