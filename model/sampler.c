/* sampler.c - see sampler.h. */
#include "model/sampler.h"

#include <float.h>

/* -- parameters ------------------------------------------------------------------------------ */

static status_t check_range(const char *name, float value, double min, double max)
{
    if (!((double)value >= min && (double)value <= max))
        return FAIL(STATUS_INVALID, "%s: expected %g to %g, found %g", name, min, max,
                    (double)value);
    return STATUS_OK;
}

status_t sampler_check(const device_sampling_t *sampling, uint32_t vocabulary)
{
    TRY(check_range("temperature", sampling->temperature, 0, 100));
    TRY(check_range("top_p", sampling->top_p, (double)FLT_TRUE_MIN, 1)); /* above 0 */
    TRY(check_range("min_p", sampling->min_p, 0, 1));
    TRY(check_range("presence_penalty", sampling->presence_penalty, -2, 2));
    TRY(check_range("frequency_penalty", sampling->frequency_penalty, -2, 2));
    TRY(check_range("repetition_penalty", sampling->repetition_penalty, 1e-3, 1e3));
    if (sampling->logprobs > LOGPROBS_MAX + 1)
        return FAIL(STATUS_INVALID, "top_logprobs: expected up to %d, found %u", LOGPROBS_MAX,
                    sampling->logprobs - 1);
    if (sampling->bias_count > LOGIT_BIAS_MAX)
        return FAIL(STATUS_INVALID, "logit_bias: expected up to %d tokens, found %u",
                    LOGIT_BIAS_MAX, sampling->bias_count);
    for (uint32_t i = 0; i < sampling->bias_count; i++) {
        if (sampling->bias_tokens[i] >= vocabulary)
            return FAIL(STATUS_INVALID, "logit_bias: expected token ids below %u, found %u",
                        vocabulary, sampling->bias_tokens[i]);
        TRY(check_range("logit_bias", sampling->bias_values[i], -100, 100));
    }
    return STATUS_OK;
}

bool sampler_reads_history(const device_sampling_t *sampling)
{
    const sample_row_t how = sampler_row(sampling, &(sampler_history_t){0}, 0);

    return sample_reads_history(&how);
}

/* -- draws ----------------------------------------------------------------------------------- */

sample_row_t sampler_row(const device_sampling_t *sampling, const sampler_history_t *history,
                         uint64_t position)
{
    return (sample_row_t){
        .seed = sampling->seed,
        .position = position,
        .temperature = sampling->temperature,
        .top_p = sampling->top_p,
        .min_p = sampling->min_p,
        .presence_penalty = sampling->presence_penalty,
        .frequency_penalty = sampling->frequency_penalty,
        .repetition_penalty = sampling->repetition_penalty,
        .top_k = sampling->top_k,
        .logprobs = sampling->logprobs,
        .bias_count = sampling->bias_count,
        .bias_tokens = sampling->bias_tokens,
        .bias_values = sampling->bias_values,
        .prompt_count = history->prompt_count,
        .output_count = history->output_count,
        .prompt = history->prompt,
        .output = history->output,
    };
}

status_t sampler_outcome(const sample_choice_t *choice)
{
    switch (choice->outcome) {
    case SAMPLE_DRAWN:
        return STATUS_OK;
    case SAMPLE_NO_NUMBER:
        return FAIL(STATUS_CORRUPT, "logits: expected numbers, found %g for token %u",
                    (double)choice->logprob, choice->token);
    case SAMPLE_NONE:
        return FAIL(STATUS_CORRUPT, "logits: expected a token that can be drawn, found none");
    }
    UNREACHABLE("an outcome");
}
