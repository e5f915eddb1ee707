/* gateway.c - admission and replay.
 *
 * A request's current attempt goes through
 *
 *      QUEUED ──ROUTE──> ROUTING ──ROUTED──> ROUTED ──SUBMIT──> PREFILL ──TOKENS of D──> DECODE
 *         ^                 │ no route now     │                  │                        │
 *         └─────────────────┴──────────────────┴── lost, busy ────┴────────────────────────┘
 *      PREFILL, DECODE ──END, tokens missing──> ENDING ──TOKENS──> (answered, NONE)
 *
 * The prefill leader owns END until decode runs the attempt; the gateway does not know when that
 * is, so before the first TOKENS of D it takes END from both. An ABORT goes to the prefill leader,
 * and to D once D was heard; if D speaks of an attempt that has ended here, it gets an ABORT.
 *
 * G1  a request is in at most one of the lists `queued` and `routed`, and is there iff its state
 *     says so.
 * G2  tokens go to the client in order, each once: received.count only grows.
 * G3  every admitted request gets exactly one CLIENT_END, after its last token.
 * G4  attempts only grow; messages of an earlier one meet NONE.
 * G5  the store has room for every live request's longest answer: an append never fails. It is as
 *     large as streams_max of the longest requests, and touched as it is used.
 * G6  a request is refused for load before it was routed for the first time, or never. While no
 *     instance is ready it waits, GATEWAY_PATIENCE_MS if it has not begun, and as a replay until
 *     none can be any more. Time in the queue of a ready instance does not count.
 * G7  of the requests that were with two leaders when they crashed, one is out at a time.
 * G8  GATEWAY_PROBE has a place of its own. Where an instance is full it ends at once.
 */
#include "actors/gateway/gateway.h"

#include <string.h>

#include "actors/gateway/attempt.h"
#include "runtime/base/log.h"
#include "topology/topology.h"

enum { OPEN, CLOSING, GATEWAY_STATES };

static const char *const attempt_names[] = {"none",    "queued", "routing", "routed",
                                            "prefill", "decode", "ending"};
static const char *const state_names[] = {"open", "closing"};
static const char closing_text[] = "this deployment is going down";
static const char nobody_text[] = "no instance is ready";
static const char full_text[] = "all instances are full";

static request_t *request_of(gateway_t *self, uint64_t request)
{
    uint32_t index = map_get(AT(self, map_t, by_request_offset), request, 0);

    return index == MAP_NONE ? NULL : &gateway_requests(self)[index];
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void push_client_end(outbox_t *outbox, uint64_t client, uint8_t reason, uint32_t token_count,
                            uint32_t cached_tokens, const char *detail)
{
    message_client_end_t end = {
        .client = client,
        .reason = reason,
        .token_count = token_count,
        .cached_tokens = cached_tokens,
        .retry_ms = reason == END_OVERLOADED || reason == END_UNAVAILABLE ? GATEWAY_RETRY_MS : 0,
        .detail = {detail, (uint32_t)strlen(detail)},
    };

    outbox_push(outbox, PORT_CLIENT, MESSAGE_client_end, &end);
}

/* The answer has ended, whichever way; the request is forgotten. */
static void finish(gateway_t *self, request_t *request, uint8_t reason, const char *detail,
                   outbox_t *outbox)
{
    push_client_end(outbox, request->client, reason, request->received.count,
                    request->cached_tokens, detail);
    attempt_become(self, request, NONE);
    self->words_reserved -=
        (uint64_t)request->prompt.count + request->parameters.limits.output_tokens_max;
    token_list_clear(gateway_store(self), &request->prompt);
    token_list_clear(gateway_store(self), &request->received);
    map_remove(AT(self, map_t, by_request_offset), request->request, 0);
    map_remove(AT(self, map_t, by_client_offset), request->client, 0);
    request->link.next = free_list_give(&self->free, (uint32_t)(request - gateway_requests(self)));
    self->probing -= attempt_is_probe(request);
    self->counts.live--;
    self->counts.finished++;
    if (reason == END_ABORTED || reason == END_STOPPED || reason == END_DEADLINE)
        self->counts.aborted++;
    if (reason == END_POISONED)
        self->counts.poisoned++;
}

/* Tells whoever this attempt was opened at. The opener may abort right behind its opening. */
static void push_abort(const request_t *request, uint8_t reason, outbox_t *outbox)
{
    message_abort_t abort = {request->request, request->attempt, reason};

    if (request->state != PREFILL && request->state != DECODE)
        return; /* nothing was opened, or it has ended there */
    if (request->prefill != ACTOR_NONE && outbox_is_up(outbox, request->prefill))
        outbox_push(outbox, request->prefill, MESSAGE_abort, &abort);
    if (request->state == DECODE && outbox_is_up(outbox, request->decode))
        outbox_push(outbox, request->decode, MESSAGE_abort, &abort);
}

/* What led to its end is in this actor's journal, prompt included, and in what is kept of the group. */
static void push_incident(const gateway_t *self, const char *reason, outbox_t *outbox)
{
    const message_incident_t incident = {{reason, (uint32_t)strlen(reason)}};
    actor_id_t supervisor = self->supervisors[self->id];

    if (outbox_is_up(outbox, supervisor))
        outbox_push(outbox, supervisor, MESSAGE_incident, &incident);
}

/* Everything that running it again takes. */
static void push_poisoned(gateway_t *self, request_t *request, outbox_t *outbox)
{
    uint32_t *words = AT(self, uint32_t, words_offset);
    uint32_t *received = words + request->prompt.count;
    message_client_poisoned_t poisoned = {
        .client = request->client,
        .request = request->request,
        .attempts = request->attempt,
        .prompt = {words, request->prompt.count},
        .received = {received, request->received.count},
        .sampling = request_sampling(&request->parameters),
        .limits = request_limits(&request->parameters),
        .salt = request->salt,
    };

    token_list_read(gateway_store(self), &request->prompt, 0, request->prompt.count, words);
    token_list_read(gateway_store(self), &request->received, 0, request->received.count, received);
    outbox_push(outbox, PORT_CLIENT, MESSAGE_client_poisoned, &poisoned);
}

/* Attempt + 1, with all tokens so far; at once, unless some before brought none: what is wrong, and
 * shows only in the attempt, must not keep everybody busy. */
static void replay(gateway_t *self, request_t *request, bool suspect, bool charge, outbox_t *outbox)
{
    static const char poisoned[] = "this request stopped its group twice while alone";

    request->charges = (uint8_t)(request->charges + (charge ? 1 : 0));
    if (request->charges >= GATEWAY_CHARGES_MAX) {
        LOG(WARN, "GATEWAY-POISONED request=%016llx attempt=%u tokens=%u",
            (unsigned long long)request->request, request->attempt, request->received.count);
        push_incident(self, poisoned, outbox);
        push_poisoned(self, request, outbox);
        finish(self, request, END_POISONED, poisoned, outbox);
        return;
    }
    LOG(INFO, "GATEWAY-REPLAY request=%016llx attempt=%u tokens=%u suspect=%d",
        (unsigned long long)request->request, request->attempt + 1, request->received.count,
        suspect);
    if (suspect)
        request->alone = 1;
    request->attempt++;
    request->fruitless = request->received.count > request->had ? 0 : request->fruitless + 1;
    request->had = request->received.count;
    request->retry_ms = self->now_ms + availability_wait_ms(request->fruitless);
    self->counts.replayed++;
    attempt_become(self, request, QUEUED);
}

/* ---- clients --------------------------------------------------------------------------------- */

static status_t on_client_request(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    gateway_t *self = arg;
    const message_client_request_t *m = envelope->body;
    const char *refusal = request_refusal(m, self->context_tokens);
    uint64_t words = (uint64_t)m->prompt.count + m->limits.output_tokens_max;
    request_t *request;

    ASSERT(map_get(AT(self, map_t, by_client_offset), m->client, 0) == MAP_NONE);
    if (refusal) {
        push_client_end(outbox, m->client, END_REFUSED, 0, 0, refusal);
        return STATUS_OK;
    }
    if (m->client != GATEWAY_PROBE && self->counts.live - self->probing == self->request_max - 1) {
        self->counts.overloaded++;
        push_client_end(outbox, m->client, END_OVERLOADED, 0, 0, "too many requests");
        return STATUS_OK;
    }
    request = &gateway_requests(self)[free_list_next(&self->free)];
    free_list_take(&self->free, request->link.next);
    *request =
        (request_t){.client = m->client, .attempt = 1, .salt = m->salt, .came_ms = self->now_ms};
    attempt_nobody_is_ready(self, request);
    self->probing += attempt_is_probe(request);
    request->request = (uint64_t)self->id << 52 | (uint64_t)(self->incarnation & 0xfff) << 40 |
                       (++self->counter & 0xffffffffff);
    request->link.seniority = (record_seniority_t){self->wall_ms, self->id, self->counter};
    request->deadline_ms = m->deadline_ms ? self->now_ms + m->deadline_ms : 0;
    request_copy(&request->parameters, &m->sampling, &m->limits);
    token_list_init(&request->prompt);
    token_list_init(&request->received);
    token_list_append(gateway_store(self), &request->prompt, m->prompt.data, m->prompt.count);
    map_put(AT(self, map_t, by_request_offset), request->request, 0,
            (uint32_t)(request - gateway_requests(self)));
    map_put(AT(self, map_t, by_client_offset), request->client, 0,
            (uint32_t)(request - gateway_requests(self)));
    self->words_reserved += words;
    self->counts.admitted++;
    self->counts.live++;
    attempt_become(self, request, QUEUED);
    return STATUS_OK;
}

static status_t on_client_request_closing(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_client_request_t *m = envelope->body;

    (void)arg;
    push_client_end(outbox, m->client, END_UNAVAILABLE, 0, 0, closing_text);
    return STATUS_OK;
}

static status_t on_client_abort(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    gateway_t *self = arg;
    const message_client_abort_t *m = envelope->body;
    uint32_t index = map_get(AT(self, map_t, by_client_offset), m->client, 0);

    if (index == MAP_NONE)
        return STATUS_OK; /* it crossed the CLIENT_END */
    push_abort(&gateway_requests(self)[index], m->reason, outbox);
    finish(self, &gateway_requests(self)[index], m->reason, "", outbox);
    return STATUS_OK;
}

/* ---- an attempt ------------------------------------------------------------------------------ */

static status_t on_routed(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    gateway_t *self = arg;
    const message_routed_t *m = envelope->body;
    request_t *request = request_of(self, m->request);

    if (m->outcome == ROUTE_OK || m->outcome == ROUTE_OVERLOADED)
        request->nobody_since_ms = 0;
    if (m->outcome == ROUTE_OK) {
        request->routed = true;
        request->prefill = m->prefill;
        request->decode = m->decode;
        request->transfer = m->transfer;
        attempt_become(self, request, ROUTED);
    } else if (m->outcome == ROUTE_TOO_LARGE) {
        finish(self, request, END_REFUSED, "it needs more pages than an instance has", outbox);
    } else if (m->outcome == ROUTE_NO_INSTANCE) {
        attempt_nobody_is_ready(self, request);
        attempt_ask_again(self, request, GATEWAY_AGAIN_MS);
    } else if (!request->routed || attempt_is_probe(request)) {
        self->counts.overloaded++;
        finish(self, request, END_OVERLOADED, full_text, outbox);
    } else {
        attempt_ask_again(self, request, GATEWAY_RETRY_MS);
    }
    return STATUS_OK;
}

static status_t on_busy(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    gateway_t *self = arg;
    const message_busy_t *m = envelope->body;
    request_t *request = request_of(self, m->request);

    if (envelope->from != request->prefill)
        return FAIL(STATUS_UNEXPECTED, "BUSY from %u, which was not asked", envelope->from);
    if (attempt_is_probe(request))
        finish(self, request, END_OVERLOADED, full_text, outbox);
    else
        attempt_ask_again(self, request, GATEWAY_RETRY_MS);
    return STATUS_OK;
}

static status_t on_end(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    gateway_t *self = arg;
    const message_end_t *m = envelope->body;
    request_t *request = request_of(self, m->request);

    if (envelope->from != request->decode && envelope->from != request->prefill)
        return FAIL(STATUS_UNEXPECTED, "END from %u, which does not serve it", envelope->from);
    if (request->state == DECODE && envelope->from == request->prefill)
        return FAIL(STATUS_UNEXPECTED, "END from prefill, but decode runs it");
    if (m->reason >= END_REASON_COUNT ||
        m->token_count > request->parameters.limits.output_tokens_max)
        return FAIL(STATUS_UNEXPECTED, "END for reason %u after %u tokens", m->reason,
                    m->token_count);
    if (m->reason == END_LOST || m->reason == END_RETRACTED) {
        if (envelope->from == request->decode && request->state == PREFILL)
            push_abort(request, END_LOST, outbox); /* prefill may not have heard yet */
        replay(self, request, m->suspect != 0, m->charge != 0, outbox);
        return STATUS_OK;
    }
    request->cached_tokens = m->cached_tokens;
    if (request->received.count >= m->token_count) {
        char detail[REASON_BYTES_MAX + 1];

        snprintf(detail, sizeof(detail), "%.*s", (int)m->detail.count,
                 m->detail.count ? m->detail.data : "");
        finish(self, request, m->reason, detail, outbox);
        return STATUS_OK;
    }
    request->end_reason = m->reason;
    request->end_count = m->token_count;
    attempt_become(self, request, ENDING);
    return STATUS_OK;
}

/* Tokens that came twice must be the same ones; the client keeps what it has. */
static void compare_again(gateway_t *self, request_t *request, const record_tokens_item_t *item,
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t had;

        token_list_read(gateway_store(self), &request->received, item->first + i, 1, &had);
        if (had != item->tokens.data[i].token) {
            self->counts.differing++;
            LOG(ERROR, "GATEWAY-TOKEN-DIFFERS request=%016llx attempt=%u index=%u",
                (unsigned long long)request->request, request->attempt, item->first + i);
        }
    }
}

static status_t on_tokens(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    gateway_t *self = arg;
    const record_tokens_item_t *item = envelope->item;
    request_t *request = request_of(self, item->request);
    uint32_t have = request->received.count;
    uint32_t again;

    if (envelope->from != request->decode && envelope->from != request->prefill)
        return FAIL(STATUS_UNEXPECTED, "TOKENS from %u, which does not serve it", envelope->from);
    if (item->first > have)
        return FAIL(STATUS_UNEXPECTED, "token %u follows %u", item->first, have);
    if (item->tokens.count > request->parameters.limits.output_tokens_max - item->first)
        return FAIL(STATUS_UNEXPECTED, "%u tokens from %u, but the answer may have %u",
                    item->tokens.count, item->first, request->parameters.limits.output_tokens_max);
    TRY(request_check_tokens(item));
    again = have - item->first < item->tokens.count ? have - item->first : item->tokens.count;
    compare_again(self, request, item, again);
    if (envelope->from == request->decode && request->state == PREFILL)
        attempt_become(self, request, DECODE);
    if (again < item->tokens.count) {
        const message_client_tokens_t news = {
            request->client, have, {item->tokens.data + again, item->tokens.count - again}};

        for (uint32_t i = 0; i < news.tokens.count; i++)
            token_list_append(gateway_store(self), &request->received, &news.tokens.data[i].token,
                              1);
        outbox_push(outbox, PORT_CLIENT, MESSAGE_client_tokens, &news);
    }
    if (request->state == ENDING && request->received.count >= request->end_count)
        finish(self, request, request->end_reason, "", outbox);
    return STATUS_OK;
}

/* Somebody runs an attempt that has ended here: the ABORT went to prefill and crossed the hand-
 * over. */
static status_t on_tokens_unknown(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const record_tokens_item_t *item = envelope->item;
    message_abort_t abort = {item->request, item->attempt, END_ABORTED};

    (void)arg;
    outbox_push(outbox, envelope->from, MESSAGE_abort, &abort);
    return STATUS_OK;
}

static status_t on_nothing(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)arg;
    (void)envelope;
    (void)outbox;
    return STATUS_OK;
}

static status_t on_fenced(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    gateway_t *self = arg;

    (void)envelope;
    (void)outbox;
    self->counts.fenced++;
    return STATUS_OK;
}

/* ---- peers and time -------------------------------------------------------------------------- */

/* In ENDING the missing tokens come from whoever ended it. */
static bool depends_on(const request_t *request, actor_id_t actor)
{
    const uint8_t state = request->state;
    const bool both = state == ROUTED || state == PREFILL || state == ENDING;

    return (actor == request->decode && (both || state == DECODE)) ||
           (actor == request->prefill && both) || (actor == request->transfer && state == ROUTED);
}

/* May that actor have died of it? Of its transfer the leaders may have told first, so it waits again. */
static bool worked_for(const gateway_t *self, const request_t *request, actor_id_t actor)
{
    const bool moved = actor == request->transfer && request->state < DECODE &&
                       (request->state == PREFILL || request->attempt > 1);

    return request->state != NONE && request->state != ROUTED &&
           (moved || (actor == self->scheduler && request->state == ROUTING) ||
            depends_on(request, actor));
}

static status_t on_exited(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    gateway_t *self = arg;
    const message_exited_t *m = envelope->body;
    request_t *all = gateway_requests(self);

    if (self->drain_state == DRAIN_ASKED && self->supervisors[self->drain.actor] == m->actor)
        self->drain_state = DRAIN_DUE;
    for (uint32_t i = 0; i < self->free.fresh; i++) {
        request_t *request = &all[i];
        bool suspect = exit_is_suspect(m->cause) && worked_for(self, request, m->actor);

        if (suspect || depends_on(request, m->actor)) {
            bool charge = suspect && attempt_needs_isolation(request);

            push_abort(request, END_LOST, outbox);
            request->crashes = (uint8_t)(request->crashes + (suspect ? 1 : 0));
            replay(self, request, suspect, charge, outbox);
        } else if (request->state == ROUTING && m->actor == self->scheduler) {
            attempt_nobody_is_ready(self, request);
            attempt_become(self, request, QUEUED);
        } else if (request->state == DECODE && m->actor == request->prefill) {
            request->prefill = ACTOR_NONE; /* its next life was never asked */
        }
    }
    return STATUS_OK;
}

/* Nothing moves in a group without one of its ranks, though its leader lives. */
static status_t on_degraded(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    gateway_t *self = arg;
    const message_degraded_t *m = envelope->body;
    request_t *all = gateway_requests(self);
    actor_id_t leader;

    if (m->actor >= self->actor_count || !availability_lose(&self->availability, m->actor))
        return STATUS_OK;
    leader = availability_leader(&self->availability, m->actor);
    outbox_push(outbox, PORT_CLIENT, MESSAGE_degraded, m);
    for (uint32_t i = 0; i < self->free.fresh; i++) {
        if (all[i].state != ENDING && depends_on(&all[i], leader)) {
            push_abort(&all[i], END_LOST, outbox);
            replay(self, &all[i], false, false, outbox);
        }
    }
    return STATUS_OK;
}

static void end_if_late(gateway_t *self, request_t *request, outbox_t *outbox)
{
    const uint64_t patience_ms =
        attempt_is_probe(request) ? GATEWAY_PROBE_PATIENCE_MS : GATEWAY_PATIENCE_MS;
    char detail[REASON_BYTES_MAX];

    if (request->deadline_ms && request->deadline_ms <= self->now_ms) {
        snprintf(detail, sizeof(detail), "the answer had %llu ms, which are over after %u tokens",
                 (unsigned long long)(request->deadline_ms - request->came_ms),
                 request->received.count);
        push_abort(request, END_DEADLINE, outbox);
        finish(self, request, END_DEADLINE, detail, outbox);
    } else if (self->state == CLOSING && self->close_at_ms <= self->now_ms) {
        push_abort(request, END_ABORTED, outbox);
        finish(self, request, END_UNAVAILABLE, closing_text, outbox);
    } else if (request->state == QUEUED && (request->attempt == 1 || attempt_is_probe(request)) &&
               request->nobody_since_ms && request->nobody_since_ms + patience_ms <= self->now_ms) {
        finish(self, request, END_UNAVAILABLE, nobody_text, outbox);
    } else if (request->state == QUEUED && availability_hopeless(&self->availability)) {
        finish(self, request, END_UNAVAILABLE, availability_hopeless(&self->availability), outbox);
    }
}

static status_t on_tick(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    gateway_t *self = arg;
    const message_tick_t *m = envelope->body;
    request_t *all = gateway_requests(self);

    self->now_ms = m->now_ms;
    self->wall_ms = m->wall_ms;
    for (uint32_t i = 0; i < self->free.fresh; i++)
        if (all[i].state != NONE)
            end_if_late(self, &all[i], outbox);
    return STATUS_OK;
}

static status_t on_stop(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    gateway_t *self = arg;
    const message_stop_t *m = envelope->body;

    if (self->state == OPEN)
        outbox_push(outbox, PORT_CLIENT, MESSAGE_client_close, &(message_client_close_t){0});
    self->state = CLOSING;
    self->close_at_ms = self->now_ms + m->grace_ms;
    return STATUS_OK;
}

/* ---- operators ------------------------------------------------------------------------------- */

/* One wish at a time: the port waits for the answer. */
static status_t on_drain(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    gateway_t *self = arg;
    const message_drain_t *m = envelope->body;

    (void)outbox;
    ASSERT(m->actor < self->actor_count && self->drain_state == NO_DRAIN);
    self->drain = *m;
    self->drain_state = DRAIN_DUE;
    return STATUS_OK;
}

static status_t on_drain_answer(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    gateway_t *self = arg;
    const message_drain_answer_t *m = envelope->body;

    if (self->drain_state != DRAIN_ASKED || m->actor != self->drain.actor)
        return FAIL(STATUS_UNEXPECTED, "nobody asked for actor %u", m->actor);
    self->drain_state = NO_DRAIN;
    outbox_push(outbox, PORT_CLIENT, MESSAGE_drain_answer, m);
    return STATUS_OK;
}

/* ---- tables ---------------------------------------------------------------------------------- */

#define ANY ACTOR_STATE_ANY
#define STAYS (BIT(OPEN) | BIT(CLOSING))

static const actor_rule_t rules[] = {
    {ANY, MESSAGE_joined, on_nothing, STAYS}, /* the planner sees that the stream is up */
    {ANY, MESSAGE_exited, on_exited, STAYS},
    {ANY, MESSAGE_degraded, on_degraded, STAYS},
    {ANY, MESSAGE_tick, on_tick, STAYS},
    {ANY, MESSAGE_stop, on_stop, BIT(CLOSING)},
    {OPEN, MESSAGE_client_request, on_client_request, BIT(OPEN)},
    {CLOSING, MESSAGE_client_request, on_client_request_closing, BIT(CLOSING)},
    {ANY, MESSAGE_client_abort, on_client_abort, STAYS},
    {ANY, MESSAGE_drain, on_drain, STAYS},
    {ANY, MESSAGE_drain_answer, on_drain_answer, STAYS},
};

static const actor_rule_t attempt_rules[] = {
    {ROUTING, MESSAGE_routed, on_routed, BIT(ROUTED) | BIT(QUEUED) | BIT(NONE)},
    {PREFILL, MESSAGE_busy, on_busy, BIT(QUEUED) | BIT(NONE) | BIT(PREFILL)},
    {PREFILL, MESSAGE_end, on_end, BIT(NONE) | BIT(ENDING) | BIT(PREFILL)},
    {DECODE, MESSAGE_end, on_end, BIT(NONE) | BIT(ENDING) | BIT(DECODE)},
    {PREFILL, MESSAGE_tokens, on_tokens, BIT(PREFILL) | BIT(DECODE)},
    {DECODE, MESSAGE_tokens, on_tokens, BIT(DECODE)},
    {ENDING, MESSAGE_tokens, on_tokens, BIT(ENDING) | BIT(NONE)},
    {NONE, MESSAGE_tokens, on_tokens_unknown, BIT(NONE)},
    {ANY, MESSAGE_fenced, on_fenced, BIT(ATTEMPT_STATES) - 1},
};

static const actor_refusal_t attempt_refusals[] = {
    {ANY, MESSAGE_routed, "this attempt asked for no route"},
    {ANY, MESSAGE_busy, "this attempt was not submitted"},
    {NONE, MESSAGE_end, "it has ended here before"},
    {ENDING, MESSAGE_end, "it has ended here before"},
    {ANY, MESSAGE_end, "this attempt was not submitted"},
    {ANY, MESSAGE_tokens, "this attempt was not submitted"},
};

static uint8_t state_of(const void *arg)
{
    return ((const gateway_t *)arg)->state;
}

static uint8_t attempt_state_of(const void *arg, uint64_t request, uint32_t attempt)
{
    const gateway_t *self = arg;
    uint32_t index = map_get(AT_CONST(self, map_t, by_request_offset), request, 0);
    const request_t *found;

    if (index == MAP_NONE)
        return NONE;
    found = &AT_CONST(self, request_t, requests_offset)[index];
    return found->attempt == attempt ? found->state : NONE;
}

static void untouched(const void *arg, size_t *from, size_t *to)
{
    const gateway_t *self = arg;

    token_store_untouched(AT_CONST(self, token_store_t, store_offset), from, to);
    *from += self->store_offset;
    *to += self->store_offset;
}

static uint32_t attempt_count_of(const void *arg)
{
    const gateway_t *self = arg;

    return self->counts.live;
}

const gateway_counts_t *gateway_counts(const void *arg)
{
    return &((const gateway_t *)arg)->counts;
}

bool gateway_find(const void *arg, uint64_t client, uint64_t *request, uint32_t *attempt)
{
    const gateway_t *self = arg;
    uint32_t index = map_get(AT_CONST(self, map_t, by_client_offset), client, 0);
    const request_t *found;

    if (index == MAP_NONE)
        return false;
    found = &AT_CONST(self, request_t, requests_offset)[index];
    *request = found->request;
    *attempt = found->attempt;
    return true;
}

static void check(const void *arg)
{
    const gateway_t *self = arg;
    const request_t *all = AT_CONST(self, request_t, requests_offset);
    uint32_t live = 0, queued = 0, routed = 0, isolated = 0, probing = 0;
    uint64_t reserved = 0;

    for (uint32_t i = 0; i < self->free.fresh; i++) {
        if (all[i].state == NONE)
            continue;
        live++;
        probing += attempt_is_probe(&all[i]);
        queued += all[i].state == QUEUED;
        routed += all[i].state == ROUTED;
        isolated += attempt_needs_isolation(&all[i]) && all[i].state != QUEUED;
        reserved += (uint64_t)all[i].prompt.count + all[i].parameters.limits.output_tokens_max;
        ASSERT(all[i].attempt >= 1);
        ASSERT(all[i].state != ENDING || all[i].received.count < all[i].end_count);
    }
    ASSERT(live == self->counts.live);
    ASSERT(probing == self->probing);
    ASSERT(isolated == (self->isolated != 0));
    ASSERT(reserved == self->words_reserved && reserved <= self->words_max);
    ASSERT(queued == self->queued.count);
    ASSERT(routed == self->routed.count);
    request_list_check(&self->queued, all);
    request_list_check(&self->routed, all);
    ASSERT(AT_CONST(self, map_t, by_request_offset)->count == live);
    ASSERT(AT_CONST(self, map_t, by_client_offset)->count == live);
}

/* ---- birth ----------------------------------------------------------------------------------- */

/* Where everything lies; returns the size of the whole block. */
static size_t lay_out(gateway_t *self, const actor_birth_t *birth)
{
    const topology_t *topology = birth->topology;
    const topology_actor_t *actor = &topology->actors[birth->id];
    const topology_gateway_t *gateway = &topology->gateways[actor->instance];
    size_t end = sizeof(*self);

    self->words_max = (uint64_t)gateway->streams_max * topology->context_tokens;
    self->request_max = gateway->streams_max + 1; /* and the probe */
    self->words_max += GATEWAY_PROBE_WORDS;
    self->context_tokens = topology->context_tokens;
    self->by_request_offset = block_take(&end, map_bytes(self->request_max));
    self->by_client_offset = block_take(&end, map_bytes(self->request_max));
    self->requests_offset = block_take(&end, self->request_max * sizeof(request_t));
    self->words_offset = block_take(&end, ((size_t)self->context_tokens + 1) * sizeof(uint32_t));
    self->keys_offset = block_take(&end, PROMPT_TOKENS_MAX / PAGE_TOKENS * sizeof(uint64_t));
    self->store_offset =
        block_take(&end, token_store_bytes(self->words_max, 2 * self->request_max));
    return end;
}

static size_t bytes(const actor_birth_t *birth)
{
    gateway_t layout = {0};

    return lay_out(&layout, birth);
}

static status_t init(void *arg, const actor_birth_t *birth)
{
    gateway_t *self = arg;
    const topology_t *topology = birth->topology;

    *self = (gateway_t){.id = birth->id, .incarnation = birth->incarnation};
    lay_out(self, birth);
    availability_init(&self->availability, topology);
    self->scheduler = topology_actor(topology, ACTOR_SCHEDULER, 0)->id;
    self->actor_count = topology->actor_count;
    for (uint32_t i = 0; i < topology->actor_count; i++)
        self->supervisors[i] =
            topology_actor(topology, ACTOR_SUPERVISOR, topology->actors[i].host)->id;
    request_list_init(&self->queued, sizeof(request_t));
    request_list_init(&self->routed, sizeof(request_t));
    map_init(AT(self, map_t, by_request_offset), self->request_max);
    map_init(AT(self, map_t, by_client_offset), self->request_max);
    token_store_init(gateway_store(self), self->words_max, 2 * self->request_max);
    free_list_init(&self->free, self->request_max);
    return STATUS_OK;
}

const actor_type_t gateway_type = {
    .kind = ACTOR_GATEWAY,
    .state_bytes = sizeof(gateway_t),
    .bytes = bytes,
    .init = init,
    .plan = gateway_plan,
    .state = state_of,
    .attempt_state = attempt_state_of,
    .attempt_count = attempt_count_of,
    .untouched = untouched,
    .check = check,
    .table = {state_names, GATEWAY_STATES, rules, COUNT_OF(rules), NULL, 0},
    .attempts = {attempt_names, ATTEMPT_STATES, attempt_rules, COUNT_OF(attempt_rules),
                 attempt_refusals, COUNT_OF(attempt_refusals)},
};
