#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "kernels/math.h"
#include "runtime/base/random.h"

/* Distance in units in the last place of the exact value. */
static double distance(float found, double exact)
{
    int exponent;

    if (exact == 0 || isinf(exact) || isnan(exact))
        return found == (float)exact || (isnan(found) && isnan(exact)) ? 0 : INFINITY;
    frexp(exact, &exponent);
    return fabs((double)found - exact) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

/* Every 1009th float between the bounds (both of the same sign). */
static double worst(float (*function)(float), double (*exact)(double), float from, float to,
                    float *at)
{
    double largest = 0;

    for (uint32_t bits = math_bits(from); bits <= math_bits(to); bits += 1009) {
        double found = distance(function(math_of_bits(bits)), exact((double)math_of_bits(bits)));

        if (!(found <= largest)) {
            largest = found;
            *at = math_of_bits(bits);
        }
    }
    return largest;
}

static float f_exp(float x)
{
    return math_exp(x);
}

static float f_log(float x)
{
    return math_log(x);
}

static float f_log1p(float x)
{
    return math_log1p(x);
}

static float f_sigmoid(float x)
{
    return math_sigmoid(x);
}

static float f_softplus(float x)
{
    return math_softplus(x);
}

static double exact_sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double exact_softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static void test_errors_stay_within_two_units(void **state)
{
    static const struct {
        const char *name;
        float (*function)(float);
        double (*exact)(double);
        float from, to; /* in order of magnitude */
        double units;
    } rows[] = {
        {"exp", f_exp, exp, 1e-30f, 88.36f, 2},
        {"exp", f_exp, exp, -1e-30f, -87.32f, 2},
        {"log", f_log, log, 1e-44f, 3e38f, 2},
        {"log1p", f_log1p, log1p, 1e-30f, 1e6f, 3},
        {"sigmoid", f_sigmoid, exact_sigmoid, 1e-30f, 88, 2.5},
        {"sigmoid", f_sigmoid, exact_sigmoid, -1e-30f, -87.3f, 2.5},
        {"softplus", f_softplus, exact_softplus, 1e-30f, 1e6f, 3},
        {"softplus", f_softplus, exact_softplus, -1e-30f, -87.3f, 3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        float at = 0;
        double found = worst(rows[i].function, rows[i].exact, rows[i].from, rows[i].to, &at);

        print_message("%s from %g to %g: %.2f units\n", rows[i].name, (double)rows[i].from,
                      (double)rows[i].to, found);
        if (!(found <= rows[i].units))
            fail_msg("%s(%a) is %.2f units off", rows[i].name, (double)at, found);
    }
}

static void test_ends_of_the_range(void **state)
{
    (void)state;
    assert_true(math_exp(0.0f) == 1.0f && math_exp(-0.0f) == 1.0f);
    assert_true(math_exp(-INFINITY) == 0.0f && math_exp(-1000.0f) == 0.0f);
    assert_true(math_exp(INFINITY) == INFINITY && math_exp(1000.0f) == INFINITY);
    assert_true(isnan(math_exp(NAN)) && isnan(math_log(NAN)) && isnan(math_log(-1.0f)));
    assert_true(math_log(0.0f) == -INFINITY && math_log(INFINITY) == INFINITY);
    assert_true(math_log(1.0f) == 0.0f);
    assert_true(math_sigmoid(0.0f) == 0.5f);
    assert_true(math_sigmoid(1000.0f) == 1.0f && math_sigmoid(-1000.0f) == 0.0f);
    assert_true(math_softplus(1000.0f) == 1000.0f && math_softplus(-1000.0f) == 0.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_stay_within_two_units),
        cmocka_unit_test(test_ends_of_the_range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
