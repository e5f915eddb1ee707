/* schedule_abort.c - clients that leave, and ends that cross, at the worst moment. */
#include "sim/schedule.h"

void play_abort_between_pieces(play_t *play)
{
    const message_kv_answer_t *answer;

    play->topology.prefills[0].chunk_tokens = PAGE_TOKENS;
    play_ask(play, PLAY_READY_US, 1500, 10);
    play_begin(play);
    GO(play_to(play, play->transfer, MESSAGE_kv_ready));
    GO(play_to(play, play->transfer, MESSAGE_kv_ready));
    /* The next piece is sent, and comes late. */
    world_cut(play->world, play->prefill, play->transfer, PLAY_SECOND_US);
    GO(play_to(play, play->prefill, MESSAGE_step_done));
    GO(play_to(play, play->prefill, MESSAGE_step_done));
    world_abort(play->world, 0);
    GO(play_to(play, play->decode, MESSAGE_abort));
    EXPECT(play, play_is(play, play->decode, 1, 1, "ending"));
    EXPECT(play, !play_is(play, play->transfer, 1, 1, "none"));
    EXPECT(play, !play_is(play, play->prefill, 1, 1, "none"));
    do
        GO(play_to(play, play->prefill, MESSAGE_kv_answer));
    while ((answer = world_last(play->world).body)->taken);
    EXPECT(play, answer->piece >= 2);
    EXPECT(play, play_is(play, play->decode, 1, 1, "none")); /* it waited for nothing of it */
}

void play_abort_crosses_end(play_t *play)
{

    play_ask(play, PLAY_READY_US, 300, 4);
    play_begin(play);
    do
        GO(play_to(play, play->decode, MESSAGE_step_done));
    while (play_decode(play)->ended == 0);
    world_abort(play->world, 0); /* before END has arrived */
    GO(play_to(play, play->decode, MESSAGE_abort));
    EXPECT_EQUAL(play, play_refused(play, play->decode, MESSAGE_abort), 1);
    EXPECT_EQUAL(play, play_decode(play)->ended, 1);
    GO(play_for(play, PLAY_SECOND_US));
    EXPECT_EQUAL(play, play_refused(play, play->gateway, MESSAGE_end), 1);
    EXPECT_EQUAL(play, world_client(play->world, 0)->end_reason, END_ABORTED);
    EXPECT_EQUAL(play, play_decode(play)->ended, 1);
    EXPECT_EQUAL(play, play_decode(play)->live, 0);
}

void play_last_token_with_a_step_sent(play_t *play)
{
    const uint32_t ranks = 2;
    uint32_t seen = 0;

    play->config.answer_mean = 20;
    play_ask(play, PLAY_READY_US, 300, 200);
    play_begin(play);
    EXPECT_EQUAL(play, world_client(play->world, 0)->answer_ends_by, END_STOP);
    do
        GO(play_to(play, play->decode, MESSAGE_step_done));
    while (play_decode(play)->ended == 0);
    EXPECT(play, play_is(play, play->decode, 1, 1, "ending"));
    for (; play_decode(play)->fenced == 0; seen++) {
        EXPECT(play, play_decode(play)->pages_held > 0);
        GO(play_to(play, play->decode, MESSAGE_step_done));
    }
    /* The step behind it was on its way on one rank at least, and all closed the slot. */
    EXPECT(play, seen > ranks);
    EXPECT_EQUAL(play, play_decode(play)->pages_held, 0);
}

void play_client_leaves_while_queued(play_t *play)
{
    play->topology.prefills[0].slots = 1;
    for (uint32_t i = 0; i < 4; i++)
        play_ask(play, PLAY_READY_US, 700, 10);
    play_begin(play);
    for (uint32_t i = 0; i < 4; i++)
        GO(play_to(play, play->prefill, MESSAGE_submit));
    for (uint32_t i = 1; i < 4; i++) {
        EXPECT(play, play_is(play, play->prefill, i + 1, 1, "queued"));
        world_abort(play->world, i);
    }
    for (uint32_t i = 1; i < 4; i++) {
        uint32_t held = play_prefill(play)->pages_held;

        GO(play_to(play, play->prefill, MESSAGE_abort));
        EXPECT_EQUAL(play, play_prefill(play)->live, 4 - i);
        EXPECT_EQUAL(play, play_prefill(play)->pages_held, held);
    }
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_prefill(play)->handed, 1);
}

void play_piece_meets_a_transfer_that_drains(play_t *play)
{
    actor_id_t reader = play_rank(play, ACTOR_DECODE, 0, 0);
    const message_kv_answer_t *answer;

    play->topology.prefills[0].chunk_tokens = PAGE_TOKENS;
    play_ask(play, PLAY_READY_US, 1500, 10);
    play_begin(play);
    GO(play_for(play, PLAY_READY_US - 1));
    world_slow(play->world, reader, 100000000);
    GO(play_to(play, reader, MESSAGE_pull));
    world_cut(play->world, play->prefill, play->transfer, PLAY_SECOND_US);
    GO(play_to(play, play->prefill, MESSAGE_step_done));
    GO(play_to(play, play->prefill, MESSAGE_step_done));
    world_abort(play->world, 0);
    do
        GO(play_to(play, play->prefill, MESSAGE_kv_answer));
    while ((answer = world_last(play->world).body)->taken);
    EXPECT(play, play_is(play, play->transfer, 1, 1, "draining"));
    world_kill(play->world, reader); /* its copy is over for sure */
    world_slow(play->world, reader, 1);
    GO(play_to_ends(play));
}
