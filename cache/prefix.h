/* prefix.h - which prefixes lie in the device's pages: a forest of pages, found by key.
 *
 * A node is a cached page; its parent is the page before it. A page is found by the hash of (key of
 * its parent, its 256 tokens, salt), and accepted only if parent, salt and tokens themselves are
 * equal. A prefix is usable up to a page that has a border, and never up to the last token.
 *
 * 1. Only the prefill leader inserts, only closed pages, only below a page that is in the index.
 * 2. What is in the index is never written: an inserted page goes from LEASED to CACHED.
 * 3. Who uses a page holds a reference on it and on all pages before it. Pages without references
 *    are evicted, least recently used first, and always from the end of a chain.
 * 4. Of two requests that compute the same page at once, the second one's page stays its own. What
 *    follows may stay private too, or go below the equal page, once a reference on that is held.
 * 5. A border may go whenever nobody restores from it; its page then is no end, but a way.
 *
 * The pool of the same group is passed to each call; the index keeps its CACHED pages and borders.
 * One relocatable block without pointers, like the pool. Not thread safe; does not allocate.
 */
#ifndef CACHE_PREFIX_H
#define CACHE_PREFIX_H

#include "cache/key.h"
#include "cache/pool.h"

/* Where a prefix stands in two lists, as page numbers; UNITS_NONE at the ends. */
typedef struct {
    uint32_t newer;
    uint32_t older;
} prefix_link_t;

typedef struct {
    uint64_t key;
    uint64_t salt;
    uint32_t parent;      /* page; UNITS_NONE: a first page */
    uint32_t ordinal;     /* pages before it */
    uint32_t children;    /* 0: a leaf */
    uint32_t border;      /* UNITS_NONE: no border */
    uint32_t bucket_next; /* page with the same bucket */
    bool used;            /* the page is in the index */
    bool idle;            /* no references: in the list of idle pages */
    prefix_link_t by_use; /* idle pages */
    prefix_link_t bordered;
} prefix_node_t;

typedef struct {
    uint32_t newest;
    uint32_t oldest;
} prefix_list_t;

typedef struct {
    size_t bytes; /* of the whole block */
    uint32_t pages_max;
    uint32_t buckets; /* a power of two */
    uint32_t count;   /* nodes */
    prefix_list_t idle;
    prefix_list_t bordered;
    uint64_t nodes_at, buckets_at, tokens_at; /* byte offsets in the block */
} prefix_t;

typedef struct {
    uint32_t page_count; /* usable pages; 0: none */
    border_t border;     /* at the end of the last one */
} prefix_match_t;

/* `pages` is the pool's page count. Memory is zeroed, and aligned to 8. */
size_t prefix_bytes(uint32_t pages);
prefix_t *prefix_init(void *memory, size_t bytes, uint32_t pages);
/* Forgets everything; goes with pool_quarantine_all. */
void prefix_clear(prefix_t *prefix);

/* The longest usable prefix of these tokens: at most (count - 1) div 256 pages, a border at its
 * end. `pages` has room for `pages_max`; longer ones are cut at an earlier border. */
prefix_match_t prefix_match(const prefix_t *prefix, const uint32_t *tokens, uint32_t count,
                            uint64_t salt, page_t *pages, uint32_t pages_max);
/* The same, and a reference on each page and on the border. That on the border is given back with
 * pool_unshare as soon as the slot has been restored from it. */
prefix_match_t prefix_acquire(prefix_t *prefix, pool_t *pool, const uint32_t *tokens,
                              uint32_t count, uint64_t salt, page_t *pages, uint32_t pages_max);
/* Gives references on a chain back, in the chain's order; that on its border must be back already. */
void prefix_release(prefix_t *prefix, pool_t *pool, const page_t *pages, uint32_t count);

/* Puts a page that `owner` has leased and filled below `parent`, on which it holds a reference
 * (UNITS_NONE: a first page). Then `standing` is this page, cached, with one reference for the
 * owner; or it is the equal page that stood there, nothing has changed, and the owner's page stays
 * leased. NOT_FOUND: the parent is not in the index. */
MUST_USE status_t prefix_insert(prefix_t *prefix, pool_t *pool, uint32_t owner, page_t parent,
                                page_t page, const uint32_t tokens[PAGE_TOKENS], uint64_t salt,
                                page_t *standing);
/* A reference on a page of the index, by one who holds the page before it: on the equal page that
 * prefix_insert has found, before it may serve as a parent. */
void prefix_hold(prefix_t *prefix, pool_t *pool, page_t page);
/* Gives a page a border that `owner` has leased and filled. BUSY: it has one; the lease stays. */
MUST_USE status_t prefix_border_add(prefix_t *prefix, pool_t *pool, uint32_t owner, page_t page,
                                    border_t border);
/* BUSY: somebody restores from it. NOT_FOUND: the page has none. */
MUST_USE status_t prefix_border_drop(prefix_t *prefix, pool_t *pool, page_t page);

/* Frees up to `wanted` pages that nobody uses, and their borders, oldest first; returns the number. */
uint32_t prefix_evict_pages(prefix_t *prefix, pool_t *pool, uint32_t wanted);
/* Frees up to `wanted` borders that nobody uses, least recently used first, wherever they are: what many
 * chains go on from is found inside of them, and is the last to lose. */
uint32_t prefix_evict_borders(prefix_t *prefix, pool_t *pool, uint32_t wanted);

bool prefix_has(const prefix_t *prefix, page_t page);
/* Of a page in the index. */
uint64_t prefix_key(const prefix_t *prefix, page_t page);
/* Every invariant, against the pool; O(n). */
void prefix_check(const prefix_t *prefix, const pool_t *pool);
void prefix_print(const prefix_t *prefix, FILE *out);

#endif
