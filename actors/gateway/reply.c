#include "actors/gateway/reply.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "model/utf8.h"

enum { BUFFERS = 10, TOO_LARGE_STATUS = 500, NO_MEMORY_STATUS = 503 };

/* ---- small pieces of JSON -------------------------------------------------------------------- */

static void put_string(text_buffer_t *out, const char *bytes, size_t length)
{
    text_put_text(out, "\"");
    text_put_escaped_text(out, bytes, length);
    text_put_text(out, "\"");
}

static void put_format(text_buffer_t *out, const char *format, ...) PRINTF_LIKE(2, 3);

static void put_format(text_buffer_t *out, const char *format, ...)
{
    char text[256];
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    ASSERT(length >= 0 && (size_t)length < sizeof(text));
    text_put(out, text, (size_t)length);
}

/* JSON has no infinity; this is what others write for a token that cannot be. */
static void put_logprob(text_buffer_t *out, float logprob)
{
    put_format(out, "%.7g", isfinite(logprob) ? (double)logprob : -9999.0);
}

static void put_all(text_buffer_t *out, const text_buffer_t *from)
{
    text_put(out, from->bytes, from->used);
}

static void empty(text_buffer_t *buffer)
{
    buffer->used = 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static answer_sink_t on_answer;

static void buffers_of(reply_t *reply, text_buffer_t *buffers[BUFFERS])
{
    text_buffer_t *const all[BUFFERS] = {
        &reply->out,    &reply->held, &reply->content, &reply->calls,      &reply->logprobs,
        &reply->values, &reply->tops, &reply->offsets, &reply->suppressed, &reply->reasoning};

    memcpy(buffers, all, sizeof(all));
}

status_t reply_init(reply_t *reply, const reply_facts_t *facts)
{
    text_buffer_t *buffers[BUFFERS];
    answer_options_t options = {facts->thinking, facts->tools,
                                facts->parameters->parallel_tool_calls};

    memset(reply, 0, sizeof(*reply));
    reply->facts = *facts;
    snprintf(reply->id, sizeof(reply->id), "%s-%016llx", facts->chat ? "chatcmpl" : "cmpl",
             (unsigned long long)facts->number);
    buffers_of(reply, buffers);
    for (size_t i = 0; i < BUFFERS; i++)
        text_buffer_init(buffers[i], facts->bytes_max);
    answer_init(&reply->answer, &options, on_answer, reply);
    reply->delta = malloc(tokenizer_delta_bytes_max(facts->tokenizer));
    return reply->delta ? STATUS_OK : FAIL(STATUS_NO_MEMORY, "no memory for an answer");
}

void reply_fini(reply_t *reply)
{
    text_buffer_t *buffers[BUFFERS];

    answer_fini(&reply->answer);
    buffers_of(reply, buffers);
    for (size_t i = 0; i < BUFFERS; i++)
        text_buffer_fini(buffers[i]);
    free(reply->delta);
}

/* The first failure of a buffer becomes the answer's, and nothing stays that was cut by it: of `out`
 * what it held before, of all others nothing. */
static void settle(reply_t *reply, size_t out_before)
{
    text_buffer_t *buffers[BUFFERS];

    buffers_of(reply, buffers);
    for (size_t i = 0; i < BUFFERS && reply->status == STATUS_OK; i++)
        reply->status = buffers[i]->status;
    if (reply->status == STATUS_OK)
        return;
    for (size_t i = 0; i < BUFFERS; i++)
        if (buffers[i] != &reply->out)
            text_buffer_fini(buffers[i]);
    reply->out.used = out_before;
    reply->out.status = STATUS_OK;
}

/* ---- logprobs -------------------------------------------------------------------------------- */

/* The token's own text as a JSON string; of one that is no whole characters its bytes, of one that stands
 * for nothing its id, so that no two tokens look alike: "bytes:\\xe6\\x97", "token_id:7". */
static void put_token_text(const reply_t *reply, text_buffer_t *out, uint32_t token)
{
    size_t length, broken_at;
    const char *piece = tokenizer_piece(reply->facts.tokenizer, token, &length);

    if (length == 0) {
        put_format(out, "\"token_id:%u\"", token);
        return;
    }
    if (utf8_check(piece, length, &broken_at)) {
        put_string(out, piece, length);
        return;
    }
    text_put_text(out, "\"bytes:");
    for (size_t i = 0; i < length; i++)
        put_format(out, "\\\\x%02x", (unsigned char)piece[i]);
    text_put_text(out, "\"");
}

static void put_token_entry(reply_t *reply, text_buffer_t *out, uint32_t token, float logprob)
{
    size_t length;
    const char *piece = tokenizer_piece(reply->facts.tokenizer, token, &length);

    text_put_text(out, "{\"token\": ");
    put_token_text(reply, out, token);
    text_put_text(out, ", \"logprob\": ");
    put_logprob(out, logprob);
    text_put_text(out, ", \"bytes\": [");
    for (size_t i = 0; i < length; i++)
        put_format(out, "%s%u", i ? ", " : "", (unsigned char)piece[i]);
    text_put_text(out, "]");
}

static void add_chat_logprob(reply_t *reply, const record_token_t *token)
{
    text_buffer_t *out = &reply->logprobs;

    if (out->used)
        text_put_text(out, ", ");
    put_token_entry(reply, out, token->token, token->logprob);
    text_put_text(out, ", \"top_logprobs\": [");
    for (uint32_t i = 0; i < token->top_tokens.count; i++) {
        text_put_text(out, i ? ", " : "");
        put_token_entry(reply, out, token->top_tokens.data[i], token->top_logprobs.data[i]);
        text_put_text(out, "}");
    }
    text_put_text(out, "]}");
}

static void add_completion_logprob(reply_t *reply, const record_token_t *token)
{
    const char *comma = reply->logprobs.used ? ", " : "";

    text_put_text(&reply->logprobs, comma);
    put_token_text(reply, &reply->logprobs, token->token);
    text_put_text(&reply->values, comma);
    put_logprob(&reply->values, token->logprob);
    put_format(&reply->offsets, "%s%u", comma, reply->characters);
    text_put_text(&reply->tops, comma);
    text_put_text(&reply->tops, "{");
    for (uint32_t i = 0; i < token->top_tokens.count; i++) {
        text_put_text(&reply->tops, i ? ", " : "");
        put_token_text(reply, &reply->tops, token->top_tokens.data[i]);
        text_put_text(&reply->tops, ": ");
        put_logprob(&reply->tops, token->top_logprobs.data[i]);
    }
    text_put_text(&reply->tops, "}");
}

/* `"logprobs": ...` of a choice, with what has come since the last one. Who asked for them gets an
 * object at the latest in the last choice, be it empty. */
static void put_logprobs(reply_t *reply, text_buffer_t *out, bool last)
{
    bool owed = reply->logprobs.used || (last && !reply->logprobs_told);

    if (!reply->facts.parameters->logprobs || !owed) {
        text_put_text(out, "\"logprobs\": null");
        return;
    }
    reply->logprobs_told = true;
    if (reply->facts.chat) {
        text_put_text(out, "\"logprobs\": {\"content\": [");
        put_all(out, &reply->logprobs);
        text_put_text(out, "]}");
    } else {
        text_put_text(out, "\"logprobs\": {\"tokens\": [");
        put_all(out, &reply->logprobs);
        text_put_text(out, "], \"token_logprobs\": [");
        put_all(out, &reply->values);
        text_put_text(out, "], \"top_logprobs\": [");
        put_all(out, &reply->tops);
        text_put_text(out, "], \"text_offset\": [");
        put_all(out, &reply->offsets);
        text_put_text(out, "]}");
    }
    empty(&reply->logprobs);
    empty(&reply->values);
    empty(&reply->tops);
    empty(&reply->offsets);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static void put_head(reply_t *reply, text_buffer_t *out)
{
    const char *object = !reply->facts.chat                ? "text_completion"
                         : reply->facts.parameters->stream ? "chat.completion.chunk"
                                                           : "chat.completion";

    put_format(out,
               "{\"id\": \"%s\", \"object\": \"%s\", \"created\": %llu, \"model\": ", reply->id,
               object, (unsigned long long)reply->facts.created);
    put_string(out, reply->facts.model, strlen(reply->facts.model));
}

static void chunk_begin(reply_t *reply)
{
    text_put_text(&reply->out, "data: ");
    put_head(reply, &reply->out);
    text_put_text(&reply->out, ", \"choices\": [{\"index\": 0, ");
    text_put_text(&reply->out, reply->facts.chat ? "\"delta\": {" : "\"text\": ");
}

/* What ended the choice, and what was kept from it. */
static void put_finish(reply_t *reply, const char *finish)
{
    text_buffer_t *out = &reply->out;

    put_format(out, ", \"finish_reason\": \"%s\"", finish);
    if (reply->stop) {
        text_put_text(out, ", \"stop_reason\": ");
        put_string(out, reply->stop, reply->stop_bytes);
    } else if (reply->stop_token) {
        put_format(out, ", \"stop_reason\": %u", reply->stop_token - 1);
    }
    if (reply->suppressed_count) {
        text_put_text(out, ", \"suppressed\": [");
        put_all(out, &reply->suppressed);
        text_put_text(out, "]");
    }
}

static void chunk_end(reply_t *reply, const char *finish)
{
    text_put_text(&reply->out, reply->facts.chat ? "}, " : ", ");
    put_logprobs(reply, &reply->out, finish != NULL);
    if (finish)
        put_finish(reply, finish);
    else
        text_put_text(&reply->out, ", \"finish_reason\": null");
    text_put_text(&reply->out, "}]}\n\n");
}

static void chunk_role(reply_t *reply)
{
    if (reply->begun || !reply->facts.chat)
        return;
    reply->begun = true;
    chunk_begin(reply);
    text_put_text(&reply->out, "\"role\": \"assistant\", \"content\": \"\"");
    text_put_text(&reply->out, "}, \"logprobs\": null, \"finish_reason\": null}]}\n\n");
}

static void put_call_head(reply_t *reply, text_buffer_t *out, const answer_event_t *event)
{
    put_format(out,
               "\"id\": \"call_%016llx_%u\", \"type\": \"function\", \"function\": {\"name\": ",
               (unsigned long long)reply->facts.number, event->call);
    put_string(out, event->text, event->length);
    text_put_text(out, ", \"arguments\": \"");
}

static void stream_event(reply_t *reply, const answer_event_t *event)
{
    text_buffer_t *out = &reply->out;

    chunk_role(reply);
    chunk_begin(reply);
    switch (event->kind) {
    case ANSWER_REASONING:
        text_put_text(out, "\"reasoning_content\": ");
        put_string(out, event->text, event->length);
        break;
    case ANSWER_CALL:
        put_format(out, "\"tool_calls\": [{\"index\": %u, ", event->call);
        put_call_head(reply, out, event);
        text_put_text(out, "\"}}]");
        break;
    case ANSWER_ARGUMENTS:
        put_format(out,
                   "\"tool_calls\": [{\"index\": %u, \"function\": {\"arguments\": ", event->call);
        put_string(out, event->text, event->length);
        text_put_text(out, "}}]");
        break;
    default:
        text_put_text(out, "\"content\": ");
        put_string(out, event->text, event->length);
        break;
    }
    chunk_end(reply, NULL);
}

static void collect_event(reply_t *reply, const answer_event_t *event)
{
    switch (event->kind) {
    case ANSWER_REASONING:
        text_put(&reply->reasoning, event->text, event->length);
        break;
    case ANSWER_CALL:
        text_put_text(&reply->calls, event->call ? "\"}}, {" : "{");
        put_call_head(reply, &reply->calls, event);
        break;
    case ANSWER_ARGUMENTS:
        text_put_escaped_text(&reply->calls, event->text, event->length);
        break;
    default:
        text_put(&reply->content, event->text, event->length);
        break;
    }
}

static void pass_stops(reply_t *reply, const char *text, size_t length);
static void show_held(reply_t *reply);

static void on_answer(void *context, const answer_event_t *event)
{
    reply_t *reply = context;

    if (reply->stopped)
        return; /* behind a stop string */
    if (event->kind == ANSWER_CONTENT) {
        pass_stops(reply, event->text, event->length);
        return;
    }
    /* A begun stop string waits for more content, behind a call as well: content never has a whole one. */
    if (event->kind == ANSWER_SUPPRESSED) {
        text_put_text(&reply->suppressed, reply->suppressed_count++ ? ", " : "");
        put_string(&reply->suppressed, event->text, event->length);
        return;
    }
    if (event->kind == ANSWER_CALL)
        reply->call_count++;
    if (reply->facts.parameters->stream)
        stream_event(reply, event);
    else
        collect_event(reply, event);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Content that no stop string can take back any more. */
static void show(reply_t *reply, const char *text, size_t length)
{
    const answer_event_t event = {.kind = ANSWER_CONTENT, .text = text, .length = length};

    if (length == 0)
        return;
    if (reply->facts.chat && reply->facts.parameters->stream) {
        stream_event(reply, &event);
    } else if (reply->facts.parameters->stream) {
        chunk_begin(reply);
        put_string(&reply->out, text, length);
        chunk_end(reply, NULL);
    } else {
        text_put(&reply->content, text, length);
    }
}

/* Length of the longest end of `text` that could be the beginning of a stop string. */
static size_t open_suffix(const openai_parameters_t *parameters, const char *text, size_t length)
{
    size_t longest = 0;

    for (uint32_t i = 0; i < parameters->stop_count; i++) {
        size_t most = parameters->stops[i].bytes - 1;

        for (size_t n = most < length ? most : length; n > longest; n--) {
            if (memcmp(text + length - n, parameters->stops[i].text, n) == 0) {
                longest = n;
                break;
            }
        }
    }
    return longest;
}

/* The stop string that is whole first, and of those the longest: this does not depend on how the text was
 * cut. Sets *end to the byte behind it. NULL: none is there. */
static const char *find_stop(const reply_t *reply, size_t *end, uint32_t *stop)
{
    const openai_parameters_t *parameters = reply->facts.parameters;
    const text_buffer_t *held = &reply->held;
    const char *first = NULL;

    for (uint32_t i = 0; i < parameters->stop_count; i++) {
        const char *found =
            memmem(held->bytes, held->used, parameters->stops[i].text, parameters->stops[i].bytes);
        size_t behind = found ? (size_t)(found - held->bytes) + parameters->stops[i].bytes : 0;

        if (!found || (first && (behind > *end || (behind == *end && found >= first))))
            continue;
        first = found;
        *end = behind;
        *stop = i;
    }
    return first;
}

static void pass_stops(reply_t *reply, const char *text, size_t length)
{
    const openai_parameters_t *parameters = reply->facts.parameters;
    text_buffer_t *held = &reply->held;
    size_t keep, end = 0;
    uint32_t stop = 0;
    const char *first;

    if (parameters->stop_count == 0) {
        show(reply, text, length);
        return;
    }
    text_put(held, text, length);
    if (held->used == 0)
        return;
    first = find_stop(reply, &end, &stop);
    if (first) {
        reply->stopped = true;
        reply->stop = parameters->stops[stop].text;
        reply->stop_bytes = parameters->stops[stop].bytes;
        show(reply, held->bytes, parameters->keep_stop ? end : (size_t)(first - held->bytes));
        empty(held);
        return;
    }
    keep = open_suffix(parameters, held->bytes, held->used);
    show(reply, held->bytes, held->used - keep);
    memmove(held->bytes, held->bytes + held->used - keep, keep);
    held->used = keep;
}

static void show_held(reply_t *reply)
{
    show(reply, reply->held.bytes, reply->held.used);
    empty(&reply->held);
}

/* Text of the model, on its way to the client. */
static void take_text(reply_t *reply, const char *text, size_t length)
{
    if (!reply->facts.chat)
        pass_stops(reply, text, length);
    else if (answer_feed(&reply->answer, text, length) != STATUS_OK)
        reply->status = STATUS_NO_MEMORY;
}

static bool is_among(const uint32_t *tokens, uint32_t count, uint32_t token)
{
    for (uint32_t i = 0; i < count; i++)
        if (tokens[i] == token)
            return true;
    return false;
}

static void put_token(reply_t *reply, const record_token_t *token)
{
    const record_limits_t *limits = &reply->facts.parameters->limits;
    const bool is_end = is_among(reply->facts.end_tokens, reply->facts.end_count, token->token);
    size_t length;

    reply->completion_tokens++;
    if (is_end && !limits->ignore_eos)
        return; /* it says that the text ends; it is no text */
    if (is_among(limits->stop_tokens.data, limits->stop_tokens.count, token->token)) {
        reply->stop_token = token->token + 1;
        return;
    }
    if (reply->facts.parameters->logprobs && reply->facts.chat)
        add_chat_logprob(reply, token);
    if (reply->facts.parameters->logprobs && !reply->facts.chat)
        add_completion_logprob(reply, token);
    if (is_end)
        return; /* ignored, and no text either; but drawn like any other */
    length = tokenizer_decode(reply->facts.tokenizer, &reply->decoder, token->token, reply->delta);
    for (size_t i = 0; i < length; i++)
        reply->characters += (reply->delta[i] & 0xc0) != 0x80;
    take_text(reply, reply->delta, length);
}

void reply_token(reply_t *reply, const record_token_t *token)
{
    size_t before = reply->out.used;

    if (reply->stopped || reply->ended || reply->status != STATUS_OK)
        return; /* it was on its way when the answer ended */
    put_token(reply, token);
    settle(reply, before);
}

/* ---- the end --------------------------------------------------------------------------------- */

bool reply_is_regular(end_reason_t reason)
{
    return reason == END_STOP || reason == END_LENGTH || reason == END_STOPPED;
}

unsigned reply_status(end_reason_t reason)
{
    switch (reason) {
    case END_OVERLOADED:
        return 429;
    case END_REFUSED:
        return 400;
    case END_DEADLINE:
        return 408;
    case END_POISONED:
        return 500;
    default:
        return 503;
    }
}

void reply_put_error(text_buffer_t *out, const openai_error_t *error)
{
    text_put_text(out, "{\"error\": {\"message\": ");
    put_string(out, error->message, strlen(error->message));
    put_format(out, ", \"type\": \"%s\", \"param\": ", error->type);
    if (error->param[0])
        put_string(out, error->param, strlen(error->param));
    else
        text_put_text(out, "null");
    if (error->code)
        put_format(out, ", \"code\": \"%s\"}}", error->code);
    else
        text_put_text(out, ", \"code\": null}}");
}

/* Returns the status of the error. */
static unsigned put_end_error(reply_t *reply, end_reason_t reason, const char *detail)
{
    openai_error_t error;

    if (reply->status != STATUS_OK)
        reason = END_ABORTED; /* by this port, whatever came first */
    if (reply->status == STATUS_TOO_LARGE) {
        openai_error_set(&error, TOO_LARGE_STATUS, "",
                         "the answer has more than %zu bytes that cannot be sent in pieces",
                         reply->facts.bytes_max);
        error.code = "answer_too_large";
    } else if (reply->status != STATUS_OK) {
        openai_error_set(&error, NO_MEMORY_STATUS, "", "there is no memory for the answer");
    } else {
        openai_error_set(&error, reply_status(reason), "", "%s",
                         detail[0] ? detail : "the answer was given up");
    }
    if (reason == END_OVERLOADED) {
        error.type = "overloaded_error";
        error.code = "overloaded";
    }
    if (reason == END_DEADLINE) {
        error.type = "timeout_error";
        error.code = "request_timeout";
    }
    if (reply->streaming)
        text_put_text(&reply->out, "data: ");
    reply_put_error(&reply->out, &error);
    if (reply->streaming)
        text_put_text(&reply->out, "\n\n");
    return error.status;
}

static void put_usage(reply_t *reply, uint32_t cached_tokens)
{
    put_format(
        &reply->out,
        "\"usage\": {\"prompt_tokens\": %u, \"completion_tokens\": %u, \"total_tokens\": %u, "
        "\"prompt_tokens_details\": {\"cached_tokens\": %u}}",
        reply->facts.prompt_tokens, reply->completion_tokens,
        reply->facts.prompt_tokens + reply->completion_tokens, cached_tokens);
}

static void put_stream_end(reply_t *reply, const char *finish, uint32_t cached_tokens)
{
    chunk_role(reply);
    chunk_begin(reply);
    if (!reply->facts.chat)
        text_put_text(&reply->out, "\"\"");
    chunk_end(reply, finish);
    if (reply->facts.parameters->include_usage) {
        text_put_text(&reply->out, "data: ");
        put_head(reply, &reply->out);
        text_put_text(&reply->out, ", \"choices\": [], ");
        put_usage(reply, cached_tokens);
        text_put_text(&reply->out, "}\n\n");
    }
    text_put_text(&reply->out, "data: [DONE]\n\n");
}

static void put_message(reply_t *reply)
{
    text_buffer_t *out = &reply->out;

    text_put_text(out, "\"message\": {\"role\": \"assistant\", \"content\": ");
    if (reply->call_count && reply->content.used == 0)
        text_put_text(out, "null");
    else
        put_string(out, reply->content.bytes, reply->content.used);
    if (reply->reasoning.used) {
        text_put_text(out, ", \"reasoning_content\": ");
        put_string(out, reply->reasoning.bytes, reply->reasoning.used);
    }
    if (reply->call_count) {
        text_put_text(out, ", \"tool_calls\": [");
        put_all(out, &reply->calls);
        text_put_text(out, "\"}}]");
    }
    text_put_text(out, "}");
}

static void put_whole(reply_t *reply, const char *finish, uint32_t cached_tokens)
{
    text_buffer_t *out = &reply->out;

    put_head(reply, out);
    text_put_text(out, ", \"choices\": [{\"index\": 0, ");
    if (reply->facts.chat) {
        put_message(reply);
    } else {
        text_put_text(out, "\"text\": ");
        put_string(out, reply->content.bytes, reply->content.used);
    }
    text_put_text(out, ", ");
    put_logprobs(reply, out, true);
    put_finish(reply, finish);
    text_put_text(out, "}], ");
    put_usage(reply, cached_tokens);
    text_put_text(out, "}");
}

static void put_end(reply_t *reply, end_reason_t reason, uint32_t cached_tokens)
{
    static const char *const finishes[] = {"stop", "tool_calls", "length"};
    answer_reason_t finish;

    if (!reply->stopped) {
        size_t length = tokenizer_decode_end(&reply->decoder, reply->delta);

        take_text(reply, reply->delta, length);
    }
    if (reply->stopped)
        reason = END_STOPPED;
    finish = reason == END_LENGTH ? ANSWER_LENGTH : ANSWER_STOP;
    if (reply->facts.chat &&
        answer_finish(&reply->answer,
                      reason == END_LENGTH ? ANSWER_ENDED_BY_LENGTH : ANSWER_ENDED_BY_EOS,
                      &finish) != STATUS_OK)
        reply->status = STATUS_NO_MEMORY;
    show_held(reply);
    if (reply->stopped) /* behind content, so each call that was sent is whole; others were not */
        finish = reply->call_count ? ANSWER_TOOL_CALLS : ANSWER_STOP;
    if (reply->facts.parameters->stream)
        put_stream_end(reply, finishes[finish], cached_tokens);
    else
        put_whole(reply, finishes[finish], cached_tokens);
}

unsigned reply_end(reply_t *reply, end_reason_t reason, uint32_t cached_tokens, const char *detail)
{
    size_t before = reply->out.used;

    ASSERT(!reply->ended);
    reply->ended = true;
    if (reply->stopped)
        reason = END_STOPPED;
    if (reply->status == STATUS_OK && reply_is_regular(reason)) {
        put_end(reply, reason, cached_tokens);
        settle(reply, before);
    }
    if (reply->status == STATUS_OK && reply_is_regular(reason))
        return 200;
    return put_end_error(reply, reason, detail);
}
