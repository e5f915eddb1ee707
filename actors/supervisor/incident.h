/* incident.h - what is kept of a life that ended badly, or that something bad happened to: its last
 * frames as text, and its journals.
 *
 * Each incident is a folder of its own, "000007-decode.0-3": a number, the actor, its life. Inside
 * are `decode.0.frames`, one message a line as `lockstep tap` shows them, without token ids, and
 * the journals of that life for `lockstep replay`; of a leader that lives, also its ranks'. The last
 * INCIDENTS_MAX are kept. Journals of lives that ended well go, so files of ended lives are bounded.
 *
 * incident_begin is quick, since a restart waits for it: it makes the folder and holds the dead
 * process's ring. Moving its journals and making lines of that ring is left to incident_end, which
 * like incident_copy may run on another thread.
 */
#ifndef ACTORS_SUPERVISOR_INCIDENT_H
#define ACTORS_SUPERVISOR_INCIDENT_H

#include "runtime/base/limits.h"
#include "runtime/ring.h"
#include "runtime/roster.h"

enum { INCIDENT_PATH_BYTES = 1280 };

typedef struct {
    const char *folder;   /* of all incidents; made when the first comes; NULL: none are kept */
    const char *journals; /* where actors keep theirs */
    const char *shm_prefix;
    const roster_t *roster;
    const message_table_t *table;
    const char *keep; /* while this file is there, journals of lives that ended well stay; NULL: none */
} incident_place_t;

/* Zeroed: none is open. */
typedef struct {
    actor_id_t actor;
    incarnation_t life;
    ring_t *ring;
    char path[INCIDENT_PATH_BYTES];
} incident_t;

/* Of a process that is gone, before the next life of its actor begins. What cannot be kept is
 * logged and left out. */
void incident_begin(const incident_place_t *place, actor_id_t actor, incarnation_t life,
                    incident_t *incident);
bool incident_is_open(const incident_t *incident);
/* Moves its journals, writes its frames, logs where it is. Nothing if none is open. */
void incident_end(const incident_place_t *place, incident_t *incident);
/* Of an actor that lives, by a copy: what its journal gets meanwhile may be in it or not. `lives` of all
 * actors, 0 for those that have none here. */
void incident_copy(const incident_place_t *place, actor_id_t actor, const incarnation_t *lives);
/* A life that ended well: its journals go, unless all are to be kept. */
void incident_none(const incident_place_t *place, actor_id_t actor, incarnation_t life);

#endif
