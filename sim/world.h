/* world.h - a whole deployment in one thread and virtual time, with load, faults and oracles.
 *
 * Real actors, codec, streams and supervision (runtime/sim.h); symbolic devices behind the device
 * port, generated clients behind the client port, pretended processes behind the process port. A
 * step ends on no rank before all ranks of its group are in it, as in a real collective.
 * Everything follows from the seed.
 *
 * Oracles: every token a client gets is the one that its prompt demands; every client gets one
 * end; after the faults stop, everything ends within a bound and every lease is back
 * (world_finish); no device reads wrong bytes, and no two ranks of a group come to different
 * results; each actor's own check runs after every message. The first violation is kept and
 * ends the run.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdio.h>

#include "actors/roster.h"
#include "device/symbolic/symbolic.h"
#include "runtime/sim.h"
#include "topology/topology.h"

enum {
    WORLD_CLIENTS_MAX = 4096,
    WORLD_VIOLATION_BYTES = 512,
    WORLD_VOCABULARY = 5000,
    WORLD_POISON_TOKEN = WORLD_VOCABULARY, /* stands in no prompt but a poisoned one's */
};

/* A request as a test wants it, not as a seed draws it. */
typedef struct {
    uint64_t arrives_us;
    uint32_t prompt_tokens;
    uint32_t shared_tokens; /* the first ones are the same in all such requests */
    uint32_t output_tokens_max;
} world_request_t;

/* A request as a story has it (story.h). */
typedef struct {
    uint64_t arrives_us;
    uint32_t prompt_tokens;
    uint32_t shared_tokens; /* the first ones, of that beginning */
    uint32_t beginning;
    uint32_t output_tokens_max; /* 0: this client never comes */
    uint64_t own;               /* seeds the rest of its prompt */
    uint64_t sampling_seed;
    uint32_t warm;        /* 1: temperature 1, else 0 */
    uint32_t deadline_ms; /* 0: none */
} world_load_t;

typedef struct {
    const topology_t *topology;
    uint64_t seed;
    uint32_t clients;         /* requests in all */
    const world_load_t *load; /* or else */
    const world_request_t *requests;
    uint32_t prompt_tokens_max;
    uint32_t answer_tokens_max;
    uint32_t pages_max;  /* of a group, the test page included; 0: as the topology says */
    uint32_t slots_max;  /* likewise; 0: few */
    bool without_checks; /* of actors by themselves: they cost by the square of what lives */
    uint32_t
        poisoned; /* of `requests`, the number, from 1, whose prompt kills its ranks; 0: none */
    uint32_t answer_mean;           /* tokens of an answer that nothing else ends; 0: few */
    uint64_t delay_us_max;          /* of a frame on its way; 0: little */
    uint32_t credit_messages;       /* that each receiver grants; 0: the engine's own limit */
    uint64_t tick_us;               /* 0: 50 ms */
    FILE *trace;                    /* NULL: none */
    dispatch_met_t *met;            /* by actor kind; NULL: nobody asks */
    const journal_place_t *journal; /* where each life keeps one; NULL: nowhere */
    struct chronicle *chronicle;    /* takes what happens (chronicle.h); NULL: nobody asks */
} world_config_t;

typedef struct world world_t;

/* A client as the load generator made it; what it must get is known beforehand. */
typedef struct {
    uint64_t id;
    uint64_t arrives_us;
    uint32_t *prompt;
    uint32_t prompt_count;
    uint32_t *answer;
    uint32_t answer_count;
    uint8_t answer_ends_by; /* end_reason_t: STOP or LENGTH */
    device_sampling_t sampling;
    uint32_t output_tokens_max;
    bool poisoned;        /* it must end so, without a token */
    bool kept;            /* POISONED came with all that running it again takes */
    uint32_t deadline_ms; /* 0: none; else END_DEADLINE is right at any token */
    bool sent;
    bool aborted; /* by the world: any end is right then */
    bool ended;
    uint8_t end_reason;
    uint32_t received;
    uint32_t retries; /* it was told OVERLOADED and asked again */
} world_client_t;

/* For a process that runs worlds one after another: memory stays, or most of the time goes into
 * getting it again. */
void world_keep_memory(void);

/* Owner closes. */
world_t *world_open(const world_config_t *config);
void world_close(world_t *world);

sim_t *world_sim(world_t *world);
const topology_t *world_topology(const world_t *world);
world_client_t *world_client(world_t *world, uint32_t index);
uint32_t world_client_count(const world_t *world);
actor_id_t world_gateway_of(world_t *world, uint32_t client);

/* ---- faults: any time between events --------------------------------------------------------- */

/* As kill -9 from outside. Nothing if it is dead; never the supervisor. */
void world_kill(world_t *world, actor_id_t actor);
/* It ends itself, as by a fault of its own. */
void world_crash(world_t *world, actor_id_t actor);
/* SIGSTOP, and SIGCONT after `us`. */
void world_stall(world_t *world, actor_id_t actor, uint64_t us);
/* The connection between two actors breaks, and stands again after `us`. */
void world_cut(world_t *world, actor_id_t a, actor_id_t b, uint64_t us);
/* An operator drains the group of this leader, by force, and takes that back after `us`. */
void world_drain(world_t *world, actor_id_t leader, uint64_t us);
/* The whole deployment stops, with `us` left for what runs: clients that come are refused, and
 * world_finish waits for the end of every process. */
void world_down(world_t *world, uint64_t us);
/* The client leaves. Nothing if it has ended or not come. */
void world_abort(world_t *world, uint32_t client);
/* The client has enough, as when a stop string is met. */
void world_stop(world_t *world, uint32_t client);
/* A rank's steps and copies take `factor` times as long, until world_finish. */
void world_slow(world_t *world, actor_id_t rank, uint32_t factor);
/* What its copies came to is said up to `us` late, in any order, until world_finish. */
void world_shuffle(world_t *world, actor_id_t rank, uint64_t us);
/* Its next life begins `us` late. */
void world_delay_start(world_t *world, actor_id_t actor, uint64_t us);
/* Bits will be flipped: wrong bytes that a device finds are no violation, if all comes out right. */
void world_allow_flips(world_t *world);
/* The device of a rank that lives, for symbolic_flip and symbolic_mistake; NULL if there is
 * none. */
device_t *world_device(world_t *world, actor_id_t rank);
struct oracle *world_oracle(world_t *world);

/* ---- running --------------------------------------------------------------------------------- */

/* One event. False when a violation was found. */
bool world_step(world_t *world);
/* What happened in the last event; its kind is SIM_OTHER if nothing did that an actor saw. */
sim_event_t world_last(const world_t *world);
/* Until `actor` has handled a message of kind `id`. False if it has not within a bound. */
bool world_run_to(world_t *world, actor_id_t actor, uint16_t id);
bool world_all_ended(const world_t *world);
/* Until every client has ended, at most until `us` of virtual time. */
bool world_run(world_t *world, uint64_t us);
/* No faults from here on: everything must end, and everything must be free, within a bound.
 * False: a violation. */
bool world_finish(world_t *world);

/* "name: what", or NULL. */
const char *world_violation(const world_t *world);
/* A device found what cannot be unless bits flip. */
void world_wrong_bytes(world_t *world, actor_id_t rank, const char *what);
void world_violate(world_t *world, const char *format, ...) PRINTF_LIKE(2, 3);

#endif
