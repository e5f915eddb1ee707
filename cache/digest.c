/* mix(word, place) = random_mix(word ^ (place + 1) * odd constant): the splitmix finalizer over a
 * word that its place has been folded into. Two 64-bit products a word; the vector forms do eight
 * (AVX-512) or four (AVX2) words at once. */
#include "cache/digest.h"

#include <string.h>

#include "kernels/isa.h"
#include "runtime/base/random.h"

#if ISA_HAS_X86
#include <immintrin.h>
#endif

#define GAMMA UINT64_C(0x9e3779b97f4a7c15)
#define MIX_1 UINT64_C(0xbf58476d1ce4e5b9) /* as in random_mix; a test compares the forms */
#define MIX_2 UINT64_C(0x94d049bb133111eb)

/* Whole words only; the ragged end is added by digest_bytes. */
static uint64_t words_scalar(const unsigned char *data, size_t words, uint64_t key)
{
    uint64_t sum = 0, word;

    for (size_t i = 0; i < words; i++, key += GAMMA) {
        memcpy(&word, data + 8 * i, 8);
        sum += random_mix(word ^ key);
    }
    return sum;
}

#if ISA_HAS_X86

/* Low 64 bits of the products: AVX2 has only 32 x 32 -> 64. */
ISA_TARGET_AVX2 static inline __m256i product_avx2(__m256i a, __m256i b)
{
    const __m256i cross = _mm256_mullo_epi32(a, _mm256_shuffle_epi32(b, 0xb1));
    const __m256i high = _mm256_add_epi32(cross, _mm256_srli_epi64(cross, 32));

    return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(high, 32));
}

ISA_TARGET_AVX2 static inline __m256i mix_avx2(__m256i x)
{
    x = product_avx2(_mm256_xor_si256(x, _mm256_srli_epi64(x, 30)),
                     _mm256_set1_epi64x((long long)MIX_1));
    x = product_avx2(_mm256_xor_si256(x, _mm256_srli_epi64(x, 27)),
                     _mm256_set1_epi64x((long long)MIX_2));
    return _mm256_xor_si256(x, _mm256_srli_epi64(x, 31));
}

ISA_TARGET_AVX2 static uint64_t words_avx2(const unsigned char *data, size_t words, uint64_t key)
{
    const __m256i step = _mm256_set1_epi64x((long long)(4 * GAMMA));
    __m256i keys = _mm256_set_epi64x((long long)(key + 3 * GAMMA), (long long)(key + 2 * GAMMA),
                                     (long long)(key + GAMMA), (long long)key);
    __m256i sum = _mm256_setzero_si256();
    uint64_t sums[4];
    size_t i;

    for (i = 0; i + 4 <= words; i += 4) {
        const __m256i word = _mm256_loadu_si256((const __m256i *)(const void *)(data + 8 * i));

        sum = _mm256_add_epi64(sum, mix_avx2(_mm256_xor_si256(word, keys)));
        keys = _mm256_add_epi64(keys, step);
    }
    _mm256_storeu_si256((__m256i *)(void *)sums, sum);
    return sums[0] + sums[1] + sums[2] + sums[3] +
           words_scalar(data + 8 * i, words - i, key + i * GAMMA);
}

ISA_TARGET_AVX512 static inline __m512i mix_avx512(__m512i x)
{
    x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 30)),
                           _mm512_set1_epi64((long long)MIX_1));
    x = _mm512_mullo_epi64(_mm512_xor_si512(x, _mm512_srli_epi64(x, 27)),
                           _mm512_set1_epi64((long long)MIX_2));
    return _mm512_xor_si512(x, _mm512_srli_epi64(x, 31));
}

ISA_TARGET_AVX512 static uint64_t words_avx512(const unsigned char *data, size_t words,
                                               uint64_t key)
{
    const __m512i places = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i step = _mm512_set1_epi64((long long)(8 * GAMMA));
    __m512i keys =
        _mm512_add_epi64(_mm512_set1_epi64((long long)key),
                         _mm512_mullo_epi64(places, _mm512_set1_epi64((long long)GAMMA)));
    __m512i sum = _mm512_setzero_si512();
    _Alignas(64) uint64_t lanes[8];
    uint64_t total = 0;
    size_t i;

    for (i = 0; i + 8 <= words; i += 8) {
        const __m512i word = _mm512_loadu_si512(data + 8 * i);

        sum = _mm512_add_epi64(sum, mix_avx512(_mm512_xor_si512(word, keys)));
        keys = _mm512_add_epi64(keys, step);
    }
    /* Not _mm512_reduce_add_epi64: gcc's header adds signed numbers, which may not wrap. */
    _mm512_store_si512(lanes, sum);
    for (int lane = 0; lane < 8; lane++)
        total += lanes[lane];
    return total + words_scalar(data + 8 * i, words - i, key + i * GAMMA);
}

#endif

static uint64_t words_best(const unsigned char *data, size_t words, uint64_t key)
{
#if ISA_HAS_X86
    if (isa_level() == ISA_AVX512)
        return words_avx512(data, words, key);
    if (isa_level() == ISA_AVX2)
        return words_avx2(data, words, key);
#endif
    return words_scalar(data, words, key);
}

uint64_t digest_bytes(const void *data, size_t bytes, uint64_t place)
{
    const unsigned char *at = data;
    const size_t words = bytes / 8;
    const uint64_t key = (place + 1) * GAMMA;
    uint64_t sum = words_best(at, words, key), last = 0;

    if (bytes % 8 != 0) {
        memcpy(&last, at + 8 * words, bytes % 8);
        sum += random_mix(last ^ (key + words * GAMMA));
    }
    return sum;
}

/* The first `rows` rows of every part of a pool: their data, then their scales. */
static uint64_t digest_pool(const geometry_t *g, const layout_t *layout, const void *memory,
                            pool_kind_t kind, uint32_t item, uint32_t rows)
{
    const geometry_pool_t *pool = &g->pools[kind];
    const size_t scales_at = (size_t)pool->rows * pool->data_bytes;
    uint64_t sum = 0;

    ASSERT(rows <= pool->rows);
    for (uint32_t index = 0; index < pool->layer_count; index++) {
        const unsigned char *part =
            (const unsigned char *)memory + layout_offset(layout, g, kind, index, item);
        const uint64_t place = pool->unit_offset + (uint64_t)index * pool->stride;

        sum += digest_bytes(part, (size_t)rows * pool->data_bytes, place / 8);
        sum += digest_bytes(part + scales_at, (size_t)rows * pool->scale_bytes,
                            (place + scales_at) / 8);
    }
    return sum;
}

uint64_t digest_unit(const geometry_t *g, const layout_t *layout, const void *memory, unit_t unit)
{
    uint64_t sum = 0;

    for (int kind = 0; kind < POOL_COUNT; kind++) {
        if (g->pools[kind].unit == unit.kind)
            sum +=
                digest_pool(g, layout, memory, (pool_kind_t)kind, unit.number, g->pools[kind].rows);
    }
    return sum;
}

uint64_t digest_page_open(const geometry_t *g, const layout_t *layout, const void *memory,
                          page_t page, uint32_t tokens)
{
    uint64_t sum = 0;

    ASSERT(tokens <= PAGE_TOKENS);
    for (int kind = 0; kind < POOL_COUNT; kind++) {
        const geometry_pool_t *pool = &g->pools[kind];

        if (pool->unit == UNIT_HISTORY)
            sum += digest_pool(g, layout, memory, (pool_kind_t)kind, page.value,
                               tokens_entries(tokens, pool->ratio));
    }
    return sum;
}
