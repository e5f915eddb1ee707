/* rmsnorm.cuh - the factor of a row, for all threads of a block; the hyper-connections use it too.
 */
#ifndef KERNELS_NORM_RMSNORM_CUH
#define KERNELS_NORM_RMSNORM_CUH

#include "kernels/cuda/copy_async.cuh"

enum { NORM_WAYS = 16, NORM_PIECE = 2048, NORM_PIECES = 2 };

/* rmsnorm_ref.c: 1. sixteen sums of squares, by sixteen threads from shared memory, which the whole
 * block fills one piece ahead; 2. the tree, by shuffles. Everybody gets the factor. */
static __device__ __forceinline__ float rmsnorm_factor(const float *x, uint32_t count, float eps)
{
    __shared__ float pieces[NORM_PIECES][NORM_PIECE];
    __shared__ float factor;
    float sum = 0.0f;

    for (uint32_t first = 0, piece = 0; first < count + NORM_PIECE;
         first += NORM_PIECE, piece ^= 1) {
        for (uint32_t i = first + threadIdx.x; i < count && i < first + NORM_PIECE; i += blockDim.x)
            copy_async_4(&pieces[piece][i - first], x + i);
        copy_async_commit();
        copy_async_wait<1>(); /* the piece before this one */
        __syncthreads();
        if (first > 0 && threadIdx.x < NORM_WAYS) {
            uint32_t start = first - NORM_PIECE, end = first < count ? first : count;
            for (uint32_t i = start + threadIdx.x; i < end; i += NORM_WAYS)
                sum = fmaf(pieces[piece ^ 1][i - start], pieces[piece ^ 1][i - start], sum);
        }
        __syncthreads();
    }
    copy_async_wait<0>();
    if (threadIdx.x < 32) {
        for (int half = NORM_WAYS / 2; half; half /= 2)
            sum = sum + __shfl_down_sync(UINT32_MAX, sum, half);
        if (threadIdx.x == 0)
            factor = 1.0f / sqrtf(sum / (float)count + eps);
    }
    __syncthreads();
    return factor;
}

#endif
