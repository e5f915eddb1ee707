/* attend_cpu.h - see attend.h. Compiled once per instruction set.
 *
 * A few queries of one item go through a tile together, so that its rows are decoded once for all
 * of them; each sees its own rows only.
 */
#ifndef KERNELS_ATTENTION_ATTEND_CPU_H
#define KERNELS_ATTENTION_ATTEND_CPU_H

#include <math.h>
#include <string.h>

#include "kernels/attention/attend.h"
#include "kernels/attention/attention_cpu.h"

/* A few queries of one item. */
typedef struct {
    const attend_t *p;
    const batch_item_t *item;
    attend_workspace_t w;
    uint32_t row, count; /* rows of the step */
    uint32_t position;   /* of the first */
    uint32_t tile;       /* first position or entry of the tile */
    uint64_t visible[ATTEND_QUERIES];
    uint32_t next[ATTEND_QUERIES]; /* into selected */
    uint32_t rows;                 /* that stand in w.values */
    uint8_t places[ATTENTION_TILE];
} attend_block_t;

static void attend_row(attend_block_t *b, uint32_t place, const uint8_t *data, const uint8_t *scale)
{
    row_decode(&b->p->form, data, scale, b->w.values + (size_t)b->rows * b->p->channels);
    b->places[b->rows++] = (uint8_t)place;
}

static void attend_tile(attend_block_t *b)
{
    const attend_t *p = b->p;
    size_t at = ((size_t)b->row * p->heads + p->head_first) * p->channels;

    attention_keys_cpu(&(attention_keys_t){b->rows, p->channels, b->w.values, b->w.keys});
    attention_tile_cpu(&(attention_tile_t){b->count, p->head_count, p->channels, b->rows, p->scale,
                                           (size_t)p->heads * p->channels, p->q + at, b->w.values,
                                           b->w.keys, b->places, b->visible, b->w.max, b->w.sum,
                                           p->out + at, b->w.tile});
    b->rows = 0;
}

static void attend_window(attend_block_t *b)
{
    const attend_t *p = b->p;
    uint32_t last = b->position + b->count - 1;
    uint32_t first = b->position + 1 > p->window ? b->position + 1 - p->window : 0;

    for (b->tile = first / ATTENTION_TILE * ATTENTION_TILE; b->tile <= last;
         b->tile += ATTENTION_TILE) {
        memset(b->visible, 0, sizeof(b->visible));
        for (uint32_t i = 0; i < ATTENTION_TILE; i++) {
            uint32_t t = b->tile + i;
            if (t < first || t > last)
                continue;
            for (uint32_t m = 0; m < b->count; m++)
                if (t <= b->position + m && t + p->window > b->position + m)
                    b->visible[m] |= 1ull << i;
            attend_row(b, i, batch_state_data(&p->state, b->item, t),
                       batch_state_scale(&p->state, b->item, t));
        }
        attend_tile(b);
    }
}

/* Bits of the entries of this tile that query m reads. */
static uint64_t attend_visible(attend_block_t *b, uint32_t m)
{
    const attend_t *p = b->p;
    const uint32_t row = b->row + m, seen = (b->position + m + 1) / p->ratio;
    uint64_t bits = 0;

    if (!p->selected || p->selected_count[row] == (uint32_t)ATTEND_ALL) {
        uint32_t count = seen > b->tile ? seen - b->tile : 0;
        return count >= ATTENTION_TILE ? UINT64_MAX : (1ull << count) - 1;
    }
    for (; b->next[m] < p->selected_count[row]; b->next[m]++) {
        uint32_t entry = p->selected[(size_t)row * p->selected_max + b->next[m]];
        if (entry >= b->tile + ATTENTION_TILE)
            break;
        bits |= 1ull << (entry - b->tile);
    }
    return bits;
}

static void attend_entries(attend_block_t *b)
{
    const attend_t *p = b->p;
    uint32_t entries = (b->position + b->count) / p->ratio;

    memset(b->next, 0, sizeof(b->next));
    for (b->tile = 0; b->tile < entries; b->tile += ATTENTION_TILE) {
        uint64_t any = 0;
        for (uint32_t m = 0; m < b->count; m++)
            any |= b->visible[m] = attend_visible(b, m);
        if (!any)
            continue;
        for (uint64_t left = any; left; left &= left - 1) {
            uint32_t place = (uint32_t)__builtin_ctzll(left), entry = b->tile + place;
            uint32_t page = b->item->pages[entry / p->page_entries], at = entry % p->page_entries;
            attend_row(b, place, rows_data(&p->entries, page, at),
                       rows_scale(&p->entries, page, at));
        }
        attend_tile(b);
    }
}

/* How many queries of an item share a tile: matters for speed only. */
static uint32_t attend_queries(const attend_t *p, const batch_item_t *item)
{
    uint32_t queries = ATTEND_LINES / p->heads;

    if (p->head_count < p->heads)
        return 1; /* the heads of several lie side by side only if they are all */
    if (p->selected && (item->position + item->count) / p->ratio > 4 * p->selected_max)
        return 1; /* each query reads its own few entries */
    return queries < 1 ? 1 : queries > ATTEND_QUERIES ? ATTEND_QUERIES : queries;
}

static void attend_cpu(const attend_t *p)
{
    const uint32_t end = p->row_first + p->row_count;
    attend_block_t b = {.p = p, .row = p->row_first};

    b.w = attend_workspace_split(p->workspace, p->heads, p->channels);
    for (; b.row < end; b.row += b.count) {
        b.item = attend_item(p->batch, b.row);
        b.count = attend_queries(p, b.item);
        if (b.count > b.item->row + b.item->count - b.row)
            b.count = b.item->row + b.item->count - b.row;
        b.count = b.count < end - b.row ? b.count : end - b.row;
        b.position = b.item->position + b.row - b.item->row;
        for (uint32_t line = 0; line < b.count * p->head_count; line++)
            b.w.max[line] = -INFINITY;
        attend_window(&b);
        if (p->ratio)
            attend_entries(&b);
        attention_finish_cpu(&(attention_finish_t){
            b.count, p->head_count, p->channels, p->sinks + p->head_first, b.w.max, b.w.sum,
            p->out + ((size_t)b.row * p->heads + p->head_first) * p->channels});
    }
}

#endif
