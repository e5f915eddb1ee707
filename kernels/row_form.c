/* row_form.c - see row_form.h. */
#include "kernels/row_form.h"

#include <string.h>

#include "kernels/format.h"
#include "runtime/base/check.h"
#include "runtime/base/limits.h"

bool row_form_rotates(geometry_form_t form)
{
    return form == FORM_FP8_ROW || form == FORM_FP4_BLOCKS;
}

void row_encode(const row_form_t *form, const float *in, void *data, void *scale)
{
    switch (form->form) {
    case FORM_FLOAT32:
        memcpy(data, in, form->channels * sizeof(float));
        return;
    case FORM_BF16:
        format_bf16_encode_row(in, form->channels, data);
        return;
    case FORM_FP8_BLOCKS:
        format_packed_row_encode(in, form->channels, form->rope, data, scale);
        return;
    case FORM_FP8_ROW:
        format_index_fp8_encode(in, form->channels, data, scale);
        return;
    default:
        ASSERT(form->form == FORM_FP4_BLOCKS);
        format_index_fp4_encode(in, form->channels, data, scale);
    }
}

void row_decode(const row_form_t *form, const void *data, const void *scale, float *out)
{
    switch (form->form) {
    case FORM_FLOAT32:
        memcpy(out, data, form->channels * sizeof(float));
        return;
    case FORM_BF16:
        format_bf16_decode_row(data, form->channels, out);
        return;
    case FORM_FP8_BLOCKS:
        format_packed_row_decode(data, scale, form->channels, form->rope, out);
        return;
    case FORM_FP8_ROW:
        format_index_fp8_decode(data, scale, form->channels, out);
        return;
    default:
        ASSERT(form->form == FORM_FP4_BLOCKS);
        format_index_fp4_decode(data, scale, form->channels, out);
    }
}

void row_round_query(const row_form_t *form, float *query)
{
    uint8_t data[HEAD_DIM_MAX], scale[HEAD_DIM_MAX / FORMAT_INDEX_GROUP];

    if (!row_form_rotates(form->form))
        return;
    format_hadamard(query, form->channels, query);
    row_encode(form, query, data, scale);
    row_decode(form, data, scale, query);
}
