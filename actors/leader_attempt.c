/* leader_attempt.c - what both leaders do with an attempt: it lives, becomes, ends and is forgotten. */
#include "actors/leader.h"

#include <string.h>

#include "runtime/base/plant.h"

_Static_assert((int)LEADER_WAITS <= (int)ACTOR_ATTEMPT_WAITS_MAX, "each is shown");

const char *const leader_wait_names[ACTOR_ATTEMPT_WAITS_MAX] = {"decode", "transfer", "epoch",
                                                                "step",   "close",    "token ack"};

leader_attempt_t *leader_find(void *self, uint64_t request, uint32_t number)
{
    uint32_t index = map_get(map_of(self), request, number);

    return index == MAP_NONE ? NULL : leader_attempt(self, index);
}

uint8_t leader_attempt_state(const void *self, uint64_t request, uint32_t number)
{
    const leader_t *leader = self;
    uint32_t index = map_get(AT_CONST(leader, map_t, map_offset), request, number);
    const char *first = AT_CONST(leader, char, attempts_offset);

    if (index == MAP_NONE)
        return LEADER_NONE;
    return ((const leader_attempt_t *)(const void *)(first + index * leader->shape.attempt_bytes))
        ->state;
}

void leader_insert(void *self, leader_attempt_t *attempt)
{
    leader_t *leader = self;
    uint32_t index = leader_index(self, attempt);

    map_put(map_of(self), attempt->request, attempt->number, index);
    request_list_insert(&leader->live, leader_attempt(self, 0), index);
    leader->in_state[attempt->state]++;
    leader->counts.opened++;
    leader->counts.live++;
}

static bool closes(const leader_attempt_t *attempt)
{
    return attempt->state == LEADER_ENDING && attempt->waits & WAITS_CLOSE;
}

void leader_become(void *self, leader_attempt_t *attempt, uint8_t state)
{
    leader_t *leader = self;

    leader->closes_due -= closes(attempt);
    leader->in_state[attempt->state]--;
    leader->in_state[state]++;
    attempt->state = state;
    leader->closes_due += closes(attempt);
}

static void set_waits(leader_t *leader, leader_attempt_t *attempt, uint32_t waits)
{
    leader->closes_due -= closes(attempt);
    for (uint32_t bit = 0; bit < LEADER_WAITS; bit++)
        leader->waiting[bit] += (waits >> bit & 1u) - ((uint32_t)attempt->waits >> bit & 1u);
    attempt->waits = (uint8_t)waits;
    leader->closes_due += closes(attempt);
}

void leader_wait(void *self, leader_attempt_t *attempt, uint32_t waits)
{
    set_waits(self, attempt, attempt->waits | waits);
}

void leader_wait_over(void *self, leader_attempt_t *attempt, uint32_t waits)
{
    set_waits(self, attempt, attempt->waits & ~waits);
}

bool leader_end_is_final(end_reason_t reason)
{
    return reason != END_LOST && reason != END_RETRACTED;
}

static bool is_heard(actor_id_t opener, const outbox_t *outbox)
{
    return opener != ACTOR_NONE && outbox_is_up(outbox, opener);
}

void leader_end(void *self, const leader_ops_t *ops, leader_attempt_t *attempt, message_end_t *end,
                outbox_t *outbox)
{
    leader_t *leader = self;
    end_reason_t reason = (end_reason_t)end->reason;

    ASSERT(attempt->state != LEADER_NONE);
    ASSERT(attempt->state != LEADER_ENDING || PLANTED(double_end));
    end->request = attempt->request;
    end->attempt = attempt->number;
    end->cached_tokens = attempt->cached_tokens;
    end->suspect = attempt->suspect;
    end->charge = attempt->charge;
    leader->counts.ended++;
    if (is_heard(ops->opener(attempt), outbox))
        outbox_push(outbox, ops->opener(attempt), MESSAGE_end, end);
    leader_become(self, attempt, LEADER_ENDING);
    if (!leader_end_is_final(reason) || reason == END_ABORTED)
        leader_wait_over(
            self, attempt,
            WAITS_TOKEN_ACK); /* these tokens will be made again, or nobody wants them */
}

void leader_give_back(void *self, const leader_ops_t *ops, leader_attempt_t *attempt)
{
    leader_t *leader = self;

    if (!attempt->holds)
        return;
    ops->give_back(self, attempt);
    pool_release(pool_of(self), unit_slot(slot_at(attempt->slot)), leader_index(self, attempt));
    leader->counts.pages_held -= attempt->page_count;
    attempt->holds = false;
    attempt->page_count = 0;
    leader->came_free++;
}

static void forget(void *self, const leader_ops_t *ops, leader_attempt_t *attempt)
{
    leader_t *leader = self;
    uint32_t index = leader_index(self, attempt);

    map_remove(map_of(self), attempt->request, attempt->number);
    request_list_remove(&leader->live, leader_attempt(self, 0), index);
    ops->forget(self, attempt);
    leader->in_state[attempt->state]--;
    attempt->state = LEADER_NONE;
    attempt->link.next = free_list_give(&leader->free, index);
    leader->counts.live--;
    leader->came_free++;
}

void leader_settle(void *self, const leader_ops_t *ops, leader_attempt_t *attempt, outbox_t *outbox)
{
    leader_t *leader = self;
    message_fenced_t fenced = {attempt->request, attempt->number};
    uint8_t waits = attempt->waits;

    ASSERT(attempt->state == LEADER_ENDING);
    if (PLANTED(early_return))
        waits &= (uint8_t)~WAITS_STEP;
    if (!attempt->fenced && !(waits & LEADER_WAITS_MEMORY)) {
        leader_give_back(self, ops, attempt);
        if (is_heard(ops->opener(attempt), outbox))
            outbox_push(outbox, ops->opener(attempt), MESSAGE_fenced, &fenced);
        attempt->fenced = true;
        leader->counts.fenced++;
    }
    if (attempt->fenced && waits == 0)
        forget(self, ops, attempt);
}

void leader_settle_all(void *self, const leader_ops_t *ops, outbox_t *outbox)
{
    leader_t *leader = self;
    bool settled = group_is_settled(group_of(self));

    for (uint32_t i = leader->live.first, next; i != REQUEST_NIL; i = next) {
        leader_attempt_t *attempt = leader_attempt(self, i);

        next = attempt->link.next;
        if (settled && attempt->waits & WAITS_EPOCH) {
            leader_wait_over(self, attempt, WAITS_EPOCH);
            ops->settle_epoch(self, attempt);
        }
        if (attempt->state == LEADER_ENDING)
            leader_settle(self, ops, attempt, outbox);
    }
}

void leader_refuse(void *self, actor_id_t to, const message_end_t *end, outbox_t *outbox)
{
    leader_t *leader = self;
    message_fenced_t fenced = {end->request, end->attempt};

    outbox_push(outbox, to, MESSAGE_end, end);
    outbox_push(outbox, to, MESSAGE_fenced, &fenced);
    leader->counts.opened++;
    leader->counts.ended++;
    leader->counts.fenced++;
}

void leader_set_pages(void *self, const page_t *pages, uint32_t count, record_step_item_t *item)
{
    uint32_t *words = group_words(group_of(self), count);
    uint64_t *longs = group_longs(group_of(self), count);

    for (uint32_t i = 0; i < count; i++) {
        words[i] = pages[i].value;
        longs[i] = leader_generation(pool_of(self), unit_page(pages[i]));
    }
    item->pages = (u32s_view_t){words, count};
    item->generations = (u64s_view_t){longs, count};
}
