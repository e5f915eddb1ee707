/* scenario.h - one seed is one story: load, and faults at times that the seed draws. */
#ifndef CLI_SIM_SCENARIO_H
#define CLI_SIM_SCENARIO_H

#include "cli/sim/world.h"
#include "runtime/base/plant.h"

typedef struct {
    const topology_t *topology;
    uint64_t seed;
    plant_t plant; /* one of code must be set before (plant_set) */
    FILE *trace;
} scenario_t;

typedef struct {
    bool passed;
    char violation[WORLD_VIOLATION_BYTES];
    uint64_t digest; /* of the frame trace */
    uint64_t events;
    uint64_t virtual_us;
    uint32_t requests;
    uint32_t faults;
} scenario_result_t;

void scenario_run(const scenario_t *scenario, scenario_result_t *result);

#endif
