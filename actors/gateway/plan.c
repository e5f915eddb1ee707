/* plan.c - what the gateway sends when it may: ROUTE to the scheduler, SUBMIT to prefill leaders. */
#include "actors/gateway/attempt.h"
#include "cache/key.h"
#include "runtime/base/plant.h"

static void push_route(gateway_t *self, request_t *request, outbox_t *outbox)
{
    uint32_t *words = AT(self, uint32_t, words_offset);
    uint64_t *keys = AT(self, uint64_t, keys_offset);
    message_route_t route = {
        .request = request->request,
        .attempt = request->attempt,
        .seniority = request->link.seniority,
        .prompt_tokens = request->prompt.count,
        .total_tokens_max = request->prompt.count + request->parameters.limits.output_tokens_max,
        .replay = request->routed,
    };

    token_list_read(gateway_store(self), &request->prompt, 0, request->prompt.count, words);
    route.keys.data = keys;
    /* Keys here only steer affinity, so the digests of weights and numerics may stay out of the salt. */
    route.keys.count = page_keys(words, request->prompt.count, page_salt(0, 0, 0, request->salt),
                                 keys, PROMPT_TOKENS_MAX / PAGE_TOKENS);
    outbox_push(outbox, self->scheduler, MESSAGE_route, &route);
    if (attempt_needs_isolation(request))
        self->isolated = request->request;
    attempt_become(self, request, ROUTING);
}

static void push_submit(gateway_t *self, request_t *request, outbox_t *outbox)
{
    uint32_t *words = AT(self, uint32_t, words_offset);
    uint32_t *forced = words + request->prompt.count;
    message_submit_t submit = {
        .request = request->request,
        .attempt = PLANTED(reopened_attempt) ? 1 : request->attempt,
        .seniority = request->link.seniority,
        .decode = request->decode,
        .transfer = request->transfer,
        .alone = request->alone,
        .salt = request->salt,
        .prompt = {words, request->prompt.count},
        .forced = {forced, request->received.count},
        .sampling = request_sampling(&request->parameters),
        .limits = request_limits(&request->parameters),
    };

    token_list_read(gateway_store(self), &request->prompt, 0, request->prompt.count, words);
    token_list_read(gateway_store(self), &request->received, 0, request->received.count, forced);
    outbox_push(outbox, request->prefill, MESSAGE_submit, &submit);
    attempt_become(self, request, PREFILL);
}

void gateway_plan(void *arg, outbox_t *outbox)
{
    gateway_t *self = arg;
    request_t *all = gateway_requests(self);

    if (self->drain_state == DRAIN_DUE &&
        outbox_may_send(outbox, self->supervisors[self->drain.actor], MESSAGE_drain)) {
        outbox_push(outbox, self->supervisors[self->drain.actor], MESSAGE_drain, &self->drain);
        self->drain_state = DRAIN_ASKED;
    }
    for (uint32_t i = self->queued.first, next;
         i != REQUEST_NIL && outbox_may_send(outbox, self->scheduler, MESSAGE_route); i = next) {
        next = all[i].link.next;
        if (all[i].retry_ms <= self->now_ms &&
            !(self->isolated && attempt_needs_isolation(&all[i])))
            push_route(self, &all[i], outbox);
    }
    for (uint32_t i = self->routed.first, next; i != REQUEST_NIL; i = next) {
        next = all[i].link.next;
        if (!outbox_is_up(outbox, all[i].prefill) || !outbox_is_up(outbox, all[i].decode))
            attempt_ask_again(self, &all[i],
                              GATEWAY_AGAIN_MS); /* nobody would tell of an end here */
        else if (outbox_may_send(outbox, all[i].prefill, MESSAGE_submit))
            push_submit(self, &all[i], outbox);
    }
}
