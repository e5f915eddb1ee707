/* routes.c - what stands at which path, for clients and for operators. Requests for answers go on in
 * connections.c.
 */
#include <stdio.h>
#include <string.h>

#include "actors/gateway/port.h"
#include "runtime/base/log.h"

/* ---- errors ---------------------------------------------------------------------------------- */

void routes_error(port_state_t *self, http_exchange_t *exchange, const openai_error_t *error)
{
    text_buffer_t out;

    text_buffer_init(&out, 1 << 16);
    reply_put_error(&out, error);
    http_answer_text(exchange, error->status, "application/json", &out);
    self->metrics.refused++;
}

/* ---- what clients say ------------------------------------------------------------------------ */

static void answer_text(http_exchange_t *exchange, unsigned status, const char *type,
                        const char *text)
{
    http_answer(exchange, status, type, text, strlen(text));
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
    http_answer_text(exchange, 200, "application/json", &out);
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
    metrics_put(&self->metrics, self->ready, self->topology, &self->availability, &out);
    http_answer_text(exchange, 200, "text/plain; version=0.0.4", &out);
}

/* {"status": "ready", "degraded": ["decode/1/rank/0"]}; the names are ours, nothing in them needs
 * escaping. 503 only if nobody is answered. */
static void answer_ready(port_state_t *self, http_exchange_t *exchange)
{
    const char *status = self->ready                                  ? "ready"
                         : self->closing                              ? "closing"
                         : availability_hopeless(&self->availability) ? "degraded"
                                                                      : "starting";
    const char *between = "";
    text_buffer_t out;

    text_buffer_init(&out, 1 << 20);
    text_put_text(&out, "{\"status\": \"");
    text_put_text(&out, status);
    text_put_text(&out, "\", \"degraded\": [");
    for (uint32_t i = 0; i < self->topology->actor_count; i++) {
        if (!self->availability.down[i])
            continue;
        text_put_text(&out, between);
        text_put_text(&out, "\"");
        text_put_text(&out, self->topology->actors[i].name);
        text_put_text(&out, "\"");
        between = ", ";
    }
    text_put_text(&out, "]}");
    http_answer_text(exchange, self->ready ? 200 : 503, "application/json", &out);
}

/* What clients and operators may ask. */
bool routes_get(void *context, http_exchange_t *exchange, const char *path)
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

void routes_request(void *context, http_exchange_t *exchange, const char *method, const char *path,
                    const char *body, size_t bytes)
{
    port_state_t *self = context;
    static const char models[] = "/v1/models/";
    /* Of a HEAD libmicrohttpd sends the head alone. */
    bool get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
    bool post = strcmp(method, "POST") == 0;
    openai_error_t error;

    (void)body;
    (void)bytes;
    if (post && strcmp(path, "/v1/chat/completions") == 0) {
        client_read(self, exchange, true);
    } else if (post && strcmp(path, "/v1/completions") == 0) {
        client_read(self, exchange, false);
    } else if (get && strcmp(path, "/v1/models") == 0) {
        answer_models(self, exchange, true);
    } else if (get && strncmp(path, models, sizeof(models) - 1) == 0 &&
               strcmp(path + sizeof(models) - 1, self->topology->served_name) == 0) {
        answer_models(self, exchange, false);
    } else if (!get || !routes_get(self, exchange, path)) {
        const char *methods = methods_of(path);

        openai_error_set(&error, methods ? 405 : 404, "", "there is no %s %s", method, path);
        if (methods)
            http_header_add(exchange, "Allow", methods);
        routes_error(self, exchange, &error);
    }
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
    } while (!client->id || client->job); /* it has no id yet */
    *request = (admin_request_t){
        .id = client->reply.id,
        .state = client->ended        ? "sending"
                 : client->abort_said ? "aborting"
                 : client->received   ? "answering"
                                      : "waiting",
        .age_ms = (uint64_t)(1e3 * (port_now(self) - client->came_at)),
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

        if (!client->id || client->ended ||
            (strcmp(client->reply.id, id) != 0 &&
             (!client->exchange || strcmp(http_request_id(client->exchange), id) != 0)))
            continue;
        client->by_operator = true;
        client_abort(self, client, END_ABORTED);
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

void routes_drain_answer(port_state_t *self, const message_drain_answer_t *m)
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

const admin_handlers_t routes_admin = {admin_next, admin_abort, routes_get, admin_drain,
                                       admin_done};
