/* apart.h - a run of the simulator in a process of its own: a failed assertion is a violation like
 * any other, and what a run spoils is gone with it. */
#ifndef CLI_SIM_APART_H
#define CLI_SIM_APART_H

#include "cli/sim/scenario.h"

/* Called in that process when the run has ended, however it did. */
typedef void apart_after_t(void *context, const scenario_result_t *result);

/* `after` may be NULL. A violation by an assertion is "assert CONDITION: FILE:LINE". */
void apart_run(const scenario_t *scenario, apart_after_t *after, void *context,
               scenario_result_t *result);

#endif
