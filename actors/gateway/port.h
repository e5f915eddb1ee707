/* port.h - what the files of the client port share: its state, and what each offers the others.
 *
 * client.c opens, closes and is pushed to; routes.c answers by path; connections.c has the clients
 * whose answers are under way; probe.c knows whether the deployment answers. One thread calls all.
 */
#ifndef ACTORS_GATEWAY_PORT_H
#define ACTORS_GATEWAY_PORT_H

#include "actors/gateway/admin.h"
#include "actors/gateway/client.h"
#include "actors/gateway/gateway.h"
#include "actors/gateway/http_loop.h"
#include "actors/gateway/metrics.h"
#include "actors/gateway/pending.h"
#include "actors/gateway/poisoned.h"
#include "actors/gateway/reply.h"
#include "actors/gateway/text.h"
#include "runtime/worker.h"

enum { CLIENT_BITS = 16 /* of a client number: its place; GATEWAY_PROBE has none here */ };

typedef struct {
    uint64_t id; /* 0: free */
    http_exchange_t *exchange;
    text_job_t *job; /* its text is read, and the gateway knows nothing of it; else NULL */
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
    model_config_t config;
    model_generation_t generation;
    text_model_t text_model;
    text_pool_t *texts;
    ev_async text_done;
    metrics_t metrics;
    poisoned_place_t poisoned; /* of the keeper's thread */
    poisoned_known_t known;
    worker_t *keeper; /* writes poisoned requests; NULL until the first */
    uint32_t kept;    /* that it was given */
    availability_t availability;
    uint64_t serial;
    uint64_t seed;
    bool ready;
    bool probing; /* a request of its own is on its way */
    bool closing; /* nobody is let in; the process ends with the last answer */
    bool draining;          /* an operator's wish is on its way */
    http_exchange_t *drain; /* who waits for it, or NULL */
    uint32_t client_max;
    client_t *clients;
} port_state_t;

double port_now(const port_state_t *self); /* seconds of the loop's clock */

/* ---- connections.c ---------------------------------------------------------------------------- */

/* A request for an answer is here: takes a place, and has its text read. */
void client_read(port_state_t *self, http_exchange_t *exchange, bool chat);
/* Those whose text was read are submitted, or answered with what is wrong. */
void client_texts_done(port_state_t *self);
/* Says so once; what the answer's end is, the gateway decides. */
void client_abort(port_state_t *self, client_t *client, end_reason_t reason);
void client_tokens(port_state_t *self, const message_client_tokens_t *m);
void client_end(port_state_t *self, const message_client_end_t *m);
/* The port closes now: whoever waits gets an error, in a stream an event, as far as sockets take it. */
void client_close_all(port_state_t *self);
/* http_handlers_t of a client's exchange; `context` is the port's state. */
void client_more(void *context, http_exchange_t *exchange);
void client_done(void *context, http_exchange_t *exchange, bool whole);

/* ---- routes.c --------------------------------------------------------------------------------- */

extern const admin_handlers_t routes_admin;
void routes_error(port_state_t *self, http_exchange_t *exchange, const openai_error_t *error);
void routes_request(void *context, http_exchange_t *exchange, const char *method, const char *path,
                    const char *body, size_t bytes);
/* /health, /ready, /metrics, which both listeners have. False: another path. */
bool routes_get(void *context, http_exchange_t *exchange, const char *path);
void routes_drain_answer(port_state_t *self, const message_drain_answer_t *m);

/* ---- probe.c ---------------------------------------------------------------------------------- */

void probe_start(port_state_t *self);
void probe_stop(port_state_t *self);
void probe_ended(port_state_t *self, const message_client_end_t *m);

#endif
