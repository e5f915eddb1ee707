/* compressor_cpu.h - see compressor.h. Compiled once per instruction set; vectors run over
 * channels. */
#ifndef KERNELS_COMPRESSOR_COMPRESSOR_CPU_H
#define KERNELS_COMPRESSOR_COMPRESSOR_CPU_H

#include <math.h>

#include "kernels/compressor/compressor.h"
#include "kernels/math.h"

static void compressor_fold_cpu(const compressor_fold_t *p)
{
    const float *restrict value = p->value, *restrict score = p->score;
    float *restrict max = p->max, *restrict sum = p->sum, *restrict weighted = p->weighted;
    const uint32_t channels = p->channels;

    for (uint32_t c = 0; c < channels; c++) {
        float top = max[c] > score[c] ? max[c] : score[c];
        float decay = math_exp(max[c] - top), e = math_exp(score[c] - top);
        sum[c] = fmaf(sum[c], decay, e);
        weighted[c] = fmaf(weighted[c], decay, e * value[c]);
        max[c] = top;
    }
}

enum { COMPRESSOR_PIECE = 64 };

/* Channels [first, first + count), count <= COMPRESSOR_PIECE. */
static void compressor_overlap_piece(const compressor_overlap_t *p, uint32_t first, uint32_t count)
{
    float top[COMPRESSOR_PIECE], sum[COMPRESSOR_PIECE] = {0}, weighted[COMPRESSOR_PIECE] = {0};

    for (uint32_t c = 0; c < count; c++)
        top[c] = p->scores[0][first + c];
    for (uint32_t i = 1; i < p->tokens; i++) {
        const float *score = p->scores[i] + first;
        for (uint32_t c = 0; c < count; c++)
            top[c] = score[c] > top[c] ? score[c] : top[c];
    }
    for (uint32_t i = 0; i < p->tokens; i++) {
        const float *score = p->scores[i] + first, *value = p->values[i] + first;
        for (uint32_t c = 0; c < count; c++) {
            float e = math_exp(score[c] - top[c]);
            sum[c] = sum[c] + e;
            weighted[c] = fmaf(e, value[c], weighted[c]);
        }
    }
    for (uint32_t c = 0; c < count; c++)
        p->entry[first + c] = weighted[c] / sum[c];
}

static void compressor_overlap_cpu(const compressor_overlap_t *p)
{
    for (uint32_t c = 0; c < p->channels; c += COMPRESSOR_PIECE)
        compressor_overlap_piece(
            p, c, p->channels - c < COMPRESSOR_PIECE ? p->channels - c : COMPRESSOR_PIECE);
}

#endif
