/* bpe.h - byte-pair merges: a table of pairs, and the merging of one word.
 *
 * The table is filled once and then only read, so any number of threads may merge with one table,
 * each with a scratch of its own. Merging takes the pair of lowest rank, leftmost first, until none
 * is left; a heap of candidates over a linked list of symbols keeps that at n log n, also for one
 * word of a megabyte.
 */
#ifndef MODEL_BPE_H
#define MODEL_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

typedef struct {
    uint64_t pair; /* left id << 32 | right id; BPE_NO_PAIR where the place is free */
    uint32_t rank;
    uint32_t id; /* what the pair becomes */
} bpe_merge_t;

typedef struct {
    bpe_merge_t *places; /* open addressing, place_count is a power of two */
    size_t place_count;
    size_t used;
} bpe_t;

typedef struct {
    uint32_t id;
    uint32_t previous, next; /* index of the neighbours, BPE_NONE at the ends */
} bpe_symbol_t;

/* Grows to the longest word it has seen. */
typedef struct {
    bpe_symbol_t *symbols;
    uint64_t *heap; /* rank << 32 | index of the left symbol */
    size_t symbols_max;
} bpe_scratch_t;

MUST_USE status_t bpe_init(bpe_t *bpe, size_t merges_max);
void bpe_fini(bpe_t *bpe);
/* INVALID if the pair is there already. At most merges_max times. */
MUST_USE status_t bpe_add(bpe_t *bpe, uint32_t left, uint32_t right, uint32_t rank, uint32_t id);

/* What a pair becomes, and its rank; false if it is no pair of the table. Never allocates. */
bool bpe_find(const bpe_t *bpe, uint32_t left, uint32_t right, uint32_t *rank, uint32_t *id);

/* Merges the symbols ids[0..count) in place and writes how many are left to *count. NO_MEMORY only.
 */
MUST_USE status_t bpe_merge(const bpe_t *bpe, bpe_scratch_t *scratch, uint32_t *ids, size_t *count);
void bpe_scratch_fini(bpe_scratch_t *scratch);

#endif
