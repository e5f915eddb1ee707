/* http_loop.h - an http_t lives on a libev loop: everything that makes it run is here. */
#ifndef ACTORS_GATEWAY_HTTP_LOOP_H
#define ACTORS_GATEWAY_HTTP_LOOP_H

#include <ev.h>

#include "actors/gateway/http.h"

typedef struct {
    http_t *http;
    ev_io io;
    ev_prepare prepare;
    ev_idle more; /* runs while libmicrohttpd has read less than there is */
    ev_timer tick;
} http_loop_t;

/* From now on `http` runs; it is the owner's to close, after the stop. */
void http_loop_start(http_loop_t *self, struct ev_loop *loop, http_t *http);
/* Also of one that was never started, if it is zero. */
void http_loop_stop(http_loop_t *self, struct ev_loop *loop);

#endif
