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

/* Counts, then places: two passes over the choices. */
static void moe_sort_cpu(const moe_sort_t *p)
{
    const uint32_t k = p->chosen_count, experts = p->experts, count = p->rows * k;
    uint32_t place = 0;

    for (uint32_t e = 0; e <= experts; e++)
        p->offsets[e] = 0;
    for (uint32_t i = 0; i < count; i++)
        p->offsets[p->chosen[i]]++;
    for (uint32_t e = 0; e < experts; e++) {
        uint32_t own = p->offsets[e];
        p->offsets[e] = place;
        place += own;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = p->offsets[p->chosen[i]]++;
        p->sources[at] = i / k;
        p->places[i] = at;
    }
    for (uint32_t e = experts; e > 0; e--) /* every offset has become its successor's */
        p->offsets[e] = p->offsets[e - 1];
    p->offsets[0] = 0;
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
        const float *shared = p->shared + (size_t)m * channels;
        float *restrict y = p->y + m * p->y_stride;
        for (uint32_t c = 0; c < channels; c++)
            y[c] = 0.0f;
        for (uint32_t i = 0; i < count; i++) {
            const float weight = p->weights[m * count + i];
            const float *answer = p->answers + (size_t)p->places[m * count + i] * channels;
            for (uint32_t c = 0; c < channels; c++)
                y[c] = fmaf(weight, answer[c], y[c]);
        }
        for (uint32_t c = 0; c < channels; c++)
            y[c] = y[c] + shared[c];
    }
}

#endif
