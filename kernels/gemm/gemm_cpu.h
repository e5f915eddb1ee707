/* gemm_cpu.h - the product on a CPU: tiles of rows x panels in registers. Compiled once per
 * instruction set.
 *
 * The loops are the reference's; a tile only runs several (row, panel) pairs side by side. Between
 * blocks the totals rest in y itself, so only one block's accumulators need registers: up to 24 of
 * 16 lanes.
 */
#ifndef KERNELS_GEMM_GEMM_CPU_H
#define KERNELS_GEMM_GEMM_CPU_H

#include "kernels/gemm/gemm.h"
#include "kernels/lanes/lanes.h"

/* Rows and panels of the largest tile of each shape; accumulators = rows * panels. */
#if defined(LANES_AVX512)
enum { GEMM_ROWS_MAX = 8, GEMM_WIDE = 3, GEMM_LONE = 8 };
#else
enum { GEMM_ROWS_MAX = 6, GEMM_WIDE = 1, GEMM_LONE = 4 };
#endif

typedef struct {
    const float *x;
    size_t x_stride;
    const gemm_matrix_t *w;
    uint32_t panel;
    float *y;
    size_t y_stride;
} gemm_tile_t;

LANES_INLINE lanes_t gemm_load(gemm_form_t form, const void *panels, size_t at)
{
    if (form == GEMM_F32)
        return lanes_load((const float *)panels + at);
    if (form == GEMM_BF16)
        return lanes_load_bf16((const uint16_t *)panels + at);
    return lanes_load_fp8((const uint8_t *)panels + at);
}

/* Block sums of columns [k, end) for rows x panels. */
LANES_INLINE void gemm_block(const gemm_tile_t *t, gemm_form_t form, int rows, int panels, size_t k,
                             size_t end, lanes_t sums[GEMM_ROWS_MAX][GEMM_LONE])
{
    size_t base[GEMM_LONE], step = t->w->column_elements;

#pragma GCC unroll 8
    for (int p = 0; p < panels; p++)
        base[p] = (t->panel + (size_t)p) * t->w->panel_elements;
    if (form == GEMM_FP4) {
        const uint8_t *codes = t->w->panels;
        for (; k < end; k += 2) {
            lanes_t low[GEMM_LONE], high[GEMM_LONE];
#pragma GCC unroll 8
            for (int p = 0; p < panels; p++)
                lanes_load_fp4(codes + (base[p] + k * step) / 2, &low[p], &high[p]);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                const float *x = t->x + (size_t)r * t->x_stride + k;
                lanes_t x0 = lanes_set(x[0]), x1 = lanes_set(x[1]);
#pragma GCC unroll 8
                for (int p = 0; p < panels; p++)
                    sums[r][p] = lanes_fma(x1, high[p], lanes_fma(x0, low[p], sums[r][p]));
            }
        }
        return;
    }
    for (; k < end; k++) {
        lanes_t w[GEMM_LONE];
#pragma GCC unroll 8
        for (int p = 0; p < panels; p++)
            w[p] = gemm_load(form, t->w->panels, base[p] + k * step);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            lanes_t x = lanes_set(t->x[(size_t)r * t->x_stride + k]);
#pragma GCC unroll 8
            for (int p = 0; p < panels; p++)
                sums[r][p] = lanes_fma(x, w[p], sums[r][p]);
        }
    }
}

/* One tile; rows, panels and form are constants where this is inlined. */
LANES_INLINE void gemm_tile(const gemm_tile_t *t, gemm_form_t form, int rows, int panels)
{
    const gemm_matrix_t *w = t->w;
    size_t blocks = (w->inputs + w->block - 1) / w->block;

    for (size_t block = 0; block < blocks; block++) {
        size_t first = block * w->block,
               end = first + w->block < w->inputs ? first + w->block : w->inputs;
        lanes_t sums[GEMM_ROWS_MAX][GEMM_LONE];
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
            for (int p = 0; p < panels; p++)
                sums[r][p] = lanes_zero();
        gemm_block(t, form, rows, panels, first, end, sums);
#pragma GCC unroll 8
        for (int p = 0; p < panels; p++) {
            size_t panel = t->panel + (size_t)p;
            lanes_t scale = w->scales
                                ? lanes_load(w->scales + (panel * blocks + block) * GEMM_PANEL)
                                : lanes_set(1.0f);
#pragma GCC unroll 8
            for (int r = 0; r < rows; r++) {
                float *y = t->y + (size_t)r * t->y_stride + (size_t)p * GEMM_PANEL;
                lanes_store(y, lanes_fma(sums[r][p], scale, block ? lanes_load(y) : lanes_zero()));
            }
        }
    }
}

/* All rows of one group of panels, in tiles of at most GEMM_ROWS_MAX rows. */
LANES_INLINE void gemm_group(gemm_tile_t t, gemm_form_t form, uint32_t rows, int panels)
{
    for (; rows >= GEMM_ROWS_MAX; rows -= GEMM_ROWS_MAX) {
        gemm_tile(&t, form, GEMM_ROWS_MAX, panels);
        t.x += GEMM_ROWS_MAX * t.x_stride;
        t.y += GEMM_ROWS_MAX * t.y_stride;
    }
    for (; rows >= 2; rows -= 2) {
        gemm_tile(&t, form, 2, panels);
        t.x += 2 * t.x_stride;
        t.y += 2 * t.y_stride;
    }
    if (rows)
        gemm_tile(&t, form, 1, panels);
}

/* The last panel may be cut: its columns go through a buffer of whole panels. */
LANES_INLINE void gemm_cut(const gemm_t *p, gemm_form_t form, uint32_t panel)
{
    float y[GEMM_ROWS_MAX * GEMM_PANEL];
    uint32_t n = panel * GEMM_PANEL, rows;

    for (uint32_t m = 0; m < p->rows; m += rows) {
        gemm_tile_t t = {p->x + m * p->x_stride, p->x_stride, p->w, panel, y, GEMM_PANEL};
        rows = p->rows - m < GEMM_ROWS_MAX ? p->rows - m : GEMM_ROWS_MAX;
        gemm_group(t, form, rows, 1);
        for (uint32_t r = 0; r < rows; r++)
            memcpy(p->y + (m + r) * p->y_stride + n, y + r * GEMM_PANEL,
                   (p->w->outputs - n) * sizeof(float));
    }
}

LANES_INLINE void gemm_form(const gemm_t *p, gemm_form_t form)
{
    uint32_t panel = p->panel_first, end = p->panel_first + p->panel_count;
    uint32_t whole = p->w->outputs / GEMM_PANEL < end ? p->w->outputs / GEMM_PANEL : end;
    gemm_tile_t t = {p->x, p->x_stride, p->w, 0, NULL, p->y_stride};

    while (panel < whole) {
        t.panel = panel;
        t.y = p->y + (size_t)panel * GEMM_PANEL;
        if (p->rows == 1 && whole - panel >= GEMM_LONE) {
            gemm_tile(&t, form, 1, GEMM_LONE);
            panel += GEMM_LONE;
        } else if (whole - panel >= GEMM_WIDE) {
            gemm_group(t, form, p->rows, GEMM_WIDE);
            panel += GEMM_WIDE;
        } else {
            gemm_group(t, form, p->rows, 1);
            panel++;
        }
    }
    if (panel < end)
        gemm_cut(p, form, panel);
}

static void gemm_cpu_f32(const gemm_t *p)
{
    gemm_form(p, GEMM_F32);
}
static void gemm_cpu_bf16(const gemm_t *p)
{
    gemm_form(p, GEMM_BF16);
}
static void gemm_cpu_fp8(const gemm_t *p)
{
    gemm_form(p, GEMM_FP8);
}
static void gemm_cpu_fp4(const gemm_t *p)
{
    gemm_form(p, GEMM_FP4);
}

static void gemm_cpu(const gemm_t *p)
{
    static void (*const forms[GEMM_FORM_COUNT])(const gemm_t *) = {
        [GEMM_F32] = gemm_cpu_f32,
        [GEMM_BF16] = gemm_cpu_bf16,
        [GEMM_FP8] = gemm_cpu_fp8,
        [GEMM_FP4] = gemm_cpu_fp4,
    };
    forms[p->w->form](p);
}

static void gemm_groups_cpu(const gemm_groups_t *p)
{
    for (uint32_t g = 0; g < p->groups; g++) {
        gemm_t product = gemm_groups_product(p, g);
        if (product.rows && product.panel_count)
            gemm_cpu(&product);
    }
}

#endif
