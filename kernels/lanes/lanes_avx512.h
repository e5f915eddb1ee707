/* lanes_avx512.h - sixteen lanes in one AVX-512 register. Included by lanes.h only. */
#ifndef KERNELS_LANES_LANES_AVX512_H
#define KERNELS_LANES_LANES_AVX512_H

typedef __m512 lanes_t;

LANES_INLINE lanes_t lanes_set(float x)
{
    return _mm512_set1_ps(x);
}
LANES_INLINE lanes_t lanes_zero(void)
{
    return _mm512_setzero_ps();
}
LANES_INLINE lanes_t lanes_load(const float *source)
{
    return _mm512_loadu_ps(source);
}
LANES_INLINE void lanes_store(float *target, lanes_t x)
{
    _mm512_storeu_ps(target, x);
}
LANES_INLINE lanes_t lanes_fma(lanes_t a, lanes_t b, lanes_t c)
{
    return _mm512_fmadd_ps(a, b, c);
}
LANES_INLINE lanes_t lanes_add(lanes_t a, lanes_t b)
{
    return _mm512_add_ps(a, b);
}
LANES_INLINE lanes_t lanes_sub(lanes_t a, lanes_t b)
{
    return _mm512_sub_ps(a, b);
}
LANES_INLINE lanes_t lanes_mul(lanes_t a, lanes_t b)
{
    return _mm512_mul_ps(a, b);
}
LANES_INLINE lanes_t lanes_div(lanes_t a, lanes_t b)
{
    return _mm512_div_ps(a, b);
}
LANES_INLINE lanes_t lanes_sqrt(lanes_t a)
{
    return _mm512_sqrt_ps(a);
}
LANES_INLINE lanes_t lanes_max(lanes_t a, lanes_t b)
{
    return _mm512_max_ps(a, b);
}
LANES_INLINE lanes_t lanes_min(lanes_t a, lanes_t b)
{
    return _mm512_min_ps(a, b);
}
LANES_INLINE lanes_t lanes_less(lanes_t a, lanes_t b, lanes_t x, lanes_t y)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
LANES_INLINE lanes_t lanes_exp2i(lanes_t n)
{
    __m512i exponent = _mm512_add_epi32(_mm512_cvttps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
}
LANES_INLINE lanes_t lanes_load_bf16(const uint16_t *source)
{
    __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)source));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
}
LANES_INLINE lanes_t lanes_load_fp8(const uint8_t *source)
{
    __m256i codes = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)source));
    __m256i half = _mm256_slli_epi16(codes, 7); /* the sign stands twice; one of them goes */
    return _mm512_cvtph_ps(_mm256_and_si256(half, _mm256_set1_epi16((short)0xBF80)));
}
LANES_INLINE void lanes_load_fp4(const uint8_t *source, lanes_t *low, lanes_t *high)
{
    const __m512 values = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f,
                                         -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
    __m512i codes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)source));
    *low = _mm512_permutexvar_ps(codes, values); /* the index is taken modulo 16 */
    *high = _mm512_permutexvar_ps(_mm512_srli_epi32(codes, 4), values);
}
/* target[c][r] = source[r][c] of a square of LANES x LANES: pairs of rows, then of pairs, within
 * groups of four columns; then the groups find their places. */
LANES_INLINE void lanes_turn(const float *source, size_t stride, float *target)
{
    __m512 a[16], b[16];

#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        a[i] = _mm512_loadu_ps(source + (size_t)i * stride);
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        for (int half = 0; half < 2; half++) {
            __m512d x = _mm512_castps_pd(b[i + half]), y = _mm512_castps_pd(b[i + 2 + half]);
            a[i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
            a[i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
        }
    }
    /* a[4g + j]: columns j, 4 + j, 8 + j, 12 + j of rows 4g .. 4g + 3 */
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        __m512 even_low = _mm512_shuffle_f32x4(a[j], a[4 + j], 0x88);
        __m512 even_high = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0x88);
        __m512 odd_low = _mm512_shuffle_f32x4(a[j], a[4 + j], 0xdd);
        __m512 odd_high = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0xdd);
        _mm512_storeu_ps(target + 16 * j, _mm512_shuffle_f32x4(even_low, even_high, 0x88));
        _mm512_storeu_ps(target + 16 * (j + 4), _mm512_shuffle_f32x4(odd_low, odd_high, 0x88));
        _mm512_storeu_ps(target + 16 * (j + 8), _mm512_shuffle_f32x4(even_low, even_high, 0xdd));
        _mm512_storeu_ps(target + 16 * (j + 12), _mm512_shuffle_f32x4(odd_low, odd_high, 0xdd));
    }
}
LANES_INLINE float lanes_sum(lanes_t x)
{
    __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
LANES_INLINE float lanes_max_all(lanes_t x)
{
    __m256 a = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

#endif
