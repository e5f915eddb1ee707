/* actor.c - `lockstep actor DIRECTORY ID INCARNATION BEFORE`: what a supervisor starts. Not for people. */
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/launch.h"

int command_actor(int argc, char **argv)
{
    rundir_t rundir;
    deployment_t *deployment;
    const char *name;
    unsigned long actor, incarnation, before;
    int code;

    if (argc != 5)
        return command_usage("actor", "expected DIRECTORY ID INCARNATION BEFORE");
    name = strrchr(argv[1], '/');
    actor = strtoul(argv[2], NULL, 10);
    incarnation = strtoul(argv[3], NULL, 10);
    before = strtoul(argv[4], NULL, 10);
    if (!name || rundir_name(name + 1, &rundir) != STATUS_OK ||
        rundir_deployment_read(&rundir, &deployment) != STATUS_OK) {
        fprintf(stderr, "lockstep actor: %s\n", trail_text());
        return EXIT_BAD_FILE;
    }
    if (actor >= deployment->topology.actor_count || incarnation == 0 || incarnation > UINT32_MAX ||
        before > RUNTIME_CAUSE_MAX) {
        fprintf(stderr, "lockstep actor: there is no actor %s\n", argv[2]);
        free(deployment);
        return EXIT_USAGE;
    }
    code = launch_actor(&rundir, deployment, (actor_id_t)actor, (incarnation_t)incarnation,
                        (uint8_t)before);
    free(deployment);
    return code;
}
