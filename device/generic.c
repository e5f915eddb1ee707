/* generic.c - the generic half of a device: slots, items, batches and step digests; pool.c has pools and copies.
 *
 * Items are taken in order. Runs gather in a batch, which goes to the backend when an item names a slot that
 * already waits in it, when it is full, or at the end of the step: so the order within one slot is the step's,
 * and everything else runs together.
 */
#include <stdlib.h>
#include <string.h>

#include "cache/units.h"
#include "device/backend.h"
#include "kernels/sample/sample.h"

/* -- opening ---------------------------------------------------------------------------------- */

void generic_close(device_t *device)
{
    device_generic_t *self = (device_generic_t *)device;

    generic_pools_close(self);
    free(self->peers);
    free(self->slots);
    free(self->pages);
    free(self->tokens);
    free(self->runs);
    free(self->outcomes);
    free(self->drawn);
    free(self->closed);
    self->backend->close(self);
}

static status_t open_tables(device_generic_t *self)
{
    uint32_t slots = self->config.slot_count, slot_pages = tokens_pages(self->shape.positions_max);

    self->peers = calloc(DEVICE_PEERS_MAX, sizeof(*self->peers));
    self->slots = calloc(slots, sizeof(*self->slots));
    self->pages = calloc((size_t)slots * slot_pages, sizeof(uint32_t));
    self->tokens = calloc((size_t)slots * self->shape.positions_max, sizeof(uint32_t));
    self->runs = calloc(slots, sizeof(*self->runs));
    self->outcomes = calloc(slots, sizeof(*self->outcomes));
    self->drawn = calloc(STEP_ITEMS_MAX, sizeof(*self->drawn));
    self->closed = calloc(CLOSED_MAX, sizeof(*self->closed));
    if (!self->peers || !self->slots || !self->pages || !self->tokens || !self->runs ||
        !self->outcomes || !self->drawn || !self->closed)
        return FAIL(STATUS_NO_MEMORY, "no memory for the tables of %u slots", slots);
    for (uint32_t i = 0; i < slots; i++) {
        self->slots[i].pages = self->pages + (size_t)i * slot_pages;
        self->slots[i].tokens = self->tokens + (size_t)i * self->shape.positions_max;
    }
    return STATUS_OK;
}

status_t generic_open(device_generic_t *self)
{
    const device_config_t *config = &self->config;
    const device_shape_t *shape = &self->shape;

    if (config->page_count < 2 || config->slot_count == 0 || config->slot_count > SLOTS_MAX ||
        shape->positions_max == 0 || shape->rows_max == 0 || shape->vocabulary < 2)
        return FAIL(STATUS_INVALID, "pages=%u slots=%u positions=%u rows=%u vocabulary=%u",
                    config->page_count, config->slot_count, shape->positions_max, shape->rows_max,
                    shape->vocabulary);
    TRY(open_tables(self));
    return generic_pool_create(self);
}

void generic_describe(const device_t *device, device_pool_t *pool, device_digests_t *digests)
{
    const device_generic_t *self = (const device_generic_t *)device;

    *pool = self->config.pool;
    *digests = self->shape.digests;
}

/* -- epochs ----------------------------------------------------------------------------------- */

status_t generic_reform(device_t *device, uint64_t epoch, const char *segment)
{
    device_generic_t *self = (device_generic_t *)device;

    ASSERT(epoch >= self->epoch);
    for (uint32_t i = 0; i < self->config.slot_count; i++)
        self->slots[i].open = false;
    self->epoch = epoch;
    self->call = 0;
    return self->backend->reform ? self->backend->reform(self, epoch, segment) : STATUS_OK;
}

void generic_interrupt(device_t *device, uint64_t epoch)
{
    device_generic_t *self = (device_generic_t *)device;

    atomic_store(&self->broken, epoch);
    if (self->backend->interrupt)
        self->backend->interrupt(self, epoch);
}

bool generic_is_broken(const device_generic_t *self, uint64_t epoch)
{
    return atomic_load(&self->broken) > epoch;
}

/* -- items ------------------------------------------------------------------------------------ */

static status_t add_pages(device_generic_t *self, const device_item_t *item)
{
    device_slot_t *slot = &self->slots[item->slot];

    if (item->page_count > tokens_pages(self->shape.positions_max) - slot->page_count)
        return FAIL(STATUS_INVALID, "slot %u gets more pages than %u positions need", item->slot,
                    self->shape.positions_max);
    for (uint32_t i = 0; i < item->page_count; i++) {
        if (item->pages[i] == 0 || item->pages[i] >= self->config.page_count)
            return FAIL(STATUS_INVALID, "slot %u gets page %u of %u", item->slot, item->pages[i],
                        self->config.page_count);
        slot->pages[slot->page_count++] = item->pages[i];
    }
    return STATUS_OK;
}

static bool looks_back(const device_sampling_t *sampling)
{
    return sample_reads_history(&(sample_row_t){
        .presence_penalty = sampling->presence_penalty,
        .frequency_penalty = sampling->frequency_penalty,
        .repetition_penalty = sampling->repetition_penalty,
    });
}

/* Tokens are remembered only for draws that look back. */
static status_t remember(device_generic_t *self, device_slot_t *slot, const uint32_t *tokens,
                         uint32_t count)
{
    if (!looks_back(&slot->sampling))
        return STATUS_OK;
    if (count > self->shape.positions_max - slot->token_count)
        return FAIL(STATUS_INVALID, "more than %u tokens in a slot", self->shape.positions_max);
    for (uint32_t i = 0; i < count; i++)
        if (tokens[i] >= self->shape.vocabulary)
            return FAIL(STATUS_INVALID, "token %u of a vocabulary of %u", tokens[i],
                        self->shape.vocabulary);
    memcpy(slot->tokens + slot->token_count, tokens, count * sizeof(uint32_t));
    slot->token_count += count;
    return STATUS_OK;
}

static status_t take_open(device_generic_t *self, const device_item_t *item)
{
    device_slot_t *slot = &self->slots[item->slot];
    const device_sampling_t *sampling = item->sampling;

    if (slot->open)
        return FAIL(STATUS_INVALID, "slot %u is open", item->slot);
    if (sampling->bias_count > LOGIT_BIAS_MAX)
        return FAIL(STATUS_INVALID, "logit_bias: expected up to %d tokens, found %u",
                    LOGIT_BIAS_MAX, sampling->bias_count);
    slot->open = true;
    slot->carries = false;
    slot->continued = item->position > 0;
    slot->page_count = 0;
    slot->prompt_count = 0;
    slot->token_count = 0;
    slot->sampling = *sampling;
    if (sampling->bias_count) {
        memcpy(slot->bias_tokens, sampling->bias_tokens, sampling->bias_count * sizeof(uint32_t));
        memcpy(slot->bias_values, sampling->bias_values, sampling->bias_count * sizeof(float));
    }
    slot->sampling.bias_tokens = slot->bias_tokens;
    slot->sampling.bias_values = slot->bias_values;
    TRY(add_pages(self, item));
    if (item->tokens)
        TRY(remember(self, slot, item->tokens, item->token_count));
    slot->prompt_count = slot->token_count;
    return self->backend->start(self, item->slot, item->position);
}

static status_t take_load(device_generic_t *self, const device_item_t *item)
{
    if (item->border >= self->config.border_count)
        return FAIL(STATUS_INVALID, "border %u of %u", item->border, self->config.border_count);
    if (item->position == 0 || item->position % PAGE_TOKENS)
        return FAIL(STATUS_INVALID, "slot %u continues at %u, which is no page's end", item->slot,
                    item->position);
    return self->backend->load(self, item->border, item->slot, item->position);
}

/* -- what a run gave -------------------------------------------------------------------------- */

static void take_token(device_generic_t *self, const device_run_t *run, const device_token_t *drawn)
{
    device_slot_t *slot = &self->slots[run->slot];
    device_token_t *token = &self->drawn[self->drawn_count++];

    *token = *drawn;
    token->item = run->item;
    token->slot = run->slot;
    step_digest_add(&self->digest, run->item, STEP_DIGEST_TOKEN, run->slot, token->token);
    slot->last = token->token;
    slot->carries = true;
}

static status_t close_unit(device_generic_t *self, uint32_t item, unit_kind_t unit, uint32_t index,
                           uint32_t rows)
{
    uint64_t digest;

    if (self->closed_count == CLOSED_MAX)
        return FAIL(STATUS_TOO_LARGE, "a step closes more than %d units", CLOSED_MAX);
    digest = self->backend->digest(self, &self->pool, unit, index, rows);
    self->closed[self->closed_count++] = (device_closed_t){unit, index, digest};
    step_digest_add(&self->digest, item, STEP_DIGEST_UNIT, (uint64_t)unit << 32 | index, digest);
    return STATUS_OK;
}

/* Pages that this item filled, each with the border kept at its end; with `tail` what is open. */
static status_t close_units(device_generic_t *self, uint32_t index, const device_item_t *item)
{
    const device_slot_t *slot = &self->slots[item->slot];
    uint32_t end = item->position + item->count, open = end % PAGE_TOKENS;

    for (uint32_t i = item->position / PAGE_TOKENS; i < end / PAGE_TOKENS; i++) {
        TRY(close_unit(self, index, UNIT_HISTORY, slot->pages[i], PAGE_TOKENS));
        for (uint32_t b = 0; b < item->border_count; b++)
            if (item->border_pages[b] == i)
                TRY(close_unit(self, index, UNIT_BORDER, item->border_targets[b], 0));
    }
    if (!item->tail)
        return STATUS_OK;
    if (open)
        TRY(close_unit(self, index, UNIT_HISTORY, slot->pages[end / PAGE_TOKENS], open));
    return close_unit(self, index, UNIT_SLOT, item->slot, 0);
}

/* -- the batch -------------------------------------------------------------------------------- */

static status_t run_batch(device_generic_t *self, const device_step_t *step)
{
    if (self->run_count == 0)
        return STATUS_OK;
    if (generic_is_broken(self, step->epoch))
        return FAIL(STATUS_BROKEN, "epoch %llx is broken", (unsigned long long)step->epoch);
    TRY(self->backend->run(self, self->runs, self->run_count, self->outcomes));
    for (uint32_t i = 0; i < self->run_count; i++) {
        const device_run_t *run = &self->runs[i];
        const device_item_t *item = &step->items[run->item];

        self->slots[run->slot].pending = false;
        self->slots[run->slot].carries = false;
        step_digest_add(&self->digest, run->item, STEP_DIGEST_STATE, run->position,
                        self->outcomes[i].state);
        if (run->position + run->count < item->position + item->count)
            continue; /* the rest of a long run follows */
        TRY(close_units(self, run->item, item));
        if (run->draw)
            take_token(self, run, &self->outcomes[i].token);
    }
    self->run_count = 0;
    self->row_count = 0;
    return STATUS_OK;
}

/* Positions [first, first + count) of the item as one run. */
static void add_run(device_generic_t *self, uint32_t index, const device_item_t *item,
                    uint32_t first, uint32_t count)
{
    device_run_t *run = &self->runs[self->run_count++];
    uint32_t end = first + count;

    *run = (device_run_t){.item = index,
                          .slot = item->slot,
                          .position = first,
                          .count = count,
                          .draw = item->sample && end == item->position + item->count,
                          .carried = self->slots[item->slot].last};
    run->tokens = item->tokens ? item->tokens + (first - item->position) : &run->carried;
    for (uint32_t b = 0; b < item->border_count; b++) {
        uint32_t page_end = (item->border_pages[b] + 1) * PAGE_TOKENS;

        if (page_end <= first || page_end > end)
            continue;
        run->border_pages[run->border_count] = item->border_pages[b];
        run->border_targets[run->border_count++] = item->border_targets[b];
    }
    self->row_count += count;
    self->slots[item->slot].pending = true;
}

static status_t check_run(const device_generic_t *self, const device_item_t *item)
{
    const device_slot_t *slot = &self->slots[item->slot];
    uint32_t end = item->position + item->count;

    if (item->count == 0 || item->position > self->shape.positions_max ||
        item->count > self->shape.positions_max - item->position)
        return FAIL(STATUS_INVALID, "slot %u runs %u tokens at %u of %u", item->slot, item->count,
                    item->position, self->shape.positions_max);
    if (tokens_pages(end) > slot->page_count)
        return FAIL(STATUS_INVALID, "slot %u has %u pages, position %u needs more", item->slot,
                    slot->page_count, end);
    if (!item->tokens && (item->count != 1 || !slot->carries))
        return FAIL(STATUS_INVALID, "slot %u carries no token", item->slot);
    for (uint32_t b = 0; b < item->border_count; b++) {
        uint64_t page_end = ((uint64_t)item->border_pages[b] + 1) * PAGE_TOKENS;

        if (page_end <= item->position || page_end > end ||
            item->border_targets[b] >= self->config.border_count)
            return FAIL(STATUS_INVALID, "slot %u keeps border %u of %u at page %u", item->slot,
                        item->border_targets[b], self->config.border_count, item->border_pages[b]);
    }
    return STATUS_OK;
}

static status_t take_run(device_generic_t *self, const device_step_t *step, uint32_t index)
{
    const device_item_t *item = &step->items[index];
    device_slot_t *slot = &self->slots[item->slot];
    uint32_t rows_max = self->shape.rows_max, done = 0, count;

    TRY(check_run(self, item));
    TRY(remember(self, slot, item->tokens ? item->tokens : &slot->last, item->count));
    if (!slot->continued && item->tokens)
        slot->prompt_count = slot->token_count;
    while (done < item->count) {
        if (self->row_count == rows_max || self->run_count == self->config.slot_count)
            TRY(run_batch(self, step));
        count = item->count - done;
        if (count > rows_max - self->row_count)
            count = rows_max - self->row_count;
        add_run(self, index, item, item->position + done, count);
        done += count;
    }
    return STATUS_OK;
}

static status_t take_item(device_generic_t *self, const device_step_t *step, uint32_t index)
{
    const device_item_t *item = &step->items[index];

    if (item->slot >= self->config.slot_count)
        return FAIL(STATUS_INVALID, "slot %u of %u", item->slot, self->config.slot_count);
    if (self->slots[item->slot].pending)
        TRY(run_batch(self, step));
    if (item->kind != DEVICE_OPEN && !self->slots[item->slot].open)
        return FAIL(STATUS_INVALID, "slot %u is not open", item->slot);
    switch (item->kind) {
    case DEVICE_OPEN:
        return take_open(self, item);
    case DEVICE_EXTEND:
        return add_pages(self, item);
    case DEVICE_LOAD:
        return take_load(self, item);
    case DEVICE_RUN:
        return take_run(self, step, index);
    case DEVICE_CLOSE:
        self->slots[item->slot].open = false;
        return STATUS_OK;
    }
    return FAIL(STATUS_INVALID, "item kind %d", (int)item->kind);
}

status_t generic_step(device_t *device, const device_step_t *step, device_result_t *result)
{
    device_generic_t *self = (device_generic_t *)device;

    self->digest = step_digest_begin(step->seq);
    self->drawn_count = 0;
    self->closed_count = 0;
    self->run_count = 0;
    self->row_count = 0;
    for (uint32_t i = 0; i < self->config.slot_count; i++)
        self->slots[i].pending = false; /* of a step that failed */
    if (step->epoch != self->epoch)
        return FAIL(STATUS_STALE, "step of epoch %llx, device is in %llx",
                    (unsigned long long)step->epoch, (unsigned long long)self->epoch);
    if (generic_is_broken(self, step->epoch))
        return FAIL(STATUS_BROKEN, "epoch %llx is broken", (unsigned long long)step->epoch);
    if (self->backend->begin)
        self->backend->begin(self, step);
    for (uint32_t i = 0; i < step->item_count; i++)
        TRY(take_item(self, step, i));
    TRY(run_batch(self, step));
    *result = (device_result_t){.digest = self->digest,
                                .call = self->call,
                                .tokens = self->drawn,
                                .token_count = self->drawn_count,
                                .closed = self->closed,
                                .closed_count = self->closed_count};
    return STATUS_OK;
}
