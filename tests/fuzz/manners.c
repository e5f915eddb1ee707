#include "tests/fuzz/manners.h"

#include <string.h>

#include "actors/group.h"
#include "runtime/base/check.h"

enum { TP = 2, OUTPUT = 4, LIFE = 2 };

static const uint32_t prompt[MANNERS_PROMPT] = {5, 6, 7};

static actor_id_t actor(const manners_t *m, actor_kind_t kind)
{
    return topology_actor(m->topology, kind, 0)->id;
}

static actor_kind_t kind_of(const manners_t *m, actor_id_t id)
{
    return (actor_kind_t)m->topology->actors[id].kind;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static void rank_join(const manners_t *m, const manners_turn_t *turn, message_rank_join_t *join)
{
    *join = (message_rank_join_t){.rank = m->topology->actors[turn->peer].rank,
                                  .pool = {.rank = turn->peer, .incarnation = LIFE, .bytes = 4096},
                                  .pages = 12,
                                  .borders = 4,
                                  .slots = 3};
    join->pool.name = (text_view_t){"/lockstep-fuzz", 14};
}

static void step_done(const message_step_t *step, message_step_done_t *done)
{
    static record_step_token_t tokens[STEP_ITEMS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < step->items.count; i++)
        if (step->items.data[i].sample)
            tokens[count++] = (record_step_token_t){
                .slot = step->items.data[i].slot, .item = i, .token = {.token = 9}};
    *done = (message_step_done_t){
        .epoch = step->epoch, .seq = step->seq, .parent = step->parent, .result = 1};
    done->tokens.data = tokens;
    done->tokens.count = count;
}

static uint16_t rank_says(const manners_t *m, const manners_turn_t *turn, const void **body)
{
    static union {
        message_rank_join_t join;
        message_quiesced_t quiesced;
        message_step_done_t done;
        message_peer_mapped_t mapped;
        message_copies_fenced_t fenced;
        message_pulled_t pulled;
    } said;

    *body = &said;
    if (turn->asked_id == MESSAGE_reform) {
        const message_reform_t *reform = turn->asked;

        said.quiesced = (message_quiesced_t){.epoch = reform->epoch};
        return MESSAGE_quiesced;
    }
    if (turn->asked_id == MESSAGE_step) {
        step_done(turn->asked, &said.done);
        return MESSAGE_step_done;
    }
    if (turn->asked_id == MESSAGE_peer_pool) {
        const message_peer_pool_t *pool = turn->asked;

        said.mapped = (message_peer_mapped_t){pool->pool.rank, pool->pool.incarnation, 0, {0}};
        return MESSAGE_peer_mapped;
    }
    if (turn->asked_id == MESSAGE_fence_copies) {
        const message_fence_copies_t *fence = turn->asked;

        said.fenced = (message_copies_fenced_t){fence->actor, fence->incarnation};
        return MESSAGE_copies_fenced;
    }
    if (turn->asked_id == MESSAGE_pull) {
        const message_pull_t *pull = turn->asked;

        said.pulled = (message_pulled_t){pull->request, pull->attempt, pull->copy, 0, 0};
        return MESSAGE_pulled;
    }
    if (m->topology->actors[turn->peer].leader != m->self)
        return MANNERS_NOTHING;
    rank_join(m, turn, &said.join);
    return MESSAGE_rank_join;
}

/* ---- leaders --------------------------------------------------------------------------------- */

static uint32_t pools_of(const manners_t *m, actor_kind_t kind, record_pool_t pools[TP])
{
    for (uint16_t i = 0; i < TP; i++)
        pools[i] = (record_pool_t){.rank = topology_rank(m->topology, kind, 0, i)->id,
                                   .incarnation = LIFE,
                                   .name = {"/lockstep-fuzz", 14},
                                   .bytes = 4096};
    return TP;
}

static uint16_t leader_to_rank(manners_t *m, const manners_turn_t *turn, const void **body)
{
    static const char segment[] = "group";
    static union {
        message_rank_joined_t joined;
        message_reform_t reform;
        message_step_t step;
    } said;
    static record_step_item_t item;

    *body = &said;
    if (turn->asked_id == MESSAGE_rank_join) {
        said.joined = (message_rank_joined_t){.accepted = 1};
        return MESSAGE_rank_joined;
    }
    if (turn->turn % 8 == 0 || m->epoch == 0) {
        said.reform = (message_reform_t){++m->epoch, {segment, sizeof(segment) - 1}};
        m->seq = m->chain = 0;
        return MESSAGE_reform;
    }
    item = (record_step_item_t){.kind = DEVICE_RUN, .count = 1, .tokens = {prompt, 1}};
    said.step = (message_step_t){.epoch = m->epoch, .seq = ++m->seq, .parent = m->chain};
    said.step.items.data = &item;
    said.step.items.count = 1;
    m->chain = step_chain(m->chain, &said.step);
    return MESSAGE_step;
}

static uint16_t prefill_says(manners_t *m, const manners_turn_t *turn, const void **body)
{
    static union {
        message_pools_t pools;
        message_sources_t sources;
        message_reserve_t reserve;
        message_kv_ready_t ready;
        message_tokens_t tokens;
        message_end_t end;
        message_instance_t instance;
    } said;
    static record_pool_t pools[TP];
    static record_unit_t units[2];
    const uint64_t request = turn->turn / 4 + 1;

    *body = &said;
    memset(&said, 0, sizeof(said));
    switch (kind_of(m, m->self)) {
    case ACTOR_RANK:
        return leader_to_rank(m, turn, body);
    case ACTOR_DECODE:
        if (turn->turn == 0) {
            said.pools.epoch = 7;
            said.pools.pools.data = pools;
            said.pools.pools.count = pools_of(m, ACTOR_PREFILL, pools);
            return MESSAGE_pools;
        }
        said.reserve = (message_reserve_t){.request = turn->turn,
                                           .attempt = 1,
                                           .gateway = actor(m, ACTOR_GATEWAY),
                                           .transfer = actor(m, ACTOR_TRANSFER),
                                           .prompt_tokens = MANNERS_PROMPT,
                                           .limits.output_tokens_max = OUTPUT};
        return MESSAGE_reserve;
    case ACTOR_TRANSFER:
        if (turn->turn == 0) {
            said.sources.epoch = 7;
            said.sources.pools.data = pools;
            said.sources.pools.count = pools_of(m, ACTOR_PREFILL, pools);
            return MESSAGE_sources;
        }
        units[0] = (record_unit_t){.unit = UNIT_HISTORY, .index = 1, .rows = PAGE_TOKENS};
        units[1] = (record_unit_t){.unit = UNIT_SLOT};
        said.ready = (message_kv_ready_t){.request = request,
                                          .attempt = 1,
                                          .decode = actor(m, ACTOR_DECODE),
                                          .source_epoch = 7,
                                          .piece = turn->turn % 2 == 0,
                                          .first_page = turn->turn % 2 == 0,
                                          .last = turn->turn % 2 == 0};
        said.ready.units.data = units;
        said.ready.units.count = said.ready.last ? 2 : 1;
        return MESSAGE_kv_ready;
    default:
        return MANNERS_NOTHING;
    }
}

static uint16_t decode_says(manners_t *m, const manners_turn_t *turn, const void **body)
{
    static union {
        message_targets_t targets;
        message_open_t open;
        message_pair_t pair;
        message_reserved_t reserved;
    } said;
    static record_pool_t pools[TP];
    static const uint32_t pages[] = {1, 2};
    static const uint64_t generations[] = {11, 12};

    *body = &said;
    memset(&said, 0, sizeof(said));
    switch (kind_of(m, m->self)) {
    case ACTOR_RANK:
        return leader_to_rank(m, turn, body);
    case ACTOR_PREFILL:
        if (turn->asked_id == MESSAGE_pools) {
            said.pair = (message_pair_t){
                .source_epoch = ((const message_pools_t *)turn->asked)->epoch, .state = PAIR_OK};
            return MESSAGE_pair;
        }
        if (turn->asked_id != MESSAGE_reserve)
            return MANNERS_NOTHING;
        said.reserved = (message_reserved_t){((const message_reserve_t *)turn->asked)->request,
                                             ((const message_reserve_t *)turn->asked)->attempt};
        return turn->turn % 2 ? MESSAGE_reserved : MESSAGE_running;
    case ACTOR_TRANSFER:
        if (turn->turn == 0) {
            said.targets.epoch = 9;
            said.targets.pools.data = pools;
            said.targets.pools.count = pools_of(m, ACTOR_DECODE, pools);
            return MESSAGE_targets;
        }
        said.open = (message_open_t){.request = turn->turn,
                                     .attempt = 1,
                                     .prefill = actor(m, ACTOR_PREFILL),
                                     .pages = {pages, 2},
                                     .generations = {generations, 2},
                                     .epoch = 9};
        return MESSAGE_open;
    default:
        return MANNERS_NOTHING;
    }
}

/* TOKENS and END of what was submitted, and news of the group for a scheduler: of both leaders. */
static uint16_t leader_says(manners_t *m, const manners_turn_t *turn, const void **body)
{
    static union {
        message_instance_t instance;
        message_tokens_t tokens;
        message_end_t end;
    } said;
    static record_token_t token = {.token = 9};
    static record_tokens_item_t item;
    const message_submit_t *submit = turn->asked;

    *body = &said;
    if (kind_of(m, m->self) == ACTOR_SCHEDULER) {
        said.instance = (message_instance_t){
            .ready = 1, .epoch = 7, .pages = 11, .pages_free = 11, .slots = 3, .slots_free = 3};
        return MESSAGE_instance;
    }
    if (kind_of(m, m->self) != ACTOR_GATEWAY)
        return kind_of(m, turn->peer) == ACTOR_PREFILL ? prefill_says(m, turn, body)
                                                       : decode_says(m, turn, body);
    if (turn->asked_id != MESSAGE_submit)
        return MANNERS_NOTHING;
    if (turn->turn % 3 == 2) {
        said.end = (message_end_t){.request = submit->request,
                                   .attempt = submit->attempt,
                                   .reason = turn->turn % 2 ? END_STOP : END_LOST,
                                   .token_count = 1 + turn->turn % 2};
        return MESSAGE_end;
    }
    item = (record_tokens_item_t){.request = submit->request, .attempt = submit->attempt};
    item.first = turn->turn % 3;
    item.tokens.data = &token;
    item.tokens.count = 1;
    said.tokens.items.data = &item;
    said.tokens.items.count = 1;
    return MESSAGE_tokens;
}

/* ---- the others ------------------------------------------------------------------------------ */

static uint16_t gateway_says(const manners_t *m, const manners_turn_t *turn, const void **body)
{
    static union {
        message_submit_t submit;
        message_route_t route;
    } said;

    *body = &said;
    memset(&said, 0, sizeof(said));
    if (kind_of(m, m->self) == ACTOR_SCHEDULER) {
        said.route = (message_route_t){.request = turn->turn,
                                       .attempt = 1,
                                       .prompt_tokens = MANNERS_PROMPT,
                                       .total_tokens_max = MANNERS_PROMPT + OUTPUT};
        return MESSAGE_route;
    }
    if (kind_of(m, m->self) != ACTOR_PREFILL)
        return MANNERS_NOTHING;
    said.submit = (message_submit_t){.request = turn->turn,
                                     .attempt = 1,
                                     .decode = actor(m, ACTOR_DECODE),
                                     .transfer = actor(m, ACTOR_TRANSFER),
                                     .prompt = {prompt, MANNERS_PROMPT},
                                     .limits.output_tokens_max = OUTPUT};
    return MESSAGE_submit;
}

static uint16_t scheduler_says(const manners_t *m, const manners_turn_t *turn, const void **body)
{
    static message_routed_t routed;
    const message_route_t *route = turn->asked;

    if (turn->asked_id != MESSAGE_route)
        return MANNERS_NOTHING;
    routed = (message_routed_t){.request = route->request,
                                .attempt = route->attempt,
                                .outcome = ROUTE_OK,
                                .prefill = actor(m, ACTOR_PREFILL),
                                .decode = actor(m, ACTOR_DECODE),
                                .transfer = actor(m, ACTOR_TRANSFER)};
    *body = &routed;
    return MESSAGE_routed;
}

static uint16_t transfer_says(const manners_t *m, const manners_turn_t *turn, const void **body)
{
    static union {
        message_pull_t pull;
        message_kv_answer_t answer;
        message_landed_t landed;
        message_opened_t opened;
    } said;
    static const record_pull_item_t item = {.unit = UNIT_HISTORY, .source = 1, .target = 2};

    *body = &said;
    memset(&said, 0, sizeof(said));
    if (turn->asked_id == MESSAGE_kv_ready) {
        const message_kv_ready_t *ready = turn->asked;

        said.answer = (message_kv_answer_t){ready->request, ready->attempt, ready->piece, 1};
        return MESSAGE_kv_answer;
    }
    if (turn->asked_id == MESSAGE_open) {
        const message_open_t *open = turn->asked;

        said.landed = (message_landed_t){
            .request = open->request, .attempt = open->attempt, .first_token = 9};
        return turn->turn % 3 == 0   ? MESSAGE_opened
               : turn->turn % 3 == 1 ? MESSAGE_landed
                                     : MESSAGE_fenced;
    }
    if (kind_of(m, m->self) != ACTOR_RANK)
        return MANNERS_NOTHING;
    said.pull = (message_pull_t){.request = turn->turn,
                                 .attempt = 1,
                                 .copy = turn->turn,
                                 .source = topology_rank(m->topology, ACTOR_PREFILL, 0, 0)->id,
                                 .source_incarnation = LIFE,
                                 .epoch = m->epoch};
    said.pull.items.data = &item;
    said.pull.items.count = 1;
    return MESSAGE_pull;
}

uint16_t manners_next(manners_t *m, const manners_turn_t *turn, const void **body)
{
    if (turn->peer >= m->topology->actor_count)
        return MANNERS_NOTHING;
    switch (kind_of(m, turn->peer)) {
    case ACTOR_RANK:
        return rank_says(m, turn, body);
    case ACTOR_PREFILL:
    case ACTOR_DECODE:
        return leader_says(m, turn, body);
    case ACTOR_GATEWAY:
        return gateway_says(m, turn, body);
    case ACTOR_SCHEDULER:
        return scheduler_says(m, turn, body);
    case ACTOR_TRANSFER:
        return transfer_says(m, turn, body);
    default:
        return MANNERS_NOTHING;
    }
}
