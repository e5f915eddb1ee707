#include "actors/gateway/http_loop.h"

static void on_io(struct ev_loop *loop, ev_io *watcher, int events)
{
    http_loop_t *self = watcher->data;

    (void)loop;
    (void)events;
    http_run(self->http);
}

/* Verbs only mark connections; libmicrohttpd acts on them before the loop sleeps. It watches edges,
 * so of what it has left to read no event tells: then the loop must not sleep. */
static void on_prepare(struct ev_loop *loop, ev_prepare *watcher, int events)
{
    http_loop_t *self = watcher->data;

    (void)events;
    http_run(self->http);
    if (http_timeout_ms(self->http) == 0)
        ev_idle_start(loop, &self->more);
    else
        ev_idle_stop(loop, &self->more);
}

static void on_idle(struct ev_loop *loop, ev_idle *watcher, int events)
{
    (void)loop; /* not sleeping is all */
    (void)watcher;
    (void)events;
}

static void on_tick(struct ev_loop *loop, ev_timer *watcher, int events)
{
    (void)loop; /* waking up is all: on_prepare lets libmicrohttpd look at its idle connections */
    (void)watcher;
    (void)events;
}

void http_loop_start(http_loop_t *self, struct ev_loop *loop, http_t *http)
{
    self->http = http;
    ev_io_init(&self->io, on_io, http_descriptor(http), EV_READ);
    ev_prepare_init(&self->prepare, on_prepare);
    ev_idle_init(&self->more, on_idle);
    ev_timer_init(&self->tick, on_tick, 1, 1);
    self->io.data = self->prepare.data = self;
    ev_io_start(loop, &self->io);
    ev_prepare_start(loop, &self->prepare);
    ev_timer_start(loop, &self->tick);
}

void http_loop_stop(http_loop_t *self, struct ev_loop *loop)
{
    if (!self->http)
        return;
    ev_io_stop(loop, &self->io);
    ev_prepare_stop(loop, &self->prepare);
    ev_idle_stop(loop, &self->more);
    ev_timer_stop(loop, &self->tick);
    self->http = NULL;
}
