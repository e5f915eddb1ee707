/* children.h - the supervisor's process port: starts, signals, reaps and watches real processes.
 *
 * A child is this program again: EXE actor DIRECTORY ID INCARNATION BEFORE. The kernel ends it if its
 * supervisor dies, so nothing outlives a killed run. Reaping is by pidfd, so a pid that came again
 * is never mistaken for a child.
 */
#ifndef ACTORS_SUPERVISOR_CHILDREN_H
#define ACTORS_SUPERVISOR_CHILDREN_H

#include "actors/supervisor/incident.h"
#include "runtime/process.h"

typedef struct {
    const char *executable;
    const char *directory;  /* of the run: topology, sockets, log */
    const char *shm_prefix; /* where children show their figures */
    const roster_t *roster;
    /* Removes what a life that was killed could not remove itself; NULL: nothing. */
    void (*sweep)(const char *shm_prefix, actor_id_t actor, incarnation_t incarnation);
    incident_place_t incidents;
} children_setup_t;

extern const port_type_t children_port;

#endif
