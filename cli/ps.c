/* ps.c - `lockstep ps [NAME] [--json | --streams | --ranks]`: every actor's state, mailbox and progress, and who waits
 * for whom, from shared memory.
 *
 * It asks nobody, so it answers also when everything hangs: that is when one looks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/rundir.h"
#include "cli/waits.h"
#include "runtime/figures.h"
#include "runtime/stream.h"

typedef struct {
    const char *name;
    const char *state; /* "-": not running */
    uint64_t pid;
    uint64_t incarnation;
    uint64_t depth;
    uint64_t depth_max;
    uint64_t oldest_ms; /* age of the oldest message that waits */
    uint64_t received;
    uint64_t refused;
    uint64_t malformed;
    uint64_t attempts;
    uint64_t attempt_waits[FIGURES_ATTEMPT_WAITS_MAX];
    char attempt_wait_names[FIGURES_ATTEMPT_WAITS_MAX][STATE_NAME_BYTES_MAX];
    uint64_t progress;
    uint64_t quiet_ms; /* since the last message, TICK included */
    actor_id_t actor;
    uint64_t dropped[DROP_COUNT];
} line_t;

static uint64_t clock_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static uint64_t age_ms(uint64_t at_us)
{
    uint64_t now = clock_us();

    return at_us && now > at_us ? (now - at_us) / 1000 : 0;
}

static void read_line(const rundir_t *rundir, const topology_actor_t *actor, line_t *row)
{
    static char states[ACTORS_MAX][STATE_NAME_BYTES_MAX];
    const figures_t *figures;

    *row = (line_t){.name = actor->name, .state = "-", .actor = actor->id};
    if (figures_open(rundir->shm_prefix, actor->name, &figures) != STATUS_OK)
        return;
    memcpy(states[actor->id], figures->state_names[figure_get(&figures->state) % 16],
           STATE_NAME_BYTES_MAX);
    states[actor->id][STATE_NAME_BYTES_MAX - 1] = '\0';
    *row = (line_t){
        .name = actor->name,
        .state = states[actor->id],
        .pid = figure_get(&figures->process),
        .incarnation = figure_get(&figures->incarnation),
        .depth = figure_get(&figures->depth),
        .depth_max = figure_get(&figures->depth_max),
        .oldest_ms = age_ms(figure_get(&figures->oldest_us)),
        .received = figure_get(&figures->received),
        .refused = figure_get(&figures->refused),
        .malformed = figure_get(&figures->malformed),
        .attempts = figure_get(&figures->attempts),
        .progress = figure_get(&figures->progress),
        .quiet_ms = age_ms(figure_get(&figures->now_us)),
        .actor = actor->id,
    };
    for (uint32_t drop = 0; drop < DROP_COUNT; drop++)
        row->dropped[drop] = figure_get(&figures->dropped[drop]);
    for (uint32_t i = 0; i < FIGURES_ATTEMPT_WAITS_MAX; i++) {
        row->attempt_waits[i] = figure_get(&figures->attempt_waits[i]);
        (void)snprintf(row->attempt_wait_names[i], STATE_NAME_BYTES_MAX, "%.*s",
                       STATE_NAME_BYTES_MAX - 1, figures->attempt_wait_names[i]);
    }
    figures_close(figures);
}

/* Where it listens, and where its files are. */
static void print_places(const rundir_t *rundir, const topology_t *topology)
{
    for (uint16_t i = 0; i < topology->gateway_count; i++) {
        const topology_gateway_t *gateway = &topology->gateways[i];

        printf("%s: clients %s:%u, administration %s:%u\n", rundir->name, gateway->listen,
               rundir_port(rundir, i), gateway->admin_listen, rundir_admin_port(rundir, i));
    }
    rundir_print(rundir, topology, stdout);
}

static void print_table(const line_t *rows, uint32_t count)
{
    printf("%-22s %8s %4s %-10s %5s %5s %9s %10s %7s %8s %8s\n", "ACTOR", "PID", "LIFE", "STATE",
           "DEPTH", "MAX", "OLDEST ms", "RECEIVED", "REFUSED", "ATTEMPTS", "QUIET ms");
    for (uint32_t i = 0; i < count; i++)
        printf("%-22s %8" PRIu64 " %4" PRIu64 " %-10s %5" PRIu64 " %5" PRIu64 " %9" PRIu64
               " %10" PRIu64 " %7" PRIu64 " %8" PRIu64 " %8" PRIu64 "\n",
               rows[i].name, rows[i].pid, rows[i].incarnation, rows[i].state, rows[i].depth,
               rows[i].depth_max, rows[i].oldest_ms, rows[i].received, rows[i].refused,
               rows[i].attempts, rows[i].quiet_ms);
}

/* What attempts wait for before they are forgotten, a line for each actor with some. */
static void print_attempt_waits(const line_t *rows, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *gap = NULL;

        for (uint32_t n = 0; n < FIGURES_ATTEMPT_WAITS_MAX; n++) {
            if (rows[i].attempt_waits[n] == 0)
                continue;
            if (!gap)
                printf("%s: attempts wait for", rows[i].name);
            printf("%s %s: %" PRIu64, gap ? gap : "", rows[i].attempt_wait_names[n],
                   rows[i].attempt_waits[n]);
            gap = ",";
        }
        if (gap)
            printf("\n");
    }
}

static void print_attempt_waits_json(const line_t *row)
{
    const char *comma = "";

    printf("\"attempt_waits\": {");
    for (uint32_t n = 0; n < FIGURES_ATTEMPT_WAITS_MAX; n++) {
        if (!row->attempt_wait_names[n][0])
            continue;
        printf("%s\"%s\": %" PRIu64, comma, row->attempt_wait_names[n], row->attempt_waits[n]);
        comma = ", ";
    }
    printf("}, ");
}

/* Names and states are ours: letters, digits and slashes, so nothing needs escaping. */
static void print_waits_json(const topology_t *topology, const waits_t *waits, actor_id_t who)
{
    const char *comma = "";

    printf("\"waits\": [");
    for (uint32_t i = 0; i < waits->count; i++) {
        const wait_t *wait = &waits->waits[i];

        if (wait->who != who)
            continue;
        printf("%s{\"what\": \"%s\", \"whom\": [", comma, wait->what);
        for (uint32_t k = 0; k < wait->whom_count; k++)
            printf("%s\"%s\"", k ? ", " : "", topology->actors[wait->whom[k]].name);
        printf("]}");
        comma = ", ";
    }
    printf("], \"blocks\": %s", waits->blocks[who] ? "true" : "false");
}

static void print_json(const topology_t *topology, const waits_t *waits, const line_t *rows)
{
    const uint32_t count = topology->actor_count;

    printf("[");
    for (uint32_t i = 0; i < count; i++) {
        printf("%s\n  {\"name\": \"%s\", \"pid\": %" PRIu64 ", \"incarnation\": %" PRIu64
               ", \"state\": \"%s\", \"depth\": %" PRIu64 ", \"depth_max\": %" PRIu64
               ", \"oldest_ms\": %" PRIu64 ", \"received\": %" PRIu64 ", \"refused\": %" PRIu64
               ", \"malformed\": %" PRIu64 ", \"attempts\": %" PRIu64 ", \"progress\": %" PRIu64
               ", \"quiet_ms\": %" PRIu64 ", ",
               i ? "," : "", rows[i].name, rows[i].pid, rows[i].incarnation, rows[i].state,
               rows[i].depth, rows[i].depth_max, rows[i].oldest_ms, rows[i].received,
               rows[i].refused, rows[i].malformed, rows[i].attempts, rows[i].progress,
               rows[i].quiet_ms);
        printf("\"dropped\": {");
        for (uint32_t drop = 0; drop < DROP_COUNT; drop++)
            printf("%s\"%s\": %" PRIu64, drop ? ", " : "", figures_drop_name((figures_drop_t)drop),
                   rows[i].dropped[drop]);
        printf("}, ");
        print_attempt_waits_json(&rows[i]);
        print_waits_json(topology, waits, rows[i].actor);
        printf("}");
    }
    printf("\n]\n");
}

/* Each actor's streams: whom it knows, and what is on its way between them. */
static void print_streams(const rundir_t *rundir, const topology_t *topology)
{
    static const char *const states[] = {
        [STREAM_DOWN] = "down", [STREAM_KNOWN] = "known", [STREAM_UP] = "up"};

    printf("%-22s %-22s %4s %-6s %8s %8s %8s %8s %7s\n", "ACTOR", "PEER", "LIFE", "STATE", "SENT",
           "ACKED", "RECEIVED", "APPLIED", "CREDIT");
    for (uint32_t i = 0; i < topology->actor_count; i++) {
        const figures_t *figures;

        if (figures_open(rundir->shm_prefix, topology->actors[i].name, &figures) != STATUS_OK)
            continue;
        for (uint64_t k = 0; k < figure_get(&figures->stream_count) && k < ACTORS_MAX; k++) {
            const figures_stream_t *stream = &figures->streams[k];
            uint64_t peer = figure_get(&stream->peer);
            uint64_t state = figure_get(&stream->state);

            printf("%-22s %-22s %4" PRIu64 " %-6s %8" PRIu64 " %8" PRIu64 " %8" PRIu64
                   " %8" PRIu64 " %7" PRIu64 "\n",
                   topology->actors[i].name,
                   peer < topology->actor_count ? topology->actors[peer].name : "?",
                   figure_get(&stream->life), state < COUNT_OF(states) ? states[state] : "?",
                   figure_get(&stream->sent),
                   figure_get(&stream->acked), figure_get(&stream->received),
                   figure_get(&stream->applied), figure_get(&stream->credit));
        }
        figures_close(figures);
    }
}

int command_ps(int argc, char **argv)
{
    static line_t rows[ACTORS_MAX];
    static waits_t waits;
    const char *name = NULL;
    deployment_t *deployment;
    const topology_t *topology;
    bool json = false, streams = false, ranks = false;
    rundir_t rundir;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--streams") == 0)
            streams = true;
        else if (strcmp(argv[i], "--ranks") == 0)
            ranks = true;
        else if (argv[i][0] == '-' || name)
            return command_usage("ps", "expected at most one NAME");
        else
            name = argv[i];
    }
    if (rundir_find(name, &rundir) != STATUS_OK ||
        rundir_deployment_read(&rundir, &deployment) != STATUS_OK) {
        fprintf(stderr, "lockstep ps: %s\n", trail_text());
        return EXIT_NOT_RUNNING;
    }
    topology = &deployment->topology;
    for (uint32_t i = 0; i < topology->actor_count; i++)
        read_line(&rundir, &topology->actors[i], &rows[i]);
    waits_read(&rundir, topology, &waits);
    if (streams) {
        print_streams(&rundir, topology);
    } else if (ranks) {
        waits_print_ranks(&rundir, topology);
    } else if (json) {
        print_json(topology, &waits, rows);
    } else {
        print_places(&rundir, topology);
        print_table(rows, topology->actor_count);
        print_attempt_waits(rows, topology->actor_count);
        waits_print(&waits, topology);
    }
    free(deployment);
    return EXIT_OK;
}
