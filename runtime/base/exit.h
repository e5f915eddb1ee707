/* exit.h - exit codes of our programs, the same for every command. */
#ifndef RUNTIME_BASE_EXIT_H
#define RUNTIME_BASE_EXIT_H

enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,     /* it ran and the answer is no: a violation, a difference, a failed check */
    EXIT_USAGE = 2,      /* the command line is wrong */
    EXIT_BAD_FILE = 3,   /* topology or checkpoint refused */
    EXIT_NO_START = 4,   /* the deployment did not come up */
    EXIT_NOT_RUNNING = 5 /* there is no such deployment */
};

#endif
