/* monitor.h - the actor that shows: the last report of every mailbox, asked by observers.
 *
 * It decides nothing and nobody waits for it. Reports come from its port (figures.h beside it),
 * which reads the figures of the host's processes from shared memory; so actors that are stuck
 * are seen too.
 */
#ifndef ACTORS_MONITOR_MONITOR_H
#define ACTORS_MONITOR_MONITOR_H

#include "runtime/actor.h"

extern const actor_type_t monitor_type;

#endif
