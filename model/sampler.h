/* sampler.h - parameters of sampling: what they may be, and what the operator (kernels/sample)
 * gets of them.
 */
#ifndef MODEL_SAMPLER_H
#define MODEL_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "kernels/sample/sample.h"
#include "runtime/base/status.h"

/* What the penalties look at. Borrowed. */
typedef struct {
    const uint32_t *prompt;
    const uint32_t *output;
    uint32_t prompt_count;
    uint32_t output_count;
} sampler_history_t;

/* INVALID with the parameter, what it may be, and what it is. */
MUST_USE status_t sampler_check(const device_sampling_t *sampling, uint32_t vocabulary);
/* Whether draws with these parameters read the history. */
bool sampler_reads_history(const device_sampling_t *sampling);
/* The operator's parameters of one draw; borrows what these point to. `sampling` has passed
 * sampler_check; tokens of the history are below the vocabulary. `position` is that of the token
 * drawn. Every token is allowed. */
sample_row_t sampler_row(const device_sampling_t *sampling, const sampler_history_t *history,
                         uint64_t position);
/* CORRUPT, with what is wrong, if the row was no row of logits or leaves no token. */
MUST_USE status_t sampler_outcome(const sample_choice_t *choice);

#endif
