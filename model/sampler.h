/* sampler.h - draws the next token from one row of logits. Bit for bit the same everywhere.
 *
 * The result depends on the logits, the parameters, the history and the position, on nothing else:
 * the random number is random_at(seed, position), exp and log are kernels/math.h, sums have one
 * order. The order of operations is vLLM's:
 *
 *   1. logprobs are those of the logits as they come, before everything below
 *   2. logit bias is added
 *   3. repetition penalty r, for tokens of prompt and output: positive logits / r, others * r;
 *      then frequency penalty * count and presence penalty, for tokens of the output, subtracted
 *   4. temperature 0: the best logit, ties to the lower id. Otherwise logits / temperature
 *   5. min_p: keeps p >= min_p * best p
 *   6. top_k: keeps the k best, ties to the lower id
 *   7. top_p: keeps the best tokens until their share of what is left reaches top_p; at least one
 *   8. the draw, over what is left
 *
 * A row with NaN or +infinity is refused; -infinity is a token that cannot be drawn.
 */
#ifndef MODEL_SAMPLER_H
#define MODEL_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/device.h"
#include "runtime/base/limits.h"
#include "runtime/base/status.h"

/* What the penalties look at. Borrowed. */
typedef struct {
    const uint32_t *prompt;
    const uint32_t *output;
    uint32_t prompt_count;
    uint32_t output_count;
} sampler_history_t;

typedef struct {
    uint32_t token;
    float logprob;      /* 0 unless asked for; so is what follows */
    uint32_t top_count; /* best first */
    uint32_t top_tokens[LOGPROBS_MAX];
    float top_logprobs[LOGPROBS_MAX];
} sampler_choice_t;

/* Workspace; one thread at a time. */
typedef struct {
    uint32_t vocabulary;
    float *logits;  /* with bias and penalties */
    float *weights; /* of the draw: 1 for the best token */
    uint32_t *counts;
    uint64_t *keys, *sorted;
} sampler_t;

size_t sampler_bytes(uint32_t vocabulary);
/* `memory`: sampler_bytes, aligned to 64; the caller keeps it. */
void sampler_init(sampler_t *sampler, uint32_t vocabulary, void *memory);

/* INVALID with the parameter, what it may be, and what it is. */
MUST_USE status_t sampler_check(const device_sampling_t *sampling, uint32_t vocabulary);
/* Whether draws with these parameters read the history. */
bool sampler_reads_history(const device_sampling_t *sampling);

/* `sampling` has passed sampler_check; tokens of the history are below the vocabulary. `position`
 * is that of the token drawn. CORRUPT if the row is no row of logits. */
MUST_USE status_t sampler_draw(sampler_t *sampler, const float *logits,
                               const device_sampling_t *sampling, const sampler_history_t *history,
                               uint64_t position, sampler_choice_t *choice);

#endif
