/* hyper.cu - see hyper.h. The mix: a block of threads is a row; reading and writing: a thread is a
 * channel, blockIdx.y a row. */
#include "kernels/hyper/hyper.h"
#include "kernels/math.h"
#include "kernels/norm/rmsnorm.cuh"

/* Divides row (or column) j by its sum; thread j of one warp. */
static __device__ void sinkhorn_side(float *c, uint32_t streams, uint32_t across, uint32_t along,
                                     float eps)
{
    uint32_t j = threadIdx.x;

    if (j < streams) {
        float sum = c[j * across];
        for (uint32_t k = 1; k < streams; k++)
            sum = sum + c[j * across + k * along];
        sum = sum + eps;
        for (uint32_t k = 0; k < streams; k++)
            c[j * across + k * along] = c[j * across + k * along] / sum;
    }
    __syncwarp();
}

/* c holds the logits, in shared memory; one warp. */
static __device__ void sinkhorn(float *c, uint32_t streams, uint32_t rounds, float eps)
{
    /* 1. softmax of each row, plus eps */
    if (threadIdx.x < streams) {
        float *row = c + threadIdx.x * streams, top = row[0], sum;
        for (uint32_t k = 1; k < streams; k++)
            top = row[k] > top ? row[k] : top;
        for (uint32_t k = 0; k < streams; k++)
            row[k] = math_exp(row[k] - top);
        sum = row[0];
        for (uint32_t k = 1; k < streams; k++)
            sum = sum + row[k];
        for (uint32_t k = 0; k < streams; k++)
            row[k] = row[k] / sum + eps;
    }
    __syncwarp();
    /* 2. columns, then rows and columns in turn */
    sinkhorn_side(c, streams, 1, streams, eps);
    for (uint32_t round = 1; round < rounds; round++) {
        sinkhorn_side(c, streams, streams, 1, eps);
        sinkhorn_side(c, streams, 1, streams, eps);
    }
}

extern "C" __global__ void hyper_mix(const hyper_mix_t p)
{
    __shared__ float comb[HYPER_STREAMS_MAX * HYPER_STREAMS_MAX];
    const uint32_t s = p.streams, width = p.rounds ? (2 + s) * s : s, m = blockIdx.x;
    const float *raw = p.raw + (size_t)m * width;
    float r = rmsnorm_factor(p.x + (size_t)m * s * p.hidden, s * p.hidden, p.norm_eps);

    if (threadIdx.x >= 32)
        return;
    for (uint32_t i = threadIdx.x; i < width; i += 32) {
        uint32_t part = i < s ? 0 : i < 2 * s ? 1 : 2;
        float mixed = fmaf(raw[i] * r, p.scale[part], p.base[i]);
        if (part == 0)
            p.pre[m * s + i] = math_sigmoid(mixed) + p.eps;
        else if (part == 1)
            p.post[m * s + i - s] = 2.0f * math_sigmoid(mixed);
        else
            comb[i - 2 * s] = mixed;
    }
    if (!p.rounds)
        return;
    __syncwarp();
    sinkhorn(comb, s, p.rounds, p.eps);
    for (uint32_t i = threadIdx.x; i < s * s; i += 32)
        p.comb[(size_t)m * s * s + i] = comb[i];
}

extern "C" __global__ void hyper_read(const hyper_read_t p)
{
    const uint32_t d = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y;
    const float *x = p.x + (size_t)m * p.streams * p.hidden;
    float u = 0.0f;

    if (d >= p.hidden)
        return;
    for (uint32_t i = 0; i < p.streams; i++)
        u = fmaf(p.pre[m * p.streams + i], x[i * p.hidden + d], u);
    p.u[(size_t)m * p.hidden + d] = u;
}

extern "C" __global__ void hyper_write(const hyper_write_t p)
{
    const uint32_t d = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y, s = p.streams;
    const float *comb = p.comb + (size_t)m * s * s;
    float *x = p.x + (size_t)m * s * p.hidden, old[HYPER_STREAMS_MAX];

    if (d >= p.hidden)
        return;
#pragma unroll
    for (uint32_t j = 0; j < HYPER_STREAMS_MAX; j++)
        old[j] = j < s ? x[j * p.hidden + d] : 0.0f;
    for (uint32_t k = 0; k < s; k++) {
        float next = p.post[m * s + k] * p.y[(size_t)m * p.hidden + d];
#pragma unroll
        for (uint32_t j = 0; j < HYPER_STREAMS_MAX; j++)
            if (j < s)
                next = fmaf(comb[j * s + k], old[j], next);
        x[k * p.hidden + d] = next;
    }
}
