/* rmsnorm_cpu.h - see rmsnorm.h. Compiled once per instruction set. */
#ifndef KERNELS_NORM_RMSNORM_CPU_H
#define KERNELS_NORM_RMSNORM_CPU_H

#include "kernels/lanes/lanes.h"
#include "kernels/norm/rmsnorm.h"

LANES_INLINE float rmsnorm_factor(const float *x, uint32_t count, float eps)
{
    return 1.0f / sqrtf(lanes_dot(x, x, count) / (float)count + eps);
}

static void rmsnorm_cpu(const rmsnorm_t *p)
{
    const uint32_t count = p->count;

    for (uint32_t m = 0; m < p->rows; m++) {
        const float *x = p->x + m * p->x_stride, *w = p->weight;
        float *y = p->y + m * p->y_stride, factor = rmsnorm_factor(x, count, p->eps);

        if (w)
            for (uint32_t i = 0; i < count; i++)
                y[i] = x[i] * factor * w[i];
        else
            for (uint32_t i = 0; i < count; i++)
                y[i] = x[i] * factor;
    }
}

#endif
