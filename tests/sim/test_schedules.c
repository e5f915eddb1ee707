/* Every schedule of sim/schedule.h, each as a test of its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sim/schedule.h"
#include "tests/sim/stage.h"

/* Of the network: a schedule waits for messages, so each must do. */
static uint64_t seeds(void)
{
#ifdef __OPTIMIZE__
    return stage_is_long() ? 50 : 3;
#else
    return 1;
#endif
}

static void test_schedule(void **state)
{
    const schedule_t *schedule = *state;
    char violation[WORLD_VIOLATION_BYTES];

    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        assert_int_equal(schedule_play(schedule, seed, NULL, NULL, violation), STATUS_OK);
        if (violation[0])
            fail_msg("%s, seed %llu: %s (%s)", schedule->name, (unsigned long long)seed, violation,
                     schedule->text);
    }
}

int main(void)
{
    struct CMUnitTest *tests = calloc(schedule_count, sizeof(*tests));
    int failed;

    for (uint32_t i = 0; i < schedule_count; i++)
        tests[i] = (struct CMUnitTest){.name = schedules[i].name,
                                       .test_func = test_schedule,
                                       .initial_state = (void *)(uintptr_t)&schedules[i]};
    stage_topology("default"); /* for its settings of logs and memory */
    failed = _cmocka_run_group_tests("schedules", tests, schedule_count, NULL, NULL);
    free(tests);
    return failed;
}
