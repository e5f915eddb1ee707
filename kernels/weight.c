#include "kernels/weight.h"

#include <string.h>

#include "kernels/format.h"
#include "runtime/base/check.h"

typedef struct {
    const char *name;
    uint32_t bits;       /* of an element */
    uint32_t block_rows; /* that share a scale */
    uint32_t block_columns;
    uint32_t scale_bytes; /* of one scale */
} form_t;

static const form_t forms[WEIGHT_FORM_COUNT] = {
    [WEIGHT_NONE] = {"none", 0, 0, 0, 0},
    [WEIGHT_F32] = {"F32", 32, 0, 0, 0},
    [WEIGHT_BF16] = {"BF16", 16, 0, 0, 0},
    [WEIGHT_FP8_E8M0] = {"FP8 with e8m0 scales", 8, FORMAT_WEIGHT_BLOCK, FORMAT_WEIGHT_BLOCK, 1},
    [WEIGHT_FP8_F32] = {"FP8 with float32 scales", 8, FORMAT_WEIGHT_BLOCK, FORMAT_WEIGHT_BLOCK, 4},
    [WEIGHT_MXFP4] = {"MXFP4", 4, 1, 32, 1},
    [WEIGHT_NVFP4] = {"NVFP4", 4, 1, 16, 1},
    [WEIGHT_I64] = {"I64", 64, 0, 0, 0},
    [WEIGHT_I32] = {"I32", 32, 0, 0, 0},
};

static const form_t *form_of(weight_form_t form)
{
    ASSERT((unsigned)form < WEIGHT_FORM_COUNT);
    return &forms[form];
}

const char *weight_form_name(weight_form_t form)
{
    return form_of(form)->name;
}

uint32_t weight_block_rows(weight_form_t form)
{
    return form_of(form)->block_rows;
}

uint32_t weight_block_columns(weight_form_t form)
{
    return form_of(form)->block_columns;
}

uint64_t weight_data_bytes(weight_form_t form, uint64_t columns)
{
    ASSERT(columns * form_of(form)->bits % 8 == 0);
    return columns * form_of(form)->bits / 8;
}

uint32_t weight_scale_bytes(weight_form_t form)
{
    return form_of(form)->scale_bytes;
}

weight_t weight_view(weight_form_t form, uint32_t rows, uint32_t columns, const void *data,
                     const void *scale, float scale_second)
{
    const form_t *f = form_of(form);
    uint64_t blocks = f->scale_bytes ? (columns + f->block_columns - 1) / f->block_columns : 0;

    ASSERT((scale != NULL) == (f->scale_bytes > 0));
    return (weight_t){.form = form,
                      .rows = rows,
                      .columns = columns,
                      .scale_second = scale_second,
                      .row_bytes = weight_data_bytes(form, columns),
                      .scale_stride = blocks * f->scale_bytes,
                      .data = data,
                      .scale = scale};
}

weight_t weight_rows(const weight_t *weight, uint32_t first, uint32_t count)
{
    const form_t *f = form_of(weight->form);
    weight_t part = *weight;

    ASSERT(first <= weight->rows && count <= weight->rows - first);
    part.rows = count;
    part.data = (const uint8_t *)weight->data + first * weight->row_bytes;
    if (f->scale_bytes) {
        uint32_t row = weight->row_phase + first;

        part.row_phase = row % f->block_rows;
        part.scale = (const uint8_t *)weight->scale + row / f->block_rows * weight->scale_stride;
    }
    return part;
}

weight_t weight_columns(const weight_t *weight, uint32_t first, uint32_t count)
{
    const form_t *f = form_of(weight->form);
    weight_t part = *weight;

    ASSERT(first <= weight->columns && count <= weight->columns - first);
    ASSERT(f->bits != 4 || (first % 2 == 0 && count % 2 == 0));
    part.columns = count;
    part.data = (const uint8_t *)weight->data + weight_data_bytes(weight->form, first);
    if (f->scale_bytes) {
        uint32_t column = weight->column_phase + first;

        part.column_phase = column % f->block_columns;
        part.scale = (const uint8_t *)weight->scale + column / f->block_columns * f->scale_bytes;
    }
    return part;
}

static const uint8_t *scale_at(const weight_t *weight, uint32_t row, uint32_t column)
{
    const form_t *f = form_of(weight->form);

    return (const uint8_t *)weight->scale +
           (weight->row_phase + row) / f->block_rows * weight->scale_stride +
           (weight->column_phase + column) / f->block_columns * f->scale_bytes;
}

/* The scale of an element, without scale_second. */
static float scale_value(const weight_t *weight, uint32_t row, uint32_t column)
{
    const uint8_t *scale = scale_at(weight, row, column);
    float value;

    switch (weight->form) {
    case WEIGHT_FP8_E8M0:
    case WEIGHT_MXFP4:
        return format_e8m0_decode(*scale);
    case WEIGHT_NVFP4:
        return format_e4m3_decode(*scale);
    case WEIGHT_FP8_F32:
        memcpy(&value, scale, sizeof(value));
        return value;
    default:
        UNREACHABLE("a form with scales");
    }
}

double weight_value(const weight_t *weight, uint32_t row, uint32_t column)
{
    const uint8_t *data = (const uint8_t *)weight->data + row * weight->row_bytes;
    uint16_t half;
    float single;

    ASSERT(row < weight->rows && column < weight->columns);
    switch (weight->form) {
    case WEIGHT_F32:
        memcpy(&single, data + 4 * (size_t)column, sizeof(single));
        return (double)single;
    case WEIGHT_BF16:
        memcpy(&half, data + 2 * (size_t)column, sizeof(half));
        return (double)format_bf16_decode(half);
    case WEIGHT_FP8_E8M0:
    case WEIGHT_FP8_F32:
        return (double)format_e4m3_decode(data[column]) * (double)scale_value(weight, row, column);
    case WEIGHT_MXFP4:
    case WEIGHT_NVFP4:
        single = format_e2m1_decode((uint8_t)(data[column / 2] >> (column % 2 ? 4 : 0)));
        return (double)single * (double)scale_value(weight, row, column) *
               (double)weight->scale_second;
    default:
        UNREACHABLE("a form of floats");
    }
}

/* One row of a form with scales: runs of columns under the same scale. */
static void decode_scaled_row(const weight_t *weight, uint32_t row, float *out)
{
    const uint8_t *data = (const uint8_t *)weight->data + row * weight->row_bytes;
    uint32_t block = weight_block_columns(weight->form);
    uint32_t column = 0, end;

    for (; column < weight->columns; column = end) {
        float scale = scale_value(weight, row, column);

        end = column + block - (weight->column_phase + column) % block;
        end = end < weight->columns ? end : weight->columns;
        if (block == FORMAT_WEIGHT_BLOCK) {
            format_e4m3_decode_row(data + column, end - column, scale, out + column);
        } else {
            format_e2m1_decode_row(data + column / 2, end - column, scale, out + column);
            /* Exact up to here; the second scale rounds once. */
            for (uint32_t i = column; weight->scale_second != 1.0f && i < end; i++)
                out[i] *= weight->scale_second;
        }
    }
}

void weight_decode(const weight_t *weight, uint32_t first, uint32_t count, float *out)
{
    ASSERT(first <= weight->rows && count <= weight->rows - first);
    for (uint32_t row = first; row < first + count; row++, out += weight->columns) {
        const uint8_t *data = (const uint8_t *)weight->data + row * weight->row_bytes;

        if (weight->form == WEIGHT_F32)
            memcpy(out, data, weight->columns * sizeof(*out));
        else if (weight->form == WEIGHT_BF16)
            format_bf16_decode_row(data, weight->columns, out);
        else
            decode_scaled_row(weight, row, out);
    }
}

int64_t weight_integer(const weight_t *weight, uint32_t row, uint32_t column)
{
    const uint8_t *data = (const uint8_t *)weight->data + row * weight->row_bytes;
    int64_t wide;
    int32_t narrow;

    ASSERT(row < weight->rows && column < weight->columns);
    if (weight->form == WEIGHT_I64) {
        memcpy(&wide, data + 8 * (size_t)column, sizeof(wide));
        return wide;
    }
    ASSERT(weight->form == WEIGHT_I32);
    memcpy(&narrow, data + 4 * (size_t)column, sizeof(narrow));
    return narrow;
}

/* The largest scale of a 128 x 128 block, 6 binades down (6 * 64 = 384 is below 448), as an e8m0
 * code. */
static int fp8_scale_of(const weight_t *weight, uint32_t row, uint32_t column)
{
    int largest = 0;

    for (uint32_t r = row; r < weight->rows && r < row + FORMAT_WEIGHT_BLOCK; r++)
        for (uint32_t c = column; c < weight->columns && c < column + FORMAT_WEIGHT_BLOCK;
             c += 32) {
            int scale = *scale_at(weight, r, c);

            largest = scale > largest ? scale : largest;
        }
    return largest - 6;
}

void weight_mxfp4_to_fp8(const weight_t *weight, uint8_t *codes, uint8_t *scales, bool *exact)
{
    uint32_t wide = (weight->columns + FORMAT_WEIGHT_BLOCK - 1) / FORMAT_WEIGHT_BLOCK;

    ASSERT(weight->form == WEIGHT_MXFP4 && weight->column_phase == 0);
    *exact = true;
    for (uint32_t r = 0; r < weight->rows; r++)
        for (uint32_t c = 0; c < weight->columns; c++) {
            uint8_t *scale =
                &scales[(size_t)(r / FORMAT_WEIGHT_BLOCK) * wide + c / FORMAT_WEIGHT_BLOCK];
            const uint8_t *data = (const uint8_t *)weight->data + r * weight->row_bytes;
            float value = format_e2m1_decode((uint8_t)(data[c / 2] >> (c % 2 ? 4 : 0))), moved;
            int code, shift;

            if (r % FORMAT_WEIGHT_BLOCK == 0 && c % FORMAT_WEIGHT_BLOCK == 0) {
                code = fp8_scale_of(weight, r, c);
                *exact =
                    *exact && code >= 0 && code < 249; /* 255 is NaN, of which 249 would come */
                *scale = (uint8_t)(code < 0 ? 0 : code);
            }
            shift = *scale_at(weight, r, c) - *scale;
            moved = value * format_e8m0_decode((uint8_t)(shift < -127 ? 0 : 127 + shift));
            codes[(size_t)r * weight->columns + c] = format_e4m3_encode(moved);
            *exact = *exact && format_e4m3_decode(codes[(size_t)r * weight->columns + c]) == moved;
        }
}
