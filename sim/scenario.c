#include "sim/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "messages/message.h"

enum {
    PLANT_STEPS_MAX = 30,
    PATIENCE_US = 10000000, /* for an end, after the last fault, while slow ones stay slow */
};

typedef struct run run_t;

/* A fault whose time is known; the context of its timer. */
typedef struct {
    run_t *run;
    const story_fault_t *fault;
} due_t;

struct run {
    const scenario_t *scenario;
    const story_t *story;
    world_t *world;
    uint32_t waiting; /* faults, as bits, that wait for a phase */
    uint32_t due;     /* faults whose timer runs */
    uint32_t struck;
    uint64_t struck_us; /* the last one */
    due_t dues[STORY_FAULTS_MAX];
};

/* ---- faults ---------------------------------------------------------------------------------- */

/* ACTOR_NONE: nobody of that name. */
static actor_id_t actor_named(const run_t *run, const char *name)
{
    const topology_actor_t *actor = topology_actor_by_name(world_topology(run->world), name);

    return actor ? actor->id : (actor_id_t)ACTOR_NONE;
}

static const topology_group_t *group_of_rank(const topology_t *topology, actor_id_t rank)
{
    const topology_actor_t *leader = &topology->actors[topology->actors[rank].leader];

    return topology_group(topology, (actor_kind_t)leader->kind, leader->instance);
}

static void flip(run_t *run, const story_fault_t *fault, actor_id_t rank)
{
    device_t *device = world_device(run->world, rank);
    const topology_group_t *group;
    uint32_t counts[UNIT_COUNT];
    uint32_t unit = fault->unit % UNIT_COUNT;

    world_allow_flips(run->world);
    if (!device)
        return;
    group = group_of_rank(world_topology(run->world), rank);
    counts[UNIT_HISTORY] = group->pages - 1;
    counts[UNIT_BORDER] = group->borders;
    counts[UNIT_SLOT] = group->slots;
    /* A pair whose test page is wrong is refused, rightly. */
    symbolic_flip(device, (unit_kind_t)unit, (unit == UNIT_HISTORY) + fault->index % counts[unit],
                  fault->word % SYMBOLIC_WORDS, fault->number % 64);
}

/* A group that starts late: its leader and all its ranks. */
static void delay(run_t *run, const story_fault_t *fault, actor_id_t actor)
{
    const topology_t *topology = world_topology(run->world);

    for (uint32_t i = 0; i < topology->actor_count; i++)
        if (i == actor || topology->actors[i].leader == actor)
            world_delay_start(run->world, (actor_id_t)i, fault->us);
}

static void strike_actor(run_t *run, const story_fault_t *fault, actor_id_t actor)
{
    world_t *world = run->world;
    uint16_t kind = world_topology(world)->actors[actor].kind;
    bool is_rank = kind == ACTOR_RANK;
    actor_id_t other = actor_named(run, fault->other);

    if (fault->kind == FAULT_kill)
        world_kill(world, actor);
    else if (fault->kind == FAULT_stall)
        world_stall(world, actor, fault->us);
    else if (fault->kind == FAULT_cut && other != ACTOR_NONE)
        world_cut(world, actor, other, fault->us);
    else if (fault->kind == FAULT_late)
        delay(run, fault, actor);
    else if (fault->kind == FAULT_drain && (kind == ACTOR_PREFILL || kind == ACTOR_DECODE))
        world_drain(world, actor, fault->us);
    else if (fault->kind == FAULT_slow && is_rank)
        world_slow(world, actor, fault->number);
    else if (fault->kind == FAULT_shuffle && is_rank)
        world_shuffle(world, actor, fault->us);
    else if (fault->kind == FAULT_flip && is_rank)
        flip(run, fault, actor);
}

static void strike(run_t *run, const story_fault_t *fault)
{
    actor_id_t actor = actor_named(run, fault->actor);

    run->struck++;
    run->struck_us = sim_now_us(world_sim(run->world));
    if (run->scenario->coverage)
        coverage_note_fault(run->scenario->coverage, fault, run->world);
    if (run->scenario->chronicle)
        chronicle_fault(run->scenario->chronicle, run->world, fault);
    if (fault->kind == FAULT_pause)
        sim_pause(world_sim(run->world), fault->us);
    else if (fault->kind == FAULT_down)
        world_down(run->world, fault->us);
    else if (fault->kind == FAULT_abort && fault->request - 1 < world_client_count(run->world))
        (fault->number == 1 ? world_stop : world_abort)(run->world, fault->request - 1);
    else if (actor != ACTOR_NONE)
        strike_actor(run, fault, actor);
}

/* ---- their times ----------------------------------------------------------------------------- */

static void on_due(void *context, sim_t *sim);

static void schedule(run_t *run, uint32_t index)
{
    const story_fault_t *fault = &run->story->faults[index];

    run->due++;
    run->dues[index] = (due_t){run, fault};
    if (fault->after_us == 0) /* before anything else happens */
        on_due(&run->dues[index], world_sim(run->world));
    else
        sim_after(world_sim(run->world), fault->after_us, on_due, &run->dues[index]);
}

static void on_due(void *context, sim_t *sim)
{
    const due_t *due = context;
    run_t *run = due->run;
    uint32_t next = (uint32_t)(due->fault - run->story->faults) + 1;

    (void)sim;
    strike(run, due->fault);
    run->due--;
    if (next < run->story->fault_count && run->story->faults[next].when == WHEN_behind)
        schedule(run, next);
}

static void begin(run_t *run)
{
    for (uint32_t i = 0; i < run->story->fault_count; i++) {
        const story_fault_t *fault = &run->story->faults[i];

        if (fault->when == WHEN_phase && fault->request - 1 < world_client_count(run->world))
            run->waiting |= BIT(i);
        else if (fault->when == WHEN_time)
            schedule(run, i);
    }
}

/* Only what an actor handled moves a request. */
static void look_at_phases(run_t *run)
{
    for (uint32_t i = 0; run->waiting >> i; i++) {
        const story_fault_t *fault = &run->story->faults[i];

        if (!(run->waiting & BIT(i)) || phase_of(run->world, fault->request - 1) != fault->phase)
            continue;
        run->waiting &= ~BIT(i);
        schedule(run, i);
    }
}

static bool step(run_t *run)
{
    if (!world_step(run->world))
        return false;
    if (run->waiting && world_last(run->world).kind == SIM_DISPATCHED)
        look_at_phases(run);
    return true;
}

/* ---- plants of the device -------------------------------------------------------------------- */

static bool is_in_device(plant_t kind)
{
    return kind != PLANT_none && !plant_is_code(kind);
}

/* In a rank that is about to run a step. */
static void plant(run_t *run, plant_t kind, actor_id_t rank, random_t *random)
{
    device_t *device = world_device(run->world, rank);

    if (kind == PLANT_bit_flip) {
        for (uint32_t page = 1; page < group_of_rank(world_topology(run->world), rank)->pages;
             page++)
            symbolic_flip(device, UNIT_HISTORY, page, 1, (uint32_t)random_below(random, 64));
    } else if (kind == PLANT_wrong_token) {
        symbolic_mistake(device, 1);
    }
}

/* At one of the first steps of any rank. */
static bool run_to_plant(run_t *run, random_t *random)
{
    uint64_t steps = 1 + random_below(random, PLANT_STEPS_MAX);

    while (steps > 0 && !world_all_ended(run->world)) {
        sim_event_t last;

        if (!step(run))
            return false;
        last = world_last(run->world);
        steps -= last.kind == SIM_DISPATCHED && last.message == MESSAGE_step;
        if (steps == 0)
            plant(run, run->scenario->plant, last.actor, random);
    }
    return true;
}

/* ---- a run ----------------------------------------------------------------------------------- */

static bool play(run_t *run)
{
    random_t random;

    begin(run);
    if (is_in_device(run->scenario->plant)) {
        random_init(&random, random_at(run->story->seed, 3));
        if (!run_to_plant(run, &random))
            return false;
    }
    while (run->due > 0 || !world_all_ended(run->world)) {
        uint64_t now = sim_now_us(world_sim(run->world));

        if (run->due == 0 && now > run->struck_us + PATIENCE_US)
            break;
        if (!step(run))
            return false;
    }
    return world_finish(run->world);
}

static void configure(world_config_t *config, const scenario_t *scenario, const story_t *story,
                      const topology_t *topology)
{
    *config = (world_config_t){
        .topology = topology,
        .seed = random_at(story->seed, 2),
        .clients = story->request_count,
        .load = story->requests,
        .pages_max = story->pages,
        .slots_max = story->slots,
        .without_checks = plant_is_code(scenario->plant), /* there the oracles must see it alone */
        .credit_messages = story->credit,
        .tick_us = story->tick_us,
        .poisoned = story->poisoned,
        .trace = scenario->trace,
        .met = scenario->coverage ? scenario->coverage->met : NULL,
        .chronicle = scenario->chronicle,
        .journal = scenario->journal,
    };
    for (uint32_t i = 0; i < story->request_count; i++) {
        const story_request_t *request = &story->requests[i];

        if (request->prompt_tokens > config->prompt_tokens_max)
            config->prompt_tokens_max = request->prompt_tokens;
        if (request->output_tokens_max > config->answer_tokens_max)
            config->answer_tokens_max = request->output_tokens_max;
    }
}

void scenario_run(const scenario_t *scenario, scenario_result_t *result)
{
    static topology_t topology;
    static story_t drawn;
    run_t run = {.scenario = scenario, .story = scenario->story};
    world_config_t config;

    memset(result, 0, sizeof(*result));
    if (!run.story) {
        story_draw(&drawn, scenario->seed, scenario->topology);
        if (is_in_device(scenario->plant))
            drawn.fault_count = 0; /* what is found is the plant's */
        run.story = &drawn;
    }
    if (!story_topology(run.story, scenario->topology, &topology)) {
        snprintf(result->violation, sizeof(result->violation), "story: there is no such topology");
        return;
    }
    configure(&config, scenario, run.story, &topology);
    run.world = world_open(&config);
    result->passed = play(&run);
    if (!result->passed)
        memcpy(result->violation, world_violation(run.world),
               strlen(world_violation(run.world)) + 1);
    result->digest = sim_digest(world_sim(run.world));
    result->events = sim_event_count(world_sim(run.world));
    result->virtual_us = sim_now_us(world_sim(run.world));
    result->requests = story_requests(run.story);
    result->faults = run.struck;
    if (!result->passed && scenario->trace)
        sim_print(world_sim(run.world), scenario->trace);
    world_close(run.world);
}
