/* compressor.h - pools a block of tokens into one cached entry, by a softmax per channel.
 *
 *   bias: score = score + ape[position mod ratio], of every row of the step
 * The other two go through the tokens of a block in order; a step's blocks are in batch.h, and an
 * entry is weighted / sum.
 *   fold (ratio 128): the running state of a channel is (max, sum, weighted), (-inf, 0, 0) before
 *     the first token of a block
 *     m = larger of max and s; c = exp(max - m); e = exp(s - m)
 *     sum = fma(sum, c, e); weighted = fma(weighted, c, e v); max = m
 *     The state after token t lies in row t mod ring_rows of its slot's ring.
 *   overlap (ratio 4): eight tokens, the previous block's four with the first half of their
 *     channels, then the own four with the second; the first block has no previous one
 *     top = largest s; e = exp(s - top); sum += e; weighted = fma(e, v, weighted)
 * A row of the step, and of the ring of ratio 4, is [value][score], as many floats each.
 */
#ifndef KERNELS_COMPRESSOR_COMPRESSOR_H
#define KERNELS_COMPRESSOR_COMPRESSOR_H

#include "kernels/batch.h"

enum { COMPRESSOR_OVERLAP = 4 }; /* tokens of a block, and of the previous one */

typedef struct {
    uint32_t rows;
    uint32_t ratio;
    uint32_t channels;
    const uint32_t *positions; /* [rows] */
    const float *ape;          /* [ratio, channels] */
    size_t stride;             /* floats from one row of scores to the next */
    float *scores;             /* [rows, channels] */
} compressor_bias_t;

typedef struct {
    const batch_t *batch;
    const batch_blocks_t *blocks;
    uint32_t item_first, item_count; /* a thread's share */
    uint32_t channels;
    const float *step; /* [rows, 2 * channels] */
    rows_view_t ring;  /* rows of 3 * channels floats */
    uint32_t ring_rows;
    float *entries; /* [blocks, channels] */
} compressor_fold_t;

typedef struct {
    const batch_t *batch;
    const batch_blocks_t *blocks;
    uint32_t block_first, block_count; /* a thread's share */
    uint32_t channels;                 /* of an entry */
    batch_state_t state;               /* rows of 4 * channels floats */
    float *entries;                    /* [blocks, channels] */
} compressor_overlap_t;

void compressor_bias_ref(const compressor_bias_t *p);
void compressor_fold_ref(const compressor_fold_t *p);
void compressor_overlap_ref(const compressor_overlap_t *p);

#endif
