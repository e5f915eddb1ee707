/* forward_moe.c - the expert sublayer. Each rank runs its own experts; each rank adds up its own
 * columns of all answers.
 *
 * Answers of single experts are exchanged, not sums of a rank's experts, so that the written order
 * (ascending expert, then the shared one) holds at every size of the group.
 */
#include <string.h>

#include "model/forward_parts.h"

static status_t route(forward_t *f, const forward_layer_t *layer)
{
    const model_config_t *c = f->config;
    uint32_t rows = f->r.rows, k = c->experts_per_token;

    for (uint32_t m = 0; layer->hash && m < rows; m++)
        for (uint32_t i = 0; i < k; i++)
            f->r.fixed[m * k + i] = (uint32_t)weight_integer(layer->table, f->r.tokens[m], i);
    forward_gemm(f, &layer->gate, rows, f->r.u, c->hidden, f->r.scores, c->experts);
    f->o->moe_route(&(moe_route_t){
        .rows = rows,
        .experts = c->experts,
        .chosen_count = k,
        .normalize = c->normalize_weights,
        .scale = (float)c->routed_scale,
        .logits = f->r.scores,
        .bias = layer->hash ? NULL : layer->gate_bias,
        .fixed = f->r.fixed,
        .scores = f->r.scores,
        .chosen = f->r.chosen,
        .order = f->r.order,
        .weights = f->r.weights,
        .margin = f->r.margin,
    });
    if (!f->options.trace)
        return STATUS_OK;
    for (uint32_t m = 0; m < rows; m++) /* weights in order of choice, as the ids are traced */
        for (uint32_t i = 0; i < k; i++)
            for (uint32_t j = 0; j < k; j++)
                if (f->r.chosen[m * k + j] == f->r.order[m * k + i])
                    f->r.trace[m * k + i] = f->r.weights[m * k + j];
    forward_note(f, layer->name, "ffn.expert_ids", TRACE_I32, rows, k, f->r.order);
    forward_note(f, layer->name, "ffn.expert_weights", TRACE_F32, rows, k, f->r.trace);
    forward_note(f, layer->name, "ffn.router_margin", TRACE_F32, rows, 1, f->r.margin);
    return STATUS_OK;
}

/* w1 and w3 of an expert, then the activation: z [rows, width]. */
static void activate(forward_t *f, const forward_expert_t *expert, uint32_t rows, const float *x,
                     float *z)
{
    uint32_t width = expert->w1.outputs;
    float *gate = f->r.gate_up, *up = gate + (size_t)rows * width;

    forward_gemm(f, &expert->w1, rows, x, f->config->hidden, gate, width);
    forward_gemm(f, &expert->w3, rows, x, f->config->hidden, up, width);
    f->o->swiglu(&(swiglu_t){rows, width, width, gate, up, (float)f->config->swiglu_limit, z});
}

/* Rows that chose this expert go through together; answers return to [row, choice], twice where a
 * row names it twice. */
static void run_expert(forward_t *f, const forward_expert_t *expert, uint32_t id)
{
    uint32_t k = f->config->experts_per_token, hidden = f->config->hidden, count = 0;
    uint32_t *places = f->r.fixed; /* free again */

    for (uint32_t i = 0; i < f->r.rows * k; i++) {
        if (f->r.chosen[i] != id || (i % k && f->r.chosen[i - 1] == id))
            continue;
        memcpy(f->r.gathered + (size_t)count * hidden, f->r.u + (size_t)(i / k) * hidden,
               hidden * sizeof(float));
        places[count++] = i;
    }
    if (!count)
        return;
    /* z lies behind gate and up; answers take the place of the gathered rows. */
    float *z = f->r.gate_up + 2 * (size_t)count * expert->w1.outputs, *answers = f->r.gathered;
    activate(f, expert, count, f->r.gathered, z);
    forward_gemm(f, &expert->w2, count, z, expert->w2.inputs, answers, hidden);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t at = places[i]; at / k == places[i] / k && f->r.chosen[at] == id; at++)
            memcpy(f->r.answers + (size_t)at * hidden, answers + (size_t)i * hidden,
                   hidden * sizeof(float));
}

static status_t run_shared(forward_t *f, const forward_layer_t *layer)
{
    uint32_t rows = f->r.rows, rank = f->options.rank, width = f->config->expert_width;
    float *z = forward_part(f, f->r.shared_z);

    activate(f, &layer->shared, rows, f->r.u, z);
    TRY(forward_gather(f, SITE_SHARED_EXPERT, &f->width_cut, rows, z, f->r.shared_z));
    forward_gemm(f, &layer->shared.w2, rows, f->r.shared_z, width, f->r.shared_y,
                 f->hidden_cut.at[rank + 1] - f->hidden_cut.at[rank]);
    return STATUS_OK;
}

status_t forward_moe(forward_t *f, const forward_layer_t *layer)
{
    uint32_t rows = f->r.rows, k = f->config->experts_per_token, rank = f->options.rank;
    uint32_t first = f->hidden_cut.at[rank], count = f->hidden_cut.at[rank + 1] - first;
    const float *answers = f->r.answers;
    float *y;

    TRY(route(f, layer));
    for (uint32_t e = 0; e < f->experts; e++)
        run_expert(f, &layer->experts[e], f->expert_first + e);
    TRY(run_shared(f, layer));
    if (f->options.world > 1) {
        for (uint32_t i = 0; i < rows * k; i++)
            f->r.owners[i] = (uint8_t)(f->r.chosen[i] / f->experts);
        TRY(collective_pick(f->collective, SITE_EXPERTS, f->r.answers, rows * k,
                            f->config->hidden, f->r.owners, first, count, f->r.answers_part));
        answers = f->r.answers_part;
    }
    y = forward_part(f, f->r.y);
    f->o->moe_combine(
        &(moe_combine_t){rows, count, k, f->r.weights, answers, f->r.shared_y, count, y});
    return forward_gather(f, SITE_MOE_OUTPUT, &f->hidden_cut, rows, y, f->r.y);
}
