/* generation.h - one word per page, border and slot in shared memory: whose bytes lie there.
 *
 * The pool's rank is the only writer: it publishes the new generation before it writes the first
 * byte of the unit's next life. Readers map the words read-only. A reader that finds the expected
 * generation before and after its copy has copied bytes of that life and of no other:
 *
 *     if (!generation_is(words, page.value, expected)) -> stale
 *     copy
 *     if (!generation_still(words, page.value, expected)) -> stale, drop the copy
 *
 * It says nothing about the bytes being complete: that is the message that names the page.
 */
#ifndef CACHE_GENERATION_H
#define CACHE_GENERATION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A unit's life: the group's epoch, and how often the unit was leased. Zero: never. */
typedef struct {
    uint32_t epoch;
    uint32_t count;
} generation_t;

typedef struct {
    _Atomic uint64_t value;
} generation_word_t;

_Static_assert(sizeof(generation_word_t) == 8, "the words are an array of 64-bit numbers");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "shared between processes, so no hidden locks");

/* As one number, the form of messages: epoch in the upper half. */
uint64_t generation_pack(generation_t generation);
generation_t generation_unpack(uint64_t word);
bool generation_equal(generation_t a, generation_t b);
void generation_publish(generation_word_t *words, uint32_t number, generation_t generation);
generation_t generation_read(const generation_word_t *words, uint32_t number);
/* Before the copy. */
bool generation_is(const generation_word_t *words, uint32_t number, generation_t expected);
/* After the copy: no read of the copy can move past this. */
bool generation_still(const generation_word_t *words, uint32_t number, generation_t expected);

#endif
