/* types.c - see types.h: the table of all kinds of actors; the one file here that knows them all. */
#include "actors/types.h"

#include "actors/decode/decode.h"
#include "actors/gateway/gateway.h"
#include "actors/monitor/monitor.h"
#include "actors/prefill/prefill.h"
#include "actors/rank/rank.h"
#include "actors/scheduler/scheduler.h"
#include "actors/supervisor/supervisor.h"
#include "actors/transfer/transfer.h"

const actor_type_t *actor_type_of(actor_kind_t kind)
{
    switch (kind) {
    case ACTOR_SUPERVISOR:
        return &supervisor_type;
    case ACTOR_GATEWAY:
        return &gateway_type;
    case ACTOR_SCHEDULER:
        return &scheduler_type;
    case ACTOR_PREFILL:
        return &prefill_type;
    case ACTOR_DECODE:
        return &decode_type;
    case ACTOR_RANK:
        return &rank_type;
    case ACTOR_TRANSFER:
        return &transfer_type;
    case ACTOR_MONITOR:
        return &monitor_type;
    default:
        return NULL;
    }
}
