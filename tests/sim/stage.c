#include "tests/sim/stage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/log.h"

bool stage_is_long(void)
{
    const char *value = getenv("LOCKSTEP_LONG");

    return value && strcmp(value, "1") == 0;
}

uint32_t stage_stride(uint32_t brief)
{
    if (stage_is_long())
        return 1;
#ifdef __OPTIMIZE__
    return brief;
#else
    return 8 * brief;
#endif
}

static topology_t told;
static topology_errors_t errors;

topology_t *stage_topology(const char *name)
{
    char file[128];

    log_level_set(LOG_ERROR);
    world_keep_memory();
    snprintf(file, sizeof(file), "topology/examples/%s.yaml", name);
    assert_int_equal(topology_load(file, &told, &errors), STATUS_OK);
    return &told;
}

topology_t *stage_topology_text(const char *text)
{
    log_level_set(LOG_ERROR);
    world_keep_memory();
    assert_int_equal(topology_parse(text, strlen(text), "text.yaml", &told, &errors), STATUS_OK);
    return &told;
}

world_t *stage_open(const topology_t *topology, const world_request_t *requests, uint32_t count)
{
    world_config_t config = {
        .topology = topology, .seed = 1, .clients = count, .requests = requests};

    for (uint32_t i = 0; i < count; i++) {
        if (requests[i].prompt_tokens > config.prompt_tokens_max)
            config.prompt_tokens_max = requests[i].prompt_tokens;
        if (requests[i].output_tokens_max > config.answer_tokens_max)
            config.answer_tokens_max = requests[i].output_tokens_max;
    }
    return world_open(&config);
}

void stage_finish(world_t *world)
{
    if (!world_finish(world))
        fail_msg("%s", world_violation(world));
    world_close(world);
}

actor_id_t stage_actor(const world_t *world, actor_kind_t kind, uint16_t instance)
{
    return topology_actor(world_topology(world), kind, instance)->id;
}

actor_id_t stage_rank(const world_t *world, actor_kind_t leader, uint16_t instance, uint16_t rank)
{
    return topology_rank(world_topology(world), leader, instance, rank)->id;
}

void stage_run_to(world_t *world, actor_id_t actor, uint16_t id)
{
    if (!world_run_to(world, actor, id))
        fail_msg("%s never handled %s: %s", world_topology(world)->actors[actor].name,
                 message_table.rows[id].name,
                 world_violation(world) ? world_violation(world) : "time is over");
}

void stage_run_for(world_t *world, uint64_t us)
{
    uint64_t end = sim_now_us(world_sim(world)) + us;

    while (sim_now_us(world_sim(world)) < end)
        if (!world_step(world))
            fail_msg("%s", world_violation(world));
}

const leader_counts_t *stage_decode(world_t *world)
{
    return leader_counts(sim_dispatch(world_sim(world), stage_actor(world, ACTOR_DECODE, 0))->self);
}

const leader_counts_t *stage_prefill(world_t *world)
{
    return leader_counts(
        sim_dispatch(world_sim(world), stage_actor(world, ACTOR_PREFILL, 0))->self);
}
