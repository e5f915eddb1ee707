/* main.c - `lockstep COMMAND ...`: finds the row and calls it. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "runtime/base/check.h"

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

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0) {
        print_usage(stdout);
        return EXIT_OK;
    }
    for (const command_row_t *row = commands; row->name; row++) {
        if (strcmp(row->name, argv[1]) == 0)
            return row->main(argc - 1, argv + 1);
    }
    fprintf(stderr, "lockstep: no command '%s'\n", argv[1]);
    print_usage(stderr);
    return EXIT_USAGE;
}
