/* forward_batch.c - a step's items as tables for operators (kernels/batch.h), and where cached rows
 * lie.
 */
#include <string.h>

#include "model/forward_parts.h"

static void take_borders(forward_t *f, uint32_t index, uint32_t *used)
{
    const forward_item_t *item = &f->r.items[index];
    batch_item_t *to = &f->r.batch_items[index];

    to->border = *used;
    to->border_count = item->border_count;
    for (uint32_t b = 0; b < item->border_count; b++) {
        uint32_t end = (item->border_ordinals[b] + 1) * PAGE_TOKENS;
        ASSERT(end > item->position && end <= item->position + item->count);
        ASSERT(*used < f->options.rows_max);
        f->r.borders[(*used)++] = (batch_border_t){end, item->border_targets[b]};
    }
}

static status_t take_rows(forward_t *f, const forward_item_t *item)
{
    forward_rows_t *r = &f->r;
    size_t turns = f->config->rope_dim;

    if (item->count > f->options.rows_max - r->rows)
        return FAIL(STATUS_TOO_LARGE, "a step has more than %u rows", f->options.rows_max);
    if (item->position + item->count > f->options.positions_max)
        return FAIL(STATUS_TOO_LARGE, "position %u is beyond %u", item->position + item->count,
                    f->options.positions_max);
    ASSERT(item->count > 0 && item->logit_count <= item->count);
    for (uint32_t m = 0; m < item->count; m++, r->rows++) {
        r->positions[r->rows] = item->position + m;
        r->tokens[r->rows] = item->tokens[m];
        if (item->tokens[m] >= f->config->vocabulary)
            return FAIL(STATUS_INVALID, "token %u is outside the vocabulary of %u", item->tokens[m],
                        f->config->vocabulary);
        rope_turns(&f->rope, item->position + m, r->turns + r->rows * turns);
        rope_turns(&f->rope_compressed, item->position + m, r->turns_compressed + r->rows * turns);
    }
    return STATUS_OK;
}

/* Blocks of `ratio` tokens that end in the step. */
static void take_blocks(forward_t *f, forward_blocks_t *to, uint32_t ratio)
{
    uint32_t per_page = PAGE_TOKENS / ratio, count = 0;

    for (uint32_t i = 0; i < f->r.item_count; i++) {
        const batch_item_t *item = &f->r.batch_items[i];
        to->firsts[i] = count;
        for (uint32_t n = item->position / ratio; n < (item->position + item->count) / ratio; n++) {
            to->items[count] = i;
            to->numbers[count] = n;
            to->places[count] = (rows_place_t){item->pages[n / per_page], n % per_page};
            rope_turns(&f->rope_compressed, n * ratio,
                       to->turns + (size_t)count * f->config->rope_dim);
            count++;
        }
    }
    to->blocks =
        (batch_blocks_t){ratio, count, to->firsts, to->items, to->numbers, to->places, to->turns};
}

status_t forward_batch_take(forward_t *f, const forward_item_t *items, uint32_t item_count)
{
    forward_rows_t *r = &f->r;
    uint32_t wanted = 0, borders = 0;

    r->rows = 0;
    r->items = items;
    r->item_count = item_count;
    for (uint32_t i = 0; i < item_count; i++) {
        const uint32_t row = r->rows;
        TRY(take_rows(f, &items[i]));
        wanted += items[i].logit_count;
        r->batch_items[i] = (batch_item_t){.slot = items[i].slot,
                                           .position = items[i].position,
                                           .count = items[i].count,
                                           .row = row,
                                           .pages = items[i].pages};
        take_borders(f, i, &borders);
    }
    if (wanted > f->options.logits_max)
        return FAIL(STATUS_TOO_LARGE, "logits of %u rows; %u are possible", wanted,
                    f->options.logits_max);
    r->batch = (batch_t){r->rows, item_count, r->batch_items, r->borders, r->positions, r->tokens};
    take_blocks(f, &r->blocks_4, 4);
    take_blocks(f, &r->blocks_128, 128);
    return STATUS_OK;
}

/* -- where rows lie --------------------------------------------------------------------------- */

rows_view_t forward_view(const forward_t *f, const forward_layer_t *layer, pool_kind_t pool)
{
    layout_view_t view =
        layout_view(f->cache.layout, f->geometry, f->cache.memory, pool, layer->index);

    return (rows_view_t){.data = view.base,
                         .scales = view.base + (size_t)view.rows * view.data_bytes,
                         .unit_stride = view.item_stride,
                         .row_stride = view.data_bytes,
                         .scale_stride = view.scale_bytes};
}

batch_state_t forward_window_state(const forward_t *f, const forward_layer_t *layer)
{
    const geometry_pool_t *ring = &f->geometry->pools[POOL_SLOT_WINDOW];

    return (batch_state_t){.step = {.data = f->r.row_data,
                                    .scales = f->r.row_scale,
                                    .row_stride = ring->data_bytes,
                                    .scale_stride = ring->scale_bytes},
                           .ring = forward_view(f, layer, POOL_SLOT_WINDOW),
                           .ring_rows = ring->rows};
}

batch_state_t forward_pair_state(const forward_t *f, const forward_layer_t *layer, bool main)
{
    pool_kind_t pool = main ? POOL_SLOT_C4 : POOL_SLOT_C4_INDEX;
    const geometry_pool_t *ring = &f->geometry->pools[pool];

    return (batch_state_t){.step = {.data = (uint8_t *)(main ? f->r.states : f->r.index_states),
                                    .row_stride = ring->data_bytes},
                           .ring = forward_view(f, layer, pool),
                           .ring_rows = ring->rows};
}
