/* One step out to a group's ranks and all answers back, without compute: what a step costs
 * before it does anything. A leader and its ranks are processes that speak over ipc, as in a
 * deployment; against as many processes that pass as many bytes over raw ZeroMQ. Both ways
 * asleep between messages; and ours looking for frames for a while before it sleeps, which is
 * for machines with a core for each process.
 *
 *     build/release/bench/bench_fanout [JSON]
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "bench/report.h"
#include "messages/message.h"
#include "runtime/process.h"

enum { TURNS = 5, ROUNDS = 400, RANKS = 8, POLL_US = 100, ITEMS = 4, BODY_BYTES_MAX = 1024 };
enum { ON, DONE };

typedef struct {
    uint32_t ranks;
    uint64_t poll_us;
    const endpoints_t *endpoints;
    const roster_t *roster;
} turn_t;

static message_step_t step_of(uint64_t seq)
{
    static const record_step_item_t items[ITEMS] = {
        {.kind = 3, .slot = 1, .count = 1, .sample = 1},
        {.kind = 3, .slot = 2, .count = 1, .sample = 1},
        {.kind = 3, .slot = 3, .count = 1, .sample = 1},
        {.kind = 3, .slot = 4, .count = 1, .sample = 1}};

    return (message_step_t){.epoch = 1, .seq = seq, .items = {items, ITEMS}};
}

/* ---- ours ---- */

typedef struct {
    uint8_t state;
    uint32_t ranks;
    uint32_t joined;
    uint32_t sent_to; /* ranks that have the step of this round */
    uint32_t done;    /* ranks that have answered it */
    uint32_t rounds;
    double began;
    double ended;
} actor_t;

static status_t init(void *arg, const actor_birth_t *birth)
{
    ((actor_t *)arg)->ranks = ((const turn_t *)birth->setup)->ranks;
    return STATUS_OK;
}

static void plan_leader(void *arg, outbox_t *outbox)
{
    actor_t *self = arg;
    const message_step_t step = step_of(self->rounds + 1);

    if (self->joined < self->ranks)
        return;
    if (self->rounds == 0 && self->sent_to == 0)
        self->began = report_seconds(); /* an actor of a deployment never reads a clock */
    for (; self->sent_to < self->ranks; self->sent_to++) {
        actor_id_t rank = (actor_id_t)(1 + self->sent_to);

        if (!outbox_may_send(outbox, rank, MESSAGE_step))
            return;
        outbox_push(outbox, rank, MESSAGE_step, &step);
    }
}

static status_t on_joined(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)envelope;
    (void)outbox;
    ((actor_t *)arg)->joined++;
    return STATUS_OK;
}

static status_t on_step(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_step_t *m = envelope->body;
    const message_step_done_t done = {.epoch = m->epoch, .seq = m->seq};

    (void)arg;
    outbox_push(outbox, envelope->from, MESSAGE_step_done, &done);
    return STATUS_OK;
}

static status_t on_step_done(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_step_done_t *m = envelope->body;
    actor_t *self = arg;

    (void)outbox;
    ASSERT(m->seq == self->rounds + 1);
    if (++self->done < self->ranks)
        return STATUS_OK;
    self->done = self->sent_to = 0;
    if (++self->rounds == ROUNDS) {
        self->ended = report_seconds();
        self->state = DONE;
    }
    return STATUS_OK;
}

static status_t on_tick(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)arg;
    (void)envelope;
    (void)outbox;
    return STATUS_OK;
}

static uint8_t state_of(const void *arg)
{
    return ((const actor_t *)arg)->state;
}

static const char *const state_names[] = {"on", "done"};
static const actor_rule_t rules[] = {
    {ACTOR_STATE_ANY, MESSAGE_joined, on_joined, BIT(ON)},
    {ACTOR_STATE_ANY, MESSAGE_tick, on_tick, BIT(ON)},
    {ON, MESSAGE_step, on_step, BIT(ON)},
    {ON, MESSAGE_step_done, on_step_done, BIT(ON) | BIT(DONE)},
};
static const actor_type_t leader_type = {
    .kind = ACTOR_DECODE,
    .state_bytes = sizeof(actor_t),
    .init = init,
    .plan = plan_leader,
    .state = state_of,
    .table = {state_names, 2, rules, COUNT_OF(rules), NULL, 0}};
static const actor_type_t rank_type = {.kind = ACTOR_RANK,
                                       .state_bytes = sizeof(actor_t),
                                       .init = init,
                                       .state = state_of,
                                       .table = {state_names, 2, rules, COUNT_OF(rules), NULL, 0}};

static double ours_run(const turn_t *turn, actor_id_t id)
{
    void *zmq = zmq_ctx_new(); /* an own one, and so an own loop, in every process */
    const process_config_t config = {.type = id == 0 ? &leader_type : &rank_type,
                                     .birth = {.id = id, .incarnation = 1, .setup = turn},
                                     .table = &message_table,
                                     .roster = turn->roster,
                                     .endpoints = turn->endpoints,
                                     .zmq = zmq,
                                     .poll_us = turn->poll_us,
                                     .end_states = BIT(DONE)};
    process_t *process = NULL;
    const actor_t *self;
    double seconds;

    if (process_open(&config, &process) != STATUS_OK) {
        trail_print(stderr);
        exit(1);
    }
    ASSERT(process_run(process) == STATUS_OK);
    self = node_dispatch(process_node(process))->self;
    seconds = self->ended - self->began;
    process_close(process);
    (void)zmq_ctx_term(zmq);
    return seconds;
}

/* ---- raw ZeroMQ ---- */

static void *bound(void *zmq, const turn_t *turn, actor_id_t id)
{
    void *socket = zmq_socket(zmq, ZMQ_PULL);

    ASSERT(zmq_bind(socket, turn->endpoints->at[id]) == 0);
    return socket;
}

static void *connected(void *zmq, const turn_t *turn, actor_id_t id)
{
    void *socket = zmq_socket(zmq, ZMQ_PUSH);
    int linger = 0;

    (void)zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger));
    ASSERT(zmq_connect(socket, turn->endpoints->at[id]) == 0);
    return socket;
}

static void receive(void *socket)
{
    char bytes[BODY_BYTES_MAX];

    ASSERT(zmq_recv(socket, bytes, sizeof(bytes), 0) > 0);
}

static double raw_leader(const turn_t *turn)
{
    const message_step_t step = step_of(1);
    uint8_t body[BODY_BYTES_MAX];
    void *zmq = zmq_ctx_new(), *in = bound(zmq, turn, 0), *out[RANKS];
    double began = 0;
    size_t size = 0;

    ASSERT(message_encode(MESSAGE_step, &step, body, sizeof(body), &size) == STATUS_OK);
    for (uint32_t i = 0; i < turn->ranks; i++)
        out[i] = connected(zmq, turn, (actor_id_t)(1 + i));
    for (uint32_t round = 0; round <= ROUNDS; round++) {
        if (round == 1) /* the first waits for connections */
            began = report_seconds();
        for (uint32_t i = 0; i < turn->ranks; i++)
            ASSERT(zmq_send(out[i], body, size, 0) == (int)size);
        for (uint32_t i = 0; i < turn->ranks; i++)
            receive(in);
    }
    began = report_seconds() - began;
    for (uint32_t i = 0; i < turn->ranks; i++)
        (void)zmq_close(out[i]);
    (void)zmq_close(in);
    (void)zmq_ctx_term(zmq);
    return began;
}

static void raw_rank(const turn_t *turn, actor_id_t id)
{
    const message_step_done_t done = {.epoch = 1, .seq = 1};
    uint8_t body[BODY_BYTES_MAX];
    void *zmq = zmq_ctx_new(), *in = bound(zmq, turn, id), *out = connected(zmq, turn, 0);
    size_t size = 0;

    ASSERT(message_encode(MESSAGE_step_done, &done, body, sizeof(body), &size) == STATUS_OK);
    for (;;) {
        receive(in);
        ASSERT(zmq_send(out, body, size, 0) == (int)size);
    }
}

/* ---- turns ---- */

/* Rounds a second. */
static double run(const turn_t *turn, bool ours)
{
    pid_t children[RANKS];
    double seconds;

    for (uint32_t i = 0; i < turn->ranks; i++) {
        children[i] = fork();
        ASSERT(children[i] >= 0);
        if (children[i] > 0)
            continue;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (ours)
            (void)ours_run(turn, (actor_id_t)(1 + i));
        else
            raw_rank(turn, (actor_id_t)(1 + i));
        _exit(0);
    }
    seconds = ours ? ours_run(turn, 0) : raw_leader(turn);
    for (uint32_t i = 0; i < turn->ranks; i++) {
        (void)kill(children[i], SIGKILL);
        (void)waitpid(children[i], NULL, 0);
    }
    return ROUNDS / seconds;
}

static void compare(report_t *report, const turn_t *turn)
{
    double ours[TURNS], raw[TURNS], ratios[TURNS];
    char row[80];

    for (int i = 0; i < TURNS; i++) {
        ours[i] = run(turn, true);
        raw[i] = run(turn, false);
        ratios[i] = ours[i] / raw[i];
    }
    snprintf(row, sizeof(row), "%u rank%s, ours %s", turn->ranks, turn->ranks == 1 ? "" : "s",
             turn->poll_us ? "polled" : "asleep");
    report_row(report, row, report_median(ours, TURNS) / 1000, report_median(raw, TURNS) / 1000,
               report_median(ratios, TURNS), 0);
}

int main(int argc, char **argv)
{
    static roster_t roster = {.count = 1 + RANKS};
    static endpoints_t endpoints;
    char directory[] = "/tmp/lockstep-bench-XXXXXX";
    report_t report;

    for (uint32_t i = 0; i < roster.count; i++) {
        (void)snprintf(roster.actors[i].name, ACTOR_NAME_BYTES_MAX,
                       i ? "decode/0/rank/%u" : "decode/0", i - 1);
        roster.actors[i].kind = i ? ACTOR_RANK : ACTOR_DECODE;
        roster.actors[i].leader = i ? 0 : ACTOR_NONE;
    }
    ASSERT(mkdtemp(directory) != NULL);
    ASSERT(endpoints_ipc(&endpoints, &roster, directory) == STATUS_OK);
    report_open(&report, "steps to a group and back, against raw ZeroMQ", "thousand/s",
                argc > 1 ? argv[1] : NULL);
    for (uint32_t ranks = 1; ranks <= RANKS; ranks *= RANKS)
        for (uint64_t poll_us = 0; poll_us <= POLL_US; poll_us += POLL_US)
            compare(&report, &(turn_t){ranks, poll_us, &endpoints, &roster});
    for (uint32_t i = 0; i < roster.count; i++)
        (void)unlink(endpoints.at[i] + strlen("ipc://"));
    (void)rmdir(directory);
    return report_close(&report);
}
