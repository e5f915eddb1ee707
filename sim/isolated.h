/* isolated.h - a run of the simulator in a process of its own: a failed assertion is a violation like
 * any other, and what a run spoils is gone with it. */
#ifndef SIM_ISOLATED_H
#define SIM_ISOLATED_H

#include "sim/scenario.h"

/* Called in that process when the run has ended, however it did. */
typedef void isolated_after_t(void *context, const scenario_result_t *result);

/* `after` may be NULL. A violation by an assertion is "assert CONDITION: FILE:LINE". */
void isolated_run(const scenario_t *scenario, isolated_after_t *after, void *context,
               scenario_result_t *result);

#endif
