/* client.c - life of the client port, and what it is pushed (port.h says which file does what). */
#include "actors/gateway/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "actors/gateway/port.h"
#include "model/checkpoint.h"
#include "runtime/base/log.h"

double port_now(const port_state_t *self)
{
    return ev_now(process_loop(self->process));
}

/* ---- life ------------------------------------------------------------------------------------ */

static void on_client_close(port_state_t *self)
{
    self->closing = true;
    self->ready = false;
    probe_stop(self);
    if (self->metrics.open == 0)
        process_stop(self->process);
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

static void wake_for_texts(void *context)
{
    port_state_t *self = context;

    ev_async_send(process_loop(self->process), &self->text_done);
}

static void on_texts(struct ev_loop *loop, ev_async *watcher, int events)
{
    (void)loop;
    (void)events;
    client_texts_done(watcher->data);
}

static status_t open_model(port_state_t *self)
{
    const char *folder = self->topology->model_path;
    checkpoint_t checkpoint;

    TRY(model_config_load(folder, &self->config));
    TRY(checkpoint_open(folder, &self->config, &checkpoint));
    self->generation = checkpoint.generation;
    self->tokenizer = checkpoint.tokenizer;
    self->blocks = checkpoint.blocks;
    self->text_model = (text_model_t){.topology = self->topology,
                                      .tokenizer = self->tokenizer,
                                      .blocks = &self->blocks,
                                      .config = &self->config,
                                      .generation = &self->generation};
    return text_pool_open(&self->text_model, wake_for_texts, self, &self->texts);
}

static status_t open_all(port_state_t *self, const client_setup_t *setup)
{
    static const http_handlers_t handlers = {routes_request, client_more, client_done};
    const topology_gateway_t *gateway = &self->topology->gateways[setup->gateway];
    http_limits_t limits = {
        .descriptors = ADMIN_CONNECTIONS_MAX + CLIENT_FILES +
                       CLIENT_FILES_PER_ACTOR * (uint32_t)self->topology->actor_count,
        .origins = gateway->cors,
        .body_bytes = CLIENT_BODY_BYTES +
                      (size_t)CLIENT_BODY_BYTES_PER_TOKEN * self->topology->context_tokens,
        .bodies_bytes = CLIENT_BODIES_BYTES};

    self->client_max = gateway->streams_max + 1;
    if (self->client_max > 1u << CLIENT_BITS)
        self->client_max = 1u << CLIENT_BITS;
    limits.connections = 2 * self->client_max + 16;
    self->clients = calloc(self->client_max, sizeof(*self->clients));
    if (!self->clients)
        return FAIL(STATUS_NO_MEMORY, "no memory for %u clients", self->client_max);
    TRY(open_model(self));
    TRY(http_open(gateway->listen, setup->port_given ? setup->port : gateway->port, &limits,
                  &handlers, self, &self->http));
    TRY(admin_open(process_loop(self->process), gateway->admin_listen,
                   setup->port_given ? setup->admin_port : gateway->admin_port, &routes_admin, self,
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
    availability_init(&self->availability, self->topology);
    ev_async_init(&self->text_done, on_texts);
    self->text_done.data = self;
    ev_async_start(loop, &self->text_done);
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
    probe_start(self);
    *out = self;
    return STATUS_OK;
}

static void on_keep(void *context, uint16_t id, const void *body)
{
    (void)id;
    poisoned_keep(context, body);
}

/* Files are written on another thread: of a long prompt this takes a while. */
static void keep_poisoned(port_state_t *self, const uint8_t *bytes, size_t size)
{
    if (self->kept == POISONED_FILES_MAX)
        return;
    if (!self->keeper && worker_open("keeper", &message_table, POISONED_FILES_MAX, on_keep,
                                     &self->poisoned, &self->keeper) != STATUS_OK) {
        LOG(ERROR, "POISONED-NOT-KEPT %s", trail_text());
        return;
    }
    self->kept++;
    worker_push(self->keeper, MESSAGE_client_poisoned, bytes, size);
}

static void port_push(void *context, uint16_t id, const void *body, const uint8_t *bytes,
                      size_t size)
{
    port_state_t *self = context;

    switch (id) {
    case MESSAGE_client_tokens:
        client_tokens(self, body);
        break;
    case MESSAGE_client_end:
        if (((const message_client_end_t *)body)->client == GATEWAY_PROBE)
            probe_ended(self, body);
        else
            client_end(self, body);
        break;
    case MESSAGE_client_poisoned:
        poisoned_learn(&self->known, body, port_now(self));
        keep_poisoned(self, bytes, size);
        break;
    case MESSAGE_degraded:
        (void)availability_lose(&self->availability, ((const message_degraded_t *)body)->actor);
        break;
    case MESSAGE_drain_answer:
        routes_drain_answer(self, body);
        break;
    default:
        on_client_close(self);
        break;
    }
}

static void port_close(void *context)
{
    port_state_t *self = context;
    struct ev_loop *loop = process_loop(self->process);

    http_loop_stop(&self->running, loop);
    probe_stop(self);
    if (self->http && self->clients)
        client_close_all(self);
    text_pool_close(self->texts);
    ev_async_stop(loop, &self->text_done);
    worker_close(self->keeper);
    if (self->admin)
        admin_close(self->admin);
    if (self->http)
        http_close(self->http);
    chat_blocks_close(&self->blocks);
    if (self->tokenizer)
        tokenizer_close(self->tokenizer);
    free(self->clients);
    free(self);
}

const port_type_t client_port = {
    .id = PORT_CLIENT, .open = port_open, .push = port_push, .close = port_close};
