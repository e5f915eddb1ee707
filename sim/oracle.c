/* oracle.c - the ledger's tables, and who is told of what. */
#include "sim/oracle.h"

#include <stdlib.h>
#include <string.h>

#include "actors/decode/decode.h"
#include "actors/gateway/gateway.h"
#include "actors/prefill/prefill.h"
#include "actors/supervisor/supervisor.h"
#include "actors/transfer/transfer.h"
#include "sim/ledger.h"

enum { ATTEMPTS_AT_FIRST = 256, TITLES = 4, TITLE_BYTES_MAX = 64 };

/* ---- tables ---------------------------------------------------------------------------------- */

void *ledger_grow(void *memory, uint32_t *max, uint32_t count, size_t size)
{
    uint32_t before = *max;

    if (count <= before)
        return memory;
    while (*max < count)
        *max = *max ? 2 * *max : 8;
    memory = realloc(memory, *max * size);
    ASSERT(memory != NULL);
    memset((char *)memory + before * size, 0, (*max - before) * size);
    return memory;
}

static map_t *make_map(const oracle_t *oracle)
{
    map_t *map = calloc(1, map_bytes(oracle->attempt_max)); /* as map_init wants it */

    ASSERT(map != NULL);
    map_init(map, oracle->attempt_max);
    for (uint32_t i = 0; i < oracle->attempt_count; i++)
        map_put(map, oracle->attempts[i].request, oracle->attempts[i].number, i);
    return map;
}

ledger_attempt_t *ledger_attempt(oracle_t *oracle, uint64_t request, uint32_t number)
{
    uint32_t index = map_get(oracle->by_name, request, number);

    if (index != MAP_NONE)
        return &oracle->attempts[index];
    if (oracle->attempt_count == oracle->attempt_max) {
        oracle->attempts = ledger_grow(oracle->attempts, &oracle->attempt_max,
                                       oracle->attempt_count + 1, sizeof(*oracle->attempts));
        free(oracle->by_name);
        oracle->by_name = make_map(oracle);
    }
    index = oracle->attempt_count++;
    oracle->attempts[index] =
        (ledger_attempt_t){.request = request, .number = number, .gateway = ACTOR_NONE};
    map_put(oracle->by_name, request, number, index);
    return &oracle->attempts[index];
}

const char *ledger_name(const oracle_t *oracle, actor_id_t actor)
{
    return actor < oracle->actor_count ? oracle->topology->actors[actor].name : "a port";
}

const char *ledger_title(const ledger_attempt_t *attempt)
{
    static char titles[TITLES][TITLE_BYTES_MAX];
    static uint32_t turn;
    char *title = titles[turn++ % TITLES];

    snprintf(title, TITLE_BYTES_MAX, "request %llu, attempt %u",
             (unsigned long long)attempt->seniority.counter, attempt->number);
    return title;
}

actor_kind_t ledger_kind(const oracle_t *oracle, actor_id_t actor)
{
    return actor < oracle->actor_count ? (actor_kind_t)oracle->topology->actors[actor].kind
                                       : ACTOR_PORT;
}

bool ledger_lives(const oracle_t *oracle, actor_id_t actor, incarnation_t life)
{
    return oracle->actors[actor].lives && oracle->actors[actor].life == life;
}

bool ledger_reaches(const oracle_t *oracle, actor_id_t actor, actor_id_t peer, incarnation_t life)
{
    const stream_t *stream = sim_stream(oracle->sim, actor, peer);

    return stream && stream->state == STREAM_UP && stream->peer_incarnation == life &&
           oracle->met[actor * oracle->actor_count + peer] == life;
}

static void add_group(oracle_t *oracle, actor_id_t leader)
{
    const topology_actor_t *actor = &oracle->topology->actors[leader];
    const topology_group_t *shape =
        topology_group(oracle->topology, (actor_kind_t)actor->kind, actor->instance);
    ledger_group_t *group = &oracle->groups[oracle->group_count++];

    *group = (ledger_group_t){
        .leader = leader,
        .rank_count = shape->tp,
        .place = actor->kind == ACTOR_PREFILL ? AT_PREFILL : AT_DECODE,
        .unit_counts = {[UNIT_HISTORY] = shape->pages,
                        [UNIT_BORDER] = shape->borders,
                        [UNIT_SLOT] = shape->slots},
    };
    for (int kind = 0; kind < UNIT_COUNT; kind++) {
        group->units[kind] = calloc(group->unit_counts[kind] + 1, sizeof(ledger_unit_t));
        ASSERT(group->units[kind] != NULL);
    }
    oracle->actors[leader].group = group;
    for (uint32_t rank = 0; rank < group->rank_count; rank++) {
        oracle->actors[leader + 1 + rank].group = group;
        oracle->actors[leader + 1 + rank].rank = rank;
    }
}

oracle_t *oracle_open(world_t *world, sim_t *sim)
{
    oracle_t *oracle = calloc(1, sizeof(*oracle));
    const topology_t *topology = world_topology(world);
    uint32_t count = topology->actor_count;

    ASSERT(oracle != NULL);
    *oracle = (oracle_t){.world = world,
                         .sim = sim,
                         .topology = topology,
                         .actor_count = count,
                         .attempt_max = ATTEMPTS_AT_FIRST,
                         .pending_first = LEDGER_NOBODY};
    oracle->actors = calloc(count, sizeof(*oracle->actors));
    oracle->met = calloc((size_t)count * count, sizeof(*oracle->met));
    oracle->pairs = calloc((size_t)count * count, sizeof(*oracle->pairs));
    oracle->groups = calloc(count, sizeof(*oracle->groups));
    oracle->attempts = calloc(ATTEMPTS_AT_FIRST, sizeof(*oracle->attempts));
    ASSERT(oracle->actors && oracle->met && oracle->pairs && oracle->groups && oracle->attempts);
    oracle->by_name = make_map(oracle);
    ledger_stream_open(oracle);
    for (uint32_t i = 0; i < count; i++)
        if (topology->actors[i].kind == ACTOR_PREFILL || topology->actors[i].kind == ACTOR_DECODE)
            add_group(oracle, (actor_id_t)i);
    return oracle;
}

static void close_group(ledger_group_t *group)
{
    for (uint32_t i = 0; i < LEDGER_STEPS; i++)
        free(group->steps[i].items);
    for (int kind = 0; kind < UNIT_COUNT; kind++)
        free(group->units[kind]);
}

void oracle_close(oracle_t *oracle)
{
    for (uint32_t i = 0; i < oracle->attempt_count; i++) {
        free(oracle->attempts[i].prefixes);
        for (int place = 0; place < LEDGER_PLACES; place++)
            free(oracle->attempts[i].openings[place].pages);
    }
    for (uint32_t i = 0; i < oracle->group_count; i++)
        close_group(&oracle->groups[i]);
    for (uint32_t i = 0; i < oracle->actor_count * oracle->actor_count; i++) {
        if (oracle->pairs[i])
            free(oracle->pairs[i]->ring);
        free(oracle->pairs[i]);
    }
    free(oracle->actors);
    free(oracle->met);
    free(oracle->pairs);
    free(oracle->groups);
    free(oracle->attempts);
    free(oracle->by_name);
    free(oracle);
}

/* ---- what is told ---------------------------------------------------------------------------- */

/* What was due in the event before. */
static void settle(oracle_t *oracle)
{
    if (oracle->pending_first != LEDGER_NOBODY)
        ledger_attempt_settle(oracle);
    if (oracle->sender)
        ledger_group_settle(oracle);
}

void oracle_received(oracle_t *oracle, actor_id_t actor, const envelope_t *envelope)
{
    settle(oracle);
    ledger_stream_heard(oracle, actor, envelope);
    ledger_attempt_heard(oracle, actor, envelope);
    ledger_group_heard(oracle, actor, envelope);
}

void oracle_pushed(oracle_t *oracle, actor_id_t actor, actor_id_t to, uint16_t id, const void *body)
{
    ledger_attempt_said(oracle, actor, to, id, body); /* who knows most speaks first */
    ledger_group_said(oracle, actor, to, id, body);
    if (to < oracle->actor_count)
        ledger_stream_said(oracle, actor, to, id);
}

void oracle_event(oracle_t *oracle, const sim_event_t *event)
{
    settle(oracle);
    switch (event->kind) {
    case SIM_STARTED:
    case SIM_DIED:
        ledger_stream_lived(oracle, event->actor, event->kind == SIM_STARTED);
        break;
    case SIM_DISPATCHED:
        if (oracle->actors[event->actor].group &&
            oracle->actors[event->actor].group->leader == event->actor)
            ledger_page_count(oracle, oracle->actors[event->actor].group);
        break;
    case SIM_WAITED:
        world_violate(oracle->world, "wait: %s has %u messages and handles none",
                      ledger_name(oracle, event->actor), sim_depth(oracle->sim, event->actor));
        break;
    case SIM_OTHER:
        break;
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

static void expect_zero(const oracle_t *oracle, actor_id_t actor, const char *what, uint64_t found)
{
    if (found != 0)
        world_violate(oracle->world, "leak: %s still has %llu %s when everything has ended",
                      ledger_name(oracle, actor), (unsigned long long)found, what);
}

static void judge_gateway(const oracle_t *oracle, actor_id_t actor, const void *self)
{
    const gateway_counts_t *counts = gateway_counts(self);

    expect_zero(oracle, actor, "requests", counts->live);
    expect_zero(oracle, actor, "tokens that came twice and differed", counts->differing);
}

static void judge_prefill(const oracle_t *oracle, actor_id_t actor, const void *self)
{
    const leader_counts_t *counts = leader_counts(self);

    expect_zero(oracle, actor, "attempts", counts->live);
    expect_zero(oracle, actor, "pages held", counts->pages_held);
    expect_zero(oracle, actor, "first tokens that differed", counts->differing);
}

static void judge_decode(const oracle_t *oracle, actor_id_t actor, const void *self)
{
    const leader_counts_t *counts = leader_counts(self);

    expect_zero(oracle, actor, "attempts", counts->live);
    expect_zero(oracle, actor, "pages held", counts->pages_held);
    expect_zero(oracle, actor, "first tokens that differed", counts->differing);
}

static void judge_actor(const oracle_t *oracle, actor_id_t actor, const void *self)
{
    switch (ledger_kind(oracle, actor)) {
    case ACTOR_GATEWAY:
        judge_gateway(oracle, actor, self);
        break;
    case ACTOR_PREFILL:
        judge_prefill(oracle, actor, self);
        break;
    case ACTOR_DECODE:
        judge_decode(oracle, actor, self);
        break;
    case ACTOR_TRANSFER:
        expect_zero(oracle, actor, "attempts", transfer_live(self));
        break;
    default:
        break;
    }
}

bool oracle_is_degraded(const oracle_t *oracle, actor_id_t actor)
{
    const topology_actor_t *supervisor =
        topology_actor(oracle->topology, ACTOR_SUPERVISOR, oracle->topology->actors[actor].host);
    const dispatch_t *dispatch = sim_dispatch(oracle->sim, supervisor->id);
    incarnation_t incarnation;

    return dispatch && supervisor_child(dispatch->self, actor, &incarnation) == CHILD_DEGRADED;
}

/* A group is no better than any of its ranks. */
static bool is_left(const oracle_t *oracle, actor_id_t actor)
{
    const topology_actor_t *actors = oracle->topology->actors;

    for (uint32_t i = 0; i < oracle->actor_count; i++)
        if ((i == actor || actors[i].leader == actor) && oracle_is_degraded(oracle, (actor_id_t)i))
            return false;
    return true;
}

bool oracle_is_hopeless(const oracle_t *oracle)
{
    uint32_t kinds_left = 0;

    for (uint32_t i = 0; i < oracle->actor_count; i++)
        if (is_left(oracle, (actor_id_t)i))
            kinds_left |= BIT(oracle->topology->actors[i].kind);
    return (~kinds_left & (BIT(ACTOR_SCHEDULER) | BIT(ACTOR_PREFILL) | BIT(ACTOR_DECODE) |
                           BIT(ACTOR_TRANSFER))) != 0;
}

void oracle_everything_is_free(oracle_t *oracle)
{
    settle(oracle);
    ledger_attempt_close(oracle);
    ledger_stream_close(oracle);
    for (uint32_t i = 0; i < oracle->actor_count; i++) {
        const dispatch_t *dispatch = sim_dispatch(oracle->sim, (actor_id_t)i);

        if (dispatch)
            judge_actor(oracle, (actor_id_t)i, dispatch->self);
        else if (!oracle_is_degraded(oracle, (actor_id_t)i))
            world_violate(oracle->world, "liveness: %s is not alive at the end",
                          ledger_name(oracle, (actor_id_t)i));
    }
    for (uint32_t i = 0; i < oracle->group_count; i++)
        ledger_page_count(oracle, &oracle->groups[i]);
}
