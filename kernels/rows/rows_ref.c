/* rows_ref.c - see rows.h. */
#include "kernels/rows/rows.h"

void rows_gather_ref(const rows_gather_t *p)
{
    for (uint32_t j = 0; j < p->rows; j++)
        for (uint32_t c = 0; c < p->width; c++)
            p->y[(size_t)j * p->width + c] = p->x[(size_t)p->sources[j] * p->width + c];
}
