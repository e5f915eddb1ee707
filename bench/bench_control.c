/* What control costs: the CPU time that a decode leader spends on one step, all of it.
 *
 * The leader is the real one, alone in its process, over ipc: it plans, encodes, sends to every
 * rank, collects and compares the answers, and publishes the tokens. Its peers are stand-ins in
 * another process, which answer at once. User and system time of the leader's process, ZeroMQ's
 * thread included, are divided by the steps. The goal is 1 % of a step of 20 ms at 8 ranks.
 *
 *     build/release/bench/bench_control [JSON]
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "actors/decode/decode.h"
#include "actors/group.h"
#include "actors/roster.h"
#include "bench/report.h"
#include "messages/message.h"
#include "runtime/threads.h"
#include "topology/internal.h"

enum {
    WARM_STEPS = 40,
    CONTEXT = 1024,
    PROMPT = 100,
    PAGES_EACH = CONTEXT / PAGE_TOKENS,
    STEP_MS = 20,
    TOKEN = 7,
    CAST_MAX = RANKS_MAX + 3,
};

typedef struct {
    uint32_t ranks;
    uint32_t requests;
    uint32_t steps;
    double goal_share; /* of a step; 0: none */
} load_t;

static topology_t topology;
static roster_t roster;
static endpoints_t endpoints;
static leader_setup_t leader_setup;
static load_t load;
static int marks[2]; /* a pipe: a byte where measuring begins, another where it ends */

static actor_id_t id_of(topology_kind_t kind)
{
    return topology_actor(&topology, kind, 0)->id;
}

/* ---- stand-ins ------------------------------------------------------------------------------- */

typedef struct {
    actor_id_t id;
    bool is_up; /* whom it speaks to first */
    bool is_paired;
    bool said;
    uint32_t reserved;
    uint32_t full_steps;
} stand_in_t;

static status_t init(void *arg, const actor_birth_t *birth)
{
    ((stand_in_t *)arg)->id = birth->id;
    return STATUS_OK;
}

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
    if (m->actor == id_of(TOPOLOGY_DECODE))
        ((stand_in_t *)arg)->is_up = true;
    return STATUS_OK;
}

static void plan_rank(void *arg, outbox_t *outbox)
{
    stand_in_t *self = arg;
    message_rank_join_t join = {.rank = self->id - id_of(TOPOLOGY_DECODE) - 1u,
                                .pool = {self->id, 1, {"/pool", 5}, 1},
                                .pages = leader_setup.pages,
                                .borders = leader_setup.borders,
                                .slots = load.requests};

    if (self->said || !self->is_up ||
        !outbox_may_send(outbox, id_of(TOPOLOGY_DECODE), MESSAGE_rank_join))
        return;
    outbox_push(outbox, id_of(TOPOLOGY_DECODE), MESSAGE_rank_join, &join);
    self->said = true;
}

static status_t on_reform(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_quiesced_t m = {.epoch = ((const message_reform_t *)envelope->body)->epoch};

    (void)arg;
    outbox_push(outbox, envelope->from, MESSAGE_quiesced, &m);
    return STATUS_OK;
}

static status_t on_peer_pool(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_peer_pool_t *m = envelope->body;
    const message_peer_mapped_t mapped = {m->pool.rank, m->pool.incarnation, STATUS_OK, {0}};

    (void)arg;
    outbox_push(outbox, envelope->from, MESSAGE_peer_mapped, &mapped);
    return STATUS_OK;
}

/* Steps are counted once all requests run in them. */
static void mark(stand_in_t *self, uint32_t runs)
{
    self->full_steps += runs == load.requests;
    if (runs == load.requests &&
        (self->full_steps == WARM_STEPS || self->full_steps == WARM_STEPS + load.steps))
        ASSERT(write(marks[1], "", 1) == 1);
}

static status_t on_step(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    static record_step_token_t tokens[SLOTS_MAX]; /* of rank 0 */
    const message_step_t *m = envelope->body;
    message_step_done_t done = {
        .epoch = m->epoch, .seq = m->seq, .parent = m->parent, .result = m->seq};
    stand_in_t *self = arg;
    uint32_t count = 0;

    if (self->id == id_of(TOPOLOGY_DECODE) + 1) {
        for (uint32_t i = 0; i < m->items.count; i++)
            if (m->items.data[i].sample)
                tokens[count++] = (record_step_token_t){
                    .slot = m->items.data[i].slot, .item = i, .token = {.token = TOKEN}};
        done.tokens.data = tokens;
        done.tokens.count = count;
        mark(self, count);
    }
    outbox_push(outbox, envelope->from, MESSAGE_step_done, &done);
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
    const record_pool_t pool = {id_of(TOPOLOGY_PREFILL) + 1, 1, {"/pool", 5}, 1};
    message_pools_t pools = {.epoch = 1, .pools = {&pool, 1}};
    actor_id_t decode = id_of(TOPOLOGY_DECODE);
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
                                     .gateway = id_of(TOPOLOGY_GATEWAY),
                                     .transfer = id_of(TOPOLOGY_TRANSFER),
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
     .init = init,                                                                                 \
     .plan = planner,                                                                              \
     .state = state_of,                                                                            \
     .table = TABLE(rule_table)}

static const char *const state_names[] = {"on"};
static const actor_rule_t rank_rules[] = {
    OFTEN,
    RULE(rank_joined, on_nothing),
    RULE(reform, on_reform),
    RULE(peer_pool, on_peer_pool),
    RULE(step, on_step),
};
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

static const actor_type_t rank_stand_in = STAND_IN(ACTOR_RANK, plan_rank, rank_rules);
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
static void run_stand_ins(void)
{
    static process_config_t configs[CAST_MAX];
    void *zmq = zmq_ctx_new();
    threads_t *threads;
    uint32_t count = 0;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    configs[count++] = config_of(&gateway_stand_in, id_of(TOPOLOGY_GATEWAY), zmq);
    configs[count++] = config_of(&prefill_stand_in, id_of(TOPOLOGY_PREFILL), zmq);
    configs[count++] = config_of(&transfer_stand_in, id_of(TOPOLOGY_TRANSFER), zmq);
    for (uint32_t i = 0; i < load.ranks; i++)
        configs[count++] =
            config_of(&rank_stand_in, (actor_id_t)(id_of(TOPOLOGY_DECODE) + 1 + i), zmq);
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
                            .gateway_count = 1,
                            .prefill_count = 1,
                            .decode_count = 1,
                            .transfer_count = 1};
    topology.gateways[0] = (topology_gateway_t){.queued_max = 4, .streams_max = 16};
    leader_setup = (leader_setup_t){.pages = load.requests * PAGES_EACH + 1, .borders = 1};
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
    ASSERT(pipe(marks) == 0);
    child = fork();
    ASSERT(child >= 0);
    if (child == 0)
        run_stand_ins();
    config = config_of(&decode_type, id_of(TOPOLOGY_DECODE), NULL);
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

int main(int argc, char **argv)
{
    static const load_t rows[] = {
        {1, 64, 600, 0},   {8, 1, 600, 0.01}, {8, 64, 600, 0.01}, {8, 256, 400, 0},
        {8, 1024, 200, 0}, {16, 64, 400, 0},  {64, 64, 200, 0},   {64, 1024, 60, 0},
    };
    char directory[] = "/tmp/lockstep-bench-XXXXXX", name[80];
    report_t report;

    ASSERT(mkdtemp(directory) != NULL);
    report_open(&report, "a leader's CPU time for a step, against 1 % of 20 ms", "us",
                argc > 1 ? argv[1] : NULL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        watch_t used;
        double allowed = STEP_MS * 1000 * 0.01;

        load = rows[i];
        used = measure(directory);
        snprintf(name, sizeof(name), "%u rank%s, %u request%s (clock: %.0f us)", load.ranks,
                 load.ranks == 1 ? "" : "s", load.requests, load.requests == 1 ? "" : "s",
                 used.clock);
        report_row(&report, name, used.cpu, allowed, allowed / used.cpu,
                   load.goal_share > 0 ? 1 : 0);
    }
    (void)rmdir(directory);
    return report_close(&report);
}
