/* internal.h - the steps of topology_load, for the files of this folder only.
 *
 * parse -> validate -> place -> derive actors -> version. A step runs only when all before it
 * found nothing wrong, and each is a pure function of the topology so far.
 */
#ifndef TOPOLOGY_INTERNAL_H
#define TOPOLOGY_INTERNAL_H

#include "topology/topology.h"

uint32_t topology_actors_needed(const topology_t *topology);
/* Needs hosts and devices of every group; asserts that ACTORS_MAX suffices. */
void topology_derive_actors(topology_t *topology);

#endif
