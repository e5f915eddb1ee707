/* rank.h - the actor in front of one device: it executes steps and copies, and decides nothing.
 *
 * What it asks of PORT_DEVICE (port.h in a deployment): STEP, in order, at most
 * STEPS_IN_FLIGHT_MAX at once; DEVICE_COPY, at most RANK_COPIES_MAX at once; DEVICE_MAP;
 * DEVICE_REFORM. The port answers each: STEP_DONE, DEVICE_COPIED, DEVICE_MAPPED, and
 * DEVICE_QUIESCED behind the answers of all that was under way. It says DEVICE_READY first.
 */
#ifndef ACTORS_RANK_RANK_H
#define ACTORS_RANK_RANK_H

#include "runtime/actor.h"

enum {
    RANK_PULLS_MAX = 1024,     /* that wait or run; more are answered BUSY */
    RANK_PULL_UNITS = 1 << 16, /* units of all waiting ones */
    RANK_COPIES_MAX = 2,       /* pulls at the device: one runs, the next is at hand */
};

extern const actor_type_t rank_type;

#endif
