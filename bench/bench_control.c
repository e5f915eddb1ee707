/* What control costs, and how much of it a device feels.
 *
 * The leader is the real one, alone in its process, over ipc: it plans, encodes, sends to every
 * rank, collects and compares the answers, and publishes the tokens. Ranks are real too, threads of
 * another process, each with a device that computes nothing; gateway, prefill leader and transfer
 * are stand-ins that answer at once.
 *
 * Control: user and system time of the leader's process, ZeroMQ's thread included, divided by the
 * steps, with devices that take no time. The goal is 1 % of a step of 20 ms at 8 ranks.
 *
 * Overlap: with devices that take their time (asleep, as one computes that is no CPU, or on a core),
 * the share of time in which they wait for their next step, with two steps in flight and with one.
 * The goal is 1 %, with a core for the leader.
 *
 *     build/release/bench/bench_control [--overlap] [JSON]
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "actors/decode/decode.h"
#include "actors/group.h"
#include "actors/rank/port.h"
#include "actors/rank/rank.h"
#include "actors/roster.h"
#include "bench/report.h"
#include "messages/message.h"
#include "runtime/base/log.h"
#include "runtime/threads.h"
#include "topology/internal.h"

enum {
    WARM_STEPS = 40,
    CONTEXT = 4096, /* none ends before the last has begun */
    PROMPT = 100,
    PAGES_EACH = 8,
    STEP_MS = 20,
    TOKEN = 7,
    CAST_MAX = RANKS_MAX + 3,
};

typedef struct {
    uint32_t ranks;
    uint32_t requests;
    uint32_t steps;
    bool has_goal;
    uint32_t step_us; /* that a device takes; 0: none */
    bool on_core;     /* it takes them computing, not asleep */
    uint32_t depth;
} load_t;

/* Of each rank's device, shared by both processes. */
typedef struct {
    double busy;
    double idle;
} device_time_t;

static topology_t topology;
static roster_t roster;
static endpoints_t endpoints;
static leader_setup_t leader_setup;
static load_t load;
static device_time_t *times; /* by rank */
static int marks[2]; /* a pipe: a byte where measuring begins, another where it ends */

static actor_id_t id_of(actor_kind_t kind)
{
    return topology_actor(&topology, kind, 0)->id;
}

/* ---- a device that only takes time ----------------------------------------------------------- */

typedef struct {
    device_t base;
    uint32_t rank;
    uint32_t full_steps; /* with all requests; only they are measured */
    double ended;
    device_token_t tokens[SLOTS_MAX];
} timed_t;

static status_t timed_open(const device_config_t *config, const void *setup,
                           volatile uint32_t *progress, device_t **device);

static void timed_close(device_t *device)
{
    free(device);
}

static void timed_describe(const device_t *device, device_pool_t *pool, device_digests_t *digests)
{
    (void)device;
    *pool = (device_pool_t){.name = "/pool", .bytes = 1, .incarnation = 1};
    *digests = (device_digests_t){0};
}

static status_t timed_reform(device_t *device, uint64_t epoch, const char *segment)
{
    (void)device;
    (void)epoch;
    (void)segment;
    return STATUS_OK;
}

static void timed_interrupt(device_t *device, uint64_t epoch)
{
    (void)device;
    (void)epoch;
}

static void timed_generation_set(device_t *device, unit_kind_t unit, uint32_t index,
                                 uint64_t generation)
{
    (void)device;
    (void)unit;
    (void)index;
    (void)generation;
}

static status_t timed_map(device_t *device, uint32_t peer, const device_pool_t *pool)
{
    (void)device;
    (void)peer;
    (void)pool;
    return STATUS_OK;
}

static status_t timed_copy(device_t *device, uint32_t peer, const device_copy_t *copies,
                           uint32_t count, uint32_t *failed)
{
    (void)device;
    (void)peer;
    (void)copies;
    (void)count;
    (void)failed;
    return STATUS_OK;
}

static void take_time(void)
{
    const struct timespec asleep = {.tv_nsec = load.step_us * 1000L};
    double end = report_seconds() + load.step_us / 1e6;

    if (load.step_us && !load.on_core)
        (void)nanosleep(&asleep, NULL);
    while (load.on_core && report_seconds() < end)
        ;
}

static status_t timed_step(device_t *device, const device_step_t *step, device_result_t *result)
{
    timed_t *self = (timed_t *)device;
    double began = report_seconds();
    uint32_t count = 0;

    for (uint32_t i = 0; i < step->item_count; i++)
        if (step->items[i].sample)
            self->tokens[count++] =
                (device_token_t){.item = i, .slot = step->items[i].slot, .token = TOKEN};
    *result = (device_result_t){
        .digest = step_digest_begin(step->seq), .tokens = self->tokens, .token_count = count};
    take_time();
    if (count == load.requests && self->full_steps++ >= WARM_STEPS) {
        times[self->rank].idle += began - self->ended;
        times[self->rank].busy += report_seconds() - began;
    }
    self->ended = report_seconds();
    if (self->rank == 0 && count == load.requests &&
        (self->full_steps == WARM_STEPS || self->full_steps == WARM_STEPS + load.steps))
        ASSERT(write(marks[1], "", 1) == 1);
    return STATUS_OK;
}

static const device_ops_t timed_ops = {
    .name = "timed",
    .open = timed_open,
    .close = timed_close,
    .describe = timed_describe,
    .reform = timed_reform,
    .step = timed_step,
    .interrupt = timed_interrupt,
    .generation_set = timed_generation_set,
    .map = timed_map,
    .copy = timed_copy,
};

static status_t timed_open(const device_config_t *config, const void *setup,
                           volatile uint32_t *progress, device_t **device)
{
    timed_t *self = calloc(1, sizeof(*self));

    (void)setup;
    (void)progress;
    ASSERT(self != NULL);
    self->base.ops = &timed_ops;
    self->rank = config->rank;
    *device = &self->base;
    return STATUS_OK;
}

/* ---- stand-ins ------------------------------------------------------------------------------- */

typedef struct {
    bool is_up; /* the decode leader */
    bool is_paired;
    bool said;
    uint32_t reserved;
} stand_in_t;

static uint8_t state_of(const void *arg)
{
    (void)arg;
    return 0;
}

static status_t on_nothing(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)arg;
    (void)envelope;
    (void)outbox;
    return STATUS_OK;
}

static status_t on_joined(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_joined_t *m = envelope->body;

    (void)outbox;
    if (m->actor == id_of(ACTOR_DECODE))
        ((stand_in_t *)arg)->is_up = true;
    return STATUS_OK;
}

static status_t on_pair(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)outbox;
    ((stand_in_t *)arg)->is_paired =
        ((const message_pair_t *)envelope->body)->state == PAIR_OK;
    return STATUS_OK;
}

static void plan_prefill(void *arg, outbox_t *outbox)
{
    const record_pool_t pool = {id_of(ACTOR_PREFILL) + 1, 1, {"/pool", 5}, 1};
    message_pools_t pools = {.epoch = 1, .pools = {&pool, 1}};
    actor_id_t decode = id_of(ACTOR_DECODE);
    stand_in_t *self = arg;

    if (self->is_up && !self->said && outbox_may_send(outbox, decode, MESSAGE_pools)) {
        outbox_push(outbox, decode, MESSAGE_pools, &pools);
        self->said = true;
    }
    while (self->is_paired && self->reserved < load.requests &&
           outbox_may_send(outbox, decode, MESSAGE_reserve)) {
        message_reserve_t reserve = {.request = 1000000 + self->reserved,
                                     .attempt = 1,
                                     .seniority = {1, 0, self->reserved},
                                     .gateway = id_of(ACTOR_GATEWAY),
                                     .transfer = id_of(ACTOR_TRANSFER),
                                     .prompt_tokens = PROMPT,
                                     .sampling = {.top_p = 1, .repetition_penalty = 1},
                                     .limits = {.output_tokens_max = CONTEXT - PROMPT}};

        outbox_push(outbox, decode, MESSAGE_reserve, &reserve);
        self->reserved++;
    }
}

static status_t on_open(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_open_t *m = envelope->body;
    const message_opened_t named = {m->request, m->attempt};
    const message_landed_t landed = {
        .request = m->request, .attempt = m->attempt, .first_token = TOKEN};

    (void)arg;
    outbox_push(outbox, envelope->from, MESSAGE_opened, &named);
    outbox_push(outbox, envelope->from, MESSAGE_landed, &landed);
    outbox_push(outbox, envelope->from, MESSAGE_fenced, &named);
    return STATUS_OK;
}

#define RULE(message, handler) {ACTOR_STATE_ANY, MESSAGE_##message, handler, BIT(0)}
#define OFTEN RULE(joined, on_joined), RULE(tick, on_nothing), RULE(exited, on_nothing)
#define TABLE(rules) {state_names, 1, rules, COUNT_OF(rules), NULL, 0}
#define STAND_IN(actor_kind, planner, rule_table)                                                  \
    {.kind = actor_kind,                                                                           \
     .state_bytes = sizeof(stand_in_t),                                                            \
     .plan = planner,                                                                              \
     .state = state_of,                                                                            \
     .table = TABLE(rule_table)}

static const char *const state_names[] = {"on"};
static const actor_rule_t prefill_rules[] = {
    OFTEN,
    RULE(pair, on_pair),
    RULE(reserved, on_nothing),
    RULE(running, on_nothing),
    RULE(room, on_nothing),
};
static const actor_rule_t transfer_rules[] = {OFTEN, RULE(targets, on_nothing),
                                              RULE(open, on_open)};
static const actor_rule_t gateway_rules[] = {OFTEN, RULE(tokens, on_nothing)};

static const actor_type_t prefill_stand_in = STAND_IN(ACTOR_PREFILL, plan_prefill, prefill_rules);
static const actor_type_t transfer_stand_in = STAND_IN(ACTOR_TRANSFER, NULL, transfer_rules);
static const actor_type_t gateway_stand_in = STAND_IN(ACTOR_GATEWAY, NULL, gateway_rules);

static process_config_t config_of(const actor_type_t *type, actor_id_t id, void *zmq)
{
    return (process_config_t){.type = type,
                              .birth = {.id = id,
                                        .incarnation = 1,
                                        .topology = &topology,
                                        .setup = type == &decode_type ? &leader_setup : NULL},
                              .table = &message_table,
                              .roster = &roster,
                              .endpoints = &endpoints,
                              .zmq = zmq};
}

/* Until the leader's process kills it. */
static void run_peers(void)
{
    static process_config_t configs[CAST_MAX];
    static rank_port_setup_t ports[RANKS_MAX];
    void *zmq = zmq_ctx_new();
    threads_t *threads;
    uint32_t count = 0;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    configs[count++] = config_of(&gateway_stand_in, id_of(ACTOR_GATEWAY), zmq);
    configs[count++] = config_of(&prefill_stand_in, id_of(ACTOR_PREFILL), zmq);
    configs[count++] = config_of(&transfer_stand_in, id_of(ACTOR_TRANSFER), zmq);
    for (uint32_t i = 0; i < load.ranks; i++) {
        ports[i] = (rank_port_setup_t){.ops = &timed_ops,
                                       .config = {.rank = i,
                                                  .world = load.ranks,
                                                  .page_count = leader_setup.pages,
                                                  .border_count = leader_setup.borders,
                                                  .slot_count = load.requests}};
        configs[count] = config_of(&rank_type, (actor_id_t)(id_of(ACTOR_DECODE) + 1 + i), zmq);
        configs[count].ports[0] = (port_t){&rank_port, &ports[i]};
        configs[count++].port_count = 1;
    }
    if (threads_open(configs, count, &threads) != STATUS_OK || threads_run(threads) != STATUS_OK)
        trail_print(stderr);
    _exit(1);
}

/* ---- the leader ------------------------------------------------------------------------------ */

typedef struct {
    process_t *process;
    double cpu;
    double clock;
} watch_t;

static double cpu_seconds(void)
{
    struct rusage used;

    (void)getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void *watch(void *arg)
{
    watch_t *self = arg;
    char byte;

    ASSERT(read(marks[0], &byte, 1) == 1);
    self->cpu = cpu_seconds();
    self->clock = report_seconds();
    ASSERT(read(marks[0], &byte, 1) == 1);
    self->cpu = cpu_seconds() - self->cpu;
    self->clock = report_seconds() - self->clock;
    process_stop(self->process);
    return NULL;
}

static void set_up(const char *directory)
{
    topology = (topology_t){.host_count = 1,
                            .hosts[0].devices = RANKS_MAX,
                            .context_tokens = CONTEXT,
                            .border_every = 4,
                            .stall_timeout_ms = 60000,
                            .gateway_count = 1,
                            .prefill_count = 1,
                            .decode_count = 1,
                            .transfer_count = 1};
    topology.gateways[0] = (topology_gateway_t){.queued_max = 4, .streams_max = 16};
    leader_setup = (leader_setup_t){.pages = load.requests * PAGES_EACH + CONTEXT / PAGE_TOKENS + 1,
                                      .borders = 1,
                                      .depth = load.depth};
    topology.prefills[0] = topology.decodes[0] = (topology_group_t){.tp = (uint16_t)load.ranks,
                                                                    .slots = load.requests,
                                                                    .pages = leader_setup.pages,
                                                                    .borders = 1,
                                                                    .chunk_tokens = 2048};
    topology.prefills[0].tp = 1;
    topology_derive_actors(&topology);
    roster_init(&roster, &topology);
    ASSERT(endpoints_ipc(&endpoints, &roster, directory) == STATUS_OK);
}

/* Microseconds a step. */
static watch_t measure(const char *directory)
{
    process_config_t config;
    watch_t self = {0};
    pthread_t thread;
    pid_t child;

    set_up(directory);
    memset(times, 0, RANKS_MAX * sizeof(*times));
    ASSERT(pipe(marks) == 0);
    child = fork();
    ASSERT(child >= 0);
    if (child == 0)
        run_peers();
    config = config_of(&decode_type, id_of(ACTOR_DECODE), NULL);
    ASSERT(process_open(&config, &self.process) == STATUS_OK);
    ASSERT(pthread_create(&thread, NULL, watch, &self) == 0);
    ASSERT(process_run(self.process) == STATUS_OK);
    (void)pthread_join(thread, NULL);
    process_close(self.process);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    (void)close(marks[0]);
    (void)close(marks[1]);
    for (uint32_t i = 0; i < roster.count; i++)
        (void)unlink(endpoints.at[i] + strlen("ipc://"));
    self.cpu *= 1e6 / load.steps;
    self.clock *= 1e6 / load.steps;
    return self;
}

static void report_control(report_t *report, const char *directory)
{
    static const load_t loads[] = {
        {1, 64, 600, false, 0, false, 0},   {8, 1, 600, true, 0, false, 0},
        {8, 64, 600, true, 0, false, 0},    {8, 256, 400, false, 0, false, 0},
        {8, 1024, 200, false, 0, false, 0}, {16, 64, 400, false, 0, false, 0},
        {64, 64, 200, false, 0, false, 0},  {64, 1024, 60, false, 0, false, 0},
    };
    const double allowed = STEP_MS * 1000 * 0.01;
    char name[80];

    for (size_t i = 0; i < COUNT_OF(loads); i++) {
        watch_t used;

        load = loads[i];
        used = measure(directory);
        snprintf(name, sizeof(name), "%u rank%s, %u request%s", load.ranks,
                 load.ranks == 1 ? "" : "s", load.requests, load.requests == 1 ? "" : "s");
        report_row(report, name, used.cpu, allowed, allowed / used.cpu, load.has_goal);
    }
}

/* Percent of the devices' time. */
static double idle_share(const char *directory, uint32_t depth)
{
    device_time_t all = {0};

    load.depth = depth;
    (void)measure(directory);
    for (uint32_t i = 0; i < load.ranks; i++) {
        all.busy += times[i].busy;
        all.idle += times[i].idle;
    }
    return 100 * all.idle / (all.idle + all.busy);
}

static void report_overlap(report_t *report, const char *directory)
{
    static const load_t loads[] = {
        {1, 64, 400, true, 5000, false, 0},  {8, 64, 400, true, 5000, false, 0},
        {8, 64, 150, true, 20000, false, 0}, {8, 256, 100, true, 20000, false, 0},
        {1, 64, 400, true, 5000, true, 0},   {2, 64, 400, false, 5000, true, 0},
    };
    char name[80];

    for (size_t i = 0; i < COUNT_OF(loads); i++) {
        double one, two;

        load = loads[i];
        one = idle_share(directory, 1);
        two = idle_share(directory, 2);
        snprintf(name, sizeof(name), "%u rank%s, %u requests, %u ms %s", load.ranks,
                 load.ranks == 1 ? "" : "s", load.requests, load.step_us / 1000,
                 load.on_core ? "on a core" : "asleep");
        report_row(report, name, two, one, 1 / two, load.has_goal);
    }
}

int main(int argc, char **argv)
{
    char directory[] = "/tmp/lockstep-bench-XXXXXX";
    bool overlap = argc > 1 && strcmp(argv[1], "--overlap") == 0;
    const char *json = argc > 1 + overlap ? argv[1 + overlap] : NULL;
    report_t report;

    times = mmap(NULL, RANKS_MAX * sizeof(*times), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT(times != MAP_FAILED);
    ASSERT(mkdtemp(directory) != NULL);
    log_level_set(LOG_ERROR);
    if (overlap) {
        report_open(&report, "devices wait for a step: two in flight, one, and 1 % to the first",
                    "% of time", json);
        report_overlap(&report, directory);
    } else {
        report_open(&report, "a leader's CPU time for a step, against 1 % of 20 ms", "us", json);
        report_control(&report, directory);
    }
    (void)rmdir(directory);
    return report_close(&report);
}
