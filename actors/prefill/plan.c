/* plan.c - what the prefill leader sends of its own accord: openings, steps, pieces, tokens, facts. */
#include <string.h>

#include "actors/prefill/attempt.h"

/* ---- openings -------------------------------------------------------------------------------- */

static void push_reserve(prefill_t *self, attempt_t *attempt, outbox_t *outbox)
{
    uint32_t *words = AT(self, uint32_t, words_offset);
    uint32_t *prompt = words + attempt->forced.count;
    message_reserve_t reserve = {
        .request = attempt->base.request,
        .attempt = attempt->base.number,
        .seniority = attempt->base.link.seniority,
        .gateway = attempt->base.gateway,
        .transfer = attempt->base.transfer,
        .alone = attempt->base.alone,
        .prompt_tokens = attempt->base.prompt_tokens,
        .forced = {words, attempt->forced.count},
        .sampling = request_sampling(&attempt->base.parameters),
        .limits = request_limits(&attempt->base.parameters),
        .cached_tokens = attempt->base.cached_tokens,
    };

    token_list_read(store_of(self), &attempt->forced, 0, attempt->forced.count, words);
    if (request_has_penalty(&attempt->base.parameters)) {
        token_list_read(store_of(self), &attempt->prompt, 0, attempt->base.prompt_tokens, prompt);
        reserve.penalty_prompt = (u32s_view_t){prompt, attempt->base.prompt_tokens};
    }
    outbox_push(outbox, attempt->decode, MESSAGE_reserve, &reserve);
    leader_wait(self, &attempt->base, WAITS_DECODE);
    leader_become(self, &attempt->base, RESERVING);
    self->leader.counts.prompt_tokens += attempt->base.prompt_tokens;
    self->leader.counts.cached_tokens += attempt->base.cached_tokens;
}

/* Oldest first; who gets no pages holds up all younger ones, so that it gets them one day. */
static void plan_openings(prefill_t *self, outbox_t *outbox)
{
    attempt_t *all = attempts_of(self);
    uint64_t epoch = group_of(self)->epoch;

    if (!group_is_ready(group_of(self)))
        return;
    if (self->lease_failed != 0 && self->lease_failed == self->leader.came_free)
        return;
    self->lease_failed = 0;
    for (uint32_t i = self->leader.live.first; i != NIL; i = all[i].base.link.next) {
        const target_t *target;

        if (all[i].base.state != QUEUED)
            continue;
        target = prefill_target(self, all[i].decode);
        if (target->state != PAIR_OK || target->source_epoch != epoch || target->blocked ||
            !outbox_may_send(outbox, all[i].decode, MESSAGE_reserve))
            continue;
        if (!prefill_lease(self, &all[i])) {
            self->lease_failed = self->leader.came_free;
            return;
        }
        push_reserve(self, &all[i], outbox);
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void add_open(prefill_t *self, attempt_t *attempt)
{
    record_step_item_t *item = leader_add_open(self, &attempt->base);

    if (attempt->base.cached_tokens == 0)
        return;
    if (request_has_penalty(
            &attempt->base.parameters)) { /* the tokens that run are prompt anyway */
        uint32_t *prompt = group_words(group_of(self), attempt->base.cached_tokens);

        token_list_read(store_of(self), &attempt->prompt, 0, attempt->base.cached_tokens, prompt);
        item->tokens = (u32s_view_t){prompt, attempt->base.cached_tokens};
    }
    item = leader_add_item(self, &attempt->base, DEVICE_LOAD);
    item->position = attempt->base.cached_tokens;
    item->border = attempt->border.value;
}

static bool wants_border(const prefill_t *self, const attempt_t *attempt, uint32_t ordinal)
{
    return ordinal + 1 == attempt->base.prompt_tokens / PAGE_TOKENS ||
           (self->border_every > 0 && (ordinal + 1) % self->border_every == 0);
}

/* Borders of the pages that end in this run, as far as there are places. */
static void set_borders(prefill_t *self, attempt_t *attempt, record_step_item_t *item)
{
    uint32_t owner = leader_index(self, attempt);
    uint32_t *pages = group_words(group_of(self), BORDERS_PER_RUN_MAX);
    uint32_t *targets = group_words(group_of(self), BORDERS_PER_RUN_MAX);
    uint64_t *generations = group_longs(group_of(self), BORDERS_PER_RUN_MAX);
    uint32_t last = (item->position + item->count) / PAGE_TOKENS;
    uint32_t count = 0;

    for (uint32_t i = item->position / PAGE_TOKENS; i < last && count < BORDERS_PER_RUN_MAX; i++) {
        border_t border;

        if (!wants_border(self, attempt, i) || attempt->private_pages)
            continue;
        if (pool_count(pool_of(self), UNIT_BORDER, POOL_FREE) == 0)
            prefix_evict_borders(prefix_of(self), pool_of(self), 1);
        if (pool_lease_border(pool_of(self), owner, &border) != STATUS_OK)
            break;
        borders_of(self, attempt)[i] = border.value;
        pages[count] = i;
        targets[count] = border.value;
        generations[count] = leader_generation(pool_of(self), unit_border(border));
        count++;
    }
    item->border_pages = (u32s_view_t){pages, count};
    item->border_targets = (u32s_view_t){targets, count};
    item->border_generations = (u64s_view_t){generations, count};
}

uint32_t prefill_add_run(void *arg, leader_attempt_t *base, uint32_t rows_max)
{
    prefill_t *self = arg;
    attempt_t *attempt = (attempt_t *)(void *)base;
    group_t *group = group_of(self);
    uint32_t left = attempt->base.prompt_tokens - attempt->base.position;
    uint32_t count = left < rows_max ? left : rows_max;
    group_load_t need = {4, count + 2 * BORDERS_PER_RUN_MAX, BORDERS_PER_RUN_MAX, 0};
    record_step_item_t *item;
    uint32_t *tokens;

    if (!(attempt->base.waits & WAITS_CLOSE)) {
        need.words += attempt->base.page_count;
        need.words +=
            request_has_penalty(&attempt->base.parameters) ? attempt->base.cached_tokens : 0;
        need.longs += attempt->base.page_count;
        need.borrowed = 2 * attempt->base.parameters.bias_count;
    }
    if (!group_room(group, need))
        return 0;
    if (!(attempt->base.waits & WAITS_CLOSE))
        add_open(self, attempt);
    item = leader_add_item(self, base, DEVICE_RUN);
    tokens = group_words(group, count);
    token_list_read(store_of(self), &attempt->prompt, attempt->base.position, count, tokens);
    item->position = attempt->base.position;
    item->count = count;
    item->tokens = (u32s_view_t){tokens, count};
    item->sample = item->tail = count == left;
    set_borders(self, attempt, item);
    attempt->base.position += count;
    if (count == left) {
        /* The slot's bytes stay until its lease returns; the device needs to know nothing more. */
        leader_add_close(self, base);
        leader_become(self, base, HANDING);
    }
    return count;
}

bool prefill_wants_run(const leader_attempt_t *attempt)
{
    return attempt->state == PREFILLING;
}

/* No more than one chunk is in flight, so that who comes waits for no more than that. A second step goes
 * ahead only where the first one left room; behind a full one the ranks wait for the leader once a chunk. */
uint32_t prefill_rows_free(void *arg)
{
    const prefill_t *self = arg;
    const group_t *group = group_of(arg);

    return group_may_run(group) ? self->leader.chunk_tokens - group->rows : 0;
}

void prefill_add_runs(void *arg, uint32_t rows)
{
    prefill_t *self = arg;
    attempt_t *all = attempts_of(self);

    for (uint32_t i = self->leader.live.first; i != NIL && rows > 0; i = all[i].base.link.next) {
        if (prefill_wants_run(&all[i].base) && !all[i].base.alone)
            rows -= prefill_add_run(self, &all[i].base, rows);
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static record_unit_t history_unit(prefill_t *self, const attempt_t *attempt, uint32_t ordinal)
{
    page_t page = leader_pages(self, &attempt->base)[ordinal];
    uint32_t rows = attempt->done - ordinal * PAGE_TOKENS;

    return (record_unit_t){
        .unit = UNIT_HISTORY,
        .index = page.value,
        .generation = leader_generation(pool_of(self), unit_page(page)),
        .digest = AT(self, uint64_t, page_digests_offset)[page.value],
        .rows = rows < PAGE_TOKENS ? rows : PAGE_TOKENS,
    };
}

static record_unit_t slot_unit(prefill_t *self, const attempt_t *attempt)
{
    return (record_unit_t){
        .unit = UNIT_SLOT,
        .index = attempt->base.slot,
        .generation = leader_generation(pool_of(self), unit_slot(slot_at(attempt->base.slot))),
        .digest = AT(self, uint64_t, slot_digests_offset)[attempt->base.slot],
    };
}

/* Pages that all ranks agree on, and behind the last one the slot. False: nothing to send. */
static bool plan_piece(prefill_t *self, attempt_t *attempt, outbox_t *outbox)
{
    record_unit_t units[KV_UNITS_MAX];
    bool whole = attempt->token_known;
    uint32_t end = whole ? attempt->base.page_count : attempt->done / PAGE_TOKENS;
    uint32_t count = end - attempt->units_sent;
    message_kv_ready_t piece = {
        .request = attempt->base.request,
        .attempt = attempt->base.number,
        .decode = attempt->decode,
        .source_epoch = group_of(self)->epoch,
        .piece = attempt->pieces_sent,
        .first_page = attempt->units_sent,
        .first_token = attempt->token.token,
    };

    if (attempt->kv_stop || (count == 0 && !whole) ||
        !outbox_may_send(outbox, attempt->base.transfer, MESSAGE_kv_ready))
        return false;
    if (count > KV_UNITS_MAX - 1)
        count = KV_UNITS_MAX - 1;
    for (uint32_t i = 0; i < count; i++)
        units[i] = history_unit(self, attempt, attempt->units_sent + i);
    piece.last = whole && attempt->units_sent + count == end;
    if (piece.last && attempt->base.waits & WAITS_TOKEN_ACK)
        return false; /* decode's tokens come by another stream, and must not overtake this one */
    if (piece.last)
        units[count] = slot_unit(self, attempt);
    piece.units.data = units;
    piece.units.count = count + piece.last;
    outbox_push(outbox, attempt->base.transfer, MESSAGE_kv_ready, &piece);
    attempt->units_sent += count;
    attempt->pieces_sent++;
    leader_wait(self, &attempt->base, WAITS_TRANSFER);
    attempt->kv_stop = piece.last != 0;
    return true;
}

static void plan_pieces(prefill_t *self, outbox_t *outbox)
{
    attempt_t *all = attempts_of(self);

    for (uint32_t i = self->leader.live.first; i != NIL; i = all[i].base.link.next) {
        if (all[i].base.state != PREFILLING && all[i].base.state != HANDING)
            continue;
        while (plan_piece(self, &all[i], outbox))
            ;
    }
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void push_tokens(prefill_t *self, actor_id_t gateway, outbox_t *outbox)
{
    attempt_t *all = attempts_of(self);
    record_tokens_item_t items[PREFILL_ATTEMPTS_MAX];
    record_token_t tokens[PREFILL_ATTEMPTS_MAX];
    message_tokens_t message = {0};

    for (uint32_t i = self->leader.live.first; i != NIL; i = all[i].base.link.next) {
        uint32_t n = message.items.count;

        if (all[i].base.gateway != gateway || !(all[i].base.waits & WAITS_TOKEN_ACK) ||
            all[i].token_sent)
            continue;
        tokens[n] = group_token_view(&all[i].token);
        items[n] =
            (record_tokens_item_t){.request = all[i].base.request, .attempt = all[i].base.number};
        items[n].tokens.data = &tokens[n];
        items[n].tokens.count = 1;
        all[i].token_sent = true;
        message.items.count++;
    }
    message.items.data = items;
    if (message.items.count > 0)
        outbox_push(outbox, gateway, MESSAGE_tokens, &message);
}

/* May send means that the TOKENS before it is acknowledged. */
static void plan_tokens(prefill_t *self, outbox_t *outbox)
{
    attempt_t *all = attempts_of(self);

    for (uint32_t g = 0; g < self->leader.gateway_count; g++) {
        actor_id_t gateway = (actor_id_t)(self->leader.gateway_first + g);

        if (!outbox_may_send(outbox, gateway, MESSAGE_tokens))
            continue;
        for (uint32_t i = self->leader.live.first, next; i != NIL; i = next) {
            next = all[i].base.link.next;
            if (all[i].base.gateway != gateway || !all[i].token_sent ||
                !(all[i].base.waits & WAITS_TOKEN_ACK))
                continue;
            leader_wait_over(self, &all[i].base, WAITS_TOKEN_ACK);
            if (all[i].base.state == ENDING)
                prefill_settle(self, &all[i], outbox);
        }
        push_tokens(self, gateway, outbox);
    }
}

/* ---- facts ----------------------------------------------------------------------------------- */

static void plan_pools(prefill_t *self, outbox_t *outbox)
{
    const group_t *group = group_of(self);
    record_pool_t pools[RANKS_MAX];
    message_pools_t message = {.epoch = group->epoch, .weights_digest = group->weights_digest};

    message.pools.data = pools;
    message.pools.count = group_pools(group, pools);
    for (uint32_t i = 0; i < self->target_count; i++)
        group_tell(group, self->targets[i].leader, MESSAGE_pools, &message,
                   &self->targets[i].pools_said, outbox);
}

static void plan_sources(prefill_t *self, outbox_t *outbox)
{
    const group_t *group = group_of(self);
    record_pool_t pools[RANKS_MAX];
    message_sources_t message = {.epoch = group->epoch};

    message.pools.data = pools;
    message.pools.count = group_pools(group, pools);
    leader_tell_transfers(&self->leader, MESSAGE_sources, &message, outbox);
}

static void plan_report(prefill_t *self, outbox_t *outbox)
{
    const attempt_t *all = attempts_of(self);
    message_instance_t now = leader_instance(self);

    now.opened = self->leader.counts.opened;
    for (uint32_t i = self->leader.live.first; i != NIL; i = all[i].base.link.next) {
        bool waits = all[i].base.state == QUEUED || all[i].base.state == RESERVING;

        now.queued += waits;
        now.running += all[i].base.state == PREFILLING || all[i].base.state == HANDING;
        if (waits || all[i].base.state == PREFILLING)
            now.queued_tokens += all[i].base.prompt_tokens - all[i].base.position;
    }
    group_report(group_of(self), &now, outbox);
}

void prefill_plan(void *arg, outbox_t *outbox)
{
    prefill_t *self = arg;

    plan_sources(self, outbox);
    plan_pools(self, outbox);
    plan_openings(self, outbox);
    leader_plan_steps(self, &prefill_leader, outbox);
    plan_tokens(self, outbox);
    plan_pieces(self, outbox);
    plan_report(self, outbox);
}
