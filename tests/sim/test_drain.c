/* Groups that leave when an operator says so, and come back; deadlines. Each ends with every answer right,
 * every lease back, every attempt ended once and fenced once (world_finish). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/sim/stage.h"

enum { READY_US = 150000, SECOND_US = 1000000 };

/* `count` equal requests at once. */
static world_t *open_many(topology_t *topology, uint32_t count, uint32_t prompt_tokens,
                          uint32_t shared_tokens, uint32_t output_tokens_max)
{
    static world_request_t requests[WORLD_CLIENTS_MAX];

    for (uint32_t i = 0; i < count; i++)
        requests[i] = (world_request_t){READY_US, prompt_tokens, shared_tokens, output_tokens_max};
    return stage_open(topology, requests, count);
}

/* One is queued, one runs, one has ended before. P9 of docs/bugs.md. */
static void test_deadlines_end_what_waits_and_what_runs(void **state)
{
    static const uint32_t deadlines_ms[] = {100, 400, 30000};
    topology_t *topology = stage_topology("default");
    world_t *world;

    (void)state;
    topology->prefills[0].slots = 1;
    world = open_many(topology, COUNT_OF(deadlines_ms), 1400, 0, 400);
    for (uint32_t i = 0; i < COUNT_OF(deadlines_ms); i++)
        world_client(world, i)->deadline_ms = deadlines_ms[i];
    stage_run_for(world, READY_US);
    world_slow(world, stage_rank(world, ACTOR_PREFILL, 0, 0), 100);
    world_slow(world, stage_rank(world, ACTOR_DECODE, 0, 0), 100);
    stage_run_for(world, SECOND_US);
    assert_int_equal(world_client(world, 0)->end_reason, END_DEADLINE);
    assert_int_equal(world_client(world, 1)->end_reason, END_DEADLINE);
    assert_false(world_client(world, 2)->ended);
    assert_int_equal(stage_prefill(world)->live + stage_decode(world)->live, 1);
    stage_finish(world);
}

/* ---- leaving --------------------------------------------------------------------------------- */

enum { DRAIN_MS = 2000, DRAINED_US = 20 * SECOND_US };

static const char two_of_each[] = "lockstep: 1\n"
                                  "model: tiny\n"
                                  "limits: {context_tokens: 8192, drain_timeout: 2s}\n"
                                  "prefill: [{pages: 64, count: 2}]\n"
                                  "decode: [{pages: 64, slots: 8, count: 2}]\n";

static const leader_counts_t *decode_of(world_t *world, uint16_t instance)
{
    actor_id_t leader = stage_actor(world, ACTOR_DECODE, instance);

    return leader_counts(sim_dispatch(world_sim(world), leader)->self);
}

static void expect_state(world_t *world, actor_id_t leader, const char *name)
{
    assert_string_equal(dispatch_state_name(sim_dispatch(world_sim(world), leader)), name);
}

/* It outlives drain_timeout, and goes on elsewhere with the same bits; the group is empty only then. */
static void test_drain_with_an_hour_long_stream(void **state)
{
    static const world_request_t requests[] = {{READY_US, 666, 0, 400},
                                               {READY_US + 3 * SECOND_US, 515, 0, 400}};
    world_t *world = stage_open(stage_topology_text(two_of_each), requests, 2);
    const world_client_t *stream = world_client(world, 0);
    actor_id_t leader;
    uint16_t serving;

    (void)state;
    assert_int_equal(stream->answer_count, 80); /* most of a minute at half a second each */
    stage_run_for(world, READY_US);
    for (uint16_t i = 0; i < 2; i++)
        world_slow(world, stage_rank(world, ACTOR_DECODE, i, 0), 500); /* a step: up to 1 s */
    while (stream->received < 3)
        assert_true(world_step(world));
    serving = decode_of(world, 0)->live ? 0 : 1;
    leader = stage_actor(world, ACTOR_DECODE, serving);
    world_drain(world, leader, DRAINED_US);
    stage_run_to(world, leader, MESSAGE_draining);
    stage_run_for(world, DRAIN_MS * 1000 - 100000);
    assert_int_equal(decode_of(world, serving)->live, 1);
    expect_state(world, leader, "draining");
    stage_run_for(world, 4 * SECOND_US);
    assert_int_equal(decode_of(world, serving)->live, 0);
    assert_int_equal(decode_of(world, serving)->opened, 1); /* the second one went elsewhere */
    expect_state(world, leader, "drained");
    assert_false(stream->ended);
    assert_int_equal(decode_of(world, 1 - serving)->live, 2);
    stage_finish(world);
}

/* What waits at a prefill group that leaves has cost nothing yet, and does not wait for its time. */
static void test_drain_gives_away_what_has_not_begun(void **state)
{
    topology_t *topology = stage_topology_text(two_of_each);
    actor_id_t leader;
    world_t *world;

    (void)state;
    topology->prefills[0].slots = topology->prefills[1].slots = 1;
    world = open_many(topology, 8, 1400, 0, 10);
    leader = stage_actor(world, ACTOR_PREFILL, 0);
    stage_run_for(world, READY_US - 1);
    for (uint16_t i = 0; i < 2; i++)
        world_slow(world, stage_rank(world, ACTOR_PREFILL, i, 0), 500);
    for (uint32_t i = 0; i < 4; i++)
        stage_run_to(world, leader, MESSAGE_submit);
    world_drain(world, leader, DRAINED_US);
    stage_run_to(world, leader, MESSAGE_draining);
    assert_int_equal(stage_prefill(world)->live, 1);
    stage_run_for(world, 4 * SECOND_US);
    expect_state(world, leader, "drained");
    stage_finish(world);
}

/* New requests wait for the only group to come back. */
static void test_drain_of_the_only_group_lets_requests_wait(void **state)
{
    static const world_request_t requests[] = {{READY_US + SECOND_US, 300, 0, 10}};
    world_t *world = stage_open(stage_topology("default"), requests, 1);
    actor_id_t leader = stage_actor(world, ACTOR_DECODE, 0);

    (void)state;
    stage_run_for(world, READY_US);
    world_drain(world, leader, 5 * SECOND_US);
    stage_run_for(world, 4 * SECOND_US);
    expect_state(world, leader, "drained");
    assert_true(world_client(world, 0)->sent);
    assert_int_equal(world_client(world, 0)->received, 0);
    stage_finish(world);
}

/* The wish is its supervisor's: another life of the leader hears of it. */
static void test_a_leader_that_dies_while_it_drains_comes_back_drained(void **state)
{
    world_t *world = open_many(stage_topology_text(two_of_each), 4, 300, 0, 40);
    actor_id_t leader = stage_actor(world, ACTOR_DECODE, 0);

    (void)state;
    stage_run_to(world, leader, MESSAGE_reserve);
    world_drain(world, leader, DRAINED_US);
    stage_run_to(world, leader, MESSAGE_draining);
    world_kill(world, leader);
    stage_run_for(world, SECOND_US);
    assert_int_equal(sim_incarnation(world_sim(world), leader), 2);
    expect_state(world, leader, "drained");
    assert_int_equal(decode_of(world, 0)->opened, 0);
    stage_finish(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_deadlines_end_what_waits_and_what_runs),
        cmocka_unit_test(test_drain_with_an_hour_long_stream),
        cmocka_unit_test(test_drain_gives_away_what_has_not_begun),
        cmocka_unit_test(test_drain_of_the_only_group_lets_requests_wait),
        cmocka_unit_test(test_a_leader_that_dies_while_it_drains_comes_back_drained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
