/* sample_ref.c - see sample.h. */
#include "kernels/sample/sample.h"

#include <math.h>
#include <string.h>

#include "kernels/math.h"
#include "runtime/base/check.h"
#include "runtime/base/random.h"

size_t sample_workspace(uint32_t vocabulary)
{
    size_t bytes =
        (size_t)vocabulary * (2 * sizeof(float) + sizeof(uint32_t) + 2 * sizeof(uint64_t));

    return (bytes + 63) / 64 * 64;
}

sample_workspace_t sample_workspace_split(void *memory, uint32_t vocabulary)
{
    sample_workspace_t w = {.keys = memory};

    w.sorted = w.keys + vocabulary;
    w.logits = (float *)(void *)(w.sorted + vocabulary);
    w.weights = w.logits + vocabulary;
    w.counts = (uint32_t *)(void *)(w.weights + vocabulary);
    return w;
}

bool sample_reads_history(const sample_row_t *how)
{
    return how->presence_penalty != 0.0f || how->frequency_penalty != 0.0f ||
           how->repetition_penalty != 1.0f;
}

bool sample_is_plain(const sample_row_t *how)
{
    return how->bias_count == 0 && !how->allowed && !sample_reads_history(how);
}

double sample_unit(const sample_row_t *how)
{
    return (double)(random_at(how->seed, how->position) >> 11) * 0x1p-53;
}

static float penalized(const sample_row_t *how, uint32_t token, float x)
{
    uint32_t times = 0;
    bool seen = false;

    for (uint32_t i = 0; i < how->output_count; i++)
        times += how->output[i] == token;
    for (uint32_t i = 0; i < how->prompt_count; i++)
        seen |= how->prompt[i] == token;
    if ((seen || times) && how->repetition_penalty != 1.0f)
        x = x > 0.0f ? x / how->repetition_penalty : x * how->repetition_penalty;
    if (times) {
        x -= how->frequency_penalty * (float)times;
        x -= how->presence_penalty;
    }
    return x;
}

/* 2. and 3. */
static void adjust(const sample_row_t *how, const float *logits, uint32_t n, float *x)
{
    memcpy(x, logits, n * sizeof(*x));
    for (uint32_t i = 0; i < how->bias_count; i++)
        x[how->bias_tokens[i]] += how->bias_values[i];
    for (uint32_t t = 0; t < n; t++) {
        if (how->allowed && !(how->allowed[t / 32] >> t % 32 & 1))
            x[t] = -INFINITY;
        if (sample_reads_history(how))
            x[t] = penalized(how, t, x[t]);
    }
}

/* The best token of the row, the lower of equals. False with the fault in `choice`. */
static bool find_best(const float *x, uint32_t n, uint32_t *best, sample_choice_t *choice)
{
    *best = 0;
    for (uint32_t t = 0; t < n; t++) {
        if (!(x[t] < INFINITY)) {
            *choice = (sample_choice_t){.outcome = SAMPLE_NO_NUMBER, .token = t, .logprob = x[t]};
            return false;
        }
        if (x[t] > x[*best])
            *best = t;
    }
    if (x[*best] > -INFINITY)
        return true;
    *choice = (sample_choice_t){.outcome = SAMPLE_NONE};
    return false;
}

/* Sum of exp(x - best), by lanes. */
static double sum_row(const float *x, uint32_t n, float best)
{
    double lanes[SAMPLE_LANES] = {0}, sum = 0;

    for (uint32_t t = 0; t < n; t++)
        lanes[t % SAMPLE_LANES] += (double)math_exp(x[t] - best);
    for (uint32_t lane = 0; lane < SAMPLE_LANES; lane++)
        sum += lanes[lane];
    return sum;
}

/* The best token behind `last` in order of (logit down, id up); n: none. `last` n: the first. */
static uint32_t next_best(const float *x, uint32_t n, uint32_t last)
{
    uint32_t best = n;

    for (uint32_t t = 0; t < n; t++) {
        bool behind = last == n || x[t] < x[last] || (x[t] == x[last] && t > last);
        if (behind && (best == n || x[t] > x[best]))
            best = t;
    }
    return best;
}

/* 1. */
static void give_logprobs(const float *x, uint32_t n, uint32_t top, sample_choice_t *choice)
{
    uint32_t first = next_best(x, n, n), t = n;
    float log_sum = math_log((float)sum_row(x, n, x[first]));

    choice->logprob = x[choice->token] - x[first] - log_sum;
    while (choice->top_count < top && (t = next_best(x, n, t)) < n) {
        choice->top_tokens[choice->top_count] = t;
        choice->top_logprobs[choice->top_count++] = x[t] - x[first] - log_sum;
    }
}

/* 4. to 8. `order`: the candidates in order of ids, or of (distance, id) where ranks count. */
static uint32_t draw(const sample_row_t *how, const float *x, uint32_t n, float best,
                     float *weights, uint64_t *order)
{
    bool sorted = how->top_k || how->top_p < 1.0f;
    uint32_t count = 0, kept = 0, i = 0;
    double total = 0, sum = 0, mark = 0;

    for (uint32_t t = 0; t < n; t++) {
        float distance =
            (best - x[t]) / how->temperature; /* bits order like numbers: not negative */
        weights[t] = math_exp(-distance);
        if (weights[t] > 0.0f && weights[t] >= how->min_p) {
            order[count++] = (uint64_t)math_bits(distance) << 32 | t;
            total += (double)weights[t];
        }
    }
    for (uint32_t a = 0; sorted && a < count; a++)
        for (uint32_t b = a; b > 0 && order[b] < order[b - 1]; b--) {
            uint64_t swap = order[b];
            order[b] = order[b - 1];
            order[b - 1] = swap;
        }
    if (how->top_k && count > how->top_k)
        count = how->top_k;
    if (how->top_k) {
        total = 0;
        for (uint32_t a = 0; a < count; a++)
            total += (double)weights[(uint32_t)order[a]];
    }
    while (how->top_p < 1.0f && kept < count && (kept == 0 || sum < total * (double)how->top_p))
        sum += (double)weights[(uint32_t)order[kept++]];
    count = how->top_p < 1.0f ? kept : count;
    for (uint32_t a = 0; a < count; a++)
        mark += (double)weights[(uint32_t)order[a]];
    mark = sample_unit(how) * mark;
    for (sum = (double)weights[(uint32_t)order[0]]; i + 1 < count && sum <= mark;)
        sum += (double)weights[(uint32_t)order[++i]];
    return (uint32_t)order[i];
}

void sample_ref(const sample_t *p)
{
    sample_workspace_t w = sample_workspace_split(p->workspace, p->vocabulary);

    for (uint32_t m = 0; m < p->rows; m++) {
        const sample_row_t *how = &p->how[m];
        const float *logits = p->logits + (size_t)m * p->vocabulary;
        sample_choice_t *choice = &p->choices[m];
        uint32_t best;

        if (!find_best(logits, p->vocabulary, &best, choice))
            continue;
        adjust(how, logits, p->vocabulary, w.logits);
        if (!find_best(w.logits, p->vocabulary, &best, choice))
            continue;
        *choice = (sample_choice_t){.token = best};
        if (how->temperature != 0.0f)
            choice->token = draw(how, w.logits, p->vocabulary, w.logits[best], w.weights, w.keys);
        if (how->logprobs > 0)
            give_logprobs(logits, p->vocabulary, how->logprobs - 1, choice);
    }
}
