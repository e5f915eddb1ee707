/* command.c - what the commands share. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/check.h"

int command_usage(const char *name)
{
    static const struct {
        const char *name, *usage;
    } rows[] = {
#define COMMAND_USAGE(name, usage, text) {#name, usage},
        COMMAND_TABLE(COMMAND_USAGE)
#undef COMMAND_USAGE
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            fprintf(stderr, "usage: lockstep %s %s\n", name, rows[i].usage);
    return EXIT_USAGE;
}
