/* scenario.h - plays one story to its end: its requests come, its faults strike, then everything must
 * end and be free. */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include "sim/coverage.h"
#include "sim/chronicle.h"
#include "sim/story.h"
#include "runtime/base/plant.h"

/* Open; what is 0 is left out. */
typedef struct {
    const topology_t *topology; /* of the file */
    uint64_t seed;
    const story_t *story;           /* NULL: the one that `seed` draws */
    plant_t plant;                  /* one of code must be set before (plant_set) */
    FILE *trace;                    /* every message, as it is handled */
    coverage_t *coverage;           /* what the run reached is added to it */
    chronicle_t *chronicle;         /* takes what happens */
    const journal_place_t *journal; /* where each life keeps one */
} scenario_t;

typedef struct {
    bool passed;
    char violation[WORLD_VIOLATION_BYTES];
    uint64_t digest; /* of the frame trace */
    uint64_t events;
    uint64_t virtual_us;
    uint32_t requests;
    uint32_t faults; /* that struck */
} scenario_result_t;

void scenario_run(const scenario_t *scenario, scenario_result_t *result);

#endif
