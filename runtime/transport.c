#include "runtime/transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "runtime/base/log.h"

enum {
    RECONNECT_MS_MIN = 10,
    RECONNECT_MS_MAX = 100,
    IPC_PATH_BYTES_MAX = 107, /* sun_path without its NUL */
};

struct transport {
    void *context;
    bool owns_context;
    const endpoints_t *endpoints;
    void *in;
    char bound[ENDPOINT_BYTES_MAX]; /* where; "" before */
    int descriptor;
    const zmq_msg_t *in_hand; /* while it is handed on */
    void *out[ACTORS_MAX];
    struct {
        actor_id_t id;
        void *socket;
        char endpoint[ENDPOINT_BYTES_MAX];
    } observers[OBSERVERS_MAX];
    uint32_t observer_next; /* place that is given to a further one */
};

/* ---- endpoints ---- */

static status_t fill(endpoints_t *endpoints, const roster_t *roster, const char *scheme,
                     const char *where, const char *ending)
{
    for (uint32_t id = 0; id < roster->count; id++) {
        char *at = endpoints->at[id];
        int length = snprintf(at, ENDPOINT_BYTES_MAX, "%s://%s/%s%s", scheme, where,
                              roster->actors[id].name, ending);

        if (length < 0 || length >= ENDPOINT_BYTES_MAX ||
            (size_t)length - strlen("ipc://") > IPC_PATH_BYTES_MAX)
            return FAIL(STATUS_TOO_LARGE, "endpoint %s://%s/%s%s has %d bytes, at most %d fit",
                        scheme, where, roster->actors[id].name, ending, length, IPC_PATH_BYTES_MAX);
        for (at += strlen(scheme) + strlen("://") + strlen(where) + 1; *at; at++)
            if (*at == '/')
                *at = '.';
    }
    return STATUS_OK;
}

status_t endpoints_ipc(endpoints_t *endpoints, const roster_t *roster, const char *directory)
{
    TRY(fill(endpoints, roster, "ipc", directory, ".ipc"));
    return STATUS_OK;
}

status_t endpoints_inproc(endpoints_t *endpoints, const roster_t *roster, const char *name)
{
    TRY(fill(endpoints, roster, "inproc", name, ""));
    return STATUS_OK;
}

/* ---- life ---- */

static void set(void *socket, int option, int value)
{
    int status = zmq_setsockopt(socket, option, &value, sizeof(value));

    ASSERT(status == 0);
}

status_t transport_open_at(void *context, const endpoints_t *endpoints, const char *endpoint,
                           transport_t **transport_p)
{
    transport_t *transport = calloc(1, sizeof(*transport));
    size_t size = sizeof(transport->descriptor);
    const int64_t frame_bytes_max = FRAME_BYTES_MAX;
    int status;

    if (!transport)
        return FAIL(STATUS_NO_MEMORY, "a transport");
    transport->endpoints = endpoints;
    transport->owns_context = context == NULL;
    transport->context = context ? context : zmq_ctx_new();
    transport->in = transport->context ? zmq_socket(transport->context, ZMQ_PULL) : NULL;
    if (!transport->in) {
        transport_close(transport);
        return FAIL(STATUS_IO, "a ZeroMQ socket: %s", zmq_strerror(errno));
    }
    set(transport->in, ZMQ_LINGER, 0);
    set(transport->in, ZMQ_RCVHWM, CONNECTION_FRAMES_MAX);
    /* ZeroMQ would make room for whatever size a stranger says. */
    status =
        zmq_setsockopt(transport->in, ZMQ_MAXMSGSIZE, &frame_bytes_max, sizeof(frame_bytes_max));
    ASSERT(status == 0);
    if (zmq_bind(transport->in, endpoint) != 0) {
        int reason = errno;

        transport_close(transport);
        return FAIL(STATUS_IO, "cannot receive at %s: %s", endpoint, zmq_strerror(reason));
    }
    (void)snprintf(transport->bound, sizeof(transport->bound), "%s", endpoint);
    (void)zmq_getsockopt(transport->in, ZMQ_FD, &transport->descriptor, &size);
    *transport_p = transport;
    return STATUS_OK;
}

status_t transport_open(void *context, const endpoints_t *endpoints, actor_id_t self,
                        transport_t **transport)
{
    TRY(transport_open_at(context, endpoints, endpoints->at[self], transport));
    return STATUS_OK;
}

void transport_close(transport_t *transport)
{
    if (!transport)
        return;
    if (transport->in)
        (void)zmq_close(transport->in);
    for (uint32_t i = 0; i < ACTORS_MAX; i++)
        if (transport->out[i])
            (void)zmq_close(transport->out[i]);
    for (uint32_t i = 0; i < OBSERVERS_MAX; i++)
        if (transport->observers[i].socket)
            (void)zmq_close(transport->observers[i].socket);
    if (transport->owns_context && transport->context)
        (void)zmq_ctx_term(transport->context);
    if (strncmp(transport->bound, "ipc://", strlen("ipc://")) == 0) /* ZeroMQ leaves it behind */
        (void)unlink(transport->bound + strlen("ipc://"));
    free(transport);
}

/* ---- out ---- */

static void *connect_to(const transport_t *transport, const char *endpoint, int frames_max)
{
    void *socket = zmq_socket(transport->context, ZMQ_PUSH);

    if (!socket)
        return NULL;
    set(socket, ZMQ_LINGER, 0);
    set(socket, ZMQ_SNDHWM, frames_max);
    set(socket, ZMQ_RECONNECT_IVL, RECONNECT_MS_MIN);
    set(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MS_MAX);
    /* Nothing is kept for a peer that is not there: its next life would get frames of an earlier
     * one. */
    set(socket, ZMQ_IMMEDIATE, 1);
    if (zmq_connect(socket, endpoint) != 0) {
        LOG(WARN, "TRANSPORT-CONNECT endpoint=%s: %s", endpoint, zmq_strerror(errno));
        (void)zmq_close(socket);
        return NULL;
    }
    return socket;
}

void transport_observer(transport_t *transport, actor_id_t observer, const char *endpoint)
{
    uint32_t place = OBSERVERS_MAX;

    for (uint32_t i = 0; i < OBSERVERS_MAX; i++)
        if (transport->observers[i].id == observer)
            place = i; /* even without a socket: an endpoint that is none is tried once */
    if (place < OBSERVERS_MAX && strcmp(transport->observers[place].endpoint, endpoint) == 0)
        return;
    if (place == OBSERVERS_MAX)
        place = transport->observer_next++ % OBSERVERS_MAX;
    if (transport->observers[place].socket)
        (void)zmq_close(transport->observers[place].socket);
    transport->observers[place].id = observer;
    transport->observers[place].socket = connect_to(transport, endpoint, OBSERVER_FRAMES_MAX);
    (void)snprintf(transport->observers[place].endpoint, ENDPOINT_BYTES_MAX, "%s", endpoint);
}

static void *socket_to(transport_t *transport, actor_id_t to)
{
    if (to < ACTORS_MAX) {
        if (!transport->out[to])
            transport->out[to] =
                connect_to(transport, transport->endpoints->at[to], PEER_FRAMES_MAX);
        return transport->out[to];
    }
    for (uint32_t i = 0; i < OBSERVERS_MAX; i++)
        if (transport->observers[i].id == to)
            return transport->observers[i].socket;
    return NULL;
}

bool transport_send(transport_t *transport, actor_id_t to, const uint8_t *frame, size_t size)
{
    void *socket = socket_to(transport, to);

    return socket && zmq_send(socket, frame, size, ZMQ_DONTWAIT) >= 0;
}

/* ---- in ---- */

uint32_t transport_receive(transport_t *transport, uint32_t max, transport_frame_t *frame,
                           void *context)
{
    uint32_t count = 0;

    while (count < max) {
        zmq_msg_t message;

        (void)zmq_msg_init(&message);
        if (zmq_msg_recv(&message, transport->in, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(&message);
            break;
        }
        transport->in_hand = &message;
        frame(context, zmq_msg_data(&message), zmq_msg_size(&message));
        transport->in_hand = NULL;
        (void)zmq_msg_close(&message);
        count++;
    }
    return count;
}

/* ZeroMQ tells the credentials of a local socket's peer as "address:user:group:process". */
pid_t transport_sender(const transport_t *transport)
{
    const char *address, *process;

    ASSERT(transport->in_hand != NULL);
    address = zmq_msg_gets(transport->in_hand, "Peer-Address");
    if (!address)
        return getpid(); /* inproc */
    process = strrchr(address, ':');
    return process ? (pid_t)strtol(process + 1, NULL, 10) : 0;
}

int transport_descriptor(const transport_t *transport)
{
    return transport->descriptor;
}
