/* hyper.h - hyper-connections: a token carries S streams; a site reads a mix and writes to all.
 *
 * With x the S streams of a token as one vector and raw = fn x (a gemm):
 *   m          = raw * r, r = 1 / sqrt(mean of x^2 + norm_eps), the sum as in rmsnorm.h
 *   pre[i]     = sigmoid(m[i] * scale[0] + base[i]) + eps
 *   post[i]    = 2 sigmoid(m[S + i] * scale[1] + base[S + i])
 *   comb[j][k] = m[2S + jS + k] * scale[2] + base[2S + jS + k], then Sinkhorn:
 *     1. softmax over k, plus eps
 *     2. columns: each element divided by (its column's sum + eps)
 *     3. rounds - 1 times: rows, then columns
 *   read:  u     = sum over i of pre[i] x[i]
 *   write: x'[k] = post[k] y + sum over j of comb[j][k] x[j]: over the FIRST index
 * Sums ascend; products that are added are fused multiply-adds.
 */
#ifndef KERNELS_HYPER_HYPER_H
#define KERNELS_HYPER_HYPER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HYPER_STREAMS_MAX = 8 };

typedef struct {
    uint32_t rows;
    uint32_t streams;
    uint32_t hidden;
    uint32_t rounds;    /* 0: only `pre` (the head's mix) */
    const float *x;     /* [rows, streams * hidden] */
    const float *raw;   /* [rows, (2 + streams) * streams], head: [rows, streams] */
    const float *base;  /* as a row of raw */
    const float *scale; /* [3], head: [1] */
    float norm_eps, eps;
    float *pre;  /* [rows, streams] */
    float *post; /* [rows, streams] */
    float *comb; /* [rows, streams * streams] */
} hyper_mix_t;

typedef struct {
    uint32_t rows;
    uint32_t streams;
    uint32_t hidden;
    const float *x;   /* [rows, streams, hidden] */
    const float *pre; /* [rows, streams] */
    float *u;         /* [rows, hidden] */
} hyper_read_t;

typedef struct {
    uint32_t rows;
    uint32_t streams;
    uint32_t hidden;
    const float *y;    /* [rows, hidden] */
    const float *post; /* [rows, streams] */
    const float *comb; /* [rows, streams * streams] */
    float *x;          /* [rows, streams, hidden], in place */
} hyper_write_t;

void hyper_mix_ref(const hyper_mix_t *p);
void hyper_read_ref(const hyper_read_t *p);
void hyper_write_ref(const hyper_write_t *p);

#endif
