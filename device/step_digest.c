/* step_digest.c - see step_digest.h: a step in two words, and the item in which two differ. */
#include "device/step_digest.h"

#include "runtime/base/random.h"

step_digest_t step_digest_begin(uint64_t seq)
{
    return (step_digest_t){.sum = random_mix(seq)};
}

void step_digest_add(step_digest_t *digest, uint32_t item, step_digest_kind_t kind, uint64_t where,
                 uint64_t value)
{
    const uint64_t place = random_mix((uint64_t)item << 8 | kind);
    const uint64_t word = random_mix(random_mix(place ^ where) + value);

    digest->sum += word;
    digest->weighted += word * (item + 1);
}

/* At most one item fits by chance in 2^64 / item_count: see the head of step_digest.h. */
uint32_t step_digest_item(step_digest_t a, step_digest_t b, uint32_t item_count)
{
    const uint64_t difference = b.sum - a.sum, weighted = b.weighted - a.weighted;

    for (uint32_t item = 0; item < item_count; item++)
        if (difference * (item + 1) == weighted)
            return item;
    return STEP_DIGEST_SEVERAL;
}
