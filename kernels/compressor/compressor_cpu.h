/* compressor_cpu.h - see compressor.h. Compiled once per instruction set; vectors run over
 * channels. */
#ifndef KERNELS_COMPRESSOR_COMPRESSOR_CPU_H
#define KERNELS_COMPRESSOR_COMPRESSOR_CPU_H

#include <math.h>
#include <string.h>

#include "kernels/compressor/compressor.h"
#include "kernels/math.h"
#include "runtime/base/check.h"
#include "runtime/base/limits.h"

enum { COMPRESSOR_PIECE = 64 }; /* channels at once */

static void compressor_bias_cpu(const compressor_bias_t *p)
{
    for (uint32_t m = 0; m < p->rows; m++) {
        const float *ape = p->ape + (size_t)(p->positions[m] % p->ratio) * p->channels;
        float *restrict score = p->scores + m * p->stride;
        for (uint32_t c = 0; c < p->channels; c++)
            score[c] = score[c] + ape[c];
    }
}

/* One token into the state of `w` channels. */
static void compressor_fold_token(const float *restrict row, uint32_t w, float *restrict max,
                                  float *restrict sum, float *restrict weighted)
{
    for (uint32_t c = 0; c < w; c++) {
        float score = row[w + c], top = max[c] > score ? max[c] : score;
        float decay = math_exp(max[c] - top), e = math_exp(score - top);
        sum[c] = fmaf(sum[c], decay, e);
        weighted[c] = fmaf(weighted[c], decay, e * row[c]);
        max[c] = top;
    }
}

static void compressor_fold_item(const compressor_fold_t *p, const batch_item_t *item,
                                 uint32_t block)
{
    const uint32_t w = p->channels, end = item->position + item->count;
    float state[3 * HEAD_DIM_MAX];

    ASSERT(w <= HEAD_DIM_MAX);
    if (item->position)
        memcpy(state, rows_data(&p->ring, item->slot, (item->position - 1) % p->ring_rows),
               3 * w * sizeof(float));
    for (uint32_t t = item->position; t < end; t++) {
        if (t % p->blocks->ratio == 0)
            for (uint32_t c = 0; c < w; c++) {
                state[c] = -INFINITY;
                state[w + c] = 0.0f;
                state[2 * w + c] = 0.0f;
            }
        compressor_fold_token(p->step + (size_t)(item->row + t - item->position) * 2 * w, w, state,
                              state + w, state + 2 * w);
        if (t % p->blocks->ratio == p->blocks->ratio - 1) {
            float *entry = p->entries + (size_t)block++ * w;
            for (uint32_t c = 0; c < w; c++)
                entry[c] = state[2 * w + c] / state[w + c];
        }
        if (end - t <= p->ring_rows)
            memcpy(rows_data(&p->ring, item->slot, t % p->ring_rows), state, 3 * w * sizeof(float));
    }
}

static void compressor_fold_cpu(const compressor_fold_t *p)
{
    for (uint32_t i = p->item_first; i < p->item_first + p->item_count; i++)
        compressor_fold_item(p, &p->batch->items[i], p->blocks->firsts[i]);
}

/* Channels [0, count) of what the pointers begin with, count <= COMPRESSOR_PIECE. */
static void compressor_overlap_piece(const float *const *values, const float *const *scores,
                                     uint32_t tokens, uint32_t first, uint32_t count, float *entry)
{
    float top[COMPRESSOR_PIECE], sum[COMPRESSOR_PIECE] = {0}, weighted[COMPRESSOR_PIECE] = {0};

    for (uint32_t c = 0; c < count; c++)
        top[c] = scores[0][first + c];
    for (uint32_t i = 1; i < tokens; i++) {
        const float *score = scores[i] + first;
        for (uint32_t c = 0; c < count; c++)
            top[c] = score[c] > top[c] ? score[c] : top[c];
    }
    for (uint32_t i = 0; i < tokens; i++) {
        const float *score = scores[i] + first, *value = values[i] + first;
        for (uint32_t c = 0; c < count; c++) {
            float e = math_exp(score[c] - top[c]);
            sum[c] = sum[c] + e;
            weighted[c] = fmaf(e, value[c], weighted[c]);
        }
    }
    for (uint32_t c = 0; c < count; c++)
        entry[first + c] = weighted[c] / sum[c];
}

static void compressor_overlap_cpu(const compressor_overlap_t *p)
{
    const uint32_t w = p->channels;

    for (uint32_t b = p->block_first; b < p->block_first + p->block_count; b++) {
        const batch_item_t *item = &p->batch->items[p->blocks->items[b]];
        const float *values[2 * COMPRESSOR_OVERLAP], *scores[2 * COMPRESSOR_OVERLAP];
        uint32_t end = (p->blocks->numbers[b] + 1) * COMPRESSOR_OVERLAP, tokens = 0;

        for (uint32_t t = end > 2 * COMPRESSOR_OVERLAP ? end - 2 * COMPRESSOR_OVERLAP : 0; t < end;
             t++, tokens++) {
            const float *row = (const float *)(const void *)batch_state_data(&p->state, item, t);
            values[tokens] = row + (t + COMPRESSOR_OVERLAP < end ? 0 : w);
            scores[tokens] = values[tokens] + 2 * (size_t)w;
        }
        for (uint32_t c = 0; c < w; c += COMPRESSOR_PIECE)
            compressor_overlap_piece(values, scores, tokens, c,
                                     w - c < COMPRESSOR_PIECE ? w - c : COMPRESSOR_PIECE,
                                     p->entries + (size_t)b * w);
    }
}

#endif
