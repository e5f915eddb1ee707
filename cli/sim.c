/* sim.c - `lockstep sim`: executes lockstep-sim, the simulator, which lies beside this program. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "runtime/base/limits.h"

int command_sim(int argc, char **argv)
{
    static const char suffix[] = "-sim";
    char path[PATH_BYTES_MAX];
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - sizeof(suffix));

    (void)argc;
    if (bytes < 0) {
        perror("lockstep sim");
        return EXIT_FAILED;
    }
    memcpy(path + bytes, suffix, sizeof(suffix));
    argv[0] = path;
    execv(path, argv);
    fprintf(stderr, "lockstep sim: cannot execute %s: %m\n", path);
    return EXIT_FAILED;
}
