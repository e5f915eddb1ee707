#include "runtime/base/random.h"

#include <string.h>

#include "runtime/base/check.h"

#define GOLDEN_GAMMA UINT64_C(0x9e3779b97f4a7c15)

uint64_t random_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t random_digest(uint64_t digest, const void *bytes, size_t size)
{
    const unsigned char *from = bytes;

    for (size_t at = 0; at < size; at += 8) {
        uint64_t word = 0;

        memcpy(&word, from + at, size - at < 8 ? size - at : 8);
        digest = random_mix(digest ^ word);
    }
    return digest;
}

uint64_t random_at(uint64_t seed, uint64_t counter)
{
    return random_mix(random_mix(seed + GOLDEN_GAMMA) ^ random_mix((counter + 1) * GOLDEN_GAMMA));
}

void random_init(random_t *random, uint64_t seed)
{
    random->state = seed;
}

uint64_t random_next(random_t *random)
{
    random->state += GOLDEN_GAMMA;
    return random_mix(random->state);
}

uint64_t random_below(random_t *random, uint64_t bound)
{
    uint64_t reject_below, value;

    ASSERT(bound > 0);
    reject_below = -bound % bound; /* 2^64 mod bound */
    do {
        value = random_next(random);
    } while (value < reject_below);
    return value % bound;
}

double random_unit(random_t *random)
{
    return (double)(random_next(random) >> 11) * 0x1p-53;
}
