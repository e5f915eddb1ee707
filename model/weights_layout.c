#include "model/weights_layout.h"

#include <stddef.h>

/* clang-format off */
#define MODEL(rows, columns, member, ...) \
    { IN_MODEL, ALWAYS, PLAIN, rows, columns, offsetof(weights_t, member), { __VA_ARGS__ } }
#define LAYER(when, kind, rows, columns, member, ...) \
    { IN_LAYER, when, kind, rows, columns, offsetof(weights_layer_t, member), { __VA_ARGS__ } }
#define ROUTED(rows, columns, member, ...) \
    { IN_EXPERT, ALWAYS, EXPERT, rows, columns, offsetof(weights_expert_t, member), \
      { __VA_ARGS__ } }
#define COMPRESSOR "self_attn.compressor."
#define INDEXER "self_attn.compressor.indexer."

const layout_t weights_layout[] = {
    MODEL(VOCABULARY, HIDDEN, embed, "embed.weight", "embed_tokens.weight"),
    MODEL(VOCABULARY, HIDDEN, head, "head.weight", "lm_head.weight"),
    MODEL(ONE, HIDDEN, norm, "norm.weight"),
    MODEL(STREAMS, STREAMS_HIDDEN, hc_head.fn, "hc_head_fn", "hc_head.hc_fn"),
    MODEL(ONE, STREAMS, hc_head.base, "hc_head_base", "hc_head.hc_base"),
    MODEL(ONE, ONE, hc_head.scale, "hc_head_scale", "hc_head.hc_scale"),

    LAYER(ALWAYS, PLAIN, MIXES, STREAMS_HIDDEN, hc_attn.fn, "hc_attn_fn", "attn_hc.fn"),
    LAYER(ALWAYS, PLAIN, ONE, MIXES, hc_attn.base, "hc_attn_base", "attn_hc.base"),
    LAYER(ALWAYS, PLAIN, ONE, THREE, hc_attn.scale, "hc_attn_scale", "attn_hc.scale"),
    LAYER(ALWAYS, PLAIN, MIXES, STREAMS_HIDDEN, hc_ffn.fn, "hc_ffn_fn", "ffn_hc.fn"),
    LAYER(ALWAYS, PLAIN, ONE, MIXES, hc_ffn.base, "hc_ffn_base", "ffn_hc.base"),
    LAYER(ALWAYS, PLAIN, ONE, THREE, hc_ffn.scale, "hc_ffn_scale", "ffn_hc.scale"),
    LAYER(ALWAYS, PLAIN, ONE, HIDDEN, attn_norm, "attn_norm.weight", "input_layernorm.weight"),
    LAYER(ALWAYS, PLAIN, ONE, HIDDEN, ffn_norm,
          "ffn_norm.weight", "post_attention_layernorm.weight"),

    LAYER(ALWAYS, MATRIX, QUERY_RANK, HIDDEN, wq_a,
          "attn.wq_a.weight", "self_attn.q_a_proj.weight"),
    LAYER(ALWAYS, PLAIN, ONE, QUERY_RANK, q_norm,
          "attn.q_norm.weight", "self_attn.q_a_norm.weight"),
    LAYER(ALWAYS, MATRIX, QUERY, QUERY_RANK, wq_b, "attn.wq_b.weight", "self_attn.q_b_proj.weight"),
    LAYER(ALWAYS, MATRIX, HEAD_DIM, HIDDEN, wkv, "attn.wkv.weight", "self_attn.kv_proj.weight"),
    LAYER(ALWAYS, PLAIN, ONE, HEAD_DIM, kv_norm, "attn.kv_norm.weight", "self_attn.kv_norm.weight"),
    LAYER(ALWAYS, MATRIX, GROUP_OUT, GROUP_IN, wo_a,
          "attn.wo_a.weight", "self_attn.o_a_proj.weight"),
    LAYER(ALWAYS, MATRIX, HIDDEN, GROUP_OUT, wo_b, "attn.wo_b.weight", "self_attn.o_b_proj.weight"),
    LAYER(ALWAYS, PLAIN, ONE, HEADS, attn_sink, "attn.attn_sink", "self_attn.sinks"),

    LAYER(COMPRESSED, PLAIN, CHANNELS, HIDDEN, compressor.wkv,
          "attn.compressor.wkv.weight", COMPRESSOR "kv_proj.weight"),
    LAYER(COMPRESSED, PLAIN, CHANNELS, HIDDEN, compressor.wgate,
          "attn.compressor.wgate.weight", COMPRESSOR "gate_proj.weight"),
    LAYER(COMPRESSED, PLAIN, RATIO, CHANNELS, compressor.ape,
          "attn.compressor.ape", COMPRESSOR "position_bias"),
    LAYER(COMPRESSED, PLAIN, ONE, HEAD_DIM, compressor.norm,
          "attn.compressor.norm.weight", COMPRESSOR "kv_norm.weight"),
    LAYER(INDEXED, MATRIX, INDEX_QUERY, QUERY_RANK, indexer_wq_b,
          "attn.indexer.wq_b.weight", INDEXER "q_b_proj.weight"),
    LAYER(INDEXED, PLAIN, INDEX_HEADS, HIDDEN, indexer_weights_proj,
          "attn.indexer.weights_proj.weight", INDEXER "scorer.weights_proj.weight",
          INDEXER "weights_proj.weight"),
    LAYER(INDEXED, PLAIN, INDEX_CHANNELS, HIDDEN, index_compressor.wkv,
          "attn.indexer.compressor.wkv.weight", INDEXER "kv_proj.weight"),
    LAYER(INDEXED, PLAIN, INDEX_CHANNELS, HIDDEN, index_compressor.wgate,
          "attn.indexer.compressor.wgate.weight", INDEXER "gate_proj.weight"),
    LAYER(INDEXED, PLAIN, RATIO, INDEX_CHANNELS, index_compressor.ape,
          "attn.indexer.compressor.ape", INDEXER "position_bias"),
    LAYER(INDEXED, PLAIN, ONE, INDEX_DIM, index_compressor.norm,
          "attn.indexer.compressor.norm.weight", INDEXER "kv_norm.weight"),

    LAYER(ALWAYS, PLAIN, EXPERTS, HIDDEN, gate, "ffn.gate.weight", "mlp.gate.weight"),
    LAYER(SCORED, PLAIN, ONE, EXPERTS, gate_bias,
          "ffn.gate.bias", "mlp.gate.e_score_correction_bias"),
    LAYER(HASHED, INTEGER, VOCABULARY, PER_TOKEN, tid2eid, "ffn.gate.tid2eid", "mlp.gate.tid2eid"),
    LAYER(ALWAYS, MATRIX, WIDTH, HIDDEN, shared.w1,
          "ffn.shared_experts.w1.weight", "mlp.shared_experts.gate_proj.weight"),
    LAYER(ALWAYS, MATRIX, WIDTH, HIDDEN, shared.w3,
          "ffn.shared_experts.w3.weight", "mlp.shared_experts.up_proj.weight"),
    LAYER(ALWAYS, MATRIX, HIDDEN, WIDTH, shared.w2,
          "ffn.shared_experts.w2.weight", "mlp.shared_experts.down_proj.weight"),

    ROUTED(WIDTH, HIDDEN, w1, "w1.weight", "gate_proj.weight"),
    ROUTED(WIDTH, HIDDEN, w3, "w3.weight", "up_proj.weight"),
    ROUTED(HIDDEN, WIDTH, w2, "w2.weight", "down_proj.weight"),

    LAYER(DRAFTS, MATRIX, HIDDEN, HIDDEN, e_proj, "e_proj.weight"),
    LAYER(DRAFTS, MATRIX, HIDDEN, HIDDEN, h_proj, "h_proj.weight"),
    LAYER(DRAFTS, PLAIN, ONE, HIDDEN, enorm, "enorm.weight"),
    LAYER(DRAFTS, PLAIN, ONE, HIDDEN, hnorm, "hnorm.weight"),
    LAYER(DRAFTS, PLAIN, ONE, HIDDEN, norm, "norm.weight"),
    LAYER(DRAFTS, PLAIN, STREAMS, STREAMS_HIDDEN, hc_head.fn, "hc_head_fn"),
    LAYER(DRAFTS, PLAIN, ONE, STREAMS, hc_head.base, "hc_head_base"),
    LAYER(DRAFTS, PLAIN, ONE, ONE, hc_head.scale, "hc_head_scale"),
};
/* clang-format on */

const size_t weights_layout_count = COUNT_OF(weights_layout);

uint32_t layout_dim(const model_config_t *c, const model_layer_t *layer, layout_dim_t dim)
{
    switch (dim) {
    case ONE:
        return 1;
    case THREE:
        return 3;
    case VOCABULARY:
        return c->vocabulary;
    case HIDDEN:
        return c->hidden;
    case STREAMS:
        return c->streams;
    case STREAMS_HIDDEN:
        return c->streams * c->hidden;
    case MIXES:
        return (2 + c->streams) * c->streams;
    case QUERY_RANK:
        return c->query_rank;
    case QUERY:
        return c->heads * c->head_dim;
    case HEADS:
        return c->heads;
    case HEAD_DIM:
        return c->head_dim;
    case GROUP_IN:
        return c->heads * c->head_dim / c->output_groups;
    case GROUP_OUT:
        return c->output_groups * c->output_rank;
    case RATIO:
        return layer->ratio;
    case CHANNELS:
        return model_compressor_channels(layer->ratio, c->head_dim);
    case INDEX_QUERY:
        return c->index_heads * c->index_dim;
    case INDEX_HEADS:
        return c->index_heads;
    case INDEX_DIM:
        return c->index_dim;
    case INDEX_CHANNELS:
        return model_compressor_channels(layer->ratio, c->index_dim);
    case EXPERTS:
        return c->experts;
    case PER_TOKEN:
        return c->experts_per_token;
    case WIDTH:
        return c->expert_width;
    }
    UNREACHABLE("a dimension of the table");
}

bool layout_has(const layout_t *row, const model_layer_t *layer, bool drafts)
{
    switch (row->when) {
    case ALWAYS:
        return true;
    case COMPRESSED:
        return layer->ratio != 0;
    case INDEXED:
        return layer->ratio == 4;
    case HASHED:
        return layer->hash;
    case SCORED:
        return !layer->hash;
    case DRAFTS:
        return drafts;
    }
    UNREACHABLE("a condition of the table");
}

bool layout_allows(layout_kind_t kind, tensor_dtype_t dtype)
{
    switch (dtype) {
    case TENSOR_BF16:
    case TENSOR_F32:
        return kind != INTEGER;
    case TENSOR_F8_E4M3:
        return kind == MATRIX || kind == EXPERT;
    case TENSOR_I8:
    case TENSOR_U8:
        return kind == EXPERT;
    case TENSOR_I64:
    case TENSOR_I32:
        return kind == INTEGER;
    default:
        return false;
    }
}

const char *layout_dtypes(layout_kind_t kind)
{
    static const char *const texts[] = {
        [PLAIN] = "BF16 or F32",
        [MATRIX] = "BF16, F32 or F8_E4M3",
        [EXPERT] = "BF16, F32, F8_E4M3, I8 or U8",
        [INTEGER] = "I64 or I32",
    };

    return texts[kind];
}
