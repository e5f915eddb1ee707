/* peers.h - everybody that a leader speaks with, played by one honest and obedient cast.
 *
 * Each push of the leader is understood at once; answers wait in a queue and are sent one by one,
 * so a test can put a fault between any two of them. Ranks are all equal and do every step; the
 * token behind position p is PEERS_TOKEN + p.
 */
#ifndef TESTS_ACTORS_PEERS_H
#define TESTS_ACTORS_PEERS_H

#include "actors/group.h"
#include "tests/actors/scene.h"

enum {
    PEERS_REQUEST = 9,
    PEERS_TOKEN = 100,
    PEERS_PROMPT = 300, /* tokens: two pages, the second open */
    PEERS_ANSWERS_MAX = 64,
};

/* What can befall PEERS_REQUEST. */
typedef enum {
    PEERS_ABORT,
    PEERS_KILL_OTHER, /* the leader of the other side */
    PEERS_KILL_GATEWAY,
    PEERS_KILL_TRANSFER,
    PEERS_KILL_RANK,
    PEERS_DRAIN,
    PEERS_FAULTS
} peers_fault_t;

/* An answer that waits. */
typedef struct {
    actor_id_t from;
    uint16_t id;
    uint64_t number; /* epoch, seq, request: what it is about */
    uint32_t about;  /* actor, piece, reason */
} peers_answer_t;

typedef struct {
    scene_t *scene;
    uint16_t tp;
    bool decodes;               /* the leader is a decode leader */
    record_sampling_t sampling; /* of requests to come */
    actor_id_t gateway, prefill, decode, transfer, supervisor;
    incarnation_t lives[ACTORS_MAX]; /* 0: dead */
    /* ranks */
    uint64_t epoch;
    uint64_t chains[RANKS_MAX];
    message_step_t steps[STEPS_IN_FLIGHT_MAX]; /* by seq, as rank 0 got them */
    uint64_t step_count;
    uint32_t runs_in_step_max;
    uint64_t slots_open; /* of rank 0's device, as bits */
    uint64_t history;    /* tokens that slots remember for penalties since the last OPEN at 0 */
    /* who has opened what */
    uint64_t transfer_open; /* requests, as bits */
    uint64_t decode_open;
    bool busy_once;             /* decode answers the first RESERVE with BUSY */
    bool fails;                 /* the hand-over fails */
    bool differs;               /* the last rank draws one token more in each step */
    bool differs_in_second_sum; /* the last rank's step digest, and in nothing else */
    bool silent;                /* ranks do not answer STEP and REFORM */
    uint32_t tokens;            /* that the gateway got */
    uint32_t last_token;
    uint32_t ends;
    uint32_t fences;
    uint32_t aborts; /* of the leader, to those it opened */
    uint32_t kills;
    uint32_t incidents; /* told the supervisor */
    uint32_t rooms;
    message_end_t end;
    message_pair_t pair; /* its reason is gone */
    peers_answer_t answers[PEERS_ANSWERS_MAX];
    uint32_t answer_count;
} peers_t;

/* As peers_open, in a deployment with a context of PROMPT_TOKENS_MAX and the largest chunks. */
void peers_open_large(peers_t *peers, const actor_type_t *type, actor_kind_t kind);
/* A group that is ready, and paired with the other side. */
void peers_open(peers_t *peers, const actor_type_t *type, actor_kind_t kind);
void peers_close(peers_t *peers);

/* Everything has ended, and no rank holds a slot open. */
void peers_expect_closed(const peers_t *peers);
/* SUBMIT or RESERVE of attempt 1. */
void peers_request(peers_t *peers, uint64_t request, uint32_t prompt_tokens, uint32_t answer_tokens,
                   const uint32_t *forced, uint32_t forced_count, bool alone);
/* Sends the oldest answer; false if none waits. */
bool peers_next(peers_t *peers);
/* Until nobody has anything to say; asserts that it ends. */
void peers_run(peers_t *peers);
/* ABORT of whoever opened it. */
void peers_abort(peers_t *peers, uint64_t request);
/* The supervisor says that the group drains, or no longer. */
void peers_drain(peers_t *peers, bool on, uint32_t grace_ms);
/* The leader's state, by name. */
void peers_expect_state(peers_t *peers, const char *name);
/* That process is gone; a rank comes again when peers_revive is called. */
void peers_kill(peers_t *peers, actor_id_t actor);
void peers_revive(peers_t *peers);
/* The group drains for a second: what runs is lost with it, not before, and nobody is suspected. */
void peers_outlive_drain(peers_t *peers);
/* The fault falls after `at` answers, and everybody goes on to the end, where a rank comes again.
 * False when nobody had anything to say any more before it fell. */
bool peers_suffer(peers_t *peers, peers_fault_t fault, uint32_t at);
/* Understands what was pushed since. Called by all of the above. */
void peers_listen(peers_t *peers);

#endif
