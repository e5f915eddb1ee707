#include "kernels/compressor/compressor.h"

#include <math.h>

#include "kernels/math.h"

void compressor_fold_ref(const compressor_fold_t *p)
{
    for (uint32_t c = 0; c < p->channels; c++) {
        float top = p->max[c] > p->score[c] ? p->max[c] : p->score[c];
        float decay = math_exp(p->max[c] - top), e = math_exp(p->score[c] - top);

        p->sum[c] = fmaf(p->sum[c], decay, e);
        p->weighted[c] = fmaf(p->weighted[c], decay, e * p->value[c]);
        p->max[c] = top;
    }
}

void compressor_overlap_ref(const compressor_overlap_t *p)
{
    for (uint32_t c = 0; c < p->channels; c++) {
        float top = p->scores[0][c], sum = 0.0f, weighted = 0.0f;

        for (uint32_t i = 1; i < p->tokens; i++)
            top = p->scores[i][c] > top ? p->scores[i][c] : top;
        for (uint32_t i = 0; i < p->tokens; i++) {
            float e = math_exp(p->scores[i][c] - top);
            sum = sum + e;
            weighted = fmaf(e, p->values[i][c], weighted);
        }
        p->entry[c] = weighted / sum;
    }
}
