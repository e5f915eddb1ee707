/* poisoned.h - what is kept of a request that stopped its group twice while it ran alone.
 *
 * A file a request, "poisoned-<request>.json": a body for /v1/completions that runs it again, with the very
 * token ids, parameters and seed; `lockstep` inside it says what came of it. Token ids are somebody's
 * text: without leave the file has their count and no prompt, and cannot be run again.
 *
 * And so that it is not run again for a while, by whomever: clients ask once more after a failure, and each
 * time costs as many lives as it took to find out, until a supervisor gives its group up.
 */
#ifndef ACTORS_GATEWAY_POISONED_H
#define ACTORS_GATEWAY_POISONED_H

#include "messages/message.h"
#include "model/text_buffer.h"

enum {
    POISONED_FILES_MAX = 64, /* of one life of a gateway; the rest is logged only */
    POISONED_KNOWN_MAX = 64, /* the oldest is forgotten */
    POISONED_KNOWN_S = 600   /* far longer than a supervisor counts lives */
};

typedef struct {
    const char *folder; /* made when the first comes; NULL or "": nothing is kept */
    const char *model;  /* as clients name it */
    bool tokens;        /* ids may be kept */
    uint32_t count;     /* of files */
} poisoned_place_t;

typedef struct {
    uint64_t digests[POISONED_KNOWN_MAX]; /* of prompt and parameters, but for seed and length */
    double until_s[POISONED_KNOWN_MAX];
    uint32_t count;
} poisoned_known_t;

void poisoned_learn(poisoned_known_t *known, const message_client_poisoned_t *m, double now_s);
bool poisoned_knows(const poisoned_known_t *known, const message_client_request_t *m, double now_s);

/* What cannot be kept is logged and left out. */
void poisoned_keep(poisoned_place_t *place, const message_client_poisoned_t *m);
/* The file's text. */
void poisoned_put(const poisoned_place_t *place, const message_client_poisoned_t *m,
                  text_buffer_t *out);

#endif
