/* leader.c - a leader around its group: birth, ranks, time, drains, peers, facts. */
#include "actors/leader.h"

#include <string.h>

#include "runtime/base/plant.h"

/* ---- life ------------------------------------------------------------------------------------ */

static void unit_counts(const group_t *group, uint32_t counts[UNIT_COUNT])
{
    counts[UNIT_HISTORY] = group->pages;
    counts[UNIT_BORDER] = group->borders;
    counts[UNIT_SLOT] = group->slots;
}

size_t leader_lay_out(leader_t *leader, const actor_birth_t *birth, const group_t *group,
                      const leader_shape_t *shape)
{
    const actor_kind_t kind = (actor_kind_t)group->kind;
    uint32_t counts[UNIT_COUNT];
    size_t end = shape->state_bytes;

    unit_counts(group, counts);
    leader->shape = *shape;
    leader->context_tokens = birth->topology->context_tokens;
    leader->chunk_tokens = topology_group(birth->topology, kind, group->instance)->chunk_tokens;
    leader->pages_per_attempt = tokens_pages(leader->context_tokens) + 1;
    leader->group_offset = block_take(&end, group_bytes(birth));
    leader->pool_offset = block_take(&end, pool_bytes(counts));
    leader->map_offset = block_take(&end, map_bytes(shape->attempt_max));
    leader->attempts_offset = block_take(&end, shape->attempt_bytes * shape->attempt_max);
    leader->pages_offset =
        block_take(&end, sizeof(page_t) * group->slots * leader->pages_per_attempt);
    leader->store_offset = block_take(&end, token_store_bytes(shape->words_max, shape->list_max));
    return end;
}

void leader_init(leader_t *leader, const actor_birth_t *birth)
{
    const topology_t *topology = birth->topology;
    const leader_setup_t *setup = birth->setup;
    uint32_t counts[UNIT_COUNT];

    leader->gateway_count = topology->gateway_count;
    leader->gateway_first = topology_actor(topology, ACTOR_GATEWAY, 0)->id;
    leader->transfer_count = topology->transfer_count;
    leader->transfer_first = topology_actor(topology, ACTOR_TRANSFER, 0)->id;
    group_init(group_of(leader), birth);
    unit_counts(group_of(leader), counts);
    pool_init(pool_of(leader), pool_bytes(counts), counts);
    pool_quarantine_all(pool_of(leader), group_pool_epoch(group_of(leader)));
    map_init(map_of(leader), leader->shape.attempt_max);
    token_store_init(store_of(leader), leader->shape.words_max, leader->shape.list_max);
    if (setup) {
        leader->end_token_count = setup->end_token_count;
        memcpy(leader->end_tokens, setup->end_tokens, sizeof(leader->end_tokens));
    }
    request_list_init(&leader->live, leader->shape.attempt_bytes);
    free_list_init(&leader->free, leader->shape.attempt_max);
}

/* ---- the group ------------------------------------------------------------------------------- */

/* What the steps not done name may be the cause. */
static void suspect_all(void *self)
{
    const group_t *group = group_of(self);

    for (uint32_t n = 0; n < group->in_flight; n++) {
        const group_step_t *step = group_step(group, n);
        const group_item_t *items = group_items(group, step);

        for (uint32_t i = 0; i < step->item_count; i++) {
            leader_attempt_t *attempt = leader_attempt(self, items[i].attempt);

            attempt->suspect = true;
            attempt->charge = items[i].alone;
        }
    }
}

static void lose(void *self, const leader_ops_t *ops, leader_attempt_t *attempt, const char *reason,
                 outbox_t *outbox)
{
    leader_t *leader = self;

    if (attempt->state == ops->queued)
        return; /* it has touched nothing */
    leader->counts.pages_held -= attempt->page_count;
    attempt->holds = false;
    attempt->page_count = 0;
    leader_wait_over(self, attempt, WAITS_CLOSE);
    leader_wait(self, attempt, WAITS_EPOCH);
    if (!PLANTED(epoch_mixup)) {
        leader_wait_over(self, attempt, WAITS_STEP);
        attempt->last_seq = 0;
    }
    ops->lose(attempt);
    if (attempt->state != LEADER_ENDING)
        ops->end(self, attempt, END_LOST, reason, outbox);
}

/* Everything that has pages here is lost. */
static void reform(void *self, const leader_ops_t *ops, const char *reason, outbox_t *outbox)
{
    leader_t *leader = self;

    group_reform(group_of(self), reason, outbox);
    pool_quarantine_all(pool_of(self), group_pool_epoch(group_of(self)));
    leader->alone_in_flight = leader->alone_last = leader->starving = false;
    leader->counts.reforms++;
    ops->lose_epoch(self);
    for (uint32_t i = leader->live.first, next; i != REQUEST_NIL; i = next) {
        next = leader_attempt(self, i)->link.next;
        lose(self, ops, leader_attempt(self, i), reason, outbox);
    }
    leader_settle_all(self, ops, outbox);
}

/* It went wrong here: what led to it is to be kept. */
static void reform_for(void *self, const leader_ops_t *ops, const char *reason, outbox_t *outbox)
{
    group_incident(group_of(self), reason, outbox);
    suspect_all(self);
    reform(self, ops, reason, outbox);
}

status_t leader_on_rank_join(void *self, const leader_ops_t *ops, const envelope_t *envelope,
                             outbox_t *outbox)
{
    if (group_rank_of(group_of(self), envelope->from) == UINT32_MAX)
        return FAIL(STATUS_UNEXPECTED, "RANK_JOIN from %u, no rank of this group", envelope->from);
    if (group_is_ready(group_of(self)))
        reform(self, ops, "a rank joined again", outbox);
    group_join(group_of(self), envelope, outbox);
    return STATUS_OK;
}

status_t leader_on_quiesced(void *self, const leader_ops_t *ops, const envelope_t *envelope,
                            outbox_t *outbox)
{
    leader_t *leader = self;

    if (group_quiesced(group_of(self), envelope)) {
        pool_quarantine_release(pool_of(self));
        leader->came_free++;
    }
    leader_settle_all(self, ops, outbox);
    return STATUS_OK;
}

/* No step in flight names its attempts any more, where it was the last. */
static void leave_step(void *self, const group_step_t *step)
{
    const group_item_t *items = group_items(group_of(self), step);

    for (uint32_t i = 0; i < step->item_count; i++) {
        leader_attempt_t *attempt = leader_attempt(self, items[i].attempt);

        if (attempt->last_seq == step->seq)
            leader_wait_over(self, attempt, WAITS_STEP);
    }
}

status_t leader_on_step_done(void *self, const leader_ops_t *ops, const envelope_t *envelope,
                             outbox_t *outbox)
{
    leader_t *leader = self;
    group_t *group = group_of(self);
    const char *reason = group_step_done(group, envelope);
    const group_step_t *step;
    bool retired = false;

    if (reason) {
        reform_for(self, ops, reason, outbox);
        return STATUS_OK;
    }
    while ((step = group_complete(group)) != NULL) {
        ops->finish_step(self, step, outbox);
        group_retire(group);
        leave_step(self, step);
        leader->alone_in_flight = false;
        retired = true;
    }
    if (retired)
        leader_settle_all(self, ops, outbox);
    return STATUS_OK;
}

/* What has not begun goes elsewhere at once; what runs may end here, until its time is over. */
static void end_drained(void *self, const leader_ops_t *ops, outbox_t *outbox)
{
    leader_t *leader = self;
    bool is_over = group_drain_is_over(group_of(self));

    for (uint32_t i = leader->live.first, next; i != REQUEST_NIL && group_of(self)->drains;
         i = next) {
        leader_attempt_t *attempt = leader_attempt(self, i);

        next = attempt->link.next;
        if (attempt->state != LEADER_ENDING && (attempt->state == ops->queued || is_over))
            ops->end(self, attempt, END_LOST, "its group leaves", outbox);
    }
}

status_t leader_on_tick(void *self, const leader_ops_t *ops, const envelope_t *envelope,
                        outbox_t *outbox)
{
    const message_tick_t *m = envelope->body;
    const char *reason = group_tick(group_of(self), m->now_ms, outbox);

    if (reason)
        reform_for(self, ops, reason, outbox);
    end_drained(self, ops, outbox);
    return STATUS_OK;
}

static status_t drain(void *self, const leader_ops_t *ops, bool on, uint32_t grace_ms,
                      outbox_t *outbox)
{
    leader_t *leader = self;

    group_drain(group_of(self), on, grace_ms);
    leader->came_free++; /* so that who waits for room here asks, and hears that there is none */
    end_drained(self, ops, outbox);
    return STATUS_OK;
}

status_t leader_on_draining(void *self, const leader_ops_t *ops, const envelope_t *envelope,
                            outbox_t *outbox)
{
    const message_draining_t *m = envelope->body;

    return drain(self, ops, m->on != 0, m->grace_ms, outbox);
}

status_t leader_on_stop(void *self, const leader_ops_t *ops, const envelope_t *envelope,
                        outbox_t *outbox)
{
    const message_stop_t *m = envelope->body;

    return drain(self, ops, true, m->grace_ms, outbox);
}

/* ---- peers ----------------------------------------------------------------------------------- */

uint32_t leader_transfer(const leader_t *leader, actor_id_t actor)
{
    uint32_t index = (uint32_t)actor - leader->transfer_first;

    return index < leader->transfer_count ? index : UINT32_MAX;
}

bool leader_is_gateway(const leader_t *leader, actor_id_t actor)
{
    return (uint32_t)actor - leader->gateway_first < leader->gateway_count;
}

void leader_joined(void *self, const envelope_t *envelope)
{
    const message_joined_t *m = envelope->body;
    leader_t *leader = self;
    uint32_t transfer = leader_transfer(leader, m->actor);

    group_report_forget(group_of(self), m->actor);
    if (transfer != UINT32_MAX)
        leader->pools_said[transfer] = 0;
}

void leader_exited(void *self, const leader_ops_t *ops, const envelope_t *envelope,
                   outbox_t *outbox)
{
    const message_exited_t *m = envelope->body;

    if (!group_exited(group_of(self), m->actor, m->incarnation))
        return;
    if (exit_is_suspect(m->cause))
        suspect_all(self);
    reform(self, ops, "a rank exited", outbox);
}

void leader_tell_transfers(leader_t *leader, uint16_t id, const void *body, outbox_t *outbox)
{
    for (uint32_t i = 0; i < leader->transfer_count; i++)
        group_tell(group_of(leader), (actor_id_t)(leader->transfer_first + i), id, body,
                   &leader->pools_said[i], outbox);
}

message_instance_t leader_instance(void *self)
{
    const group_t *group = group_of(self);
    const pool_t *pool = pool_of(self);

    return (message_instance_t){
        .ready = group_is_open(group),
        .epoch = group->epoch,
        .pages = group->pages - 1, /* without the test page */
        .pages_free =
            pool_count(pool, UNIT_HISTORY, POOL_FREE) + pool_count(pool, UNIT_HISTORY, POOL_CACHED),
        .slots = group->slots,
        .slots_free = pool_count(pool, UNIT_SLOT, POOL_FREE),
    };
}

/* ---- facts ----------------------------------------------------------------------------------- */

uint8_t leader_state(const void *self)
{
    const leader_t *leader = self;

    return group_leader_state(AT_CONST(leader, group_t, group_offset), leader->live.count);
}

uint32_t leader_waits(const void *self, actor_wait_t waits[ACTOR_WAITS_MAX])
{
    const leader_t *leader = self;

    return group_waits(AT_CONST(leader, group_t, group_offset), waits);
}

void leader_attempt_waits(const void *self, uint32_t counts[ACTOR_ATTEMPT_WAITS_MAX])
{
    memcpy(counts, ((const leader_t *)self)->waiting, sizeof(((const leader_t *)self)->waiting));
}

uint32_t leader_attempt_count(const void *self)
{
    const leader_t *leader = self;

    return leader->live.count;
}

void leader_untouched(const void *self, size_t *from, size_t *to)
{
    const leader_t *leader = self;

    token_store_untouched(AT_CONST(leader, token_store_t, store_offset), from, to);
    *from += leader->store_offset;
    *to += leader->store_offset;
}

const leader_counts_t *leader_counts(const void *self)
{
    return &((const leader_t *)self)->counts;
}

const pool_t *leader_pool(const void *self)
{
    const leader_t *leader = self;

    return AT_CONST(leader, pool_t, pool_offset);
}

static void check_attempt(const leader_t *leader, const leader_attempt_t *attempt)
{
    const group_t *group = AT_CONST(leader, group_t, group_offset);
    bool ends = attempt->state == LEADER_ENDING;

    ASSERT(attempt->state != LEADER_NONE);
    ASSERT(attempt->holds || attempt->page_count == 0);
    ASSERT(!attempt->fenced || (ends && !attempt->holds));
    ASSERT(attempt->last_seq <= group->seq);
    ASSERT(((attempt->waits & WAITS_STEP) != 0) == (attempt->last_seq > group->done_seq));
    ASSERT(!(attempt->waits & WAITS_CLOSE) || attempt->holds);
    ASSERT(!(attempt->waits & WAITS_EPOCH) || ends);
}

void leader_check(const void *self)
{
    const leader_t *leader = self;
    uint32_t pages = 0, closes_due = 0, in_state[LEADER_ATTEMPT_STATES_MAX] = {0};
    uint32_t waiting[LEADER_WAITS] = {0};

    group_check(AT_CONST(leader, group_t, group_offset));
    pool_check(leader_pool(self));
    request_list_check(&leader->live, AT_CONST(leader, char, attempts_offset));
    for (uint32_t i = leader->live.first; i != REQUEST_NIL;) {
        const leader_attempt_t *attempt = (const void *)(AT_CONST(leader, char, attempts_offset) +
                                                         i * leader->shape.attempt_bytes);

        check_attempt(leader, attempt);
        in_state[attempt->state]++;
        for (uint32_t bit = 0; bit < LEADER_WAITS; bit++)
            waiting[bit] += attempt->waits >> bit & 1;
        pages += attempt->page_count;
        closes_due += attempt->state == LEADER_ENDING && attempt->waits & WAITS_CLOSE;
        i = attempt->link.next;
    }
    ASSERT(AT_CONST(leader, map_t, map_offset)->count == leader->live.count);
    ASSERT(leader->live.count == leader->counts.live);
    ASSERT(memcmp(in_state, leader->in_state, sizeof(in_state)) == 0);
    ASSERT(memcmp(waiting, leader->waiting, sizeof(waiting)) == 0);
    ASSERT(pages == leader->counts.pages_held);
    ASSERT(closes_due == leader->closes_due);
}
