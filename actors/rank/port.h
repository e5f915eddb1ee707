/* port.h - the device port of a rank's process: a compute thread and a copy thread.
 *
 * The actor's thread only queues; so a rank answers its mailbox while its device loads weights,
 * computes, or waits in a collective. Order:
 *
 *   compute   load (DEVICE_READY), then STEPs in order, then DEVICE_REFORM
 *   copy      DEVICE_COPYs and DEVICE_MAPs in order; a DEVICE_REFORM drains it, then goes to compute
 *
 * So DEVICE_QUIESCED comes behind the answer of every step and copy of the older epoch. A reform
 * interrupts at once: the step that runs breaks, those that wait are answered BROKEN unseen, a copy
 * stops behind the units that are under way, at most DEVICE_COPIES_MAX.
 */
#ifndef ACTORS_RANK_PORT_H
#define ACTORS_RANK_PORT_H

#include "device/device.h"
#include "runtime/process.h"

/* The `setup` of its open; what it points to must outlive the port. */
typedef struct {
    const device_ops_t *ops;
    const void *setup; /* of ops->open */
    device_config_t config;
    const char *shm_prefix; /* "/lockstep-...": before the names of shared memory; NULL: "/" */
} rank_port_setup_t;

extern const port_type_t rank_port;

#endif
