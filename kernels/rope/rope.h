/* rope.h - rotary positions: neighbours (a, b) in the last channels turn by position * f_i.
 *
 *   (a, b) -> (fma(a, c, -(b s)), fma(a, s, b c)); the inverse uses -s
 * Angles are formed in double and reduced exactly enough that cosine and sine are right to float32
 * at every position up to 2^20: one table for all layers, ranks and steps, so a key and a query
 * meet at the same numbers. The functions are our own (no libm), so the bits do not depend on the
 * machine.
 */
#ifndef KERNELS_ROPE_ROPE_H
#define KERNELS_ROPE_ROPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROPE_PAIRS_MAX = 128 };

/* Turns per position of each pair. */
typedef struct {
    uint32_t pairs;
    double frequency[ROPE_PAIRS_MAX];
} rope_table_t;

/* f_i = theta^(-2i / channels). */
void rope_table_init(rope_table_t *table, uint32_t channels, double theta);
/* YaRN: pairs that turn slowly within `original` positions are slowed by `factor`, with a ramp
 * between. */
void rope_table_init_yarn(rope_table_t *table, uint32_t channels, double theta, double factor,
                          double original, double beta_fast, double beta_slow);
/* Cosines, then sines, of all pairs at a position: `turns` holds 2 * pairs floats. */
void rope_turns(const rope_table_t *table, uint32_t position, float *turns);

typedef struct {
    uint32_t rows;
    uint32_t heads;    /* neighbouring pieces of a row that turn alike */
    uint32_t channels; /* of one head; the last 2 * pairs turn */
    uint32_t pairs;
    size_t x_stride; /* from row to row */
    bool inverse;
    const float *turns; /* [rows, 2 * pairs] */
    float *x;           /* in place */
} rope_t;

void rope_ref(const rope_t *p);

#endif
