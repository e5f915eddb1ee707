/* lanes.h - sixteen float lanes, the one vector type of the CPU operators.
 *
 * Included by the bodies (<operator>_cpu.h) of one instruction set at a time:
 * kernels/isa/{portable,avx2,avx512}.c define LANES_PORTABLE, LANES_AVX2 or LANES_AVX512. Every
 * function gives the same bits in all three: one IEEE operation per lane, multiply-add always
 * fused, reductions by one fixed tree (distance 8, 4, 2, 1).
 */
#ifndef KERNELS_LANES_LANES_H
#define KERNELS_LANES_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(LANES_AVX512) || defined(LANES_AVX2)
#include <immintrin.h>
#endif

enum { LANES = 16 };

#define LANES_INLINE static inline __attribute__((always_inline, unused))

#if defined(LANES_AVX512)
#include "kernels/lanes/lanes_avx512.h"
#elif defined(LANES_AVX2)
#include "kernels/lanes/lanes_avx2.h"
#else
#include "kernels/lanes/lanes_portable.h"
#endif

/* The first `count` floats of `source`, the other lanes 0. */
LANES_INLINE lanes_t lanes_load_part(const float *source, size_t count)
{
    float all[LANES] = {0};

    if (count == LANES) /* usually known where this is inlined */
        return lanes_load(source);
    memcpy(all, source, count * sizeof(float));
    return lanes_load(all);
}

LANES_INLINE void lanes_store_part(float *target, lanes_t x, size_t count)
{
    float all[LANES];

    if (count == LANES) {
        lanes_store(target, x);
        return;
    }
    lanes_store(all, x);
    memcpy(target, all, count * sizeof(float));
}

/* sum over k of a[k] * b[k], 16-way: lane k mod 16, ascending, then the tree. */
LANES_INLINE float lanes_dot(const float *a, const float *b, size_t count)
{
    lanes_t sum = lanes_zero();
    size_t k = 0;
    for (; k + LANES <= count; k += LANES)
        sum = lanes_fma(lanes_load(a + k), lanes_load(b + k), sum);
    if (k < count)
        sum = lanes_fma(lanes_load_part(a + k, count - k), lanes_load_part(b + k, count - k), sum);
    return lanes_sum(sum);
}

#endif
