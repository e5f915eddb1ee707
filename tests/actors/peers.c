#include "tests/actors/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static actor_id_t rank_of(const peers_t *peers, uint32_t rank)
{
    return (actor_id_t)(peers->scene->id + 1 + rank);
}

static void queue(peers_t *peers, actor_id_t from, uint16_t id, uint64_t number, uint32_t about)
{
    assert_true(peers->answer_count < PEERS_ANSWERS_MAX);
    peers->answers[peers->answer_count++] = (peers_answer_t){from, id, number, about};
}

static bool is_of_epoch(const peers_answer_t *answer)
{
    return answer->id == MESSAGE_step_done || answer->id == MESSAGE_quiesced;
}

/* Takes back what an actor was about to say; of a rank that reforms, only what the epoch ends. */
static void unqueue(peers_t *peers, actor_id_t from, bool epoch_only, uint64_t request)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < peers->answer_count; i++) {
        const peers_answer_t *answer = &peers->answers[i];

        if (answer->from != from || (epoch_only && !is_of_epoch(answer)) ||
            (request != 0 && answer->number != request))
            peers->answers[kept++] = *answer;
    }
    peers->answer_count = kept;
}

/* ---- what the leader pushed ---------------------------------------------------------------- */

/* A device refuses what does not fit its slots. */
static void hear_item(peers_t *peers, const record_step_item_t *item)
{
    const uint64_t bit = UINT64_C(1) << item->slot;

    assert_true(item->slot < 64);
    assert_int_equal((peers->slots_open & bit) != 0, item->kind != DEVICE_OPEN);
    if (item->kind == DEVICE_OPEN)
        peers->slots_open |= bit;
    if (item->kind == DEVICE_CLOSE)
        peers->slots_open &= ~bit;
}

static void hear_step(peers_t *peers, uint32_t rank, const message_step_t *step)
{
    uint32_t runs = 0;

    assert_int_equal(step->epoch, peers->epoch);
    assert_int_equal(step->parent, peers->chains[rank]);
    peers->chains[rank] = step_chain(step->parent, step);
    if (!peers->silent)
        queue(peers, rank_of(peers, rank), MESSAGE_step_done, step->seq, 0);
    if (rank != 0)
        return;
    for (uint32_t i = 0; i < step->items.count; i++) {
        const record_step_item_t *item = &step->items.data[i];

        runs += item->kind == DEVICE_RUN;
        hear_item(peers, item);
        if (item->kind == DEVICE_OPEN && item->position == 0)
            peers->history = 0;
        if (item->kind == DEVICE_OPEN)
            peers->history += item->tokens.count;
        if (item->kind == DEVICE_RUN)
            peers->history += item->count;
    }
    if (runs > peers->runs_in_step_max)
        peers->runs_in_step_max = runs;
    peers->steps[step->seq % STEPS_IN_FLIGHT_MAX] = *step;
    peers->step_count++;
}

static void hear_rank(peers_t *peers, uint32_t rank, const capture_push_t *push)
{
    actor_id_t from = rank_of(peers, rank);

    if (push->id == MESSAGE_step) {
        hear_step(peers, rank, push->body);
    } else if (push->id == MESSAGE_reform) {
        unqueue(peers, from, true, 0);
        peers->epoch = ((const message_reform_t *)push->body)->epoch;
        peers->slots_open = 0;
        peers->chains[rank] = 0;
        if (!peers->silent)
            queue(peers, from, MESSAGE_quiesced, peers->epoch, 0);
    } else if (push->id == MESSAGE_peer_pool) {
        const message_peer_pool_t *m = push->body;

        queue(peers, from, MESSAGE_peer_mapped, m->pool.incarnation, m->pool.rank);
    } else if (push->id == MESSAGE_fence_copies) {
        const message_fence_copies_t *m = push->body;

        queue(peers, from, MESSAGE_copies_fenced, m->incarnation, m->actor);
    }
}

static uint64_t bit_of(uint64_t request)
{
    assert_true(request < 64);
    return UINT64_C(1) << request;
}

static void hear_transfer(peers_t *peers, const capture_push_t *push)
{
    if (push->id == MESSAGE_open) {
        const message_open_t *m = push->body;

        peers->transfer_open |= bit_of(m->request);
        queue(peers, push->to, MESSAGE_opened, m->request, 0);
        queue(peers, push->to, MESSAGE_landed, m->request, 0);
        queue(peers, push->to, MESSAGE_fenced, m->request, 0);
    } else if (push->id == MESSAGE_abort) {
        const message_abort_t *m = push->body;

        peers->aborts++;
        if (!(peers->transfer_open & bit_of(m->request)))
            return;
        unqueue(peers, push->to, false, m->request);
        queue(peers, push->to, MESSAGE_fenced, m->request, 0);
    } else if (push->id == MESSAGE_kv_ready) {
        const message_kv_ready_t *m = push->body;

        peers->transfer_open |= bit_of(m->request);
        queue(peers, push->to, MESSAGE_kv_answer, m->request, m->piece);
        if (m->last) {
            queue(peers, push->to, MESSAGE_fenced, m->request, 0);
            queue(peers, peers->decode, MESSAGE_running, m->request, 0);
        }
    }
}

static void hear_decode_abort(peers_t *peers, actor_id_t decode, uint64_t request)
{
    peers->aborts++;
    if (!(peers->decode_open & bit_of(request)))
        return;
    unqueue(peers, decode, false, request);
    queue(peers, decode, MESSAGE_end, request, END_ABORTED);
    queue(peers, decode, MESSAGE_fenced, request, 0);
    if ((peers->transfer_open & bit_of(request)) && peers->lives[peers->transfer] != 0) {
        unqueue(peers, peers->transfer, false, request);
        queue(peers, peers->transfer, MESSAGE_fenced, request, 0);
    }
}

static void hear_decode(peers_t *peers, const capture_push_t *push)
{
    if (push->id == MESSAGE_reserve) {
        const message_reserve_t *m = push->body;

        if (!peers->busy_once)
            peers->decode_open |= bit_of(m->request);
        queue(peers, push->to, peers->busy_once ? MESSAGE_busy : MESSAGE_reserved, m->request, 0);
        peers->busy_once = false;
    } else if (push->id == MESSAGE_abort) {
        hear_decode_abort(peers, push->to, ((const message_abort_t *)push->body)->request);
    } else if (push->id == MESSAGE_pools) {
        queue(peers, push->to, MESSAGE_pair, ((const message_pools_t *)push->body)->epoch, 0);
    }
}

static void hear_opener(peers_t *peers, const capture_push_t *push)
{
    if (push->id == MESSAGE_end) {
        peers->ends++;
        peers->end = *(const message_end_t *)push->body;
    } else if (push->id == MESSAGE_room) {
        peers->rooms++;
    } else if (push->id == MESSAGE_fenced) {
        peers->fences++;
    } else if (push->id == MESSAGE_pair) {
        peers->pair = *(const message_pair_t *)push->body;
    } else if (push->id == MESSAGE_tokens) {
        const message_tokens_t *m = push->body;

        for (uint32_t i = 0; i < m->items.count; i++) {
            const record_tokens_item_t *item = &m->items.data[i];

            peers->tokens += item->tokens.count;
            peers->last_token = item->tokens.data[item->tokens.count - 1].token;
        }
    }
}

void peers_listen(peers_t *peers)
{
    capture_push_t push;

    while (capture_next(peers->scene->capture, &push)) {
        uint32_t rank = (uint32_t)(push.to - peers->scene->id - 1);

        assert_true(peers->lives[push.to] != 0);
        if (rank < peers->tp)
            hear_rank(peers, rank, &push);
        else if (push.to == peers->transfer)
            hear_transfer(peers, &push);
        else if (push.to == peers->decode && !peers->decodes)
            hear_decode(peers, &push);
        else if (push.to == peers->gateway || push.to == peers->prefill)
            hear_opener(peers, &push);
        else if (push.to == peers->supervisor) {
            peers->kills += push.id == MESSAGE_kill;
            peers->incidents += push.id == MESSAGE_incident;
        }
    }
}

/* ---- answers ------------------------------------------------------------------------------- */

static void send(peers_t *peers, actor_id_t from, uint16_t id, const void *body)
{
    scene_send_as(peers->scene, from, peers->lives[from], id, body);
    peers_listen(peers);
}

/* All units that the step closes, and one token for each RUN that samples. */
static void send_step_done(peers_t *peers, const peers_answer_t *answer)
{
    static record_step_token_t tokens[SLOTS_MAX];
    static record_closed_t closed[CLOSED_MAX];
    message_step_done_t done = {.epoch = peers->epoch, .seq = answer->number, .call = 12};
    const message_step_t *step = &peers->steps[answer->number % STEPS_IN_FLIGHT_MAX];
    uint32_t rank = answer->from - peers->scene->id - 1u;
    uint32_t token_count = 0, closed_count = 0, last = 0;
    step_digest_t digest = step_digest_begin(answer->number);

    done.parent = step->parent;
    for (uint32_t i = 0; i < step->items.count; i++) {
        const record_step_item_t *item = &step->items.data[i];
        uint32_t end = item->position + item->count;

        if (item->kind != DEVICE_RUN)
            continue;
        step_digest_add(&digest, i, STEP_DIGEST_STATE, item->slot, end);
        last = i;
        if (item->sample)
            tokens[token_count++] = (record_step_token_t){
                .slot = item->slot, .item = i, .token = {.token = PEERS_TOKEN + end}};
        if (item->tail)
            closed[closed_count++] = (record_closed_t){UNIT_SLOT, item->slot, 5};
    }
    done.tokens.data = tokens;
    done.tokens.count = token_count;
    done.closed.data = closed;
    done.closed.count = closed_count;
    if (peers->differs && rank + 1 == peers->tp)
        step_digest_add(&digest, last, STEP_DIGEST_TOKEN, 0, 0);
    done.result = digest.sum;
    done.weighted = digest.weighted + (peers->differs_in_second_sum && rank + 1 == peers->tp);
    send(peers, answer->from, MESSAGE_step_done, &done);
}

static void send_mapped(peers_t *peers, const peers_answer_t *answer)
{
    message_peer_mapped_t mapped = {.rank = (actor_id_t)answer->about,
                                    .incarnation = (incarnation_t)answer->number};

    send(peers, answer->from, MESSAGE_peer_mapped, &mapped);
}

static void send_attempt(peers_t *peers, const peers_answer_t *answer)
{
    uint64_t request = answer->number;
    message_landed_t landed = {.request = request,
                               .attempt = 1,
                               .failed = peers->fails,
                               .first_token = PEERS_TOKEN + PEERS_PROMPT,
                               .copies_failed = peers->fails ? 2 : 0};
    message_kv_answer_t kv = {request, 1, answer->about, 1};
    message_end_t end = {.request = request, .attempt = 1, .reason = (uint8_t)answer->about};
    message_fenced_t named = {request, 1};
    const void *body = &named;

    if (answer->id == MESSAGE_landed)
        body = &landed;
    else if (answer->id == MESSAGE_kv_answer)
        body = &kv;
    else if (answer->id == MESSAGE_end)
        body = &end;
    if (answer->id == MESSAGE_fenced && answer->from == peers->transfer)
        peers->transfer_open &= ~bit_of(request);
    if (answer->from == peers->decode &&
        (answer->id == MESSAGE_fenced || answer->id == MESSAGE_running))
        peers->decode_open &= ~bit_of(request);
    send(peers, answer->from, answer->id, body);
}

bool peers_next(peers_t *peers)
{
    peers_answer_t answer;

    if (peers->answer_count == 0) {
        /* Everything is acknowledged now; the runtime plans again when credit returns. */
        capture_plan(peers->scene->capture, peers->scene->type, peers->scene->dispatch.self);
        peers_listen(peers);
    }
    if (peers->answer_count == 0)
        return false;
    answer = peers->answers[0];
    peers->answer_count--;
    memmove(peers->answers, peers->answers + 1, peers->answer_count * sizeof(answer));
    if (answer.id == MESSAGE_step_done) {
        send_step_done(peers, &answer);
    } else if (answer.id == MESSAGE_quiesced) {
        message_quiesced_t quiesced = {answer.number, 0, 0};

        send(peers, answer.from, answer.id, &quiesced);
    } else if (answer.id == MESSAGE_peer_mapped) {
        send_mapped(peers, &answer);
    } else if (answer.id == MESSAGE_copies_fenced) {
        message_copies_fenced_t fenced = {(actor_id_t)answer.about, (incarnation_t)answer.number};

        send(peers, answer.from, answer.id, &fenced);
    } else if (answer.id == MESSAGE_pair) {
        message_pair_t pair = {.source_epoch = answer.number, .target_epoch = 1, .state = PAIR_OK};

        send(peers, answer.from, answer.id, &pair);
    } else {
        send_attempt(peers, &answer);
    }
    return true;
}

void peers_run(peers_t *peers)
{
    for (uint32_t i = 0; peers_next(peers); i++)
        assert_true(i < 1000);
}

/* ---- the cast ------------------------------------------------------------------------------ */

static void join(peers_t *peers, uint32_t rank)
{
    static const char name[] = "/pool";
    message_rank_join_t m = {
        .rank = rank,
        .pool = {rank_of(peers, rank), peers->lives[rank_of(peers, rank)], {name, 5}, 4096},
        .pages = peers->scene->topology.decodes[0].pages,
        .borders = 16,
        .slots = 8,
        .weights_digest = 1,
        .geometry_digest = 2,
        .numerics_digest = 3,
    };

    send(peers, rank_of(peers, rank), MESSAGE_rank_join, &m);
}

static void announce_pools(peers_t *peers)
{
    record_pool_t pools[RANKS_MAX] = {0};
    message_pools_t m = {.epoch = 4, .weights_digest = 1};

    for (uint16_t i = 0; i < peers->tp; i++)
        pools[i] = (record_pool_t){scene_rank(peers->scene, ACTOR_PREFILL, 0, i), 1, {"/p", 2}, 9};
    m.pools.data = pools;
    m.pools.count = peers->tp;
    send(peers, peers->prefill, MESSAGE_pools, &m);
}

static void open_in(peers_t *peers, const actor_type_t *type, actor_kind_t kind, bool large)
{
    *peers = (peers_t){.tp = 2, .decodes = kind == ACTOR_DECODE};
    peers->sampling = (record_sampling_t){.top_p = 1, .repetition_penalty = 1};
    peers->scene =
        large ? scene_open_large(type, kind, peers->tp) : scene_open(type, kind, 1, 1, peers->tp);
    peers->gateway = scene_actor(peers->scene, ACTOR_GATEWAY, 0);
    peers->prefill = scene_actor(peers->scene, ACTOR_PREFILL, 0);
    peers->decode = scene_actor(peers->scene, ACTOR_DECODE, 0);
    peers->transfer = scene_actor(peers->scene, ACTOR_TRANSFER, 0);
    peers->supervisor = scene_actor(peers->scene, ACTOR_SUPERVISOR, 0);
    for (uint32_t i = 0; i < peers->scene->roster.count; i++)
        peers->lives[i] = 1;
    for (uint32_t i = 0; i < peers->tp; i++)
        join(peers, i);
    if (peers->decodes)
        announce_pools(peers);
    peers_run(peers);
}

void peers_open(peers_t *peers, const actor_type_t *type, actor_kind_t kind)
{
    open_in(peers, type, kind, false);
}

void peers_open_large(peers_t *peers, const actor_type_t *type, actor_kind_t kind)
{
    open_in(peers, type, kind, true);
}

void peers_expect_closed(const peers_t *peers)
{
    assert_int_equal(peers->slots_open, 0);
}

void peers_close(peers_t *peers)
{
    scene_close(peers->scene);
}

void peers_request(peers_t *peers, uint64_t request, uint32_t prompt_tokens, uint32_t answer_tokens,
                   const uint32_t *forced, uint32_t forced_count, bool alone)
{
    static uint32_t prompt[PROMPT_TOKENS_MAX];
    message_submit_t submit = {.request = request, .attempt = 1, .decode = peers->decode};
    message_reserve_t reserve = {.request = request, .attempt = 1, .gateway = peers->gateway};
    const record_seniority_t seniority = {1000 + request, peers->gateway, request};
    record_limits_t limits = {.output_tokens_max = answer_tokens};

    for (uint32_t i = 0; i < prompt_tokens; i++)
        prompt[i] = VOCABULARY_MAX - 50 + i % 50; /* in their longest form */
    submit.seniority = reserve.seniority = seniority;
    submit.transfer = reserve.transfer = peers->transfer;
    submit.alone = reserve.alone = alone;
    submit.sampling = reserve.sampling = peers->sampling;
    submit.limits = reserve.limits = limits;
    submit.forced = reserve.forced = (u32s_view_t){forced, forced_count};
    submit.prompt = (u32s_view_t){prompt, prompt_tokens};
    reserve.prompt_tokens = prompt_tokens;
    if (peers->sampling.repetition_penalty > 1)
        reserve.penalty_prompt = submit.prompt;
    if (peers->decodes)
        send(peers, peers->prefill, MESSAGE_reserve, &reserve);
    else
        send(peers, peers->gateway, MESSAGE_submit, &submit);
}

void peers_abort(peers_t *peers, uint64_t request)
{
    message_abort_t abort = {request, 1, END_ABORTED};

    send(peers, peers->decodes ? peers->prefill : peers->gateway, MESSAGE_abort, &abort);
}

void peers_drain(peers_t *peers, bool on, uint32_t grace_ms)
{
    message_draining_t draining = {on, grace_ms};

    send(peers, peers->supervisor, MESSAGE_draining, &draining);
}

void peers_expect_state(peers_t *peers, const char *name)
{
    const scene_t *scene = peers->scene;

    assert_string_equal(scene->type->table.state_names[scene->type->state(scene->dispatch.self)],
                        name);
}

void peers_kill(peers_t *peers, actor_id_t actor)
{
    incarnation_t life = peers->lives[actor];

    peers->lives[actor] = 0;
    unqueue(peers, actor, false, 0);
    for (uint64_t i = 0; i < 64 && actor == peers->decode && !peers->decodes; i++) {
        if (!(peers->transfer_open & bit_of(i)))
            continue; /* else the transfer fences what its target's death has ended */
        unqueue(peers, peers->transfer, false, i);
        queue(peers, peers->transfer, MESSAGE_fenced, i, 0);
    }
    scene_exited(peers->scene, actor, life);
    peers_listen(peers);
}

void peers_revive(peers_t *peers)
{
    for (uint32_t i = 0; i < peers->tp; i++) {
        actor_id_t rank = rank_of(peers, i);

        if (peers->lives[rank] != 0)
            continue;
        peers->lives[rank] = 2;
        capture_up_set(peers->scene->capture, rank, true);
        join(peers, i);
    }
}

void peers_outlive_drain(peers_t *peers)
{
    peers_drain(peers, true, 1000);
    scene_tick(peers->scene, 999);
    peers_listen(peers);
    assert_int_equal(peers->ends, 0);
    scene_tick(peers->scene, 1000);
    peers_listen(peers);
    assert_int_equal(peers->end.reason, END_LOST);
    assert_int_equal(peers->end.suspect, 0);
}

bool peers_suffer(peers_t *peers, peers_fault_t fault, uint32_t at)
{
    const actor_id_t victims[PEERS_FAULTS] = {
        [PEERS_KILL_OTHER] = peers->decodes ? peers->prefill : peers->decode,
        [PEERS_KILL_GATEWAY] = peers->gateway,
        [PEERS_KILL_TRANSFER] = peers->transfer,
        [PEERS_KILL_RANK] = rank_of(peers, 1),
    };
    bool over = false;

    for (uint32_t i = 0; i < at && !over; i++)
        over = !peers_next(peers);
    if (victims[fault])
        peers_kill(peers, victims[fault]);
    if (fault == PEERS_ABORT || (fault == PEERS_KILL_GATEWAY && peers->decodes))
        peers_abort(peers, PEERS_REQUEST); /* prefill sees a gateway's end too */
    if (fault == PEERS_DRAIN)
        peers_drain(peers, true, 0);
    peers_run(peers);
    if (fault == PEERS_KILL_RANK)
        peers_revive(peers);
    peers_run(peers);
    assert_true(peers->ends <= 1);
    assert_true(peers->fences <= 1);
    return !over;
}
