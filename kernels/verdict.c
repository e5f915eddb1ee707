#include "kernels/verdict.h"

#include "runtime/base/random.h"

verdict_t verdict_begin(uint64_t seq)
{
    return (verdict_t){.sum = random_mix(seq)};
}

void verdict_add(verdict_t *verdict, uint32_t item, verdict_kind_t kind, uint64_t where,
                 uint64_t value)
{
    const uint64_t place = random_mix((uint64_t)item << 8 | kind);
    const uint64_t word = random_mix(random_mix(place ^ where) + value);

    verdict->sum += word;
    verdict->weighted += word * (item + 1);
}

/* At most one item fits by chance in 2^64 / item_count: see the head of verdict.h. */
uint32_t verdict_item(verdict_t a, verdict_t b, uint32_t item_count)
{
    const uint64_t difference = b.sum - a.sum, weighted = b.weighted - a.weighted;

    for (uint32_t item = 0; item < item_count; item++)
        if (difference * (item + 1) == weighted)
            return item;
    return VERDICT_SEVERAL;
}
