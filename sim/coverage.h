/* coverage.h - what runs of the simulator have reached: pairs of a state and a message, of every
 * type's tables, and pairs of a fault and the phase of a request that it struck in.
 *
 * A pair that no run reaches is a rule that nothing has tried. What cannot be reached by peers that
 * keep the protocol stands in a table here with the reason; the rest counts as missed.
 */
#ifndef SIM_COVERAGE_H
#define SIM_COVERAGE_H

#include "sim/story.h"

typedef struct {
    dispatch_met_t met[ACTOR_KIND_COUNT];
    uint32_t faults[FAULT_COUNT][PHASE_COUNT];
} coverage_t;

typedef struct {
    uint32_t pairs;
    uint32_t reached;
    uint32_t explained;    /* not reached, and the table says why */
    uint32_t contradicted; /* reached, though the table says that they cannot be */
} coverage_sum_t;

/* Such a fault is about to strike. */
void coverage_note_fault(coverage_t *coverage, const story_fault_t *fault, world_t *world);
void coverage_add(coverage_t *to, const coverage_t *from);

/* Of one type's tables. */
coverage_sum_t coverage_of_kind(const coverage_t *coverage, actor_kind_t kind);
coverage_sum_t coverage_of_faults(const coverage_t *coverage);
/* The messages of a row of what cannot be reached that names a pair which is none; NULL: no such row. */
const char *coverage_stale_row(void);
/* Sums by kind, then every pair that was not reached, by name. */
void coverage_print(const coverage_t *coverage, FILE *out);

#endif
