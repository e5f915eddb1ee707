/* client.c - from an HTTP request to CLIENT_REQUEST, and from CLIENT_TOKENS to bytes.
 *
 * A stream is written when its socket has room: tokens wait as numbers, never as text.
 * So a client that reads slowly costs what was reserved for it and delays nobody.
 *
 *   request ──wrong──> 4xx at once
 *      └─> OPEN ──tokens──> (streaming) ──CLIENT_END──> last bytes ──> done
 *           └─ the client leaves: CLIENT_ABORT; later tokens name nobody and are dropped
 */
#include "actors/gateway/client.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "actors/gateway/admin.h"
#include "actors/gateway/http_loop.h"
#include "actors/gateway/metrics.h"
#include "actors/gateway/pending.h"
#include "actors/gateway/poisoned.h"
#include "actors/gateway/reply.h"
#include "model/chat.h"
#include "runtime/base/log.h"
#include "runtime/base/random.h"

enum { CLIENT_BITS = 16, PROBE = 0 /* the client number of the gateway's own request */ };
/* Seeds are what a client could have given: integers that JSON keeps. */
enum { SEED_SHIFT = 11 };

typedef struct {
    uint64_t id; /* 0: free */
    http_exchange_t *exchange;
    openai_parameters_t parameters;
    reply_t reply;
    size_t sent; /* bytes of reply.out that are in the stream */
    bool streaming;
    bool abort_said;
    bool by_operator; /* it ends because somebody said so at the admin listener */
    bool ended;
    uint8_t reason;
    uint32_t cached_tokens;
    char detail[REASON_BYTES_MAX + 1];
    pending_t pending; /* tokens that wait for room */
    uint32_t received; /* tokens that came, sent or not */
    double came_at;
    double told_at; /* last delivery of tokens */
} client_t;

typedef struct {
    process_t *process;
    const topology_t *topology;
    http_t *http;
    http_loop_t running;
    admin_t *admin;
    ev_timer probe;
    tokenizer_t *tokenizer;
    chat_blocks_t blocks;
    bool has_blocks;
    model_config_t config;
    model_generation_t generation;
    metrics_t metrics;
    poisoned_place_t poisoned;
    poisoned_known_t known;
    outlook_t outlook;
    uint64_t serial;
    uint64_t seed;
    bool ready;
    bool probing; /* a request of its own is on its way */
    bool closing; /* nobody is let in; the process ends with the last answer */
    bool draining;          /* an operator's wish is on its way */
    http_exchange_t *drain; /* who waits for it, or NULL */
    uint32_t client_max;
    client_t *clients;
    uint32_t *ids; /* room for one prompt */
} port_state_t;

/* ---- clients --------------------------------------------------------------------------------- */

static double now(const port_state_t *self)
{
    return ev_now(process_loop(self->process));
}

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

    return id != PROBE && client->id == id ? client : NULL;
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

static void post_abort(port_state_t *self, client_t *client, end_reason_t reason)
{
    message_client_abort_t abort = {client->id, (uint8_t)reason};

    if (!client->abort_said && !client->ended)
        process_post(self->process, PORT_CLIENT, MESSAGE_client_abort, &abort);
    client->abort_said = true;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void answer_error(port_state_t *self, http_exchange_t *exchange, const openai_error_t *error)
{
    text_buffer_t out;

    text_buffer_init(&out, 1 << 16);
    reply_put_error(&out, error);
    http_answer(exchange, error->status, "application/json",
                error->status == 429 || error->status == 503 ? 1 : 0, out.bytes, out.used);
    text_buffer_fini(&out);
    self->metrics.refused++;
}

/* One more piece of the stream into reply.out; false if there is none now. */
static bool client_produce(port_state_t *self, client_t *client)
{
    record_token_t token;

    if (pending_take(&client->pending, &token)) {
        reply_token(&client->reply, &token);
        if (client->reply.stopped)
            post_abort(self, client, END_STOPPED);
        return true;
    }
    if (client->ended && !client->reply.ended) {
        reply_end(&client->reply, (end_reason_t)client->reason, client->cached_tokens,
                  client->detail);
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

        if (out->status !=
            STATUS_OK) { /* out of memory or bounds: the client sees a broken stream */
            post_abort(self, client, END_ABORTED);
            http_stream_end(client->exchange);
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
    unsigned status = 200;
    uint32_t retry_after_s = 0;

    reply_end(&client->reply, (end_reason_t)client->reason, client->cached_tokens, client->detail);
    if (!reply_is_regular((end_reason_t)client->reason))
        status = reply_status((end_reason_t)client->reason);
    if (client->reply.out.status != STATUS_OK)
        status = 503;
    if (status == 429 || status == 503)
        retry_after_s = 1;
    if (client->reason == END_POISONED) /* clients of the API ask again by themselves after a 500 */
        http_header_add(client->exchange, "x-should-retry", "false");
    http_answer(client->exchange, status, "application/json", retry_after_s,
                client->reply.out.bytes ? client->reply.out.bytes : "", client->reply.out.used);
}

/* ---- what the gateway says ------------------------------------------------------------------- */

static void take_token(port_state_t *self, client_t *client, const record_token_t *token)
{
    if (!client->streaming) {
        reply_token(&client->reply, token);
        if (client->reply.stopped)
            post_abort(self, client, END_STOPPED);
        return;
    }
    if (!pending_put(&client->pending, token))
        client->reply.out.status = STATUS_NO_MEMORY;
}

static void on_client_tokens(port_state_t *self, const message_client_tokens_t *m)
{
    client_t *client = client_of(self, m->client);

    if (!client)
        return; /* it left */
    metrics_observe(client->told_at > 0 ? &self->metrics.next_token : &self->metrics.first_token,
                    now(self) - (client->told_at > 0 ? client->told_at : client->came_at));
    client->told_at = now(self);
    client->received += m->tokens.count;
    self->metrics.completion_tokens += m->tokens.count;
    if (client->parameters.stream)
        client_begin_stream(client);
    for (uint32_t i = 0; i < m->tokens.count; i++)
        take_token(self, client, &m->tokens.data[i]);
    client_pump(self, client);
}

static void probe_ended(port_state_t *self, const message_client_end_t *m)
{
    bool answered = m->reason == END_STOP || m->reason == END_LENGTH;

    if (answered && !self->ready)
        LOG(INFO, "GATEWAY-READY port=%u", http_port(self->http));
    if (!answered && self->ready)
        LOG(WARN, "GATEWAY-NOT-READY a request of its own ended by reason %u", m->reason);
    self->probing = false;
    if (self->closing)
        return;
    self->ready = answered;
    self->probe.repeat = answered ? CLIENT_PROBE_READY_S : CLIENT_PROBE_MS * 1e-3;
    ev_timer_again(process_loop(self->process), &self->probe);
}

static void on_client_end(port_state_t *self, const message_client_end_t *m)
{
    client_t *client = client_of(self, m->client);

    if (m->client == PROBE) {
        probe_ended(self, m);
        return;
    }
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
    metrics_observe(&self->metrics.whole, now(self) - client->came_at);
    if (client->parameters.stream && reply_is_regular((end_reason_t)m->reason))
        client_begin_stream(client);
    if (client->reply.streaming)
        client_pump(self, client);
    else
        answer_whole(client);
    self->metrics.suppressed += client->reply.suppressed_count > 0;
}

/* ---- what clients say ------------------------------------------------------------------------ */

static void submit(port_state_t *self, client_t *client, uint32_t prompt_tokens)
{
    message_client_request_t request = {
        .client = client->id,
        .prompt = {self->ids, prompt_tokens},
        .sampling = client->parameters.sampling,
        .limits = client->parameters.limits,
        .salt = client->parameters.salt,
        .deadline_ms = client->parameters.timeout_ms,
    };

    process_post(self->process, PORT_CLIENT, MESSAGE_client_request, &request);
}

/* The prompt is in self->ids. Checks lengths, opens the client, asks the gateway. */
static status_t begin(port_state_t *self, http_exchange_t *exchange,
                      const openai_parameters_t *parameters, reply_facts_t *facts,
                      openai_error_t *error)
{
    uint32_t context = self->topology->context_tokens;
    uint32_t most = facts->prompt_tokens < context ? context - facts->prompt_tokens : 0;
    client_t *client;

    if (most == 0 || parameters->limits.output_tokens_max > most) {
        openai_error_set(error, 400,
                         most == 0     ? (facts->chat ? "messages" : "prompt")
                         : facts->chat ? "max_completion_tokens"
                                       : "max_tokens",
                         "the prompt has %u tokens, the answer may have %u, the context is %u",
                         facts->prompt_tokens, parameters->limits.output_tokens_max, context);
        error->code = "context_length_exceeded";
        return FAIL(STATUS_INVALID, "%s", error->message);
    }
    if (poisoned_knows(&self->known,
                       &(message_client_request_t){.prompt = {self->ids, facts->prompt_tokens},
                                                   .sampling = parameters->sampling,
                                                   .limits = parameters->limits},
                       now(self))) {
        openai_error_set(error, 500, "", "this request stopped its group a short time ago");
        http_header_add(exchange, "x-should-retry", "false");
        return FAIL(STATUS_REFUSED, "%s", error->message);
    }
    client = client_take(self);
    if (!client) {
        openai_error_set(error, 429, "", "too many requests at once");
        error->type = "overloaded_error";
        return FAIL(STATUS_BUSY, "%s", error->message);
    }
    client->exchange = exchange;
    client->came_at = now(self);
    client->parameters = *parameters;
    client->pending.logprobs = parameters->logprobs;
    client->parameters.limits.stop_tokens.data = client->parameters.stop_tokens;
    client->parameters.sampling.bias_tokens.data = client->parameters.bias_tokens;
    client->parameters.sampling.bias_values.data = client->parameters.bias_values;
    if (client->parameters.limits.output_tokens_max == 0)
        client->parameters.limits.output_tokens_max = most;
    facts->parameters = &client->parameters;
    facts->number = random_mix(self->seed ^ client->id);
    if (reply_init(&client->reply, facts) != STATUS_OK) {
        client_return(self, client);
        openai_error_set(error, 503, "", "out of memory");
        return STATUS_NO_MEMORY;
    }
    http_user_set(exchange, client);
    submit(self, client, facts->prompt_tokens);
    return STATUS_OK;
}

static void reply_facts(const port_state_t *self, bool chat, reply_facts_t *facts)
{
    *facts = (reply_facts_t){
        .tokenizer = self->tokenizer,
        .model = self->topology->served_name,
        .end_tokens =
            self->generation.eos_count ? self->generation.eos_tokens : self->config.eos_tokens,
        .end_count =
            self->generation.eos_count ? self->generation.eos_count : self->config.eos_count,
        .created = (uint64_t)time(NULL),
        .chat = chat,
    };
}

static status_t chat_prompt_ids(port_state_t *self, const document_t *document,
                                reply_facts_t *facts, openai_error_t *error)
{
    chat_refusal_t refusal;
    chat_prompt_t prompt;
    size_t count = 0;
    status_t status = chat_encode(&self->blocks, document, &prompt, &refusal);

    if (status != STATUS_OK) {
        openai_error_set(error, 400, refusal.param, "%s", refusal.reason);
    } else {
        status =
            tokenizer_encode(self->tokenizer, prompt.text.bytes, prompt.spans, prompt.span_count,
                             self->ids, self->topology->context_tokens, &count);
        if (status != STATUS_OK) {
            openai_error_set(error, 400, "messages", "%s", trail_text());
            error->code = status == STATUS_TOO_LARGE ? "context_length_exceeded" : NULL;
        }
        facts->thinking = prompt.thinking_open;
        facts->tools = prompt.tools;
    }
    facts->prompt_tokens = (uint32_t)count;
    chat_prompt_fini(&prompt);
    return status;
}

/* A prompt in text is a client's text, so no part of it becomes a control token; BOS goes first. */
static status_t completion_prompt_ids(port_state_t *self, const document_t *document,
                                      reply_facts_t *facts, openai_error_t *error)
{
    uint32_t context = self->topology->context_tokens, count, node;
    text_buffer_t text;
    size_t encoded = 0;
    status_t status;

    TRY(openai_prompt(document, self->config.vocabulary, self->ids, context, &count, &node, error));
    facts->prompt_tokens = count;
    if (!node)
        return STATUS_OK;
    text_buffer_init(&text, PROMPT_BYTES_MAX);
    document_put_string(document, node, &text);
    self->ids[0] = self->config.bos_token;
    status = text.status == STATUS_OK
                 ? tokenizer_encode_plain(self->tokenizer, text.bytes ? text.bytes : "", text.used,
                                          self->ids + 1, context - 1, &encoded)
                 : text.status;
    if (status != STATUS_OK)
        openai_error_set(error, 400, "prompt", "%s", trail_text());
    facts->prompt_tokens = (uint32_t)encoded + 1;
    text_buffer_fini(&text);
    return status;
}

static void answer_completion(port_state_t *self, http_exchange_t *exchange, bool chat,
                              const char *body, size_t bytes)
{
    openai_parameters_t parameters;
    openai_error_t error = {0};
    reply_facts_t facts;
    document_t document = {0};
    status_t status;

    if (self->closing) {
        openai_error_set(&error, 503, "", "this deployment is going down");
        answer_error(self, exchange, &error);
        return;
    }
    reply_facts(self, chat, &facts);
    status = document_parse(&document, DOCUMENT_STRICT, body, bytes);
    if (status != STATUS_OK)
        openai_error_set(&error, 400, "", "the body is not JSON: %s", trail_text());
    if (status == STATUS_OK)
        status = openai_parse(&document, chat, self->topology->served_name, &self->config,
                              &self->generation,
                              random_mix(self->seed + self->serial) >> SEED_SHIFT, &parameters,
                              &error);
    if (status == STATUS_OK)
        status = openai_timeout(http_header(exchange, OPENAI_TIMEOUT_HEADER),
                                (uint32_t)self->topology->request_timeout_ms, &parameters, &error);
    if (status == STATUS_OK && chat && !self->has_blocks) {
        openai_error_set(&error, 400, "messages", "this checkpoint has no chat format");
        status = STATUS_UNSUPPORTED;
    }
    if (status == STATUS_OK)
        status = chat ? chat_prompt_ids(self, &document, &facts, &error)
                      : completion_prompt_ids(self, &document, &facts, &error);
    if (status == STATUS_OK)
        status = begin(self, exchange, &parameters, &facts, &error);
    if (status != STATUS_OK)
        answer_error(self, exchange, &error);
    document_fini(&document);
}

static void answer_text(http_exchange_t *exchange, unsigned status, const char *type,
                        const char *text)
{
    http_answer(exchange, status, type, status == 503 ? 1 : 0, text, strlen(text));
}

/* The only model there is: in a list of one, or by its name. */
static void answer_models(port_state_t *self, http_exchange_t *exchange, bool list)
{
    const char *name = self->topology->served_name;
    char tail[128];
    text_buffer_t out;

    text_buffer_init(&out, 1 << 16);
    text_put_text(&out, list ? "{\"object\": \"list\", \"data\": [" : "");
    text_put_text(&out, "{\"id\": \"");
    text_put_escaped_text(&out, name, strlen(name));
    snprintf(tail, sizeof(tail),
             "\", \"object\": \"model\", \"created\": 0, \"owned_by\": \"lockstep\", "
             "\"max_model_len\": %u}%s",
             self->topology->context_tokens, list ? "]}" : "");
    text_put_text(&out, tail);
    http_answer(exchange, 200, "application/json", 0, out.bytes, out.used);
    text_buffer_fini(&out);
}

/* The methods of a path that clients know; NULL: there is no such path. */
static const char *methods_of(const char *path)
{
    static const struct {
        const char *path;
        const char *methods;
    } known[] = {{"/v1/chat/completions", "POST"}, {"/v1/completions", "POST"},
                 {"/v1/models", "GET, HEAD"},      {"/health", "GET, HEAD"},
                 {"/ready", "GET, HEAD"},          {"/metrics", "GET, HEAD"}};

    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (strcmp(path, known[i].path) == 0)
            return known[i].methods;
    return NULL;
}

static void answer_metrics(port_state_t *self, http_exchange_t *exchange)
{
    text_buffer_t out;

    text_buffer_init(&out, 1 << 20);
    metrics_put(&self->metrics, self->ready, self->topology, &self->outlook, &out);
    http_answer(exchange, 200, "text/plain; version=0.0.4", 0, out.bytes, out.used);
    text_buffer_fini(&out);
}

/* {"status": "ready", "degraded": ["decode/1/rank/0"]}; the names are ours, nothing in them needs
 * escaping. 503 only if nobody is answered. */
static void answer_ready(port_state_t *self, http_exchange_t *exchange)
{
    const char *status = self->ready                           ? "ready"
                         : self->closing                       ? "closing"
                         : outlook_hopeless(&self->outlook)    ? "degraded"
                                                               : "starting";
    const char *between = "";
    text_buffer_t out;

    text_buffer_init(&out, 1 << 20);
    text_put_text(&out, "{\"status\": \"");
    text_put_text(&out, status);
    text_put_text(&out, "\", \"degraded\": [");
    for (uint32_t i = 0; i < self->topology->actor_count; i++) {
        if (!self->outlook.down[i])
            continue;
        text_put_text(&out, between);
        text_put_text(&out, "\"");
        text_put_text(&out, self->topology->actors[i].name);
        text_put_text(&out, "\"");
        between = ", ";
    }
    text_put_text(&out, "]}");
    http_answer(exchange, self->ready ? 200 : 503, "application/json", self->ready ? 0 : 1,
                out.bytes, out.used);
    text_buffer_fini(&out);
}

/* What clients and operators may ask. */
static bool answer_get(void *context, http_exchange_t *exchange, const char *path)
{
    port_state_t *self = context;

    if (strcmp(path, "/health") == 0)
        answer_text(exchange, 200, "application/json", "{\"status\": \"alive\"}");
    else if (strcmp(path, "/ready") == 0)
        answer_ready(self, exchange);
    else if (strcmp(path, "/metrics") == 0)
        answer_metrics(self, exchange);
    else
        return false;
    return true;
}

static void on_request(void *context, http_exchange_t *exchange, const char *method,
                       const char *path, const char *body, size_t bytes)
{
    port_state_t *self = context;
    static const char models[] = "/v1/models/";
    /* Of a HEAD libmicrohttpd sends the head alone. */
    bool get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    bool post = strcmp(method, "POST") == 0;
    openai_error_t error;

    if (post && strcmp(path, "/v1/chat/completions") == 0) {
        answer_completion(self, exchange, true, body, bytes);
    } else if (post && strcmp(path, "/v1/completions") == 0) {
        answer_completion(self, exchange, false, body, bytes);
    } else if (get && strcmp(path, "/v1/models") == 0) {
        answer_models(self, exchange, true);
    } else if (get && strncmp(path, models, sizeof(models) - 1) == 0 &&
               strcmp(path + sizeof(models) - 1, self->topology->served_name) == 0) {
        answer_models(self, exchange, false);
    } else if (!get || !answer_get(self, exchange, path)) {
        const char *methods = methods_of(path);

        openai_error_set(&error, methods ? 405 : 404, "", "there is no %s %s", method, path);
        if (methods)
            http_header_add(exchange, "Allow", methods);
        answer_error(self, exchange, &error);
    }
}

static void on_more(void *context, http_exchange_t *exchange)
{
    client_t *client = http_user(exchange);

    if (client)
        client_pump(context, client);
}

static void on_done(void *context, http_exchange_t *exchange, bool whole)
{
    port_state_t *self = context;
    client_t *client = http_user(exchange);

    if (!client)
        return;
    if (!whole)
        post_abort(self, client, END_ABORTED);
    client_return(self, client);
}

/* ---- what an operator says ------------------------------------------------------------------- */

static bool admin_next(void *context, uint32_t *cursor, admin_request_t *request)
{
    port_state_t *self = context;
    client_t *client;

    do {
        if (++*cursor >= self->client_max)
            return false;
        client = &self->clients[*cursor];
    } while (!client->id);
    *request = (admin_request_t){
        .id = client->reply.id,
        .state = client->ended        ? "sending"
                 : client->abort_said ? "aborting"
                 : client->received   ? "answering"
                                      : "waiting",
        .age_ms = (uint64_t)(1e3 * (now(self) - client->came_at)),
        .prompt_tokens = client->reply.facts.prompt_tokens,
        .tokens = client->received,
    };
    return true;
}

static bool admin_abort(void *context, const char *id)
{
    port_state_t *self = context;

    for (uint32_t i = 1; i < self->client_max; i++) {
        client_t *client = &self->clients[i];

        if (!client->id || client->ended || strcmp(client->reply.id, id) != 0)
            continue;
        client->by_operator = true;
        post_abort(self, client, END_ABORTED);
        return true;
    }
    return false;
}

static void admin_drain(void *context, http_exchange_t *exchange, const char *instance, bool on,
                        bool force)
{
    port_state_t *self = context;
    const topology_actor_t *actor = topology_actor_by_name(self->topology, instance);
    message_drain_t drain = {actor ? actor->id : 0, on, force};
    char text[ACTOR_NAME_BYTES_MAX + 64];

    if (!actor) {
        snprintf(text, sizeof(text), "there is no %.*s", ACTOR_NAME_BYTES_MAX, instance);
        admin_answer(exchange, 404, "instance", text);
    } else if (self->draining) {
        admin_answer(exchange, 503, "", "another one is asked for");
    } else {
        self->draining = true;
        self->drain = exchange;
        process_post(self->process, PORT_CLIENT, MESSAGE_drain, &drain);
    }
}

static void on_drain_answer(port_state_t *self, const message_drain_answer_t *m)
{
    const char *name = self->topology->actors[m->actor].name;
    unsigned status = m->status == STATUS_OK ? 200 : 409;
    char text[ACTOR_NAME_BYTES_MAX + REASON_BYTES_MAX + 2];

    LOG(INFO, "GATEWAY-DRAIN actor=%s answer=%u", name, status);
    snprintf(text, sizeof(text), "%s: %.*s", name, (int)m->detail.count,
             m->detail.count ? m->detail.data : "");
    if (self->drain)
        admin_answer(self->drain, status, "instance", text);
    self->drain = NULL;
    self->draining = false;
}

static void admin_done(void *context, const http_exchange_t *exchange)
{
    port_state_t *self = context;

    if (self->drain == exchange)
        self->drain = NULL; /* it did not wait */
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_client_close(port_state_t *self)
{
    self->closing = true;
    self->ready = false;
    ev_timer_stop(process_loop(self->process), &self->probe);
    if (self->metrics.open == 0)
        process_stop(self->process);
}

static void on_probe(struct ev_loop *loop, ev_timer *watcher, int events)
{
    port_state_t *self = watcher->data;
    message_client_request_t request = {
        .client = PROBE,
        .prompt = {&self->config.bos_token, 1},
        .sampling = {.top_p = 1, .repetition_penalty = 1},
        .limits = {.output_tokens_max = 1},
    };

    (void)loop;
    (void)events;
    if (self->probing) { /* a whole period without an answer */
        if (self->ready)
            LOG(WARN, "GATEWAY-NOT-READY a request of its own has no answer");
        self->ready = false;
        return;
    }
    self->probing = true;
    process_post(self->process, PORT_CLIENT, MESSAGE_client_request, &request);
}

static status_t write_port_file(const port_state_t *self, const char *path)
{
    FILE *file = fopen(path, "w");

    if (!file)
        return FAIL(STATUS_IO, "cannot write %s", path);
    fprintf(file, "%u\n%u\n", http_port(self->http), admin_port(self->admin));
    if (fclose(file) != 0)
        return FAIL(STATUS_IO, "cannot write %s", path);
    return STATUS_OK;
}

static status_t open_model(port_state_t *self)
{
    const char *folder = self->topology->model_path;
    char path[PATH_BYTES_MAX + 32];

    TRY(model_config_load(folder, &self->config));
    TRY(model_generation_load(folder, &self->generation));
    snprintf(path, sizeof(path), "%s/tokenizer.json", folder);
    TRY(tokenizer_open(path, &self->tokenizer));
    self->has_blocks = chat_blocks_open(folder, &self->blocks) == STATUS_OK;
    if (!self->has_blocks)
        LOG(WARN, "GATEWAY-NO-CHAT %s", trail_text());
    return STATUS_OK;
}

static status_t open_all(port_state_t *self, const client_setup_t *setup)
{
    static const http_handlers_t handlers = {on_request, on_more, on_done};
    static const admin_handlers_t admin = {admin_next, admin_abort, answer_get, admin_drain,
                                            admin_done};
    const topology_gateway_t *gateway = &self->topology->gateways[setup->gateway];
    http_limits_t limits = {
        .descriptors = ADMIN_CONNECTIONS_MAX + CLIENT_FILES +
                       CLIENT_FILES_PER_ACTOR * (uint32_t)self->topology->actor_count,
        .body_bytes = CLIENT_BODY_BYTES +
                      (size_t)CLIENT_BODY_BYTES_PER_TOKEN * self->topology->context_tokens,
        .bodies_bytes = CLIENT_BODIES_BYTES};

    self->client_max = gateway->streams_max + 1;
    if (self->client_max > 1u << CLIENT_BITS)
        self->client_max = 1u << CLIENT_BITS;
    limits.connections = 2 * self->client_max + 16;
    self->clients = calloc(self->client_max, sizeof(*self->clients));
    self->ids = calloc(self->topology->context_tokens + 1u, sizeof(*self->ids));
    if (!self->clients || !self->ids)
        return FAIL(STATUS_NO_MEMORY, "no memory for %u clients", self->client_max);
    TRY(open_model(self));
    TRY(http_open(gateway->listen, setup->port_given ? setup->port : gateway->port,
                  &limits, &handlers, self, &self->http));
    TRY(admin_open(process_loop(self->process), gateway->admin_listen,
                   setup->port_given ? setup->admin_port : gateway->admin_port, &admin, self,
                   &self->admin));
    return setup->port_file ? write_port_file(self, setup->port_file) : STATUS_OK;
}

static void port_close(void *context);

static status_t port_open(process_t *process, const void *arg, void **out)
{
    const client_setup_t *setup = arg;
    port_state_t *self = calloc(1, sizeof(*self));
    struct ev_loop *loop = process_loop(process);
    status_t status;

    if (!self)
        return FAIL(STATUS_NO_MEMORY, "no memory for the client port");
    self->process = process;
    self->topology = setup->topology;
    outlook_init(&self->outlook, self->topology);
    self->poisoned = (poisoned_place_t){
        .folder = setup->poisoned,
        .model = setup->topology->served_name,
        .tokens = setup->topology->journal_tokens == TOPOLOGY_TOKENS_KEPT,
    };
    self->seed = (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
    status = open_all(self, setup);
    if (status != STATUS_OK) {
        port_close(self);
        return status;
    }
    http_loop_start(&self->running, loop, self->http);
    ev_timer_init(&self->probe, on_probe, 0.001, CLIENT_PROBE_MS * 1e-3);
    self->probe.data = self;
    ev_timer_start(loop, &self->probe);
    *out = self;
    return STATUS_OK;
}

static void port_push(void *context, uint16_t id, const void *body, const uint8_t *bytes,
                      size_t size)
{
    (void)bytes;
    (void)size;
    switch (id) {
    case MESSAGE_client_tokens:
        on_client_tokens(context, body);
        break;
    case MESSAGE_client_end:
        on_client_end(context, body);
        break;
    case MESSAGE_client_poisoned:
        poisoned_learn(&((port_state_t *)context)->known, body, now(context));
        poisoned_keep(&((port_state_t *)context)->poisoned, body);
        break;
    case MESSAGE_degraded:
        (void)outlook_lose(&((port_state_t *)context)->outlook,
                           ((const message_degraded_t *)body)->actor);
        break;
    case MESSAGE_drain_answer:
        on_drain_answer(context, body);
        break;
    default:
        on_client_close(context);
        break;
    }
}

static void port_close(void *context)
{
    port_state_t *self = context;
    struct ev_loop *loop = process_loop(self->process);

    http_loop_stop(&self->running, loop);
    ev_timer_stop(loop, &self->probe);
    if (self->admin)
        admin_close(self->admin);
    if (self->http)
        http_close(self->http);
    if (self->has_blocks)
        chat_blocks_close(&self->blocks);
    if (self->tokenizer)
        tokenizer_close(self->tokenizer);
    free(self->clients);
    free(self->ids);
    free(self);
}

const port_type_t client_port = {
    .id = PORT_CLIENT, .open = port_open, .push = port_push, .close = port_close};
