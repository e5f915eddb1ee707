/* attempt.c - leases, ends and the first token: every change of what an attempt holds. */
#include "actors/prefill/attempt.h"

#include <string.h>

#include "runtime/base/log.h"
#include "runtime/base/plant.h"
#include "runtime/base/probe.h"

attempt_t *prefill_find(prefill_t *self, uint64_t request, uint32_t number)
{
    return (attempt_t *)leader_find(self, request, number);
}

target_t *prefill_target(prefill_t *self, actor_id_t leader)
{
    for (uint32_t i = 0; i < self->target_count; i++) {
        if (self->targets[i].leader == leader)
            return &self->targets[i];
    }
    return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

attempt_t *prefill_open(prefill_t *self, const message_submit_t *m, actor_id_t gateway)
{
    attempt_t *attempt;
    token_list_t none;

    token_list_init(&none);
    if (free_list_is_empty(&self->leader.free) ||
        !token_list_room(store_of(self), &none,
                         m->prompt.count + m->forced.count + 2 * TOKEN_BLOCK_WORDS))
        return NULL;
    attempt = &attempts_of(self)[free_list_next(&self->leader.free)];
    free_list_take(&self->leader.free, attempt->base.link.next);
    *attempt = (attempt_t){
        .base = {.link.seniority = m->seniority,
                 .request = m->request,
                 .number = m->attempt,
                 .state = QUEUED,
                 .alone = m->alone != 0,
                 .gateway = gateway,
                 .transfer = m->transfer,
                 .prompt_tokens = m->prompt.count},
        .decode = m->decode,
        .salt = m->salt,
        .border = {UNITS_NONE},
    };
    request_copy(&attempt->base.parameters, &m->sampling, &m->limits);
    token_list_init(&attempt->prompt);
    token_list_init(&attempt->forced);
    token_list_append(store_of(self), &attempt->prompt, m->prompt.data, m->prompt.count);
    token_list_append(store_of(self), &attempt->forced, m->forced.data, m->forced.count);
    leader_insert(self, &attempt->base);
    self->lease_failed = 0; /* it may be the oldest now */
    return attempt;
}

static uint64_t salt_of(prefill_t *self, const attempt_t *attempt)
{
    const group_t *group = group_of(self);

    return page_salt(group->weights_digest, group->numerics_digest, group->geometry_digest,
                     attempt->salt);
}

/* Its slot has been restored from the border, or will not be. */
static void drop_border(prefill_t *self, attempt_t *attempt)
{
    if (attempt->loading)
        pool_unshare(pool_of(self), unit_border(attempt->border));
    attempt->loading = false;
}

static void drop_prefix(prefill_t *self, attempt_t *attempt)
{
    drop_border(self, attempt);
    prefix_release(prefix_of(self), pool_of(self), leader_pages(self, &attempt->base),
                   attempt->shared_count);
    attempt->shared_count = 0;
}

bool prefill_lease(prefill_t *self, attempt_t *attempt)
{
    uint32_t owner = leader_index(self, attempt);
    uint32_t *words = AT(self, uint32_t, words_offset);
    uint32_t page_count = tokens_pages(attempt->base.prompt_tokens);
    uint32_t need, idle;
    slot_t slot;
    prefix_match_t match;

    if (pool_lease_slot(pool_of(self), owner, &slot) != STATUS_OK)
        return false;
    attempt->base.slot = slot.value;
    token_list_read(store_of(self), &attempt->prompt, 0, attempt->base.prompt_tokens, words);
    match = prefix_acquire(prefix_of(self), pool_of(self), words, attempt->base.prompt_tokens,
                           salt_of(self, attempt), leader_pages(self, &attempt->base),
                           self->leader.pages_per_attempt);
    PROBE(prefix_match, attempt->base.prompt_tokens, match.page_count * PAGE_TOKENS);
    attempt->shared_count = match.page_count;
    attempt->border = match.border;
    attempt->loading = match.page_count > 0;
    need = page_count - match.page_count;
    idle = pool_count(pool_of(self), UNIT_HISTORY, POOL_FREE);
    if (idle < need)
        prefix_evict_pages(prefix_of(self), pool_of(self), need - idle);
    if (pool_lease_pages(pool_of(self), owner, need,
                         leader_pages(self, &attempt->base) + match.page_count) != STATUS_OK) {
        drop_prefix(self, attempt);
        pool_release(pool_of(self), unit_slot(slot), owner);
        return false;
    }
    if (PLANTED(stale_prefix))
        drop_border(self, attempt);
    for (uint32_t i = 0; i < self->leader.pages_per_attempt; i++)
        borders_of(self, attempt)[i] = UNITS_NONE;
    attempt->base.holds = true;
    attempt->base.page_count = page_count;
    attempt->base.cached_tokens = match.page_count * PAGE_TOKENS;
    attempt->base.position = attempt->done = attempt->base.cached_tokens;
    self->leader.counts.pages_held += page_count;
    return true;
}

void prefill_give_back(void *arg, leader_attempt_t *base)
{
    prefill_t *self = arg;
    attempt_t *attempt = (attempt_t *)(void *)base;
    uint32_t owner = leader_index(self, attempt);
    const page_t *pages = leader_pages(self, base);
    uint32_t shared = attempt->shared_count;

    drop_prefix(self, attempt);
    for (uint32_t i = shared; i < attempt->base.page_count; i++)
        pool_release(pool_of(self), unit_page(pages[i]), owner);
    for (uint32_t i = 0; i < attempt->base.page_count; i++) {
        uint32_t border = borders_of(self, attempt)[i];

        if (border != UNITS_NONE)
            pool_release(pool_of(self), unit_border(border_at(border)), owner);
    }
}

void prefill_unlease(prefill_t *self, attempt_t *attempt)
{
    ASSERT(attempt->base.position == attempt->base.cached_tokens);
    ASSERT(!(attempt->base.waits & WAITS_CLOSE));
    leader_give_back(self, &prefill_leader, &attempt->base);
    leader_become(self, &attempt->base, QUEUED);
    attempt->base.cached_tokens = attempt->base.position = attempt->done = 0;
}

/* ---- ending ---------------------------------------------------------------------------------- */

void prefill_end(prefill_t *self, attempt_t *attempt, end_reason_t reason, const char *detail,
                 bool abort, outbox_t *outbox)
{
    message_abort_t message = {attempt->base.request, attempt->base.number, (uint8_t)reason};
    message_end_t end = {
        .reason = (uint8_t)reason,
        .token_count = attempt->forced.count + (attempt->token_due ? 1 : 0),
        .detail = {detail, (uint32_t)strlen(detail)},
    };

    leader_end(self, &prefill_leader, &attempt->base, &end, outbox);
    attempt->kv_stop = true;
    if (abort && attempt->base.waits & WAITS_DECODE && outbox_is_up(outbox, attempt->decode))
        outbox_push(outbox, attempt->decode, MESSAGE_abort, &message);
    prefill_settle(self, attempt, outbox);
}

void prefill_hand_over(prefill_t *self, attempt_t *attempt, outbox_t *outbox)
{
    leader_wait_over(self, &attempt->base, WAITS_DECODE);
    attempt->handed = true;
    self->leader.counts.handed++;
    if (attempt->base.state != ENDING) {
        leader_become(self, &attempt->base, ENDING);
        attempt->kv_stop = true;
        self->leader.counts.ended++;
    }
    prefill_settle(self, attempt, outbox);
}

void prefill_settle(prefill_t *self, attempt_t *attempt, outbox_t *outbox)
{
    leader_settle(self, &prefill_leader, &attempt->base, outbox);
}

/* ---- running --------------------------------------------------------------------------------- */

/* The border of a page that has just gone to the index. */
static void keep_border(prefill_t *self, attempt_t *attempt, uint32_t ordinal)
{
    uint32_t *border = &borders_of(self, attempt)[ordinal];
    page_t page = leader_pages(self, &attempt->base)[ordinal];

    if (*border == UNITS_NONE)
        return;
    if (prefix_border_add(prefix_of(self), pool_of(self), leader_index(self, attempt), page,
                          border_at(*border)) == STATUS_OK)
        *border = UNITS_NONE;
}

void prefill_progress(prefill_t *self, attempt_t *attempt, uint32_t done)
{
    uint32_t words[PAGE_TOKENS];
    page_t *pages = leader_pages(self, &attempt->base);

    ASSERT(done >= attempt->done && done <= attempt->base.position);
    attempt->done = done;
    drop_border(self, attempt);
    for (uint32_t i = attempt->shared_count; i < done / PAGE_TOKENS && !attempt->private_pages;
         i++) {
        page_t parent = i == 0 ? page_at(UNITS_NONE) : pages[i - 1];
        page_t standing = pages[i];

        token_list_read(store_of(self), &attempt->prompt, i * PAGE_TOKENS, PAGE_TOKENS, words);
        if (prefix_insert(prefix_of(self), pool_of(self), leader_index(self, attempt), parent,
                          pages[i], words, salt_of(self, attempt), &standing) != STATUS_OK ||
            standing.value != pages[i].value) {
            attempt->private_pages = true;
            return;
        }
        attempt->shared_count = i + 1;
        keep_border(self, attempt, i);
    }
}

void prefill_token(prefill_t *self, attempt_t *attempt, const group_token_t *token,
                   outbox_t *outbox)
{
    uint32_t forced;

    attempt->token = *token;
    attempt->token_known = true;
    if (attempt->forced.count > 0) {
        token_list_read(store_of(self), &attempt->forced, 0, 1, &forced);
        if (forced == token->token)
            return;
        self->leader.counts.differing++;
        LOG(ERROR, "PREFILL-REPLAY-DIFFERS request=%016llx attempt=%u",
            (unsigned long long)attempt->base.request, attempt->base.number);
        prefill_end(self, attempt, END_REFUSED, "the replayed answer differs", true, outbox);
        return;
    }
    attempt->token_due = true;
    leader_wait(self, &attempt->base, WAITS_TOKEN_ACK);
    if (request_ends(&attempt->base.parameters, self->leader.end_tokens,
                     self->leader.end_token_count, token->token))
        prefill_end(self, attempt, END_STOP, "", true, outbox);
    else if (attempt->base.parameters.limits.output_tokens_max == 1)
        prefill_end(self, attempt, END_LENGTH, "", true, outbox);
}
