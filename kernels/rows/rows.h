/* rows.h - rows in other places and forms.
 *
 *   gather: y[j] = x[sources[j]]; a row may be named any number of times
 *   embed:  y[m] = row tokens[m] of a stored table, `copies` times side by side
 *   store:  row j of x goes into place j, in the form of a cache (row_form.h); turned first where
 *           the form is one of index keys
 *   round:  rows become what that form keeps of them, in place: index queries
 *   scale:  x = x * factor
 */
#ifndef KERNELS_ROWS_ROWS_H
#define KERNELS_ROWS_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/row_form.h"
#include "kernels/weight.h"

/* Rows of cached units. Pools, rings and a step's own rows all have this form. */
typedef struct {
    uint8_t *data;
    uint8_t *scales;
    size_t unit_stride; /* bytes from one unit to the next, of data and of scales */
    size_t row_stride;
    size_t scale_stride;
} rows_view_t;

typedef struct {
    uint32_t unit;
    uint32_t row;
} rows_place_t;

static inline uint8_t *rows_data(const rows_view_t *view, uint32_t unit, uint32_t row)
{
    return view->data + unit * view->unit_stride + row * view->row_stride;
}

static inline uint8_t *rows_scale(const rows_view_t *view, uint32_t unit, uint32_t row)
{
    return view->scales + unit * view->unit_stride + row * view->scale_stride;
}

typedef struct {
    uint32_t rows;           /* of y */
    uint32_t width;          /* floats */
    const float *x;          /* [rows there are, width] */
    const uint32_t *sources; /* [rows] */
    float *y;                /* [rows, width]; not x */
} rows_gather_t;

typedef struct {
    uint32_t rows;
    uint32_t copies;
    const weight_t *table;  /* as stored: [tokens there are, width] */
    const uint32_t *tokens; /* [rows] */
    float *y;               /* [rows, copies, width] */
} rows_embed_t;

typedef struct {
    uint32_t rows;
    row_form_t form;
    const float *x;             /* [rows, form.channels] */
    const rows_place_t *places; /* [rows]; NULL: row j of unit 0 */
    uint32_t first;             /* of the rows without places: a thread's share */
    rows_view_t view;
} rows_store_t;

typedef struct {
    uint32_t rows;
    row_form_t form;
    float *x; /* [rows, form.channels] */
} rows_round_t;

typedef struct {
    size_t count; /* floats */
    float factor;
    float *x;
} rows_scale_t;

void rows_gather_ref(const rows_gather_t *p);
void rows_embed_ref(const rows_embed_t *p);
void rows_store_ref(const rows_store_t *p);
void rows_round_ref(const rows_round_t *p);
void rows_scale_ref(const rows_scale_t *p);

#endif
