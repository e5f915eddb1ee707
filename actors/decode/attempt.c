/* attempt.c - opening, ending, growing, retracting: every change of an attempt's leases. */
#include "actors/decode/attempt.h"

#include <string.h>

#include "runtime/base/log.h"
#include "runtime/base/plant.h"

attempt_t *decode_find(decode_t *self, uint64_t request, uint32_t number)
{
    return (attempt_t *)leader_find(self, request, number);
}

/* ---- opening --------------------------------------------------------------------------------- */

static uint32_t token_words(const record_sampling_t *sampling)
{
    uint32_t top = sampling->logprobs == 0 ? 0 : sampling->logprobs - 1;

    if (sampling->logprobs == 0)
        return 1;
    return 3 + 2 * (top < LOGPROBS_MAX ? top : LOGPROBS_MAX);
}

/* Words of the store that an attempt may need in its whole life: what it is given, and tokens made. */
static uint64_t words_of(const message_reserve_t *m)
{
    uint64_t longest = m->limits.output_tokens_max, given = m->forced.count;
    uint64_t made = longest > given ? longest - given : 0;

    return made * token_words(&m->sampling) + given + 1 + m->penalty_prompt.count;
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
    if (self->leader.starving)
        return "running attempts come first";
    if (!pool_has(pool_of(self), counts))
        return "no pages or no slot";
    if (words_of(m) > self->leader.shape.words_max - self->words_reserved)
        return "no room for tokens";
    return NULL;
}

static void take_leases(decode_t *self, attempt_t *attempt, uint32_t pages)
{
    uint32_t owner = leader_index(self, attempt);
    slot_t slot = {0};
    status_t status = pool_lease_slot(pool_of(self), owner, &slot);

    ASSERT(status == STATUS_OK);
    attempt->base.slot = slot.value;
    status = pool_lease_pages(pool_of(self), owner, pages, leader_pages(self, &attempt->base));
    ASSERT(status == STATUS_OK);
    attempt->base.page_count = pages;
    attempt->base.holds = true;
    self->leader.counts.pages_held += pages;
}

attempt_t *decode_open(decode_t *self, const message_reserve_t *m, actor_id_t prefill)
{
    attempt_t *attempt = &attempts_of(self)[free_list_next(&self->leader.free)];

    free_list_take(&self->leader.free, attempt->base.link.next);
    *attempt = (attempt_t){
        .base =
            {
                .link.seniority = m->seniority,
                .request = m->request,
                .number = m->attempt,
                .state = OPENING,
                .alone = m->alone != 0,
                .gateway = m->gateway,
                .transfer = m->transfer,
                .cached_tokens = m->cached_tokens,
                .prompt_tokens = m->prompt_tokens,
                .position = m->prompt_tokens,
            },
        .open_due = true,
        .prefill = prefill,
        .epoch = group_of(self)->epoch,
        .known = m->forced.count,
        .words = words_of(m),
        .token_words = token_words(&m->sampling),
    };
    request_copy(&attempt->base.parameters, &m->sampling, &m->limits);
    token_list_init(&attempt->given);
    token_list_init(&attempt->penalty);
    token_list_init(&attempt->tokens);
    token_list_append(store_of(self), &attempt->given, m->forced.data,
                      m->forced.count - (PLANTED(replay_skips_token) && m->forced.count > 1));
    token_list_append(store_of(self), &attempt->penalty, m->penalty_prompt.data,
                      m->penalty_prompt.count);
    take_leases(self, attempt, first_pages(m));
    self->words_reserved += attempt->words;
    self->opens_due++;
    leader_insert(self, &attempt->base);
    return attempt;
}

/* ---- ending ---------------------------------------------------------------------------------- */

void decode_end(decode_t *self, attempt_t *attempt, end_reason_t reason, const char *detail,
                outbox_t *outbox)
{
    message_abort_t abort = {attempt->base.request, attempt->base.number, (uint8_t)reason};
    message_end_t end = {.reason = (uint8_t)reason, .token_count = attempt->known};

    end.detail = (text_view_t){detail, (uint32_t)strlen(detail)};
    leader_end(self, &decode_leader, &attempt->base, &end, outbox);
    if (reason == END_RETRACTED)
        self->leader.counts.retracted++;
    self->opens_due -= attempt->open_due;
    attempt->open_due = false;
    if (attempt->base.waits & WAITS_TRANSFER && attempt->copies == 0 &&
        outbox_is_up(outbox, attempt->base.transfer) && !PLANTED(abort_wedge))
        outbox_push(outbox, attempt->base.transfer, MESSAGE_abort, &abort);
    decode_settle(self, attempt, outbox);
}

void decode_settle(decode_t *self, attempt_t *attempt, outbox_t *outbox)
{
    leader_settle(self, &decode_leader, &attempt->base, outbox);
}

void decode_copies_over(decode_t *self, attempt_t *attempt)
{
    if (attempt->copies == 0)
        return;
    attempt->copies = 0;
    leader_wait_over(self, &attempt->base, WAITS_TRANSFER);
}

/* ---- running --------------------------------------------------------------------------------- */

void decode_token(decode_t *self, attempt_t *attempt, const group_token_t *token, outbox_t *outbox)
{
    uint32_t words[3 + 2 * LOGPROBS_MAX] = {token->token};
    uint32_t top = attempt->token_words > 3 ? (attempt->token_words - 3) / 2 : 0;

    ASSERT(attempt->base.state == RUNNING);
    ASSERT(attempt->known < attempt->planned);
    if (attempt->token_words > 1) {
        top = token->top_count < top ? token->top_count : top;
        memcpy(&words[1], &token->logprob, sizeof(float));
        words[2] = top;
        memcpy(&words[3], token->top_tokens, top * sizeof(uint32_t));
        memcpy(&words[3 + top], token->top_logprobs, top * sizeof(float));
    }
    token_list_append(store_of(self), &attempt->tokens, words, attempt->token_words);
    attempt->known++;
    leader_wait(self, &attempt->base, WAITS_TOKEN_ACK);
    self->tokens_new |= UINT64_C(1) << (attempt->base.gateway - self->leader.gateway_first);
    if (request_ends(&attempt->base.parameters, self->leader.end_tokens,
                     self->leader.end_token_count, token->token))
        decode_end(self, attempt, END_STOP, "", outbox);
    else if (attempt->known >= attempt->base.parameters.limits.output_tokens_max)
        decode_end(self, attempt, END_LENGTH, "", outbox);
}

bool decode_grow(decode_t *self, attempt_t *attempt, uint32_t pages, uint32_t *added)
{
    uint32_t more = pages > attempt->base.page_count ? pages - attempt->base.page_count : 0;

    *added = 0;
    ASSERT(pages <= self->leader.pages_per_attempt);
    if (more == 0)
        return true;
    if (pool_count(pool_of(self), UNIT_HISTORY, POOL_FREE) < more ||
        pool_lease_pages(pool_of(self), leader_index(self, attempt), more,
                         leader_pages(self, &attempt->base) + attempt->base.page_count) !=
            STATUS_OK)
        return false;
    attempt->base.page_count += more;
    self->leader.counts.pages_held += more;
    *added = more;
    return true;
}

void decode_retract(decode_t *self, outbox_t *outbox)
{
    attempt_t *all = attempts_of(self);
    uint32_t youngest = NIL, oldest = NIL;

    for (uint32_t i = self->leader.live.first; i != NIL; i = all[i].base.link.next) {
        if (all[i].base.state == ENDING && all[i].base.holds)
            return; /* its pages come back soon */
        if (all[i].base.state == ENDING)
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
        (unsigned long long)all[youngest].base.request, all[youngest].base.number,
        all[youngest].base.page_count);
    decode_end(self, &all[youngest], END_RETRACTED, "decode pages ran out", outbox);
}
