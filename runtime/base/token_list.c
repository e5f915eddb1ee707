/* token_list.c - see token_list.h: lists of token ids in blocks of one store. */
#include "runtime/base/token_list.h"

#include <string.h>

#include "runtime/base/check.h"

static uint64_t blocks_for(uint64_t words, uint32_t lists)
{
    uint64_t blocks =
        words / TOKEN_BLOCK_WORDS + lists; /* each list may leave its last block part empty */

    ASSERT(blocks < TOKEN_LIST_END);
    return blocks;
}

size_t token_store_bytes(uint64_t words, uint32_t lists)
{
    return sizeof(token_store_t) + blocks_for(words, lists) * sizeof(token_block_t);
}

void token_store_init(token_store_t *store, uint64_t words, uint32_t lists)
{
    store->block_count = (uint32_t)blocks_for(words, lists);
    store->free_count = store->block_count;
    store->free_first = TOKEN_LIST_END;
    store->fresh = 0;
}

void token_store_untouched(const token_store_t *store, size_t *from, size_t *to)
{
    *from = sizeof(*store) + (size_t)store->fresh * sizeof(token_block_t);
    *to = sizeof(*store) + (size_t)store->block_count * sizeof(token_block_t);
}

void token_list_init(token_list_t *list)
{
    *list = (token_list_t){
        .first = TOKEN_LIST_END, .last = TOKEN_LIST_END, .read_block = TOKEN_LIST_END};
}

static uint32_t blocks_of(uint64_t words)
{
    return (uint32_t)((words + TOKEN_BLOCK_WORDS - 1) / TOKEN_BLOCK_WORDS);
}

bool token_list_room(const token_store_t *store, const token_list_t *list, uint32_t count)
{
    return blocks_of((uint64_t)list->count + count) - blocks_of(list->count) <= store->free_count;
}

static void grow(token_store_t *store, token_list_t *list)
{
    uint32_t block = store->free_first;

    ASSERT(store->free_count > 0);
    if (block != TOKEN_LIST_END)
        store->free_first = store->blocks[block].next;
    else
        block = store->fresh++;
    store->free_count--;
    store->blocks[block].next = TOKEN_LIST_END;
    if (list->first == TOKEN_LIST_END)
        list->first = block;
    else
        store->blocks[list->last].next = block;
    list->last = block;
}

void token_list_append(token_store_t *store, token_list_t *list, const uint32_t *words,
                       uint32_t count)
{
    ASSERT(token_list_room(store, list, count));
    while (count > 0) {
        uint32_t at = list->count % TOKEN_BLOCK_WORDS;
        uint32_t part = TOKEN_BLOCK_WORDS - at < count ? TOKEN_BLOCK_WORDS - at : count;

        if (at == 0)
            grow(store, list);
        memcpy(&store->blocks[list->last].words[at], words, part * sizeof(*words));
        list->count += part;
        words += part;
        count -= part;
    }
}

/* Moves the place of reading to block number `ordinal` of the list. */
static void seek(const token_store_t *store, token_list_t *list, uint32_t ordinal)
{
    if (list->read_block == TOKEN_LIST_END || ordinal < list->read_ordinal) {
        list->read_block = list->first;
        list->read_ordinal = 0;
    }
    while (list->read_ordinal < ordinal) {
        list->read_block = store->blocks[list->read_block].next;
        list->read_ordinal++;
    }
}

void token_list_read(const token_store_t *store, token_list_t *list, uint32_t start, uint32_t count,
                     uint32_t *words)
{
    ASSERT(start <= list->count && count <= list->count - start);
    while (count > 0) {
        uint32_t at = start % TOKEN_BLOCK_WORDS;
        uint32_t part = TOKEN_BLOCK_WORDS - at < count ? TOKEN_BLOCK_WORDS - at : count;

        seek(store, list, start / TOKEN_BLOCK_WORDS);
        memcpy(words, &store->blocks[list->read_block].words[at], part * sizeof(*words));
        start += part;
        words += part;
        count -= part;
    }
}

void token_list_clear(token_store_t *store, token_list_t *list)
{
    if (list->first != TOKEN_LIST_END) {
        store->blocks[list->last].next = store->free_first;
        store->free_first = list->first;
        store->free_count += blocks_of(list->count);
    }
    token_list_init(list);
}
