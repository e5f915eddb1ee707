/* verify.c - `lockstep verify MODEL FILE.jsonl...`: greedy answers held to recorded ones.
 *
 * Each line has prompt_ids and output_ids, as in tests/golden/tiny_eval. An answer is equal if every
 * token is, up to and with the end token. The first difference is shown with its margin: how much
 * better the engine's token scored than the recorded one.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/local.h"

enum { VERIFY_POSITIONS_MAX = 8192, VERIFY_LINE_BYTES_MAX = 1 << 24 };

typedef struct {
    local_t local;
    uint32_t equal, all;
    uint32_t *prompt, *output;
} verify_t;

static status_t read_ids(const json_t *line, const char *key, const model_config_t *config,
                         uint32_t *ids, uint32_t *count)
{
    const json_t *array = json_object_get(line, key);
    size_t length = json_array_size(array);

    if (!json_is_array(array) || length == 0 || length > VERIFY_POSITIONS_MAX / 2)
        return FAIL(STATUS_BAD_FILE, "%s must be a list of 1 to %d token ids", key,
                    VERIFY_POSITIONS_MAX / 2);
    for (size_t i = 0; i < length; i++) {
        const json_t *id = json_array_get(array, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= config->vocabulary)
            return FAIL(STATUS_BAD_FILE, "%s[%zu] is no token id below %u", key, i,
                        config->vocabulary);
        ids[i] = (uint32_t)json_integer_value(id);
    }
    *count = (uint32_t)length;
    return STATUS_OK;
}

static status_t verify_line(verify_t *self, const char *path, uint32_t number, const json_t *line)
{
    local_t *local = &self->local;
    uint32_t prompt_count, output_count, position;

    TRY(read_ids(line, "prompt_ids", &local->config, self->prompt, &prompt_count));
    TRY(read_ids(line, "output_ids", &local->config, self->output, &output_count));
    self->all++;
    TRY(local_feed(local, self->prompt, prompt_count, 0));
    position = prompt_count;
    for (uint32_t i = 0; i < output_count; i++) {
        uint32_t best = local_best(local);
        if (best != self->output[i]) {
            printf("%s:%u: token %u of %u is %u, not %u (margin %.3g)\n", path, number, i,
                   output_count, best, self->output[i],
                   (double)(local->logits[best] - local->logits[self->output[i]]));
            return STATUS_OK;
        }
        if (i + 1 < output_count)
            TRY(local_feed(local, &best, 1, position++));
    }
    self->equal++;
    return STATUS_OK;
}

static status_t verify_file(verify_t *self, const char *path)
{
    FILE *file = fopen(path, "r");
    size_t room = 0;
    char *text = NULL;
    uint32_t number = 0;
    status_t status = STATUS_OK;

    if (!file)
        return FAIL(STATUS_BAD_FILE, "cannot open %s: %m", path);
    while (status == STATUS_OK) {
        ssize_t length = getline(&text, &room, file);
        json_error_t error;
        if (length < 0)
            break;
        number++;
        json_t *line =
            length <= VERIFY_LINE_BYTES_MAX ? json_loadb(text, (size_t)length, 0, &error) : NULL;
        if (!line)
            status = FAIL(STATUS_BAD_FILE, "%s:%u: no JSON object", path, number);
        else
            status = verify_line(self, path, number, line);
        json_decref(line);
    }
    free(text);
    fclose(file);
    return status;
}

static int verify_files(verify_t *self, char **paths, int count)
{
    status_t status = STATUS_OK;

    for (int i = 0; i < count && status == STATUS_OK; i++)
        status = verify_file(self, paths[i]);
    if (status != STATUS_OK) {
        fprintf(stderr, "lockstep verify: %s\n", trail_text());
        return status == STATUS_BAD_FILE ? EXIT_BAD_FILE : EXIT_FAILED;
    }
    printf("%u of %u equal (cache %s, tp %u, chunk %u)\n", self->equal, self->all,
           self->local.options.cache, self->local.options.tp, self->local.options.chunk);
    if (self->all == 0)
        fprintf(stderr, "lockstep verify: no answers are recorded there\n");
    return self->all > 0 && self->equal == self->all ? EXIT_OK : EXIT_FAILED;
}

int command_verify(int argc, char **argv)
{
    local_options_t options;
    verify_t self = {0};
    char **paths = calloc((size_t)argc, sizeof(char *));
    int path_count = 0, code = EXIT_OK;

    local_options_init(&options);
    for (int at = 1; code == EXIT_OK && at < argc;) {
        bool taken;
        if (local_option(argc, argv, &at, &options, &taken) != STATUS_OK) {
            fprintf(stderr, "lockstep verify: %s\n", trail_text());
            code = EXIT_USAGE;
        } else if (!taken && strncmp(argv[at], "--", 2) == 0) {
            code = EXIT_USAGE;
        } else if (!taken && !options.folder) {
            options.folder = argv[at++];
        } else if (!taken) {
            paths[path_count++] = argv[at++];
        }
    }
    if (code == EXIT_USAGE || path_count == 0) {
        free(paths);
        return command_usage("verify", "expected MODEL FILE.jsonl...");
    }
    self.prompt = calloc(VERIFY_POSITIONS_MAX, sizeof(uint32_t));
    self.output = calloc(VERIFY_POSITIONS_MAX, sizeof(uint32_t));
    if (!self.prompt || !self.output ||
        local_open(&self.local, &options, VERIFY_POSITIONS_MAX, NULL) != STATUS_OK) {
        fprintf(stderr, "lockstep verify: %s\n", trail_text());
        code = EXIT_BAD_FILE;
    } else {
        code = verify_files(&self, paths, path_count);
    }
    local_close(&self.local);
    free(self.prompt);
    free(self.output);
    free(paths);
    return code;
}
