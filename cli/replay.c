/* replay.c - `lockstep replay JOURNAL...`: runs lives of actors again from their journals.
 *
 * A folder stands for all journals in it. Each file is run from the state that it begins with, in
 * this process and nothing else: no sockets, no ports, no clock. What an actor does is held to what
 * it did then, record by record (runtime/replay.h), and at the end of a segment its state to the one
 * that the next segment begins with. Where all is the same, the exit code is 0; the first record
 * that goes another way ends it with 1 and is shown with what led to it.
 *
 * A life that ended in the middle of a record (a crash, a kill) has that record as its last. It is
 * run as well, and whether it ends here too is said: under a debugger this is where to look.
 */
#include <dirent.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/life.h"
#include "messages/message.h"
#include "runtime/base/log.h"
#include "runtime/show.h"

enum { FILES_MAX = 4096, LINE_BYTES = 128 };

typedef struct {
    uint64_t to; /* last record; UINT64_MAX: all */
    bool print;
    bool reveal;
    bool step; /* wait for a line of input behind each record */
} options_t;

typedef struct {
    options_t options;
    char **paths; /* owned */
    uint32_t path_count;
    life_t life;
    arena_t arena;
    journal_record_t record;
    /* of the segment before, to go on from; NULL: none ended well */
    void *state;
    size_t state_bytes;
    journal_header_t before;
    uint64_t records;
    bool unlike; /* something went another way */
} self_t;

/* ---- what is run now, for the signal handler ------------------------------------------------- */

static char now[LINE_BYTES];

/* An actor that is run again may crash as it did then. Only calls that a handler may make. */
static void on_crash(int number)
{
    static const char text[] = "lockstep replay: it crashed in ";
    ssize_t ignored = write(STDERR_FILENO, text, sizeof(text) - 1);

    ignored += write(STDERR_FILENO, now, strlen(now));
    (void)ignored;
    signal(number, SIG_DFL);
    raise(number);
}

/* ---- showing --------------------------------------------------------------------------------- */

static const char *actor_name(const self_t *self)
{
    return self->life.file.header->name;
}

static void show_line(self_t *self, const show_t *message)
{
    show_message(message, &message_table, &self->life.roster, self->options.reveal, &self->arena,
                 stdout);
    putchar('\n');
}

static void show_input(self_t *self)
{
    const journal_record_t *record = &self->record;
    const journal_input_t *input = record->input;
    const show_t message = {input->us, input->from,  self->life.birth.id,
                            input->id, record->body, input->size};

    printf("%8llu ", (unsigned long long)record->number);
    if (record->what == JOURNAL_PLAN)
        printf("%10.6f %s plans\n", (double)input->us * 1e-6, actor_name(self));
    else
        show_line(self, &message);
}

static void on_pushed(void *context, actor_id_t to, uint16_t id, const uint8_t *body, size_t size)
{
    self_t *self = context;
    const show_t message = {self->record.input->us, self->life.birth.id, to, id, body, size};

    if (!self->options.print)
        return;
    printf("%8s ", "");
    show_line(self, &message);
}

/* What a journal without token ids says of the messages that went out. */
static void show_outputs(self_t *self)
{
    const journal_result_t *result = self->record.result;

    for (uint32_t i = 0; result && i < result->output_count; i++) {
        const journal_output_t *output = &self->record.outputs[i];

        printf("%8s %10.6f %s > %s %s of %u bytes\n", "", (double)self->record.input->us * 1e-6,
               actor_name(self), show_name(&self->life.roster, output->to),
               output->id < message_table.count && message_table.rows[output->id].name
                   ? message_table.rows[output->id].name
                   : "?",
               output->size);
    }
}

static bool wait_for_line(const self_t *self)
{
    char line[LINE_BYTES];

    if (!self->options.step)
        return true;
    printf("Enter: the next record; q: no more > ");
    fflush(stdout);
    return fgets(line, sizeof(line), stdin) && line[0] != 'q';
}

/* ---- one file -------------------------------------------------------------------------------- */

static void warn_of_build(const self_t *self, const char *path)
{
    const journal_header_t *header = self->life.file.header;

    if (header->table != journal_table(&message_table))
        fprintf(stderr, "lockstep replay: %s: written by a build with other messages\n", path);
    else if (header->build != journal_build())
        fprintf(stderr, "lockstep replay: %s: written by another build of lockstep\n", path);
}

/* The state at the end of a segment is the one at the beginning of the next. */
static void compare_states(self_t *self, const replay_t *replay, const char *path)
{
    const journal_header_t *header = self->life.file.header, *before = &self->before;
    size_t bytes, at = 0;
    const uint8_t *state = replay_state(replay, &bytes), *ended = self->state;

    if (!ended || header->actor != before->actor || header->incarnation != before->incarnation ||
        header->number != before->number + 1 || bytes != self->state_bytes)
        return;
    while (at < bytes && state[at] == ended[at])
        at++;
    if (at == bytes)
        return;
    self->unlike = true;
    printf("%s: its state differs from that at the end of the segment before, from byte %zu of "
           "%zu on\n",
           path, at, bytes);
}

static void keep_state(self_t *self, const replay_t *replay)
{
    size_t bytes;
    const void *state = replay_state(replay, &bytes);

    free(self->state);
    self->state = malloc(bytes);
    self->state_bytes = bytes;
    self->before = *self->life.file.header;
    if (self->state)
        memcpy(self->state, state, bytes);
}

/* True if the next record may be run. */
static bool judge(self_t *self, const replay_t *replay, replay_outcome_t outcome, const char *path)
{
    unsigned long long number = (unsigned long long)self->record.number;

    switch (outcome) {
    case REPLAY_SAME:
        return true;
    case REPLAY_LOST:
        printf("%s: record %llu has more in it than a journal keeps of one\n", path, number);
        return false;
    case REPLAY_ENDED:
        printf("%s: the life ended in record %llu; here it goes on, in state %s\n", path, number,
               replay_state_name(replay));
        if (!self->options.print)
            show_input(self);
        return false;
    case REPLAY_ASSERTED:
        self->unlike = self->record.result != NULL;
        printf("%s: record %llu: %s%s\n", path, number, replay_text(replay),
               self->unlike ? "" : "; the life ended in this record then, too");
        break;
    case REPLAY_DIFFERS:
        self->unlike = true;
        printf("%s: record %llu differs: %s\n", path, number, replay_text(replay));
        break;
    }
    if (!self->options.print)
        show_input(self);
    return false;
}

static status_t run_records(self_t *self, replay_t *replay, const char *path, bool *to_the_end)
{
    status_t status;

    *to_the_end = false;
    while ((status = journal_file_next(&self->life.file, &self->record)) == STATUS_OK) {
        if (self->record.number > self->options.to)
            return STATUS_OK;
        snprintf(now, sizeof(now), "record %llu of %s\n", (unsigned long long)self->record.number,
                 actor_name(self));
        if (self->options.print)
            show_input(self);
        self->records++;
        if (!replay)
            show_outputs(self);
        else if (!judge(self, replay, replay_step(replay, &self->record), path))
            return STATUS_OK;
        if (!wait_for_line(self))
            return STATUS_OK;
    }
    *to_the_end = status == STATUS_END;
    return status == STATUS_END ? STATUS_OK : status;
}

static status_t open_replay(self_t *self, replay_t **replay)
{
    replay_config_t config = life_replay(&self->life);

    config.pushed = on_pushed;
    config.context = self;
    if (self->life.file.header->withheld && self->options.print)
        return STATUS_OK; /* it can be read, not run */
    return replay_open(&self->life.file, &config, replay);
}

static status_t run_file(self_t *self, const char *path)
{
    uint64_t first, before = self->records;
    replay_t *replay = NULL;
    bool to_the_end = false;
    status_t status;

    TRY(life_open(path, &self->life));
    warn_of_build(self, path);
    first = self->life.file.header->first;
    status = open_replay(self, &replay);
    if (status == STATUS_OK && replay)
        compare_states(self, replay, path);
    if (status == STATUS_OK)
        status = run_records(self, replay, path, &to_the_end);
    if (to_the_end && replay)
        keep_state(self, replay);
    if (status == STATUS_OK && !self->unlike)
        printf("%s: %s, life %u, %llu records from %llu %s\n", path, actor_name(self),
               self->life.file.header->incarnation, (unsigned long long)(self->records - before),
               (unsigned long long)first, replay ? "went as they did then" : "were read");
    replay_close(replay);
    life_close(&self->life);
    return status;
}

/* ---- which files ----------------------------------------------------------------------------- */

static status_t add_path(self_t *self, const char *folder, const char *leaf)
{
    char *path;

    if (self->path_count == FILES_MAX)
        return FAIL(STATUS_TOO_LARGE, "more than %d journals", FILES_MAX);
    if (asprintf(&path, "%s%s%s", folder, leaf[0] ? "/" : "", leaf) < 0)
        return FAIL(STATUS_NO_MEMORY, "a path");
    self->paths[self->path_count++] = path;
    return STATUS_OK;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static int is_journal(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');

    return end && strcmp(end, ".journal") == 0;
}

/* Segments of a life in their order. */
static status_t add_folder(self_t *self, const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_journal, by_name);
    status_t status = STATUS_OK;

    if (count <= 0)
        return FAIL(STATUS_NOT_FOUND, "there is no journal in %s", folder);
    for (int i = 0; i < count; i++) {
        if (status == STATUS_OK)
            status = add_path(self, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static status_t add_argument(self_t *self, const char *path)
{
    struct stat info;

    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return add_folder(self, path);
    return add_path(self, path, "");
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool parse(int argc, char **argv, options_t *options)
{
    static const struct option long_options[] = {{"to", required_argument, NULL, 't'},
                                                 {"print", no_argument, NULL, 'p'},
                                                 {"reveal", no_argument, NULL, 'r'},
                                                 {"step", no_argument, NULL, 's'},
                                                 {NULL, 0, NULL, 0}};
    char *end;
    int option;

    *options = (options_t){.to = UINT64_MAX};
    optind = 1;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (option) {
        case 't':
            options->to = strtoull(optarg, &end, 10);
            if (*end || optarg[0] < '0' || optarg[0] > '9')
                return false;
            break;
        case 'p':
            options->print = true;
            break;
        case 'r':
            options->reveal = true;
            break;
        case 's':
            options->step = options->print = true;
            break;
        default:
            return false;
        }
    }
    return optind < argc;
}

static int run_all(self_t *self)
{
    int code = EXIT_OK;

    for (uint32_t i = 0; i < self->path_count; i++) {
        self->unlike = false;
        trail_reset();
        if (run_file(self, self->paths[i]) != STATUS_OK) {
            fprintf(stderr, "lockstep replay: %s: %s\n", self->paths[i], trail_text());
            code = EXIT_BAD_FILE;
        } else if (self->unlike && code == EXIT_OK) {
            code = EXIT_FAILED;
        }
    }
    return code;
}

int command_replay(int argc, char **argv)
{
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static self_t self;
    status_t status = STATUS_OK;
    int code = EXIT_BAD_FILE;

    if (!parse(argc, argv, &self.options))
        return command_usage("replay", "--to takes the number of a message");
    log_level_set(LOG_ERROR); /* what the actor logged then, it logs again */
    self.paths = calloc(FILES_MAX, sizeof(*self.paths));
    arena_init(&self.arena, malloc(MESSAGE_ARENA_BYTES), MESSAGE_ARENA_BYTES);
    if (!self.paths || !self.arena.bytes)
        status = FAIL(STATUS_NO_MEMORY, "no memory to begin with");
    for (; status == STATUS_OK && optind < argc; optind++)
        status = add_argument(&self, argv[optind]);
    for (uint32_t i = 0; i < COUNT_OF(crashes); i++)
        signal(crashes[i], on_crash);
    if (status == STATUS_OK)
        code = run_all(&self);
    else
        fprintf(stderr, "lockstep replay: %s\n", trail_text());
    for (uint32_t i = 0; i < self.path_count; i++)
        free(self.paths[i]);
    free(self.paths);
    free(self.state);
    free(self.arena.bytes);
    return code;
}
