#include "actors/monitor/host.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/figures.h"

enum { PERIOD_MS = 500 };

typedef struct {
    process_t *process;
    const host_setup_t *setup;
    ev_timer timer;
    record_mailbox_t reports[ACTORS_MAX];
    char states[ACTORS_MAX][STATE_NAME_BYTES_MAX];
} host_t;

static uint64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* the clock of figures.oldest_us, host-wide */
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static text_view_t text_of(const char *text, size_t room)
{
    return (text_view_t){text, (uint32_t)strnlen(text, room)};
}

void host_report(const host_setup_t *setup, actor_id_t actor, char state[STATE_NAME_BYTES_MAX],
                 record_mailbox_t *report)
{
    const char *name = setup->roster->actors[actor].name;
    const figures_t *figures = NULL;
    uint64_t oldest, index;

    *report = (record_mailbox_t){.actor = text_of(name, ACTOR_NAME_BYTES_MAX)};
    state[0] = '\0';
    if (figures_open(setup->shm_prefix, name, &figures) == STATUS_OK) {
        pid_t pid = (pid_t)figure_get(&figures->process);

        if (kill(pid, 0) == 0 || errno == EPERM) {
            report->incarnation = (uint32_t)figure_get(&figures->incarnation);
            report->process = (uint32_t)pid;
        }
        index = figure_get(&figures->state);
        if (report->incarnation && index < COUNT_OF(figures->state_names))
            memcpy(state, figures->state_names[index], STATE_NAME_BYTES_MAX);
        report->depth = (uint32_t)figure_get(&figures->depth);
        report->depth_max = (uint32_t)figure_get(&figures->depth_max);
        oldest = figure_get(&figures->oldest_us);
        report->oldest_us = oldest && report->depth && now_us() > oldest ? now_us() - oldest : 0;
        report->received = figure_get(&figures->received);
        report->refused = figure_get(&figures->refused);
        report->malformed = figure_get(&figures->malformed);
        report->progress = figure_get(&figures->progress);
        figures_close(figures);
    }
    report->state = text_of(state, STATE_NAME_BYTES_MAX);
}

static void on_time(struct ev_loop *loop, ev_timer *watcher, int events)
{
    host_t *self = watcher->data;
    message_figures_t figures = {.mailboxes = {.data = self->reports}};

    (void)loop;
    (void)events;
    trail_reset();
    for (uint32_t i = 0; i < self->setup->roster->count; i++) {
        uint32_t n = figures.mailboxes.count;

        if (self->setup->roster->actors[i].host != self->setup->host)
            continue;
        host_report(self->setup, (actor_id_t)i, self->states[n], &self->reports[n]);
        figures.mailboxes.count++;
    }
    process_post(self->process, PORT_FIGURES, MESSAGE_figures, &figures);
}

static status_t open_host(process_t *process, const void *setup, void **self_p)
{
    host_t *self = calloc(1, sizeof(*self));

    if (!self)
        return FAIL(STATUS_NO_MEMORY, "a table of reports");
    self->process = process;
    self->setup = setup;
    ev_timer_init(&self->timer, on_time, 0, PERIOD_MS / 1e3);
    self->timer.data = self;
    ev_timer_start(process_loop(process), &self->timer);
    *self_p = self;
    return STATUS_OK;
}

/* The monitor asks its port for nothing. */
static void push(void *self, uint16_t id, const void *body, const uint8_t *bytes, size_t size)
{
    (void)self;
    (void)id;
    (void)body;
    (void)bytes;
    (void)size;
    UNREACHABLE("a monitor pushes nothing to its port");
}

static void close_host(void *arg)
{
    host_t *self = arg;

    ev_timer_stop(process_loop(self->process), &self->timer);
    free(self);
}

const port_type_t host_port = {PORT_FIGURES, open_host, push, close_host};
