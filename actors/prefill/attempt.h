/* attempt.h - an attempt at the prefill leader, and the leader's state around it. Private to this folder.
 *
 *   SUBMIT ──> QUEUED ──pages leased, RESERVE──> RESERVING ──RESERVED──> PREFILLING ──last chunk sent──> HANDING
 *                ^                                   │                                                     │
 *                └──────────BUSY of decode───────────┘                                          RUNNING of decode
 *   any of them ──ABORT, END of decode, lost, answered by its first token──> ENDING <──────────────────────┘
 *   ENDING ──> NONE
 *
 * ENDING lasts until it waits for nothing (leader_wait_t): decode said FENCED or runs it, the transfer said FENCED
 * if it took a piece, and the last step that names it is done on all ranks, or those have left its epoch. Then the
 * leases return and FENCED goes to the gateway; the record stays until the gateway has acknowledged the first token.
 *
 * P1  END goes out once, or never if decode said RUNNING first; FENCED goes out once.
 * P2  pages are leased all or none, oldest first; pages of the cached prefix are shared and never written.
 * P3  a unit is named to the transfer only when all ranks agree on its digest, and only after decode said RESERVED.
 * P4  `done` <= `position` <= the prompt: tokens complete on all ranks, tokens in steps sent.
 */
#ifndef ACTORS_PREFILL_ATTEMPT_H
#define ACTORS_PREFILL_ATTEMPT_H

#include "actors/leader.h"
#include "actors/prefill/prefill.h"
#include "cache/prefix.h"

enum { NONE = LEADER_NONE, ENDING, QUEUED, RESERVING, PREFILLING, HANDING, ATTEMPT_STATES };
enum { NIL = REQUEST_NIL };

typedef struct {
    leader_attempt_t base;
    bool handed;        /* decode runs it */
    bool loading;       /* a reference on `border` is held until its LOAD is done */
    bool private_pages; /* an equal page stands in the index: the rest stays this attempt's own */
    bool kv_stop;       /* the transfer dropped a piece, or the last one is out */
    bool token_known;
    bool token_due; /* it is published from here: nothing was forced */
    bool token_sent;
    actor_id_t decode;
    uint64_t salt;
    uint32_t
        shared_count; /* of its pages, the first so many are in the index, with our reference */
    border_t border;  /* where the cached prefix ends */
    uint32_t done;
    uint32_t pieces_sent;
    uint32_t pieces_answered;
    uint32_t pieces_taken;
    uint32_t units_sent; /* pages */
    group_token_t token;
    token_list_t prompt;
    token_list_t forced;
} attempt_t;

/* A decode group as a target. */
typedef struct {
    actor_id_t leader;
    uint64_t source_epoch;
    pair_state_t state;
    bool blocked;        /* it was BUSY: nothing goes there until ROOM */
    uint64_t pools_said; /* epoch */
} target_t;

typedef struct {
    leader_t leader;
    uint32_t border_every;
    uint16_t target_count;
    uint64_t lease_failed; /* came_free when the oldest got no pages; 0: it was not so */
    target_t targets[INSTANCES_MAX];
    size_t prefix_offset;
    size_t borders_offset;      /* by slot and ordinal: leased, not yet in the index */
    size_t page_digests_offset; /* by page */
    size_t slot_digests_offset; /* by slot */
    size_t words_offset;        /* room for a prompt and forced tokens */
} prefill_t;

static inline prefix_t *prefix_of(prefill_t *self)
{
    return AT(self, prefix_t, prefix_offset);
}

static inline attempt_t *attempts_of(prefill_t *self)
{
    return AT(&self->leader, attempt_t, attempts_offset);
}

static inline uint32_t *borders_of(prefill_t *self, const attempt_t *attempt)
{
    return AT(self, uint32_t, borders_offset) +
           (size_t)attempt->base.slot * self->leader.pages_per_attempt;
}

extern const leader_ops_t prefill_leader; /* prefill.c */

target_t *prefill_target(prefill_t *self, actor_id_t leader);

/* ---- attempt.c ---- */

attempt_t *prefill_find(prefill_t *self, uint64_t request, uint32_t number);
/* NULL: no room. */
attempt_t *prefill_open(prefill_t *self, const message_submit_t *m, actor_id_t gateway);
/* A slot, the cached prefix, and pages for the rest of the prompt; false: nothing was taken. */
bool prefill_lease(prefill_t *self, attempt_t *attempt);
/* Back to the queue. */
void prefill_unlease(prefill_t *self, attempt_t *attempt);
/* Says END, aborts at decode if `abort`, and goes if nothing is left. */
void prefill_end(prefill_t *self, attempt_t *attempt, end_reason_t reason, const char *detail,
                 bool abort, outbox_t *outbox);
/* Decode runs it: END is decode's. */
void prefill_hand_over(prefill_t *self, attempt_t *attempt, outbox_t *outbox);
/* Lets an ENDING attempt go as far as it can. */
void prefill_settle(prefill_t *self, attempt_t *attempt, outbox_t *outbox);
/* Tokens up to `done` are complete on all ranks: their pages go to the index. */
void prefill_progress(prefill_t *self, attempt_t *attempt, uint32_t done);
/* The first token; publishes it, or holds it to the forced one. */
void prefill_token(prefill_t *self, attempt_t *attempt, const group_token_t *token,
                   outbox_t *outbox);
/* For leader_ops_t: all pages, borders and references but the slot. */
void prefill_give_back(void *self, leader_attempt_t *attempt);

/* ---- plan.c ---- */

/* For leader_ops_t. */
bool prefill_wants_run(const leader_attempt_t *attempt);
uint32_t prefill_rows_free(void *self);
uint32_t prefill_add_run(void *self, leader_attempt_t *attempt, uint32_t rows);
void prefill_add_runs(void *self, uint32_t rows);

void prefill_plan(void *arg, outbox_t *outbox);

#endif
