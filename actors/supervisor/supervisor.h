/* supervisor.h - the actor that owns the processes of one host: their lives, their restarts, their
 * ends.
 *
 * The process port (PORT_PROCESS) starts, signals and reaps; the supervisor decides. It is the
 * only source of incarnations, and says EXITED to everybody before the next life begins.
 */
#ifndef ACTORS_SUPERVISOR_SUPERVISOR_H
#define ACTORS_SUPERVISOR_SUPERVISOR_H

#include "runtime/actor.h"

enum {
    SUPERVISOR_RESTARTS_MAX =
        8, /* of one actor within SUPERVISOR_WINDOW_MS; more leave it down: degraded */
    SUPERVISOR_WINDOW_MS = 60000,
    SUPERVISOR_BACKOFF_MS_MAX =
        2000, /* the first restart is at once, later ones wait 2, 4, 8 ... ticks of 50 ms */
    SUPERVISOR_STALLED_MS_MAX =
        10000, /* a progress word that stands still for so long is the end of its process */
    SUPERVISOR_GRACE_MS =
        3000, /* between the asking and the killing signal when everything stops */
};

/* Its process ends with the last of them. */
enum {
    SUPERVISOR_UP,
    SUPERVISOR_CLOSING,
    SUPERVISOR_STOPPING,
    SUPERVISOR_STOPPED,
    SUPERVISOR_STATES
};

extern const actor_type_t supervisor_type;

/* For `ps` and tests. */
typedef enum { CHILD_DOWN, CHILD_RUNNING, CHILD_WAITING, CHILD_DEGRADED } child_state_t;

child_state_t supervisor_child(const void *self, actor_id_t actor, incarnation_t *incarnation);

#endif
