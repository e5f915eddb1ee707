#include "sim/phase.h"

#include <string.h>

#include "actors/gateway/gateway.h"

const char *const phase_names[PHASE_COUNT] = {
#define PHASE_NAME(name, text) #name,
    PHASE_TABLE(PHASE_NAME)
#undef PHASE_NAME
};

/* What an attempt's state in an actor says. */
static const struct {
    actor_kind_t kind;
    const char *state;
    phase_t phase;
} says[] = {
    {ACTOR_PREFILL, "queued", PHASE_queued},         {ACTOR_PREFILL, "reserving", PHASE_reserving},
    {ACTOR_PREFILL, "prefilling", PHASE_prefilling}, {ACTOR_PREFILL, "handing", PHASE_handing},
    {ACTOR_PREFILL, "ending", PHASE_ending},         {ACTOR_DECODE, "opening", PHASE_reserving},
    {ACTOR_DECODE, "landing", PHASE_reserving}, /* prefill says whether chunks run */
    {ACTOR_DECODE, "running", PHASE_running},        {ACTOR_DECODE, "ending", PHASE_ending},
};

static phase_t phase_at(const dispatch_t *dispatch, uint64_t request, uint32_t attempt)
{
    const actor_type_t *type = dispatch->type;
    uint8_t state = type->attempt_state(dispatch->self, request, attempt);

    for (uint32_t i = 0; i < COUNT_OF(says); i++)
        if (says[i].kind == type->kind &&
            strcmp(says[i].state, type->attempts.state_names[state]) == 0)
            return says[i].phase;
    return PHASE_coming;
}

phase_t phase_of(world_t *world, uint32_t index)
{
    const topology_t *topology = world_topology(world);
    const world_client_t *client = world_client(world, index);
    const dispatch_t *gateway = sim_dispatch(world_sim(world), world_gateway_of(world, index));
    phase_t phase = PHASE_waiting, running = PHASE_coming;
    uint64_t request;
    uint32_t attempt;

    if (!gateway || !gateway_find(gateway->self, client->id, &request, &attempt))
        return client->ended ? PHASE_ended : PHASE_coming;
    for (uint32_t i = 0; i < topology->actor_count; i++) {
        const dispatch_t *leader = sim_dispatch(world_sim(world), (actor_id_t)i);
        bool prefills = topology->actors[i].kind == ACTOR_PREFILL;
        phase_t found;

        if (!leader || (!prefills && topology->actors[i].kind != ACTOR_DECODE))
            continue;
        found = phase_at(leader, request, attempt);
        if (found == PHASE_running)
            running = found; /* prefill may still wait for FENCED of its source */
        else if (found > phase)
            phase = found;
    }
    return running == PHASE_running ? running : phase;
}
