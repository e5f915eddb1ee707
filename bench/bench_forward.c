/* The forward pass of a checkpoint in turns that a driver asks for, so that bench/forward.py can
 * run another engine in between. Reads lines from standard input and answers each with seconds and
 * a digest of greedy tokens:
 *
 *     prefill TOKENS         one prompt in one chunk
 *     decode BATCH STEPS     seconds per step, of BATCH sequences that hold a prompt of 512 tokens
 *
 *     build/release/bench/bench_forward MODEL CACHE THREADS
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/report.h"
#include "model/group.h"
#include "runtime/base/check.h"

enum { PROMPT = 512, BATCH_MAX = 8, POSITIONS_MAX = 1024 };

typedef struct {
    model_config_t config;
    weights_t weights;
    group_t *group;
    uint32_t prompt[PROMPT];
    uint32_t tokens[BATCH_MAX]; /* the next one of each sequence */
    float *logits;
} bench_t;

static uint32_t best(const bench_t *self, uint32_t row)
{
    const float *logits = self->logits + (size_t)row * self->config.vocabulary;
    uint32_t best = 0;

    for (uint32_t i = 1; i < self->config.vocabulary; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

static void take(bool taken)
{
    if (taken)
        return;
    fprintf(stderr, "bench_forward: %s\n", trail_text());
    exit(1);
}

/* As the other engine does: the prompts of a batch in one pass each. */
static void feed(bench_t *self, uint32_t slot, uint32_t count)
{
    const forward_item_t item = {
        .slot = slot, .count = count, .tokens = self->prompt, .logit_count = 1};

    group_clear(self->group, slot);
    take(group_forward(self->group, &item, 1, self->logits, NULL) == STATUS_OK);
    self->tokens[slot] = best(self, 0);
}

static void prefill(bench_t *self, uint32_t count)
{
    const double start = report_seconds();

    feed(self, 0, count);
    printf("%.9f %" PRIu32 "\n", report_seconds() - start, self->tokens[0]);
}

static void decode(bench_t *self, uint32_t batch, uint32_t steps)
{
    forward_item_t items[BATCH_MAX];
    uint32_t digest = 0;
    double start;

    for (uint32_t i = 0; i < batch; i++)
        feed(self, i, PROMPT);
    start = report_seconds();
    for (uint32_t step = 0; step < steps; step++) {
        for (uint32_t i = 0; i < batch; i++)
            items[i] = (forward_item_t){.slot = i,
                                        .position = PROMPT + step,
                                        .count = 1,
                                        .tokens = &self->tokens[i],
                                        .logit_count = 1};
        take(group_forward(self->group, items, batch, self->logits, NULL) == STATUS_OK);
        for (uint32_t i = 0; i < batch; i++)
            self->tokens[i] = best(self, i);
        digest = digest * 31 + self->tokens[batch - 1];
    }
    printf("%.9f %" PRIu32 "\n", (report_seconds() - start) / steps, digest);
}

static void open_model(bench_t *self, const char *folder, const char *cache, uint32_t threads)
{
    group_options_t options = {.world = 1,
                               .threads = threads,
                               .slots = BATCH_MAX,
                               .rows_max = PROMPT,
                               .logits_max = BATCH_MAX,
                               .positions_max = POSITIONS_MAX};

    ASSERT(forward_form_parse(cache, &options.cache_form, &options.index_form));
    take(model_config_load(folder, &self->config) == STATUS_OK);
    take(weights_open(&self->weights, folder, &self->config) == STATUS_OK);
    take(group_open(&self->config, &self->weights, &options, &self->group) == STATUS_OK);
    self->logits = calloc((size_t)BATCH_MAX * self->config.vocabulary, sizeof(float));
    ASSERT(self->logits != NULL);
    for (uint32_t i = 0; i < PROMPT; i++)
        self->prompt[i] = (i * 37 + 11) % self->config.vocabulary;
}

int main(int argc, char **argv)
{
    static bench_t self;
    char line[128];
    uint32_t a, b, threads;

    if (argc != 4 || sscanf(argv[3], "%" SCNu32, &threads) != 1) {
        fprintf(stderr, "usage: bench_forward MODEL CACHE THREADS\n");
        return 2;
    }
    open_model(&self, argv[1], argv[2], (uint32_t)strtoul(argv[3], NULL, 10));
    while (fgets(line, sizeof(line), stdin) != NULL) {
        if (sscanf(line, "prefill %" SCNu32, &a) == 1 && a >= 1 && a <= PROMPT)
            prefill(&self, a);
        else if (sscanf(line, "decode %" SCNu32 " %" SCNu32, &a, &b) == 2 && a >= 1 &&
                 a <= BATCH_MAX && b >= 1 && b <= POSITIONS_MAX - PROMPT)
            decode(&self, a, b);
        else
            return 2;
        fflush(stdout);
    }
    group_close(self.group);
    weights_close(&self.weights);
    free(self.logits);
    return 0;
}
