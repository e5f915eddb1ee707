/* transport.h - frames between processes over ZeroMQ: one socket that receives, one towards each
 * peer.
 *
 * Streams guard order, loss and memory, so ZeroMQ is asked for nothing but moving: nothing kept for
 * a peer that is not there, no linger, and a high-water mark everywhere: who does not read loses
 * frames, who floods is not read for a while.
 * Nothing here blocks. A frame that cannot go now is lost, which streams notice. One thread; for
 * actors in one process (inproc) they share a context.
 */
#ifndef RUNTIME_TRANSPORT_H
#define RUNTIME_TRANSPORT_H

#include <sys/types.h>

#include "runtime/base/limits.h"
#include "runtime/base/status.h"
#include "runtime/roster.h"

/* Where each actor of a roster receives, by id. */
typedef struct {
    char at[ACTORS_MAX][ENDPOINT_BYTES_MAX];
} endpoints_t;

/* ipc sockets in a directory that exists and only the user may enter; STATUS_TOO_LARGE if its
 * name makes one too long for the kernel (107 bytes). */
MUST_USE status_t endpoints_ipc(endpoints_t *endpoints, const roster_t *roster,
                                const char *directory);
/* Within one process; `name` tells deployments in one context apart. */
MUST_USE status_t endpoints_inproc(endpoints_t *endpoints, const roster_t *roster,
                                   const char *name);

typedef struct transport transport_t;

typedef void transport_frame_t(void *context, const uint8_t *frame, size_t size);

/* `context` is a ZeroMQ context to share, or NULL for an own one. Binds the endpoint of `self`.
 * Owner closes. */
MUST_USE status_t transport_open(void *context, const endpoints_t *endpoints, actor_id_t self,
                                 transport_t **transport);
/* The same for one who is no actor of the roster and receives at `endpoint`. */
MUST_USE status_t transport_open_at(void *context, const endpoints_t *endpoints,
                                    const char *endpoint, transport_t **transport);
void transport_close(transport_t *transport);

/* Connects on the first call for a peer. False: it could not go now. */
bool transport_send(transport_t *transport, actor_id_t to, const uint8_t *frame, size_t size);
/* Where an observer receives from now on. */
void transport_observer(transport_t *transport, actor_id_t observer, const char *endpoint);
/* Hands on at most `max` frames that are here, oldest first, and says how many there were. */
uint32_t transport_receive(transport_t *transport, uint32_t max, transport_frame_t *frame,
                           void *context);
/* While a frame is handed on: the process that sent it, as the kernel knows it; 0 if it cannot say. */
pid_t transport_sender(const transport_t *transport);
/* Becomes readable when frames may have come; edge triggered, so receive until nothing is left
 * before waiting. */
int transport_descriptor(const transport_t *transport);

#endif
