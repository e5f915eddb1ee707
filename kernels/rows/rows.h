/* rows.h - rows in another order.
 *
 *   gather: y[j] = x[sources[j]]
 * A row may be named any number of times.
 */
#ifndef KERNELS_ROWS_ROWS_H
#define KERNELS_ROWS_ROWS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t rows;           /* of y */
    uint32_t width;          /* floats */
    const float *x;          /* [rows there are, width] */
    const uint32_t *sources; /* [rows] */
    float *y;                /* [rows, width]; not x */
} rows_gather_t;

void rows_gather_ref(const rows_gather_t *p);

#endif
