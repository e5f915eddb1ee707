/* connections.c - one client's request, from its text to the last byte of its answer.
 *
 * A stream is written when its socket has room: tokens wait as numbers, never as text.
 * So a client that reads slowly costs what was reserved for it and delays nobody.
 *
 *   read ──ids──> begin ──tokens──> (streaming) ──CLIENT_END──> last bytes ──> done
 *     │             └─ the client leaves: CLIENT_ABORT; later tokens name nobody and are dropped
 *     └─ the client leaves: nobody waits for what is read
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "actors/gateway/port.h"
#include "runtime/base/random.h"

/* Seeds are what a client could have given: integers that JSON keeps. */
enum { SEED_SHIFT = 11 };

/* Of the HTTP server, for the last bytes of all: it resumes, writes, and sees what is left. */
enum { CLOSING_TURNS = 8 };

/* ---- clients --------------------------------------------------------------------------------- */

static client_t *client_take(port_state_t *self)
{
    for (uint32_t i = 1; i < self->client_max; i++) {
        if (self->clients[i].id)
            continue;
        self->clients[i] = (client_t){.id = ++self->serial << CLIENT_BITS | i};
        self->metrics.open++;
        return &self->clients[i];
    }
    return NULL;
}

static client_t *client_of(port_state_t *self, uint64_t id)
{
    client_t *client = &self->clients[(id & ((1u << CLIENT_BITS) - 1)) % self->client_max];

    return id != GATEWAY_PROBE && client->id == id ? client : NULL;
}

static void client_return(port_state_t *self, client_t *client)
{
    reply_fini(&client->reply);
    pending_fini(&client->pending);
    client->id = 0;
    self->metrics.open--;
    if (self->closing && self->metrics.open == 0)
        process_stop(self->process);
}

void client_abort(port_state_t *self, client_t *client, end_reason_t reason)
{
    message_client_abort_t abort = {client->id, (uint8_t)reason};

    if (!client->abort_said && !client->ended)
        process_post(self->process, PORT_CLIENT, MESSAGE_client_abort, &abort);
    client->abort_said = true;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void client_token(port_state_t *self, client_t *client, const record_token_t *token)
{
    reply_token(&client->reply, token);
    if (client->reply.stopped)
        client_abort(self, client, END_STOPPED);
    if (client->reply.status != STATUS_OK)
        client_abort(self, client, END_ABORTED);
}

/* One more piece of the stream into reply.out; false if there is none now. */
static bool client_produce(port_state_t *self, client_t *client)
{
    record_token_t token;

    if (pending_take(&client->pending, &token)) {
        client_token(self, client, &token);
        return true;
    }
    if (client->ended && !client->reply.ended) {
        (void)reply_end(&client->reply, (end_reason_t)client->reason, client->cached_tokens,
                        client->detail); /* the stream has its status */
        return true;
    }
    return false;
}

/* Fills the stream as far as it has room. */
static void client_pump(port_state_t *self, client_t *client)
{
    text_buffer_t *out = &client->reply.out;

    while (client->streaming) {
        size_t room = http_stream_room(client->exchange);
        size_t left = out->used - client->sent;

        if (out->status != STATUS_OK) { /* not even the error could be written */
            http_drop(client->exchange);
            client->streaming = false;
        } else if (left > 0 && room > 0) {
            http_stream_write(client->exchange, out->bytes + client->sent,
                              left < room ? left : room);
            client->sent += left < room ? left : room;
        } else if (left > 0) {
            break;
        } else if (client->reply.ended) {
            http_stream_end(client->exchange);
            client->streaming = false;
        } else {
            out->used = client->sent = 0;
            if (!client_produce(self, client))
                break;
        }
    }
}

/* Only now is it sure that the status is 200. */
static void client_begin_stream(client_t *client)
{
    if (client->reply.streaming)
        return;
    client->streaming = client->reply.streaming = true;
    http_stream_begin(client->exchange, 200, "text/event-stream");
}

static void answer_whole(client_t *client)
{
    unsigned status = reply_end(&client->reply, (end_reason_t)client->reason, client->cached_tokens,
                                client->detail);

    if (status == 500) /* clients of the API ask again by themselves after a 500 */
        http_header_add(client->exchange, "x-should-retry", "false");
    http_answer_text(client->exchange, status, "application/json", &client->reply.out);
}

/* ---- what the gateway says ------------------------------------------------------------------- */

static void take_token(port_state_t *self, client_t *client, const record_token_t *token)
{
    if (!client->streaming) {
        client_token(self, client, token);
    } else if (!pending_put(&client->pending, token)) {
        pending_fini(
            &client->pending); /* without this one nothing behind the last sent may follow */
        client->reply.status = STATUS_NO_MEMORY;
        client_abort(self, client, END_ABORTED);
    }
}

void client_tokens(port_state_t *self, const message_client_tokens_t *m)
{
    client_t *client = client_of(self, m->client);

    if (!client)
        return; /* it left */
    metrics_observe(client->told_at > 0 ? &self->metrics.next_token : &self->metrics.first_token,
                    port_now(self) - (client->told_at > 0 ? client->told_at : client->came_at));
    client->told_at = port_now(self);
    client->received += m->tokens.count;
    self->metrics.completion_tokens += m->tokens.count;
    if (client->parameters.stream)
        client_begin_stream(client);
    for (uint32_t i = 0; i < m->tokens.count; i++)
        take_token(self, client, &m->tokens.data[i]);
    client_pump(self, client);
}

void client_end(port_state_t *self, const message_client_end_t *m)
{
    client_t *client = client_of(self, m->client);

    if (m->reason < END_REASON_COUNT)
        self->metrics.requests[m->reason]++;
    if (!client)
        return;
    client->ended = true;
    client->reason = m->reason;
    client->cached_tokens = m->cached_tokens;
    snprintf(client->detail, sizeof(client->detail), "%.*s", (int)m->detail.count,
             m->detail.count ? m->detail.data : "");
    if (client->by_operator && m->reason == END_ABORTED)
        snprintf(client->detail, sizeof(client->detail), "ended by the operator");
    self->metrics.prompt_tokens += client->reply.facts.prompt_tokens;
    self->metrics.cached_tokens += m->cached_tokens;
    metrics_observe(&self->metrics.whole, port_now(self) - client->came_at);
    if (client->parameters.stream && reply_is_regular((end_reason_t)m->reason))
        client_begin_stream(client);
    if (client->reply.streaming)
        client_pump(self, client);
    else
        answer_whole(client);
    self->metrics.suppressed += client->reply.suppressed_count > 0;
    self->metrics.nonstandard += client->reply.answer.nonstandard > 0;
}

/* ---- a client comes and goes ----------------------------------------------------------------- */

static void submit(port_state_t *self, client_t *client)
{
    message_client_request_t request = {
        .client = client->id,
        .prompt = {client->job->ids, client->job->id_count},
        .sampling = client->parameters.sampling,
        .limits = client->parameters.limits,
        .salt = client->parameters.salt,
        .deadline_ms = client->parameters.timeout_ms,
    };

    process_post(self->process, PORT_CLIENT, MESSAGE_client_request, &request);
}

/* A default length goes as far as the context does. */
static status_t check_lengths(const port_state_t *self, text_job_t *job)
{
    uint32_t context = self->topology->context_tokens, *wanted;
    uint32_t most = job->id_count < context ? context - job->id_count : 0;
    const char *param = job->parameters.length_param;

    wanted = &job->parameters.limits.output_tokens_max;
    if (most == 0 || (param && *wanted > most)) {
        openai_error_set(&job->error, 400,
                         most > 0    ? param
                         : job->chat ? "messages"
                                     : "prompt",
                         "the prompt has %u tokens, the answer may have %u, the context is %u",
                         job->id_count, *wanted, context);
        job->error.code = "context_length_exceeded";
        return FAIL(STATUS_INVALID, "%s", job->error.message);
    }
    if (*wanted == 0 || *wanted > most)
        *wanted = most;
    return STATUS_OK;
}

static status_t check_poisoned(const port_state_t *self, client_t *client)
{
    text_job_t *job = client->job;
    const message_client_request_t request = {.prompt = {job->ids, job->id_count},
                                              .sampling = job->parameters.sampling,
                                              .limits = job->parameters.limits};

    if (!poisoned_knows(&self->known, &request, port_now(self)))
        return STATUS_OK;
    openai_error_set(&job->error, 500, "", "this request stopped its group a short time ago");
    http_header_add(client->exchange, "x-should-retry", "false");
    return FAIL(STATUS_REFUSED, "%s", job->error.message);
}

static status_t begin_reply(port_state_t *self, client_t *client)
{
    text_job_t *job = client->job;
    bool own = self->generation.eos_count > 0;
    reply_facts_t facts = {
        .tokenizer = self->tokenizer,
        .parameters = &client->parameters,
        .model = self->topology->served_name,
        .end_tokens = own ? self->generation.eos_tokens : self->config.eos_tokens,
        .end_count = own ? self->generation.eos_count : self->config.eos_count,
        .created = (uint64_t)time(NULL),
        .number = random_mix(self->seed ^ client->id),
        .chat = job->chat,
        .thinking = job->thinking,
        .tools = job->tools,
        .prompt_tokens = job->id_count,
        .bytes_max = REPLY_BYTES_MAX,
    };

    client->parameters = job->parameters;
    client->parameters.limits.stop_tokens.data = client->parameters.stop_tokens;
    client->parameters.sampling.bias_tokens.data = client->parameters.bias_tokens;
    client->parameters.sampling.bias_values.data = client->parameters.bias_values;
    client->pending.logprobs = client->parameters.logprobs;
    if (reply_init(&client->reply, &facts) == STATUS_OK)
        return STATUS_OK;
    openai_error_set(&job->error, 503, "", "out of memory");
    return STATUS_NO_MEMORY;
}

/* Its text was read. */
static void begin(port_state_t *self, client_t *client)
{
    text_job_t *job = client->job;
    http_exchange_t *exchange = client->exchange;

    if (job->status == STATUS_OK)
        job->status = openai_timeout(http_header(exchange, OPENAI_TIMEOUT_HEADER),
                                     (uint32_t)self->topology->request_timeout_ms, &job->parameters,
                                     &job->error);
    if (job->status == STATUS_OK)
        job->status = check_lengths(self, job);
    if (job->status == STATUS_OK)
        job->status = check_poisoned(self, client);
    if (job->status == STATUS_OK)
        job->status = begin_reply(self, client);
    if (job->status == STATUS_OK) {
        submit(self, client);
    } else {
        http_user_set(exchange, NULL);
        routes_error(self, exchange, &job->error);
        client_return(self, client);
    }
    client->job = NULL;
    text_job_free(job);
}

void client_texts_done(port_state_t *self)
{
    text_job_t *job;

    while ((job = text_pool_take(self->texts)) != NULL) {
        if (job->owner)
            begin(self, job->owner);
        else
            text_job_free(job); /* the client left */
    }
}

/* Too many at once is told by the same words, whatever there is no room for. */
static void refuse_load(port_state_t *self, http_exchange_t *exchange, const char *what)
{
    openai_error_t error;

    openai_error_set(&error, 429, "", "too many %s at once", what);
    error.type = "overloaded_error";
    routes_error(self, exchange, &error);
}

void client_read(port_state_t *self, http_exchange_t *exchange, bool chat)
{
    client_t *client = self->closing ? NULL : client_take(self);
    text_job_t *job = client ? calloc(1, sizeof(*job)) : NULL;

    if (self->closing) {
        openai_error_t error;

        openai_error_set(&error, 503, "", "this deployment is going down");
        routes_error(self, exchange, &error);
        return;
    }
    if (!job) {
        if (client)
            client_return(self, client);
        refuse_load(self, exchange, "requests");
        return;
    }
    *job = (text_job_t){.owner = client, .peer = http_peer(exchange), .chat = chat};
    job->body = http_body_take(exchange, &job->body_bytes);
    job->seed = random_mix(self->seed + self->serial) >> SEED_SHIFT;
    client->exchange = exchange;
    client->came_at = port_now(self);
    client->job = job;
    http_user_set(exchange, client);
    if (job->body_bytes <= TEXT_INLINE_BYTES) {
        text_run(&self->text_model, job);
        begin(self, client);
    } else if (!text_pool_push(self->texts, job)) {
        http_user_set(exchange, NULL);
        refuse_load(self, exchange, "large requests");
        client->job = NULL;
        client_return(self, client);
        text_job_free(job);
    }
}

void client_close_all(port_state_t *self)
{
    static const char detail[] = "this deployment is going down";

    for (uint32_t i = 1; i < self->client_max; i++) {
        client_t *client = &self->clients[i];
        openai_error_t error;

        if (!client->id || client->ended)
            continue; /* what it still has to get is on its way */
        client->ended = true;
        client->reason = END_UNAVAILABLE;
        (void)snprintf(client->detail, sizeof(client->detail), "%s", detail);
        if (client->job) { /* nothing but its text has been looked at */
            openai_error_set(&error, 503, "", "%s", detail);
            routes_error(self, client->exchange, &error);
        } else if (client->reply.streaming) {
            client_pump(self, client);
        } else {
            answer_whole(client);
        }
    }
    for (uint32_t turn = 0; turn < CLOSING_TURNS; turn++)
        http_run(self->http);
}

void client_more(void *context, http_exchange_t *exchange)
{
    client_t *client = http_user(exchange);

    if (client)
        client_pump(context, client);
}

void client_done(void *context, http_exchange_t *exchange, bool whole)
{
    port_state_t *self = context;
    client_t *client = http_user(exchange);

    if (!client)
        return;
    if (client->job) { /* it ends here; the gateway never knew it */
        client->job->owner = NULL;
        self->metrics.requests[END_ABORTED]++;
    } else if (!whole) {
        client_abort(self, client, END_ABORTED);
    }
    client_return(self, client);
}
