/* oracle.h - what must hold in a simulated deployment, judged after every event.
 *
 * The oracle keeps its own ledger of what was said and heard, in messages and at device ports, and
 * holds actors and devices to it; it shares no code with what it judges. A violation is named by
 * its check, the actor, the request and the figures:
 *
 *   causal   nobody hears of an attempt before its opening, nor says what its opening does not allow
 *   reopen   an attempt is opened once, unless nothing came of it (BUSY)
 *   end      END once per opening, not behind FENCED, not by prefill of what decode runs
 *   fence    FENCED once per opening, when no step, pull or reader is left; none is missing in the end
 *   abort    an ABORT ends the attempt at once, and goes on to whom it was opened at
 *   publish  tokens and units leave when all ranks' equal digests of their steps are in
 *   order    every rank of a group gets the same STEPs, in order
 *   epoch    no step or copy of an older epoch starts or moves a byte behind its QUIESCED
 *   page     a page, border or slot has one owner who may write; what is shared is whole and fits;
 *            free + leased + cached + quarantined = all
 *   late     nothing is copied into what its lease is over for
 *   seniority  leases go to the oldest first, and the youngest loses them
 *   credit   what is taken is what is unacknowledged, within what was granted
 *   bound    one STATE of a kind under way; no REPLY that no REQUEST has paid for
 *   wait     who has a message handles one
 *   life     one life at a time, JOINED and EXITED in turns
 *   leak     nobody still has an attempt or a page when everything has ended
 */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "sim/world.h"
#include "messages/message.h"

typedef struct oracle oracle_t;

/* Before the first life of `sim`, whose owner passes on what its watch and its hook say. */
oracle_t *oracle_open(world_t *world, sim_t *sim);
void oracle_close(oracle_t *oracle);
void oracle_received(oracle_t *oracle, actor_id_t actor, const envelope_t *envelope);
void oracle_pushed(oracle_t *oracle, actor_id_t actor, actor_id_t to, uint16_t id,
                   const void *body);
void oracle_event(oracle_t *oracle, const sim_event_t *event);

/* The device of `rank` is about to run this step. */
void oracle_step_runs(oracle_t *oracle, actor_id_t rank, const message_step_t *step);
/* The device of `rank` has copied this unit. */
void oracle_unit_moved(oracle_t *oracle, actor_id_t rank, const record_pull_item_t *item);

/* Its supervisor has given it up, and it may stay down. */
bool oracle_is_degraded(const oracle_t *oracle, actor_id_t actor);
/* Nobody is left of a kind that every request needs, so that each may end without an answer. */
bool oracle_is_hopeless(const oracle_t *oracle);
/* Nothing happens any more: every request forgotten, every lease back, every attempt closed. */
void oracle_everything_is_free(oracle_t *oracle);

#endif
