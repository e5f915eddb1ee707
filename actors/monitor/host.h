/* host.h - the monitor's port: reads the figures of this host's actors from shared memory.
 *
 * Twice a second it says FIGURES with a report for every actor of the host; one whose figures
 * are not there, or whose process is gone, is reported with incarnation 0.
 */
#ifndef ACTORS_MONITOR_HOST_H
#define ACTORS_MONITOR_HOST_H

#include "messages/message.h"
#include "runtime/process.h"

typedef struct {
    const roster_t *roster;
    uint16_t host;
    const char *shm_prefix;
} host_setup_t;

/* Its setup is a host_setup_t, borrowed until it is closed. */
extern const port_type_t host_port;

/* One actor's figures as they are now, for whoever shows them without a monitor (`ps`, `top`).
 * `state` gets the name of its state; the views of `report` point there and into the roster. */
void host_report(const host_setup_t *setup, actor_id_t actor, char state[STATE_NAME_BYTES_MAX],
                 record_mailbox_t *report);

#endif
