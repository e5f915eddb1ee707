#include "actors/gateway/openai.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES_MAX = 64, TOOLS_MAX = 1024 };

#define DOUBLE_WHOLE_MAX 9007199254740992.0 /* 2^53: up to it every whole number is a double */

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

/* Exact, where the number is written as a whole one; 1e3 and 5.0 are whole too. From -2^63 to 2^64 - 1. */
static status_t read_seed(const reader_t *reader, uint64_t *seed)
{
    uint32_t node = member(reader, "seed");
    const document_node_t *at = &reader->request->nodes[node];
    char digits[NUMBER_BYTES_MAX + 1], *end;
    size_t bytes = at->end - at->start;
    double number;

    if (!node)
        return STATUS_OK;
    if (node_number(reader->request, node, &number) && number == floor(number)) {
        memcpy(digits, reader->request->text + at->start, bytes);
        digits[bytes] = '\0';
        errno = 0;
        *seed = digits[0] == '-' ? (uint64_t)strtoll(digits, &end, 10) : strtoull(digits, &end, 10);
        if (errno == 0 && *end == '\0')
            return STATUS_OK;
        if (errno == 0 && fabs(number) <= DOUBLE_WHOLE_MAX) {
            *seed = (uint64_t)(int64_t)number;
            return STATUS_OK;
        }
    }
    openai_error_set(reader->error, 400, "seed",
                     "seed must be a whole number from -2^63 to 2^64 - 1");
    return FAIL(STATUS_INVALID, "%s", reader->error->message);
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
    uint32_t node = member(reader, "model");

    if (!node)
        return STATUS_OK; /* there is one only */
    if (document_kind(reader->request, node) != DOCUMENT_STRING)
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
    static const char *const names[] = {
        "echo",           "suffix",       "functions",     "function_call",  "audio",
        "guided_json",    "guided_regex", "guided_choice", "guided_grammar", "structured_outputs",
        "structural_tag", "regex",        "ebnf",          "json_schema",    "prompt_logprobs"};
    int64_t count = 1, best_of = 1;

    TRY(read_integer(reader, "n", 1, 128, &count));
    TRY(read_integer(reader, "best_of", 1, 128, &best_of));
    if (count != 1)
        return refuse(reader, "n", "n must be 1: ask several times for several answers");
    if (best_of != count)
        return refuse(reader, "best_of", "best_of must be what n is");
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
        TRY(read_integer(reader, lengths[i], 1, DOUBLE_WHOLE_MAX, &tokens));
        if (member(reader, lengths[i]))
            parameters->length_param = lengths[i];
    }
    TRY(read_integer(reader, "timeout_ms", 1, UINT32_MAX, &timeout_ms));
    TRY(read_bool(reader, "ignore_eos", &ignore_eos));
    /* One beyond all contexts is refused where the prompt's length is known, as any that does not fit. */
    parameters->limits.output_tokens_max = tokens < UINT32_MAX ? (uint32_t)tokens : UINT32_MAX;
    parameters->limits.ignore_eos = ignore_eos;
    parameters->timeout_ms = (uint32_t)timeout_ms;
    return STATUS_OK;
}

static status_t read_sampling(const reader_t *reader, const model_generation_t *defaults,
                              uint64_t seed, record_sampling_t *sampling)
{
    int64_t top_k = defaults->top_k;

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
    TRY(read_seed(reader, &seed));
    if (sampling->top_p == 0) { /* nothing but the best token */
        sampling->top_p = 1;
        sampling->temperature = 0;
    }
    sampling->top_k = top_k < 0 ? 0 : (uint32_t)top_k;
    sampling->seed = seed;
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

/* The string of a node, with a NUL behind it. */
static void node_text(const document_t *request, uint32_t node, text_buffer_t *text)
{
    text_buffer_init(text, DOCUMENT_BYTES_MAX);
    document_put_string(request, node, text);
    text_put(text, "", 1);
}

/* Whether a tool behind `from` (DOCUMENT_NONE: any) has that name. */
static bool is_offered(const document_t *request, uint32_t tools, uint32_t from, uint32_t name)
{
    bool found = false;
    text_buffer_t text;

    node_text(request, name, &text);
    for (uint32_t tool = document_next(request, tools, from);
         tool && !found && text.status == STATUS_OK; tool = document_next(request, tools, tool)) {
        uint32_t other = function_name(request, tool);

        found = other && document_equals(request, other, text.bytes);
    }
    text_buffer_fini(&text);
    return found;
}

/* Each tool has a name of its own; a tool_choice that asks for a call needs tools, and one that names
 * a function needs that one. That such a call comes is not enforced yet, so it is not promised. */
static status_t read_tool_choice(const reader_t *reader)
{
    const document_t *request = reader->request;
    uint32_t choice = member(reader, "tool_choice"), tools = member(reader, "tools"), index = 0;
    uint32_t named = choice ? function_name(request, choice) : DOCUMENT_NONE;
    bool required = choice && document_equals(request, choice, "required");
    char param[64];

    if (tools && document_kind(request, tools) != DOCUMENT_ARRAY)
        return refuse(reader, "tools", "must be an array");
    for (uint32_t tool = tools ? document_next(request, tools, DOCUMENT_NONE) : DOCUMENT_NONE; tool;
         tool = document_next(request, tools, tool), index++) {
        uint32_t name = function_name(request, tool);

        snprintf(param, sizeof(param), "tools[%u].function.name", index);
        if (index >= TOOLS_MAX)
            return refuse(reader, "tools", "more than 1024 tools");
        if (name && is_offered(request, tools, tool, name))
            return refuse(reader, param, "another tool has that name too");
    }
    if ((required || named) && index == 0)
        return refuse(reader, "tool_choice", "asks for a call, and there are no tools");
    if (named && !is_offered(request, tools, DOCUMENT_NONE, named))
        return refuse(reader, "tool_choice", "names a function not in tools");
    if (required || named)
        return refuse(reader, "tool_choice", "a call cannot be enforced yet: use auto or none");
    return STATUS_OK;
}

/* Text is what comes; JSON is not enforced yet, so it is not promised. */
static status_t read_response_format(const reader_t *reader)
{
    uint32_t format = member(reader, "response_format");
    uint32_t type = format ? document_member(reader->request, format, "type") : DOCUMENT_NONE;

    if (!format || (type && document_equals(reader->request, type, "text")))
        return STATUS_OK;
    return refuse(reader, "response_format",
                  "only {\"type\": \"text\"}: JSON cannot be enforced yet");
}

/* Arguments of a call in the history: an object, as JSON text or as it is. */
static status_t read_arguments(const reader_t *reader, uint32_t arguments, const char *param)
{
    text_buffer_t text;
    document_t document = {0};
    status_t status;

    if (!arguments || document_kind(reader->request, arguments) != DOCUMENT_STRING)
        return STATUS_OK; /* the chat encoding says what it may be */
    node_text(reader->request, arguments, &text);
    trail_reset();
    status = text.status != STATUS_OK
                 ? text.status
                 : document_parse(&document, DOCUMENT_STRICT, text.bytes, text.used - 1);
    if (status != STATUS_OK)
        openai_error_set(reader->error, 400, param, "is not a JSON object: %s", trail_text());
    else if (document_kind(&document, 0) != DOCUMENT_OBJECT)
        status = refuse(reader, param, "is not a JSON object: at byte 0 is another value");
    document_fini(&document);
    text_buffer_fini(&text);
    return status;
}

static status_t read_history(const reader_t *reader)
{
    const document_t *request = reader->request;
    uint32_t messages = member(reader, "messages"), message = DOCUMENT_NONE, i = 0;

    if (!messages || document_kind(request, messages) != DOCUMENT_ARRAY)
        return STATUS_OK; /* the chat encoding says so */
    while ((message = document_next(request, messages, message)) != DOCUMENT_NONE) {
        uint32_t calls = document_member(request, message, "tool_calls"), call = DOCUMENT_NONE,
                 j = 0;

        while (calls && document_kind(request, calls) == DOCUMENT_ARRAY &&
               (call = document_next(request, calls, call)) != DOCUMENT_NONE) {
            uint32_t function = document_member(request, call, "function");
            char param[sizeof(reader->error->param)];

            snprintf(param, sizeof(param), "messages[%u].tool_calls[%u].function.arguments", i,
                     j++);
            TRY(read_arguments(
                reader, function ? document_member(request, function, "arguments") : DOCUMENT_NONE,
                param));
        }
        i++;
    }
    return STATUS_OK;
}

/* Who sends a key twice means one of the two, and nobody knows which. */
static status_t read_keys(const reader_t *reader)
{
    uint32_t twin = document_twin(reader->request, 0);
    text_buffer_t name;
    status_t status;

    if (!twin)
        return STATUS_OK;
    node_text(reader->request, twin, &name);
    status = refuse(reader, name.status == STATUS_OK ? name.bytes : "", "is there twice");
    text_buffer_fini(&name);
    return status;
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
    TRY(read_keys(&reader));
    TRY(read_model(&reader, served_name));
    TRY(read_unsupported(&reader));
    TRY(read_stream(&reader, parameters));
    TRY(read_limits(&reader, chat, defaults, parameters));
    TRY(read_sampling(&reader, defaults, seed, &parameters->sampling));
    TRY(read_logprobs(&reader, chat, parameters));
    TRY(read_bias(&reader, config->vocabulary, parameters));
    TRY(read_stops(&reader, config->vocabulary, parameters));
    TRY(read_bool(&reader, "include_stop_str_in_output", &parameters->keep_stop));
    TRY(read_response_format(&reader));
    if (chat) {
        TRY(read_tool_choice(&reader));
        TRY(read_history(&reader));
    }
    return read_bool(&reader, "parallel_tool_calls", &parameters->parallel_tool_calls);
}

/* The array of token ids `list`, into `ids`. */
static status_t read_ids(const reader_t *reader, uint32_t list, uint32_t vocabulary, uint32_t *ids,
                         uint32_t ids_max, uint32_t *id_count)
{
    const document_t *request = reader->request;

    for (uint32_t item = document_next(request, list, DOCUMENT_NONE); item;
         item = document_next(request, list, item)) {
        double id;

        if (!node_number(request, item, &id) || id != floor(id) || id < 0 || id >= vocabulary)
            return refuse(reader, "prompt", "an item of prompt is no token id of this model");
        if (*id_count == ids_max) {
            (void)refuse(reader, "prompt", "the prompt is longer than the context");
            reader->error->code = "context_length_exceeded";
            return STATUS_TOO_LARGE;
        }
        ids[(*id_count)++] = (uint32_t)id;
    }
    return *id_count > 0 ? STATUS_OK : refuse(reader, "prompt", "the prompt is empty");
}

status_t openai_prompt(const document_t *request, uint32_t vocabulary, uint32_t *ids,
                       uint32_t ids_max, uint32_t *id_count, uint32_t *text, openai_error_t *error)
{
    reader_t reader = {request, error};
    uint32_t prompt = member(&reader, "prompt"), first;

    *text = DOCUMENT_NONE;
    *id_count = 0;
    if (prompt && document_kind(request, prompt) == DOCUMENT_STRING) {
        *text = prompt;
        return STATUS_OK;
    }
    if (!prompt || document_kind(request, prompt) != DOCUMENT_ARRAY)
        return refuse(
            &reader, "prompt",
            "prompt must be a string, an array of token ids, or an array of one of these");
    first = document_next(request, prompt, DOCUMENT_NONE);
    if (!first || document_kind(request, first) == DOCUMENT_NUMBER)
        return read_ids(&reader, prompt, vocabulary, ids, ids_max, id_count);
    if (document_next(request, prompt, first))
        return refuse(&reader, "prompt", "one prompt a request: ask several times for several");
    if (document_kind(request, first) == DOCUMENT_ARRAY)
        return read_ids(&reader, first, vocabulary, ids, ids_max, id_count);
    if (document_kind(request, first) != DOCUMENT_STRING)
        return refuse(&reader, "prompt", "an item of prompt is no token id of this model");
    *text = first;
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
