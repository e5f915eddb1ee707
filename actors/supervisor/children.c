#include "actors/supervisor/children.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/supervisor/keeper.h"
#include "messages/message.h"
#include "runtime/base/log.h"

enum { WATCH_SECONDS = 1 };

#define LATER_SECONDS 0.2

typedef struct children children_t;

typedef struct {
    children_t *owner;
    pid_t pid; /* 0: no process */
    int descriptor;
    ev_io exit;
    actor_id_t actor;
    incarnation_t incarnation;
    bool given_up;            /* figures that say so stand in its place */
    const figures_t *figures; /* once it shows them */
    uint64_t progress;
    uint32_t still;      /* watches since it moved */
    bool asked;          /* it was asked to end */
    incident_t incident; /* of its last life */
} child_t;

struct children {
    process_t *process;
    const children_setup_t *setup;
    ev_timer watch;
    ev_timer later; /* incidents are to be written */
    keeper_t *keeper;
    child_t children[ACTORS_MAX];
    bool keep[ACTORS_MAX]; /* something happened to it while it lives */
};

/* ---- the end of a child ---------------------------------------------------------------------- */

static uint8_t cause_of(const siginfo_t *info)
{
    if (info->si_code == CLD_EXITED)
        return info->si_status == 0 ? EXIT_CLEAN : EXIT_FAILED_ITSELF;
    switch (info->si_status) {
    case SIGKILL:
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
        return EXIT_KILLED_OUTSIDE;
    default:
        return EXIT_CRASHED;
    }
}

/* A life that nobody asked to end, and that says it failed or says nothing. */
static void keep_incident(children_t *self, child_t *child, uint8_t cause)
{
    if (cause == EXIT_CLEAN || child->asked) {
        incident_none(&self->setup->incidents, child->actor, child->incarnation);
        return;
    }
    keeper_end(self->keeper, &child->incident);
    incident_begin(&self->setup->incidents, child->actor, child->incarnation, &child->incident);
    ev_timer_again(process_loop(self->process), &self->later);
}

static void keep_living(children_t *self)
{
    incarnation_t lives[ACTORS_MAX];

    for (uint32_t i = 0; i < ACTORS_MAX; i++)
        lives[i] = self->children[i].pid > 0 ? self->children[i].incarnation : 0;
    for (uint32_t i = 0; i < ACTORS_MAX; i++) {
        if (self->keep[i] && lives[i] != 0)
            keeper_copy(self->keeper, (actor_id_t)i, lives);
        self->keep[i] = false;
    }
}

static void keep(children_t *self, const message_keep_t *m)
{
    LOG(WARN, "INCIDENT actor=%s reason=\"%.*s\"", roster_name(self->setup->roster, m->actor),
        (int)m->reason.count, m->reason.data);
    self->keep[m->actor] = true;
    ev_timer_again(process_loop(self->process), &self->later);
}

/* When those who wait for the next life have been told. */
static void on_later(struct ev_loop *loop, ev_timer *watcher, int events)
{
    children_t *self = watcher->data;

    (void)events;
    ev_timer_stop(loop, watcher);
    for (uint32_t i = 0; i < ACTORS_MAX; i++)
        keeper_end(self->keeper, &self->children[i].incident);
    keep_living(self);
}

static void child_forget(children_t *self, child_t *child)
{
    ev_io_stop(process_loop(self->process), &child->exit);
    close(child->descriptor);
    if (child->figures)
        figures_close(child->figures);
    child->figures = NULL;
    child->pid = 0;
}

static void post_reaped(children_t *self, const child_t *child, uint8_t cause, uint32_t code)
{
    message_reaped_t reaped = {child->actor, child->incarnation, cause, code};

    process_post(self->process, PORT_PROCESS, MESSAGE_reaped, &reaped);
}

static void on_child_exit(struct ev_loop *loop, ev_io *watcher, int events)
{
    child_t *child = watcher->data;
    siginfo_t info = {0};

    (void)loop;
    (void)events;
    if (waitid(P_PIDFD, (id_t)child->descriptor, &info, WEXITED | WNOHANG) != 0) {
        info.si_pid = child->pid; /* somebody else reaped it: gone all the same */
        info.si_code = CLD_KILLED;
        info.si_status = SIGABRT;
    }
    if (info.si_pid == 0)
        return; /* not yet */
    figures_unlink(child->owner->setup->shm_prefix,
                   roster_name(child->owner->setup->roster, child->actor));
    if (child->owner->setup->sweep)
        child->owner->setup->sweep(child->owner->setup->shm_prefix, child->actor,
                                   child->incarnation);
    child_forget(child->owner, child);
    keep_incident(child->owner, child, cause_of(&info));
    post_reaped(child->owner, child, cause_of(&info), (uint32_t)info.si_status);
}

/* ---- the beginning --------------------------------------------------------------------------- */

static _Noreturn void become(const children_setup_t *setup, const message_spawn_t *m, pid_t parent)
{
    char id[16], life[16], before[16];
    sigset_t none;

    snprintf(id, sizeof(id), "%u", m->actor);
    snprintf(life, sizeof(life), "%u", m->incarnation);
    snprintf(before, sizeof(before), "%u", m->before);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0,
            0); /* a Ctrl-C at the terminal is for the supervisor, which ends its children itself */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* it died before the line above */
    execl(setup->executable, "lockstep", "actor", setup->directory, id, life, before, (char *)NULL);
    _exit(127);
}

static void spawn(children_t *self, const message_spawn_t *m)
{
    child_t *child = &self->children[m->actor];
    pid_t parent = getpid(), pid;

    ASSERT(m->actor < ACTORS_MAX && child->pid == 0);
    child->owner = self;
    child->actor = m->actor;
    child->incarnation = m->incarnation;
    pid = fork();
    if (pid == 0)
        become(self->setup, m, parent);
    child->descriptor = pid > 0 ? pidfd_open(pid, 0) : -1;
    if (child->descriptor < 0) {
        LOG(ERROR, "CHILD-NO-START actor=%s %s", roster_name(self->setup->roster, m->actor),
            strerror(errno));
        if (pid > 0) { /* no descriptor to watch it with: it must not live unwatched */
            kill(pid, SIGKILL);
            waitpid(pid, NULL, 0);
        }
        post_reaped(self, child, EXIT_FAILED_ITSELF, 127);
        return;
    }
    child->pid = pid;
    child->progress = 0;
    child->still = 0;
    child->asked = false;
    ev_io_init(&child->exit, on_child_exit, child->descriptor, EV_READ);
    child->exit.data = child;
    ev_io_start(process_loop(self->process), &child->exit);
}

static void signal_child(children_t *self, const message_signal_t *m)
{
    child_t *child = &self->children[m->actor];

    if (child->pid == 0 && m->incarnation == 0) {
        process_stop(self->process); /* the supervisor's own end */
        return;
    }
    if (child->pid == 0 || child->incarnation != m->incarnation)
        return;
    child->asked = child->asked || !m->hard;
    pidfd_send_signal(child->descriptor, m->hard ? SIGKILL : SIGTERM, NULL, 0);
}

/* ---- progress -------------------------------------------------------------------------------- */

static bool is_stopped(const child_t *child)
{
    siginfo_t info = {0};

    return waitid(P_PIDFD, (id_t)child->descriptor, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}

/* A progress word moves with every TICK. One that stands still belongs to a process that is stopped
 * or stuck, and so does one that is not there: a process shows it before it does anything else. Time
 * counts in watches, so that a pause of the machine is worth one. */
static void watch(children_t *self, child_t *child)
{
    const char *name = roster_name(self->setup->roster, child->actor);
    message_stalled_t stalled = {.actor = child->actor, .incarnation = child->incarnation};
    uint64_t progress = 0;

    if (!child->figures &&
        figures_open(self->setup->shm_prefix, name, &child->figures) != STATUS_OK) {
        child->figures = NULL;
        trail_reset();
    }
    if (child->figures)
        progress = figure_get(&child->figures->progress);
    if (progress != child->progress) {
        child->progress = progress;
        child->still = 0;
        return;
    }
    stalled.still_ms = ++child->still * WATCH_SECONDS * 1000;
    stalled.stopped = is_stopped(child);
    if (child->still > 1)
        process_post(self->process, PORT_PROCESS, MESSAGE_stalled, &stalled);
}

static void on_watch(struct ev_loop *loop, ev_timer *watcher, int events)
{
    children_t *self = watcher->data;

    (void)loop;
    (void)events;
    for (uint32_t i = 0; i < ACTORS_MAX; i++)
        if (self->children[i].pid > 0)
            watch(self, &self->children[i]);
}

/* ---- the port -------------------------------------------------------------------------------- */

static status_t port_open(process_t *process, const void *setup, void **out)
{
    children_t *self = calloc(1, sizeof(*self));
    status_t status;

    if (!self)
        return FAIL(STATUS_NO_MEMORY, "no memory for the process port");
    self->process = process;
    self->setup = setup;
    status = keeper_open(&self->setup->incidents, &self->keeper);
    if (status != STATUS_OK) {
        free(self);
        return status;
    }
    ev_timer_init(&self->watch, on_watch, WATCH_SECONDS, WATCH_SECONDS);
    ev_timer_init(&self->later, on_later, 0, LATER_SECONDS);
    self->watch.data = self->later.data = self;
    ev_timer_start(process_loop(process), &self->watch);
    *out = self;
    return STATUS_OK;
}

/* In its place, for all that look at figures: `ps`, `top`, the monitor. */
static void show_given_up(children_t *self, const message_given_up_t *m)
{
    const char *prefix = self->setup->shm_prefix,
               *name = roster_name(self->setup->roster, m->actor);
    figures_t *figures = NULL;

    if (figures_create(prefix, name, &figures) != STATUS_OK) {
        LOG(WARN, "CHILD-NO-FIGURES actor=%s: %s", name, trail_text());
        return;
    }
    figures_init(figures, m->actor, m->incarnation, name);
    figure_set(&figures->process, 0);
    (void)snprintf(figures->state_names[0], STATE_NAME_BYTES_MAX, "degraded");
    figures_close(figures);
    self->children[m->actor].given_up = true;
}

static void port_push(void *context, uint16_t id, const void *body, const uint8_t *bytes,
                      size_t size)
{
    (void)bytes;
    (void)size;
    if (id == MESSAGE_spawn)
        spawn(context, body);
    else if (id == MESSAGE_keep)
        keep(context, body);
    else if (id == MESSAGE_given_up)
        show_given_up(context, body);
    else
        signal_child(context, body);
}

static void port_close(void *context)
{
    children_t *self = context;

    ev_timer_stop(process_loop(self->process), &self->watch);
    on_later(process_loop(self->process), &self->later, 0);
    keeper_close(self->keeper);
    for (uint32_t i = 0; i < ACTORS_MAX; i++) {
        child_t *child = &self->children[i];

        if (child->given_up)
            figures_unlink(self->setup->shm_prefix,
                           roster_name(self->setup->roster, (actor_id_t)i));
        if (child->pid == 0)
            continue;
        pidfd_send_signal(child->descriptor, SIGKILL, NULL, 0);
        waitid(P_PIDFD, (id_t)child->descriptor, &(siginfo_t){0}, WEXITED);
        child_forget(self, child);
    }
    free(self);
}

const port_type_t children_port = {
    .id = PORT_PROCESS, .open = port_open, .push = port_push, .close = port_close};
