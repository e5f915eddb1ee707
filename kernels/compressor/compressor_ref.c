/* compressor_ref.c - see compressor.h. */
#include "kernels/compressor/compressor.h"

#include <math.h>
#include <string.h>

#include "kernels/math.h"

void compressor_bias_ref(const compressor_bias_t *p)
{
    for (uint32_t m = 0; m < p->rows; m++)
        for (uint32_t c = 0; c < p->channels; c++) {
            float *score = &p->scores[m * p->stride + c];
            *score = *score + p->ape[(size_t)(p->positions[m] % p->ratio) * p->channels + c];
        }
}

static void fold_channel(const compressor_fold_t *p, uint32_t index, uint32_t c)
{
    const batch_item_t *item = &p->batch->items[index];
    uint32_t w = p->channels, block = p->blocks->firsts[index];
    float max = -INFINITY, sum = 0.0f, weighted = 0.0f;

    if (item->position) {
        const float *state = (const float *)(const void *)rows_data(
            &p->ring, item->slot, (item->position - 1) % p->ring_rows);
        max = state[c];
        sum = state[w + c];
        weighted = state[2 * w + c];
    }
    for (uint32_t t = item->position; t < item->position + item->count; t++) {
        const float *row = p->step + (size_t)(item->row + t - item->position) * 2 * w;
        float value = row[c], score = row[w + c], top, decay, e;

        if (t % p->blocks->ratio == 0) {
            max = -INFINITY;
            sum = 0.0f;
            weighted = 0.0f;
        }
        top = max > score ? max : score;
        decay = math_exp(max - top);
        e = math_exp(score - top);
        sum = fmaf(sum, decay, e);
        weighted = fmaf(weighted, decay, e * value);
        max = top;
        if (t % p->blocks->ratio == p->blocks->ratio - 1)
            p->entries[(size_t)block++ * w + c] = weighted / sum;
        if (item->position + item->count - t <= p->ring_rows) {
            float *state = (float *)(void *)rows_data(&p->ring, item->slot, t % p->ring_rows);
            state[c] = max;
            state[w + c] = sum;
            state[2 * w + c] = weighted;
        }
    }
}

void compressor_fold_ref(const compressor_fold_t *p)
{
    for (uint32_t i = p->item_first; i < p->item_first + p->item_count; i++)
        for (uint32_t c = 0; c < p->channels; c++)
            fold_channel(p, i, c);
}

void compressor_overlap_ref(const compressor_overlap_t *p)
{
    uint32_t w = p->channels;

    for (uint32_t b = p->block_first; b < p->block_first + p->block_count; b++) {
        const batch_item_t *item = &p->batch->items[p->blocks->items[b]];
        uint32_t end = (p->blocks->numbers[b] + 1) * COMPRESSOR_OVERLAP;
        uint32_t begin = end > 2 * COMPRESSOR_OVERLAP ? end - 2 * COMPRESSOR_OVERLAP : 0;
        for (uint32_t c = 0; c < w; c++) {
            float top = -INFINITY, sum = 0.0f, weighted = 0.0f;
            for (int pass = 0; pass < 2; pass++)
                for (uint32_t t = begin; t < end; t++) {
                    const float *row =
                        (const float *)(const void *)batch_state_data(&p->state, item, t);
                    uint32_t at = t + COMPRESSOR_OVERLAP < end ? c : w + c;
                    float value = row[at], score = row[2 * w + at], e;
                    if (pass == 0) {
                        top = t == begin || score > top ? score : top;
                        continue;
                    }
                    e = math_exp(score - top);
                    sum = sum + e;
                    weighted = fmaf(e, value, weighted);
                }
            p->entries[(size_t)b * w + c] = weighted / sum;
        }
    }
}
