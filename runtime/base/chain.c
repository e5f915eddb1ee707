#include "runtime/base/chain.h"

#include <string.h>

#include "runtime/base/check.h"

static uint64_t blocks_for(uint64_t words, uint32_t chains)
{
    uint64_t blocks = words / CHAIN_BLOCK_WORDS + chains; /* each chain may leave its last block part empty */

    ASSERT(blocks < CHAIN_END);
    return blocks;
}

size_t chain_store_bytes(uint64_t words, uint32_t chains)
{
    return sizeof(chain_store_t) + blocks_for(words, chains) * sizeof(chain_block_t);
}

void chain_store_init(chain_store_t *store, uint64_t words, uint32_t chains)
{
    store->block_count = (uint32_t)blocks_for(words, chains);
    store->free_count = store->block_count;
    store->free_first = CHAIN_END;
    store->fresh = 0;
}

void chain_init(chain_t *chain)
{
    *chain = (chain_t){ .first = CHAIN_END, .last = CHAIN_END, .read_block = CHAIN_END };
}

static uint32_t blocks_of(uint64_t words)
{
    return (uint32_t)((words + CHAIN_BLOCK_WORDS - 1) / CHAIN_BLOCK_WORDS);
}

bool chain_room(const chain_store_t *store, const chain_t *chain, uint32_t count)
{
    return blocks_of((uint64_t)chain->count + count) - blocks_of(chain->count) <= store->free_count;
}

static void grow(chain_store_t *store, chain_t *chain)
{
    uint32_t block = store->free_first;

    ASSERT(store->free_count > 0);
    if (block != CHAIN_END)
        store->free_first = store->blocks[block].next;
    else
        block = store->fresh++;
    store->free_count--;
    store->blocks[block].next = CHAIN_END;
    if (chain->first == CHAIN_END)
        chain->first = block;
    else
        store->blocks[chain->last].next = block;
    chain->last = block;
}

void chain_append(chain_store_t *store, chain_t *chain, const uint32_t *words, uint32_t count)
{
    ASSERT(chain_room(store, chain, count));
    while (count > 0) {
        uint32_t at = chain->count % CHAIN_BLOCK_WORDS;
        uint32_t part = CHAIN_BLOCK_WORDS - at < count ? CHAIN_BLOCK_WORDS - at : count;

        if (at == 0)
            grow(store, chain);
        memcpy(&store->blocks[chain->last].words[at], words, part * sizeof(*words));
        chain->count += part;
        words += part;
        count -= part;
    }
}

/* Moves the place of reading to block number `ordinal` of the chain. */
static void seek(const chain_store_t *store, chain_t *chain, uint32_t ordinal)
{
    if (chain->read_block == CHAIN_END || ordinal < chain->read_ordinal) {
        chain->read_block = chain->first;
        chain->read_ordinal = 0;
    }
    while (chain->read_ordinal < ordinal) {
        chain->read_block = store->blocks[chain->read_block].next;
        chain->read_ordinal++;
    }
}

void chain_read(const chain_store_t *store, chain_t *chain, uint32_t start, uint32_t count,
                uint32_t *words)
{
    ASSERT(start <= chain->count && count <= chain->count - start);
    while (count > 0) {
        uint32_t at = start % CHAIN_BLOCK_WORDS;
        uint32_t part = CHAIN_BLOCK_WORDS - at < count ? CHAIN_BLOCK_WORDS - at : count;

        seek(store, chain, start / CHAIN_BLOCK_WORDS);
        memcpy(words, &store->blocks[chain->read_block].words[at], part * sizeof(*words));
        start += part;
        words += part;
        count -= part;
    }
}

void chain_clear(chain_store_t *store, chain_t *chain)
{
    if (chain->first != CHAIN_END) {
        store->blocks[chain->last].next = store->free_first;
        store->free_first = chain->first;
        store->free_count += blocks_of(chain->count);
    }
    chain_init(chain);
}
