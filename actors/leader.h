/* leader.h - what a prefill leader and a decode leader have in common: attempts, steps, their group.
 *
 * The state of a leader begins with a leader_t, and each of its attempts with a leader_attempt_t.
 * What differs between the two kinds, each says by its leader_ops_t, which it hands to whatever may
 * need it; a state holds no pointers. Where `self` is a void pointer it is such a state.
 *
 * L1  an attempt's state changes in leader_become only; leader_check holds all counts to the states.
 * L2  `waits` says what an attempt that ends still waits for, as bits of leader_wait_t. Without a
 *     bit of LEADER_WAITS_MEMORY no byte of its memory moves: its leases return and FENCED goes
 *     out. Without any bit it is forgotten.
 * L3  END goes out at most once, FENCED once, behind it.
 */
#ifndef ACTORS_LEADER_H
#define ACTORS_LEADER_H

#include "actors/group.h"
#include "actors/leader_counts.h"
#include "actors/request.h"
#include "runtime/base/block.h"
#include "runtime/base/token_list.h"
#include "runtime/base/free_list.h"
#include "runtime/base/map.h"

/* States of an attempt that mean the same to both kinds; each goes on at LEADER_FIRST. */
enum { LEADER_NONE, LEADER_ENDING, LEADER_FIRST, LEADER_ATTEMPT_STATES_MAX = 8 };

typedef enum {
    WAITS_DECODE = BIT(0),    /* decode owes BUSY, FENCED or RUNNING */
    WAITS_TRANSFER = BIT(1),  /* copies for it may run: the transfer owes FENCED, or ranks do */
    WAITS_EPOCH = BIT(2),     /* the group left its epoch, but not all ranks have */
    WAITS_STEP = BIT(3),      /* a step in flight names it */
    WAITS_CLOSE = BIT(4),     /* the device holds its slot open */
    WAITS_TOKEN_ACK = BIT(5), /* its gateway has not acknowledged all tokens that it shall have */
    LEADER_WAITS = 6,
    LEADER_WAITS_MEMORY = WAITS_TOKEN_ACK - 1,
} leader_wait_t;

/* By bit, for people. */
extern const char *const leader_wait_names[ACTOR_ATTEMPT_WAITS_MAX];

typedef struct {
    request_link_t link;
    uint64_t request;
    uint32_t number; /* attempt number of its gateway */
    uint8_t state;
    uint8_t waits; /* leader_wait_t */
    bool alone;
    bool suspect;
    bool charge;
    bool holds;        /* leases */
    bool gateway_gone; /* nobody hears TOKENS */
    bool fenced;       /* FENCED is out; only tokens are left */
    actor_id_t gateway;
    actor_id_t transfer;
    uint32_t prompt_tokens;
    uint32_t cached_tokens;
    uint32_t slot;
    uint32_t page_count; /* leader_pages */
    uint32_t position;   /* where the next RUN starts */
    uint64_t last_seq;   /* of the last step that names it, in this epoch */
    request_parameters_t parameters;
} leader_attempt_t;

/* How large everything is. */
typedef struct {
    size_t state_bytes;
    size_t attempt_bytes;
    uint32_t attempt_max;
    uint32_t list_max;  /* of all attempts */
    uint64_t words_max; /* in these */
} leader_shape_t;

typedef struct {
    leader_shape_t shape;
    leader_counts_t counts;
    uint32_t context_tokens;
    uint32_t chunk_tokens;
    uint32_t pages_per_attempt;
    uint16_t gateway_count;
    uint16_t transfer_count;
    actor_id_t gateway_first;
    actor_id_t transfer_first;
    bool alone_in_flight; /* so nothing else is sent */
    bool alone_last;      /* the last step was an alone one */
    bool starving;        /* decode: a running attempt waits for a page */
    uint32_t end_token_count;
    uint32_t end_tokens[EOS_TOKENS_MAX];
    uint64_t came_free;                 /* counts everything that may make room */
    uint64_t pools_said[INSTANCES_MAX]; /* epoch, by transfer */
    /* So that a message that changes little costs the planner little, however many attempts live: */
    uint32_t in_state[LEADER_ATTEMPT_STATES_MAX];
    uint32_t waiting[LEADER_WAITS]; /* attempts, by bit of `waits` */
    uint32_t closes_due;            /* slots that the device holds open for ended attempts */
    request_list_t live;
    free_list_t free; /* linked by link.next */
    size_t group_offset;
    size_t pool_offset;
    size_t map_offset;
    size_t attempts_offset;
    size_t pages_offset; /* by slot */
    size_t store_offset;
} leader_t;

/* What only the kind knows. Arguments are its state and its attempts. */
typedef struct {
    uint8_t queued; /* the state in which nothing of it has begun; LEADER_NONE: there is none */
    /* Who opened the attempt and hears END and FENCED; ACTOR_NONE: nobody any more. */
    actor_id_t (*opener)(const leader_attempt_t *attempt);
    /* Says END, and what others must hear; it becomes ENDING, and goes if nothing is left. */
    void (*end)(void *self, leader_attempt_t *attempt, end_reason_t reason, const char *detail,
                outbox_t *outbox);
    /* Its pages return. */
    void (*give_back)(void *self, leader_attempt_t *attempt);
    /* Its lists return to the store. */
    void (*forget)(void *self, leader_attempt_t *attempt);
    /* It wants to be in a step. */
    bool (*wants_run)(const leader_attempt_t *attempt);
    /* Rows that the next step may run; 0: it may only close slots. */
    uint32_t (*rows_free)(void *self);
    /* Adds its next tokens to the step; returns rows used, 0 if it must wait. */
    uint32_t (*add_run)(void *self, leader_attempt_t *attempt, uint32_t rows);
    /* All that want it and need not be alone, as far as there is room. */
    void (*add_runs)(void *self, uint32_t rows);
    /* All ranks have done this step. */
    void (*finish_step)(void *self, const group_step_t *step, outbox_t *outbox);
    /* A new epoch: what else belonged to the old one; then each attempt, whose leases are in
     * quarantine; and when all ranks have left the old one. */
    void (*lose_epoch)(void *self);
    void (*lose)(leader_attempt_t *attempt);
    void (*settle_epoch)(void *self, leader_attempt_t *attempt);
} leader_ops_t;

static inline group_t *group_of(void *self)
{
    leader_t *leader = self;

    return AT(leader, group_t, group_offset);
}

static inline pool_t *pool_of(void *self)
{
    leader_t *leader = self;

    return AT(leader, pool_t, pool_offset);
}

static inline token_store_t *store_of(void *self)
{
    leader_t *leader = self;

    return AT(leader, token_store_t, store_offset);
}

static inline map_t *map_of(void *self)
{
    leader_t *leader = self;

    return AT(leader, map_t, map_offset);
}

static inline leader_attempt_t *leader_attempt(void *self, uint32_t index)
{
    leader_t *leader = self;

    return (leader_attempt_t *)(void *)((char *)self + leader->attempts_offset +
                                        index * leader->shape.attempt_bytes);
}

static inline uint32_t leader_index(const void *self, const void *attempt)
{
    const leader_t *leader = self;
    const char *first = (const char *)self + leader->attempts_offset;

    return (uint32_t)((size_t)((const char *)attempt - first) / leader->shape.attempt_bytes);
}

static inline page_t *leader_pages(void *self, const leader_attempt_t *attempt)
{
    leader_t *leader = self;

    return AT(leader, page_t, pages_offset) + (size_t)attempt->slot * leader->pages_per_attempt;
}

/* ---- life ---- */

/* Where everything lies; returns where the leader's own tables may follow. `group` is as it will be
 * born. */
size_t leader_lay_out(leader_t *leader, const actor_birth_t *birth, const group_t *group,
                      const leader_shape_t *shape);
/* Behind leader_lay_out, in zeroed memory. */
void leader_init(leader_t *leader, const actor_birth_t *birth);

/* ---- attempts (leader_attempt.c) ---- */

/* NULL: no such one lives. */
leader_attempt_t *leader_find(void *self, uint64_t request, uint32_t number);
/* Makes the entry of `attempt` live, in its state; a free entry must be left. */
void leader_insert(void *self, leader_attempt_t *attempt);
void leader_become(void *self, leader_attempt_t *attempt, uint8_t state);
/* Nothing else sets or clears `waits`. */
void leader_wait(void *self, leader_attempt_t *attempt, uint32_t waits);
void leader_wait_over(void *self, leader_attempt_t *attempt, uint32_t waits);
/* False: the attempt's tokens will be made again. */
bool leader_end_is_final(end_reason_t reason);
/* For the kind's own `end`: END to the opener with reason, token_count and detail of `end`; it
 * becomes ENDING. */
void leader_end(void *self, const leader_ops_t *ops, leader_attempt_t *attempt, message_end_t *end,
                outbox_t *outbox);
/* Lets an ENDING attempt go as far as it can; it may be forgotten after. */
void leader_settle(void *self, const leader_ops_t *ops, leader_attempt_t *attempt,
                   outbox_t *outbox);
void leader_settle_all(void *self, const leader_ops_t *ops, outbox_t *outbox);
/* All its leases, if it has any. */
void leader_give_back(void *self, const leader_ops_t *ops, leader_attempt_t *attempt);
/* END and FENCED of what is not opened, and will not be. */
void leader_refuse(void *self, actor_id_t to, const message_end_t *end, outbox_t *outbox);
/* Names pages to ranks, or to the transfer, with their generations. */
void leader_set_pages(void *self, const page_t *pages, uint32_t count, record_step_item_t *item);

/* ---- steps (leader_step.c) ---- */

record_step_item_t *leader_add_item(void *self, leader_attempt_t *attempt, device_item_kind_t kind);
/* DEVICE_OPEN with what both kinds say: sampling, and the pages it has. */
record_step_item_t *leader_add_open(void *self, leader_attempt_t *attempt);
void leader_add_close(void *self, leader_attempt_t *attempt);
/* Sends all steps that may be sent now. */
void leader_plan_steps(void *self, const leader_ops_t *ops, outbox_t *outbox);

/* ---- peers ---- */

/* UINT32_MAX if the actor is no transfer. */
uint32_t leader_transfer(const leader_t *leader, actor_id_t actor);
bool leader_is_gateway(const leader_t *leader, actor_id_t actor);
/* An actor JOINED: it knows nothing. */
void leader_joined(void *self, const envelope_t *envelope);
/* An actor EXITED: if it was a rank, the group reforms. */
void leader_exited(void *self, const leader_ops_t *ops, const envelope_t *envelope,
                   outbox_t *outbox);
/* A fact about this epoch's pools, once to each transfer. */
void leader_tell_transfers(leader_t *leader, uint16_t id, const void *body, outbox_t *outbox);
/* What an INSTANCE says of any leader. */
message_instance_t leader_instance(void *self);

/* ---- handlers ---- */

typedef status_t leader_handler_t(void *self, const leader_ops_t *ops, const envelope_t *envelope,
                                  outbox_t *outbox);

leader_handler_t leader_on_tick, leader_on_stop, leader_on_draining, leader_on_rank_join,
    leader_on_quiesced, leader_on_step_done;

#define LEADER_HANDLER(ops, name)                                                                  \
    static status_t leads_##name(void *self, const envelope_t *envelope, outbox_t *outbox)         \
    {                                                                                              \
        return leader_##name(self, &(ops), envelope, outbox);                                      \
    }
/* The handlers above as rules want them, for LEADER_RULES. */
#define LEADER_HANDLERS(ops)                                                                       \
    LEADER_HANDLER(ops, on_tick)                                                                   \
    LEADER_HANDLER(ops, on_stop)                                                                   \
    LEADER_HANDLER(ops, on_draining)                                                               \
    LEADER_HANDLER(ops, on_rank_join)                                                              \
    LEADER_HANDLER(ops, on_quiesced)                                                               \
    LEADER_HANDLER(ops, on_step_done)

#define LEADER_ALL_STATES (BIT(LEADER_STATES) - 1)
#define LEADER_RULES                                                                               \
    {ACTOR_STATE_ANY, MESSAGE_tick, leads_on_tick, LEADER_ALL_STATES},                             \
        {ACTOR_STATE_ANY, MESSAGE_stop, leads_on_stop, BIT(DRAINING) | BIT(DRAINED)},              \
        {ACTOR_STATE_ANY, MESSAGE_draining, leads_on_draining, LEADER_ALL_STATES},                 \
        {ACTOR_STATE_ANY, MESSAGE_rank_join, leads_on_rank_join, LEADER_ALL_STATES},               \
        {ACTOR_STATE_ANY, MESSAGE_quiesced, leads_on_quiesced, LEADER_ALL_STATES},                 \
    {                                                                                              \
        ACTOR_STATE_ANY, MESSAGE_step_done, leads_on_step_done, LEADER_ALL_STATES                  \
    }

/* ---- facts ---- */

/* For actor_type_t. */
uint8_t leader_state(const void *self);
uint8_t leader_attempt_state(const void *self, uint64_t request, uint32_t attempt);
uint32_t leader_waits(const void *self, actor_wait_t waits[ACTOR_WAITS_MAX]);
uint32_t leader_attempt_count(const void *self);
void leader_attempt_waits(const void *self, uint32_t counts[ACTOR_ATTEMPT_WAITS_MAX]);
void leader_untouched(const void *self, size_t *from, size_t *to);
void leader_check(const void *self);

#endif
