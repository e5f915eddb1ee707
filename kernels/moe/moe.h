/* moe.h - choosing experts, their activation, and the sum of their answers.
 *
 *   route:   s = sqrt(softplus(logit))
 *            by score: the k largest of s + bias, ties to the lower id; else row `token` of a table
 *            weight = s / (sum of the chosen s, ascending id) * scale; not divided without norm
 *   sort:    choices in order of experts, those of one expert in order of rows
 *   swiglu:  g = min(gate, limit); v = clamp(up, -limit, limit); z = (g * sigmoid(g)) * v
 *   combine: y = sum over the chosen, ascending id, of weight * answer (fma from 0), then + the
 *            shared expert's answer
 * The chosen stand in ascending id; `order` keeps the order of choice for traces. A table row may
 * name an expert twice: it then counts twice.
 */
#ifndef KERNELS_MOE_MOE_H
#define KERNELS_MOE_MOE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOE_CHOSEN_MAX = 64 };

typedef struct {
    uint32_t rows;
    uint32_t experts;
    uint32_t chosen_count; /* k */
    bool normalize;
    float scale;
    const float *logits;   /* [rows, experts]; becomes s */
    const float *bias;     /* [experts], or NULL: the table says */
    const uint32_t *table; /* [tokens there are, k] */
    const uint32_t *tokens; /* [rows] */
    float *scores;         /* [rows, experts]: s */
    uint32_t *chosen;      /* [rows, k], ascending */
    uint32_t *order;       /* [rows, k]: the same in order of choice */
    float *weights;        /* [rows, k], of chosen */
    float *margin; /* [rows]: last taken minus best left, +inf if none is left or by table; may be
                      NULL */
} moe_route_t;

typedef struct {
    uint32_t rows;
    uint32_t experts;
    uint32_t chosen_count;
    const uint32_t *chosen; /* [rows, k] */
    uint32_t *offsets;      /* [experts + 1]: the places of expert e begin at offsets[e] */
    uint32_t *sources;      /* [rows * k]: the row whose choice has this place */
    uint32_t *places;       /* [rows, k]: the place of a choice */
} moe_sort_t;

typedef struct {
    uint32_t rows;
    uint32_t width;
    size_t stride;     /* of gate and up; z is dense */
    const float *gate; /* [rows, width] */
    const float *up;
    float limit;
    float *z; /* [rows, width] */
} swiglu_t;

typedef struct {
    uint32_t rows;
    uint32_t channels;
    uint32_t chosen_count;
    const float *weights;   /* [rows, k] */
    const uint32_t *places; /* [rows, k], of the answers */
    const float *answers;   /* [rows * k, channels], by place */
    const float *shared;    /* [rows, channels] */
    size_t y_stride;
    float *y; /* [rows, channels] */
} moe_combine_t;

void moe_route_ref(const moe_route_t *p);
void moe_sort_ref(const moe_sort_t *p);
void swiglu_ref(const swiglu_t *p);
void moe_combine_ref(const moe_combine_t *p);

/* Shared by all forms: choice and weights of row m, once its scores stand. */
void moe_choose(const moe_route_t *p, uint32_t m);

#endif
