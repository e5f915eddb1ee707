#include "actors/gateway/openai.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES_MAX = 64 };

typedef struct {
    const document_t *request;
    openai_error_t *error;
} reader_t;

void openai_error_set(openai_error_t *error, unsigned status, const char *param, const char *format,
                      ...)
{
    va_list arguments;

    *error = (openai_error_t){.status = status};
    error->type = status < 500 ? "invalid_request_error" : "server_error";
    snprintf(error->param, sizeof(error->param), "%s", param);
    va_start(arguments, format);
    vsnprintf(error->message, sizeof(error->message), format, arguments);
    va_end(arguments);
}

/* A member that is there and not null, else DOCUMENT_NONE. */
static uint32_t member(const reader_t *reader, const char *name)
{
    uint32_t node = document_member(reader->request, 0, name);

    return node && document_kind(reader->request, node) != DOCUMENT_NULL ? node : DOCUMENT_NONE;
}

static bool node_number(const document_t *request, uint32_t node, double *value)
{
    const document_node_t *at = &request->nodes[node];
    size_t bytes = at->end - at->start;
    char digits[NUMBER_BYTES_MAX + 1];

    if (document_kind(request, node) != DOCUMENT_NUMBER || bytes > NUMBER_BYTES_MAX)
        return false;
    memcpy(digits, request->text + at->start, bytes);
    digits[bytes] = '\0';
    *value = strtod(digits, NULL); /* the document has checked its form; "C" numeric locale */
    return isfinite(*value);
}

/* Absent: *value stays. The range is closed. */
static status_t read_number(const reader_t *reader, const char *name, double min, double max,
                            float *value)
{
    uint32_t node = member(reader, name);
    double number;

    if (!node)
        return STATUS_OK;
    if (!node_number(reader->request, node, &number) || number < min || number > max) {
        openai_error_set(reader->error, 400, name, "%s must be a number from %g to %g", name, min,
                         max);
        return FAIL(STATUS_INVALID, "%s", reader->error->message);
    }
    *value = (float)number;
    return STATUS_OK;
}

static status_t read_integer(const reader_t *reader, const char *name, double min, double max,
                             int64_t *value)
{
    uint32_t node = member(reader, name);
    double number;

    if (!node)
        return STATUS_OK;
    if (!node_number(reader->request, node, &number) || number != floor(number) || number < min ||
        number > max) {
        openai_error_set(reader->error, 400, name, "%s must be a whole number from %.0f to %.0f",
                         name, min, max);
        return FAIL(STATUS_INVALID, "%s", reader->error->message);
    }
    *value = (int64_t)number;
    return STATUS_OK;
}

static status_t read_bool_of(const reader_t *reader, uint32_t object, const char *name,
                             const char *param, bool *value)
{
    uint32_t node = document_member(reader->request, object, name);
    document_kind_t kind = node ? document_kind(reader->request, node) : DOCUMENT_NULL;

    if (kind == DOCUMENT_NULL)
        return STATUS_OK;
    if (kind != DOCUMENT_TRUE && kind != DOCUMENT_FALSE) {
        openai_error_set(reader->error, 400, param, "%s must be true or false", param);
        return FAIL(STATUS_INVALID, "%s", reader->error->message);
    }
    *value = kind == DOCUMENT_TRUE;
    return STATUS_OK;
}

static status_t read_bool(const reader_t *reader, const char *name, bool *value)
{
    return read_bool_of(reader, 0, name, name, value);
}

static status_t refuse(const reader_t *reader, const char *param, const char *reason)
{
    openai_error_set(reader->error, 400, param, "%s", reason);
    return FAIL(STATUS_INVALID, "%s: %s", param, reason);
}

/* ---- parts of a request ---------------------------------------------------------------------- */

static status_t read_model(const reader_t *reader, const char *served_name)
{
    uint32_t node = document_member(reader->request, 0, "model");

    if (!node || document_kind(reader->request, node) != DOCUMENT_STRING)
        return refuse(reader, "model", "model must be a string");
    if (document_equals(reader->request, node, served_name))
        return STATUS_OK;
    openai_error_set(reader->error, 404, "model", "there is no such model here; this is %s",
                     served_name);
    reader->error->code = "model_not_found";
    return FAIL(STATUS_INVALID, "another model");
}

/* Whatever would need several answers to one prompt, or an answer of another kind. */
static status_t read_unsupported(const reader_t *reader)
{
    static const char *const names[] = {"echo",      "suffix",        "best_of",
                                        "functions", "function_call", "audio"};
    int64_t count = 1;

    TRY(read_integer(reader, "n", 1, 128, &count));
    if (count != 1)
        return refuse(reader, "n", "n must be 1: ask several times for several answers");
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        uint32_t node = member(reader, names[i]);

        if (node && document_kind(reader->request, node) != DOCUMENT_FALSE)
            return refuse(reader, names[i], "not supported");
    }
    return STATUS_OK;
}

static status_t read_limits(const reader_t *reader, bool chat, const model_generation_t *defaults,
                            openai_parameters_t *parameters)
{
    static const char *const lengths[] = {"max_tokens", "max_completion_tokens" /* of chats */};
    int64_t tokens = defaults->output_tokens_max;
    int64_t timeout_ms = 0;
    bool ignore_eos = false;

    if (!chat && tokens == 0)
        tokens = 16; /* the API's default for completions */
    for (size_t i = 0; i < (chat ? COUNT_OF(lengths) : 1); i++) {
        TRY(read_integer(reader, lengths[i], 1, OUTPUT_TOKENS_MAX, &tokens));
        if (member(reader, lengths[i]))
            parameters->length_param = lengths[i];
    }
    TRY(read_integer(reader, "timeout_ms", 1, UINT32_MAX, &timeout_ms));
    TRY(read_bool(reader, "ignore_eos", &ignore_eos));
    parameters->limits.output_tokens_max = (uint32_t)tokens;
    parameters->limits.ignore_eos = ignore_eos;
    parameters->timeout_ms = (uint32_t)timeout_ms;
    return STATUS_OK;
}

static status_t read_sampling(const reader_t *reader, const model_generation_t *defaults,
                              uint64_t seed, record_sampling_t *sampling)
{
    int64_t top_k = defaults->top_k;
    int64_t wanted_seed = (int64_t)seed;

    *sampling = (record_sampling_t){.temperature = defaults->temperature,
                                    .top_p = defaults->top_p,
                                    .min_p = defaults->min_p,
                                    .repetition_penalty = defaults->repetition_penalty};
    TRY(read_number(reader, "temperature", 0, 2, &sampling->temperature));
    TRY(read_number(reader, "top_p", 0, 1, &sampling->top_p));
    TRY(read_number(reader, "min_p", 0, 1, &sampling->min_p));
    TRY(read_number(reader, "presence_penalty", -2, 2, &sampling->presence_penalty));
    TRY(read_number(reader, "frequency_penalty", -2, 2, &sampling->frequency_penalty));
    TRY(read_number(reader, "repetition_penalty", 0.01, 10, &sampling->repetition_penalty));
    TRY(read_integer(reader, "top_k", -1, VOCABULARY_MAX, &top_k));
    TRY(read_integer(reader, "seed", -9007199254740991.0, 9007199254740991.0, &wanted_seed));
    if (sampling->top_p == 0)
        return refuse(reader, "top_p", "top_p must be above 0");
    sampling->top_k = top_k < 0 ? 0 : (uint32_t)top_k;
    sampling->seed = (uint64_t)wanted_seed;
    return STATUS_OK;
}

static status_t read_logprobs(const reader_t *reader, bool chat, openai_parameters_t *parameters)
{
    int64_t count = chat ? 0 : -1;

    if (chat) {
        TRY(read_bool(reader, "logprobs", &parameters->logprobs));
        TRY(read_integer(reader, "top_logprobs", 0, LOGPROBS_MAX, &count));
        if (count > 0 && !parameters->logprobs)
            return refuse(reader, "top_logprobs", "top_logprobs needs logprobs to be true");
    } else {
        TRY(read_integer(reader, "logprobs", 0, LOGPROBS_MAX, &count));
        parameters->logprobs = count >= 0;
    }
    if (parameters->logprobs)
        parameters->sampling.logprobs = (uint32_t)count + 1;
    return STATUS_OK;
}

static status_t read_bias(const reader_t *reader, uint32_t vocabulary,
                          openai_parameters_t *parameters)
{
    const document_t *request = reader->request;
    uint32_t object = member(reader, "logit_bias"), count = 0;

    if (object && document_kind(request, object) != DOCUMENT_OBJECT)
        return refuse(reader, "logit_bias", "logit_bias must be an object of token ids");
    for (uint32_t key = object ? document_next(request, object, DOCUMENT_NONE) : DOCUMENT_NONE; key;
         key = document_next(request, object, key)) {
        const char *digits = request->text + request->nodes[key].start + 1;
        char *end;
        unsigned long long token = strtoull(digits, &end, 10);
        double bias;

        if (*digits < '0' || *digits > '9' || *end != '"' || token >= vocabulary)
            return refuse(reader, "logit_bias", "a key of logit_bias is no token id");
        if (!node_number(request, document_value(request, key), &bias) || bias < -100 || bias > 100)
            return refuse(reader, "logit_bias", "a bias must be a number from -100 to 100");
        if (count == LOGIT_BIAS_MAX)
            return refuse(reader, "logit_bias", "logit_bias has more than 300 tokens");
        parameters->bias_tokens[count] = (uint32_t)token;
        parameters->bias_values[count++] = (float)bias;
    }
    parameters->sampling.bias_tokens = (u32s_view_t){parameters->bias_tokens, count};
    parameters->sampling.bias_values = (f32s_view_t){parameters->bias_values, count};
    return STATUS_OK;
}

static status_t add_stop(const reader_t *reader, uint32_t node, openai_parameters_t *parameters)
{
    text_buffer_t text;
    status_t status = STATUS_OK;

    if (document_kind(reader->request, node) != DOCUMENT_STRING)
        return refuse(reader, "stop", "stop must be a string or an array of strings");
    if (parameters->stop_count == STOP_STRINGS_MAX)
        return refuse(reader, "stop", "stop has more than 16 strings");
    text_buffer_init(&text, STOP_BYTES_MAX);
    document_put_string(reader->request, node, &text);
    if (text.status != STATUS_OK || text.used == 0) {
        status = refuse(reader, "stop", "a stop string has 1 to 256 bytes");
    } else {
        memcpy(parameters->stops[parameters->stop_count].text, text.bytes, text.used);
        parameters->stops[parameters->stop_count++].bytes = (uint32_t)text.used;
    }
    text_buffer_fini(&text);
    return status;
}

static status_t read_stops(const reader_t *reader, uint32_t vocabulary,
                           openai_parameters_t *parameters)
{
    const document_t *request = reader->request;
    uint32_t stop = member(reader, "stop"), ids = member(reader, "stop_token_ids"), count = 0;

    if (stop && document_kind(request, stop) == DOCUMENT_ARRAY) {
        for (uint32_t item = document_next(request, stop, DOCUMENT_NONE); item;
             item = document_next(request, stop, item))
            TRY(add_stop(reader, item, parameters));
    } else if (stop) {
        TRY(add_stop(reader, stop, parameters));
    }
    if (ids && document_kind(request, ids) != DOCUMENT_ARRAY)
        return refuse(reader, "stop_token_ids", "stop_token_ids must be an array of token ids");
    for (uint32_t item = ids ? document_next(request, ids, DOCUMENT_NONE) : DOCUMENT_NONE; item;
         item = document_next(request, ids, item)) {
        double id;

        if (count == STOP_STRINGS_MAX || !node_number(request, item, &id) || id != floor(id) ||
            id < 0 || id >= vocabulary)
            return refuse(reader, "stop_token_ids", "at most 16 token ids of this model");
        parameters->stop_tokens[count++] = (uint32_t)id;
    }
    parameters->limits.stop_tokens = (u32s_view_t){parameters->stop_tokens, count};
    return STATUS_OK;
}

static status_t read_stream(const reader_t *reader, openai_parameters_t *parameters)
{
    uint32_t options = member(reader, "stream_options");

    TRY(read_bool(reader, "stream", &parameters->stream));
    if (!options)
        return STATUS_OK;
    if (document_kind(reader->request, options) != DOCUMENT_OBJECT)
        return refuse(reader, "stream_options", "stream_options must be an object");
    if (!parameters->stream)
        return refuse(reader, "stream_options", "stream_options needs stream to be true");
    return read_bool_of(reader, options, "include_usage", "stream_options.include_usage",
                        &parameters->include_usage);
}

/* The name of the function that a tool or a tool_choice speaks of, DOCUMENT_NONE if it names none. */
static uint32_t function_name(const document_t *request, uint32_t object)
{
    uint32_t function = document_member(request, object, "function");
    uint32_t name = function ? document_member(request, function, "name") : DOCUMENT_NONE;

    return name && document_kind(request, name) == DOCUMENT_STRING ? name : DOCUMENT_NONE;
}

/* A function that tool_choice names must be one of the tools; all else about the two is for the chat
 * encoding to judge. */
static status_t read_tool_choice(const reader_t *reader)
{
    const document_t *request = reader->request;
    uint32_t choice = member(reader, "tool_choice"), tools = member(reader, "tools");
    uint32_t named = choice ? function_name(request, choice) : DOCUMENT_NONE;
    uint32_t tool = DOCUMENT_NONE;
    text_buffer_t name;
    bool found = false;

    if (!named)
        return STATUS_OK;
    text_buffer_init(&name, DOCUMENT_BYTES_MAX);
    document_put_string(request, named, &name);
    text_put(&name, "", 1);
    while (tools && !found && name.status == STATUS_OK &&
           document_kind(request, tools) == DOCUMENT_ARRAY &&
           (tool = document_next(request, tools, tool)) != DOCUMENT_NONE) {
        uint32_t offered = function_name(request, tool);

        found = offered && document_equals(request, offered, name.bytes);
    }
    text_buffer_fini(&name);
    return found ? STATUS_OK : refuse(reader, "tool_choice", "names a function not in tools");
}

status_t openai_parse(const document_t *request, bool chat, const char *served_name,
                      const model_config_t *config, const model_generation_t *defaults,
                      uint64_t seed, openai_parameters_t *parameters, openai_error_t *error)
{
    reader_t reader = {request, error};

    memset(parameters, 0, sizeof(*parameters));
    parameters->parallel_tool_calls = true;
    if (document_kind(request, 0) != DOCUMENT_OBJECT)
        return refuse(&reader, "", "the body must be a JSON object");
    TRY(read_model(&reader, served_name));
    TRY(read_unsupported(&reader));
    TRY(read_stream(&reader, parameters));
    TRY(read_limits(&reader, chat, defaults, parameters));
    TRY(read_sampling(&reader, defaults, seed, &parameters->sampling));
    TRY(read_logprobs(&reader, chat, parameters));
    TRY(read_bias(&reader, config->vocabulary, parameters));
    TRY(read_stops(&reader, config->vocabulary, parameters));
    TRY(read_tool_choice(&reader));
    return read_bool(&reader, "parallel_tool_calls", &parameters->parallel_tool_calls);
}

status_t openai_prompt(const document_t *request, uint32_t vocabulary, uint32_t *ids,
                       uint32_t ids_max, uint32_t *id_count, uint32_t *text, openai_error_t *error)
{
    reader_t reader = {request, error};
    uint32_t prompt = member(&reader, "prompt"), first;

    *text = DOCUMENT_NONE;
    *id_count = 0;
    if (!prompt)
        return refuse(&reader, "prompt", "prompt must be a string or an array of token ids");
    if (document_kind(request, prompt) == DOCUMENT_STRING) {
        *text = prompt;
        return STATUS_OK;
    }
    if (document_kind(request, prompt) != DOCUMENT_ARRAY)
        return refuse(&reader, "prompt", "prompt must be a string or an array of token ids");
    first = document_next(request, prompt, DOCUMENT_NONE);
    if (first && document_kind(request, first) == DOCUMENT_STRING) {
        if (document_next(request, prompt, first))
            return refuse(&reader, "prompt", "one prompt a request: ask several times for several");
        *text = first;
        return STATUS_OK;
    }
    for (uint32_t item = first; item; item = document_next(request, prompt, item)) {
        double id;

        if (!node_number(request, item, &id) || id != floor(id) || id < 0 || id >= vocabulary)
            return refuse(&reader, "prompt", "an item of prompt is no token id of this model");
        if (*id_count == ids_max)
            return refuse(&reader, "prompt", "the prompt is longer than the context");
        ids[(*id_count)++] = (uint32_t)id;
    }
    if (*id_count == 0)
        return refuse(&reader, "prompt", "the prompt is empty");
    return STATUS_OK;
}

static uint32_t sooner(uint32_t a_ms, uint32_t b_ms)
{
    return b_ms != 0 && (a_ms == 0 || b_ms < a_ms) ? b_ms : a_ms;
}

status_t openai_timeout(const char *header, uint32_t limit_ms, openai_parameters_t *parameters,
                        openai_error_t *error)
{
    char *end = NULL;
    unsigned long long ms = header ? strtoull(header, &end, 10) : 0;

    if (header && (*header < '0' || *header > '9' || *end || ms > UINT32_MAX)) {
        openai_error_set(error, 400, OPENAI_TIMEOUT_HEADER, "%s must be a number of milliseconds",
                         OPENAI_TIMEOUT_HEADER);
        return FAIL(STATUS_INVALID, "%s", error->message);
    }
    parameters->timeout_ms = sooner(parameters->timeout_ms, sooner(limit_ms, (uint32_t)ms));
    return STATUS_OK;
}
