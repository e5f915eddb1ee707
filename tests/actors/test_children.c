/* The supervisor's process port with real processes: every way to end is reported with its
 * cause. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/supervisor/children.h"
#include "messages/message.h"

/* One actor per way to end: every child is this script, which is told its id as `lockstep actor`
 * is. */
enum { ENDS_CLEAN = 1, ENDS_FAILED, ENDS_CRASHED, ENDS_KILLED, ENDS_STALLED, ENDS_MUTE, PLACES };
enum { RUNNING, ALL_REAPED };

static const char script[] = "#!/bin/sh\n"
                             "case $3 in\n"
                             "1) test \"$1 $4\" = \"actor 1\" ;;\n"
                             "2) exit 3 ;;\n"
                             "3) kill -SEGV $$ ;;\n"
                             "4) kill -TERM $$ ;;\n"
                             "5) exec sleep 600 ;;\n"
                             "6) kill -STOP $$ ;;\n"
                             "esac\n";

/* ---- a supervisor that starts each once and notes what became of it ---- */

typedef struct {
    uint8_t state;
    bool spawned;
    uint32_t reaped;
    uint32_t stalled; /* actors, as bits */
    uint8_t cause[PLACES];
    uint32_t code[PLACES];
} starter_t;

static const char *shown_prefix, *shown_name; /* of who is given up */

static status_t on_reaped(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_reaped_t *m = envelope->body;
    const message_given_up_t given_up = {ENDS_FAILED, 1};
    starter_t *self = arg;

    assert_int_equal(m->incarnation, 1);
    if (m->actor == ENDS_FAILED)
        outbox_push(outbox, PORT_PROCESS, MESSAGE_given_up, &given_up);
    self->cause[m->actor] = m->cause;
    self->code[m->actor] = m->code;
    if (++self->reaped == PLACES - 1)
        self->state = ALL_REAPED;
    return STATUS_OK;
}

static status_t on_stalled(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_stalled_t *m = envelope->body;
    message_signal_t hard = {.actor = m->actor, .incarnation = m->incarnation, .hard = 1};
    const figures_t *shown = NULL;
    starter_t *self = arg;

    assert_true(m->actor == ENDS_STALLED || m->actor == ENDS_MUTE);
    assert_int_equal(m->stopped, m->actor == ENDS_MUTE);
    assert_true(m->still_ms >= 2000);
    assert_int_equal(figures_open(shown_prefix, shown_name, &shown), STATUS_OK);
    assert_string_equal(shown->state_names[figure_get(&shown->state)], "degraded");
    assert_int_equal(figure_get(&shown->process), 0);
    figures_close(shown);
    self->stalled |= BIT(m->actor);
    outbox_push(outbox, PORT_PROCESS, MESSAGE_signal, &hard);
    return STATUS_OK;
}

static void plan(void *arg, outbox_t *outbox)
{
    starter_t *self = arg;

    for (actor_id_t actor = 1; !self->spawned && actor < PLACES; actor++) {
        message_spawn_t spawn = {.actor = actor, .incarnation = 1};

        outbox_push(outbox, PORT_PROCESS, MESSAGE_spawn, &spawn);
    }
    self->spawned = true;
}

static uint8_t state_of(const void *self)
{
    return ((const starter_t *)self)->state;
}

static uint32_t swept; /* actors, as bits */

static void sweep(const char *shm_prefix, actor_id_t actor, incarnation_t incarnation)
{
    (void)shm_prefix;
    assert_int_equal(incarnation, 1);
    assert_false(swept & BIT(actor));
    swept |= BIT(actor);
}

static void write_script(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fputs(script, file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

/* Removes all, empty as they are here; returns how many there were. */
static uint32_t take_incidents(const char *folder)
{
    DIR *directory = opendir(folder);
    struct dirent *entry;
    uint32_t count = 0;

    while (directory && (entry = readdir(directory)) != NULL)
        if (entry->d_name[0] != '.') {
            assert_non_null(strstr(entry->d_name, "-decode."));
            assert_null(strstr(entry->d_name, "-decode.1-"));
            assert_int_equal(unlinkat(dirfd(directory), entry->d_name, AT_REMOVEDIR), 0);
            count++;
        }
    if (directory)
        closedir(directory);
    assert_int_equal(rmdir(folder), 0);
    return count;
}

static void test_every_way_to_end_is_reported_with_its_cause(void **state)
{
    static const char *const names[] = {"running", "all reaped"};
    static const actor_rule_t rules[] = {
        {ACTOR_STATE_ANY, MESSAGE_reaped, on_reaped, BIT(RUNNING) | BIT(ALL_REAPED)},
        {ACTOR_STATE_ANY, MESSAGE_stalled, on_stalled, BIT(RUNNING) | BIT(ALL_REAPED)},
    };
    static const actor_type_t type = {.kind = ACTOR_SUPERVISOR,
                                      .state_bytes = sizeof(starter_t),
                                      .plan = plan,
                                      .state = state_of,
                                      .table = {names, 2, rules, 2, NULL, 0}};
    static roster_t roster = {.count = PLACES};
    static endpoints_t endpoints;
    char prefix[64], executable[64], directory[] = "/tmp/lockstep-test-XXXXXX";
    char incidents[64];
    children_setup_t setup = {
        executable, directory, prefix, &roster, sweep,
        {incidents, directory, prefix, &roster, &message_table, NULL}};
    process_config_t config = {.type = &type,
                               .birth = {.id = 0, .incarnation = 1},
                               .table = &message_table,
                               .roster = &roster,
                               .endpoints = &endpoints,
                               .ports = {{&children_port, &setup}},
                               .port_count = 1,
                               .end_states = BIT(ALL_REAPED)};
    figures_t *figures = NULL;
    const figures_t *shown = NULL;
    process_t *process = NULL;
    const starter_t *self;

    (void)state;
    (void)snprintf(prefix, sizeof(prefix), "/lockstep-test-%d-", (int)getpid());
    for (uint32_t i = 0; i < PLACES; i++) {
        (void)snprintf(roster.actors[i].name, ACTOR_NAME_BYTES_MAX, "%s/%u",
                       i ? "decode" : "supervisor", i);
        roster.actors[i].kind = i ? ACTOR_DECODE : ACTOR_SUPERVISOR;
        roster.actors[i].leader = ACTOR_NONE;
    }
    shown_prefix = prefix;
    shown_name = roster.actors[ENDS_FAILED].name;
    assert_non_null(mkdtemp(directory));
    (void)snprintf(executable, sizeof(executable), "%s/lockstep", directory);
    write_script(executable);
    (void)snprintf(incidents, sizeof(incidents), "%s/incidents", directory);
    /* The figures of one that runs and does nothing. */
    assert_int_equal(figures_create(prefix, roster.actors[ENDS_STALLED].name, &figures), STATUS_OK);
    figures_init(figures, ENDS_STALLED, 1, roster.actors[ENDS_STALLED].name);
    assert_int_equal(endpoints_ipc(&endpoints, &roster, directory), STATUS_OK);
    assert_int_equal(process_open(&config, &process), STATUS_OK);
    assert_int_equal(process_run(process), STATUS_OK);
    self = node_dispatch(process_node(process))->self;
    assert_int_equal(self->cause[ENDS_CLEAN], EXIT_CLEAN);
    assert_int_equal(self->cause[ENDS_FAILED], EXIT_FAILED_ITSELF);
    assert_int_equal(self->code[ENDS_FAILED], 3);
    assert_int_equal(self->cause[ENDS_CRASHED], EXIT_CRASHED);
    assert_int_equal(self->code[ENDS_CRASHED], SIGSEGV);
    assert_int_equal(self->cause[ENDS_KILLED], EXIT_KILLED_OUTSIDE);
    assert_int_equal(self->cause[ENDS_STALLED], EXIT_KILLED_OUTSIDE); /* by whom, an actor knows */
    assert_int_equal(self->stalled, BIT(ENDS_STALLED) | BIT(ENDS_MUTE));
    assert_int_equal(swept, BIT(PLACES) - BIT(1)); /* each that was reaped */
    process_close(process);
    assert_int_equal(figures_open(shown_prefix, shown_name, &shown), STATUS_NOT_FOUND);
    figures_close(figures);
    assert_int_equal(unlink(executable), 0);
    /* All but the one that ended well. */
    assert_int_equal(take_incidents(incidents), PLACES - 2);
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_to_end_is_reported_with_its_cause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
