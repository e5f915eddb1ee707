#include "cli/http_get.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_BYTES_MAX = 1024, LINE_BYTES_MAX = 1 << 20 };

static int connect_to(uint16_t port, unsigned timeout_ms)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval timeout = {timeout_ms / 1000, (timeout_ms % 1000) * 1000};
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (descriptor < 0)
        return -1;
    if (timeout_ms) {
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    }
    if (connect(descriptor, (struct sockaddr *)&where, sizeof(where)) != 0) {
        close(descriptor);
        return -1;
    }
    return descriptor;
}

static bool send_all(int descriptor, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(descriptor, bytes, size, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

/* HTTP/1.0: the answer is not chunked and ends with the connection. */
static FILE *ask(uint16_t port, const char *path, const char *body, unsigned timeout_ms)
{
    int descriptor = connect_to(port, timeout_ms);
    char head[HEAD_BYTES_MAX];
    int length = snprintf(head, sizeof(head),
                          "%s %s HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                          "Content-Length: %zu\r\n\r\n",
                          body ? "POST" : "GET", path, body ? strlen(body) : 0);

    if (descriptor < 0)
        return NULL;
    if (length >= HEAD_BYTES_MAX || !send_all(descriptor, head, (size_t)length) ||
        (body && !send_all(descriptor, body, strlen(body)))) {
        close(descriptor);
        return NULL;
    }
    return fdopen(descriptor, "r");
}

/* Reads status and headers. */
static unsigned read_head(FILE *stream)
{
    char line[HEAD_BYTES_MAX];
    unsigned status = 0;

    if (!fgets(line, sizeof(line), stream) || sscanf(line, "HTTP/%*s %u", &status) != 1)
        return 0;
    while (fgets(line, sizeof(line), stream))
        if (line[0] == '\r' || line[0] == '\n')
            return status;
    return 0;
}

unsigned http_get(uint16_t port, const char *path, const char *body, unsigned timeout_ms,
                  char *answer, size_t size)
{
    FILE *stream = ask(port, path, body, timeout_ms);
    unsigned status = stream ? read_head(stream) : 0;

    answer[0] = '\0';
    if (status)
        answer[fread(answer, 1, size - 1, stream)] = '\0';
    if (stream)
        fclose(stream);
    return status;
}

unsigned http_stream(uint16_t port, const char *path, const char *body,
                     int (*line)(void *context, const char *data), void *context, char *answer,
                     size_t size)
{
    FILE *stream = ask(port, path, body, 0);
    unsigned status = stream ? read_head(stream) : 0;
    char *text = malloc(LINE_BYTES_MAX);

    answer[0] = '\0';
    if (status && status != 200)
        answer[fread(answer, 1, size - 1, stream)] = '\0';
    while (status == 200 && text && fgets(text, LINE_BYTES_MAX, stream)) {
        text[strcspn(text, "\r\n")] = '\0';
        if (strncmp(text, "data: ", 6) == 0 && line(context, text + 6) != 0)
            break;
    }
    free(text);
    if (stream)
        fclose(stream);
    return status;
}
