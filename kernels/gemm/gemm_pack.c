/* gemm_pack.c - from a stored matrix to panels of 16 outputs. */
#include <stdbool.h>
#include <string.h>

#include "kernels/format.h"
#include "kernels/gemm/gemm.h"

static const float fp8_carry = 256.0f; /* codes are read as value / 256 */

static gemm_form_t form_of(weight_form_t form)
{
    switch (form) {
    case WEIGHT_F32:
        return GEMM_F32;
    case WEIGHT_BF16:
        return GEMM_BF16;
    case WEIGHT_FP8_E8M0:
    case WEIGHT_FP8_F32:
        return GEMM_FP8;
    case WEIGHT_MXFP4:
    case WEIGHT_NVFP4:
        return GEMM_FP4;
    default:
        return GEMM_FORM_COUNT;
    }
}

static uint32_t block_of(weight_form_t form)
{
    uint32_t block = weight_block_columns(form);
    return block ? block : GEMM_BLOCK;
}

uint32_t gemm_panels(uint32_t outputs)
{
    return (outputs + GEMM_PANEL - 1) / GEMM_PANEL;
}

gemm_t gemm_groups_product(const gemm_groups_t *p, uint32_t group)
{
    uint32_t panels = gemm_panels(p->w->outputs), first = group * panels;
    uint32_t from = p->panel_first > first ? p->panel_first : first;
    uint32_t end = p->panel_first + p->panel_count < first + panels
                       ? p->panel_first + p->panel_count
                       : first + panels;
    bool by_rows = p->offsets != NULL;
    size_t row = by_rows ? p->offsets[group] : 0;

    return (gemm_t){
        .rows = by_rows ? p->offsets[group + 1] - p->offsets[group] : p->rows,
        .x_stride = p->x_stride,
        .y_stride = p->y_stride,
        .x = p->x + row * p->x_stride + (by_rows ? 0 : group * p->x_group),
        .w = &p->w[group],
        .panel_first = from - first,
        .panel_count = from < end ? end - from : 0,
        .y = p->y + row * p->y_stride + (by_rows ? 0 : group * p->y_group),
    };
}

static size_t panel_bytes(weight_form_t form, uint32_t inputs)
{
    return (size_t)weight_data_bytes(form, (uint64_t)inputs * GEMM_PANEL);
}

static size_t align(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

size_t gemm_pack_bytes(const weight_t *weight)
{
    size_t panels = gemm_panels(weight->rows), block = block_of(weight->form);
    size_t bytes = align(panels * panel_bytes(weight->form, weight->columns));

    if (weight->scale)
        bytes += panels * ((weight->columns + block - 1) / block) * GEMM_PANEL * sizeof(float);
    return align(bytes);
}

/* Element k of one row goes to lane `lane` of a panel; fp4 bytes hold two elements and stay whole.
 */
static void pack_row(const weight_t *weight, uint32_t row, uint8_t *panel, uint32_t lane)
{
    const uint8_t *source = (const uint8_t *)weight->data + row * weight->row_bytes;
    bool fp4 = form_of(weight->form) == GEMM_FP4;
    size_t count = fp4 ? weight->columns / 2 : weight->columns;
    size_t bytes = fp4 ? 1 : (size_t)weight_data_bytes(weight->form, 1);

    for (size_t k = 0; k < count; k++)
        memcpy(panel + (k * GEMM_PANEL + lane) * bytes, source + k * bytes, bytes);
}

static status_t check_codes(const weight_t *weight, uint32_t row)
{
    const uint8_t *source = (const uint8_t *)weight->data + row * weight->row_bytes;

    if (form_of(weight->form) != GEMM_FP8)
        return STATUS_OK;
    for (uint32_t k = 0; k < weight->columns; k++)
        if ((source[k] & 0x7f) == 0x7f)
            return FAIL(STATUS_BAD_FILE, "e4m3 weight at row %u, column %u is not a number", row,
                        k);
    return STATUS_OK;
}

static float scale_at(const weight_t *weight, uint32_t row, uint32_t block)
{
    uint32_t rows = weight_block_rows(weight->form);
    const uint8_t *source = (const uint8_t *)weight->scale +
                            (row + weight->row_phase) / rows * weight->scale_stride +
                            (size_t)block * weight_scale_bytes(weight->form);
    float scale;

    switch (weight->form) {
    case WEIGHT_FP8_E8M0:
        return format_e8m0_decode(*source) * fp8_carry;
    case WEIGHT_FP8_F32:
        memcpy(&scale, source, sizeof(scale));
        return scale * fp8_carry;
    case WEIGHT_MXFP4:
        return format_e8m0_decode(*source);
    default:
        return format_e4m3_decode(*source) * weight->scale_second;
    }
}

static status_t pack_scales(const weight_t *weight, float *scales, uint32_t block_count)
{
    for (uint32_t row = 0; row < weight->rows; row++) {
        float *panel = scales + (size_t)(row / GEMM_PANEL) * block_count * GEMM_PANEL;
        for (uint32_t block = 0; block < block_count; block++) {
            float scale = scale_at(weight, row, block);
            if (!(scale - scale == 0.0f))
                return FAIL(STATUS_BAD_FILE, "scale of row %u, block %u is not finite", row, block);
            panel[block * GEMM_PANEL + row % GEMM_PANEL] = scale;
        }
    }
    return STATUS_OK;
}

status_t gemm_pack(const weight_t *weight, void *memory, gemm_matrix_t *matrix)
{
    uint32_t panels = gemm_panels(weight->rows), block = block_of(weight->form);
    size_t bytes = panel_bytes(weight->form, weight->columns);

    ASSERT(form_of(weight->form) != GEMM_FORM_COUNT && weight->rows > 0 && weight->columns > 0);
    ASSERT(weight->column_phase == 0);
    memset(memory, 0, gemm_pack_bytes(weight));
    for (uint32_t row = 0; row < weight->rows; row++) {
        TRY(check_codes(weight, row));
        pack_row(weight, row, (uint8_t *)memory + row / GEMM_PANEL * bytes, row % GEMM_PANEL);
    }
    *matrix = (gemm_matrix_t){
        .form = form_of(weight->form),
        .outputs = weight->rows,
        .inputs = weight->columns,
        .block = block,
        .column_elements = GEMM_PANEL,
        .panel_elements = (size_t)weight->columns * GEMM_PANEL,
        .panels = memory,
    };
    if (weight->scale) {
        float *scales = (float *)(void *)((uint8_t *)memory + align(panels * bytes));
        TRY(pack_scales(weight, scales, (weight->columns + block - 1) / block));
        matrix->scales = scales;
    }
    return STATUS_OK;
}

float gemm_element(const gemm_matrix_t *w, uint32_t output, uint32_t k)
{
    size_t at =
        output / GEMM_PANEL * w->panel_elements + k * w->column_elements + output % GEMM_PANEL;
    size_t pair = output / GEMM_PANEL * (w->panel_elements / 2) + k / 2 * w->column_elements +
                  output % GEMM_PANEL;

    switch (w->form) {
    case GEMM_F32:
        return ((const float *)w->panels)[at];
    case GEMM_BF16:
        return format_bf16_decode(((const uint16_t *)w->panels)[at]);
    case GEMM_FP8:
        return format_e4m3_decode(((const uint8_t *)w->panels)[at]) / fp8_carry;
    default:
        return format_e2m1_decode((uint8_t)(((const uint8_t *)w->panels)[pair] >> (k % 2 * 4)));
    }
}

float gemm_scale(const gemm_matrix_t *w, uint32_t output, uint32_t block)
{
    size_t blocks = (w->inputs + w->block - 1) / w->block;

    if (!w->scales)
        return 1.0f;
    return w->scales[(output / GEMM_PANEL * blocks + block) * GEMM_PANEL + output % GEMM_PANEL];
}
