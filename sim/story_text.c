/* story_text.c - a story as lines of words: what is written is what is read, by one table of fields. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sim/story.h"

enum { LINE_BYTES_MAX = 1024 };

static const char *const when_names[WHEN_COUNT] = {"time", "phase", "behind"};

typedef enum { VALUE_NUMBER, VALUE_WORD, VALUE_NAME } value_type_t;

/* A word is a byte that `words` gives names to; its first one is written too if `always`. */
typedef struct {
    const char *name;
    size_t offset;
    value_type_t type;
    size_t bytes;
    const char *const *words;
    uint32_t word_count;
    bool always;
} text_field_t;

#define NUMBER(type, field)                                                                        \
    {                                                                                              \
#field, offsetof(type, field), VALUE_NUMBER, sizeof(((type *)0)->field), NULL, 0, false    \
    }
#define WORD(type, field, words, count, always)                                                    \
    {                                                                                              \
#field, offsetof(type, field), VALUE_WORD, 1, words, count, always                         \
    }
#define NAME(type, field)                                                                          \
    {                                                                                              \
#field, offsetof(type, field), VALUE_NAME, sizeof(((type *)0)->field), NULL, 0, false      \
    }

static const text_field_t story_fields[] = {
    NUMBER(story_t, seed),     NUMBER(story_t, gateways),     NUMBER(story_t, prefills),
    NUMBER(story_t, decodes),  NUMBER(story_t, transfers),    NUMBER(story_t, tp),
    NUMBER(story_t, pages),    NUMBER(story_t, slots),        NUMBER(story_t, streams),
    NUMBER(story_t, tick_us),  NUMBER(story_t, chunk_tokens), NUMBER(story_t, border_every),
    NUMBER(story_t, drain_ms), NUMBER(story_t, credit),       NUMBER(story_t, poisoned),
};

static const text_field_t request_fields[] = {
    NUMBER(story_request_t, arrives_us),        NUMBER(story_request_t, prompt_tokens),
    NUMBER(story_request_t, output_tokens_max), NUMBER(story_request_t, shared_tokens),
    NUMBER(story_request_t, beginning),         NUMBER(story_request_t, own),
    NUMBER(story_request_t, sampling_seed),     NUMBER(story_request_t, warm),
    NUMBER(story_request_t, deadline_ms),
};

static const text_field_t fault_fields[] = {
    WORD(story_fault_t, kind, fault_names, FAULT_COUNT, true),
    NAME(story_fault_t, actor),
    NAME(story_fault_t, other),
    WORD(story_fault_t, when, when_names, WHEN_COUNT, true),
    WORD(story_fault_t, phase, phase_names, PHASE_COUNT, false),
    NUMBER(story_fault_t, request),
    NUMBER(story_fault_t, after_us),
    NUMBER(story_fault_t, us),
    NUMBER(story_fault_t, number),
    NUMBER(story_fault_t, unit),
    NUMBER(story_fault_t, index),
    NUMBER(story_fault_t, word),
};

/* ---- writing --------------------------------------------------------------------------------- */

static uint64_t number_at(const char *at, size_t bytes)
{
    uint64_t number = 0;

    memcpy(&number, at, bytes); /* little-endian, as all machines that this runs on */
    return number;
}

static void put(const void *from, const text_field_t *fields, uint32_t count, FILE *out)
{
    for (uint32_t i = 0; i < count; i++) {
        const text_field_t *field = &fields[i];
        const char *at = (const char *)from + field->offset;
        uint64_t number = field->type == VALUE_NAME ? 0 : number_at(at, field->bytes);

        if (field->type == VALUE_NAME && at[0])
            fprintf(out, " %s=%s", field->name, at);
        else if (field->type == VALUE_WORD && (number > 0 || field->always))
            fprintf(out, " %s=%s", field->name, field->words[number]);
        else if (field->type == VALUE_NUMBER && number > 0)
            fprintf(out, " %s=%llu", field->name, (unsigned long long)number);
    }
}

void story_print_fault(const story_fault_t *fault, FILE *out)
{
    fprintf(out, "fault");
    put(fault, fault_fields, COUNT_OF(fault_fields), out);
}

void story_print(const story_t *story, const char *topology, FILE *out)
{
    fprintf(out, "topology %s\nstory", topology);
    put(story, story_fields, COUNT_OF(story_fields), out);
    fputc('\n', out);
    for (uint32_t i = 0; i < story->request_count; i++) {
        if (story->requests[i].output_tokens_max == 0)
            continue;
        fprintf(out, "request %u", i + 1);
        put(&story->requests[i], request_fields, COUNT_OF(request_fields), out);
        fputc('\n', out);
    }
    for (uint32_t i = 0; i < story->fault_count; i++) {
        story_print_fault(&story->faults[i], out);
        fputc('\n', out);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

static const char *take_word(char *at, const text_field_t *field, const char *value)
{
    for (uint32_t i = 0; i < field->word_count; i++)
        if (strcmp(field->words[i], value) == 0) {
            *at = (char)i;
            return NULL;
        }
    return "no such word";
}

static const char *take_value(char *at, const text_field_t *field, const char *value)
{
    uint64_t number;
    char *end;

    if (field->type == VALUE_WORD)
        return take_word(at, field, value);
    if (field->type == VALUE_NAME) {
        if (strlen(value) >= field->bytes)
            return "too long";
        memcpy(at, value, strlen(value) + 1);
        return NULL;
    }
    if (!isdigit((unsigned char)*value))
        return "not a number";
    number = strtoull(value, &end, 10);
    if (*end || (field->bytes < sizeof(number) && number >> (8 * field->bytes)))
        return "not a number that fits";
    memcpy(at, &number, field->bytes);
    return NULL;
}

/* The words of a line behind its first; `*bad` is the one that is wrong. */
static const char *take(void *to, const text_field_t *fields, uint32_t count, char **rest,
                        const char **bad)
{
    char *word;

    while ((word = strtok_r(NULL, " \n", rest))) {
        char *value = strchr(word, '=');
        const char *why = "no such field";

        *bad = word;
        if (!value)
            return "not a field and its value";
        *value = '\0';
        for (uint32_t i = 0; i < count; i++)
            if (strcmp(fields[i].name, word) == 0)
                why = take_value((char *)to + fields[i].offset, &fields[i], value + 1);
        if (why)
            return why;
    }
    return NULL;
}

static const char *take_request(story_t *story, char **rest, const char **bad)
{
    const char *word = strtok_r(NULL, " \n", rest);
    unsigned long number = word ? strtoul(word, NULL, 10) : 0;
    story_request_t *request;
    const char *why;

    *bad = word ? word : "request";
    if (number < 1 || number > STORY_REQUESTS_MAX)
        return "requests are numbered from 1 to 64";
    if (number > story->request_count)
        story->request_count = (uint32_t)number;
    request = &story->requests[number - 1];
    why = take(request, request_fields, COUNT_OF(request_fields), rest, bad);
    if (why)
        return why;
    if (request->prompt_tokens < 1 || request->output_tokens_max < 1)
        return "a request has prompt_tokens and output_tokens_max";
    return request->prompt_tokens + request->output_tokens_max > PAGE_TOKENS * 100
               ? "it is too long"
               : NULL;
}

static const char *take_line(story_t *story, char topology[PATH_BYTES_MAX], char *line,
                             const char **bad)
{
    char *rest = NULL;
    const char *word = strtok_r(line, " \n", &rest);

    *bad = word;
    if (!word || *word == '#')
        return NULL;
    if (strcmp(word, "topology") == 0) {
        word = strtok_r(NULL, "\n", &rest);
        if (!word || strlen(word) >= PATH_BYTES_MAX)
            return "the path of a topology file follows it";
        memcpy(topology, word, strlen(word) + 1);
        return NULL;
    }
    if (strcmp(word, "story") == 0)
        return take(story, story_fields, COUNT_OF(story_fields), &rest, bad);
    if (strcmp(word, "request") == 0)
        return take_request(story, &rest, bad);
    if (strcmp(word, "fault") != 0)
        return "a line begins with topology, story, request or fault";
    if (story->fault_count == STORY_FAULTS_MAX)
        return "too many faults";
    return take(&story->faults[story->fault_count++], fault_fields, COUNT_OF(fault_fields), &rest,
                bad);
}

bool story_read(FILE *in, story_t *story, char topology[PATH_BYTES_MAX], char *error,
                size_t error_bytes)
{
    char line[LINE_BYTES_MAX];

    memset(story, 0, sizeof(*story));
    topology[0] = '\0';
    for (uint32_t number = 1; fgets(line, sizeof(line), in); number++) {
        const char *bad = NULL;
        const char *why =
            strchr(line, '\n') ? take_line(story, topology, line, &bad) : "the line is too long";

        if (why) {
            snprintf(error, error_bytes, "line %u: %s: %s", number, bad ? bad : "", why);
            return false;
        }
    }
    if (!topology[0] || story_requests(story) == 0) {
        snprintf(error, error_bytes, "it takes a topology and a request");
        return false;
    }
    return true;
}
