/* rope_cpu.h - see rope.h. Compiled once per instruction set; the compiler turns the pair loop into
 * vectors. */
#ifndef KERNELS_ROPE_ROPE_CPU_H
#define KERNELS_ROPE_ROPE_CPU_H

#include <math.h>

#include "kernels/rope/rope.h"

static void rope_cpu(const rope_t *p)
{
    const uint32_t pairs = p->pairs, heads = p->heads, channels = p->channels;
    const float sign = p->inverse ? -1.0f : 1.0f;

    for (uint32_t m = 0; m < p->rows; m++) {
        const float *cosine = p->turns + (size_t)m * 2 * pairs, *sine = cosine + pairs;
        float *x = p->x + m * p->x_stride + channels - 2 * pairs;

        for (uint32_t h = 0; h < heads; h++, x += channels) {
            for (uint32_t i = 0; i < pairs; i++) {
                float a = x[2 * i], b = x[2 * i + 1], c = cosine[i], s = sign * sine[i];
                x[2 * i] = fmaf(a, c, -(b * s));
                x[2 * i + 1] = fmaf(a, s, b * c);
            }
        }
    }
}

#endif
