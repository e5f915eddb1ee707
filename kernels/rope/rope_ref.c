#include "kernels/rope/rope.h"

#include <math.h>

void rope_ref(const rope_t *p)
{
    for (uint32_t m = 0; m < p->rows; m++) {
        const float *turns = p->turns + (size_t)m * 2 * p->pairs;

        for (uint32_t h = 0; h < p->heads; h++) {
            float *x = p->x + m * p->x_stride + (size_t)(h + 1) * p->channels - 2 * p->pairs;
            for (uint32_t i = 0; i < p->pairs; i++) {
                float a = x[2 * i], b = x[2 * i + 1], c = turns[i];
                float s = p->inverse ? -turns[p->pairs + i] : turns[p->pairs + i];
                x[2 * i] = fmaf(a, c, -(b * s));
                x[2 * i + 1] = fmaf(a, s, b * c);
            }
        }
    }
}
