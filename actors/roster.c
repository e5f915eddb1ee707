#include "actors/roster.h"

#include <string.h>

#include "runtime/base/check.h"

actor_kind_t roster_kind_of(topology_kind_t kind)
{
    static const actor_kind_t kinds[TOPOLOGY_KIND_COUNT] = {
        [TOPOLOGY_SUPERVISOR] = ACTOR_SUPERVISOR, [TOPOLOGY_SCHEDULER] = ACTOR_SCHEDULER,
        [TOPOLOGY_MONITOR] = ACTOR_MONITOR,       [TOPOLOGY_GATEWAY] = ACTOR_GATEWAY,
        [TOPOLOGY_PREFILL] = ACTOR_PREFILL,       [TOPOLOGY_DECODE] = ACTOR_DECODE,
        [TOPOLOGY_TRANSFER] = ACTOR_TRANSFER,     [TOPOLOGY_RANK] = ACTOR_RANK,
    };

    ASSERT((unsigned)kind < TOPOLOGY_KIND_COUNT);
    return kinds[kind];
}

void roster_init(roster_t *roster, const topology_t *topology)
{
    memset(roster, 0, sizeof(*roster));
    roster->count = topology->actor_count;
    for (uint32_t i = 0; i < roster->count; i++) {
        const topology_actor_t *actor = &topology->actors[i];

        memcpy(roster->actors[i].name, actor->name, sizeof(actor->name));
        roster->actors[i].kind = roster_kind_of((topology_kind_t)actor->kind);
        roster->actors[i].leader =
            actor->kind == TOPOLOGY_RANK ? (actor_id_t)actor->leader : (actor_id_t)ACTOR_NONE;
        roster->actors[i].host = actor->host;
    }
}
