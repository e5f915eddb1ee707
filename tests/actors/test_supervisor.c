#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "actors/supervisor/supervisor.h"
#include "tests/actors/scene.h"

static int setup(void **state)
{
    *state = scene_open(&supervisor_type, ACTOR_SUPERVISOR, 1, 1, 2);
    return 0;
}

static int teardown(void **state)
{
    scene_close(*state);
    return 0;
}

static void start(scene_t *scene)
{
    scene_tick(scene, 50);
    for (uint32_t i = 1; i < scene->topology.actor_count; i++) {
        const message_spawn_t *spawn = scene_take(scene, PORT_PROCESS, MESSAGE_spawn);

        assert_int_equal(spawn->actor, i);
        assert_int_equal(spawn->incarnation, 1);
    }
    scene_expect_nothing(scene);
}

static void reap(scene_t *scene, actor_id_t actor, incarnation_t incarnation, uint8_t cause)
{
    message_reaped_t m = {actor, incarnation, cause, 9};

    scene_send(scene, PORT_PROCESS, MESSAGE_reaped, &m);
}

/* Everybody but the dead one hears it. */
static uint8_t expect_exited(scene_t *scene, actor_id_t actor, incarnation_t incarnation)
{
    uint8_t cause = 0;

    for (uint32_t i = 1; i < scene->topology.actor_count; i++) {
        const message_exited_t *m;

        if (i == actor)
            continue;
        m = scene_take(scene, (actor_id_t)i, MESSAGE_exited);
        assert_int_equal(m->actor, actor);
        assert_int_equal(m->incarnation, incarnation);
        cause = m->cause;
    }
    return cause;
}

static void test_every_pair_is_decided(void **state)
{
    (void)state;
    assert_int_equal(actor_type_check(&supervisor_type, &message_table, stderr), 0);
}

static void test_dead_child_is_announced_before_its_next_life(void **state)
{
    scene_t *scene = *state;
    actor_id_t victim = scene_actor(scene, ACTOR_DECODE, 0);
    capture_push_t push;

    start(scene);
    reap(scene, victim, 1, EXIT_CRASHED);
    for (uint32_t i = 0; i + 2 < scene->topology.actor_count; i++) {
        assert_true(capture_next(scene->capture, &push));
        assert_int_equal(push.id, MESSAGE_exited);
    }
    assert_true(capture_next(scene->capture, &push));
    assert_int_equal(push.id, MESSAGE_spawn);
    assert_int_equal(((const message_spawn_t *)push.body)->incarnation, 2);
    assert_int_equal(((const message_spawn_t *)push.body)->before, EXIT_CRASHED);
    scene_expect_nothing(scene);
}

static void test_who_joins_later_hears_of_the_ends_before(void **state)
{
    scene_t *scene = *state;
    actor_id_t victim = scene_actor(scene, ACTOR_DECODE, 0);
    actor_id_t late = scene_actor(scene, ACTOR_TRANSFER, 0);
    message_joined_t joined = {late, 1};
    const message_exited_t *m;

    start(scene);
    capture_up_set(scene->capture, late, false);
    reap(scene, victim, 1, EXIT_CRASHED);
    capture_forget(scene->capture);
    capture_up_set(scene->capture, late, true);
    scene_send(scene, PORT_RUNTIME, MESSAGE_joined, &joined);
    m = scene_take(scene, late, MESSAGE_exited);
    assert_int_equal(m->actor, victim);
    assert_int_equal(m->incarnation, 1);
    assert_int_equal(m->cause, EXIT_CRASHED);
    scene_expect_nothing(scene);
}

static void test_an_incident_is_kept_of_who_said_it(void **state)
{
    scene_t *scene = *state;
    actor_id_t leader = scene_actor(scene, ACTOR_DECODE, 0);
    message_incident_t incident = {{"ranks differ", 12}};
    const message_keep_t *keep;

    start(scene);
    scene_send(scene, leader, MESSAGE_incident, &incident);
    keep = scene_take(scene, PORT_PROCESS, MESSAGE_keep);
    assert_int_equal(keep->actor, leader);
    assert_memory_equal(keep->reason.data, "ranks differ", 12);
    scene_expect_nothing(scene);
}

static void test_kill_names_a_life_and_charges_nobody(void **state)
{
    scene_t *scene = *state;
    actor_id_t victim = scene_rank(scene, ACTOR_DECODE, 0, 1);
    message_kill_t kill = {victim, 1, {"it did not quiesce", 18}};

    start(scene);
    scene_send(scene, scene_actor(scene, ACTOR_DECODE, 0), MESSAGE_kill, &kill);
    assert_int_equal(
        ((const message_signal_t *)scene_take(scene, PORT_PROCESS, MESSAGE_signal))->hard, 1);
    scene_send(scene, scene_actor(scene, ACTOR_DECODE, 0), MESSAGE_kill, &kill);
    scene_expect_nothing(scene); /* it is on its way */
    reap(scene, victim, 1, EXIT_KILLED_OUTSIDE);
    assert_int_equal(expect_exited(scene, victim, 1), EXIT_KILLED_BY_US);
    scene_take(scene, PORT_PROCESS, MESSAGE_spawn);
    scene_send(scene, scene_actor(scene, ACTOR_DECODE, 0), MESSAGE_kill, &kill);
    scene_expect_nothing(scene); /* the new life is another one */
}

/* Each of its lives ends at once, until there is no next one; returns how many there were. */
static uint32_t degrade(scene_t *scene, actor_id_t victim)
{
    actor_id_t gateway = scene_actor(scene, ACTOR_GATEWAY, 0);
    incarnation_t incarnation;
    uint64_t now_ms = 50;
    uint32_t lives = 0, given_up = 0, told = 0;

    for (uint32_t tick = 0; tick < 1000; tick++) {
        if (supervisor_child(scene->dispatch.self, victim, &incarnation) == CHILD_RUNNING) {
            lives++;
            reap(scene, victim, incarnation, EXIT_CRASHED);
        }
        given_up += capture_find(scene->capture, PORT_PROCESS, MESSAGE_given_up) != NULL;
        told += capture_find(scene->capture, gateway, MESSAGE_degraded) != NULL;
        scene_tick(scene, now_ms += 50);
        capture_forget(scene->capture);
    }
    assert_int_equal(supervisor_child(scene->dispatch.self, victim, &incarnation), CHILD_DEGRADED);
    assert_int_equal(given_up, 1); /* said once, to be shown */
    assert_int_equal(told, 1);
    return lives;
}

static void test_restarts_end_in_degraded_never_in_a_storm(void **state)
{
    scene_t *scene = *state;
    actor_id_t victim = scene_actor(scene, ACTOR_MONITOR, 0);
    actor_id_t gateway = scene_actor(scene, ACTOR_GATEWAY, 0);

    start(scene);
    assert_int_equal(degrade(scene, victim), SUPERVISOR_RESTARTS_MAX + 1);
    scene_send(scene, PORT_RUNTIME, MESSAGE_joined, &(message_joined_t){gateway, 2});
    assert_int_equal(
        ((const message_degraded_t *)scene_take(scene, gateway, MESSAGE_degraded))->actor, victim);
}

/* Whoever was stopped from outside did nothing wrong; who stands still by itself hangs. */
static void test_stalled_child_is_put_down(void **state)
{
    scene_t *scene = *state;
    actor_id_t victim = scene_actor(scene, ACTOR_GATEWAY, 0);

    start(scene);
    for (incarnation_t life = 1; life <= 2; life++) {
        message_stalled_t stalled = {victim, life, SUPERVISOR_STALLED_MS_MAX - 1, life == 1};

        scene_send(scene, PORT_PROCESS, MESSAGE_stalled, &stalled);
        scene_expect_nothing(scene);
        stalled.still_ms++;
        scene_send(scene, PORT_PROCESS, MESSAGE_stalled, &stalled);
        assert_int_equal(
            ((const message_signal_t *)scene_take(scene, PORT_PROCESS, MESSAGE_signal))->actor,
            victim);
        reap(scene, victim, life, EXIT_KILLED_OUTSIDE);
        assert_int_equal(expect_exited(scene, victim, life),
                         life == 1 ? EXIT_KILLED_BY_US : EXIT_HUNG);
        if (life == 1)
            scene_take(scene, PORT_PROCESS, MESSAGE_spawn);
    }
}

static void test_stop_asks_then_kills_then_ends_itself(void **state)
{
    scene_t *scene = *state;
    uint32_t children = scene->topology.actor_count - 1u;
    const message_signal_t *last;

    start(scene);
    scene_send(scene, PORT_PROCESS, MESSAGE_stop, &(message_stop_t){0});
    for (uint32_t i = 0; i < children; i++)
        assert_int_equal(
            ((const message_signal_t *)scene_take(scene, PORT_PROCESS, MESSAGE_signal))->hard, 0);
    for (uint32_t i = 1; i < children; i++)
        reap(scene, (actor_id_t)i, 1, EXIT_CLEAN);
    capture_forget(scene->capture);
    scene_tick(scene, 50 + SUPERVISOR_GRACE_MS);
    last = scene_take(scene, PORT_PROCESS, MESSAGE_signal);
    assert_int_equal(last->actor, children);
    assert_int_equal(last->hard, 1);
    reap(scene, (actor_id_t)children, 1, EXIT_KILLED_OUTSIDE);
    assert_int_equal(
        ((const message_signal_t *)scene_take(scene, PORT_PROCESS, MESSAGE_signal))->actor,
        scene->id);
}

static actor_id_t gateway(scene_t *scene)
{
    return scene_actor(scene, ACTOR_GATEWAY, 0);
}

static void test_stop_with_time_closes_the_gateways_first(void **state)
{
    scene_t *scene = *state;
    actor_id_t other = scene_actor(scene, ACTOR_DECODE, 0);

    start(scene);
    scene_send(scene, PORT_PROCESS, MESSAGE_stop, &(message_stop_t){5000});
    assert_int_equal(
        ((const message_stop_t *)scene_take(scene, gateway(scene), MESSAGE_stop))->grace_ms, 5000);
    scene_expect_nothing(scene);
    reap(scene, other, 1, EXIT_CRASHED); /* the answers that it owes must still come */
    expect_exited(scene, other, 1);
    scene_take(scene, PORT_PROCESS, MESSAGE_spawn);
    reap(scene, gateway(scene), 1, EXIT_CLEAN);
    expect_exited(scene, gateway(scene), 1);
    for (uint32_t i = 2; i < scene->topology.actor_count; i++)
        scene_take(scene, PORT_PROCESS, MESSAGE_signal);
    scene_expect_nothing(scene);
}

static void test_a_second_stop_or_the_end_of_the_time_ends_the_wait(void **state)
{
    scene_t *scene = *state;
    uint32_t children = scene->topology.actor_count - 1u;

    start(scene);
    scene_send(scene, PORT_PROCESS, MESSAGE_stop, &(message_stop_t){5000});
    scene_take(scene, gateway(scene), MESSAGE_stop);
    scene_tick(scene, 50 + 5000 + SUPERVISOR_GRACE_MS - 1);
    scene_expect_nothing(scene);
    scene_tick(scene, 50 + 5000 + SUPERVISOR_GRACE_MS);
    for (uint32_t i = 0; i < children; i++)
        scene_take(scene, PORT_PROCESS, MESSAGE_signal);
    teardown(state);
    setup(state);
    scene = *state;
    start(scene);
    scene_send(scene, PORT_PROCESS, MESSAGE_stop, &(message_stop_t){5000});
    scene_take(scene, gateway(scene), MESSAGE_stop);
    scene_send(scene, PORT_PROCESS, MESSAGE_stop, &(message_stop_t){5000});
    for (uint32_t i = 0; i < children; i++)
        scene_take(scene, PORT_PROCESS, MESSAGE_signal);
}

static uint8_t drain(scene_t *scene, actor_id_t actor, bool on, bool force)
{
    message_drain_t drain = {actor, on, force};
    const message_drain_answer_t *answer;

    scene_send(scene, gateway(scene), MESSAGE_drain, &drain);
    answer = scene_take(scene, gateway(scene), MESSAGE_drain_answer);
    assert_int_equal(answer->actor, actor);
    assert_true((answer->detail.count > 0) == (answer->status != STATUS_OK));
    return answer->status;
}

static void expect_draining(scene_t *scene, actor_id_t leader, uint8_t on)
{
    const message_draining_t *draining = scene_take(scene, leader, MESSAGE_draining);

    assert_int_equal(draining->on, on);
    assert_int_equal(draining->grace_ms, scene->topology.drain_timeout_ms);
}

static void test_the_last_group_of_its_kind_is_drained_only_by_force(void **state)
{
    scene_t *scene = *state;
    actor_id_t first = scene_actor(scene, ACTOR_DECODE, 0);

    start(scene);
    assert_int_equal(drain(scene, gateway(scene), true, true), STATUS_REFUSED);
    assert_int_equal(drain(scene, scene->topology.actor_count, true, true), STATUS_REFUSED);
    assert_int_equal(drain(scene, first, true, false), STATUS_REFUSED);
    scene_expect_nothing(scene);
    assert_int_equal(drain(scene, first, true, true), STATUS_OK);
    expect_draining(scene, first, 1);
    assert_int_equal(drain(scene, first, true, true), STATUS_OK); /* it drains already */
    scene_expect_nothing(scene);
    assert_int_equal(drain(scene, first, false, false), STATUS_OK);
    expect_draining(scene, first, 0);
    scene_expect_nothing(scene);
}

static void test_each_life_of_a_leader_knows_that_its_group_drains(void **state)
{
    scene_t *scene = *state;
    actor_id_t first = scene_actor(scene, ACTOR_DECODE, 0);
    actor_id_t second = scene_actor(scene, ACTOR_DECODE, 1);
    message_joined_t joined = {first, 2};

    start(scene);
    assert_int_equal(drain(scene, first, true, false), STATUS_OK);
    expect_draining(scene, first, 1);
    assert_int_equal(drain(scene, second, true, false), STATUS_REFUSED); /* the last one now */
    reap(scene, first, 1, EXIT_CRASHED);
    capture_forget(scene->capture);
    scene_send(scene, PORT_RUNTIME, MESSAGE_joined, &joined);
    expect_draining(scene, first, 1);
    joined.actor = second;
    scene_send(scene, PORT_RUNTIME, MESSAGE_joined, &joined);
    capture_forget(scene->capture); /* EXITED of the first */
    assert_int_equal(drain(scene, first, false, false), STATUS_OK);
    expect_draining(scene, first, 0);
    assert_int_equal(drain(scene, second, true, false), STATUS_OK);
}

static void test_a_group_without_a_rank_is_no_other_that_takes_requests(void **state)
{
    scene_t *scene = *state;
    actor_id_t first = scene_actor(scene, ACTOR_DECODE, 0);
    actor_id_t second = scene_actor(scene, ACTOR_DECODE, 1);

    start(scene);
    degrade(scene, (actor_id_t)(second + 1)); /* its first rank */
    assert_int_equal(drain(scene, first, true, false), STATUS_REFUSED);
    assert_int_equal(drain(scene, second, true, false), STATUS_OK);
}

static int setup_two(void **state)
{
    *state = scene_open(&supervisor_type, ACTOR_SUPERVISOR, 1, 2, 2);
    return 0;
}

#define SCENE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair_is_decided),
        SCENE_TEST(test_dead_child_is_announced_before_its_next_life),
        SCENE_TEST(test_who_joins_later_hears_of_the_ends_before),
        SCENE_TEST(test_an_incident_is_kept_of_who_said_it),
        SCENE_TEST(test_kill_names_a_life_and_charges_nobody),
        SCENE_TEST(test_restarts_end_in_degraded_never_in_a_storm),
        SCENE_TEST(test_stalled_child_is_put_down),
        SCENE_TEST(test_stop_asks_then_kills_then_ends_itself),
        SCENE_TEST(test_stop_with_time_closes_the_gateways_first),
        SCENE_TEST(test_a_second_stop_or_the_end_of_the_time_ends_the_wait),
        SCENE_TEST(test_the_last_group_of_its_kind_is_drained_only_by_force),
        cmocka_unit_test_setup_teardown(
            test_a_group_without_a_rank_is_no_other_that_takes_requests, setup_two, teardown),
        cmocka_unit_test_setup_teardown(test_each_life_of_a_leader_knows_that_its_group_drains,
                                        setup_two, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
