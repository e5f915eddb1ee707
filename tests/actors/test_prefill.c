/* The prefill leader alone: what it does in order, and that nothing is left behind whatever goes
 * wrong between any two messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "actors/prefill/prefill.h"
#include "tests/actors/peers.h"

static int setup(void **state)
{
    static peers_t peers;

    peers_open(&peers, &prefill_type, ACTOR_PREFILL);
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

static void request(peers_t *peers, uint64_t number, uint32_t prompt_tokens, uint32_t answer_tokens)
{
    peers_request(peers, number, prompt_tokens, answer_tokens, NULL, 0, false);
}

static void test_every_pair_is_decided(void **state)
{
    (void)state;
    assert_int_equal(actor_type_check(&prefill_type, &message_table, stderr), 0);
}

static void test_a_prompt_is_run_published_and_handed_over(void **state)
{
    peers_t *peers = *state;

    request(peers, PEERS_REQUEST, PEERS_PROMPT, 5);
    peers_run(peers);
    assert_int_equal(peers->tokens, 1);
    assert_int_equal(peers->last_token, PEERS_TOKEN + PEERS_PROMPT);
    assert_int_equal(peers->ends, 0); /* END is decode's now */
    assert_int_equal(peers->fences, 1);
    assert_int_equal(counts(peers)->handed, 1);
    assert_int_equal(peers->aborts, 0);
    expect_all_free(peers);
}

/* Decode's tokens come by another stream and must not overtake the first one. */
static void test_decode_gets_the_last_piece_when_the_gateway_has_the_first_token(void **state)
{
    peers_t *peers = *state;

    request(peers, PEERS_REQUEST, PEERS_PROMPT, 5);
    while (peers->tokens == 0)
        assert_true(peers_next(peers));
    capture_may_send_set(peers->scene->capture, peers->gateway, MESSAGE_tokens, false);
    peers_run(peers);
    assert_int_equal(counts(peers)->handed, 0);
    capture_may_send_set(peers->scene->capture, peers->gateway, MESSAGE_tokens, true);
    scene_tick(peers->scene, 50);
    peers_listen(peers);
    peers_run(peers);
    assert_int_equal(counts(peers)->handed, 1);
    expect_all_free(peers);
}

static void test_one_step_opens_runs_and_closes_a_short_prompt(void **state)
{
    peers_t *peers = *state;
    const message_step_t *step = &peers->steps[1];

    request(peers, PEERS_REQUEST, PEERS_PROMPT, 5);
    peers_run(peers);
    assert_int_equal(peers->step_count, 1);
    assert_int_equal(step->items.count, 3);
    assert_int_equal(step->items.data[0].kind, DEVICE_OPEN);
    assert_int_equal(step->items.data[0].position, 0);
    assert_int_equal(step->items.data[1].kind, DEVICE_RUN);
    assert_int_equal(step->items.data[1].count, PEERS_PROMPT);
    assert_int_equal(step->items.data[1].sample + step->items.data[1].tail, 2);
    assert_int_equal(step->items.data[1].border_pages.count, 1);
    assert_int_equal(step->items.data[1].border_pages.data[0], 0);
    assert_int_equal(step->items.data[2].kind, DEVICE_CLOSE);
}

/* T17 of docs/bugs.md. */
/* The greatest STEP that any request brings about is encoded, and a rank decodes it. */
static void test_no_parameters_at_any_length_are_more_than_a_step_holds(void **state)
{
    static const uint32_t lengths[] = {1, PROMPT_TOKENS_MAX / 2, PROMPT_TOKENS_MAX - 1};
    static uint32_t bias_tokens[LOGIT_BIAS_MAX];
    static float bias_values[LOGIT_BIAS_MAX];
    static peers_t peers;

    (void)state;
    peers_open_large(&peers, &prefill_type, ACTOR_PREFILL);
    peers.sampling.repetition_penalty = 10;
    peers.sampling.logprobs = LOGPROBS_MAX + 1;
    peers.sampling.bias_tokens = (u32s_view_t){bias_tokens, LOGIT_BIAS_MAX};
    peers.sampling.bias_values = (f32s_view_t){bias_values, LOGIT_BIAS_MAX};
    for (uint64_t i = 0; i < 2 * COUNT_OF(lengths); i++) { /* the second time it is cached */
        request(&peers, 1 + i, lengths[i % COUNT_OF(lengths)], 1);
        peers_run(&peers);
        assert_int_equal(peers.ends, 1 + i);
        assert_int_equal(peers.end.reason, END_LENGTH);
        assert_int_equal(peers.tokens, 1 + i);
        assert_int_equal(peers.history, lengths[i % COUNT_OF(lengths)]);
    }
    assert_true(counts(&peers)->cached_tokens > PROMPT_TOKENS_MAX);
    assert_int_equal(counts(&peers)->reforms, 0);
    expect_all_free(&peers);
    peers_close(&peers);
}

static void test_a_long_prompt_goes_in_chunks_that_others_share(void **state)
{
    peers_t *peers = *state;

    request(peers, 1, 1300, 5); /* chunks of 512 rows: 512, 512, 276 */
    request(peers, 2, 100, 5);
    peers_run(peers);
    assert_int_equal(peers->step_count, 3);
    assert_int_equal(peers->runs_in_step_max, 2); /* the second fits beside the last chunk */
    assert_int_equal(counts(peers)->handed, 2);
    expect_all_free(peers);
}

static void test_the_same_prompt_again_starts_from_its_border(void **state)
{
    peers_t *peers = *state;
    const message_step_t *step;

    request(peers, 1, PEERS_PROMPT, 5);
    peers_run(peers);
    request(peers, 2, PEERS_PROMPT, 5);
    peers_run(peers);
    step = &peers->steps[2];
    assert_int_equal(counts(peers)->cached_tokens, 256);
    assert_int_equal(step->items.data[1].kind, DEVICE_LOAD);
    assert_int_equal(step->items.data[1].position, 256);
    assert_int_equal(step->items.data[2].position, 256);
    assert_int_equal(step->items.data[2].count, PEERS_PROMPT - 256);
    assert_int_equal(step->items.data[0].pages.data[0],
                     peers->steps[1].items.data[0].pages.data[0]);
    expect_all_free(peers);
}

static void test_a_first_token_that_is_the_last_ends_here_and_aborts_decode(void **state)
{
    peers_t *peers = *state;

    request(peers, PEERS_REQUEST, PEERS_PROMPT, 1);
    peers_run(peers);
    assert_int_equal(peers->ends, 1);
    assert_int_equal(peers->end.reason, END_LENGTH);
    assert_int_equal(peers->end.token_count, 1);
    assert_int_equal(peers->tokens, 1);
    assert_int_equal(peers->aborts, 1);
    assert_int_equal(peers->fences, 1);
    expect_all_free(peers);
}

static void test_a_replay_publishes_nothing_and_must_not_differ(void **state)
{
    peers_t *peers = *state;
    const uint32_t same[2] = {PEERS_TOKEN + PEERS_PROMPT, 8};
    const uint32_t other[1] = {8};

    peers_request(peers, 1, PEERS_PROMPT, 5, same, 2, false);
    peers_run(peers);
    assert_int_equal(peers->tokens, 0);
    assert_int_equal(counts(peers)->handed, 1);
    peers_request(peers, 2, PEERS_PROMPT, 5, other, 1, false);
    peers_run(peers);
    assert_int_equal(peers->end.reason, END_REFUSED);
    assert_int_equal(counts(peers)->differing, 1);
    expect_all_free(peers);
}

static void test_busy_gives_the_pages_back_until_room(void **state)
{
    peers_t *peers = *state;
    message_room_t room = {0};

    peers->busy_once = true;
    request(peers, PEERS_REQUEST, PEERS_PROMPT, 5);
    peers_run(peers);
    assert_int_equal(counts(peers)->pages_held, 0);
    assert_int_equal(counts(peers)->live, 1);
    assert_int_equal(peers->step_count, 0);
    scene_send(peers->scene, peers->decode, MESSAGE_room, &room);
    peers_listen(peers);
    peers_run(peers);
    assert_int_equal(counts(peers)->handed, 1);
    expect_all_free(peers);
}

/* Decode did not know that gateway, and never will. */
static void test_who_waits_for_room_and_goes_holds_up_nobody(void **state)
{
    peers_t *peers = *state;

    peers->busy_once = true;
    request(peers, 1, PEERS_PROMPT, 5);
    peers_run(peers);
    peers_kill(peers, peers->gateway);
    assert_int_equal(counts(peers)->live, 0);
    peers->lives[peers->gateway] = 2;
    capture_up_set(peers->scene->capture, peers->gateway, true);
    request(peers, 2, PEERS_PROMPT, 5);
    peers_run(peers);
    assert_int_equal(counts(peers)->handed, 1);
    expect_all_free(peers);
}

/* 63 pages: four prompts of 15 pages fit, the fifth waits and holds up the sixth.
 * T18 of docs/bugs.md. */
static void test_pages_are_leased_all_or_none_oldest_first(void **state)
{
    peers_t *peers = *state;

    for (uint64_t i = 1; i <= 5; i++)
        request(peers, i, 3800, 5);
    request(peers, 6, 100, 5);
    assert_int_equal(counts(peers)->pages_held, 4 * 15);
    peers_run(peers);
    assert_int_equal(counts(peers)->handed, 6);
    expect_all_free(peers);
}

/* R1 of docs/bugs.md. */
static void test_what_can_never_fit_is_refused_at_once(void **state)
{
    peers_t *peers = *state;

    request(peers, PEERS_REQUEST, 4000, 100);
    assert_int_equal(peers->end.reason, END_REFUSED);
    assert_int_equal(peers->fences, 1);
    expect_all_free(peers);
}

static void test_a_reform_forgets_the_index_and_keeps_the_queue(void **state)
{
    peers_t *peers = *state;

    request(peers, 1, PEERS_PROMPT, 5);
    peers_run(peers);
    peers->busy_once = true;
    request(peers, 2, PEERS_PROMPT, 5);
    peers_run(peers); /* it waits for ROOM */
    peers_kill(peers, peers->scene->id + 1);
    assert_int_equal(counts(peers)->live, 1);
    assert_int_equal(peers->ends, 0);
    peers_revive(peers);
    peers_run(peers);
    scene_send(peers->scene, peers->decode, MESSAGE_room, &(message_room_t){0});
    peers_listen(peers);
    peers_run(peers);
    assert_int_equal(counts(peers)->handed, 2);
    /* first found in the cache, BUSY, then not found: nothing of the old epoch is used */
    assert_int_equal(peers->steps[1].items.data[1].kind, DEVICE_RUN);
    assert_int_equal(peers->steps[1].items.data[1].position, 0);
    expect_all_free(peers);
}

static void test_a_rank_whose_pool_cannot_be_read_is_ended_once(void **state)
{
    peers_t *peers = *state;
    message_pair_t pair = {.source_epoch = peers->epoch,
                           .target_epoch = 1,
                           .state = PAIR_REFUSED,
                           .reason = {"why", 3},
                           .rank = 1,
                           .incarnation = 1};
    const message_kill_t *kill;

    scene_send(peers->scene, peers->decode, MESSAGE_pair, &pair);
    kill = scene_take(peers->scene, peers->supervisor, MESSAGE_kill);
    assert_int_equal(kill->actor, peers->scene->id + 2);
    assert_int_equal(kill->incarnation, 1);
    assert_memory_equal(kill->reason.data, "why", 3);
    scene_send(peers->scene, peers->decode, MESSAGE_pair, &pair);
    pair.rank = 0;
    pair.incarnation = 2; /* that one was another life */
    scene_send(peers->scene, peers->decode, MESSAGE_pair, &pair);
    pair.rank = UINT32_MAX; /* nobody */
    scene_send(peers->scene, peers->decode, MESSAGE_pair, &pair);
    scene_expect_nothing(peers->scene);
    request(peers, 1, PEERS_PROMPT, 5);
    peers_kill(peers, peers->scene->id + 2);
    peers_revive(peers);
    peers_run(peers);
    assert_int_equal(counts(peers)->handed, 1);
    expect_all_free(peers);
}

static void test_ranks_that_differ_publish_nothing(void **state)
{
    peers_t *peers = *state;

    peers->differs = true;
    request(peers, PEERS_REQUEST, PEERS_PROMPT, 5);
    peers_run(peers);
    assert_int_equal(peers->tokens, 0);
    assert_int_equal(peers->end.reason, END_LOST);
    assert_int_equal(peers->end.suspect, 1);
    assert_int_equal(counts(peers)->reforms, 1);
    expect_all_free(peers);
}

static void test_suspects_run_alone(void **state)
{
    peers_t *peers = *state;

    peers_request(peers, 1, 100, 5, NULL, 0, true);
    request(peers, 2, 100, 5);
    request(peers, 3, 100, 5);
    peers_run(peers);
    assert_int_equal(counts(peers)->handed, 3);
    for (uint32_t i = 0; i < STEPS_IN_FLIGHT_MAX; i++) {
        const message_step_t *step = &peers->steps[i];
        bool alone = false, others = false;

        for (uint32_t k = 0; k < step->items.count; k++) {
            alone = alone || step->items.data[k].request == 1;
            others = others || step->items.data[k].request != 1;
        }
        assert_false(alone && others);
    }
    expect_all_free(peers);
}

/* A full chunk is all that is in flight: who comes behind aborted prompts waits for no other one. */
static void test_behind_aborted_prompts_one_waits_for_one_chunk(void **state)
{
    peers_t *peers = *state;
    const message_step_t *step;

    for (uint64_t i = 1; i <= 6; i++)
        request(peers, i, 1300, 5);
    while (peers->step_count == 0)
        assert_true(peers_next(peers));
    assert_int_equal(peers->step_count, 1);
    for (uint64_t i = 1; i <= 6; i++)
        peers_abort(peers, i);
    assert_int_equal(peers->step_count, 2);
    assert_int_equal(peers->steps[2].items.data[0].kind, DEVICE_CLOSE);
    request(peers, 7, 100, 5);
    while (peers->step_count == 2)
        assert_true(peers_next(peers));
    step = &peers->steps[3];
    assert_int_equal(step->items.data[0].request, 7);
    assert_int_equal(step->items.data[1].kind, DEVICE_RUN);
    peers_run(peers);
    assert_int_equal(counts(peers)->handed, 1);
    expect_all_free(peers);
}

static void test_a_group_that_drains_ends_what_it_runs_and_gives_away_what_waits(void **state)
{
    peers_t *peers = *state;

    for (uint64_t i = 1; i <= 9; i++) /* there are eight slots */
        request(peers, i, PEERS_PROMPT, 5);
    peers_drain(peers, true, 1000);
    assert_int_equal(peers->ends, 1);
    assert_int_equal(peers->end.request, 9);
    assert_int_equal(peers->end.reason, END_LOST);
    request(peers, 10, PEERS_PROMPT, 5); /* it was routed before */
    assert_int_equal(peers->end.request, 10);
    assert_int_equal(peers->end.reason, END_LOST);
    peers_expect_state(peers, "draining");
    peers_run(peers);
    assert_int_equal(counts(peers)->handed, 8);
    peers_expect_state(peers, "drained");
    peers_drain(peers, false, 0);
    request(peers, 11, PEERS_PROMPT, 5);
    peers_run(peers);
    assert_int_equal(counts(peers)->handed, 9);
    expect_all_free(peers);
}

/* It may never form again, and takes nothing if it does. */
static void test_what_waits_for_a_decode_group_that_leaves_goes_elsewhere(void **state)
{
    peers_t *peers = *state;
    message_pair_t pair = {.target_epoch = 2, .state = PAIR_UNTESTED};

    scene_send(peers->scene, peers->decode, MESSAGE_pair, &pair);
    request(peers, 1, PEERS_PROMPT, 5);
    peers_run(peers);
    assert_int_equal(peers->ends, 0);
    pair.state = PAIR_LEAVING;
    scene_send(peers->scene, peers->decode, MESSAGE_pair, &pair);
    peers_listen(peers);
    assert_int_equal(peers->ends, 1);
    assert_int_equal(peers->end.reason, END_LOST);
    request(peers, 2, PEERS_PROMPT, 5); /* it crossed the scheduler's news */
    assert_int_equal(peers->ends, 2);
    assert_int_equal(peers->end.reason, END_LOST);
    assert_int_equal(peers->fences, 2);
    expect_all_free(peers);
    pair.state = PAIR_OK;
    pair.source_epoch = peers->epoch;
    scene_send(peers->scene, peers->decode, MESSAGE_pair, &pair);
    request(peers, 3, PEERS_PROMPT, 5);
    peers_run(peers);
    assert_int_equal(counts(peers)->handed, 1);
    expect_all_free(peers);
}

static void test_what_outlives_its_time_goes_elsewhere(void **state)
{
    peers_t *peers = *state;

    request(peers, PEERS_REQUEST, 1300, 5);
    while (peers->step_count == 0)
        assert_true(peers_next(peers));
    peers_outlive_drain(peers);
    assert_int_equal(peers->aborts, 1); /* decode has opened it */
    peers_run(peers);
    peers_expect_state(peers, "drained");
    expect_all_free(peers);
}

/* ---- whatever goes wrong, at any instant ------------------------------------------------------ */

/* False when the attempt was over before the fault came. Two chunks, so that pieces overlap. */
static bool run_with_fault(peers_fault_t fault, uint32_t at)
{
    static peers_t peers;
    bool fell;

    peers_open(&peers, &prefill_type, ACTOR_PREFILL);
    request(&peers, PEERS_REQUEST, 800, 4);
    fell = peers_suffer(&peers, fault, at);
    expect_all_free(&peers);
    if (fault != PEERS_KILL_GATEWAY) {
        assert_true(peers.ends + counts(&peers)->handed >= 1);
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
        ALONE(test_a_prompt_is_run_published_and_handed_over),
        ALONE(test_decode_gets_the_last_piece_when_the_gateway_has_the_first_token),
        ALONE(test_one_step_opens_runs_and_closes_a_short_prompt),
        ALONE(test_a_long_prompt_goes_in_chunks_that_others_share),
        ALONE(test_the_same_prompt_again_starts_from_its_border),
        ALONE(test_a_first_token_that_is_the_last_ends_here_and_aborts_decode),
        ALONE(test_a_replay_publishes_nothing_and_must_not_differ),
        ALONE(test_busy_gives_the_pages_back_until_room),
        ALONE(test_who_waits_for_room_and_goes_holds_up_nobody),
        ALONE(test_pages_are_leased_all_or_none_oldest_first),
        ALONE(test_what_can_never_fit_is_refused_at_once),
        ALONE(test_a_reform_forgets_the_index_and_keeps_the_queue),
        ALONE(test_a_rank_whose_pool_cannot_be_read_is_ended_once),
        ALONE(test_ranks_that_differ_publish_nothing),
        ALONE(test_suspects_run_alone),
        ALONE(test_behind_aborted_prompts_one_waits_for_one_chunk),
        ALONE(test_a_group_that_drains_ends_what_it_runs_and_gives_away_what_waits),
        ALONE(test_what_waits_for_a_decode_group_that_leaves_goes_elsewhere),
        ALONE(test_what_outlives_its_time_goes_elsewhere),
        cmocka_unit_test(test_everything_comes_back_whatever_fault_falls_at_any_instant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
