/* Schedules that were found by walking the protocol by hand, made on purpose. Each ends with every
 * answer right, every lease back, every attempt ended once and fenced once (world_finish). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/sim/stage.h"

enum { READY_US = 150000, SECOND_US = 1000000 };

static world_t *open_one(const char *name, uint32_t prompt_tokens, uint32_t output_tokens_max)
{
    const world_request_t request = {.arrives_us = READY_US,
                                     .prompt_tokens = prompt_tokens,
                                     .output_tokens_max = output_tokens_max};
    topology_t *topology = stage_topology(name);

    topology->prefills[0].chunk_tokens = PAGE_TOKENS;
    return stage_open(topology, &request, 1);
}

/* `count` equal requests at once. */
static world_t *open_many(topology_t *topology, uint32_t count, uint32_t prompt_tokens,
                          uint32_t shared_tokens, uint32_t output_tokens_max)
{
    static world_request_t requests[WORLD_CLIENTS_MAX];

    for (uint32_t i = 0; i < count; i++)
        requests[i] = (world_request_t){READY_US, prompt_tokens, shared_tokens, output_tokens_max};
    return stage_open(topology, requests, count);
}

static actor_id_t transfer(const world_t *world)
{
    return stage_actor(world, TOPOLOGY_TRANSFER, 0);
}

static incarnation_t life(world_t *world, actor_id_t actor)
{
    return sim_incarnation(world_sim(world), actor);
}

/* ---- aborts ---------------------------------------------------------------------------------- */

static void test_abort_comes_between_pieces(void **state)
{
    world_t *world = open_one("default", 1500, 10);

    (void)state;
    stage_run_to(world, transfer(world), MESSAGE_kv_ready);
    stage_run_to(world, transfer(world), MESSAGE_kv_ready);
    world_abort(world, 0);
    stage_finish(world);
}

static void test_abort_crosses_end(void **state)
{
    world_t *world = open_one("default", 300, 4);
    actor_id_t decode = stage_actor(world, TOPOLOGY_DECODE, 0);

    (void)state;
    do
        stage_run_to(world, decode, MESSAGE_step_done);
    while (stage_decode(world)->ended == 0);
    world_abort(world, 0); /* before END has arrived */
    stage_run_to(world, decode, MESSAGE_abort);
    assert_int_equal(stage_decode(world)->ended, 1);
    stage_run_for(world, SECOND_US);
    assert_int_equal(stage_decode(world)->ended, 1);
    assert_int_equal(stage_decode(world)->live, 0);
    stage_finish(world);
}

static void test_client_leaves_while_queued(void **state)
{
    topology_t *topology = stage_topology("default");
    world_t *world;
    actor_id_t prefill;

    (void)state;
    topology->prefills[0].slots = 1;
    world = open_many(topology, 4, 700, 0, 10);
    prefill = stage_actor(world, TOPOLOGY_PREFILL, 0);
    for (uint32_t i = 0; i < 4; i++)
        stage_run_to(world, prefill, MESSAGE_submit);
    for (uint32_t i = 1; i < 4; i++)
        world_abort(world, i);
    stage_run_for(world, SECOND_US);
    assert_int_equal(stage_prefill(world)->live, 0);
    stage_finish(world);
}

/* One is queued, one runs, one has ended before. */
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
    world_slow(world, stage_rank(world, TOPOLOGY_PREFILL, 0, 0), 100);
    world_slow(world, stage_rank(world, TOPOLOGY_DECODE, 0, 0), 100);
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

static const decode_counts_t *decode_of(world_t *world, uint16_t instance)
{
    actor_id_t leader = stage_actor(world, TOPOLOGY_DECODE, instance);

    return decode_counts(sim_dispatch(world_sim(world), leader)->self);
}

static void expect_state(world_t *world, actor_id_t leader, const char *name)
{
    assert_string_equal(dispatch_state_name(sim_dispatch(world_sim(world), leader)), name);
}

/* It outlives drain_timeout, and goes on elsewhere with the same bits; the group is empty only then. */
static void test_drain_with_an_hour_long_stream(void **state)
{
    static const world_request_t requests[] = {{READY_US, 614, 0, 400},
                                               {READY_US + 3 * SECOND_US, 600, 0, 400}};
    world_t *world = stage_open(stage_topology_text(two_of_each), requests, 2);
    const world_client_t *stream = world_client(world, 0);
    actor_id_t leader;
    uint16_t serving;

    (void)state;
    assert_int_equal(stream->answer_count, 85); /* most of a minute at half a second each */
    stage_run_for(world, READY_US);
    for (uint16_t i = 0; i < 2; i++)
        world_slow(world, stage_rank(world, TOPOLOGY_DECODE, i, 0), 500); /* a step: up to 1 s */
    while (stream->received < 3)
        assert_true(world_step(world));
    serving = decode_of(world, 0)->live ? 0 : 1;
    leader = stage_actor(world, TOPOLOGY_DECODE, serving);
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
    leader = stage_actor(world, TOPOLOGY_PREFILL, 0);
    stage_run_for(world, READY_US - 1);
    for (uint16_t i = 0; i < 2; i++)
        world_slow(world, stage_rank(world, TOPOLOGY_PREFILL, i, 0), 500);
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
    actor_id_t leader = stage_actor(world, TOPOLOGY_DECODE, 0);

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
    actor_id_t leader = stage_actor(world, TOPOLOGY_DECODE, 0);

    (void)state;
    stage_run_to(world, leader, MESSAGE_reserve);
    world_drain(world, leader, DRAINED_US);
    stage_run_to(world, leader, MESSAGE_draining);
    world_kill(world, leader);
    stage_run_for(world, SECOND_US);
    assert_int_equal(life(world, leader), 2);
    expect_state(world, leader, "drained");
    assert_int_equal(decode_of(world, 0)->opened, 0);
    stage_finish(world);
}

/* ---- deaths ---------------------------------------------------------------------------------- */

static void test_decode_leader_dies_while_its_ranks_pull(void **state)
{
    world_t *world = open_one("8-devices", 700, 10);

    (void)state;
    stage_run_to(world, stage_rank(world, TOPOLOGY_DECODE, 0, 1), MESSAGE_pull);
    world_kill(world, stage_actor(world, TOPOLOGY_DECODE, 0));
    stage_finish(world);
}

static void test_transfer_dies_in_mid_hand_over(void **state)
{
    world_t *world = open_one("8-devices", 700, 10);

    (void)state;
    stage_run_to(world, stage_rank(world, TOPOLOGY_DECODE, 0, 2), MESSAGE_pull);
    world_kill(world, transfer(world));
    stage_finish(world);
}

static void test_source_rank_dies_during_a_pull(void **state)
{
    world_t *world = open_one("tp2", 700, 10);

    (void)state;
    stage_run_to(world, stage_rank(world, TOPOLOGY_DECODE, 0, 1), MESSAGE_pull);
    world_kill(world, stage_rank(world, TOPOLOGY_PREFILL, 0, 1));
    stage_finish(world);
}

static void test_reader_dies_during_a_pull(void **state)
{
    world_t *world = open_one("tp2", 700, 10);

    (void)state;
    stage_run_to(world, stage_rank(world, TOPOLOGY_DECODE, 0, 1), MESSAGE_pull);
    world_kill(world, stage_rank(world, TOPOLOGY_DECODE, 0, 1));
    stage_finish(world);
}

static void test_prefill_rank_dies_in_a_collective(void **state)
{
    world_t *world = open_one("8-devices", 700, 10);

    (void)state;
    stage_run_to(world, stage_rank(world, TOPOLOGY_PREFILL, 0, 2), MESSAGE_step);
    world_kill(world, stage_rank(world, TOPOLOGY_PREFILL, 0, 3));
    stage_run_for(world, SECOND_US);
    assert_int_equal(stage_prefill(world)->reforms, 1);
    stage_finish(world);
}

static void test_kv_ready_of_an_epoch_is_under_way_when_the_next_begins(void **state)
{
    world_t *world = open_one("tp2", 1500, 10);

    (void)state;
    stage_run_to(world, stage_actor(world, TOPOLOGY_PREFILL, 0), MESSAGE_step_done);
    world_kill(world, stage_rank(world, TOPOLOGY_PREFILL, 0, 0));
    world_kill(world, stage_rank(world, TOPOLOGY_DECODE, 0, 0));
    stage_finish(world);
}

static void test_gateway_dies(void **state)
{
    world_t *world = open_one("default", 700, 40);
    actor_id_t gateway = stage_actor(world, TOPOLOGY_GATEWAY, 0);

    (void)state;
    stage_run_to(world, gateway, MESSAGE_tokens);
    stage_run_to(world, gateway, MESSAGE_tokens);
    world_kill(world, gateway);
    stage_run_for(world, SECOND_US);
    assert_int_equal(stage_decode(world)->live, 0);
    assert_int_equal(stage_prefill(world)->live, 0);
    stage_finish(world);
}

static void test_scheduler_restarts_under_load(void **state)
{
    world_t *world = open_many(stage_topology("default"), 12, 500, 0, 40);
    actor_id_t scheduler = stage_actor(world, TOPOLOGY_SCHEDULER, 0);

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        stage_run_to(world, scheduler, MESSAGE_route);
        world_kill(world, scheduler);
    }
    stage_finish(world);
}

/* ---- stops ----------------------------------------------------------------------------------- */

static void test_stopped_rank_is_killed_before_its_group_goes_on(void **state)
{
    world_t *world = open_one("tp2", 300, 40);
    actor_id_t rank = stage_rank(world, TOPOLOGY_DECODE, 0, 1);

    (void)state;
    stage_run_to(world, rank, MESSAGE_step);
    world_stall(world, rank, 20 * SECOND_US);
    stage_finish(world);
}

static void test_rank_that_stops_for_a_while_is_waited_for(void **state)
{
    world_t *world = open_one("tp2", 300, 40);
    actor_id_t rank = stage_rank(world, TOPOLOGY_DECODE, 0, 1);

    (void)state;
    stage_run_to(world, rank, MESSAGE_step);
    world_stall(world, rank, 5 * SECOND_US);
    stage_run_for(world, 7 * SECOND_US);
    assert_int_equal(life(world, rank), 1);
    assert_int_equal(stage_decode(world)->reforms, 0);
    stage_finish(world);
}

/* The simulator asserts that no life starts before the last one is gone. */
static void test_stopped_leader_is_replaced(void **state)
{
    world_t *world = open_one("tp2", 300, 40);
    actor_id_t leader = stage_actor(world, TOPOLOGY_DECODE, 0);

    (void)state;
    stage_run_to(world, leader, MESSAGE_step_done);
    world_stall(world, leader, 20 * SECOND_US);
    stage_run_for(world, 15 * SECOND_US);
    assert_int_equal(life(world, leader), 2);
    stage_finish(world);
}

static void test_everything_stops_for_30_seconds(void **state)
{
    world_t *world = open_one("8-devices", 700, 40);

    (void)state;
    stage_run_to(world, stage_rank(world, TOPOLOGY_DECODE, 0, 0), MESSAGE_step);
    sim_pause(world_sim(world), 30 * (uint64_t)SECOND_US);
    stage_run_for(world, SECOND_US);
    for (uint32_t i = 0; i < world_topology(world)->actor_count; i++)
        assert_int_equal(life(world, (actor_id_t)i), 1);
    assert_int_equal(stage_decode(world)->reforms, 0);
    assert_true(world_all_ended(world));
    stage_finish(world);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The last token is computed, so one page of the two may be used; and nobody writes into it. */
static void test_prompt_of_exactly_512_cached_tokens(void **state)
{
    static const world_request_t requests[] = {{READY_US, 512, 512, 10},
                                               {READY_US + SECOND_US, 512, 512, 10}};
    topology_t *topology = stage_topology("default");
    world_t *world;

    (void)state;
    topology->border_every = 1;
    world = stage_open(topology, requests, 2);
    stage_run_for(world, 2 * SECOND_US);
    assert_int_equal(stage_prefill(world)->prompt_tokens, 1024);
    assert_int_equal(stage_prefill(world)->cached_tokens, 256);
    stage_finish(world);
}

static void test_two_requests_miss_the_same_prefix_at_once(void **state)
{
    static const world_request_t requests[] = {
        {READY_US, 700, 600, 10}, {READY_US, 700, 600, 10}, {READY_US + SECOND_US, 700, 600, 10}};
    world_t *world = stage_open(stage_topology("default"), requests, 3);

    (void)state;
    stage_run_for(world, SECOND_US);
    assert_int_equal(stage_prefill(world)->opened, 2);
    assert_int_equal(stage_prefill(world)->cached_tokens, 0);
    stage_run_for(world, SECOND_US);
    assert_int_equal(stage_prefill(world)->cached_tokens, 512);
    stage_finish(world);
}

static void test_two_long_prompts_each_want_more_than_half_of_the_pool(void **state)
{
    topology_t *topology = stage_topology("default");
    uint32_t most = 0;
    world_t *world;

    (void)state;
    topology->prefills[0].pages = 9; /* the test page is one of them */
    world = open_many(topology, 2, 1200, 0, 10);
    while (!world_all_ended(world)) {
        assert_true(world_step(world));
        if (sim_is_alive(world_sim(world), stage_actor(world, TOPOLOGY_PREFILL, 0)) &&
            stage_prefill(world)->pages_held > most)
            most = stage_prefill(world)->pages_held;
    }
    assert_int_equal(most, 5); /* all of one's, none of the other's */
    stage_finish(world);
}

static void test_decode_pages_run_out_and_the_youngest_loses(void **state)
{
    topology_t *topology = stage_topology("default");
    world_t *world;

    (void)state;
    topology->decodes[0].pages = 6;
    world = open_many(topology, 4, 250, 0, 20);
    stage_run_for(world, 2 * SECOND_US);
    assert_int_not_equal(stage_decode(world)->retracted, 0);
    stage_finish(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abort_comes_between_pieces),
        cmocka_unit_test(test_abort_crosses_end),
        cmocka_unit_test(test_client_leaves_while_queued),
        cmocka_unit_test(test_deadlines_end_what_waits_and_what_runs),
        cmocka_unit_test(test_drain_with_an_hour_long_stream),
        cmocka_unit_test(test_drain_gives_away_what_has_not_begun),
        cmocka_unit_test(test_drain_of_the_only_group_lets_requests_wait),
        cmocka_unit_test(test_a_leader_that_dies_while_it_drains_comes_back_drained),
        cmocka_unit_test(test_decode_leader_dies_while_its_ranks_pull),
        cmocka_unit_test(test_transfer_dies_in_mid_hand_over),
        cmocka_unit_test(test_source_rank_dies_during_a_pull),
        cmocka_unit_test(test_reader_dies_during_a_pull),
        cmocka_unit_test(test_prefill_rank_dies_in_a_collective),
        cmocka_unit_test(test_kv_ready_of_an_epoch_is_under_way_when_the_next_begins),
        cmocka_unit_test(test_gateway_dies),
        cmocka_unit_test(test_scheduler_restarts_under_load),
        cmocka_unit_test(test_stopped_rank_is_killed_before_its_group_goes_on),
        cmocka_unit_test(test_rank_that_stops_for_a_while_is_waited_for),
        cmocka_unit_test(test_stopped_leader_is_replaced),
        cmocka_unit_test(test_everything_stops_for_30_seconds),
        cmocka_unit_test(test_prompt_of_exactly_512_cached_tokens),
        cmocka_unit_test(test_two_requests_miss_the_same_prefix_at_once),
        cmocka_unit_test(test_two_long_prompts_each_want_more_than_half_of_the_pool),
        cmocka_unit_test(test_decode_pages_run_out_and_the_youngest_loses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
