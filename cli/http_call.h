/* http_call.h - one HTTP request to an OpenAI-compatible server, and its answer as it comes.
 *
 * The request is sent whole when the call is opened (that may block, for HTTP_CALL_SEND_S); what
 * comes back is read without blocking, whenever its descriptor is readable, so that one thread can
 * wait for many calls and for the keyboard. Chunked and plain bodies are understood. Of an event
 * stream the events are handed on as they come; any other body is kept. No TLS. All bytes of the
 * server are hostile: lines and bodies are bounded, and what is no HTTP breaks the call.
 */
#ifndef CLI_HTTP_CALL_H
#define CLI_HTTP_CALL_H

#include <stdint.h>

#include "model/text_buffer.h"

enum {
    HTTP_CALL_SEND_S = 10,
    HTTP_CALL_BODY_BYTES_MAX = 8 << 20, /* of an answer that is no stream, and of one event */
    HTTP_URL_BYTES_MAX = 256,
};

typedef struct {
    char host[HTTP_URL_BYTES_MAX];
    char port[8];
    char base[HTTP_URL_BYTES_MAX]; /* before every path: "" or "/v1" */
} http_url_t;

typedef struct {
    int descriptor;
    unsigned status;      /* 0 until the head is here */
    text_buffer_t line;   /* of the head, of chunk sizes */
    text_buffer_t body;   /* of a stream: the line that is not yet whole */
    bool head_read;
    bool events;          /* the body is an event stream */
    bool chunked;
    bool length_given;
    uint64_t left;        /* bytes of this chunk, or of the body if its length was given */
    unsigned chunk_state;
    bool ended;
} http_call_t;

typedef enum {
    HTTP_CALL_OPEN,   /* more will come */
    HTTP_CALL_WHOLE,  /* the answer ended as it should */
    HTTP_CALL_BROKEN, /* the connection ended inside it, or it is no HTTP; trail_text says why */
} http_call_state_t;

/* http://HOST[:PORT][/BASE], or without "http://". INVALID says what is wrong with it. */
MUST_USE status_t http_url_parse(const char *text, http_url_t *url);
/* What listens at `address` of this machine, as a topology has it: 0.0.0.0 is reached as 127.0.0.1.
 * Paths then begin at the root. */
void http_url_local(const char *address, uint16_t port, http_url_t *url);

/* GET (body NULL) or POST of JSON to base + path. BROKEN: nobody listens, or it was not taken. */
MUST_USE status_t http_call_open(const http_url_t *url, const char *path, const char *body,
                                 http_call_t *call);
/* Takes what has come. `event` (may be NULL) is called with each event's data, ended by NUL. */
http_call_state_t http_call_read(http_call_t *call, void (*event)(void *context, const char *data),
                                 void *context);
/* The same until the end; at most `timeout_ms` (0: no bound) between two pieces. */
http_call_state_t http_call_finish(http_call_t *call, unsigned timeout_ms);
/* The body of an answer that is no stream, ended by NUL. */
const char *http_call_body(http_call_t *call);
/* Closes the connection, whatever state it is in: so a server learns that nobody reads any more. */
void http_call_close(http_call_t *call);

#endif
