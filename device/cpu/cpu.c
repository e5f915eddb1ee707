/* cpu.c - see cpu.h: the model, runs, borders, copies and digests of units in the CPU's memory. */
#include "device/cpu/cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cache/copy.h"
#include "cache/digest.h"
#include "device/backend.h"
#include "model/forward.h"
#include "model/sampler.h"
#include "runtime/base/probe.h"
#include "runtime/base/random.h"

/* Changes whenever an operator's written order does: it is part of the numerics digest. */
enum { OPERATOR_SET_VERSION = 1 };

typedef struct {
    device_generic_t base;
    device_cpu_setup_t setup;
    model_config_t model;
    weights_t weights;
    geometry_t geometry;
    forward_t *forward;
    float *logits;
    forward_item_t *items; /* of a batch */
    sample_row_t *draws;
    sample_choice_t *choices;
    copy_item_t *copy_items; /* of the copy thread */

    pthread_mutex_t lock; /* collective and epoch, between reform and interrupt */
    collective_t collective;
    char segment[2 * DEVICE_NAME_BYTES_MAX]; /* its name; "" without one */
    uint64_t epoch;
} device_cpu_t;

/* -- opening ---------------------------------------------------------------------------------- */

/* Whoever leaves an epoch takes the name of its segment away: nobody joins it any more. */
static void leave_segment(device_cpu_t *self)
{
    collective_close(&self->collective);
    if (self->segment[0])
        collective_unlink(self->segment);
    self->segment[0] = '\0';
}

static void device_cpu_close(device_generic_t *device)
{
    device_cpu_t *self = (device_cpu_t *)device;

    forward_close(self->forward);
    leave_segment(self);
    weights_close(&self->weights);
    pthread_mutex_destroy(&self->lock);
    free(self->logits);
    free(self->items);
    free(self->draws);
    free(self->choices);
    free(self->copy_items);
    free(self);
}

static status_t open_tables(device_cpu_t *self)
{
    uint32_t slots = self->base.config.slot_count;
    size_t logits = (size_t)slots * self->model.vocabulary * sizeof(float);

    self->items = calloc(slots, sizeof(*self->items));
    self->draws = calloc(slots, sizeof(*self->draws));
    self->choices = calloc(slots, sizeof(*self->choices));
    self->logits = aligned_alloc(64, (logits + 63) / 64 * 64);
    self->copy_items = calloc(DEVICE_COPIES_MAX * COPY_UNIT_ITEMS_MAX, sizeof(*self->copy_items));
    if (!self->items || !self->draws || !self->choices || !self->logits || !self->copy_items)
        return FAIL(STATUS_NO_MEMORY, "no memory for batches of %u slots", slots);
    return STATUS_OK;
}

static forward_options_t forward_options(const device_cpu_t *self)
{
    return (forward_options_t){.rank = self->base.config.rank,
                               .world = self->base.config.world,
                               .threads = self->setup.threads,
                               .rows_max = self->setup.rows_max,
                               .logits_max = self->base.config.slot_count,
                               .positions_max = self->setup.positions_max};
}

static status_t open_model(device_cpu_t *self, volatile uint32_t *progress)
{
    device_digests_t *digests = &self->base.shape.digests;
    const forward_options_t options = forward_options(self);
    weights_digest_t digest;

    TRY(model_config_load(self->setup.folder, &self->model));
    TRY(forward_world_check(&self->model, self->base.config.world));
    TRY(forward_geometry(&self->model, self->setup.cache_form, self->setup.index_form, false,
                         &self->geometry));
    TRY(weights_open(&self->weights, self->setup.folder, &self->model));
    *progress = 100;
    TRY(weights_digest(&self->weights, self->setup.threads, &digest));
    *progress = 500;
    TRY(forward_open(&self->model, &self->weights, &self->geometry, &options, &self->forward));
    *progress = 900;
    digests->weights = digest.low ^ random_mix(digest.high);
    digests->geometry = self->geometry.digest;
    digests->numerics =
        random_mix(digests->weights ^ random_mix(self->geometry.digest + OPERATOR_SET_VERSION));
    self->base.shape.vocabulary = self->model.vocabulary;
    self->base.shape.positions_max = self->setup.positions_max;
    self->base.shape.rows_max = self->setup.rows_max;
    return open_tables(self);
}

static const device_backend_t device_cpu_backend;

static status_t device_cpu_open(const device_config_t *config, const void *setup,
                                volatile uint32_t *progress, device_t **device)
{
    const device_cpu_setup_t *s = setup;
    volatile uint32_t nobody;
    device_cpu_t *self;
    status_t status;

    if (config->slot_count == 0 || s->threads == 0 || s->rows_max == 0 || s->positions_max == 0)
        return FAIL(STATUS_INVALID, "slots=%u threads=%u rows=%u positions=%u", config->slot_count,
                    s->threads, s->rows_max, s->positions_max);
    self = calloc(1, sizeof(*self));
    if (!self)
        return FAIL(STATUS_NO_MEMORY, "no memory for a device");
    self->base.base.ops = &device_cpu_ops;
    self->base.backend = &device_cpu_backend;
    self->base.config = *config;
    self->setup = *s;
    pthread_mutex_init(&self->lock, NULL);
    status = open_model(self, progress ? progress : &nobody);
    if (status == STATUS_OK)
        status = generic_open(&self->base);
    if (status != STATUS_OK) {
        generic_close(&self->base.base);
        return status;
    }
    if (progress)
        *progress = 1000;
    *device = &self->base.base;
    return STATUS_OK;
}

/* -- epochs ----------------------------------------------------------------------------------- */

static status_t device_cpu_reform(device_generic_t *device, uint64_t epoch, const char *segment)
{
    device_cpu_t *self = (device_cpu_t *)device;
    const forward_options_t options = forward_options(self);
    status_t status = STATUS_OK;

    pthread_mutex_lock(&self->lock);
    leave_segment(self);
    if (self->base.config.world > 1) {
        snprintf(self->segment, sizeof(self->segment), "%s", segment);
        status = collective_open(&self->collective, segment, self->base.config.rank,
                                 self->base.config.world,
                                 forward_collective_capacity(&self->model, &options));
    }
    self->epoch = epoch;
    if (status == STATUS_OK && self->base.config.world > 1 && generic_is_broken(device, epoch))
        collective_break(self->collective.segment, self->base.config.rank);
    pthread_mutex_unlock(&self->lock);
    forward_collective_set(self->forward, status == STATUS_OK && self->base.config.world > 1
                                              ? &self->collective
                                              : NULL);
    return status;
}

static void device_cpu_interrupt(device_generic_t *device, uint64_t epoch)
{
    device_cpu_t *self = (device_cpu_t *)device;

    pthread_mutex_lock(&self->lock);
    if (self->epoch < epoch && self->collective.segment)
        collective_break(self->collective.segment, self->base.config.rank);
    pthread_mutex_unlock(&self->lock);
}

/* -- steps ------------------------------------------------------------------------------------ */

/* A pool's parts are layer-first. Its counts were checked when it was created or mapped. */
static layout_t layout_of(const device_cpu_t *self, const device_memory_t *pool)
{
    layout_t layout;
    status_t status = layout_init(&layout, &self->geometry, LAYOUT_LAYER_FIRST, pool->counts);

    ASSERT(status == STATUS_OK);
    return layout;
}

static status_t device_cpu_units_bytes(const device_generic_t *device,
                                       const uint32_t counts[UNIT_COUNT], uint64_t *bytes)
{
    const device_cpu_t *self = (const device_cpu_t *)device;
    layout_t layout;

    TRY(layout_init(&layout, &self->geometry, LAYOUT_LAYER_FIRST, counts));
    *bytes = layout.bytes;
    return STATUS_OK;
}

static void device_cpu_test_fill(device_generic_t *device)
{
    device_cpu_t *self = (device_cpu_t *)device;
    const geometry_t *g = &self->geometry;
    const layout_t layout = layout_of(self, &device->pool);
    random_t random;

    random_init(&random, self->base.config.incarnation);
    for (int kind = 0; kind < POOL_COUNT; kind++) {
        const geometry_pool_t *p = &g->pools[kind];
        for (uint32_t i = 0; p->unit == UNIT_HISTORY && i < p->layer_count; i++) {
            uint8_t *part = device->pool.units + layout_offset(&layout, g, (pool_kind_t)kind, i, 0);
            for (uint32_t at = 0; at < p->raw_bytes; at++)
                part[at] = (uint8_t)random_next(&random);
        }
    }
}

static void device_cpu_begin(device_generic_t *device, const device_step_t *step)
{
    device_cpu_t *self = (device_cpu_t *)device;

    if (self->base.config.world > 1)
        collective_step(&self->collective, step->epoch, step->seq);
}

static status_t device_cpu_start(device_generic_t *device, uint32_t slot, uint32_t position)
{
    device_cpu_t *self = (device_cpu_t *)device;
    const layout_t layout = layout_of(self, &device->pool);

    TRY(sampler_check(&device->slots[slot].sampling, self->model.vocabulary));
    if (position == 0)
        layout_slot_clear(&layout, &self->geometry, device->pool.units, slot_at(slot));
    return STATUS_OK;
}

static status_t device_cpu_load(device_generic_t *device, uint32_t border, uint32_t slot,
                                uint32_t position)
{
    device_cpu_t *self = (device_cpu_t *)device;
    const layout_t layout = layout_of(self, &device->pool);
    const forward_cache_t cache = {&layout, device->pool.units};

    return forward_border_load(&self->geometry, &cache, border, slot, position);
}

static sample_row_t draw_of(const device_slot_t *slot, const device_run_t *run)
{
    const sampler_history_t history = {slot->tokens, slot->tokens + slot->prompt_count,
                                       slot->prompt_count, slot->token_count - slot->prompt_count};

    return sampler_row(&slot->sampling, &history, run->position + run->count);
}

static status_t take_choice(const sample_choice_t *choice, device_token_t *token)
{
    TRY(sampler_outcome(choice));
    token->token = choice->token;
    token->logprob = choice->logprob;
    token->top_count = choice->top_count;
    memcpy(token->top_tokens, choice->top_tokens, sizeof(token->top_tokens));
    memcpy(token->top_logprobs, choice->top_logprobs, sizeof(token->top_logprobs));
    return STATUS_OK;
}

static status_t device_cpu_run(device_generic_t *device, const device_run_t *runs, uint32_t count,
                               device_outcome_t *outcomes)
{
    device_cpu_t *self = (device_cpu_t *)device;
    const layout_t layout = layout_of(self, &device->pool);
    const forward_cache_t cache = {&layout, device->pool.units};
    uint32_t rows = 0, row = 0;
    status_t status;

    for (uint32_t i = 0; i < count; i++) {
        const device_run_t *run = &runs[i];

        self->items[i] = (forward_item_t){.slot = run->slot,
                                          .position = run->position,
                                          .count = run->count,
                                          .tokens = run->tokens,
                                          .pages = device->slots[run->slot].pages,
                                          .logit_count = run->draw,
                                          .border_count = run->border_count,
                                          .border_ordinals = run->border_pages,
                                          .border_targets = run->border_targets};
        if (run->draw)
            self->draws[rows++] = draw_of(&device->slots[run->slot], run);
    }
    status = forward_step(self->forward, &cache, self->items, count, self->logits, NULL);
    device->call = self->collective.call;
    if (status != STATUS_OK)
        return status;
    forward_draw(self->forward, self->logits, self->draws, rows, self->choices);
    for (uint32_t i = 0; i < count; i++) {
        outcomes[i] = (device_outcome_t){.state = forward_digest(self->forward, i)};
        if (runs[i].draw)
            TRY(take_choice(&self->choices[row++], &outcomes[i].token));
    }
    return STATUS_OK;
}

static uint64_t device_cpu_digest(const device_generic_t *device, const device_memory_t *pool,
                                  unit_kind_t unit, uint32_t index, uint32_t rows)
{
    const device_cpu_t *self = (const device_cpu_t *)device;
    const layout_t layout = layout_of(self, pool);

    if (unit == UNIT_HISTORY && rows < PAGE_TOKENS)
        return digest_page_open(&self->geometry, &layout, pool->units, page_at(index), rows);
    return digest_unit(&self->geometry, &layout, pool->units, (unit_t){unit, index});
}

/* -- copies ----------------------------------------------------------------------------------- */

enum { PULL = 0 /* op of the probe copy_path; backup and restore will follow */ };

static void raise_path(void *context, const copy_path_t *path)
{
    (void)context;
    PROBE(copy_path, path->pool, PULL, (uint64_t)path->source_order << 8 | path->target_order,
          path->granularity, path->entries, path->page);
}

static status_t device_cpu_copy(device_generic_t *device, const device_memory_t *from,
                                const device_copy_t *copies, uint32_t count)
{
    device_cpu_t *self = (device_cpu_t *)device;
    const layout_t source = layout_of(self, from), target = layout_of(self, &device->pool);
    copy_list_t list;

    copy_list_init(&list, self->copy_items, DEVICE_COPIES_MAX * COPY_UNIT_ITEMS_MAX, "pull");
    list.probe = raise_path;
    for (uint32_t i = 0; i < count; i++) {
        const unit_t there = {copies[i].unit, copies[i].source};
        const unit_t here = {copies[i].unit, copies[i].target};

        TRY(copy_plan(&list, &self->geometry,
                      &(copy_units_t){&source, &target, there, here, 0, copies[i].rows}));
    }
    return copy_execute(&list, from->units, source.bytes, device->pool.units, target.bytes);
}

static const device_backend_t device_cpu_backend = {
    .close = device_cpu_close,
    .units_bytes = device_cpu_units_bytes,
    .test_fill = device_cpu_test_fill,
    .reform = device_cpu_reform,
    .interrupt = device_cpu_interrupt,
    .begin = device_cpu_begin,
    .start = device_cpu_start,
    .load = device_cpu_load,
    .run = device_cpu_run,
    .digest = device_cpu_digest,
    .copy = device_cpu_copy,
};

const device_ops_t device_cpu_ops = GENERIC_OPS("cpu", device_cpu_open);
