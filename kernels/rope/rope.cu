/* rope.cu - see rope.h. A thread is a pair, blockIdx.y a row. */
#include "kernels/rope/rope.h"

extern "C" __global__ void rope(const rope_t p)
{
    const uint32_t at = blockIdx.x * blockDim.x + threadIdx.x, h = at / p.pairs, i = at % p.pairs;
    const float *turns = p.turns + (size_t)blockIdx.y * 2 * p.pairs;

    if (h >= p.heads)
        return;
    float *x = p.x + blockIdx.y * p.x_stride + (size_t)(h + 1) * p.channels - 2 * p.pairs;
    float a = x[2 * i], b = x[2 * i + 1], c = turns[i];
    float s = p.inverse ? -turns[p.pairs + i] : turns[p.pairs + i];
    x[2 * i] = fmaf(a, c, -(b * s));
    x[2 * i + 1] = fmaf(a, s, b * c);
}
