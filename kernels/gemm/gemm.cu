/* gemm.cu - see gemm.h.
 *
 *   step in gemm_ref.c               here
 *   1. each block of columns         one way (4 threads) per block, GEMM_WAYS blocks side by side
 *   2. one accumulator, k ascending  the same; a thread has 4 outputs x ROWS rows
 *   3. scaled and added, ascending   one thread per (row, output) walks the ways' sums
 *
 * Block sums do not depend on each other, only step 3 is a chain: so one row has inputs / 128 ways to
 * go at once, and the bits are the reference's. ROWS changes who computes, never what.
 */
#include "kernels/gemm/gemm.h"

enum { GEMM_WAYS = 32, GEMM_QUAD = 4, GEMM_QUADS = GEMM_PANEL / GEMM_QUAD };

/* An e4m3 code as value / 256: sign, exponent and fraction moved into a half, whose bias does it. */
static __device__ __forceinline__ float e4m3_256th(uint32_t code)
{
    uint16_t half = (uint16_t)((code & 0x80) << 8 | (code & 0x7f) << 7);
    float x;

    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
    return x;
}

static __device__ __forceinline__ float e2m1(uint32_t code)
{
    float x = __uint_as_float((code & 7) << 22) * 0x1p126f;
    return __uint_as_float(__float_as_uint(x) | (code & 8) << 28);
}

/* Four neighbouring outputs of column k, at an element; FP4: of columns k and k + 1, at a byte. */
template <int FORM>
static __device__ __forceinline__ void load_quad(const void *panels, size_t at,
                                                 float w[2][GEMM_QUAD])
{
    if (FORM == GEMM_F32) {
        float4 x = *(const float4 *)((const float *)panels + at);
        w[0][0] = x.x, w[0][1] = x.y, w[0][2] = x.z, w[0][3] = x.w;
    } else if (FORM == GEMM_BF16) {
        uint2 x = *(const uint2 *)((const uint16_t *)panels + at);
        w[0][0] = __uint_as_float(x.x << 16), w[0][1] = __uint_as_float(x.x & 0xffff0000u);
        w[0][2] = __uint_as_float(x.y << 16), w[0][3] = __uint_as_float(x.y & 0xffff0000u);
    } else if (FORM == GEMM_FP8) {
        uint32_t x = *(const uint32_t *)((const uint8_t *)panels + at);
#pragma unroll
        for (int i = 0; i < GEMM_QUAD; i++)
            w[0][i] = e4m3_256th(x >> 8 * i & 255);
    } else {
        uint32_t x = *(const uint32_t *)((const uint8_t *)panels + at);
#pragma unroll
        for (int i = 0; i < GEMM_QUAD; i++) {
            w[0][i] = e2m1(x >> 8 * i & 15);
            w[1][i] = e2m1(x >> (8 * i + 4) & 15);
        }
    }
}

/* Step 2 of rows [0, rows) from x, columns [k, end). */
template <int FORM, int ROWS>
static __device__ __forceinline__ void
block_sums(const gemm_matrix_t &w, const float *x, size_t x_stride, uint32_t rows, size_t base,
           uint32_t k, uint32_t end, float sums[ROWS][GEMM_QUAD])
{
    enum { COLUMNS = FORM == GEMM_FP4 ? 2 : 1 };

#pragma unroll(ROWS == 1 ? 4 : 2)
    for (; k < end; k += COLUMNS) {
        float quad[2][GEMM_QUAD];
        load_quad<FORM>(w.panels, base + k / COLUMNS * w.column_elements, quad);
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                float value = ROWS == 1 || r < rows ? x[r * x_stride + k + c] : 0.0f;
#pragma unroll
                for (int i = 0; i < GEMM_QUAD; i++)
                    sums[r][i] = fmaf(value, quad[c][i], sums[r][i]);
            }
    }
}

/* A block of threads: one panel, at most ROWS rows from x to y. */
template <int FORM, int ROWS>
static __device__ __forceinline__ void gemm_panel(const gemm_matrix_t &w, uint32_t panel,
                                                  const float *x, size_t x_stride, float *y,
                                                  size_t y_stride, uint32_t rows)
{
    __shared__ float shared[ROWS][GEMM_WAYS][GEMM_PANEL];
    const uint32_t way = threadIdx.x / GEMM_QUADS, quad = threadIdx.x % GEMM_QUADS * GEMM_QUAD;
    const uint32_t blocks = (w.inputs + w.block - 1) / w.block;
    const uint32_t row = threadIdx.x / GEMM_PANEL, output = threadIdx.x % GEMM_PANEL;
    const size_t base = panel * (FORM == GEMM_FP4 ? w.panel_elements / 2 : w.panel_elements) + quad;
    float total = 0.0f;

    for (uint32_t first = 0; first < blocks; first += GEMM_WAYS) {
        /* 1. each block of columns: its way */
        uint32_t block = first + way;
        if (block < blocks) {
            uint32_t k = block * w.block, end = k + w.block < w.inputs ? k + w.block : w.inputs;
            float sums[ROWS][GEMM_QUAD] = {};
            /* 2. one accumulator, k ascending */
            block_sums<FORM, ROWS>(w, x, x_stride, rows, base, k, end, sums);
#pragma unroll
            for (int r = 0; r < ROWS; r++)
#pragma unroll
                for (int i = 0; i < GEMM_QUAD; i++)
                    shared[r][way][quad + i] = sums[r][i];
        }
        __syncthreads();
        /* 3. scaled and added */
        if (row < rows)
            for (uint32_t i = 0; i < GEMM_WAYS && first + i < blocks; i++) {
                size_t at = ((size_t)panel * blocks + first + i) * GEMM_PANEL + output;
                total = fmaf(shared[row][i][output], w.scales ? w.scales[at] : 1.0f, total);
            }
        __syncthreads();
    }
    if (row < rows && panel * GEMM_PANEL + output < w.outputs)
        y[row * y_stride + panel * GEMM_PANEL + output] = total;
}

/* blockIdx.x: a panel; blockIdx.y: ROWS rows. */
template <int FORM, int ROWS>
static __device__ __forceinline__ void gemm_plain(const gemm_t &p, const gemm_matrix_t &w)
{
    const uint32_t first = blockIdx.y * ROWS, left = p.rows - first;

    gemm_panel<FORM, ROWS>(w, p.panel_first + blockIdx.x, p.x + first * p.x_stride, p.x_stride,
                           p.y + first * p.y_stride, p.y_stride, left < ROWS ? left : ROWS);
}

/* blockIdx.x: a panel of all groups'; the blocks of one panel share the rows of its group, which the
 * host need not know. */
template <int FORM> static __device__ __forceinline__ void gemm_grouped(const gemm_groups_t &p)
{
    enum { ROWS = 8 };
    const gemm_matrix_t first = p.w[0];
    const uint32_t panels = (first.outputs + GEMM_PANEL - 1) / GEMM_PANEL;
    const uint32_t group = (p.panel_first + blockIdx.x) / panels;
    const uint32_t start = p.offsets ? p.offsets[group] : 0;
    const uint32_t end = p.offsets ? p.offsets[group + 1] : p.rows;
    const gemm_matrix_t w = p.w[group];
    const float *x = p.x + (p.offsets ? 0 : group * p.x_group);
    float *y = p.y + (p.offsets ? 0 : group * p.y_group);

    for (uint32_t m = start + blockIdx.y * ROWS; m < end; m += gridDim.y * ROWS)
        gemm_panel<FORM, ROWS>(w, (p.panel_first + blockIdx.x) % panels, x + m * p.x_stride,
                               p.x_stride, y + m * p.y_stride, p.y_stride,
                               end - m < ROWS ? end - m : ROWS);
}

#define GEMM_KERNEL(name, FORM, ROWS)                                                              \
    extern "C" __global__ void __launch_bounds__(GEMM_WAYS *GEMM_QUADS)                            \
        name##_##ROWS(const gemm_t p, const gemm_matrix_t w)                                       \
    {                                                                                              \
        gemm_plain<FORM, ROWS>(p, w);                                                              \
    }
#define GEMM_KERNELS(name, FORM)                                                                   \
    GEMM_KERNEL(name, FORM, 1)                                                                     \
    GEMM_KERNEL(name, FORM, 8)                                                                     \
    extern "C" __global__ void __launch_bounds__(GEMM_WAYS *GEMM_QUADS)                            \
        name##_groups(const gemm_groups_t p)                                                       \
    {                                                                                              \
        gemm_grouped<FORM>(p);                                                                     \
    }
GEMM_KERNELS(gemm_f32, GEMM_F32)
GEMM_KERNELS(gemm_bf16, GEMM_BF16)
GEMM_KERNELS(gemm_fp8, GEMM_FP8)
GEMM_KERNELS(gemm_fp4, GEMM_FP4)
