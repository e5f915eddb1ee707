#include "cache/generation.h"

#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
/* gcc's thread sanitizer does not model fences; the copies that they order are plain anyway. */
#pragma GCC diagnostic ignored "-Wtsan"
#endif

uint64_t generation_pack(generation_t generation)
{
    return (uint64_t)generation.epoch << 32 | generation.count;
}

generation_t generation_unpack(uint64_t word)
{
    return (generation_t){.epoch = (uint32_t)(word >> 32), .count = (uint32_t)word};
}

bool generation_equal(generation_t a, generation_t b)
{
    return generation_pack(a) == generation_pack(b);
}

void generation_publish(generation_word_t *words, uint32_t number, generation_t generation)
{
    atomic_store_explicit(&words[number].value, generation_pack(generation), memory_order_release);
    /* No later write of the unit's bytes may be seen before the word. */
    atomic_thread_fence(memory_order_release);
}

generation_t generation_read(const generation_word_t *words, uint32_t number)
{
    return generation_unpack(atomic_load_explicit(&words[number].value, memory_order_acquire));
}

bool generation_is(const generation_word_t *words, uint32_t number, generation_t expected)
{
    return generation_equal(generation_read(words, number), expected);
}

bool generation_still(const generation_word_t *words, uint32_t number, generation_t expected)
{
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&words[number].value, memory_order_relaxed) ==
           generation_pack(expected);
}
