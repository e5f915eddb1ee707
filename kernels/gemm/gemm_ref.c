#include <math.h>

#include "kernels/gemm/gemm.h"

static void gemm_ref_one(const gemm_t *p, uint32_t m, uint32_t n)
{
    const gemm_matrix_t *w = p->w;
    const float *x = p->x + m * p->x_stride;
    float total = 0.0f;

    /* 1. each block of columns, ascending */
    for (uint32_t first = 0; first < w->inputs; first += w->block) {
        uint32_t end = first + w->block < w->inputs ? first + w->block : w->inputs;
        float sum = 0.0f;

        /* 2. one accumulator, k ascending */
        for (uint32_t k = first; k < end; k++)
            sum = fmaf(x[k], gemm_element(w, n, k), sum);
        /* 3. scaled and added */
        total = fmaf(sum, gemm_scale(w, n, first / w->block), total);
    }
    p->y[m * p->y_stride + n] = total;
}

void gemm_ref(const gemm_t *p)
{
    uint32_t end = (p->panel_first + p->panel_count) * GEMM_PANEL;

    if (end > p->w->outputs)
        end = p->w->outputs;
    for (uint32_t m = 0; m < p->rows; m++)
        for (uint32_t n = p->panel_first * GEMM_PANEL; n < end; n++)
            gemm_ref_one(p, m, n);
}

void gemm_groups_ref(const gemm_groups_t *p)
{
    for (uint32_t g = 0; g < p->groups; g++) {
        gemm_t product = gemm_groups_product(p, g);
        gemm_ref(&product);
    }
}
