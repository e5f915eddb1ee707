/* http.c - libmicrohttpd behind one epoll descriptor.
 *
 * The descriptor holds libmicrohttpd's own epoll set and every client's socket, with EPOLLRDHUP only:
 * data that a client sends ahead of its turn wakes nobody, its end does. libmicrohttpd itself does
 * not look at a suspended connection, and may leave the end of another one to its walk over timeouts,
 * which stops at the first idle connection. So an exchange that waits is lost when its client ends;
 * any other connection is shut down for reading then, which makes libmicrohttpd look again, take what
 * is still there, and find the end behind it.
 *
 * A connection is at rest until the whole of a request is here, and when a whole answer that is no
 * user's is left to its socket. Those at rest stand in a list, the one longest there first: it is closed
 * when all places are taken, or all room for bodies.
 *
 *   RECEIVING ──whole──> WAITING (suspended) ──answer──> ANSWERING ──> done
 *                             │ EOF: LOST                  └ stream empty: suspended, watched again
 */
#include "actors/gateway/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/random.h"

#define REQUEST_ID_HEADER "x-request-id"

enum {
    EVENTS_MAX = 64,
    CONNECTION_MEMORY_BYTES = 32 << 10,
    CONNECTIONS_MIN = 8,
    FORGOTTEN_TIMES_MAX = 4
};

typedef enum { RECEIVING, WAITING, ANSWERING } exchange_state_t;

/* A client's connection, with or without an exchange. */
typedef struct connection connection_t;

struct connection {
    struct MHD_Connection *mhd;
    http_exchange_t *exchange;  /* that waits: suspended */
    http_exchange_t *receiving; /* whose request is not whole yet */
    int socket;
    bool rests;
    connection_t *previous; /* those at rest */
    connection_t *next;
};

struct http_exchange {
    http_t *http;
    connection_t *client;
    struct MHD_Connection *connection;
    exchange_state_t state;
    char *method;
    char *path;
    char *body;
    size_t body_bytes;
    size_t body_room;
    unsigned refuse_status; /* RECEIVING: answer this instead of calling `request` */
    const char *refuse_reason;
    bool preflight;
    bool closes; /* the connection ends behind this answer */
    bool suspended;
    bool streaming;
    bool ended; /* the stream has its last byte */
    bool lost;  /* the client left */
    struct MHD_Response *response;
    unsigned status;
    char id[HTTP_REQUEST_ID_BYTES + 1];
    const char *origin;      /* of the page that asks, if its answers may be read there; NULL */
    const char *header_name; /* http_header_add */
    const char *header_value;
    char *buffer; /* of a stream */
    size_t buffer_used;
    void *user;
    http_exchange_t *previous;
    http_exchange_t *next;
};

struct http {
    struct MHD_Daemon *daemon;
    int epoll;
    http_handlers_t handlers;
    void *context;
    http_limits_t limits;
    http_exchange_t *exchanges;
    uint32_t connections;
    uint64_t ids;             /* the next request's */
    size_t bodies_bytes;      /* rooms of all bodies */
    connection_t *rest_first; /* longest at rest */
    connection_t *rest_last;
};

/* ---- connections ----------------------------------------------------------------------------- */

static void rest_end(http_t *http, connection_t *client)
{
    if (!client->rests)
        return;
    client->rests = false;
    if (client->previous)
        client->previous->next = client->next;
    else
        http->rest_first = client->next;
    if (client->next)
        client->next->previous = client->previous;
    else
        http->rest_last = client->previous;
}

static void rest_begin(http_t *http, connection_t *client)
{
    rest_end(http, client);
    client->rests = true;
    client->previous = http->rest_last;
    client->next = NULL;
    if (http->rest_last)
        http->rest_last->next = client;
    else
        http->rest_first = client;
    http->rest_last = client;
}

/* Its end is told from now on: to the exchange that waits, or once to libmicrohttpd. False: the kernel
 * has no memory to do so. */
static bool watch(http_t *http, connection_t *client, int operation)
{
    struct epoll_event event = {.events = EPOLLRDHUP, .data.ptr = client};

    if (!client->exchange)
        event.events |= EPOLLET;
    return epoll_ctl(http->epoll, operation, client->socket, &event) == 0;
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **user,
                          enum MHD_ConnectionNotificationCode code)
{
    http_t *http = context;
    connection_t *client = *user;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        client = calloc(1, sizeof(*client));
        *user = client;
        if (!client)
            return; /* on_access refuses it */
        client->mhd = mhd;
        client->socket =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        if (!watch(http, client, EPOLL_CTL_ADD)) /* nobody would see it leave */
            shutdown(client->socket, SHUT_RDWR);
        rest_begin(http, client);
        if (++http->connections >= http->limits.connections && http->rest_first != client)
            shutdown(http->rest_first->socket, SHUT_RDWR);
    } else if (client) {
        epoll_ctl(http->epoll, EPOLL_CTL_DEL, client->socket, NULL);
        rest_end(http, client);
        http->connections--;
        free(client);
        *user = NULL;
    }
}

/* ---- suspending and watching ----------------------------------------------------------------- */

static void suspend_connection(http_exchange_t *exchange)
{
    MHD_suspend_connection(exchange->connection);
    exchange->suspended = true;
    exchange->client->exchange = exchange;
    (void)watch(exchange->http, exchange->client, EPOLL_CTL_MOD); /* takes no memory */
}

static void resume_connection(http_exchange_t *exchange)
{
    if (!exchange->suspended)
        return;
    exchange->client->exchange = NULL;
    (void)watch(exchange->http, exchange->client, EPOLL_CTL_MOD); /* takes no memory */
    exchange->suspended = false;
    MHD_resume_connection(exchange->connection);
}

/* ---- libmicrohttpd's callbacks --------------------------------------------------------------- */

static ssize_t on_read(void *context, uint64_t position, char *target, size_t room)
{
    http_exchange_t *exchange = context;
    size_t bytes;

    (void)position;
    if (!exchange->lost && !exchange->ended && exchange->buffer_used < HTTP_BUFFER_BYTES / 2)
        exchange->http->handlers.more(exchange->http->context, exchange);
    if (exchange->lost) {
        /* libmicrohttpd leaves the closed socket to its walk over timeouts, which ends at the first
         * idle connection, unless the timeout is one of the connection's own. */
        MHD_set_connection_option(exchange->connection, MHD_CONNECTION_OPTION_TIMEOUT, 1U);
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    bytes = exchange->buffer_used < room ? exchange->buffer_used : room;
    if (bytes == 0 && exchange->ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (bytes == 0) {
        suspend_connection(exchange);
        return 0;
    }
    memcpy(target, exchange->buffer, bytes);
    exchange->buffer_used -= bytes;
    memmove(exchange->buffer, exchange->buffer + bytes, exchange->buffer_used);
    return (ssize_t)bytes;
}

/* The path of a target in absolute form, "http://host/path"; any other target as it is. */
static const char *path_of(const char *target)
{
    const char *authority = strncasecmp(target, "http://", 7) == 0    ? target + 7
                            : strncasecmp(target, "https://", 8) == 0 ? target + 8
                                                                      : NULL;
    const char *path = authority ? strchr(authority, '/') : target;

    return path ? path : "/";
}

static void name_request(http_exchange_t *exchange)
{
    const char *given = http_header(exchange, REQUEST_ID_HEADER);
    size_t bytes = given ? strlen(given) : 0;
    bool plain = bytes > 0 && bytes <= HTTP_REQUEST_ID_BYTES;

    for (size_t i = 0; plain && i < bytes; i++)
        plain = given[i] > ' ' && given[i] < 0x7f;
    if (plain)
        memcpy(exchange->id, given, bytes + 1);
    else
        snprintf(exchange->id, sizeof(exchange->id), "req-%016llx",
                 (unsigned long long)random_mix(exchange->http->ids));
    exchange->http->ids++;
}

/* NULL: this page's scripts may not read what is answered. */
static const char *allowed_origin(const http_t *http, const char *origin)
{
    const char *list = http->limits.origins;

    while (origin && list && *list) {
        size_t bytes = strcspn(list, " ");

        if ((bytes == 1 && *list == '*') ||
            (bytes == strlen(origin) && strncmp(list, origin, bytes) == 0))
            return origin;
        list += bytes + (list[bytes] == ' ');
    }
    return NULL;
}

static http_exchange_t *exchange_begin(http_t *http, struct MHD_Connection *connection,
                                       const char *method, const char *path)
{
    connection_t *client =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    http_exchange_t *exchange = client ? calloc(1, sizeof(*exchange)) : NULL;

    if (!exchange)
        return NULL;
    exchange->http = http;
    exchange->client = client;
    client->receiving = exchange;
    exchange->connection = connection;
    exchange->method = strdup(method);
    exchange->path = strdup(path_of(path));
    name_request(exchange);
    exchange->origin = allowed_origin(http, http_header(exchange, MHD_HTTP_HEADER_ORIGIN));
    exchange->next = http->exchanges;
    if (exchange->next)
        exchange->next->previous = exchange;
    http->exchanges = exchange;
    if (!exchange->method || !exchange->path)
        exchange->refuse_status = MHD_HTTP_SERVICE_UNAVAILABLE;
    return exchange;
}

static void forget_body(http_exchange_t *exchange)
{
    exchange->http->bodies_bytes -= exchange->body_room;
    free(exchange->body);
    exchange->body = NULL;
    exchange->body_bytes = exchange->body_room = 0;
    exchange->client->receiving = NULL;
}

static void exchange_free(http_exchange_t *exchange)
{
    if (exchange->previous)
        exchange->previous->next = exchange->next;
    else
        exchange->http->exchanges = exchange->next;
    if (exchange->next)
        exchange->next->previous = exchange->previous;
    if (exchange->response)
        MHD_destroy_response(exchange->response);
    free(exchange->method);
    free(exchange->path);
    forget_body(exchange);
    free(exchange->buffer);
    free(exchange);
}

/* For so many bytes more, in bodies of others. */
static void make_room(http_t *http, const http_exchange_t *exchange, size_t bytes)
{
    for (connection_t *client = http->rest_first, *next;
         client && http->bodies_bytes + bytes > http->limits.bodies_bytes; client = next) {
        http_exchange_t *other = client->receiving;

        next = client->next;
        if (!other || other == exchange || !other->body)
            continue;
        other->refuse_status =
            MHD_HTTP_SERVICE_UNAVAILABLE; /* what is on its way is not kept either */
        forget_body(other);
        shutdown(client->socket, SHUT_RDWR);
    }
}

static void append_body(http_exchange_t *exchange, const char *data, size_t bytes)
{
    rest_begin(exchange->http, exchange->client); /* it moves */
    if (exchange->refuse_status)
        return; /* what is refused is read and forgotten */
    if (bytes > exchange->http->limits.body_bytes - exchange->body_bytes) {
        exchange->refuse_status = MHD_HTTP_CONTENT_TOO_LARGE;
        return;
    }
    if (exchange->body_bytes + bytes + 1 > exchange->body_room) {
        size_t room = 2 * (exchange->body_bytes + bytes) + 1024;
        char *grown;

        make_room(exchange->http, exchange, room - exchange->body_room);
        grown = realloc(exchange->body, room);
        if (!grown) {
            exchange->refuse_status = MHD_HTTP_SERVICE_UNAVAILABLE;
            return;
        }
        exchange->http->bodies_bytes += room - exchange->body_room;
        exchange->body = grown;
        exchange->body_room = room;
    }
    memcpy(exchange->body + exchange->body_bytes, data, bytes);
    exchange->body_bytes += bytes;
    exchange->body[exchange->body_bytes] = '\0';
}

/* What a head says that decides whether the request can be taken. */
typedef struct {
    uint32_t hosts;
    uint32_t lengths;
    const char *length;
    bool waits;   /* Expect: the body comes when it is told to */
    bool coded;   /* Transfer-Encoding */
    bool encoded; /* Content-Encoding, other than identity */
} head_t;

static enum MHD_Result read_head(void *context, enum MHD_ValueKind kind, const char *key,
                                 const char *value)
{
    head_t *head = context;

    (void)kind;
    if (strcasecmp(key, MHD_HTTP_HEADER_HOST) == 0) {
        head->hosts++;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        head->lengths++;
        head->length = value;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_EXPECT) == 0) {
        head->waits = true;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        head->coded = true;
    } else if (strcasecmp(key, MHD_HTTP_HEADER_CONTENT_ENCODING) == 0) {
        head->encoded = value && strcasecmp(value, "identity") != 0;
    }
    return MHD_YES;
}

/* Where two servers in a row could see the end of a request in different places, or mean different
 * hosts, it is refused and the connection closed (RFC 9112, 3.2 and 6.3). 0: it may be taken. */
static unsigned judge_head(http_exchange_t *exchange, const char *version)
{
    size_t limit = exchange->http->limits.body_bytes;
    unsigned long long length;
    head_t head = {0};

    MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, read_head, &head);
    exchange->refuse_reason = NULL;
    if (head.hosts > 1)
        exchange->refuse_reason = "the head has more than one Host";
    else if (head.hosts == 0 && strcmp(version, MHD_HTTP_VERSION_1_1) == 0)
        exchange->refuse_reason = "a request of HTTP/1.1 names its Host";
    else if (head.lengths > 1)
        exchange->refuse_reason = "the head has more than one Content-Length";
    else if (head.lengths > 0 && head.coded)
        exchange->refuse_reason = "the head has Content-Length and Transfer-Encoding";
    if (exchange->refuse_reason)
        return MHD_HTTP_BAD_REQUEST;
    if (head.encoded) {
        exchange->refuse_reason = "a body must come as it is, without Content-Encoding";
        return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
    }
    /* Who sends without waiting would not see the answer behind a closed connection, so a body that is
     * not absurd is read and forgotten. */
    length = head.length ? strtoull(head.length, NULL, 10) : 0;
    if (length > limit && (head.waits || length > FORGOTTEN_TIMES_MAX * (unsigned long long)limit))
        return MHD_HTTP_CONTENT_TOO_LARGE;
    return 0;
}

static void refuse(http_exchange_t *exchange)
{
    const bool large = exchange->refuse_status == MHD_HTTP_CONTENT_TOO_LARGE;
    char why[96] = "there is no memory for this request's body now", body[256];

    if (exchange->refuse_reason)
        (void)snprintf(why, sizeof(why), "%s", exchange->refuse_reason);
    if (large)
        (void)snprintf(why, sizeof(why),
                       "the request body is too large: at most %zu bytes are taken",
                       exchange->http->limits.body_bytes);
    (void)snprintf(body, sizeof(body),
                   "{\"error\": {\"message\": \"%s\", \"type\": \"%s\", \"param\": null, "
                   "\"code\": null}}",
                   why, exchange->refuse_status < 500 ? "invalid_request_error" : "server_error");
    http_answer(exchange, exchange->refuse_status, "application/json", body, strlen(body));
}

/* A browser asks whether a page's script may send what it wants to. */
static bool is_preflight(const http_exchange_t *exchange)
{
    return exchange->origin && strcmp(exchange->method, MHD_HTTP_METHOD_OPTIONS) == 0 &&
           http_header(exchange, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_METHOD);
}

static void answer_preflight(http_exchange_t *exchange)
{
    exchange->preflight = true;
    http_answer(exchange, MHD_HTTP_NO_CONTENT, "text/plain", "", 0);
}

static enum MHD_Result on_access(void *context, struct MHD_Connection *connection, const char *url,
                                 const char *method, const char *version, const char *data,
                                 size_t *data_bytes, void **user)
{
    http_t *http = context;
    http_exchange_t *exchange = *user;
    unsigned status;

    if (!exchange) {
        exchange = exchange_begin(http, connection, method, url);
        *user = exchange;
        if (!exchange)
            return MHD_NO;
        status = judge_head(exchange, version);
        if (status == 0)
            return MHD_YES;
        exchange->refuse_status = status;
        exchange->closes = true; /* nobody waits for the body */
        refuse(exchange);
        exchange->state = ANSWERING;
        return exchange->response
                   ? MHD_queue_response(connection, exchange->status, exchange->response)
                   : MHD_NO;
    }
    if (*data_bytes > 0) {
        append_body(exchange, data, *data_bytes);
        *data_bytes = 0;
        return MHD_YES;
    }
    if (exchange->state == RECEIVING) {
        exchange->state = WAITING;
        rest_end(http, exchange->client);
        if (exchange->refuse_status)
            refuse(exchange);
        else if (is_preflight(exchange))
            answer_preflight(exchange);
        else
            http->handlers.request(http->context, exchange, exchange->method, exchange->path,
                                   exchange->body ? exchange->body : "", exchange->body_bytes);
        forget_body(exchange);
    }
    if (exchange->lost)
        return MHD_NO; /* closes the connection; `done` follows */
    if (!exchange->response) {
        suspend_connection(exchange);
        return MHD_YES;
    }
    exchange->state = ANSWERING;
    return MHD_queue_response(connection, exchange->status, exchange->response);
}

static void on_completed(void *context, struct MHD_Connection *connection, void **user,
                         enum MHD_RequestTerminationCode code)
{
    http_t *http = context;
    http_exchange_t *exchange = *user;

    (void)connection;
    if (!exchange)
        return;
    *user = NULL;
    rest_begin(http, exchange->client); /* or it ends now */
    if (exchange->state != RECEIVING)
        http->handlers.done(http->context, exchange,
                            code == MHD_REQUEST_TERMINATED_COMPLETED_OK && !exchange->lost);
    exchange_free(exchange);
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Without this the descriptors end first, and nobody makes room. */
static uint32_t connections_max(const http_limits_t *limits)
{
    struct rlimit files;
    rlim_t left;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return limits->connections;
    left = files.rlim_cur > limits->descriptors ? files.rlim_cur - limits->descriptors : 0;
    if (left >= limits->connections)
        return limits->connections;
    left = left > CONNECTIONS_MIN ? left : CONNECTIONS_MIN;
    LOG(WARN, "HTTP-FEW-DESCRIPTORS limit=%llu connections=%llu wanted=%u: raise 'ulimit -n'",
        (unsigned long long)files.rlim_cur, (unsigned long long)left, limits->connections);
    return (uint32_t)left;
}

static status_t start_daemon(http_t *http, const char *address, uint16_t port)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

    if (inet_pton(AF_INET, address, &where.sin_addr) != 1)
        return FAIL(STATUS_BAD_CONFIG, "listen address '%s' is not an IPv4 address", address);
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, port, NULL, NULL, on_access, http,
        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&where, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)http->limits.connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)HTTP_IDLE_SECONDS, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_MEMORY_BYTES, MHD_OPTION_END);
    if (!http->daemon)
        return FAIL(STATUS_IO, "cannot listen on %s:%u: %s", address, port, strerror(errno));
    if (epoll_ctl(http->epoll, EPOLL_CTL_ADD,
                  MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
                  &event) != 0)
        return FAIL(STATUS_IO, "cannot watch the HTTP server: %s", strerror(errno));
    return STATUS_OK;
}

status_t http_open(const char *address, uint16_t port, const http_limits_t *limits,
                   const http_handlers_t *handlers, void *context, http_t **out)
{
    http_t *http = calloc(1, sizeof(*http));
    status_t status;

    if (!http)
        return FAIL(STATUS_NO_MEMORY, "no memory for the HTTP server");
    http->handlers = *handlers;
    http->limits = *limits;
    http->limits.connections = connections_max(limits);
    if (http->limits.body_bytes > HTTP_BODY_BYTES_MAX)
        http->limits.body_bytes = HTTP_BODY_BYTES_MAX;
    http->context = context;
    (void)getrandom(&http->ids, sizeof(http->ids), GRND_NONBLOCK);
    http->epoll = epoll_create1(EPOLL_CLOEXEC);
    status = http->epoll < 0 ? FAIL(STATUS_IO, "epoll: %s", strerror(errno))
                             : start_daemon(http, address, port);
    if (status != STATUS_OK) {
        http_close(http);
        return status;
    }
    *out = http;
    return STATUS_OK;
}

void http_close(http_t *http)
{
    for (http_exchange_t *exchange = http->exchanges; exchange; exchange = exchange->next) {
        exchange->lost = true;
        resume_connection(exchange); /* libmicrohttpd cannot stop with suspended connections */
    }
    if (http->daemon)
        MHD_stop_daemon(http->daemon);
    if (http->epoll >= 0)
        close(http->epoll);
    free(http);
}

uint16_t http_port(const http_t *http)
{
    return MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

uint32_t http_connections(const http_t *http)
{
    return http->connections;
}

int http_descriptor(const http_t *http)
{
    return http->epoll;
}

void http_run(http_t *http)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(http->epoll, events, EVENTS_MAX, 0);

    for (int i = 0; i < count; i++) {
        connection_t *client = events[i].data.ptr;

        if (!client)
            continue; /* libmicrohttpd's own: it runs below in any case */
        if (!client->exchange) {
            shutdown(client->socket, SHUT_RD);
            continue;
        }
        client->exchange->lost = true;
        resume_connection(client->exchange);
    }
    MHD_run(http->daemon);
}

uint64_t http_timeout_ms(http_t *http)
{
    MHD_UNSIGNED_LONG_LONG timeout;

    return MHD_get_timeout(http->daemon, &timeout) == MHD_YES ? timeout : UINT64_MAX;
}

/* ---- verbs ----------------------------------------------------------------------------------- */

void http_user_set(http_exchange_t *exchange, void *user)
{
    exchange->user = user;
}

void *http_user(const http_exchange_t *exchange)
{
    return exchange->user;
}

char *http_body_take(http_exchange_t *exchange, size_t *bytes)
{
    char *body = exchange->body;

    *bytes = exchange->body_bytes;
    exchange->body = NULL;
    forget_body(exchange);
    return body;
}

uint64_t http_peer(const http_exchange_t *exchange)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    return info && info->client_addr->sa_family == AF_INET
               ? ((const struct sockaddr_in *)(const void *)info->client_addr)->sin_addr.s_addr
               : 0;
}

const char *http_request_id(const http_exchange_t *exchange)
{
    return exchange->id;
}

const char *http_header(const http_exchange_t *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

/* Once there is no memory for a part of the answer, the connection ends, and the client sees that. */
static void add_header(http_exchange_t *exchange, const char *name, const char *value)
{
    if (!exchange->response || MHD_add_response_header(exchange->response, name, value) != MHD_YES)
        exchange->lost = true;
}

static void add_cors(http_exchange_t *exchange)
{
    const char *headers = http_header(exchange, MHD_HTTP_HEADER_ACCESS_CONTROL_REQUEST_HEADERS);

    add_header(exchange, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, exchange->origin);
    add_header(exchange, MHD_HTTP_HEADER_ACCESS_CONTROL_EXPOSE_HEADERS, REQUEST_ID_HEADER);
    if (!exchange->preflight)
        return;
    add_header(exchange, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, OPTIONS");
    if (headers)
        add_header(exchange, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS, headers);
    add_header(exchange, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "86400");
}

static void respond(http_exchange_t *exchange, unsigned status, const char *content_type)
{
    exchange->status = status;
    add_header(exchange, MHD_HTTP_HEADER_CONTENT_TYPE, content_type);
    if (exchange->streaming)
        add_header(exchange, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    if (exchange->header_name)
        add_header(exchange, exchange->header_name, exchange->header_value);
    add_header(exchange, REQUEST_ID_HEADER, exchange->id);
    if (exchange->closes)
        add_header(exchange, MHD_HTTP_HEADER_CONNECTION, "close");
    if (exchange->http->limits.origins && exchange->http->limits.origins[0])
        add_header(exchange, MHD_HTTP_HEADER_VARY, "Origin");
    if (exchange->origin)
        add_cors(exchange);
    if (status == MHD_HTTP_TOO_MANY_REQUESTS || status == MHD_HTTP_SERVICE_UNAVAILABLE)
        add_header(exchange, MHD_HTTP_HEADER_RETRY_AFTER, HTTP_RETRY_AFTER);
    if (!exchange->streaming && !exchange->user)
        rest_begin(exchange->http, exchange->client);
    resume_connection(exchange);
}

void http_header_add(http_exchange_t *exchange, const char *name, const char *value)
{
    exchange->header_name = name;
    exchange->header_value = value;
}

static void answer(http_exchange_t *exchange, unsigned status, const char *content_type, char *body,
                   size_t bytes, enum MHD_ResponseMemoryMode mode)
{
    ASSERT(!exchange->response && exchange->state != ANSWERING);
    exchange->response = MHD_create_response_from_buffer(bytes, body, mode);
    if (!exchange->response && mode == MHD_RESPMEM_MUST_FREE)
        free(body);
    respond(exchange, status, content_type);
}

void http_answer(http_exchange_t *exchange, unsigned status, const char *content_type,
                 const char *body, size_t bytes)
{
    union {
        const char *from;
        char *to;
    } data = {.from = body}; /* MHD_RESPMEM_MUST_COPY only reads it */

    answer(exchange, status, content_type, data.to, bytes, MHD_RESPMEM_MUST_COPY);
}

void http_answer_text(http_exchange_t *exchange, unsigned status, const char *content_type,
                      text_buffer_t *body)
{
    static const char failed[] = "{\"error\": {\"message\": \"there is no memory for the answer\", "
                                 "\"type\": \"server_error\", \"param\": null, \"code\": null}}";

    if (body->status == STATUS_OK && body->used > 0) {
        answer(exchange, status, content_type, body->bytes, body->used, MHD_RESPMEM_MUST_FREE);
        text_buffer_init(body, body->bytes_max);
    } else {
        text_buffer_fini(body);
        http_answer(exchange, MHD_HTTP_SERVICE_UNAVAILABLE, "application/json", failed,
                    sizeof(failed) - 1);
    }
}

void http_drop(http_exchange_t *exchange)
{
    exchange->lost = true;
    resume_connection(exchange);
}

void http_stream_begin(http_exchange_t *exchange, unsigned status, const char *content_type)
{
    ASSERT(!exchange->response && exchange->state != ANSWERING);
    exchange->streaming = true;
    exchange->buffer = malloc(HTTP_BUFFER_BYTES);
    if (exchange->buffer)
        exchange->response = MHD_create_response_from_callback(
            MHD_SIZE_UNKNOWN, HTTP_BUFFER_BYTES / 2, on_read, exchange, NULL);
    respond(exchange, status, content_type);
}

size_t http_stream_room(const http_exchange_t *exchange)
{
    return exchange->lost ? 0 : HTTP_BUFFER_BYTES - exchange->buffer_used;
}

void http_stream_write(http_exchange_t *exchange, const char *data, size_t bytes)
{
    ASSERT(exchange->streaming && !exchange->ended);
    ASSERT(bytes <= http_stream_room(exchange));
    memcpy(exchange->buffer + exchange->buffer_used, data, bytes);
    exchange->buffer_used += bytes;
    resume_connection(exchange);
}

void http_stream_end(http_exchange_t *exchange)
{
    ASSERT(exchange->streaming && !exchange->ended);
    exchange->ended = true;
    resume_connection(exchange);
}
