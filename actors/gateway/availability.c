/* availability.c - see availability.h: who stays down, and how long a fruitless request waits. */
#include "actors/gateway/availability.h"

/* A request takes one of each. */
static const char *const needed[ACTOR_PLACED_KINDS] = {
    [ACTOR_SCHEDULER] = "no scheduler is left: it was restarted too often and stays down",
    [ACTOR_PREFILL] = "no prefill group is left: all were restarted too often and stay down",
    [ACTOR_DECODE] = "no decode group is left: all were restarted too often and stay down",
    [ACTOR_TRANSFER] = "no transfer is left: all were restarted too often and stay down",
};

void availability_init(availability_t *availability, const topology_t *topology)
{
    *availability = (availability_t){.count = topology->actor_count};
    for (uint16_t i = 0; i < availability->count; i++) {
        availability->kinds[i] = topology->actors[i].kind;
        availability->leaders[i] = topology->actors[i].leader;
    }
}

uint16_t availability_leader(const availability_t *availability, uint16_t actor)
{
    return availability->leaders[actor] == TOPOLOGY_NONE ? actor : availability->leaders[actor];
}

/* A group is no better than any of its ranks. */
static bool is_left(const availability_t *availability, uint16_t actor)
{
    for (uint16_t i = 0; i < availability->count; i++)
        if (availability->down[i] && availability_leader(availability, i) == actor)
            return false;
    return true;
}

bool availability_lose(availability_t *availability, uint16_t actor)
{
    uint16_t kind = availability->kinds[availability_leader(availability, actor)];

    if (availability->down[actor])
        return false;
    availability->down[actor] = true;
    for (uint16_t i = 0; i < availability->count; i++)
        if (availability->kinds[i] == kind && is_left(availability, i))
            return true;
    if (needed[kind])
        availability->hopeless = kind;
    return true;
}

const char *availability_hopeless(const availability_t *availability)
{
    return needed[availability->hopeless];
}

uint64_t availability_wait_ms(uint32_t fruitless)
{
    static const uint32_t waits[] = {0, 0, 0, 0, 100, 200, 400, 800};
    const uint32_t last = COUNT_OF(waits) - 1;

    return waits[fruitless < last ? fruitless : last];
}
