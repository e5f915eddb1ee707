/* isa.h - which vector instructions the operators may use, decided once at run time.
 *
 * Every operator has one meaning and gives the same bits at every level; the level changes speed
 * only. A build therefore runs on any x86-64 (or any other machine: scalar), and tests run all
 * levels that the machine has.
 */
#ifndef KERNELS_ISA_H
#define KERNELS_ISA_H

#include <stdbool.h>

typedef enum {
    ISA_SCALAR,
    ISA_AVX2,   /* with FMA and F16C */
    ISA_AVX512, /* F, BW, DQ, VL */
    ISA_COUNT
} isa_t;

/* The level in use: the best of this machine, not above the cap. Any thread. */
isa_t isa_level(void);
/* Caps the level, for tests and measurements; ISA_AVX512 lifts the cap. At start the environment
 * variable LOCKSTEP_ISA (scalar, avx2, avx512) gives it. Call while no operator runs. */
void isa_cap_set(isa_t cap);
const char *isa_name(isa_t isa);

/* Attributes of functions for one level, and of the body that all levels share. */
#if defined(__x86_64__)
#define ISA_HAS_X86 1
#define ISA_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#ifdef __clang__
#define ISA_TARGET_AVX512                                                                          \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#else
#define ISA_TARGET_AVX512                                                                          \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,"                      \
                          "prefer-vector-width=512")))
#endif
#else
#define ISA_HAS_X86 0
#define ISA_TARGET_AVX2
#define ISA_TARGET_AVX512
#endif
#define ISA_SHARED static inline __attribute__((always_inline))

/* Defines `linkage void name parameters`, which runs name_body arguments (an ISA_SHARED function)
 * compiled for the level in use. The body must not depend on the width of vectors: loops over
 * independent elements, or integers. */
#if ISA_HAS_X86
#define ISA_LEVELS(linkage, name, parameters, arguments)                                           \
    static void name##_scalar parameters                                                           \
    {                                                                                              \
        name##_body arguments;                                                                     \
    }                                                                                              \
    ISA_TARGET_AVX2 static void name##_avx2 parameters                                             \
    {                                                                                              \
        name##_body arguments;                                                                     \
    }                                                                                              \
    ISA_TARGET_AVX512 static void name##_avx512 parameters                                         \
    {                                                                                              \
        name##_body arguments;                                                                     \
    }                                                                                              \
    linkage void name parameters                                                                   \
    {                                                                                              \
        switch (isa_level()) {                                                                     \
        case ISA_AVX512:                                                                           \
            name##_avx512 arguments;                                                               \
            return;                                                                                \
        case ISA_AVX2:                                                                             \
            name##_avx2 arguments;                                                                 \
            return;                                                                                \
        default:                                                                                   \
            name##_scalar arguments;                                                               \
        }                                                                                          \
    }
#else
#define ISA_LEVELS(linkage, name, parameters, arguments)                                           \
    linkage void name parameters                                                                   \
    {                                                                                              \
        name##_body arguments;                                                                     \
    }
#endif

#endif
