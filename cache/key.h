/* key.h - the key of a page of tokens, which travels in place of the tokens.
 *
 * key(page k) = hash(key(page k-1), its 256 tokens, salt), so equal keys mean, but for chance, an
 * equal prefix. A key finds; tokens decide: whoever accepts bytes by a key compares the tokens too.
 * The salt keeps apart what must never meet: other weights, numerics, geometry (dtypes) or tenant.
 */
#ifndef CACHE_KEY_H
#define CACHE_KEY_H

#include <stdint.h>

#include "runtime/base/limits.h"

#define PAGE_KEY_ROOT UINT64_C(0) /* the parent of a first page */

uint64_t page_salt(uint64_t weights_digest, uint64_t numerics_digest, uint64_t geometry_digest,
                   uint64_t tenant_salt);
/* Never PAGE_KEY_ROOT. */
uint64_t page_key(uint64_t parent, const uint32_t tokens[PAGE_TOKENS], uint64_t salt);
/* Keys of the whole pages of a prompt that may be reused: (count - 1) div 256 of them, at most
 * `keys_max`. The last token is never taken from a cache, since its forward pass gives the first
 * answer token. Returns their number. */
uint32_t page_keys(const uint32_t *tokens, uint32_t count, uint64_t salt, uint64_t *keys,
                   uint32_t keys_max);

#endif
