/* trace.h - holds what a forward pass notes on its way to a golden trace file. For the tests of this
 * folder.
 *
 * In mode f64 every number has a tolerance and every set is equal, but where two scores are so near
 * each other that float32 cannot tell them apart. In the modes that round cached rows a value within
 * float32 error of a rounding boundary may fall to the other side: a stored value may differ by one
 * step of its storage format, and what is computed from it by what such a step can do. Behind the
 * first layer that says nothing more, so only the first layer is looked at.
 */
#ifndef TESTS_GOLDEN_TRACE_H
#define TESTS_GOLDEN_TRACE_H

#include "tests/golden/harness.h"

enum { TRACE_POSITIONS_MAX = 64 };

typedef struct {
    const safetensors_t *golden;
    const harness_case_t *c;
    uint32_t rope_dim; /* the last channels of a row, kept as bf16 in the packed forms */
    uint32_t positions[TRACE_POSITIONS_MAX];
    uint32_t position_count;
    bool exact;                               /* f64 */
    float score_moved[TRACE_POSITIONS_MAX];   /* worst difference of the last scores, by position */
    uint32_t found;                           /* tensors compared */
} trace_check_t;

/* Reads the positions of the case's trace; `golden` stays the caller's. */
void trace_check_init(trace_check_t *check, const harness_model_t *model, const harness_case_t *c,
                      const safetensors_t *golden);
/* For forward_trace_t, with a trace_check_t as context. Fails the test. */
void trace_check_note(void *context, const char *name, forward_trace_kind_t kind, uint32_t rows,
                      uint32_t width, const void *values);

#endif
