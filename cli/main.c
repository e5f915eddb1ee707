/* main.c - `lockstep COMMAND ...`: finds the row, holds the command line to it, and calls it. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/inherited.h"
#include "cli/options.h"
#include "runtime/base/check.h"
#include "topology/schema.h"

enum { USAGE_COLUMNS = 46, TEXT_COLUMN = 2 + 7 + 1 + USAGE_COLUMNS };

typedef struct {
    const char *name;
    const char *usage;
    const char *text;
    command_main_t *main;
} command_row_t;

static const command_row_t commands[] = {
#define COMMAND_ROW(name, usage, text) {#name, usage, text, command_##name},
    COMMAND_TABLE(COMMAND_ROW)
#undef COMMAND_ROW
        {NULL, NULL, NULL, NULL},
};

static void print_usage(FILE *out)
{
    fprintf(out, "usage: lockstep COMMAND [ARGUMENT...]\n\n");
    for (const command_row_t *row = commands; row->name; row++) {
        fprintf(out, "  %-7s %-*s", row->name, USAGE_COLUMNS, row->usage);
        if (strlen(row->usage) >= USAGE_COLUMNS)
            fprintf(out, "\n%*s", TEXT_COLUMN, "");
        fprintf(out, "%s\n", row->text);
    }
}

/* The row of that name, or NULL, with the name that was probably meant on standard error. */
static const command_row_t *find(const char *name)
{
    const char *names[COUNT_OF(commands)];
    const char *nearest;
    size_t count = 0;

    for (const command_row_t *row = commands; row->name; row++) {
        if (strcmp(row->name, name) == 0)
            return row;
        names[count++] = row->name;
    }
    nearest = schema_nearest(name, names, count);
    fprintf(stderr, "lockstep: no command '%s'; ", name);
    if (nearest)
        fprintf(stderr, "did you mean '%s'?\n", nearest);
    else
        fprintf(stderr, "'lockstep help' lists all\n");
    return NULL;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* `lockstep COMMAND ... --help`; what stands behind "--" is no option. */
static bool help_is_among(int count, char **words)
{
    for (int i = 0; i < count && strcmp(words[i], "--") != 0; i++)
        if (asks_for_help(words[i]))
            return true;
    return false;
}

static int print_help(const command_row_t *row)
{
    const command_options_t *options = options_of(row->name);

    printf("usage: lockstep %s %s\n\n  %s\n", row->name, row->usage, row->text);
    if (options->options[0].name)
        printf("\n");
    options_print(options, stdout);
    return EXIT_OK;
}

static int call(const command_row_t *row, int argc, char **argv)
{
    const command_options_t *options = options_of(row->name);
    char **words;
    int count, code;

    if (options->passes_on)
        return row->main(argc, argv);
    words = calloc(2 * (size_t)argc + 1, sizeof(*words));
    count = words ? options_check(options, argc, argv, words) : 0;
    if (count > 0)
        code = row->main(count, words);
    else
        code = command_usage(row->name, NULL);
    free(words);
    return code;
}

static int run_command(int argc, char **argv)
{
    const command_row_t *row;
    bool help;

    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    help = strcmp(argv[1], "help") == 0 || asks_for_help(argv[1]);
    if (help && argc == 2) {
        print_usage(stdout);
        return EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0 && argc == 2) {
        printf("lockstep %s\n", LOCKSTEP_VERSION);
        return EXIT_OK;
    }
    row = find(argv[help ? 2 : 1]);
    if (!row)
        return EXIT_USAGE;
    if (help || help_is_among(argc - 2, argv + 2))
        return print_help(row);
    return call(row, argc - 1, argv + 1);
}

/* What could not be written was not said; but a reader that has left, as `head` does, has seen enough. */
static int finish(int code)
{
    bool written;

    errno = 0;
    written = fflush(stdout) == 0 && !ferror(stdout);
    if (written || errno == EPIPE)
        return code;
    fprintf(stderr, "lockstep: not all could be written to standard output\n");
    return code == EXIT_OK ? EXIT_FAILED : code;
}

int main(int argc, char **argv)
{
    if (inherited_mend() != 0) {
        perror("lockstep: cannot open /dev/null for a closed standard stream");
        return EXIT_FAILED;
    }
    return finish(inherited_run(run_command, argc, argv));
}
