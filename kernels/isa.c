#include "kernels/isa.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/check.h"

static const char *const names[ISA_COUNT] = {"scalar", "avx2", "avx512"};

/* -1 until first asked; then the level in use. Racing first calls compute the same value. */
static atomic_int level = -1;

static isa_t best_of_machine(void)
{
#if ISA_HAS_X86
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return ISA_SCALAR;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return ISA_AVX512;
    return ISA_AVX2;
#else
    return ISA_SCALAR;
#endif
}

static isa_t cap_of_environment(void)
{
    const char *text = getenv("LOCKSTEP_ISA");

    for (int i = 0; text && i < ISA_COUNT; i++)
        if (strcmp(text, names[i]) == 0)
            return (isa_t)i;
    return ISA_AVX512;
}

isa_t isa_level(void)
{
    int now = atomic_load_explicit(&level, memory_order_relaxed);

    if (now < 0) {
        isa_cap_set(cap_of_environment());
        now = atomic_load_explicit(&level, memory_order_relaxed);
    }
    return (isa_t)now;
}

void isa_cap_set(isa_t cap)
{
    isa_t best = best_of_machine();

    ASSERT(cap < ISA_COUNT);
    atomic_store_explicit(&level, best < cap ? (int)best : (int)cap, memory_order_relaxed);
}

const char *isa_name(isa_t isa)
{
    ASSERT(isa < ISA_COUNT);
    return names[isa];
}
