/* sim.h - the simulator driver: whole deployments in one thread and virtual time.
 *
 * It runs the real nodes (dispatch, codec, streams, mailboxes) of all actors of a roster over a
 * network of seeded delays, and stands in for processes and clocks. What actors ask of ports goes
 * to the world's callbacks; the world answers with sim_post. Nothing here is real: no thread,
 * socket or clock, so a seed gives one run, and sim_digest, over all frames and the times they were
 * sent, says so. Faults are calls; the world decides when. Any call may be made from a callback,
 * hook or timer; it takes effect after the event that runs now.
 */
#ifndef RUNTIME_SIM_H
#define RUNTIME_SIM_H

#include "runtime/actor.h"
#include "runtime/base/random.h"
#include "runtime/dispatch.h"
#include "runtime/journal.h"
#include "runtime/roster.h"
#include "runtime/stream.h"

typedef struct sim sim_t;

typedef struct {
    uint64_t seed;
    const roster_t *roster; /* borrowed until sim_close */
    const message_table_t *table;
    uint64_t delay_us_min; /* of a frame on its way; frames of one sender to one receiver keep their
                              order */
    uint64_t delay_us_max;
    uint64_t handle_us_max;         /* virtual time one message takes its actor, from 1 */
    uint64_t tick_us;               /* period of TICK */
    bool check;                     /* run each type's check after every message */
    const journal_place_t *journal; /* where each life keeps one, or NULL; borrowed likewise */
    uint32_t credit_messages;       /* that a receiver grants; 0: the engine's own limit */
} sim_config_t;

/* What the actor pushed to one of its ports, decoded; valid until the call returns. */
typedef void sim_port_t(void *context, sim_t *sim, actor_id_t actor, actor_id_t port, uint16_t id,
                        const void *body);

/* What is fixed for every life of an actor. */
typedef struct {
    const actor_type_t *type;
    const struct topology *topology; /* for actor_birth_t */
    const void *setup;               /* for actor_birth_t */
    size_t setup_bytes;
    stream_digests_t digests;
    dispatch_met_t *met; /* NULL: nobody asks what was met */
    sim_port_t *port;    /* NULL: what it pushes to ports is dropped */
    void *context;       /* of port */
} sim_actor_t;

/* After each event, before the next: what happened last. Oracles look at states here. */
typedef enum {
    SIM_STARTED,
    SIM_DIED,       /* killed, or ended itself by an ENGINE status */
    SIM_DISPATCHED, /* `message` was handled, planner run */
    SIM_WAITED,     /* it had its turn and a message, and handled none: must never be */
    SIM_OTHER,      /* frames, posts and timers on their way */
} sim_event_kind_t;

typedef struct {
    sim_event_kind_t kind;
    actor_id_t actor;
    uint16_t message;
    status_t status;  /* SIM_DIED by itself: why */
    actor_id_t from;  /* SIM_DISPATCHED: who sent the message */
    const void *body; /* and the message itself, valid until the next event */
} sim_event_t;

typedef void sim_hook_t(void *context, sim_t *sim, const sim_event_t *event);

/* An observer of all that actors hear and say, as they do: `received` before the handler runs,
 * `pushed` from inside it or its planner. It changes nothing and calls nothing back. */
typedef struct {
    void *context;
    void (*received)(void *context, actor_id_t actor, const envelope_t *envelope);
    void (*pushed)(void *context, actor_id_t actor, actor_id_t to, uint16_t id, const void *body);
} sim_watch_t;
typedef void sim_timer_t(void *context, sim_t *sim);

/* Owner closes. */
sim_t *sim_open(const sim_config_t *config);
void sim_close(sim_t *sim);
void sim_add_actor(sim_t *sim, actor_id_t id, const sim_actor_t *actor);
void sim_hook_set(sim_t *sim, sim_hook_t *hook, void *context);
/* Before the first life begins. */
void sim_watch_set(sim_t *sim, const sim_watch_t *watch);

/* ---- processes ---- */

/* A new life; `incarnation` is above every earlier one, and the actor is not alive (ASSERT).
 * `before`: how the last one ended (node.h). */
void sim_start(sim_t *sim, actor_id_t id, incarnation_t incarnation, uint8_t before);
/* The process is gone at once, with all that was not sent. Who must know (a supervisor's process
 * port) is told by the world. Nothing if it is not alive. */
void sim_kill(sim_t *sim, actor_id_t id);
bool sim_is_alive(const sim_t *sim, actor_id_t id);
incarnation_t sim_incarnation(const sim_t *sim, actor_id_t id);
/* SIGSTOP and SIGCONT: frames wait, time goes on without it. */
void sim_stall(sim_t *sim, actor_id_t id, bool stalled);
/* The whole machine stands still for `us`: the clock jumps, nothing runs meanwhile. */
void sim_pause(sim_t *sim, uint64_t us);

/* ---- network and ports ---- */

/* The connection between two actors breaks now: what is on its way is lost; it stands again after
 * `us`. */
void sim_cut(sim_t *sim, actor_id_t a, actor_id_t b, uint64_t us);
/* A port says `id` to the life of `actor` that is alive now, after `delay_us`; dropped if that life
 * has ended. The body is encoded at once. Equal times keep the order of calls. */
void sim_post(sim_t *sim, actor_id_t actor, actor_id_t port, uint16_t id, const void *body,
              uint64_t delay_us);
/* Calls back after `delay_us`. */
void sim_after(sim_t *sim, uint64_t delay_us, sim_timer_t *timer, void *context);

/* ---- running ---- */

uint64_t sim_now_us(const sim_t *sim);
/* One event; false if none is left (ticks never end while an actor lives). */
bool sim_step(sim_t *sim);
void sim_run_until(sim_t *sim, uint64_t us);
/* Runs until `done` says so, at most until `us`; true if it did. */
bool sim_run_while(sim_t *sim, bool (*done)(void *context, sim_t *sim), void *context, uint64_t us);

/* ---- looking inside ---- */

/* Nothing is under way: ticks apart, no event is to come. */
bool sim_is_quiet(const sim_t *sim);

/* State of a living actor, tables and counters included; NULL if it is not alive. */
const dispatch_t *sim_dispatch(const sim_t *sim, actor_id_t id);
const stream_t *sim_stream(const sim_t *sim, actor_id_t id, actor_id_t peer);
/* Messages in its mailbox. */
uint32_t sim_depth(const sim_t *sim, actor_id_t id);
/* Over every frame sent so far, with its time, sender and receiver. */
uint64_t sim_digest(const sim_t *sim);
uint64_t sim_event_count(const sim_t *sim);
/* The world's own chance, apart from the network's: the same draws whatever the network does. */
random_t *sim_random(sim_t *sim);
/* Below `bound`, from a chance of this actor's own: the same draws whatever the others do. */
uint64_t sim_draw(sim_t *sim, actor_id_t id, uint64_t bound);
/* Prints every message as it is dispatched to `out`; NULL ends it. */
void sim_trace_set(sim_t *sim, FILE *out);
/* One line per actor: state, depth, streams; for a failed run. */
void sim_print(const sim_t *sim, FILE *out);

#endif
