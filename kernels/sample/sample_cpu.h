/* sample_cpu.h - see sample.h. Compiled once per instruction set.
 *
 * Only as many candidates are sorted as the draw can reach: distances are binned by their upper
 * bits, and what lies behind the bin that completes top_k or top_p is dropped first.
 */
#ifndef KERNELS_SAMPLE_SAMPLE_CPU_H
#define KERNELS_SAMPLE_SAMPLE_CPU_H

#include <math.h>
#include <string.h>

#include "kernels/math.h"
#include "kernels/sample/sample.h"
#include "runtime/base/check.h"

enum {
    SAMPLE_BIN_SHIFT = 21, /* distances are binned by their upper 11 bits */
    SAMPLE_BINS = 1 << 11,
    SAMPLE_DIGIT_BITS = 11,
    SAMPLE_DIGITS = 1 << SAMPLE_DIGIT_BITS,
    SAMPLE_IN_PROMPT = 1 << 30, /* in a count, beside the number of times in the output */
};

/* The best value of a row. False with the fault in `choice`. */
static bool sample_scan(const float *x, uint32_t n, float *best, sample_choice_t *choice)
{
    float lanes[SAMPLE_LANES];
    uint32_t bad[SAMPLE_LANES] = {0}, any_bad = 0, i = 0;

    for (uint32_t lane = 0; lane < SAMPLE_LANES; lane++)
        lanes[lane] = -INFINITY;
    for (; i + SAMPLE_LANES <= n; i += SAMPLE_LANES)
        for (uint32_t lane = 0; lane < SAMPLE_LANES; lane++) {
            float value = x[i + lane];

            lanes[lane] = value > lanes[lane] ? value : lanes[lane];
            bad[lane] |= value < INFINITY ? 0u : 1u;
        }
    for (; i < n; i++) {
        lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
        bad[0] |= x[i] < INFINITY ? 0u : 1u;
    }
    *best = -INFINITY;
    for (uint32_t lane = 0; lane < SAMPLE_LANES; lane++) {
        *best = lanes[lane] > *best ? lanes[lane] : *best;
        any_bad |= bad[lane];
    }
    if (!any_bad && *best > -INFINITY)
        return true;
    *choice = (sample_choice_t){.outcome = SAMPLE_NONE};
    for (i = 0; any_bad && i < n; i++)
        if (!(x[i] < INFINITY)) {
            *choice = (sample_choice_t){.outcome = SAMPLE_NO_NUMBER, .token = i, .logprob = x[i]};
            break;
        }
    return false;
}

static double sample_sum_row(const float *x, uint32_t n, float best)
{
    double lanes[SAMPLE_LANES] = {0}, sum = 0;
    uint32_t i = 0;

    for (; i + SAMPLE_LANES <= n; i += SAMPLE_LANES)
        for (uint32_t lane = 0; lane < SAMPLE_LANES; lane++)
            lanes[lane] += (double)math_exp(x[i + lane] - best);
    for (; i < n; i++)
        lanes[i % SAMPLE_LANES] += (double)math_exp(x[i] - best);
    for (uint32_t lane = 0; lane < SAMPLE_LANES; lane++)
        sum += lanes[lane];
    return sum;
}

static uint32_t sample_first_with(const float *x, float value)
{
    uint32_t i = 0;

    while (x[i] != value)
        i++;
    return i;
}

/* The `count` best of the row in order, ties to the lower id, kept sorted by insertion. */
static void sample_find_top(const float *x, uint32_t n, uint32_t count, sample_choice_t *choice)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = choice->top_count;

        if (at == count && !(count > 0 && x[i] > choice->top_logprobs[count - 1]))
            continue;
        if (at == count)
            at--;
        else
            choice->top_count++;
        for (; at > 0 && x[i] > choice->top_logprobs[at - 1]; at--) {
            choice->top_logprobs[at] = choice->top_logprobs[at - 1];
            choice->top_tokens[at] = choice->top_tokens[at - 1];
        }
        choice->top_logprobs[at] = x[i];
        choice->top_tokens[at] = i;
    }
}

static void sample_give_logprobs(const float *x, uint32_t n, float best, uint32_t top,
                                 sample_choice_t *choice)
{
    float log_sum = math_log((float)sample_sum_row(x, n, best));

    choice->logprob = x[choice->token] - best - log_sum;
    sample_find_top(x, n, top, choice);
    for (uint32_t i = 0; i < choice->top_count; i++)
        choice->top_logprobs[i] = choice->top_logprobs[i] - best - log_sum;
}

static float sample_penalize(const sample_row_t *how, float x, uint32_t count)
{
    uint32_t times = count & (SAMPLE_IN_PROMPT - 1u);

    if (count != 0 && how->repetition_penalty != 1.0f)
        x = x > 0.0f ? x / how->repetition_penalty : x * how->repetition_penalty;
    if (times > 0) {
        x -= how->frequency_penalty * (float)times;
        x -= how->presence_penalty;
    }
    return x;
}

static void sample_adjust(const sample_row_t *how, const float *logits, uint32_t n,
                          const sample_workspace_t *w)
{
    memcpy(w->logits, logits, n * sizeof(*logits));
    for (uint32_t i = 0; i < how->bias_count; i++)
        w->logits[how->bias_tokens[i]] += how->bias_values[i];
    for (uint32_t i = 0; how->allowed && i < n; i++)
        w->logits[i] = how->allowed[i / 32] >> i % 32 & 1 ? w->logits[i] : -INFINITY;
    if (!sample_reads_history(how))
        return;
    memset(w->counts, 0, n * sizeof(*w->counts));
    for (uint32_t i = 0; i < how->output_count; i++) {
        ASSERT(how->output[i] < n);
        w->counts[how->output[i]]++;
    }
    for (uint32_t i = 0; i < how->prompt_count; i++) {
        ASSERT(how->prompt[i] < n);
        w->counts[how->prompt[i]] |= SAMPLE_IN_PROMPT;
    }
    for (uint32_t i = 0; i < n; i++)
        w->logits[i] = sample_penalize(how, w->logits[i], w->counts[i]);
}

/* A candidate is a key: the bits of its distance (best - x) / temperature, which is not negative,
 * so that keys order like distances; and below them the id, so that ties go to the lower one. */
static double sample_key_weight(const sample_workspace_t *w, uint64_t key)
{
    return (double)w->weights[(uint32_t)key];
}

/* Keys of all tokens that min_p leaves, in order of ids. */
static uint32_t sample_make_keys(const sample_row_t *how, const float *x, uint32_t n, float best,
                                 const sample_workspace_t *w)
{
    float *restrict weights = w->weights;
    uint32_t count = 0;

    for (uint32_t i = 0; i < n; i++)
        weights[i] = math_exp(-((best - x[i]) / how->temperature));
    for (uint32_t i = 0; i < n; i++) {
        float distance = (best - x[i]) / how->temperature;

        w->keys[count] = (uint64_t)math_bits(distance) << 32 | i;
        count += weights[i] > 0.0f && weights[i] >= how->min_p;
    }
    return count;
}

/* Drops what lies in bins behind the one that completes the k best, or the share top_p: sorting
 * needs only the front. With top_k the share is one of the k best, so only their number counts. */
static uint32_t sample_drop_tail(const sample_row_t *how, const sample_workspace_t *w,
                                 uint32_t count)
{
    double mass[SAMPLE_BINS] = {0}, total = 0, sum = 0;
    uint32_t number[SAMPLE_BINS] = {0}, kept = 0, seen = 0, bin = 0;
    uint64_t *keys = w->keys;

    for (uint32_t i = 0; i < count; i++) {
        double weight = sample_key_weight(w, keys[i]);

        mass[keys[i] >> (32 + SAMPLE_BIN_SHIFT)] += weight;
        number[keys[i] >> (32 + SAMPLE_BIN_SHIFT)]++;
        total += weight;
    }
    for (; bin < SAMPLE_BINS; bin++) {
        seen += number[bin];
        sum += mass[bin];
        if (how->top_k ? seen >= how->top_k : sum >= total * (double)how->top_p)
            break;
    }
    for (uint32_t i = 0; i < count; i++) {
        keys[kept] = keys[i];
        kept += keys[i] >> (32 + SAMPLE_BIN_SHIFT) <= bin;
    }
    return kept;
}

/* By distance; ids are in order before, and each pass keeps the order of equal digits. Three passes
 * end in `other`. */
static void sample_sort_keys(uint64_t *keys, uint64_t *other, uint32_t count)
{
    for (uint32_t shift = 32; shift < 64; shift += SAMPLE_DIGIT_BITS) {
        uint32_t starts[SAMPLE_DIGITS + 1] = {0};
        uint64_t *from = keys;

        for (uint32_t i = 0; i < count; i++)
            starts[(from[i] >> shift & (SAMPLE_DIGITS - 1)) + 1]++;
        for (uint32_t digit = 0; digit < SAMPLE_DIGITS; digit++)
            starts[digit + 1] += starts[digit];
        for (uint32_t i = 0; i < count; i++)
            other[starts[from[i] >> shift & (SAMPLE_DIGITS - 1)]++] = from[i];
        keys = other;
        other = from;
    }
}

static double sample_total(const sample_workspace_t *w, const uint64_t *keys, uint32_t count)
{
    double sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += sample_key_weight(w, keys[i]);
    return sum;
}

/* Of sorted keys, how many top_k and top_p leave. */
static uint32_t sample_cut(const sample_row_t *how, const sample_workspace_t *w, uint32_t count,
                           double total)
{
    double sum = 0;
    uint32_t kept = 0;

    if (how->top_k && count > how->top_k)
        count = how->top_k;
    if (how->top_p >= 1.0f)
        return count;
    if (how->top_k)
        total = sample_total(w, w->sorted, count);
    while (kept < count && (kept == 0 || sum < total * (double)how->top_p))
        sum += sample_key_weight(w, w->sorted[kept++]);
    return kept;
}

static uint32_t sample_draw(const sample_row_t *how, const float *x, uint32_t n, float best,
                            const sample_workspace_t *w)
{
    uint32_t count = sample_make_keys(how, x, n, best, w), i = 0;
    const uint64_t *keys = w->keys;
    double mark, sum;

    if (how->top_k || how->top_p < 1.0f) {
        double total = sample_total(w, w->keys, count);

        count = sample_drop_tail(how, w, count);
        sample_sort_keys(w->keys, w->sorted, count);
        keys = w->sorted;
        count = sample_cut(how, w, count, total);
    }
    mark = sample_unit(how) * sample_total(w, keys, count);
    for (sum = sample_key_weight(w, keys[0]); i + 1 < count && sum <= mark;)
        sum += sample_key_weight(w, keys[++i]);
    return (uint32_t)keys[i];
}

static void sample_cpu(const sample_t *p)
{
    const uint32_t n = p->vocabulary;
    const sample_workspace_t w = sample_workspace_split(p->workspace, n);

    for (uint32_t m = 0; m < p->rows; m++) {
        const sample_row_t *how = &p->how[m];
        const float *logits = p->logits + (size_t)m * n, *x = logits;
        sample_choice_t *choice = &p->choices[m];
        float raw, best;

        if (!sample_scan(logits, n, &raw, choice))
            continue;
        best = raw;
        if (!sample_is_plain(how)) {
            sample_adjust(how, logits, n, &w);
            x = w.logits;
            if (!sample_scan(x, n, &best, choice))
                continue;
        }
        *choice =
            (sample_choice_t){.token = how->temperature == 0.0f ? sample_first_with(x, best)
                                                                : sample_draw(how, x, n, best, &w)};
        if (how->logprobs > 0)
            sample_give_logprobs(logits, n, raw, how->logprobs - 1, choice);
    }
}

#endif
