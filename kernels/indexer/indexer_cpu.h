/* indexer_cpu.h - see indexer.h. Compiled once per instruction set; vectors run over entries. */
#ifndef KERNELS_INDEXER_INDEXER_CPU_H
#define KERNELS_INDEXER_INDEXER_CPU_H

#include <math.h>

#include "kernels/indexer/indexer.h"

static void indexer_score_cpu(const indexer_score_t *p)
{
    const uint32_t entries = p->entries, heads = p->heads;

    for (uint32_t m = 0; m < p->queries; m++) {
        float *restrict scores = p->scores + m * p->scores_stride;
        for (uint32_t j = 0; j < entries; j++)
            scores[j] = 0.0f;
        for (uint32_t h = 0; h < heads; h++) {
            const float *restrict dots = p->dots + ((size_t)m * heads + h) * p->dots_stride;
            float weight = p->weights[m * heads + h];
            for (uint32_t j = 0; j < entries; j++)
                scores[j] = fmaf(weight, dots[j] > 0.0f ? dots[j] : 0.0f, scores[j]);
        }
        for (uint32_t j = 0; j < entries; j++)
            scores[j] = scores[j] + 0.0f;
    }
}

#endif
