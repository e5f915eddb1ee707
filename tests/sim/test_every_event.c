/* One request, and after each of its events once: its client leaves; any one actor dies. Every lease
 * comes back and no stream is wrong, whatever the event. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/sim/stage.h"

/* It comes when everybody has joined, spans pages, and takes two chunks and some steps. */
static const world_request_t request = {
    .arrives_us = 150000, .prompt_tokens = 600, .output_tokens_max = 6};

static topology_t *two_chunks(const char *name)
{
    topology_t *topology = stage_topology(name);

    topology->prefills[0].chunk_tokens = 2 * PAGE_TOKENS;
    return topology;
}

/* Its first event has happened. */
static world_t *begin(const topology_t *topology)
{
    world_t *world = stage_open(topology, &request, 1);

    while (!world_client(world, 0)->sent)
        assert_true(world_step(world));
    return world;
}

static uint32_t count_events(const topology_t *topology)
{
    world_t *world = begin(topology);
    uint32_t count = 0;

    for (; !world_all_ended(world); count++)
        assert_true(world_step(world));
    stage_finish(world);
    assert_in_range(count, 50, 10000);
    return count;
}

static world_t *begin_and_go_on(const topology_t *topology, uint32_t events)
{
    world_t *world = begin(topology);

    for (uint32_t i = 0; i < events; i++)
        assert_true(world_step(world));
    return world;
}

static void finish(world_t *world, uint32_t event, const char *what)
{
    if (!world_finish(world))
        fail_msg("%s after event %u: %s", what, event, world_violation(world));
    world_close(world);
}

static void abort_after_each(const char *name, uint32_t stride)
{
    const topology_t *topology = two_chunks(name);
    uint32_t count = count_events(topology);

    for (uint32_t event = 0; event <= count; event += stride) {
        world_t *world = begin_and_go_on(topology, event);

        world_abort(world, 0);
        finish(world, event, "abort");
    }
}

static void die_after_each(const char *name, uint32_t stride)
{
    const topology_t *topology = two_chunks(name);
    uint32_t count = count_events(topology);

    for (uint32_t actor = 0; actor < topology->actor_count; actor++) {
        if (topology->actors[actor].kind == ACTOR_SUPERVISOR)
            continue;
        for (uint32_t event = actor % stride; event <= count; event += stride) {
            world_t *world = begin_and_go_on(topology, event);

            world_kill(world, (actor_id_t)actor);
            finish(world, event, topology->actors[actor].name);
        }
    }
}

/* P6 of docs/bugs.md. */
static void test_abort_after_each_event(void **state)
{
    (void)state;
    abort_after_each("default", stage_stride(1));
}

static void test_abort_after_events_on_8_devices(void **state)
{
    (void)state;
    abort_after_each("8-devices", stage_stride(4));
}

static void test_death_of_each_actor_after_each_event(void **state)
{
    (void)state;
    die_after_each("default", stage_stride(1));
}

static void test_death_of_each_actor_after_events_on_8_devices(void **state)
{
    (void)state;
    die_after_each("8-devices", stage_stride(32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abort_after_each_event),
        cmocka_unit_test(test_abort_after_events_on_8_devices),
        cmocka_unit_test(test_death_of_each_actor_after_each_event),
        cmocka_unit_test(test_death_of_each_actor_after_events_on_8_devices),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
