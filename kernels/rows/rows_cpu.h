/* rows_cpu.h - see rows.h. Compiled once per instruction set. */
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

#endif
