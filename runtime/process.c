#include "runtime/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/log.h"
#include "runtime/codec.h"
#include "runtime/base/probe.h"
#include "runtime/ring.h"

enum {
    TICK_US_DEFAULT = 20000,
    BATCH_FRAMES = 64,
    BATCH_MESSAGES = 256,
    POST_HEAD = 8,
    KNOWN_MAX = 64, /* senders whose parent was looked up */
    KNOWN_US = 1000 * 1000
};

/* A process that sends frames here. */
typedef struct {
    pid_t process;
    bool stranger;
    uint64_t looked_us;
} sender_t;

struct process {
    process_config_t config;
    node_t *node;
    transport_t *transport;
    figures_t *figures;
    ring_t *ring;
    struct ev_loop *loop;
    ev_io frames;
    ev_timer tick;
    ev_prepare before_sleep;
    ev_idle awake; /* active while there is more to do: keeps the loop from sleeping */
    ev_async posted;
    ev_async stopped;
    atomic_bool stop;
    status_t status;
    void *ports[PROCESS_PORTS_MAX];
    uint32_t ports_open;
    arena_t arena; /* of what the actor pushes to ports */
    sender_t senders[KNOWN_MAX]; /* [pid % KNOWN_MAX] */

    pthread_mutex_t lock; /* of the two below */
    queue_t posts;        /* records: u16 port, u16 id, padded to 8, then the body */
    uint8_t *scratch;
};

/* ---- what the node asks of its driver ---- */

static uint64_t clock_us(void *context)
{
    struct timespec now;

    (void)context;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t wall_ms(void *context)
{
    struct timespec now;

    (void)context;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void note(process_t *process, ring_what_t what, actor_id_t peer, uint16_t id,
                 const uint8_t *bytes, size_t size)
{
    ring_record_t record;

    if (!process->ring)
        return;
    record = (ring_record_t){.us = clock_us(NULL),
                             .size = (uint32_t)size,
                             .peer = peer,
                             .id = id,
                             .what = (uint8_t)what};
    ring_write(process->ring, &record, bytes);
}

static void send_frame(void *context, actor_id_t peer, const uint8_t *frame, size_t size)
{
    process_t *process = context;

    note(process, RING_SENT, peer, 0, frame, size);
    (void)transport_send(process->transport, peer, frame, size);
}

static void to_port(void *context, actor_id_t port, uint16_t id, const uint8_t *bytes, size_t size)
{
    process_t *process = context;

    note(process, RING_PORT_SENT, port, id, bytes, size);
    for (uint32_t i = 0; i < process->config.port_count; i++) {
        const port_type_t *type = process->config.ports[i].type;
        const void *body = NULL;
        status_t status;

        if (type->id != port)
            continue;
        arena_reset(&process->arena);
        status =
            codec_decode(&process->config.table->rows[id], bytes, size, &process->arena, &body);
        ASSERT(status == STATUS_OK);
        type->push(process->ports[i], id, body, bytes, size);
        return;
    }
    LOG(WARN, "PORT-ABSENT port=%u message=%s", port, process->config.table->rows[id].name);
}

static void observer(void *context, actor_id_t id, const char *endpoint)
{
    transport_observer(((process_t *)context)->transport, id, endpoint);
}

/* 0 if there is no such process. */
static pid_t parent_of(pid_t process)
{
    char path[32], stat[512];
    const char *behind_name;
    int parent = 0;
    size_t bytes;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)process);
    file = fopen(path, "re");
    if (!file)
        return 0;
    bytes = fread(stat, 1, sizeof(stat) - 1, file);
    (void)fclose(file);
    stat[bytes] = '\0';
    behind_name = strrchr(stat, ')'); /* pid (name) state parent ... */
    if (!behind_name || sscanf(behind_name, ") %*c %d", &parent) != 1)
        return 0;
    return parent;
}

/* The kernel says which process sent it, and whose child that is; nobody can lie about that. A number is used
 * again some day, so nobody is known for long. */
static bool is_stranger(process_t *process)
{
    pid_t family = process->config.family, pid = transport_sender(process->transport);
    sender_t *sender = &process->senders[(uint32_t)pid % KNOWN_MAX];
    uint64_t now = clock_us(NULL);

    if (family == 0 || pid == family || pid == getpid())
        return false;
    if (sender->process != pid || now - sender->looked_us > KNOWN_US)
        *sender = (sender_t){pid, parent_of(pid) != family, now};
    return sender->stranger;
}

static void receive_frame(void *context, const uint8_t *frame, size_t size)
{
    process_t *process = context;
    actor_id_t from = ACTOR_NONE, to = ACTOR_NONE;

    if (process->ring) {
        (void)stream_peek(frame, size, &from, &to);
        note(process, RING_RECEIVED, from, 0, frame, size);
    }
    node_receive(process->node, frame, size, is_stranger(process));
}

/* ---- posts ---- */

void process_post(process_t *process, actor_id_t port, uint16_t id, const void *body)
{
    size_t used = 0;
    bool was_empty;
    status_t status;
    uint8_t *record;

    ASSERT(id < process->config.table->count);
    (void)pthread_mutex_lock(&process->lock);
    status = codec_encode(&process->config.table->rows[id], body, process->scratch,
                          MESSAGE_BYTES_MAX, &used);
    ASSERT(status == STATUS_OK);
    was_empty = process->posts.count == 0;
    record = queue_push(&process->posts, POST_HEAD + used);
    ASSERT(record != NULL);
    memset(record, 0, POST_HEAD);
    memcpy(record, &port, sizeof(port));
    memcpy(record + 2, &id, sizeof(id));
    memcpy(record + POST_HEAD, process->scratch, used);
    (void)pthread_mutex_unlock(&process->lock);
    if (was_empty)
        ev_async_send(process->loop, &process->posted);
}

static void take_posts(process_t *process)
{
    size_t size = 0;
    uint8_t *record;

    (void)pthread_mutex_lock(&process->lock);
    while ((record = queue_front(&process->posts, &size))) {
        actor_id_t port;
        uint16_t id;

        memcpy(&port, record, sizeof(port));
        memcpy(&id, record + 2, sizeof(id));
        note(process, RING_PORT_RECEIVED, port, id, record + POST_HEAD, size - POST_HEAD);
        node_post(process->node, port, id, record + POST_HEAD, size - POST_HEAD);
        queue_pop(&process->posts);
    }
    (void)pthread_mutex_unlock(&process->lock);
}

/* ---- the loop ---- */

static bool has_ended(const process_t *process)
{
    const dispatch_t *dispatch = node_dispatch(process->node);

    return process->status != STATUS_OK || atomic_load(&process->stop) ||
           (process->config.end_states & BIT(dispatch->type->state(dispatch->self)));
}

/* Takes in, handles and sends one batch. True if there may be more. */
static bool turn(process_t *process)
{
    uint32_t frames, messages = 0;
    bool worked = true;

    take_posts(process);
    frames = transport_receive(process->transport, BATCH_FRAMES, receive_frame, process);
    while (worked && messages < BATCH_MESSAGES && !has_ended(process)) {
        process->status = node_work(process->node, &worked);
        messages += worked;
    }
    node_flush(process->node);
    return frames == BATCH_FRAMES || messages == BATCH_MESSAGES;
}

/* Looks for work for a while before the loop sleeps. True if some came. */
static bool poll(process_t *process)
{
    uint64_t began = clock_us(NULL);

    while (clock_us(NULL) - began < process->config.poll_us) {
        if (transport_receive(process->transport, 1, receive_frame, process) > 0)
            return true;
        if (ev_async_pending(&process->posted))
            return true;
    }
    return false;
}

static void on_before_sleep(struct ev_loop *loop, ev_prepare *watcher, int events)
{
    process_t *process = watcher->data;
    bool more = turn(process);

    (void)events;
    while (!more && process->config.poll_us && !has_ended(process) && poll(process))
        more = turn(process);
    if (has_ended(process)) {
        ev_break(loop, EVBREAK_ALL);
        more = true; /* a loop that is to break must not sleep first */
    }
    if (more)
        ev_idle_start(loop, &process->awake);
    else
        ev_idle_stop(loop, &process->awake);
}

static void on_tick(struct ev_loop *loop, ev_timer *watcher, int events)
{
    process_t *process = watcher->data;

    (void)loop;
    (void)events;
    while (transport_receive(process->transport, BATCH_FRAMES, receive_frame, process) ==
           BATCH_FRAMES)
        ;
    take_posts(process);
    node_tick(process->node);
}

/* All work is done in on_before_sleep: waking the loop is all that these have to do. */
static void on_frames(struct ev_loop *loop, ev_io *watcher, int events)
{
    (void)loop;
    (void)watcher;
    (void)events;
}

static void on_awake(struct ev_loop *loop, ev_idle *watcher, int events)
{
    (void)loop;
    (void)watcher;
    (void)events;
}

static void on_async(struct ev_loop *loop, ev_async *watcher, int events)
{
    (void)loop;
    (void)watcher;
    (void)events;
}

static void start_watchers(process_t *process)
{
    double period = (double)process->config.tick_us / 1e6;

    ev_io_init(&process->frames, on_frames, transport_descriptor(process->transport), EV_READ);
    ev_timer_init(&process->tick, on_tick, period, period);
    ev_prepare_init(&process->before_sleep, on_before_sleep);
    ev_idle_init(&process->awake, on_awake);
    process->tick.data = process;
    process->before_sleep.data = process;
    ev_io_start(process->loop, &process->frames);
    ev_timer_start(process->loop, &process->tick);
    ev_prepare_start(process->loop, &process->before_sleep);
}

status_t process_run(process_t *process)
{
    start_watchers(process);
    ev_run(process->loop, 0);
    ev_io_stop(process->loop, &process->frames);
    ev_timer_stop(process->loop, &process->tick);
    ev_prepare_stop(process->loop, &process->before_sleep);
    ev_idle_stop(process->loop, &process->awake);
    if (process->status != STATUS_OK) {
        char trail[1024] = "";
        FILE *out = fmemopen(trail, sizeof(trail) - 1, "w");

        if (out) {
            trail_print(out);
            (void)fclose(out);
        }
        LOG(ERROR, "PROCESS-FAILED actor=%s state=%s trail:\n%s",
            roster_name(process->config.roster, process->config.birth.id),
            dispatch_state_name(node_dispatch(process->node)), trail);
    }
    return process->status;
}

void process_stop(process_t *process)
{
    atomic_store(&process->stop, true);
    ev_async_send(process->loop, &process->stopped);
}

/* ---- life ---- */

static status_t open_node(process_t *process)
{
    const process_config_t *config = &process->config;
    const char *name = roster_name(config->roster, config->birth.id);
    node_config_t node = {.type = config->type,
                          .birth = &config->birth,
                          .before = config->before,
                          .table = config->table,
                          .roster = config->roster,
                          .digests = config->digests,
                          .driver = {.context = process,
                                     .clock_us = clock_us,
                                     .wall_ms = wall_ms,
                                     .frame = send_frame,
                                     .port = to_port,
                                     .observer = observer},
                          .tick_us = config->tick_us,
                          .journal = config->journal,
                          .check = config->check};

    if (config->shm_prefix) {
        TRY(figures_create(config->shm_prefix, name, &process->figures));
        TRY(ring_create(config->shm_prefix, name, &process->ring));
    }
    node.figures = process->figures;
    if (process->figures && !config->zmq) /* threads of one process have one word, their own */
        probe_switches_set(&process->figures->probes);
    TRY(transport_open(config->zmq, config->endpoints, config->birth.id, &process->transport));
    TRY(node_open(&node, &process->node));
    for (; process->ports_open < config->port_count; process->ports_open++) {
        const port_t *port = &config->ports[process->ports_open];

        TRY(port->type->open(process, port->setup, &process->ports[process->ports_open]));
    }
    return STATUS_OK;
}

status_t process_open(const process_config_t *config, process_t **process_p)
{
    process_t *process = calloc(1, sizeof(*process));
    void *decoded = malloc(MESSAGE_ARENA_BYTES);
    status_t status = STATUS_OK;

    ASSERT(config->port_count <= PROCESS_PORTS_MAX);
    if (process)
        process->scratch = malloc(MESSAGE_BYTES_MAX);
    if (!process || !decoded || !process->scratch) {
        free(process ? process->scratch : NULL);
        free(process);
        free(decoded);
        return FAIL(STATUS_NO_MEMORY, "a process and its buffers");
    }
    process->config = *config;
    if (!process->config.tick_us)
        process->config.tick_us = TICK_US_DEFAULT;
    arena_init(&process->arena, decoded, MESSAGE_ARENA_BYTES);
    queue_init(&process->posts, MAILBOX_BYTES_MAX);
    (void)pthread_mutex_init(&process->lock, NULL);
    /* Never the default loop: there is one in a process, which threads cannot share, and it would reap the
     * children that a port watches by pidfd. */
    process->loop = ev_loop_new(EVFLAG_AUTO);
    if (!process->loop) {
        status = FAIL(STATUS_IO, "libev finds no way to wait for descriptors");
    } else {
        ev_async_init(&process->posted, on_async);
        ev_async_init(&process->stopped, on_async);
        ev_async_start(process->loop, &process->posted);
        ev_async_start(process->loop, &process->stopped);
        status = open_node(process);
    }
    if (status != STATUS_OK) {
        process_close(process);
        return trail_pass(status, __func__, __LINE__);
    }
    *process_p = process;
    return STATUS_OK;
}

void process_close(process_t *process)
{
    const process_config_t *config;

    if (!process)
        return;
    config = &process->config;
    while (process->ports_open > 0) {
        process->ports_open--;
        config->ports[process->ports_open].type->close(process->ports[process->ports_open]);
    }
    node_close(process->node);
    transport_close(process->transport);
    if (process->loop) {
        ev_async_stop(process->loop, &process->posted);
        ev_async_stop(process->loop, &process->stopped);
        ev_loop_destroy(process->loop);
    }
    if (process->figures) {
        probe_switches_set(NULL);
        figures_close(process->figures);
        figures_unlink(config->shm_prefix, roster_name(config->roster, config->birth.id));
    }
    if (process->ring) {
        ring_close(process->ring);
        ring_unlink(config->shm_prefix, roster_name(config->roster, config->birth.id));
    }
    (void)pthread_mutex_destroy(&process->lock);
    queue_fini(&process->posts);
    free(process->arena.bytes);
    free(process->scratch);
    free(process);
}

struct ev_loop *process_loop(process_t *process)
{
    return process->loop;
}

const node_t *process_node(const process_t *process)
{
    return process->node;
}
