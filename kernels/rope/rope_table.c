/* rope_table.c - frequencies, and their cosines and sines in double with our own functions.
 *
 * theta^x, cosine and sine use only + - * / and rounding, in double and without fused operations,
 * so that any compiler and machine gives the same bits. Errors stay near 1e-16, far below float32.
 */
#include "kernels/rope/rope.h"

#include <math.h>

#include "runtime/base/check.h"

static const double pi = 3.14159265358979323846;

/* ln(x) for x > 0: x = m 2^e with m near 1, then the series of atanh. */
static double natural_log(double x)
{
    const double ln2 = 0.693147180559945309417;
    int exponent;
    double m = frexp(x, &exponent), z, square, power, sum = 0.0;

    if (m < 0.70710678118654752440) {
        m *= 2.0;
        exponent--;
    }
    z = (m - 1.0) / (m + 1.0);
    square = z * z;
    power = z;
    for (int n = 1; n < 40; n += 2, power *= square)
        sum += power / n;
    return 2.0 * sum + exponent * ln2;
}

/* e^x: x = n ln 2 + r, then the series. */
static double exponential(double x)
{
    const double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    double n = nearbyint(x / (ln2_high + ln2_low)), r = (x - n * ln2_high) - n * ln2_low;
    double term = 1.0, sum = 1.0;

    for (int i = 1; i < 20; i++) {
        term *= r / i;
        sum += term;
    }
    return ldexp(sum, (int)n);
}

/* Cosine and sine of an angle of 0 .. 2^20: quarter turns are taken away with pi / 2 in three
 * pieces, whose first two have so few bits that their products with the count are exact. */
static void turn(double angle, double *cosine, double *sine)
{
    const double half_pi_1 = 1.57079632673412561417e+00, half_pi_2 = 6.07710050630396597660e-11;
    const double half_pi_3 = 2.02226624879595063154e-21;
    double quarters = nearbyint(angle * (2.0 / pi));
    double r = ((angle - quarters * half_pi_1) - quarters * half_pi_2) - quarters * half_pi_3;
    double square = r * r, c = 1.0, s = r, term_c = 1.0, term_s = r;

    for (int i = 1; i < 11; i++) {
        term_c *= -square / ((2 * i - 1) * (2 * i));
        term_s *= -square / ((2 * i) * (2 * i + 1));
        c += term_c;
        s += term_s;
    }
    switch ((int64_t)quarters & 3) {
    case 0:
        *cosine = c;
        *sine = s;
        break;
    case 1:
        *cosine = -s;
        *sine = c;
        break;
    case 2:
        *cosine = -c;
        *sine = -s;
        break;
    default:
        *cosine = s;
        *sine = -c;
    }
}

void rope_table_init(rope_table_t *table, uint32_t channels, double theta)
{
    ASSERT(channels % 2 == 0 && channels / 2 <= ROPE_PAIRS_MAX);
    table->pairs = channels / 2;
    for (uint32_t i = 0; i < table->pairs; i++)
        table->frequency[i] = exponential(-2.0 * i / channels * natural_log(theta));
}

void rope_table_init_yarn(rope_table_t *table, uint32_t channels, double theta, double factor,
                          double original, double beta_fast, double beta_slow)
{
    double per_turn = channels / (2.0 * natural_log(theta));
    double low = floor(per_turn * natural_log(original / (2.0 * pi * beta_fast)));
    double high = ceil(per_turn * natural_log(original / (2.0 * pi * beta_slow)));

    low = low > 0.0 ? low : 0.0;
    high = high < channels - 1.0 ? high : channels - 1.0;
    if (low == high)
        high += 0.001;
    rope_table_init(table, channels, theta);
    for (uint32_t i = 0; i < table->pairs; i++) {
        double ramp = (i - low) / (high - low), plain = table->frequency[i];
        ramp = ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp;
        table->frequency[i] = plain * (1.0 - ramp) + plain / factor * ramp;
    }
}

void rope_turns(const rope_table_t *table, uint32_t position, float *turns)
{
    for (uint32_t i = 0; i < table->pairs; i++) {
        double cosine, sine;
        turn(position * table->frequency[i], &cosine, &sine);
        turns[i] = (float)cosine;
        turns[table->pairs + i] = (float)sine;
    }
}
