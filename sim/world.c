#include "sim/world.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "actors/group.h"
#include "actors/supervisor/supervisor.h"
#include "sim/device.h"
#include "sim/load.h"
#include "sim/oracle.h"
#include "sim/chronicle.h"
#include "actors/types.h"
#include "messages/message.h"

enum {
    DELAY_US_MIN = 20, /* a frame on its way */
    DELAY_US_MAX = 800,
    HANDLE_US_MAX = 20, /* a handler */
    TICK_US = 50000,
    SPAWN_US_MAX = 5000,   /* a process that starts */
    DIE_US_MAX = 2000,     /* a process that was asked to end */
    DIE_US_SLOW = 1000000, /* one that takes its time */
    RETRY_US = 100000,     /* a client that was told OVERLOADED */
    FINISH_US = 60000000,
    DOWN_US = 20000000,  /* after the time that a stop leaves */
    SETTLE_US = 2000000, /* after the last end, until every lease must be back */
    ANSWER_TOKENS = 20,
    END_TOKEN = 1,
    BORDERS = 12,
    PAGES_MAX = 160,     /* of a group: so few that they run out under load */
    MAP_BYTES = 1 << 17, /* larger blocks come zero from the system, and cost what is touched */
    SLOTS_OF_GROUP_MAX = 8,
};

/* What a timer is about; in a list so that what never ran is freed at the end. */
typedef struct job {
    world_t *world;
    actor_id_t actor;
    incarnation_t incarnation;
    uint8_t cause;
    uint32_t client;
    struct job *previous;
    struct job *next;
} job_t;

struct world {
    world_config_t config;
    roster_t roster;
    symbolic_setup_t setup;
    leader_setup_t leaders[ACTORS_MAX]; /* of leaders only */
    topology_t topology;                /* with every "auto" filled in */
    sim_t *sim;
    sim_devices_t *devices;
    world_client_t *clients;
    uint32_t open_clients;        /* not ended */
    uint64_t faults_end_us;       /* a stall lasts so long, a cut and a drain too */
    uint64_t late_us[ACTORS_MAX]; /* of the next start */
    bool going_down;
    bool closing[ACTORS_MAX]; /* a gateway that lets nobody in */
    uint64_t drained_until_us[ACTORS_MAX];
    actor_id_t drain_asked; /* the gateway that still owes an answer; ACTOR_NONE: none does */
    job_t *jobs;
    bool flips_allowed;
    oracle_t *oracle;
    sim_event_t last;
    char violation[WORLD_VIOLATION_BYTES];
};

void world_violate(world_t *world, const char *format, ...)
{
    va_list arguments;

    if (world->violation[0])
        return; /* the first one is the cause */
    va_start(arguments, format);
    vsnprintf(world->violation, sizeof(world->violation), format, arguments);
    va_end(arguments);
}

const char *world_violation(const world_t *world)
{
    return world->violation[0] ? world->violation : NULL;
}

static void job_after(world_t *world, uint64_t us, sim_timer_t *timer, job_t facts)
{
    job_t *job = malloc(sizeof(*job));

    ASSERT(job != NULL);
    *job = facts;
    job->world = world;
    job->previous = NULL;
    job->next = world->jobs;
    if (world->jobs)
        world->jobs->previous = job;
    world->jobs = job;
    sim_after(world->sim, us, timer, job);
}

static void job_return(job_t *job)
{
    if (job->previous)
        job->previous->next = job->next;
    else
        job->world->jobs = job->next;
    if (job->next)
        job->next->previous = job->previous;
    free(job);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void process_after(world_t *world, uint64_t us_min, uint64_t us_max, sim_timer_t *timer,
                          job_t job)
{
    job_after(world, us_min + 1 + sim_draw(world->sim, job.actor, us_max), timer, job);
}

static actor_id_t supervisor_of(const world_t *world, actor_id_t actor)
{
    uint16_t host = world->config.topology->actors[actor].host;

    return topology_actor(world->config.topology, ACTOR_SUPERVISOR, host)->id;
}

static bool lives(const world_t *world, actor_id_t actor, incarnation_t incarnation)
{
    return sim_is_alive(world->sim, actor) && sim_incarnation(world->sim, actor) == incarnation;
}

static void reap(world_t *world, actor_id_t actor, uint8_t cause)
{
    message_reaped_t reaped = {actor, sim_incarnation(world->sim, actor), cause, 9};

    sim_devices_stop(world->devices, actor);
    sim_post(world->sim, supervisor_of(world, actor), PORT_PROCESS, MESSAGE_reaped, &reaped, 1);
}

static void on_spawned(void *context, sim_t *sim)
{
    job_t *job = context;

    if (!sim_is_alive(sim, job->actor))
        sim_start(sim, job->actor, job->incarnation, job->cause);
    job_return(job);
}

static void on_signalled(void *context, sim_t *sim)
{
    job_t *job = context;

    if (lives(job->world, job->actor, job->incarnation)) {
        sim_kill(sim, job->actor);
        reap(job->world, job->actor, job->cause);
    }
    job_return(job);
}

static void end_process(world_t *world, actor_id_t actor, incarnation_t incarnation,
                        exit_cause_t cause)
{
    bool slow = cause == EXIT_CLEAN && sim_draw(world->sim, actor, 8) == 0;

    process_after(world, 0, slow ? DIE_US_SLOW : DIE_US_MAX, on_signalled,
                  (job_t){.actor = actor, .incarnation = incarnation, .cause = (uint8_t)cause});
}

static void on_process_port(world_t *world, uint16_t id, const void *body)
{
    if (id == MESSAGE_spawn) {
        const message_spawn_t *m = body;

        process_after(
            world, world->late_us[m->actor], SPAWN_US_MAX, on_spawned,
            (job_t){.actor = m->actor, .incarnation = m->incarnation, .cause = m->before});
        world->late_us[m->actor] = 0;
    } else if (id == MESSAGE_signal) {
        const message_signal_t *m = body;
        bool is_self = world->roster.actors[m->actor].kind == ACTOR_SUPERVISOR;

        end_process(world, m->actor,
                    is_self ? sim_incarnation(world->sim, m->actor) : m->incarnation,
                    m->hard ? EXIT_KILLED_OUTSIDE : EXIT_CLEAN);
    }
}

static void die(world_t *world, actor_id_t actor, exit_cause_t cause)
{
    if (!sim_is_alive(world->sim, actor) || world->roster.actors[actor].kind == ACTOR_SUPERVISOR)
        return;
    sim_kill(world->sim, actor);
    reap(world, actor, (uint8_t)cause);
}

void world_kill(world_t *world, actor_id_t actor)
{
    die(world, actor, EXIT_KILLED_OUTSIDE);
}

void world_crash(world_t *world, actor_id_t actor)
{
    die(world, actor, EXIT_CRASHED);
}

static void on_continued(void *context, sim_t *sim)
{
    job_t *job = context;

    if (lives(job->world, job->actor, job->incarnation))
        sim_stall(sim, job->actor, false);
    job_return(job);
}

/* What the supervisor's port sees of a progress word that stands still. */
static void on_still_stalled(void *context, sim_t *sim)
{
    job_t *job = context;
    message_stalled_t stalled = {job->actor, job->incarnation, SUPERVISOR_STALLED_MS_MAX, 1};

    if (lives(job->world, job->actor, job->incarnation))
        sim_post(sim, supervisor_of(job->world, job->actor), PORT_PROCESS, MESSAGE_stalled,
                 &stalled, 1);
    job_return(job);
}

static void fault_lasts(world_t *world, uint64_t us)
{
    uint64_t end = sim_now_us(world->sim) + us;

    if (end > world->faults_end_us)
        world->faults_end_us = end;
}

void world_stall(world_t *world, actor_id_t actor, uint64_t us)
{
    const uint64_t kill_us = SUPERVISOR_STALLED_MS_MAX * UINT64_C(1000);
    job_t job = {.actor = actor, .incarnation = sim_incarnation(world->sim, actor)};

    if (!sim_is_alive(world->sim, actor) || world->roster.actors[actor].kind == ACTOR_SUPERVISOR)
        return;
    sim_stall(world->sim, actor, true);
    job_after(world, us > kill_us ? kill_us : us, us > kill_us ? on_still_stalled : on_continued,
              job);
    fault_lasts(world, us > kill_us ? kill_us : us);
}

void world_cut(world_t *world, actor_id_t a, actor_id_t b, uint64_t us)
{
    sim_cut(world->sim, a, b, us);
    fault_lasts(world, us);
}

/* ---- clients --------------------------------------------------------------------------------- */

static actor_id_t gateway_of(const world_t *world, const world_client_t *client)
{
    uint16_t count = world->config.topology->gateway_count;

    return topology_actor(world->config.topology, ACTOR_GATEWAY, (uint16_t)(client->id % count))
        ->id;
}

static void client_send(world_t *world, world_client_t *client)
{
    message_client_request_t request = {
        .client = client->id,
        .prompt = {client->prompt, client->prompt_count},
        .limits = {.output_tokens_max = client->output_tokens_max},
        .deadline_ms = client->deadline_ms,
    };

    request.sampling =
        (record_sampling_t){.seed = client->sampling.seed,
                            .temperature = client->sampling.temperature,
                            .top_p = client->sampling.top_p,
                            .presence_penalty = client->sampling.presence_penalty,
                            .frequency_penalty = client->sampling.frequency_penalty,
                            .repetition_penalty = client->sampling.repetition_penalty};
    client->sent = sim_is_alive(world->sim, gateway_of(world, client)) &&
                   !world->closing[gateway_of(world, client)];
    if (client->sent)
        sim_post(world->sim, gateway_of(world, client), PORT_CLIENT, MESSAGE_client_request,
                 &request, 1);
}

/* A gateway that closes ends with its last answer. */
static void close_gateway_if_empty(world_t *world, actor_id_t gateway)
{
    if (!world->closing[gateway])
        return;
    for (uint32_t i = 0; i < world->config.clients; i++) {
        const world_client_t *client = &world->clients[i];

        if (client->sent && !client->ended && gateway_of(world, client) == gateway)
            return;
    }
    end_process(world, gateway, sim_incarnation(world->sim, gateway), EXIT_CLEAN);
}

static void client_ended(world_t *world, world_client_t *client, uint8_t reason)
{
    client->ended = true;
    client->end_reason = reason;
    world->open_clients--;
    close_gateway_if_empty(world, gateway_of(world, client));
}

static void on_client_comes(void *context, sim_t *sim)
{
    job_t *job = context;
    world_t *world = job->world;
    world_client_t *client = &world->clients[job->client];

    client_send(world, client);
    /* Connection refused: it comes again, if somebody may be there then. */
    if (!client->sent && !world->going_down &&
        !oracle_is_degraded(world->oracle, gateway_of(world, client))) {
        sim_after(sim, RETRY_US, on_client_comes, job);
        return;
    }
    if (!client->sent)
        client_ended(world, client, END_UNAVAILABLE);
    job_return(job);
}

static void client_comes_after(world_t *world, uint32_t client, uint64_t us)
{
    job_after(world, us, on_client_comes, (job_t){.client = client});
}

static void client_leaves(world_t *world, uint32_t index, end_reason_t reason)
{
    world_client_t *client = &world->clients[index];
    message_client_abort_t abort = {client->id, (uint8_t)reason};

    if (!client->sent || client->ended || client->aborted)
        return;
    client->aborted = true;
    sim_post(world->sim, gateway_of(world, client), PORT_CLIENT, MESSAGE_client_abort, &abort, 1);
}

void world_abort(world_t *world, uint32_t index)
{
    client_leaves(world, index, END_ABORTED);
}

void world_stop(world_t *world, uint32_t index)
{
    client_leaves(world, index, END_STOPPED);
}

static void on_client_tokens(world_t *world, world_client_t *client,
                             const message_client_tokens_t *m)
{
    if (client->ended) {
        world_violate(world, "client: tokens for %llu after its end",
                      (unsigned long long)client->id);
        return;
    }
    if (m->first != client->received) {
        world_violate(world, "client: %llu has %u tokens and gets number %u",
                      (unsigned long long)client->id, client->received, m->first);
        return;
    }
    for (uint32_t i = 0; i < m->tokens.count; i++) {
        uint32_t index = client->received;

        if (index >= client->answer_count || m->tokens.data[i].token != client->answer[index]) {
            world_violate(world, "token: client %llu, index %u of %u: expected %u, found %u",
                          (unsigned long long)client->id, index, client->answer_count,
                          index < client->answer_count ? client->answer[index] : 0,
                          m->tokens.data[i].token);
            return;
        }
        client->received++;
    }
}

/* What is kept of it must be enough to run it again. */
static void on_client_poisoned(world_client_t *client, const message_client_poisoned_t *m)
{
    client->kept = m->prompt.count == client->prompt_count &&
                   memcmp(m->prompt.data, client->prompt,
                          client->prompt_count * sizeof(*client->prompt)) == 0 &&
                   m->received.count == client->received &&
                   m->sampling.seed == client->sampling.seed &&
                   m->limits.output_tokens_max == client->output_tokens_max;
}

static void on_client_end(world_t *world, world_client_t *client, const message_client_end_t *m)
{
    if (client->ended) {
        world_violate(world, "client: %llu got a second end", (unsigned long long)client->id);
    } else if (m->reason == END_UNAVAILABLE && oracle_is_hopeless(world->oracle)) {
        client_ended(world, client, m->reason); /* nobody would answer it if it came again */
    } else if (m->reason == END_OVERLOADED || m->reason == END_UNAVAILABLE) {
        if (client->received && !world->going_down)
            world_violate(world, "client: %llu was admitted, then told it is too much",
                          (unsigned long long)client->id);
        client->sent = false;
        client->retries++;
        if (client->aborted || world->going_down)
            client_ended(world, client, m->reason);
        else
            client_comes_after(world, (uint32_t)(client - world->clients), RETRY_US);
    } else if (client->aborted || (m->reason == END_DEADLINE && client->deadline_ms)) {
        client_ended(world, client, m->reason);
    } else if (client->poisoned) {
        if (m->reason != END_POISONED || client->received > 0 || !client->kept)
            world_violate(
                world, "end: client %llu is poisoned, but got %u tokens and reason %u, kept=%d",
                (unsigned long long)client->id, client->received, m->reason, client->kept);
        client_ended(world, client, m->reason);
    } else if (m->reason != client->answer_ends_by || client->received != client->answer_count ||
               m->token_count != client->answer_count) {
        world_violate(
            world,
            "end: client %llu has %u of %u tokens, told %u and reason %u, expected %u (%.*s)",
            (unsigned long long)client->id, client->received, client->answer_count, m->token_count,
            m->reason, client->answer_ends_by, (int)m->detail.count, m->detail.data);
    } else {
        client_ended(world, client, m->reason);
    }
}

/* A gateway's own connections die with it: those clients see their connection break. */
static void gateway_died(world_t *world, actor_id_t gateway)
{
    world->closing[gateway] = false;
    if (world->drain_asked == gateway)
        world->drain_asked = ACTOR_NONE;
    for (uint32_t i = 0; i < world->config.clients; i++) {
        world_client_t *client = &world->clients[i];

        if (client->sent && !client->ended && gateway_of(world, client) == gateway) {
            client->aborted = true;
            client_ended(world, client, END_LOST);
        }
    }
}

/* ---- operators ------------------------------------------------------------------------------- */

/* Some gateway's admin listener takes the wish that holds now, one at a time; until one does, it is
 * repeated. */
static void on_drain_wish(void *context, sim_t *sim)
{
    job_t *job = context;
    world_t *world = job->world;
    message_drain_t drain = {job->actor, sim_now_us(sim) < world->drained_until_us[job->actor], 1};
    const topology_t *topology = &world->topology;

    for (uint16_t i = 0; i < topology->gateway_count && world->drain_asked == ACTOR_NONE; i++) {
        actor_id_t gateway = topology_actor(topology, ACTOR_GATEWAY, i)->id;

        if (!sim_is_alive(sim, gateway))
            continue;
        world->drain_asked = gateway;
        sim_post(sim, gateway, PORT_CLIENT, MESSAGE_drain, &drain, 1);
        job_return(job);
        return;
    }
    if (world->going_down)
        job_return(job);
    else
        sim_after(sim, RETRY_US, on_drain_wish, job);
}

void world_drain(world_t *world, actor_id_t leader, uint64_t us)
{
    uint64_t until_us = sim_now_us(world->sim) + us;

    if (world->drained_until_us[leader] < until_us)
        world->drained_until_us[leader] = until_us;
    job_after(world, 1, on_drain_wish, (job_t){.actor = leader});
    job_after(world, us, on_drain_wish, (job_t){.actor = leader});
    fault_lasts(world, us);
}

void world_down(world_t *world, uint64_t us)
{
    message_stop_t stop = {(uint32_t)(us / 1000)};

    world->going_down = true;
    for (uint32_t i = 0; i < world->topology.actor_count; i++)
        if (world->topology.actors[i].kind == ACTOR_SUPERVISOR)
            sim_post(world->sim, (actor_id_t)i, PORT_PROCESS, MESSAGE_stop, &stop, 1);
    fault_lasts(world, us);
}

/* ---- ports and hook -------------------------------------------------------------------------- */

static void on_client_port(world_t *world, actor_id_t gateway, uint16_t id, const void *body)
{
    if (id == MESSAGE_client_close) {
        world->closing[gateway] = true;
        close_gateway_if_empty(world, gateway);
    } else if (id == MESSAGE_drain_answer) {
        world->drain_asked = ACTOR_NONE;
    } else if (id == MESSAGE_client_tokens) {
        const message_client_tokens_t *m = body;

        on_client_tokens(world, &world->clients[m->client - 1], m);
    } else if (id == MESSAGE_client_poisoned) {
        const message_client_poisoned_t *m = body;

        on_client_poisoned(&world->clients[m->client - 1], m);
    } else if (id == MESSAGE_client_end) {
        const message_client_end_t *m = body;

        on_client_end(world, &world->clients[m->client - 1], m);
    }
}

static void on_port(void *context, sim_t *sim, actor_id_t actor, actor_id_t port, uint16_t id,
                    const void *body)
{
    world_t *world = context;

    (void)sim;
    if (port == PORT_PROCESS)
        on_process_port(world, id, body);
    else if (port == PORT_CLIENT)
        on_client_port(world, actor, id, body);
    else if (port == PORT_DEVICE)
        sim_devices_push(world->devices, actor, id, body);
    else
        world_violate(world, "port: %s pushed %s to port %x", world->roster.actors[actor].name,
                      message_table.rows[id].name, port);
}

static void on_event(void *context, sim_t *sim, const sim_event_t *event)
{
    world_t *world = context;
    actor_kind_t kind;

    (void)sim;
    oracle_event(world->oracle, event);
    if (event->kind != SIM_OTHER || world->last.kind == SIM_OTHER)
        world->last = *event;
    if (world->config.chronicle)
        chronicle_event(world->config.chronicle, world, event);
    if (event->kind != SIM_STARTED && event->kind != SIM_DIED)
        return;
    kind = world->roster.actors[event->actor].kind;
    if (event->kind == SIM_STARTED && kind == ACTOR_RANK)
        sim_devices_start(world->devices, event->actor);
    if (event->kind == SIM_DIED && kind == ACTOR_GATEWAY)
        gateway_died(world, event->actor);
    if (event->kind == SIM_DIED && event->status != STATUS_OK) {
        world_violate(world, "engine: %s ended itself: %s: %s",
                      world->roster.actors[event->actor].name, status_name(event->status),
                      trail_text());
        reap(world, event->actor, EXIT_FAILED_ITSELF);
    }
}

/* ---- who watches ------------------------------------------------------------------------------ */

static void on_received(void *context, actor_id_t actor, const envelope_t *envelope)
{
    const world_t *world = context;

    if (world->config.chronicle)
        chronicle_received(world->config.chronicle, sim_now_us(world->sim), actor, envelope);
    oracle_received(world->oracle, actor, envelope);
}

static void on_pushed(void *context, actor_id_t actor, actor_id_t to, uint16_t id, const void *body)
{
    const world_t *world = context;

    if (world->config.chronicle)
        chronicle_pushed(world->config.chronicle, sim_now_us(world->sim), actor, to, id, body);
    oracle_pushed(world->oracle, actor, to, id, body);
}

static void watch(world_t *world)
{
    const sim_watch_t all = {world, on_received, on_pushed};

    world->oracle = oracle_open(world, world->sim);
    if (world->config.chronicle)
        chronicle_begin(world->config.chronicle, &world->topology);
    sim_watch_set(world->sim, &all);
}

/* ---- life ------------------------------------------------------------------------------------ */

static uint32_t least(uint32_t given, uint32_t max)
{
    return given == 0 || given > max ? max : given;
}

/* What cli/deployment.h does for a real device: here pages are few, so that they run out. */
static void fill_in(const world_config_t *config, topology_group_t *groups, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        groups[i].pages = least(groups[i].pages, config->pages_max ? config->pages_max : PAGES_MAX);
        groups[i].borders = groups[i].borders ? groups[i].borders : BORDERS;
        groups[i].slots =
            least(groups[i].slots, config->slots_max ? config->slots_max : SLOTS_OF_GROUP_MAX);
    }
}

static const void *setup_of(world_t *world, actor_id_t id)
{
    const topology_actor_t *actor = &world->topology.actors[id];
    const topology_group_t *group =
        topology_group(&world->topology, (actor_kind_t)actor->kind, actor->instance);

    if (!group)
        return NULL;
    world->leaders[id] = (leader_setup_t){.pages = group->pages,
                                          .borders = group->borders,
                                          .end_token_count = 1,
                                          .end_tokens = {END_TOKEN}};
    return &world->leaders[id];
}

static void add_actors(world_t *world)
{
    const topology_t *topology = &world->topology;

    for (uint32_t i = 0; i < topology->actor_count; i++) {
        sim_actor_t actor = {
            .type = actor_type_of(world->roster.actors[i].kind),
            .topology = topology,
            .setup = setup_of(world, (actor_id_t)i),
            .setup_bytes = sizeof(leader_setup_t),
            .digests = {.topology = topology->version},
            .met = world->config.met ? &world->config.met[world->roster.actors[i].kind] : NULL,
            .port = on_port,
            .context = world,
        };

        sim_add_actor(world->sim, (actor_id_t)i, &actor);
    }
    for (uint32_t i = 0; i < topology->actor_count; i++)
        if (topology->actors[i].kind == ACTOR_SUPERVISOR)
            sim_start(world->sim, (actor_id_t)i, 1, EXIT_CLEAN);
}

void world_keep_memory(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, MAP_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, INT32_MAX);
}

world_t *world_open(const world_config_t *config)
{
    world_t *world = calloc(1, sizeof(*world));
    sim_config_t sim = {
        .seed = config->seed,
        .table = &message_table,
        .delay_us_min = DELAY_US_MIN,
        .delay_us_max = config->delay_us_max ? config->delay_us_max : DELAY_US_MAX,
        .handle_us_max = HANDLE_US_MAX,
        .tick_us = config->tick_us ? config->tick_us : TICK_US,
        .check = !config->without_checks,
        .credit_messages = config->credit_messages,
    };

    ASSERT(world && config->clients <= WORLD_CLIENTS_MAX);
    world->config = *config;
    world->topology = *config->topology;
    world->topology.context_tokens = config->prompt_tokens_max + config->answer_tokens_max;
    fill_in(config, world->topology.prefills, world->topology.prefill_count);
    fill_in(config, world->topology.decodes, world->topology.decode_count);
    world->config.topology = &world->topology;
    roster_init(&world->roster, &world->topology);
    sim.roster = &world->roster;
    sim.journal = config->journal;
    world->setup = (symbolic_setup_t){.world = symbolic_world_open(),
                                      .weights = 7,
                                      .vocabulary = WORLD_VOCABULARY,
                                      .end_token = END_TOKEN,
                                      .answer_tokens = config->answer_mean ? config->answer_mean
                                                                           : ANSWER_TOKENS};
    world->sim = sim_open(&sim);
    sim_trace_set(world->sim, config->trace);
    sim_hook_set(world->sim, on_event, world);
    watch(world);
    world->devices = sim_devices_open(world, &world->setup);
    world->clients = calloc(config->clients + 1, sizeof(*world->clients));
    ASSERT(world->clients != NULL);
    load_make(world->clients, config->clients, config, &world->setup);
    world->drain_asked = ACTOR_NONE;
    add_actors(world);
    for (uint32_t i = 0; i < config->clients; i++) {
        world->clients[i].ended = world->clients[i].output_tokens_max == 0;
        world->open_clients += !world->clients[i].ended;
        if (!world->clients[i].ended)
            client_comes_after(world, i, world->clients[i].arrives_us);
    }
    return world;
}

void world_close(world_t *world)
{
    sim_close(world->sim);
    oracle_close(world->oracle);
    sim_devices_close(world->devices);
    while (world->jobs)
        job_return(world->jobs);
    symbolic_world_close(world->setup.world);
    load_free(world->clients, world->config.clients);
    free(world->clients);
    free(world);
}

sim_t *world_sim(world_t *world)
{
    return world->sim;
}

const topology_t *world_topology(const world_t *world)
{
    return world->config.topology;
}

world_client_t *world_client(world_t *world, uint32_t index)
{
    ASSERT(index < world->config.clients);
    return &world->clients[index];
}

actor_id_t world_gateway_of(world_t *world, uint32_t client)
{
    return gateway_of(world, world_client(world, client));
}

uint32_t world_client_count(const world_t *world)
{
    return world->config.clients;
}

device_t *world_device(world_t *world, actor_id_t rank)
{
    return sim_devices_device(world->devices, rank);
}

struct oracle *world_oracle(world_t *world)
{
    return world->oracle;
}

void world_slow(world_t *world, actor_id_t rank, uint32_t factor)
{
    sim_devices_slow(world->devices, rank, factor);
}

void world_shuffle(world_t *world, actor_id_t rank, uint64_t us)
{
    sim_devices_shuffle(world->devices, rank, us);
}

void world_delay_start(world_t *world, actor_id_t actor, uint64_t us)
{
    world->late_us[actor] = us;
    fault_lasts(world, us);
}

void world_allow_flips(world_t *world)
{
    world->flips_allowed = true;
}

void world_wrong_bytes(world_t *world, actor_id_t rank, const char *what)
{
    if (!world->flips_allowed)
        world_violate(world, "bytes: %s: %s", world->roster.actors[rank].name, what);
}

/* ---- running --------------------------------------------------------------------------------- */

bool world_step(world_t *world)
{
    world->last = (sim_event_t){.kind = SIM_OTHER};
    if (!sim_step(world->sim) && !world->going_down)
        world_violate(world, "time: nothing is left to happen");
    return !world->violation[0];
}

sim_event_t world_last(const world_t *world)
{
    return world->last;
}

bool world_run_to(world_t *world, actor_id_t actor, uint16_t id)
{
    uint64_t end = sim_now_us(world->sim) + FINISH_US;

    while (sim_now_us(world->sim) < end && world_step(world))
        if (world->last.kind == SIM_DISPATCHED && world->last.actor == actor &&
            world->last.message == id)
            return true;
    return false;
}

bool world_all_ended(const world_t *world)
{
    return world->open_clients == 0;
}

bool world_run(world_t *world, uint64_t us)
{
    uint64_t end = sim_now_us(world->sim) + us;

    while (world->open_clients > 0 && sim_now_us(world->sim) < end)
        if (!world_step(world))
            return false;
    return true;
}

static void report_open_clients(world_t *world)
{
    for (uint32_t i = 0; i < world->config.clients; i++)
        if (!world->clients[i].ended)
            world_violate(world, "liveness: client %llu has %u of %u tokens and no end",
                          (unsigned long long)world->clients[i].id, world->clients[i].received,
                          world->clients[i].answer_count);
}

/* Asked early, so that what is not free yet is no violation. */
static bool is_free(world_t *world)
{
    bool found;

    oracle_everything_is_free(world->oracle);
    found = world->violation[0] != '\0';
    world->violation[0] = '\0';
    return !found;
}

/* Every process ends, supervisors last. */
static void finish_down(world_t *world)
{
    uint64_t end = DOWN_US + (sim_now_us(world->sim) > world->faults_end_us ? sim_now_us(world->sim)
                                                                            : world->faults_end_us);

    for (uint32_t i = 0; i < world->topology.actor_count; i++) {
        while (sim_is_alive(world->sim, (actor_id_t)i) && sim_now_us(world->sim) < end)
            if (!world_step(world))
                return;
        if (sim_is_alive(world->sim, (actor_id_t)i))
            world_violate(world, "liveness: %s lives on after the end",
                          world->topology.actors[i].name);
    }
    for (uint32_t i = 0; i < world->config.clients; i++)
        if (!world->clients[i].ended && world->clients[i].sent)
            world_violate(world, "liveness: client %llu has no end",
                          (unsigned long long)world->clients[i].id);
}

bool world_finish(world_t *world)
{
    uint64_t end;

    for (uint32_t i = 0; i < world->topology.actor_count; i++) {
        sim_devices_slow(world->devices, (actor_id_t)i, 1);
        sim_devices_shuffle(world->devices, (actor_id_t)i, 0);
    }
    if (world->going_down) {
        finish_down(world);
        return !world->violation[0];
    }
    if (!world_run(world, FINISH_US))
        return false;
    report_open_clients(world);
    end = sim_now_us(world->sim);
    end = SETTLE_US + (end > world->faults_end_us ? end : world->faults_end_us);
    while (!world->violation[0] && sim_now_us(world->sim) < end) {
        if (sim_is_quiet(world->sim) && is_free(world))
            break; /* nothing is under way that could change it */
        if (!world_step(world))
            return false;
    }
    if (!world->violation[0])
        oracle_everything_is_free(world->oracle);
    return !world->violation[0];
}
