/* lanes_portable.h - sixteen lanes in plain C: right everywhere, fast nowhere. Included by lanes.h
 * only. */
#ifndef KERNELS_LANES_LANES_PORTABLE_H
#define KERNELS_LANES_LANES_PORTABLE_H

typedef struct {
    float v[LANES];
} lanes_t;

#define LANES_EACH(expression)                                                                     \
    lanes_t r;                                                                                     \
    for (int i = 0; i < LANES; i++)                                                                \
        r.v[i] = (expression);                                                                     \
    return r

LANES_INLINE float lanes_float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

LANES_INLINE uint32_t lanes_bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

LANES_INLINE lanes_t lanes_set(float x)
{
    LANES_EACH(x);
}
LANES_INLINE lanes_t lanes_zero(void)
{
    LANES_EACH(0.0f);
}
LANES_INLINE lanes_t lanes_load(const float *source)
{
    LANES_EACH(source[i]);
}
LANES_INLINE void lanes_store(float *target, lanes_t x)
{
    memcpy(target, x.v, sizeof(x.v));
}
LANES_INLINE lanes_t lanes_fma(lanes_t a, lanes_t b, lanes_t c)
{
    LANES_EACH(fmaf(a.v[i], b.v[i], c.v[i]));
}
LANES_INLINE lanes_t lanes_add(lanes_t a, lanes_t b)
{
    LANES_EACH(a.v[i] + b.v[i]);
}
LANES_INLINE lanes_t lanes_sub(lanes_t a, lanes_t b)
{
    LANES_EACH(a.v[i] - b.v[i]);
}
LANES_INLINE lanes_t lanes_mul(lanes_t a, lanes_t b)
{
    LANES_EACH(a.v[i] * b.v[i]);
}
LANES_INLINE lanes_t lanes_div(lanes_t a, lanes_t b)
{
    LANES_EACH(a.v[i] / b.v[i]);
}
LANES_INLINE lanes_t lanes_sqrt(lanes_t a)
{
    LANES_EACH(sqrtf(a.v[i]));
}
/* a > b ? a : b, so that the second one is taken where they cannot be ordered. */
LANES_INLINE lanes_t lanes_max(lanes_t a, lanes_t b)
{
    LANES_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
LANES_INLINE lanes_t lanes_min(lanes_t a, lanes_t b)
{
    LANES_EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]);
}
/* Where a < b: x, else y. */
LANES_INLINE lanes_t lanes_less(lanes_t a, lanes_t b, lanes_t x, lanes_t y)
{
    LANES_EACH(a.v[i] < b.v[i] ? x.v[i] : y.v[i]);
}
/* 2^n for n that hold whole numbers in -126 .. 127. */
LANES_INLINE lanes_t lanes_exp2i(lanes_t n)
{
    LANES_EACH(lanes_float_of((uint32_t)((int32_t)n.v[i] + 127) << 23));
}
LANES_INLINE lanes_t lanes_load_bf16(const uint16_t *source)
{
    LANES_EACH(lanes_float_of((uint32_t)source[i] << 16));
}
/* e4m3 codes as value / 256 (the exponent field moves into a half float's, whose bias is larger by
 * 8). */
LANES_INLINE float lanes_fp8_one(uint8_t code)
{
    uint32_t exponent = (code >> 3) & 15, mantissa = code & 7;
    float magnitude = exponent ? lanes_float_of(((exponent + 112) << 23) | (mantissa << 20))
                               : (float)mantissa * 0x1p-17f;
    return code & 0x80 ? -magnitude : magnitude;
}
LANES_INLINE lanes_t lanes_load_fp8(const uint8_t *source)
{
    LANES_EACH(lanes_fp8_one(source[i]));
}
/* Sixteen bytes with two e2m1 codes each: `low` are the low nibbles, `high` the high ones. */
LANES_INLINE float lanes_fp4_one(uint8_t code)
{
    static const float values[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return code & 8 ? -values[code & 7] : values[code & 7];
}
LANES_INLINE void lanes_load_fp4(const uint8_t *source, lanes_t *low, lanes_t *high)
{
    for (int i = 0; i < LANES; i++) {
        low->v[i] = lanes_fp4_one(source[i] & 15);
        high->v[i] = lanes_fp4_one(source[i] >> 4);
    }
}
/* target[c][r] = source[r][c] of a square of LANES x LANES; rows of source are `stride` apart. */
LANES_INLINE void lanes_turn(const float *source, size_t stride, float *target)
{
    for (size_t r = 0; r < LANES; r++)
        for (size_t c = 0; c < LANES; c++)
            target[c * LANES + r] = source[r * stride + c];
}
LANES_INLINE float lanes_sum(lanes_t x)
{
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            x.v[i] = x.v[i] + x.v[i + half];
    return x.v[0];
}
LANES_INLINE float lanes_max_all(lanes_t x)
{
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            x.v[i] = x.v[i] > x.v[i + half] ? x.v[i] : x.v[i + half];
    return x.v[0];
}

#undef LANES_EACH

#endif
