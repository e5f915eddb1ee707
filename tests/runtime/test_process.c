/* The process driver: two actors in two processes over ipc, one of them killed and started
 * again; all in threads of one process over inproc; figures seen from outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "runtime/base/log.h"
#include "runtime/process.h"
#include "runtime/ring.h"
#include "runtime/threads.h"
#include "runtime/worker.h"
#include "tests/runtime/toys.h"

#ifdef __SANITIZE_THREAD__
/* libzmq is not built with the sanitizer, so it does not see how its threads hand over. */
const char *__tsan_default_suppressions(void);
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:libzmq.so\nrace:libzmq.so\n";
}
#endif

static endpoints_t endpoints;
static char directory[64];
static char prefix[64];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(directory, sizeof(directory), "/tmp/lockstep-test-XXXXXX");
    (void)snprintf(prefix, sizeof(prefix), "/lockstep-test-%d-", (int)getpid());
    assert_non_null(mkdtemp(directory));
    return endpoints_ipc(&endpoints, &toy_roster, directory) == STATUS_OK ? 0 : -1;
}

static int tear_down(void **state)
{
    char path[ENDPOINT_BYTES_MAX];

    (void)state;
    for (uint32_t i = 0; i < TOY_COUNT;
         i++) { /* what a killed process leaves, a supervisor cleans */
        (void)snprintf(path, sizeof(path), "%s", endpoints.at[i] + strlen("ipc://"));
        (void)unlink(path);
        figures_unlink(prefix, toy_roster.actors[i].name);
        ring_unlink(prefix, toy_roster.actors[i].name);
    }
    return rmdir(directory);
}

static process_config_t config_of(actor_id_t id, incarnation_t incarnation)
{
    return (process_config_t){.type = id == TOY_DECODE ? &toy_decode : &toy_transfer,
                              .birth = {.id = id, .incarnation = incarnation},
                              .table = &message_table,
                              .roster = &toy_roster,
                              .endpoints = &endpoints,
                              .shm_prefix = prefix,
                              .tick_us = TOY_TICK_US,
                              .end_states = BIT(TOY_DONE),
                              .family = id == TOY_DECODE ? getpid() : getppid(),
                              .check = true};
}

/* A process of its own: this binary again, so that nothing of the parent's loop and sockets is in it. */
static pid_t spawn_transfer(incarnation_t incarnation)
{
    char life[16];
    pid_t pid;

    (void)snprintf(life, sizeof(life), "%u", incarnation);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execl("/proc/self/exe", "test_process", "transfer", life, directory, prefix,
                    (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    return pid;
}

static int run_transfer(char **argv)
{
    process_config_t config;
    process_t *process = NULL;

    (void)snprintf(directory, sizeof(directory), "%s", argv[3]);
    (void)snprintf(prefix, sizeof(prefix), "%s", argv[4]);
    config = config_of(TOY_TRANSFER, (incarnation_t)strtoul(argv[2], NULL, 10));
    if (endpoints_ipc(&endpoints, &toy_roster, directory) != STATUS_OK ||
        process_open(&config, &process) != STATUS_OK)
        return 2;
    return process_run(process) == STATUS_OK ? 0 : 1;
}

static const toy_t *toy_of(const process_t *process)
{
    return node_dispatch(process_node(process))->self;
}

/* ---- a peer dies in the middle ---- */

typedef struct {
    ev_prepare watcher;
    process_t *process;
    pid_t child;
    uint32_t ask_max;
} murder_t;

/* All that was asked is answered: kill the peer, and let the rest be asked of its next life. */
static void on_turn(struct ev_loop *loop, ev_prepare *watcher, int events)
{
    murder_t *murder = watcher->data;

    (void)loop;
    (void)events;
    if (murder->ask_max == TOY_ATTEMPTS ||
        toy_of(murder->process)->answered_count < murder->ask_max)
        return;
    assert_int_equal(kill(murder->child, SIGKILL), 0);
    assert_int_equal(waitpid(murder->child, NULL, 0), murder->child);
    murder->child = spawn_transfer(2);
    murder->ask_max = TOY_ATTEMPTS;
}

/* P19 of docs/bugs.md. */
static void test_a_killed_peer_is_joined_again_in_its_next_life(void **state)
{
    process_config_t config = config_of(TOY_DECODE, 1);
    process_t *process = NULL;
    murder_t murder = {.child = spawn_transfer(1), .ask_max = TOY_ATTEMPTS / 2};
    const toy_t *toy;

    (void)state;
    config.birth.setup = &murder.ask_max;
    assert_int_equal(process_open(&config, &process), STATUS_OK);
    murder.process = process;
    murder.watcher.data = &murder;
    ev_prepare_init(&murder.watcher, on_turn);
    ev_prepare_start(process_loop(process), &murder.watcher);
    assert_int_equal(process_run(process), STATUS_OK);
    ev_prepare_stop(process_loop(process), &murder.watcher);
    toy = toy_of(process);
    for (uint32_t i = 0; i < TOY_ATTEMPTS; i++)
        assert_int_equal(toy->answered[i], 1);
    assert_int_equal(toy->joins, 2);
    assert_int_equal(toy->exits, 1);
    process_close(process);
    assert_int_equal(kill(murder.child, SIGKILL), 0);
    assert_int_equal(waitpid(murder.child, NULL, 0), murder.child);
}

/* ---- figures and ring from outside ---- */

static void test_figures_show_what_happened_and_go_with_a_clean_end(void **state)
{
    static uint8_t bytes[RING_RECORD_BYTES_MAX];
    const process_config_t config = config_of(TOY_DECODE, 3);
    const figures_t *figures = NULL;
    const stream_t *stream;
    ring_t *ring = NULL;
    ring_reader_t reader;
    ring_record_t record;
    process_t *process = NULL;
    uint32_t sent = 0, received = 0;
    pid_t child = spawn_transfer(1);

    (void)state;
    assert_int_equal(process_open(&config, &process), STATUS_OK);
    assert_int_equal(process_run(process), STATUS_OK);
    assert_int_equal(figures_open(prefix, "decode/0", &figures), STATUS_OK);
    assert_int_equal(figure_get(&figures->process), getpid());
    assert_int_equal(figure_get(&figures->incarnation), 3);
    assert_int_equal(figure_get(&figures->messages[MESSAGE_opened].received), TOY_ATTEMPTS);
    assert_int_equal(figure_get(&figures->messages[MESSAGE_joined].received), 1);
    assert_true(figure_get(&figures->progress) >= TOY_ATTEMPTS);
    assert_true(figure_get(&figures->depth_max) >= 1);
    assert_int_equal(figure_get(&figures->attempts), TOY_ATTEMPTS);
    assert_string_equal(figures->name, "decode/0");
    assert_string_equal(figures->state_names[figure_get(&figures->state)], "DONE");
    stream = node_stream(process_node(process), TOY_TRANSFER);
    assert_int_equal(stream->out_sent, TOY_ATTEMPTS);
    assert_int_equal(ring_open(prefix, "decode/0", &ring), STATUS_OK);
    ring_reader_begin(ring, true, &reader);
    while (ring_read(ring, &reader, &record, bytes)) {
        sent += record.what == RING_SENT;
        received += record.what == RING_RECEIVED;
    }
    assert_true(sent >= 2 && received >= 2);
    ring_close(ring);
    figures_close(figures);
    process_close(process);
    assert_int_equal(figures_open(prefix, "decode/0", &figures), STATUS_NOT_FOUND);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* ---- threads ---- */

static void test_all_actors_run_as_threads_of_one_process(void **state)
{
    endpoints_t *inproc = malloc(sizeof(*inproc));
    process_config_t configs[2];
    threads_t *threads = NULL;
    void *zmq = zmq_ctx_new();

    (void)state;
    assert_non_null(inproc);
    assert_int_equal(endpoints_inproc(inproc, &toy_roster, "test"), STATUS_OK);
    for (actor_id_t id = 0; id < 2; id++) {
        configs[id] = config_of(id, 1);
        configs[id].endpoints = inproc;
        configs[id].zmq = zmq;
        configs[id].shm_prefix = NULL;
    }
    assert_int_equal(threads_open(configs, 2, &threads), STATUS_OK);
    assert_int_equal(threads_run(threads), STATUS_OK);
    assert_int_equal(toy_of(threads_process(threads, 0))->answered_count, TOY_ATTEMPTS);
    assert_int_equal(toy_of(threads_process(threads, 1))->opens, TOY_ATTEMPTS);
    threads_close(threads);
    (void)zmq_ctx_term(zmq);
    free(inproc);
}

/* ---- ports and workers ---- */

/* A port with a thread behind it: what the supervisor spawns is reported as reaped by the
 * worker. */
typedef struct {
    process_t *process;
    worker_t *worker;
    uint32_t seen;
} echo_t;

enum { ECHOES = 50 };
static uint32_t echoed;

static void echo_job(void *context, uint16_t id, const void *body)
{
    const message_spawn_t *m = body;
    echo_t *self = context;
    message_reaped_t reaped = {.actor = m->actor, .incarnation = m->incarnation};

    assert_int_equal(id, MESSAGE_spawn);
    process_post(self->process, PORT_PROCESS, MESSAGE_reaped, &reaped);
}

static status_t echo_open(process_t *process, const void *setup, void **self_p)
{
    echo_t *self = calloc(1, sizeof(*self));

    assert_ptr_equal(setup, &echoed);
    assert_non_null(self);
    self->process = process;
    *self_p = self;
    return worker_open("echo", &message_table, ECHOES, echo_job, self, &self->worker);
}

static void echo_push(void *arg, uint16_t id, const void *body, const uint8_t *bytes, size_t size)
{
    echo_t *self = arg;

    assert_int_equal(((const message_spawn_t *)body)->incarnation, self->seen + 1);
    self->seen++;
    worker_push(self->worker, id, bytes, size);
}

static void echo_close(void *arg)
{
    echo_t *self = arg;

    worker_close(self->worker);
    free(self);
}

static const port_type_t echo_type = {PORT_PROCESS, echo_open, echo_push, echo_close};

typedef struct {
    uint8_t state;
    uint32_t spawned;
    uint32_t reaped;
} spawner_t;

static void plan_spawns(void *arg, outbox_t *outbox)
{
    spawner_t *self = arg;

    while (self->spawned < ECHOES) {
        message_spawn_t spawn = {.actor = 1, .incarnation = ++self->spawned};

        outbox_push(outbox, PORT_PROCESS, MESSAGE_spawn, &spawn);
    }
}

static status_t on_reaped(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_reaped_t *m = envelope->body;
    spawner_t *self = arg;

    (void)outbox;
    assert_int_equal(envelope->from, PORT_PROCESS);
    assert_int_equal(m->incarnation, ++self->reaped);
    echoed = self->reaped;
    if (self->reaped == ECHOES)
        self->state = TOY_DONE;
    return STATUS_OK;
}

static uint8_t spawner_state(const void *self)
{
    return ((const spawner_t *)self)->state;
}

static void test_a_port_answers_from_its_own_thread(void **state)
{
    static const char *const names[] = {"ON", "DONE"};
    static const actor_rule_t rules[] = {
        {TOY_ON, MESSAGE_reaped, on_reaped, BIT(TOY_ON) | BIT(TOY_DONE)},
    };
    static const actor_type_t type = {.kind = ACTOR_SUPERVISOR,
                                      .state_bytes = sizeof(spawner_t),
                                      .plan = plan_spawns,
                                      .state = spawner_state,
                                      .table = {names, 2, rules, 1, NULL, 0}};
    process_config_t config = config_of(TOY_SUPERVISOR, 1);
    process_t *process = NULL;

    (void)state;
    echoed = 0;
    config.type = &type;
    config.ports[0] = (port_t){&echo_type, &echoed};
    config.port_count = 1;
    assert_int_equal(process_open(&config, &process), STATUS_OK);
    assert_int_equal(process_run(process), STATUS_OK);
    assert_int_equal(echoed, ECHOES);
    process_close(process);
}

static void *stop_soon(void *process)
{
    process_stop(process);
    return NULL;
}

static void test_stop_ends_a_run_from_another_thread(void **state)
{
    const process_config_t config = config_of(TOY_DECODE, 1);
    process_t *process = NULL;
    pthread_t thread;

    (void)state;
    assert_int_equal(process_open(&config, &process), STATUS_OK);
    assert_int_equal(pthread_create(&thread, NULL, stop_soon, process), 0);
    assert_int_equal(process_run(process), STATUS_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    process_close(process);
}

static void test_an_endpoint_too_long_is_refused_with_its_name(void **state)
{
    endpoints_t *made = malloc(sizeof(*made));
    char deep[128];

    (void)state;
    memset(deep, 'd', sizeof(deep) - 1);
    deep[0] = '/';
    deep[sizeof(deep) - 1] = '\0';
    trail_reset();
    assert_int_equal(endpoints_ipc(made, &toy_roster, deep), STATUS_TOO_LARGE);
    assert_non_null(strstr(trail_text(), "ddd/decode/0"));
    free(made);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_a_killed_peer_is_joined_again_in_its_next_life),
        TEST(test_figures_show_what_happened_and_go_with_a_clean_end),
        TEST(test_all_actors_run_as_threads_of_one_process),
        TEST(test_a_port_answers_from_its_own_thread),
        TEST(test_stop_ends_a_run_from_another_thread),
        TEST(test_an_endpoint_too_long_is_refused_with_its_name),
    };

    if (argc == 5 && strcmp(argv[1], "transfer") == 0)
        return run_transfer(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
