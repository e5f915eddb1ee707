#include "kernels/attention/attention.h"

#include <math.h>
#include <string.h>

#include "kernels/gemm/gemm.h"
#include "kernels/math.h"

enum { WAYS = 16 };

size_t attention_workspace(uint32_t queries, uint32_t heads, uint32_t channels)
{
    return (size_t)queries * heads * (ATTENTION_TILE + channels);
}

void attention_keys_ref(const attention_keys_t *p)
{
    for (uint32_t row = 0; row < gemm_panels(p->rows) * GEMM_PANEL; row++) {
        float *panel = p->keys + (size_t)(row / GEMM_PANEL) * p->channels * GEMM_PANEL;
        for (uint32_t c = 0; c < p->channels; c++)
            panel[(size_t)c * GEMM_PANEL + row % GEMM_PANEL] =
                row < p->rows ? p->values[(size_t)row * p->channels + c] : 0.0f;
    }
}

/* A product in the order of gemm.h: blocks of 128, each from zero, added up. */
static float dot_ref(const float *a, const float *b, size_t b_stride, uint32_t count)
{
    float total = 0.0f;

    for (uint32_t first = 0; first < count; first += GEMM_BLOCK) {
        float sum = 0.0f;
        for (uint32_t k = first; k < count && k < first + GEMM_BLOCK; k++)
            sum = fmaf(a[k], b[k * b_stride], sum);
        total = fmaf(sum, 1.0f, total);
    }
    return total;
}

static void attention_ref_head(const attention_tile_t *p, uint32_t m, uint32_t h)
{
    const float *q = p->q + m * p->q_stride + (size_t)h * p->channels;
    size_t at = (size_t)m * p->heads + h;
    float *out = p->out + at * p->channels, *max = p->max + at, *sum = p->sum + at;
    float a[ATTENTION_TILE], weight[ATTENTION_TILE] = {0}, ways[WAYS] = {0}, top = -INFINITY;

    /* 1. logits of the visible rows, and the largest */
    for (uint32_t i = 0; i < p->rows; i++) {
        a[i] = dot_ref(q, p->values + (size_t)i * p->channels, 1, p->channels) * p->scale;
        if (p->visible[m] >> p->places[i] & 1)
            top = a[i] > top ? a[i] : top;
    }
    if (top == -INFINITY)
        return;
    /* 2. weights, and their sum by place */
    for (uint32_t i = 0; i < p->rows; i++) {
        weight[i] = p->visible[m] >> p->places[i] & 1 ? math_exp(a[i] - top) : 0.0f;
        ways[p->places[i] % WAYS] = ways[p->places[i] % WAYS] + weight[i];
    }
    for (int half = WAYS / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            ways[i] = ways[i] + ways[i + half];
    /* 3. merge */
    float larger = *max > top ? *max : top;
    float c_old = math_exp(*max - larger), c_new = math_exp(top - larger);
    for (uint32_t c = 0; c < p->channels; c++) {
        float o = dot_ref(weight, p->values + c, p->channels, p->rows) + 0.0f;
        out[c] = *max == -INFINITY ? o : fmaf(out[c], c_old, o * c_new);
    }
    *sum = *max == -INFINITY ? ways[0] : fmaf(*sum, c_old, ways[0] * c_new);
    *max = larger;
}

void attention_tile_ref(const attention_tile_t *p)
{
    for (uint32_t m = 0; m < p->queries; m++)
        for (uint32_t h = 0; h < p->heads; h++)
            attention_ref_head(p, m, h);
}

void attention_finish_ref(const attention_finish_t *p)
{
    for (size_t at = 0; at < (size_t)p->queries * p->heads; at++) {
        float sink = p->sinks[at % p->heads], max = p->max[at], larger = max > sink ? max : sink;
        float c = math_exp(max - larger), z = fmaf(p->sum[at], c, math_exp(sink - larger));

        for (uint32_t i = 0; i < p->channels; i++)
            p->out[at * p->channels + i] = p->out[at * p->channels + i] * c / z;
    }
}
