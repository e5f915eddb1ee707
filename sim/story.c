#include "sim/story.h"

#include <stdlib.h>
#include <string.h>

#include "actors/roster.h"
#include "messages/message.h"
#include "device/symbolic/symbolic.h"

enum {
    STORY_US_MAX = 2000000, /* requests come within this */
    PROMPT_TOKENS_DRAWN = 1500,
    OUTPUT_TOKENS_DRAWN = 60,
    REQUESTS_FEW = 12, /* most stories */
    FAULTS_DRAWN = 5,
    LULL_US = 400000,         /* a fault may come so long behind the last request */
    BEHIND_US = 3000,         /* the second of a pair */
    PHASE_US = 4000,          /* into a phase */
    STALL_US = 9000000,       /* this is waited for */
    STALL_US_LONG = 11000000, /* this is not */
    CUT_US = 500000,
    CUT_US_LONG = 12000000, /* who does not leave an epoch for so long is killed */
    PAUSE_US = 30000000,
    SHUFFLE_US = 20000,
    LATE_US = 3000000,
    DRAIN_US = 5000000,
    DRAIN_MS = 1000,
    CREDIT_DRAWN = 4,
    DEADLINE_MS = 2000,
    DRAIN_US_LONG = 15000000,
    SLOW_MAX = 40,
    FLIPS_MAX = 2, /* three could end a request as poisoned, by the rules */
    PAGES_SPARE = 32,
    SLOTS_DRAWN = 8,
    STREAMS_DRAWN = 4,
    BORDERS_DRAWN = 4,
    TICK_US = 50000,
    TRIES = 20, /* for an actor that fits a fault */
    BEGINNINGS = 3,
};

const char *const fault_names[FAULT_COUNT] = {
#define FAULT_NAME(name, text) #name,
    FAULT_TABLE(FAULT_NAME)
#undef FAULT_NAME
};

/* ---- drawing --------------------------------------------------------------------------------- */

/* Every order of magnitude is as likely as any other. */
static uint64_t draw_long(random_t *random, uint64_t max)
{
    uint64_t bound = max;

    for (uint64_t halvings = random_below(random, 16); halvings > 0 && bound > 2; halvings--)
        bound /= 2;
    return 1 + random_below(random, bound);
}

/* Lengths at and around page ends show what lengths in between hide. */
static uint32_t draw_length(random_t *random, uint32_t max)
{
    uint32_t length = 1 + (uint32_t)random_below(random, max);

    if (random_below(random, 3) == 0 && max > PAGE_TOKENS) {
        uint32_t pages = 1 + (uint32_t)random_below(random, max / PAGE_TOKENS);

        length = pages * PAGE_TOKENS - 1 + (uint32_t)random_below(random, 3);
    }
    return length > max ? max : length;
}

static void draw_requests(story_t *story, random_t *random)
{
    uint32_t prompt_max = 1 + (uint32_t)random_below(random, PROMPT_TOKENS_DRAWN);
    uint32_t output_max = 1 + (uint32_t)random_below(random, OUTPUT_TOKENS_DRAWN);
    uint64_t spread_us = draw_long(random, STORY_US_MAX);

    story->request_count = random_below(random, 8) == 0
                               ? STORY_REQUESTS_MAX
                               : 1 + (uint32_t)random_below(random, REQUESTS_FEW);
    for (uint32_t i = 0; i < story->request_count; i++) {
        story_request_t *request = &story->requests[i];

        *request = (story_request_t){
            .arrives_us = random_below(random, spread_us + 1),
            .prompt_tokens = draw_length(random, prompt_max),
            .output_tokens_max = 1 + (uint32_t)random_below(random, output_max),
            .beginning = (uint32_t)random_below(random, BEGINNINGS),
            .own = random_next(random),
            .sampling_seed = random_next(random),
            .warm = (uint32_t)random_below(random, 2),
        };
        if (random_below(random, 8) == 0)
            request->deadline_ms = (uint32_t)draw_long(random, DEADLINE_MS);
        if (random_below(random, BEGINNINGS + 1) > 0)
            request->shared_tokens = (uint32_t)random_below(random, request->prompt_tokens + 1);
    }
}

/* So few pages that the largest request still fits alone, with the test page. */
static uint32_t pages_needed(const story_t *story)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < story->request_count; i++) {
        const story_request_t *request = &story->requests[i];
        uint32_t tokens = request->prompt_tokens + request->output_tokens_max;

        most = tokens > most ? tokens : most;
    }
    return 2 + most / PAGE_TOKENS;
}

static void draw_bounds(story_t *story, random_t *random)
{
    if (random_below(random, 2) == 0) /* memory runs out */
        story->pages = pages_needed(story) + (uint32_t)random_below(random, PAGES_SPARE);
    story->slots = 1 + (uint32_t)random_below(random, SLOTS_DRAWN);
    if (random_below(random, 8) == 0)
        story->streams = 1 + (uint32_t)random_below(random, STREAMS_DRAWN);
    if (random_below(random, 2) == 0)
        story->chunk_tokens = (uint32_t)PAGE_TOKENS << random_below(random, 3);
    if (random_below(random, 2) == 0)
        story->border_every = 1 + (uint32_t)random_below(random, BORDERS_DRAWN);
    story->tick_us = (uint64_t)TICK_US << random_below(random, 2);
    story->drain_ms = (uint32_t)draw_long(random, DRAIN_MS);
    if (random_at(story->seed, 3) % 4 == 0)
        story->credit = 1 + (uint32_t)(random_at(story->seed, 4) % CREDIT_DRAWN);
    if (random_at(story->seed, 5) % 16 == 0)
        story->poisoned = 1 + (uint32_t)(random_at(story->seed, 6) % story->request_count);
}

static bool fits(fault_kind_t kind, uint16_t actor)
{
    bool is_rank = actor == ACTOR_RANK;

    if (kind == FAULT_drain)
        return actor == ACTOR_PREFILL || actor == ACTOR_DECODE;
    if (kind == FAULT_slow || kind == FAULT_shuffle || kind == FAULT_flip)
        return is_rank;
    return kind == FAULT_cut || actor != ACTOR_SUPERVISOR;
}

/* Half of the time by kind first: of 64 ranks the one scheduler is seldom drawn. */
static const topology_actor_t *draw_actor(random_t *random, const topology_t *topology,
                                          fault_kind_t kind)
{
    const topology_actor_t *found = &topology->actors[0];
    uint16_t wanted = (uint16_t)random_below(random, 2 * ACTOR_PLACED_KINDS);

    for (uint32_t tries = 0; tries < TRIES * ACTOR_PLACED_KINDS; tries++) {
        found = &topology->actors[random_below(random, topology->actor_count)];
        if (fits(kind, found->kind) &&
            (wanted >= ACTOR_PLACED_KINDS || wanted == found->kind || tries > TRIES))
            break;
    }
    return found;
}

static void draw_when(const story_t *story, story_fault_t *fault, random_t *random,
                      uint64_t last_us)
{
    uint64_t chance = random_below(random, 8);

    if (chance < 3 && story->fault_count > 0) {
        fault->when = WHEN_behind;
        fault->after_us = draw_long(random, BEHIND_US);
    } else if (chance < 6) {
        fault->when = WHEN_phase;
        fault->phase = (uint8_t)(PHASE_waiting + random_below(random, PHASE_ended - PHASE_waiting));
        fault->request = 1 + (uint32_t)random_below(random, story->request_count);
        fault->after_us = draw_long(random, PHASE_US) - 1;
    } else {
        fault->after_us = random_below(random, last_us + LULL_US);
    }
}

static void draw_flip(story_fault_t *fault, random_t *random)
{
    fault->unit = (uint8_t)random_below(random, UNIT_COUNT);
    fault->index = (uint32_t)random_below(random, UINT32_MAX);
    fault->word = (uint32_t)random_below(random, SYMBOLIC_WORDS);
    fault->number = (uint32_t)random_below(random, 64);
}

static void draw_what(const story_t *story, story_fault_t *fault, random_t *random)
{
    switch ((fault_kind_t)fault->kind) {
    case FAULT_stall:
        fault->us = random_below(random, 4) == 0 ? STALL_US_LONG : draw_long(random, STALL_US);
        break;
    case FAULT_cut:
        fault->us = random_below(random, 8) == 0 ? CUT_US_LONG : draw_long(random, CUT_US);
        break;
    case FAULT_abort:
        if (fault->when != WHEN_phase)
            fault->request = 1 + (uint32_t)random_below(random, story->request_count);
        fault->number = (uint32_t)random_below(random, 2);
        break;
    case FAULT_pause:
        fault->us = draw_long(random, PAUSE_US);
        break;
    case FAULT_slow:
        fault->number = 2 + (uint32_t)random_below(random, SLOW_MAX);
        break;
    case FAULT_shuffle:
        fault->us = draw_long(random, SHUFFLE_US);
        break;
    case FAULT_late:
        fault->when = WHEN_time;
        fault->after_us = 0;
        fault->us = draw_long(random, LATE_US);
        break;
    case FAULT_drain:
    case FAULT_down:
        fault->us = random_below(random, 8) == 0 ? DRAIN_US_LONG : draw_long(random, DRAIN_US);
        break;
    case FAULT_flip:
        draw_flip(fault, random);
        break;
    default:
        break;
    }
}

static void draw_peer(story_fault_t *fault, random_t *random, const topology_t *topology,
                      const topology_actor_t *actor)
{
    static roster_t roster;
    const topology_actor_t *other = actor;

    roster_init(&roster, topology);
    for (uint32_t tries = 0; tries < TRIES * ACTOR_PLACED_KINDS; tries++) {
        other = &topology->actors[random_below(random, topology->actor_count)];
        if (roster_are_peers(&roster, &message_table, actor->id, other->id))
            break;
    }
    memcpy(fault->other, other->name, sizeof(fault->other));
}

static bool is_of_nobody(const story_fault_t *fault)
{
    return fault->kind == FAULT_abort || fault->kind == FAULT_pause || fault->kind == FAULT_down;
}

static void draw_who(story_fault_t *fault, random_t *random, const topology_t *topology)
{
    const topology_actor_t *actor;

    if (is_of_nobody(fault))
        return;
    actor = draw_actor(random, topology, (fault_kind_t)fault->kind);
    memcpy(fault->actor, actor->name, sizeof(fault->actor));
    if (fault->kind == FAULT_cut)
        draw_peer(fault, random, topology, actor);
}

static void draw_faults(story_t *story, random_t *random, const topology_t *topology)
{
    uint32_t count = (uint32_t)random_below(random, FAULTS_DRAWN + 1), flips = 0;
    uint64_t last_us = 0;

    for (uint32_t i = 0; i < story->request_count; i++)
        if (story->requests[i].arrives_us > last_us)
            last_us = story->requests[i].arrives_us;
    for (uint32_t i = 0; i < count && story->fault_count + 2 <= STORY_FAULTS_MAX; i++) {
        story_fault_t fault = {.kind = (uint8_t)random_below(random, FAULT_COUNT)};

        if (fault.kind == FAULT_flip && (story->poisoned || flips++ == FLIPS_MAX))
            continue;
        if (fault.kind == FAULT_down && random_below(random, 3) > 0)
            continue; /* the end of all is the end of a story */
        draw_when(story, &fault, random, last_us);
        draw_what(story, &fault, random);
        draw_who(&fault, random, topology);
        story->faults[story->fault_count++] = fault;
        if (fault.kind == FAULT_down && random_below(random, 3) == 0) /* somebody cannot wait */
            story->faults[story->fault_count++] = (story_fault_t){
                .kind = FAULT_down, .when = WHEN_behind, .after_us = draw_long(random, DRAIN_US)};
    }
}

void story_draw(story_t *story, uint64_t seed, const topology_t *topology)
{
    random_t random;

    memset(story, 0, sizeof(*story));
    random_init(&random, random_at(seed, 1));
    story->seed = seed;
    draw_requests(story, &random);
    draw_bounds(story, &random);
    draw_faults(story, &random, topology);
}

/* ---- as a value ------------------------------------------------------------------------------ */

uint32_t story_requests(const story_t *story)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < story->request_count; i++)
        count += story->requests[i].output_tokens_max > 0;
    return count;
}

static void keep_first(uint16_t *count, uint32_t wanted)
{
    if (wanted > 0 && wanted < *count)
        *count = (uint16_t)wanted;
}

static void narrow(topology_group_t *groups, uint32_t count, uint32_t tp)
{
    for (uint32_t i = 0; i < count; i++) {
        if (tp == 0 || tp >= groups[i].tp)
            continue;
        groups[i].tp = (uint16_t)tp;
        groups[i].device_count = (uint16_t)tp;
    }
}

/* With fewer of some kind it is printed and read again, so that it is whole and valid. */
static bool reduce(const story_t *story, topology_t *topology)
{
    static topology_errors_t errors;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    status_t status;

    ASSERT(out != NULL);
    keep_first(&topology->gateway_count, story->gateways);
    keep_first(&topology->prefill_count, story->prefills);
    keep_first(&topology->decode_count, story->decodes);
    keep_first(&topology->transfer_count, story->transfers);
    narrow(topology->prefills, topology->prefill_count, story->tp);
    narrow(topology->decodes, topology->decode_count, story->tp);
    topology_print(topology, out);
    (void)fclose(out);
    status = topology_parse(text, bytes, topology->file, topology, &errors);
    free(text);
    return status == STATUS_OK;
}

bool story_topology(const story_t *story, const topology_t *file, topology_t *topology)
{
    *topology = *file;
    if ((story->gateways || story->prefills || story->decodes || story->transfers || story->tp) &&
        !reduce(story, topology))
        return false;
    for (uint32_t i = 0; story->streams > 0 && i < topology->gateway_count; i++)
        topology->gateways[i].streams_max = story->streams;
    for (uint32_t i = 0; story->chunk_tokens > 0 && i < topology->prefill_count; i++)
        topology->prefills[i].chunk_tokens = story->chunk_tokens;
    if (story->border_every > 0)
        topology->border_every = story->border_every;
    if (story->drain_ms > 0)
        topology->drain_timeout_ms = story->drain_ms;
    return true;
}
