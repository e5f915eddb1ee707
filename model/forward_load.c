/* forward_load.c - this rank's share of the weights, packed for the operators.
 *
 * Runs twice over the same code: once to count bytes, once to fill them.
 */
#include <stdio.h>

#include "model/forward_parts.h"

void *forward_take(forward_pack_t *pack, size_t count, size_t size)
{
    void *memory = pack->memory ? pack->memory + pack->used : NULL;

    pack->used += (count * size + 63) / 64 * 64;
    return memory;
}

static status_t load_matrix(forward_pack_t *pack, const weight_t *weight, gemm_matrix_t *matrix)
{
    void *memory = forward_take(pack, gemm_pack_bytes(weight), 1);

    if (!memory)
        return STATUS_OK;
    TRY(gemm_pack(weight, memory, matrix));
    return STATUS_OK;
}

static status_t load_rows(forward_pack_t *pack, const weight_t *weight, uint32_t first,
                          uint32_t end, gemm_matrix_t *matrix)
{
    weight_t rows = weight_rows(weight, first, end - first);
    return load_matrix(pack, &rows, matrix);
}

static void load_floats(forward_pack_t *pack, const weight_t *weight, const float **floats)
{
    float *memory = forward_take(pack, (size_t)weight->rows * weight->columns, sizeof(float));

    if (memory)
        weight_decode(weight, 0, weight->rows, memory);
    *floats = memory;
}

static status_t load_site(forward_pack_t *pack, const weight_t *fn, const weight_t *base,
                          const weight_t *scale, forward_site_t *site)
{
    TRY(load_matrix(pack, fn, &site->fn));
    load_floats(pack, base, &site->base);
    load_floats(pack, scale, &site->scale);
    return STATUS_OK;
}

static status_t load_compressor(forward_pack_t *pack, const weights_compressor_t *w,
                                forward_compressor_t *c)
{
    TRY(load_matrix(pack, &w->wkv, &c->wkv));
    TRY(load_matrix(pack, &w->wgate, &c->wgate));
    load_floats(pack, &w->ape, &c->ape);
    load_floats(pack, &w->norm, &c->norm);
    c->width = w->norm.columns;
    c->channels = w->wkv.rows;
    return STATUS_OK;
}

static status_t load_attention(forward_t *f, forward_pack_t *pack, const weights_layer_t *w,
                               forward_layer_t *l)
{
    const model_config_t *c = f->config;
    uint32_t rank = f->options.rank, head = rank * f->heads, group = rank * f->groups, row;
    gemm_matrix_t *wo_a = forward_take(pack, f->groups, sizeof(gemm_matrix_t));
    weight_t sinks = weight_columns(&w->attn_sink, head, f->heads);

    TRY(load_matrix(pack, &w->wq_a, &l->wq_a));
    TRY(load_rows(pack, &w->wq_b, head * c->head_dim, (head + f->heads) * c->head_dim, &l->wq_b));
    TRY(load_matrix(pack, &w->wkv, &l->wkv));
    for (uint32_t g = 0; g < f->groups; g++) {
        gemm_matrix_t none;
        row = (group + g) * c->output_rank;
        TRY(load_rows(pack, &w->wo_a, row, row + c->output_rank, wo_a ? &wo_a[g] : &none));
    }
    l->wo_a = wo_a;
    TRY(load_rows(pack, &w->wo_b, f->hidden_cut.at[rank], f->hidden_cut.at[rank + 1], &l->wo_b));
    load_floats(pack, &w->q_norm, &l->q_norm);
    load_floats(pack, &w->kv_norm, &l->kv_norm);
    load_floats(pack, &sinks, &l->sinks);
    if (l->ratio)
        TRY(load_compressor(pack, &w->compressor, &l->compressor));
    if (l->ratio == 4) {
        TRY(load_compressor(pack, &w->index_compressor, &l->index_compressor));
        TRY(load_matrix(pack, &w->indexer_wq_b, &l->index_wq_b));
        TRY(load_matrix(pack, &w->indexer_weights_proj, &l->index_weights));
    }
    return STATUS_OK;
}

/* Which experts a token of a hash layer goes to. */
static void load_table(forward_pack_t *pack, const weight_t *weight, const uint32_t **table)
{
    uint32_t *memory = forward_take(pack, (size_t)weight->rows * weight->columns, sizeof(uint32_t));

    for (uint32_t row = 0; memory && row < weight->rows; row++)
        for (uint32_t i = 0; i < weight->columns; i++)
            memory[(size_t)row * weight->columns + i] = (uint32_t)weight_integer(weight, row, i);
    *table = memory;
}

static status_t load_moe(forward_t *f, forward_pack_t *pack, const weights_layer_t *w,
                         forward_layer_t *l)
{
    uint32_t rank = f->options.rank;
    const uint32_t *width = f->width_cut.at + rank, *hidden = f->hidden_cut.at + rank;
    uint32_t experts = f->config->experts;
    gemm_matrix_t *all = forward_take(pack, 3 * (size_t)experts, sizeof(gemm_matrix_t)), none[3];

    TRY(load_matrix(pack, &w->gate, &l->gate));
    if (l->hash)
        load_table(pack, &w->tid2eid, &l->table);
    else
        load_floats(pack, &w->gate_bias, &l->gate_bias);
    TRY(load_rows(pack, &w->shared.w1, width[0], width[1], &l->shared_w1));
    TRY(load_rows(pack, &w->shared.w3, width[0], width[1], &l->shared_w3));
    TRY(load_rows(pack, &w->shared.w2, hidden[0], hidden[1], &l->shared_w2));
    for (uint32_t e = 0; e < experts; e++) {
        const weights_expert_t *from = &w->experts[e];
        gemm_matrix_t *w1 = all ? all + e : none, *w3 = all ? w1 + experts : none + 1;
        gemm_matrix_t *w2 = all ? w3 + experts : none + 2;
        TRY(load_rows(pack, &from->w1, width[0], width[1], w1));
        TRY(load_rows(pack, &from->w3, width[0], width[1], w3));
        TRY(load_rows(pack, &from->w2, hidden[0], hidden[1], w2));
    }
    l->w1 = all;
    l->w3 = all ? all + experts : NULL;
    l->w2 = all ? all + 2 * (size_t)experts : NULL;
    return STATUS_OK;
}

static status_t load_layer(forward_t *f, forward_pack_t *pack, uint32_t index)
{
    const weights_layer_t *w = &f->weights->layers[index];
    forward_layer_t *l = &f->layers[index];
    bool draft = index >= f->weights->layer_count;

    l->index = index;
    l->ratio = f->config->layers[index].ratio;
    l->hash = f->config->layers[index].hash;
    snprintf(l->name, sizeof(l->name), draft ? "mtp.%u." : "layers.%u.",
             draft ? index - f->weights->layer_count : index);
    TRY(load_site(pack, &w->hc_attn.fn, &w->hc_attn.base, &w->hc_attn.scale, &l->attention_site));
    TRY(load_site(pack, &w->hc_ffn.fn, &w->hc_ffn.base, &w->hc_ffn.scale, &l->moe_site));
    load_floats(pack, &w->attn_norm, &l->attention_norm);
    load_floats(pack, &w->ffn_norm, &l->moe_norm);
    TRY(load_attention(f, pack, w, l));
    TRY(load_moe(f, pack, w, l));
    if (!draft)
        return STATUS_OK;
    TRY(load_matrix(pack, &w->e_proj, &l->e_proj));
    TRY(load_matrix(pack, &w->h_proj, &l->h_proj));
    load_floats(pack, &w->enorm, &l->enorm);
    load_floats(pack, &w->hnorm, &l->hnorm);
    load_floats(pack, &w->norm, &l->norm);
    TRY(load_site(pack, &w->hc_head.fn, &w->hc_head.base, &w->hc_head.scale, &l->head_site));
    return STATUS_OK;
}

status_t forward_load(forward_t *f, forward_pack_t *pack)
{
    const weights_t *w = f->weights;
    const uint32_t *vocabulary = f->vocabulary_cut.at + f->options.rank;
    forward_layer_t *last = &f->layers[w->layer_count - 1];

    for (uint32_t i = 0; i < w->layer_count + w->mtp_count; i++)
        TRY(load_layer(f, pack, i));
    /* The model's own head mix and norm belong to its last layer. */
    TRY(load_site(pack, &w->hc_head.fn, &w->hc_head.base, &w->hc_head.scale, &last->head_site));
    load_floats(pack, &w->norm, &last->norm);
    TRY(load_rows(pack, &w->head, vocabulary[0], vocabulary[1], &f->head));
    return STATUS_OK;
}
