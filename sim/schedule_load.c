/* schedule_load.c - many requests at once: memory that runs out, queues that are full, one prompt that kills. */
#include <string.h>

#include "sim/schedule.h"

/* ---- memory ---------------------------------------------------------------------------------- */

void play_exactly_512_cached_tokens(play_t *play)
{
    play->topology.border_every = 1;
    play_ask(play, PLAY_READY_US, 512, 10)->shared_tokens = 512;
    play_ask(play, PLAY_READY_US + PLAY_SECOND_US, 512, 10)->shared_tokens = 512;
    play_begin(play);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_prefill(play)->prompt_tokens, 1024);
    EXPECT_EQUAL(play, play_prefill(play)->cached_tokens, 256);
}

void play_two_miss_the_same_prefix_at_once(play_t *play)
{
    play_ask(play, PLAY_READY_US, 700, 10)->shared_tokens = 600;
    play_ask(play, PLAY_READY_US, 700, 10)->shared_tokens = 600;
    play_ask(play, PLAY_READY_US + PLAY_SECOND_US, 700, 10)->shared_tokens = 600;
    play_begin(play);
    GO(play_for(play, PLAY_SECOND_US));
    EXPECT_EQUAL(play, play_prefill(play)->opened, 2);
    EXPECT_EQUAL(play, play_prefill(play)->cached_tokens, 0);
    EXPECT_EQUAL(play, play_prefill(play)->pages_held, 0); /* the private copies are free again */
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_prefill(play)->cached_tokens, 512);
}

/* Each one's end takes a place too, and nobody asks for it again. */
void play_hot_prefix_under_pressure(play_t *play)
{
    enum { PROMPTS = 40 };

    play->topology.prefills[0].borders = 4;
    play->topology.prefills[0].chunk_tokens = PAGE_TOKENS;
    play->topology.border_every = 2;
    for (uint32_t i = 0; i < PROMPTS; i++)
        play_ask(play, PLAY_READY_US + i * PLAY_SECOND_US / 5, 1100, 2)->shared_tokens = 600;
    play_begin(play);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_prefill(play)->cached_tokens, (PROMPTS - 1) * 2 * PAGE_TOKENS);
}

void play_two_prompts_of_more_than_half_the_pool(play_t *play)
{
    uint32_t most = 0;

    play->topology.prefills[0].pages = 9; /* the test page is one of them */
    play_ask(play, PLAY_READY_US, 1200, 10);
    play_ask(play, PLAY_READY_US, 1200, 10);
    play_begin(play);
    while (!world_all_ended(play->world)) {
        GO(world_step(play->world));
        if (sim_is_alive(world_sim(play->world), play->prefill) &&
            play_prefill(play)->pages_held > most)
            most = play_prefill(play)->pages_held;
    }
    EXPECT_EQUAL(play, most, 5); /* all of one's, none of the other's */
}

/* A request's seniority is in every SUBMIT of it, and its retractions are ENDs.
 * P28 of docs/bugs.md. */
void play_retractions_in_turn(play_t *play)
{
    enum { REQUESTS = 4 };
    record_seniority_t first[REQUESTS + 1] = {{0}};
    uint32_t retracted[REQUESTS + 1] = {0}, last = 0, turns = 0;

    play->topology.decodes[0].pages = 6;
    for (uint32_t i = 0; i < REQUESTS; i++)
        play_ask(play, PLAY_READY_US, 250, 600);
    play_begin(play);
    while (!world_all_ended(play->world)) {
        sim_event_t event;

        GO(world_step(play->world));
        event = world_last(play->world);
        if (event.kind == SIM_DISPATCHED && event.message == MESSAGE_submit) {
            const message_submit_t *m = event.body;
            uint32_t n = m->request & 0xffffffff;

            if (m->attempt == 1)
                first[n] = m->seniority;
            EXPECT(play, memcmp(&first[n], &m->seniority, sizeof(first[n])) == 0);
        } else if (event.kind == SIM_DISPATCHED && event.message == MESSAGE_end &&
                   event.actor == play->gateway) {
            const message_end_t *m = event.body;
            uint32_t n = m->request & 0xffffffff;

            if (m->reason != END_RETRACTED)
                continue;
            turns += retracted[n] > 0 && last != n;
            retracted[n]++;
            last = n;
        }
    }
    EXPECT_EQUAL(play, retracted[1], 0); /* the oldest */
    EXPECT(play, turns > 0);             /* A, then B, then A again */
}

/* ---- a prompt that kills --------------------------------------------------------------------- */

void play_poisoned_prompt(play_t *play)
{
    enum { REQUESTS = 64, POISONED = 20 };

    for (uint32_t i = 0; i < REQUESTS; i++)
        play_ask(play, PLAY_READY_US, 300, 20);
    play->config.poisoned = POISONED + 1;
    play_begin(play);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->poisoned, 1);
    EXPECT_EQUAL(play, world_client(play->world, POISONED)->end_reason, END_POISONED);
    /* Once among others, and twice alone. */
    EXPECT(play, play_prefill(play)->reforms >= 1 + GATEWAY_CHARGES_MAX);
}

/* Cut off from its ranks' supervisor for longer than all of it takes. */
void play_poisoned_prompt_and_no_supervisor(play_t *play)
{
    enum { REQUESTS = 8, POISONED = 3 };

    for (uint32_t i = 0; i < REQUESTS; i++)
        play_ask(play, PLAY_READY_US, 300, 20);
    play->config.poisoned = POISONED + 1;
    play_begin(play);
    GO(play_for(play, PLAY_READY_US - 1));
    world_cut(play->world, play->supervisor, play->prefill, 30 * (uint64_t)PLAY_SECOND_US);
    GO(play_to_ends(play));
    EXPECT(play, sim_now_us(world_sim(play->world)) < 30 * (uint64_t)PLAY_SECOND_US);
    EXPECT_EQUAL(play, world_client(play->world, POISONED)->end_reason, END_POISONED);
    EXPECT(play, play_prefill(play)->reforms >= 1 + GATEWAY_CHARGES_MAX);
}

/* It dies in the handler of that SUBMIT, so that no rank ever sees a token of it. */
void play_prompt_crashes_its_leader(play_t *play)
{
    enum { REQUESTS = 8, POISONED = 3 };
    uint32_t crashes = 0;

    for (uint32_t i = 0; i < REQUESTS; i++)
        play_ask(play, PLAY_READY_US, 300, 20);
    play->config.poisoned = POISONED + 1;
    play_begin(play);
    while (!world_all_ended(play->world)) {
        sim_event_t event;
        const message_submit_t *m;

        GO(world_step(play->world));
        event = world_last(play->world);
        m = event.body;
        if (event.kind == SIM_DISPATCHED && event.message == MESSAGE_submit &&
            m->prompt.data[m->prompt.count - 1] == WORLD_POISON_TOKEN) {
            world_crash(play->world, event.actor);
            crashes++;
        }
    }
    EXPECT_EQUAL(play, play_gateway(play)->poisoned, 1);
    EXPECT_EQUAL(play, world_client(play->world, POISONED)->end_reason, END_POISONED);
    EXPECT_EQUAL(play, crashes, GATEWAY_CRASHES_FREE + GATEWAY_CHARGES_MAX);
}

void play_killed_while_alone(play_t *play)
{
    play_ask(play, PLAY_READY_US, 700, 10);
    play_begin(play);
    for (uint32_t i = 0; i < 2 * GATEWAY_CHARGES_MAX; i++) {
        GO(play_to(play, play_rank(play, ACTOR_PREFILL, 0, 0), MESSAGE_step));
        world_kill(play->world, play_rank(play, ACTOR_PREFILL, 0, 0));
    }
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 2 * GATEWAY_CHARGES_MAX);
    EXPECT_EQUAL(play, play_gateway(play)->poisoned, 0);
}

/* ---- full queues ----------------------------------------------------------------------------- */

/* T12 of docs/bugs.md. */
void play_gateway_stops_under_1024_streams(play_t *play)
{
    enum { STREAMS = 1024 };
    const stream_t *stream;
    uint64_t steps;

    play->topology.gateways[0].streams_max = STREAMS;
    play->topology.gateways[0].queued_max = STREAMS;
    play->topology.decodes[0].slots = play->topology.prefills[0].slots = STREAMS;
    play->topology.decodes[0].pages = play->topology.prefills[0].pages = 2 * STREAMS;
    play->config.slots_max = STREAMS;
    play->config.pages_max = 2 * STREAMS;
    play->config.without_checks = true;
    for (uint32_t i = 0; i < STREAMS; i++)
        play_ask(play, PLAY_READY_US, 20, 120);
    play_begin(play);
    do
        GO(play_to(play, play->decode, MESSAGE_reserve));
    while (play_decode(play)->live < STREAMS);
    steps = play_decode(play)->steps;
    world_stall(play->world, play->gateway, PLAY_SECOND_US);
    GO(play_for(play, PLAY_SECOND_US / 10));
    stream = sim_stream(world_sim(play->world), play->decode, play->gateway);
    EXPECT(play, play_decode(play)->steps > steps + 30);
    EXPECT_EQUAL(play, stream->states_out[MESSAGE_tokens], 1);
    EXPECT(play, stream->out.count <= 1 + 2 * play_decode(play)->ended); /* and END and FENCED */
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 0);
}

/* For a while; what it has acknowledged is known when this returns. */
static bool stop(play_t *play, actor_id_t actor)
{
    world_stall(play->world, actor, 5 * (uint64_t)PLAY_SECOND_US);
    return play_for(play, PLAY_SECOND_US / 100);
}

static uint32_t requests_out(const play_t *play, actor_id_t from, actor_id_t to)
{
    return sim_stream(world_sim(play->world), from, to)->requests_out;
}

/* Until a request of `from` waits at `to`. */
static bool fills(play_t *play, actor_id_t from, actor_id_t to)
{
    uint64_t end = sim_now_us(world_sim(play->world)) + PLAY_SECOND_US;

    while (requests_out(play, from, to) == 0) {
        if (sim_now_us(world_sim(play->world)) > end)
            world_violate(play->world, "schedule: %s sends no request to %s",
                          play->topology.actors[from].name, play->topology.actors[to].name);
        if (!world_step(play->world))
            return false;
    }
    return true;
}

void play_ring_of_full_mailboxes(play_t *play)
{
    play->config.credit_messages = 1;
    play->topology.prefills[0].chunk_tokens = PAGE_TOKENS;
    for (uint32_t i = 0; i < 100; i++)
        play_ask(play, PLAY_READY_US + i * 4000, 1000, 10);
    play_begin(play);
    GO(play_to(play, play->transfer, MESSAGE_kv_ready));
    GO(stop(play, play->transfer));
    GO(fills(play, play->prefill, play->transfer));
    GO(fills(play, play->decode, play->transfer));
    GO(stop(play, play->decode));
    GO(fills(play, play->prefill, play->decode));
    GO(stop(play, play->prefill));
    GO(fills(play, play->gateway, play->prefill));
    GO(stop(play, play->scheduler));
    GO(fills(play, play->gateway, play->scheduler));
    GO(play_for(play, PLAY_SECOND_US / 2));
    EXPECT_EQUAL(play, requests_out(play, play->prefill, play->transfer), 1);
    EXPECT_EQUAL(play, requests_out(play, play->decode, play->transfer), 1);
    EXPECT_EQUAL(play, requests_out(play, play->prefill, play->decode), 1);
    EXPECT_EQUAL(play, requests_out(play, play->gateway, play->prefill), 1);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 0);
}

/* ---- instances that come and go -------------------------------------------------------------- */

void play_decode_joins_late(play_t *play)
{
    actor_id_t late = play_actor(play, ACTOR_DECODE, 1);
    actor_id_t rank = play_rank(play, ACTOR_DECODE, 1, 0);
    bool tested = false, pulled = false;

    for (uint32_t i = 0; i < 200; i++)
        play_ask(play, PLAY_READY_US + i * 20000, 500, 40);
    play_begin(play);
    while (!sim_is_alive(world_sim(play->world), late))
        GO(world_step(play->world));
    world_stall(play->world, late, 2 * (uint64_t)PLAY_SECOND_US);
    while (!pulled) {
        sim_event_t event;

        GO(world_step(play->world));
        event = world_last(play->world);
        if (event.kind != SIM_DISPATCHED)
            continue;
        tested |= event.actor == late && event.message == MESSAGE_peer_mapped;
        pulled = event.actor == rank && event.message == MESSAGE_pull;
        EXPECT(play, tested || !pulled);
        EXPECT(play, tested || event.actor != late || event.message != MESSAGE_reserve);
    }
    EXPECT(play, sim_now_us(world_sim(play->world)) > 2 * PLAY_SECOND_US);
    GO(play_to_ends(play));
    EXPECT_EQUAL(play, play_gateway(play)->replayed, 0);
}

/* The first one streams from the first group when both begin to die; the second waits; the third comes
 * when all is lost. */
void play_all_decode_groups_end_degraded(play_t *play)
{
    enum { REQUESTS = 3 };

    play_ask(play, PLAY_READY_US, 500, 1000);
    play_ask(play, PLAY_READY_US + PLAY_SECOND_US, 500, 10);
    play_ask(play, 40 * (uint64_t)PLAY_SECOND_US, 500, 10);
    play_begin(play);
    GO(play_to(play, play->gateway, MESSAGE_tokens));
    while (!world_all_ended(play->world)) {
        GO(world_step(play->world));
        for (uint16_t i = 0; i < 2; i++)
            world_crash(play->world, play_rank(play, ACTOR_DECODE, i, 0));
    }
    for (uint32_t i = 0; i < REQUESTS; i++)
        EXPECT_EQUAL(play, world_client(play->world, i)->end_reason, END_UNAVAILABLE);
    EXPECT(play, world_client(play->world, 0)->received > 0);
}

/* More often than its supervisor allows in its window. */
void play_restarts_end_in_degraded(play_t *play)
{
    actor_id_t bad = play_rank(play, ACTOR_DECODE, 1, 0);
    incarnation_t life = 0;

    play_ask(play, PLAY_READY_US, 500, 10);
    play_ask(play, 50 * (uint64_t)PLAY_SECOND_US, 500, 10);
    play_begin(play);
    while (sim_now_us(world_sim(play->world)) < 40 * (uint64_t)PLAY_SECOND_US) {
        GO(world_step(play->world));
        if (!sim_is_alive(world_sim(play->world), bad))
            continue;
        life = play_life(play, bad);
        world_crash(play->world, bad);
    }
    EXPECT_EQUAL(play, life, SUPERVISOR_RESTARTS_MAX + 1);
    EXPECT(play, play_is_degraded(play, bad));
    GO(play_to_ends(play)); /* the second one came long after: decode/0 answers it */
}
