/* gateway.h - the actor that owns every request: prompt, parameters, tokens received, attempt
 * number.
 *
 * Clients speak to it through PORT_CLIENT in token ids (HTTP and text are in client.h; the
 * simulator generates load). Everything behind it is soft state: whatever is lost there, the
 * gateway submits again as attempt + 1.
 */
#ifndef ACTORS_GATEWAY_GATEWAY_H
#define ACTORS_GATEWAY_GATEWAY_H

#include "runtime/actor.h"

enum {
    GATEWAY_CHARGES_MAX = 2, /* so many faults while alone end a request as poisoned */
    GATEWAY_CRASHES_FREE = 2, /* so many leaders may crash with a request before it is charged */
    GATEWAY_RETRY_MS =
        1000, /* what an overloaded client is told, and how long a replay waits for room */
    GATEWAY_AGAIN_MS = 100,     /* between two questions for an instance while none is ready */
    GATEWAY_PATIENCE_MS = 15000, /* a new request waits so long for one: longer than a stall lives */
    /* The client number of the port's own request, which asks whether the deployment answers: BOS and
     * one token. A full instance ends it at once as OVERLOADED, none for this long as UNAVAILABLE. */
    GATEWAY_PROBE_PATIENCE_MS = 5000,
    GATEWAY_PROBE = 0,
    GATEWAY_PROBE_WORDS = 2,
};

extern const actor_type_t gateway_type;

/* What a deployer and the tests want to know; in the order of a request's life. */
typedef struct {
    uint64_t admitted;
    uint64_t overloaded;
    uint64_t replayed;
    uint64_t finished;
    uint64_t aborted;
    uint64_t poisoned;
    uint64_t fenced;    /* openings whose memory came back */
    uint64_t differing; /* tokens that came twice and were not equal: must stay 0 */
    uint32_t live;      /* requests now */
} gateway_counts_t;

const gateway_counts_t *gateway_counts(const void *self);
/* The request of a client, and its attempt now. False if it has none here. */
bool gateway_find(const void *self, uint64_t client, uint64_t *request, uint32_t *attempt);

#endif
