/* rmsnorm.cu - see rmsnorm.h. A block of threads is a row. */
#include "kernels/norm/rmsnorm.h"
#include "kernels/norm/rmsnorm.cuh"

extern "C" __global__ void rmsnorm(const rmsnorm_t p)
{
    const float *x = p.x + blockIdx.x * p.x_stride;
    float *y = p.y + blockIdx.x * p.y_stride;
    float factor = rmsnorm_factor(x, p.count, p.eps);

    /* 3. scale */
    for (uint32_t i = threadIdx.x; i < p.count; i += blockDim.x)
        y[i] = p.weight ? x[i] * factor * p.weight[i] : x[i] * factor;
}
