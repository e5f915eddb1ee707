#include "actors/decode/attempt.h"

#include <string.h>

#include "runtime/base/log.h"
#include "runtime/base/plant.h"

attempt_t *decode_find(decode_t *self, uint64_t request, uint32_t number)
{
    uint32_t index = leader_find(self, request, number);

    return index == MAP_NONE ? NULL : &attempts_of(self)[index];
}

/* ---- opening --------------------------------------------------------------------------------- */

static uint32_t token_words(const record_sampling_t *sampling)
{
    uint32_t top = sampling->logprobs == 0 ? 0 : sampling->logprobs - 1;

    if (sampling->logprobs == 0)
        return 1;
    return 3 + 2 * (top < LOGPROBS_MAX ? top : LOGPROBS_MAX);
}

/* Words of the store that an attempt may need in its whole life. */
static uint64_t words_of(const message_reserve_t *m)
{
    return (uint64_t)m->limits.output_tokens_max * token_words(&m->sampling) + m->forced.count + 1 +
           m->penalty_prompt.count;
}

/* Pages of what runs first, and one position to go on. */
static uint32_t first_pages(const message_reserve_t *m)
{
    return tokens_pages(m->prompt_tokens + m->forced.count + 1);
}

const char *decode_obstacle(decode_t *self, const message_reserve_t *m, const source_t *source)
{
    const uint32_t counts[UNIT_COUNT] = {[UNIT_HISTORY] = first_pages(m), [UNIT_SLOT] = 1};

    if (!group_is_ready(group_of(self)))
        return "the group is forming";
    if (source->state != PAIR_OK)
        return "this prefill group's pools are not mapped";
    if (free_list_is_empty(&self->leader.free))
        return "too many attempts";
    if (self->starving)
        return "running attempts come first";
    if (!pool_has(pool_of(self), counts))
        return "no pages or no slot";
    if (words_of(m) > self->leader.shape.words_max - self->words_reserved)
        return "no room for tokens";
    return NULL;
}

static void take_leases(decode_t *self, attempt_t *attempt, uint32_t pages)
{
    uint32_t owner = index_of(self, attempt);
    slot_t slot = {0};
    status_t status = pool_lease_slot(pool_of(self), owner, &slot);

    ASSERT(status == STATUS_OK);
    attempt->slot = slot.value;
    status = pool_lease_pages(pool_of(self), owner, pages, pages_of(self, attempt));
    ASSERT(status == STATUS_OK);
    attempt->page_count = pages;
    attempt->holds = true;
    self->counts.pages_held += pages;
}

void decode_become(decode_t *self, attempt_t *attempt, uint8_t state)
{
    self->in_state[attempt->state]--;
    self->in_state[state]++;
    attempt->state = state;
}

attempt_t *decode_open(decode_t *self, const message_reserve_t *m, actor_id_t prefill)
{
    attempt_t *attempt = &attempts_of(self)[free_list_next(&self->leader.free)];

    free_list_take(&self->leader.free, attempt->link.next);
    *attempt = (attempt_t){
        .link.seniority = m->seniority,
        .request = m->request,
        .number = m->attempt,
        .state = OPENING,
        .alone = m->alone != 0,
        .open_due = true,
        .prefill = prefill,
        .gateway = m->gateway,
        .transfer = m->transfer,
        .cached_tokens = m->cached_tokens,
        .prompt_tokens = m->prompt_tokens,
        .position = m->prompt_tokens,
        .epoch = group_of(self)->epoch,
        .known = m->forced.count,
        .words = words_of(m),
        .token_words = token_words(&m->sampling),
    };
    request_copy(&attempt->parameters, &m->sampling, &m->limits);
    chain_init(&attempt->given);
    chain_init(&attempt->penalty);
    chain_init(&attempt->tokens);
    chain_append(store_of(self), &attempt->given, m->forced.data,
                 m->forced.count - (PLANTED(replay_skips_token) && m->forced.count > 1));
    chain_append(store_of(self), &attempt->penalty, m->penalty_prompt.data,
                 m->penalty_prompt.count);
    take_leases(self, attempt, first_pages(m));
    self->words_reserved += attempt->words;
    map_put(map_of(self), m->request, m->attempt, index_of(self, attempt));
    request_list_insert(&self->leader.live, attempts_of(self), index_of(self, attempt));
    self->in_state[OPENING]++;
    self->opens_due++;
    self->counts.opened++;
    self->counts.live++;
    return attempt;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static actor_id_t opener_of(const attempt_t *attempt)
{
    return attempt->handed ? attempt->gateway : attempt->prefill;
}

static void push_end(decode_t *self, const attempt_t *attempt, end_reason_t reason,
                     const char *detail, outbox_t *outbox)
{
    message_end_t end = {
        .request = attempt->request,
        .attempt = attempt->number,
        .reason = (uint8_t)reason,
        .token_count = attempt->known,
        .cached_tokens = attempt->cached_tokens,
        .suspect = attempt->suspect,
        .charge = attempt->charge,
        .detail = {detail, (uint32_t)strlen(detail)},
    };

    self->counts.ended++;
    if (!attempt->opener_gone && outbox_is_up(outbox, opener_of(attempt)))
        outbox_push(outbox, opener_of(attempt), MESSAGE_end, &end);
}

void decode_end(decode_t *self, attempt_t *attempt, end_reason_t reason, const char *detail,
                outbox_t *outbox)
{
    message_abort_t abort = {attempt->request, attempt->number, (uint8_t)reason};

    ASSERT(attempt->state != NONE);
    ASSERT(attempt->state != ENDING);
    push_end(self, attempt, reason, detail, outbox);
    if (reason == END_RETRACTED)
        self->counts.retracted++;
    decode_become(self, attempt, ENDING);
    self->leader.closes_due += attempt->slot_open;
    self->opens_due -= attempt->open_due;
    attempt->open_due = false;
    if (!leader_end_is_final(reason) || reason == END_ABORTED)
        attempt->gateway_gone = true; /* these tokens will be made again, or nobody wants them */
    if (attempt->x_open && attempt->x_ranks == 0 && outbox_is_up(outbox, attempt->transfer) &&
        !PLANTED(abort_wedge))
        outbox_push(outbox, attempt->transfer, MESSAGE_abort, &abort);
    decode_settle(self, attempt, outbox);
}

static void give_back(decode_t *self, attempt_t *attempt)
{
    uint32_t owner = index_of(self, attempt);
    const page_t *pages = pages_of(self, attempt);

    if (!attempt->holds)
        return;
    for (uint32_t i = 0; i < attempt->page_count; i++)
        pool_release(pool_of(self), unit_page(pages[i]), owner);
    pool_release(pool_of(self), unit_slot(slot_at(attempt->slot)), owner);
    self->counts.pages_held -= attempt->page_count;
    attempt->holds = false;
    self->leader.came_free++;
}

static void forget(decode_t *self, attempt_t *attempt)
{
    map_remove(map_of(self), attempt->request, attempt->number);
    request_list_remove(&self->leader.live, attempts_of(self), index_of(self, attempt));
    chain_clear(store_of(self), &attempt->given);
    chain_clear(store_of(self), &attempt->penalty);
    chain_clear(store_of(self), &attempt->tokens);
    self->words_reserved -= attempt->words;
    self->in_state[attempt->state]--;
    attempt->state = NONE;
    attempt->link.next = free_list_give(&self->leader.free, index_of(self, attempt));
    self->counts.live--;
    self->leader.came_free++;
}

void decode_settle(decode_t *self, attempt_t *attempt, outbox_t *outbox)
{
    message_fenced_t fenced = {attempt->request, attempt->number};
    bool moves = attempt->x_open || attempt->x_ranks != 0 || attempt->wait_settle ||
                 attempt->slot_open ||
                 (attempt->last_seq > group_of(self)->done_seq && !PLANTED(early_return));

    ASSERT(attempt->state == ENDING);
    if (!attempt->fenced && !moves) {
        give_back(self, attempt);
        if (!attempt->opener_gone && outbox_is_up(outbox, opener_of(attempt)))
            outbox_push(outbox, opener_of(attempt), MESSAGE_fenced, &fenced);
        attempt->fenced = true;
        self->counts.fenced++;
    }
    if (attempt->fenced &&
        (attempt->gateway_gone || attempt->acked >= attempt->known || attempt->tokens.count == 0))
        forget(self, attempt);
}

void decode_settle_all(void *arg, outbox_t *outbox)
{
    decode_t *self = arg;
    attempt_t *all = attempts_of(self);
    bool settled = group_is_settled(group_of(self));

    for (uint32_t i = self->leader.live.first, next; i != NIL; i = next) {
        next = all[i].link.next;
        if (settled && all[i].wait_settle) {
            all[i].wait_settle = false;
            all[i].x_ranks = 0; /* whoever copied has left that epoch, or is dead */
        }
        if (all[i].state == ENDING)
            decode_settle(self, &all[i], outbox);
    }
}

void decode_lose(decode_t *self, attempt_t *attempt, const char *detail, outbox_t *outbox)
{
    if (attempt->holds)
        self->counts.pages_held -= attempt->page_count;
    if (attempt->state == ENDING)
        self->leader.closes_due -= attempt->slot_open;
    attempt->holds = false;
    attempt->slot_open = false;
    attempt->last_seq = PLANTED(epoch_mixup) ? attempt->last_seq : 0;
    attempt->wait_settle = true;
    if (attempt->state != ENDING)
        decode_end(self, attempt, END_LOST, detail, outbox);
}

/* ---- running --------------------------------------------------------------------------------- */

void decode_token(decode_t *self, attempt_t *attempt, const group_token_t *token, outbox_t *outbox)
{
    uint32_t words[3 + 2 * LOGPROBS_MAX] = {token->token};
    uint32_t top = attempt->token_words > 3 ? (attempt->token_words - 3) / 2 : 0;

    ASSERT(attempt->state == RUNNING);
    ASSERT(attempt->known < attempt->planned);
    if (attempt->token_words > 1) {
        top = token->top_count < top ? token->top_count : top;
        memcpy(&words[1], &token->logprob, sizeof(float));
        words[2] = top;
        memcpy(&words[3], token->top_tokens, top * sizeof(uint32_t));
        memcpy(&words[3 + top], token->top_logprobs, top * sizeof(float));
    }
    chain_append(store_of(self), &attempt->tokens, words, attempt->token_words);
    attempt->known++;
    self->tokens_new |= UINT64_C(1) << (attempt->gateway - self->leader.gateway_first);
    if (request_ends(&attempt->parameters, self->leader.end_tokens, self->leader.end_token_count,
                     token->token))
        decode_end(self, attempt, END_STOP, "", outbox);
    else if (attempt->known >= attempt->parameters.limits.output_tokens_max)
        decode_end(self, attempt, END_LENGTH, "", outbox);
}

bool decode_grow(decode_t *self, attempt_t *attempt, uint32_t pages, uint32_t *added)
{
    uint32_t more = pages > attempt->page_count ? pages - attempt->page_count : 0;

    *added = 0;
    ASSERT(pages <= self->leader.pages_per_attempt);
    if (more == 0)
        return true;
    if (pool_count(pool_of(self), UNIT_HISTORY, POOL_FREE) < more ||
        pool_lease_pages(pool_of(self), index_of(self, attempt), more,
                         pages_of(self, attempt) + attempt->page_count) != STATUS_OK)
        return false;
    attempt->page_count += more;
    self->counts.pages_held += more;
    *added = more;
    return true;
}

void decode_retract(decode_t *self, outbox_t *outbox)
{
    attempt_t *all = attempts_of(self);
    uint32_t youngest = NIL, oldest = NIL;

    for (uint32_t i = self->leader.live.first; i != NIL; i = all[i].link.next) {
        if (all[i].state == ENDING && all[i].holds)
            return; /* its pages come back soon */
        if (all[i].state == ENDING)
            continue;
        if (oldest == NIL)
            oldest = i;
        youngest = i;
    }
    if (youngest == oldest)
        return;
    if (PLANTED(seniority_flip))
        youngest = oldest;
    LOG(INFO, "DECODE-RETRACT request=%016llx attempt=%u pages=%u",
        (unsigned long long)all[youngest].request, all[youngest].number, all[youngest].page_count);
    decode_end(self, &all[youngest], END_RETRACTED, "decode pages ran out", outbox);
}
