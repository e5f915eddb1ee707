/* sample.h - the next token of each row of logits. Bit for bit the same everywhere.
 *
 * A row's choice depends on its logits, its parameters, its history and its position, on nothing
 * else: the random number is random_at(seed, position), exp and log are kernels/math.h, sums have
 * one order. The order of operations is vLLM's:
 *
 *   1. logprobs are those of the logits as they come, before everything below
 *   2. logit bias is added; then every token that is not allowed becomes -infinity
 *   3. repetition penalty r, for tokens of prompt and output: positive logits / r, others * r;
 *      then frequency penalty * count and presence penalty, for tokens of the output, subtracted
 *   4. temperature 0: the best logit, ties to the lower id. Otherwise logits / temperature
 *   5. min_p: keeps p >= min_p * best p
 *   6. top_k: keeps the k best, ties to the lower id
 *   7. top_p: keeps the best tokens until their share of what is left reaches top_p; at least one
 *   8. the draw, over what is left
 *
 * Sums: exp of distances of a whole row go to lane id mod 16, and lanes are added in order; weights
 * of candidates are added in order of ids, or of distances once they are sorted. All in double.
 *
 * NaN and +infinity are faults of a row; -infinity is a token that cannot be drawn.
 */
#ifndef KERNELS_SAMPLE_SAMPLE_H
#define KERNELS_SAMPLE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/limits.h"

/* How one row is drawn. Pointers are borrowed; tokens are below the vocabulary. */
typedef struct {
    uint64_t seed;
    uint64_t position;        /* of the token drawn */
    float temperature;        /* 0: greedy */
    float top_p;              /* 1: off */
    float min_p;              /* 0: off */
    float presence_penalty;   /* 0: off */
    float frequency_penalty;  /* 0: off */
    float repetition_penalty; /* 1: off */
    uint32_t top_k;           /* 0: off */
    uint32_t logprobs;        /* 0: none; n + 1: of the chosen token and the n best */
    uint32_t bias_count;
    const uint32_t *bias_tokens;
    const float *bias_values;
    const uint32_t
        *allowed; /* token t may be drawn if bit t mod 32 of word t / 32 is set; NULL: all
                              */
    uint32_t prompt_count, output_count; /* what penalties look at */
    const uint32_t *prompt, *output;
} sample_row_t;

typedef enum {
    SAMPLE_DRAWN,
    SAMPLE_NO_NUMBER, /* NaN or +infinity: `token` is the first such, `logprob` its logit */
    SAMPLE_NONE,      /* no token can be drawn */
} sample_outcome_t;

typedef struct {
    sample_outcome_t outcome;
    uint32_t token;
    float logprob;      /* 0 unless asked for; so is what follows */
    uint32_t top_count; /* best first, ties to the lower id */
    uint32_t top_tokens[LOGPROBS_MAX];
    float top_logprobs[LOGPROBS_MAX];
} sample_choice_t;

typedef struct {
    uint32_t rows;
    uint32_t vocabulary;
    const float *logits;      /* [rows, vocabulary] */
    const sample_row_t *how;  /* [rows] */
    void *workspace;          /* sample_workspace(vocabulary) bytes, aligned to 64; any content */
    sample_choice_t *choices; /* [rows] */
} sample_t;

size_t sample_workspace(uint32_t vocabulary);
void sample_ref(const sample_t *p);

/* Shared by all forms. */
enum { SAMPLE_LANES = 16 };

typedef struct {
    float *logits;  /* after 3. */
    float *weights; /* of the draw: 1 for the best token */
    uint32_t *counts;
    uint64_t *keys, *sorted;
} sample_workspace_t;

sample_workspace_t sample_workspace_split(void *memory, uint32_t vocabulary);
bool sample_reads_history(const sample_row_t *how);
/* Whether the row's logits are drawn as they are. */
bool sample_is_plain(const sample_row_t *how);
/* Number in [0, 1) of this draw. */
double sample_unit(const sample_row_t *how);

#endif
