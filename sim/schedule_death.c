/* schedule_death.c - one process dies where it hurts most; what it held comes back, and the same bits follow. */
#include "sim/schedule.h"

static void begin_one(play_t *play, uint32_t prompt_tokens, uint32_t output_tokens_max)
{
    play->topology.prefills[0].chunk_tokens = PAGE_TOKENS;
    play_ask(play, PLAY_READY_US, prompt_tokens, output_tokens_max);
    play_begin(play);
}

/* One request; `victim` dies as soon as rank 1 of decode has been told to pull. */
static bool begin_and_kill_in_a_pull(play_t *play, actor_id_t victim)
{
    begin_one(play, 700, 10);
    if (!play_to(play, play_rank(play, ACTOR_DECODE, 0, 1), MESSAGE_pull))
        return false;
    world_kill(play->world, victim);
    return true;
}

/* The attempt that follows a death is the last one, and no suspect's. */
static bool is_replayed_once(play_t *play)
{
    if (!play_to(play, play->prefill, MESSAGE_submit))
        return false;
    if (((const message_submit_t *)world_last(play->world).body)->alone)
        world_violate(play->world, "schedule: a death from outside made a suspect");
    if (world_violation(play->world) || !play_to_ends(play))
        return false;
    if (play_gateway(play)->replayed != 1)
        world_violate(play->world, "schedule: there was more than one replay");
    return !world_violation(play->world);
}

void play_decode_leader_dies_while_ranks_pull(play_t *play)
{
    const message_instance_t *said;

    GO(begin_and_kill_in_a_pull(play, play->decode));
    /* Until its next life says that it is ready, it says that it has not one page. */
    do {
        GO(play_to(play, play->scheduler, MESSAGE_instance));
        said = world_last(play->world).body;
        if (world_last(play->world).from == play->decode)
            EXPECT_EQUAL(play, said->pages_free, said->ready ? said->pages : 0);
    } while (world_last(play->world).from != play->decode || !said->ready);
    EXPECT_EQUAL(play, play_life(play, play->decode), 2);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 1);
}

/* P36 of docs/bugs.md. */
void play_transfer_dies_in_mid_hand_over(play_t *play)
{
    GO(begin_and_kill_in_a_pull(play, play->transfer));
    GO(is_replayed_once(play));
    EXPECT_EQUAL(play, play_life(play, play->transfer), 2);
    EXPECT_EQUAL(play, play_prefill(play)->reforms + play_decode(play)->reforms, 0);
}

void play_source_rank_dies_during_a_pull(play_t *play)
{
    GO(begin_and_kill_in_a_pull(play, play_rank(play, ACTOR_PREFILL, 0, 1)));
    GO(is_replayed_once(play));
    EXPECT_EQUAL(play, play_prefill(play)->reforms, 1);
    EXPECT_EQUAL(play, play_decode(play)->reforms, 0);
}

void play_reader_dies_during_a_pull(play_t *play)
{
    GO(begin_and_kill_in_a_pull(play, play_rank(play, ACTOR_DECODE, 0, 1)));
    GO(is_replayed_once(play));
    EXPECT_EQUAL(play, play_prefill(play)->reforms, 0);
    EXPECT_EQUAL(play, play_decode(play)->reforms, 1);
    GO(play_for(play, PLAY_SECOND_US));
    EXPECT_EQUAL(play, play_prefill(play)->pages_held, 0);
}

/* T15 of docs/bugs.md. */
void play_prefill_rank_dies_in_a_collective(play_t *play)
{
    uint64_t cached;

    play_ask(play, PLAY_READY_US, 700, 10)->shared_tokens = 600;
    play_ask(play, PLAY_READY_US + PLAY_SECOND_US, 700, 10)->shared_tokens = 600;
    play_begin(play);
    GO(play_for(play, PLAY_READY_US + PLAY_SECOND_US));
    GO(play_to(play, play_rank(play, ACTOR_PREFILL, 0, 2), MESSAGE_step));
    cached = play_prefill(play)->cached_tokens;
    EXPECT_EQUAL(play, cached, 2 * PAGE_TOKENS);
    world_kill(play->world, play_rank(play, ACTOR_PREFILL, 0, 3));
    GO(is_replayed_once(play));
    EXPECT_EQUAL(play, play_prefill(play)->reforms, 1);
    EXPECT_EQUAL(play, play_prefill(play)->cached_tokens, cached); /* the index went with it */
}

/* Its mailbox answers, but its device does not leave the old epoch. */
void play_rank_does_not_quiesce(play_t *play)
{
    const uint32_t very_slow = 100000000;
    actor_id_t stuck = play_rank(play, ACTOR_PREFILL, 0, 2);
    const message_kill_t *kill;

    begin_one(play, 700, 10);
    GO(play_to(play, stuck, MESSAGE_step));
    world_slow(play->world, stuck, very_slow);
    world_kill(play->world, play_rank(play, ACTOR_PREFILL, 0, 3));
    GO(play_to(play, play->supervisor, MESSAGE_kill));
    kill = world_last(play->world).body;
    EXPECT_EQUAL(play, kill->actor, stuck);
    EXPECT_EQUAL(play, kill->incarnation, 1);
    world_slow(play->world, stuck, 1);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_life(play, stuck), 2);
}

/* A result of the old epoch reaches a leader that has left it; a copy of an old page is under way
 * while that page gets its next owner. */
void play_old_epoch_is_in_flight(play_t *play)
{
    actor_id_t reader = play_rank(play, ACTOR_DECODE, 0, 1);
    actor_id_t witness = play_rank(play, ACTOR_PREFILL, 0, 1);
    const message_step_done_t *done;
    const message_pulled_t *pulled;

    play->topology.prefills[0].pages = 7; /* so many as it needs, and the test page */
    begin_one(play, 1500, 10);
    GO(play_to(play, reader, MESSAGE_pull));
    world_slow(play->world, reader, 120000); /* its next copy takes longer than a reform */
    GO(play_to(play, reader, MESSAGE_pull));
    world_slow(play->world, reader, 1);
    GO(play_to(play, witness, MESSAGE_step_done));
    world_cut(play->world, witness, play->prefill, PLAY_SECOND_US / 8);
    world_kill(play->world, play_rank(play, ACTOR_PREFILL, 0, 0));
    do
        GO(play_to(play, play->prefill, MESSAGE_exited));
    while (play_prefill(play)->reforms == 0);
    GO(play_to(play, play->prefill, MESSAGE_step_done));
    done = world_last(play->world).body;
    EXPECT_EQUAL(play, done->epoch & 0xffffffff, 1);
    EXPECT_EQUAL(play, play_prefill(play)->reforms, 1);
    do {
        GO(play_to(play, play->transfer, MESSAGE_pulled));
        pulled = world_last(play->world).body;
    } while (pulled->attempt != 1);
    EXPECT_EQUAL(play, pulled->status, STATUS_STALE);
    GO(play_to_ends(play));
}

void play_fenced_overtakes_end(play_t *play)
{
    begin_one(play, 3000, 10);
    GO(play_to(play, play->transfer, MESSAGE_pulled));
    world_cut(play->world, play->decode, play->prefill, PLAY_SECOND_US);
    world_kill(play->world, play_rank(play, ACTOR_DECODE, 0, 1));
    GO(play_to(play, play->prefill, MESSAGE_fenced));
    EXPECT_EQUAL(play, world_last(play->world).from, play->transfer);
    EXPECT(play, play_is(play, play->prefill, 1, 1, "prefilling"));
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 1);
}

void play_pulled_comes_behind_a_new_epoch(play_t *play)
{
    actor_id_t reader = play_rank(play, ACTOR_DECODE, 0, 0);

    begin_one(play, 700, 10);
    GO(play_to(play, reader, MESSAGE_pull));
    world_cut(play->world, reader, play->transfer, PLAY_SECOND_US);
    world_kill(play->world, play_rank(play, ACTOR_DECODE, 0, 1));
    do
        GO(play_to(play, play->transfer, MESSAGE_pulled));
    while (world_last(play->world).from != reader);
    EXPECT_EQUAL(play, play_refused(play, play->transfer, MESSAGE_pulled), 1);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 1);
}

/* The leader is cut off from who would tell it, the transfer is not. */
void play_next_life_is_asked_to_pull(play_t *play)
{
    actor_id_t reader = play_rank(play, ACTOR_DECODE, 0, 0);

    play_ask(play, PLAY_READY_US + PLAY_SECOND_US / 10, 300, 10);
    play_begin(play);
    GO(play_for(play, PLAY_READY_US));
    world_cut(play->world, play->supervisor, play->decode, 2 * (uint64_t)PLAY_SECOND_US);
    world_slow(play->world, reader, 1000); /* it loads for long */
    world_kill(play->world, reader);
    GO(play_to(play, reader, MESSAGE_pull));
    EXPECT_EQUAL(play, play_life(play, reader), 2);
    world_slow(play->world, reader, 1);
    GO(play_to_ends(play));
}

/* Once its leader dies, once another rank does. */
void play_epoch_ends_while_a_pool_is_mapped(play_t *play)
{
    actor_id_t reader = play_rank(play, ACTOR_DECODE, 0, 0);

    play_ask(play, 10 * (uint64_t)PLAY_SECOND_US, 300, 10);
    play_begin(play);
    GO(play_to(play, reader, MESSAGE_device_quiesced));
    world_slow(play->world, reader, 1000);
    GO(play_to(play, reader, MESSAGE_peer_pool));
    world_delay_start(play->world, play->decode, 2 * (uint64_t)PLAY_SECOND_US);
    world_kill(play->world, play->decode);
    GO(play_to(play, reader, MESSAGE_device_mapped));
    EXPECT(play, !sim_is_alive(world_sim(play->world), play->decode));
    world_slow(play->world, reader, 1);
    GO(play_to(play, reader, MESSAGE_device_quiesced));
    world_slow(play->world, reader, 1000);
    GO(play_to(play, reader, MESSAGE_peer_pool));
    world_slow(play->world, reader, 5000);
    world_kill(play->world, play_rank(play, ACTOR_DECODE, 0, 1));
    GO(play_to(play, reader, MESSAGE_device_mapped));
    world_slow(play->world, reader, 1);
    GO(play_to_ends(play));
}

/* Its DRAIN comes behind its end, to a supervisor that has met nobody else. */
void play_gateway_is_reaped_with_a_word_under_way(play_t *play)
{
    const stream_t *said;

    play_ask(play, 2 * (uint64_t)PLAY_SECOND_US, 300, 10);
    play_begin(play);
    GO(play_for(play, PLAY_READY_US));
    world_drain(play->world, play->decode, PLAY_SECOND_US);
    GO(play_to(play, play->gateway, MESSAGE_drain));
    said = sim_stream(world_sim(play->world), play->gateway, play->supervisor);
    while (said->out_sent + 1 < said->out_next)
        GO(world_step(play->world));
    for (uint32_t i = 0; i < play->topology.actor_count; i++)
        if (i != play->gateway)
            world_kill(play->world, (actor_id_t)i);
    world_kill(play->world, play->gateway);
    GO(play_to(play, play->supervisor, MESSAGE_reaped));
    GO(play_for(play, PLAY_SECOND_US / 100));
    EXPECT(play,
           sim_stream(world_sim(play->world), play->supervisor, play->gateway)->counters.stale > 0);
    GO(play_to_ends(play));
}

void play_gateway_dies(play_t *play)
{
    begin_one(play, 700, 40);
    GO(play_to(play, play->gateway, MESSAGE_tokens));
    GO(play_to(play, play->gateway, MESSAGE_tokens));
    EXPECT(play, play_decode(play)->live > 0);
    world_kill(play->world, play->gateway);
    GO(play_for(play, PLAY_SECOND_US));
    EXPECT_EQUAL(play, play_prefill(play)->live + play_decode(play)->live, 0);
    EXPECT_EQUAL(play, play_prefill(play)->pages_held + play_decode(play)->pages_held, 0);
    EXPECT_EQUAL(play, play_decode(play)->fenced, play_decode(play)->opened);
}

void play_scheduler_restarts_under_load(play_t *play)
{
    for (uint32_t i = 0; i < 12; i++)
        play_ask(play, PLAY_READY_US + i * 20000, 500, 40);
    play_begin(play);
    for (uint32_t i = 0; i < 3; i++) {
        GO(play_to(play, play->scheduler, MESSAGE_route));
        world_kill(play->world, play->scheduler);
    }
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_life(play, play->scheduler), 4);
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 0);
}

void play_late_end_of_an_earlier_attempt(play_t *play)
{
    const message_end_t *end;

    begin_one(play, 3000, 10);
    GO(play_to(play, play->transfer, MESSAGE_kv_ready));
    world_cut(play->world, play->prefill, play->gateway, PLAY_SECOND_US);
    world_kill(play->world, play->decode);
    GO(play_to(play, play->gateway, MESSAGE_end));
    end = world_last(play->world).body;
    EXPECT_EQUAL(play, end->attempt, 1);
    EXPECT_EQUAL(play, end->reason, END_LOST);
    EXPECT(play, play_is(play, play->gateway, 1, 2, "prefill"));
    EXPECT_EQUAL(play, play_refused(play, play->gateway, MESSAGE_end), 1);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 1);
}

/* ---- stops ----------------------------------------------------------------------------------- */

void play_stopped_rank_is_killed(play_t *play)
{
    actor_id_t rank = play_rank(play, ACTOR_DECODE, 0, 1);

    begin_one(play, 300, 40);
    GO(play_to(play, rank, MESSAGE_step));
    world_stall(play->world, rank, 20 * (uint64_t)PLAY_SECOND_US);
    while (play_decode(play)->reforms == 0)
        GO(world_step(play->world));
    EXPECT(play, !sim_is_alive(world_sim(play->world), rank) || play_life(play, rank) == 2);
    GO(is_replayed_once(play));
    EXPECT_EQUAL(play, play_life(play, rank), 2);
}

void play_stopped_rank_is_waited_for(play_t *play)
{
    actor_id_t rank = play_rank(play, ACTOR_DECODE, 0, 1);

    begin_one(play, 300, 40);
    GO(play_to(play, rank, MESSAGE_step));
    world_stall(play->world, rank, 5 * (uint64_t)PLAY_SECOND_US);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_life(play, rank), 1);
    EXPECT_EQUAL(play, play_decode(play)->reforms, 0);
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 0);
}

/* The simulator asserts that no life starts before the last one is gone.
 * P9 R10 of docs/bugs.md. */
void play_stopped_leader_is_replaced(play_t *play)
{
    begin_one(play, 300, 40);
    GO(play_to(play, play->decode, MESSAGE_step_done));
    world_stall(play->world, play->decode, 20 * (uint64_t)PLAY_SECOND_US);
    GO(is_replayed_once(play));
    EXPECT_EQUAL(play, play_life(play, play->decode), 2);
}

void play_everything_stops_for_30_seconds(play_t *play)
{
    begin_one(play, 700, 40);
    GO(play_to(play, play_rank(play, ACTOR_DECODE, 0, 0), MESSAGE_step));
    sim_pause(world_sim(play->world), 30 * (uint64_t)PLAY_SECOND_US);
    GO(play_for(play, PLAY_SECOND_US));
    for (uint32_t i = 0; i < play->topology.actor_count; i++)
        EXPECT_EQUAL(play, play_life(play, (actor_id_t)i), 1);
    EXPECT_EQUAL(play, play_prefill(play)->reforms + play_decode(play)->reforms, 0);
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 0);
    EXPECT(play, world_all_ended(play->world));
}
