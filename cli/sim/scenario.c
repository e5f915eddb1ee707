#include "cli/sim/scenario.h"

#include <string.h>

#include "messages/message.h"

enum {
    CLIENTS_SMALL = 12, /* most stories */
    CLIENTS_LARGE = 64, /* one in eight */
    FAULTS_MAX = 4,
    STORY_US = 3000000, /* faults fall within this */
    STALL_US_MAX = 15000000,
    CUT_US_MAX = 500000,
    PAUSE_US_MAX = 30000000,
    SLOW_MAX = 40,
    FLIPS_MAX = 2, /* three could end a request as poisoned, by the rules */
    PAGES_SPARE_MAX = 32,
    SLOTS_MAX_DRAWN = 8,
    PLANT_STEPS_MAX = 30,
};

typedef enum {
    FAULT_KILL,
    FAULT_ABORT,
    FAULT_STALL,
    FAULT_CUT,
    FAULT_PAUSE,
    FAULT_SLOW,
    FAULT_FLIP,
    FAULT_KINDS
} fault_kind_t;

/* An actor that is no supervisor. */
static actor_id_t draw_actor(world_t *world, random_t *random)
{
    const topology_t *topology = world_topology(world);
    actor_id_t actor;

    do {
        actor = (actor_id_t)random_below(random, topology->actor_count);
    } while (topology->actors[actor].kind == TOPOLOGY_SUPERVISOR);
    return actor;
}

static const topology_group_t *group_of_rank(world_t *world, actor_id_t rank)
{
    const topology_t *topology = world_topology(world);
    const topology_actor_t *leader = &topology->actors[topology->actors[rank].leader];

    return topology_group(topology, (topology_kind_t)leader->kind, leader->instance);
}

static void flip_somewhere(world_t *world, random_t *random)
{
    actor_id_t actor = draw_actor(world, random);
    device_unit_t unit = (device_unit_t)random_below(random, UNIT_COUNT);
    device_t *device = world_device(world, actor);
    const topology_group_t *group;
    uint32_t counts[UNIT_COUNT];

    world_allow_flips(world);
    if (!device)
        return;
    group = group_of_rank(world, actor);
    counts[UNIT_HISTORY] = group->pages - 1;
    counts[UNIT_BORDER] = group->borders;
    counts[UNIT_SLOT] = group->slots;
    symbolic_flip(device, unit, /* a pair whose test page is wrong is refused, rightly */
                  (unit == UNIT_HISTORY) + (uint32_t)random_below(random, counts[unit]),
                  (uint32_t)random_below(random, SYMBOLIC_WORDS),
                  (uint32_t)random_below(random, 64));
}

static void strike(world_t *world, random_t *random, uint32_t *flips)
{
    switch ((fault_kind_t)random_below(random, FAULT_KINDS)) {
    case FAULT_KILL:
        world_kill(world, draw_actor(world, random));
        break;
    case FAULT_ABORT:
        world_abort(world, (uint32_t)random_below(random, world_client_count(world)));
        break;
    case FAULT_STALL:
        world_stall(world, draw_actor(world, random), 1 + random_below(random, STALL_US_MAX));
        break;
    case FAULT_CUT:
        world_cut(world, draw_actor(world, random), draw_actor(world, random),
                  1 + random_below(random, CUT_US_MAX));
        break;
    case FAULT_SLOW:
        world_slow(world, draw_actor(world, random), 2 + (uint32_t)random_below(random, SLOW_MAX));
        break;
    case FAULT_FLIP:
        if ((*flips)++ < FLIPS_MAX)
            flip_somewhere(world, random);
        break;
    default:
        sim_pause(world_sim(world), 1 + random_below(random, PAUSE_US_MAX));
        break;
    }
}

static bool is_in_device(plant_t plant)
{
    return plant != PLANT_none && !plant_is_code(plant);
}

/* In a rank that is about to run a step. */
static void plant(world_t *world, plant_t kind, actor_id_t rank, random_t *random)
{
    device_t *device = world_device(world, rank);

    if (kind == PLANT_bit_flip) {
        for (uint32_t page = 1; page < group_of_rank(world, rank)->pages; page++)
            symbolic_flip(device, UNIT_HISTORY, page, 1, (uint32_t)random_below(random, 64));
    } else if (kind == PLANT_wrong_token) {
        symbolic_mistake(device, 1);
    }
}

static bool run_until(world_t *world, uint64_t us)
{
    while (sim_now_us(world_sim(world)) < us)
        if (!world_step(world))
            return false;
    return true;
}

static bool run_story(world_t *world, const scenario_t *scenario, random_t *random, uint32_t faults)
{
    uint64_t times[FAULTS_MAX + 1];
    uint32_t flips = 0;

    for (uint32_t i = 0; i < faults; i++) {
        times[i] = random_below(random, STORY_US);
        for (uint32_t k = i; k > 0 && times[k - 1] > times[k]; k--) {
            uint64_t swap = times[k];

            times[k] = times[k - 1];
            times[k - 1] = swap;
        }
    }
    for (uint32_t i = 0; i < faults; i++) {
        if (!run_until(world, times[i]))
            return false;
        strike(world, random, &flips);
    }
    if (is_in_device(scenario->plant)) {
        uint64_t steps = 1 + random_below(random, PLANT_STEPS_MAX);

        while (steps > 0 && !world_all_ended(world)) {
            sim_event_t last;

            if (!world_step(world))
                return false;
            last = world_last(world);
            steps -= last.kind == SIM_DISPATCHED && last.message == MESSAGE_step;
            if (steps == 0)
                plant(world, scenario->plant, last.actor, random);
        }
    }
    return world_finish(world);
}

/* So few that the largest request still fits alone, with the test page. */
static uint32_t pages_needed(const world_config_t *config)
{
    return 2 + (config->prompt_tokens_max + config->answer_tokens_max) / PAGE_TOKENS;
}

void scenario_run(const scenario_t *scenario, scenario_result_t *result)
{
    world_config_t config = {
        .topology = scenario->topology, .seed = scenario->seed, .trace = scenario->trace};
    world_t *world;
    random_t random;
    uint32_t faults;

    random_init(&random, random_at(scenario->seed, 1));
    config.clients = random_below(&random, 8) == 0 ? CLIENTS_LARGE : CLIENTS_SMALL;
    config.prompt_tokens_max = 1 + (uint32_t)random_below(&random, 1500);
    config.answer_tokens_max = 1 + (uint32_t)random_below(&random, 60);
    config.spread_us = random_below(&random, STORY_US);
    faults = (uint32_t)random_below(&random, FAULTS_MAX + 1);
    if (is_in_device(scenario->plant))
        faults = 0;                    /* what is found is the plant's */
    if (random_below(&random, 2) == 0) /* memory runs out */
        config.pages_max = pages_needed(&config) + (uint32_t)random_below(&random, PAGES_SPARE_MAX);
    config.slots_max = 1 + (uint32_t)random_below(&random, SLOTS_MAX_DRAWN);
    world = world_open(&config);
    memset(result, 0, sizeof(*result));
    result->passed = run_story(world, scenario, &random, faults);
    if (!result->passed)
        memcpy(result->violation, world_violation(world), strlen(world_violation(world)) + 1);
    result->digest = sim_digest(world_sim(world));
    result->events = sim_event_count(world_sim(world));
    result->virtual_us = sim_now_us(world_sim(world));
    result->requests = config.clients;
    result->faults = faults;
    if (!result->passed && scenario->trace)
        sim_print(world_sim(world), scenario->trace);
    world_close(world);
}
