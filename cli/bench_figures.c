#include "cli/bench_figures.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/check.h"

enum { ROOM_FIRST = 1024, ROOM_MAX = 64 << 20 };

static const struct {
    const char *title; /* of the table */
    const char *key;   /* of JSON */
} names[BENCH_SAMPLES] = {
    [BENCH_FIRST_TOKEN] = {"first token", "first_token_ms"},
    [BENCH_NEXT_TOKEN] = {"between tokens", "next_token_ms"},
    [BENCH_PER_TOKEN] = {"per token of an answer", "per_token_ms"},
    [BENCH_REQUEST] = {"whole request", "request_ms"},
};

void bench_samples_add(bench_samples_t *samples, double seconds)
{
    if (samples->count == samples->room) {
        uint32_t room = samples->room ? 2 * samples->room : ROOM_FIRST;
        float *grown = room <= ROOM_MAX ? realloc(samples->values, room * sizeof(*grown)) : NULL;

        if (!grown) {
            samples->dropped++;
            return;
        }
        samples->values = grown;
        samples->room = room;
    }
    samples->values[samples->count++] = (float)seconds;
}

static int compare(const void *a, const void *b)
{
    const float *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

void bench_samples_sort(bench_samples_t *samples)
{
    if (samples->count > 1)
        qsort(samples->values, samples->count, sizeof(*samples->values), compare);
}

double bench_samples_percentile(const bench_samples_t *samples, double share)
{
    uint32_t rank = (uint32_t)(share * samples->count); /* rounded up, but at least the first */

    ASSERT(share >= 0 && share <= 1);
    if (samples->count == 0)
        return 0;
    rank += rank < share * samples->count;
    return (double)samples->values[rank ? rank - 1 : 0];
}

double bench_samples_mean(const bench_samples_t *samples)
{
    double sum = 0;

    for (uint32_t i = 0; i < samples->count; i++)
        sum += (double)samples->values[i];
    return samples->count ? sum / samples->count : 0;
}

static double rate(uint64_t count, double seconds)
{
    return seconds > 0 ? (double)count / seconds : 0;
}

static double per_answer(const bench_figures_t *figures, uint64_t count)
{
    return figures->answered ? (double)count / (double)figures->answered : 0;
}

void bench_figures_print(bench_figures_t *figures, FILE *out)
{
    fprintf(out, "%s at %s: %u sessions, %" PRIu64 " answers in %.2f s, %" PRIu64 " failed\n",
            figures->model, figures->url, figures->sessions, figures->answered, figures->wall_s,
            figures->failed);
    if (figures->error[0])
        fprintf(out, "first failure: %s\n", figures->error);
    fprintf(out, "an answer has %.1f tokens", per_answer(figures, figures->output_tokens));
    if (figures->counted_events)
        fprintf(out, " (counted by events: the server tells no usage)\n");
    else
        fprintf(out, ", its prompt %.1f, of which %.1f were cached\n",
                per_answer(figures, figures->prompt_tokens),
                per_answer(figures, figures->cached_tokens));
    fprintf(out, "per second: %.2f requests, %.0f prompt tokens, %.0f output tokens\n\n",
            rate(figures->answered, figures->wall_s), rate(figures->prompt_tokens, figures->wall_s),
            rate(figures->output_tokens, figures->wall_s));
    fprintf(out, "%-24s %9s %9s %9s %9s %9s\n", "milliseconds", "mean", "p50", "p90", "p99", "max");
    for (uint32_t i = 0; i < BENCH_SAMPLES; i++) {
        bench_samples_t *samples = &figures->samples[i];

        bench_samples_sort(samples);
        fprintf(out, "%-24s %9.2f %9.2f %9.2f %9.2f %9.2f\n", names[i].title,
                1e3 * bench_samples_mean(samples), 1e3 * bench_samples_percentile(samples, 0.5),
                1e3 * bench_samples_percentile(samples, 0.9),
                1e3 * bench_samples_percentile(samples, 0.99),
                1e3 * bench_samples_percentile(samples, 1));
        if (samples->dropped)
            fprintf(out, "  (without %u samples, for which there was no memory)\n",
                    samples->dropped);
    }
}

void bench_figures_json(bench_figures_t *figures, FILE *out)
{
    json_t *root = json_pack(
        "{s:s, s:s, s:I, s:I, s:f, s:I, s:I, s:I, s:I, s:I, s:b, s:f, s:f, s:f}", "model",
        figures->model, "url", figures->url, "sessions", (json_int_t)figures->sessions, "seed",
        (json_int_t)figures->seed, "wall_s", figures->wall_s, "answered",
        (json_int_t)figures->answered, "failed", (json_int_t)figures->failed, "prompt_tokens",
        (json_int_t)figures->prompt_tokens, "cached_tokens", (json_int_t)figures->cached_tokens,
        "output_tokens", (json_int_t)figures->output_tokens, "counted_by_events",
        figures->counted_events, "requests_per_s", rate(figures->answered, figures->wall_s),
        "prompt_tokens_per_s", rate(figures->prompt_tokens, figures->wall_s), "output_tokens_per_s",
        rate(figures->output_tokens, figures->wall_s));

    for (uint32_t i = 0; i < BENCH_SAMPLES; i++) {
        bench_samples_t *samples = &figures->samples[i];

        bench_samples_sort(samples);
        json_object_set_new(
            root, names[i].key,
            json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "count", (json_int_t)samples->count, "mean",
                      1e3 * bench_samples_mean(samples), "p50",
                      1e3 * bench_samples_percentile(samples, 0.5), "p90",
                      1e3 * bench_samples_percentile(samples, 0.9), "p99",
                      1e3 * bench_samples_percentile(samples, 0.99), "max",
                      1e3 * bench_samples_percentile(samples, 1)));
    }
    if (figures->error[0])
        json_object_set_new(root, "error", json_string(figures->error));
    json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    fputc('\n', out);
    json_decref(root);
}

void bench_figures_fini(bench_figures_t *figures)
{
    for (uint32_t i = 0; i < BENCH_SAMPLES; i++)
        free(figures->samples[i].values);
    memset(figures->samples, 0, sizeof(figures->samples));
}
