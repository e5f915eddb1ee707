/* digest.h - the digest of a unit: a sum mod 2^64 of mix(word, place) over its bytes without
 * padding.
 *
 * A word's place is its offset in the page-first unit divided by 8, whatever layout the bytes lie
 * in. A sum does not care who adds first, so any number of threads, in any order, on CPU or GPU,
 * get the same value; adding up digests of pieces gives the digest of the whole. mix is a bijection
 * of the word for each place, so a change inside one word never goes unseen. This finds damage and
 * mix-ups; it is no protection from someone who wants to forge one.
 */
#ifndef CACHE_DIGEST_H
#define CACHE_DIGEST_H

#include <stddef.h>

#include "cache/layout.h"

/* Digest of `bytes` bytes whose first word stands at `place`. Pieces start at whole words; the last
 * word of a piece that is no multiple of 8 is filled with zeros. */
uint64_t digest_bytes(const void *data, size_t bytes, uint64_t place);

/* Digest of one unit, bytes in `memory` under `layout`. */
uint64_t digest_unit(const geometry_t *g, const layout_t *layout, const void *memory, unit_t unit);
/* Digest of a history page of which only the first `tokens` positions are written: closed rows
 * only. 256 gives the same as digest_unit. */
uint64_t digest_page_open(const geometry_t *g, const layout_t *layout, const void *memory,
                          page_t page, uint32_t tokens);

#endif
