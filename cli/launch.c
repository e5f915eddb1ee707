#include "cli/launch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <zmq.h>

#include "actors/gateway/client.h"
#include "actors/group.h"
#include "actors/monitor/host.h"
#include "actors/rank/port.h"
#include "actors/roster.h"
#include "actors/supervisor/children.h"
#include "actors/supervisor/supervisor.h"
#include "cli/command.h"
#include "actors/types.h"
#include "messages/message.h"
#include "device/cpu/cpu.h"
#include "device/symbolic/symbolic.h"
#include "runtime/base/log.h"
#include "runtime/base/shared.h"
#include "runtime/threads.h"

enum { SYMBOLIC_ANSWER_TOKENS = 64, SYMBOLIC_STEP_MS_MAX = 60000, LOOK_S = 1 };

/* Everything that one process points to while it runs. */
typedef struct {
    const rundir_t *rundir;
    const deployment_t *deployment;
    const topology_actor_t *actor;
    roster_t roster;
    endpoints_t endpoints;
    leader_setup_t leader;
    client_setup_t client;
    children_setup_t children;
    host_setup_t host;
    rank_port_setup_t rank;
    symbolic_setup_t symbolic;
    device_cpu_setup_t cpu;
    char executable[PATH_BYTES_MAX];
    char port_file[RUNDIR_PATH_BYTES + 32];
    journal_place_t journal;
    char journal_folder[RUNDIR_PATH_BYTES + 32];
    char keep[RUNDIR_PATH_BYTES + 32];
    char incidents[RUNDIR_PATH_BYTES + PATH_BYTES_MAX];
    process_t *process;
    bool stop_said;
    ev_signal terminate;
    ev_signal interrupt;
    ev_timer look;
} launch_t;

/* For benchmarks of everything but arithmetic, and for looking at the protocol. */
static bool is_symbolic(uint32_t *step_ms)
{
    const char *device = getenv("LOCKSTEP_DEVICE");
    unsigned long milliseconds = 0;
    char *end;

    if (!device || strncmp(device, "symbolic", strlen("symbolic")) != 0)
        return false;
    device += strlen("symbolic");
    if (*device == ':' && device[1] >= '0' && device[1] <= '9') {
        milliseconds = strtoul(device + 1, &end, 10);
        device = end;
    }
    *step_ms = (uint32_t)milliseconds;
    return *device == '\0' && milliseconds <= SYMBOLIC_STEP_MS_MAX;
}

bool launch_is_symbolic(void)
{
    uint32_t step_ms;

    return is_symbolic(&step_ms);
}

status_t launch_check_device(const topology_t *topology)
{
    const char *device = getenv("LOCKSTEP_DEVICE");

    if (launch_is_symbolic())
        return STATUS_OK;
    if (device && *device && strcmp(device, "cpu") != 0)
        return FAIL(STATUS_INVALID,
                    "LOCKSTEP_DEVICE is '%s', expected cpu, symbolic or symbolic:MILLISECONDS",
                    device);
    if (topology->device == TOPOLOGY_CUDA && !(device && *device))
        return FAIL(STATUS_UNSUPPORTED, "device: cuda, which this build of lockstep does not have");
    return STATUS_OK;
}

/* ---- what each kind needs -------------------------------------------------------------------- */

static const topology_actor_t *leader_of(const launch_t *self)
{
    return &self->deployment->topology.actors[self->actor->leader];
}

static status_t set_up_leader(launch_t *self)
{
    const topology_t *topology = &self->deployment->topology;
    const topology_group_t *group =
        topology_group(topology, (actor_kind_t)self->actor->kind, self->actor->instance);
    model_generation_t generation;

    TRY(model_generation_load(topology->model_path, &generation));
    self->leader.pages = group->pages;
    self->leader.borders = group->borders;
    if (generation.eos_count) {
        self->leader.end_token_count = generation.eos_count;
        memcpy(self->leader.end_tokens, generation.eos_tokens, sizeof(generation.eos_tokens));
    } else {
        self->leader.end_token_count = self->deployment->config.eos_count;
        memcpy(self->leader.end_tokens, self->deployment->config.eos_tokens,
               sizeof(self->deployment->config.eos_tokens));
    }
    return STATUS_OK;
}

/* The cores of the host, shared by the ranks on it. */
static uint32_t threads_of_a_rank(const topology_t *topology, uint16_t host)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long ranks = 0;

    for (uint32_t i = 0; i < topology->actor_count; i++)
        ranks += topology->actors[i].kind == ACTOR_RANK && topology->actors[i].host == host;
    return cores > ranks ? (uint32_t)(cores / ranks) : 1;
}

static void pool_name(const char *shm_prefix, actor_id_t actor, incarnation_t incarnation,
                      char name[DEVICE_NAME_BYTES_MAX])
{
    snprintf(name, DEVICE_NAME_BYTES_MAX, "%spool-%u-%u", shm_prefix, actor, incarnation);
}

/* What the dead left in shared memory. Whoever has mapped the pool of a dead rank keeps what it maps; its
 * name, and with the last of them its memory, goes. */
static void sweep(const char *shm_prefix, actor_id_t actor, incarnation_t incarnation)
{
    char name[DEVICE_NAME_BYTES_MAX];

    pool_name(shm_prefix, actor, incarnation, name);
    shared_unlink(name);
    rundir_segments_sweep(shm_prefix);
}

static void set_up_rank(launch_t *self, incarnation_t incarnation)
{
    const topology_t *topology = &self->deployment->topology;
    const topology_actor_t *leader = leader_of(self);
    const topology_group_t *group =
        topology_group(topology, (actor_kind_t)leader->kind, leader->instance);
    device_config_t *config = &self->rank.config;
    uint32_t step_ms;

    *config = (device_config_t){
        .rank = self->actor->rank,
        .world = group->tp,
        .page_count = group->pages,
        .border_count = group->borders,
        .slot_count = group->slots,
        .incarnation = incarnation,
    };
    self->rank.shm_prefix = self->rundir->shm_prefix;
    pool_name(self->rundir->shm_prefix, self->actor->id, incarnation, config->pool.name);
    if (is_symbolic(&step_ms)) {
        self->symbolic = (symbolic_setup_t){
            .weights = 7,
            .vocabulary = self->deployment->config.vocabulary,
            .end_token = self->deployment->config.eos_tokens[0],
            .answer_tokens = SYMBOLIC_ANSWER_TOKENS,
            .step_ms = step_ms,
        };
        self->rank.ops = &symbolic_ops;
        self->rank.setup = &self->symbolic;
    } else {
        self->cpu = (device_cpu_setup_t){
            .folder = topology->model_path,
            .cache_form = self->deployment->geometry.config.cache_form,
            .index_form = self->deployment->geometry.config.index_form,
            .threads = threads_of_a_rank(topology, self->actor->host),
            .rows_max = group->chunk_tokens,
            .positions_max = topology->context_tokens,
        };
        self->rank.ops = &device_cpu_ops;
        self->rank.setup = &self->cpu;
    }
}

/* For what is kept of lives and requests that ended badly. */
static const char *incidents_folder(launch_t *self)
{
    const char *folder = self->deployment->topology.incidents;

    if (folder[0] == '/')
        return folder;
    (void)snprintf(self->incidents, sizeof(self->incidents), "%s/%s", self->rundir->path, folder);
    return self->incidents;
}

/* The ports of its last life first: clients know them, also where any free one was asked for. With
 * `up --port` the admin port is any free one. */
static void set_up_gateway(launch_t *self)
{
    uint16_t instance = self->actor->instance, port = rundir_port(self->rundir, instance);
    const char *given = instance == 0 ? getenv("LOCKSTEP_PORT") : NULL;
    char leaf[32];

    if (!port && given)
        port = (uint16_t)strtoul(given, NULL, 10);
    snprintf(leaf, sizeof(leaf), "gateway-%u", instance);
    rundir_file(self->rundir, leaf, self->port_file);
    self->client = (client_setup_t){.topology = &self->deployment->topology,
                                    .gateway = instance,
                                    .port_given = port || given,
                                    .port = port,
                                    .admin_port = rundir_admin_port(self->rundir, instance),
                                    .poisoned = incidents_folder(self),
                                    .port_file = self->port_file};
}

static void set_up_children(launch_t *self)
{
    rundir_file(self->rundir, RUNDIR_KEEP, self->keep);
    self->children = (children_setup_t){
        .executable = self->executable,
        .directory = self->rundir->path,
        .shm_prefix = self->rundir->shm_prefix,
        .roster = &self->roster,
        .sweep = sweep,
        .incidents = {incidents_folder(self), self->journal_folder, self->rundir->shm_prefix,
                      &self->roster, &message_table, self->keep},
    };
}

static status_t set_up_kind(launch_t *self, incarnation_t incarnation, process_config_t *config)
{
    port_t *port = &config->ports[0];

    switch ((actor_kind_t)self->actor->kind) {
    case ACTOR_SUPERVISOR:
        if (readlink("/proc/self/exe", self->executable, sizeof(self->executable) - 1) < 0)
            return FAIL(STATUS_IO, "cannot find the own executable");
        set_up_children(self);
        *port = (port_t){&children_port, &self->children};
        config->end_states = BIT(SUPERVISOR_STOPPED);
        break;
    case ACTOR_GATEWAY:
        set_up_gateway(self);
        *port = (port_t){&client_port, &self->client};
        break;
    case ACTOR_PREFILL:
    case ACTOR_DECODE:
        TRY(set_up_leader(self));
        config->birth.setup = &self->leader;
        config->birth.setup_bytes = sizeof(self->leader);
        return STATUS_OK;
    case ACTOR_RANK:
        set_up_rank(self, incarnation);
        *port = (port_t){&rank_port, &self->rank};
        break;
    case ACTOR_MONITOR:
        self->host = (host_setup_t){&self->roster, self->actor->host, self->rundir->shm_prefix};
        *port = (port_t){&host_port, &self->host};
        break;
    default:
        return STATUS_OK;
    }
    config->port_count = 1;
    return STATUS_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static bool is_supervisor(const launch_t *self)
{
    return self->actor->kind == ACTOR_SUPERVISOR;
}

static void stop_all(launch_t *self, bool at_once)
{
    message_stop_t stop = {at_once ? 0 : (uint32_t)self->deployment->topology.drain_timeout_ms};

    self->stop_said = true;
    process_post(self->process, PORT_PROCESS, MESSAGE_stop, &stop);
}

/* The supervisor lets open requests end, unless it is SIGINT or a second signal, then ends its
 * children; everybody else just ends. */
static void on_signal(struct ev_loop *loop, ev_signal *watcher, int events)
{
    launch_t *self = watcher->data;

    (void)loop;
    (void)events;
    if (is_supervisor(self))
        stop_all(self, self->stop_said || watcher->signum == SIGINT);
    else
        process_stop(self->process);
}

/* Nobody who starts anew would find the sockets and the topology, nor `down` the supervisor. */
static void on_look(struct ev_loop *loop, ev_timer *watcher, int events)
{
    launch_t *self = watcher->data;

    (void)events;
    if (rundir_is_there(self->rundir))
        return;
    LOG(ERROR, "RUNDIR-GONE %s was removed or moved: all end", self->rundir->path);
    ev_timer_stop(loop, watcher);
    stop_all(self, true);
}

static status_t run(launch_t *self, const process_config_t *config)
{
    struct ev_loop *loop;
    status_t status;

    TRY(process_open(config, &self->process));
    loop = process_loop(self->process);
    ev_signal_init(&self->terminate, on_signal, SIGTERM);
    ev_signal_init(&self->interrupt, on_signal, SIGINT);
    self->terminate.data = self->interrupt.data = self;
    ev_signal_start(loop, &self->terminate);
    ev_signal_start(loop, &self->interrupt);
    ev_timer_init(&self->look, on_look, LOOK_S, LOOK_S);
    self->look.data = self;
    if (is_supervisor(self))
        ev_timer_start(loop, &self->look);
    status = process_run(self->process);
    ev_signal_stop(loop, &self->terminate);
    ev_signal_stop(loop, &self->interrupt);
    ev_timer_stop(loop, &self->look);
    process_close(self->process);
    return status;
}

/* NULL: none is kept. */
static const journal_place_t *set_up_journal(launch_t *self)
{
    const topology_t *topology = &self->deployment->topology;

    rundir_file(self->rundir, RUNDIR_JOURNAL, self->journal_folder);
    self->journal = (journal_place_t){.directory = self->journal_folder,
                                      .segment_bytes = topology->journal_bytes,
                                      .topology_bytes = sizeof(*topology),
                                      .tokens = topology->journal_tokens == TOPOLOGY_TOKENS_KEPT};
    return topology->journal_bytes ? &self->journal : NULL;
}

/* What an actor's process is made of, but for where it receives. */
static launch_t *prepare(const rundir_t *rundir, const deployment_t *deployment, actor_id_t actor,
                         incarnation_t incarnation, process_config_t *config)
{
    const topology_t *topology = &deployment->topology;
    launch_t *self = calloc(1, sizeof(*self));

    if (!self)
        return NULL;
    self->rundir = rundir;
    self->deployment = deployment;
    self->actor = &topology->actors[actor];
    roster_init(&self->roster, topology);
    *config = (process_config_t){
        .table = &message_table,
        .type = actor_type_of(self->roster.actors[actor].kind),
        .birth = {.id = actor, .incarnation = incarnation, .topology = topology},
        .roster = &self->roster,
        .endpoints = &self->endpoints,
        .digests.topology = topology->version,
        .shm_prefix = rundir->shm_prefix,
        .journal = set_up_journal(self),
    };
    return self;
}

static int exit_code(status_t status)
{
    if (status == STATUS_OK)
        return EXIT_OK;
    LOG(ERROR, "PROCESS-ENDS %s: %s", status_name(status), trail_text());
    trail_print(stderr);
    return EXIT_FAILED;
}

/* A gateway has one for each client, and ZeroMQ ends a process that has none for a new connection. */
static void raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int launch_actor(const rundir_t *rundir, const deployment_t *deployment, actor_id_t actor,
                 incarnation_t incarnation, uint8_t before)
{
    process_config_t config;
    launch_t *self = prepare(rundir, deployment, actor, incarnation, &config);
    status_t status;
    int code;

    if (!self)
        return EXIT_FAILED;
    config.before = before;
    config.family = self->actor->kind == ACTOR_SUPERVISOR ? getpid() : getppid();
    raise_descriptors();
    log_open(STDERR_FILENO, self->actor->name);
    signal(SIGPIPE, SIG_IGN);
    trail_reset();
    status = endpoints_ipc(&self->endpoints, &self->roster, rundir->path);
    if (status == STATUS_OK)
        status = set_up_kind(self, incarnation, &config);
    if (status == STATUS_OK)
        status = run(self, &config);
    code = exit_code(status);
    free(self);
    return code;
}

/* ---- all in one process ---------------------------------------------------------------------- */

static threads_t *volatile running; /* for the handler */
static volatile sig_atomic_t end_wanted;

static void on_end(int number)
{
    (void)number;
    end_wanted = 1;
    if (running)
        threads_stop(running);
}

static status_t run_threads(const process_config_t *configs, uint32_t count)
{
    struct sigaction action = {.sa_handler = on_end};
    threads_t *threads;
    status_t status;

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    TRY(threads_open(configs, count, &threads));
    running = threads;
    status = end_wanted ? STATUS_OK : threads_run(threads);
    running = NULL;
    threads_close(threads);
    return status;
}

static status_t prepare_threads(const rundir_t *rundir, const deployment_t *deployment, void *zmq,
                                launch_t **actors, process_config_t *configs, uint32_t *count)
{
    const topology_t *topology = &deployment->topology;

    for (uint32_t i = 0; i < topology->actor_count; i++) {
        launch_t *self;

        if (topology->actors[i].kind == ACTOR_SUPERVISOR)
            continue;
        self = prepare(rundir, deployment, topology->actors[i].id, 1, &configs[*count]);
        if (!self)
            return FAIL(STATUS_NO_MEMORY, "no memory for %s", topology->actors[i].name);
        actors[*count] = self;
        configs[*count].zmq = zmq;
        TRY(endpoints_inproc(&self->endpoints, &self->roster, rundir->name));
        TRY(set_up_kind(self, 1, &configs[(*count)++]));
    }
    return STATUS_OK;
}

int launch_threads(const rundir_t *rundir, const deployment_t *deployment)
{
    static launch_t *actors[ACTORS_MAX];
    static process_config_t configs[ACTORS_MAX];
    void *zmq = zmq_ctx_new();
    uint32_t count = 0;
    status_t status;

    log_open(STDERR_FILENO, rundir->name);
    signal(SIGPIPE, SIG_IGN);
    trail_reset();
    status = zmq ? prepare_threads(rundir, deployment, zmq, actors, configs, &count)
                 : FAIL(STATUS_NO_MEMORY, "no ZeroMQ context");
    if (status == STATUS_OK)
        status = run_threads(configs, count);
    for (uint32_t i = 0; i < ACTORS_MAX; i++)
        free(actors[i]);
    if (zmq)
        zmq_ctx_term(zmq);
    return exit_code(status);
}
