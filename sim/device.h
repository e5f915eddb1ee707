/* device.h - the device port of the simulator: symbolic devices, in virtual time.
 *
 * Steps of a rank run in order; one ends on no rank before all ranks of the group are in it (a
 * collective), and all of them compute for a while that differs from rank to rank. Copies move
 * item by item. A reform breaks both.
 */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include "sim/world.h"
#include "messages/message.h"

typedef struct sim_devices sim_devices_t;

sim_devices_t *sim_devices_open(world_t *world, const symbolic_setup_t *setup);
void sim_devices_close(sim_devices_t *devices);

/* A rank's life began or ended. */
void sim_devices_start(sim_devices_t *devices, actor_id_t rank);
void sim_devices_stop(sim_devices_t *devices, actor_id_t rank);
/* What a rank pushed to PORT_DEVICE. */
void sim_devices_push(sim_devices_t *devices, actor_id_t rank, uint16_t id, const void *body);

/* It takes `factor` times as long from here on. */
void sim_devices_slow(sim_devices_t *devices, actor_id_t rank, uint32_t factor);
/* What a copy came to is said up to `us` late. */
void sim_devices_shuffle(sim_devices_t *devices, actor_id_t rank, uint64_t us);

device_t *sim_devices_device(sim_devices_t *devices, actor_id_t rank);

#endif
