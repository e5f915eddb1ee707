/* prefill.c - handlers and tables of the prefill leader; attempt.h says how an attempt lives. */
#include "actors/prefill/prefill.h"

#include <stdio.h>
#include <string.h>

#include "actors/prefill/attempt.h"
#include "runtime/base/log.h"
#include "runtime/base/plant.h"

/* ---- the group ------------------------------------------------------------------------------- */

static void lose_epoch(void *arg)
{
    prefix_clear(prefix_of(arg));
}

/* Digests of the units that the step closed, by their place. */
static void keep_digests(prefill_t *self, const group_step_t *step)
{
    const group_t *group = group_of(self);
    const record_closed_t *closed = group_closed(group, step);

    for (uint32_t i = 0; i < step->closed_count; i++) {
        if (closed[i].unit == UNIT_HISTORY && closed[i].index < group->pages)
            AT(self, uint64_t, page_digests_offset)[closed[i].index] = closed[i].digest;
        if (closed[i].unit == UNIT_SLOT && closed[i].index < group->slots)
            AT(self, uint64_t, slot_digests_offset)[closed[i].index] = closed[i].digest;
    }
}

static void finish_step(void *arg, const group_step_t *step, outbox_t *outbox)
{
    prefill_t *self = arg;
    const group_item_t *items = group_items(group_of(self), step);
    const group_token_t *tokens = group_tokens(group_of(self), step);
    attempt_t *all = attempts_of(self);

    keep_digests(self, step);
    for (uint32_t i = 0; i < step->item_count; i++) {
        attempt_t *attempt = &all[items[i].attempt];

        if (items[i].kind == DEVICE_RUN && attempt->base.holds)
            prefill_progress(self, attempt, items[i].position + items[i].count);
    }
    for (uint32_t i = 0; i < step->token_count; i++) {
        attempt_t *attempt = &all[items[tokens[i].item].attempt];

        if (attempt->base.state == HANDING)
            prefill_token(self, attempt, &tokens[i], outbox);
    }
}

/* ---- decode groups --------------------------------------------------------------------------- */

/* What waits for that decode group goes elsewhere. */
static void end_queued_for(prefill_t *self, actor_id_t decode, outbox_t *outbox)
{
    attempt_t *all = attempts_of(self);

    for (uint32_t i = self->leader.live.first, next; i != NIL; i = next) {
        next = all[i].base.link.next;
        if (all[i].base.state == QUEUED && all[i].decode == decode)
            prefill_end(self, &all[i], END_LOST, "its decode group leaves", false, outbox);
    }
}

static status_t on_pair(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    prefill_t *self = arg;
    const message_pair_t *m = envelope->body;
    target_t *target = prefill_target(self, envelope->from);

    if (!target || m->state > PAIR_LEAVING)
        return FAIL(STATUS_UNEXPECTED, "PAIR from %u, state %u", envelope->from, m->state);
    if (m->state == PAIR_REFUSED) {
        LOG(ERROR, "PREFILL-PAIR-REFUSED decode=%u reason=\"%.*s\"", envelope->from,
            (int)m->reason.count, m->reason.data);
        group_kill(group_of(self), m->rank, m->incarnation, m->reason, outbox);
    }
    target->state = (pair_state_t)m->state;
    target->source_epoch = m->source_epoch;
    self->lease_failed = 0;
    if (m->state == PAIR_LEAVING)
        end_queued_for(self, envelope->from, outbox);
    return STATUS_OK;
}

static status_t on_room(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    prefill_t *self = arg;
    target_t *target = prefill_target(self, envelope->from);

    (void)outbox;
    if (!target)
        return FAIL(STATUS_UNEXPECTED, "ROOM from %u", envelope->from);
    target->blocked = false;
    self->lease_failed = 0;
    return STATUS_OK;
}

/* ---- an attempt ------------------------------------------------------------------------------ */

static const char *reason_to_refuse(prefill_t *self, const message_submit_t *m)
{
    uint64_t total = (uint64_t)m->prompt.count + m->limits.output_tokens_max;

    if (m->prompt.count == 0 || m->limits.output_tokens_max == 0)
        return "prompt and answer have at least one token";
    if (total > self->leader.context_tokens ||
        tokens_pages(m->prompt.count) > group_of(self)->pages - 1)
        return "the prompt needs more pages than this group has";
    if (m->sampling.bias_tokens.count != m->sampling.bias_values.count)
        return "each biased token needs one value";
    if (!prefill_target(self, m->decode) ||
        leader_transfer(&self->leader, m->transfer) == UINT32_MAX)
        return "it names a decode leader or a transfer that is none";
    return NULL;
}

static void refuse_submit(prefill_t *self, const message_submit_t *m, actor_id_t to,
                          end_reason_t reason, const char *detail, outbox_t *outbox)
{
    message_end_t end = {.request = m->request, .attempt = m->attempt, .reason = (uint8_t)reason};

    end.token_count = m->forced.count;
    end.detail = (text_view_t){detail, (uint32_t)strlen(detail)};
    leader_refuse(self, to, &end, outbox);
}

static status_t on_submit(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    prefill_t *self = arg;
    const message_submit_t *m = envelope->body;
    const char *refusal = reason_to_refuse(self, m);
    message_busy_t busy = {m->request, m->attempt};

    if (refusal)
        refuse_submit(self, m, envelope->from, END_REFUSED, refusal, outbox);
    else if (m->forced.count >= m->limits.output_tokens_max)
        refuse_submit(self, m, envelope->from, END_LENGTH, "", outbox);
    else if (group_of(self)->drains)
        refuse_submit(self, m, envelope->from, END_LOST, "this prefill group leaves", outbox);
    else if (prefill_target(self, m->decode)->state == PAIR_LEAVING)
        refuse_submit(self, m, envelope->from, END_LOST, "its decode group leaves", outbox);
    else if (!prefill_open(self, m, envelope->from))
        outbox_push(outbox, envelope->from, MESSAGE_busy, &busy);
    return STATUS_OK;
}

static status_t on_abort(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    prefill_t *self = arg;
    const message_abort_t *m = envelope->body;
    attempt_t *attempt = prefill_find(self, m->request, m->attempt);

    if (m->reason >= END_REASON_COUNT)
        return FAIL(STATUS_UNEXPECTED, "ABORT for reason %u, which is none", m->reason);
    if (envelope->from != attempt->base.gateway)
        return FAIL(STATUS_UNEXPECTED, "ABORT from %u, which did not open it", envelope->from);
    if (PLANTED(starved_abort) && attempt->base.state == QUEUED)
        return STATUS_OK;
    prefill_end(self, attempt, (end_reason_t)m->reason, "", true, outbox);
    return STATUS_OK;
}

/* Decode runs it, and the gateway may not know yet: pass it on. */
static status_t on_abort_ending(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    prefill_t *self = arg;
    const message_abort_t *m = envelope->body;
    attempt_t *attempt = prefill_find(self, m->request, m->attempt);

    if (attempt->handed && outbox_is_up(outbox, attempt->decode))
        outbox_push(outbox, attempt->decode, MESSAGE_abort, m);
    if (PLANTED(double_end))
        prefill_end(self, attempt, (end_reason_t)m->reason, "", false, outbox);
    return STATUS_OK;
}

/* The attempt if the message comes from its decode leader, else NULL. */
static attempt_t *of_decode(prefill_t *self, const envelope_t *envelope, uint64_t request,
                            uint32_t number)
{
    attempt_t *attempt = prefill_find(self, request, number);

    return envelope->from == attempt->decode ? attempt : NULL;
}

static status_t on_reserved(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    prefill_t *self = arg;
    const message_reserved_t *m = envelope->body;
    attempt_t *attempt = of_decode(self, envelope, m->request, m->attempt);

    (void)outbox;
    if (!attempt)
        return FAIL(STATUS_UNEXPECTED, "RESERVED from %u", envelope->from);
    leader_become(self, &attempt->base, PREFILLING);
    return STATUS_OK;
}

static status_t on_busy(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    prefill_t *self = arg;
    const message_busy_t *m = envelope->body;
    attempt_t *attempt = of_decode(self, envelope, m->request, m->attempt);

    if (!attempt)
        return FAIL(STATUS_UNEXPECTED, "BUSY from %u", envelope->from);
    leader_wait_over(self, &attempt->base, WAITS_DECODE);
    prefill_target(self, attempt->decode)->blocked = true;
    if (attempt->base.state == ENDING)
        prefill_settle(self, attempt, outbox);
    else
        prefill_unlease(self, attempt);
    return STATUS_OK;
}

static status_t on_running(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    prefill_t *self = arg;
    const message_running_t *m = envelope->body;
    attempt_t *attempt = of_decode(self, envelope, m->request, m->attempt);

    if (!attempt)
        return FAIL(STATUS_UNEXPECTED, "RUNNING from %u", envelope->from);
    prefill_hand_over(self, attempt, outbox);
    return STATUS_OK;
}

/* Decode lost it or gave it up; until RUNNING its END goes through here. */
static status_t on_end(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    prefill_t *self = arg;
    const message_end_t *m = envelope->body;
    attempt_t *attempt = of_decode(self, envelope, m->request, m->attempt);
    char detail[REASON_BYTES_MAX + 1];

    if (!attempt || m->reason >= END_REASON_COUNT)
        return FAIL(STATUS_UNEXPECTED, "END from %u, reason %u", envelope->from, m->reason);
    attempt->base.suspect = attempt->base.suspect || m->suspect;
    attempt->base.charge = attempt->base.charge || m->charge;
    snprintf(detail, sizeof(detail), "%.*s", (int)m->detail.count, m->detail.data);
    prefill_end(self, attempt, (end_reason_t)m->reason, detail, false, outbox);
    return STATUS_OK;
}

/* It reads no unit of the attempt any more, and takes no further piece. */
static void transfer_is_done(prefill_t *self, attempt_t *attempt)
{
    leader_wait_over(self, &attempt->base, WAITS_TRANSFER);
    attempt->kv_stop = true;
}

static status_t on_fenced(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    prefill_t *self = arg;
    const message_fenced_t *m = envelope->body;
    attempt_t *attempt = prefill_find(self, m->request, m->attempt);

    if (envelope->from == attempt->decode)
        leader_wait_over(self, &attempt->base, WAITS_DECODE);
    else if (envelope->from == attempt->base.transfer)
        transfer_is_done(self, attempt);
    else
        return FAIL(STATUS_UNEXPECTED, "FENCED from %u", envelope->from);
    if (attempt->base.state == ENDING)
        prefill_settle(self, attempt, outbox);
    return STATUS_OK;
}

static status_t on_kv_answer(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    prefill_t *self = arg;
    const message_kv_answer_t *m = envelope->body;
    attempt_t *attempt = prefill_find(self, m->request, m->attempt);

    if (envelope->from != attempt->base.transfer || m->piece >= attempt->pieces_sent ||
        attempt->pieces_answered == attempt->pieces_sent)
        return FAIL(STATUS_UNEXPECTED, "KV_ANSWER from %u, piece %u", envelope->from, m->piece);
    attempt->pieces_answered++;
    if (m->taken)
        attempt->pieces_taken++;
    else
        attempt->kv_stop = true; /* decode will say why */
    if (attempt->pieces_taken == 0 && attempt->pieces_answered == attempt->pieces_sent)
        leader_wait_over(self, &attempt->base,
                         WAITS_TRANSFER); /* it holds none, and owes no FENCED */
    if (attempt->base.state == ENDING)
        prefill_settle(self, attempt, outbox);
    return STATUS_OK;
}

/* ---- peers and time -------------------------------------------------------------------------- */

static status_t on_joined(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    prefill_t *self = arg;
    const message_joined_t *m = envelope->body;
    target_t *target = prefill_target(self, m->actor);

    (void)outbox;
    leader_joined(self, envelope);
    if (target)
        target->pools_said = 0;
    return STATUS_OK;
}

static void lose_peer(prefill_t *self, attempt_t *attempt, actor_id_t actor, outbox_t *outbox)
{
    bool ends = attempt->base.state == ENDING;

    if (attempt->base.gateway == actor) {
        attempt->base.gateway_gone = true;
        leader_wait_over(self, &attempt->base, WAITS_TOKEN_ACK);
        if (!ends)
            prefill_end(self, attempt, END_ABORTED, "its gateway is gone", true, outbox);
    } else if (attempt->decode == actor) {
        leader_wait_over(self, &attempt->base, WAITS_DECODE);
        if (!ends)
            prefill_end(self, attempt, END_LOST, "the decode leader exited", false, outbox);
    } else if (attempt->base.transfer == actor) {
        leader_wait_over(self, &attempt->base,
                         WAITS_TRANSFER); /* decode says FENCED when nobody copies */
        if (!ends)
            prefill_end(self, attempt, END_LOST, "the transfer exited", true, outbox);
    } else {
        return;
    }
    if (ends)
        prefill_settle(self, attempt, outbox);
}

/* Decode may have been BUSY only since that gateway was not known there, which may never be known again:
 * then it says no ROOM, and all others would wait. */
static void lose_gateway(prefill_t *self, actor_id_t actor)
{
    bool is_gateway = leader_is_gateway(&self->leader, actor);

    for (uint32_t i = 0; i < self->target_count && is_gateway; i++)
        self->targets[i].blocked = false;
}

static status_t on_exited(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    prefill_t *self = arg;
    const message_exited_t *m = envelope->body;
    attempt_t *all = attempts_of(self);
    target_t *target = prefill_target(self, m->actor);

    leader_exited(self, &prefill_leader, envelope, outbox);
    for (uint32_t i = self->leader.live.first, next; i != NIL; i = next) {
        next = all[i].base.link.next;
        lose_peer(self, &all[i], m->actor, outbox);
    }
    lose_gateway(self, m->actor);
    if (target) {
        target->state = PAIR_UNTESTED;
        target->source_epoch = 0;
        target->blocked = false;
        target->pools_said = 0;
    }
    return STATUS_OK;
}

/* ---- what leader.c asks ---------------------------------------------------------------------- */

static attempt_t *own(leader_attempt_t *attempt)
{
    return (attempt_t *)(void *)attempt; /* whose first member it is */
}

static actor_id_t opener(const leader_attempt_t *base)
{
    const attempt_t *attempt = (const attempt_t *)(const void *)base;

    if (base->gateway_gone || (PLANTED(lost_fence) && attempt->handed))
        return ACTOR_NONE;
    return base->gateway;
}

static void end(void *self, leader_attempt_t *attempt, end_reason_t reason, const char *detail,
                outbox_t *outbox)
{
    prefill_end(self, own(attempt), reason, detail, true, outbox);
}

static void forget(void *self, leader_attempt_t *attempt)
{
    token_list_clear(store_of(self), &own(attempt)->prompt);
    token_list_clear(store_of(self), &own(attempt)->forced);
}

static void lose(leader_attempt_t *attempt)
{
    own(attempt)->loading = false;
    own(attempt)->shared_count = 0;
}

static void settle_epoch(void *self, leader_attempt_t *attempt)
{
    (void)self;
    (void)attempt;
}

const leader_ops_t prefill_leader = {
    .queued = QUEUED,
    .opener = opener,
    .end = end,
    .give_back = prefill_give_back,
    .forget = forget,
    .wants_run = prefill_wants_run,
    .rows_free = prefill_rows_free,
    .add_run = prefill_add_run,
    .add_runs = prefill_add_runs,
    .finish_step = finish_step,
    .lose_epoch = lose_epoch,
    .lose = lose,
    .settle_epoch = settle_epoch,
};

LEADER_HANDLERS(prefill_leader)

/* ---- tables ---------------------------------------------------------------------------------- */

#define ANY ACTOR_STATE_ANY
#define ALL_STATES LEADER_ALL_STATES
#define ENDS (BIT(ENDING) | BIT(NONE))

static const char *const attempt_names[] = {"none",      "ending",     "queued",
                                            "reserving", "prefilling", "handing"};

static const actor_rule_t rules[] = {
    {ANY, MESSAGE_joined, on_joined, ALL_STATES},
    {ANY, MESSAGE_exited, on_exited, ALL_STATES},
    LEADER_RULES,
    {ANY, MESSAGE_pair, on_pair, ALL_STATES},
    {ANY, MESSAGE_room, on_room, ALL_STATES},
};

static const actor_rule_t attempt_rules[] = {
    {NONE, MESSAGE_submit, on_submit, BIT(NONE) | BIT(QUEUED)},
    {QUEUED, MESSAGE_abort, on_abort, ENDS | BIT(QUEUED)},
    {RESERVING, MESSAGE_abort, on_abort, ENDS | BIT(RESERVING)},
    {PREFILLING, MESSAGE_abort, on_abort, ENDS | BIT(PREFILLING)},
    {HANDING, MESSAGE_abort, on_abort, ENDS | BIT(HANDING)},
    {ENDING, MESSAGE_abort, on_abort_ending, BIT(ENDING)},
    {RESERVING, MESSAGE_reserved, on_reserved, BIT(PREFILLING) | BIT(RESERVING)},
    {RESERVING, MESSAGE_busy, on_busy, BIT(QUEUED) | BIT(RESERVING)},
    {ENDING, MESSAGE_busy, on_busy, ENDS},
    {HANDING, MESSAGE_running, on_running, ENDS | BIT(HANDING)},
    {ENDING, MESSAGE_running, on_running, ENDS},
    {RESERVING, MESSAGE_end, on_end, ENDS | BIT(RESERVING)},
    {PREFILLING, MESSAGE_end, on_end, ENDS | BIT(PREFILLING)},
    {HANDING, MESSAGE_end, on_end, ENDS | BIT(HANDING)},
    {RESERVING, MESSAGE_fenced, on_fenced, BIT(RESERVING)},
    {PREFILLING, MESSAGE_fenced, on_fenced, BIT(PREFILLING)},
    {HANDING, MESSAGE_fenced, on_fenced, BIT(HANDING)},
    {ENDING, MESSAGE_fenced, on_fenced, ENDS},
    {PREFILLING, MESSAGE_kv_answer, on_kv_answer, BIT(PREFILLING)},
    {HANDING, MESSAGE_kv_answer, on_kv_answer, BIT(HANDING)},
    {ENDING, MESSAGE_kv_answer, on_kv_answer, ENDS},
};

static const actor_refusal_t attempt_refusals[] = {
    {ANY, MESSAGE_submit, "it is open already"},
    {NONE, MESSAGE_abort, "it has ended here before"},
    {ANY, MESSAGE_reserved, "no RESERVE is unanswered"},
    {ANY, MESSAGE_busy, "no RESERVE is unanswered"},
    {ANY, MESSAGE_running, "nothing was handed over"},
    {NONE, MESSAGE_end, "it has ended here before"},
    {QUEUED, MESSAGE_end, "decode does not have it"},
    {ENDING, MESSAGE_end, "it ends already"},
    {NONE, MESSAGE_fenced, "it has ended here before"},
    {QUEUED, MESSAGE_fenced, "nobody else has opened it"},
    {NONE, MESSAGE_kv_answer, "it has ended here before"},
    {QUEUED, MESSAGE_kv_answer, "no piece was sent"},
    {RESERVING, MESSAGE_kv_answer, "no piece was sent"},
};

static void check_attempt(const prefill_t *self, const attempt_t *attempt, uint32_t index)
{
    const uint32_t *borders = AT_CONST(self, uint32_t, borders_offset) +
                              (size_t)attempt->base.slot * self->leader.pages_per_attempt;
    uint32_t owned = attempt->base.holds ? 1 + attempt->base.page_count - attempt->shared_count : 0;
    bool took = attempt->pieces_taken > 0 || attempt->pieces_answered < attempt->pieces_sent;

    for (uint32_t i = 0; i < attempt->base.page_count; i++)
        owned += borders[i] != UNITS_NONE;
    ASSERT(attempt->base.state != QUEUED || (!attempt->base.holds && attempt->base.waits == 0));
    ASSERT(attempt->base.holds || attempt->base.state == QUEUED || attempt->base.state == ENDING);
    ASSERT(pool_owned(leader_pool(self), index) == owned);
    ASSERT(attempt->done <= attempt->base.position &&
           attempt->base.position <= attempt->base.prompt_tokens);
    ASSERT(attempt->pieces_answered <= attempt->pieces_sent);
    ASSERT(attempt->pieces_taken <= attempt->pieces_answered);
    ASSERT(took || !(attempt->base.waits & WAITS_TRANSFER));
    ASSERT(attempt->token_due || !(attempt->base.waits & WAITS_TOKEN_ACK));
}

static void check(const void *arg)
{
    const prefill_t *self = arg;
    const attempt_t *all = AT_CONST(&self->leader, attempt_t, attempts_offset);
    uint32_t leased = 0;

    leader_check(self);
    prefix_check(AT_CONST(self, prefix_t, prefix_offset), leader_pool(self));
    for (uint32_t i = self->leader.live.first; i != NIL; i = all[i].base.link.next) {
        check_attempt(self, &all[i], i);
        leased += all[i].base.page_count - all[i].shared_count;
    }
    ASSERT(leased == pool_count(leader_pool(self), UNIT_HISTORY, POOL_LEASED));
}

/* ---- birth ----------------------------------------------------------------------------------- */

/* What its pages hold, and what waits for them. */
static uint64_t store_words(const topology_t *topology, uint32_t pages)
{
    uint64_t words = (uint64_t)PREFILL_ATTEMPTS_MAX * topology->context_tokens;
    uint64_t least = 4 * (uint64_t)topology->context_tokens;
    uint64_t useful = (uint64_t)pages * PAGE_TOKENS + PREFILL_STORE_WORDS;

    if (words > useful)
        words = useful;
    return words < least ? least : words;
}

/* Where everything lies; returns the size of the whole block. */
static size_t lay_out(prefill_t *self, const actor_birth_t *birth)
{
    leader_shape_t shape = {
        .state_bytes = sizeof(*self),
        .attempt_bytes = sizeof(attempt_t),
        .attempt_max = PREFILL_ATTEMPTS_MAX,
        .list_max = 2 * PREFILL_ATTEMPTS_MAX,
    };
    group_t group;
    size_t end;

    group_init(&group, birth);
    shape.words_max = store_words(birth->topology, group.pages);
    end = leader_lay_out(&self->leader, birth, &group, &shape);
    self->prefix_offset = block_take(&end, prefix_bytes(group.pages));
    self->borders_offset =
        block_take(&end, sizeof(uint32_t) * group.slots * self->leader.pages_per_attempt);
    self->page_digests_offset = block_take(&end, sizeof(uint64_t) * group.pages);
    self->slot_digests_offset = block_take(&end, sizeof(uint64_t) * group.slots);
    self->words_offset =
        block_take(&end, sizeof(uint32_t) * 2 * ((size_t)self->leader.context_tokens + 1));
    return end;
}

static size_t bytes(const actor_birth_t *birth)
{
    prefill_t layout = {0};

    return lay_out(&layout, birth);
}

static status_t init(void *arg, const actor_birth_t *birth)
{
    const topology_t *topology = birth->topology;
    prefill_t *self = arg;

    lay_out(self, birth);
    leader_init(&self->leader, birth);
    prefix_init(prefix_of(self), prefix_bytes(group_of(self)->pages), group_of(self)->pages);
    self->border_every = topology->border_every;
    self->target_count = topology->decode_count;
    for (uint16_t i = 0; i < topology->decode_count; i++)
        self->targets[i].leader = topology_actor(topology, ACTOR_DECODE, i)->id;
    return STATUS_OK;
}

const actor_type_t prefill_type = {
    .kind = ACTOR_PREFILL,
    .state_bytes = sizeof(prefill_t),
    .bytes = bytes,
    .init = init,
    .plan = prefill_plan,
    .state = leader_state,
    .attempt_state = leader_attempt_state,
    .attempt_count = leader_attempt_count,
    .attempt_waits = leader_attempt_waits,
    .attempt_wait_names = leader_wait_names,
    .untouched = leader_untouched,
    .waits = leader_waits,
    .check = check,
    .table = {leader_state_names, LEADER_STATES, rules, COUNT_OF(rules), NULL, 0},
    .attempts = {attempt_names, ATTEMPT_STATES, attempt_rules, COUNT_OF(attempt_rules),
                 attempt_refusals, COUNT_OF(attempt_refusals)},
};
