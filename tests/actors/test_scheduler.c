#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "actors/scheduler/scheduler.h"
#include "tests/actors/scene.h"

static int setup(void **state)
{
    *state = scene_open(&scheduler_type, ACTOR_SCHEDULER, 4, 2, 1);
    return 0;
}

static int teardown(void **state)
{
    scene_close(*state);
    return 0;
}

static void report(scene_t *scene, actor_kind_t kind, uint16_t instance, message_instance_t load)
{
    load.ready = 1;
    load.pages = load.pages ? load.pages : 64;
    scene_send(scene, scene_actor(scene, kind, instance), MESSAGE_instance, &load);
}

static void all_report(scene_t *scene)
{
    for (uint16_t i = 0; i < 4; i++)
        report(scene, ACTOR_PREFILL, i, (message_instance_t){0});
    for (uint16_t i = 0; i < 2; i++)
        report(scene, ACTOR_DECODE, i, (message_instance_t){.pages_free = 64});
}

static const message_routed_t *route(scene_t *scene, uint64_t request, uint32_t prompt_tokens,
                                     uint64_t first_key, uint8_t replay)
{
    static uint64_t keys[64];
    message_route_t m = {.request = request, .attempt = 1, .replay = replay};
    actor_id_t gateway = scene_actor(scene, ACTOR_GATEWAY, 0);

    for (uint32_t i = 0; i < 64; i++)
        keys[i] = first_key + i;
    m.prompt_tokens = prompt_tokens;
    m.total_tokens_max = prompt_tokens + 100;
    m.keys = (u64s_view_t){keys, (prompt_tokens - 1) / PAGE_TOKENS};
    scene_send(scene, gateway, MESSAGE_route, &m);
    return scene_take(scene, gateway, MESSAGE_routed);
}

static void test_every_pair_is_decided(void **state)
{
    (void)state;
    assert_int_equal(actor_type_check(&scheduler_type, &message_table, stderr), 0);
}

static void test_no_instance_before_one_reports(void **state)
{
    assert_int_equal(route(*state, 1, 300, 1000, 0)->outcome, ROUTE_NO_INSTANCE);
}

/* Bug report R11: load counted too late sends all long prompts to the first worker. */
static void test_load_counts_before_anything_is_answered(void **state)
{
    scene_t *scene = *state;
    uint32_t given[4] = {0};

    all_report(scene);
    for (uint64_t i = 0; i < 12; i++)
        given[scene->topology.actors[route(scene, i, 4000, 1000 * (i + 1), 0)->prefill].instance]++;
    for (int i = 1; i < 4; i++)
        assert_int_equal(given[i], given[0]);
}

static void test_holder_of_the_prefix_wins_until_it_is_swamped(void **state)
{
    scene_t *scene = *state;
    actor_id_t holder;

    all_report(scene);
    holder = route(scene, 1, 4000, 1000, 0)->prefill;
    all_report(scene);
    report(scene, ACTOR_PREFILL, (uint16_t)0, (message_instance_t){.opened = 1});
    assert_int_equal(holder, scene_actor(scene, ACTOR_PREFILL, 0));
    assert_int_equal(route(scene, 2, 4001, 1000, 0)->prefill, holder);
    report(scene, ACTOR_PREFILL, 0, (message_instance_t){.opened = 2, .queued_tokens = 100000});
    assert_int_not_equal(route(scene, 3, 4001, 1000, 0)->prefill, holder);
}

/* R16 of docs/bugs.md. */
static void test_dead_holder_is_forgotten(void **state)
{
    scene_t *scene = *state;

    all_report(scene);
    assert_int_equal(route(scene, 1, 4000, 1000, 0)->prefill, scene_actor(scene, ACTOR_PREFILL, 0));
    scene_exited(scene, scene_actor(scene, ACTOR_PREFILL, 0), 1);
    assert_int_equal(route(scene, 2, 4000, 1000, 0)->prefill, scene_actor(scene, ACTOR_PREFILL, 1));
}

static void test_decode_with_most_room_wins(void **state)
{
    scene_t *scene = *state;

    all_report(scene);
    report(scene, ACTOR_DECODE, 0, (message_instance_t){.pages_free = 10});
    assert_int_equal(route(scene, 1, 300, 1000, 0)->decode, scene_actor(scene, ACTOR_DECODE, 1));
}

static void test_full_queues_refuse_the_new_but_never_a_replay(void **state)
{
    scene_t *scene = *state;

    all_report(scene);
    for (uint16_t i = 0; i < 4; i++)
        report(scene, ACTOR_PREFILL, i, (message_instance_t){.queued = 4});
    assert_int_equal(route(scene, 1, 300, 1000, 0)->outcome, ROUTE_OVERLOADED);
    assert_int_equal(route(scene, 1, 300, 1000, 1)->outcome, ROUTE_OK);
}

static void test_what_no_instance_can_ever_hold_is_too_large(void **state)
{
    scene_t *scene = *state;

    all_report(scene);
    assert_int_equal(route(scene, 1, 64 * PAGE_TOKENS, 1000, 0)->outcome, ROUTE_TOO_LARGE);
}

/* Whoever is busy or away may hold it, in whichever order the groups stand. */
static void test_what_a_busy_or_absent_instance_holds_is_not_too_large(void **state)
{
    scene_t *scene = *state;
    const uint32_t prompt = 64 * PAGE_TOKENS + 1;

    for (uint16_t large = 0; large < 4; large++) {
        all_report(scene);
        assert_int_equal(route(scene, 1, prompt, 1000, 0)->outcome, ROUTE_TOO_LARGE);
        report(scene, ACTOR_PREFILL, large, (message_instance_t){.pages = 100, .queued = 4});
        /* Decode says more than prefill where both cannot. */
        assert_int_equal(route(scene, 2, prompt, 1000, 0)->outcome, ROUTE_TOO_LARGE);
        report(scene, ACTOR_DECODE, 1, (message_instance_t){.pages = 100});
        assert_int_equal(route(scene, 3, prompt, 1000, 0)->outcome, ROUTE_OVERLOADED);
        assert_int_equal(route(scene, 4, prompt, 1000, 1)->outcome, ROUTE_OK);
        scene_exited(scene, scene_actor(scene, ACTOR_PREFILL, large), 1);
        assert_int_equal(route(scene, 5, prompt, 1000, 0)->outcome, ROUTE_NO_INSTANCE);
        capture_up_set(scene->capture, scene_actor(scene, ACTOR_PREFILL, large), true);
        all_report(scene);
        scene_exited(scene, scene_actor(scene, ACTOR_DECODE, 1), 1);
        capture_up_set(scene->capture, scene_actor(scene, ACTOR_DECODE, 1), true);
    }
}

static void test_transfers_take_turns(void **state)
{
    scene_t *scene = *state;
    actor_id_t first;

    all_report(scene);
    first = route(scene, 1, 300, 1000, 0)->transfer;
    assert_int_not_equal(route(scene, 2, 300, 2000, 0)->transfer, first);
    capture_up_set(scene->capture, first, false);
    assert_int_not_equal(route(scene, 3, 300, 3000, 0)->transfer, first);
}

#define SCENE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair_is_decided),
        SCENE_TEST(test_no_instance_before_one_reports),
        SCENE_TEST(test_load_counts_before_anything_is_answered),
        SCENE_TEST(test_holder_of_the_prefix_wins_until_it_is_swamped),
        SCENE_TEST(test_dead_holder_is_forgotten),
        SCENE_TEST(test_decode_with_most_room_wins),
        SCENE_TEST(test_full_queues_refuse_the_new_but_never_a_replay),
        SCENE_TEST(test_what_no_instance_can_ever_hold_is_too_large),
        SCENE_TEST(test_what_a_busy_or_absent_instance_holds_is_not_too_large),
        SCENE_TEST(test_transfers_take_turns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
