/* topology.c - the actor table and the look-ups of a deployment. */
#include "topology/topology.h"

#include <string.h>

#include "topology/internal.h"

uint16_t topology_count(const topology_t *topology, actor_kind_t kind)
{
    switch (kind) {
    case ACTOR_SUPERVISOR:
        return topology->host_count;
    case ACTOR_SCHEDULER:
    case ACTOR_MONITOR:
        return 1;
    case ACTOR_GATEWAY:
        return topology->gateway_count;
    case ACTOR_PREFILL:
        return topology->prefill_count;
    case ACTOR_DECODE:
        return topology->decode_count;
    case ACTOR_TRANSFER:
        return topology->transfer_count;
    default:
        return 0; /* ranks are their groups' */
    }
}

const topology_group_t *topology_group(const topology_t *topology, actor_kind_t kind,
                                       uint16_t instance)
{
    if (kind == ACTOR_PREFILL && instance < topology->prefill_count)
        return &topology->prefills[instance];
    if (kind == ACTOR_DECODE && instance < topology->decode_count)
        return &topology->decodes[instance];
    return NULL;
}

const topology_actor_t *topology_actor_by_name(const topology_t *topology, const char *name)
{
    for (uint16_t i = 0; i < topology->actor_count; i++)
        if (strcmp(topology->actors[i].name, name) == 0)
            return &topology->actors[i];
    return NULL;
}

const topology_actor_t *topology_actor(const topology_t *topology, actor_kind_t kind,
                                       uint16_t instance)
{
    if (kind == ACTOR_RANK)
        return NULL;
    for (uint16_t i = 0; i < topology->actor_count; i++)
        if (topology->actors[i].kind == kind && topology->actors[i].instance == instance)
            return &topology->actors[i];
    return NULL;
}

const topology_actor_t *topology_rank(const topology_t *topology, actor_kind_t kind,
                                      uint16_t instance, uint16_t rank)
{
    const topology_group_t *group = topology_group(topology, kind, instance);
    const topology_actor_t *leader = topology_actor(topology, kind, instance);
    if (!group || !leader || rank >= group->tp)
        return NULL;
    return leader + 1 + rank;
}

static topology_actor_t *derive_add(topology_t *topology, actor_kind_t kind, uint16_t instance,
                                    uint16_t host)
{
    ASSERT(topology->actor_count < ACTORS_MAX);
    uint16_t id = topology->actor_count++;
    topology_actor_t *actor = &topology->actors[id];
    *actor = (topology_actor_t){.id = id,
                                .kind = (uint16_t)kind,
                                .instance = instance,
                                .rank = TOPOLOGY_NONE,
                                .host = host,
                                .device = TOPOLOGY_NONE,
                                .leader = TOPOLOGY_NONE};
    snprintf(actor->name, sizeof(actor->name), "%s/%u", actor_kind_word(kind),
             (unsigned)instance);
    return actor;
}

static void derive_group(topology_t *topology, actor_kind_t kind, uint16_t instance)
{
    const topology_group_t *group = topology_group(topology, kind, instance);
    topology_actor_t *leader = derive_add(topology, kind, instance, group->host);
    leader->leader = leader->id;
    for (uint16_t r = 0; r < group->tp; r++) {
        topology_actor_t *rank = derive_add(topology, ACTOR_RANK, instance, group->host);
        rank->rank = r;
        rank->device = group->devices[r];
        rank->leader = leader->id;
        snprintf(rank->name, sizeof(rank->name), "%s/%u/rank/%u", actor_kind_word(kind),
                 (unsigned)instance, (unsigned)r);
    }
}

uint32_t topology_actors_needed(const topology_t *topology)
{
    uint32_t count = 0;
    for (int kind = 0; kind < ACTOR_PLACED_KINDS; kind++)
        count += topology_count(topology, (actor_kind_t)kind);
    for (uint16_t i = 0; i < topology->prefill_count; i++)
        count += topology->prefills[i].tp;
    for (uint16_t i = 0; i < topology->decode_count; i++)
        count += topology->decodes[i].tp;
    return count;
}

void topology_derive_actors(topology_t *topology)
{
    ASSERT(topology_actors_needed(topology) <= ACTORS_MAX);
    topology->actor_count = 0;
    for (uint16_t i = 0; i < topology->host_count; i++)
        derive_add(topology, ACTOR_SUPERVISOR, i, i);
    derive_add(topology, ACTOR_SCHEDULER, 0, topology->scheduler.host);
    derive_add(topology, ACTOR_MONITOR, 0, topology->monitor.host);
    for (uint16_t i = 0; i < topology->gateway_count; i++)
        derive_add(topology, ACTOR_GATEWAY, i, topology->gateways[i].host);
    for (uint16_t i = 0; i < topology->prefill_count; i++)
        derive_group(topology, ACTOR_PREFILL, i);
    for (uint16_t i = 0; i < topology->decode_count; i++)
        derive_group(topology, ACTOR_DECODE, i);
    for (uint16_t i = 0; i < topology->transfer_count; i++)
        derive_add(topology, ACTOR_TRANSFER, i, topology->transfers[i].host);
}

/* ---- blocks from elsewhere -------------------------------------------------------------------- */

static bool ends(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static bool is_group(const topology_t *topology, const topology_group_t *group)
{
    return group->tp >= 1 && group->tp <= RANKS_MAX && group->host < topology->host_count &&
           group->slots <= SLOTS_MAX && group->chunk_tokens <= STEP_TOKENS_MAX;
}

/* A group's ranks follow their leader. */
static bool is_rank(const topology_t *topology, const topology_actor_t *rank)
{
    const topology_actor_t *leader = &topology->actors[rank->leader];
    const topology_group_t *group;

    if (rank->leader >= rank->id)
        return false;
    group = topology_group(topology, (actor_kind_t)leader->kind, leader->instance);
    return group && rank->rank < group->tp && rank->id == rank->leader + 1 + rank->rank;
}

static bool is_actor(const topology_t *topology, const topology_actor_t *actor)
{
    bool placed = actor->id == actor - topology->actors && actor->host < topology->host_count &&
                  actor->kind < ACTOR_PLACED_KINDS && ends(actor->name, sizeof(actor->name));

    if (!placed || actor->kind == ACTOR_RANK)
        return placed && is_rank(topology, actor);
    return actor->instance < topology_count(topology, (actor_kind_t)actor->kind);
}

static bool has_all(const topology_t *topology)
{
    for (uint32_t kind = 0; kind < ACTOR_RANK; kind++)
        for (uint16_t i = 0; i < topology_count(topology, (actor_kind_t)kind); i++) {
            const topology_actor_t *actor = topology_actor(topology, (actor_kind_t)kind, i);
            const topology_group_t *group = topology_group(topology, (actor_kind_t)kind, i);

            if (!actor || (group && (!is_group(topology, group) ||
                                     actor->id + group->tp >= topology->actor_count)))
                return false;
        }
    return true;
}

status_t topology_check(const topology_t *topology)
{
    const topology_t *t = topology;

    if (t->host_count > HOSTS_MAX || t->gateway_count > INSTANCES_MAX ||
        t->prefill_count > INSTANCES_MAX || t->decode_count > INSTANCES_MAX ||
        t->transfer_count > INSTANCES_MAX || t->actor_count > ACTORS_MAX || !has_all(t) ||
        t->context_tokens < 1 || t->context_tokens > PROMPT_TOKENS_MAX || t->border_every < 1)
        return FAIL(STATUS_CORRUPT, "a topology that no file can have");
    for (uint16_t i = 0; i < t->actor_count; i++)
        if (!is_actor(t, &t->actors[i]))
            return FAIL(STATUS_CORRUPT, "a topology whose actor %u is none", i);
    if (!ends(t->name, sizeof(t->name)) || !ends(t->model_path, sizeof(t->model_path)) ||
        !ends(t->served_name, sizeof(t->served_name)) ||
        !ends(t->incidents, sizeof(t->incidents)))
        return FAIL(STATUS_CORRUPT, "a topology with a name that does not end");
    return STATUS_OK;
}
