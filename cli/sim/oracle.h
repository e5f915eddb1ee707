/* oracle.h - what must hold in a simulated deployment when nothing happens any more. */
#ifndef CLI_SIM_ORACLE_H
#define CLI_SIM_ORACLE_H

#include "cli/sim/world.h"

/* Every request forgotten, every lease back, every attempt closed: a violation names what is
 * not. */
void oracle_everything_is_free(world_t *world);

#endif
