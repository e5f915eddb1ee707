/* scenario.h - one seed is one story: load, and faults at times that the seed draws. */
#ifndef CLI_SIM_SCENARIO_H
#define CLI_SIM_SCENARIO_H

#include "cli/sim/world.h"

/* Faults put back in on purpose, to prove that an oracle sees them. */
/*    name           what */
#define PLANT_TABLE(P)                                                                             \
    P(none, "no fault")                                                                            \
    P(bit_flip, "one bit of one unit on one rank flips")                                           \
    P(wrong_token, "one rank draws one wrong token")

typedef enum {
#define PLANT_ENUM(name, text) PLANT_##name,
    PLANT_TABLE(PLANT_ENUM)
#undef PLANT_ENUM
        PLANT_COUNT
} plant_t;

/* "bit-flip" for bit_flip; false if `text` names none. */
bool plant_parse(const char *text, plant_t *plant);
const char *plant_name(plant_t plant);
const char *plant_text(plant_t plant);

typedef struct {
    const topology_t *topology;
    uint64_t seed;
    plant_t plant;
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
