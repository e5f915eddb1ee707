/* probe.c - the gateway's own request: one token of an answer shows that the deployment can give answers. */
#include "actors/gateway/port.h"
#include "runtime/base/log.h"

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

void probe_ended(port_state_t *self, const message_client_end_t *m)
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

void probe_start(port_state_t *self)
{
    ev_timer_init(&self->probe, on_probe, 0.001, CLIENT_PROBE_MS * 1e-3);
    self->probe.data = self;
    ev_timer_start(process_loop(self->process), &self->probe);
}

void probe_stop(port_state_t *self)
{
    ev_timer_stop(process_loop(self->process), &self->probe);
}
