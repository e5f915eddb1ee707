/* hyper_cpu.h - see hyper.h. Mixes run sixteen tokens side by side, reads and writes sixteen
 * channels. */
#ifndef KERNELS_HYPER_HYPER_CPU_H
#define KERNELS_HYPER_HYPER_CPU_H

#include "kernels/hyper/hyper.h"
#include "kernels/lanes/lanes.h"
#include "kernels/math.h"
#include "kernels/norm/rmsnorm_cpu.h"

/* One number of each of sixteen tokens. */
typedef struct {
    float v[LANES];
} hyper_lane_t;

LANES_INLINE void sinkhorn_side(hyper_lane_t *c, uint32_t streams, uint32_t across, uint32_t along,
                                float eps)
{
    for (uint32_t j = 0; j < streams; j++) {
        lanes_t sum = lanes_load(c[j * across].v);
        for (uint32_t k = 1; k < streams; k++)
            sum = lanes_add(sum, lanes_load(c[j * across + k * along].v));
        sum = lanes_add(sum, lanes_set(eps));
        for (uint32_t k = 0; k < streams; k++)
            lanes_store(c[j * across + k * along].v,
                        lanes_div(lanes_load(c[j * across + k * along].v), sum));
    }
}

LANES_INLINE void sinkhorn_lanes(hyper_lane_t *c, uint32_t streams, uint32_t rounds, float eps)
{
    for (uint32_t j = 0; j < streams; j++) {
        hyper_lane_t *row = c + j * streams;
        lanes_t top = lanes_load(row[0].v), sum;
        for (uint32_t k = 1; k < streams; k++)
            top = lanes_max(lanes_load(row[k].v), top);
        for (uint32_t k = 0; k < streams; k++) {
            lanes_store(row[k].v, lanes_sub(lanes_load(row[k].v), top));
            for (int i = 0; i < LANES; i++)
                row[k].v[i] = math_exp(row[k].v[i]);
        }
        sum = lanes_load(row[0].v);
        for (uint32_t k = 1; k < streams; k++)
            sum = lanes_add(sum, lanes_load(row[k].v));
        for (uint32_t k = 0; k < streams; k++)
            lanes_store(row[k].v, lanes_add(lanes_div(lanes_load(row[k].v), sum), lanes_set(eps)));
    }
    sinkhorn_side(c, streams, 1, streams, eps);
    for (uint32_t round = 1; round < rounds; round++) {
        sinkhorn_side(c, streams, streams, 1, eps);
        sinkhorn_side(c, streams, 1, streams, eps);
    }
}

/* Tokens [first, first + count), count <= LANES; lanes without a token repeat the last one. */
static void hyper_mix_group(const hyper_mix_t *p, uint32_t first, uint32_t count)
{
    uint32_t s = p->streams, width = p->rounds ? (2 + s) * s : s;
    hyper_lane_t mix[(2 + HYPER_STREAMS_MAX) * HYPER_STREAMS_MAX];

    for (uint32_t i = 0; i < LANES; i++) {
        size_t m = first + (i < count ? i : count - 1);
        float r =
            i < count ? rmsnorm_factor(p->x + m * s * p->hidden, s * p->hidden, p->norm_eps) : 0.0f;
        for (uint32_t k = 0; k < width; k++)
            mix[k].v[i] = p->raw[m * width + k] * r;
    }
    for (uint32_t k = 0; k < width; k++) {
        float scale = p->scale[k < s ? 0 : k < 2 * s ? 1 : 2], base = p->base[k];
        for (int i = 0; i < LANES; i++)
            mix[k].v[i] = fmaf(mix[k].v[i], scale, base);
        for (int i = 0; k < 2 * s && i < LANES; i++)
            mix[k].v[i] = math_sigmoid(mix[k].v[i]);
    }
    if (p->rounds)
        sinkhorn_lanes(mix + 2 * s, s, p->rounds, p->eps);
    for (uint32_t i = 0; i < count; i++) {
        size_t m = first + i;
        for (uint32_t k = 0; k < s; k++)
            p->pre[m * s + k] = mix[k].v[i] + p->eps;
        for (uint32_t k = 0; p->rounds && k < s; k++)
            p->post[m * s + k] = 2.0f * mix[s + k].v[i];
        for (uint32_t k = 0; p->rounds && k < s * s; k++)
            p->comb[m * s * s + k] = mix[2 * s + k].v[i];
    }
}

static void hyper_mix_cpu(const hyper_mix_t *p)
{
    for (uint32_t m = 0; m < p->rows; m += LANES)
        hyper_mix_group(p, m, p->rows - m < LANES ? p->rows - m : LANES);
}

LANES_INLINE void hyper_read_piece(const hyper_read_t *p, uint32_t m, uint32_t d, uint32_t count)
{
    const float *x = p->x + (size_t)m * p->streams * p->hidden + d;
    lanes_t u = lanes_zero();

    for (uint32_t i = 0; i < p->streams; i++)
        u = lanes_fma(lanes_set(p->pre[(size_t)m * p->streams + i]),
                      lanes_load_part(x + (size_t)i * p->hidden, count), u);
    lanes_store_part(p->u + (size_t)m * p->hidden + d, u, count);
}

static void hyper_read_cpu(const hyper_read_t *p)
{
    uint32_t whole = p->hidden / LANES * LANES;

    for (uint32_t m = 0; m < p->rows; m++) {
        for (uint32_t d = 0; d < whole; d += LANES)
            hyper_read_piece(p, m, d, LANES);
        if (whole < p->hidden)
            hyper_read_piece(p, m, whole, p->hidden - whole);
    }
}

LANES_INLINE void hyper_write_piece(const hyper_write_t *p, uint32_t m, uint32_t d, uint32_t count)
{
    uint32_t s = p->streams;
    float *x = p->x + (size_t)m * s * p->hidden + d;
    const float *comb = p->comb + (size_t)m * s * s;
    lanes_t y = lanes_load_part(p->y + (size_t)m * p->hidden + d, count), old[HYPER_STREAMS_MAX];

    for (uint32_t j = 0; j < s; j++)
        old[j] = lanes_load_part(x + j * p->hidden, count);
    for (uint32_t k = 0; k < s; k++) {
        lanes_t next = lanes_mul(lanes_set(p->post[m * s + k]), y);
        for (uint32_t j = 0; j < s; j++)
            next = lanes_fma(lanes_set(comb[j * s + k]), old[j], next);
        lanes_store_part(x + k * p->hidden, next, count);
    }
}

static void hyper_write_cpu(const hyper_write_t *p)
{
    uint32_t whole = p->hidden / LANES * LANES;

    for (uint32_t m = 0; m < p->rows; m++) {
        for (uint32_t d = 0; d < whole; d += LANES)
            hyper_write_piece(p, m, d, LANES);
        if (whole < p->hidden)
            hyper_write_piece(p, m, whole, p->hidden - whole);
    }
}

#endif
