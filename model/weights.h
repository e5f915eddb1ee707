/* weights.h - the weights of a model: every tensor of a checkpoint, found, checked and named.
 *
 * Opens FOLDER/model.safetensors (or the shards of model.safetensors.index.json), read-only and
 * mapped, and matches it with one table (weights.c) of names, shapes and forms. Release and
 * transformers names are read, with and without "model." in front; so are experts joined in one
 * tensor per layer. A missing, doubled or foreign tensor, a wrong shape or dtype, an expert number
 * out of range in a routing table: refused with the tensor, what was expected, what was found.
 * Nothing is converted: each weight_t is a view in its stored form. Only tensors that the file
 * misaligns are copied.
 */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/weight.h"
#include "model/config.h"
#include "model/safetensors.h"

typedef struct {
    weight_t wkv;   /* [channels, hidden], channels as model_compressor_channels says */
    weight_t wgate; /* [channels, hidden] */
    weight_t ape;   /* [ratio, channels] */
    weight_t norm;  /* [width] */
} weights_compressor_t;

typedef struct {
    weight_t w1; /* gate [expert_width, hidden] */
    weight_t w3; /* up [expert_width, hidden] */
    weight_t w2; /* down [hidden, expert_width] */
} weights_expert_t;

/* One mixing site of the streams: S streams, (2 + S) * S mixes. */
typedef struct {
    weight_t fn;    /* [(2 + S) * S, S * hidden] */
    weight_t base;  /* [(2 + S) * S] */
    weight_t scale; /* [3] */
} weights_site_t;

typedef struct {
    weight_t fn;    /* [S, S * hidden] */
    weight_t base;  /* [S] */
    weight_t scale; /* [1] */
} weights_head_mix_t;

/* A layer or an MTP block. What a kind of layer does not have is WEIGHT_NONE. */
typedef struct {
    weights_site_t hc_attn, hc_ffn;
    weight_t attn_norm, ffn_norm; /* [hidden] */

    weight_t wq_a;      /* [query_rank, hidden] */
    weight_t q_norm;    /* [query_rank] */
    weight_t wq_b;      /* [heads * head_dim, query_rank] */
    weight_t wkv;       /* [head_dim, hidden] */
    weight_t kv_norm;   /* [head_dim] */
    weight_t wo_a;      /* [output_groups * output_rank, heads * head_dim / output_groups] */
    weight_t wo_b;      /* [hidden, output_groups * output_rank] */
    weight_t attn_sink; /* [heads] */

    weights_compressor_t compressor;       /* ratio 4 and 128, width head_dim */
    weight_t indexer_wq_b;                 /* ratio 4: [index_heads * index_dim, query_rank] */
    weight_t indexer_weights_proj;         /* ratio 4: [index_heads, hidden] */
    weights_compressor_t index_compressor; /* ratio 4, width index_dim */

    weight_t gate;      /* [experts, hidden] */
    weight_t gate_bias; /* by score: [experts] */
    weight_t tid2eid;   /* by token id: [vocabulary, experts_per_token], integers below experts */
    weights_expert_t shared;
    weights_expert_t *experts; /* [experts] */

    /* MTP blocks only */
    weight_t e_proj, h_proj;     /* [hidden, hidden] */
    weight_t enorm, hnorm, norm; /* [hidden] */
    weights_head_mix_t hc_head;
} weights_layer_t;

typedef struct {
    weight_t embed; /* [vocabulary, hidden] */
    weight_t head;  /* [vocabulary, hidden] */
    weight_t norm;  /* [hidden] */
    weights_head_mix_t hc_head;

    uint32_t layer_count;
    uint32_t mtp_count;      /* 0 if the checkpoint has transformers names: those leave MTP out */
    weights_layer_t *layers; /* [layer_count + mtp_count], MTP blocks last */

    safetensors_t file;
    void *memory; /* layers, experts, copies of misaligned tensors */
} weights_t;

typedef struct {
    uint64_t low, high;
} weights_digest_t;

/* BAD_FILE with the reason, or NO_MEMORY. `config` is not kept. weights_close undoes it;
 * idempotent. */
MUST_USE status_t weights_open(weights_t *weights, const char *folder,
                               const model_config_t *config);
void weights_close(weights_t *weights);

/* Names, dtypes, shapes and bytes of all tensors; independent of shards, order and alignment. Reads
 * the whole checkpoint, with up to `threads` threads. */
MUST_USE status_t weights_digest(const weights_t *weights, uint32_t threads,
                                 weights_digest_t *digest);

#endif
