/* row_form.h - one cached row between float32 and the form in which a pool keeps it.
 *
 * Every reader, the row's own query too, sees what decode gives back: write, then read.
 */
#ifndef KERNELS_ROW_FORM_H
#define KERNELS_ROW_FORM_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    FORM_FLOAT32,
    FORM_BF16,
    FORM_FP8_BLOCKS, /* e4m3 and a scale byte per 64 channels, then a zero byte; rotated ones bf16
                      */
    FORM_FP8_ROW,    /* e4m3, one float32 scale a row (index keys) */
    FORM_FP4_BLOCKS, /* e2m1, low nibble first, a scale byte per 32 channels (index keys) */
    FORM_COUNT
} geometry_form_t;

typedef struct {
    geometry_form_t form;
    uint32_t channels; /* at most HEAD_DIM_MAX */
    uint32_t rope;     /* FP8_BLOCKS: the last channels, kept in bf16 */
} row_form_t;

/* Index keys and queries are turned by a Hadamard matrix before they are rounded to fp8 or fp4. */
bool row_form_rotates(geometry_form_t form);
void row_encode(const row_form_t *form, const float *in, void *data, void *scale);
void row_decode(const row_form_t *form, const void *data, const void *scale, float *out);
/* What an index query becomes: rotated and rounded as a key would be, in place (fp8 and fp4 forms;
 * else nothing). */
void row_round_query(const row_form_t *form, float *query);

#endif
