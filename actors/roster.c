#include "actors/roster.h"

#include <string.h>

void roster_init(roster_t *roster, const topology_t *topology)
{
    memset(roster, 0, sizeof(*roster));
    roster->count = topology->actor_count;
    for (uint32_t i = 0; i < roster->count; i++) {
        const topology_actor_t *actor = &topology->actors[i];

        memcpy(roster->actors[i].name, actor->name, sizeof(actor->name));
        roster->actors[i].kind = (actor_kind_t)actor->kind;
        roster->actors[i].leader =
            actor->kind == ACTOR_RANK ? (actor_id_t)actor->leader : (actor_id_t)ACTOR_NONE;
        roster->actors[i].host = actor->host;
    }
}
