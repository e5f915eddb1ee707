/* ptx.h - what the statements of tools/ptx2c.py call; included by translated files alone. */
#ifndef TESTS_CUDA_PTX_H
#define TESTS_CUDA_PTX_H

#include <math.h>
#include <string.h>

#include "tests/cuda/emulator.h"

#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-label"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wfloat-equal"

#define PTX_INLINE static inline __attribute__((always_inline, unused))

#define PTX_ACCESS(name, type)                                                                     \
    PTX_INLINE type ptx_load_##name(const unsigned char *at)                                       \
    {                                                                                              \
        type x;                                                                                    \
        memcpy(&x, at, sizeof(x));                                                                 \
        return x;                                                                                  \
    }                                                                                              \
    PTX_INLINE void ptx_store_##name(unsigned char *at, type x)                                    \
    {                                                                                              \
        memcpy(at, &x, sizeof(x));                                                                 \
    }
PTX_ACCESS(b8, uint8_t)
PTX_ACCESS(u8, uint8_t)
PTX_ACCESS(s8, int8_t)
PTX_ACCESS(b16, uint16_t)
PTX_ACCESS(u16, uint16_t)
PTX_ACCESS(s16, int16_t)
PTX_ACCESS(b32, uint32_t)
PTX_ACCESS(u32, uint32_t)
PTX_ACCESS(s32, int32_t)
PTX_ACCESS(b64, uint64_t)
PTX_ACCESS(u64, uint64_t)
PTX_ACCESS(s64, int64_t)
PTX_ACCESS(f32, float)
PTX_ACCESS(f64, double)
#undef PTX_ACCESS

PTX_INLINE float ptx_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

PTX_INLINE double ptx_double(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

PTX_INLINE uint32_t ptx_bits32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

PTX_INLINE uint64_t ptx_bits64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

PTX_INLINE bool ptx_unordered(double a, double b)
{
    return a != a || b != b;
}

PTX_INLINE float ptx_half(uint16_t code)
{
    int exponent = code >> 10 & 31, fraction = code & 1023;
    float x = exponent == 31 ? (fraction ? NAN : INFINITY)
              : exponent     ? ldexpf(1024.0f + (float)fraction, exponent - 25)
                             : ldexpf((float)fraction, -24);

    return code & 0x8000 ? -x : x;
}

/* Toward zero; beyond the range its end, NaN 0. */
PTX_INLINE int32_t ptx_truncate_s32(float x)
{
    return x != x ? 0 : x >= 0x1p31f ? INT32_MAX : x < -0x1p31f ? INT32_MIN : (int32_t)x;
}

PTX_INLINE uint32_t ptx_truncate_u32(float x)
{
    return !(x > 0.0f) ? 0 : x >= 0x1p32f ? UINT32_MAX : (uint32_t)x;
}

/* Shifts by the width or more leave nothing but the sign. */
PTX_INLINE uint64_t ptx_shl_u(uint64_t x, uint32_t n, uint32_t width)
{
    return n >= width ? 0 : x << n;
}

PTX_INLINE uint64_t ptx_shr_u(uint64_t x, uint32_t n, uint32_t width)
{
    return n >= width ? 0 : x >> n;
}

PTX_INLINE int64_t ptx_shr_s(int64_t x, uint32_t n, uint32_t width)
{
    return x >> (n >= width ? width - 1 : n);
}

PTX_INLINE uint32_t ptx_bfe_u32(uint32_t x, uint32_t at, uint32_t n)
{
    return at > 31 ? 0 : x >> at & (n >= 32 ? UINT32_MAX : (1u << n) - 1);
}

PTX_INLINE uint32_t ptx_bfi(uint32_t from, uint32_t into, uint32_t at, uint32_t n)
{
    uint32_t mask = at > 31 ? 0 : (n >= 32 ? UINT32_MAX : (1u << n) - 1) << at;

    return (into & ~mask) | (at > 31 ? 0 : from << at & mask);
}

PTX_INLINE uint32_t ptx_brev(uint32_t x)
{
    uint32_t out = 0;

    for (int i = 0; i < 32; i++)
        out |= (x >> i & 1) << (31 - i);
    return out;
}

PTX_INLINE uint32_t ptx_prmt(uint32_t a, uint32_t b, uint32_t how)
{
    uint64_t all = (uint64_t)b << 32 | a;
    uint32_t out = 0;

    for (int i = 0; i < 4; i++) {
        uint32_t from = how >> 4 * i & 15, byte = (uint32_t)(all >> 8 * (from & 7)) & 255;
        out |= (from & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
    }
    return out;
}

PTX_INLINE uint32_t ptx_shf_l(uint32_t low, uint32_t high, uint32_t n, int wrap)
{
    n = wrap ? n & 31 : n > 32 ? 32 : n;
    return (uint32_t)(((uint64_t)high << 32 | low) << n >> 32);
}

PTX_INLINE uint32_t ptx_shf_r(uint32_t low, uint32_t high, uint32_t n, int wrap)
{
    n = wrap ? n & 31 : n > 32 ? 32 : n;
    return (uint32_t)(((uint64_t)high << 32 | low) >> n);
}

PTX_INLINE uint32_t ptx_popc_b32(uint32_t x)
{
    return (uint32_t)__builtin_popcount(x);
}

PTX_INLINE uint32_t ptx_popc_b64(uint64_t x)
{
    return (uint32_t)__builtin_popcountll(x);
}

PTX_INLINE uint32_t ptx_clz_b32(uint32_t x)
{
    return x ? (uint32_t)__builtin_clz(x) : 32;
}

PTX_INLINE uint32_t ptx_clz_b64(uint64_t x)
{
    return x ? (uint32_t)__builtin_clzll(x) : 64;
}

#endif
