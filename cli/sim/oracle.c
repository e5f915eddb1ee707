#include "cli/sim/oracle.h"

#include "actors/decode/decode.h"
#include "actors/gateway/gateway.h"
#include "actors/prefill/prefill.h"
#include "actors/transfer/transfer.h"

static void expect_zero(world_t *world, actor_id_t actor, const char *what, uint64_t found)
{
    if (found != 0)
        world_violate(world, "leak: %s still has %llu %s when everything has ended",
                      world_topology(world)->actors[actor].name, (unsigned long long)found, what);
}

static void expect_equal(world_t *world, actor_id_t actor, const char *what, uint64_t opened,
                         uint64_t found)
{
    if (opened != found)
        world_violate(world, "fence: %s opened %llu attempts and %s %llu",
                      world_topology(world)->actors[actor].name, (unsigned long long)opened, what,
                      (unsigned long long)found);
}

static void judge_gateway(world_t *world, actor_id_t actor, const void *self)
{
    const gateway_counts_t *counts = gateway_counts(self);

    expect_zero(world, actor, "requests", counts->live);
    expect_zero(world, actor, "tokens that came twice and differed", counts->differing);
}

static void judge_prefill(world_t *world, actor_id_t actor, const void *self)
{
    const prefill_counts_t *counts = prefill_counts(self);

    expect_zero(world, actor, "attempts", counts->live);
    expect_zero(world, actor, "pages held", counts->pages_held);
    expect_zero(world, actor, "first tokens that differed", counts->differing);
    expect_equal(world, actor, "ended", counts->opened, counts->ended);
    expect_equal(world, actor, "fenced", counts->opened, counts->fenced);
}

static void judge_decode(world_t *world, actor_id_t actor, const void *self)
{
    const decode_counts_t *counts = decode_counts(self);

    expect_zero(world, actor, "attempts", counts->live);
    expect_zero(world, actor, "pages held", counts->pages_held);
    expect_zero(world, actor, "first tokens that differed", counts->differing);
    expect_equal(world, actor, "ended", counts->opened, counts->ended);
    expect_equal(world, actor, "fenced", counts->opened, counts->fenced);
}

void oracle_everything_is_free(world_t *world)
{
    const topology_t *topology = world_topology(world);

    for (uint32_t i = 0; i < topology->actor_count; i++) {
        const dispatch_t *dispatch = sim_dispatch(world_sim(world), (actor_id_t)i);
        actor_id_t actor = (actor_id_t)i;

        if (!dispatch) {
            world_violate(world, "liveness: %s is not alive at the end", topology->actors[i].name);
            return;
        }
        switch ((topology_kind_t)topology->actors[i].kind) {
        case TOPOLOGY_GATEWAY:
            judge_gateway(world, actor, dispatch->self);
            break;
        case TOPOLOGY_PREFILL:
            judge_prefill(world, actor, dispatch->self);
            break;
        case TOPOLOGY_DECODE:
            judge_decode(world, actor, dispatch->self);
            break;
        case TOPOLOGY_TRANSFER:
            expect_zero(world, actor, "attempts", transfer_live(dispatch->self));
            break;
        default:
            break;
        }
    }
}
