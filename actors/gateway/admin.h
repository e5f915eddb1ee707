/* admin.h - what an operator may ask a gateway over HTTP, on a listener apart from the clients'.
 *
 *   GET  /requests           every open request: id, age, tokens, state
 *   POST /abort {"id": ID}   ends one; its client sees an error that says so
 *   POST /drain {"instance": "decode/1", "force": false}   that group takes no new requests; 409 if
 *                            no other one of its kind would, unless forced
 *   POST /undrain {"instance": "decode/1"}                 it takes requests again
 *   GET  /metrics /health /ready, as for clients
 *
 * Who can reach it may end anybody's request, so it listens on this machine unless the topology
 * says otherwise. Lives on the process's event loop; what it shows is asked of the client port.
 */
#ifndef ACTORS_GATEWAY_ADMIN_H
#define ACTORS_GATEWAY_ADMIN_H

#include "actors/gateway/http_loop.h"

enum { ADMIN_CONNECTIONS_MAX = 32 };

typedef struct {
    const char *id; /* of the answer, as its client sees it */
    const char *state;
    uint64_t age_ms;
    uint32_t prompt_tokens;
    uint32_t tokens; /* so far */
} admin_request_t;

typedef struct {
    /* The open request at *cursor or behind it, which moves on (from 0); false: no more. */
    bool (*next)(void *context, uint32_t *cursor, admin_request_t *request);
    /* False: no open request has this id. */
    bool (*abort)(void *context, const char *id);
    /* Any GET that clients may ask too; false: there is no such path. */
    bool (*get)(void *context, http_exchange_t *exchange, const char *path);
    /* Answers the exchange later, with admin_answer. */
    void (*drain)(void *context, http_exchange_t *exchange, const char *instance, bool on,
                  bool force);
    /* An exchange is over. */
    void (*done)(void *context, const http_exchange_t *exchange);
} admin_handlers_t;

typedef struct admin admin_t;

/* Port 0: any free one. Owner closes. */
MUST_USE status_t admin_open(struct ev_loop *loop, const char *address, uint16_t port,
                             const admin_handlers_t *handlers, void *context, admin_t **admin);
void admin_close(admin_t *admin);
/* 200, or the error. */
void admin_answer(http_exchange_t *exchange, unsigned status, const char *param, const char *text);
uint16_t admin_port(const admin_t *admin);

#endif
