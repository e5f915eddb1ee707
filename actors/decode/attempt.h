/* attempt.h - an attempt at the decode leader, and the leader's state around it. Private to this folder.
 *
 *      RESERVE ──> OPENING ──OPENED──> LANDING ──LANDED──> RUNNING ──end token, length──┐
 *                     │                   │                   │                         │
 *                     └─ABORT, failed─────┴─ABORT, failed─────┴─ABORT, retracted, lost──┴──> ENDING ──> NONE
 *
 * The opener is the prefill leader until RUNNING was said, then the gateway. ENDING lasts until
 * it waits for nothing (leader_wait_t): the transfer said FENCED for the hand-over (or its ranks
 * did, if it exited), and the last step that names it is done on all ranks, or those have left its
 * epoch. Then the leases return and FENCED goes out; the record stays until the gateway has
 * acknowledged the tokens.
 *
 * D1  END goes out once, when the attempt becomes ENDING; FENCED once, behind it.
 * D2  an attempt holds leases from RESERVE until FENCED, or until the group reforms: then all are
 *     in quarantine.
 * D3  `known` tokens of the answer are published or given by the gateway; the device has been asked
 *     for those before `planned`; known <= planned.
 * D4  the youngest loses when pages run out, never the oldest.
 */
#ifndef ACTORS_DECODE_ATTEMPT_H
#define ACTORS_DECODE_ATTEMPT_H

#include "actors/decode/decode.h"
#include "actors/leader.h"

enum { NONE = LEADER_NONE, ENDING, OPENING, LANDING, RUNNING, ATTEMPT_STATES };
enum { NIL = REQUEST_NIL };

typedef struct {
    leader_attempt_t base;
    bool open_due;             /* OPEN waits for credit */
    bool handed;               /* RUNNING was said: the gateway is the opener */
    bool opener_gone;          /* nobody hears END and FENCED */
    uint64_t copies;           /* its transfer exited: ranks, as bits, that may still copy for it */
    incarnation_t copies_life; /* of the transfer */
    uint64_t epoch;            /* of the group when it was opened */
    actor_id_t prefill;
    uint32_t given_run; /* of `given`, those in a step already */
    uint32_t planned;
    uint32_t known;
    uint32_t token_words; /* words of a token in `tokens` */
    uint32_t first;       /* index of the first token in `tokens` */
    uint32_t sent;        /* tokens before this index are in a TOKENS */
    uint32_t acked;       /* and these are acknowledged */
    uint64_t words;       /* reserved in the store */
    token_list_t given;   /* tokens that run without being drawn: forced ones, or prefill's first */
    token_list_t penalty; /* the prompt, if the repetition penalty needs it */
    token_list_t tokens;  /* drawn, for the gateway */
} attempt_t;

/* A transfer has exited: each rank is asked to say when it copies for it no more. */
typedef struct {
    incarnation_t incarnation;
    uint64_t due; /* own ranks, as bits: FENCE_COPIES waits for credit */
} fence_t;

/* A prefill group as a source of pages. */
typedef struct {
    actor_id_t leader;
    uint64_t epoch; /* 0: none now */
    uint64_t weights_digest;
    uint32_t pool_count;
    record_pool_t pools[RANKS_MAX]; /* names lie in `names` */
    char names[RANKS_MAX][POOL_NAME_BYTES_MAX];
    uint64_t asked; /* own ranks, as bits */
    uint64_t mapped;
    pair_state_t state;
    char reason[REASON_BYTES_MAX];
    uint32_t refused;                  /* rank of it whose pool cannot be read */
    incarnation_t refused_incarnation; /* 0: there is none */
    bool own_next;                     /* it was blamed last time, and nothing has landed since */
    uint64_t failing_ms; /* copies fail since then, and nothing lands; 0: they do not */
    message_pair_t said;
    bool said_any;
    bool room_owed;      /* it got BUSY */
    uint64_t room_after; /* ROOM goes out when more than this has come free */
} source_t;

typedef struct {
    leader_t leader;
    uint16_t source_count;
    fence_t fences[INSTANCES_MAX]; /* by transfer */
    source_t sources[INSTANCES_MAX];
    uint32_t opens_due;
    uint64_t tokens_new; /* gateways, as bits: some token may wait to be sent there */
    uint64_t tokens_out; /* a TOKENS is not acknowledged yet */
    uint64_t words_reserved;
    size_t items_offset; /* room for one TOKENS */
    size_t views_offset;
    size_t words_offset;
} decode_t;

static inline attempt_t *attempts_of(decode_t *self)
{
    return AT(&self->leader, attempt_t, attempts_offset);
}

/* ---- attempt.c ---- */

extern const leader_ops_t decode_leader; /* decode.c */

attempt_t *decode_find(decode_t *self, uint64_t request, uint32_t number);
/* Why it cannot be taken now (BUSY), or NULL. */
const char *decode_obstacle(decode_t *self, const message_reserve_t *m, const source_t *source);
/* With all leases; decode_obstacle must be NULL. */
attempt_t *decode_open(decode_t *self, const message_reserve_t *m, actor_id_t prefill);
/* Says END, aborts at the transfer, and goes if nothing is left. The attempt may be gone after. */
void decode_end(decode_t *self, attempt_t *attempt, end_reason_t reason, const char *detail,
                outbox_t *outbox);
/* Lets an ENDING attempt go as far as it can. */
void decode_settle(decode_t *self, attempt_t *attempt, outbox_t *outbox);
/* No rank may copy for it any more, as far as its transfer's end left that open. */
void decode_copies_over(decode_t *self, attempt_t *attempt);
/* A drawn token; ends the attempt if it is the last. */
void decode_token(decode_t *self, attempt_t *attempt, const group_token_t *token, outbox_t *outbox);
/* At least so many pages; false if the pool has no more. `*added` is how many came. */
bool decode_grow(decode_t *self, attempt_t *attempt, uint32_t pages, uint32_t *added);
/* The youngest loses its pages, if nobody is about to give some back anyway. */
void decode_retract(decode_t *self, outbox_t *outbox);

/* ---- plan.c ---- */

/* For leader_ops_t. */
bool decode_wants_run(const leader_attempt_t *attempt);
uint32_t decode_rows_free(void *self);
uint32_t decode_add_run(void *self, leader_attempt_t *attempt, uint32_t rows);
void decode_add_runs(void *self, uint32_t rows);

void decode_plan(void *arg, outbox_t *outbox);

#endif
