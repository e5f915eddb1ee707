#include "model/sampler.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "kernels/isa.h"
#include "kernels/math.h"
#include "runtime/base/random.h"

enum {
    LANES = 16,     /* of sums over a row, whatever the machine */
    BIN_SHIFT = 21, /* distances are binned by their upper 11 bits */
    BINS = 1 << 11,
    DIGIT_BITS = 11,
    DIGITS = 1 << DIGIT_BITS,
};

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
    return sampling->presence_penalty != 0.0f || sampling->frequency_penalty != 0.0f ||
           sampling->repetition_penalty != 1.0f;
}

/* -- workspace ------------------------------------------------------------------------------- */

size_t sampler_bytes(uint32_t vocabulary)
{
    return (size_t)vocabulary * (2 * sizeof(float) + sizeof(uint32_t) + 2 * sizeof(uint64_t));
}

void sampler_init(sampler_t *sampler, uint32_t vocabulary, void *memory)
{
    uint64_t *keys = memory;

    *sampler = (sampler_t){.vocabulary = vocabulary, .keys = keys};
    sampler->sorted = keys + vocabulary;
    sampler->logits = (float *)(void *)(sampler->sorted + vocabulary);
    sampler->weights = sampler->logits + vocabulary;
    sampler->counts = (uint32_t *)(void *)(sampler->weights + vocabulary);
    memset(sampler->counts, 0, vocabulary * sizeof(*sampler->counts));
}

/* -- rows ------------------------------------------------------------------------------------ */

typedef struct {
    float best;
    bool sound; /* no NaN, no +infinity, and something that can be drawn */
} row_t;

ISA_SHARED void scan_row_body(const float *x, uint32_t n, row_t *row)
{
    float lanes[LANES];
    uint32_t bad[LANES] = {0};
    uint32_t any_bad = 0, i = 0;

    for (uint32_t lane = 0; lane < LANES; lane++)
        lanes[lane] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (uint32_t lane = 0; lane < LANES; lane++) {
            float value = x[i + lane];

            lanes[lane] = value > lanes[lane] ? value : lanes[lane];
            bad[lane] |= value < INFINITY ? 0u : 1u;
        }
    for (; i < n; i++) {
        lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
        bad[0] |= x[i] < INFINITY ? 0u : 1u;
    }
    row->best = -INFINITY;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        row->best = lanes[lane] > row->best ? lanes[lane] : row->best;
        any_bad |= bad[lane];
    }
    row->sound = !any_bad && row->best > -INFINITY;
}
ISA_LEVELS(static, scan_row, (const float *x, uint32_t n, row_t *row), (x, n, row))

/* *sum = sum of exp(x - best), in lanes by number mod 16, added in order of lanes. */
ISA_SHARED void sum_row_body(const float *x, uint32_t n, float best, double *sum)
{
    double lanes[LANES] = {0};
    uint32_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (uint32_t lane = 0; lane < LANES; lane++)
            lanes[lane] += (double)math_exp(x[i + lane] - best);
    for (; i < n; i++)
        lanes[i % LANES] += (double)math_exp(x[i] - best);
    *sum = 0;
    for (uint32_t lane = 0; lane < LANES; lane++)
        *sum += lanes[lane];
}
ISA_LEVELS(static, sum_row, (const float *x, uint32_t n, float best, double *sum),
           (x, n, best, sum))

static status_t scan(const float *x, uint32_t n, row_t *row)
{
    scan_row(x, n, row);
    if (row->sound)
        return STATUS_OK;
    for (uint32_t i = 0; i < n; i++)
        if (!(x[i] < INFINITY))
            return FAIL(STATUS_CORRUPT, "logits: expected numbers, found %g for token %u",
                        (double)x[i], i);
    return FAIL(STATUS_CORRUPT, "logits: expected a token that can be drawn, found none");
}

static uint32_t first_with(const float *x, uint32_t n, float value)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i] == value)
            return i;
    UNREACHABLE("the best logit of a row is in the row");
}

/* -- logprobs -------------------------------------------------------------------------------- */

/* The `count` best of the row in order, ties to the lower id, kept sorted by insertion. */
static void find_top(const float *x, uint32_t n, uint32_t count, sampler_choice_t *choice)
{
    choice->top_count = 0;
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

static void give_logprobs(const float *x, uint32_t n, float best, uint32_t top,
                          sampler_choice_t *choice)
{
    double sum;
    float log_sum;

    sum_row(x, n, best, &sum);
    log_sum = math_log((float)sum);
    choice->logprob = x[choice->token] - best - log_sum;
    find_top(x, n, top, choice);
    for (uint32_t i = 0; i < choice->top_count; i++)
        choice->top_logprobs[i] = choice->top_logprobs[i] - best - log_sum;
}

/* -- bias and penalties ---------------------------------------------------------------------- */

enum { IN_PROMPT = 1u << 31 }; /* in a count, beside the number of times in the output */

static float penalize(float x, uint32_t count, const device_sampling_t *sampling)
{
    uint32_t times = count & ~(uint32_t)IN_PROMPT;

    if (count != 0 && sampling->repetition_penalty != 1.0f)
        x = x > 0.0f ? x / sampling->repetition_penalty : x * sampling->repetition_penalty;
    if (times > 0) {
        x -= sampling->frequency_penalty * (float)times;
        x -= sampling->presence_penalty;
    }
    return x;
}

/* Fills self->logits. Counts are zero before and after. */
static void adjust(sampler_t *self, const float *logits, const device_sampling_t *sampling,
                   const sampler_history_t *history)
{
    memcpy(self->logits, logits, self->vocabulary * sizeof(*logits));
    for (uint32_t i = 0; i < sampling->bias_count; i++)
        self->logits[sampling->bias_tokens[i]] += sampling->bias_values[i];
    if (!sampler_reads_history(sampling))
        return;
    for (uint32_t i = 0; i < history->output_count; i++) {
        ASSERT(history->output[i] < self->vocabulary);
        self->counts[history->output[i]]++;
    }
    for (uint32_t i = 0; i < history->prompt_count; i++) {
        ASSERT(history->prompt[i] < self->vocabulary);
        self->counts[history->prompt[i]] |= (uint32_t)IN_PROMPT;
    }
    for (uint32_t i = 0; i < self->vocabulary; i++)
        self->logits[i] = penalize(self->logits[i], self->counts[i], sampling);
    memset(self->counts, 0, self->vocabulary * sizeof(*self->counts));
}

/* -- the draw -------------------------------------------------------------------------------- */

/* A candidate is a key: the bits of its distance (best - x) / temperature, which is not negative,
 * so that keys order like distances; and below them the id, so that ties go to the lower one. */
static float key_weight(const sampler_t *self, uint64_t key)
{
    return self->weights[(uint32_t)key];
}

ISA_SHARED void weigh_row_body(const float *x, uint32_t n, float best, float temperature,
                               float *weights)
{
    for (uint32_t i = 0; i < n; i++)
        weights[i] = math_exp(-((best - x[i]) / temperature));
}
ISA_LEVELS(static, weigh_row,
           (const float *x, uint32_t n, float best, float temperature, float *weights),
           (x, n, best, temperature, weights))

/* Keys of all tokens that min_p leaves, in order of ids. */
static uint32_t make_keys(sampler_t *self, const float *x, float best,
                          const device_sampling_t *sampling)
{
    uint32_t count = 0;

    weigh_row(x, self->vocabulary, best, sampling->temperature, self->weights);
    for (uint32_t i = 0; i < self->vocabulary; i++) {
        float distance = (best - x[i]) / sampling->temperature;

        self->keys[count] = (uint64_t)math_bits(distance) << 32 | i;
        count += self->weights[i] > 0.0f && self->weights[i] >= sampling->min_p;
    }
    return count;
}

/* Drops what lies in bins behind the one that completes the k best, or the share top_p: sorting
 * needs only the front. With top_k the share is one of the k best, so only their number counts. */
static uint32_t drop_tail(sampler_t *self, uint32_t count, const device_sampling_t *sampling)
{
    double mass[BINS] = {0}, total = 0, sum = 0;
    uint32_t number[BINS] = {0}, kept = 0, seen = 0, bin = 0;
    uint64_t *keys = self->keys;

    for (uint32_t i = 0; i < count; i++) {
        double weight = (double)key_weight(self, keys[i]);

        mass[keys[i] >> (32 + BIN_SHIFT)] += weight;
        number[keys[i] >> (32 + BIN_SHIFT)]++;
        total += weight;
    }
    for (; bin < BINS; bin++) {
        seen += number[bin];
        sum += mass[bin];
        if (sampling->top_k ? seen >= sampling->top_k : sum >= total * (double)sampling->top_p)
            break;
    }
    for (uint32_t i = 0; i < count; i++) {
        keys[kept] = keys[i];
        kept += keys[i] >> (32 + BIN_SHIFT) <= bin;
    }
    return kept;
}

/* By distance; ids are in order before, and each pass keeps the order of equal digits. Three passes
 * end in `other`. */
static void sort_keys(uint64_t *keys, uint64_t *other, uint32_t count)
{
    for (uint32_t shift = 32; shift < 64; shift += DIGIT_BITS) {
        uint32_t starts[DIGITS + 1] = {0};
        uint64_t *from = keys;

        for (uint32_t i = 0; i < count; i++)
            starts[(from[i] >> shift & (DIGITS - 1)) + 1]++;
        for (uint32_t digit = 0; digit < DIGITS; digit++)
            starts[digit + 1] += starts[digit];
        for (uint32_t i = 0; i < count; i++)
            other[starts[from[i] >> shift & (DIGITS - 1)]++] = from[i];
        keys = other;
        other = from;
    }
}

static double total_weight(const sampler_t *self, const uint64_t *keys, uint32_t count)
{
    double sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += (double)key_weight(self, keys[i]);
    return sum;
}

/* Of sorted keys, how many top_k and top_p leave. */
static uint32_t cut(const sampler_t *self, uint32_t count, const device_sampling_t *sampling,
                    double total)
{
    const uint64_t *keys = self->sorted;
    double sum = 0;
    uint32_t kept = 0;

    if (sampling->top_k && count > sampling->top_k)
        count = sampling->top_k;
    if (sampling->top_p >= 1.0f)
        return count;
    if (sampling->top_k)
        total = total_weight(self, keys, count);
    while (kept < count && (kept == 0 || sum < total * (double)sampling->top_p))
        sum += (double)key_weight(self, keys[kept++]);
    return kept;
}

static uint32_t draw(sampler_t *self, const float *x, float best, const device_sampling_t *sampling,
                     uint64_t position)
{
    double unit = (double)(random_at(sampling->seed, position) >> 11) * 0x1p-53;
    uint32_t count = make_keys(self, x, best, sampling), i = 0;
    const uint64_t *keys = self->keys;
    double mark, sum;

    if (sampling->top_k || sampling->top_p < 1.0f) {
        double total = total_weight(self, self->keys, count);

        count = drop_tail(self, count, sampling);
        sort_keys(self->keys, self->sorted, count);
        keys = self->sorted;
        count = cut(self, count, sampling, total);
    }
    mark = unit * total_weight(self, keys, count);
    for (sum = (double)key_weight(self, keys[0]); i + 1 < count && sum <= mark;)
        sum += (double)key_weight(self, keys[++i]);
    return (uint32_t)keys[i];
}

status_t sampler_draw(sampler_t *sampler, const float *logits, const device_sampling_t *sampling,
                      const sampler_history_t *history, uint64_t position, sampler_choice_t *choice)
{
    const float *x = logits;
    row_t raw, row;

    TRY(scan(logits, sampler->vocabulary, &raw));
    row = raw;
    if (sampling->bias_count > 0 || sampler_reads_history(sampling)) {
        adjust(sampler, logits, sampling, history);
        x = sampler->logits;
        TRY(scan(x, sampler->vocabulary, &row));
    }
    *choice = (sampler_choice_t){0};
    choice->token = sampling->temperature == 0.0f ? first_with(x, sampler->vocabulary, row.best)
                                                  : draw(sampler, x, row.best, sampling, position);
    if (sampling->logprobs > 0)
        give_logprobs(logits, sampler->vocabulary, raw.best, sampling->logprobs - 1, choice);
    return STATUS_OK;
}
