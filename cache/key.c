#include "cache/key.h"

#include <xxhash.h>

#include "runtime/base/random.h"

uint64_t page_salt(uint64_t weights_digest, uint64_t numerics_digest, uint64_t geometry_digest,
                   uint64_t tenant_salt)
{
    uint64_t salt = random_at(weights_digest, 1);

    salt = random_at(salt ^ numerics_digest, 2);
    salt = random_at(salt ^ geometry_digest, 3);
    return random_at(salt ^ tenant_salt, 4);
}

uint64_t page_key(uint64_t parent, const uint32_t tokens[PAGE_TOKENS], uint64_t salt)
{
    const uint64_t key =
        XXH3_64bits_withSeed(tokens, PAGE_TOKENS * sizeof(tokens[0]), random_at(salt, parent));

    return key != PAGE_KEY_ROOT ? key : 1;
}

uint32_t page_keys(const uint32_t *tokens, uint32_t count, uint64_t salt, uint64_t *keys,
                   uint32_t keys_max)
{
    const uint32_t whole = count > 0 ? (count - 1) / PAGE_TOKENS : 0;
    const uint32_t made = whole < keys_max ? whole : keys_max;
    uint64_t parent = PAGE_KEY_ROOT;

    for (uint32_t i = 0; i < made; i++) {
        keys[i] = page_key(parent, tokens + (uint64_t)i * PAGE_TOKENS, salt);
        parent = keys[i];
    }
    return made;
}
