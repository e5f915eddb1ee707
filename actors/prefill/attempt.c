#include "actors/prefill/attempt.h"

#include <string.h>

#include "runtime/base/log.h"
#include "runtime/base/plant.h"
#include "runtime/base/probe.h"

attempt_t *prefill_find(prefill_t *self, uint64_t request, uint32_t number)
{
    uint32_t index = leader_find(self, request, number);

    return index == MAP_NONE ? NULL : &attempts_of(self)[index];
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
    chain_t none;

    chain_init(&none);
    if (free_list_is_empty(&self->leader.free) ||
        !chain_room(store_of(self), &none,
                    m->prompt.count + m->forced.count + 2 * CHAIN_BLOCK_WORDS))
        return NULL;
    attempt = &attempts_of(self)[free_list_next(&self->leader.free)];
    free_list_take(&self->leader.free, attempt->link.next);
    *attempt = (attempt_t){
        .link.seniority = m->seniority,
        .request = m->request,
        .number = m->attempt,
        .state = QUEUED,
        .alone = m->alone != 0,
        .gateway = gateway,
        .decode = m->decode,
        .transfer = m->transfer,
        .salt = m->salt,
        .prompt_tokens = m->prompt.count,
        .border = {UNITS_NONE},
    };
    request_copy(&attempt->parameters, &m->sampling, &m->limits);
    chain_init(&attempt->prompt);
    chain_init(&attempt->forced);
    chain_append(store_of(self), &attempt->prompt, m->prompt.data, m->prompt.count);
    chain_append(store_of(self), &attempt->forced, m->forced.data, m->forced.count);
    map_put(map_of(self), m->request, m->attempt, index_of(self, attempt));
    request_list_insert(&self->leader.live, attempts_of(self), index_of(self, attempt));
    self->counts.opened++;
    self->counts.live++;
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
    prefix_release(prefix_of(self), pool_of(self), pages_of(self, attempt), attempt->shared_count);
    attempt->shared_count = 0;
}

bool prefill_lease(prefill_t *self, attempt_t *attempt)
{
    uint32_t owner = index_of(self, attempt);
    uint32_t *words = AT(self, uint32_t, words_offset);
    uint32_t page_count = tokens_pages(attempt->prompt_tokens);
    uint32_t need, idle;
    slot_t slot;
    prefix_match_t match;

    if (pool_lease_slot(pool_of(self), owner, &slot) != STATUS_OK)
        return false;
    attempt->slot = slot.value;
    chain_read(store_of(self), &attempt->prompt, 0, attempt->prompt_tokens, words);
    match = prefix_acquire(prefix_of(self), pool_of(self), words, attempt->prompt_tokens,
                           salt_of(self, attempt), pages_of(self, attempt),
                           self->leader.pages_per_attempt);
    PROBE(prefix_match, attempt->prompt_tokens, match.page_count * PAGE_TOKENS);
    attempt->shared_count = match.page_count;
    attempt->border = match.border;
    attempt->loading = match.page_count > 0;
    need = page_count - match.page_count;
    idle = pool_count(pool_of(self), UNIT_HISTORY, POOL_FREE);
    if (idle < need)
        prefix_evict_pages(prefix_of(self), pool_of(self), need - idle);
    if (pool_lease_pages(pool_of(self), owner, need, pages_of(self, attempt) + match.page_count) !=
        STATUS_OK) {
        drop_prefix(self, attempt);
        pool_release(pool_of(self), unit_slot(slot), owner);
        return false;
    }
    if (PLANTED(stale_prefix))
        drop_border(self, attempt);
    for (uint32_t i = 0; i < self->leader.pages_per_attempt; i++)
        borders_of(self, attempt)[i] = UNITS_NONE;
    attempt->holds = true;
    attempt->page_count = page_count;
    attempt->cached_tokens = match.page_count * PAGE_TOKENS;
    attempt->position = attempt->done = attempt->cached_tokens;
    self->counts.pages_held += page_count;
    return true;
}

static void give_back(prefill_t *self, attempt_t *attempt)
{
    uint32_t owner = index_of(self, attempt);
    const page_t *pages = pages_of(self, attempt);
    uint32_t shared = attempt->shared_count;

    if (!attempt->holds)
        return;
    drop_prefix(self, attempt);
    for (uint32_t i = shared; i < attempt->page_count; i++)
        pool_release(pool_of(self), unit_page(pages[i]), owner);
    for (uint32_t i = 0; i < attempt->page_count; i++) {
        uint32_t border = borders_of(self, attempt)[i];

        if (border != UNITS_NONE)
            pool_release(pool_of(self), unit_border(border_at(border)), owner);
    }
    pool_release(pool_of(self), unit_slot(slot_at(attempt->slot)), owner);
    self->counts.pages_held -= attempt->page_count;
    attempt->holds = false;
    attempt->page_count = 0;
    self->leader.came_free++;
}

void prefill_unlease(prefill_t *self, attempt_t *attempt)
{
    ASSERT(attempt->position == attempt->cached_tokens);
    ASSERT(!attempt->slot_open);
    give_back(self, attempt);
    attempt->state = QUEUED;
    attempt->cached_tokens = attempt->position = attempt->done = 0;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static void push_end(prefill_t *self, const attempt_t *attempt, end_reason_t reason,
                     const char *detail, outbox_t *outbox)
{
    message_end_t end = {
        .request = attempt->request,
        .attempt = attempt->number,
        .reason = (uint8_t)reason,
        .token_count = attempt->forced.count + (attempt->token_due ? 1 : 0),
        .cached_tokens = attempt->cached_tokens,
        .suspect = attempt->suspect,
        .charge = attempt->charge,
        .detail = {detail, (uint32_t)strlen(detail)},
    };

    self->counts.ended++;
    if (!attempt->gateway_gone && outbox_is_up(outbox, attempt->gateway))
        outbox_push(outbox, attempt->gateway, MESSAGE_end, &end);
}

void prefill_end(prefill_t *self, attempt_t *attempt, end_reason_t reason, const char *detail,
                 bool abort, outbox_t *outbox)
{
    message_abort_t message = {attempt->request, attempt->number, (uint8_t)reason};

    ASSERT(attempt->state != NONE);
    ASSERT(attempt->state != ENDING || PLANTED(double_end));
    push_end(self, attempt, reason, detail, outbox);
    self->leader.closes_due += attempt->state != ENDING && attempt->slot_open;
    attempt->state = ENDING;
    attempt->kv_stop = true;
    if (!leader_end_is_final(reason) || reason == END_ABORTED)
        attempt->token_acked = true; /* it will be made again, or nobody wants it */
    if (abort && attempt->decode_open && outbox_is_up(outbox, attempt->decode))
        outbox_push(outbox, attempt->decode, MESSAGE_abort, &message);
    prefill_settle(self, attempt, outbox);
}

void prefill_hand_over(prefill_t *self, attempt_t *attempt, outbox_t *outbox)
{
    attempt->decode_open = false;
    attempt->handed = true;
    self->counts.handed++;
    if (attempt->state != ENDING) {
        attempt->state = ENDING;
        attempt->kv_stop = true;
        self->counts.ended++;
    }
    prefill_settle(self, attempt, outbox);
}

static void forget(prefill_t *self, attempt_t *attempt)
{
    map_remove(map_of(self), attempt->request, attempt->number);
    request_list_remove(&self->leader.live, attempts_of(self), index_of(self, attempt));
    chain_clear(store_of(self), &attempt->prompt);
    chain_clear(store_of(self), &attempt->forced);
    attempt->state = NONE;
    attempt->link.next = free_list_give(&self->leader.free, index_of(self, attempt));
    self->counts.live--;
    self->leader.came_free++;
}

/* X may still have ranks read the units it took. */
static bool is_read(const attempt_t *attempt)
{
    bool took = attempt->pieces_taken > 0 || attempt->pieces_answered < attempt->pieces_sent;

    if (attempt->x_gone)
        return attempt->decode_open; /* decode says FENCED when its ranks copy no more */
    return took && !attempt->x_fenced;
}

void prefill_settle(prefill_t *self, attempt_t *attempt, outbox_t *outbox)
{
    message_fenced_t fenced = {attempt->request, attempt->number};
    bool moves = attempt->decode_open || is_read(attempt) || attempt->wait_settle ||
                 attempt->slot_open || attempt->last_seq > group_of(self)->done_seq;

    ASSERT(attempt->state == ENDING);
    if (!attempt->fenced && !moves) {
        give_back(self, attempt);
        if (!attempt->gateway_gone && outbox_is_up(outbox, attempt->gateway) &&
            !(PLANTED(lost_fence) && attempt->handed))
            outbox_push(outbox, attempt->gateway, MESSAGE_fenced, &fenced);
        attempt->fenced = true;
        self->counts.fenced++;
    }
    if (attempt->fenced && (attempt->gateway_gone || attempt->token_acked || !attempt->token_due))
        forget(self, attempt);
}

void prefill_settle_all(void *arg, outbox_t *outbox)
{
    prefill_t *self = arg;
    attempt_t *all = attempts_of(self);
    bool settled = group_is_settled(group_of(self));

    for (uint32_t i = self->leader.live.first, next; i != NIL; i = next) {
        next = all[i].link.next;
        if (settled)
            all[i].wait_settle = false;
        if (all[i].state == ENDING)
            prefill_settle(self, &all[i], outbox);
    }
}

void prefill_lose(prefill_t *self, attempt_t *attempt, const char *detail, outbox_t *outbox)
{
    if (attempt->state == QUEUED)
        return; /* it has touched nothing */
    if (attempt->holds)
        self->counts.pages_held -= attempt->page_count;
    if (attempt->state == ENDING)
        self->leader.closes_due -= attempt->slot_open;
    attempt->holds = attempt->slot_open = attempt->loading = false;
    attempt->page_count = attempt->shared_count = 0;
    attempt->last_seq = 0;
    attempt->wait_settle = true;
    if (attempt->state != ENDING)
        prefill_end(self, attempt, END_LOST, detail, true, outbox);
}

/* ---- running --------------------------------------------------------------------------------- */

/* The border of a page that has just gone to the index. */
static void keep_border(prefill_t *self, attempt_t *attempt, uint32_t ordinal)
{
    uint32_t *border = &borders_of(self, attempt)[ordinal];
    page_t page = pages_of(self, attempt)[ordinal];

    if (*border == UNITS_NONE)
        return;
    if (prefix_border_add(prefix_of(self), pool_of(self), index_of(self, attempt), page,
                          border_at(*border)) == STATUS_OK)
        *border = UNITS_NONE;
}

void prefill_progress(prefill_t *self, attempt_t *attempt, uint32_t done)
{
    uint32_t words[PAGE_TOKENS];
    page_t *pages = pages_of(self, attempt);

    ASSERT(done >= attempt->done && done <= attempt->position);
    attempt->done = done;
    drop_border(self, attempt);
    for (uint32_t i = attempt->shared_count; i < done / PAGE_TOKENS && !attempt->private_pages;
         i++) {
        page_t parent = i == 0 ? page_at(UNITS_NONE) : pages[i - 1];
        page_t standing = pages[i];

        chain_read(store_of(self), &attempt->prompt, i * PAGE_TOKENS, PAGE_TOKENS, words);
        if (prefix_insert(prefix_of(self), pool_of(self), index_of(self, attempt), parent, pages[i],
                          words, salt_of(self, attempt), &standing) != STATUS_OK ||
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
        chain_read(store_of(self), &attempt->forced, 0, 1, &forced);
        if (forced == token->token)
            return;
        self->counts.differing++;
        LOG(ERROR, "PREFILL-REPLAY-DIFFERS request=%016llx attempt=%u",
            (unsigned long long)attempt->request, attempt->number);
        prefill_end(self, attempt, END_REFUSED, "the replayed answer differs", true, outbox);
        return;
    }
    attempt->token_due = true;
    if (request_ends(&attempt->parameters, self->leader.end_tokens, self->leader.end_token_count,
                     token->token))
        prefill_end(self, attempt, END_STOP, "", true, outbox);
    else if (attempt->parameters.limits.output_tokens_max == 1)
        prefill_end(self, attempt, END_LENGTH, "", true, outbox);
}
