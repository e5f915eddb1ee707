#include "sim/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ENDS_US = 60 * PLAY_SECOND_US, /* a bound on what plays wait for, in virtual time */
    ANSWER_MEAN = 1 << 20,         /* so that answers end by their length */
};

const schedule_t schedules[] = {
#define SCHEDULE_ROW(name, topology, text) {#name, topology, text, play_##name},
    SCHEDULE_TABLE(SCHEDULE_ROW)
#undef SCHEDULE_ROW
};
const uint32_t schedule_count = COUNT_OF(schedules);

const schedule_t *schedule_find(const char *name)
{
    for (uint32_t i = 0; i < schedule_count; i++) {
        size_t k = 0;

        while (name[k] &&
               (name[k] == schedules[i].name[k] || (name[k] == '-' && schedules[i].name[k] == '_')))
            k++;
        if (!name[k] && !schedules[i].name[k])
            return &schedules[i];
    }
    return NULL;
}

static void find_actors(play_t *play)
{
    play->supervisor = play_actor(play, ACTOR_SUPERVISOR, 0);
    play->gateway = play_actor(play, ACTOR_GATEWAY, 0);
    play->scheduler = play_actor(play, ACTOR_SCHEDULER, 0);
    play->prefill = play_actor(play, ACTOR_PREFILL, 0);
    play->decode = play_actor(play, ACTOR_DECODE, 0);
    play->transfer = play_actor(play, ACTOR_TRANSFER, 0);
}

status_t schedule_play(const schedule_t *schedule, uint64_t seed, FILE *trace, coverage_t *coverage,
                       char violation[WORLD_VIOLATION_BYTES])
{
    static topology_errors_t errors;
    play_t *play = calloc(1, sizeof(*play));
    char file[PATH_BYTES_MAX];
    status_t status;

    violation[0] = '\0';
    if (!play)
        return FAIL(STATUS_NO_MEMORY, "a schedule");
    snprintf(file, sizeof(file), "topology/examples/%s.yaml", schedule->topology);
    status = topology_load(file, &play->topology, &errors);
    if (status == STATUS_OK) {
        play->config = (world_config_t){.topology = &play->topology,
                                        .requests = play->requests,
                                        .seed = seed,
                                        .answer_mean = ANSWER_MEAN,
                                        .met = coverage ? coverage->met : NULL,
                                        .trace = trace};
        find_actors(play);
        schedule->play(play);
        if (!world_violation(play->world))
            (void)world_finish(play->world);
        if (world_violation(play->world))
            snprintf(violation, WORLD_VIOLATION_BYTES, "%s", world_violation(play->world));
        world_close(play->world);
    }
    free(play);
    return status;
}

/* ---- for plays ------------------------------------------------------------------------------- */

world_request_t *play_ask(play_t *play, uint64_t arrives_us, uint32_t prompt_tokens,
                          uint32_t output_tokens_max)
{
    world_request_t *request = &play->requests[play->config.clients++];

    ASSERT(play->config.clients <= WORLD_CLIENTS_MAX && !play->world);
    *request = (world_request_t){.arrives_us = arrives_us,
                                 .prompt_tokens = prompt_tokens,
                                 .output_tokens_max = output_tokens_max};
    if (prompt_tokens > play->config.prompt_tokens_max)
        play->config.prompt_tokens_max = prompt_tokens;
    if (output_tokens_max > play->config.answer_tokens_max)
        play->config.answer_tokens_max = output_tokens_max;
    return request;
}

void play_begin(play_t *play)
{
    play->world = world_open(&play->config);
}

bool play_to(play_t *play, actor_id_t actor, uint16_t message)
{
    if (world_run_to(play->world, actor, message))
        return true;
    world_violate(play->world, "schedule: %s never got %s",
                  world_topology(play->world)->actors[actor].name,
                  message_table.rows[message].name);
    return false;
}

bool play_for(play_t *play, uint64_t us)
{
    uint64_t end = sim_now_us(world_sim(play->world)) + us;

    while (sim_now_us(world_sim(play->world)) < end)
        if (!world_step(play->world))
            return false;
    return true;
}

bool play_to_ends(play_t *play)
{
    if (!world_run(play->world, ENDS_US))
        return false;
    if (!world_all_ended(play->world))
        world_violate(play->world, "schedule: not every client has its end in time");
    return world_all_ended(play->world);
}

actor_id_t play_actor(const play_t *play, actor_kind_t kind, uint16_t instance)
{
    return topology_actor(&play->topology, kind, instance)->id;
}

actor_id_t play_rank(const play_t *play, actor_kind_t leader, uint16_t instance, uint16_t rank)
{
    return topology_rank(&play->topology, leader, instance, rank)->id;
}

incarnation_t play_life(const play_t *play, actor_id_t actor)
{
    return sim_incarnation(world_sim(play->world), actor);
}

static const dispatch_t *dispatch_of(const play_t *play, actor_id_t actor)
{
    const dispatch_t *dispatch = sim_dispatch(world_sim(play->world), actor);

    ASSERT(dispatch != NULL); /* a play looks only at who lives */
    return dispatch;
}

bool play_is(const play_t *play, actor_id_t actor, uint32_t n, uint32_t attempt, const char *state)
{
    const dispatch_t *dispatch = dispatch_of(play, actor);
    /* as its gateway numbers them */
    uint64_t request = (uint64_t)play->gateway << 52 | UINT64_C(1) << 40 | n;
    uint8_t found = dispatch->type->attempt_state(dispatch->self, request, attempt);

    return strcmp(dispatch->type->attempts.state_names[found], state) == 0;
}

uint64_t play_refused(const play_t *play, actor_id_t actor, uint16_t message)
{
    return dispatch_of(play, actor)->refused[message];
}

bool play_is_degraded(const play_t *play, actor_id_t actor)
{
    return oracle_is_degraded(world_oracle(play->world), actor);
}

const gateway_counts_t *play_gateway(const play_t *play)
{
    return gateway_counts(dispatch_of(play, play->gateway)->self);
}

const leader_counts_t *play_prefill(const play_t *play)
{
    return leader_counts(dispatch_of(play, play->prefill)->self);
}

const leader_counts_t *play_decode(const play_t *play)
{
    return leader_counts(dispatch_of(play, play->decode)->self);
}
