/* down.c - `lockstep down [NAME]`: ends a deployment and waits until nothing of it is left. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <fcntl.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/rundir.h"

/* The lock is free when the supervisor has ended, and it ends after all its children. */
static void wait_for_end(const rundir_t *rundir)
{
    char path[RUNDIR_PATH_BYTES + 32];
    int lock;

    rundir_file(rundir, "lock", path);
    lock = open(path, O_RDWR | O_CLOEXEC);
    if (lock < 0)
        return; /* it is gone already */
    flock(lock, LOCK_EX);
    close(lock);
}

/* A run whose supervisor was killed: nothing of it lives, but its directory and shared memory do. */
static bool clear_dead(const char *name)
{
    rundir_t rundir;

    if (!name || rundir_name(name, &rundir) != STATUS_OK || access(rundir.path, F_OK) != 0 ||
        rundir_open(name, &rundir) != STATUS_OK)
        return false;
    rundir_remove(&rundir);
    printf("%s was not running; what a killed run had left is cleared\n", rundir.name);
    return true;
}

int command_down(int argc, char **argv)
{
    rundir_t rundir;
    pid_t supervisor;

    if (argc > 2)
        return command_usage("down");
    if (rundir_find(argc == 2 ? argv[1] : NULL, &rundir) != STATUS_OK) {
        if (clear_dead(argc == 2 ? argv[1] : NULL))
            return EXIT_OK;
        fprintf(stderr, "lockstep down: %s\n", trail_text());
        return EXIT_NOT_RUNNING;
    }
    supervisor = rundir_holder(&rundir);
    if (supervisor > 0)
        kill(supervisor, SIGTERM);
    wait_for_end(&rundir);
    rundir_remove(&rundir);
    printf("%s is down\n", rundir.name);
    return EXIT_OK;
}
