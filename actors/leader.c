#include "actors/leader.h"

#include <string.h>

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
    const topology_kind_t kind = (topology_kind_t)group->kind;
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
    leader->store_offset = block_take(&end, chain_store_bytes(shape->words_max, shape->chain_max));
    return end;
}

void leader_init(leader_t *leader, const actor_birth_t *birth)
{
    const topology_t *topology = birth->topology;
    const leader_setup_t *setup = birth->setup;
    uint32_t counts[UNIT_COUNT];

    leader->gateway_count = topology->gateway_count;
    leader->gateway_first = topology_actor(topology, TOPOLOGY_GATEWAY, 0)->id;
    leader->transfer_count = topology->transfer_count;
    leader->transfer_first = topology_actor(topology, TOPOLOGY_TRANSFER, 0)->id;
    group_init(group_of(leader), birth);
    unit_counts(group_of(leader), counts);
    pool_init(pool_of(leader), pool_bytes(counts), counts);
    pool_quarantine_all(pool_of(leader), group_pool_epoch(group_of(leader)));
    map_init(map_of(leader), leader->shape.attempt_max);
    chain_store_init(store_of(leader), leader->shape.words_max, leader->shape.chain_max);
    if (setup) {
        leader->end_token_count = setup->end_token_count;
        memcpy(leader->end_tokens, setup->end_tokens, sizeof(leader->end_tokens));
    }
    request_list_init(&leader->live, leader->shape.attempt_bytes);
    free_list_init(&leader->free, leader->shape.attempt_max);
}

/* ---- attempts -------------------------------------------------------------------------------- */

uint32_t leader_find(const void *self, uint64_t request, uint32_t number)
{
    const leader_t *leader = self;

    return map_get(AT_CONST(leader, map_t, map_offset), request, number);
}

bool leader_end_is_final(end_reason_t reason)
{
    return reason != END_LOST && reason != END_RETRACTED;
}

void leader_set_pages(void *self, const page_t *pages, uint32_t count, record_step_item_t *item)
{
    uint32_t *words = group_words(group_of(self), count);
    uint64_t *longs = group_longs(group_of(self), count);

    for (uint32_t i = 0; i < count; i++) {
        words[i] = pages[i].value;
        longs[i] = leader_generation(pool_of(self), unit_page(pages[i]));
    }
    item->pages = (u32s_view_t){words, count};
    item->generations = (u64s_view_t){longs, count};
}

/* ---- the group ------------------------------------------------------------------------------- */

static const leader_ops_t *ops_of(void *self)
{
    return group_of(self)->kind == TOPOLOGY_PREFILL ? &prefill_leader : &decode_leader;
}

/* Everything that has pages here is lost. `suspects`: what the steps not done name may be the
 * cause. */
static void reform(void *self, const char *reason, bool suspects, outbox_t *outbox)
{
    leader_t *leader = self;
    const leader_ops_t *ops = ops_of(self);
    group_t *group = group_of(self);

    for (uint32_t n = 0; n < group->in_flight && suspects; n++) {
        const group_step_t *step = group_step(group, n);
        const group_item_t *items = group_items(group, step);

        for (uint32_t i = 0; i < step->item_count; i++)
            ops->suspect(self, items[i].attempt, items[i].alone);
    }
    group_reform(group, reason, outbox);
    pool_quarantine_all(pool_of(self), group_pool_epoch(group));
    leader->alone_in_flight = leader->alone_last = false;
    ops->lose_all(self, reason, outbox);
    ops->settle_all(self, outbox);
}

/* It went wrong here: what led to it is to be kept. */
static void reform_for(void *self, const char *reason, outbox_t *outbox)
{
    group_incident(group_of(self), reason, outbox);
    reform(self, reason, true, outbox);
}

status_t leader_on_rank_join(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    if (group_rank_of(group_of(self), envelope->from) == UINT32_MAX)
        return FAIL(STATUS_UNEXPECTED, "RANK_JOIN from %u, no rank of this group", envelope->from);
    if (group_is_ready(group_of(self)))
        reform(self, "a rank joined again", false, outbox);
    group_join(group_of(self), envelope, outbox);
    return STATUS_OK;
}

status_t leader_on_quiesced(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    leader_t *leader = self;

    if (group_quiesced(group_of(self), envelope)) {
        pool_quarantine_release(pool_of(self));
        leader->came_free++;
    }
    ops_of(self)->settle_all(self, outbox);
    return STATUS_OK;
}

status_t leader_on_step_done(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    leader_t *leader = self;
    group_t *group = group_of(self);
    const char *reason = group_step_done(group, envelope);
    const group_step_t *step;
    bool retired = false;

    if (reason) {
        reform_for(self, reason, outbox);
        return STATUS_OK;
    }
    while ((step = group_complete(group)) != NULL) {
        ops_of(self)->finish_step(self, step, outbox);
        group_retire(group);
        leader->alone_in_flight = false;
        retired = true;
    }
    if (retired)
        ops_of(self)->settle_all(self, outbox);
    return STATUS_OK;
}

status_t leader_on_tick(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    const message_tick_t *m = envelope->body;
    const char *reason = group_tick(group_of(self), m->now_ms, outbox);

    if (reason)
        reform_for(self, reason, outbox);
    ops_of(self)->drain(self, outbox);
    return STATUS_OK;
}

static status_t drain(void *self, bool on, uint32_t grace_ms, outbox_t *outbox)
{
    leader_t *leader = self;

    group_drain(group_of(self), on, grace_ms);
    leader->came_free++; /* so that who waits for room here asks, and hears that there is none */
    ops_of(self)->drain(self, outbox);
    return STATUS_OK;
}

status_t leader_on_draining(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    const message_draining_t *m = envelope->body;

    return drain(self, m->on != 0, m->grace_ms, outbox);
}

status_t leader_on_stop(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    const message_stop_t *m = envelope->body;

    return drain(self, true, m->grace_ms, outbox);
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

void leader_exited(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    const message_exited_t *m = envelope->body;

    if (group_exited(group_of(self), m->actor, m->incarnation))
        reform(self, "a rank exited", exit_is_suspect(m->cause), outbox);
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

uint32_t leader_attempt_count(const void *self)
{
    const leader_t *leader = self;

    return leader->live.count;
}

void leader_check(const leader_t *leader)
{
    group_check(AT_CONST(leader, group_t, group_offset));
    pool_check(AT_CONST(leader, pool_t, pool_offset));
    request_list_check(&leader->live, AT_CONST(leader, char, attempts_offset));
    ASSERT(AT_CONST(leader, map_t, map_offset)->count == leader->live.count);
}
