/* lanes_avx2.h - sixteen lanes in two AVX2 registers (with FMA and F16C). Included by lanes.h only.
 */
#ifndef KERNELS_LANES_LANES_AVX2_H
#define KERNELS_LANES_LANES_AVX2_H

typedef struct {
    __m256 a, b; /* lanes 0..7 and 8..15 */
} lanes_t;

LANES_INLINE lanes_t lanes_set(float x)
{
    return (lanes_t){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
LANES_INLINE lanes_t lanes_zero(void)
{
    return (lanes_t){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
LANES_INLINE lanes_t lanes_load(const float *source)
{
    return (lanes_t){_mm256_loadu_ps(source), _mm256_loadu_ps(source + 8)};
}
LANES_INLINE void lanes_store(float *target, lanes_t x)
{
    _mm256_storeu_ps(target, x.a);
    _mm256_storeu_ps(target + 8, x.b);
}
LANES_INLINE lanes_t lanes_fma(lanes_t a, lanes_t b, lanes_t c)
{
    return (lanes_t){_mm256_fmadd_ps(a.a, b.a, c.a), _mm256_fmadd_ps(a.b, b.b, c.b)};
}
#define LANES_BINARY(name, operation)                                                              \
    LANES_INLINE lanes_t name(lanes_t a, lanes_t b)                                                \
    {                                                                                              \
        return (lanes_t){operation(a.a, b.a), operation(a.b, b.b)};                                \
    }
LANES_BINARY(lanes_add, _mm256_add_ps)
LANES_BINARY(lanes_sub, _mm256_sub_ps)
LANES_BINARY(lanes_mul, _mm256_mul_ps)
LANES_BINARY(lanes_div, _mm256_div_ps)
LANES_BINARY(lanes_max, _mm256_max_ps)
LANES_BINARY(lanes_min, _mm256_min_ps)
#undef LANES_BINARY
LANES_INLINE lanes_t lanes_sqrt(lanes_t a)
{
    return (lanes_t){_mm256_sqrt_ps(a.a), _mm256_sqrt_ps(a.b)};
}
LANES_INLINE lanes_t lanes_less(lanes_t a, lanes_t b, lanes_t x, lanes_t y)
{
    return (lanes_t){_mm256_blendv_ps(y.a, x.a, _mm256_cmp_ps(a.a, b.a, _CMP_LT_OQ)),
                     _mm256_blendv_ps(y.b, x.b, _mm256_cmp_ps(a.b, b.b, _CMP_LT_OQ))};
}
LANES_INLINE __m256 lanes_exp2i_half(__m256 n)
{
    __m256i exponent = _mm256_add_epi32(_mm256_cvttps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}
LANES_INLINE lanes_t lanes_exp2i(lanes_t n)
{
    return (lanes_t){lanes_exp2i_half(n.a), lanes_exp2i_half(n.b)};
}
LANES_INLINE __m256 lanes_bf16_half(const uint16_t *source)
{
    __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)source));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}
LANES_INLINE lanes_t lanes_load_bf16(const uint16_t *source)
{
    return (lanes_t){lanes_bf16_half(source), lanes_bf16_half(source + 8)};
}
LANES_INLINE lanes_t lanes_load_fp8(const uint8_t *source)
{
    __m256i codes = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)source));
    __m256i half = _mm256_slli_epi16(codes, 7); /* the sign stands twice; one of them goes */
    half = _mm256_and_si256(half, _mm256_set1_epi16((short)0xBF80));
    return (lanes_t){_mm256_cvtph_ps(_mm256_castsi256_si128(half)),
                     _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1))};
}
LANES_INLINE __m256 lanes_fp4_half(__m256i codes)
{
    const __m256 values = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f);
    __m256i sign = _mm256_slli_epi32(_mm256_and_si256(codes, _mm256_set1_epi32(8)), 28);
    return _mm256_or_ps(_mm256_permutevar8x32_ps(values, codes), _mm256_castsi256_ps(sign));
}
LANES_INLINE void lanes_load_fp4(const uint8_t *source, lanes_t *low, lanes_t *high)
{
    __m128i codes = _mm_loadu_si128((const __m128i *)(const void *)source);
    __m256i a = _mm256_cvtepu8_epi32(codes), b = _mm256_cvtepu8_epi32(_mm_srli_si128(codes, 8));
    *low = (lanes_t){lanes_fp4_half(a), lanes_fp4_half(b)};
    *high =
        (lanes_t){lanes_fp4_half(_mm256_srli_epi32(a, 4)), lanes_fp4_half(_mm256_srli_epi32(b, 4))};
}
LANES_INLINE void lanes_turn_quarter(const float *source, size_t stride, float *target)
{
    __m256 a[8], b[8];

#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        a[i] = _mm256_loadu_ps(source + (size_t)i * stride);
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        for (int half = 0; half < 2; half++) {
            __m256d x = _mm256_castps_pd(b[i + half]), y = _mm256_castps_pd(b[i + 2 + half]);
            a[i + 2 * half] = _mm256_castpd_ps(_mm256_unpacklo_pd(x, y));
            a[i + 2 * half + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(x, y));
        }
    }
    /* a[4g + j]: columns j and 4 + j of rows 4g .. 4g + 3 */
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        _mm256_storeu_ps(target + LANES * j, _mm256_permute2f128_ps(a[j], a[4 + j], 0x20));
        _mm256_storeu_ps(target + LANES * (j + 4), _mm256_permute2f128_ps(a[j], a[4 + j], 0x31));
    }
}
/* target[c][r] = source[r][c] of a square of LANES x LANES, in four quarters. */
LANES_INLINE void lanes_turn(const float *source, size_t stride, float *target)
{
    for (size_t half = 0; half < 16; half += 8) {
        lanes_turn_quarter(source + half * stride, stride, target + half);
        lanes_turn_quarter(source + half * stride + 8, stride, target + 8 * LANES + half);
    }
}
LANES_INLINE float lanes_sum(lanes_t x)
{
    __m256 a = _mm256_add_ps(x.a, x.b);
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
LANES_INLINE float lanes_max_all(lanes_t x)
{
    __m256 a = _mm256_max_ps(x.a, x.b);
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

#endif
