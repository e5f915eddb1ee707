/* availability.h - which actors stay down for good, and whether anything can be served without them. */
#ifndef ACTORS_GATEWAY_AVAILABILITY_H
#define ACTORS_GATEWAY_AVAILABILITY_H

#include <stdbool.h>

#include "topology/topology.h"

typedef struct {
    uint16_t count;
    uint16_t hopeless; /* actor_kind_t that nobody is left of; 0: there is none */
    uint16_t kinds[ACTORS_MAX];
    uint16_t leaders[ACTORS_MAX]; /* TOPOLOGY_NONE: no part of a group */
    bool down[ACTORS_MAX];
} availability_t;

void availability_init(availability_t *availability, const topology_t *topology);
/* It was restarted too often. False: that was known. */
bool availability_lose(availability_t *availability, uint16_t actor);
/* Whose loss it is: of a rank its leader, which may live but has no group any more. */
uint16_t availability_leader(const availability_t *availability, uint16_t actor);
/* Why nothing can be served until the deployment is started anew; NULL: something can. */
const char *availability_hopeless(const availability_t *availability);

/* How long a request waits before its next attempt, after so many in a row that brought no token. */
uint64_t availability_wait_ms(uint32_t fruitless);

#endif
