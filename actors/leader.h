/* leader.h - what a prefill leader and a decode leader have in common around their group.
 *
 * The state of a leader begins with a leader_t, and each of its attempts with a request_link_t. The
 * handlers of ranks, time and drains are here; what they mean for attempts, each leader says by its
 * leader_ops_t. Where `self` is a void pointer it is such a state.
 */
#ifndef ACTORS_LEADER_H
#define ACTORS_LEADER_H

#include "actors/group.h"
#include "actors/request.h"
#include "runtime/base/block.h"
#include "runtime/base/chain.h"
#include "runtime/base/free_list.h"
#include "runtime/base/map.h"

/* How large everything is. */
typedef struct {
    size_t state_bytes;
    size_t attempt_bytes;
    uint32_t attempt_max;
    uint32_t chain_max; /* of all attempts */
    uint64_t words_max; /* in these */
} leader_shape_t;

typedef struct {
    leader_shape_t shape;
    uint32_t context_tokens;
    uint32_t chunk_tokens;
    uint32_t pages_per_attempt;
    uint16_t gateway_count;
    uint16_t transfer_count;
    actor_id_t gateway_first;
    actor_id_t transfer_first;
    bool alone_in_flight; /* so nothing else is sent */
    bool alone_last;      /* the last step was an alone one */
    uint32_t end_token_count;
    uint32_t end_tokens[EOS_TOKENS_MAX];
    uint64_t came_free;                 /* counts everything that may make room */
    uint64_t pools_said[INSTANCES_MAX]; /* epoch, by transfer */
    uint32_t closes_due;                /* slots that the device holds open for ended attempts */
    request_list_t live;
    free_list_t free; /* linked by link.next */
    size_t group_offset;
    size_t pool_offset;
    size_t map_offset;
    size_t attempts_offset;
    size_t pages_offset; /* by slot */
    size_t store_offset;
} leader_t;

/* What the group's handlers ask of a leader. */
typedef struct {
    /* A step that was not done names this attempt; it alone, if `alone`. */
    void (*suspect)(void *self, uint32_t attempt, bool alone);
    /* A new epoch: all leases are in quarantine, all steps forgotten. */
    void (*lose_all)(void *self, const char *reason, outbox_t *outbox);
    /* All ranks have done this step. */
    void (*finish_step)(void *self, const group_step_t *step, outbox_t *outbox);
    /* Lets ENDING attempts go as far as they can. */
    void (*settle_all)(void *self, outbox_t *outbox);
    /* Ends what must not wait for the end of a drain, if there is one. */
    void (*drain)(void *self, outbox_t *outbox);
} leader_ops_t;

extern const leader_ops_t prefill_leader, decode_leader;

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

static inline chain_store_t *store_of(void *self)
{
    leader_t *leader = self;

    return AT(leader, chain_store_t, store_offset);
}

static inline map_t *map_of(void *self)
{
    leader_t *leader = self;

    return AT(leader, map_t, map_offset);
}

/* ---- life ---- */

/* Where everything lies; returns where the leader's own tables may follow. `group` is as it will be
 * born. */
size_t leader_lay_out(leader_t *leader, const actor_birth_t *birth, const group_t *group,
                      const leader_shape_t *shape);
/* Behind leader_lay_out, in zeroed memory. */
void leader_init(leader_t *leader, const actor_birth_t *birth);

/* ---- attempts ---- */

/* MAP_NONE: no such one lives. */
uint32_t leader_find(const void *self, uint64_t request, uint32_t number);
/* False: the attempt's tokens will be made again. */
bool leader_end_is_final(end_reason_t reason);
/* Names pages to ranks, or to the transfer, with their generations. */
void leader_set_pages(void *self, const page_t *pages, uint32_t count, record_step_item_t *item);

/* ---- peers ---- */

/* UINT32_MAX if the actor is no transfer. */
uint32_t leader_transfer(const leader_t *leader, actor_id_t actor);
bool leader_is_gateway(const leader_t *leader, actor_id_t actor);
/* An actor JOINED: it knows nothing. */
void leader_joined(void *self, const envelope_t *envelope);
/* An actor EXITED: if it was a rank, the group reforms. */
void leader_exited(void *self, const envelope_t *envelope, outbox_t *outbox);
/* A fact about this epoch's pools, once to each transfer. */
void leader_tell_transfers(leader_t *leader, uint16_t id, const void *body, outbox_t *outbox);
/* What an INSTANCE says of any leader. */
message_instance_t leader_instance(void *self);

/* ---- handlers and facts ---- */

status_t leader_on_tick(void *self, const envelope_t *envelope, outbox_t *outbox);
status_t leader_on_stop(void *self, const envelope_t *envelope, outbox_t *outbox);
status_t leader_on_draining(void *self, const envelope_t *envelope, outbox_t *outbox);
status_t leader_on_rank_join(void *self, const envelope_t *envelope, outbox_t *outbox);
status_t leader_on_quiesced(void *self, const envelope_t *envelope, outbox_t *outbox);
status_t leader_on_step_done(void *self, const envelope_t *envelope, outbox_t *outbox);

#define LEADER_ALL_STATES (BIT(LEADER_STATES) - 1)
#define LEADER_RULES                                                                               \
    {ACTOR_STATE_ANY, MESSAGE_tick, leader_on_tick, LEADER_ALL_STATES},                            \
        {ACTOR_STATE_ANY, MESSAGE_stop, leader_on_stop, BIT(DRAINING) | BIT(DRAINED)},             \
        {ACTOR_STATE_ANY, MESSAGE_draining, leader_on_draining, LEADER_ALL_STATES},                \
        {ACTOR_STATE_ANY, MESSAGE_rank_join, leader_on_rank_join, LEADER_ALL_STATES},              \
        {ACTOR_STATE_ANY, MESSAGE_quiesced, leader_on_quiesced, LEADER_ALL_STATES},                \
    {                                                                                              \
        ACTOR_STATE_ANY, MESSAGE_step_done, leader_on_step_done, LEADER_ALL_STATES                 \
    }

/* For actor_type_t. */
uint8_t leader_state(const void *self);
uint32_t leader_waits(const void *self, actor_wait_t waits[ACTOR_WAITS_MAX]);
uint32_t leader_attempt_count(const void *self);
void leader_check(const leader_t *leader);

#endif
