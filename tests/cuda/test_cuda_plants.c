/* test_cuda_plants.c - the emulator sees what is wrong with a kernel, and only that.
 *
 * A plant is caught if one of eight orders ends in a fault or has other bits than plain loops. Where
 * a fault must come, its words are looked at; where order alone tells, the test prints in how many.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/check.h"
#include "runtime/base/random.h"
#include "tests/cuda/emulator.h"

enum { ROWS = 48, COLUMNS = 200, THREADS = 128, ORDERS = 8 };

extern const emulator_kernel_t ptx_plants[];

static const emulator_kernel_t *kernel_of(const char *name)
{
    const emulator_kernel_t *kernel = ptx_plants;

    while (kernel->name && strcmp(kernel->name, name) != 0)
        kernel++;
    assert_non_null(kernel->name);
    return kernel;
}

/* Arguments are eight bytes each but those that the kernel says are four. */
static const char *run(const char *name, uint32_t blocks, uint32_t threads, uint64_t seed,
                       bool turns, const uint64_t *arguments)
{
    const emulator_kernel_t *kernel = kernel_of(name);
    unsigned char parameters[EMULATOR_PARAMETER_BYTES_MAX];

    for (uint32_t i = 0; i < kernel->parameter_count; i++)
        memcpy(parameters + kernel->parameters[i].offset, &arguments[i],
               kernel->parameters[i].bytes);
    return emulator_run(&(emulator_launch_t){.kernel = kernel,
                                             .grid = {blocks, 1, 1},
                                             .block = {threads, 1, 1},
                                             .seed = seed,
                                             .turns = turns,
                                             .parameters = parameters});
}

static float *x, *y;
static uint8_t *copied;
static float wanted[ROWS];

/* The meaning: each thread's sum, then the tree. */
static void make_wanted(void)
{
    random_t random;

    random_init(&random, 5);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = (float)random_unit(&random) * 7.0f - 3.0f;
    for (int m = 0; m < ROWS; m++) {
        float sums[THREADS];
        for (int t = 0; t < THREADS; t++) {
            sums[t] = 0.0f;
            for (int k = THREADS - 1 - t; k < COLUMNS; k += THREADS)
                sums[t] = sums[t] + x[m * COLUMNS + k] * x[m * COLUMNS + k];
        }
        for (int half = THREADS / 2; half; half /= 2)
            for (int t = 0; t < half; t++)
                sums[t] = sums[t] + sums[t + half];
        wanted[m] = sums[0];
    }
}

static int setup(void **state)
{
    (void)state;
    x = malloc(ROWS * COLUMNS * sizeof(*x));
    y = malloc(ROWS * sizeof(*y));
    copied = malloc(ROWS * COLUMNS * sizeof(*x));
    assert_true(x && y && copied);
    make_wanted();
    emulator_range_add((uintptr_t)x, ROWS * COLUMNS * sizeof(*x), 1, 0);
    emulator_range_add((uintptr_t)y, ROWS * sizeof(*y), 1, 1);
    emulator_range_add((uintptr_t)copied, ROWS * COLUMNS * sizeof(*x), 1, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_true(emulator_range_remove((uintptr_t)x));
    assert_true(emulator_range_remove((uintptr_t)y));
    assert_true(emulator_range_remove((uintptr_t)copied));
    free(x);
    free(y);
    free(copied);
    return 0;
}

/* In how many of the orders the kernel was caught; words of the last fault, or NULL. */
static int caught(const char *name, char *fault, size_t bytes)
{
    const uint64_t arguments[] = {(uintptr_t)x, ROWS, COLUMNS, (uintptr_t)y, (uintptr_t)copied};
    int count = 0;

    fault[0] = '\0';
    for (uint64_t seed = 1; seed <= ORDERS; seed++) {
        memset(y, 0, ROWS * sizeof(*y));
        const char *said = run(name, 1, THREADS, seed, false, arguments);
        if (said)
            snprintf(fault, bytes, "%s", said);
        count += said || memcmp(y, wanted, sizeof(wanted)) != 0 ||
                 memcmp(copied, x, ROWS * COLUMNS * sizeof(*x)) != 0;
    }
    return count;
}

static void test_the_right_kernel_is_right_in_every_order(void **state)
{
    char fault[256];

    (void)state;
    assert_int_equal(caught("plant_0", fault, sizeof(fault)), 0);
}

static void test_every_plant_is_caught(void **state)
{
    static const struct {
        const char *name, *what, *fault;
    } plants[] = {
        {"plant_1", "no barrier after the copy", ""},
        {"plant_2", "no barrier in the tree", ""},
        {"plant_3", "no barrier before the tree", ""},
        {"plant_4", "no wait for the copy", ""},
        {"plant_5", "one k too many", ""},
        {"plant_6", "a copy one byte long", "illegal address: write of 1 bytes"},
        {"plant_7", "wrong ways", ""},
        {"plant_8", "a shuffle in a branch", "meet at different instructions"},
        {"plant_9", "contracted", ""},
        {"plant_10", "a thread leaves early", "left before a barrier"},
        {"plant_11", "beyond shared memory", "of shared memory"},
    };
    char fault[256];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(plants); i++) {
        int count = caught(plants[i].name, fault, sizeof(fault));
        print_message("%s: caught in %d of %d orders %s\n", plants[i].what, count, ORDERS, fault);
        assert_true(count > 0);
        assert_non_null(strstr(fault, plants[i].fault));
    }
}

static void test_a_deadlock_is_told(void **state)
{
    const char *said = run("stuck", 1, 64, 1, false, (uint64_t[]){(uintptr_t)y});

    (void)state;
    assert_non_null(said);
    assert_non_null(strstr(said, "deadlock"));
}

static void test_blocks_that_wait_for_each_other_need_turns(void **state)
{
    enum { BLOCKS = 5 };
    uint32_t words[BLOCKS] = {0};
    const uint64_t argument = (uintptr_t)words;
    const char *said;

    (void)state;
    emulator_range_add((uintptr_t)words, sizeof(words), 1, 1);
    said = run("chain", BLOCKS, 32, 0, false, &argument); /* seed 0: the first block is first */
    assert_non_null(said);
    assert_non_null(strstr(said, "let blocks take turns"));
    for (uint64_t seed = 1; seed <= ORDERS; seed++) {
        memset(words, 0, sizeof(words));
        said = run("chain", BLOCKS, 32, seed, true, &argument);
        assert_null(said);
        for (uint32_t i = 0; i < BLOCKS; i++)
            assert_int_equal(words[i], i + 1);
    }
    assert_true(emulator_range_remove((uintptr_t)words));
}

static uint32_t pair(int low, int high)
{
    float f[2] = {(float)low, (float)high};
    uint32_t bits[2];

    memcpy(bits, f, sizeof(bits));
    return bits[0] >> 16 | (bits[1] & 0xffff0000u);
}

/* Small whole numbers: every sum is exact, so only the places of the lanes can be wrong. */
static void test_a_tile_of_mma_has_its_lanes_where_ptx_says(void **state)
{
    static uint32_t a[32][4], b[32][2];
    static float c[32][4], d[32][4];
    int left[16][16], right[16][8];
    random_t random;

    (void)state;
    random_init(&random, 9);
    for (int i = 0; i < 16 * 16; i++)
        left[i / 16][i % 16] = (int)random_below(&random, 17) - 8;
    for (int i = 0; i < 16 * 8; i++)
        right[i / 8][i % 8] = (int)random_below(&random, 17) - 8;
    for (int lane = 0; lane < 32; lane++) {
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; i++) {
            int row = g + i % 2 * 8, k = 2 * t + i / 2 * 8;
            a[lane][i] = pair(left[row][k], left[row][k + 1]);
            c[lane][i] = (float)(lane * 4 + i);
        }
        for (int i = 0; i < 2; i++)
            b[lane][i] = pair(right[2 * t + 8 * i][g], right[2 * t + 8 * i + 1][g]);
    }
    emulator_range_add((uintptr_t)a, sizeof(a), 1, 0);
    emulator_range_add((uintptr_t)b, sizeof(b), 1, 0);
    emulator_range_add((uintptr_t)c, sizeof(c), 1, 0);
    emulator_range_add((uintptr_t)d, sizeof(d), 1, 1);
    assert_null(run("tile", 1, 32, 1, false,
                    (uint64_t[]){(uintptr_t)a, (uintptr_t)b, (uintptr_t)c, (uintptr_t)d}));
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2, sum = lane * 4 + i;
            for (int k = 0; k < 16; k++)
                sum += left[row][k] * right[k][column];
            assert_true(d[lane][i] == (float)sum);
        }
    assert_true(emulator_range_remove((uintptr_t)a));
    assert_true(emulator_range_remove((uintptr_t)b));
    assert_true(emulator_range_remove((uintptr_t)c));
    assert_true(emulator_range_remove((uintptr_t)d));
}

static void test_the_sum_of_mma_is_cut_below_its_largest_term(void **state)
{
    const float one = 1.0f, minus = -1.0f, large = 67108864.0f; /* 2^26 */

    (void)state;
    assert_true(emulator_mma_sum(&one, &one, 1, large / 2.0f, 25) == large / 2.0f); /* to 24 bits */
    assert_true(emulator_mma_sum(&minus, &one, 1, large, 25) == large); /* cut before it counts */
    assert_true(emulator_mma_sum(&minus, &one, 1, large / 2.0f, 25) < large / 2.0f);
    assert_true(emulator_mma_sum(&one, &one, 1, -1.0f, 25) == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_right_kernel_is_right_in_every_order, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_every_plant_is_caught, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_deadlock_is_told, setup, teardown),
        cmocka_unit_test(test_blocks_that_wait_for_each_other_need_turns),
        cmocka_unit_test(test_a_tile_of_mma_has_its_lanes_where_ptx_says),
        cmocka_unit_test(test_the_sum_of_mma_is_cut_below_its_largest_term),
    };
    return cmocka_run_group_tests_name("cuda plants", tests, NULL, NULL);
}
