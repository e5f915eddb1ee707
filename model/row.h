/* row.h - one cached row between float32 and the form in which a pool keeps it.
 *
 * Every reader, the row's own query too, sees what decode gives back: write, then read.
 */
#ifndef MODEL_ROW_H
#define MODEL_ROW_H

#include "cache/geometry.h"

typedef struct {
    geometry_form_t form;
    uint32_t channels;
    uint32_t rope; /* FP8_BLOCKS: the last channels, kept in bf16 */
} row_form_t;

/* Index keys and queries are turned by a Hadamard matrix before they are rounded to fp8 or fp4. */
bool row_form_rotates(geometry_form_t form);
void row_encode(const row_form_t *form, const float *in, void *data, void *scale);
void row_decode(const row_form_t *form, const void *data, const void *scale, float *out);
/* What an index query becomes: rotated and rounded as a key would be, in place (fp8 and fp4 forms;
 * else nothing). */
void row_round_query(const row_form_t *form, float *query);

#endif
