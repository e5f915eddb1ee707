/* attempt.c - how an attempt changes, and the lists that follow from it. */
#include "actors/gateway/attempt.h"

request_t *gateway_requests(gateway_t *self)
{
    return AT(self, request_t, requests_offset);
}

token_store_t *gateway_store(gateway_t *self)
{
    return AT(self, token_store_t, store_offset);
}

/* The list of those that wait in this state, or NULL. */
static request_list_t *list_of(gateway_t *self, uint8_t state)
{
    return state == QUEUED ? &self->queued : state == ROUTED ? &self->routed : NULL;
}

bool attempt_needs_isolation(const request_t *request)
{
    return request->crashes >= GATEWAY_CRASHES_FREE;
}

void attempt_become(gateway_t *self, request_t *request, uint8_t state)
{
    request_t *all = gateway_requests(self);
    request_list_t *from = list_of(self, request->state), *to = list_of(self, state);

    if (from)
        request_list_remove(from, all, (uint32_t)(request - all));
    if (self->isolated == request->request && (state == QUEUED || state == NONE))
        self->isolated = 0;
    request->state = state;
    if (to)
        request_list_insert(to, all, (uint32_t)(request - all));
}

bool attempt_is_probe(const request_t *request)
{
    return request->client == GATEWAY_PROBE;
}

void attempt_nobody_is_ready(const gateway_t *self, request_t *request)
{
    if (!request->nobody_since_ms)
        request->nobody_since_ms = self->now_ms;
}

void attempt_ask_again(gateway_t *self, request_t *request, uint64_t wait_ms)
{
    request->retry_ms = self->now_ms + wait_ms;
    attempt_become(self, request, QUEUED);
}
