#include "cli/local.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/team.h"

void local_options_init(local_options_t *options)
{
    *options = (local_options_t){.cache = "fp8", .tp = 1, .chunk = 512};
}

status_t local_number(const char *option, const char *text, uint32_t max, uint32_t *number)
{
    char *end = NULL;
    unsigned long value = text && *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;

    if (!end || *end || value == 0 || value > max)
        return FAIL(STATUS_INVALID, "%s takes a number of 1 to %u, not '%s'", option, max,
                    text ? text : "");
    *number = (uint32_t)value;
    return STATUS_OK;
}

status_t local_option(int argc, char **argv, int *at, local_options_t *options, bool *taken)
{
    const struct {
        const char *name;
        uint32_t max;
        uint32_t *number;
    } numbers[] = {
        {"--tp", RANKS_MAX, &options->tp},
        {"--chunk", STEP_TOKENS_MAX, &options->chunk},
        {"--threads", TEAM_THREADS_MAX, &options->threads},
    };
    const char *option = argv[*at], *value = *at + 1 < argc ? argv[*at + 1] : NULL;
    geometry_form_t cache_form, index_form;

    *taken = true;
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        if (strcmp(option, numbers[i].name) == 0) {
            *at += 2;
            return local_number(option, value, numbers[i].max, numbers[i].number);
        }
    }
    *taken = strcmp(option, "--cache") == 0;
    if (!*taken)
        return STATUS_OK;
    if (!value || !forward_form_parse(value, &cache_form, &index_form))
        return FAIL(STATUS_INVALID, "--cache takes float32, bf16, fp8 or fp8i8, not '%s'",
                    value ? value : "");
    options->cache = value;
    *at += 2;
    return STATUS_OK;
}

static status_t open_group(local_t *local, const forward_trace_t *trace)
{
    const local_options_t *o = &local->options;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    group_options_t options = {.world = o->tp,
                               .threads = o->threads,
                               .slots = 1,
                               .rows_max = o->chunk,
                               .logits_max = 1,
                               .positions_max = local->positions_max,
                               .trace = trace};

    if (options.rows_max > local->positions_max)
        options.rows_max = local->positions_max;
    if (options.threads == 0)
        options.threads = cores > (long)o->tp ? (uint32_t)(cores / (long)o->tp) : 1;
    if (options.threads > TEAM_THREADS_MAX)
        options.threads = TEAM_THREADS_MAX;
    if (!forward_form_parse(o->cache, &options.cache_form, &options.index_form))
        return FAIL(STATUS_INVALID, "no cache form %s", o->cache);
    local->logits = malloc(local->config.vocabulary * sizeof(float));
    if (!local->logits)
        return FAIL(STATUS_NO_MEMORY, "no memory for logits");
    return group_open(&local->config, &local->weights, &options, &local->group);
}

status_t local_open(local_t *local, const local_options_t *options, uint32_t positions_max,
                    const forward_trace_t *trace)
{
    status_t status;

    *local = (local_t){.options = *options, .positions_max = positions_max};
    TRY(model_config_load(options->folder, &local->config));
    if (positions_max > local->config.positions_max)
        return FAIL(STATUS_TOO_LARGE, "%u positions; the model has %u", positions_max,
                    local->config.positions_max);
    TRY(weights_open(&local->weights, options->folder, &local->config));
    status = open_group(local, trace);
    if (status != STATUS_OK)
        local_close(local);
    return status;
}

void local_close(local_t *local)
{
    group_close(local->group);
    weights_close(&local->weights);
    free(local->logits);
    *local = (local_t){.config = local->config};
}

status_t local_feed(local_t *local, const uint32_t *tokens, uint32_t count, uint32_t position)
{
    uint32_t chunk = local->options.chunk;

    if (count > local->positions_max - position)
        return FAIL(STATUS_TOO_LARGE, "%u tokens at %u do not fit %u positions", count, position,
                    local->positions_max);
    if (position == 0)
        group_clear(local->group, 0);
    for (uint32_t at = 0; at < count; at += chunk) {
        uint32_t part = count - at < chunk ? count - at : chunk;
        forward_item_t item = {.position = position + at,
                               .count = part,
                               .tokens = tokens + at,
                               .logit_count = at + part == count};
        TRY(group_forward(local->group, &item, 1, local->logits, NULL));
    }
    return STATUS_OK;
}

uint32_t local_best(const local_t *local)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < local->config.vocabulary; i++)
        if (local->logits[i] > local->logits[best])
            best = i;
    return best;
}

bool local_is_end(const local_t *local, uint32_t token)
{
    for (uint32_t i = 0; i < local->config.eos_count; i++)
        if (local->config.eos_tokens[i] == token)
            return true;
    return false;
}
