/* scheduler.c - one table of instances, and who probably holds which prefix.
 *
 * All it knows is soft: load comes from INSTANCE, holders from its own earlier choices. A restart
 * loses nothing but some cache hits, because page keys of later requests fill the table again.
 *
 * Prefill: the least work, in tokens: what is queued there, what was sent there since its last
 * report, and what of this prompt it does not hold. Affinity and balance are thus one number, and
 * a holder that is swamped loses to an idle instance exactly when recomputing is cheaper than
 * waiting. Decode: the most free pages after what was sent there since.
 *
 * S1  an answer names only instances whose stream is up and whose last report said ready.
 * S2  `recent` of an instance holds what was routed to it and is not in its reported `opened` yet.
 * S3  each ROUTE gets exactly one ROUTED, at once.
 */
#include "actors/scheduler/scheduler.h"

#include <string.h>

#include "messages/message.h"
#include "topology/topology.h"

enum { UP, SCHEDULER_STATES };

static const char *const state_names[] = {"up"};

typedef struct {
    uint32_t tokens; /* prefill: of the prompt; decode: of prompt and answer */
    uint64_t at_ms;
} recent_t;

typedef struct {
    actor_id_t actor;
    uint8_t is_up; /* joined, and reported since */
    uint8_t is_prefill;
    message_instance_t load;
    uint64_t recent_tokens;
    uint32_t recent_first;
    uint32_t recent_count;
    recent_t recent[SCHEDULER_RECENT_MAX];
} instance_t;

typedef struct {
    uint64_t key;     /* 0: empty */
    uint64_t holders; /* BIT of prefill instances */
    uint64_t used;
} holder_t;

typedef struct {
    uint8_t state;
    uint64_t now_ms;
    uint64_t uses; /* counts look-ups: the clock of the holder table */
    uint64_t routed;
    uint32_t next_transfer;
    uint32_t prefill_count;
    uint32_t decode_count;
    uint32_t transfer_count;
    uint32_t queued_max;
    actor_id_t transfers[INSTANCES_MAX];
    instance_t prefills[INSTANCES_MAX];
    instance_t decodes[INSTANCES_MAX];
    holder_t holders[SCHEDULER_KEYS_SETS][SCHEDULER_KEYS_WAYS];
} scheduler_t;

static instance_t *instance_of(scheduler_t *self, actor_id_t actor)
{
    for (uint32_t i = 0; i < self->prefill_count; i++)
        if (self->prefills[i].actor == actor)
            return &self->prefills[i];
    for (uint32_t i = 0; i < self->decode_count; i++)
        if (self->decodes[i].actor == actor)
            return &self->decodes[i];
    return NULL;
}

/* ---- what was sent there since its last report ----------------------------------------------- */

static void recent_drop(instance_t *instance)
{
    instance->recent_tokens -= instance->recent[instance->recent_first].tokens;
    instance->recent_first = (instance->recent_first + 1) % SCHEDULER_RECENT_MAX;
    instance->recent_count--;
}

static void recent_add(instance_t *instance, uint32_t tokens, uint64_t now_ms)
{
    if (instance->recent_count == SCHEDULER_RECENT_MAX)
        recent_drop(instance);
    instance->recent[(instance->recent_first + instance->recent_count) % SCHEDULER_RECENT_MAX] =
        (recent_t){tokens, now_ms};
    instance->recent_count++;
    instance->recent_tokens += tokens;
}

/* ---- who holds which prefix ------------------------------------------------------------------ */

static holder_t *holder_find(scheduler_t *self, uint64_t key)
{
    holder_t *set = self->holders[key % SCHEDULER_KEYS_SETS];

    for (uint32_t way = 0; way < SCHEDULER_KEYS_WAYS; way++)
        if (set[way].key == key)
            return &set[way];
    return NULL;
}

static void holder_add(scheduler_t *self, uint64_t key, uint32_t prefill)
{
    holder_t *set = self->holders[key % SCHEDULER_KEYS_SETS];
    holder_t *holder = holder_find(self, key);

    if (!holder) {
        holder = &set[0];
        for (uint32_t way = 1; way < SCHEDULER_KEYS_WAYS; way++)
            if (set[way].used < holder->used)
                holder = &set[way];
        *holder = (holder_t){.key = key};
    }
    holder->holders |= UINT64_C(1) << prefill;
    holder->used = self->uses;
}

/* Pages of the prompt that the instance probably holds, from the front. */
static uint32_t pages_held(scheduler_t *self, const message_route_t *m, uint32_t prefill)
{
    uint32_t pages = 0;

    while (pages < m->keys.count && (pages + 1) * PAGE_TOKENS <= m->prompt_tokens) {
        const holder_t *holder = holder_find(self, m->keys.data[pages]);

        if (!holder || !(holder->holders >> prefill & 1))
            break;
        pages++;
    }
    return pages;
}

/* ---- choices --------------------------------------------------------------------------------- */

static bool is_ready(const instance_t *instance, const outbox_t *outbox)
{
    return instance->is_up && instance->load.ready && outbox_is_up(outbox, instance->actor);
}

/* All that it has is enough. Before its first report nobody knows. */
static bool may_hold(const instance_t *instance, uint64_t tokens)
{
    return instance->load.pages == 0 || (uint64_t)instance->load.pages * PAGE_TOKENS >= tokens;
}

/* Sets `*outcome` to why there is none: TOO_LARGE only if none can ever hold it, whoever is busy or
 * away now. */
static instance_t *choose_prefill(scheduler_t *self, const message_route_t *m,
                                  const outbox_t *outbox, uint8_t *outcome)
{
    instance_t *best = NULL;
    uint64_t best_work = 0;

    *outcome = ROUTE_TOO_LARGE;
    for (uint32_t i = 0; i < self->prefill_count; i++) {
        instance_t *instance = &self->prefills[i];
        uint64_t work;

        if (!may_hold(instance, m->prompt_tokens))
            continue;
        if (*outcome == ROUTE_TOO_LARGE)
            *outcome = ROUTE_NO_INSTANCE;
        if (!is_ready(instance, outbox))
            continue;
        if (!m->replay && instance->load.queued + instance->recent_count >= self->queued_max) {
            *outcome = ROUTE_OVERLOADED;
            continue;
        }
        work = instance->load.queued_tokens + instance->recent_tokens + m->prompt_tokens -
               (uint64_t)pages_held(self, m, i) * PAGE_TOKENS;
        if (!best || work < best_work) {
            best = instance;
            best_work = work;
        }
    }
    return best;
}

static instance_t *choose_decode(scheduler_t *self, const message_route_t *m,
                                 const outbox_t *outbox, uint8_t *outcome)
{
    instance_t *best = NULL;
    int64_t best_free = 0;

    *outcome = ROUTE_TOO_LARGE;
    for (uint32_t i = 0; i < self->decode_count; i++) {
        instance_t *instance = &self->decodes[i];
        int64_t tokens_free;

        if (!may_hold(instance, m->total_tokens_max))
            continue;
        *outcome = ROUTE_NO_INSTANCE;
        if (!is_ready(instance, outbox))
            continue;
        tokens_free =
            (int64_t)instance->load.pages_free * PAGE_TOKENS - (int64_t)instance->recent_tokens;
        if (!best || tokens_free > best_free) {
            best = instance;
            best_free = tokens_free;
        }
    }
    return best;
}

static actor_id_t choose_transfer(scheduler_t *self, const outbox_t *outbox)
{
    for (uint32_t i = 0; i < self->transfer_count; i++) {
        actor_id_t transfer = self->transfers[self->next_transfer++ % self->transfer_count];

        if (outbox_is_up(outbox, transfer))
            return transfer;
    }
    return ACTOR_NONE;
}

static status_t on_route(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    scheduler_t *self = arg;
    const message_route_t *m = envelope->body;
    message_routed_t routed = {.request = m->request,
                               .attempt = m->attempt,
                               .prefill = ACTOR_NONE,
                               .decode = ACTOR_NONE};
    uint8_t outcome, of_decode;
    instance_t *prefill = choose_prefill(self, m, outbox, &outcome);
    instance_t *decode = choose_decode(self, m, outbox, &of_decode);

    self->uses++;
    if (prefill || of_decode == ROUTE_TOO_LARGE)
        outcome = of_decode;
    routed.transfer = choose_transfer(self, outbox);
    if (prefill && decode && routed.transfer == ACTOR_NONE)
        outcome = ROUTE_NO_INSTANCE;
    if (prefill && decode && routed.transfer != ACTOR_NONE) {
        uint32_t number = (uint32_t)(prefill - self->prefills);
        uint32_t held = pages_held(self, m, number);

        outcome = ROUTE_OK;
        routed.prefill = prefill->actor;
        routed.decode = decode->actor;
        recent_add(prefill, m->prompt_tokens - held * PAGE_TOKENS, self->now_ms);
        recent_add(decode, m->total_tokens_max, self->now_ms);
        for (uint32_t i = 0; i < m->keys.count; i++)
            holder_add(self, m->keys.data[i], number);
        self->routed++;
    }
    routed.outcome = outcome;
    outbox_push(outbox, envelope->from, MESSAGE_routed, &routed);
    return STATUS_OK;
}

/* ---- instances ------------------------------------------------------------------------------- */

static status_t on_instance(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    scheduler_t *self = arg;
    const message_instance_t *m = envelope->body;
    instance_t *instance = instance_of(self, envelope->from);
    uint64_t opened;

    (void)outbox;
    for (uint32_t i = 0; i < self->transfer_count; i++)
        if (self->transfers[i] == envelope->from)
            return STATUS_OK; /* that its stream is up says enough */
    if (!instance)
        return FAIL(STATUS_UNEXPECTED, "actor %u is no instance of this topology", envelope->from);
    opened = instance->is_up ? m->opened - instance->load.opened : m->opened;
    while (opened-- > 0 && instance->recent_count > 0)
        recent_drop(instance);
    instance->load = *m;
    instance->is_up = 1;
    return STATUS_OK;
}

static status_t on_exited(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    scheduler_t *self = arg;
    const message_exited_t *m = envelope->body;
    instance_t *instance = instance_of(self, m->actor);

    (void)outbox;
    if (!instance)
        return STATUS_OK;
    instance->is_up = 0;
    instance->recent_first = instance->recent_count = 0;
    instance->recent_tokens = 0;
    if (instance->is_prefill) {
        uint64_t mask = ~(UINT64_C(1) << (instance - self->prefills));

        for (uint32_t set = 0; set < SCHEDULER_KEYS_SETS; set++)
            for (uint32_t way = 0; way < SCHEDULER_KEYS_WAYS; way++)
                self->holders[set][way].holders &= mask; /* its device index died with it */
    }
    return STATUS_OK;
}

static void recent_age(instance_t *instance, uint64_t now_ms)
{
    while (instance->recent_count > 0 &&
           instance->recent[instance->recent_first].at_ms + SCHEDULER_RECENT_MS <= now_ms)
        recent_drop(instance);
}

static status_t on_tick(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    scheduler_t *self = arg;
    const message_tick_t *m = envelope->body;

    (void)outbox;
    self->now_ms = m->now_ms;
    for (uint32_t i = 0; i < self->prefill_count; i++)
        recent_age(&self->prefills[i], self->now_ms);
    for (uint32_t i = 0; i < self->decode_count; i++)
        recent_age(&self->decodes[i], self->now_ms);
    return STATUS_OK;
}

/* Nothing to do: load comes with INSTANCE, and a scheduler that is told to stop has nothing to
 * finish. */
static status_t on_nothing(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)arg;
    (void)envelope;
    (void)outbox;
    return STATUS_OK;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const actor_rule_t rules[] = {
    {UP, MESSAGE_joined, on_nothing, BIT(UP)}, {UP, MESSAGE_exited, on_exited, BIT(UP)},
    {UP, MESSAGE_tick, on_tick, BIT(UP)},      {UP, MESSAGE_stop, on_nothing, BIT(UP)},
    {UP, MESSAGE_route, on_route, BIT(UP)},    {UP, MESSAGE_instance, on_instance, BIT(UP)},
};

static uint8_t state_of(const void *arg)
{
    return ((const scheduler_t *)arg)->state;
}

static void plan(void *arg, outbox_t *outbox)
{
    (void)arg; /* a scheduler asks nobody for anything */
    (void)outbox;
}

static void check_instance(const instance_t *instance)
{
    uint64_t tokens = 0;

    ASSERT(instance->recent_count <= SCHEDULER_RECENT_MAX);
    for (uint32_t i = 0; i < instance->recent_count; i++)
        tokens += instance->recent[(instance->recent_first + i) % SCHEDULER_RECENT_MAX].tokens;
    ASSERT(tokens == instance->recent_tokens);
}

static void check(const void *arg)
{
    const scheduler_t *self = arg;

    for (uint32_t i = 0; i < self->prefill_count; i++)
        check_instance(&self->prefills[i]);
    for (uint32_t i = 0; i < self->decode_count; i++)
        check_instance(&self->decodes[i]);
}

static status_t init(void *arg, const actor_birth_t *birth)
{
    scheduler_t *self = arg;
    const topology_t *topology = birth->topology;

    self->prefill_count = topology->prefill_count;
    self->decode_count = topology->decode_count;
    self->transfer_count = topology->transfer_count;
    for (uint16_t i = 0; i < self->prefill_count; i++) {
        self->prefills[i].actor = topology_actor(topology, ACTOR_PREFILL, i)->id;
        self->prefills[i].is_prefill = 1;
    }
    for (uint16_t i = 0; i < self->decode_count; i++)
        self->decodes[i].actor = topology_actor(topology, ACTOR_DECODE, i)->id;
    for (uint16_t i = 0; i < self->transfer_count; i++)
        self->transfers[i] = topology_actor(topology, ACTOR_TRANSFER, i)->id;
    for (uint16_t i = 0; i < topology->gateway_count; i++)
        self->queued_max += topology->gateways[i].queued_max;
    return STATUS_OK;
}

const actor_type_t scheduler_type = {
    .kind = ACTOR_SCHEDULER,
    .state_bytes = sizeof(scheduler_t),
    .init = init,
    .plan = plan,
    .state = state_of,
    .check = check,
    .table = {state_names, SCHEDULER_STATES, rules, COUNT_OF(rules), NULL, 0},
};
