/* client.h - the gateway's client port: HTTP and text on one side, token ids on the other.
 *
 * Lives on the process's event loop. Everything that needs the model's files but not its weights
 * happens here: chat encoding, tokenizing, decoding, parsing of reasoning and tool calls.
 */
#ifndef ACTORS_GATEWAY_CLIENT_H
#define ACTORS_GATEWAY_CLIENT_H

#include "actors/gateway/http.h"
#include "runtime/process.h"
#include "topology/topology.h"

enum {
    /* A body may be so large, and so much more for each token of the context: as JSON writes the longest
     * ones. What is larger could not be served, and would hold up everybody while it is read. */
    CLIENT_BODY_BYTES = 1 << 20,
    CLIENT_BODY_BYTES_PER_TOKEN = 128,
    CLIENT_FILES = 32,          /* descriptors of the process that are no client's ... */
    CLIENT_FILES_PER_ACTOR = 2, /* ... and those of streams */
    CLIENT_BODIES_BYTES = 4 * HTTP_BODY_BYTES_MAX, /* of bodies that are not whole yet, all together */
    CLIENT_PROBE_MS = 100,    /* between two requests of its own, until one is answered: ready */
    CLIENT_PROBE_READY_S = 5, /* and from then on, after the end of the one before */
};

typedef struct {
    const topology_t *topology;
    uint16_t gateway; /* instance */
    uint16_t port;    /* instead of the topology's, which may be 0: any free one */
    uint16_t admin_port; /* the same for operators */
    bool port_given;     /* these two count */
    const char *poisoned; /* folder for poisoned requests (poisoned.h); NULL: none are kept */
    const char *port_file; /* gets both, a line each, once they listen; NULL: none */
} client_setup_t;

extern const port_type_t client_port;

#endif
