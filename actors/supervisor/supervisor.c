/* supervisor.c - one host's processes.
 *
 *   UP ──STOP──> CLOSING ──no gateway left, time over, STOP──> STOPPING ──last child reaped──> STOPPED
 *
 * In CLOSING its gateways let nobody in and end with their last answer; all else works as before,
 * restarts included, so that those answers come. STOP{0} leaves no time for that.
 *
 *   a child:  DOWN ──SPAWN──> RUNNING ──REAPED──> WAITING ──backoff over──> RUNNING (incarnation + 1)
 *                                                  └─ restarted too often ─> DEGRADED (stays down, said once)
 *
 * V1  a child has at most one process: SPAWN goes out in DOWN or WAITING only, REAPED leaves
 *     RUNNING.
 * V2  EXITED{n} goes to everybody before SPAWN{n + 1}, and to who joins later when it joins; who is
 *     cut off from us hears of the same cause from life n + 1, which is born with it.
 * V3  a KILL that names another incarnation than the running one is counted and does nothing.
 *     Gateways hear in the same way of who is DEGRADED, whether they have met it or not.
 * V4  a group's leader in each of its lives knows whether it drains: DRAINING goes out when an
 *     operator says so and whenever such a leader joins.
 */
#include "actors/supervisor/supervisor.h"

#include <string.h>

#include "messages/message.h"
#include "runtime/base/log.h"
#include "topology/topology.h"

enum {
    UP = SUPERVISOR_UP,
    CLOSING = SUPERVISOR_CLOSING,
    STOPPING = SUPERVISOR_STOPPING,
    STOPPED = SUPERVISOR_STOPPED
};

static const char *const state_names[] = {"up", "closing", "stopping", "stopped"};

typedef struct {
    uint8_t state; /* child_state_t */
    uint8_t killed_by_us; /* exit_cause_t to say of it; 0: it is not */
    uint8_t drains;      /* a leader whose group an operator wants empty */
    uint8_t cause;       /* exit_cause_t of `ended` */
    incarnation_t ended; /* the last life that was reaped; 0: none */
    incarnation_t incarnation;
    uint64_t spawn_at_ms;                          /* WAITING */
    uint32_t restart_count;                        /* of all its life, for the ring below */
    uint64_t restarts_ms[SUPERVISOR_RESTARTS_MAX]; /* when the last ones were */
} child_t;

typedef struct {
    uint8_t state;
    uint8_t started;
    actor_id_t id;
    uint32_t actor_count;
    uint32_t running;
    uint64_t now_ms;
    uint64_t close_at_ms; /* CLOSING: no longer than to this */
    uint64_t kill_at_ms;  /* STOPPING */
    uint32_t drain_ms;    /* what runs in a group that drains may go on for so long */
    uint64_t stale_kills;
    uint16_t hosts[ACTORS_MAX];
    uint16_t kinds[ACTORS_MAX]; /* actor_kind_t */
    uint16_t host;
    actor_id_t leaders[ACTORS_MAX]; /* of a rank: its group's */
    child_t children[ACTORS_MAX];
    char names[ACTORS_MAX][ACTOR_NAME_BYTES_MAX];
} supervisor_t;

static bool is_child(const supervisor_t *self, actor_id_t actor)
{
    return actor < self->actor_count && actor != self->id && self->hosts[actor] == self->host;
}

static void spawn(supervisor_t *self, actor_id_t actor, outbox_t *outbox)
{
    child_t *child = &self->children[actor];
    message_spawn_t spawn = {actor, ++child->incarnation, child->cause};

    ASSERT(child->state == CHILD_DOWN || child->state == CHILD_WAITING);
    child->state = CHILD_RUNNING;
    child->killed_by_us = 0;
    self->running++;
    outbox_push(outbox, PORT_PROCESS, MESSAGE_spawn, &spawn);
}

static void push_signal(supervisor_t *self, actor_id_t actor, bool hard, outbox_t *outbox)
{
    message_signal_t signal = {actor, self->children[actor].incarnation, hard};

    outbox_push(outbox, PORT_PROCESS, MESSAGE_signal, &signal);
}

/* A process that must not live. It is ours to restart, and nobody is charged for it unless it hung. */
static void put_down(supervisor_t *self, actor_id_t actor, exit_cause_t cause, const char *reason,
                     size_t bytes, outbox_t *outbox)
{
    child_t *child = &self->children[actor];

    if (child->killed_by_us)
        return; /* it is on its way */
    LOG(WARN, "SUPERVISOR-KILL actor=%s incarnation=%u reason=\"%.*s\"", self->names[actor],
        child->incarnation, (int)bytes, reason);
    child->killed_by_us = (uint8_t)cause;
    push_signal(self, actor, true, outbox);
}

/* ---- the end ---------------------------------------------------------------------------------- */

static bool is_gateway(const supervisor_t *self, actor_id_t actor)
{
    return is_child(self, actor) && self->kinds[actor] == ACTOR_GATEWAY;
}

static void end_if_all_are_down(supervisor_t *self, outbox_t *outbox)
{
    message_signal_t self_end = {self->id, 0, 0};

    if (self->running > 0)
        return;
    self->state = STOPPED;
    outbox_push(outbox, PORT_PROCESS, MESSAGE_signal, &self_end);
}

static void stop_children(supervisor_t *self, outbox_t *outbox)
{
    self->state = STOPPING;
    self->kill_at_ms = self->now_ms + SUPERVISOR_GRACE_MS;
    for (uint32_t actor = 0; actor < self->actor_count; actor++) {
        if (!is_child(self, (actor_id_t)actor))
            continue;
        if (self->children[actor].state == CHILD_RUNNING)
            push_signal(self, (actor_id_t)actor, false, outbox);
        else
            self->children[actor].state = CHILD_DOWN;
    }
    end_if_all_are_down(self, outbox);
}

static void stop_if_no_gateway_is_left(supervisor_t *self, outbox_t *outbox)
{
    for (uint32_t actor = 0; actor < self->actor_count; actor++)
        if (is_gateway(self, (actor_id_t)actor) && self->children[actor].state == CHILD_RUNNING)
            return;
    stop_children(self, outbox);
}

/* ---- children -------------------------------------------------------------------------------- */

/* When the next life may begin, or DEGRADED. */
static void plan_restart(supervisor_t *self, actor_id_t actor, outbox_t *outbox)
{
    child_t *child = &self->children[actor];
    const message_given_up_t given_up = {actor, child->incarnation};
    const message_degraded_t degraded = {actor};
    uint32_t recent = 0;
    uint64_t wait = 0;

    for (uint32_t i = 0; i < SUPERVISOR_RESTARTS_MAX; i++)
        recent +=
            i < child->restart_count && child->restarts_ms[i] + SUPERVISOR_WINDOW_MS > self->now_ms;
    if (recent == SUPERVISOR_RESTARTS_MAX) {
        child->state = CHILD_DEGRADED;
        LOG(ERROR, "SUPERVISOR-DEGRADED actor=%s restarts=%u window_ms=%u: it stays down",
            self->names[actor], recent, SUPERVISOR_WINDOW_MS);
        outbox_push(outbox, PORT_PROCESS, MESSAGE_given_up, &given_up);
        for (uint32_t i = 0; i < self->actor_count; i++)
            if (self->kinds[i] == ACTOR_GATEWAY && outbox_is_up(outbox, (actor_id_t)i))
                outbox_push(outbox, (actor_id_t)i, MESSAGE_degraded, &degraded);
        return;
    }
    if (recent > 0)
        wait = UINT64_C(50) << recent;
    child->spawn_at_ms =
        self->now_ms + (wait < SUPERVISOR_BACKOFF_MS_MAX ? wait : SUPERVISOR_BACKOFF_MS_MAX);
    child->restarts_ms[child->restart_count++ % SUPERVISOR_RESTARTS_MAX] = self->now_ms;
    child->state = CHILD_WAITING;
}

static const char *cause_text(uint8_t cause)
{
    static const char *const texts[] = {"ended", "failed", "crashed", "was killed from outside",
                                        "was killed by its supervisor", "hung"};

    return cause < COUNT_OF(texts) ? texts[cause] : "ended";
}

static status_t on_reaped(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    supervisor_t *self = arg;
    const message_reaped_t *m = envelope->body;
    child_t *child;
    message_exited_t exited = {m->actor, m->incarnation, m->cause};

    if (!is_child(self, m->actor) || self->children[m->actor].state != CHILD_RUNNING ||
        self->children[m->actor].incarnation != m->incarnation)
        return FAIL(STATUS_UNEXPECTED, "actor %u life %u was not running", m->actor,
                    m->incarnation);
    child = &self->children[m->actor];
    if (child->killed_by_us)
        exited.cause = child->killed_by_us;
    child->ended = m->incarnation;
    child->cause = exited.cause;
    self->running--;
    if (self->state != STOPPING)
        LOG(WARN, "SUPERVISOR-EXITED actor=%s incarnation=%u %s code=%u", self->names[m->actor],
            m->incarnation, cause_text(exited.cause), m->code);
    for (uint32_t actor = 0; actor < self->actor_count; actor++)
        if (actor != m->actor && actor != self->id && outbox_is_up(outbox, (actor_id_t)actor))
            outbox_push(outbox, (actor_id_t)actor, MESSAGE_exited, &exited);
    child->state = CHILD_DOWN;
    if (self->state == STOPPING) {
        end_if_all_are_down(self, outbox);
    } else if (self->state == CLOSING && is_gateway(self, m->actor)) {
        stop_if_no_gateway_is_left(self, outbox);
    } else {
        plan_restart(self, m->actor, outbox);
        if (child->state == CHILD_WAITING && child->spawn_at_ms <= self->now_ms)
            spawn(self, m->actor, outbox);
    }
    return STATUS_OK;
}

static status_t on_kill(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    supervisor_t *self = arg;
    const message_kill_t *m = envelope->body;

    if (!is_child(self, m->actor))
        return FAIL(STATUS_UNEXPECTED, "actor %u is not a child of this host", m->actor);
    if (self->children[m->actor].state != CHILD_RUNNING ||
        self->children[m->actor].incarnation != m->incarnation)
        self->stale_kills++; /* it exited by itself meanwhile */
    else
        put_down(self, m->actor, EXIT_KILLED_BY_US, m->reason.data, m->reason.count, outbox);
    return STATUS_OK;
}

/* Nobody died, but somebody should look at what led here. */
static status_t on_incident(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const supervisor_t *self = arg;
    const message_incident_t *m = envelope->body;
    const message_keep_t keep = {envelope->from, m->reason};

    if (is_child(self, envelope->from))
        outbox_push(outbox, PORT_PROCESS, MESSAGE_keep, &keep);
    return STATUS_OK;
}

static status_t on_stalled(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    supervisor_t *self = arg;
    const message_stalled_t *m = envelope->body;
    static const char reason[] = "its progress word stands still";

    if (is_child(self, m->actor) && self->children[m->actor].state == CHILD_RUNNING &&
        self->children[m->actor].incarnation == m->incarnation &&
        m->still_ms >= SUPERVISOR_STALLED_MS_MAX)
        put_down(self, m->actor, m->stopped ? EXIT_KILLED_BY_US : EXIT_HUNG, reason,
                 sizeof(reason) - 1, outbox);
    return STATUS_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static status_t on_tick(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    supervisor_t *self = arg;
    const message_tick_t *m = envelope->body;

    self->now_ms = m->now_ms;
    for (uint32_t actor = 0; actor < self->actor_count; actor++) {
        const child_t *child = &self->children[actor];

        if (!is_child(self, (actor_id_t)actor))
            continue;
        if (!self->started || (child->state == CHILD_WAITING && child->spawn_at_ms <= self->now_ms))
            spawn(self, (actor_id_t)actor, outbox);
    }
    self->started = 1;
    return STATUS_OK;
}

static status_t on_tick_stopping(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    supervisor_t *self = arg;
    const message_tick_t *m = envelope->body;

    self->now_ms = m->now_ms;
    if (self->now_ms < self->kill_at_ms)
        return STATUS_OK;
    for (uint32_t actor = 0; actor < self->actor_count; actor++)
        if (is_child(self, (actor_id_t)actor) && self->children[actor].state == CHILD_RUNNING)
            push_signal(self, (actor_id_t)actor, true, outbox);
    self->kill_at_ms = UINT64_MAX;
    return STATUS_OK;
}

static status_t on_tick_closing(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    supervisor_t *self = arg;

    TRY(on_tick(arg, envelope, outbox));
    if (self->now_ms >= self->close_at_ms)
        stop_children(self, outbox);
    return STATUS_OK;
}

/* A gateway that this reaches in time ends by itself; one that does not know us yet has no clients. */
static status_t on_stop(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    supervisor_t *self = arg;
    const message_stop_t *m = envelope->body;

    if (m->grace_ms == 0) {
        stop_children(self, outbox);
        return STATUS_OK;
    }
    self->state = CLOSING;
    self->close_at_ms = self->now_ms + m->grace_ms + SUPERVISOR_GRACE_MS;
    for (uint32_t actor = 0; actor < self->actor_count; actor++) {
        if (!is_gateway(self, (actor_id_t)actor))
            continue;
        if (self->children[actor].state != CHILD_RUNNING)
            self->children[actor].state = CHILD_DOWN;
        else if (outbox_is_up(outbox, (actor_id_t)actor))
            outbox_push(outbox, (actor_id_t)actor, MESSAGE_stop, m);
        else
            push_signal(self, (actor_id_t)actor, false, outbox);
    }
    stop_if_no_gateway_is_left(self, outbox);
    return STATUS_OK;
}

static status_t on_stop_closing(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)envelope;
    stop_children(arg, outbox);
    return STATUS_OK;
}

static void push_draining(supervisor_t *self, actor_id_t actor, outbox_t *outbox)
{
    message_draining_t draining = {self->children[actor].drains, self->drain_ms};

    if (outbox_is_up(outbox, actor))
        outbox_push(outbox, actor, MESSAGE_draining, &draining);
}

/* It may have met lives that ended before this stream stood, and nobody else tells it of them; what
 * it never met, its runtime keeps from it. */
static status_t on_joined(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    supervisor_t *self = arg;
    const message_joined_t *m = envelope->body;

    for (uint32_t actor = 0; actor < self->actor_count; actor++) {
        const child_t *child = &self->children[actor];
        const message_degraded_t degraded = {(actor_id_t)actor};
        message_exited_t exited = {(actor_id_t)actor, child->ended, child->cause};

        if (child->ended > 0 && actor != m->actor && outbox_is_up(outbox, m->actor))
            outbox_push(outbox, m->actor, MESSAGE_exited, &exited);
        if (child->state == CHILD_DEGRADED && self->kinds[m->actor] == ACTOR_GATEWAY)
            outbox_push(outbox, m->actor, MESSAGE_degraded, &degraded);
    }
    if (is_child(self, m->actor) && self->children[m->actor].drains)
        push_draining(self, m->actor, outbox);
    return STATUS_OK;
}

/* ---- groups that leave ----------------------------------------------------------------------- */

static bool is_group(const supervisor_t *self, actor_id_t actor)
{
    return is_child(self, actor) &&
           (self->kinds[actor] == ACTOR_PREFILL || self->kinds[actor] == ACTOR_DECODE);
}

/* Without one of its ranks a group never forms again, so a leader alone takes nothing. */
static bool is_whole(const supervisor_t *self, actor_id_t leader)
{
    for (uint32_t actor = 0; actor < self->actor_count; actor++)
        if ((actor == leader || self->leaders[actor] == leader) &&
            self->children[actor].state == CHILD_DEGRADED)
            return false;
    return true;
}

/* Nobody else of its kind would take work, so that new requests would have to wait. */
static bool is_last_of_its_kind(const supervisor_t *self, actor_id_t actor)
{
    for (uint32_t other = 0; other < self->actor_count; other++)
        if (other != actor && self->kinds[other] == self->kinds[actor] &&
            !self->children[other].drains && is_whole(self, (actor_id_t)other))
            return false;
    return true;
}

static status_t on_drain(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    supervisor_t *self = arg;
    const message_drain_t *m = envelope->body;
    message_drain_answer_t answer = {.actor = m->actor, .status = STATUS_REFUSED};
    const char *refusal = NULL;

    if (!is_group(self, m->actor))
        refusal = "only prefill and decode groups can be drained";
    else if (m->on && !m->force && is_last_of_its_kind(self, m->actor))
        refusal = "it is the only one of its kind that takes requests: with force they would wait";
    if (!refusal) {
        answer.status = STATUS_OK;
        if (self->children[m->actor].drains != (m->on != 0)) {
            self->children[m->actor].drains = m->on != 0;
            push_draining(self, m->actor, outbox);
        }
    } else {
        answer.detail = (text_view_t){refusal, (uint32_t)strlen(refusal)};
    }
    outbox_push(outbox, envelope->from, MESSAGE_drain_answer, &answer);
    return STATUS_OK;
}

/* EXITED: of another host's child, as its next life has it. Mailboxes are for tools. */
static status_t on_nothing(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)arg;
    (void)envelope;
    (void)outbox;
    return STATUS_OK;
}

/* ---- tables ---------------------------------------------------------------------------------- */

#define ENDS (BIT(STOPPING) | BIT(STOPPED))

static const actor_rule_t rules[] = {
    {UP, MESSAGE_tick, on_tick, BIT(UP)},
    {CLOSING, MESSAGE_tick, on_tick_closing, BIT(CLOSING) | ENDS},
    {STOPPING, MESSAGE_tick, on_tick_stopping, BIT(STOPPING)},
    {UP, MESSAGE_reaped, on_reaped, BIT(UP)},
    {CLOSING, MESSAGE_reaped, on_reaped, BIT(CLOSING) | ENDS},
    {STOPPING, MESSAGE_reaped, on_reaped, ENDS},
    {UP, MESSAGE_kill, on_kill, BIT(UP)},
    {CLOSING, MESSAGE_kill, on_kill, BIT(CLOSING)},
    {UP, MESSAGE_stalled, on_stalled, BIT(UP)},
    {CLOSING, MESSAGE_stalled, on_stalled, BIT(CLOSING)},
    {UP, MESSAGE_incident, on_incident, BIT(UP)},
    {CLOSING, MESSAGE_incident, on_incident, BIT(CLOSING)},
    {UP, MESSAGE_stop, on_stop, BIT(CLOSING) | ENDS},
    {CLOSING, MESSAGE_stop, on_stop_closing, ENDS},
    {UP, MESSAGE_joined, on_joined, BIT(UP)},
    {CLOSING, MESSAGE_joined, on_joined, BIT(CLOSING)},
    {UP, MESSAGE_drain, on_drain, BIT(UP)},
    {CLOSING, MESSAGE_drain, on_drain, BIT(CLOSING)},
    {UP, MESSAGE_exited, on_nothing, BIT(UP)},
    {CLOSING, MESSAGE_exited, on_nothing, BIT(CLOSING)},
    {UP, MESSAGE_mailboxes, on_nothing, BIT(UP)},
    {CLOSING, MESSAGE_mailboxes, on_nothing, BIT(CLOSING)},
};

static const actor_refusal_t refusals[] = {
    {STOPPED, MESSAGE_reaped, "all children are down"},
    {ACTOR_STATE_ANY, MESSAGE_tick, "it has stopped"},
    {ACTOR_STATE_ANY, MESSAGE_kill, "everything is stopping"},
    {ACTOR_STATE_ANY, MESSAGE_stalled, "everything is stopping"},
    {ACTOR_STATE_ANY, MESSAGE_incident, "everything is stopping"},
    {ACTOR_STATE_ANY, MESSAGE_stop, "everything is stopping"},
    {ACTOR_STATE_ANY, MESSAGE_joined, "everything is stopping"},
    {ACTOR_STATE_ANY, MESSAGE_drain, "everything is stopping"},
    {ACTOR_STATE_ANY, MESSAGE_exited, "everything is stopping"},
    {ACTOR_STATE_ANY, MESSAGE_mailboxes, "everything is stopping"},
};

static uint8_t state_of(const void *arg)
{
    return ((const supervisor_t *)arg)->state;
}

child_state_t supervisor_child(const void *arg, actor_id_t actor, incarnation_t *incarnation)
{
    const supervisor_t *self = arg;

    ASSERT(actor < self->actor_count);
    *incarnation = self->children[actor].incarnation;
    return (child_state_t)self->children[actor].state;
}

static void plan(void *arg, outbox_t *outbox)
{
    (void)arg; /* it asks nobody for anything */
    (void)outbox;
}

static void check(const void *arg)
{
    const supervisor_t *self = arg;
    uint32_t running = 0;

    for (uint32_t actor = 0; actor < self->actor_count; actor++) {
        running += self->children[actor].state == CHILD_RUNNING;
        ASSERT(self->children[actor].state == CHILD_DOWN || is_child(self, (actor_id_t)actor));
    }
    ASSERT(running == self->running);
    ASSERT(self->state != STOPPED || running == 0);
}

static status_t init(void *arg, const actor_birth_t *birth)
{
    supervisor_t *self = arg;
    const topology_t *topology = birth->topology;

    self->id = birth->id;
    self->actor_count = topology->actor_count;
    self->host = topology->actors[birth->id].host;
    self->drain_ms = (uint32_t)topology->drain_timeout_ms;
    for (uint32_t actor = 0; actor < self->actor_count; actor++) {
        self->hosts[actor] = topology->actors[actor].host;
        self->kinds[actor] = topology->actors[actor].kind;
        self->leaders[actor] = topology->actors[actor].leader;
        memcpy(self->names[actor], topology->actors[actor].name, ACTOR_NAME_BYTES_MAX);
    }
    return STATUS_OK;
}

const actor_type_t supervisor_type = {
    .kind = ACTOR_SUPERVISOR,
    .state_bytes = sizeof(supervisor_t),
    .init = init,
    .plan = plan,
    .state = state_of,
    .check = check,
    .table = {state_names, SUPERVISOR_STATES, rules, COUNT_OF(rules), refusals, COUNT_OF(refusals)},
};
