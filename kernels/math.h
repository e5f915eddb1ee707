/* math.h - exp, log and what follows from them, with the same bits on every machine.
 *
 * Our own polynomials in float32: only + - * / and fused multiply-adds, no tables, no branches, no
 * libm. Loops over them become vectors of any width without changing a bit. Errors are within 2
 * units in the last place where it is not said.
 */
#ifndef KERNELS_MATH_H
#define KERNELS_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__) /* -fmad=false: what is written is what is computed, there as here */
#define MATH_INLINE static __device__ __forceinline__
#else
#define MATH_INLINE static inline __attribute__((always_inline, unused))
#endif

MATH_INLINE float math_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

MATH_INLINE uint32_t math_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* 0 below -87.33 (no subnormal results), infinity above 88.37; NaN stays NaN. exp(0) is 1. */
MATH_INLINE float math_exp(float x)
{
    const float magic =
        12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number in the low bits */
    float shifted = fmaf(x, 1.44269504088896341f, magic), n = shifted - magic;
    float r = fmaf(n, 2.12194440e-4f, fmaf(n, -0.693359375f, x)), p = 1.9875691500e-4f, y;

    p = fmaf(p, r, 1.3981999507e-3f);
    p = fmaf(p, r, 8.3334519073e-3f);
    p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f);
    p = fmaf(p, r, 5.0000001201e-1f);
    p = fmaf(p, r * r, r) + 1.0f;
    y = p * math_of_bits((math_bits(shifted) << 23) + 0x3f800000u);
    y = x < -87.33f ? 0.0f : y;
    return x > 88.37f ? INFINITY : y;
}

/* x > 0 and finite: log x; 0: -infinity; negative: NaN; infinity: infinity. */
MATH_INLINE float math_log(float x)
{
    float tiny = x < 0x1p-126f ? 1.0f : 0.0f, normal = x < 0x1p-126f ? x * 0x1p23f : x;
    uint32_t offset = math_bits(normal) - 0x3f3504f3u; /* of sqrt(1/2) */
    float e = (float)((int32_t)offset >> 23) - 23.0f * tiny;
    float f = math_of_bits((offset & 0x007fffffu) + 0x3f3504f3u) - 1.0f, square = f * f,
          p = 7.0376836292e-2f, y;

    p = fmaf(p, f, -1.1514610310e-1f);
    p = fmaf(p, f, 1.1676998740e-1f);
    p = fmaf(p, f, -1.2420140846e-1f);
    p = fmaf(p, f, 1.4249322787e-1f);
    p = fmaf(p, f, -1.6668057665e-1f);
    p = fmaf(p, f, 2.0000714765e-1f);
    p = fmaf(p, f, -2.4999993993e-1f);
    p = fmaf(p, f, 3.3333331174e-1f);
    y = fmaf(p, f * square, e * -2.12194440e-4f);
    y = fmaf(square, -0.5f, y) + f;
    y = fmaf(e, 0.693359375f, y);
    y = x == 0.0f ? -INFINITY : y;
    y = x < 0.0f || x != x ? NAN : y;
    return x == INFINITY ? INFINITY : y;
}

/* log(1 + x) for x >= 0, also where 1 + x rounds to 1. */
MATH_INLINE float math_log1p(float x)
{
    float y = 1.0f + x, kept = y - 1.0f;
    return kept == 0.0f ? x : math_log(y) * (x / kept);
}

MATH_INLINE float math_sigmoid(float x)
{
    float e = math_exp(x < 0.0f ? x : -x);
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* log(1 + e^x) */
MATH_INLINE float math_softplus(float x)
{
    return (x > 0.0f ? x : 0.0f) + math_log1p(math_exp(x > 0.0f ? -x : x));
}

#endif
