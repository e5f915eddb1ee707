#include "actors/group.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/block.h"
#include "runtime/base/log.h"
#include "runtime/base/plant.h"
#include "runtime/base/random.h"
#include "runtime/base/probe.h"

/* ---- birth ----------------------------------------------------------------------------------- */

/* Where everything lies; a step that names every slot once, opening and closing included, fits. */
static size_t lay_out(group_t *group, const actor_birth_t *birth)
{
    const topology_t *topology = birth->topology;
    const topology_actor_t *actor = &topology->actors[birth->id];
    const topology_group_t *shape =
        topology_group(topology, (actor_kind_t)actor->kind, actor->instance);
    const leader_setup_t *setup = birth->setup;
    size_t end = sizeof(*group);

    ASSERT(shape != NULL);
    group->slots = shape->slots;
    group->pages = setup ? setup->pages : shape->pages;
    group->borders = setup ? setup->borders : shape->borders;
    ASSERT(group->pages > 1);
    group->build_max.items = 4 * group->slots + 4;
    if (group->build_max.items > STEP_ITEMS_MAX)
        group->build_max.items = STEP_ITEMS_MAX;
    group->build_max.words = shape->chunk_tokens + 2 * group->pages + topology->context_tokens +
                             4 * BORDERS_PER_RUN_MAX * group->slots;
    group->build_max.longs = 2 * group->pages + topology->context_tokens / PAGE_TOKENS + 1 +
                             2 * BORDERS_PER_RUN_MAX * group->slots;
    group->closed_max = 2 * (shape->chunk_tokens / PAGE_TOKENS) + 4 * group->slots + 4;
    if (group->closed_max > CLOSED_MAX)
        group->closed_max = CLOSED_MAX;
    group->items_offset =
        block_take(&end, sizeof(group_item_t) * STEPS_IN_FLIGHT_MAX * group->build_max.items);
    group->tokens_offset =
        block_take(&end, sizeof(group_token_t) * STEPS_IN_FLIGHT_MAX * group->slots);
    group->closed_offset =
        block_take(&end, sizeof(record_closed_t) * STEPS_IN_FLIGHT_MAX * group->closed_max);
    group->build_items_offset =
        block_take(&end, sizeof(record_step_item_t) * group->build_max.items);
    group->build_words_offset = block_take(&end, sizeof(uint32_t) * group->build_max.words);
    group->build_longs_offset = block_take(&end, sizeof(uint64_t) * group->build_max.longs);
    return end;
}

size_t group_bytes(const actor_birth_t *birth)
{
    group_t layout = {0};

    return lay_out(&layout, birth);
}

static uint64_t epoch_of(incarnation_t incarnation, uint32_t counter)
{
    return (uint64_t)incarnation << 32 | counter;
}

void group_init(group_t *group, const actor_birth_t *birth)
{
    const topology_t *topology = birth->topology;
    const topology_actor_t *actor = &topology->actors[birth->id];
    const leader_setup_t *setup = birth->setup;

    *group = (group_t){
        .leader = birth->id,
        .kind = actor->kind,
        .instance = actor->instance,
        .rank_count = topology_group(topology, (actor_kind_t)actor->kind, actor->instance)->tp,
        .supervisor = topology_actor(topology, ACTOR_SUPERVISOR, actor->host)->id,
        .watchers = {topology_actor(topology, ACTOR_SCHEDULER, 0)->id,
                     topology_actor(topology, ACTOR_MONITOR, 0)->id},
        .counter = 1,
        .incarnation = birth->incarnation,
        .epoch = epoch_of(birth->incarnation, 1),
        .stall_ms = (uint32_t)topology->stall_timeout_ms,
        .depth = setup && setup->depth ? setup->depth : STEPS_AHEAD_MAX,
        .quiesce_ms = setup && setup->quiesce_ms ? setup->quiesce_ms : GROUP_QUIESCE_MS,
    };
    lay_out(group, birth);
}

uint32_t group_pool_epoch(const group_t *group)
{
    return (group->incarnation & 0xffff) << 16 | (group->counter & 0xffff);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

bool group_is_ready(const group_t *group)
{
    return group->phase == GROUP_READY;
}

bool group_is_settled(const group_t *group)
{
    for (uint32_t i = 0; i < group->rank_count; i++) {
        if (group->ranks[i].must_quiesce)
            return false;
    }
    return true;
}

static actor_id_t rank_id(const group_t *group, uint32_t rank)
{
    return (actor_id_t)(group->leader + 1 + rank);
}

uint32_t group_rank_of(const group_t *group, actor_id_t actor)
{
    if (actor <= group->leader || actor > group->leader + group->rank_count)
        return UINT32_MAX;
    return actor - group->leader - 1u;
}

uint32_t group_pools(const group_t *group, record_pool_t pools[RANKS_MAX])
{
    for (uint32_t i = 0; i < group->rank_count; i++) {
        const group_rank_t *rank = &group->ranks[i];

        pools[i] = (record_pool_t){
            .rank = rank_id(group, i),
            .incarnation = rank->incarnation,
            .name = {rank->pool_name, rank->pool_name_bytes},
            .bytes = rank->pool_bytes,
        };
    }
    return group->rank_count;
}

static void push_reform(group_t *group, uint32_t index, outbox_t *outbox)
{
    char segment[POOL_NAME_BYTES_MAX];
    message_reform_t reform = {.epoch = group->epoch};

    snprintf(segment, sizeof(segment), "group-%u-%llx", group->leader,
             (unsigned long long)group->epoch);
    reform.segment = (text_view_t){segment, (uint32_t)strlen(segment)};
    group->ranks[index].must_quiesce = true;
    group->ranks[index].quiesced = false;
    if (outbox_is_up(outbox, rank_id(group, index)))
        outbox_push(outbox, rank_id(group, index), MESSAGE_reform, &reform);
}

/* Why a rank cannot join, in `reason`; false if it can. */
static bool refuses(const group_t *group, uint32_t index, const message_rank_join_t *m,
                    char reason[REASON_BYTES_MAX])
{
    const struct {
        const char *name;
        uint64_t want;
        uint64_t have;
        bool known;
        bool is_digest;
    } facts[] = {
        {"rank", index, m->rank, true, false},
        {"pages", group->pages, m->pages, true, false},
        {"borders", group->borders, m->borders, true, false},
        {"slots", group->slots, m->slots, true, false},
        {"weights digest", group->weights_digest, m->weights_digest, group->digests_known, true},
        {"geometry digest", group->geometry_digest, m->geometry_digest, group->digests_known, true},
        {"numerics digest", group->numerics_digest, m->numerics_digest, group->digests_known, true},
    };

    for (size_t i = 0; i < COUNT_OF(facts); i++) {
        if (!facts[i].known || facts[i].want == facts[i].have)
            continue;
        snprintf(reason, REASON_BYTES_MAX,
                 facts[i].is_digest ? "%s: the group has %llx, the rank %llx"
                                    : "%s: the group has %llu, the rank %llu",
                 facts[i].name, (unsigned long long)facts[i].want,
                 (unsigned long long)facts[i].have);
        return true;
    }
    return false;
}

void group_join(group_t *group, const envelope_t *envelope, outbox_t *outbox)
{
    const message_rank_join_t *m = envelope->body;
    uint32_t index = group_rank_of(group, envelope->from);
    char reason[REASON_BYTES_MAX] = "";
    message_rank_joined_t joined = {0};
    group_rank_t *rank;

    ASSERT(index < group->rank_count);
    joined.accepted = !refuses(group, index, m, reason);
    joined.reason = (text_view_t){reason, (uint32_t)strlen(reason)};
    outbox_push(outbox, envelope->from, MESSAGE_rank_joined, &joined);
    if (!joined.accepted) {
        LOG(ERROR, "GROUP-JOIN-REFUSED rank=%u %s", index, reason);
        return;
    }
    rank = &group->ranks[index];
    *rank = (group_rank_t){.incarnation = envelope->incarnation, .pool_bytes = m->pool.bytes};
    rank->pool_name_bytes =
        m->pool.name.count < POOL_NAME_BYTES_MAX ? m->pool.name.count : POOL_NAME_BYTES_MAX;
    if (rank->pool_name_bytes > 0)
        memcpy(rank->pool_name, m->pool.name.data, rank->pool_name_bytes);
    group->weights_digest = m->weights_digest;
    group->geometry_digest = m->geometry_digest;
    group->numerics_digest = m->numerics_digest;
    group->digests_known = true;
    group->since_ms = group->now_ms;
    push_reform(group, index, outbox);
}

bool group_quiesced(group_t *group, const envelope_t *envelope)
{
    const message_quiesced_t *m = envelope->body;
    uint32_t index = group_rank_of(group, envelope->from);

    if (index == UINT32_MAX || m->epoch != group->epoch || group->phase == GROUP_READY ||
        group->ranks[index].incarnation != envelope->incarnation)
        return false;
    group->ranks[index].must_quiesce = false;
    group->ranks[index].quiesced = true;
    for (uint32_t i = 0; i < group->rank_count; i++) {
        if (!group->ranks[i].quiesced)
            return false;
    }
    group->phase = GROUP_READY;
    group->since_ms = group->now_ms;
    LOG(INFO, "GROUP-READY epoch=%llx ranks=%u", (unsigned long long)group->epoch,
        group->rank_count);
    return true;
}

bool group_exited(group_t *group, actor_id_t actor, incarnation_t incarnation)
{
    uint32_t index = group_rank_of(group, actor);

    if (index == UINT32_MAX || group->ranks[index].incarnation != incarnation || incarnation == 0)
        return false;
    group->ranks[index] = (group_rank_t){0};
    return true;
}

void group_incident(const group_t *group, const char *reason, outbox_t *outbox)
{
    const message_incident_t incident = {{reason, (uint32_t)strlen(reason)}};

    if (outbox_is_up(outbox, group->supervisor))
        outbox_push(outbox, group->supervisor, MESSAGE_incident, &incident);
}

void group_reform(group_t *group, const char *reason, outbox_t *outbox)
{
    LOG(WARN, "GROUP-REFORM epoch=%llx seq=%llu done=%llu in_flight=%u reason=\"%s\"",
        (unsigned long long)group->epoch, (unsigned long long)group->seq,
        (unsigned long long)group->done_seq, group->in_flight, reason);
    group->counter++;
    group->epoch = epoch_of(group->incarnation, group->counter);
    group->phase = GROUP_FORMING;
    group->seq = group->done_seq = group->chain = 0;
    group->in_flight = group->running = group->rows = 0;
    group->build = (group_load_t){0};
    group->since_ms = group->now_ms;
    for (uint32_t i = 0; i < group->rank_count; i++) {
        if (group->ranks[i].incarnation != 0)
            push_reform(group, i, outbox);
    }
}

void group_kill(group_t *group, uint32_t rank, incarnation_t incarnation, text_view_t reason,
                outbox_t *outbox)
{
    message_kill_t kill = {
        .actor = rank_id(group, rank), .incarnation = incarnation, .reason = reason};

    if (rank >= group->rank_count || incarnation == 0 ||
        group->ranks[rank].incarnation != incarnation || group->ranks[rank].kill_said ||
        !outbox_is_up(outbox, group->supervisor))
        return;
    outbox_push(outbox, group->supervisor, MESSAGE_kill, &kill);
    group->ranks[rank].kill_said = true;
}

uint64_t group_all_ranks(const group_t *group)
{
    return group->rank_count == 64 ? UINT64_MAX : (UINT64_C(1) << group->rank_count) - 1;
}

/* Names those that have not answered. In a collective all but one wait for that one: which it was,
 * the others say when they leave. */
static const char *report_stalled(const group_t *group)
{
    const group_step_t *step = group_step(group, 0);

    LOG(ERROR, "GROUP-STALLED epoch=%llx step=%llu after_ms=%u answered=%llx missing=%llx",
        (unsigned long long)group->epoch, (unsigned long long)step->seq, group->stall_ms,
        (unsigned long long)step->done, (unsigned long long)(group_all_ranks(group) & ~step->done));
    return "a step was not done in time";
}

const char *group_tick(group_t *group, uint64_t now_ms, outbox_t *outbox)
{
    static const char late[] = "it did not leave its old epoch in time";

    group->now_ms = now_ms;
    if (group->phase == GROUP_READY) {
        bool stalled = group->in_flight > 0 && now_ms - group->since_ms > group->stall_ms;

        return stalled ? report_stalled(group) : NULL;
    }
    for (uint32_t i = 0; i < group->rank_count; i++) {
        const group_rank_t *rank = &group->ranks[i];

        if (rank->must_quiesce && now_ms - group->since_ms > group->quiesce_ms)
            group_kill(group, i, rank->incarnation, (text_view_t){late, sizeof(late) - 1}, outbox);
    }
    return NULL;
}

/* ---- leaving --------------------------------------------------------------------------------- */

const char *const leader_state_names[LEADER_STATES] = {"forming", "ready", "draining", "drained"};

void group_drain(group_t *group, bool on, uint32_t grace_ms)
{
    LOG(INFO, "GROUP-DRAIN %s grace_ms=%u", on ? "begins" : "is called off", grace_ms);
    group->drains = on;
    group->drain_end_ms = group->now_ms + grace_ms;
}

bool group_drain_is_over(const group_t *group)
{
    return group->drains && group->now_ms >= group->drain_end_ms;
}

bool group_is_open(const group_t *group)
{
    return group_is_ready(group) && !group->drains;
}

uint8_t group_leader_state(const group_t *group, uint32_t attempts)
{
    if (group->drains)
        return attempts > 0 ? DRAINING : DRAINED;
    return group_is_ready(group) ? READY : FORMING;
}

/* ---- the step that is built ------------------------------------------------------------------ */

bool group_may_step(const group_t *group, const outbox_t *outbox)
{
    if (group->phase != GROUP_READY || group->in_flight == STEPS_IN_FLIGHT_MAX)
        return false;
    for (uint32_t i = 0; i < group->rank_count; i++) {
        if (!outbox_may_send(outbox, rank_id(group, i), MESSAGE_step) &&
            !(PLANTED(tp_desync) && i > 0))
            return false;
    }
    return true;
}

bool group_may_run(const group_t *group)
{
    return group->running < group->depth;
}

/* At most: every number of an item may need its longest form. */
static uint64_t load_bytes(const group_load_t *load)
{
    return GROUP_ITEM_BYTES * ((uint64_t)load->items + 1) /* and the message's own fields */
           + GROUP_WORD_BYTES * ((uint64_t)load->words + load->borrowed) +
           GROUP_LONG_BYTES * (uint64_t)load->longs;
}

_Static_assert((uint64_t)GROUP_ITEM_BYTES * 8 +
                       GROUP_WORD_BYTES * ((uint64_t)PROMPT_TOKENS_MAX + STEP_TOKENS_MAX +
                                           2 * (PROMPT_TOKENS_MAX / PAGE_TOKENS + 1) +
                                           2 * BORDERS_PER_RUN_MAX + 2 * LOGIT_BIAS_MAX) +
                       GROUP_LONG_BYTES * ((uint64_t)2 * (PROMPT_TOKENS_MAX / PAGE_TOKENS + 1) +
                                           BORDERS_PER_RUN_MAX) <=
                   MESSAGE_BYTES_MAX,
               "any attempt alone fits a STEP");

bool group_room(const group_t *group, group_load_t more)
{
    const group_load_t *build = &group->build, *max = &group->build_max;
    const group_load_t sum = {build->items + more.items, build->words + more.words,
                              build->longs + more.longs, build->borrowed + more.borrowed};

    return sum.items <= max->items && sum.words <= max->words && sum.longs <= max->longs &&
           load_bytes(&sum) <= MESSAGE_BYTES_MAX;
}

static group_item_t *items_of(group_t *group, uint64_t seq)
{
    return AT(group, group_item_t, items_offset) +
           (seq % STEPS_IN_FLIGHT_MAX) * group->build_max.items;
}

record_step_item_t *group_add(group_t *group, device_item_kind_t kind, uint32_t slot,
                              uint64_t request, uint32_t attempt_number, uint32_t attempt,
                              bool alone)
{
    uint32_t index = group->build.items;
    record_step_item_t *item = &AT(group, record_step_item_t, build_items_offset)[index];

    ASSERT(group->in_flight < STEPS_IN_FLIGHT_MAX);
    ASSERT(index < group->build_max.items);
    group->build.items++;
    *item = (record_step_item_t){
        .kind = (uint8_t)kind,
        .slot = slot,
        .request = request,
        .attempt = attempt_number,
    };
    items_of(group, group->seq + 1)[index] = (group_item_t){
        .request = request,
        .attempt_number = attempt_number,
        .attempt = attempt,
        .slot = slot,
        .kind = (uint8_t)kind,
        .alone = alone,
    };
    return item;
}

uint32_t *group_words(group_t *group, uint32_t count)
{
    uint32_t *words = AT(group, uint32_t, build_words_offset) + group->build.words;

    ASSERT(count <= group->build_max.words - group->build.words);
    group->build.words += count;
    return words;
}

uint64_t *group_longs(group_t *group, uint32_t count)
{
    uint64_t *longs = AT(group, uint64_t, build_longs_offset) + group->build.longs;

    ASSERT(count <= group->build_max.longs - group->build.longs);
    group->build.longs += count;
    return longs;
}

void group_borrow(group_t *group, uint32_t count)
{
    group->build.borrowed += count;
}

/* No pointer outlives the planner: the block may be copied away between two messages. */
void group_drop(group_t *group)
{
    memset(AT(group, record_step_item_t, build_items_offset), 0,
           group->build.items * sizeof(record_step_item_t));
    group->build = (group_load_t){0};
}

uint64_t group_send(group_t *group, outbox_t *outbox)
{
    record_step_item_t *items = AT(group, record_step_item_t, build_items_offset);
    message_step_t step = {.epoch = group->epoch, .seq = group->seq + 1, .parent = group->chain};
    group_item_t *kept = items_of(group, step.seq);
    uint32_t count = group->rank_count, rows = 0;

    if (group->build.items == 0)
        return 0;
    step.items.data = items;
    step.items.count = group->build.items;
    for (uint32_t i = 0; i < group->build.items; i++) {
        kept[i].position = items[i].position;
        kept[i].count = items[i].count;
        kept[i].sample = items[i].sample;
        kept[i].tail = items[i].tail;
        rows += items[i].kind == DEVICE_RUN ? items[i].count : 0;
    }
    ASSERT(rows == 0 || group_may_run(group));
    for (uint32_t i = 1; i < count && PLANTED(tp_desync); i++)
        if (!outbox_may_send(outbox, rank_id(group, i), MESSAGE_step))
            count = i;
    outbox_push_all(outbox, rank_id(group, 0), count, MESSAGE_step, &step);
    if (group->in_flight == 0)
        group->since_ms = group->now_ms;
    group->steps[step.seq % STEPS_IN_FLIGHT_MAX] = (group_step_t){
        .seq = step.seq,
        .parent = step.parent,
        .item_count = group->build.items,
        .rows = rows,
    };
    group->chain = step_chain(step.parent, &step);
    group->seq = step.seq;
    group->in_flight++;
    group->running += rows > 0;
    group->rows += rows;
    PROBE(step_sent, step.epoch, step.seq, step.items.count);
    group_drop(group);
    return step.seq;
}

/* ---- steps in flight ------------------------------------------------------------------------- */

const group_item_t *group_items(const group_t *group, const group_step_t *step)
{
    return AT_CONST(group, group_item_t, items_offset) +
           (step->seq % STEPS_IN_FLIGHT_MAX) * group->build_max.items;
}

const group_token_t *group_tokens(const group_t *group, const group_step_t *step)
{
    return AT_CONST(group, group_token_t, tokens_offset) +
           (step->seq % STEPS_IN_FLIGHT_MAX) * group->slots;
}

const record_closed_t *group_closed(const group_t *group, const group_step_t *step)
{
    return AT_CONST(group, record_closed_t, closed_offset) +
           (step->seq % STEPS_IN_FLIGHT_MAX) * group->closed_max;
}

const group_step_t *group_step(const group_t *group, uint32_t ordinal)
{
    ASSERT(ordinal < group->in_flight);
    return &group->steps[(group->done_seq + 1 + ordinal) % STEPS_IN_FLIGHT_MAX];
}

static void keep_result(group_t *group, group_step_t *step, const message_step_done_t *m)
{
    group_token_t *tokens =
        AT(group, group_token_t, tokens_offset) + (step->seq % STEPS_IN_FLIGHT_MAX) * group->slots;
    record_closed_t *closed = AT(group, record_closed_t, closed_offset) +
                              (step->seq % STEPS_IN_FLIGHT_MAX) * group->closed_max;

    step->token_count = m->tokens.count;
    step->closed_count = m->closed.count;
    for (uint32_t i = 0; i < m->tokens.count; i++) {
        const record_step_token_t *from = &m->tokens.data[i];
        const record_token_t *token = &from->token;
        uint32_t top = token->top_tokens.count;

        tokens[i] = (group_token_t){
            .item = from->item,
            .token = token->token,
            .logprob = token->logprob,
            .top_count = top,
        };
        if (top > 0) {
            memcpy(tokens[i].top_tokens, token->top_tokens.data, top * sizeof(uint32_t));
            memcpy(tokens[i].top_logprobs, token->top_logprobs.data, top * sizeof(float));
        }
    }
    if (m->closed.count > 0)
        memcpy(closed, m->closed.data, m->closed.count * sizeof(*closed));
}

/* Rank 0 speaks for all, so its lists must fit the step they answer. */
static bool result_is_sane(const group_t *group, const group_step_t *step,
                           const message_step_done_t *m)
{
    const group_item_t *items = group_items(group, step);
    uint32_t count = 0;

    if (m->tokens.count > group->slots || m->closed.count > group->closed_max)
        return false;
    for (uint32_t i = 0; i < step->item_count; i++) { /* one token for each that draws, in order */
        const record_step_token_t *token;

        if (!items[i].sample)
            continue;
        if (count == m->tokens.count)
            return false;
        token = &m->tokens.data[count];
        if (token->item != i || token->token.top_tokens.count > LOGPROBS_MAX ||
            token->token.top_tokens.count != token->token.top_logprobs.count)
            return false;
        count++;
    }
    return count == m->tokens.count;
}

/* ---- the three checks, as the leader sees them (design 4) ------------------------------------- */

/* Order and call: the rank found it, and its words say what it had and what it met. A rank that was
 * broken by another one's find only tells where it was. */
static const char *report_failed(uint32_t rank, const message_step_done_t *m)
{
    LOG(ERROR, "GROUP-STEP-FAILED rank=%u epoch=%llx step=%llu status=%s detail=\"%.*s\"", rank,
        (unsigned long long)m->epoch, (unsigned long long)m->seq,
        m->status < STATUS_COUNT ? status_name((status_t)m->status) : "unknown",
        (int)m->detail.count, m->detail.data);
    return "a rank could not do a step";
}

static const char *report_chain(uint32_t rank, const group_step_t *step,
                                const message_step_done_t *m)
{
    LOG(ERROR, "GROUP-CHAIN-DIFFERS rank=%u epoch=%llx step=%llu expected=%016llx found=%016llx",
        rank, (unsigned long long)m->epoch, (unsigned long long)m->seq,
        (unsigned long long)step->parent, (unsigned long long)m->parent);
    return "a rank's chain of steps is another one";
}

/* Result: both digests, and the item if the ranks differ in one only. Which of the two is right,
 * nobody knows. */
static const char *report_diverged(const group_t *group, uint32_t rank, const group_step_t *step,
                                   const message_step_done_t *m)
{
    const step_digest_t found = {m->result, m->weighted};
    uint32_t item = step_digest_item(step->digest, found, step->item_count);
    char where[128] = "item=several";

    if (item != STEP_DIGEST_SEVERAL) {
        const group_item_t *at = &group_items(group, step)[item];

        snprintf(where, sizeof(where),
                 "item=%u request=%016llx attempt=%u slot=%u position=%u count=%u", item,
                 (unsigned long long)at->request, at->attempt_number, at->slot, at->position,
                 at->count);
    }
    LOG(ERROR,
        "GROUP-DIVERGED rank=%u epoch=%llx step=%llu %s of=%u found=%016llx call=%u against "
        "rank=%u expected=%016llx call=%u",
        rank, (unsigned long long)m->epoch, (unsigned long long)m->seq, where, step->item_count,
        (unsigned long long)m->result, m->call, step->first_rank,
        (unsigned long long)step->digest.sum, step->first_call);
    PROBE(step_diverged, m->epoch, m->seq, rank, item, step->digest.sum, m->result);
    return "the ranks' results differ";
}

const char *group_step_done(group_t *group, const envelope_t *envelope)
{
    const message_step_done_t *m = envelope->body;
    uint32_t index = group_rank_of(group, envelope->from);
    group_step_t *step;

    if (index == UINT32_MAX || m->epoch != group->epoch || group->phase != GROUP_READY ||
        group->ranks[index].incarnation != envelope->incarnation)
        return NULL; /* of an epoch that is over */
    if (m->seq <= group->done_seq || m->seq > group->seq)
        return "a rank answered a step that was not sent";
    step = &group->steps[m->seq % STEPS_IN_FLIGHT_MAX];
    if (m->status != STATUS_OK)
        return report_failed(index, m);
    if (m->parent != step->parent)
        return report_chain(index, step, m);
    if (step->done & UINT64_C(1) << index)
        return "a rank answered a step twice";
    if (step->done == 0) {
        step->digest = (step_digest_t){m->result, m->weighted};
        step->first_rank = index;
        step->first_call = m->call;
    }
    if (m->result != step->digest.sum || m->weighted != step->digest.weighted)
        return report_diverged(group, index, step, m);
    if (index == 0) {
        if (!result_is_sane(group, step, m))
            return "the result does not fit the step";
        keep_result(group, step, m);
    }
    step->done |= UINT64_C(1) << index;
    group->since_ms = group->now_ms;
    return NULL;
}

const group_step_t *group_complete(const group_t *group)
{
    const group_step_t *step;

    if (group->in_flight == 0)
        return NULL;
    step = group_step(group, 0);
    if (PLANTED(unpublished_check) && step->done & 1)
        return step;
    return step->done == group_all_ranks(group) ? step : NULL;
}

void group_retire(group_t *group)
{
    const group_step_t *step = group_complete(group);

    ASSERT(step != NULL);
    group->running -= step->rows > 0;
    group->rows -= step->rows;
    group->done_seq++;
    group->in_flight--;
    group->since_ms = group->now_ms;
}

uint32_t group_waits(const group_t *group, actor_wait_t waits[ACTOR_WAITS_MAX])
{
    const uint64_t age_ms = group->now_ms - group->since_ms;
    uint64_t absent = 0, quiesced = 0;
    uint32_t count = 0;

    if (group->phase == GROUP_READY) {
        if (group->in_flight == 0)
            return 0;
        waits[0] = (actor_wait_t){.message = MESSAGE_step_done,
                                  .number = group_step(group, 0)->seq,
                                  .first = rank_id(group, 0),
                                  .whom = group_all_ranks(group) & ~group_step(group, 0)->done,
                                  .age_ms = age_ms};
        return 1;
    }
    for (uint32_t i = 0; i < group->rank_count; i++) {
        absent |= (uint64_t)(group->ranks[i].incarnation == 0) << i;
        quiesced |= (uint64_t)group->ranks[i].quiesced << i;
    }
    if (absent)
        waits[count++] =
            (actor_wait_t){MESSAGE_rank_join, group->counter, rank_id(group, 0), absent, age_ms};
    if (group_all_ranks(group) & ~absent & ~quiesced)
        waits[count++] = (actor_wait_t){MESSAGE_quiesced, group->counter, rank_id(group, 0),
                                        group_all_ranks(group) & ~absent & ~quiesced, age_ms};
    return count;
}

void group_check(const group_t *group)
{
    ASSERT(group->in_flight <= STEPS_IN_FLIGHT_MAX);
    ASSERT(group->running <= STEPS_AHEAD_MAX && group->running <= group->in_flight);
    ASSERT((group->rows > 0) == (group->running > 0));
    ASSERT(group->seq == group->done_seq + group->in_flight);
    ASSERT(group->phase == GROUP_READY || group->seq == 0);
    ASSERT(group->build.items == 0);
    for (uint32_t i = 0; i < group->rank_count; i++) {
        const group_rank_t *rank = &group->ranks[i];

        ASSERT(rank->incarnation != 0 || (!rank->must_quiesce && !rank->quiesced));
        ASSERT(group->phase != GROUP_READY || rank->quiesced);
        ASSERT(!(rank->must_quiesce && rank->quiesced));
    }
}

/* ---- digests --------------------------------------------------------------------------------- */

static uint64_t mix_words(uint64_t digest, const void *data, size_t bytes)
{
    return random_digest(random_mix(digest + bytes), data, bytes);
}

static uint64_t mix_record(uint64_t digest, const record_t *record, const void *data);

static uint64_t mix_field(uint64_t digest, const field_t *field, const void *data)
{
    const bytes_view_t *view = data; /* every view begins so */

    switch (field->type) {
    case FIELD_U8:
        return mix_words(digest, data, 1);
    case FIELD_U16:
    case FIELD_ACTOR:
        return mix_words(digest, data, 2);
    case FIELD_U32:
    case FIELD_F32:
    case FIELD_TOKEN:
        return mix_words(digest, data, 4);
    case FIELD_U64:
        return mix_words(digest, data, 8);
    case FIELD_BYTES:
    case FIELD_TEXT:
        return mix_words(digest, view->data, view->count);
    case FIELD_U32S:
    case FIELD_F32S:
    case FIELD_TOKENS:
        return mix_words(digest, view->data, (size_t)view->count * 4);
    case FIELD_U64S:
        return mix_words(digest, view->data, (size_t)view->count * 8);
    case FIELD_RECORD:
        return mix_record(digest, field->record, data);
    case FIELD_ITEMS:
        digest = random_mix(digest + view->count);
        for (uint32_t i = 0; i < view->count; i++)
            digest =
                mix_record(digest, field->record, view->data + (size_t)i * field->record->size);
        return digest;
    }
    UNREACHABLE("a field has one of the types above");
}

static uint64_t mix_record(uint64_t digest, const record_t *record, const void *data)
{
    for (uint32_t i = 0; i < record->field_count; i++)
        digest =
            mix_field(digest, &record->fields[i], (const char *)data + record->fields[i].offset);
    return digest;
}

uint64_t step_chain(uint64_t parent, const message_step_t *step)
{
    return mix_record(parent, &message_table.rows[MESSAGE_step].record, step);
}

/* ---- small things both leaders say ------------------------------------------------------------- */

bool seniority_is_older(const record_seniority_t *a, const record_seniority_t *b)
{
    if (a->admitted_ms != b->admitted_ms)
        return a->admitted_ms < b->admitted_ms;
    if (a->gateway != b->gateway)
        return a->gateway < b->gateway;
    return a->counter < b->counter;
}

uint64_t leader_generation(const pool_t *pool, unit_t unit)
{
    generation_t generation = pool_item(pool, unit)->generation;

    return (uint64_t)generation.epoch << 32 | generation.count;
}

void group_tell(const group_t *group, actor_id_t to, uint16_t id, const void *body, uint64_t *said,
                outbox_t *outbox)
{
    if (!group_is_ready(group) || *said == group->epoch || !outbox_may_send(outbox, to, id))
        return;
    outbox_push(outbox, to, id, body);
    *said = group->epoch;
}

void group_report(group_t *group, const message_instance_t *now, outbox_t *outbox)
{
    ASSERT(now->epoch == group->epoch);
    for (uint32_t i = 0; i < COUNT_OF(group->watchers); i++) {
        if (message_equal(MESSAGE_instance, now, &group->said[i]) ||
            !outbox_may_send(outbox, group->watchers[i], MESSAGE_instance))
            continue;
        outbox_push(outbox, group->watchers[i], MESSAGE_instance, now);
        group->said[i] = *now;
    }
}

void group_report_forget(group_t *group, actor_id_t actor)
{
    for (uint32_t i = 0; i < COUNT_OF(group->watchers); i++) {
        if (group->watchers[i] == actor)
            group->said[i] = (message_instance_t){0};
    }
}

record_token_t group_token_view(const group_token_t *from)
{
    return (record_token_t){
        .token = from->token,
        .logprob = from->logprob,
        .top_tokens = {from->top_tokens, from->top_count},
        .top_logprobs = {from->top_logprobs, from->top_count},
    };
}
