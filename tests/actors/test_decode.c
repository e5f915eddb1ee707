/* The decode leader alone: what it does in order, and that nothing is left behind whatever goes
 * wrong between any two messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "actors/decode/decode.h"
#include "tests/actors/peers.h"

static int setup(void **state)
{
    static peers_t peers;

    peers_open(&peers, &decode_type, ACTOR_DECODE);
    *state = &peers;
    return 0;
}

static int teardown(void **state)
{
    peers_close(*state);
    return 0;
}

static const leader_counts_t *counts(const peers_t *peers)
{
    return leader_counts(peers->scene->dispatch.self);
}

static void expect_all_free(const peers_t *peers)
{
    assert_int_equal(counts(peers)->live, 0);
    assert_int_equal(counts(peers)->pages_held, 0);
    assert_int_equal(counts(peers)->opened, counts(peers)->ended);
    assert_int_equal(counts(peers)->opened, counts(peers)->fenced);
    peers_expect_closed(peers);
}

static void request(peers_t *peers, uint64_t number, uint32_t answer_tokens)
{
    peers_request(peers, number, PEERS_PROMPT, answer_tokens, NULL, 0, false);
}

static void test_every_pair_is_decided(void **state)
{
    (void)state;
    assert_int_equal(actor_type_check(&decode_type, &message_table, stderr), 0);
}

static void test_an_attempt_runs_to_its_length(void **state)
{
    peers_t *peers = *state;

    request(peers, PEERS_REQUEST, 5);
    peers_run(peers);
    assert_int_equal(peers->ends, 1);
    assert_int_equal(peers->fences, 1);
    assert_int_equal(peers->end.reason, END_LENGTH);
    assert_int_equal(peers->end.token_count, 5);
    assert_int_equal(peers->tokens, 4); /* the first is prefill's */
    assert_int_equal(peers->last_token, PEERS_TOKEN + PEERS_PROMPT + 4);
    expect_all_free(peers);
}

static void test_the_first_step_opens_at_the_prompts_end_with_the_first_token(void **state)
{
    peers_t *peers = *state;
    const message_step_t *step;

    request(peers, PEERS_REQUEST, 5);
    while (peers->step_count == 0)
        assert_true(peers_next(peers));
    step = &peers->steps[1];
    assert_int_equal(step->items.count, 2);
    assert_int_equal(step->items.data[0].kind, DEVICE_OPEN);
    assert_int_equal(step->items.data[0].position, PEERS_PROMPT);
    assert_int_equal(step->items.data[0].pages.count, 2);
    assert_int_equal(step->items.data[1].kind, DEVICE_RUN);
    assert_int_equal(step->items.data[1].tokens.data[0], PEERS_TOKEN + PEERS_PROMPT);
    assert_int_equal(step->items.data[1].sample, 1);
    /* step 2 is sent before step 1 is done, and carries */
    assert_int_equal(peers->step_count, 2);
    assert_int_equal(peers->steps[2].items.data[0].tokens.count, 0);
    peers_run(peers);
}

static void test_forced_tokens_run_without_being_drawn_or_published(void **state)
{
    peers_t *peers = *state;
    const uint32_t forced[3] = {PEERS_TOKEN + PEERS_PROMPT, 55, 56};
    const message_step_t *step = &peers->steps[1];

    peers_request(peers, PEERS_REQUEST, PEERS_PROMPT, 5, forced, 3, false);
    while (peers->step_count == 0)
        assert_true(peers_next(peers));
    assert_int_equal(step->items.data[1].count, 3);
    assert_int_equal(step->items.data[1].tokens.data[2], 56);
    assert_int_equal(step->items.data[1].sample, 1);
    peers_run(peers);
    assert_int_equal(peers->tokens, 2);
    assert_int_equal(peers->end.token_count, 5);
    expect_all_free(peers);
}

/* As in test_prefill.c; here the prompts of all that open compete for one STEP. */
static void test_no_parameters_at_any_length_are_more_than_a_step_holds(void **state)
{
    static const uint32_t lengths[] = {1, PROMPT_TOKENS_MAX / 2, PROMPT_TOKENS_MAX - 2};
    static uint32_t bias_tokens[LOGIT_BIAS_MAX];
    static float bias_values[LOGIT_BIAS_MAX];
    static peers_t peers;

    (void)state;
    peers_open_large(&peers, &decode_type, ACTOR_DECODE);
    peers.sampling.repetition_penalty = 10;
    peers.sampling.logprobs = LOGPROBS_MAX + 1;
    peers.sampling.bias_tokens = (u32s_view_t){bias_tokens, LOGIT_BIAS_MAX};
    peers.sampling.bias_values = (f32s_view_t){bias_values, LOGIT_BIAS_MAX};
    for (uint64_t i = 0; i < 6; i++)
        peers_request(&peers, 1 + i, lengths[i % COUNT_OF(lengths)], 2, NULL, 0, false);
    peers_run(&peers);
    assert_int_equal(peers.ends, 6);
    assert_int_equal(peers.end.reason, END_LENGTH);
    assert_int_equal(peers.tokens, 6);
    assert_int_equal(peers.history, 2 * (1 + PROMPT_TOKENS_MAX / 2 + PROMPT_TOKENS_MAX - 2) + 6);
    assert_int_equal(counts(&peers)->reforms, 0);
    expect_all_free(&peers);
    peers_close(&peers);
}

/* What group_room counts is no less than what an encoded STEP takes. */
static void test_a_step_with_room_fits_its_message(void **state)
{
    static record_step_item_t items[STEP_ITEMS_MAX];
    static uint8_t bytes[MESSAGE_BYTES_MAX];
    static group_t group = {.build_max = {STEP_ITEMS_MAX, UINT32_MAX, UINT32_MAX, 0}};
    group_load_t most = {.longs = 1000, .borrowed = 1000};
    message_step_t step = {.epoch = UINT64_MAX, .seq = UINT64_MAX, .parent = UINT64_MAX};
    uint32_t *words = calloc(1, MESSAGE_BYTES_MAX);
    uint64_t longs[1000] = {0};
    size_t used = 0;

    (void)state;
    assert_non_null(words);
    memset(items, 0xff, sizeof(items));
    for (uint32_t i = 0; i < STEP_ITEMS_MAX; i++) {
        items[i].tokens = items[i].pages = items[i].border_pages = items[i].border_targets =
            items[i].sampling.bias_tokens = (u32s_view_t){words, 0};
        items[i].sampling.bias_values = (f32s_view_t){(const float *)(const void *)words, 0};
        items[i].generations = items[i].border_generations = (u64s_view_t){longs, 0};
    }
    step.items.data = items;
    step.items.count = most.items = STEP_ITEMS_MAX;
    while (group_room(&group, most))
        most.words += 1000;
    most.words -= 1000;
    for (uint32_t i = 0, left = most.words; left > 0; i++) {
        items[i].tokens.count = left < PROMPT_TOKENS_MAX ? left : PROMPT_TOKENS_MAX;
        left -= items[i].tokens.count;
    }
    items[0].generations.count = most.longs;
    items[0].pages.count = most.borrowed;
    assert_int_equal(message_encode(MESSAGE_step, &step, bytes, sizeof(bytes), &used), STATUS_OK);
    assert_true(used > MESSAGE_BYTES_MAX / 100 * 90);
    free(words);
}

static void test_a_replay_that_differs_is_refused(void **state)
{
    peers_t *peers = *state;
    const uint32_t forced[1] = {1};

    peers_request(peers, PEERS_REQUEST, PEERS_PROMPT, 5, forced, 1, false);
    peers_run(peers);
    assert_int_equal(peers->end.reason, END_REFUSED);
    assert_int_equal(counts(peers)->differing, 1);
    expect_all_free(peers);
}

static void test_a_failed_hand_over_is_lost(void **state)
{
    peers_t *peers = *state;

    peers->fails = true;
    request(peers, PEERS_REQUEST, 5);
    peers_run(peers);
    assert_int_equal(peers->end.reason, END_LOST);
    assert_int_equal(peers->ends + peers->fences, 2);
    expect_all_free(peers);
}

/* P32 of docs/bugs.md. */
static void test_what_can_never_fit_is_refused_at_once(void **state)
{
    peers_t *peers = *state;

    peers_request(peers, PEERS_REQUEST, 4000, 100, NULL, 0, false);
    assert_int_equal(peers->end.reason, END_REFUSED);
    assert_int_equal(peers->fences, 1);
    expect_all_free(peers);
}

/* R8 of docs/bugs.md. */
static void test_the_ninth_is_busy_and_gets_room_when_one_has_ended(void **state)
{
    peers_t *peers = *state;
    const actor_id_t prefill = peers->prefill;

    for (uint64_t i = 1; i <= 8; i++)
        request(peers, i, 5);
    {
        message_reserve_t reserve = {.request = 20, .attempt = 1, .gateway = peers->gateway};

        reserve.transfer = peers->transfer;
        reserve.prompt_tokens = 10;
        reserve.limits.output_tokens_max = 2;
        scene_send(peers->scene, prefill, MESSAGE_reserve, &reserve);
        scene_take(peers->scene, prefill, MESSAGE_busy);
    }
    assert_int_equal(peers->rooms, 0);
    peers_run(peers);
    assert_int_equal(peers->rooms, 1);
    expect_all_free(peers);
}

/* END and FENCED to a gateway whose stream is not up would be let fall, and nobody would say them
 * again. */
static void test_an_attempt_of_a_gateway_not_known_here_is_busy_until_it_joins(void **state)
{
    peers_t *peers = *state;
    message_reserve_t reserve = {.request = 20, .attempt = 1, .gateway = peers->gateway};
    message_joined_t joined = {peers->gateway, 1};

    reserve.transfer = peers->transfer;
    reserve.prompt_tokens = 10;
    reserve.limits.output_tokens_max = 2;
    capture_up_set(peers->scene->capture, peers->gateway, false);
    scene_send(peers->scene, peers->prefill, MESSAGE_reserve, &reserve);
    scene_take(peers->scene, peers->prefill, MESSAGE_busy);
    assert_int_equal(counts(peers)->opened, 0);
    capture_up_set(peers->scene->capture, peers->gateway, true);
    scene_send(peers->scene, PORT_RUNTIME, MESSAGE_joined, &joined);
    scene_take(peers->scene, peers->prefill, MESSAGE_room);
    expect_all_free(peers);
}

/* Each of the four needs one page more than it has, and three are left. P28 of docs/bugs.md. */
static void test_the_youngest_loses_when_pages_run_out(void **state)
{
    peers_t *peers = *state;

    for (uint64_t i = 1; i <= 4; i++)
        peers_request(peers, i, 3839, 200, NULL, 0, false);
    peers_run(peers);
    assert_int_equal(counts(peers)->retracted, 1);
    assert_int_equal(peers->ends, 4);
    assert_int_equal(peers->fences, 4);
    expect_all_free(peers);
}

/* The others have taken all pages when the suspect wants one. Who gives its own back for it still
 * has a CLOSE due, which goes in a step of the others, and the suspect has the turn. */
static void test_a_suspect_without_pages_gives_its_turn_away(void **state)
{
    peers_t *peers = *state;

    for (uint64_t i = 1; i <= 4; i++)
        peers_request(peers, i, i == 1 ? 3830 : 3839, 200, NULL, 0, i == 1);
    peers_run(peers);
    assert_int_equal(counts(peers)->retracted, 1);
    assert_int_equal(peers->ends, 4);
    expect_all_free(peers);
}

/* T2 of docs/bugs.md. */
static void test_ranks_that_differ_reform_and_the_attempt_is_a_suspect(void **state)
{
    peers_t *peers = *state;
    uint64_t epoch = peers->epoch;
    const char *said;

    request(peers, PEERS_REQUEST, 5);
    peers->differs = true;
    scene_log_start();
    peers_run(peers);
    said = scene_log_end();
    assert_int_equal(peers->epoch, epoch + 1);
    assert_int_equal(peers->tokens, 0); /* nothing of that step was published */
    assert_int_equal(peers->incidents, 1);
    /* T14: who, where, and both digests, in one line. The first step opens the slot, then runs. */
    assert_non_null(strstr(said, "GROUP-DIVERGED rank=1 "));
    assert_non_null(strstr(said, " step=1 item=1 request=0000000000000009 attempt=1 slot="));
    assert_non_null(strstr(said, " of=2 found="));
    assert_non_null(strstr(said, " call=12 against rank=0 expected="));
    assert_int_equal(peers->end.reason, END_LOST);
    assert_int_equal(peers->end.suspect, 1);
    assert_int_equal(peers->end.charge, 0);
    expect_all_free(peers);
}

/* Two results may agree in the first word of their digests. */
static void test_ranks_that_differ_in_the_second_sum_only_differ(void **state)
{
    peers_t *peers = *state;

    peers->differs_in_second_sum = true;
    request(peers, PEERS_REQUEST, 5);
    peers_run(peers);
    assert_int_equal(counts(peers)->reforms, 1);
    assert_int_equal(peers->tokens, 0);
    assert_int_equal(peers->end.reason, END_LOST);
    assert_int_equal(peers->end.suspect, 1);
    expect_all_free(peers);
}

/* A rank that came again speaks for itself only: what its last life said of this epoch is not its. */
static void test_an_answer_of_a_ranks_old_life_is_let_fall(void **state)
{
    peers_t *peers = *state;
    const actor_id_t rank = (actor_id_t)(peers->scene->id + 2);
    message_quiesced_t quiesced = {0};
    message_step_done_t done = {.seq = 1};

    peers_kill(peers, rank);
    peers_run(peers);
    peers->silent = true;
    peers_revive(peers);
    quiesced.epoch = peers->epoch;
    scene_send_as(peers->scene, peers->scene->id + 1, 1, MESSAGE_quiesced, &quiesced);
    scene_send_as(peers->scene, rank, 1, MESSAGE_quiesced, &quiesced);
    peers_expect_state(peers, "forming");
    scene_send_as(peers->scene, rank, 2, MESSAGE_quiesced, &quiesced);
    peers_expect_state(peers, "ready");
    peers_listen(peers);
    peers->silent = false;
    peers_run(peers); /* pools are mapped again */
    peers->silent = true;
    request(peers, PEERS_REQUEST, 5);
    peers_run(peers);
    assert_true(peers->step_count > 0);
    done.epoch = peers->epoch;
    done.status = STATUS_BROKEN;
    scene_send_as(peers->scene, rank, 1, MESSAGE_step_done, &done);
    peers_listen(peers);
    assert_int_equal(counts(peers)->reforms, 1); /* the one of its death */
    assert_int_equal(done.epoch, peers->epoch);
}

static void test_suspects_run_in_steps_of_their_own_and_only_they_are_charged(void **state)
{
    peers_t *peers = *state;

    peers_request(peers, 1, PEERS_PROMPT, 6, NULL, 0, true);
    request(peers, 2, 6);
    peers_run(peers);
    assert_int_equal(peers->runs_in_step_max, 1);
    assert_int_equal(peers->ends, 2);
    expect_all_free(peers);
    peers_request(peers, 3, PEERS_PROMPT, 6, NULL, 0, true);
    peers->differs = true;
    peers_run(peers);
    assert_int_equal(peers->end.charge, 1);
    expect_all_free(peers);
}

/* What `lockstep ps` shows: the message that is missing, of what, and of which ranks. */
static void expect_waits(const peers_t *peers, uint16_t message, uint64_t number, uint64_t whom)
{
    actor_wait_t waits[ACTOR_WAITS_MAX] = {0};
    uint32_t count = decode_type.waits(peers->scene->dispatch.self, waits);

    assert_int_equal(count, whom ? 1 : 0);
    if (count == 0)
        return;
    assert_int_equal(waits[0].message, message);
    assert_int_equal(waits[0].number, number);
    assert_int_equal(waits[0].first, peers->scene->id + 1);
    assert_int_equal(waits[0].whom, whom);
}

static void test_a_step_that_is_not_done_reforms_and_who_does_not_quiesce_is_killed(void **state)
{
    peers_t *peers = *state;
    const uint64_t epoch = peers->epoch, stall_ms = peers->scene->topology.stall_timeout_ms;
    const char *said;

    expect_waits(peers, 0, 0, 0);
    request(peers, PEERS_REQUEST, 5);
    peers->silent = true;
    peers_run(peers);
    expect_waits(peers, MESSAGE_step_done, 1, 3);
    scene_tick(peers->scene, stall_ms);
    peers_listen(peers);
    assert_int_equal(peers->epoch, epoch);
    scene_log_start();
    scene_tick(peers->scene, stall_ms + 1);
    said = scene_log_end();
    peers_listen(peers);
    assert_int_equal(peers->epoch, epoch + 1);
    /* T10: the deadline names who is missing */
    assert_non_null(strstr(said, "GROUP-STALLED epoch="));
    assert_non_null(strstr(said, " step=1 after_ms=60000 answered=0 missing=3"));
    assert_int_equal(peers->end.reason, END_LOST);
    assert_int_equal(peers->fences, 0); /* a rank may still be in it */
    expect_waits(peers, MESSAGE_quiesced, 2, 3);
    scene_tick(peers->scene, stall_ms + 2 + GROUP_QUIESCE_MS);
    peers_listen(peers);
    assert_int_equal(peers->kills, 2);
    peers->silent = false;
    peers_kill(peers, peers->scene->id + 1);
    assert_int_equal(peers->fences, 0);
    peers_kill(peers, peers->scene->id + 2);
    assert_int_equal(peers->fences, 1);
    expect_waits(peers, MESSAGE_rank_join, 4, 3);
    peers_revive(peers);
    peers_run(peers);
    expect_all_free(peers);
}

/* Rank 1 gets the pools of a new epoch, and cannot map its own. */
static void refuse_pool(peers_t *peers, status_t status)
{
    const record_pool_t pools[] = {{.rank = (actor_id_t)(peers->prefill + 1), .incarnation = 3},
                                   {.rank = (actor_id_t)(peers->prefill + 2), .incarnation = 4}};
    const message_pools_t news = {77, {pools, 2}, 1};
    const message_peer_mapped_t mapped = {.rank = pools[1].rank,
                                          .incarnation = pools[1].incarnation,
                                          .status = (uint8_t)status,
                                          .reason = {"why", 3}};

    scene_send(peers->scene, peers->prefill, MESSAGE_pools, &news);
    (void)scene_take(peers->scene, peers->prefill, MESSAGE_pair);
    (void)scene_take(peers->scene, peers->scene->id + 1, MESSAGE_peer_pool);
    (void)scene_take(peers->scene, peers->scene->id + 2, MESSAGE_peer_pool);
    scene_send(peers->scene, peers->scene->id + 2, MESSAGE_peer_mapped, &mapped);
    capture_plan(peers->scene->capture, peers->scene->type, peers->scene->dispatch.self);
}

static void test_a_pool_that_cannot_be_read_is_its_leaders_to_end(void **state)
{
    peers_t *peers = *state;
    const message_pair_t *pair;

    refuse_pool(peers, STATUS_CORRUPT);
    pair = scene_take(peers->scene, peers->prefill, MESSAGE_pair);
    assert_int_equal(pair->state, PAIR_REFUSED);
    assert_int_equal(pair->rank, 1);
    assert_int_equal(pair->incarnation, 4);
    assert_memory_equal(pair->reason.data, "why", 3);
    scene_expect_nothing(peers->scene);
}

static void test_a_rank_that_cannot_map_for_want_of_memory_is_ended(void **state)
{
    peers_t *peers = *state;
    const message_pair_t *pair;
    const message_kill_t *kill;

    refuse_pool(peers, STATUS_NO_MEMORY);
    kill = scene_take(peers->scene, peers->supervisor, MESSAGE_kill);
    assert_int_equal(kill->actor, peers->scene->id + 2);
    assert_int_equal(kill->incarnation, 1);
    pair = scene_take(peers->scene, peers->prefill, MESSAGE_pair);
    assert_int_equal(pair->state, PAIR_REFUSED);
    assert_int_equal(pair->incarnation, 0);
}

static void fail_to_land(peers_t *peers, uint64_t number, uint64_t now_ms)
{
    scene_tick(peers->scene, now_ms);
    request(peers, number, 5);
    peers_run(peers);
    assert_int_equal(peers->end.reason, END_LOST);
}

static void
test_a_pair_through_which_nothing_lands_is_refused_and_both_sides_blamed_in_turn(void **state)
{
    peers_t *peers = *state;
    record_pool_t pools[] = {{.rank = (actor_id_t)(peers->prefill + 1), .incarnation = 1},
                             {.rank = (actor_id_t)(peers->prefill + 2), .incarnation = 2}};
    const message_pools_t news = {5, {pools, 2}, 1};

    peers->fails = true;
    fail_to_land(peers, 1, 0);
    fail_to_land(peers, 2, 1000);
    peers->fails = false; /* one that lands is enough */
    request(peers, 3, 5);
    peers_run(peers);
    peers->fails = true;
    fail_to_land(peers, 4, 1500);
    fail_to_land(peers, 5, 2400);
    assert_int_equal(peers->pair.state, PAIR_OK);
    fail_to_land(peers, 6, 2501);
    assert_int_equal(peers->pair.state, PAIR_REFUSED);
    assert_int_equal(peers->pair.rank, 1);
    assert_int_equal(peers->pair.incarnation, 1);
    assert_int_equal(peers->kills, 0);
    scene_send(peers->scene, peers->prefill, MESSAGE_pools, &news); /* it was not that one */
    peers_run(peers);
    assert_int_equal(peers->pair.state, PAIR_OK);
    fail_to_land(peers, 7, 3000);
    fail_to_land(peers, 8, 4001);
    assert_int_equal(peers->pair.state, PAIR_REFUSED);
    assert_int_equal(peers->pair.incarnation, 0);
    assert_int_equal(peers->kills, 1);
    expect_all_free(peers);
}

static void test_groups_with_other_weights_are_no_pair(void **state)
{
    peers_t *peers = *state;
    record_pool_t pools[] = {{.rank = (actor_id_t)(peers->prefill + 1), .incarnation = 2},
                             {.rank = (actor_id_t)(peers->prefill + 2), .incarnation = 2}};
    const message_pools_t news = {5, {pools, 2}, 8};

    scene_send(peers->scene, peers->prefill, MESSAGE_pools, &news);
    peers_run(peers);
    assert_int_equal(peers->pair.state, PAIR_REFUSED);
    assert_int_equal(peers->pair.incarnation, 0);
    assert_int_equal(peers->kills, 1);
}

static void test_messages_of_an_old_epoch_are_let_fall(void **state)
{
    peers_t *peers = *state;
    message_step_done_t done = {.epoch = peers->epoch - 1, .seq = 1};
    message_quiesced_t quiesced = {.epoch = peers->epoch - 1};

    scene_send(peers->scene, peers->scene->id + 1, MESSAGE_step_done, &done);
    scene_send(peers->scene, peers->scene->id + 1, MESSAGE_quiesced, &quiesced);
    scene_expect_nothing(peers->scene);
    assert_int_equal(counts(peers)->reforms, 0);
}

/* T1 of docs/bugs.md. */
static void test_a_rank_with_other_weights_is_not_taken(void **state)
{
    peers_t *peers = *state;
    actor_id_t rank = peers->scene->id + 2;
    message_rank_join_t m = {.rank = 1, .pages = 64, .borders = 16, .slots = 8};
    const message_rank_joined_t *joined;

    peers_kill(peers, rank);
    capture_up_set(peers->scene->capture, rank, true);
    m.weights_digest = 8;
    scene_send_as(peers->scene, rank, 2, MESSAGE_rank_join, &m);
    joined = scene_take(peers->scene, rank, MESSAGE_rank_joined);
    assert_int_equal(joined->accepted, 0);
    assert_memory_equal(joined->reason.data, "weights digest: the group has 1, the rank 8", 43);
    m.weights_digest = 1;
    m.pages = 63;
    scene_send_as(peers->scene, rank, 2, MESSAGE_rank_join, &m);
    joined = scene_take(peers->scene, rank, MESSAGE_rank_joined);
    assert_int_equal(joined->accepted, 0);
    assert_memory_equal(joined->reason.data, "pages: the group has 64, the rank 63", 36);
}

/* Prefill's group reforms while RUNNING is on its way to it. */
static void test_an_abort_of_a_lost_attempt_that_runs_is_said_as_lost(void **state)
{
    peers_t *peers = *state;
    message_abort_t abort = {PEERS_REQUEST, 1, END_LOST};

    request(peers, PEERS_REQUEST, 9);
    while (peers->tokens == 0)
        assert_true(peers_next(peers));
    scene_send(peers->scene, peers->prefill, MESSAGE_abort, &abort);
    assert_int_equal(
        ((const message_end_t *)scene_take(peers->scene, peers->gateway, MESSAGE_end))->reason,
        END_LOST);
    peers_listen(peers);
    peers_run(peers);
    expect_all_free(peers);
}

/* Two steps are under way; what closes its slot goes right behind them, and nothing runs with it. */
static void test_an_abort_is_free_with_the_last_step_that_runs_it(void **state)
{
    peers_t *peers = *state;
    const message_step_t *close;
    uint64_t steps;

    request(peers, 1, 50);
    request(peers, 2, 50);
    while (peers->tokens < 8)
        assert_true(peers_next(peers));
    steps = peers->step_count;
    peers_abort(peers, 1);
    assert_int_equal(peers->step_count, steps + 1);
    close = &peers->steps[(steps + 1) % STEPS_IN_FLIGHT_MAX];
    assert_int_equal(close->items.count, 1);
    assert_int_equal(close->items.data[0].kind, DEVICE_CLOSE);
    assert_int_equal(close->items.data[0].request, 1);
    while (peers->fences == 0)
        assert_true(peers_next(peers));
    assert_true(peers->step_count <=
                steps + 3); /* those that were sent meanwhile are not waited for */
    peers_run(peers);
    assert_int_equal(peers->ends, 2);
    expect_all_free(peers);
}

static void test_a_group_that_drains_ends_what_it_has_and_takes_no_more(void **state)
{
    peers_t *peers = *state;

    request(peers, 1, 5);
    while (peers->tokens == 0)
        assert_true(peers_next(peers));
    peers_drain(peers, true, 1000);
    peers_expect_state(peers, "draining");
    request(peers, 2, 5); /* it was routed before */
    assert_int_equal(peers->end.request, 2);
    assert_int_equal(peers->end.reason, END_LOST);
    peers_run(peers);
    assert_int_equal(peers->end.request, 1);
    assert_int_equal(peers->end.reason, END_LENGTH);
    peers_expect_state(peers, "drained");
    peers_drain(peers, false, 0);
    peers_expect_state(peers, "ready");
    request(peers, 3, 5);
    peers_run(peers);
    assert_int_equal(peers->end.reason, END_LENGTH);
    expect_all_free(peers);
}

/* Lost, and nobody is suspected: the gateway replays it elsewhere. */
static void test_what_outlives_its_time_goes_elsewhere(void **state)
{
    peers_t *peers = *state;

    request(peers, PEERS_REQUEST, 200);
    while (peers->tokens == 0)
        assert_true(peers_next(peers));
    peers_outlive_drain(peers);
    assert_int_equal(peers->fences, 0); /* steps that name it are under way */
    peers_expect_state(peers, "draining");
    peers_run(peers);
    assert_int_equal(peers->fences, 1);
    peers_expect_state(peers, "drained");
    expect_all_free(peers);
}

/* Who was told to wait for room must not wait for ever. */
static void test_a_group_that_drains_while_it_forms_says_so_to_who_waits_for_it(void **state)
{
    peers_t *peers = *state;

    assert_int_equal(peers->pair.state, PAIR_OK);
    peers_kill(peers, (actor_id_t)(peers->scene->id + 2));
    peers_run(peers);
    assert_int_equal(peers->pair.state, PAIR_UNTESTED);
    peers_drain(peers, true, 1000);
    assert_int_equal(peers->pair.state, PAIR_LEAVING);
    peers_drain(peers, false, 0);
    assert_int_equal(peers->pair.state, PAIR_UNTESTED);
    peers_drain(peers, true, 1000);
    peers_revive(peers);
    peers_run(peers);
    assert_int_equal(peers->pair.state, PAIR_OK); /* whoever asks now is told by RESERVE's answer */
    expect_all_free(peers);
}

static void test_who_waits_for_room_hears_of_the_drain(void **state)
{
    peers_t *peers = *state;

    for (uint64_t i = 1; i <= 9; i++)
        request(peers, i, 5);
    assert_int_equal(peers->rooms, 0);
    peers_drain(peers, true, 1000);
    assert_int_equal(peers->rooms, 1);
    peers_run(peers);
    expect_all_free(peers);
}

/* ---- whatever goes wrong, at any instant ------------------------------------------------------ */

/* False when the attempt was over before the fault came. */
static bool run_with_fault(peers_fault_t fault, uint32_t at)
{
    static peers_t peers;
    bool fell;

    peers_open(&peers, &decode_type, ACTOR_DECODE);
    request(&peers, PEERS_REQUEST, 4);
    fell = peers_suffer(&peers, fault, at);
    expect_all_free(&peers);
    if (fault != PEERS_KILL_OTHER && fault != PEERS_KILL_GATEWAY) {
        assert_int_equal(peers.ends, 1);
        assert_int_equal(peers.fences, 1);
    }
    peers_close(&peers);
    return fell;
}

static void test_everything_comes_back_whatever_fault_falls_at_any_instant(void **state)
{
    (void)state;
    for (int fault = 0; fault < PEERS_FAULTS; fault++) {
        uint32_t at = 0;

        while (run_with_fault((peers_fault_t)fault, at))
            at++;
        assert_true(at > 8);
    }
}

#define ALONE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair_is_decided),
        cmocka_unit_test(test_no_parameters_at_any_length_are_more_than_a_step_holds),
        cmocka_unit_test(test_a_step_with_room_fits_its_message),
        ALONE(test_an_attempt_runs_to_its_length),
        ALONE(test_the_first_step_opens_at_the_prompts_end_with_the_first_token),
        ALONE(test_forced_tokens_run_without_being_drawn_or_published),
        ALONE(test_a_replay_that_differs_is_refused),
        ALONE(test_a_failed_hand_over_is_lost),
        ALONE(test_what_can_never_fit_is_refused_at_once),
        ALONE(test_the_ninth_is_busy_and_gets_room_when_one_has_ended),
        ALONE(test_an_attempt_of_a_gateway_not_known_here_is_busy_until_it_joins),
        ALONE(test_the_youngest_loses_when_pages_run_out),
        ALONE(test_a_suspect_without_pages_gives_its_turn_away),
        ALONE(test_ranks_that_differ_reform_and_the_attempt_is_a_suspect),
        ALONE(test_ranks_that_differ_in_the_second_sum_only_differ),
        ALONE(test_an_answer_of_a_ranks_old_life_is_let_fall),
        ALONE(test_suspects_run_in_steps_of_their_own_and_only_they_are_charged),
        ALONE(test_a_step_that_is_not_done_reforms_and_who_does_not_quiesce_is_killed),
        ALONE(test_a_pool_that_cannot_be_read_is_its_leaders_to_end),
        ALONE(test_a_rank_that_cannot_map_for_want_of_memory_is_ended),
        ALONE(test_a_pair_through_which_nothing_lands_is_refused_and_both_sides_blamed_in_turn),
        ALONE(test_groups_with_other_weights_are_no_pair),
        ALONE(test_messages_of_an_old_epoch_are_let_fall),
        ALONE(test_a_rank_with_other_weights_is_not_taken),
        ALONE(test_an_abort_of_a_lost_attempt_that_runs_is_said_as_lost),
        ALONE(test_an_abort_is_free_with_the_last_step_that_runs_it),
        ALONE(test_a_group_that_drains_ends_what_it_has_and_takes_no_more),
        ALONE(test_what_outlives_its_time_goes_elsewhere),
        ALONE(test_a_group_that_drains_while_it_forms_says_so_to_who_waits_for_it),
        ALONE(test_who_waits_for_room_hears_of_the_drain),
        cmocka_unit_test(test_everything_comes_back_whatever_fault_falls_at_any_instant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
