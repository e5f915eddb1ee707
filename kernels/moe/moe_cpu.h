/* moe_cpu.h - see moe.h. Compiled once per instruction set. */
#ifndef KERNELS_MOE_MOE_CPU_H
#define KERNELS_MOE_MOE_CPU_H

#include <math.h>

#include "kernels/math.h"
#include "kernels/moe/moe.h"

static void moe_route_cpu(const moe_route_t *p)
{
    for (uint32_t m = 0; m < p->rows; m++) {
        const float *restrict logits = p->logits + (size_t)m * p->experts;
        float *restrict scores = p->scores + (size_t)m * p->experts;
        for (uint32_t e = 0; e < p->experts; e++)
            scores[e] = sqrtf(math_softplus(logits[e]));
        moe_choose(p, m);
    }
}

static void swiglu_cpu(const swiglu_t *p)
{
    float limit = p->limit;

    for (uint32_t m = 0; m < p->rows; m++) {
        const float *restrict gate = p->gate + m * p->stride, *restrict up = p->up + m * p->stride;
        float *restrict z = p->z + (size_t)m * p->width;
        for (uint32_t i = 0; i < p->width; i++) {
            float g = gate[i] < limit ? gate[i] : limit, v = up[i] < limit ? up[i] : limit;
            v = v > -limit ? v : -limit;
            z[i] = g * math_sigmoid(g) * v;
        }
    }
}

static void moe_combine_cpu(const moe_combine_t *p)
{
    for (uint32_t m = 0; m < p->rows; m++) {
        const float *answer = p->answers + (size_t)m * p->chosen_count * p->channels;
        const float *shared = p->shared + (size_t)m * p->channels;
        float *restrict y = p->y + m * p->y_stride;
        for (uint32_t c = 0; c < p->channels; c++)
            y[c] = 0.0f;
        for (uint32_t i = 0; i < p->chosen_count; i++, answer += p->channels)
            for (uint32_t c = 0; c < p->channels; c++)
                y[c] = fmaf(p->weights[m * p->chosen_count + i], answer[c], y[c]);
        for (uint32_t c = 0; c < p->channels; c++)
            y[c] = y[c] + shared[c];
    }
}

#endif
