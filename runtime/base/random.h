/* random.h - a small deterministic generator and mixers. Nothing here reads the world.
 *
 * splitmix64 (Steele, Lea, Flood 2014): used for tests, the simulator, and as the mixer of digests. Sampling uses
 * random_at, a counter-based form: the value depends on (seed, counter) alone, so every rank draws the same.
 */
#ifndef RUNTIME_BASE_RANDOM_H
#define RUNTIME_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t state;
} random_t;

/* The finalizer: a bijection of 64 bits. */
uint64_t random_mix(uint64_t x);
/* `digest` after these bytes too, whole words at a time. */
uint64_t random_digest(uint64_t digest, const void *bytes, size_t size);
/* The value number `counter` of stream `seed`. */
uint64_t random_at(uint64_t seed, uint64_t counter);

void random_init(random_t *random, uint64_t seed);
uint64_t random_next(random_t *random);
/* Uniform in [0, bound); bound > 0. No modulo bias. */
uint64_t random_below(random_t *random, uint64_t bound);
/* Uniform in [0, 1), 53 bits. */
double random_unit(random_t *random);

#endif
