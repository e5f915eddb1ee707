/* plan.c - what the decode leader sends of its own accord: steps, tokens, openings, facts. */
#include <string.h>

#include "actors/decode/attempt.h"
#include "runtime/base/plant.h"

/* ---- steps ----------------------------------------------------------------------------------- */

static attempt_t *own(leader_attempt_t *attempt)
{
    return (attempt_t *)(void *)attempt; /* whose first member it is */
}

bool decode_wants_run(const leader_attempt_t *base)
{
    const attempt_t *attempt = (const attempt_t *)(const void *)base;

    return base->state == RUNNING && (attempt->given_run < attempt->given.count ||
                                      attempt->planned < base->parameters.limits.output_tokens_max);
}

/* The device's slot takes over what the copies brought. */
static void add_open(decode_t *self, attempt_t *attempt)
{
    record_step_item_t *item = leader_add_open(self, &attempt->base);
    uint32_t *penalty = group_words(group_of(self), attempt->penalty.count);

    item->position = attempt->base.prompt_tokens;
    token_list_read(store_of(self), &attempt->penalty, 0, attempt->penalty.count, penalty);
    item->tokens = (u32s_view_t){penalty, attempt->penalty.count};
}

uint32_t decode_add_run(void *arg, leader_attempt_t *base, uint32_t rows_max)
{
    decode_t *self = arg;
    attempt_t *attempt = own(base);
    group_t *group = group_of(self);
    uint32_t left = attempt->given.count - attempt->given_run;
    uint32_t count = left == 0 ? 1 : left < rows_max ? left : rows_max;
    uint32_t pages = tokens_pages(attempt->base.position + count);
    group_load_t need = {3, count + pages + attempt->base.page_count,
                         pages + attempt->base.page_count, 0};
    uint32_t added = 0;
    record_step_item_t *item;

    if (!(attempt->base.waits & WAITS_CLOSE)) {
        need.words += attempt->penalty.count;
        need.borrowed = 2 * attempt->base.parameters.bias_count;
    }
    if (!group_room(group, need))
        return 0;
    if (!decode_grow(self, attempt, pages, &added)) {
        self->leader.starving = true;
        return 0;
    }
    if (!(attempt->base.waits & WAITS_CLOSE))
        add_open(self, attempt);
    else if (added > 0)
        leader_set_pages(self, leader_pages(self, base) + base->page_count - added, added,
                         leader_add_item(self, base, DEVICE_EXTEND));
    item = leader_add_item(self, base, DEVICE_RUN);
    item->position = attempt->base.position;
    item->count = count;
    if (left > 0) {
        uint32_t *tokens = group_words(group, count);

        token_list_read(store_of(self), &attempt->given, attempt->given_run, count, tokens);
        item->tokens = (u32s_view_t){tokens, count};
        attempt->given_run += count;
    }
    item->sample = attempt->given_run == attempt->given.count;
    attempt->base.position += count;
    attempt->planned += item->sample;
    return count;
}

uint32_t decode_rows_free(void *arg)
{
    const decode_t *self = arg;

    return group_may_run(group_of(arg)) ? self->leader.chunk_tokens : 0;
}

/* First all that continue by one token, oldest first; then what is left of the budget to those that
 * run given tokens. */
void decode_add_runs(void *arg, uint32_t rows)
{
    decode_t *self = arg;
    attempt_t *all = attempts_of(self);

    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = self->leader.live.first; i != NIL && rows > 0;
             i = all[i].base.link.next) {
            bool given = all[i].given_run < all[i].given.count;

            if (decode_wants_run(&all[i].base) && !all[i].base.alone && given == (pass == 1))
                rows -= decode_add_run(self, &all[i].base, rows);
        }
    }
}

static void plan_steps(decode_t *self, outbox_t *outbox)
{
    uint64_t came_free;

    do {
        came_free = self->leader.came_free;
        leader_plan_steps(self, &decode_leader, outbox);
        if (self->leader.starving)
            decode_retract(self, outbox);
    } while (self->leader.came_free != came_free);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* What the gateway has acknowledged needs no memory. */
static void acknowledge(decode_t *self, attempt_t *attempt, outbox_t *outbox)
{
    attempt->acked = attempt->sent;
    if (attempt->acked == attempt->known && attempt->tokens.count > 0) {
        token_list_clear(store_of(self), &attempt->tokens);
        attempt->first = attempt->known;
        leader_wait_over(self, &attempt->base, WAITS_TOKEN_ACK);
    }
    if (attempt->base.state == ENDING && !PLANTED(lost_attempt))
        decode_settle(self, attempt, outbox);
}

static void view_token(decode_t *self, attempt_t *attempt, uint32_t index, record_token_t *token,
                       uint32_t *words)
{
    token_list_read(store_of(self), &attempt->tokens,
                    (index - attempt->first) * attempt->token_words, attempt->token_words, words);
    *token = (record_token_t){.token = words[0]};
    if (attempt->token_words == 1)
        return;
    memcpy(&token->logprob, &words[1], sizeof(float));
    token->top_tokens = (u32s_view_t){&words[3], words[2]};
    token->top_logprobs =
        (f32s_view_t){(const float *)(const void *)&words[3 + words[2]], words[2]};
}

static uint32_t collect_tokens(decode_t *self, actor_id_t gateway)
{
    attempt_t *all = attempts_of(self);
    record_tokens_item_t *items = AT(self, record_tokens_item_t, items_offset);
    record_token_t *views = AT(self, record_token_t, views_offset);
    uint32_t *words = AT(self, uint32_t, words_offset);
    uint32_t item_count = 0, used = 0;

    for (uint32_t i = self->leader.live.first; i != NIL && used < DECODE_MESSAGE_TOKENS;
         i = all[i].base.link.next) {
        attempt_t *attempt = &all[i];
        uint32_t count = attempt->known - attempt->sent;

        if (attempt->base.gateway != gateway || !(attempt->base.waits & WAITS_TOKEN_ACK) ||
            count == 0 || item_count == TOKENS_ITEMS_MAX)
            continue;
        if (count > DECODE_MESSAGE_TOKENS - used)
            count = DECODE_MESSAGE_TOKENS - used;
        for (uint32_t n = 0; n < count; n++) {
            view_token(self, attempt, attempt->sent + n, &views[used + n], words);
            words += attempt->token_words;
        }
        items[item_count] = (record_tokens_item_t){.request = attempt->base.request,
                                                   .attempt = attempt->base.number,
                                                   .first = attempt->sent};
        items[item_count].tokens.data = &views[used];
        items[item_count].tokens.count = count;
        item_count++;
        used += count;
        attempt->sent += count;
    }
    return item_count;
}

static void clear_views(decode_t *self, record_tokens_item_t *items, uint32_t count)
{
    record_token_t *views = AT(self, record_token_t, views_offset);

    for (uint32_t i = 0, used = 0; i < count; i++) {
        memset(&views[used], 0, items[i].tokens.count * sizeof(*views));
        used += items[i].tokens.count;
    }
    if (count > 0)
        memset(items, 0, count * sizeof(*items));
}

/* A TOKENS that may be sent again has been acknowledged, or went with that life of the gateway. */
static void acknowledge_all(decode_t *self, actor_id_t gateway, outbox_t *outbox)
{
    attempt_t *all = attempts_of(self);

    for (uint32_t i = self->leader.live.first, next; i != NIL; i = next) {
        next = all[i].base.link.next;
        if (all[i].base.gateway == gateway && all[i].sent > all[i].acked)
            acknowledge(self, &all[i], outbox);
    }
}

static void plan_tokens(decode_t *self, outbox_t *outbox)
{
    record_tokens_item_t *items = AT(self, record_tokens_item_t, items_offset);
    message_tokens_t message = {0};

    message.items.data = items;
    for (uint32_t g = 0; g < self->leader.gateway_count; g++) {
        actor_id_t gateway = (actor_id_t)(self->leader.gateway_first + g);
        uint64_t bit = UINT64_C(1) << g;

        if (!((self->tokens_new | self->tokens_out) & bit) ||
            !outbox_may_send(outbox, gateway, MESSAGE_tokens))
            continue;
        if (self->tokens_out & bit)
            acknowledge_all(self, gateway, outbox);
        message.items.count = collect_tokens(self, gateway);
        if (message.items.count > 0) {
            outbox_push(outbox, gateway, MESSAGE_tokens, &message);
            self->tokens_out |= bit;
        } else { /* only now is it certain that nothing is left */
            self->tokens_out &= ~bit;
            self->tokens_new &= ~bit;
        }
        clear_views(self, items, message.items.count); /* a state holds no pointers */
    }
}

/* ---- openings and facts ---------------------------------------------------------------------- */

static void push_open(decode_t *self, attempt_t *attempt, outbox_t *outbox)
{
    group_t *group = group_of(self);
    uint32_t count = tokens_pages(attempt->base.prompt_tokens);
    record_step_item_t lists = {0};
    message_open_t open = {
        .request = attempt->base.request,
        .attempt = attempt->base.number,
        .prefill = attempt->prefill,
        .slot = attempt->base.slot,
        .slot_generation = leader_generation(pool_of(self), unit_slot(slot_at(attempt->base.slot))),
        .epoch = group->epoch,
    };

    leader_set_pages(self, leader_pages(self, &attempt->base), count, &lists);
    open.pages = lists.pages;
    open.generations = lists.generations;
    outbox_push(outbox, attempt->base.transfer, MESSAGE_open, &open);
    group_drop(group);
    attempt->open_due = false;
    self->opens_due--;
    leader_wait(self, &attempt->base, WAITS_TRANSFER);
}

static void plan_open(decode_t *self, outbox_t *outbox)
{
    attempt_t *all = attempts_of(self);

    for (uint32_t i = self->leader.live.first; i != NIL && self->opens_due > 0;
         i = all[i].base.link.next) {
        if (all[i].open_due && outbox_may_send(outbox, all[i].base.transfer, MESSAGE_open))
            push_open(self, &all[i], outbox);
    }
}

/* Each own rank maps the pool of the source rank it will read from, and tests it. */
static void plan_mapping(decode_t *self, source_t *source, outbox_t *outbox)
{
    const group_t *group = group_of(self);

    for (uint32_t i = 0; i < group->rank_count && source->epoch != 0; i++) {
        actor_id_t rank = (actor_id_t)(group->leader + 1 + i);
        message_peer_pool_t peer = {.pool = source->pools[i % source->pool_count]};

        if ((source->asked & UINT64_C(1) << i) || !outbox_may_send(outbox, rank, MESSAGE_peer_pool))
            continue;
        peer.pool.name.data = source->names[i % source->pool_count];
        outbox_push(outbox, rank, MESSAGE_peer_pool, &peer);
        source->asked |= UINT64_C(1) << i;
    }
}

static void plan_source(decode_t *self, source_t *source, outbox_t *outbox)
{
    const group_t *group = group_of(self);
    /* Who waits for the pair to be tested would wait for a group that takes nothing when it is. */
    bool leaves = group->drains && source->state != PAIR_OK;
    message_pair_t pair = {
        .source_epoch = source->epoch,
        .target_epoch = group->epoch,
        .state = (uint8_t)(leaves ? PAIR_LEAVING : source->state),
        .reason = {source->reason, (uint32_t)strlen(source->reason)},
        .rank = source->refused,
        .incarnation = source->refused_incarnation,
    };
    message_room_t room = {0};
    bool news = !source->said_any || pair.source_epoch != source->said.source_epoch ||
                pair.target_epoch != source->said.target_epoch || pair.state != source->said.state;

    if (group_is_ready(group))
        plan_mapping(self, source, outbox);
    if (news && outbox_may_send(outbox, source->leader, MESSAGE_pair)) {
        outbox_push(outbox, source->leader, MESSAGE_pair, &pair);
        /* By field: a copy would bring along what lies between them on the stack. */
        source->said.source_epoch = pair.source_epoch;
        source->said.target_epoch = pair.target_epoch;
        source->said.state = pair.state;
        source->said_any = true;
    }
    if (source->room_owed && self->leader.came_free > source->room_after &&
        source->state == PAIR_OK && group_is_ready(group) && !self->leader.starving &&
        outbox_may_send(outbox, source->leader, MESSAGE_room)) {
        outbox_push(outbox, source->leader, MESSAGE_room, &room);
        source->room_owed = false;
    }
}

static void plan_fences(decode_t *self, outbox_t *outbox)
{
    const group_t *group = group_of(self);

    for (uint32_t i = 0; i < self->leader.transfer_count; i++) {
        message_fence_copies_t fence = {.actor = (actor_id_t)(self->leader.transfer_first + i),
                                        .incarnation = self->fences[i].incarnation};

        for (uint32_t n = 0; n < group->rank_count && self->fences[i].due != 0; n++) {
            actor_id_t rank = (actor_id_t)(group->leader + 1 + n);

            if (!(self->fences[i].due & UINT64_C(1) << n) ||
                !outbox_may_send(outbox, rank, MESSAGE_fence_copies))
                continue;
            outbox_push(outbox, rank, MESSAGE_fence_copies, &fence);
            self->fences[i].due &= ~(UINT64_C(1) << n);
        }
    }
}

static void plan_targets(decode_t *self, outbox_t *outbox)
{
    const group_t *group = group_of(self);
    record_pool_t pools[RANKS_MAX];
    message_targets_t targets = {.epoch = group->epoch};

    targets.pools.data = pools;
    targets.pools.count = group_pools(group, pools);
    leader_tell_transfers(&self->leader, MESSAGE_targets, &targets, outbox);
}

static void plan_report(decode_t *self, outbox_t *outbox)
{
    message_instance_t now = leader_instance(self);

    now.queued = self->leader.in_state[OPENING] + self->leader.in_state[LANDING];
    now.running = self->leader.in_state[RUNNING];
    now.opened = self->leader.counts.opened;
    group_report(group_of(self), &now, outbox);
}

void decode_plan(void *arg, outbox_t *outbox)
{
    decode_t *self = arg;

    plan_fences(self, outbox);
    plan_targets(self, outbox);
    plan_open(self, outbox);
    plan_steps(self, outbox);
    plan_tokens(self, outbox);
    for (uint32_t i = 0; i < self->source_count; i++)
        plan_source(self, &self->sources[i], outbox);
    plan_report(self, outbox);
}
