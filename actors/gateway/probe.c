/* probe.c - readiness: a request of the gateway's own, for one token. The first one that is answered
 * makes the deployment ready; it is so until one ends without an answer, because nobody could serve it.
 */
#include "actors/gateway/port.h"
#include "runtime/base/log.h"

static void on_probe(struct ev_loop *loop, ev_timer *watcher, int events)
{
    port_state_t *self = watcher->data;
    message_client_request_t request = {
        .client = GATEWAY_PROBE,
        .prompt = {&self->config.bos_token, 1},
        .sampling = {.top_p = 1, .repetition_penalty = 1},
        .limits = {.output_tokens_max = 1},
    };

    (void)loop;
    (void)events;
    if (self->probing)
        return; /* it waits for its turn behind others' work; whatever is lost, the gateway ends it */
    self->probing = true;
    process_post(self->process, PORT_CLIENT, MESSAGE_client_request, &request);
}

void probe_ended(port_state_t *self, const message_client_end_t *m)
{
    bool answered = m->reason == END_STOP || m->reason == END_LENGTH;
    /* Full is no change: who works as much as it can is ready, who was not before is not known to be. */
    bool ready = answered || (m->reason == END_OVERLOADED && self->ready);

    if (ready && !self->ready)
        LOG(INFO, "GATEWAY-READY port=%u", http_port(self->http));
    if (!ready && self->ready)
        LOG(WARN, "GATEWAY-NOT-READY a request of its own ended by reason %u", m->reason);
    self->probing = false;
    if (self->closing)
        return;
    self->ready = ready;
    self->probe.repeat = ready ? CLIENT_PROBE_READY_S : CLIENT_PROBE_MS * 1e-3;
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
