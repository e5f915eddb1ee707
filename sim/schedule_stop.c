/* schedule_stop.c - faults while a group leaves, or all of the deployment stops. */
#include "sim/schedule.h"
#include "device/symbolic/symbolic.h"

enum { VERY_SLOW = 100000000, SLOW = 500 /* a step: up to a second */ };

/* The decode group that serves the first request. */
static uint16_t serving(const play_t *play)
{
    return play_decode(play)->live ? 0 : 1;
}

/* ---- a group that leaves --------------------------------------------------------------------- */

/* What it has stays until rank 1 has left the old epoch, which it does not; so all that comes meanwhile
 * comes to a group that leaves. */
void play_prefill_leaves_while_others_die(play_t *play)
{
    actor_id_t stuck = play_rank(play, ACTOR_PREFILL, 0, 1);

    play_ask(play, PLAY_READY_US, 700, 10);
    play_begin(play);
    GO(play_for(play, PLAY_READY_US - 1));
    world_slow(play->world, stuck, VERY_SLOW);
    GO(play_to(play, stuck, MESSAGE_step));
    world_drain(play->world, play->prefill, 20 * (uint64_t)PLAY_SECOND_US);
    GO(play_to(play, play->prefill, MESSAGE_draining));
    world_kill(play->world, play_rank(play, ACTOR_DECODE, 0, 0));
    GO(play_to(play, play->prefill, MESSAGE_pair));
    world_kill(play->world, play_rank(play, ACTOR_PREFILL, 0, 0));
    GO(play_to(play, play->prefill, MESSAGE_rank_join));
    GO(play_to(play, play->prefill, MESSAGE_quiesced));
    EXPECT_EQUAL(play, play_prefill(play)->live, 1);
    world_kill(play->world, stuck);
    world_slow(play->world, stuck, 1);
    GO(play_for(play, PLAY_SECOND_US));
    EXPECT_EQUAL(play, play_prefill(play)->live, 0);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 1);
}

void play_decode_leaves_while_others_die(play_t *play)
{
    actor_id_t stuck = play_rank(play, ACTOR_DECODE, 0, 1);

    play_ask(play, PLAY_READY_US, 300, 400);
    play_begin(play);
    GO(play_to(play, stuck, MESSAGE_step));
    world_slow(play->world, stuck, VERY_SLOW);
    world_drain(play->world, play->decode, 20 * (uint64_t)PLAY_SECOND_US);
    GO(play_to(play, play->decode, MESSAGE_draining));
    world_kill(play->world, play->transfer);
    GO(play_to(play, play->decode, MESSAGE_copies_fenced));
    world_kill(play->world, play_rank(play, ACTOR_DECODE, 0, 0));
    GO(play_to(play, play->decode, MESSAGE_rank_join));
    EXPECT_EQUAL(play, play_decode(play)->live, 1);
    world_kill(play->world, stuck);
    world_slow(play->world, stuck, 1);
    GO(play_for(play, PLAY_SECOND_US));
    EXPECT_EQUAL(play, play_decode(play)->live, 0);
    world_kill(play->world, play->transfer);
    GO(play_to(play, play->decode, MESSAGE_copies_fenced));
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 1);
}

/* The second one is at work here; the third waits for memory that the first one holds at decode. */
void play_room_comes_to_prefill_that_leaves(play_t *play)
{
    actor_id_t stuck = play_rank(play, ACTOR_PREFILL, 0, 0);

    play->topology.decodes[0].pages = 7; /* the test page is one of them */
    play_ask(play, PLAY_READY_US, 300, 400);
    play_ask(play, PLAY_READY_US + PLAY_SECOND_US / 10, 200, 10);
    play_ask(play, PLAY_READY_US + PLAY_SECOND_US / 5, 1200, 10);
    play_begin(play);
    GO(play_to(play, play->gateway, MESSAGE_tokens));
    world_slow(play->world, stuck, VERY_SLOW);
    world_slow(play->world, play_rank(play, ACTOR_DECODE, 0, 0), 10);
    GO(play_to(play, play->prefill, MESSAGE_busy));
    world_drain(play->world, play->prefill, 20 * (uint64_t)PLAY_SECOND_US);
    GO(play_to(play, play->prefill, MESSAGE_room));
    EXPECT_EQUAL(play, play_prefill(play)->live, 1);
    world_kill(play->world, stuck);
    world_slow(play->world, stuck, 1);
    GO(play_to_ends(play));
}

/* ---- all of it stops ------------------------------------------------------------------------- */

static bool begin_stream(play_t *play)
{
    play_ask(play, PLAY_READY_US, 300, 400);
    play_begin(play);
    return play_to(play, play->gateway, MESSAGE_tokens);
}

/* Its STOP lies in the mailbox of the gateway when the second client comes. */
void play_client_comes_as_it_closes(play_t *play)
{
    play_ask(play, PLAY_READY_US + PLAY_SECOND_US, 300, 10);
    GO(begin_stream(play));
    world_stall(play->world, play->gateway, 2 * (uint64_t)PLAY_SECOND_US);
    world_down(play->world, 10 * (uint64_t)PLAY_SECOND_US);
    GO(play_to(play, play->gateway, MESSAGE_client_request));
    GO(play_for(play, PLAY_SECOND_US / 100));
    EXPECT_EQUAL(play, world_client(play->world, 0)->end_reason, END_UNAVAILABLE);
    EXPECT_EQUAL(play, world_client(play->world, 0)->received, 0);
}

/* With a minute for one stream that takes longer. */
static bool begin_to_close(play_t *play)
{
    if (!begin_stream(play))
        return false;
    world_slow(play->world, play_rank(play, ACTOR_DECODE, serving(play), 0), SLOW);
    world_down(play->world, 60 * (uint64_t)PLAY_SECOND_US);
    return play_to(play, play->gateway, MESSAGE_stop);
}

void play_others_die_while_it_closes(play_t *play)
{
    actor_id_t bad;

    GO(begin_to_close(play));
    bad = play_rank(play, ACTOR_DECODE, 1 - serving(play), 0);
    world_drain(play->world, play->topology.actors[bad].leader, PLAY_SECOND_US);
    GO(play_to(play, play->gateway, MESSAGE_drain));
    world_kill(play->world, play->scheduler);
    GO(play_to(play, play->gateway, MESSAGE_joined));
    world_stall(play->world, play->scheduler, 20 * (uint64_t)PLAY_SECOND_US);
    GO(play_to(play, play->supervisor, MESSAGE_stalled));
    while (!play_is_degraded(play, bad)) {
        world_crash(play->world, bad);
        GO(world_step(play->world));
    }
    GO(play_to(play, play->gateway, MESSAGE_degraded));
    EXPECT_EQUAL(play, play_life(play, play->scheduler), 3);
}

void play_ranks_differ_while_it_closes(play_t *play)
{
    actor_id_t stuck = play_rank(play, ACTOR_DECODE, 0, 1);

    GO(begin_to_close(play));
    world_allow_flips(play->world);
    symbolic_mistake(world_device(play->world, stuck), 1);
    GO(play_to(play, play->supervisor, MESSAGE_incident));
    GO(play_to(play, stuck, MESSAGE_step));
    world_slow(play->world, stuck, VERY_SLOW);
    world_kill(play->world, play_rank(play, ACTOR_DECODE, 0, 0));
    GO(play_to(play, play->supervisor, MESSAGE_kill));
    world_slow(play->world, stuck, 1);
}

/* Until decode has said something to its supervisor. */
static bool says(play_t *play)
{
    const sim_t *sim = world_sim(play->world);
    const stream_t *stream = sim_stream(sim, play->decode, play->supervisor);
    uint64_t next = stream->out_next, end = sim_now_us(sim) + 60 * (uint64_t)PLAY_SECOND_US;

    while (stream->out_next == next) {
        if (sim_now_us(sim) > end)
            world_violate(play->world, "schedule: decode says nothing to its supervisor");
        if (!world_step(play->world))
            return false;
    }
    return true;
}

/* The supervisor stands still, and STOP lies first in its mailbox. */
void play_words_wait_behind_stop(play_t *play)
{
    actor_id_t stuck = play_rank(play, ACTOR_DECODE, 0, 1);

    GO(begin_stream(play));
    sim_stall(world_sim(play->world), play->supervisor, true);
    world_down(play->world, 0);
    world_stall(play->world, play->scheduler, 20 * (uint64_t)PLAY_SECOND_US);
    world_allow_flips(play->world);
    symbolic_mistake(world_device(play->world, stuck), 1);
    GO(says(play)); /* INCIDENT */
    world_slow(play->world, stuck, VERY_SLOW);
    GO(says(play)); /* KILL: it does not leave the old epoch */
    GO(play_for(play, SUPERVISOR_STALLED_MS_MAX * UINT64_C(1000)));
    sim_stall(world_sim(play->world), play->supervisor, false);
    GO(play_to(play, play->supervisor, MESSAGE_reaped));
    EXPECT_EQUAL(play, play_refused(play, play->supervisor, MESSAGE_incident), 1);
    EXPECT_EQUAL(play, play_refused(play, play->supervisor, MESSAGE_kill), 1);
    EXPECT_EQUAL(play, play_refused(play, play->supervisor, MESSAGE_stalled), 1);
}

/* Its own supervisor tells no other one of it; once while all runs, once while both hosts close. */
void play_child_of_another_host_comes_back(play_t *play)
{
    actor_id_t there = play_actor(play, ACTOR_TRANSFER, 1);

    EXPECT(play, play->topology.actors[there].host != play->topology.actors[play->transfer].host);
    for (uint32_t i = 0; i < 2; i++)
        play_ask(play, PLAY_READY_US + PLAY_SECOND_US, 300, 1000);
    play_begin(play);
    GO(play_for(play, PLAY_READY_US));
    world_kill(play->world, there);
    GO(play_to(play, play->supervisor, MESSAGE_exited));
    EXPECT_EQUAL(play, play_life(play, there), 2);
    GO(play_to(play, play->gateway, MESSAGE_tokens));
    world_down(play->world, 20 * (uint64_t)PLAY_SECOND_US);
    GO(play_to(play, play->gateway, MESSAGE_stop));
    world_kill(play->world, there);
    GO(play_to(play, play->supervisor, MESSAGE_exited));
}
