/* chronicle.h - all that happens in one simulated run, kept to be shown: as lines for a person
 * (chronicle_print_sequence) and as a trace for Perfetto (chronicle_print_perfetto).
 *
 * Every message is kept twice, when it is said and when it is handled, and the two are matched, by
 * the order of their stream; what was lost in between was said only. It costs memory by the length of
 * the run, so only runs that are looked at are recorded.
 */
#ifndef SIM_CHRONICLE_H
#define SIM_CHRONICLE_H

#include <stdio.h>

#include "sim/story.h"

typedef enum {
    CHRONICLE_SENT,
    CHRONICLE_HANDLED,
    CHRONICLE_STARTED,
    CHRONICLE_DIED,
    CHRONICLE_FAULT,
} chronicle_kind_t;

enum { CHRONICLE_NONE = 0xffffffff };

typedef struct {
    chronicle_kind_t kind;
    uint64_t at_us;
    actor_id_t actor; /* of whom it is told; ACTOR_NONE: of the world */
    actor_id_t peer;  /* SENT: to whom; HANDLED: from whom */
    uint16_t message;
    uint32_t other; /* SENT: where it was handled; HANDLED: where it was said; or CHRONICLE_NONE */
    char *text;     /* SENT, and HANDLED from a port: the message; FAULT: what struck; else NULL */
} chronicle_entry_t;

/* Open, for printers. */
typedef struct chronicle {
    topology_t topology; /* of the run */
    chronicle_entry_t *entries;
    uint32_t count;
    uint32_t size;
    uint32_t *unhandled; /* [from][to]: the oldest entry said and neither handled nor known lost */
    uint64_t requests[STORY_REQUESTS_MAX]; /* of client n + 1, once its gateway has named it */
    uint32_t client_seen;                  /* of the CLIENT_REQUEST being handled */
} chronicle_t;

/* Owner closes. */
chronicle_t *chronicle_open(void);
void chronicle_close(chronicle_t *chronicle);

/* ---- what the world tells it ---- */

void chronicle_begin(chronicle_t *chronicle, const topology_t *topology);
void chronicle_event(chronicle_t *chronicle, world_t *world, const sim_event_t *event);
void chronicle_received(chronicle_t *chronicle, uint64_t now_us, actor_id_t actor,
                        const envelope_t *envelope);
void chronicle_pushed(chronicle_t *chronicle, uint64_t now_us, actor_id_t actor, actor_id_t to,
                      uint16_t id, const void *body);
void chronicle_fault(chronicle_t *chronicle, world_t *world, const story_fault_t *fault);

/* ---- printing ---- */

/* What led to `violation`, as far as its requests and actors are concerned: at most `lines` of it,
 * the last ones. Says who to whom, which message, its telling fields, and when. */
void chronicle_print_sequence(const chronicle_t *chronicle, const char *violation, uint32_t lines,
                              FILE *out);
/* The whole run as Chrome trace JSON: a track for each actor and each device, slices for steps and copies,
 * arrows for messages. */
void chronicle_print_perfetto(const chronicle_t *chronicle, FILE *out);
/* Shows a message's text with requests by the number of their client, without what is empty or
 * tells nothing. */
void chronicle_print_message(const chronicle_t *chronicle, const char *text, size_t bytes_max,
                             FILE *out);

#endif
