#include "kernels/norm/rmsnorm.h"

#include <math.h>

enum { WAYS = 16 };

float rmsnorm_factor_ref(const float *x, uint32_t count, float eps)
{
    float sums[WAYS] = {0};

    /* 1. sixteen sums of squares */
    for (uint32_t i = 0; i < count; i++)
        sums[i % WAYS] = fmaf(x[i], x[i], sums[i % WAYS]);
    /* 2. the tree */
    for (int half = WAYS / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            sums[i] = sums[i] + sums[i + half];
    return 1.0f / sqrtf(sums[0] / (float)count + eps);
}

void rmsnorm_ref(const rmsnorm_t *p)
{
    for (uint32_t m = 0; m < p->rows; m++) {
        const float *x = p->x + m * p->x_stride;
        float *y = p->y + m * p->y_stride, factor = rmsnorm_factor_ref(x, p->count, p->eps);

        /* 3. scale */
        for (uint32_t i = 0; i < p->count; i++)
            y[i] = p->weight ? x[i] * factor * p->weight[i] : x[i] * factor;
    }
}
