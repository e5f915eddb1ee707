/* The simulator on small actors (toys.h), over lost connections, deaths, stalls and pauses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "messages/message.h"
#include "runtime/sim.h"
#include "tests/runtime/toys.h"

enum { DECODE = TOY_DECODE, TRANSFER = TOY_TRANSFER, SUPERVISOR = TOY_SUPERVISOR };

/* ---- the world ---- */

static incarnation_t lives[3];

static sim_t *set_up(uint64_t seed)
{
    const sim_config_t config = {.seed = seed,
                                 .roster = &toy_roster,
                                 .table = &message_table,
                                 .delay_us_min = 20,
                                 .delay_us_max = 2000,
                                 .handle_us_max = 30,
                                 .tick_us = TOY_TICK_US,
                                 .check = true};
    sim_t *sim = sim_open(&config);

    sim_add_actor(sim, DECODE, &(sim_actor_t){.type = &toy_decode});
    sim_add_actor(sim, TRANSFER, &(sim_actor_t){.type = &toy_transfer});
    sim_add_actor(sim, SUPERVISOR, &(sim_actor_t){.type = &toy_supervisor});
    for (actor_id_t id = 0; id < 3; id++)
        sim_start(sim, id, lives[id] = 1, EXIT_CLEAN);
    return sim;
}

static const toy_t *toy(const sim_t *sim, actor_id_t id)
{
    return sim_dispatch(sim, id)->self;
}

static bool all_answered(void *context, sim_t *sim)
{
    const toy_t *decode = sim_is_alive(sim, DECODE) ? toy(sim, DECODE) : NULL;

    (void)context;
    for (uint32_t i = 0; decode && i < TOY_ATTEMPTS; i++)
        if (!decode->answered[i])
            return false;
    return decode != NULL;
}

static void die(sim_t *sim, actor_id_t id, bool told)
{
    const message_reaped_t reaped = {.actor = id, .incarnation = lives[id], .cause = EXIT_CRASHED};

    sim_kill(sim, id);
    if (told)
        sim_post(sim, SUPERVISOR, PORT_PROCESS, MESSAGE_reaped, &reaped, 100);
}

/* ---- tests ---- */

static void test_all_is_answered_once_without_faults(void **state)
{
    sim_t *sim = set_up(1);

    (void)state;
    assert_true(sim_run_while(sim, all_answered, NULL, 5 * 1000 * 1000));
    for (uint32_t i = 0; i < TOY_ATTEMPTS; i++)
        assert_int_equal(toy(sim, DECODE)->answered[i], 1);
    assert_int_equal(toy(sim, TRANSFER)->opens, TOY_ATTEMPTS);
    sim_close(sim);
}

static uint64_t run_with_faults(uint64_t seed)
{
    sim_t *sim = set_up(seed);
    random_t *chance = sim_random(sim);
    uint64_t digest;

    for (int i = 0; i < 25; i++) {
        actor_id_t id = (actor_id_t)random_below(chance, 2);

        sim_run_until(sim, sim_now_us(sim) + random_below(chance, 30000));
        switch (random_below(chance, 5)) {
        case 0:
            sim_cut(sim, DECODE, TRANSFER, random_below(chance, 100000));
            break;
        case 1:
            sim_stall(sim, id, true);
            sim_run_until(sim, sim_now_us(sim) + random_below(chance, 200000));
            sim_stall(sim, id, false);
            break;
        case 2:
            sim_pause(sim, random_below(chance, 500000));
            break;
        default:
            die(sim, id, random_below(chance, 2) == 0);
            sim_run_until(sim, sim_now_us(sim) + random_below(chance, 50000));
            sim_start(sim, id, ++lives[id], EXIT_CRASHED);
        }
    }
    if (!sim_run_while(sim, all_answered, NULL, sim_now_us(sim) + 20 * 1000 * 1000)) {
        sim_print(sim, stderr);
        fail_msg("seed %llu does not come to its end", (unsigned long long)seed);
    }
    assert_true(toy(sim, DECODE)->joins - toy(sim, DECODE)->exits <= 1);
    digest = sim_digest(sim);
    sim_close(sim);
    return digest;
}

static void test_faults_delay_but_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++)
        (void)run_with_faults(seed);
}

static void test_a_seed_is_one_run(void **state)
{
    uint64_t first = run_with_faults(77);

    (void)state;
    assert_int_equal(run_with_faults(77), first);
    assert_int_not_equal(run_with_faults(78), first);
}

/* Or it could tell the next life nothing for a while; though nobody is left to be told of the last. */
static void test_a_supervisor_that_reaped_knows_the_next_life_at_once(void **state)
{
    sim_t *sim = set_up(5);

    (void)state;
    sim_run_until(sim, 1000 * 1000);
    die(sim, TRANSFER, true);
    die(sim, DECODE, true);
    sim_run_until(sim, 1010 * 1000);
    sim_start(sim, DECODE, ++lives[DECODE], EXIT_CRASHED);
    sim_run_until(sim, 1100 * 1000);
    assert_int_equal(sim_stream(sim, SUPERVISOR, DECODE)->state, STREAM_UP);
    assert_int_equal(sim_stream(sim, SUPERVISOR, DECODE)->peer_incarnation, 2);
    sim_close(sim);
}

/* But not how the one before that did, of which nobody told. */
static void test_a_next_life_knows_how_the_last_one_ended(void **state)
{
    const uint8_t expected[] = {EXIT_CRASHED, RUNTIME_CAUSE_UNKNOWN};
    sim_t *sim = set_up(6);

    (void)state;
    for (uint32_t unseen = 0; unseen < 2; unseen++) {
        sim_run_until(sim, sim_now_us(sim) + 1000 * 1000);
        die(sim, TRANSFER, false);
        lives[TRANSFER] += unseen;
        sim_start(sim, TRANSFER, ++lives[TRANSFER], EXIT_CRASHED);
        sim_run_until(sim, sim_now_us(sim) + 2000 * 1000);
        assert_int_equal(toy(sim, DECODE)->exits, unseen + 1);
        assert_int_equal(toy(sim, DECODE)->cause, expected[unseen]);
    }
    sim_close(sim);
}

static void test_a_pause_is_no_silence_of_peers(void **state)
{
    sim_t *sim = set_up(3);
    uint64_t before;

    (void)state;
    sim_run_until(sim, 1000 * 1000);
    before = toy(sim, DECODE)->now_ms;
    sim_pause(sim, 60 * 1000 * 1000);
    sim_run_until(sim, sim_now_us(sim) + 100 * 1000);
    assert_true(toy(sim, DECODE)->now_ms - before <= 200); /* of a minute */
    sim_close(sim);
}

/* Whatever waits when TICK falls due is handled before it, whatever comes later behind it. */
static uint16_t order[8];
static uint32_t order_count;

static void note_order(void *context, sim_t *sim, const sim_event_t *event)
{
    (void)context;
    (void)sim;
    if (event->kind == SIM_DISPATCHED && event->actor == SUPERVISOR && order_count < 8)
        order[order_count++] = event->message;
}

static void test_tick_keeps_its_place_among_messages(void **state)
{
    const message_reaped_t reaped = {.actor = 9, .incarnation = 1};
    sim_t *sim = set_up(4);

    (void)state;
    sim_run_until(sim, 500 * 1000);
    sim_stall(sim, SUPERVISOR, true);
    sim_post(sim, SUPERVISOR, PORT_PROCESS, MESSAGE_reaped, &reaped, 0);
    sim_post(sim, SUPERVISOR, PORT_PROCESS, MESSAGE_reaped, &reaped, 10);
    sim_run_until(sim, sim_now_us(sim) + 5 * TOY_TICK_US);
    order_count = 0;
    sim_hook_set(sim, note_order, NULL);
    sim_stall(sim, SUPERVISOR, false);
    sim_run_until(sim, sim_now_us(sim) + TOY_TICK_US / 2);
    assert_in_range(order_count, 3, 4); /* one TICK for five that fell due, perhaps the next */
    assert_int_equal(order[0], MESSAGE_reaped);
    assert_int_equal(order[1], MESSAGE_reaped);
    assert_int_equal(order[2], MESSAGE_tick);
    sim_close(sim);
}

/* Or what it does before the first period is over would be as of the year 1970. */
static void test_the_first_message_of_a_life_tells_the_time(void **state)
{
    sim_t *sim = set_up(5);

    (void)state;
    order_count = 0;
    sim_hook_set(sim, note_order, NULL);
    while (order_count == 0)
        assert_true(sim_step(sim));
    assert_int_equal(order[0], MESSAGE_tick);
    assert_in_range(sim_now_us(sim), 0, TOY_TICK_US / 2);
    sim_close(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_answered_once_without_faults),
        cmocka_unit_test(test_faults_delay_but_lose_nothing),
        cmocka_unit_test(test_a_seed_is_one_run),
        cmocka_unit_test(test_a_supervisor_that_reaped_knows_the_next_life_at_once),
        cmocka_unit_test(test_a_next_life_knows_how_the_last_one_ended),
        cmocka_unit_test(test_a_pause_is_no_silence_of_peers),
        cmocka_unit_test(test_tick_keeps_its_place_among_messages),
        cmocka_unit_test(test_the_first_message_of_a_life_tells_the_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
