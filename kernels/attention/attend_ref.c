/* attend_ref.c - see attend.h. Row by row, with the rows that it sees and no others. */
#include "kernels/attention/attend.h"

#include <math.h>

#include "kernels/gemm/gemm.h"

static size_t aligned(size_t floats)
{
    return (floats + 15) / 16 * 16;
}

static size_t lines_of(uint32_t heads)
{
    return heads > ATTEND_LINES ? heads : ATTEND_LINES;
}

attend_workspace_t attend_workspace_split(float *memory, uint32_t heads, uint32_t channels)
{
    attend_workspace_t w = {.values = memory};

    /* A cut panel reads past its row. */
    w.keys = w.values + aligned((size_t)ATTENTION_TILE * channels + GEMM_PANEL);
    w.max = w.keys + aligned((size_t)ATTENTION_TILE * channels);
    w.sum = w.max + aligned(lines_of(heads));
    w.tile = w.sum + aligned(lines_of(heads));
    return w;
}

size_t attend_workspace(uint32_t heads, uint32_t channels)
{
    size_t lines = lines_of(heads);

    return aligned((size_t)ATTENTION_TILE * channels + GEMM_PANEL) +
           aligned((size_t)ATTENTION_TILE * channels) + 2 * aligned(lines) +
           aligned(lines * (ATTENTION_TILE + channels));
}

const batch_item_t *attend_item(const batch_t *batch, uint32_t row)
{
    const batch_item_t *item = batch->items;

    while (row >= item->row + item->count)
        item++;
    return item;
}

typedef struct {
    const attend_t *p;
    const batch_item_t *item;
    uint32_t row;
    attend_workspace_t w;
    uint32_t count;
    uint8_t places[ATTENTION_TILE]; /* of the rows that stand in w.values */
} query_t;

static void add_row(query_t *q, uint32_t place, const uint8_t *data, const uint8_t *scale)
{
    row_decode(&q->p->form, data, scale, q->w.values + (size_t)q->count * q->p->channels);
    q->places[q->count++] = (uint8_t)place;
}

static void end_tile(query_t *q)
{
    const attend_t *p = q->p;
    size_t at = ((size_t)q->row * p->heads + p->head_first) * p->channels;
    uint64_t visible = 0;

    for (uint32_t i = 0; i < q->count; i++)
        visible |= 1ull << q->places[i];
    if (!q->count)
        return;
    attention_keys_ref(&(attention_keys_t){q->count, p->channels, q->w.values, q->w.keys});
    attention_tile_ref(&(attention_tile_t){1, p->head_count, p->channels, q->count, p->scale,
                                           (size_t)p->heads * p->channels, p->q + at, q->w.values,
                                           q->w.keys, q->places, &visible, q->w.max, q->w.sum,
                                           p->out + at, q->w.tile});
    q->count = 0;
}

static void window_tiles(query_t *q, uint32_t position)
{
    const attend_t *p = q->p;

    for (uint32_t t = position + 1 > p->window ? position + 1 - p->window : 0; t <= position; t++) {
        add_row(q, t % ATTENTION_TILE, batch_state_data(&p->state, q->item, t),
                batch_state_scale(&p->state, q->item, t));
        if (t % ATTENTION_TILE == ATTENTION_TILE - 1 || t == position)
            end_tile(q);
    }
}

static void entry_tiles(query_t *q, uint32_t position)
{
    const attend_t *p = q->p;
    uint32_t seen = (position + 1) / p->ratio, tile = 0;
    const uint32_t *chosen = p->selected ? p->selected + (size_t)q->row * p->selected_max : NULL;

    if (chosen && p->selected_count[q->row] == (uint32_t)ATTEND_ALL)
        chosen = NULL;
    for (uint32_t i = 0; i < (chosen ? p->selected_count[q->row] : seen); i++) {
        uint32_t entry = chosen ? chosen[i] : i, page = q->item->pages[entry / p->page_entries];
        if (entry / ATTENTION_TILE != tile)
            end_tile(q);
        tile = entry / ATTENTION_TILE;
        add_row(q, entry % ATTENTION_TILE, rows_data(&p->entries, page, entry % p->page_entries),
                rows_scale(&p->entries, page, entry % p->page_entries));
    }
    end_tile(q);
}

void attend_ref(const attend_t *p)
{
    for (uint32_t row = p->row_first; row < p->row_first + p->row_count; row++) {
        query_t q = {.p = p,
                     .item = attend_item(p->batch, row),
                     .row = row,
                     .w = attend_workspace_split(p->workspace, p->heads, p->channels)};
        for (uint32_t h = 0; h < p->head_count; h++)
            q.w.max[h] = -INFINITY;
        window_tiles(&q, p->batch->positions[row]);
        if (p->ratio)
            entry_tiles(&q, p->batch->positions[row]);
        attention_finish_ref(&(attention_finish_t){
            1, p->head_count, p->channels, p->sinks + p->head_first, q.w.max, q.w.sum,
            p->out + ((size_t)row * p->heads + p->head_first) * p->channels});
    }
}
