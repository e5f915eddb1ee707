/* bpe.c - see bpe.h.
 *
 * A heap entry names a rank and the left symbol of a pair. It goes stale when either side is merged
 * away; it is not searched for and removed, but seen to be stale when it is popped: then the pair
 * at that place has another rank or none. A merge makes at most two new pairs, so 3n entries are
 * enough for n symbols.
 */
#include "model/bpe.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/random.h"

#define BPE_NO_PAIR UINT64_MAX

enum { BPE_NONE = -1 };

static uint64_t pair_of(uint32_t left, uint32_t right)
{
    return (uint64_t)left << 32 | right;
}

status_t bpe_init(bpe_t *bpe, size_t merges_max)
{
    size_t places = 16;
    while (places < 2 * merges_max)
        places *= 2;
    *bpe = (bpe_t){.places = malloc(places * sizeof(bpe_merge_t)), .place_count = places};
    if (bpe->places == NULL)
        return FAIL(STATUS_NO_MEMORY, "merge table of %zu places", places);
    for (size_t i = 0; i < places; i++)
        bpe->places[i].pair = BPE_NO_PAIR;
    return STATUS_OK;
}

void bpe_fini(bpe_t *bpe)
{
    free(bpe->places);
    *bpe = (bpe_t){0};
}

/* The place of a pair, or the free place where it belongs. Half of the places are free, so the walk
 * ends. */
static bpe_merge_t *bpe_place(const bpe_t *bpe, uint64_t pair)
{
    size_t mask = bpe->place_count - 1;
    size_t at = (size_t)random_mix(pair) & mask;
    while (bpe->places[at].pair != pair && bpe->places[at].pair != BPE_NO_PAIR)
        at = (at + 1) & mask;
    return &bpe->places[at];
}

status_t bpe_add(bpe_t *bpe, uint32_t left, uint32_t right, uint32_t rank, uint32_t id)
{
    ASSERT(2 * bpe->used < bpe->place_count);
    bpe_merge_t *place = bpe_place(bpe, pair_of(left, right));
    if (place->pair != BPE_NO_PAIR)
        return FAIL(STATUS_INVALID, "merges %u and %u are of one pair", place->rank, rank);
    *place = (bpe_merge_t){pair_of(left, right), rank, id};
    bpe->used++;
    return STATUS_OK;
}

bool bpe_find(const bpe_t *bpe, uint32_t left, uint32_t right, uint32_t *rank, uint32_t *id)
{
    const bpe_merge_t *place = bpe_place(bpe, pair_of(left, right));

    *rank = place->rank;
    *id = place->id;
    return place->pair != BPE_NO_PAIR;
}

static status_t scratch_reserve(bpe_scratch_t *scratch, size_t count)
{
    if (count <= scratch->symbols_max)
        return STATUS_OK;
    size_t room = 2 * count;
    bpe_symbol_t *symbols = realloc(scratch->symbols, room * sizeof(*symbols));
    if (symbols != NULL)
        scratch->symbols = symbols;
    uint64_t *heap = realloc(scratch->heap, 3 * room * sizeof(*heap));
    if (heap != NULL)
        scratch->heap = heap;
    if (symbols == NULL || heap == NULL)
        return FAIL(STATUS_NO_MEMORY, "a word of %zu bytes", count);
    scratch->symbols_max = room;
    return STATUS_OK;
}

void bpe_scratch_fini(bpe_scratch_t *scratch)
{
    free(scratch->symbols);
    free(scratch->heap);
    *scratch = (bpe_scratch_t){0};
}

static void heap_push(uint64_t *heap, size_t *count, uint64_t entry)
{
    size_t at = (*count)++;
    while (at > 0 && heap[(at - 1) / 2] > entry) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = entry;
}

static uint64_t heap_pop(uint64_t *heap, size_t *count)
{
    uint64_t least = heap[0];
    uint64_t last = heap[--*count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= *count)
            break;
        if (child + 1 < *count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return least;
}

/* The merge of the symbol at `left` with its right neighbour, or NULL. */
static const bpe_merge_t *merge_at(const bpe_t *bpe, const bpe_symbol_t *symbols, uint32_t left)
{
    uint32_t right = symbols[left].next;
    if (right == (uint32_t)BPE_NONE)
        return NULL;
    const bpe_merge_t *place = bpe_place(bpe, pair_of(symbols[left].id, symbols[right].id));
    return place->pair == BPE_NO_PAIR ? NULL : place;
}

static void push_pair(const bpe_t *bpe, bpe_scratch_t *scratch, size_t *heap_count, uint32_t left)
{
    const bpe_merge_t *merge = merge_at(bpe, scratch->symbols, left);
    if (merge != NULL)
        heap_push(scratch->heap, heap_count, (uint64_t)merge->rank << 32 | left);
}

status_t bpe_merge(const bpe_t *bpe, bpe_scratch_t *scratch, uint32_t *ids, size_t *count)
{
    ASSERT(*count < (uint32_t)BPE_NONE);
    uint32_t symbol_count = (uint32_t)*count;
    if (symbol_count < 2)
        return STATUS_OK;
    TRY(scratch_reserve(scratch, symbol_count));
    bpe_symbol_t *symbols = scratch->symbols;
    for (uint32_t i = 0; i < symbol_count; i++)
        symbols[i] = (bpe_symbol_t){ids[i], i - 1, i + 1};
    symbols[symbol_count - 1].next = (uint32_t)BPE_NONE;

    size_t heap_count = 0;
    for (uint32_t i = 0; i + 1 < symbol_count; i++)
        push_pair(bpe, scratch, &heap_count, i);

    while (heap_count > 0) {
        uint64_t entry = heap_pop(scratch->heap, &heap_count);
        uint32_t left = (uint32_t)entry;
        const bpe_merge_t *merge = merge_at(bpe, symbols, left);
        if (merge == NULL || merge->rank != entry >> 32)
            continue; /* stale */
        uint32_t right = symbols[left].next;
        symbols[left].id = merge->id;
        symbols[left].next = symbols[right].next;
        symbols[right].next = (uint32_t)BPE_NONE; /* every entry that names it is stale now */
        if (symbols[left].next != (uint32_t)BPE_NONE)
            symbols[symbols[left].next].previous = left;
        push_pair(bpe, scratch, &heap_count, left);
        if (symbols[left].previous != (uint32_t)BPE_NONE)
            push_pair(bpe, scratch, &heap_count, symbols[left].previous);
    }

    size_t left_over = 0;
    for (uint32_t i = 0; i != (uint32_t)BPE_NONE; i = symbols[i].next)
        ids[left_over++] = symbols[i].id;
    *count = left_over;
    return STATUS_OK;
}
