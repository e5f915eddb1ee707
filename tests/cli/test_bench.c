/* test_bench.c - percentiles and means of `bench`, against their definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

#include "cli/bench_figures.h"
#include "runtime/base/check.h"
#include "runtime/base/random.h"

enum { SAMPLES_MOST = 3000 };

/* How many samples are at most `value`. */
static uint32_t count_up_to(const bench_samples_t *samples, double value)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < samples->count; i++)
        count += (double)samples->values[i] <= value;
    return count;
}

static void test_percentiles_are_the_smallest_that_hold(void **state)
{
    static const double shares[] = {0, 0.01, 0.5, 0.9, 0.99, 1};
    static const uint32_t counts[] = {1, 2, 3, 9, 10, 11, 99, 100, 101, 1024, 1025, SAMPLES_MOST};
    random_t random;

    (void)state;
    random_init(&random, 1);
    for (size_t c = 0; c < COUNT_OF(counts); c++) {
        bench_samples_t samples = {0};
        double sum = 0;

        for (uint32_t i = 0; i < counts[c]; i++) {
            float value = (float)random_below(&random, 200);

            sum += (double)value;
            bench_samples_add(&samples, (double)value);
        }
        bench_samples_sort(&samples);
        assert_int_equal(samples.count, counts[c]);
        assert_float_equal((float)bench_samples_mean(&samples), (float)(sum / counts[c]), 1e-3F);
        for (size_t s = 0; s < COUNT_OF(shares); s++) {
            double value = bench_samples_percentile(&samples, shares[s]);

            assert_true(count_up_to(&samples, value) >= shares[s] * counts[c]);
            assert_true(count_up_to(&samples, value - 0.5) < shares[s] * counts[c] ||
                        value == (double)samples.values[0]);
        }
        free(samples.values);
    }
}

static void test_no_samples_are_zero(void **state)
{
    bench_samples_t samples = {0};

    (void)state;
    bench_samples_sort(&samples);
    assert_true(bench_samples_percentile(&samples, 0.5) == 0);
    assert_true(bench_samples_mean(&samples) == 0);
}

static void test_json_says_what_was_measured(void **state)
{
    bench_figures_t figures = {.url = "http://h", .model = "m\"", .sessions = 2, .wall_s = 2,
                               .answered = 4, .failed = 1, .output_tokens = 40, .error = "broke"};
    char text[8192];
    FILE *file = fmemopen(text, sizeof(text), "w");
    json_t *root, *first;

    (void)state;
    assert_non_null(file);
    for (uint32_t i = 0; i < 4; i++)
        bench_samples_add(&figures.samples[BENCH_FIRST_TOKEN], 0.004 - 0.001 * i);
    bench_figures_json(&figures, file);
    fclose(file);
    root = json_loads(text, 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "model")), "m\"");
    assert_string_equal(json_string_value(json_object_get(root, "error")), "broke");
    assert_int_equal(json_integer_value(json_object_get(root, "failed")), 1);
    assert_true(json_real_value(json_object_get(root, "output_tokens_per_s")) == 20);
    first = json_object_get(root, "first_token_ms");
    assert_int_equal(json_integer_value(json_object_get(first, "count")), 4);
    assert_true(json_real_value(json_object_get(first, "p50")) == 2);
    assert_true(json_real_value(json_object_get(first, "max")) == 4);
    json_decref(root);
    bench_figures_fini(&figures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles_are_the_smallest_that_hold),
        cmocka_unit_test(test_no_samples_are_zero),
        cmocka_unit_test(test_json_says_what_was_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
