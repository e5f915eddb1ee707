#include "actors/gateway/poisoned.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/log.h"
#include "runtime/base/random.h"

enum { FILE_BYTES_MAX = 32 << 20, PATH_ROOM = PATH_BYTES_MAX + 64 };

static void put(text_buffer_t *out, const char *format, ...) PRINTF_LIKE(2, 3);

static void put(text_buffer_t *out, const char *format, ...)
{
    char text[REASON_BYTES_MAX];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    text_put_text(out, text);
}

static void put_ids(text_buffer_t *out, const char *name, const u32s_view_t *ids)
{
    put(out, "  \"%s\": [", name);
    for (uint32_t i = 0; i < ids->count; i++)
        put(out, "%s%u", i ? "," : "", ids->data[i]);
    put(out, "],\n");
}

static void put_number(text_buffer_t *out, const char *name, float value)
{
    put(out, "  \"%s\": %.9g,\n", name, (double)value);
}

static void put_bias(text_buffer_t *out, const record_sampling_t *sampling)
{
    put(out, "  \"logit_bias\": {");
    for (uint32_t i = 0; i < sampling->bias_tokens.count; i++)
        put(out, "%s\"%u\": %.9g", i ? ", " : "", sampling->bias_tokens.data[i],
            (double)sampling->bias_values.data[i]);
    put(out, "},\n");
}

void poisoned_put(const poisoned_place_t *place, const message_client_poisoned_t *m,
                  text_buffer_t *out)
{
    const record_sampling_t *sampling = &m->sampling;

    put(out, "{\n  \"model\": \"");
    text_put_escaped_text(out, place->model, strlen(place->model));
    put(out, "\",\n");
    if (place->tokens)
        put_ids(out, "prompt", &m->prompt);
    put(out, "  \"max_tokens\": %u,\n  \"ignore_eos\": %s,\n  \"seed\": %lld,\n",
        m->limits.output_tokens_max, m->limits.ignore_eos ? "true" : "false",
        (long long)sampling->seed);
    put_number(out, "temperature", sampling->temperature);
    put_number(out, "top_p", sampling->top_p);
    put_number(out, "min_p", sampling->min_p);
    put_number(out, "presence_penalty", sampling->presence_penalty);
    put_number(out, "frequency_penalty", sampling->frequency_penalty);
    put_number(out, "repetition_penalty", sampling->repetition_penalty);
    put(out, "  \"top_k\": %u,\n", sampling->top_k);
    if (sampling->logprobs > 0)
        put(out, "  \"logprobs\": %u,\n", sampling->logprobs - 1);
    if (place->tokens) { /* these are ids too */
        put_bias(out, sampling);
        put_ids(out, "stop_token_ids", &m->limits.stop_tokens);
        put_ids(out, "lockstep_received", &m->received);
    }
    put(out,
        "  \"lockstep\": {\"request\": \"%016llx\", \"attempts\": %u, \"prompt_tokens\": %u, "
        "\"received_tokens\": %u, \"salt\": \"%016llx\"}\n}\n",
        (unsigned long long)m->request, m->attempts, m->prompt.count, m->received.count,
        (unsigned long long)m->salt);
}

static bool write_file(const char *path, const text_buffer_t *text)
{
    FILE *file = fopen(path, "w");
    bool whole = file && fwrite(text->bytes, 1, text->used, file) == text->used;

    return file && fclose(file) == 0 && whole;
}

void poisoned_keep(poisoned_place_t *place, const message_client_poisoned_t *m)
{
    char path[PATH_ROOM];
    text_buffer_t text;

    if (!place->folder || !place->folder[0] || place->count == POISONED_FILES_MAX)
        return;
    snprintf(path, sizeof(path), "%s/poisoned-%016llx.json", place->folder,
             (unsigned long long)m->request);
    text_buffer_init(&text, FILE_BYTES_MAX);
    poisoned_put(place, m, &text);
    if ((mkdir(place->folder, 0700) != 0 && errno != EEXIST) || text.status != STATUS_OK ||
        !write_file(path, &text)) {
        LOG(ERROR, "POISONED-NOT-KEPT request=%016llx path=%s: %s", (unsigned long long)m->request,
            path, text.status == STATUS_OK ? strerror(errno) : status_text(text.status));
    } else {
        place->count++;
        LOG(WARN, "POISONED-KEPT request=%016llx path=%s tokens=%s", (unsigned long long)m->request,
            path, place->tokens ? "kept" : "withheld");
    }
    text_buffer_fini(&text);
}

/* ---- what is not run again ------------------------------------------------------------------- */

static uint64_t digest_of(const u32s_view_t *prompt, const record_sampling_t *sampling,
                          const record_limits_t *limits)
{
    const float numbers[] = {sampling->temperature,       sampling->top_p,
                             sampling->min_p,             sampling->presence_penalty,
                             sampling->frequency_penalty, sampling->repetition_penalty};
    const uint32_t words[] = {sampling->top_k, sampling->logprobs, limits->ignore_eos};
    const u32s_view_t lists[] = {*prompt, sampling->bias_tokens, limits->stop_tokens};
    uint64_t digest = random_digest(0, numbers, sizeof(numbers));

    digest = random_digest(digest, words, sizeof(words));
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        digest = random_digest(random_mix(digest + lists[i].count), lists[i].data,
                               lists[i].count * sizeof(uint32_t));
    return random_digest(digest, sampling->bias_values.data,
                         sampling->bias_values.count * sizeof(float));
}

void poisoned_learn(poisoned_known_t *known, const message_client_poisoned_t *m, double now_s)
{
    uint32_t at = known->count++ % POISONED_KNOWN_MAX;

    known->digests[at] = digest_of(&m->prompt, &m->sampling, &m->limits);
    known->until_s[at] = now_s + POISONED_KNOWN_S;
}

bool poisoned_knows(const poisoned_known_t *known, const message_client_request_t *m, double now_s)
{
    uint64_t digest = known->count > 0 ? digest_of(&m->prompt, &m->sampling, &m->limits) : 0;

    for (uint32_t i = 0; i < known->count && i < POISONED_KNOWN_MAX; i++)
        if (known->digests[i] == digest && now_s < known->until_s[i])
            return true;
    return false;
}
