/* weight.h - a weight matrix as the checkpoint stores it: a view, its scales, and its exact values.
 *
 * Views are read-only and borrow the checkpoint's memory. data is aligned to its element size,
 * float32 scales to 4. A view of some rows or columns (a tensor-parallel share) is a view again:
 * where it does not start at the border of a scale block, row_phase and column_phase say how far
 * inside the block element (0, 0) lies.
 *
 *   form       data             scales                              value of element (r, c)
 *   F32        float            -                                   as stored
 *   BF16       bf16             -                                   as stored
 *   FP8_E8M0   e4m3             e8m0, one per 128 x 128 block (*)   e4m3 * 2^(s - 127)
 *   FP8_F32    e4m3             float, the same blocks              e4m3 * s
 *   MXFP4      e2m1, low first  e8m0, one per row and 32 columns    e2m1 * 2^(s - 127)
 *   NVFP4      e2m1, low first  e4m3, one per row and 16 columns    e2m1 * s * scale_second
 *   I64, I32   integers         -                                   weight_integer
 *
 * (*) the last blocks of a row or column may be partial
 */
#ifndef KERNELS_WEIGHT_H
#define KERNELS_WEIGHT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/status.h"

typedef enum {
    WEIGHT_NONE, /* the model has no such weight */
    WEIGHT_F32,
    WEIGHT_BF16,
    WEIGHT_FP8_E8M0,
    WEIGHT_FP8_F32,
    WEIGHT_MXFP4,
    WEIGHT_NVFP4,
    WEIGHT_I64,
    WEIGHT_I32,
    WEIGHT_FORM_COUNT
} weight_form_t;

typedef struct {
    weight_form_t form;
    uint32_t rows; /* a vector is one row */
    uint32_t columns;
    uint32_t row_phase; /* of element (0, 0) in its scale block */
    uint32_t column_phase;
    float scale_second;    /* NVFP4; 1 otherwise */
    uint64_t row_bytes;    /* from one row of data to the next */
    uint64_t scale_stride; /* bytes from one row of scales to the next */
    const void *data;
    const void *scale; /* of the block that holds element (0, 0); NULL without scales */
} weight_t;

const char *weight_form_name(weight_form_t form);
/* Rows and columns that share one scale; 0 without scales. */
uint32_t weight_block_rows(weight_form_t form);
uint32_t weight_block_columns(weight_form_t form);
/* Bytes of `columns` elements of data (fp4: columns is even) and of one scale. */
uint64_t weight_data_bytes(weight_form_t form, uint64_t columns);
uint32_t weight_scale_bytes(weight_form_t form);

/* A dense view of a whole tensor: strides from the shape. */
weight_t weight_view(weight_form_t form, uint32_t rows, uint32_t columns, const void *data,
                     const void *scale, float scale_second);
/* Views of rows [first, first + count) or columns. Columns of fp4 forms: `first` and `count` are
 * even. */
weight_t weight_rows(const weight_t *weight, uint32_t first, uint32_t count);
weight_t weight_columns(const weight_t *weight, uint32_t first, uint32_t count);

/* The exact value of one element; the meaning of everything below. Float forms only. */
double weight_value(const weight_t *weight, uint32_t row, uint32_t column);
/* Rows [first, first + count) as float32, `columns` floats each: the exact value, rounded once
 * where float32 does not hold it (NVFP4 and FP8_F32 scales that are no powers of two). */
void weight_decode(const weight_t *weight, uint32_t first, uint32_t count, float *out);
/* Entry of an integer table. */
int64_t weight_integer(const weight_t *weight, uint32_t row, uint32_t column);

/* MXFP4 to FP8 with e8m0 scales: codes [rows][columns] and scales
 * [ceil(rows/128)][ceil(columns/128)], per block 1/64 of its largest scale. *exact is false if some
 * non-zero element is not held exactly (its scale lies more than 14 binades below the largest) or a
 * scale leaves the format; the outputs are then of no use. */
void weight_mxfp4_to_fp8(const weight_t *weight, uint8_t *codes, uint8_t *scales, bool *exact);

#endif
