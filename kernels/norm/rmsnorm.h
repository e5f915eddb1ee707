/* rmsnorm.h - y[m][i] = x[m][i] / sqrt(mean of x[m]^2 + eps) * w[i].
 *
 * The sum of squares is 16-way: lane i mod 16 takes its elements ascending by fused multiply-add,
 * then lanes meet at distance 8, 4, 2, 1. Then r = 1 / sqrt(sum / n + eps), each a single float32
 * operation, and y = (x * r) * w.
 */
#ifndef KERNELS_NORM_RMSNORM_H
#define KERNELS_NORM_RMSNORM_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t rows;
    uint32_t count; /* elements of a row */
    size_t x_stride;
    size_t y_stride;
    const float *x;
    const float *weight; /* [count], or NULL: 1 */
    float eps;
    float *y; /* may be x */
} rmsnorm_t;

void rmsnorm_ref(const rmsnorm_t *p);
/* 1 / sqrt(mean + eps) of one row; the hyper-connections use it as well. */
float rmsnorm_factor_ref(const float *x, uint32_t count, float eps);

#endif
