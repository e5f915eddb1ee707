/* config.h - the model's shape and constants, read from config.json, and the defaults of
 * generation_config.json.
 *
 * Two spellings of config.json are read: the release's (compress_ratios, num_hash_layers,
 * rope_scaling) and that of newer transformers (layer_types, compress_rates, mlp_layer_types,
 * rope_parameters). The file is foreign: every number has a limit (runtime/base/limits.h), every
 * switch has the values this engine computes, and anything else is refused with the field, what was
 * expected and what was found. Fields nobody here reads are passed over.
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/limits.h"
#include "runtime/base/status.h"

/* What config.json says about stored weights; a plan without weights counts bytes with it. The
 * tensors decide. */
typedef enum { STORED_BF16, STORED_FP8, STORED_MXFP4, STORED_NVFP4 } model_stored_t;

typedef struct {
    uint32_t ratio; /* 0: window only; 4: window, compressor with overlap, indexer; 128: window and
                       compressor */
    bool hash;      /* experts by token id, else by score */
} model_layer_t;

typedef struct {
    double theta;
    bool yarn; /* the rest counts only if set */
    double factor;
    double original_positions;
    double beta_fast;
    double beta_slow;
} model_rope_t;

typedef struct {
    uint32_t vocabulary;
    uint32_t hidden;
    uint32_t layer_count;
    uint32_t mtp_count;
    model_layer_t
        layers[LAYERS_MAX + MTP_BLOCKS_MAX]; /* MTP blocks follow the layers: ratio 0, by score */

    uint32_t heads;
    uint32_t head_dim;
    uint32_t rope_dim; /* last channels of a head or index row */
    uint32_t query_rank;
    uint32_t output_groups; /* divides heads * head_dim */
    uint32_t output_rank;   /* of one group */
    uint32_t window;        /* rows, the token's own included */
    uint32_t index_heads;
    uint32_t index_dim;
    uint32_t index_topk;

    uint32_t experts;
    uint32_t experts_per_token;
    uint32_t expert_width;
    bool normalize_weights; /* norm_topk_prob */
    double routed_scale;
    double swiglu_limit;

    uint32_t streams; /* hc_mult */
    uint32_t sinkhorn_rounds;
    double stream_eps; /* hc_eps */
    double norm_eps;

    model_rope_t rope;            /* layers of ratio 0 */
    model_rope_t compressed_rope; /* layers of ratio 4 and 128 */
    uint32_t positions_max;

    model_stored_t stored;        /* matrices */
    model_stored_t stored_expert; /* matrices of routed experts */
    bool scales_float;            /* FP8 block scales are float32, not e8m0 */

    uint32_t bos_token;
    uint32_t eos_tokens[EOS_TOKENS_MAX];
    uint32_t eos_count;
} model_config_t;

/* Defaults of a request that does not say. */
typedef struct {
    float temperature; /* 0: greedy */
    float top_p;
    float min_p;
    uint32_t top_k;
    float repetition_penalty;
    uint32_t output_tokens_max; /* 0: as far as the context goes */
    uint32_t eos_tokens[EOS_TOKENS_MAX];
    uint32_t eos_count; /* 0: those of config.json count */
} model_generation_t;

/* Reads FOLDER/config.json. BAD_FILE (cannot be read, not JSON) or BAD_CONFIG (a field). */
MUST_USE status_t model_config_load(const char *folder, model_config_t *config);
/* The same from memory; `name` stands in messages. */
MUST_USE status_t model_config_parse(const char *text, size_t size, const char *name,
                                     model_config_t *config);
/* Reads FOLDER/generation_config.json; a folder without one has the defaults: temperature 1, top_p
 * 1, nothing else. */
MUST_USE status_t model_generation_load(const char *folder, model_generation_t *generation);
MUST_USE status_t model_generation_parse(const char *text, size_t size, const char *name,
                                         model_generation_t *generation);

/* Channels of a compressor's projections: twice the width with overlap (ratio 4). */
static inline uint32_t model_compressor_channels(uint32_t ratio, uint32_t width)
{
    return ratio == 4 ? 2 * width : width;
}

/* Whether the packed cache forms (kernels/format.h) fit the rows; otherwise only float32 and bf16
 * do. */
static inline bool model_config_packs(const model_config_t *config)
{
    return (config->head_dim - config->rope_dim) % 64 == 0 && config->index_dim % 32 == 0;
}

#endif
