/* load.h - the clients of a simulated deployment: requests, and the answers that they must get. */
#ifndef SIM_LOAD_H
#define SIM_LOAD_H

#include "sim/world.h"

/* Fills `count` clients as the configuration says. */
void load_make(world_client_t *clients, uint32_t count, const world_config_t *config,
               const symbolic_setup_t *setup);
void load_free(world_client_t *clients, uint32_t count);

#endif
