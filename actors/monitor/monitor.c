/* The last report of every mailbox.
 *
 *      FIGURES from the port, twice a second --> the table --> MAILBOXES to whoever says WATCH
 *
 * M1 a report is of an actor of the topology, and the table has one place for each M2 every
 * WATCH is answered once, by what is known then: an actor that was never seen is shown as not
 * running
 */
#include "actors/monitor/monitor.h"

#include <string.h>

#include "messages/message.h"
#include "topology/topology.h"

enum { UP };

typedef struct {
    char name[ACTOR_NAME_BYTES_MAX];
    char state[STATE_NAME_BYTES_MAX];
    uint32_t state_bytes;
    record_mailbox_t report; /* without views: the texts are above */
} seen_t;

typedef struct {
    uint32_t count;
    uint64_t watches;
    seen_t seen[ACTORS_MAX];
} monitor_t;

static void check(const void *arg)
{
    const monitor_t *self = arg;

    ASSERT(self->count <= ACTORS_MAX);
    for (uint32_t i = 0; i < self->count; i++)
        ASSERT(self->seen[i].state_bytes <= STATE_NAME_BYTES_MAX);
}

static bool is_named(const seen_t *seen, text_view_t name)
{
    return strlen(seen->name) == name.count && memcmp(seen->name, name.data, name.count) == 0;
}

/* ---- handlers ---- */

/* By field: a copy would bring along what lies between them, and where the message lay. */
static void keep(seen_t *seen, const record_mailbox_t *report)
{
    record_mailbox_t *kept = &seen->report;

    kept->incarnation = report->incarnation;
    kept->process = report->process;
    kept->depth = report->depth;
    kept->depth_max = report->depth_max;
    kept->oldest_us = report->oldest_us;
    kept->received = report->received;
    kept->refused = report->refused;
    kept->malformed = report->malformed;
    kept->progress = report->progress;
    seen->state_bytes = report->state.count;
    memcpy(seen->state, report->state.data, report->state.count);
}

static status_t on_figures(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_figures_t *m = envelope->body;
    monitor_t *self = arg;

    (void)outbox;
    for (uint32_t i = 0; i < m->mailboxes.count; i++) {
        const record_mailbox_t *report = &m->mailboxes.data[i];

        for (uint32_t n = 0; n < self->count; n++) {
            seen_t *seen = &self->seen[n];

            if (is_named(seen, report->actor))
                keep(seen, report);
        }
    }
    return STATUS_OK;
}

static status_t on_watch(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_watch_t *m = envelope->body;
    record_mailbox_t reports[ACTORS_MAX];
    message_mailboxes_t answer = {.mailboxes = {.data = reports}};
    monitor_t *self = arg;

    for (uint32_t i = 0; i < self->count; i++) {
        const seen_t *seen = &self->seen[i];
        record_mailbox_t *report = &reports[answer.mailboxes.count];

        if (m->actor.count && !is_named(seen, m->actor))
            continue;
        *report = seen->report;
        report->actor = (text_view_t){seen->name, (uint32_t)strlen(seen->name)};
        report->state = (text_view_t){seen->state, seen->state_bytes};
        answer.mailboxes.count++;
    }
    self->watches++;
    outbox_push(outbox, envelope->from, MESSAGE_mailboxes, &answer);
    return STATUS_OK;
}

/* What it hears of groups and lives, the mailboxes show as well. */
static status_t on_nothing(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)arg;
    (void)envelope;
    (void)outbox;
    return STATUS_OK;
}

/* ---- tables ---- */

static const char *const state_names[] = {"up"};

static const actor_rule_t rules[] = {
    {UP, MESSAGE_figures, on_figures, BIT(UP)},  {UP, MESSAGE_watch, on_watch, BIT(UP)},
    {UP, MESSAGE_joined, on_nothing, BIT(UP)},   {UP, MESSAGE_exited, on_nothing, BIT(UP)},
    {UP, MESSAGE_tick, on_nothing, BIT(UP)},     {UP, MESSAGE_stop, on_nothing, BIT(UP)},
    {UP, MESSAGE_instance, on_nothing, BIT(UP)}, {UP, MESSAGE_pair, on_nothing, BIT(UP)},
};

static uint8_t state_of(const void *arg)
{
    (void)arg;
    return UP;
}

static status_t init(void *arg, const actor_birth_t *birth)
{
    const topology_t *topology = birth->topology;
    monitor_t *self = arg;

    self->count = topology->actor_count;
    for (uint32_t i = 0; i < self->count; i++)
        memcpy(self->seen[i].name, topology->actors[i].name, sizeof(self->seen[i].name));
    return STATUS_OK;
}

const actor_type_t monitor_type = {
    .kind = ACTOR_MONITOR,
    .state_bytes = sizeof(monitor_t),
    .init = init,
    .state = state_of,
    .check = check,
    .table = {state_names, COUNT_OF(state_names), rules, COUNT_OF(rules), NULL, 0},
};
