/* transfer.c - pairing, order, chunking and cancelling of copies.
 *
 *      OPEN of D ──> WAITING ──first KV_READY of P──> MOVING ──all units on all ranks──> (LANDED, FENCED; NONE)
 *                       │ ABORT                          │ ABORT, a pull failed, a peer EXITED
 *                       └──> (FENCED; NONE)              └──> DRAINING ──no pull runs──> (FENCED; NONE)
 *
 * D opened the attempt with OPEN and gets one FENCED; P opened it with its first KV_READY that was
 * taken and gets one too. LANDED goes to D once, unless D itself aborted. Each rank of D has at
 * most one PULL of an attempt running, so an abort waits for at most that.
 *
 * T1  units arrive in order, piece by piece; `units` counts those known, `cursor[r] <= units`
 *     those ordered at rank r,
 *     `landed[r] <= cursor[r]` those that are there.
 * T2  `pulls_running` is the number of ranks with landed[r] < cursor[r] whose rank lives.
 * T3  no PULL leaves in DRAINING, and none before TARGETS and SOURCES of the attempt's epochs are
 *     known.
 * T4  an attempt leaves with pulls_running == 0: FENCED means that no byte moves.
 */
#include "actors/transfer/transfer.h"

#include <string.h>

#include "device/device.h"
#include "messages/message.h"
#include "runtime/base/block.h"
#include "runtime/base/token_list.h"
#include "runtime/base/free_list.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"
#include "runtime/base/plant.h"
#include "topology/topology.h"

enum { NONE, WAITING, MOVING, DRAINING, ATTEMPT_STATES };
enum { UP, TRANSFER_STATES };

static const char *const attempt_names[] = {"none", "waiting", "moving", "draining"};
static const char *const state_names[] = {"up"};

enum { NIL = 0xffffffff };

/* A unit as it stands in a token list: one record_pull_item_t in words. */
enum { UNIT_WORDS = (sizeof(record_pull_item_t) + 3) / 4, TARGET_WORDS = 3 };

typedef struct {
    uint64_t request;
    uint32_t attempt;
    uint8_t state;
    uint8_t source_known; /* P's first KV_READY was taken: it gets a FENCED */
    uint8_t last_known;
    uint8_t landed_said; /* LANDED went out, or must not */
    uint8_t prefill_gone;
    uint8_t decode_gone;
    uint8_t cancel_sent;
    uint32_t copies_failed; /* 1 + rank */
    actor_id_t prefill;
    actor_id_t decode;
    uint64_t target_epoch;
    uint64_t source_epoch;
    uint32_t slot;
    uint64_t slot_generation;
    uint32_t piece_next;
    uint32_t first_token;
    uint32_t units;
    uint32_t pages;
    uint32_t next; /* free list, or the list of live attempts in order of opening */
    uint32_t previous;
    token_list_t targets; /* TARGET_WORDS a page: page, generation low, high */
    token_list_t items;   /* UNIT_WORDS a unit */
    uint32_t cursor[RANKS_MAX];
    uint32_t landed[RANKS_MAX];
} attempt_t;

/* A group whose ranks take part: from TARGETS or SOURCES. */
typedef struct {
    actor_id_t leader;
    uint64_t epoch;      /* 0: none now */
    uint32_t rank_count; /* by the topology */
    actor_id_t ranks[RANKS_MAX];
    incarnation_t incarnations[RANKS_MAX];
} group_t;

typedef struct {
    uint8_t state;
    bool reported; /* INSTANCE went to the scheduler that lives now */
    actor_id_t scheduler;
    free_list_t free;    /* linked by next */
    uint32_t live_first; /* oldest */
    uint32_t live_last;
    uint32_t live_count;
    uint32_t group_count;
    uint64_t landed_count;
    uint64_t dropped_count;
    group_t groups[2 * INSTANCES_MAX];
    attempt_t attempts[TRANSFER_ATTEMPTS_MAX];
    size_t map_offset;
    size_t store_offset;
} transfer_t;

static token_store_t *store_of(transfer_t *self)
{
    return AT(self, token_store_t, store_offset);
}

static attempt_t *attempt_of(transfer_t *self, uint64_t request, uint32_t attempt)
{
    uint32_t index = map_get(AT(self, map_t, map_offset), request, attempt);

    return index == MAP_NONE ? NULL : &self->attempts[index];
}

static group_t *group_of(transfer_t *self, actor_id_t leader)
{
    for (uint32_t i = 0; i < self->group_count; i++)
        if (self->groups[i].leader == leader)
            return &self->groups[i];
    return NULL;
}

/* The target group if it is still in the attempt's epoch, else NULL. */
static group_t *targets_of(transfer_t *self, const attempt_t *attempt)
{
    group_t *group = group_of(self, attempt->decode);

    return group && group->epoch == attempt->target_epoch ? group : NULL;
}

static uint32_t pulls_running(transfer_t *self, const attempt_t *attempt)
{
    uint32_t running = 0;

    (void)self;
    for (uint32_t rank = 0; rank < RANKS_MAX; rank++)
        running += attempt->landed[rank] < attempt->cursor[rank];
    return running;
}

/* ---- birth and end of an attempt ------------------------------------------------------------- */

static attempt_t *attempt_take(transfer_t *self, const message_open_t *m, actor_id_t decode)
{
    uint32_t index = free_list_next(&self->free);
    attempt_t *attempt = &self->attempts[index];

    free_list_take(&self->free, attempt->next);
    *attempt = (attempt_t){
        .request = m->request,
        .attempt = m->attempt,
        .state = WAITING,
        .prefill = m->prefill,
        .decode = decode,
        .target_epoch = m->epoch,
        .slot = m->slot,
        .slot_generation = m->slot_generation,
        .pages = m->pages.count,
        .previous = self->live_last,
        .next = NIL,
    };
    token_list_init(&attempt->targets);
    token_list_init(&attempt->items);
    if (self->live_last == NIL)
        self->live_first = index;
    else
        self->attempts[self->live_last].next = index;
    self->live_last = index;
    self->live_count++;
    map_put(AT(self, map_t, map_offset), m->request, m->attempt, index);
    return attempt;
}

static void attempt_return(transfer_t *self, attempt_t *attempt)
{
    uint32_t index = (uint32_t)(attempt - self->attempts);

    ASSERT(pulls_running(self, attempt) == 0);
    map_remove(AT(self, map_t, map_offset), attempt->request, attempt->attempt);
    token_list_clear(store_of(self), &attempt->targets);
    token_list_clear(store_of(self), &attempt->items);
    if (attempt->previous == NIL)
        self->live_first = attempt->next;
    else
        self->attempts[attempt->previous].next = attempt->next;
    if (attempt->next == NIL)
        self->live_last = attempt->previous;
    else
        self->attempts[attempt->next].previous = attempt->previous;
    self->live_count--;
    attempt->state = NONE;
    attempt->next = free_list_give(&self->free, index);
}

static void push_landed(attempt_t *attempt, const char *failure, outbox_t *outbox)
{
    message_landed_t landed = {
        .request = attempt->request,
        .attempt = attempt->attempt,
        .failed = failure != NULL,
        .first_token = attempt->first_token,
        .detail = {failure ? failure : "", failure ? (uint32_t)strlen(failure) : 0},
        .copies_failed = attempt->copies_failed,
    };

    if (!attempt->landed_said && !attempt->decode_gone)
        outbox_push(outbox, attempt->decode, MESSAGE_landed, &landed);
    attempt->landed_said = 1;
}

/* No byte moves: tells both openers, once each, and forgets the attempt. */
static void fence(transfer_t *self, attempt_t *attempt, outbox_t *outbox)
{
    message_fenced_t fenced = {attempt->request, attempt->attempt};

    if (!attempt->decode_gone)
        outbox_push(outbox, attempt->decode, MESSAGE_fenced, &fenced);
    if (attempt->source_known && !attempt->prefill_gone)
        outbox_push(outbox, attempt->prefill, MESSAGE_fenced, &fenced);
    attempt_return(self, attempt);
}

/* Stops the attempt: `failure` goes to D with LANDED, NULL if D needs none. Ends it if nothing
 * runs. */
static void stop_moving(transfer_t *self, attempt_t *attempt, const char *failure, outbox_t *outbox)
{
    group_t *group = targets_of(self, attempt);
    message_pull_cancel_t cancel = {attempt->request, attempt->attempt};

    if (failure)
        push_landed(attempt, failure, outbox);
    attempt->landed_said = 1;
    attempt->state = DRAINING;
    if (PLANTED(late_write))
        memcpy(attempt->landed, attempt->cursor, sizeof(attempt->landed));
    if (pulls_running(self, attempt) == 0) {
        fence(self, attempt, outbox);
        return;
    }
    for (uint32_t rank = 0; group && !attempt->cancel_sent && rank < group->rank_count; rank++)
        if (attempt->landed[rank] < attempt->cursor[rank] &&
            outbox_is_up(outbox, group->ranks[rank]))
            outbox_push(outbox, group->ranks[rank], MESSAGE_pull_cancel, &cancel);
    attempt->cancel_sent = 1;
}

static void finish_if_landed(transfer_t *self, attempt_t *attempt, outbox_t *outbox)
{
    const group_t *group = targets_of(self, attempt);

    if (attempt->state != MOVING || !attempt->last_known || !group)
        return;
    for (uint32_t rank = 0; rank < group->rank_count; rank++)
        if (attempt->landed[rank] < attempt->units)
            return;
    push_landed(attempt, NULL, outbox);
    self->landed_count++;
    fence(self, attempt, outbox);
}

/* ---- D --------------------------------------------------------------------------------------- */

static status_t on_open(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    transfer_t *self = arg;
    const message_open_t *m = envelope->body;
    message_opened_t opened = {m->request, m->attempt};
    message_fenced_t fenced = {m->request, m->attempt};
    attempt_t *attempt;
    token_list_t none;

    token_list_init(&none);
    if (m->pages.count != m->generations.count)
        return FAIL(STATUS_UNEXPECTED, "%u pages but %u generations", m->pages.count,
                    m->generations.count);
    if (free_list_is_empty(&self->free) ||
        !token_list_room(store_of(self), &none, m->pages.count * TARGET_WORDS)) {
        message_landed_t landed = {.request = m->request, .attempt = m->attempt, .failed = 1};

        landed.detail = (text_view_t){"the transfer is full", 20};
        outbox_push(outbox, envelope->from, MESSAGE_landed, &landed);
        outbox_push(outbox, envelope->from, MESSAGE_fenced, &fenced);
        return STATUS_OK;
    }
    attempt = attempt_take(self, m, envelope->from);
    for (uint32_t i = 0; i < m->pages.count; i++) {
        uint64_t generation = m->generations.data[i];
        uint32_t words[TARGET_WORDS] = {m->pages.data[i], (uint32_t)generation,
                                        (uint32_t)(generation >> 32)};

        token_list_append(store_of(self), &attempt->targets, words, TARGET_WORDS);
    }
    outbox_push(outbox, envelope->from, MESSAGE_opened, &opened);
    return STATUS_OK;
}

static status_t on_abort(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    transfer_t *self = arg;
    const message_abort_t *m = envelope->body;
    attempt_t *attempt = attempt_of(self, m->request, m->attempt);

    if (envelope->from != attempt->decode && envelope->from != attempt->prefill)
        return FAIL(STATUS_UNEXPECTED, "ABORT from %u, which opened nothing", envelope->from);
    /* D knows that it aborted; if P did, D is told by LANDED that nothing will come. */
    stop_moving(self, attempt, envelope->from == attempt->decode ? NULL : "prefill aborted it",
                outbox);
    return STATUS_OK;
}

/* ---- P --------------------------------------------------------------------------------------- */

static void push_kv_answer(const message_kv_ready_t *m, actor_id_t to, bool taken, outbox_t *outbox)
{
    message_kv_answer_t answer = {m->request, m->attempt, m->piece, taken};

    outbox_push(outbox, to, MESSAGE_kv_answer, &answer);
}

static const char *reason_to_refuse(transfer_t *self, const attempt_t *attempt,
                                    const message_kv_ready_t *m, actor_id_t from)
{
    uint32_t slots = m->last ? 1 : 0;

    if (from != attempt->prefill)
        return "KV_READY from another prefill leader than the one that OPEN named";
    if (m->piece != attempt->piece_next || attempt->last_known)
        return "pieces come in order, and none after the last";
    if (attempt->source_known && m->source_epoch != attempt->source_epoch)
        return "pieces of one attempt are of one epoch";
    for (uint32_t i = 0; i < m->units.count; i++)
        if (m->units.data[i].unit !=
            (m->last && i + 1 == m->units.count ? UNIT_SLOT : UNIT_HISTORY))
            return "a piece is history pages, and behind the last one the slot";
    if (m->units.count < slots || m->first_page > attempt->pages ||
        m->units.count - slots > attempt->pages - m->first_page)
        return "no slot in the last piece, or more pages than OPEN has room for";
    if (!token_list_room(store_of(self), &attempt->items, m->units.count * UNIT_WORDS))
        return "the transfer is full";
    return NULL;
}

static void append_unit(transfer_t *self, attempt_t *attempt, const record_unit_t *unit,
                        uint32_t page)
{
    uint32_t words[UNIT_WORDS];
    record_pull_item_t item;

    memset(&item, 0, sizeof(item));
    item.unit = unit->unit;
    item.source = unit->index;
    item.source_generation = unit->generation;
    item.rows = unit->rows;
    item.digest = unit->digest;
    if (unit->unit == UNIT_HISTORY) {
        uint32_t target[TARGET_WORDS];

        token_list_read(store_of(self), &attempt->targets, page * TARGET_WORDS, TARGET_WORDS,
                        target);
        item.target = target[0];
        item.target_generation = (uint64_t)target[2] << 32 | target[1];
    } else {
        item.target = attempt->slot;
        item.target_generation = attempt->slot_generation;
    }
    memset(words, 0, sizeof(words));
    memcpy(words, &item, sizeof(item));
    token_list_append(store_of(self), &attempt->items, words, UNIT_WORDS);
    attempt->units++;
}

static status_t on_kv_ready(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    transfer_t *self = arg;
    const message_kv_ready_t *m = envelope->body;
    attempt_t *attempt = attempt_of(self, m->request, m->attempt);
    const char *refusal = reason_to_refuse(self, attempt, m, envelope->from);

    if (refusal) {
        push_kv_answer(m, envelope->from, false, outbox);
        stop_moving(self, attempt, refusal, outbox);
        return FAIL(STATUS_UNEXPECTED, "%s", refusal);
    }
    for (uint32_t i = 0; i < m->units.count; i++)
        append_unit(self, attempt, &m->units.data[i], m->first_page + i);
    attempt->source_known = 1;
    attempt->source_epoch = m->source_epoch;
    attempt->piece_next++;
    attempt->last_known = m->last;
    attempt->first_token = m->first_token;
    attempt->state = MOVING;
    push_kv_answer(m, envelope->from, true, outbox);
    return STATUS_OK;
}

static status_t on_kv_ready_dropped(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    transfer_t *self = arg;

    self->dropped_count++;
    push_kv_answer(envelope->body, envelope->from, false, outbox);
    return STATUS_OK;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

static status_t on_pulled(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    transfer_t *self = arg;
    const message_pulled_t *m = envelope->body;
    attempt_t *attempt = attempt_of(self, m->request, m->attempt);
    uint32_t rank = (uint32_t)m->copy; /* as we named it: cursor << 32 | rank */
    const group_t *group = group_of(self, attempt->decode);

    if (!group || rank >= group->rank_count || group->ranks[rank] != envelope->from ||
        attempt->cursor[rank] != m->copy >> 32 || attempt->landed[rank] >= attempt->cursor[rank])
        return FAIL(STATUS_UNEXPECTED, "PULLED names copy %llx, which is not running",
                    (unsigned long long)m->copy);
    attempt->landed[rank] = attempt->cursor[rank];
    if (attempt->state == DRAINING) {
        if (pulls_running(self, attempt) == 0)
            fence(self, attempt, outbox);
    } else if (m->status != STATUS_OK) {
        char failure[REASON_BYTES_MAX];

        snprintf(failure, sizeof(failure), "rank %u: item %u: %s", rank, m->failed_item,
                 m->status < STATUS_COUNT ? status_text((status_t)m->status) : "unknown status");
        attempt->copies_failed = m->status == STATUS_REFUSED ? 0 : rank + 1;
        stop_moving(self, attempt, failure, outbox);
    } else {
        finish_if_landed(self, attempt, outbox);
    }
    return STATUS_OK;
}

/* A group's ranks as of its newest epoch. What was pulled in an older one is over: those ranks
 * quiesced or exited, so none of their copies runs any more. */
static status_t on_group(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    transfer_t *self = arg;
    const message_targets_t *m = envelope->body; /* SOURCES has the same shape */
    group_t *group = group_of(self, envelope->from);

    if (!group)
        return FAIL(STATUS_UNEXPECTED, "actor %u leads no group of this topology", envelope->from);
    if (m->pools.count != group->rank_count)
        return FAIL(STATUS_UNEXPECTED, "%u ranks of actor %u, which leads %u", m->pools.count,
                    envelope->from, group->rank_count);
    group->epoch = m->epoch;
    for (uint32_t i = 0; i < m->pools.count; i++) {
        group->ranks[i] = m->pools.data[i].rank;
        group->incarnations[i] = m->pools.data[i].incarnation;
    }
    for (uint32_t i = self->live_first, next; i != NIL; i = next) {
        attempt_t *attempt = &self->attempts[i];

        next = attempt->next;
        if (attempt->decode == group->leader && m->epoch > attempt->target_epoch) {
            memcpy(attempt->landed, attempt->cursor, sizeof(attempt->landed));
            stop_moving(self, attempt, "the decode group has a new epoch", outbox);
        } else if (attempt->prefill == group->leader && attempt->source_known &&
                   attempt->state == MOVING && m->epoch > attempt->source_epoch) {
            stop_moving(self, attempt, "the prefill group has a new epoch", outbox);
        }
    }
    return STATUS_OK;
}

static status_t on_exited(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    transfer_t *self = arg;
    const message_exited_t *m = envelope->body;
    group_t *gone = group_of(self, m->actor);

    for (uint32_t i = self->live_first, next; i != NIL; i = next) {
        attempt_t *attempt = &self->attempts[i];
        group_t *targets = targets_of(self, attempt);
        const char *failure = NULL;

        next = attempt->next;
        if (attempt->prefill == m->actor) {
            attempt->prefill_gone = 1;
            failure = "the prefill leader exited";
        }
        if (attempt->decode == m->actor) {
            attempt->decode_gone = 1;
            failure = "the decode leader exited";
        }
        for (uint32_t rank = 0; targets && rank < targets->rank_count; rank++) {
            if (targets->ranks[rank] != m->actor)
                continue;
            if (targets->incarnations[rank] == m->incarnation) {
                attempt->landed[rank] = attempt->cursor[rank]; /* the dead write nothing */
                failure = "a decode rank exited";
            } else if (targets->incarnations[rank] > m->incarnation) {
                /* The group has its next life already; what was ordered went to this one, and is
                 * ordered again. */
                attempt->cursor[rank] = attempt->landed[rank];
            }
        }
        if (failure && attempt->state != DRAINING)
            stop_moving(self, attempt, failure, outbox);
        else if (attempt->state == DRAINING && pulls_running(self, attempt) == 0)
            fence(self, attempt, outbox);
    }
    if (gone)
        gone->epoch = 0;
    return STATUS_OK;
}

static status_t on_joined(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    transfer_t *self = arg;
    const message_joined_t *m = envelope->body;

    (void)outbox;
    if (m->actor == self->scheduler)
        self->reported = false;
    return STATUS_OK;
}

static status_t on_nothing(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    (void)arg;
    (void)envelope;
    (void)outbox;
    return STATUS_OK;
}

/* ---- planner --------------------------------------------------------------------------------- */

static void push_pull(transfer_t *self, attempt_t *attempt, const group_t *targets,
                      const group_t *sources, uint32_t rank, outbox_t *outbox)
{
    record_pull_item_t items[TRANSFER_PULL_UNITS_MAX];
    uint32_t source = rank % sources->rank_count;
    uint32_t count = attempt->units - attempt->cursor[rank];
    message_pull_t pull = {.request = attempt->request, .attempt = attempt->attempt};

    if (count > TRANSFER_PULL_UNITS_MAX)
        count = TRANSFER_PULL_UNITS_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t words[UNIT_WORDS];

        token_list_read(store_of(self), &attempt->items, (attempt->cursor[rank] + i) * UNIT_WORDS,
                        UNIT_WORDS, words);
        memcpy(&items[i], words, sizeof(items[i]));
    }
    attempt->cursor[rank] += count;
    pull.copy = (uint64_t)attempt->cursor[rank] << 32 | rank;
    pull.source = sources->ranks[source];
    pull.source_incarnation = sources->incarnations[source];
    pull.epoch = targets->epoch;
    pull.items.data = items;
    pull.items.count = count;
    outbox_push(outbox, targets->ranks[rank], MESSAGE_pull, &pull);
}

/* The scheduler names only transfers that it hears of. */
static void plan_report(transfer_t *self, outbox_t *outbox)
{
    message_instance_t now = {.ready = 1, .running = self->live_count};

    if (self->reported || !outbox_may_send(outbox, self->scheduler, MESSAGE_instance))
        return;
    outbox_push(outbox, self->scheduler, MESSAGE_instance, &now);
    self->reported = true;
}

static void plan(void *arg, outbox_t *outbox)
{
    transfer_t *self = arg;

    plan_report(self, outbox);
    for (uint32_t i = self->live_first; i != NIL; i = self->attempts[i].next) {
        attempt_t *attempt = &self->attempts[i];
        group_t *targets = targets_of(self, attempt);
        group_t *sources = group_of(self, attempt->prefill);

        if (attempt->state != MOVING || !targets || !sources ||
            sources->epoch != attempt->source_epoch)
            continue;
        for (uint32_t rank = 0; rank < targets->rank_count; rank++)
            if (attempt->cursor[rank] < attempt->units &&
                attempt->landed[rank] == attempt->cursor[rank] &&
                outbox_may_send(outbox, targets->ranks[rank], MESSAGE_pull))
                push_pull(self, attempt, targets, sources, rank, outbox);
    }
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const actor_rule_t rules[] = {
    {UP, MESSAGE_joined, on_joined, BIT(UP)}, {UP, MESSAGE_exited, on_exited, BIT(UP)},
    {UP, MESSAGE_tick, on_nothing, BIT(UP)},  {UP, MESSAGE_stop, on_nothing, BIT(UP)},
    {UP, MESSAGE_targets, on_group, BIT(UP)}, {UP, MESSAGE_sources, on_group, BIT(UP)},
};

static const actor_rule_t attempt_rules[] = {
    {NONE, MESSAGE_open, on_open, BIT(WAITING) | BIT(NONE)},
    {WAITING, MESSAGE_abort, on_abort, BIT(NONE) | BIT(WAITING)},
    {MOVING, MESSAGE_abort, on_abort, BIT(DRAINING) | BIT(NONE) | BIT(MOVING)},
    {DRAINING, MESSAGE_abort, on_abort, BIT(DRAINING)},
    {WAITING, MESSAGE_kv_ready, on_kv_ready, BIT(MOVING) | BIT(NONE)},
    {MOVING, MESSAGE_kv_ready, on_kv_ready, BIT(MOVING) | BIT(DRAINING) | BIT(NONE)},
    {DRAINING, MESSAGE_kv_ready, on_kv_ready_dropped, BIT(DRAINING)},
    {NONE, MESSAGE_kv_ready, on_kv_ready_dropped, BIT(NONE)},
    {MOVING, MESSAGE_pulled, on_pulled, BIT(MOVING) | BIT(DRAINING) | BIT(NONE)},
    {DRAINING, MESSAGE_pulled, on_pulled, BIT(DRAINING) | BIT(NONE)},
};

static const actor_refusal_t attempt_refusals[] = {
    {ACTOR_STATE_ANY, MESSAGE_open, "it is open already"},
    {NONE, MESSAGE_abort, "it has ended here before"},
    {NONE, MESSAGE_pulled, "it ended with that rank's epoch"},
    {WAITING, MESSAGE_pulled, "no pull was ordered"},
};

static uint8_t state_of(const void *arg)
{
    return ((const transfer_t *)arg)->state;
}

static uint8_t attempt_state_of(const void *arg, uint64_t request, uint32_t attempt)
{
    const transfer_t *self = arg;
    uint32_t index = map_get(AT_CONST(self, map_t, map_offset), request, attempt);

    return index == MAP_NONE ? NONE : self->attempts[index].state;
}

static uint32_t attempt_count_of(const void *arg)
{
    const transfer_t *self = arg;

    return self->live_count;
}

/* The oldest hand-over under way speaks for all: which ranks have not answered their PULL. */
static uint32_t waits_of(const void *arg, actor_wait_t waits[ACTOR_WAITS_MAX])
{
    const transfer_t *self = arg;
    const attempt_t *attempt = NULL;
    uint64_t whom = 0;

    for (uint32_t i = self->live_first; i != NIL && !whom; i = attempt->next) {
        attempt = &self->attempts[i];
        for (uint32_t rank = 0; rank < RANKS_MAX && attempt->state >= MOVING; rank++)
            whom |= (uint64_t)(attempt->landed[rank] < attempt->cursor[rank]) << rank;
    }
    if (!whom)
        return 0;
    waits[0] = (actor_wait_t){.message = MESSAGE_pulled,
                              .number = attempt->request,
                              .first = (actor_id_t)(attempt->decode + 1),
                              .whom = whom};
    return 1;
}

uint32_t transfer_live(const void *arg)
{
    return ((const transfer_t *)arg)->live_count;
}

static void check(const void *arg)
{
    const transfer_t *self = arg;
    uint32_t live = 0;

    for (uint32_t i = self->live_first; i != NIL; i = self->attempts[i].next) {
        const attempt_t *attempt = &self->attempts[i];

        live++;
        ASSERT(attempt->state != NONE);
        ASSERT(attempt->items.count == attempt->units * UNIT_WORDS);
        ASSERT((attempt->state == WAITING) == (attempt->units == 0 && !attempt->source_known) ||
               attempt->state == DRAINING);
        for (uint32_t rank = 0; rank < RANKS_MAX; rank++) {
            ASSERT(attempt->cursor[rank] <= attempt->units);
            ASSERT(attempt->landed[rank] <= attempt->cursor[rank]);
        }
    }
    ASSERT(live == self->live_count);
    ASSERT(AT_CONST(self, map_t, map_offset)->count == live);
}

/* ---- birth ----------------------------------------------------------------------------------- */

static uint64_t store_words(void)
{
    return (uint64_t)TRANSFER_UNITS * (UNIT_WORDS + TARGET_WORDS);
}

static size_t bytes(const actor_birth_t *birth)
{
    (void)birth;
    return sizeof(transfer_t) + map_bytes(TRANSFER_ATTEMPTS_MAX) +
           token_store_bytes(store_words(), 2 * TRANSFER_ATTEMPTS_MAX);
}

static void add_group(transfer_t *self, const topology_t *topology, actor_kind_t kind,
                      uint16_t instance)
{
    self->groups[self->group_count++] =
        (group_t){.leader = topology_actor(topology, kind, instance)->id,
                  .rank_count = topology_group(topology, kind, instance)->tp};
}

static status_t init(void *arg, const actor_birth_t *birth)
{
    transfer_t *self = arg;
    const topology_t *topology = birth->topology;

    self->map_offset = sizeof(*self);
    self->store_offset = self->map_offset + map_bytes(TRANSFER_ATTEMPTS_MAX);
    map_init(AT(self, map_t, map_offset), TRANSFER_ATTEMPTS_MAX);
    token_store_init(store_of(self), store_words(), 2 * TRANSFER_ATTEMPTS_MAX);
    self->scheduler = topology_actor(topology, ACTOR_SCHEDULER, 0)->id;
    self->live_first = self->live_last = NIL;
    free_list_init(&self->free, TRANSFER_ATTEMPTS_MAX);
    for (uint16_t i = 0; i < topology->prefill_count; i++)
        add_group(self, topology, ACTOR_PREFILL, i);
    for (uint16_t i = 0; i < topology->decode_count; i++)
        add_group(self, topology, ACTOR_DECODE, i);
    return STATUS_OK;
}

const actor_type_t transfer_type = {
    .kind = ACTOR_TRANSFER,
    .state_bytes = sizeof(transfer_t),
    .bytes = bytes,
    .init = init,
    .plan = plan,
    .state = state_of,
    .attempt_state = attempt_state_of,
    .attempt_count = attempt_count_of,
    .waits = waits_of,
    .check = check,
    .table = {state_names, TRANSFER_STATES, rules, COUNT_OF(rules), NULL, 0},
    .attempts = {attempt_names, ATTEMPT_STATES, attempt_rules, COUNT_OF(attempt_rules),
                 attempt_refusals, COUNT_OF(attempt_refusals)},
};
