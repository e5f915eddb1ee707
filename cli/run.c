/* run.c - `lockstep run MODEL "PROMPT"`: one answer, in this process, without actors.
 *
 * The prompt is one user message if the model has the fixed texts of the chat format, and plain text
 * otherwise or with --raw. Greedy. The answer goes to standard output as it comes, figures to
 * standard error; --trace writes every intermediate of the prompt's pass.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/local.h"
#include "cli/trace_file.h"
#include "model/chat.h"

typedef struct {
    local_options_t options;
    const char *prompt;
    const char *trace_path;
    uint32_t tokens_max;
    bool raw;

    tokenizer_t *tokenizer;
    uint32_t *ids;
    size_t id_count;
    local_t local;
    trace_file_t trace;
    char *delta;
} run_t;

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* {"messages": [{"role": "user", "content": PROMPT}]} as a chat request. */
static status_t encode_chat(run_t *self, const chat_blocks_t *blocks, size_t ids_max)
{
    json_t *object =
        json_pack("{s:[{s:s,s:s}]}", "messages", "role", "user", "content", self->prompt);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    chat_refusal_t refusal = {{0}, {0}};
    chat_prompt_t prompt = {0};
    document_t document;
    status_t status;

    json_decref(object);
    if (!text)
        return FAIL(STATUS_INVALID, "the prompt is no UTF-8 text");
    status = document_parse(&document, DOCUMENT_STRICT, text, strlen(text));
    if (status == STATUS_OK) {
        status = chat_encode(blocks, &document, &(chat_thinking_t){0}, &prompt, &refusal);
        if (status == STATUS_OK)
            status = tokenizer_encode(self->tokenizer, prompt.text.bytes, prompt.spans,
                                      prompt.span_count, self->ids, ids_max, &self->id_count);
        chat_prompt_fini(&prompt);
        document_fini(&document);
    }
    free(text);
    return status;
}

static status_t encode(run_t *self)
{
    size_t ids_max =
        strlen(self->prompt) + 4096; /* never more ids than bytes; the format's texts */
    char path[PATH_BYTES_MAX];
    chat_blocks_t blocks;

    if (snprintf(path, sizeof(path), "%s/tokenizer.json", self->options.folder) >=
        (int)sizeof(path))
        return FAIL(STATUS_TOO_LARGE, "the model's path is too long");
    TRY(tokenizer_open(path, &self->tokenizer));
    self->ids = calloc(ids_max, sizeof(uint32_t));
    self->delta = malloc(tokenizer_delta_bytes_max(self->tokenizer));
    if (!self->ids || !self->delta)
        return FAIL(STATUS_NO_MEMORY, "no memory for a prompt");
    if (!self->raw) {
        status_t status = chat_blocks_open(self->options.folder, &blocks);
        if (status == STATUS_OK) {
            status = encode_chat(self, &blocks, ids_max);
            chat_blocks_close(&blocks);
            return status;
        }
        if (status != STATUS_NOT_FOUND) /* a checkpoint without a chat format goes on from the text */
            return status;
        trail_reset();
    }
    TRY(model_config_load(self->options.folder, &self->local.config));
    self->ids[0] = self->local.config.bos_token;
    TRY(tokenizer_encode_plain(self->tokenizer, self->prompt, strlen(self->prompt), self->ids + 1,
                               ids_max - 1, &self->id_count));
    self->id_count++;
    return STATUS_OK;
}

static status_t answer(run_t *self)
{
    uint32_t count = (uint32_t)self->id_count, made = 0;
    tokenizer_decoder_t decoder = {{0}, 0};
    double start = seconds(), prompted;

    TRY(local_feed(&self->local, self->ids, count, 0));
    prompted = seconds();
    while (made < self->tokens_max) {
        uint32_t token = local_best(&self->local);
        made++;
        if (local_is_end(&self->local, token))
            break;
        fwrite(self->delta, 1, tokenizer_decode(self->tokenizer, &decoder, token, self->delta),
               stdout);
        fflush(stdout);
        if (made < self->tokens_max)
            TRY(local_feed(&self->local, &token, 1, count + made - 1));
    }
    fwrite(self->delta, 1, tokenizer_decode_end(&decoder, self->delta), stdout);
    fputc('\n', stdout);
    fprintf(stderr, "prompt: %u tokens, %.0f/s; answer: %u tokens, %.0f/s\n", count,
            count / (prompted - start), made, made / (seconds() - prompted));
    return STATUS_OK;
}

static status_t run(run_t *self)
{
    const forward_trace_t trace = {&self->trace, trace_file_note};
    uint64_t positions;

    TRY(encode(self));
    positions = self->id_count + self->tokens_max;
    if (self->id_count > PROMPT_TOKENS_MAX)
        return FAIL(STATUS_TOO_LARGE, "a prompt of %zu tokens; %d are possible", self->id_count,
                    PROMPT_TOKENS_MAX);
    if (self->trace_path) { /* one pass over the whole prompt, on one rank */
        self->options.chunk = (uint32_t)self->id_count;
        self->options.tp = 1;
        TRY(trace_file_init(&self->trace));
    }
    TRY(local_open(&self->local, &self->options, (uint32_t)positions,
                   self->trace_path ? &trace : NULL));
    if (self->trace_path) {
        TRY(local_feed(&self->local, self->ids, (uint32_t)self->id_count, 0));
        TRY(trace_file_write(&self->trace, self->trace_path));
        local_close(&self->local);
        TRY(local_open(&self->local, &self->options, (uint32_t)positions, NULL));
    }
    return answer(self);
}

/* True if the command line is right. */
static bool parse(run_t *self, int argc, char **argv)
{
    local_options_init(&self->options);
    self->tokens_max = 256;
    for (int at = 1; at < argc;) {
        const char *value = at + 1 < argc ? argv[at + 1] : NULL;
        status_t status;
        bool taken;

        status = local_option(argc, argv, &at, &self->options, &taken);
        if (status == STATUS_OK && taken)
            continue;
        if (status == STATUS_OK && strcmp(argv[at], "--tokens") == 0) {
            status = local_number("--tokens", value, OUTPUT_TOKENS_MAX, &self->tokens_max);
            at += 2;
        } else if (status == STATUS_OK && strcmp(argv[at], "--trace") == 0 && value) {
            self->trace_path = value;
            at += 2;
        } else if (status == STATUS_OK && strcmp(argv[at], "--raw") == 0) {
            self->raw = true;
            at++;
        } else if (status == STATUS_OK && strncmp(argv[at], "--", 2) != 0 &&
                   (!self->options.folder || !self->prompt)) {
            *(self->options.folder ? &self->prompt : &self->options.folder) = argv[at++];
        } else if (status == STATUS_OK) {
            return false;
        }
        if (status != STATUS_OK) {
            fprintf(stderr, "lockstep run: %s\n", trail_text());
            return false;
        }
    }
    return self->options.folder && self->prompt;
}

int command_run(int argc, char **argv)
{
    run_t self = {0};
    status_t status;

    if (!parse(&self, argc, argv))
        return command_usage("run", NULL);
    status = run(&self);
    if (status != STATUS_OK)
        fprintf(stderr, "lockstep run: %s\n", trail_text());
    local_close(&self.local);
    trace_file_fini(&self.trace);
    tokenizer_close(self.tokenizer);
    free(self.ids);
    free(self.delta);
    return status == STATUS_OK                                        ? EXIT_OK
           : status == STATUS_BAD_FILE || status == STATUS_BAD_CONFIG ? EXIT_BAD_FILE
                                                                      : EXIT_FAILED;
}
