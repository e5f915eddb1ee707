/* Typed messages from one actor to another, all of it: encode, stream with credit, ZeroMQ,
 * decode, dispatch to a handler; against raw ZeroMQ and against CZMQ, PUSH to PULL, one frame a
 * message of as many bytes. inproc between two threads, ipc between two processes. All three
 * take turns; a row is the median of the turns' ratios: by the clock, and by the work of all cores.
 *
 *     build/release/bench/bench_message [JSON]
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>
#ifdef BENCH_CZMQ
#include <czmq.h>
#endif

#include "bench/report.h"
#include "messages/message.h"
#include "runtime/process.h"

enum { TURNS = 5, PAGES_MAX = 100 };
enum { SENDER, RECEIVER, MANY, DONE }; /* actors; states of both */

#define GOAL 0.8

/* What one turn measures; the sender reads it, also after a fork. */
typedef struct {
    const char *endpoint; /* of the receiver */
    const endpoints_t *endpoints;
    void *zmq; /* shared by the threads of an inproc turn; NULL: each process makes its own */
    uint32_t messages;
    uint32_t pages; /* in each OPEN: what makes it long */
} turn_t;

static uint32_t pages[PAGES_MAX];
static uint64_t generations[PAGES_MAX];

static size_t body_bytes(const turn_t *turn, uint8_t *bytes, size_t room)
{
    const message_open_t open = {.request = 1000000,
                                 .attempt = 1,
                                 .pages = {pages, turn->pages},
                                 .generations = {generations, turn->pages}};
    size_t used = 0;

    ASSERT(message_encode(MESSAGE_open, &open, bytes, room, &used) == STATUS_OK);
    return used;
}

/* ---- ours: two actors that do nothing else ---- */

typedef struct {
    const turn_t *turn;
    uint8_t state;
    uint32_t count;
    double began;
    double ended;
} actor_t;

static status_t init(void *arg, const actor_birth_t *birth)
{
    actor_t *self = arg;

    self->turn = birth->setup;
    self->state = MANY;
    return STATUS_OK;
}

static void plan_sender(void *arg, outbox_t *outbox)
{
    actor_t *self = arg;
    message_open_t open = {.attempt = 1,
                           .prefill = ACTOR_NONE,
                           .pages = {pages, self->turn->pages},
                           .generations = {generations, self->turn->pages}};

    while (self->count < self->turn->messages && outbox_may_send(outbox, RECEIVER, MESSAGE_open)) {
        open.request = 1000000 + self->count++;
        outbox_push(outbox, RECEIVER, MESSAGE_open, &open);
    }
}

static status_t on_open(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_open_t *m = envelope->body;
    actor_t *self = arg;

    (void)outbox;
    ASSERT(m->request == 1000000 + self->count);
    ASSERT(m->pages.count == self->turn->pages);
    if (self->count++ == 0)
        self->began = report_seconds(); /* an actor of a deployment never reads a clock */
    if (self->count == self->turn->messages) {
        self->ended = report_seconds();
        self->state = DONE;
    }
    return STATUS_OK;
}

static status_t on_nothing(void *arg, const envelope_t *envelope, outbox_t *outbox)
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

static const char *const state_names[] = {"", "", "many", "done"};
static const actor_rule_t rules[] = {
    {MANY, MESSAGE_open, on_open, BIT(MANY) | BIT(DONE)},
    {ACTOR_STATE_ANY, MESSAGE_joined, on_nothing, BIT(MANY) | BIT(DONE)},
    {ACTOR_STATE_ANY, MESSAGE_tick, on_nothing, BIT(MANY) | BIT(DONE)},
};
static const actor_type_t sender_type = {.kind = ACTOR_DECODE,
                                         .state_bytes = sizeof(actor_t),
                                         .init = init,
                                         .plan = plan_sender,
                                         .state = state_of,
                                         .table = {state_names, 4, rules, 3, NULL, 0}};
static const actor_type_t receiver_type = {.kind = ACTOR_TRANSFER,
                                           .state_bytes = sizeof(actor_t),
                                           .init = init,
                                           .state = state_of,
                                           .table = {state_names, 4, rules, 3, NULL, 0}};
static const roster_t roster = {.count = 2,
                                .actors = {{"decode/0", ACTOR_DECODE, ACTOR_NONE, 0},
                                           {"transfer/0", ACTOR_TRANSFER, ACTOR_NONE, 0}}};

static process_t *open_actor(const turn_t *turn, void *zmq, actor_id_t id)
{
    const process_config_t config = {.type = id == SENDER ? &sender_type : &receiver_type,
                                     .birth = {.id = id, .incarnation = 1, .setup = turn},
                                     .table = &message_table,
                                     .roster = &roster,
                                     .endpoints = turn->endpoints,
                                     .zmq = zmq,
                                     .end_states = BIT(DONE)};
    process_t *process = NULL;

    if (process_open(&config, &process) != STATUS_OK) {
        trail_print(stderr);
        exit(1);
    }
    return process;
}

/* A context of the caller's own, so that every process has a loop of its own as well. */
static void *context_of(const turn_t *turn)
{
    return turn->zmq ? turn->zmq : zmq_ctx_new();
}

static process_t *ours_sending; /* of an inproc turn, to be stopped */

static void ours_send(const turn_t *turn)
{
    process_t *process = turn->zmq ? ours_sending : open_actor(turn, context_of(turn), SENDER);

    ASSERT(process_run(process) == STATUS_OK);
}

static double ours_receive(const turn_t *turn)
{
    void *zmq = context_of(turn);
    process_t *process = open_actor(turn, zmq, RECEIVER);
    const actor_t *self = node_dispatch(process_node(process))->self;
    double seconds;

    ASSERT(process_run(process) == STATUS_OK);
    seconds = self->ended - self->began;
    process_close(process);
    if (!turn->zmq)
        (void)zmq_ctx_term(zmq);
    return seconds;
}

/* ---- raw ZeroMQ ---- */

/* A sender in a process of its own is killed when all has come; what a socket still holds when
 * it is closed may be lost. */
static void stay(const turn_t *turn)
{
    while (!turn->zmq)
        (void)pause();
}

static void raw_send(const turn_t *turn)
{
    uint8_t body[4096];
    size_t size = body_bytes(turn, body, sizeof(body));
    void *zmq = context_of(turn), *socket = zmq_socket(zmq, ZMQ_PUSH);

    ASSERT(zmq_connect(socket, turn->endpoint) == 0);
    for (uint32_t i = 0; i < turn->messages; i++)
        ASSERT(zmq_send(socket, body, size, 0) == (int)size);
    stay(turn);
    (void)zmq_close(socket);
}

static double raw_receive(const turn_t *turn)
{
    void *zmq = context_of(turn), *socket = zmq_socket(zmq, ZMQ_PULL);
    double began = 0, seconds;

    ASSERT(zmq_bind(socket, turn->endpoint) == 0);
    for (uint32_t i = 0; i < turn->messages; i++) {
        zmq_msg_t message;

        (void)zmq_msg_init(&message);
        ASSERT(zmq_msg_recv(&message, socket, 0) > 0);
        (void)zmq_msg_close(&message);
        if (i == 0)
            began = report_seconds();
    }
    seconds = report_seconds() - began;
    (void)zmq_close(socket);
    if (!turn->zmq)
        (void)zmq_ctx_term(zmq);
    return seconds;
}

/* ---- CZMQ, which has one context of its own in every process ---- */

#ifdef BENCH_CZMQ
static void czmq_send(const turn_t *turn)
{
    uint8_t body[4096];
    size_t size = body_bytes(turn, body, sizeof(body));
    zsock_t *socket = zsock_new(ZMQ_PUSH);

    ASSERT(zsock_connect(socket, "%s", turn->endpoint) == 0);
    for (uint32_t i = 0; i < turn->messages; i++) {
        zframe_t *frame = zframe_new(body, size);

        ASSERT(zframe_send(&frame, socket, 0) == 0);
    }
    stay(turn);
    zsock_destroy(&socket);
}

static double czmq_receive(const turn_t *turn)
{
    zsock_t *socket = zsock_new(ZMQ_PULL);
    double began = 0, seconds;

    ASSERT(zsock_bind(socket, "%s", turn->endpoint) >= 0);
    for (uint32_t i = 0; i < turn->messages; i++) {
        zframe_t *frame = zframe_recv(socket);

        ASSERT(frame != NULL);
        zframe_destroy(&frame);
        if (i == 0)
            began = report_seconds();
    }
    seconds = report_seconds() - began;
    zsock_destroy(&socket);
    return seconds;
}
#endif

/* ---- turns ---- */

typedef struct {
    void (*send)(const turn_t *turn);
    double (*receive)(const turn_t *turn);
} way_t;

typedef struct {
    const way_t *way;
    const turn_t *turn;
} thread_t;

static void *send_in_thread(void *context)
{
    thread_t *thread = context;

    thread->way->send(thread->turn);
    return NULL;
}

static void forget_czmq(void)
{
#ifdef BENCH_CZMQ
    zsys_shutdown(); /* its context would be in the next child, its threads would not */
#endif
}

/* Messages a second: of the clock, and of all cores' work. The second does not care who else is
 * at work. */
typedef struct {
    double by_clock;
    double by_work;
} rate_t;

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

/* Of this process and of those it has waited for. */
static double work_seconds(void)
{
    struct rusage self, children;

    (void)getrusage(RUSAGE_SELF, &self);
    (void)getrusage(RUSAGE_CHILDREN, &children);
    return seconds_of(self.ru_utime) + seconds_of(self.ru_stime) + seconds_of(children.ru_utime) +
           seconds_of(children.ru_stime);
}

static rate_t run_inproc(const way_t *way, turn_t turn)
{
    thread_t context = {way, &turn};
    pthread_t thread;
    double seconds, work = work_seconds();

    turn.zmq = zmq_ctx_new();
    if (way->send == ours_send)
        ours_sending = open_actor(&turn, turn.zmq, SENDER);
    ASSERT(pthread_create(&thread, NULL, send_in_thread, &context) == 0);
    seconds = way->receive(&turn);
    if (way->send == ours_send)
        process_stop(ours_sending);
    ASSERT(pthread_join(thread, NULL) == 0);
    if (way->send == ours_send)
        process_close(ours_sending);
    (void)zmq_ctx_term(turn.zmq);
    forget_czmq();
    return (rate_t){turn.messages / seconds, turn.messages / (work_seconds() - work)};
}

static rate_t run_ipc(const way_t *way, turn_t turn)
{
    double seconds, work = work_seconds();
    pid_t child = fork();

    ASSERT(child >= 0);
    if (child == 0) {
        way->send(&turn);
        _exit(0);
    }
    seconds = way->receive(&turn);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    forget_czmq();
    return (rate_t){turn.messages / seconds, turn.messages / (work_seconds() - work)};
}

static void compare(report_t *report, const char *name, const way_t *other, double goal,
                    const turn_t *turn, bool inproc)
{
    static const way_t ours = {ours_send, ours_receive};
    double mine[2][TURNS], theirs[2][TURNS], ratios[2][TURNS];
    uint8_t body[4096];
    char row[80];

    for (int i = 0; i < TURNS; i++) {
        const rate_t a = inproc ? run_inproc(&ours, *turn) : run_ipc(&ours, *turn);
        const rate_t b = inproc ? run_inproc(other, *turn) : run_ipc(other, *turn);

        mine[0][i] = a.by_clock;
        theirs[0][i] = b.by_clock;
        mine[1][i] = a.by_work;
        theirs[1][i] = b.by_work;
        for (int by = 0; by < 2; by++)
            ratios[by][i] = mine[by][i] / theirs[by][i];
    }
    for (int by = 0; by < 2; by++) {
        snprintf(row, sizeof(row), "%s, %zu bytes, %s%s", inproc ? "inproc" : "ipc",
                 body_bytes(turn, body, sizeof(body)), name, by ? ", of work" : "");
        report_row(report, row, report_median(mine[by], TURNS) * 1e-6,
                   report_median(theirs[by], TURNS) * 1e-6, report_median(ratios[by], TURNS),
                   by ? 0 : goal);
    }
}

static void compare_all(report_t *report, turn_t turn, bool inproc)
{
    static const way_t raw = {raw_send, raw_receive};
#ifdef BENCH_CZMQ
    static const way_t czmq = {czmq_send, czmq_receive};
#endif

    turn.endpoint = turn.endpoints->at[RECEIVER];
    compare(report, "raw ZeroMQ", &raw, GOAL, &turn, inproc);
#ifdef BENCH_CZMQ
    compare(report, "CZMQ", &czmq, 0, &turn, inproc);
#endif
}

int main(int argc, char **argv)
{
    static endpoints_t inproc, ipc;
    char directory[] = "/tmp/lockstep-bench-XXXXXX";
    report_t report;

    ASSERT(mkdtemp(directory) != NULL);
    ASSERT(endpoints_inproc(&inproc, &roster, "bench") == STATUS_OK);
    ASSERT(endpoints_ipc(&ipc, &roster, directory) == STATUS_OK);
    report_open(&report, "typed messages against bare sockets", "million/s",
                argc > 1 ? argv[1] : NULL);
#ifndef BENCH_CZMQ
    puts("CZMQ is left out: libczmq-dev was not there when this was built");
#endif
    compare_all(&report, (turn_t){.endpoints = &inproc, .messages = 400000, .pages = 2}, true);
    compare_all(&report, (turn_t){.endpoints = &ipc, .messages = 400000, .pages = 2}, false);
    compare_all(&report, (turn_t){.endpoints = &inproc, .messages = 100000, .pages = 80}, true);
    compare_all(&report, (turn_t){.endpoints = &ipc, .messages = 100000, .pages = 80}, false);
    for (int id = 0; id < 2; id++)
        (void)unlink(ipc.at[id] + strlen("ipc://"));
    (void)rmdir(directory);
    return report_close(&report);
}
