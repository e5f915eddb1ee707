/* down.c - `lockstep down [NAME] [--now] [--keep]`: ends a deployment and waits until nothing of it is left.
 *
 * Open requests may end within the topology's limits.drain_timeout; --now, or asking a second time, spares
 * the wait.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/rundir.h"

enum { LOOK_MS = 20, PATIENCE_MS = 1000 };

static volatile sig_atomic_t asked_again;

static void on_interrupt(int number)
{
    (void)number;
    asked_again = 1;
}

/* The lock is free when the supervisor has ended, and it ends after all its children. */
static void wait_for_end(const rundir_t *rundir, pid_t supervisor)
{
    const struct timespec look = {0, LOOK_MS * 1000000L};
    char path[RUNDIR_PATH_BYTES + 32];
    int lock;

    rundir_file(rundir, "lock", path);
    lock = open(path, O_RDONLY | O_CLOEXEC);
    if (lock < 0)
        return; /* it is gone already */
    for (int ms = 0; rundir_is_locked(lock); ms += LOOK_MS) {
        if (ms == PATIENCE_MS)
            fprintf(stderr, "%s still answers; Ctrl-C ends that\n", rundir->name);
        if (asked_again && supervisor > 0)
            kill(supervisor, SIGINT);
        asked_again = 0;
        nanosleep(&look, NULL);
    }
    close(lock);
}

/* A run whose supervisor was killed: nothing of it lives, but its directory and shared memory do. Without
 * a name it is the only one that left something. */
static bool clear_dead(const char *name)
{
    char left[2][NAME_BYTES_MAX];
    rundir_t rundir;

    if (!name && rundir_list_left(left, 2) == 1)
        name = left[0];
    if (!name || rundir_name(name, &rundir) != STATUS_OK || !rundir_is_left(&rundir) ||
        rundir_open(name, &rundir) != STATUS_OK)
        return false;
    rundir_remove(&rundir);
    printf("%s was not running; what an earlier run had left is cleared\n", rundir.name);
    return true;
}

int command_down(int argc, char **argv)
{
    const char *name = NULL;
    bool now = false, keep = false;
    rundir_t rundir;
    pid_t supervisor;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--now") == 0)
            now = true;
        else if (strcmp(argv[i], "--keep") == 0)
            keep = true;
        else if (argv[i][0] == '-' || name)
            return command_usage("down", "expected at most one NAME");
        else
            name = argv[i];
    }
    if (rundir_find(name, &rundir) != STATUS_OK) {
        if (clear_dead(name))
            return EXIT_OK;
        fprintf(stderr, "lockstep down: %s\n", trail_text());
        return EXIT_NOT_RUNNING;
    }
    if (keep && rundir_keep(&rundir) != STATUS_OK) {
        fprintf(stderr, "lockstep down: %s\n", trail_text());
        return EXIT_FAILED;
    }
    signal(SIGINT, on_interrupt);
    supervisor = rundir_holder(&rundir);
    if (supervisor > 0) {
        kill(supervisor, now ? SIGINT : SIGTERM);
        kill(supervisor, SIGCONT); /* if it is stopped, nobody else lets it hear that */
    }
    wait_for_end(&rundir, supervisor);
    if (!keep)
        rundir_remove(&rundir);
    printf("%s is down\n", rundir.name);
    if (keep)
        printf("%s has its log, journals and incidents, until `lockstep down %s` or a next start\n",
               rundir.path, rundir.name);
    return EXIT_OK;
}
