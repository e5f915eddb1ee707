/* attention_cpu.h - see attention.h. Compiled once per instruction set.
 *
 * Queries times heads are the rows of two products with the tile, so a tile is read once for all of
 * them. Rows that a query does not see take part with weight 0, which changes no bits: fma(0, v, x)
 * is x, but for the sign of a zero, and o + 0 takes that away.
 */
#ifndef KERNELS_ATTENTION_ATTENTION_CPU_H
#define KERNELS_ATTENTION_ATTENTION_CPU_H

#include <math.h>
#include <stdbool.h>

#include "kernels/attention/attention.h"
#include "kernels/gemm/gemm_cpu.h"
#include "kernels/math.h"

/* Channels [first, first + count) of the panel that begins at `row`. */
static void attention_keys_part(const attention_keys_t *p, uint32_t row, uint32_t first,
                                uint32_t count)
{
    float *panel = p->keys + (size_t)row * p->channels;

    for (uint32_t lane = 0; lane < LANES; lane++) {
        const float *source = p->values + (size_t)(row + lane) * p->channels;
        bool there = row + lane < p->rows;
        for (uint32_t c = first; c < first + count; c++)
            panel[(size_t)c * LANES + lane] = there ? source[c] : 0.0f;
    }
}

/* Squares of 16 x 16 are turned in registers. */
static void attention_keys_cpu(const attention_keys_t *p)
{
    uint32_t whole = p->channels / LANES * LANES;

    for (uint32_t row = 0; row < p->rows; row += LANES) {
        if (p->rows - row < LANES) {
            attention_keys_part(p, row, 0, p->channels);
            continue;
        }
        for (uint32_t c = 0; c < whole; c += LANES)
            lanes_turn(p->values + (size_t)row * p->channels + c, p->channels,
                       p->keys + (size_t)row * p->channels + (size_t)c * LANES);
        attention_keys_part(p, row, whole, p->channels - whole);
    }
}

/* Logits of one query and head become weights. Returns the largest visible logit; *total is the sum
 * of weights. */
static float attention_weigh(const attention_tile_t *p, float *a, uint64_t visible, float *total)
{
    const uint32_t rows = p->rows;
    const uint8_t *places = p->places;
    const float scale = p->scale;
    float placed[ATTENTION_TILE] = {0}, top;
    lanes_t best = lanes_set(-INFINITY), sum;

    if (rows == ATTENTION_TILE && visible == UINT64_MAX) {
        for (uint32_t i = 0; i < ATTENTION_TILE; i++)
            a[i] = a[i] * scale;
    } else {
        for (uint32_t i = 0; i < rows; i++)
            a[i] = visible >> places[i] & 1 ? a[i] * scale : -INFINITY;
        for (uint32_t i = rows; i < ATTENTION_TILE; i++)
            a[i] = -INFINITY;
    }
    for (int i = 0; i < ATTENTION_TILE; i += LANES)
        best = lanes_max(lanes_load(a + i), best);
    top = lanes_max_all(best);
    if (top == -INFINITY)
        return top;
    for (uint32_t i = 0; i < ATTENTION_TILE; i++)
        a[i] = math_exp(a[i] - top);
    if (rows == ATTENTION_TILE)
        memcpy(placed, a, sizeof(placed));
    else
        for (uint32_t i = 0; i < rows; i++)
            placed[places[i]] = a[i];
    sum = lanes_load(placed);
    for (int i = LANES; i < ATTENTION_TILE; i += LANES)
        sum = lanes_add(sum, lanes_load(placed + i));
    *total = lanes_sum(sum);
    return top;
}

static void attention_merge(const attention_tile_t *p, size_t at, const float *o, float top,
                            float total)
{
    const uint32_t channels = p->channels;
    float *restrict out = p->out + at * channels;
    float max = p->max[at], larger = max > top ? max : top;
    float c_old = math_exp(max - larger), c_new = math_exp(top - larger);

    if (max == -INFINITY) {
        for (uint32_t c = 0; c < channels; c++)
            out[c] = o[c] + 0.0f;
        p->sum[at] = total;
    } else {
        for (uint32_t c = 0; c < channels; c++)
            out[c] = fmaf(out[c], c_old, (o[c] + 0.0f) * c_new);
        p->sum[at] = fmaf(p->sum[at], c_old, total * c_new);
    }
    p->max[at] = larger;
}

static void attention_tile_cpu(const attention_tile_t *p)
{
    uint32_t lines = p->queries * p->heads;
    float *a = p->workspace, *o = p->workspace + (size_t)lines * ATTENTION_TILE;
    gemm_matrix_t keys = {GEMM_F32,   gemm_panels(p->rows) * GEMM_PANEL, p->channels, GEMM_BLOCK,
                          GEMM_PANEL, (size_t)p->channels * GEMM_PANEL,  p->keys,     NULL};
    gemm_matrix_t values = {GEMM_F32,    p->channels, p->rows,   GEMM_BLOCK,
                            p->channels, GEMM_PANEL,  p->values, NULL};

    /* Heads of one query are rows; where all heads take part, so are those of the next query. */
    bool dense = p->q_stride == (size_t)p->heads * p->channels;
    for (uint32_t m = 0; m < (dense ? 1 : p->queries); m++)
        gemm_cpu_f32(&(gemm_t){dense ? lines : p->heads, p->channels, ATTENTION_TILE,
                               p->q + m * p->q_stride, &keys, 0, gemm_panels(p->rows),
                               a + (size_t)m * p->heads * ATTENTION_TILE});
    /* A query that sees nothing here keeps -infinities in its line, which are not merged. */
    float tops[ATTENTION_TILE], totals[ATTENTION_TILE];
    for (uint32_t first = 0; first < lines; first += ATTENTION_TILE) {
        uint32_t count = lines - first < ATTENTION_TILE ? lines - first : ATTENTION_TILE;
        float *line = a + (size_t)first * ATTENTION_TILE;
        for (uint32_t i = 0; i < count; i++)
            tops[i] = attention_weigh(p, line + (size_t)i * ATTENTION_TILE,
                                      p->visible[(first + i) / p->heads], &totals[i]);
        gemm_cpu_f32(&(gemm_t){count, ATTENTION_TILE, p->channels, line, &values, 0,
                               gemm_panels(p->channels), o + (size_t)first * p->channels});
        for (uint32_t i = 0; i < count; i++)
            if (tops[i] > -INFINITY)
                attention_merge(p, first + i, o + (size_t)(first + i) * p->channels, tops[i],
                                totals[i]);
    }
}

static void attention_finish_cpu(const attention_finish_t *p)
{
    const uint32_t channels = p->channels;

    for (size_t at = 0; at < (size_t)p->queries * p->heads; at++) {
        float sink = p->sinks[at % p->heads], max = p->max[at], larger = max > sink ? max : sink;
        float c = math_exp(max - larger), z = fmaf(p->sum[at], c, math_exp(sink - larger));
        float *out = p->out + at * channels;

        for (uint32_t i = 0; i < channels; i++)
            out[i] = out[i] * c / z;
    }
}

#endif
