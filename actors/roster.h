/* roster.h - the actors of a topology as the runtime wants them. Ids are the topology's. */
#ifndef ACTORS_ROSTER_H
#define ACTORS_ROSTER_H

#include "runtime/roster.h"
#include "topology/topology.h"

void roster_init(roster_t *roster, const topology_t *topology);

#endif
