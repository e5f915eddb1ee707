/* gemm.h - y[m][n] = sum over k of x[m][k] * w[n][k]: rows times a matrix as it is stored.
 *
 * The order of the sum is the contract, the same for 1 row and for 1,000, for every form:
 *   1. a block is 128 columns (32 for MXFP4, 16 for NVFP4)
 *   2. block sum: one accumulator per output, k ascending, fused multiply-adds from zero
 *   3. total = fma(block sum, scale, total), blocks ascending, from zero; the scale is the stored
 *      format's, 1 where it has none
 * Vectors run over outputs, never over k, so bits depend on the row and the matrix alone.
 *
 * Weights are packed once, at load, for that: panels of 16 outputs, k by k (gemm_pack). Codes stay
 * as they are stored. E4m3 codes are read as value / 256 and the block scale carries the 256: both
 * are exact.
 */
#ifndef KERNELS_GEMM_GEMM_H
#define KERNELS_GEMM_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/weight.h"
#include "runtime/base/status.h"

enum {
    GEMM_PANEL = 16,  /* outputs side by side */
    GEMM_BLOCK = 128, /* columns of one block sum, where the stored format has no smaller one */
};

typedef enum { GEMM_F32, GEMM_BF16, GEMM_FP8, GEMM_FP4, GEMM_FORM_COUNT } gemm_form_t;

/* A packed matrix. Open: the attention makes such views of cached rows (F32, no scales). */
typedef struct {
    gemm_form_t form;
    uint32_t outputs;
    uint32_t inputs;
    uint32_t block;         /* columns of one block sum */
    size_t column_elements; /* from one k to the next (16 when packed) */
    size_t panel_elements;  /* from one panel to the next */
    const void *panels;     /* FP4: element (k, n) is a nibble of byte (k / 2, n), even k low */
    const float *scales;    /* [panel][block][16], or NULL: 1 */
} gemm_matrix_t;

typedef struct {
    uint32_t rows;
    size_t x_stride; /* floats */
    size_t y_stride;
    const float *x;         /* [rows, inputs] */
    const gemm_matrix_t *w; /* outputs x inputs */
    uint32_t panel_first;   /* the panels to compute: a thread's share */
    uint32_t panel_count;
    float *y; /* [rows, outputs]; only the columns of these panels are written */
} gemm_t;

/* Several products at once: group g multiplies its own rows, or its own columns, by w[g]. All
 * matrices have one form and one shape.
 *   by rows:    rows [offsets[g], offsets[g + 1]) of x become the same rows of y
 *   by columns: every row; columns from g * x_group of x become those from g * y_group of y
 * Panels count through all groups: panel n of group g is number g * gemm_panels(outputs) + n. */
typedef struct {
    uint32_t groups;
    uint32_t rows;            /* by columns: rows of every group */
    const uint32_t *offsets;  /* by rows: [groups + 1]; by columns: NULL */
    const gemm_matrix_t *w;   /* [groups] */
    size_t x_stride, x_group; /* floats */
    size_t y_stride, y_group;
    const float *x;
    uint32_t panel_first, panel_count; /* the panels to compute: a thread's share */
    float *y;
} gemm_groups_t;

uint32_t gemm_panels(uint32_t outputs);
/* Bytes that gemm_pack needs for a matrix of this form and shape; aligned to 64. */
size_t gemm_pack_bytes(const weight_t *weight);
/* Packs a float-form weight whose columns start at a block border. `memory` is aligned to 64 and
 * belongs to the caller. BAD_FILE if it holds a NaN code (e4m3, e8m0), which no checkpoint may. */
MUST_USE status_t gemm_pack(const weight_t *weight, void *memory, gemm_matrix_t *matrix);
/* Stored value of one element, e4m3 without its 1 / 256, and the scale of a block as the sum uses
 * it. */
float gemm_element(const gemm_matrix_t *w, uint32_t output, uint32_t k);
float gemm_scale(const gemm_matrix_t *w, uint32_t output, uint32_t block);

/* The product of group g within the panels of p; no panels or no rows if there is nothing to do. */
gemm_t gemm_groups_product(const gemm_groups_t *p, uint32_t group);

/* The meaning. */
void gemm_ref(const gemm_t *p);
void gemm_groups_ref(const gemm_groups_t *p);

#endif
