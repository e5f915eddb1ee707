/* group.h - what both kinds of leaders share: ranks that join, epochs, the step log, its checks.
 *
 *      FORMING ──all ranks joined and QUIESCED of this epoch──> READY
 *         ^                                                       │ a rank EXITED, made no progress,
 *         └──────────────────── REFORM{epoch + 1} ────────────────┘ failed a step, or differs
 *
 * A leader embeds a group_t in its state and calls it from its handlers. The group owns no attempts:
 * for each step in flight it remembers which of the leader's attempts its items name. A step is
 * complete when all ranks said STEP_DONE with the same result digest; nothing of it may be published
 * before that (design 4).
 *
 * 1. At most STEPS_AHEAD_MAX steps that run something are in flight, at most STEPS_IN_FLIGHT_MAX in
 *    all, and none outside of READY. One that only closes slots need not wait for its turn: what an
 *    aborted attempt held is free with the last step that ran it.
 * 2. Every STEP's parent is the digest of all steps before it in this epoch.
 * 3. `settled`: no rank that had joined when the epoch began can still be in anything older.
 */
#ifndef ACTORS_GROUP_H
#define ACTORS_GROUP_H

#include "cache/pool.h"
#include "device/device.h"
#include "messages/message.h"
#include "runtime/actor.h"
#include "topology/topology.h"

enum {
    GROUP_QUIESCE_MS = 10000, /* a rank may take this long to leave an epoch, before KILL */
    GROUP_ITEM_BYTES = 192,   /* an item of an encoded STEP without what its lists hold */
    GROUP_WORD_BYTES = 4,     /* an element of such a list: 32 bits */
    GROUP_LONG_BYTES = 8,     /* and 64 bits */
};

/* What a step has of everything that a STEP message bounds. */
typedef struct {
    uint32_t items;
    uint32_t words;    /* 32-bit elements of lists, in the group's own memory */
    uint32_t longs;    /* 64-bit ones */
    uint32_t borrowed; /* 32-bit elements in other memory */
} group_load_t;

/* The `setup` of both leaders. With NULL, counts are the topology's and there is no end token. */
typedef struct {
    uint32_t pages; /* the test page included */
    uint32_t borders;
    uint32_t end_token_count;
    uint32_t end_tokens[EOS_TOKENS_MAX];
    uint32_t quiesce_ms; /* 0: GROUP_QUIESCE_MS */
    uint32_t depth;      /* steps that run, in flight at once; 0: STEPS_AHEAD_MAX */
} leader_setup_t;

typedef enum { GROUP_FORMING, GROUP_READY } group_phase_t;

/* What a leader shows of itself. DRAINED: it takes no work and has none, so its processes may go. */
enum { FORMING, READY, DRAINING, DRAINED, LEADER_STATES };

extern const char *const leader_state_names[LEADER_STATES];

typedef struct {
    incarnation_t incarnation; /* 0: not joined */
    bool must_quiesce;         /* of `epoch` */
    bool quiesced;             /* in `epoch` */
    bool kill_said;
    uint64_t pool_bytes;
    uint32_t pool_name_bytes;
    char pool_name[POOL_NAME_BYTES_MAX];
} group_rank_t;

/* An item of a step in flight, as its leader needs it again when the step is done. */
typedef struct {
    uint64_t request; /* this and the next: for reports */
    uint32_t attempt_number;
    uint32_t attempt; /* the leader's index */
    uint32_t slot;
    uint32_t position;
    uint32_t count;
    uint8_t kind;
    uint8_t sample;
    uint8_t tail;
    uint8_t alone;
} group_item_t;

typedef struct {
    uint32_t item;
    uint32_t token;
    float logprob;
    uint32_t top_count;
    uint32_t top_tokens[LOGPROBS_MAX];
    float top_logprobs[LOGPROBS_MAX];
} group_token_t;

typedef struct {
    uint64_t seq;
    uint64_t parent;
    step_digest_t digest;   /* of the first rank that answered */
    uint32_t first_rank; /* who that was */
    uint32_t first_call;
    uint64_t done; /* ranks, as bits */
    uint32_t item_count;
    uint32_t token_count;
    uint32_t closed_count;
    uint32_t rows; /* token rows that it runs */
} group_step_t;

typedef struct {
    actor_id_t leader;
    uint16_t kind; /* actor_kind_t */
    uint16_t instance;
    uint16_t rank_count;
    actor_id_t supervisor;
    actor_id_t watchers[2]; /* scheduler, monitor: who gets INSTANCE */
    group_phase_t phase;
    uint32_t counter; /* of epochs in this life of the leader */
    incarnation_t incarnation;
    uint64_t epoch;
    uint64_t seq;       /* of the last step sent */
    uint64_t chain;     /* digest up to it */
    uint64_t done_seq;  /* of the last complete step */
    uint64_t now_ms;    /* as of the last TICK */
    uint64_t since_ms;  /* of the last progress, or of REFORM */
    uint32_t in_flight; /* steps[seq % STEPS_IN_FLIGHT_MAX] */
    uint32_t running;   /* of these, how many run something */
    uint32_t depth;     /* at most so many of them */
    uint32_t rows;      /* and how much */
    uint32_t stall_ms;  /* a step may take this long */
    uint32_t quiesce_ms;
    uint32_t pages; /* what ranks must have */
    uint32_t borders;
    uint32_t slots;
    uint64_t weights_digest; /* of the first rank that joined */
    uint64_t geometry_digest;
    uint64_t numerics_digest;
    bool digests_known;
    bool drains;           /* it takes no new work */
    uint64_t drain_end_ms; /* what still runs then goes elsewhere */
    group_rank_t ranks[RANKS_MAX];
    group_step_t steps[STEPS_IN_FLIGHT_MAX];
    message_instance_t said[2];
    /* the step that is being built */
    group_load_t build;
    group_load_t build_max; /* but of borrowed ones, which only the message's size bounds */
    uint32_t closed_max;
    size_t items_offset; /* from this struct; the block stays relocatable */
    size_t tokens_offset;
    size_t closed_offset;
    size_t build_items_offset;
    size_t build_words_offset;
    size_t build_longs_offset;
} group_t;

/* Of what stands behind the struct. */
size_t group_bytes(const actor_birth_t *birth);
/* `group` is followed by group_bytes - sizeof(group_t) zeroed bytes. In epoch 1 of this life. */
void group_init(group_t *group, const actor_birth_t *birth);
/* The 32-bit epoch of generations: grows with every epoch of every life. */
uint32_t group_pool_epoch(const group_t *group);

bool group_is_ready(const group_t *group);
bool group_is_settled(const group_t *group);
/* UINT32_MAX if the actor is no rank of this group. */
uint32_t group_rank_of(const group_t *group, actor_id_t actor);
/* As bits. */
uint64_t group_all_ranks(const group_t *group);
/* The ranks' pools, for POOLS, SOURCES and TARGETS. */
uint32_t group_pools(const group_t *group, record_pool_t pools[RANKS_MAX]);

/* ---- ranks ---- */

/* Answers RANK_JOIN; an accepted rank gets REFORM of the current epoch. */
void group_join(group_t *group, const envelope_t *envelope, outbox_t *outbox);
/* True if the group became ready by it. */
bool group_quiesced(group_t *group, const envelope_t *envelope);
/* A rank EXITED: true if it had joined, so that the group must reform. */
bool group_exited(group_t *group, actor_id_t actor, incarnation_t incarnation);
/* Something that must not happen did: what led to it is to be kept. */
void group_incident(const group_t *group, const char *reason, outbox_t *outbox);
/* A new epoch. Steps in flight are forgotten: look at them before. */
void group_reform(group_t *group, const char *reason, outbox_t *outbox);
/* KILLs a rank that is no use to others, if it is still in that life. */
void group_kill(group_t *group, uint32_t rank, incarnation_t incarnation, text_view_t reason,
                outbox_t *outbox);
/* KILLs who does not quiesce. Returns why the group must reform, or NULL. */
const char *group_tick(group_t *group, uint64_t now_ms, outbox_t *outbox);

/* ---- leaving ---- */

/* `on`: it takes no new work, and what runs may go on for grace_ms; else: it takes work again. */
void group_drain(group_t *group, bool on, uint32_t grace_ms);
/* What still runs must go elsewhere now. */
bool group_drain_is_over(const group_t *group);
/* Takes work: INSTANCE says so to the scheduler. */
bool group_is_open(const group_t *group);
/* One of the states above, of a leader that has so many attempts. */
uint8_t group_leader_state(const group_t *group, uint32_t attempts);

/* ---- steps ---- */

/* True if one more step can be sent to every rank now. */
bool group_may_step(const group_t *group, const outbox_t *outbox);
/* True if it may run something. */
bool group_may_run(const group_t *group);
/* True if the step being built has room for this much more, in memory and in its message. An
 * attempt of any length and with any parameters has room in an empty step. */
bool group_room(const group_t *group, group_load_t more);
/* A zeroed item at the end of the step; group_room must be true. `attempt` is the leader's index. */
record_step_item_t *group_add(group_t *group, device_item_kind_t kind, uint32_t slot,
                              uint64_t request, uint32_t attempt_number, uint32_t attempt,
                              bool alone);
/* Memory for the views of items, valid until group_send. */
uint32_t *group_words(group_t *group, uint32_t count);
uint64_t *group_longs(group_t *group, uint32_t count);
/* A view of this many 32-bit elements into other memory is shown in an item. */
void group_borrow(group_t *group, uint32_t count);
/* Forgets what was built. */
void group_drop(group_t *group);
/* Sends what was built, if anything. Returns its seq, or 0. */
uint64_t group_send(group_t *group, outbox_t *outbox);

/* Takes STEP_DONE. NULL: fine so far. Else the reason for a reform: a rank failed or differs. */
const char *group_step_done(group_t *group, const envelope_t *envelope);
/* The oldest step if all ranks have answered it, else NULL. */
const group_step_t *group_complete(const group_t *group);
void group_retire(group_t *group);
/* Of a step in flight. */
const group_item_t *group_items(const group_t *group, const group_step_t *step);
const group_token_t *group_tokens(const group_t *group, const group_step_t *step);
const record_closed_t *group_closed(const group_t *group, const group_step_t *step);
/* Of the n-th oldest step in flight. */
const group_step_t *group_step(const group_t *group, uint32_t ordinal);

/* For actor_type_t.waits. */
uint32_t group_waits(const group_t *group, actor_wait_t waits[ACTOR_WAITS_MAX]);

void group_check(const group_t *group);

/* The digest of a chain after one more step; leaders and ranks compute the same. */
uint64_t step_chain(uint64_t parent, const message_step_t *step);

/* Seniority never changes; it orders all that compete for pages. */
bool seniority_is_older(const record_seniority_t *a, const record_seniority_t *b);
/* A unit's generation as one word, as messages carry it and pools publish it. */
uint64_t leader_generation(const pool_t *pool, unit_t unit);

/* A fact about this epoch, once it is ready; `*said` is the epoch that `to` knows. */
void group_tell(const group_t *group, actor_id_t to, uint16_t id, const void *body, uint64_t *said,
                outbox_t *outbox);
/* INSTANCE to scheduler and monitor, where it changed since each was told. */
void group_report(group_t *group, const message_instance_t *now, outbox_t *outbox);
/* An actor JOINED: if it is one of the two, it knows nothing. */
void group_report_forget(group_t *group, actor_id_t actor);
/* A token as a message shows it; the views look into `from`. */
record_token_t group_token_view(const group_token_t *from);

#endif
