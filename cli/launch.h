/* launch.h - actors of a deployment, one as a process or all as threads: what they need is put
 * together and run here. */
#ifndef CLI_LAUNCH_H
#define CLI_LAUNCH_H

#include "cli/rundir.h"
#include "runtime/message.h"

/* What LOCKSTEP_DEVICE says: nothing or "cpu" (the topology's device), "symbolic" or "symbolic:MS" (no
 * arithmetic: hashes instead of a model; a step takes MS milliseconds, 0 without). INVALID for anything
 * else; UNSUPPORTED if the device is none that this build has. */
MUST_USE status_t launch_check_device(const topology_t *topology);
bool launch_is_symbolic(void);

/* Runs the actor to its end; `before`: how the life before this one ended (exit_cause_t). The log goes
 * to standard error. Returns an exit code. */
int launch_actor(const rundir_t *rundir, const deployment_t *deployment, actor_id_t actor,
                 incarnation_t incarnation, uint8_t before);

/* Runs all actors but the supervisor as threads of this process, until SIGINT or SIGTERM, or until
 * one of them ends: nothing here is isolated or comes back. The log goes to standard error. */
int launch_threads(const rundir_t *rundir, const deployment_t *deployment);

#endif
