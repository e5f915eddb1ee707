#include "model/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/digest.h"
#include "device/team.h"

typedef struct {
    forward_t *forward;
    collective_t collective;
    void *pools;
    float *logits;
    status_t status;
    char reason[TRAIL_TEXT_MAX]; /* if it failed */
} rank_t;

/* What all ranks are doing now. */
typedef struct {
    const forward_item_t *items;
    uint32_t item_count;
    bool draft;
    uint32_t block;
    const float *source_streams;
    float *logits;
    float *streams;
} call_t;

struct group {
    group_options_t options;
    geometry_t geometry;
    layout_t layout;
    uint32_t vocabulary;
    uint32_t slot_pages;
    uint32_t *pages; /* [slots, slot_pages] */
    team_t *team;    /* one thread for each rank */
    void *segment;
    uint64_t seq;
    call_t call;
    rank_t ranks[RANKS_MAX];
};

static forward_cache_t cache_of(const group_t *group, uint32_t rank)
{
    return (forward_cache_t){&group->layout, group->ranks[rank].pools};
}

static status_t take(size_t bytes, void **memory)
{
    *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!*memory)
        return FAIL(STATUS_NO_MEMORY, "no memory for %zu bytes", bytes);
    memset(*memory, 0, bytes);
    return STATUS_OK;
}

static status_t open_rank(group_t *group, const model_config_t *config, const weights_t *weights,
                          uint32_t rank)
{
    const group_options_t *o = &group->options;
    rank_t *r = &group->ranks[rank];
    forward_options_t options = {rank,
                                 o->world,
                                 o->threads,
                                 o->rows_max,
                                 o->logits_max,
                                 o->positions_max,
                                 rank ? NULL : o->trace};
    uint64_t capacity = forward_collective_capacity(config, &options);

    TRY(forward_open(config, weights, &group->geometry, &options, &r->forward));
    TRY(take(group->layout.bytes, &r->pools));
    TRY(take((size_t)o->logits_max * config->vocabulary * sizeof(float), (void **)&r->logits));
    if (o->world == 1)
        return STATUS_OK;
    if (!group->segment)
        TRY(take(collective_bytes(o->world, capacity), &group->segment));
    TRY(collective_init(&r->collective, group->segment, rank, o->world, capacity));
    forward_collective_set(r->forward, &r->collective);
    return STATUS_OK;
}

static status_t open_parts(group_t *group, const model_config_t *config, const weights_t *weights)
{
    const group_options_t *o = &group->options;
    uint32_t counts[UNIT_COUNT] = {[UNIT_BORDER] = o->borders, [UNIT_SLOT] = o->slots};

    TRY(forward_world_check(config, o->world));
    TRY(forward_geometry(config, o->cache_form, o->index_form, o->drafts, &group->geometry));
    group->slot_pages = tokens_pages(o->positions_max);
    counts[UNIT_HISTORY] = group->slot_pages * o->slots;
    TRY(layout_init(&group->layout, &group->geometry, LAYOUT_LAYER_FIRST, counts));
    TRY(take(counts[UNIT_HISTORY] * sizeof(uint32_t), (void **)&group->pages));
    for (uint32_t i = 0; i < counts[UNIT_HISTORY]; i++)
        group->pages[i] = i;
    for (uint32_t r = 0; r < o->world; r++)
        TRY(open_rank(group, config, weights, r));
    TRY(team_open(o->world, &group->team));
    for (uint32_t slot = 0; slot < o->slots; slot++)
        group_clear(group, slot);
    return STATUS_OK;
}

status_t group_open(const model_config_t *config, const weights_t *weights,
                    const group_options_t *options, group_t **out)
{
    group_t *group = calloc(1, sizeof(*group));
    status_t status;

    if (!group)
        return FAIL(STATUS_NO_MEMORY, "no memory for a group");
    group->options = *options;
    group->vocabulary = config->vocabulary;
    status = open_parts(group, config, weights);
    if (status != STATUS_OK) {
        group_close(group);
        return status;
    }
    *out = group;
    return STATUS_OK;
}

void group_close(group_t *group)
{
    if (!group)
        return;
    team_close(group->team);
    for (uint32_t r = 0; r < RANKS_MAX; r++) {
        forward_close(group->ranks[r].forward);
        free(group->ranks[r].pools);
        free(group->ranks[r].logits);
    }
    free(group->segment);
    free(group->pages);
    free(group);
}

void group_clear(group_t *group, uint32_t slot)
{
    for (uint32_t r = 0; r < group->options.world; r++)
        layout_slot_clear(&group->layout, &group->geometry, group->ranks[r].pools, slot_at(slot));
}

static void copy_history(const group_t *group, uint8_t *pools, uint32_t from, uint32_t to)
{
    for (int kind = 0; kind < POOL_COUNT; kind++) {
        const geometry_pool_t *pool = &group->geometry.pools[kind];
        for (uint32_t i = 0; pool->unit == UNIT_HISTORY && i < pool->layer_count; i++)
            memcpy(
                pools + layout_offset(&group->layout, &group->geometry, (pool_kind_t)kind, i, to),
                pools + layout_offset(&group->layout, &group->geometry, (pool_kind_t)kind, i, from),
                pool->part_bytes);
    }
}

void group_resume(group_t *group, uint32_t slot, uint32_t source, uint32_t border,
                  uint32_t position)
{
    for (uint32_t r = 0; r < group->options.world; r++) {
        forward_cache_t cache = cache_of(group, r);
        status_t status;

        for (uint32_t i = 0; i < position / PAGE_TOKENS; i++)
            copy_history(group, cache.memory, group_page(group, source, i),
                         group_page(group, slot, i));
        status = forward_border_load(&group->geometry, &cache, border, slot, position);
        ASSERT(status == STATUS_OK); /* by the caller's numbers */
    }
}

static void run_rank(void *context, uint32_t part, uint32_t thread)
{
    group_t *group = context;
    const call_t *call = &group->call;
    rank_t *rank = &group->ranks[part];
    forward_cache_t cache = cache_of(group, part);
    float *logits = part ? rank->logits : call->logits, *streams = part ? NULL : call->streams;

    (void)thread;
    trail_reset();
    if (rank->collective.segment)
        collective_step(&rank->collective, 1, group->seq);
    rank->status =
        call->draft
            ? forward_draft(rank->forward, call->block, &cache, call->items, call->item_count,
                            call->source_streams, logits, streams)
            : forward_step(rank->forward, &cache, call->items, call->item_count, logits, streams);
    if (rank->status == STATUS_OK)
        return;
    snprintf(rank->reason, sizeof(rank->reason), "%s", trail_text());
    if (rank->collective.segment)
        collective_break(rank->collective.segment, part);
}

/* The rank that failed first, not those that it took along. */
static status_t find_failure(const group_t *group)
{
    const rank_t *failed = NULL;

    for (uint32_t r = 0; r < group->options.world; r++) {
        const rank_t *rank = &group->ranks[r];
        if (rank->status != STATUS_OK && (!failed || failed->status == STATUS_BROKEN))
            failed = rank;
    }
    if (!failed)
        return STATUS_OK;
    return FAIL(failed->status, "rank %d: %s", (int)(failed - group->ranks), failed->reason);
}

/* Runs the call on every rank and holds their logits to each other. */
static status_t run_call(group_t *group, const forward_item_t *items)
{
    uint32_t count = group->call.item_count, wanted = 0;
    forward_item_t *placed = malloc(count * sizeof(*placed));

    if (!placed)
        return FAIL(STATUS_NO_MEMORY, "no memory for %u items", count);
    for (uint32_t i = 0; i < count; i++) {
        placed[i] = items[i];
        placed[i].pages = group->pages + (size_t)items[i].slot * group->slot_pages;
        wanted += items[i].logit_count;
    }
    group->call.items = placed;
    group->seq++;
    team_run(group->team, group->options.world, run_rank, group);
    free(placed);
    TRY(find_failure(group));
    for (uint32_t r = 1; r < group->options.world; r++)
        if (memcmp(group->call.logits, group->ranks[r].logits,
                   (size_t)wanted * group->vocabulary * sizeof(float)))
            return FAIL(STATUS_CORRUPT, "ranks 0 and %u differ in logits", r);
    return STATUS_OK;
}

status_t group_forward(group_t *group, const forward_item_t *items, uint32_t item_count,
                       float *logits, float *streams)
{
    group->call = (call_t){.item_count = item_count, .logits = logits, .streams = streams};
    return run_call(group, items);
}

status_t group_draft(group_t *group, uint32_t block, const forward_item_t *items,
                     uint32_t item_count, const float *streams, float *logits, float *next_streams)
{
    group->call = (call_t){.item_count = item_count,
                           .draft = true,
                           .block = block,
                           .source_streams = streams,
                           .logits = logits,
                           .streams = next_streams};
    return run_call(group, items);
}

uint64_t group_digest(const group_t *group, uint32_t rank, unit_kind_t unit, uint32_t index)
{
    return digest_unit(&group->geometry, &group->layout, group->ranks[rank].pools,
                       (unit_t){unit, index});
}

uint32_t group_calls(const group_t *group)
{
    return group->ranks[0].collective.call;
}

uint32_t group_page(const group_t *group, uint32_t slot, uint32_t ordinal)
{
    return group->pages[(size_t)slot * group->slot_pages + ordinal];
}
