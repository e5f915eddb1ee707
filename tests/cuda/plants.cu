/* plants.cu - one right kernel, and what it becomes with one fault each: the emulator must see every
 * one of them (test_cuda_plants.c). Also what the emulator can do beside the product's kernels. */
#include <stdint.h>

#include "kernels/cuda/copy_async.cuh"

enum {
    RIGHT,
    NO_BARRIER_AFTER_COPY,
    NO_BARRIER_IN_TREE,
    NO_BARRIER_BEFORE_TREE,
    NO_WAIT,
    ONE_K_MORE,
    ONE_BYTE_MORE,
    WRONG_WAYS,
    SHUFFLE_IN_BRANCH,
    CONTRACTED,
    LEAVES_EARLY,
    BEYOND_SHARED
};
enum { THREADS = 128, COLUMNS_MAX = 256 };

/* y[m] = sum of squares of row m: thread t has k = t, t + 128; then a tree. Rows one after another,
 * so that shared memory is used again. `copied` becomes x, byte by byte. */
template <int PLANT>
static __device__ __forceinline__ void squares(const float *x, uint32_t rows, uint32_t columns,
                                               float *y, uint8_t *copied)
{
    __shared__ float row[COLUMNS_MAX], sums[THREADS];
    const uint32_t t = threadIdx.x;
    const uint32_t bytes = rows * columns * 4 + (PLANT == ONE_BYTE_MORE);

    if (PLANT == LEAVES_EARLY && t == 77)
        return;
    for (uint32_t m = 0; m < rows; m++) {
        for (uint32_t k = t; k < columns; k += THREADS)
            copy_async_4(&row[k], x + m * columns + k);
        copy_async_commit();
        if (PLANT != NO_WAIT)
            copy_async_wait<0>();
        if (PLANT != NO_BARRIER_AFTER_COPY)
            __syncthreads();
        /* from the other end, so that a thread reads what another has copied */
        float sum = 0.0f;
        uint32_t first = PLANT == WRONG_WAYS ? t ^ t >> 1 : THREADS - 1 - t;
        for (uint32_t k = first; k < columns + (PLANT == ONE_K_MORE); k += THREADS)
            sum = PLANT == CONTRACTED ? fmaf(row[k], row[k], sum) : sum + row[k] * row[k];
        sums[PLANT == BEYOND_SHARED ? t * 5 : t] = sum;
        if (PLANT != NO_BARRIER_BEFORE_TREE)
            __syncthreads();
        for (uint32_t half = THREADS / 2; half >= 32; half /= 2) {
            if (t < half)
                sums[t] = sums[t] + sums[t + half];
            if (PLANT != NO_BARRIER_IN_TREE)
                __syncthreads();
        }
        if (t < 32) {
            float value = sums[t];
            for (uint32_t half = 16; half; half /= 2) {
                if (PLANT == SHUFFLE_IN_BRANCH && t % 2)
                    value = value + __shfl_down_sync(UINT32_MAX, value * 2.0f, half);
                else
                    value = value + __shfl_down_sync(UINT32_MAX, value, half);
            }
            if (t == 0)
                y[m] = value;
        }
    }
    for (uint32_t i = t; i < bytes; i += THREADS)
        copied[i] = ((const uint8_t *)x)[i < rows * columns * 4 ? i : 0];
}

#define PLANT(n)                                                                                   \
    extern "C" __global__ void plant_##n(const float *x, uint32_t rows, uint32_t columns,          \
                                         float *y, uint8_t *copied)                                \
    {                                                                                              \
        squares<n>(x, rows, columns, y, copied);                                                   \
    }
PLANT(0)
PLANT(1)
PLANT(2)
PLANT(3)
PLANT(4)
PLANT(5)
PLANT(6)
PLANT(7)
PLANT(8)
PLANT(9)
PLANT(10)
PLANT(11)

/* Half a warp waits where the rest does not come. */
extern "C" __global__ void stuck(float *y)
{
    if (threadIdx.x % 2)
        __syncwarp();
    else
        __syncthreads();
    y[threadIdx.x] = 1.0f;
}

/* Every block waits for the next one's word; the last one's is set. */
extern "C" __global__ void chain(volatile uint32_t *words)
{
    if (threadIdx.x == 0) {
        while (blockIdx.x + 1 < gridDim.x && !words[blockIdx.x + 1])
            ;
        words[blockIdx.x] = blockIdx.x + 1;
    }
}

/* A tile a block; a and b hold bf16 pairs as the instruction's lanes have them. */
extern "C" __global__ void tile(const uint32_t *a, const uint32_t *b, const float *c, float *d)
{
    const uint32_t t = blockIdx.x * 32 + threadIdx.x;
    float sum[4];

    for (int i = 0; i < 4; i++)
        sum[i] = c[4 * t + i];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},"
                 "{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[4 * t]), "r"(a[4 * t + 1]), "r"(a[4 * t + 2]), "r"(a[4 * t + 3]),
                   "r"(b[2 * t]), "r"(b[2 * t + 1]));
    for (int i = 0; i < 4; i++)
        d[4 * t + i] = sum[i];
}
