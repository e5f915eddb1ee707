/* moe_cpu.h - see moe.h. Compiled once per instruction set. */
#ifndef KERNELS_MOE_MOE_CPU_H
#define KERNELS_MOE_MOE_CPU_H

#include <math.h>

#include "kernels/math.h"
#include "kernels/moe/moe.h"

static void moe_route_cpu(const moe_route_t *p)
{
    const uint32_t experts = p->experts;

    for (uint32_t m = 0; m < p->rows; m++) {
        const float *logits = p->logits + (size_t)m * experts; /* may be the scores */
        float *scores = p->scores + (size_t)m * experts;
        for (uint32_t e = 0; e < experts; e++)
            scores[e] = sqrtf(math_softplus(logits[e]));
        moe_choose(p, m);
    }
}

static void swiglu_cpu(const swiglu_t *p)
{
    const uint32_t width = p->width;
    const float limit = p->limit;

    for (uint32_t m = 0; m < p->rows; m++) {
        const float *restrict gate = p->gate + m * p->stride, *restrict up = p->up + m * p->stride;
        float *restrict z = p->z + (size_t)m * width;
        for (uint32_t i = 0; i < width; i++) {
            float g = gate[i] < limit ? gate[i] : limit, v = up[i] < limit ? up[i] : limit;
            v = v > -limit ? v : -limit;
            z[i] = g * math_sigmoid(g) * v;
        }
    }
}

static void moe_combine_cpu(const moe_combine_t *p)
{
    const uint32_t channels = p->channels, count = p->chosen_count;

    for (uint32_t m = 0; m < p->rows; m++) {
        const float *answer = p->answers + (size_t)m * count * channels;
        const float *shared = p->shared + (size_t)m * channels;
        float *restrict y = p->y + m * p->y_stride;
        for (uint32_t c = 0; c < channels; c++)
            y[c] = 0.0f;
        for (uint32_t i = 0; i < count; i++, answer += channels) {
            const float weight = p->weights[m * count + i];
            for (uint32_t c = 0; c < channels; c++)
                y[c] = fmaf(weight, answer[c], y[c]);
        }
        for (uint32_t c = 0; c < channels; c++)
            y[c] = y[c] + shared[c];
    }
}

#endif
