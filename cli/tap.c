/* tap.c - `lockstep tap [NAME]`: messages of a running deployment as they come, from the actors'
 * frame rings.
 *
 * Reads shared memory only: actors do not know that somebody looks. A ring keeps the last MiB of
 * an actor's frames, so --old shows what led to now, also for an actor that is stuck. What is
 * lost to a slow terminal is counted.
 */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "actors/roster.h"
#include "cli/command.h"
#include "cli/rundir.h"
#include "messages/message.h"
#include "runtime/figures.h"
#include "runtime/show.h"

enum { LOOK_MS = 50 };

typedef struct {
    const char *name;
    const char *actor;   /* NULL: all */
    const char *message; /* NULL: all */
    bool old;            /* what the rings hold, then end */
    bool reveal;         /* token ids too */
} options_t;

typedef struct {
    ring_t *ring; /* NULL: not open */
    ring_reader_t reader;
    uint64_t incarnation; /* of the life whose ring it is */
    uint64_t missed;      /* already told */
} source_t;

/* One message as text. Rings are read one after another, then all lines are put in the order of
 * time. */
typedef struct {
    uint64_t us;
    uint32_t number; /* among lines of one time */
    char *text;      /* owned */
} line_t;

typedef struct {
    const options_t *options;
    const rundir_t *rundir;
    const topology_t *topology;
    roster_t roster;
    source_t sources[ACTORS_MAX];
    line_t *lines;
    uint32_t line_count;
    uint32_t line_room;
    arena_t arena;
    uint8_t bytes[RING_RECORD_BYTES_MAX];
} tap_t;

static volatile sig_atomic_t ended;

static void on_signal(int number)
{
    (void)number;
    ended = 1;
}

/* ---- one record ------------------------------------------------------------------------------ */

static bool make_room(tap_t *self)
{
    uint32_t room = self->line_room ? 2 * self->line_room : 256;
    line_t *lines;

    if (self->line_count < self->line_room)
        return true;
    lines = realloc(self->lines, room * sizeof(*lines));
    if (!lines)
        return false;
    self->lines = lines;
    self->line_room = room;
    return true;
}

static void add_message(void *context, const show_t *message)
{
    tap_t *self = context;
    const message_row_t *row =
        message->id < message_table.count ? &message_table.rows[message->id] : NULL;
    line_t line = {.us = message->us, .number = self->line_count};
    size_t length = 0;
    FILE *out;

    if (!row || !row->name || !make_room(self) ||
        (self->options->message && strcasecmp(self->options->message, row->name) != 0))
        return;
    out = open_memstream(&line.text, &length);
    if (!out)
        return;
    show_message(message, &message_table, &self->roster, self->options->reveal, &self->arena, out);
    (void)fclose(out);
    self->lines[self->line_count++] = line;
}

static int by_time(const void *a, const void *b)
{
    const line_t *x = a, *y = b;

    if (x->us != y->us)
        return x->us < y->us ? -1 : 1;
    return x->number < y->number ? -1 : 1;
}

static void print_lines(tap_t *self)
{
    if (self->line_count > 0)
        qsort(self->lines, self->line_count, sizeof(*self->lines), by_time);
    for (uint32_t i = 0; i < self->line_count; i++) {
        puts(self->lines[i].text);
        free(self->lines[i].text);
    }
    self->line_count = 0;
}

/* ---- the rings ------------------------------------------------------------------------------- */

/* Opens the ring of the actor's present life; a later life has another one. */
static bool is_open(tap_t *self, const char *name, source_t *source)
{
    const figures_t *figures = NULL;
    uint64_t incarnation;

    if (figures_open(self->rundir->shm_prefix, name, &figures) != STATUS_OK)
        return source->ring != NULL;
    incarnation = figure_get(&figures->incarnation);
    figures_close(figures);
    if (source->ring && source->incarnation == incarnation)
        return true;
    ring_close(source->ring);
    source->ring = NULL;
    if (ring_open(self->rundir->shm_prefix, name, &source->ring) != STATUS_OK)
        return false;
    ring_reader_begin(source->ring, self->options->old || source->incarnation != 0,
                      &source->reader);
    source->incarnation = incarnation;
    source->missed = 0;
    return true;
}

static uint32_t look(tap_t *self)
{
    uint32_t open = 0;

    for (uint32_t i = 0; i < self->topology->actor_count; i++) {
        const char *name = self->topology->actors[i].name;
        source_t *source = &self->sources[i];
        ring_record_t record;

        trail_reset();
        if ((self->options->actor && strcmp(self->options->actor, name) != 0) ||
            !is_open(self, name, source))
            continue;
        open++;
        while (!ended && ring_read(source->ring, &source->reader, &record, self->bytes))
            show_record(&record, self->bytes, (actor_id_t)i, add_message, self);
        if (source->reader.missed > source->missed)
            printf("%s: %llu bytes were overwritten before they were read\n", name,
                   (unsigned long long)(source->reader.missed - source->missed));
        source->missed = source->reader.missed;
    }
    print_lines(self);
    return open;
}

static int tap(tap_t *self)
{
    const struct timespec wait = {0, LOOK_MS * 1000000};
    uint32_t open = look(self);

    if (open == 0) {
        fprintf(stderr, "lockstep tap: %s shows no frames: it does not run\n",
                self->options->actor ? self->options->actor : "any actor");
        return EXIT_FAILED;
    }
    while (!ended && !self->options->old && fflush(stdout) == 0 &&
           rundir_holder(self->rundir) != 0) {
        nanosleep(&wait, NULL);
        (void)look(self);
    }
    for (uint32_t i = 0; i < ACTORS_MAX; i++)
        ring_close(self->sources[i].ring);
    return EXIT_OK;
}

/* A name that is none would select nothing for ever. */
static bool names_are_known(const tap_t *self)
{
    const options_t *options = self->options;
    bool known = !options->message;

    for (uint32_t i = 0; i < message_table.count && !known; i++) {
        const char *name = message_table.rows[i].name;
        known = name && strcasecmp(options->message, name) == 0;
    }
    if (!known) {
        fprintf(stderr, "lockstep tap: no message '%s'; docs/messages.md has them all\n",
                options->message);
        return false;
    }
    if (options->actor && !topology_actor_by_name(self->topology, options->actor)) {
        fprintf(stderr, "lockstep tap: no actor '%s'; 'lockstep ps' shows them\n", options->actor);
        return false;
    }
    return true;
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool parse(int argc, char **argv, options_t *options)
{
    static const struct option long_options[] = {{"actor", required_argument, NULL, 'a'},
                                                 {"message", required_argument, NULL, 'm'},
                                                 {"old", no_argument, NULL, 'o'},
                                                 {"reveal", no_argument, NULL, 'r'},
                                                 {NULL, 0, NULL, 0}};
    int option;

    optind = 1;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (option) {
        case 'a':
            options->actor = optarg;
            break;
        case 'm':
            options->message = optarg;
            break;
        case 'o':
            options->old = true;
            break;
        case 'r':
            options->reveal = true;
            break;
        default:
            return false;
        }
    }
    if (optind < argc)
        options->name = argv[optind++];
    return optind == argc;
}

int command_tap(int argc, char **argv)
{
    options_t options = {0};
    deployment_t *deployment;
    rundir_t rundir;
    tap_t *self;
    int code = EXIT_FAILED;

    if (!parse(argc, argv, &options))
        return command_usage("tap", "expected at most one NAME");
    if (rundir_find(options.name, &rundir) != STATUS_OK ||
        rundir_deployment_read(&rundir, &deployment) != STATUS_OK) {
        fprintf(stderr, "lockstep tap: %s\n", trail_text());
        return EXIT_NOT_RUNNING;
    }
    self = calloc(1, sizeof(*self));
    if (self) {
        self->options = &options;
        self->rundir = &rundir;
        self->topology = &deployment->topology;
        roster_init(&self->roster, self->topology);
        arena_init(&self->arena, malloc(MESSAGE_ARENA_BYTES), MESSAGE_ARENA_BYTES);
    }
    if (self && self->arena.bytes) {
        signal(SIGINT, on_signal);
        signal(SIGTERM, on_signal);
        signal(SIGPIPE, SIG_IGN);
        code = names_are_known(self) ? tap(self) : EXIT_FAILED;
    }
    free(self ? self->lines : NULL);
    free(self ? self->arena.bytes : NULL);
    free(self);
    free(deployment);
    return code;
}
