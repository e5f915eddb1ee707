#include "cli/http_call.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/check.h"

enum { LINE_BYTES_MAX = 16 << 10, READ_BYTES = 64 << 10 };

/* Where a chunked body stands. */
enum { CHUNK_SIZE, CHUNK_DATA, CHUNK_DATA_END, CHUNK_TRAILER };

/* ---- where ----------------------------------------------------------------------------------- */

static status_t copy_part(char *to, size_t room, const char *from, size_t length, const char *what)
{
    if (length >= room)
        return FAIL(STATUS_INVALID, "the %s of the URL is too long", what);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)from[i] <= ' ' || from[i] == 0x7f)
            return FAIL(STATUS_INVALID, "the %s of the URL has a blank or control character", what);
    memcpy(to, from, length);
    to[length] = '\0';
    return STATUS_OK;
}

status_t http_url_parse(const char *text, http_url_t *url)
{
    const char *host = text, *host_end, *end;

    if (strncasecmp(text, "https://", 8) == 0)
        return FAIL(STATUS_UNSUPPORTED, "%s: only http:// is spoken here", text);
    if (strncasecmp(text, "http://", 7) == 0)
        host += 7;
    end = host + strcspn(host, "/");
    if (*host == '[') { /* an IPv6 address */
        host++;
        host_end = host + strcspn(host, "]");
        if (*host_end != ']' || host_end > end)
            return FAIL(STATUS_INVALID, "%s: '[' without ']'", text);
    } else {
        host_end = host + strcspn(host, ":/");
    }
    if (host_end == host)
        return FAIL(STATUS_INVALID, "%s: no host", text);
    TRY(copy_part(url->host, sizeof(url->host), host, (size_t)(host_end - host), "host"));
    host_end += *host_end == ']';
    snprintf(url->port, sizeof(url->port), "80");
    if (*host_end == ':') {
        host_end++;
        TRY(copy_part(url->port, sizeof(url->port), host_end, (size_t)(end - host_end), "port"));
        if (strspn(url->port, "0123456789") != strlen(url->port) || !url->port[0])
            return FAIL(STATUS_INVALID, "%s: a port is a number", text);
    } else if (host_end != end) {
        return FAIL(STATUS_INVALID, "%s: not http://HOST:PORT/BASE", text);
    }
    for (host_end = end + strlen(end); host_end > end && host_end[-1] == '/'; host_end--)
        ;
    return copy_part(url->base, sizeof(url->base), end, (size_t)(host_end - end), "path");
}

void http_url_local(const char *address, uint16_t port, http_url_t *url)
{
    bool everywhere = strcmp(address, "0.0.0.0") == 0;

    snprintf(url->host, sizeof(url->host), "%s", everywhere ? "127.0.0.1" : address);
    snprintf(url->port, sizeof(url->port), "%u", port);
    url->base[0] = '\0';
}

/* ---- the request ----------------------------------------------------------------------------- */

static status_t connect_to(const http_url_t *url, int *out)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list;
    struct timeval limit = {.tv_sec = HTTP_CALL_SEND_S};
    int error = getaddrinfo(url->host, url->port, &hints, &list);
    int descriptor = -1;

    if (error != 0)
        return FAIL(STATUS_BROKEN, "%s: %s", url->host, gai_strerror(error));
    for (struct addrinfo *where = list; where && descriptor < 0; where = where->ai_next) {
        descriptor = socket(where->ai_family, where->ai_socktype | SOCK_CLOEXEC, 0);
        if (descriptor < 0)
            continue;
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        if (connect(descriptor, where->ai_addr, where->ai_addrlen) != 0) {
            error = errno;
            close(descriptor);
            descriptor = -1;
        }
    }
    freeaddrinfo(list);
    if (descriptor < 0)
        return FAIL(STATUS_BROKEN, "%s:%s: %s", url->host, url->port, strerror(error));
    *out = descriptor;
    return STATUS_OK;
}

static status_t send_all(int descriptor, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(descriptor, bytes, size, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return FAIL(STATUS_BROKEN, "the server did not take the request: %s", strerror(errno));
        bytes += sent;
        size -= (size_t)sent;
    }
    return STATUS_OK;
}

status_t http_call_open(const http_url_t *url, const char *path, const char *body,
                        http_call_t *call)
{
    bool v6 = strchr(url->host, ':') != NULL;
    size_t body_bytes = body ? strlen(body) : 0;
    char head[4 * HTTP_URL_BYTES_MAX + 256];
    status_t status;
    int length;

    *call = (http_call_t){.descriptor = -1};
    text_buffer_init(&call->line, LINE_BYTES_MAX);
    text_buffer_init(&call->body, HTTP_CALL_BODY_BYTES_MAX);
    length = snprintf(head, sizeof(head),
                      "%s %s%s HTTP/1.1\r\nHost: %s%s%s:%s\r\nConnection: close\r\n"
                      "Accept: */*\r\nAuthorization: Bearer none\r\n"
                      "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                      body ? "POST" : "GET", url->base, path, v6 ? "[" : "", url->host,
                      v6 ? "]" : "", url->port, body_bytes);
    if (length < 0 || (size_t)length >= sizeof(head))
        return FAIL(STATUS_INVALID, "the path is too long");
    TRY(connect_to(url, &call->descriptor));
    status = send_all(call->descriptor, head, (size_t)length);
    if (status == STATUS_OK)
        status = send_all(call->descriptor, body, body_bytes);
    if (status != STATUS_OK)
        http_call_close(call);
    return status;
}

void http_call_close(http_call_t *call)
{
    if (call->descriptor >= 0)
        close(call->descriptor);
    call->descriptor = -1;
    text_buffer_fini(&call->line);
    text_buffer_fini(&call->body);
}

/* ---- the answer ------------------------------------------------------------------------------ */

typedef struct {
    void (*event)(void *context, const char *data);
    void *context;
} reader_t;

/* A whole line of an event stream; servers of this API write one line of data per event. */
static void take_event_line(char *line, const reader_t *reader)
{
    if (strncmp(line, "data:", 5) != 0 || !reader->event)
        return;
    line += 5;
    reader->event(reader->context, line + (*line == ' '));
}

static status_t take_body(http_call_t *call, const char *bytes, size_t length,
                          const reader_t *reader)
{
    text_buffer_t *body = &call->body;

    while (length > 0) {
        const char *end = call->events ? memchr(bytes, '\n', length) : NULL;
        size_t part = end ? (size_t)(end - bytes) : length;

        text_put(body, bytes, part);
        if (end) {
            text_put(body, "", 1);
            if (body->status == STATUS_OK) {
                body->bytes[strcspn(body->bytes, "\r")] = '\0';
                take_event_line(body->bytes, reader);
            }
            body->used = 0;
            part++;
        }
        if (body->status != STATUS_OK)
            return FAIL(body->status, "the answer has more than %u bytes",
                        HTTP_CALL_BODY_BYTES_MAX);
        bytes += part;
        length -= part;
    }
    return STATUS_OK;
}

static status_t read_header(http_call_t *call, char *line)
{
    char *value = strchr(line, ':'), *end;

    if (!value)
        return FAIL(STATUS_MALFORMED, "a header without ':'");
    *value++ = '\0';
    value += strspn(value, " \t");
    if (strcasecmp(line, "Content-Type") == 0) {
        call->events = strncasecmp(value, "text/event-stream", 17) == 0;
    } else if (strcasecmp(line, "Transfer-Encoding") == 0) {
        call->chunked = strcasecmp(value, "chunked") == 0;
        if (!call->chunked)
            return FAIL(STATUS_UNSUPPORTED, "transfer encoding %.40s", value);
    } else if (strcasecmp(line, "Content-Length") == 0) {
        errno = 0;
        call->left = strtoull(value, &end, 10);
        call->length_given = true;
        if (!isdigit((unsigned char)*value) || *end || errno)
            return FAIL(STATUS_MALFORMED, "Content-Length is no number");
    }
    return STATUS_OK;
}

/* One line of the head; the empty one ends it. */
static status_t read_head_line(http_call_t *call, char *line)
{
    if (call->status == 0) {
        if (sscanf(line, "HTTP/1.%*1[01] %3u", &call->status) != 1 || call->status < 100)
            return FAIL(STATUS_MALFORMED, "the server does not speak HTTP");
        return STATUS_OK;
    }
    if (line[0])
        return read_header(call, line);
    if (call->status < 200) { /* 100 Continue and the like: the answer itself follows */
        call->status = 0;
        return STATUS_OK;
    }
    call->head_read = true;
    if (call->chunked)
        call->length_given = false;
    call->ended = call->length_given && call->left == 0;
    return STATUS_OK;
}

static status_t read_chunk_line(http_call_t *call, char *line)
{
    char *end;

    switch (call->chunk_state) {
    case CHUNK_SIZE:
        errno = 0;
        call->left = strtoull(line, &end, 16);
        if (!isxdigit((unsigned char)line[0]) || errno || (*end && *end != ';' && *end != ' '))
            return FAIL(STATUS_MALFORMED, "a chunk without a size");
        call->chunk_state = call->left ? CHUNK_DATA : CHUNK_TRAILER;
        break;
    case CHUNK_DATA_END:
        if (line[0])
            return FAIL(STATUS_MALFORMED, "a chunk that is longer than it says");
        call->chunk_state = CHUNK_SIZE;
        break;
    default: /* of the trailer; its fields say nothing that is needed here */
        call->ended = !line[0];
        break;
    }
    return STATUS_OK;
}

/* Takes bytes until a line of head or chunk frame is whole. */
static status_t take_line(http_call_t *call, const char *bytes, size_t length, size_t *used)
{
    const char *end = memchr(bytes, '\n', length);
    text_buffer_t *line = &call->line;

    *used = end ? (size_t)(end - bytes) + 1 : length;
    text_put(line, bytes, end ? *used - 1 : length);
    if (end)
        text_put(line, "", 1);
    if (line->status != STATUS_OK)
        return FAIL(line->status, "a header has more than %u bytes", LINE_BYTES_MAX);
    if (!end)
        return STATUS_OK;
    line->bytes[strcspn(line->bytes, "\r")] = '\0';
    line->used = 0;
    return call->head_read ? read_chunk_line(call, line->bytes) : read_head_line(call, line->bytes);
}

static status_t take(http_call_t *call, const char *bytes, size_t length, const reader_t *reader)
{
    while (length > 0 && !call->ended) {
        bool bounded = call->chunked || call->length_given;
        size_t used = length;

        if (!call->head_read || (call->chunked && call->chunk_state != CHUNK_DATA)) {
            TRY(take_line(call, bytes, length, &used));
        } else {
            if (bounded && used > call->left)
                used = (size_t)call->left;
            TRY(take_body(call, bytes, used, reader));
            call->left -= bounded ? used : 0;
            if (call->left == 0 && call->chunked)
                call->chunk_state = CHUNK_DATA_END;
            else if (call->left == 0 && bounded)
                call->ended = true;
        }
        bytes += used;
        length -= used;
    }
    return STATUS_OK;
}

static http_call_state_t broken(status_t status)
{
    return status == STATUS_OK ? HTTP_CALL_OPEN : HTTP_CALL_BROKEN;
}

http_call_state_t http_call_read(http_call_t *call, void (*event)(void *context, const char *data),
                                 void *context)
{
    reader_t reader = {event, context};
    char bytes[READ_BYTES];

    while (!call->ended) {
        ssize_t got = recv(call->descriptor, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return HTTP_CALL_OPEN;
        if (got < 0)
            return broken(FAIL(STATUS_BROKEN, "the connection broke: %s", strerror(errno)));
        if (got == 0) { /* that is how a body without a length ends */
            call->ended = call->head_read && !call->chunked && !call->length_given;
            if (!call->ended)
                return broken(FAIL(STATUS_BROKEN, "the server ended the connection"));
        } else if (take(call, bytes, (size_t)got, &reader) != STATUS_OK) {
            return HTTP_CALL_BROKEN;
        }
    }
    return HTTP_CALL_WHOLE;
}

http_call_state_t http_call_finish(http_call_t *call, unsigned timeout_ms)
{
    struct pollfd wait = {.fd = call->descriptor, .events = POLLIN};
    http_call_state_t state;

    while ((state = http_call_read(call, NULL, NULL)) == HTTP_CALL_OPEN) {
        int ready = poll(&wait, 1, timeout_ms ? (int)timeout_ms : -1);

        if (ready == 0)
            return broken(FAIL(STATUS_BROKEN, "no answer within %u ms", timeout_ms));
        if (ready < 0 && errno != EINTR)
            return broken(FAIL(STATUS_IO, "poll: %s", strerror(errno)));
    }
    return state;
}

const char *http_call_body(http_call_t *call)
{
    text_buffer_t *body = &call->body;

    text_put(body, "", 1);
    if (body->status != STATUS_OK)
        return "";
    body->used--; /* so it may be asked again */
    return body->bytes;
}
