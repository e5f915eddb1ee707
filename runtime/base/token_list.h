/* token_list.h - growing lists of 32-bit numbers (token ids) out of one bounded store, in memory that may be copied
 * away.
 *
 * A store is a set of blocks of TOKEN_BLOCK_WORDS words; a list is a chain of blocks. Append needs a free block every
 * TOKEN_BLOCK_WORDS words; token_list_room says beforehand whether n words fit, so that a caller refuses before it
 * begins. Records of other kinds that are whole words may stand in one too (actors/transfer, actors/rank).
 * Reading at an index walks the list from the front, or from the last place read (sequential reads are O(1)).
 */
#ifndef RUNTIME_BASE_TOKEN_LIST_H
#define RUNTIME_BASE_TOKEN_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TOKEN_BLOCK_WORDS = 255, TOKEN_LIST_END = 0xffffffff };

typedef struct {
    uint32_t next; /* block index, or TOKEN_LIST_END */
    uint32_t words[TOKEN_BLOCK_WORDS];
} token_block_t;

typedef struct {
    uint32_t block_count;
    uint32_t free_count;
    uint32_t free_first;
    uint32_t fresh; /* this one and all behind it were never used */
    token_block_t blocks[];
} token_store_t;

/* Zero-initialised is not empty: use token_list_init. */
typedef struct {
    uint32_t count; /* words */
    uint32_t first;
    uint32_t last;
    uint32_t read_block;   /* place of the last read */
    uint32_t read_ordinal; /* its number in the list */
} token_list_t;

/* Bytes of a store that holds `words` words in at most `lists` lists. */
size_t token_store_bytes(uint64_t words, uint32_t lists);
void token_store_init(token_store_t *store, uint64_t words, uint32_t lists);

/* Bytes [*from, *to) of the store were never written: a large store costs what was used of it. */
void token_store_untouched(const token_store_t *store, size_t *from, size_t *to);

void token_list_init(token_list_t *list);
/* True if `count` more words fit behind `list` now. */
bool token_list_room(const token_store_t *store, const token_list_t *list, uint32_t count);
/* token_list_room must be true (ASSERT). */
void token_list_append(token_store_t *store, token_list_t *list, const uint32_t *words,
                       uint32_t count);
/* Copies words [start, start + count); they must be there (ASSERT). */
void token_list_read(const token_store_t *store, token_list_t *list, uint32_t start, uint32_t count,
                     uint32_t *words);
/* Gives all blocks back; the list is empty then. */
void token_list_clear(token_store_t *store, token_list_t *list);

#endif
