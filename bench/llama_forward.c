/* What bench_forward.c does, by llama.cpp: the same lines, the same answers, greedy tokens too.
 * bench/llama compiles it against the library; it is no part of the build.
 *
 *     llama_forward GGUF THREADS
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <llama.h>

enum { PROMPT = 512, BATCH_MAX = 8, POSITIONS_MAX = 1024 };

static struct llama_context *context;
static int32_t vocabulary;

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void put(struct llama_batch *batch, llama_token token, int32_t position, int32_t sequence,
                bool logits)
{
    const int32_t at = batch->n_tokens++;

    batch->token[at] = token;
    batch->pos[at] = position;
    batch->n_seq_id[at] = 1;
    batch->seq_id[at][0] = sequence;
    batch->logits[at] = logits;
}

static llama_token best(int32_t row)
{
    const float *logits = llama_get_logits_ith(context, row);
    llama_token token = 0;

    for (int32_t i = 1; i < vocabulary; i++)
        if (logits[i] > logits[token])
            token = i;
    return token;
}

static void run(struct llama_batch *batch)
{
    if (llama_decode(context, *batch) == 0)
        return;
    fprintf(stderr, "llama_decode failed\n");
    exit(1);
}

static llama_token feed(struct llama_batch *batch, int32_t sequence)
{
    batch->n_tokens = 0;
    for (int32_t i = 0; i < PROMPT; i++)
        put(batch, (i * 37 + 11) % vocabulary, i, sequence, i == PROMPT - 1);
    run(batch);
    return best(PROMPT - 1);
}

static void prefill(struct llama_batch *batch)
{
    double start;
    llama_token token;

    llama_memory_clear(llama_get_memory(context), true);
    start = seconds();
    token = feed(batch, 0);
    printf("%.9f %d\n", seconds() - start, token);
}

static void decode(struct llama_batch *batch, int32_t count, int32_t steps)
{
    llama_token tokens[BATCH_MAX];
    uint32_t digest = 0;
    double start;

    llama_memory_clear(llama_get_memory(context), true);
    for (int32_t i = 0; i < count; i++)
        tokens[i] = feed(batch, i);
    start = seconds();
    for (int32_t step = 0; step < steps; step++) {
        batch->n_tokens = 0;
        for (int32_t i = 0; i < count; i++)
            put(batch, tokens[i], PROMPT + step, i, true);
        run(batch);
        for (int32_t i = 0; i < count; i++)
            tokens[i] = best(i);
        digest = digest * 31 + (uint32_t)tokens[count - 1];
    }
    printf("%.9f %" PRIu32 "\n", (seconds() - start) / steps, digest);
}

static void quiet(enum ggml_log_level level, const char *text, void *data)
{
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static bool open_model(const char *path, int32_t threads)
{
    struct llama_model_params model_params = llama_model_default_params();
    struct llama_context_params params = llama_context_default_params();
    struct llama_model *model;

    llama_log_set(quiet, NULL);
    llama_backend_init();
    model = llama_model_load_from_file(path, model_params);
    if (!model)
        return false;
    vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    params.n_ctx = BATCH_MAX * POSITIONS_MAX;
    params.n_batch = params.n_ubatch = PROMPT;
    params.n_seq_max = BATCH_MAX;
    params.n_threads = params.n_threads_batch = threads;
    context = llama_init_from_model(model, params);
    return context != NULL;
}

int main(int argc, char **argv)
{
    struct llama_batch batch;
    char line[128];
    int32_t count, steps, threads;

    if (argc != 3 || sscanf(argv[2], "%" SCNd32, &threads) != 1 || !open_model(argv[1], threads)) {
        fprintf(stderr, "usage: llama_forward GGUF THREADS\n");
        return 2;
    }
    batch = llama_batch_init(PROMPT, 0, BATCH_MAX);
    while (fgets(line, sizeof(line), stdin)) {
        if (sscanf(line, "decode %" SCNd32 " %" SCNd32, &count, &steps) == 2 && count >= 1 &&
            count <= BATCH_MAX && steps >= 1 && steps <= POSITIONS_MAX - PROMPT)
            decode(&batch, count, steps);
        else
            prefill(&batch);
        fflush(stdout);
    }
    return 0;
}
