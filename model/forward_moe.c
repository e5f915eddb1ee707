/* forward_moe.c - the expert sublayer. Every expert is cut by its width: a rank activates its share
 * of each expert that was chosen, ranks gather activations, and each computes its own columns of all
 * answers.
 *
 * So every output is one sum in the written order on one rank (ascending expert, then the shared
 * one), at every size of the group, and a layer needs two exchanges whatever was chosen.
 */
#include "model/forward_parts.h"

static void route(forward_t *f, const forward_layer_t *layer)
{
    const model_config_t *c = f->config;
    uint32_t rows = f->r.rows, k = c->experts_per_token;

    forward_gemm(f, &layer->gate, rows, f->r.u, c->hidden, f->r.scores, c->experts);
    f->o->moe_route(&(moe_route_t){
        .rows = rows,
        .experts = c->experts,
        .chosen_count = k,
        .normalize = c->normalize_weights,
        .scale = (float)c->routed_scale,
        .logits = f->r.scores,
        .bias = layer->hash ? NULL : layer->gate_bias,
        .table = layer->table,
        .tokens = f->r.tokens,
        .scores = f->r.scores,
        .chosen = f->r.chosen,
        .order = f->r.order,
        .weights = f->r.weights,
        .margin = f->r.margin,
    });
    if (!f->options.trace)
        return;
    for (uint32_t m = 0; m < rows; m++) /* weights in order of choice, as the ids are traced */
        for (uint32_t i = 0; i < k; i++)
            for (uint32_t j = 0; j < k; j++)
                if (f->r.chosen[m * k + j] == f->r.order[m * k + i])
                    f->r.trace[m * k + i] = f->r.weights[m * k + j];
    forward_note(f, layer->name, "ffn.expert_ids", TRACE_I32, rows, k, f->r.order);
    forward_note(f, layer->name, "ffn.expert_weights", TRACE_F32, rows, k, f->r.trace);
    forward_note(f, layer->name, "ffn.router_margin", TRACE_F32, rows, 1, f->r.margin);
}

/* Activations of this rank's width: of all choices in order of experts, then of the shared expert.
 */
static void activate(forward_t *f, const forward_layer_t *layer, float *z)
{
    const model_config_t *c = f->config;
    forward_rows_t *r = &f->r;
    uint32_t rows = r->rows, choices = rows * c->experts_per_token;
    uint32_t width = forward_share(f, &f->width_cut);
    float *shared_gate = r->gate + (size_t)choices * width,
          *shared_up = r->up + (size_t)choices * width;
    gemm_groups_t p = {.groups = c->experts,
                       .offsets = r->offsets,
                       .x_stride = c->hidden,
                       .y_stride = width,
                       .x = r->routed};

    p.w = layer->w1;
    p.y = r->gate;
    forward_gemm_groups(f, &p);
    p.w = layer->w3;
    p.y = r->up;
    forward_gemm_groups(f, &p);
    forward_gemm(f, &layer->shared_w1, rows, r->u, c->hidden, shared_gate, width);
    forward_gemm(f, &layer->shared_w3, rows, r->u, c->hidden, shared_up, width);
    f->o->swiglu(
        &(swiglu_t){choices + rows, width, width, r->gate, r->up, (float)c->swiglu_limit, z});
}

status_t forward_moe(forward_t *f, const forward_layer_t *layer)
{
    const model_config_t *c = f->config;
    forward_rows_t *r = &f->r;
    uint32_t rows = r->rows, k = c->experts_per_token, choices = rows * k;
    uint32_t count = forward_share(f, &f->hidden_cut);
    float *part = forward_part(f, r->width);

    route(f, layer);
    f->o->moe_sort(
        &(moe_sort_t){rows, c->experts, k, r->chosen, r->offsets, r->sources, r->places});
    f->o->rows_gather(&(rows_gather_t){choices, c->hidden, r->u, r->sources, r->routed});
    activate(f, layer, part);
    TRY(forward_gather(f, SITE_EXPERT_WIDTH, &f->width_cut, choices + rows, part, r->width));
    forward_gemm_groups(f, &(gemm_groups_t){.groups = c->experts,
                                            .offsets = r->offsets,
                                            .w = layer->w2,
                                            .x_stride = c->expert_width,
                                            .y_stride = count,
                                            .x = r->width,
                                            .y = r->routed});
    forward_gemm(f, &layer->shared_w2, rows, r->width + (size_t)choices * c->expert_width,
                 c->expert_width, r->shared_y, count);
    part = forward_part(f, r->y);
    f->o->moe_combine(&(moe_combine_t){rows, count, k, r->weights, r->places, r->routed,
                                       r->shared_y, count, part});
    return forward_gather(f, SITE_MOE_OUTPUT, &f->hidden_cut, rows, part, r->y);
}
