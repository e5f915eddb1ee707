/* Random scripts against every kind of actor: what coverage-guided fuzzing begins with, where no fuzzer is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "runtime/base/random.h"
#include "tests/fuzz/crowd.h"

enum { SCRIPT_BYTES_MAX = 3000, ROUNDS = 400, ROUNDS_LONG = 40000 };

static void test_no_script_stops_an_actor(void **state)
{
    static uint8_t script[SCRIPT_BYTES_MAX];
    const char *only = getenv("LOCKSTEP_FUZZ_SEED");
    uint64_t rounds = getenv("LOCKSTEP_LONG") ? ROUNDS_LONG : ROUNDS;
    uint64_t seed = only ? strtoull(only, NULL, 10) : 0, end = only ? seed + 1 : rounds;

    (void)state;
    for (; seed < end; seed++) {
        random_t random;
        size_t size;
        uint32_t zeros;

        random_init(&random, seed);
        size = (size_t)random_below(&random, SCRIPT_BYTES_MAX);
        zeros = (uint32_t)random_below(&random, 90); /* the well-behaved choice, more or less often */
        for (size_t i = 0; i < size; i++)
            script[i] = random_below(&random, 100) < zeros ? 0 : (uint8_t)random_next(&random);
        script[0] = (uint8_t)seed;
        crowd_run(script, size, only ? stderr : NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_script_stops_an_actor)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
