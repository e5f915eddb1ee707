/* leader_step.c - what each step of a group holds, as far as both leaders decide it alike. */
#include "actors/leader.h"

record_step_item_t *leader_add_item(void *self, leader_attempt_t *attempt, device_item_kind_t kind)
{
    group_t *group = group_of(self);

    attempt->last_seq = group->seq + 1;
    leader_wait(self, attempt, WAITS_STEP);
    return group_add(group, kind, attempt->slot, attempt->request, attempt->number,
                     leader_index(self, attempt), attempt->alone);
}

record_step_item_t *leader_add_open(void *self, leader_attempt_t *attempt)
{
    record_step_item_t *item = leader_add_item(self, attempt, DEVICE_OPEN);

    item->sampling = request_sampling(&attempt->parameters);
    group_borrow(group_of(self), 2 * attempt->parameters.bias_count);
    item->slot_generation = leader_generation(pool_of(self), unit_slot(slot_at(attempt->slot)));
    leader_set_pages(self, leader_pages(self, attempt), attempt->page_count, item);
    leader_wait(self, attempt, WAITS_CLOSE);
    return item;
}

void leader_add_close(void *self, leader_attempt_t *attempt)
{
    leader_add_item(self, attempt, DEVICE_CLOSE);
    leader_wait_over(self, attempt, WAITS_CLOSE);
}

static bool wants_close(const leader_attempt_t *attempt)
{
    return attempt->state == LEADER_ENDING && attempt->waits & WAITS_CLOSE;
}

static void add_closes(void *self)
{
    leader_t *leader = self;

    for (uint32_t i = leader->live.first; i != REQUEST_NIL && leader->closes_due > 0;) {
        leader_attempt_t *attempt = leader_attempt(self, i);

        if (wants_close(attempt) && group_room(group_of(self), (group_load_t){.items = 1})) {
            leader_add_close(self, attempt);
        }
        i = attempt->link.next;
    }
}

/* The suspect whose turn it is, and whether anybody else waits for a step. */
static leader_attempt_t *next_alone(void *self, const leader_ops_t *ops, bool *others)
{
    leader_t *leader = self;
    leader_attempt_t *chosen = NULL;

    *others = false;
    for (uint32_t i = leader->live.first; i != REQUEST_NIL;) {
        leader_attempt_t *attempt = leader_attempt(self, i);
        bool wants_run = ops->wants_run(attempt);

        if (wants_close(attempt) || (wants_run && !attempt->alone))
            *others = true;
        else if (wants_run && (!chosen || attempt->last_seq < chosen->last_seq))
            chosen = attempt;
        i = attempt->link.next;
    }
    return chosen;
}

/* False if nothing was sent. */
static bool plan_step(void *self, const leader_ops_t *ops, outbox_t *outbox)
{
    leader_t *leader = self;
    uint32_t rows = ops->rows_free(self);
    bool others;
    leader_attempt_t *alone = next_alone(self, ops, &others);
    bool is_alone = alone && (!others || !leader->alone_last);

    if (is_alone && group_of(self)->in_flight > 0)
        return false; /* a step of its own, and no other one beside it */
    if (is_alone || rows > 0)
        leader->starving = false;
    /* Without pages it gives its turn to the others, whose CLOSE may be what it waits for. */
    is_alone = is_alone && ops->add_run(self, alone, leader->chunk_tokens) > 0;
    if (!is_alone) {
        add_closes(self);
        if (rows > 0)
            ops->add_runs(self, rows);
    }
    if (group_send(group_of(self), outbox) == 0)
        return false;
    leader->alone_in_flight = leader->alone_last = is_alone;
    leader->counts.steps++;
    return true;
}

void leader_plan_steps(void *self, const leader_ops_t *ops, outbox_t *outbox)
{
    leader_t *leader = self;

    while (!leader->alone_in_flight && group_may_step(group_of(self), outbox) &&
           (ops->rows_free(self) > 0 || leader->closes_due > 0) && plan_step(self, ops, outbox))
        ;
}
