/* device_cpu.c - opening, steps, sampling.
 *
 * Items are taken in order. Runs gather in a batch, which goes through the model when an item names
 * a slot that already waits in it, when it is full, or at the end of the step: so the order within
 * one slot is the step's, and everything else runs together.
 */
#include "device/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "cache/digest.h"
#include "device/cpu/cpu_parts.h"
#include "runtime/base/random.h"
#include "runtime/base/shared.h"

/* Changes whenever an operator's written order does: it is part of the numerics digest. */
enum { OPERATOR_SET_VERSION = 1 };

/* -- opening ---------------------------------------------------------------------------------- */

/* Whoever leaves an epoch takes the name of its segment away: nobody joins it any more. */
static void leave_segment(device_cpu_t *self)
{
    collective_close(&self->collective);
    if (self->segment[0])
        collective_unlink(self->segment);
    self->segment[0] = '\0';
}

static void device_cpu_close(device_t *device)
{
    device_cpu_t *self = (device_cpu_t *)device;

    forward_close(self->forward);
    if (self->pool.bytes)
        shared_unlink(self->config.pool.name);
    device_cpu_pool_close(&self->pool);
    for (uint32_t i = 0; i < self->peer_count; i++)
        device_cpu_pool_close(&self->peers[i].pool);
    leave_segment(self);
    weights_close(&self->weights);
    pthread_mutex_destroy(&self->lock);
    free(self->peers);
    free(self->slots);
    free(self->pages);
    free(self->tokens);
    free(self->logits);
    free(self->draws);
    free(self->choices);
    free(self->batch);
    free(self->batch_items);
    free(self->batch_ordinals);
    free(self->batch_targets);
    free(self->batch_carried);
    free(self->drawn);
    free(self->closed);
    free(self);
}

static status_t open_tables(device_cpu_t *self)
{
    uint32_t slots = self->config.slot_count;
    uint32_t slot_pages = tokens_pages(self->setup.positions_max);
    size_t logits = (size_t)slots * self->model.vocabulary * sizeof(float);

    self->peers = calloc(DEVICE_CPU_PEERS_MAX, sizeof(*self->peers));
    self->slots = calloc(slots, sizeof(*self->slots));
    self->pages = calloc((size_t)slots * slot_pages, sizeof(uint32_t));
    self->tokens = calloc((size_t)slots * self->setup.positions_max, sizeof(uint32_t));
    self->draws = calloc(slots, sizeof(*self->draws));
    self->choices = calloc(slots, sizeof(*self->choices));
    self->logits = aligned_alloc(64, (logits + 63) / 64 * 64);
    self->batch = calloc(slots, sizeof(*self->batch));
    self->batch_items = calloc(slots, sizeof(uint32_t));
    self->batch_ordinals = calloc((size_t)slots * DEVICE_BORDERS_MAX, sizeof(uint32_t));
    self->batch_targets = calloc((size_t)slots * DEVICE_BORDERS_MAX, sizeof(uint32_t));
    self->batch_carried = calloc(slots, sizeof(uint32_t));
    self->drawn = calloc(STEP_ITEMS_MAX, sizeof(*self->drawn));
    self->closed = calloc(CLOSED_MAX, sizeof(*self->closed));
    if (!self->peers || !self->slots || !self->pages || !self->tokens || !self->draws ||
        !self->choices || !self->logits || !self->batch || !self->batch_items ||
        !self->batch_ordinals || !self->batch_targets || !self->batch_carried || !self->drawn ||
        !self->closed)
        return FAIL(STATUS_NO_MEMORY, "no memory for the tables of %u slots", slots);
    for (uint32_t i = 0; i < slots; i++) {
        self->slots[i].pages = self->pages + (size_t)i * slot_pages;
        self->slots[i].tokens = self->tokens + (size_t)i * self->setup.positions_max;
    }
    return STATUS_OK;
}

static forward_options_t forward_options(const device_cpu_t *self)
{
    return (forward_options_t){.rank = self->config.rank,
                               .world = self->config.world,
                               .threads = self->setup.threads,
                               .rows_max = self->setup.rows_max,
                               .logits_max = self->config.slot_count,
                               .positions_max = self->setup.positions_max};
}

static status_t open_model(device_cpu_t *self, volatile uint32_t *progress)
{
    const forward_options_t options = forward_options(self);
    weights_digest_t digest;

    TRY(model_config_load(self->setup.folder, &self->model));
    TRY(forward_world_check(&self->model, self->config.world));
    TRY(forward_geometry(&self->model, self->setup.cache_form, self->setup.index_form, false,
                         &self->geometry));
    TRY(weights_open(&self->weights, self->setup.folder, &self->model));
    *progress = 100;
    TRY(weights_digest(&self->weights, self->setup.threads, &digest));
    *progress = 500;
    TRY(forward_open(&self->model, &self->weights, &self->geometry, &options, &self->forward));
    *progress = 900;
    self->digests.weights = digest.low ^ random_mix(digest.high);
    self->digests.geometry = self->geometry.digest;
    self->digests.numerics = random_mix(self->digests.weights ^
                                        random_mix(self->geometry.digest + OPERATOR_SET_VERSION));
    return STATUS_OK;
}

static status_t device_cpu_open(const device_config_t *config, const void *setup,
                                volatile uint32_t *progress, device_t **device)
{
    const device_cpu_setup_t *s = setup;
    volatile uint32_t nobody;
    device_cpu_t *self;
    status_t status;

    if (config->page_count < 2 || config->slot_count == 0 || config->slot_count > SLOTS_MAX ||
        s->threads == 0 || s->rows_max == 0 || s->positions_max == 0)
        return FAIL(STATUS_INVALID, "pages=%u slots=%u threads=%u rows=%u positions=%u",
                    config->page_count, config->slot_count, s->threads, s->rows_max,
                    s->positions_max);
    self = calloc(1, sizeof(*self));
    if (!self)
        return FAIL(STATUS_NO_MEMORY, "no memory for a device");
    self->base.ops = &device_cpu_ops;
    self->setup = *s;
    self->config = *config;
    pthread_mutex_init(&self->lock, NULL);
    status = open_model(self, progress ? progress : &nobody);
    if (status == STATUS_OK)
        status = open_tables(self);
    if (status == STATUS_OK)
        status = device_cpu_pool_create(self);
    if (status != STATUS_OK) {
        device_cpu_close(&self->base);
        return status;
    }
    if (progress)
        *progress = 1000;
    *device = &self->base;
    return STATUS_OK;
}

static void device_cpu_describe(const device_t *device, device_pool_t *pool,
                                device_digests_t *digests)
{
    const device_cpu_t *self = (const device_cpu_t *)device;

    *pool = self->config.pool;
    *digests = self->digests;
}

/* -- epochs ----------------------------------------------------------------------------------- */

static status_t device_cpu_reform(device_t *device, uint64_t epoch, const char *segment)
{
    device_cpu_t *self = (device_cpu_t *)device;
    const forward_options_t options = forward_options(self);
    status_t status = STATUS_OK;

    ASSERT(epoch >= self->epoch);
    for (uint32_t i = 0; i < self->config.slot_count; i++)
        self->slots[i].open = false;
    pthread_mutex_lock(&self->lock);
    leave_segment(self);
    if (self->config.world > 1) {
        snprintf(self->segment, sizeof(self->segment), "%s", segment);
        status = collective_open(&self->collective, segment, self->config.rank, self->config.world,
                                 forward_collective_capacity(&self->model, &options));
    }
    self->epoch = epoch;
    if (status == STATUS_OK && self->config.world > 1 && atomic_load(&self->broken) > epoch)
        collective_break(self->collective.segment, self->config.rank);
    pthread_mutex_unlock(&self->lock);
    forward_collective_set(
        self->forward, status == STATUS_OK && self->config.world > 1 ? &self->collective : NULL);
    return status;
}

static void device_cpu_interrupt(device_t *device, uint64_t epoch)
{
    device_cpu_t *self = (device_cpu_t *)device;

    atomic_store(&self->broken, epoch);
    pthread_mutex_lock(&self->lock);
    if (self->epoch < epoch && self->collective.segment)
        collective_break(self->collective.segment, self->config.rank);
    pthread_mutex_unlock(&self->lock);
}

static void device_cpu_generation_set(device_t *device, unit_kind_t unit, uint32_t index,
                                      uint64_t generation)
{
    device_cpu_t *self = (device_cpu_t *)device;

    if (index < self->pool.layout.counts[unit])
        generation_publish(device_cpu_generation(&self->pool, unit, index), 0,
                           generation_unpack(generation));
}

/* -- items ------------------------------------------------------------------------------------ */

static forward_cache_t cache_of(const device_cpu_t *self)
{
    return (forward_cache_t){&self->pool.layout, self->pool.units};
}

static status_t add_pages(device_cpu_t *self, const device_item_t *item)
{
    device_cpu_slot_t *slot = &self->slots[item->slot];

    if (item->page_count > tokens_pages(self->setup.positions_max) - slot->page_count)
        return FAIL(STATUS_INVALID, "slot %u gets more pages than %u positions need", item->slot,
                    self->setup.positions_max);
    for (uint32_t i = 0; i < item->page_count; i++) {
        if (item->pages[i] == 0 || item->pages[i] >= self->config.page_count)
            return FAIL(STATUS_INVALID, "slot %u gets page %u of %u", item->slot, item->pages[i],
                        self->config.page_count);
        slot->pages[slot->page_count++] = item->pages[i];
    }
    return STATUS_OK;
}

/* Tokens are remembered only for draws that look back. */
static status_t remember(device_cpu_t *self, device_cpu_slot_t *slot, const uint32_t *tokens,
                         uint32_t count)
{
    if (!sampler_reads_history(&slot->sampling))
        return STATUS_OK;
    if (count > self->setup.positions_max - slot->token_count)
        return FAIL(STATUS_INVALID, "more than %u tokens in a slot", self->setup.positions_max);
    for (uint32_t i = 0; i < count; i++)
        if (tokens[i] >= self->model.vocabulary)
            return FAIL(STATUS_INVALID, "token %u of a vocabulary of %u", tokens[i],
                        self->model.vocabulary);
    memcpy(slot->tokens + slot->token_count, tokens, count * sizeof(uint32_t));
    slot->token_count += count;
    return STATUS_OK;
}

static status_t run_open(device_cpu_t *self, const device_item_t *item)
{
    device_cpu_slot_t *slot = &self->slots[item->slot];
    const device_sampling_t *sampling = item->sampling;

    if (slot->open)
        return FAIL(STATUS_INVALID, "slot %u is open", item->slot);
    TRY(sampler_check(sampling, self->model.vocabulary));
    ASSERT(sampling->bias_count <= LOGIT_BIAS_MAX);
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
    if (item->position == 0)
        layout_slot_clear(&self->pool.layout, &self->geometry, self->pool.units,
                          slot_at(item->slot));
    return STATUS_OK;
}

static status_t run_load(device_cpu_t *self, const device_item_t *item)
{
    const forward_cache_t cache = cache_of(self);

    if (item->border >= self->config.border_count)
        return FAIL(STATUS_INVALID, "border %u of %u", item->border, self->config.border_count);
    if (item->position == 0 || item->position % PAGE_TOKENS)
        return FAIL(STATUS_INVALID, "slot %u continues at %u, which is no page's end", item->slot,
                    item->position);
    forward_border_load(&self->geometry, &cache, item->border, item->slot, item->position);
    return STATUS_OK;
}

/* Tokens of all runs of the batch whose logits were wanted. */
static void draw_batch(device_cpu_t *self, const device_step_t *step)
{
    uint32_t rows = 0;

    for (uint32_t i = 0; i < self->batch_count; i++) {
        const device_item_t *item = &step->items[self->batch_items[i]];
        const device_cpu_slot_t *slot = &self->slots[item->slot];
        const sampler_history_t history = {slot->tokens, slot->tokens + slot->prompt_count,
                                           slot->prompt_count,
                                           slot->token_count - slot->prompt_count};
        if (self->batch[i].logit_count)
            self->draws[rows++] =
                sampler_row(&slot->sampling, &history, item->position + item->count);
    }
    forward_draw(self->forward, self->logits, self->draws, rows, self->choices);
}

static status_t take_token(device_cpu_t *self, uint32_t index, const device_item_t *item,
                           const sample_choice_t *choice)
{
    device_cpu_slot_t *slot = &self->slots[item->slot];
    device_token_t *token = &self->drawn[self->drawn_count];

    TRY(sampler_outcome(choice));
    *token = (device_token_t){.item = index,
                              .slot = item->slot,
                              .token = choice->token,
                              .logprob = choice->logprob,
                              .top_count = choice->top_count};
    memcpy(token->top_tokens, choice->top_tokens, sizeof(token->top_tokens));
    memcpy(token->top_logprobs, choice->top_logprobs, sizeof(token->top_logprobs));
    self->drawn_count++;
    step_digest_add(&self->digest, index, STEP_DIGEST_TOKEN, item->slot, choice->token);
    slot->last = choice->token;
    slot->carries = true;
    return STATUS_OK;
}

static status_t close_unit(device_cpu_t *self, uint32_t index, unit_t unit, uint64_t digest)
{
    if (self->closed_count == CLOSED_MAX)
        return FAIL(STATUS_TOO_LARGE, "a step closes more than %d units", CLOSED_MAX);
    self->closed[self->closed_count++] = (device_closed_t){unit.kind, unit.number, digest};
    step_digest_add(&self->digest, index, STEP_DIGEST_UNIT, (uint64_t)unit.kind << 32 | unit.number,
                digest);
    return STATUS_OK;
}

static status_t close_whole(device_cpu_t *self, uint32_t index, unit_t unit)
{
    return close_unit(self, index, unit,
                      digest_unit(&self->geometry, &self->pool.layout, self->pool.units, unit));
}

/* Pages that this run filled, each with the border kept at its end; with `tail` what is open. */
static status_t close_units(device_cpu_t *self, uint32_t index, const device_item_t *item)
{
    const device_cpu_slot_t *slot = &self->slots[item->slot];
    uint32_t end = item->position + item->count, open = end % PAGE_TOKENS;

    for (uint32_t i = item->position / PAGE_TOKENS; i < end / PAGE_TOKENS; i++) {
        TRY(close_whole(self, index, unit_page(page_at(slot->pages[i]))));
        for (uint32_t b = 0; b < item->border_count; b++)
            if (item->border_pages[b] == i)
                TRY(close_whole(self, index, unit_border(border_at(item->border_targets[b]))));
    }
    if (!item->tail)
        return STATUS_OK;
    if (open) {
        page_t page = page_at(slot->pages[end / PAGE_TOKENS]);
        TRY(close_unit(
            self, index, unit_page(page),
            digest_page_open(&self->geometry, &self->pool.layout, self->pool.units, page, open)));
    }
    return close_whole(self, index, unit_slot(slot_at(item->slot)));
}

/* -- the batch -------------------------------------------------------------------------------- */

static status_t run_batch(device_cpu_t *self, const device_step_t *step)
{
    const forward_cache_t cache = cache_of(self);
    uint32_t row = 0;

    if (!self->batch_count)
        return STATUS_OK;
    if (atomic_load(&self->broken) > step->epoch)
        return FAIL(STATUS_BROKEN, "epoch %llx is broken", (unsigned long long)step->epoch);
    TRY(forward_step(self->forward, &cache, self->batch, self->batch_count, self->logits, NULL));
    draw_batch(self, step);
    for (uint32_t i = 0; i < self->batch_count; i++) {
        const forward_item_t *run = &self->batch[i];
        uint32_t index = self->batch_items[i];
        const device_item_t *item = &step->items[index];
        self->slots[run->slot].pending = false;
        step_digest_add(&self->digest, index, STEP_DIGEST_STATE, run->position,
                    forward_digest(self->forward, i));
        if (run->position + run->count < item->position + item->count)
            continue; /* the rest of a long run follows */
        TRY(close_units(self, index, item));
        if (item->sample)
            TRY(take_token(self, index, item, &self->choices[row++]));
    }
    self->batch_count = 0;
    self->batch_rows = 0;
    return STATUS_OK;
}

/* Positions [first, first + count) of the item as one run. */
static void add_run(device_cpu_t *self, uint32_t index, const device_item_t *item, uint32_t first,
                    uint32_t count)
{
    uint32_t place = self->batch_count++, end = first + count;
    forward_item_t *run = &self->batch[place];
    uint32_t *ordinals = self->batch_ordinals + (size_t)place * DEVICE_BORDERS_MAX;
    uint32_t *targets = self->batch_targets + (size_t)place * DEVICE_BORDERS_MAX;

    self->batch_carried[place] = self->slots[item->slot].last;
    *run = (forward_item_t){
        .slot = item->slot,
        .position = first,
        .count = count,
        .tokens =
            item->tokens ? item->tokens + (first - item->position) : &self->batch_carried[place],
        .pages = self->slots[item->slot].pages,
        .logit_count = item->sample && end == item->position + item->count,
        .border_ordinals = ordinals,
        .border_targets = targets,
    };
    for (uint32_t b = 0; b < item->border_count; b++) {
        uint32_t page_end = (item->border_pages[b] + 1) * PAGE_TOKENS;
        if (page_end <= first || page_end > end)
            continue;
        ordinals[run->border_count] = item->border_pages[b];
        targets[run->border_count++] = item->border_targets[b];
    }
    self->batch_items[place] = index;
    self->batch_rows += count;
    self->slots[item->slot].pending = true;
}

static status_t check_run(const device_cpu_t *self, const device_item_t *item)
{
    const device_cpu_slot_t *slot = &self->slots[item->slot];
    uint32_t end = item->position + item->count;

    if (item->count == 0 || item->count > self->setup.positions_max - item->position ||
        item->position > self->setup.positions_max)
        return FAIL(STATUS_INVALID, "slot %u runs %u tokens at %u of %u", item->slot, item->count,
                    item->position, self->setup.positions_max);
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

static status_t run_tokens(device_cpu_t *self, const device_step_t *step, uint32_t index)
{
    const device_item_t *item = &step->items[index];
    device_cpu_slot_t *slot = &self->slots[item->slot];
    uint32_t rows_max = self->setup.rows_max, done = 0, count;

    TRY(check_run(self, item));
    TRY(remember(self, slot, item->tokens ? item->tokens : &slot->last, item->count));
    if (!slot->continued && item->tokens)
        slot->prompt_count = slot->token_count;
    while (done < item->count) {
        if (slot->pending || self->batch_rows == rows_max ||
            self->batch_count == self->config.slot_count)
            TRY(run_batch(self, step));
        count = item->count - done;
        if (count > rows_max - self->batch_rows)
            count = rows_max - self->batch_rows;
        add_run(self, index, item, item->position + done, count);
        done += count;
    }
    return STATUS_OK;
}

static status_t run_item(device_cpu_t *self, const device_step_t *step, uint32_t index)
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
        return run_open(self, item);
    case DEVICE_EXTEND:
        return add_pages(self, item);
    case DEVICE_LOAD:
        return run_load(self, item);
    case DEVICE_RUN:
        return run_tokens(self, step, index);
    case DEVICE_CLOSE:
        self->slots[item->slot].open = false;
        return STATUS_OK;
    }
    return FAIL(STATUS_INVALID, "item kind %d", (int)item->kind);
}

static status_t device_cpu_step(device_t *device, const device_step_t *step,
                                device_result_t *result)
{
    device_cpu_t *self = (device_cpu_t *)device;

    self->digest = step_digest_begin(step->seq);
    self->drawn_count = 0;
    self->closed_count = 0;
    self->batch_count = 0;
    self->batch_rows = 0;
    for (uint32_t i = 0; i < self->config.slot_count; i++)
        self->slots[i].pending = false; /* of a step that failed */
    if (step->epoch != self->epoch)
        return FAIL(STATUS_STALE, "step of epoch %llx, device is in %llx",
                    (unsigned long long)step->epoch, (unsigned long long)self->epoch);
    if (atomic_load(&self->broken) > step->epoch)
        return FAIL(STATUS_BROKEN, "epoch %llx is broken", (unsigned long long)step->epoch);
    if (self->config.world > 1)
        collective_step(&self->collective, step->epoch, step->seq);
    for (uint32_t i = 0; i < step->item_count; i++)
        TRY(run_item(self, step, i));
    TRY(run_batch(self, step));
    *result = (device_result_t){.digest = self->digest,
                                .call = self->config.world > 1 ? self->collective.call : 0,
                                .tokens = self->drawn,
                                .token_count = self->drawn_count,
                                .closed = self->closed,
                                .closed_count = self->closed_count};
    return STATUS_OK;
}

const device_ops_t device_cpu_ops = {
    .name = "cpu",
    .open = device_cpu_open,
    .close = device_cpu_close,
    .describe = device_cpu_describe,
    .reform = device_cpu_reform,
    .step = device_cpu_step,
    .interrupt = device_cpu_interrupt,
    .generation_set = device_cpu_generation_set,
    .map = device_cpu_map,
    .copy = device_cpu_copy,
};
