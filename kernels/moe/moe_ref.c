#include "kernels/moe/moe.h"

#include <math.h>

#include "kernels/math.h"
#include "runtime/base/check.h"

/* The best of s + bias that is not yet taken; strict comparison gives ties to the lower id. */
static uint32_t choose_best(const moe_route_t *p, const float *s, const uint32_t *taken,
                            uint32_t taken_count, float *value)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t e = 0; e < p->experts; e++) {
        bool used = false;
        for (uint32_t i = 0; i < taken_count; i++)
            used |= taken[i] == e;
        if (!used && (best == UINT32_MAX || s[e] + p->bias[e] > *value)) {
            best = e;
            *value = s[e] + p->bias[e];
        }
    }
    return best;
}

void moe_choose(const moe_route_t *p, uint32_t m)
{
    uint32_t k = p->chosen_count, *chosen = p->chosen + (size_t)m * k,
             *order = p->order + (size_t)m * k;
    const float *s = p->scores + (size_t)m * p->experts;
    float *weights = p->weights + (size_t)m * k, last = 0.0f, left = 0.0f, sum = 0.0f;

    ASSERT(k <= MOE_CHOSEN_MAX && k <= p->experts);
    for (uint32_t i = 0; i < k; i++)
        order[i] =
            p->bias ? choose_best(p, s, order, i, &last) : p->table[(size_t)p->tokens[m] * k + i];
    if (p->margin) {
        bool rest = p->bias && k < p->experts;
        if (rest)
            choose_best(p, s, order, k, &left);
        p->margin[m] = rest ? last - left : INFINITY;
    }
    /* Insertion keeps equal ids, so one named twice counts twice. */
    for (uint32_t i = 0; i < k; i++) {
        uint32_t at = i;
        for (; at > 0 && chosen[at - 1] > order[i]; at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = order[i];
    }
    for (uint32_t i = 0; i < k; i++)
        sum = sum + s[chosen[i]];
    for (uint32_t i = 0; i < k; i++)
        weights[i] = (p->normalize ? s[chosen[i]] / sum : s[chosen[i]]) * p->scale;
}

void moe_route_ref(const moe_route_t *p)
{
    for (uint32_t m = 0; m < p->rows; m++) {
        for (uint32_t e = 0; e < p->experts; e++)
            p->scores[m * p->experts + e] = sqrtf(math_softplus(p->logits[m * p->experts + e]));
        moe_choose(p, m);
    }
}

void moe_sort_ref(const moe_sort_t *p)
{
    uint32_t k = p->chosen_count, place = 0;

    for (uint32_t e = 0; e < p->experts; e++) {
        p->offsets[e] = place;
        for (uint32_t i = 0; i < p->rows * k; i++) {
            if (p->chosen[i] != e)
                continue;
            p->sources[place] = i / k;
            p->places[i] = place++;
        }
    }
    p->offsets[p->experts] = place;
}

void swiglu_ref(const swiglu_t *p)
{
    for (uint32_t m = 0; m < p->rows; m++) {
        for (uint32_t i = 0; i < p->width; i++) {
            float g = p->gate[m * p->stride + i], v = p->up[m * p->stride + i];
            g = g < p->limit ? g : p->limit;
            v = v < p->limit ? v : p->limit;
            v = v > -p->limit ? v : -p->limit;
            p->z[(size_t)m * p->width + i] = g * math_sigmoid(g) * v;
        }
    }
}

void moe_combine_ref(const moe_combine_t *p)
{
    for (uint32_t m = 0; m < p->rows; m++) {
        const uint32_t *places = p->places + (size_t)m * p->chosen_count;
        for (uint32_t c = 0; c < p->channels; c++) {
            float y = 0.0f;
            for (uint32_t i = 0; i < p->chosen_count; i++)
                y = fmaf(p->weights[m * p->chosen_count + i],
                         p->answers[(size_t)places[i] * p->channels + c], y);
            p->y[m * p->y_stride + c] = y + p->shared[(size_t)m * p->channels + c];
        }
    }
}
