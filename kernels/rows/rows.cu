/* rows.cu - see rows.h. A thread is a float, blockIdx.x a row: of those there may be many. */
#include "kernels/rows/rows.h"

extern "C" __global__ void rows_gather(const rows_gather_t p)
{
    const uint32_t j = blockIdx.x, c = blockIdx.y * blockDim.x + threadIdx.x;

    if (c < p.width)
        p.y[(size_t)j * p.width + c] = p.x[(size_t)p.sources[j] * p.width + c];
}
