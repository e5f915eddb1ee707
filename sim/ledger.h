/* ledger.h - what the oracle writes down, and its parts. Private to oracle.c and ledger_*.c.
 *
 * An attempt is opened at prefill, then at decode, then at the transfer, which prefill opens once
 * more by its first piece. A group's ledger begins anew with each epoch. Tables grow, and are freed
 * with the oracle; an attempt is never forgotten within a run.
 */
#ifndef SIM_LEDGER_H
#define SIM_LEDGER_H

#include "cache/pool.h"
#include "sim/oracle.h"
#include "device/device.h"
#include "runtime/base/map.h"

enum { LEDGER_NOBODY = 0xffffffff, LEDGER_PAYERS_MAX = 8, LEDGER_STEPS = 2 * STEPS_IN_FLIGHT_MAX };

/* Where an attempt is opened: by SUBMIT, RESERVE, OPEN, and the first KV_READY that is taken. */
typedef enum { AT_PREFILL, AT_DECODE, AT_TRANSFER, AT_SOURCE, LEDGER_PLACES } ledger_place_t;

typedef struct {
    actor_id_t opener;
    actor_id_t opened;
    incarnation_t opener_life; /* 0: never said */
    incarnation_t opened_life;
    bool heard;        /* by the opened */
    bool busy;         /* nothing came of it */
    bool ended;        /* END was said, or decode runs it */
    bool handed;       /* prefill: it knows that decode runs it */
    bool runs;         /* decode: all of the prompt has landed */
    bool fenced;       /* FENCED was said, or nobody is there to hear it */
    bool reserved;     /* decode: prefill has heard RESERVED; transfer: decode has heard OPENED */
    bool told_end;     /* the opener has heard BUSY, END, RUNNING or FENCED */
    bool told_fenced;  /* the opener has heard FENCED */
    bool end_due;      /* an ABORT was heard in this event */
    bool pass_due;     /* the opener must say ABORT here in this event */
    actor_id_t decode; /* prefill: the leader that SUBMIT names */
    /* in a group: */
    uint64_t epoch;    /* of what follows */
    uint64_t last_seq; /* of the last step that names it */
    bool slot_open;    /* a step has opened the slot, none has closed it */
    bool slot_taken;
    uint32_t slot;
    uint32_t drawn; /* tokens, by steps that all ranks have answered alike */
    uint32_t rows;  /* positions run, likewise */
    uint32_t page_count;
    uint32_t page_max;
    uint32_t *pages; /* owned; by ordinal */
} ledger_opening_t;

typedef struct {
    uint64_t request;
    uint32_t number;
    uint32_t next_pending; /* in oracle.pending_first */
    bool pending;
    actor_id_t gateway; /* who asked for a route */
    incarnation_t gateway_life;
    record_seniority_t seniority;
    uint32_t prompt_tokens;
    uint32_t forced;
    uint64_t
        *prefixes; /* owned; of each whole page of the prompt: hash of all tokens up to its end */
    uint64_t pulling; /* ranks of the decode group with a PULL that is not answered, as bits */
    ledger_opening_t openings[LEDGER_PLACES];
} ledger_attempt_t;

/* A page, border or slot of a group. */
typedef struct {
    uint64_t generation;
    uint32_t owner;   /* attempt that may write it */
    uint32_t holders; /* openings that name it and are not fenced */
    bool whole;       /* nobody writes it any more */
    uint32_t tokens;  /* whole page, border: of the prefix up to its end */
    uint64_t prefix;
} ledger_unit_t;

typedef struct {
    uint32_t attempt;
    uint8_t kind;
    uint8_t sample;
    uint32_t end; /* position */
} ledger_item_t;

typedef struct {
    uint64_t seq;
    uint64_t digest;
    uint64_t sent; /* to these ranks, as bits */
    uint64_t done; /* their answers are in, fine and equal */
    uint64_t result;
    uint32_t item_count;
    uint32_t item_max;
    ledger_item_t *items; /* owned */
} ledger_step_t;

typedef struct {
    actor_id_t leader; /* ranks follow it */
    uint32_t rank_count;
    ledger_place_t place;
    uint64_t epoch;
    uint64_t left; /* ranks whose QUIESCED of this epoch the leader has heard, as bits */
    uint64_t seq;
    uint64_t done_seq;                 /* all ranks have answered alike up to it */
    bool sending;                      /* step `seq` went out in this event */
    ledger_step_t steps[LEDGER_STEPS]; /* [seq % LEDGER_STEPS] */
    ledger_unit_t *units[UNIT_COUNT];  /* owned */
    uint32_t unit_counts[UNIT_COUNT];
    uint64_t counted; /* the pool's counts when all its units were last counted over */
} ledger_group_t;

typedef struct {
    uint64_t seq;
    bool is_request;
} ledger_message_t;

/* One direction between two actors, in one pair of lives. */
typedef struct {
    incarnation_t from_life;
    incarnation_t to_life;
    uint32_t first; /* ring of what is not acknowledged */
    uint32_t count;
    uint32_t size;
    uint32_t requests;
    ledger_message_t *ring;         /* owned */
    uint64_t states[MESSAGE_COUNT]; /* seq of the last STATE */
    uint32_t said[MESSAGE_COUNT];
} ledger_pair_t;

typedef struct {
    incarnation_t life; /* the latest */
    bool lives;
    ledger_group_t *group; /* of a leader or rank */
    uint32_t rank;         /* in it */
    uint64_t epoch;        /* rank: of its last QUIESCED in this life */
    uint64_t device_epoch; /* rank: that its device is in */
    uint64_t device_seq;   /* rank: of the last STEP that went to its device */
} ledger_actor_t;

/* REQUESTs that pay for a REPLY. */
typedef struct {
    uint32_t count;
    uint16_t ids[LEDGER_PAYERS_MAX];
} ledger_payers_t;

struct oracle {
    world_t *world;
    sim_t *sim;
    const topology_t *topology;
    uint32_t actor_count;
    ledger_actor_t *actors;
    incarnation_t *met;    /* [actor][peer]: the life that it has heard JOINED of and not EXITED */
    ledger_pair_t **pairs; /* [from][to]; made when first used */
    ledger_group_t *groups;
    uint32_t group_count;
    ledger_payers_t payers[MESSAGE_COUNT]; /* by REPLY */
    map_t *by_name;
    ledger_attempt_t *attempts;
    uint32_t attempt_count;
    uint32_t attempt_max;
    uint32_t pending_first; /* attempts with something due in this event */
    ledger_group_t *sender; /* who has sent a STEP in this event, or NULL */
};

/* ---- oracle.c ---- */

/* Made when first named. Valid until the next one is made. */
ledger_attempt_t *ledger_attempt(oracle_t *oracle, uint64_t request, uint32_t number);
const char *ledger_name(const oracle_t *oracle, actor_id_t actor);
/* "request 7, attempt 2"; one of a few buffers in turn. */
const char *ledger_title(const ledger_attempt_t *attempt);
actor_kind_t ledger_kind(const oracle_t *oracle, actor_id_t actor);
bool ledger_lives(const oracle_t *oracle, actor_id_t actor, incarnation_t life);
/* `actor` has met that life of `peer`, and their stream is up. */
bool ledger_reaches(const oracle_t *oracle, actor_id_t actor, actor_id_t peer, incarnation_t life);
/* At least `count` items of `size`; returns the memory. */
void *ledger_grow(void *memory, uint32_t *max, uint32_t count, size_t size);

/* ---- ledger_attempt.c: causal, reopen, end, fence, abort, seniority ---- */

void ledger_attempt_heard(oracle_t *oracle, actor_id_t actor, const envelope_t *envelope);
void ledger_attempt_said(oracle_t *oracle, actor_id_t actor, actor_id_t to, uint16_t id,
                         const void *body);
/* The event is over. */
void ledger_attempt_settle(oracle_t *oracle);
/* Its leader has taken this unit back: who holds it, and of whom nobody hears any more nor anything
 * moves, has given all its leases back in silence. */
void ledger_attempt_bury(oracle_t *oracle, const ledger_group_t *group, unit_kind_t kind,
                         uint32_t number);
/* No pull runs at this rank any more. */
void ledger_attempt_rank_left(oracle_t *oracle, actor_id_t rank);
/* Whatever was opened is closed, if both sides still live. */
void ledger_attempt_close(oracle_t *oracle);

/* ---- ledger_group.c: order, epoch, publish, late ---- */

void ledger_group_heard(oracle_t *oracle, actor_id_t actor, const envelope_t *envelope);
void ledger_group_said(oracle_t *oracle, actor_id_t actor, actor_id_t to, uint16_t id,
                       const void *body);
void ledger_group_settle(oracle_t *oracle);
/* A rank that may still work at what this opening named; NULL: none. */
const char *ledger_group_busy(const oracle_t *oracle, const ledger_opening_t *opening);

/* ---- ledger_page.c: page ---- */

void ledger_page_begin(ledger_group_t *group);
/* `opening` of `attempt` names these pages from ordinal `first` on. */
void ledger_page_take(oracle_t *oracle, ledger_group_t *group, ledger_attempt_t *attempt,
                      uint32_t first, const uint32_t *pages, const uint64_t *generations,
                      uint32_t count);
void ledger_page_take_slot(oracle_t *oracle, ledger_group_t *group, ledger_attempt_t *attempt,
                           uint32_t slot, uint64_t generation);
void ledger_page_load(oracle_t *oracle, ledger_group_t *group, ledger_attempt_t *attempt,
                      const record_step_item_t *item);
void ledger_page_run(oracle_t *oracle, ledger_group_t *group, ledger_attempt_t *attempt,
                     const record_step_item_t *item);
/* All ranks have run it up to `rows`. */
void ledger_page_done(ledger_group_t *group, ledger_attempt_t *attempt, uint32_t rows);
/* `count` pages from ordinal `first` on are whole; `last`: so is all of the prompt. */
bool ledger_page_is_ready(const ledger_group_t *group, const ledger_attempt_t *attempt,
                          uint32_t first, uint32_t count, bool last);
void ledger_page_release(oracle_t *oracle, ledger_opening_t *opening);
/* The leader's own account: sums, and that it has not given away what is held. */
void ledger_page_count(oracle_t *oracle, ledger_group_t *group);

/* ---- ledger_stream.c: life, credit, bound ---- */

void ledger_stream_open(oracle_t *oracle);
void ledger_stream_heard(oracle_t *oracle, actor_id_t actor, const envelope_t *envelope);
void ledger_stream_said(oracle_t *oracle, actor_id_t actor, actor_id_t to, uint16_t id);
void ledger_stream_lived(oracle_t *oracle, actor_id_t actor, bool begins);
void ledger_stream_close(oracle_t *oracle);

#endif
