/* manners.h - what a peer would say next if it were honest: the way into an actor's deeper states.
 *
 * Not a second implementation: each peer knows the message it got last, and how often it has spoken. That is enough
 * to join, to be asked, and to answer, if nobody disturbs; and disturbing is what the rest of the crowd does.
 */
#ifndef TESTS_FUZZ_MANNERS_H
#define TESTS_FUZZ_MANNERS_H

#include "messages/message.h"
#include "topology/topology.h"

enum { MANNERS_NOTHING = 0xffff, MANNERS_PROMPT = 300 };

/* Of one run; zeroed at first. */
typedef struct {
    const topology_t *topology;
    actor_id_t self; /* who is spoken to */
    uint64_t epoch;  /* of a rank's leader */
    uint64_t seq;
    uint64_t chain;
} manners_t;

typedef struct {
    actor_id_t peer;
    uint32_t turn;       /* how often it has spoken so */
    uint16_t asked_id;   /* the last message that it got; MANNERS_NOTHING: none */
    const void *asked;   /* decoded */
} manners_turn_t;

/* The id of its next message, whose body is in `*body` until the next call; MANNERS_NOTHING. */
uint16_t manners_next(manners_t *manners, const manners_turn_t *turn, const void **body);

#endif
