/* The scalar functions are the meaning. Array forms share one body (ISA_SHARED) that is compiled
 * once per level; nothing in a body depends on the width of a vector, so the bits are the same. */
#include "kernels/format.h"

#include <math.h>
#include <stdbool.h>

#include "kernels/isa.h"
#include "runtime/base/check.h"

static const float fp8_max = 448.0f;
/* Smallest amax of a block: near-zero blocks have a scale, too. */
static const double fp8_floor = 1e-4;
static const float fp4_floor = 6 * 0x1p-126f;

/* -- single values --------------------------------------------------------------------------- */

#define E4M3_LINE(s, scale)                                                                        \
    s 8.0f * (scale), s 9.0f * (scale), s 10.0f * (scale), s 11.0f * (scale), s 12.0f * (scale),   \
        s 13.0f * (scale), s 14.0f * (scale), s 15.0f * (scale)
#define E4M3_HALF(s)                                                                               \
    s 0.0f, s 0x1p-9f, s 0x2p-9f, s 0x3p-9f, s 0x4p-9f, s 0x5p-9f, s 0x6p-9f, s 0x7p-9f,           \
        E4M3_LINE(s, 0x1p-9f), E4M3_LINE(s, 0x1p-8f), E4M3_LINE(s, 0x1p-7f),                       \
        E4M3_LINE(s, 0x1p-6f), E4M3_LINE(s, 0x1p-5f), E4M3_LINE(s, 0x1p-4f),                       \
        E4M3_LINE(s, 0x1p-3f), E4M3_LINE(s, 0x1p-2f), E4M3_LINE(s, 0x1p-1f), E4M3_LINE(s, 0x1p0f), \
        E4M3_LINE(s, 0x1p1f), E4M3_LINE(s, 0x1p2f), E4M3_LINE(s, 0x1p3f), E4M3_LINE(s, 0x1p4f),    \
        s 256.0f, s 288.0f, s 320.0f, s 352.0f, s 384.0f, s 416.0f, s 448.0f, s NAN

const float format_e4m3_values[256] = {E4M3_HALF(+), E4M3_HALF(-)};
const float format_e2m1_values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                      -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

ISA_SHARED uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

ISA_SHARED float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* All of it without branches, so that it vectorises. Above the subnormals the code is the upper
 * bits of the float, rounded; below, adding 2^14 leaves a float whose unit is 2^-9, the step of the
 * subnormals. */
ISA_SHARED uint32_t e4m3_code(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
    uint32_t is_nan = 0u - (uint32_t)(magnitude > 0x7f800000);
    uint32_t held = magnitude < 0x43e00000 ? magnitude : 0x43e00000; /* 448 */
    uint32_t normal = ((held + 0x7ffff + (held >> 20 & 1)) >> 20) - ((127 - 7) << 3);
    uint32_t small = bits_of(float_of(held) + 0x1p14f) - 0x46800000;
    uint32_t is_small = 0u - (uint32_t)(held < 0x3c800000); /* 2^-6 */
    uint32_t code = sign | (small & is_small) | (normal & ~is_small);

    return (code & ~is_nan) | (0x7f & is_nan);
}

ISA_SHARED uint32_t e2m1_code(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 28 & 8, magnitude = bits & 0x7fffffff;
    uint32_t held = magnitude < 0x40c00000 ? magnitude : 0x40c00000; /* 6; NaN too */
    uint32_t normal = ((held + 0x1fffff + (held >> 22 & 1)) >> 22) - ((127 - 1) << 1);
    uint32_t small = bits_of(float_of(held) + 0x1p22f) - 0x4a800000; /* steps of 1/2 */
    uint32_t is_small = 0u - (uint32_t)(held < 0x3f800000);

    return sign | (small & is_small) | (normal & ~is_small);
}

ISA_SHARED uint16_t bf16_code(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t is_nan = 0u - (uint32_t)((bits & 0x7fffffff) > 0x7f800000);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t quiet = bits >> 16 | 0x40;

    return (uint16_t)((rounded & ~is_nan) | (quiet & is_nan));
}

uint8_t format_e4m3_encode(float x)
{
    return (uint8_t)e4m3_code(x);
}

uint8_t format_e4m3_encode_double(double x)
{
    uint64_t bits, sign, magnitude;
    double small;

    memcpy(&bits, &x, sizeof(bits));
    sign = bits >> 56 & 0x80;
    magnitude = bits & INT64_MAX;
    if (magnitude > UINT64_C(0x7ff0000000000000))
        return 0x7f;
    if (magnitude >= UINT64_C(0x407c000000000000)) /* 448 */
        return (uint8_t)(sign | 0x7e);
    if (magnitude < UINT64_C(0x3f90000000000000)) { /* 2^-6: round to steps of 2^-9 */
        small = fabs(x) + 0x1p43;
        memcpy(&bits, &small, sizeof(bits));
        return (uint8_t)(sign | (bits & 0xff));
    }
    magnitude = (magnitude + 0xffffffffffff + (magnitude >> 49 & 1)) >> 49;
    return (uint8_t)(sign | (magnitude - ((1023 - 7) << 3)));
}

uint8_t format_e2m1_encode(float x)
{
    return (uint8_t)e2m1_code(x);
}

uint16_t format_bf16_encode(float x)
{
    return bf16_code(x);
}

/* amax = f * 2^e with 1 <= f < 2. 448 = 1.75 * 2^8 and 6 = 1.5 * 2^2, so one more power of two if f
 * is above. Subnormals are made normal first. */
static int scale_exponent(float amax, uint32_t fraction, int power)
{
    bool tiny = amax < 0x1p-126f;
    uint32_t bits = bits_of(tiny ? amax * 0x1p64f : amax);

    return (int)(bits >> 23) - 127 - power + ((bits & 0x7fffff) > fraction) - (tiny ? 64 : 0);
}

int format_fp8_exponent(float amax)
{
    return scale_exponent(amax, 0x600000, 8);
}

int format_fp4_exponent(float amax)
{
    return scale_exponent(amax, 0x400000, 2);
}

/* The same of a block: not below the floor, which keeps the scale normal, nor above what e8m0 and a
 * float hold. */
static int block_exponent(int (*exponent_of)(float), float amax, float floor)
{
    int exponent = exponent_of(amax > floor ? amax : floor);

    return exponent > 127 ? 127 : exponent;
}

/* -- arrays ---------------------------------------------------------------------------------- */

ISA_SHARED void format_bf16_encode_row_body(const float *in, size_t n, void *out)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t code = bf16_code(in[i]);

        memcpy((uint8_t *)out + 2 * i, &code, sizeof(code));
    }
}
ISA_LEVELS(, format_bf16_encode_row, (const float *in, size_t n, void *out), (in, n, out))

ISA_SHARED void format_bf16_decode_row_body(const void *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t code;

        memcpy(&code, (const uint8_t *)in + 2 * i, sizeof(code));
        out[i] = float_of((uint32_t)code << 16);
    }
}
ISA_LEVELS(, format_bf16_decode_row, (const void *in, size_t n, float *out), (in, n, out))

/* Exponent and mantissa move to their places in a float; the factor 2^120 sets the bias right, also
 * of subnormals. */
ISA_SHARED void format_e4m3_decode_row_body(const void *in, size_t n, float scale, float *out)
{
    const uint8_t *codes = in;

    for (size_t i = 0; i < n; i++) {
        uint32_t code = codes[i], magnitude = code & 0x7f, sign = (code & 0x80) << 24;
        uint32_t is_nan = 0u - (uint32_t)(magnitude == 0x7f);
        float value = float_of(magnitude << 20) * 0x1p120f;

        out[i] = float_of((bits_of(value) & ~is_nan) | (0x7fc00000 & is_nan) | sign) * scale;
    }
}
ISA_LEVELS(, format_e4m3_decode_row, (const void *in, size_t n, float scale, float *out),
           (in, n, scale, out))

ISA_SHARED float e2m1_value(uint32_t code)
{
    float value = float_of((code & 7) << 22) * 0x1p126f;

    return float_of(bits_of(value) | (code & 8) << 28);
}

/* Sixteen bytes at once, apart from `in` and `out`: a group of an index key is no longer, and loops
 * over so few vectorise only where the compiler knows both. */
ISA_SHARED void format_e2m1_decode_row_body(const void *in, size_t n, float scale, float *out)
{
    const uint8_t *codes = in;

    for (size_t first = 0; first < n / 2; first += 16) {
        size_t count = n / 2 - first < 16 ? n / 2 - first : 16;
        uint8_t block[16] = {0};
        float low[16], high[16], pairs[32];

        memcpy(block, codes + first, count);
        for (size_t i = 0; i < 16; i++)
            low[i] = e2m1_value(block[i] & 15) * scale;
        for (size_t i = 0; i < 16; i++)
            high[i] = e2m1_value(block[i] >> 4) * scale;
        for (size_t i = 0; i < 16; i++) {
            pairs[2 * i] = low[i];
            pairs[2 * i + 1] = high[i];
        }
        memcpy(out + 2 * first, pairs, 2 * count * sizeof(float));
    }
}
ISA_LEVELS(, format_e2m1_decode_row, (const void *in, size_t n, float scale, float *out),
           (in, n, scale, out))

/* Magnitudes of floats order like their bits; NaNs lie above infinity and are taken as 0. */
ISA_SHARED void amax_of_body(const float *in, size_t n, float *amax)
{
    uint32_t largest = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t magnitude = bits_of(in[i]) & 0x7fffffff;
        uint32_t counted = magnitude > 0x7f800000 ? 0 : magnitude;

        largest = counted > largest ? counted : largest;
    }
    *amax = float_of(largest);
}
ISA_LEVELS(static, amax_of, (const float *in, size_t n, float *amax), (in, n, amax))

float format_amax(const float *in, size_t n)
{
    float amax;

    amax_of(in, n, &amax);
    return amax;
}

ISA_SHARED void e4m3_encode_scaled_body(const float *in, size_t n, float factor, uint8_t *codes)
{
    for (size_t i = 0; i < n; i++)
        codes[i] = (uint8_t)e4m3_code(in[i] * factor);
}
ISA_LEVELS(static, e4m3_encode_scaled, (const float *in, size_t n, float factor, uint8_t *codes),
           (in, n, factor, codes))

ISA_SHARED void e2m1_encode_scaled_body(const float *in, size_t n, float factor, uint8_t *codes)
{
    for (size_t i = 0; i < n / 2; i++)
        codes[i] =
            (uint8_t)(e2m1_code(in[2 * i] * factor) | e2m1_code(in[2 * i + 1] * factor) << 4);
}
ISA_LEVELS(static, e2m1_encode_scaled, (const float *in, size_t n, float factor, uint8_t *codes),
           (in, n, factor, codes))

/* A power of two as a float; -126 <= exponent <= 127. Its products with floats are exact but for
 * results below the smallest normal float, far under the first step of either format. */
static float power_of_two(int exponent)
{
    return float_of((uint32_t)(exponent + 127) << 23);
}

void format_fp8_blocks_encode(const float *in, size_t n, size_t block, uint8_t *codes,
                              uint8_t *scales)
{
    ASSERT(block > 0 && n % block == 0);
    for (size_t at = 0; at < n; at += block) {
        int exponent =
            block_exponent(format_fp8_exponent, format_amax(in + at, block), (float)fp8_floor);

        e4m3_encode_scaled(in + at, block, power_of_two(-exponent), codes + at);
        scales[at / block] = (uint8_t)(exponent + 127);
    }
}

void format_fp8_blocks_decode(const uint8_t *codes, const uint8_t *scales, size_t n, size_t block,
                              float *out)
{
    ASSERT(block > 0 && n % block == 0);
    for (size_t at = 0; at < n; at += block)
        format_e4m3_decode_row(codes + at, block, format_e8m0_decode(scales[at / block]), out + at);
}

void format_fp4_groups_encode(const float *in, size_t n, uint8_t *codes, uint8_t *scales)
{
    ASSERT(n % FORMAT_INDEX_GROUP == 0);
    for (size_t at = 0; at < n; at += FORMAT_INDEX_GROUP) {
        int exponent = block_exponent(format_fp4_exponent, format_amax(in + at, FORMAT_INDEX_GROUP),
                                      fp4_floor);

        e2m1_encode_scaled(in + at, FORMAT_INDEX_GROUP, power_of_two(-exponent), codes + at / 2);
        scales[at / FORMAT_INDEX_GROUP] = (uint8_t)(exponent + 127);
    }
}

void format_fp4_groups_decode(const uint8_t *codes, const uint8_t *scales, size_t n, float *out)
{
    ASSERT(n % FORMAT_INDEX_GROUP == 0);
    for (size_t at = 0; at < n; at += FORMAT_INDEX_GROUP)
        format_e2m1_decode_row(codes + at / 2, FORMAT_INDEX_GROUP,
                               format_e8m0_decode(scales[at / FORMAT_INDEX_GROUP]), out + at);
}

/* The quotient is taken in double: as a float it could fall on a tie between two codes that it is
 * not on. */
float format_fp8_row_encode(const float *in, size_t n, uint8_t *codes)
{
    double amax = (double)format_amax(in, n);
    float scale = (float)((amax > fp8_floor ? amax : fp8_floor) / (double)fp8_max);

    for (size_t i = 0; i < n; i++)
        codes[i] = format_e4m3_encode_double((double)in[i] / (double)scale);
    return scale;
}

/* Stages of butterflies with growing distance; every element is a sum of two of the stage before.
 */
ISA_SHARED void hadamard_body(float *x, size_t n, float factor)
{
    for (size_t half = 1; half < n; half *= 2)
        for (size_t at = 0; at < n; at += 2 * half)
            for (size_t i = at; i < at + half; i++) {
                float a = x[i], b = x[i + half];

                x[i] = a + b;
                x[i + half] = a - b;
            }
    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
}
ISA_LEVELS(static, hadamard, (float *x, size_t n, float factor), (x, n, factor))

void format_hadamard(const float *in, size_t n, float *out)
{
    ASSERT(n > 0 && (n & (n - 1)) == 0);
    if (in != out)
        memcpy(out, in, n * sizeof(*out));
    hadamard(out, n, (float)(1.0 / sqrt((double)n)));
}

/* -- packed rows and pages ------------------------------------------------------------------- */

format_page_t format_page_packed(uint32_t rows, uint32_t channels, uint32_t rope)
{
    uint32_t plain = channels - rope;
    format_page_t page = {.rows = rows, .channels = channels, .rope = rope};
    uint64_t raw;

    ASSERT(rope <= channels && plain % FORMAT_ROW_BLOCK == 0);
    page.data_bytes = plain + 2 * rope;
    page.scale_bytes = plain / FORMAT_ROW_BLOCK + 1;
    raw = (uint64_t)rows * (page.data_bytes + page.scale_bytes);
    page.page_bytes = (raw + page.data_bytes - 1) / page.data_bytes * page.data_bytes;
    return page;
}

format_page_t format_page_index_fp8(uint32_t rows, uint32_t channels)
{
    return (format_page_t){.rows = rows,
                           .channels = channels,
                           .data_bytes = channels,
                           .scale_bytes = sizeof(float),
                           .page_bytes = (uint64_t)rows * (channels + sizeof(float))};
}

format_page_t format_page_index_fp4(uint32_t rows, uint32_t channels)
{
    uint32_t scales = channels / FORMAT_INDEX_GROUP;

    ASSERT(channels % FORMAT_INDEX_GROUP == 0);
    return (format_page_t){.rows = rows,
                           .channels = channels,
                           .data_bytes = channels / 2,
                           .scale_bytes = scales,
                           .page_bytes = (uint64_t)rows * (channels / 2 + scales)};
}

void format_packed_row_encode(const float *in, uint32_t channels, uint32_t rope, void *data,
                              void *scale)
{
    uint32_t plain = channels - rope;
    uint8_t *scales = scale;

    format_fp8_blocks_encode(in, plain, FORMAT_ROW_BLOCK, data, scales);
    scales[plain / FORMAT_ROW_BLOCK] = 0;
    format_bf16_encode_row(in + plain, rope, (uint8_t *)data + plain);
}

void format_packed_row_decode(const void *data, const void *scale, uint32_t channels, uint32_t rope,
                              float *out)
{
    uint32_t plain = channels - rope;

    format_fp8_blocks_decode(data, scale, plain, FORMAT_ROW_BLOCK, out);
    format_bf16_decode_row((const uint8_t *)data + plain, rope, out + plain);
}

void format_index_fp8_encode(const float *in, uint32_t channels, void *data, void *scale)
{
    float value = format_fp8_row_encode(in, channels, data);

    memcpy(scale, &value, sizeof(value));
}

void format_index_fp8_decode(const void *data, const void *scale, uint32_t channels, float *out)
{
    float value;

    memcpy(&value, scale, sizeof(value));
    format_e4m3_decode_row(data, channels, value, out);
}

void format_index_fp4_encode(const float *in, uint32_t channels, void *data, void *scale)
{
    format_fp4_groups_encode(in, channels, data, scale);
}

void format_index_fp4_decode(const void *data, const void *scale, uint32_t channels, float *out)
{
    format_fp4_groups_decode(data, scale, channels, out);
}
