/* What a fixed set of seeds and all schedules reach: a floor by kind of actor, so that a change which keeps
 * them from reaching what they did is seen. `lockstep sim --seeds A..B --coverage` says what is missed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/sim/schedule.h"
#include "tests/sim/stage.h"

/* Large deployments have pairs that small ones do not: supervisors that tell each other. */
static const struct {
    const char *topology;
    uint64_t seeds;
} runs[] = {{"8-devices", 800}, {"16-devices", 60}, {"64-devices", 16}};

/* Pairs that must be reached, a few less than are. */
static const struct {
    actor_kind_t kind;
    const char *name;
    uint32_t floor;
} floors[] = {
    {ACTOR_SUPERVISOR, "supervisor", 16}, {ACTOR_GATEWAY, "gateway", 22},
    {ACTOR_SCHEDULER, "scheduler", 5},    {ACTOR_PREFILL, "prefill", 47},
    {ACTOR_DECODE, "decode", 40},         {ACTOR_RANK, "rank", 31},
    {ACTOR_TRANSFER, "transfer", 14},     {ACTOR_MONITOR, "monitor", 4},
};

enum { FAULT_PAIRS_FLOOR = 88 };

static void play_schedules(coverage_t *coverage)
{
    char violation[WORLD_VIOLATION_BYTES];

    for (uint32_t i = 0; i < schedule_count; i++) {
        assert_int_equal(schedule_play(&schedules[i], 1, NULL, coverage, violation), STATUS_OK);
        if (violation[0])
            fail_msg("%s: %s", schedules[i].name, violation);
    }
}

static coverage_t *reach(void)
{
    coverage_t *coverage = calloc(1, sizeof(*coverage));

    assert_non_null(coverage);
    for (uint32_t i = 0; i < COUNT_OF(runs); i++) {
        static topology_t topology;
        scenario_t scenario = {.topology = &topology, .coverage = coverage};
        scenario_result_t result;

        topology = *stage_topology(runs[i].topology);
        for (scenario.seed = 1; scenario.seed <= runs[i].seeds; scenario.seed++) {
            scenario_run(&scenario, &result);
            if (!result.passed)
                fail_msg("%s, seed %llu: %s", runs[i].topology, (unsigned long long)scenario.seed,
                         result.violation);
        }
    }
    play_schedules(coverage);
    return coverage;
}

static void test_seeds_and_schedules_reach_what_they_reached(void **state)
{
    coverage_t *coverage = reach();
    coverage_sum_t sum;
    uint32_t below = 0;

    (void)state;
    for (uint32_t i = 0; i < COUNT_OF(floors); i++) {
        sum = coverage_of_kind(coverage, floors[i].kind);
        print_message("%-10s %u pairs, %u reached, floor %u, %u explained, %u contradicted\n",
                      floors[i].name, sum.pairs, sum.reached, floors[i].floor, sum.explained,
                      sum.contradicted);
        below += sum.reached < floors[i].floor || sum.contradicted > 0;
    }
    sum = coverage_of_faults(coverage);
    print_message("faults     %u pairs, %u reached, floor %u\n", sum.pairs, sum.reached,
                  FAULT_PAIRS_FLOOR);
    below += sum.reached < FAULT_PAIRS_FLOOR;
    if (below)
        coverage_print(coverage, stderr);
    free(coverage);
    assert_int_equal(below, 0);
}

static void test_what_cannot_be_reached_is_said_of_pairs_that_are(void **state)
{
    const char *messages = coverage_stale_row();

    (void)state;
    if (messages)
        fail_msg("no such pair: %s", messages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_cannot_be_reached_is_said_of_pairs_that_are),
        cmocka_unit_test(test_seeds_and_schedules_reach_what_they_reached),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
