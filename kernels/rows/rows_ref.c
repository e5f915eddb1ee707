/* rows_ref.c - see rows.h. */
#include "kernels/rows/rows.h"

#include <string.h>

#include "kernels/format.h"
#include "runtime/base/check.h"
#include "runtime/base/limits.h"

void rows_gather_ref(const rows_gather_t *p)
{
    for (uint32_t j = 0; j < p->rows; j++)
        for (uint32_t c = 0; c < p->width; c++)
            p->y[(size_t)j * p->width + c] = p->x[(size_t)p->sources[j] * p->width + c];
}

void rows_embed_ref(const rows_embed_t *p)
{
    uint32_t width = p->table->columns;

    for (uint32_t m = 0; m < p->rows; m++)
        for (uint32_t i = 0; i < p->copies; i++)
            weight_decode(p->table, p->tokens[m], 1, p->y + ((size_t)m * p->copies + i) * width);
}

void rows_store_ref(const rows_store_t *p)
{
    float row[HEAD_DIM_MAX];

    ASSERT(p->form.channels <= HEAD_DIM_MAX);
    for (uint32_t j = 0; j < p->rows; j++) {
        rows_place_t place = p->places ? p->places[j] : (rows_place_t){0, p->first + j};
        memcpy(row, p->x + (size_t)j * p->form.channels, p->form.channels * sizeof(float));
        if (row_form_rotates(p->form.form))
            format_hadamard(row, p->form.channels, row);
        row_encode(&p->form, row, rows_data(&p->view, place.unit, place.row),
                   rows_scale(&p->view, place.unit, place.row));
    }
}

void rows_round_ref(const rows_round_t *p)
{
    for (uint32_t j = 0; j < p->rows; j++)
        row_round_query(&p->form, p->x + (size_t)j * p->form.channels);
}

void rows_scale_ref(const rows_scale_t *p)
{
    for (size_t i = 0; i < p->count; i++)
        p->x[i] = p->x[i] * p->factor;
}
