/* decode.c - handlers and tables of the decode leader; attempt.h says how an attempt lives. */
#include "actors/decode/decode.h"

#include <stdio.h>
#include <string.h>

#include "actors/decode/attempt.h"
#include "runtime/base/log.h"
#include "runtime/base/plant.h"

enum { FAILING_MS = 1000 };

static source_t *source_of(decode_t *self, actor_id_t leader)
{
    for (uint32_t i = 0; i < self->source_count; i++) {
        if (self->sources[i].leader == leader)
            return &self->sources[i];
    }
    return NULL;
}

/* ---- the group ------------------------------------------------------------------------------- */

static void source_reset(source_t *source)
{
    source->asked = source->mapped = 0;
    source->state = PAIR_UNTESTED;
    source->reason[0] = '\0';
    source->refused = source->refused_incarnation = 0;
    source->failing_ms = 0;
}

static void lose_epoch(void *arg)
{
    decode_t *self = arg;

    for (uint32_t i = 0; i < self->source_count; i++)
        source_reset(&self->sources[i]);
}

static void finish_step(void *arg, const group_step_t *step, outbox_t *outbox)
{
    decode_t *self = arg;
    const group_item_t *items = group_items(group_of(self), step);
    const group_token_t *tokens = group_tokens(group_of(self), step);

    for (uint32_t i = 0; i < step->token_count; i++) {
        attempt_t *attempt = &attempts_of(self)[items[tokens[i].item].attempt];

        if (attempt->base.state == RUNNING)
            decode_token(self, attempt, &tokens[i], outbox);
    }
}

/* ---- sources --------------------------------------------------------------------------------- */

static status_t on_pools(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    decode_t *self = arg;
    const message_pools_t *m = envelope->body;
    source_t *source = source_of(self, envelope->from);

    (void)outbox;
    if (!source || (m->epoch != 0 && m->pools.count == 0))
        return FAIL(STATUS_UNEXPECTED, "POOLS from %u with %u pools", envelope->from,
                    m->pools.count);
    source_reset(source);
    source->epoch = m->epoch;
    source->weights_digest = m->weights_digest;
    source->pool_count = m->pools.count;
    for (uint32_t i = 0; i < m->pools.count; i++) {
        source->pools[i] = m->pools.data[i];
        if (m->pools.data[i].name.count > 0)
            memcpy(source->names[i], m->pools.data[i].name.data, m->pools.data[i].name.count);
        source->pools[i].name.data = NULL; /* set again when it is sent */
    }
    return STATUS_OK;
}

/* No pages come this way until one of the two ranks has another life: the one whose pool is not what
 * it must be, of which its leader hears, or `own`. Where that did not help, it is the other one. */
static void refuse(decode_t *self, source_t *source, uint32_t rank, bool own, text_view_t reason,
                   outbox_t *outbox)
{
    const record_pool_t *pool = &source->pools[rank % source->pool_count];
    group_t *group = group_of(self);

    own = own || source->own_next;
    source->own_next = !own;
    source->state = PAIR_REFUSED;
    snprintf(source->reason, sizeof(source->reason), "%.*s", (int)reason.count, reason.data);
    LOG(ERROR, "DECODE-PAIR-REFUSED rank=%u source=%u own=%u reason=\"%s\"", rank, pool->rank, own,
        source->reason);
    if (own) {
        group_kill(group, rank, group->ranks[rank].incarnation, reason, outbox);
        return;
    }
    source->refused = pool->rank - source->leader - 1u;
    source->refused_incarnation = pool->incarnation;
}

/* One copy fails where a group has just got a new epoch. Where for a while none lands, memory of one
 * of the two ranks holds what it must not, and every replay would meet that again. */
static void count_failed_copies(decode_t *self, source_t *source, const message_landed_t *m,
                                outbox_t *outbox)
{
    const group_t *group = group_of(self);
    uint32_t rank = m->copies_failed - 1;

    if (!source || source->state != PAIR_OK || rank >= group->rank_count)
        return;
    if (source->failing_ms == 0)
        source->failing_ms = group->now_ms + 1;
    else if (group->now_ms >= source->failing_ms + FAILING_MS)
        refuse(self, source, rank, false, m->detail, outbox);
}

/* Files that somebody replaced are loaded by whoever starts anew. No pages go between two models: ranks
 * of this group start again, as often as they may. */
static void judge_weights(decode_t *self, source_t *source, outbox_t *outbox)
{
    char reason[REASON_BYTES_MAX];
    uint64_t mine = group_of(self)->weights_digest;

    if (source->weights_digest == mine) {
        source->state = PAIR_OK;
        self->leader.came_free++;
        return;
    }
    snprintf(reason, sizeof(reason), "weights digest: its group has %llx, this one has %llx",
             (unsigned long long)source->weights_digest, (unsigned long long)mine);
    refuse(self, source, 0, true, (text_view_t){reason, (uint32_t)strlen(reason)}, outbox);
}

static status_t on_peer_mapped(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    decode_t *self = arg;
    const message_peer_mapped_t *m = envelope->body;
    group_t *group = group_of(self);
    uint32_t rank = group_rank_of(group, envelope->from);
    source_t *source = NULL;

    for (uint32_t i = 0; i < self->source_count && rank != UINT32_MAX; i++) {
        source_t *one = &self->sources[i];

        if (one->epoch != 0 && (one->asked & UINT64_C(1) << rank) &&
            one->pools[rank % one->pool_count].rank == m->rank &&
            one->pools[rank % one->pool_count].incarnation == m->incarnation)
            source = one;
    }
    if (!source)
        return STATUS_OK; /* of an earlier life of that pool */
    if (m->status != STATUS_OK) {
        refuse(self, source, rank,
               m->status >= STATUS_COUNT || status_class((status_t)m->status) == CLASS_ENGINE,
               m->reason, outbox);
        return STATUS_OK;
    }
    source->mapped |= UINT64_C(1) << rank;
    if (source->state == PAIR_UNTESTED && source->mapped == group_all_ranks(group))
        judge_weights(self, source, outbox);
    return STATUS_OK;
}

/* No copy of an exited transfer runs at this rank any more. */
static status_t on_copies_fenced(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    decode_t *self = arg;
    const message_copies_fenced_t *m = envelope->body;
    uint32_t rank = group_rank_of(group_of(self), envelope->from);
    attempt_t *all = attempts_of(self);

    if (rank == UINT32_MAX || leader_transfer(&self->leader, m->actor) == UINT32_MAX)
        return FAIL(STATUS_UNEXPECTED, "COPIES_FENCED of actor %u from %u", m->actor,
                    envelope->from);
    for (uint32_t i = self->leader.live.first; i != NIL; i = all[i].base.link.next) {
        if (all[i].base.transfer != m->actor || all[i].copies_life > m->incarnation ||
            all[i].copies == 0)
            continue;
        all[i].copies &= ~(UINT64_C(1) << rank);
        if (all[i].copies == 0)
            leader_wait_over(self, &all[i].base, WAITS_TRANSFER);
    }
    leader_settle_all(self, &decode_leader, outbox);
    return STATUS_OK;
}

/* ---- an attempt ------------------------------------------------------------------------------ */

static const char *reason_to_refuse(const decode_t *self, const message_reserve_t *m)
{
    uint64_t total = (uint64_t)m->prompt_tokens + m->limits.output_tokens_max;
    const group_t *group = AT_CONST(&self->leader, group_t, group_offset);

    if (m->prompt_tokens == 0 || m->limits.output_tokens_max == 0)
        return "prompt and answer have at least one token";
    if (total > self->leader.context_tokens || tokens_pages((uint32_t)total) > group->pages - 1)
        return "prompt and answer need more pages than this group has";
    if (m->forced.count > m->limits.output_tokens_max)
        return "more tokens are forced than the answer may have";
    if (m->penalty_prompt.count > m->prompt_tokens)
        return "the prompt for penalties is longer than the prompt";
    if (m->transfer == ACTOR_NONE)
        return "it names no transfer";
    if (m->sampling.bias_tokens.count != m->sampling.bias_values.count)
        return "each biased token needs one value";
    return NULL;
}

static void refuse_reserve(decode_t *self, const message_reserve_t *m, actor_id_t to,
                           end_reason_t reason, const char *detail, outbox_t *outbox)
{
    message_end_t end = {.request = m->request, .attempt = m->attempt, .reason = (uint8_t)reason};

    end.token_count = m->forced.count;
    end.detail = (text_view_t){detail, (uint32_t)strlen(detail)};
    leader_refuse(self, to, &end, outbox);
}

static status_t on_reserve(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    decode_t *self = arg;
    const message_reserve_t *m = envelope->body;
    source_t *source = source_of(self, envelope->from);
    message_busy_t busy = {m->request, m->attempt};
    const char *refusal = reason_to_refuse(self, m);

    if (!source)
        return FAIL(STATUS_UNEXPECTED, "RESERVE from %u, no prefill leader", envelope->from);
    if (!leader_is_gateway(&self->leader, m->gateway))
        return FAIL(STATUS_UNEXPECTED, "RESERVE for actor %u, no gateway", m->gateway);
    if (refusal) {
        refuse_reserve(self, m, envelope->from, END_REFUSED, refusal, outbox);
        return STATUS_OK;
    }
    if (group_of(self)->drains) {
        refuse_reserve(self, m, envelope->from, END_LOST, "this decode group leaves", outbox);
        return STATUS_OK;
    }
    if (!outbox_is_up(outbox, m->gateway) || decode_obstacle(self, m, source) != NULL) {
        source->room_owed = true;
        source->room_after = self->leader.came_free;
        outbox_push(outbox, envelope->from, MESSAGE_busy, &busy);
        return STATUS_OK;
    }
    decode_open(self, m, envelope->from);
    if (PLANTED(early_reserved))
        outbox_push(outbox, envelope->from, MESSAGE_reserved,
                    &(message_reserved_t){m->request, m->attempt});
    return STATUS_OK;
}

/* The reason goes on: where prefill lost the attempt just as it was handed over, the gateway must
 * hear LOST, or it would take an ABORTED for its client's. */
static status_t on_abort(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    decode_t *self = arg;
    const message_abort_t *m = envelope->body;
    attempt_t *attempt = decode_find(self, m->request, m->attempt);

    if (m->reason >= END_REASON_COUNT)
        return FAIL(STATUS_UNEXPECTED, "ABORT for reason %u, which is none", m->reason);
    if (envelope->from != attempt->prefill && envelope->from != attempt->base.gateway)
        return FAIL(STATUS_UNEXPECTED, "ABORT from %u, which did not open it", envelope->from);
    decode_end(self, attempt, (end_reason_t)m->reason, "", outbox);
    return STATUS_OK;
}

static status_t on_opened(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    decode_t *self = arg;
    const message_opened_t *m = envelope->body;
    attempt_t *attempt = decode_find(self, m->request, m->attempt);
    message_reserved_t reserved = {m->request, m->attempt};

    if (envelope->from != attempt->base.transfer)
        return FAIL(STATUS_UNEXPECTED, "OPENED from %u", envelope->from);
    leader_become(self, &attempt->base, LANDING);
    if (outbox_is_up(outbox, attempt->prefill))
        outbox_push(outbox, attempt->prefill, MESSAGE_reserved, &reserved);
    return STATUS_OK;
}

/* All of the prompt is on all ranks: decode owns it from here on. */
static void start_running(decode_t *self, attempt_t *attempt, uint32_t first_token,
                          outbox_t *outbox)
{
    message_running_t running = {attempt->base.request, attempt->base.number};

    if (attempt->given.count == 0) {
        token_list_append(store_of(self), &attempt->given, &first_token, 1);
        attempt->known = 1;
    }
    attempt->planned = attempt->first = attempt->sent = attempt->acked = attempt->known;
    leader_become(self, &attempt->base, RUNNING);
    attempt->handed = true;
    attempt->opener_gone = attempt->base.gateway_gone;
    if (outbox_is_up(outbox, attempt->prefill))
        outbox_push(outbox, attempt->prefill, MESSAGE_running, &running);
    if (attempt->base.gateway_gone)
        decode_end(self, attempt, END_ABORTED, "the gateway is gone", outbox);
    else if (attempt->known >= attempt->base.parameters.limits.output_tokens_max)
        decode_end(self, attempt, END_LENGTH, "", outbox);
}

static status_t on_landed(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    decode_t *self = arg;
    const message_landed_t *m = envelope->body;
    attempt_t *attempt = decode_find(self, m->request, m->attempt);
    source_t *source = source_of(self, attempt->prefill);
    uint32_t forced = m->first_token;

    if (envelope->from != attempt->base.transfer)
        return FAIL(STATUS_UNEXPECTED, "LANDED from %u", envelope->from);
    if (m->failed) {
        char detail[REASON_BYTES_MAX];

        snprintf(detail, sizeof(detail), "%.*s", (int)m->detail.count, m->detail.data);
        count_failed_copies(self, source, m, outbox);
        decode_end(self, attempt, END_LOST, detail, outbox);
        return STATUS_OK;
    }
    if (source) {
        source->failing_ms = 0;
        source->own_next = false;
    }
    if (attempt->given.count > 0)
        token_list_read(store_of(self), &attempt->given, 0, 1, &forced);
    if (forced != m->first_token) {
        self->leader.counts.differing++;
        LOG(ERROR, "DECODE-REPLAY-DIFFERS request=%016llx attempt=%u",
            (unsigned long long)m->request, m->attempt);
        decode_end(self, attempt, END_REFUSED, "the replayed answer differs", outbox);
        return STATUS_OK;
    }
    start_running(self, attempt, m->first_token, outbox);
    return STATUS_OK;
}

static status_t on_landed_early(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    const message_landed_t *m = envelope->body;

    if (!m->failed)
        return FAIL(STATUS_UNEXPECTED, "LANDED before OPENED");
    return on_landed(arg, envelope, outbox);
}

static status_t on_fenced(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    decode_t *self = arg;
    const message_fenced_t *m = envelope->body;
    attempt_t *attempt = decode_find(self, m->request, m->attempt);

    if (envelope->from != attempt->base.transfer)
        return FAIL(STATUS_UNEXPECTED, "FENCED from %u", envelope->from);
    leader_wait_over(self, &attempt->base, WAITS_TRANSFER);
    if (attempt->base.state == ENDING)
        decode_settle(self, attempt, outbox);
    else if (attempt->base.state != RUNNING) /* LANDED would have come before */
        decode_end(self, attempt, END_LOST, "the transfer dropped it", outbox);
    return STATUS_OK;
}

/* ---- peers and time -------------------------------------------------------------------------- */

static status_t on_joined(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    decode_t *self = arg;
    const message_joined_t *m = envelope->body;
    source_t *source = source_of(self, m->actor);

    (void)outbox;
    leader_joined(self, envelope);
    if (source)
        source->said_any = false;
    self->leader.came_free++; /* a gateway's attempts can be taken from now on */
    return STATUS_OK;
}

static uint64_t joined_ranks(decode_t *self)
{
    const group_t *group = group_of(self);
    uint64_t ranks = 0;

    for (uint32_t i = 0; i < group->rank_count; i++) {
        if (group->ranks[i].incarnation != 0)
            ranks |= UINT64_C(1) << i;
    }
    return ranks;
}

static void lose_opener(decode_t *self, attempt_t *attempt, actor_id_t actor, outbox_t *outbox)
{
    if (attempt->base.gateway == actor) {
        attempt->base.gateway_gone = true;
        leader_wait_over(self, &attempt->base, WAITS_TOKEN_ACK);
    }
    if ((attempt->handed ? attempt->base.gateway : attempt->prefill) != actor)
        return;
    attempt->opener_gone = true;
    if (attempt->base.state == ENDING)
        decode_settle(self, attempt, outbox);
    else
        decode_end(self, attempt, END_ABORTED, "its opener is gone", outbox);
}

static void lose_transfer(decode_t *self, attempt_t *attempt, const message_exited_t *m,
                          outbox_t *outbox)
{
    if (attempt->base.transfer != m->actor)
        return;
    /* Copies of an older epoch are over when its ranks have left it. */
    if (attempt->base.waits & WAITS_TRANSFER && attempt->copies == 0) {
        attempt->copies = attempt->epoch == group_of(self)->epoch ? joined_ranks(self) : 0;
        if (attempt->copies == 0)
            leader_wait_over(self, &attempt->base, WAITS_TRANSFER);
    }
    attempt->copies_life = m->incarnation;
    if (attempt->base.state == OPENING || attempt->base.state == LANDING)
        decode_end(self, attempt, END_LOST, "the transfer exited", outbox);
    else if (attempt->base.state == ENDING)
        decode_settle(self, attempt, outbox);
}

static status_t on_exited(void *arg, const envelope_t *envelope, outbox_t *outbox)
{
    decode_t *self = arg;
    const message_exited_t *m = envelope->body;
    attempt_t *all = attempts_of(self);
    source_t *source = source_of(self, m->actor);
    uint32_t transfer = leader_transfer(&self->leader, m->actor);

    leader_exited(self, &decode_leader, envelope, outbox);
    for (uint32_t i = self->leader.live.first, next; i != NIL; i = next) {
        bool is_transfer = all[i].base.transfer == m->actor;

        next = all[i].base.link.next;
        if (is_transfer)
            lose_transfer(self, &all[i], m, outbox);
        else
            lose_opener(self, &all[i], m->actor, outbox);
    }
    if (transfer != UINT32_MAX)
        self->fences[transfer] = (fence_t){m->incarnation, joined_ranks(self)};
    if (source) {
        source_reset(source);
        source->epoch = 0;
        source->room_owed = false;
        source->said_any = false;
    }
    return STATUS_OK;
}

/* ---- what leader.c asks ---------------------------------------------------------------------- */

static attempt_t *own(leader_attempt_t *attempt)
{
    return (attempt_t *)(void *)attempt; /* whose first member it is */
}

static actor_id_t opener(const leader_attempt_t *base)
{
    const attempt_t *attempt = (const attempt_t *)(const void *)base;

    if (attempt->opener_gone)
        return ACTOR_NONE;
    return attempt->handed ? base->gateway : attempt->prefill;
}

static void end(void *self, leader_attempt_t *attempt, end_reason_t reason, const char *detail,
                outbox_t *outbox)
{
    decode_end(self, own(attempt), reason, detail, outbox);
}

static void give_back(void *self, leader_attempt_t *attempt)
{
    const page_t *pages = leader_pages(self, attempt);

    for (uint32_t i = 0; i < attempt->page_count; i++)
        pool_release(pool_of(self), unit_page(pages[i]), leader_index(self, attempt));
}

static void forget(void *arg, leader_attempt_t *attempt)
{
    decode_t *self = arg;

    token_list_clear(store_of(self), &own(attempt)->given);
    token_list_clear(store_of(self), &own(attempt)->penalty);
    token_list_clear(store_of(self), &own(attempt)->tokens);
    self->words_reserved -= own(attempt)->words;
}

static void lose(leader_attempt_t *attempt)
{
    (void)attempt;
}

/* Whoever copied has left that epoch, or is dead. */
static void settle_epoch(void *self, leader_attempt_t *attempt)
{
    decode_copies_over(self, own(attempt));
}

const leader_ops_t decode_leader = {
    .opener = opener,
    .end = end,
    .give_back = give_back,
    .forget = forget,
    .wants_run = decode_wants_run,
    .rows_free = decode_rows_free,
    .add_run = decode_add_run,
    .add_runs = decode_add_runs,
    .finish_step = finish_step,
    .lose_epoch = lose_epoch,
    .lose = lose,
    .settle_epoch = settle_epoch,
};

LEADER_HANDLERS(decode_leader)

/* ---- tables ---------------------------------------------------------------------------------- */

#define ANY ACTOR_STATE_ANY
#define ALL_STATES LEADER_ALL_STATES
#define ENDS (BIT(ENDING) | BIT(NONE))

static const char *const attempt_names[] = {"none", "ending", "opening", "landing", "running"};

static const actor_rule_t rules[] = {
    {ANY, MESSAGE_joined, on_joined, ALL_STATES},
    {ANY, MESSAGE_exited, on_exited, ALL_STATES},
    LEADER_RULES,
    {ANY, MESSAGE_pools, on_pools, ALL_STATES},
    {ANY, MESSAGE_peer_mapped, on_peer_mapped, ALL_STATES},
    {ANY, MESSAGE_copies_fenced, on_copies_fenced, ALL_STATES},
};

static const actor_rule_t attempt_rules[] = {
    {NONE, MESSAGE_reserve, on_reserve, BIT(NONE) | BIT(OPENING)},
    {OPENING, MESSAGE_abort, on_abort, ENDS | BIT(OPENING)},
    {LANDING, MESSAGE_abort, on_abort, ENDS | BIT(LANDING)},
    {RUNNING, MESSAGE_abort, on_abort, ENDS | BIT(RUNNING)},
    {OPENING, MESSAGE_opened, on_opened, BIT(LANDING) | BIT(OPENING)},
    {OPENING, MESSAGE_landed, on_landed_early, ENDS | BIT(OPENING)},
    {LANDING, MESSAGE_landed, on_landed, ENDS | BIT(RUNNING) | BIT(LANDING)},
    {OPENING, MESSAGE_fenced, on_fenced, ENDS | BIT(OPENING)},
    {LANDING, MESSAGE_fenced, on_fenced, ENDS | BIT(LANDING)},
    {RUNNING, MESSAGE_fenced, on_fenced, BIT(RUNNING)},
    {ENDING, MESSAGE_fenced, on_fenced, ENDS},
};

static const actor_refusal_t attempt_refusals[] = {
    {ANY, MESSAGE_reserve, "it is open already"},
    {NONE, MESSAGE_abort, "it has ended here before"},
    {ENDING, MESSAGE_abort, "it ends already"},
    {NONE, MESSAGE_opened, "it has ended here before"},
    {LANDING, MESSAGE_opened, "it was opened before"},
    {RUNNING, MESSAGE_opened, "it was opened before"},
    {ENDING, MESSAGE_opened, "it ends; the ABORT is behind its OPEN"},
    {NONE, MESSAGE_landed, "it has ended here before"},
    {RUNNING, MESSAGE_landed, "it has landed before"},
    {ENDING, MESSAGE_landed, "it ends; only FENCED is awaited"},
    {NONE, MESSAGE_fenced, "it has ended here before"},
};

static void check_attempt(const decode_t *self, const attempt_t *attempt, uint32_t index)
{
    const pool_t *pool = leader_pool(self);
    bool is_open = attempt->base.waits & WAITS_TRANSFER && attempt->copies == 0;

    ASSERT(attempt->base.holds || attempt->base.state == ENDING);
    ASSERT(pool_owned(pool, index) == (attempt->base.holds ? attempt->base.page_count + 1 : 0));
    ASSERT(attempt->acked <= attempt->sent && attempt->sent <= attempt->known);
    ASSERT(attempt->base.state != RUNNING || attempt->known <= attempt->planned);
    ASSERT(attempt->given_run <= attempt->given.count);
    ASSERT(attempt->base.state != OPENING || attempt->open_due || is_open);
    ASSERT(attempt->copies == 0 || attempt->base.waits & WAITS_TRANSFER);
    ASSERT(!(attempt->base.waits & WAITS_DECODE));
}

static void check(const void *arg)
{
    const decode_t *self = arg;
    const attempt_t *all = AT_CONST(&self->leader, attempt_t, attempts_offset);
    uint32_t opens_due = 0;
    uint64_t words = 0;

    leader_check(self);
    for (uint32_t i = self->leader.live.first; i != NIL; i = all[i].base.link.next) {
        check_attempt(self, &all[i], i);
        words += all[i].words;
        opens_due += all[i].open_due;
    }
    ASSERT(self->leader.counts.pages_held ==
           pool_count(leader_pool(self), UNIT_HISTORY, POOL_LEASED));
    ASSERT(words == self->words_reserved);
    ASSERT(opens_due == self->opens_due);
}

/* ---- birth ----------------------------------------------------------------------------------- */

/* As many of the longest answers as there are slots, with all alternatives: pages and slots admit, not
 * this store, which is touched as it is used. */
static uint64_t store_words(const topology_t *topology, uint32_t slots)
{
    return (uint64_t)slots * (3 + 2 * LOGPROBS_MAX) * ((uint64_t)topology->context_tokens + 1);
}

/* Where everything lies; returns the size of the whole block. */
static size_t lay_out(decode_t *self, const actor_birth_t *birth)
{
    leader_shape_t shape = {.state_bytes = sizeof(*self), .attempt_bytes = sizeof(attempt_t)};
    group_t group;
    size_t end;

    group_init(&group, birth);
    shape.attempt_max = 2 * group.slots + 64;
    shape.list_max = 3 * shape.attempt_max;
    shape.words_max = store_words(birth->topology, group.slots);
    end = leader_lay_out(&self->leader, birth, &group, &shape);
    self->items_offset = block_take(&end, sizeof(record_tokens_item_t) * TOKENS_ITEMS_MAX);
    self->views_offset = block_take(&end, sizeof(record_token_t) * DECODE_MESSAGE_TOKENS);
    self->words_offset =
        block_take(&end, sizeof(uint32_t) * DECODE_MESSAGE_TOKENS * (3 + 2 * LOGPROBS_MAX));
    return end;
}

static size_t bytes(const actor_birth_t *birth)
{
    decode_t layout = {0};

    return lay_out(&layout, birth);
}

static status_t init(void *arg, const actor_birth_t *birth)
{
    const topology_t *topology = birth->topology;
    decode_t *self = arg;

    lay_out(self, birth);
    leader_init(&self->leader, birth);
    self->source_count = topology->prefill_count;
    for (uint16_t i = 0; i < topology->prefill_count; i++)
        self->sources[i].leader = topology_actor(topology, ACTOR_PREFILL, i)->id;
    return STATUS_OK;
}

const actor_type_t decode_type = {
    .kind = ACTOR_DECODE,
    .state_bytes = sizeof(decode_t),
    .bytes = bytes,
    .init = init,
    .plan = decode_plan,
    .state = leader_state,
    .attempt_state = leader_attempt_state,
    .attempt_count = leader_attempt_count,
    .attempt_waits = leader_attempt_waits,
    .attempt_wait_names = leader_wait_names,
    .untouched = leader_untouched,
    .waits = leader_waits,
    .check = check,
    .table = {leader_state_names, LEADER_STATES, rules, COUNT_OF(rules), NULL, 0},
    .attempts = {attempt_names, ATTEMPT_STATES, attempt_rules, COUNT_OF(attempt_rules),
                 attempt_refusals, COUNT_OF(attempt_refusals)},
};
