#include "actors/gateway/outlook.h"

/* A request takes one of each. */
static const char *const needed[TOPOLOGY_KIND_COUNT] = {
    [TOPOLOGY_SCHEDULER] = "no scheduler is left: it was restarted too often and stays down",
    [TOPOLOGY_PREFILL] = "no prefill group is left: all were restarted too often and stay down",
    [TOPOLOGY_DECODE] = "no decode group is left: all were restarted too often and stay down",
    [TOPOLOGY_TRANSFER] = "no transfer is left: all were restarted too often and stay down",
};

void outlook_init(outlook_t *outlook, const topology_t *topology)
{
    *outlook = (outlook_t){.count = topology->actor_count};
    for (uint16_t i = 0; i < outlook->count; i++) {
        outlook->kinds[i] = topology->actors[i].kind;
        outlook->leaders[i] = topology->actors[i].leader;
    }
}

uint16_t outlook_leader(const outlook_t *outlook, uint16_t actor)
{
    return outlook->leaders[actor] == TOPOLOGY_NONE ? actor : outlook->leaders[actor];
}

/* A group is no better than any of its ranks. */
static bool is_left(const outlook_t *outlook, uint16_t actor)
{
    for (uint16_t i = 0; i < outlook->count; i++)
        if (outlook->down[i] && outlook_leader(outlook, i) == actor)
            return false;
    return true;
}

bool outlook_lose(outlook_t *outlook, uint16_t actor)
{
    uint16_t kind = outlook->kinds[outlook_leader(outlook, actor)];

    if (outlook->down[actor])
        return false;
    outlook->down[actor] = true;
    for (uint16_t i = 0; i < outlook->count; i++)
        if (outlook->kinds[i] == kind && is_left(outlook, i))
            return true;
    if (needed[kind])
        outlook->hopeless = kind;
    return true;
}

const char *outlook_hopeless(const outlook_t *outlook)
{
    return needed[outlook->hopeless];
}

uint64_t outlook_wait_ms(uint32_t vain)
{
    static const uint32_t waits[] = {0, 0, 0, 0, 100, 200, 400, 800};
    const uint32_t last = COUNT_OF(waits) - 1;

    return waits[vain < last ? vain : last];
}
