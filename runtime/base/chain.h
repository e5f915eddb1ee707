/* chain.h - growing lists of 32-bit numbers (token ids) out of one bounded store, in memory that may be copied away.
 *
 * A store is a set of blocks of CHAIN_BLOCK_WORDS words; a chain is a list of blocks. Append needs a free block every
 * CHAIN_BLOCK_WORDS words; chain_room says beforehand whether n words fit, so that a caller refuses before it begins.
 * Reading at an index walks the list from the front, or from the last place read (sequential reads are O(1)).
 */
#ifndef RUNTIME_BASE_CHAIN_H
#define RUNTIME_BASE_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHAIN_BLOCK_WORDS = 255, CHAIN_END = 0xffffffff };

typedef struct {
    uint32_t next; /* block index, or CHAIN_END */
    uint32_t words[CHAIN_BLOCK_WORDS];
} chain_block_t;

typedef struct {
    uint32_t block_count;
    uint32_t free_count;
    uint32_t free_first;
    uint32_t fresh; /* this one and all behind it were never used */
    chain_block_t blocks[];
} chain_store_t;

/* Zero-initialised is not empty: use chain_init. */
typedef struct {
    uint32_t count; /* words */
    uint32_t first;
    uint32_t last;
    uint32_t read_block;   /* place of the last read */
    uint32_t read_ordinal; /* its number in the chain */
} chain_t;

/* Bytes of a store that holds `words` words in at most `chains` chains. */
size_t chain_store_bytes(uint64_t words, uint32_t chains);
void chain_store_init(chain_store_t *store, uint64_t words, uint32_t chains);

void chain_init(chain_t *chain);
/* True if `count` more words fit behind `chain` now. */
bool chain_room(const chain_store_t *store, const chain_t *chain, uint32_t count);
/* chain_room must be true (ASSERT). */
void chain_append(chain_store_t *store, chain_t *chain, const uint32_t *words, uint32_t count);
/* Copies words [start, start + count); they must be there (ASSERT). */
void chain_read(const chain_store_t *store, chain_t *chain, uint32_t start, uint32_t count,
                uint32_t *words);
/* Gives all blocks back; the chain is empty then. */
void chain_clear(chain_store_t *store, chain_t *chain);

#endif
