#include "actors/gateway/admin.h"

#include <stdlib.h>
#include <string.h>

#include "actors/gateway/reply.h"
#include "model/document.h"
#include "runtime/base/log.h"

enum {
    ADMIN_BODY_BYTES_MAX = 1 << 16,
    ADMIN_BODIES_BYTES_MAX = 1 << 20,
    ADMIN_BYTES_MAX = 16 << 20,
    TEXT_BYTES_MAX = 256
};

struct admin {
    struct ev_loop *loop;
    http_t *http;
    http_loop_t running;
    admin_handlers_t handlers;
    void *context;
};

static void answer_error(http_exchange_t *exchange, const openai_error_t *error)
{
    text_buffer_t out;

    text_buffer_init(&out, ADMIN_BYTES_MAX);
    reply_put_error(&out, error);
    http_answer_text(exchange, error->status, "application/json", &out);
}

/* Ids and states are ours: nothing in them needs escaping. */
static void answer_requests(admin_t *self, http_exchange_t *exchange)
{
    admin_request_t request;
    text_buffer_t out;
    uint32_t cursor = 0, count = 0;
    char line[256];

    text_buffer_init(&out, ADMIN_BYTES_MAX);
    text_put_text(&out, "{\"requests\": [");
    while (self->handlers.next(self->context, &cursor, &request)) {
        snprintf(line, sizeof(line),
                 "%s\n  {\"id\": \"%s\", \"state\": \"%s\", \"age_ms\": %llu, "
                 "\"prompt_tokens\": %u, \"tokens\": %u}",
                 count++ ? "," : "", request.id, request.state, (unsigned long long)request.age_ms,
                 request.prompt_tokens, request.tokens);
        text_put_text(&out, line);
    }
    text_put_text(&out, "\n]}\n");
    http_answer_text(exchange, 200, "application/json", &out);
}

void admin_answer(http_exchange_t *exchange, unsigned status, const char *param, const char *text)
{
    static const char done[] = "{\"status\": \"done\"}\n";
    openai_error_t error;

    if (status == 200) {
        http_answer(exchange, 200, "application/json", done, sizeof(done) - 1);
        return;
    }
    openai_error_set(&error, status, param, "%s", text);
    answer_error(exchange, &error);
}

/* What a POST's body may hold. */
typedef struct {
    char text[TEXT_BYTES_MAX]; /* of the member that it must have */
    bool force;
} order_t;

static bool read_order(const char *body, size_t bytes, const char *name, order_t *order)
{
    document_t document = {0};
    text_buffer_t text;
    uint32_t node = DOCUMENT_NONE, force;
    bool found = false;

    text_buffer_init(&text, TEXT_BYTES_MAX - 1);
    if (document_parse(&document, DOCUMENT_STRICT, body, bytes) == STATUS_OK &&
        document_kind(&document, 0) == DOCUMENT_OBJECT) {
        node = document_member(&document, 0, name);
        force = document_member(&document, 0, "force");
        order->force = force && document_kind(&document, force) == DOCUMENT_TRUE;
    }
    if (node != DOCUMENT_NONE && document_kind(&document, node) == DOCUMENT_STRING) {
        document_put_string(&document, node, &text);
        found = text.status == STATUS_OK && text.used > 0;
    }
    if (found)
        snprintf(order->text, sizeof(order->text), "%.*s", (int)text.used, text.bytes);
    text_buffer_fini(&text);
    document_fini(&document);
    return found;
}

static void answer_abort(admin_t *self, http_exchange_t *exchange, const char *body, size_t bytes)
{
    order_t order = {0};
    char text[TEXT_BYTES_MAX];

    if (!read_order(body, bytes, "id", &order)) {
        admin_answer(exchange, 400, "id", "the body must be {\"id\": \"...\"}");
    } else if (!self->handlers.abort(self->context, order.text)) {
        snprintf(text, sizeof(text), "no open request has the id %.100s", order.text);
        admin_answer(exchange, 404, "id", text);
    } else {
        LOG(INFO, "GATEWAY-ABORTED-BY-OPERATOR %s", order.text);
        admin_answer(exchange, 200, "", "");
    }
}

static void answer_drain(admin_t *self, http_exchange_t *exchange, bool on, const char *body,
                         size_t bytes)
{
    order_t order = {0};

    if (read_order(body, bytes, "instance", &order))
        self->handlers.drain(self->context, exchange, order.text, on, order.force);
    else
        admin_answer(exchange, 400, "instance", "the body must be {\"instance\": \"...\"}");
}

static void on_request(void *context, http_exchange_t *exchange, const char *method,
                       const char *path, const char *body, size_t bytes)
{
    admin_t *self = context;
    bool get = strcmp(method, "GET") == 0, post = strcmp(method, "POST") == 0;
    openai_error_t error;

    if (post && strcmp(path, "/abort") == 0) {
        answer_abort(self, exchange, body, bytes);
    } else if (post && (strcmp(path, "/drain") == 0 || strcmp(path, "/undrain") == 0)) {
        answer_drain(self, exchange, path[1] == 'd', body, bytes);
    } else if (get && strcmp(path, "/requests") == 0) {
        answer_requests(self, exchange);
    } else if (!get || !self->handlers.get(self->context, exchange, path)) {
        openai_error_set(&error, get || post ? 404 : 405, "", "there is no %.16s %.100s", method,
                         path);
        answer_error(exchange, &error);
    }
}

/* Answers here are whole. */
static void on_more(void *context, http_exchange_t *exchange)
{
    (void)context;
    (void)exchange;
}

static void on_done(void *context, http_exchange_t *exchange, bool whole)
{
    admin_t *self = context;

    (void)whole;
    self->handlers.done(self->context, exchange);
}

status_t admin_open(struct ev_loop *loop, const char *address, uint16_t port,
                    const admin_handlers_t *handlers, void *context, admin_t **admin)
{
    static const http_handlers_t http_handlers = {on_request, on_more, on_done};
    static const http_limits_t limits = {.connections = ADMIN_CONNECTIONS_MAX,
                                         .body_bytes = ADMIN_BODY_BYTES_MAX,
                                         .bodies_bytes = ADMIN_BODIES_BYTES_MAX};
    admin_t *self = calloc(1, sizeof(*self));
    status_t status;

    if (!self)
        return FAIL(STATUS_NO_MEMORY, "no memory for the admin listener");
    self->loop = loop;
    self->handlers = *handlers;
    self->context = context;
    status = http_open(address, port, &limits, &http_handlers, self, &self->http);
    if (status != STATUS_OK) {
        free(self);
        return status;
    }
    http_loop_start(&self->running, loop, self->http);
    *admin = self;
    return STATUS_OK;
}

void admin_close(admin_t *self)
{
    http_loop_stop(&self->running, self->loop);
    http_close(self->http);
    free(self);
}

uint16_t admin_port(const admin_t *self)
{
    return http_port(self->http);
}
