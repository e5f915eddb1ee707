/* probe.c - `lockstep probe [NAME] [ACTOR PROBE on|off]`: the probes of running actors, and
 * their switches.
 *
 * A switch is a bit of the actor's figures in shared memory; a probe that is on writes lines
 * "PROBE ..." into the deployment's log. An actor that starts anew starts with all of them off.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/rundir.h"
#include "runtime/base/probe.h"
#include "runtime/figures.h"

static const char wrong_use[] = "expected [NAME] and nothing, or [NAME] ACTOR|all PROBE on|off";

static void list(const rundir_t *rundir, const topology_t *topology)
{
    for (uint32_t probe = 0; probe < PROBE_COUNT; probe++) {
        printf("%-16s %s\n", probe_name((probe_t)probe), probe_text((probe_t)probe));
        for (uint32_t i = 0; i < topology->actor_count; i++) {
            const char *name = topology->actors[i].name;
            const figures_t *figures = NULL;

            trail_reset();
            if (figures_open(rundir->shm_prefix, name, &figures) != STATUS_OK)
                continue;
            if (figure_get(&figures->probes) >> probe & 1)
                printf("%-16s on in %s\n", "", name);
            figures_close(figures);
        }
    }
}

/* `all` stands for every actor that runs. */
static int turn(const rundir_t *rundir, const topology_t *topology, char **words)
{
    bool on = strcmp(words[2], "on") == 0;
    uint32_t turned = 0;
    uint64_t bit;
    probe_t probe;

    if (!on && strcmp(words[2], "off") != 0)
        return command_usage("probe", wrong_use);
    if (!probe_parse(words[1], &probe)) {
        fprintf(stderr,
                "lockstep probe: there is no probe '%s'; without arguments all are listed\n",
                words[1]);
        return EXIT_USAGE;
    }
    bit = UINT64_C(1) << probe;
    for (uint32_t i = 0; i < topology->actor_count; i++) {
        const char *name = topology->actors[i].name;

        trail_reset();
        if (strcmp(words[0], "all") != 0 && strcmp(words[0], name) != 0)
            continue;
        turned +=
            figures_probes_set(rundir->shm_prefix, name, on ? bit : 0, on ? 0 : bit) == STATUS_OK;
    }
    if (turned == 0) {
        fprintf(stderr, "lockstep probe: no actor '%s' runs\n", words[0]);
        return EXIT_FAILED;
    }
    return EXIT_OK;
}

int command_probe(int argc, char **argv)
{
    const char *name = argc == 2 || argc == 5 ? argv[1] : NULL;
    deployment_t *deployment;
    int code = EXIT_OK;
    rundir_t rundir;

    if (argc == 3 || argc > 5 || (argc > 1 && argv[1][0] == '-'))
        return command_usage("probe", wrong_use);
    if (rundir_find(name, &rundir) != STATUS_OK ||
        rundir_deployment_read(&rundir, &deployment) != STATUS_OK) {
        fprintf(stderr, "lockstep probe: %s\n", trail_text());
        return EXIT_NOT_RUNNING;
    }
    if (argc > 3)
        code = turn(&rundir, &deployment->topology, argv + argc - 3);
    else
        list(&rundir, &deployment->topology);
    free(deployment);
    return code;
}
