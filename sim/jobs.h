/* jobs.h - many seeds, by several processes at once: each takes every n-th one. */
#ifndef SIM_JOBS_H
#define SIM_JOBS_H

#include "sim/scenario.h"

enum { JOBS_MAX = 256 };

typedef struct {
    const topology_t *topology;
    plant_t plant;
    uint64_t first;
    uint64_t last;
    uint32_t jobs;
    bool keep_going; /* behind a violation */
    bool coverage;
} jobs_config_t;

typedef struct {
    uint64_t seeds; /* that ended */
    uint64_t requests;
    uint64_t faults;
    uint64_t events;
    uint64_t virtual_us;
    uint64_t violations;
    uint64_t failed_seed; /* the lowest that violated, with its result; meaningless if none did */
    scenario_result_t failed;
    double seconds;
    coverage_t *coverage; /* NULL if it was not asked for; the caller frees it */
} jobs_total_t;

/* Says on stderr how far it is: on a terminal all the time, else once a minute. A seed whose process dies
 * is a violation. */
void jobs_run(const jobs_config_t *config, jobs_total_t *total);

#endif
