/* schedule_report.c - what others have reported of other engines (docs/bugs.md), made here on purpose. */
#include "sim/schedule.h"

/* Both pools have room for one of the two. The first is aborted while its last copy stands still. */
void play_pages_wait_for_a_paused_copy(play_t *play)
{
    actor_id_t reader = play_rank(play, ACTOR_DECODE, 0, 0);

    play->topology.prefills[0].pages = play->topology.decodes[0].pages = 4;
    play_ask(play, PLAY_READY_US, 700, 10);
    play_ask(play, PLAY_READY_US + 1000, 700, 10);
    play_begin(play);
    while (!sim_is_alive(world_sim(play->world), reader))
        GO(world_step(play->world));
    GO(play_for(play, PLAY_READY_US / 2));
    world_slow(play->world, reader, 100000000);
    GO(play_to(play, reader, MESSAGE_pull));
    world_abort(play->world, 0);
    GO(play_to(play, play->decode, MESSAGE_abort));
    GO(play_for(play, 20 * (uint64_t)PLAY_SECOND_US)); /* no timer gives them away */
    EXPECT_EQUAL(play, play_decode(play)->opened, 1);
    EXPECT(play, play_is(play, play->decode, 1, 1, "ending"));
    EXPECT(play, play_is(play, play->prefill, 1, 1, "ending"));
    EXPECT(play, play_is(play, play->prefill, 2, 1, "queued"));
    world_kill(play->world, reader); /* its copy is over for sure */
    world_slow(play->world, reader, 1);
    GO(play_to_ends(play));
}

void play_prefill_leader_dies_with_5_in_transfer(play_t *play)
{
    actor_id_t reader = play_rank(play, ACTOR_DECODE, 0, 0);

    for (uint32_t i = 0; i < 5; i++)
        play_ask(play, PLAY_READY_US, 500, 10);
    play_ask(play, PLAY_READY_US + 2 * (uint64_t)PLAY_SECOND_US, 500, 10);
    play_begin(play);
    GO(play_for(play, PLAY_READY_US - 1));
    world_slow(play->world, reader, 200);
    for (uint32_t i = 0; i < 5; i++)
        GO(play_to(play, reader, MESSAGE_pull));
    world_kill(play->world, play->prefill);
    world_slow(play->world, reader, 1);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 5);
    EXPECT_EQUAL(play, play_life(play, play->decode), 1);
    EXPECT_EQUAL(play, play_decode(play)->reforms, 0);
}

/* Four ranks hand over to two, whose copies end in any order. */
void play_three_hundred_through_unequal_groups(play_t *play)
{
    for (uint32_t i = 0; i < 300; i++)
        play_ask(play, PLAY_READY_US + i * 20000, 100 + i % 600, 5);
    play_begin(play);
    GO(play_for(play, PLAY_READY_US - 1));
    world_shuffle(play->world, play_rank(play, ACTOR_DECODE, 0, 0), 5000);
    world_shuffle(play->world, play_rank(play, ACTOR_DECODE, 0, 1), 9000);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 0);
    EXPECT_EQUAL(play, play_decode(play)->reforms, 0);
}

void play_thousand_at_once_with_jitter(play_t *play)
{
    enum { REQUESTS = 1000 };

    play->topology.gateways[0].streams_max = play->topology.gateways[0].queued_max = REQUESTS;
    play->config.slots_max = 32;
    play->config.pages_max = 400;
    play->config.without_checks = true;
    play->config.delay_us_max = 10000;
    for (uint32_t i = 0; i < REQUESTS; i++)
        play_ask(play, PLAY_READY_US, 40, 5);
    play_begin(play);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->admitted, REQUESTS);
    EXPECT_EQUAL(play, play_gateway(play)->overloaded + play_gateway(play)->replayed, 0);
}

/* As often as its supervisor allows, under traffic. */
void play_leader_dies_20_times(play_t *play)
{
    enum { DEATHS = 20, APART_S = 9 };

    for (uint32_t i = 0; i < DEATHS; i++)
        play_ask(play, PLAY_READY_US + i * APART_S * (uint64_t)PLAY_SECOND_US, 700, 40);
    play_begin(play);
    for (uint32_t i = 0; i < DEATHS; i++) {
        GO(play_to(play, play->decode, MESSAGE_landed));
        world_kill(play->world, play->decode);
        GO(play_for(play, (APART_S - 1) * (uint64_t)PLAY_SECOND_US));
    }
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_life(play, play->decode), 1 + DEATHS);
    /* One more each time that prefill's END came first, and the scheduler chose the dead one again. */
    EXPECT(play, play_gateway(play)->replayed >= DEATHS &&
                     play_gateway(play)->replayed <= DEATHS + DEATHS / 4);
}

void play_source_dies_while_it_is_mapped(play_t *play)
{
    play_ask(play, PLAY_READY_US, 500, 10);
    play_begin(play);
    GO(play_to(play, play_rank(play, ACTOR_DECODE, 0, 1), MESSAGE_peer_pool));
    world_kill(play->world, play_rank(play, ACTOR_PREFILL, 0, 1));
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_life(play, play_rank(play, ACTOR_DECODE, 0, 1)), 1);
}

/* After a storm of retractions whose clients then leave, what comes next finds everything as it was. */
void play_retracted_then_aborted(play_t *play)
{
    uint64_t retracted;

    play->topology.decodes[0].pages = 6;
    for (uint32_t i = 0; i < 4; i++)
        play_ask(play, PLAY_READY_US, 250, 600);
    play_ask(play, 30 * (uint64_t)PLAY_SECOND_US, 250, 600);
    play_begin(play);
    do
        GO(play_to(play, play->decode, MESSAGE_step_done));
    while (play_decode(play)->retracted < 10);
    for (uint32_t i = 0; i < 4; i++)
        world_abort(play->world, i);
    GO(play_for(play, PLAY_SECOND_US));
    EXPECT_EQUAL(play, play_decode(play)->pages_held + play_prefill(play)->pages_held, 0);
    EXPECT_EQUAL(play, play_decode(play)->live + play_prefill(play)->live, 0);
    retracted = play_decode(play)->retracted;
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_decode(play)->retracted, retracted);
}

/* Each at its own stage: the oracles see to it that all ranks do the same. */
void play_two_hundred_aborts_in_a_second(play_t *play)
{
    enum { REQUESTS = 200 };

    play->config.slots_max = 32;
    for (uint32_t i = 0; i < REQUESTS + 1; i++)
        play_ask(play, PLAY_READY_US + i * 4000, 100 + 3 * i, 30);
    play_begin(play);
    GO(play_for(play, PLAY_READY_US));
    for (uint32_t i = 0; i < REQUESTS; i++) {
        GO(play_for(play, 5000));
        world_abort(play->world, i);
    }
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_prefill(play)->reforms + play_decode(play)->reforms, 0);
    GO(play_for(play, PLAY_SECOND_US));
    EXPECT_EQUAL(play, play_decode(play)->pages_held + play_prefill(play)->pages_held, 0);
}
