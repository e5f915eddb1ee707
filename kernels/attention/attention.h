/* attention.h - queries against cached rows, tile by tile. One row is key and value of all heads.
 *
 * A tile holds the rows at 64 neighbouring places (window positions or compressed entries; borders
 * at absolute multiples of 64). Callers go through the window's tiles, then the compressed ones,
 * ascending. For each query and head:
 *   1. a[i] = (q . row[i]) * scale, a gemm; m = largest visible a
 *   2. p[i] = exp(a[i] - m), 0 where not visible
 *      l = sum of p, 16-way: lane place mod 16, ascending, then the tree of rmsnorm.h
 *      o = sum of p[i] row[i], a gemm, + 0
 *   3. merge: M = larger of max and m; c_old = exp(max - M), c_new = exp(m - M)
 *      sum = fma(sum, c_old, l c_new); out = fma(out, c_old, o c_new); max = M
 *      The first tile is copied; a tile without a visible row changes nothing.
 * Then the sink, a logit without a value: M = larger of max and sink; c = exp(max - M)
 *   z = fma(sum, c, exp(sink - M)); out = out c / z
 *
 * The bits depend on a query's own visible rows alone: not on its chunk, its neighbours, or rows
 * that it cannot see.
 */
#ifndef KERNELS_ATTENTION_ATTENTION_H
#define KERNELS_ATTENTION_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

enum { ATTENTION_TILE = 64 };

typedef struct {
    uint32_t queries;
    uint32_t heads;
    uint32_t channels;
    uint32_t rows; /* 1 .. ATTENTION_TILE, those that some query sees */
    float scale;
    size_t q_stride;         /* from one query's heads to the next's */
    const float *q;          /* [queries, heads, channels] */
    const float *values;     /* [rows, channels], channels padded to whole panels of 16 */
    const float *keys;       /* the same rows as panels: [rows / 16 rounded up][channels][16] */
    const uint8_t *places;   /* [rows], ascending: where in the tile */
    const uint64_t *visible; /* [queries]: bit `place`: the query sees that row */
    float *max;              /* [queries, heads] running state; max starts at -inf */
    float *sum;
    float *out;       /* [queries, heads, channels] */
    float *workspace; /* attention_workspace floats */
} attention_tile_t;

typedef struct {
    uint32_t queries;
    uint32_t heads;
    uint32_t channels;
    const float *sinks; /* [heads] */
    const float *max;
    const float *sum;
    float *out; /* in place */
} attention_finish_t;

/* Rows as panels of 16, side by side; rows beyond `rows` are zero. */
typedef struct {
    uint32_t rows;
    uint32_t channels;
    const float *values; /* [rows, channels] */
    float *keys;         /* [rows / 16 rounded up][channels][16] */
} attention_keys_t;

size_t attention_workspace(uint32_t queries, uint32_t heads, uint32_t channels);

void attention_keys_ref(const attention_keys_t *p);
void attention_tile_ref(const attention_tile_t *p);
void attention_finish_ref(const attention_finish_t *p);

#endif
