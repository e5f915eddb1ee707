/* format.h - number formats, block quantisers, and the packed forms of cached rows and pages.
 *
 * Exact: every encode rounds to nearest, ties to even, straight from the given value; every decode
 * gives the value of the code (as float32, which holds all of them). All forms give the same bits
 * at every isa level. Pointers to bytes may have any alignment; arrays do not overlap unless it is
 * said. Nothing here allocates.
 *
 *   e4m3   s eeee mmm, bias 7: up to 448; 0x7F and 0xFF are NaN, no infinity. Encode saturates,
 *          NaN gives 0x7F
 *   e8m0   2^(code - 127); 0xFF is NaN
 *   e2m1   0 0.5 1 1.5 2 3 4 6, code + 8 is negative. Encode saturates. Two per byte, the first in
 *          the low nibble
 *   bf16   the upper half of a float32. Encode goes to infinity on overflow, NaN stays a quiet NaN
 */
#ifndef KERNELS_FORMAT_H
#define KERNELS_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    FORMAT_ROW_BLOCK = 64,    /* channels per scale in a packed row */
    FORMAT_INDEX_GROUP = 32,  /* channels per scale in an fp4 index row */
    FORMAT_WEIGHT_BLOCK = 128 /* rows and columns per scale of an FP8 weight */
};

/* -- single values --------------------------------------------------------------------------- */

extern const float format_e4m3_values[256];
extern const float format_e2m1_values[16];

uint8_t format_e4m3_encode(float x);
uint8_t format_e4m3_encode_double(double x);
uint8_t format_e2m1_encode(float x);
uint16_t format_bf16_encode(float x);

static inline float format_e4m3_decode(uint8_t code)
{
    return format_e4m3_values[code];
}

static inline float format_e2m1_decode(uint8_t code)
{
    return format_e2m1_values[code & 15];
}

static inline float format_e8m0_decode(uint8_t code)
{
    /* 2^-127 is subnormal; 255 becomes a quiet NaN. */
    uint32_t bits = code == 0 ? 0x00400000u : code == 255 ? 0x7fc00000u : (uint32_t)code << 23;
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline float format_bf16_decode(uint16_t code)
{
    uint32_t bits = (uint32_t)code << 16;
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* The exponent e of the smallest 2^e with amax <= largest * 2^e; largest is 448 (fp8) or 6 (fp4).
 * amax is positive and finite. The quantisers below put a floor under amax: 1e-4 and 6 * 2^-126. */
int format_fp8_exponent(float amax);
int format_fp4_exponent(float amax);

/* -- arrays ---------------------------------------------------------------------------------- */

void format_bf16_encode_row(const float *in, size_t n, void *out);
void format_bf16_decode_row(const void *in, size_t n, float *out);
/* out[i] = value(in[i]) * scale */
void format_e4m3_decode_row(const void *in, size_t n, float scale, float *out);
/* Both of n elements from packed nibbles: out[i] = value * scale. n is even. */
void format_e2m1_decode_row(const void *in, size_t n, float scale, float *out);
/* Largest |x|; NaNs are passed over. */
float format_amax(const float *in, size_t n);

/* One e8m0 scale per `block` channels (64, 128); n % block == 0. */
void format_fp8_blocks_encode(const float *in, size_t n, size_t block, uint8_t *codes,
                              uint8_t *scales);
void format_fp8_blocks_decode(const uint8_t *codes, const uint8_t *scales, size_t n, size_t block,
                              float *out);
/* One e8m0 scale per 32 channels, n/2 bytes of codes; n % 32 == 0. */
void format_fp4_groups_encode(const float *in, size_t n, uint8_t *codes, uint8_t *scales);
void format_fp4_groups_decode(const uint8_t *codes, const uint8_t *scales, size_t n, float *out);
/* One float32 scale for the whole row: max(amax, 1e-4) / 448. Decode: format_e4m3_decode_row. */
float format_fp8_row_encode(const float *in, size_t n, uint8_t *codes);

/* Walsh-Hadamard transform in Sylvester order, orthonormal; n is a power of two. In place: out may
 * be in. */
void format_hadamard(const float *in, size_t n, float *out);

/* -- packed rows and pages ------------------------------------------------------------------- */

/* A page of `rows` rows: all rows' data, then all rows' scales, then zeros up to page_bytes. */
typedef struct {
    uint32_t rows;
    uint32_t channels;
    uint32_t rope;        /* last channels of a row, kept in bf16; 0 in index pages */
    uint32_t data_bytes;  /* of one row */
    uint32_t scale_bytes; /* of one row */
    uint64_t page_bytes;
} format_page_t;

/* Window and compressed rows: e4m3 per 64 channels, then `rope` bf16; one scale byte per 64 and a
 * zero byte. (channels - rope) % 64 == 0. page_bytes is a multiple of data_bytes. */
format_page_t format_page_packed(uint32_t rows, uint32_t channels, uint32_t rope);
/* Index keys (already rotated): e4m3 with a float32 scale per row, or e2m1 with a scale byte per 32
 * channels. */
format_page_t format_page_index_fp8(uint32_t rows, uint32_t channels);
format_page_t format_page_index_fp4(uint32_t rows, uint32_t channels);

static inline uint8_t *format_page_data(const format_page_t *page, void *bytes, uint32_t row)
{
    return (uint8_t *)bytes + (size_t)row * page->data_bytes;
}

static inline uint8_t *format_page_scale(const format_page_t *page, void *bytes, uint32_t row)
{
    return (uint8_t *)bytes + (size_t)page->rows * page->data_bytes +
           (size_t)row * page->scale_bytes;
}

/* One row between float32 and its two places. data and scale as format_page_data and _scale give
 * them. */
void format_packed_row_encode(const float *in, uint32_t channels, uint32_t rope, void *data,
                              void *scale);
void format_packed_row_decode(const void *data, const void *scale, uint32_t channels, uint32_t rope,
                              float *out);
void format_index_fp8_encode(const float *in, uint32_t channels, void *data, void *scale);
void format_index_fp8_decode(const void *data, const void *scale, uint32_t channels, float *out);
void format_index_fp4_encode(const float *in, uint32_t channels, void *data, void *scale);
void format_index_fp4_decode(const void *data, const void *scale, uint32_t channels, float *out);

#endif
