/* rows_cpu.h - see rows.h. Compiled once per instruction set; formats choose theirs by themselves. */
#ifndef KERNELS_ROWS_ROWS_CPU_H
#define KERNELS_ROWS_ROWS_CPU_H

#include <string.h>

#include "kernels/rows/rows.h"

static void rows_gather_cpu(const rows_gather_t *p)
{
    for (uint32_t j = 0; j < p->rows; j++)
        memcpy(p->y + (size_t)j * p->width, p->x + (size_t)p->sources[j] * p->width,
               p->width * sizeof(float));
}

static void rows_embed_cpu(const rows_embed_t *p)
{
    const size_t width = p->table->columns;

    for (uint32_t m = 0; m < p->rows; m++) {
        float *y = p->y + m * p->copies * width;
        weight_decode(p->table, p->tokens[m], 1, y);
        for (uint32_t i = 1; i < p->copies; i++)
            memcpy(y + i * width, y, width * sizeof(float));
    }
}

static void rows_store_cpu(const rows_store_t *p)
{
    rows_store_ref(p);
}

static void rows_round_cpu(const rows_round_t *p)
{
    rows_round_ref(p);
}

static void rows_scale_cpu(const rows_scale_t *p)
{
    for (size_t i = 0; i < p->count; i++)
        p->x[i] = p->x[i] * p->factor;
}

#endif
