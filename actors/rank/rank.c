/* rank.c - checks what comes against epoch, seq and chain, and hands it to the device.
 *
 *   LOADING ──DEVICE_READY──> JOINING ──RANK_JOINED──> WAITING ──REFORM──> LEAVING ──DEVICE_QUIESCED──> STEPPING
 *                                ^                        ^                   ^                           │
 *                                └───── leader EXITED ────┴───────────────────┴───────────REFORM──────────┘
 *
 * A pull waits here until the device takes it, so a cancelled one that has not begun is answered at
 * once. Copies of an older epoch that wait are answered STALE at REFORM; those at the device are
 * answered before DEVICE_QUIESCED.
 *
 * R1  the device is given STEP n only if it is of this epoch, follows n - 1, and has the chain as parent.
 * R2  QUIESCED{epoch} goes out when nothing older runs at the device and no older pull is in the table.
 * R3  COPIES_FENCED answers FENCE_COPIES when no pull of that life is in the table, and none will be.
 */
#include "actors/rank/rank.h"

#include <string.h>

#include "actors/group.h"
#include "messages/message.h"
#include "runtime/base/token_list.h"
#include "runtime/base/free_list.h"
#include "runtime/base/log.h"
#include "runtime/base/plant.h"

enum { LOADING, JOINING, WAITING, LEAVING, STEPPING, RANK_STATES };

static const char *const state_names[] = {"loading", "joining", "waiting", "leaving", "stepping"};

enum { ORDERERS_MAX = 2 * INSTANCES_MAX };
enum { NIL = 0xffffffff, ITEM_WORDS = (sizeof(record_pull_item_t) + 3) / 4 };

typedef enum { PULL_FREE, PULL_QUEUED, PULL_RUNNING } pull_state_t;

typedef struct {
    pull_state_t state;
    actor_id_t orderer;
    incarnation_t incarnation; /* of orderer */
    bool orderer_gone;        /* that life has exited: its next one ordered nothing */
    uint64_t request;
    uint32_t attempt;
    uint64_t copy; /* as the orderer names it */
    actor_id_t source;
    uint32_t next; /* free list, or the queue in order of coming */
    token_list_t items; /* QUEUED */
} pull_t;

typedef struct {
    uint64_t seq;
    uint64_t parent;
} step_t;

/* An actor that may order copies here; lives of it are told apart, whatever its kind. */
typedef struct {
    actor_id_t actor;
    incarnation_t fencing; /* COPIES_FENCED of this life is owed; 0: none */
    incarnation_t fenced;  /* pulls of lives up to this one are refused */
} orderer_t;

typedef struct {
    uint8_t state;
    bool owes_join; /* a RANK_JOIN is due as soon as it may be sent */
    actor_id_t id;
    actor_id_t leader;
    incarnation_t incarnation;
    uint16_t rank;
    uint64_t epoch;
    uint64_t seq;   /* of the last step given to the device */
    uint64_t chain; /* up to it */
    uint64_t done_seq;
    uint64_t done_chain;
    message_device_ready_t device; /* its text lies in pool_name */
    uint32_t pool_name_bytes;
    char pool_name[POOL_NAME_BYTES_MAX];
    uint32_t segment_bytes;
    char segment[POOL_NAME_BYTES_MAX];
    step_t steps[STEPS_IN_FLIGHT_MAX]; /* at the device: [seq % STEPS_IN_FLIGHT_MAX] */
    uint32_t orderer_count;
    orderer_t orderers[ORDERERS_MAX];
    uint32_t queue_first;
    uint32_t queue_last;
    free_list_t free; /* linked by next */
    uint32_t pull_count;
    uint32_t running_count;
    uint32_t maps_running; /* at the device */
    uint32_t maps_unasked; /* of these, the first so many were for an earlier life of the leader */
    uint64_t copies_done;
    uint64_t copies_failed;
    pull_t pulls[RANK_PULLS_MAX];
    size_t store_offset;
} rank_t;

static token_store_t *store_of(rank_t *self)
{
    return (token_store_t *)(void *)((char *)self + self->store_offset);
}

/* ---- pulls ----------------------------------------------------------------------------------- */

static void pull_free(rank_t *self, pull_t *pull)
{
    token_list_clear(store_of(self), &pull->items);
    pull->state = PULL_FREE;
    pull->next = free_list_give(&self->free, (uint32_t)(pull - self->pulls));
    self->pull_count--;
}

static void push_pulled(const pull_t *pull, uint8_t status, uint32_t failed_item, outbox_t *outbox)
{
    message_pulled_t pulled = {pull->request, pull->attempt, pull->copy, status, failed_item};

    if (!pull->orderer_gone && outbox_is_up(outbox, pull->orderer))
        outbox_push(outbox, pull->orderer, MESSAGE_pulled, &pulled);
}

/* Gives the device what it has room for. */
static void start_copies(rank_t *self, outbox_t *outbox)
{
    while (self->running_count < RANK_COPIES_MAX && self->queue_first != NIL) {
        uint32_t index = self->queue_first;
        pull_t *pull = &self->pulls[index];
        record_pull_item_t items[KV_UNITS_MAX];
        message_device_copy_t copy = {.copy = index, .source = pull->source};

        copy.items.data = items;
        copy.items.count = pull->items.count / ITEM_WORDS;
        for (uint32_t i = 0; i < copy.items.count; i++) {
            uint32_t words[ITEM_WORDS];

            token_list_read(store_of(self), &pull->items, i * ITEM_WORDS, ITEM_WORDS, words);
            memcpy(&items[i], words, sizeof(items[i]));
        }
        self->queue_first = pull->next;
        if (self->queue_first == NIL)
            self->queue_last = NIL;
        token_list_clear(store_of(self), &pull->items);
        pull->state = PULL_RUNNING;
        self->running_count++;
        outbox_push(outbox, PORT_DEVICE, MESSAGE_device_copy, &copy);
    }
}

/* Which waiting pulls to drop: those of an attempt, of an orderer, or all. */
typedef struct {
    bool of_attempt;
    bool of_orderer;
    uint64_t request;
    uint32_t attempt;
    actor_id_t orderer;
    incarnation_t incarnation; /* of orderer, and earlier ones */
} pull_filter_t;

static void drop_queued(rank_t *self, const pull_filter_t *filter, uint8_t status, outbox_t *outbox)
{
    uint32_t index = self->queue_first;
    uint32_t kept = NIL;

    self->queue_first = self->queue_last = NIL;
    while (index != NIL) {
        pull_t *pull = &self->pulls[index];
        uint32_t next = pull->next;
        bool drop = (!filter->of_orderer || (pull->orderer == filter->orderer &&
                                              pull->incarnation <= filter->incarnation)) &&
                    (!filter->of_attempt ||
                     (pull->request == filter->request && pull->attempt == filter->attempt));

        if (drop) {
            push_pulled(pull, status, 0, outbox);
            pull_free(self, pull);
        } else {
            pull->next = NIL;
            if (kept == NIL)
                self->queue_first = index;
            else
                self->pulls[kept].next = index;
            kept = self->queue_last = index;
        }
        index = next;
    }
}

static orderer_t *orderer_of(rank_t *self, actor_id_t actor)
{
    for (uint32_t i = 0; i < self->orderer_count; i++)
        if (self->orderers[i].actor == actor)
            return &self->orderers[i];
    return NULL;
}

/* Says COPIES_FENCED for every exited orderer that has no pull left here. */
static void fence_copies(rank_t *self, outbox_t *outbox)
{
    for (uint32_t i = 0; i < self->orderer_count; i++) {
        orderer_t *orderer = &self->orderers[i];
        message_copies_fenced_t fenced = {orderer->actor, orderer->fencing};
        bool clear = true;

        if (orderer->fencing == 0)
            continue;
        for (uint32_t n = 0; n < self->free.fresh && self->pull_count > 0; n++)
            clear =
                clear &&
                (self->pulls[n].state == PULL_FREE || self->pulls[n].orderer != orderer->actor ||
                 self->pulls[n].incarnation != orderer->fencing);
        if (!clear || !outbox_is_up(outbox, self->leader))
            continue;
        outbox_push(outbox, self->leader, MESSAGE_copies_fenced, &fenced);
        orderer->fencing = 0;
    }
}

static const char *reason_to_refuse(rank_t *self, const envelope_t *envelope)
{
    const message_pull_t *m = envelope->body;
    const orderer_t *orderer = orderer_of(self, envelope->from);
    token_list_t none;

    token_list_init(&none);
    if (!orderer || envelope->incarnation <= orderer->fenced)
        return "a pull of somebody who orders none, or has exited";
    if (self->state != STEPPING || m->epoch != self->epoch)
        return "a pull of another epoch";
    if (m->items.count == 0 || m->items.count > KV_UNITS_MAX)
        return "a pull of no units";
    if (free_list_is_empty(&self->free) ||
        !token_list_room(store_of(self), &none, m->items.count * (uint32_t)ITEM_WORDS))
        return "no room for a pull";
    return NULL;
}

static status_t on_pull(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;
    const message_pull_t *m = envelope->body;
    const char *refusal = reason_to_refuse(self, envelope);
    pull_t *pull;
    uint32_t index;

    if (refusal) {
        bool stale = self->state != STEPPING || m->epoch != self->epoch;
        message_pulled_t pulled = {m->request, m->attempt, m->copy,
                                   stale ? STATUS_STALE : STATUS_REFUSED, 0};

        outbox_push(outbox, envelope->from, MESSAGE_pulled, &pulled);
        return STATUS_OK;
    }
    index = free_list_next(&self->free);
    pull = &self->pulls[index];
    free_list_take(&self->free, pull->next);
    self->pull_count++;
    *pull = (pull_t){
        .state = PULL_QUEUED,
        .orderer = envelope->from,
        .incarnation = envelope->incarnation,
        .request = m->request,
        .attempt = m->attempt,
        .copy = m->copy,
        .source = m->source,
        .next = NIL,
    };
    token_list_init(&pull->items);
    for (uint32_t i = 0; i < m->items.count; i++) {
        uint32_t words[ITEM_WORDS] = {0};

        memcpy(words, &m->items.data[i], sizeof(m->items.data[i]));
        token_list_append(store_of(self), &pull->items, words, ITEM_WORDS);
    }
    if (self->queue_last == NIL)
        self->queue_first = index;
    else
        self->pulls[self->queue_last].next = index;
    self->queue_last = index;
    start_copies(self, outbox);
    return STATUS_OK;
}

static status_t on_pull_cancel(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;
    const message_pull_cancel_t *m = envelope->body;
    const pull_filter_t filter = {
        .of_attempt = true,
        .of_orderer = true,
        .request = m->request,
        .attempt = m->attempt,
        .orderer = envelope->from,
        .incarnation = envelope->incarnation,
    };

    drop_queued(self, &filter, STATUS_REFUSED, outbox);
    for (uint32_t i = 0; i < self->free.fresh && PLANTED(early_pulled); i++) {
        pull_t *pull = &self->pulls[i];

        if (pull->state != PULL_RUNNING || pull->request != m->request || pull->orderer_gone)
            continue;
        push_pulled(pull, STATUS_REFUSED, 0, outbox);
        pull->orderer_gone = true; /* it is said once */
    }
    return STATUS_OK;
}

/* The leader knows that an orderer has exited, maybe before this rank does, or though this rank
 * never heard of that life. */
static status_t on_fence_copies(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;
    const message_fence_copies_t *m = envelope->body;
    const pull_filter_t filter = {
        .of_orderer = true, .orderer = m->actor, .incarnation = m->incarnation};
    orderer_t *orderer = orderer_of(self, m->actor);

    if (!orderer)
        return FAIL(STATUS_UNEXPECTED, "FENCE_COPIES of actor %u, which orders none", m->actor);
    if (orderer->fenced < m->incarnation)
        orderer->fenced = m->incarnation;
    orderer->fencing = m->incarnation;
    drop_queued(self, &filter, STATUS_BROKEN, outbox);
    fence_copies(self, outbox);
    return STATUS_OK;
}

static status_t on_device_copied(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;
    const message_device_copied_t *m = envelope->body;
    pull_t *pull;

    ASSERT(m->copy < RANK_PULLS_MAX);
    pull = &self->pulls[m->copy];
    ASSERT(pull->state == PULL_RUNNING);
    self->running_count--;
    self->copies_done++;
    if (m->status != STATUS_OK) {
        self->copies_failed++;
        LOG(WARN, "RANK-COPY-FAILED request=%016llx attempt=%u item=%u status=%s",
            (unsigned long long)pull->request, pull->attempt, m->failed_item,
            m->status < STATUS_COUNT ? status_name((status_t)m->status) : "unknown");
    }
    push_pulled(pull, m->status, m->failed_item, outbox);
    pull_free(self, pull);
    start_copies(self, outbox);
    fence_copies(self, outbox);
    return STATUS_OK;
}

/* ---- the group ------------------------------------------------------------------------------- */

static status_t on_device_ready(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;
    const message_device_ready_t *m = envelope->body;

    (void)outbox;
    if (m->status != STATUS_OK)
        return FAIL(status_class((status_t)m->status) == CLASS_ENGINE ? (status_t)m->status
                                                                      : STATUS_INTERNAL,
                    "the device cannot go on: %.*s", (int)m->detail.count, m->detail.data);
    if (self->state != LOADING)
        return FAIL(STATUS_UNEXPECTED, "the device was ready before");
    self->device = *m;
    self->device.detail = (text_view_t){0};
    self->pool_name_bytes = m->pool.name.count;
    if (m->pool.name.count > 0)
        memcpy(self->pool_name, m->pool.name.data, m->pool.name.count);
    self->device.pool.name = (text_view_t){0};
    self->owes_join = true;
    self->state = JOINING;
    return STATUS_OK;
}

static status_t on_rank_joined(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;
    const message_rank_joined_t *m = envelope->body;

    (void)outbox;
    if (!m->accepted)
        return FAIL(STATUS_BAD_CONFIG, "the group does not take this rank: %.*s",
                    (int)m->reason.count, m->reason.data);
    self->state = WAITING;
    return STATUS_OK;
}

static status_t on_reform(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;
    const message_reform_t *m = envelope->body;
    const pull_filter_t all = {0};
    message_device_reform_t reform = {.epoch = m->epoch, .segment = m->segment};

    if (m->epoch <= self->epoch)
        return FAIL(STATUS_STALE, "REFORM to epoch %llx in epoch %llx",
                    (unsigned long long)m->epoch, (unsigned long long)self->epoch);
    self->epoch = m->epoch;
    self->state = LEAVING;
    drop_queued(self, &all, STATUS_STALE, outbox);
    outbox_push(outbox, PORT_DEVICE, MESSAGE_device_reform, &reform);
    if (PLANTED(no_quiesce))
        outbox_push(outbox, self->leader, MESSAGE_quiesced, &(message_quiesced_t){m->epoch, 0, 0});
    return STATUS_OK;
}

static status_t on_device_quiesced(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;
    const message_device_quiesced_t *m = envelope->body;
    message_quiesced_t quiesced = {self->epoch, self->done_seq, self->done_chain};

    if (m->epoch != self->epoch)
        return STATUS_OK; /* a newer REFORM is on its way through the device */
    ASSERT(self->running_count == 0);
    ASSERT(self->seq == self->done_seq);
    if (outbox_is_up(outbox, self->leader))
        outbox_push(outbox, self->leader, MESSAGE_quiesced, &quiesced);
    self->seq = self->done_seq = 0;
    self->chain = self->done_chain = 0;
    self->state = STEPPING;
    return STATUS_OK;
}

/* With the text of the FAIL just before. */
static void push_step_refused(rank_t *self, const message_step_t *m, status_t status,
                              outbox_t *outbox)
{
    message_step_done_t done = {.epoch = m->epoch, .seq = m->seq, .status = (uint8_t)status};

    done.parent = self->chain;
    done.detail = (text_view_t){trail_text(), (uint32_t)strnlen(trail_text(), REASON_BYTES_MAX)};
    outbox_push(outbox, self->leader, MESSAGE_step_done, &done);
}

static status_t on_step(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;
    const message_step_t *m = envelope->body;
    const char *refusal = NULL;

    if (m->epoch != self->epoch)
        return FAIL(STATUS_STALE, "STEP of epoch %llx in epoch %llx", (unsigned long long)m->epoch,
                    (unsigned long long)self->epoch);
    if (m->seq != self->seq + 1)
        refusal = "STEPs must follow each other without gaps";
    else if (m->parent != self->chain)
        refusal = "the parent is not this rank's chain";
    else if (self->seq - self->done_seq == STEPS_IN_FLIGHT_MAX)
        refusal = "more STEPs than may be in flight";
    if (refusal) {
        (void)FAIL(STATUS_MISMATCH,
                   "%s: step %llu with parent %016llx came behind step %llu with chain %016llx",
                   refusal, (unsigned long long)m->seq, (unsigned long long)m->parent,
                   (unsigned long long)self->seq, (unsigned long long)self->chain);
        push_step_refused(self, m, STATUS_MISMATCH, outbox);
        return STATUS_MISMATCH;
    }
    self->steps[m->seq % STEPS_IN_FLIGHT_MAX] = (step_t){m->seq, self->chain};
    self->chain = step_chain(self->chain, m);
    self->seq = m->seq;
    outbox_push(outbox, PORT_DEVICE, MESSAGE_step, m);
    return STATUS_OK;
}

static status_t on_step_done(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;
    message_step_done_t done = *(const message_step_done_t *)envelope->body;
    const step_t *step = &self->steps[done.seq % STEPS_IN_FLIGHT_MAX];

    ASSERT(done.seq == self->done_seq + 1);
    ASSERT(step->seq == done.seq);
    self->done_seq = done.seq;
    self->done_chain = done.seq == self->seq
                           ? self->chain
                           : self->steps[(done.seq + 1) % STEPS_IN_FLIGHT_MAX].parent;
    /* Here, since the leader forgets an epoch that it has left: who was first to break the group
     * may be the last whom it hears. */
    if (done.status != STATUS_OK && done.detail.count > 0)
        LOG(WARN, "RANK-STEP-FAILED epoch=%llx step=%llu status=%s detail=\"%.*s\"",
            (unsigned long long)done.epoch, (unsigned long long)done.seq,
            done.status < STATUS_COUNT ? status_name((status_t)done.status) : "unknown",
            (int)done.detail.count, done.detail.data);
    if (done.epoch != self->epoch || self->state != STEPPING)
        return STATUS_OK; /* nobody waits for it any more */
    done.parent = step->parent;
    if (self->rank != 0) {
        done.tokens.count = 0;
        done.closed.count = 0;
    }
    outbox_push(outbox, self->leader, MESSAGE_step_done, &done);
    return STATUS_OK;
}

static status_t on_peer_pool(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;

    self->maps_running++;
    outbox_push(outbox, PORT_DEVICE, MESSAGE_device_map, envelope->body);
    return STATUS_OK;
}

static status_t on_device_mapped(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;

    ASSERT(self->maps_running > 0);
    self->maps_running--;
    if (self->maps_unasked > 0)
        self->maps_unasked--; /* the device does them in order */
    else if (outbox_is_up(outbox, self->leader))
        outbox_push(outbox, self->leader, MESSAGE_peer_mapped, envelope->body);
    return STATUS_OK;
}

/* ---- peers ----------------------------------------------------------------------------------- */

static status_t on_joined(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;

    (void)envelope;
    fence_copies(self, outbox);
    return STATUS_OK;
}

static status_t on_exited(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    rank_t *self = arg;
    const message_exited_t *m = envelope->body;
    const pull_filter_t filter = {
        .of_orderer = true, .orderer = m->actor, .incarnation = m->incarnation};

    if (m->actor == self->leader) {
        self->maps_unasked = self->maps_running;
        for (uint32_t i = 0; i < self->orderer_count; i++)
            self->orderers[i].fencing = 0;
    }
    if (m->actor == self->leader && self->state != LOADING) {
        self->owes_join = true; /* to its next life, whose first act is a REFORM */
        self->state = JOINING;
    } else if (orderer_of(self, m->actor)) {
        drop_queued(self, &filter, STATUS_BROKEN, outbox);
        for (uint32_t i = 0; i < self->free.fresh; i++)
            if (self->pulls[i].orderer == m->actor &&
                self->pulls[i].incarnation <= m->incarnation)
                self->pulls[i].orderer_gone = true;
    }
    return STATUS_OK;
}

static status_t on_nothing(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)arg;
    (void)envelope;
    (void)outbox;
    return STATUS_OK;
}

static void plan(void *arg, outbox_t *outbox)
{
    rank_t *self = arg;
    message_rank_join_t join = {
        .rank = self->rank,
        .pool = self->device.pool,
        .pages = self->device.pages,
        .borders = self->device.borders,
        .slots = self->device.slots,
        .weights_digest = self->device.weights_digest,
        .geometry_digest = self->device.geometry_digest,
        .numerics_digest = self->device.numerics_digest,
    };

    if (!self->owes_join || !outbox_may_send(outbox, self->leader, MESSAGE_rank_join))
        return;
    join.pool.rank = self->id;
    join.pool.incarnation = self->incarnation;
    join.pool.name = (text_view_t){self->pool_name, self->pool_name_bytes};
    outbox_push(outbox, self->leader, MESSAGE_rank_join, &join);
    self->owes_join = false;
}

/* ---- tables ---------------------------------------------------------------------------------- */

#define ANY ACTOR_STATE_ANY
#define ALL_STATES (BIT(RANK_STATES) - 1)

static const actor_rule_t rules[] = {
    {ANY, MESSAGE_joined, on_joined, ALL_STATES},
    {ANY, MESSAGE_exited, on_exited, ALL_STATES},
    {ANY, MESSAGE_tick, on_nothing, ALL_STATES},
    {ANY, MESSAGE_stop, on_nothing, ALL_STATES},
    {ANY, MESSAGE_device_ready, on_device_ready, ALL_STATES},
    {JOINING, MESSAGE_rank_joined, on_rank_joined, BIT(WAITING) | BIT(JOINING)},
    {WAITING, MESSAGE_reform, on_reform, BIT(LEAVING) | BIT(WAITING)},
    {LEAVING, MESSAGE_reform, on_reform, BIT(LEAVING)},
    {STEPPING, MESSAGE_reform, on_reform, BIT(LEAVING) | BIT(STEPPING)},
    {LEAVING, MESSAGE_device_quiesced, on_device_quiesced, BIT(LEAVING) | BIT(STEPPING)},
    {STEPPING, MESSAGE_step, on_step, BIT(STEPPING)},
    {ANY, MESSAGE_step_done, on_step_done, ALL_STATES},
    {ANY, MESSAGE_pull, on_pull, ALL_STATES},
    {ANY, MESSAGE_pull_cancel, on_pull_cancel, ALL_STATES},
    {ANY, MESSAGE_device_copied, on_device_copied, ALL_STATES},
    {ANY, MESSAGE_fence_copies, on_fence_copies, ALL_STATES},
    {ANY, MESSAGE_peer_pool, on_peer_pool, ALL_STATES},
    {ANY, MESSAGE_device_mapped, on_device_mapped, ALL_STATES},
};

static const actor_refusal_t refusals[] = {
    {ANY, MESSAGE_rank_joined, "no RANK_JOIN is unanswered"},
    {LOADING, MESSAGE_reform, "the leader does not know this rank yet"},
    {JOINING, MESSAGE_reform, "the leader does not know this rank yet"},
    {ANY, MESSAGE_device_quiesced, "of an epoch whose leader has exited"},
    {ANY, MESSAGE_step, "of an epoch that this rank has left"},
};

static uint8_t state_of(const void *arg)
{
    return ((const rank_t *)arg)->state;
}

static void check(const void *arg)
{
    const rank_t *self = arg;
    uint32_t queued = 0, running = 0, listed = 0;

    ASSERT(self->seq - self->done_seq <= STEPS_IN_FLIGHT_MAX);
    for (uint32_t i = 0; i < self->free.fresh && self->pull_count > 0; i++) {
        queued += self->pulls[i].state == PULL_QUEUED;
        running += self->pulls[i].state == PULL_RUNNING;
    }
    for (uint32_t i = self->queue_first; i != NIL; i = self->pulls[i].next)
        listed++;
    ASSERT(queued == listed);
    ASSERT(running == self->running_count && running <= RANK_COPIES_MAX);
    ASSERT(queued + running == self->pull_count);
    ASSERT(queued == 0 || running == RANK_COPIES_MAX);
}

static uint64_t store_words(void)
{
    return (uint64_t)RANK_PULL_UNITS * ITEM_WORDS;
}

static size_t bytes(const actor_birth_t *birth)
{
    (void)birth;
    return sizeof(rank_t) + 64 + token_store_bytes(store_words(), RANK_PULLS_MAX);
}

static status_t init(void *arg, const actor_birth_t *birth)
{
    rank_t *self = arg;
    const topology_t *topology = birth->topology;
    const topology_actor_t *actor = &topology->actors[birth->id];

    self->id = birth->id;
    self->incarnation = birth->incarnation;
    self->leader = actor->leader;
    self->rank = actor->rank;
    for (uint16_t i = 0; i < topology->actor_count; i++) {
        if (!(ACTOR_ORDERERS & BIT(topology->actors[i].kind)))
            continue;
        ASSERT(self->orderer_count < ORDERERS_MAX);
        self->orderers[self->orderer_count++].actor = topology->actors[i].id;
    }
    self->store_offset = (sizeof(rank_t) + 63) & ~(size_t)63;
    self->queue_first = self->queue_last = NIL;
    token_store_init(store_of(self), store_words(), RANK_PULLS_MAX);
    free_list_init(&self->free, RANK_PULLS_MAX);
    return STATUS_OK;
}

const actor_type_t rank_type = {
    .kind = ACTOR_RANK,
    .state_bytes = sizeof(rank_t),
    .bytes = bytes,
    .init = init,
    .plan = plan,
    .state = state_of,
    .check = check,
    .table = {state_names, RANK_STATES, rules, COUNT_OF(rules), refusals, COUNT_OF(refusals)},
};
