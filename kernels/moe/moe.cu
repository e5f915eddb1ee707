/* moe.cu - see moe.h. The choice: a warp is a row; the rest: a thread is a channel, blockIdx.y a row.
 */
#include "kernels/math.h"
#include "kernels/moe/moe.h"

/* What a lane has seen best, or all lanes; no expert is UINT32_MAX. */
typedef struct {
    float value;
    uint32_t expert;
} moe_best_t;

static __device__ __forceinline__ bool moe_better(moe_best_t a, moe_best_t b)
{
    if (a.expert == UINT32_MAX || b.expert == UINT32_MAX)
        return b.expert == UINT32_MAX && a.expert != UINT32_MAX;
    return a.value > b.value || (a.value == b.value && a.expert < b.expert);
}

/* The best of s + bias that is not taken; bit i of `taken` is expert lane + 32 i. */
static __device__ moe_best_t moe_choose_best(const moe_route_t &p, const float *s, uint64_t taken)
{
    moe_best_t best = {0.0f, UINT32_MAX};

    for (uint32_t e = threadIdx.x; e < p.experts; e += 32) {
        moe_best_t seen = {s[e] + p.bias[e], e};
        if (!(taken >> e / 32 & 1) && moe_better(seen, best))
            best = seen;
    }
    for (int half = 16; half; half /= 2) {
        moe_best_t other = {__shfl_xor_sync(UINT32_MAX, best.value, half),
                            __shfl_xor_sync(UINT32_MAX, best.expert, half)};
        best = moe_better(other, best) ? other : best;
    }
    return best;
}

extern "C" __global__ void moe_route(const moe_route_t p)
{
    __shared__ uint32_t order[MOE_CHOSEN_MAX], chosen[MOE_CHOSEN_MAX];
    const uint32_t k = p.chosen_count, m = blockIdx.x;
    float *s = p.scores + (size_t)m * p.experts, last = 0.0f, sum = 0.0f;
    uint64_t taken = 0;

    for (uint32_t e = threadIdx.x; e < p.experts; e += 32)
        s[e] = sqrtf(math_softplus(p.logits[(size_t)m * p.experts + e]));
    __syncwarp();
    for (uint32_t i = 0; i < k; i++) {
        moe_best_t best = {0.0f, 0};
        if (p.bias) {
            best = moe_choose_best(p, s, taken);
            last = best.value;
            taken |= best.expert % 32 == threadIdx.x ? 1ull << best.expert / 32 : 0;
        } else {
            best.expert = p.table[(size_t)p.tokens[m] * k + i];
        }
        if (threadIdx.x == 0)
            order[i] = best.expert;
    }
    if (p.margin) {
        bool rest = p.bias && k < p.experts;
        float left = rest ? moe_choose_best(p, s, taken).value : 0.0f;
        if (threadIdx.x == 0)
            p.margin[m] = rest ? last - left : INFINITY;
    }
    __syncwarp();
    /* Ascending: an expert's place is the number of those before it. One named twice counts twice. */
    for (uint32_t i = threadIdx.x; i < k; i += 32) {
        uint32_t place = 0;
        for (uint32_t j = 0; j < k; j++)
            place += order[j] < order[i] || (order[j] == order[i] && j < i);
        chosen[place] = order[i];
        p.order[(size_t)m * k + i] = order[i];
    }
    __syncwarp();
    for (uint32_t i = 0; i < k; i++)
        sum = sum + s[chosen[i]];
    for (uint32_t i = threadIdx.x; i < k; i += 32) {
        p.chosen[(size_t)m * k + i] = chosen[i];
        p.weights[(size_t)m * k + i] = (p.normalize ? s[chosen[i]] / sum : s[chosen[i]]) * p.scale;
    }
}

/* One block: a thread has experts thread, thread + blockDim.x, ...: counts, starts, then places. */
extern "C" __global__ void moe_sort(const moe_sort_t p)
{
    const uint32_t k = p.chosen_count, count = p.rows * k;

    for (uint32_t e = threadIdx.x; e < p.experts; e += blockDim.x) {
        uint32_t own = 0;
        for (uint32_t i = 0; i < count; i++)
            own += p.chosen[i] == e;
        p.offsets[e + 1] = own;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        p.offsets[0] = 0;
        for (uint32_t e = 0; e < p.experts; e++)
            p.offsets[e + 1] += p.offsets[e];
    }
    __syncthreads();
    for (uint32_t e = threadIdx.x; e < p.experts; e += blockDim.x) {
        uint32_t place = p.offsets[e];
        for (uint32_t i = 0; i < count; i++) {
            if (p.chosen[i] != e)
                continue;
            p.sources[place] = i / k;
            p.places[i] = place++;
        }
    }
}

extern "C" __global__ void swiglu(const swiglu_t p)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y;

    if (i >= p.width)
        return;
    float g = p.gate[m * p.stride + i], v = p.up[m * p.stride + i];
    g = g < p.limit ? g : p.limit;
    v = v < p.limit ? v : p.limit;
    v = v > -p.limit ? v : -p.limit;
    p.z[(size_t)m * p.width + i] = g * math_sigmoid(g) * v;
}

extern "C" __global__ void moe_combine(const moe_combine_t p)
{
    const uint32_t c = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y, k = p.chosen_count;
    const uint32_t *places = p.places + (size_t)m * k;
    float y = 0.0f;

    if (c >= p.channels)
        return;
    for (uint32_t i = 0; i < k; i++)
        y = fmaf(p.weights[m * k + i], p.answers[(size_t)places[i] * p.channels + c], y);
    p.y[m * p.y_stride + c] = y + p.shared[(size_t)m * p.channels + c];
}
