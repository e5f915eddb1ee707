/* command.c - what the commands share. */
#include "cli/command.h"

#include <stdio.h>

int command_usage(const char *name, const char *why)
{
    if (why)
        fprintf(stderr, "lockstep %s: %s\n", name, why);
    fprintf(stderr, "'lockstep help %s' says how it is called\n", name);
    return EXIT_USAGE;
}
