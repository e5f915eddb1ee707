/* bench_figures.h - what a load test measured, and how it is told. */
#ifndef CLI_BENCH_FIGURES_H
#define CLI_BENCH_FIGURES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Values in the order they came, all kept: a percentile is exact. */
typedef struct {
    float *values;
    uint32_t count;
    uint32_t room;
    uint32_t dropped; /* there was no memory for them; the percentiles are then of the rest */
} bench_samples_t;

typedef enum {
    BENCH_FIRST_TOKEN, /* from the request to its first token */
    BENCH_NEXT_TOKEN,  /* between two events with text of one answer */
    BENCH_PER_TOKEN,   /* of one answer: (last - first) / (tokens - 1) */
    BENCH_REQUEST,     /* from the request to its end */
    BENCH_SAMPLES
} bench_sample_t;

typedef struct {
    const char *url, *model;
    uint32_t sessions;
    uint64_t seed;
    double wall_s;
    uint64_t answered, failed;
    uint64_t prompt_tokens, cached_tokens, output_tokens; /* of what was answered */
    bool counted_events; /* the server told no usage: output tokens are events, prompts unknown */
    bench_samples_t samples[BENCH_SAMPLES];
    char error[256]; /* the first one */
} bench_figures_t;

void bench_samples_add(bench_samples_t *samples, double seconds);
/* Orders them, once, after the last one. */
void bench_samples_sort(bench_samples_t *samples);
/* The smallest sample that `share` (0 to 1) of all do not exceed; 0 if there is none. Sorted only. */
double bench_samples_percentile(const bench_samples_t *samples, double share);
double bench_samples_mean(const bench_samples_t *samples);

/* These sort the samples first. */
void bench_figures_print(bench_figures_t *figures, FILE *out);
void bench_figures_json(bench_figures_t *figures, FILE *out);
void bench_figures_fini(bench_figures_t *figures);

#endif
