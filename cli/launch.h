/* launch.h - one actor of a deployment as a process: what it needs is put together and run here. */
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include "cli/rundir.h"
#include "runtime/message.h"

/* Runs the actor to its end; the log goes to standard error. Returns an exit code. */
int launch_actor(const rundir_t *rundir, const deployment_t *deployment, actor_id_t actor,
                 incarnation_t incarnation);

#endif
