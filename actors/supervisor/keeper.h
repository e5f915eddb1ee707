/* keeper.h - a thread that writes incidents: copies of journals and frames as text take a while, and
 * the supervisor has lives to watch and to start.
 */
#ifndef ACTORS_SUPERVISOR_KEEPER_H
#define ACTORS_SUPERVISOR_KEEPER_H

#include "actors/supervisor/incident.h"

typedef struct keeper keeper_t;

/* `place` is borrowed until the end. Owner closes. */
MUST_USE status_t keeper_open(const incident_place_t *place, keeper_t **keeper);
/* Waits until all is written. NULL is nothing. */
void keeper_close(keeper_t *keeper);
/* incident_end there; *incident is empty afterwards, and may begin anew. */
void keeper_end(keeper_t *keeper, incident_t *incident);
/* incident_copy there; `lives` of ACTORS_MAX actors are copied. */
void keeper_copy(keeper_t *keeper, actor_id_t actor, const incarnation_t *lives);

#endif
