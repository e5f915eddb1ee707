/* compressor.h - pools a block of tokens into one cached entry, by a softmax per channel.
 *
 * Scores hold the position bias already. Both forms go through the tokens in order.
 *   fold (ratio 128): the running state of a channel is (max, sum, weighted), from (-inf, 0, 0)
 *     m = larger of max and s; c = exp(max - m); e = exp(s - m)
 *     sum = fma(sum, c, e); weighted = fma(weighted, c, e v); max = m
 *     The entry is weighted / sum.
 *   overlap (ratio 4): eight tokens, the previous block's four with the first half of their
 *     channels, then the own four with the second; the first block has no previous one
 *     top = largest s; e = exp(s - top); sum += e; weighted = fma(e, v, weighted)
 *     The entry is weighted / sum.
 */
#ifndef KERNELS_COMPRESSOR_COMPRESSOR_H
#define KERNELS_COMPRESSOR_COMPRESSOR_H

#include <stddef.h>
#include <stdint.h>

enum { COMPRESSOR_OVERLAP_TOKENS = 8 };

typedef struct {
    uint32_t channels;
    const float *value; /* [channels] */
    const float *score;
    float *max; /* the running state, in place */
    float *sum;
    float *weighted;
} compressor_fold_t;

typedef struct {
    uint32_t channels;
    uint32_t tokens;                                /* 4 or 8 */
    const float *values[COMPRESSOR_OVERLAP_TOKENS]; /* [channels] each, in token order */
    const float *scores[COMPRESSOR_OVERLAP_TOKENS];
    float *entry;
} compressor_overlap_t;

void compressor_fold_ref(const compressor_fold_t *p);
void compressor_overlap_ref(const compressor_overlap_t *p);

#endif
