#include "kernels/hyper/hyper.h"

#include <math.h>

#include "kernels/math.h"
#include "kernels/norm/rmsnorm.h"

/* Divides every row (or column) by its sum. */
static void sinkhorn_ref_side(float *c, uint32_t streams, uint32_t across, uint32_t along,
                              float eps)
{
    for (uint32_t j = 0; j < streams; j++) {
        float sum = c[j * across];
        for (uint32_t k = 1; k < streams; k++)
            sum = sum + c[j * across + k * along];
        sum = sum + eps;
        for (uint32_t k = 0; k < streams; k++)
            c[j * across + k * along] = c[j * across + k * along] / sum;
    }
}

/* c holds the logits. */
static void sinkhorn_ref(float *c, uint32_t streams, uint32_t rounds, float eps)
{
    /* 1. softmax of each row, plus eps */
    for (uint32_t j = 0; j < streams; j++) {
        float *row = c + j * streams, top = row[0], sum;
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
    /* 2. columns, then rows and columns in turn */
    sinkhorn_ref_side(c, streams, 1, streams, eps);
    for (uint32_t round = 1; round < rounds; round++) {
        sinkhorn_ref_side(c, streams, streams, 1, eps);
        sinkhorn_ref_side(c, streams, 1, streams, eps);
    }
}

void hyper_mix_ref(const hyper_mix_t *p)
{
    uint32_t s = p->streams, width = p->rounds ? (2 + s) * s : s;

    for (uint32_t m = 0; m < p->rows; m++) {
        const float *raw = p->raw + (size_t)m * width;
        float r = rmsnorm_factor_ref(p->x + (size_t)m * s * p->hidden, s * p->hidden, p->norm_eps);
        float *comb = p->comb + (size_t)m * s * s;

        for (uint32_t i = 0; i < s; i++)
            p->pre[m * s + i] = math_sigmoid(fmaf(raw[i] * r, p->scale[0], p->base[i])) + p->eps;
        if (!p->rounds)
            continue;
        for (uint32_t i = 0; i < s; i++)
            p->post[m * s + i] =
                2.0f * math_sigmoid(fmaf(raw[s + i] * r, p->scale[1], p->base[s + i]));
        for (uint32_t i = 0; i < s * s; i++)
            comb[i] = fmaf(raw[2 * s + i] * r, p->scale[2], p->base[2 * s + i]);
        sinkhorn_ref(comb, s, p->rounds, p->eps);
    }
}

void hyper_read_ref(const hyper_read_t *p)
{
    for (uint32_t m = 0; m < p->rows; m++) {
        const float *x = p->x + (size_t)m * p->streams * p->hidden;
        for (uint32_t d = 0; d < p->hidden; d++) {
            float u = 0.0f;
            for (uint32_t i = 0; i < p->streams; i++)
                u = fmaf(p->pre[m * p->streams + i], x[i * p->hidden + d], u);
            p->u[(size_t)m * p->hidden + d] = u;
        }
    }
}

void hyper_write_ref(const hyper_write_t *p)
{
    uint32_t s = p->streams;

    for (uint32_t m = 0; m < p->rows; m++) {
        float *x = p->x + (size_t)m * s * p->hidden;
        const float *comb = p->comb + (size_t)m * s * s;
        for (uint32_t d = 0; d < p->hidden; d++) {
            float next[HYPER_STREAMS_MAX];
            for (uint32_t k = 0; k < s; k++) {
                next[k] = p->post[m * s + k] * p->y[(size_t)m * p->hidden + d];
                for (uint32_t j = 0; j < s; j++)
                    next[k] = fmaf(comb[j * s + k], x[j * p->hidden + d], next[k]);
            }
            for (uint32_t k = 0; k < s; k++)
                x[k * p->hidden + d] = next[k];
        }
    }
}
