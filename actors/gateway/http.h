/* http.h - an HTTP/1.1 server on somebody else's event loop, for answers that come later and in
 * pieces.
 *
 * libmicrohttpd speaks HTTP; this file gives it one descriptor to be watched with, bounded bodies,
 * and what it lacks: it does not look at a suspended connection, so a client that leaves while it
 * waits is seen here, by end of file on its descriptor. One thread calls everything. Ports may
 * allocate; memory is bounded by the limits below.
 */
#ifndef ACTORS_GATEWAY_HTTP_H
#define ACTORS_GATEWAY_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "model/text_buffer.h"
#include "runtime/base/status.h"

enum {
    HTTP_BODY_BYTES_MAX = 32 << 20, /* whatever http_limits_t says */
    HTTP_BUFFER_BYTES =
        32 << 10, /* of a stream: what the socket has not taken yet; `more` is asked below half */
    HTTP_REQUEST_ID_BYTES = 128, /* of a client's x-request-id; a longer one is not taken */
    HTTP_IDLE_SECONDS = 120, /* a connection between requests, or inside one that does not arrive */
};

#define HTTP_RETRY_AFTER "1" /* seconds, with every 429 and 503 */

typedef struct {
    uint32_t connections; /* when all are taken, the one longest at rest makes room */
    uint32_t descriptors; /* fewer connections if the process would have less than these for others */
    size_t body_bytes;    /* larger ones are answered 413, at once if the client waits */
    size_t bodies_bytes;  /* of all that are not whole yet: the one longest at rest makes room */
    const char *origins;  /* whose pages may ask (CORS), spaces between; "*": all; "": none. Borrowed */
} http_limits_t;

typedef struct http http_t;

/* One request and its answer. It lives until `done` was called. */
typedef struct http_exchange http_exchange_t;

typedef struct {
    /* A whole request is here; the views are valid during the call. Answer now or later. */
    void (*request)(void *context, http_exchange_t *exchange, const char *method, const char *path,
                    const char *body, size_t body_bytes);
    /* The socket took what a stream had: write more, if there is more. Never called from inside a verb below. */
    void (*more)(void *context, http_exchange_t *exchange);
    /* The exchange is over; `whole` is false if the client left before the end of its answer. Last call about it. */
    void (*done)(void *context, http_exchange_t *exchange, bool whole);
} http_handlers_t;

/* Listens on address:port (port 0: any free one). Owner closes. IO with the reason if it cannot. */
MUST_USE status_t http_open(const char *address, uint16_t port, const http_limits_t *limits,
                            const http_handlers_t *handlers, void *context, http_t **http);
/* Drops all connections; `done` is called for each exchange. */
void http_close(http_t *http);
uint16_t http_port(const http_t *http);
/* Clients that are connected now. */
uint32_t http_connections(const http_t *http);

/* Watch this for reading and call http_run when it is, and after every round of verbs. */
int http_descriptor(const http_t *http);
void http_run(http_t *http);
/* Milliseconds until http_run wants to be called without an event; UINT64_MAX: never. */
uint64_t http_timeout_ms(http_t *http);

/* What the user of an exchange keeps with it. */
void http_user_set(http_exchange_t *exchange, void *user);
void *http_user(const http_exchange_t *exchange);
/* During `request`: the body becomes the caller's, who frees it; NULL: it has none. */
char *http_body_take(http_exchange_t *exchange, size_t *bytes);
/* The same for all connections of one address. */
uint64_t http_peer(const http_exchange_t *exchange);
/* What names this request in every answer (x-request-id): the client's word for it, or ours. */
const char *http_request_id(const http_exchange_t *exchange);
/* A request header, or NULL. */
const char *http_header(const http_exchange_t *exchange, const char *name);

/* A header of the answer that follows, one at most; borrowed until then. */
void http_header_add(http_exchange_t *exchange, const char *name, const char *value);
/* The whole answer; the body is copied. 429 and 503 say when to ask again. */
void http_answer(http_exchange_t *exchange, unsigned status, const char *content_type,
                 const char *body, size_t bytes);
/* The same, and the body goes out of `body`. If that failed while it was written: 503 with an error. */
void http_answer_text(http_exchange_t *exchange, unsigned status, const char *content_type,
                      text_buffer_t *body);
/* Ends the connection, so that the client sees that it has no whole answer. */
void http_drop(http_exchange_t *exchange);
/* An answer in pieces (chunked). Nothing may follow http_stream_end. */
void http_stream_begin(http_exchange_t *exchange, unsigned status, const char *content_type);
/* Bytes that one write may add now without going over the buffer. */
size_t http_stream_room(const http_exchange_t *exchange);
/* `bytes` <= http_stream_room (ASSERT). */
void http_stream_write(http_exchange_t *exchange, const char *data, size_t bytes);
void http_stream_end(http_exchange_t *exchange);

#endif
