/* forward_parts.h - what the files of the forward pass share. Included by model/forward*.c only.
 *
 *   forward.c            open, step, draft; the layer loop; embedding and head
 *   forward_load.c       this rank's share of the weights, packed
 *   forward_attention.c  projections, window rows, attention core, output projection
 *   forward_compress.c   compressors, index keys, choice of entries
 *   forward_moe.c        router, experts, shared expert
 *   forward_batch.c      the tables of a step, and where its cached rows lie
 *   forward_cache.c      slots that continue from a border
 *
 * Shares of a rank: heads, output groups and vocabulary divide evenly; columns of the hidden state
 * and of every expert's width are cut at floor(n r / world). Everything else (norms, mixes, window
 * rows, compressors, indexer, router) every rank computes, with the same bits.
 *
 * A layer has four collective calls and the head one, each for all rows of the step at once.
 */
#ifndef MODEL_FORWARD_PARTS_H
#define MODEL_FORWARD_PARTS_H

#include "kernels/operators.h"
#include "device/team.h"
#include "model/forward.h"

enum { FORWARD_NAME_BYTES = 64 };

typedef struct {
    gemm_matrix_t fn;
    const float *base;
    const float *scale;
} forward_site_t;

typedef struct {
    gemm_matrix_t wkv, wgate;
    const float *ape; /* [ratio, channels] */
    const float *norm;
    uint32_t width;
    uint32_t channels; /* of wkv and wgate: 2 * width with overlap */
} forward_compressor_t;

typedef struct {
    uint32_t index; /* in geometry: layers, then drafting blocks */
    uint32_t ratio;
    bool hash;
    char name[24]; /* "layers.3." */
    forward_site_t attention_site, moe_site;
    const float *attention_norm, *moe_norm;

    gemm_matrix_t wq_a, wq_b, wkv, wo_b;
    const gemm_matrix_t *wo_a; /* [groups of this rank] */
    const float *q_norm, *kv_norm, *sinks;
    forward_compressor_t compressor, index_compressor;
    gemm_matrix_t index_wq_b, index_weights;

    gemm_matrix_t gate;
    const float *gate_bias; /* NULL: by token id */
    const uint32_t *table;  /* [vocabulary, experts per token] */
    /* All experts, of each this rank's rows: w1 and w3 its share of the width, w2 of the hidden
     * columns. */
    gemm_matrix_t shared_w1, shared_w3, shared_w2;
    const gemm_matrix_t *w1, *w3, *w2; /* [experts] */

    gemm_matrix_t e_proj, h_proj; /* drafting blocks */
    const float *enorm, *hnorm;
    const float *norm; /* before the head: the model's own, or the block's */
    forward_site_t head_site;
} forward_layer_t;

/* Columns that each rank computes: rank r has [at[r], at[r + 1]). */
typedef struct {
    uint32_t at[RANKS_MAX + 1];
} forward_cut_t;

/* Memory of the blocks of one ratio. */
typedef struct {
    batch_blocks_t blocks;
    uint32_t *firsts, *items, *numbers;
    rows_place_t *places;
    float *turns;
} forward_blocks_t;

/* One step's rows; every array has rows_max rows. */
typedef struct {
    uint32_t rows;
    const forward_item_t *items;
    uint32_t item_count;
    batch_t batch;
    batch_item_t *batch_items;
    batch_border_t *borders;
    forward_blocks_t blocks_4, blocks_128;
    uint32_t *positions;
    uint32_t *tokens;
    float *turns, *turns_compressed; /* [rows, rope_dim] */
    float *x;                        /* streams */
    float *raw, *pre, *post, *comb;
    float *u;    /* site input, then normalised */
    float *y;    /* sublayer output */
    float *part; /* this rank's columns of something to be gathered */
    float *qr, *q, *core, *z;
    float *kv;
    uint8_t *row_data, *row_scale; /* window rows in cache form */
    float *states;                 /* [rows, 4 * head_dim]: compressor inputs, [value][score] */
    float *index_states;           /* [rows, 4 * index_dim] */
    float *entries;                /* of the blocks that are being closed */
    float *index_q, *index_w;
    uint32_t *selected;       /* [rows, index_topk] */
    uint32_t *selected_count; /* (uint32_t)SELECT_ALL: all visible entries */
    float *scores, *margin;
    float *index_scores; /* traced only: [rows, positions_max / 4] */
    uint32_t *chosen, *order;
    float *weights;
    uint32_t *offsets, *sources, *places; /* choices in order of experts: moe_sort_t */
    float *routed;    /* [rows * k, hidden]: inputs in order of experts, then answers */
    float *gate, *up; /* [rows * k + rows, this rank's width]: choices, then the shared expert */
    float *width;     /* [rows * k + rows, expert_width]: the same activated, of all ranks */
    float *shared_y;
    uint32_t *head_rows;
    float *head_x;
    float *trace; /* wide enough for anything that is traced */
} forward_rows_t;

struct forward {
    const model_config_t *config;
    const weights_t *weights;
    const geometry_t *geometry;
    forward_options_t options;
    const operators_t *o;
    team_t *team;
    collective_t *collective;
    rope_table_t rope, rope_compressed;
    row_form_t row_form, index_form;
    uint32_t heads, groups; /* of this rank */
    uint32_t index_heads;   /* 0: no layer has an indexer */
    forward_cut_t hidden_cut, group_cut, width_cut, vocabulary_cut;
    forward_layer_t *layers; /* and drafting blocks */
    gemm_matrix_t head;
    void *packed; /* all weights */
    void *memory; /* workspace */
    void *workspaces;       /* of the threads */
    size_t workspace_bytes; /* of one */
    forward_rows_t r;
    forward_cache_t cache;
};

/* Called twice by forward_open: without memory it counts bytes, with memory it fills. */
typedef struct {
    uint8_t *memory; /* NULL: count */
    size_t used;
} forward_pack_t;

void *forward_take(forward_pack_t *pack, size_t count, size_t size);
MUST_USE status_t forward_load(forward_t *f, forward_pack_t *pack);

/* For an operator that runs on this thread. */
void *forward_workspace(const forward_t *f, uint32_t thread);
/* Runs `work` on slices of a few neighbouring rows, over the team, each with its thread. */
typedef void forward_slice_work_t(const forward_t *f, const void *context, uint32_t first,
                                  uint32_t count, uint32_t thread);
void forward_by_slices(const forward_t *f, uint32_t rows, forward_slice_work_t *work,
                       const void *context);
/* y = x w^T for `rows` dense rows of x, over the team. */
void forward_gemm(const forward_t *f, const gemm_matrix_t *w, uint32_t rows, const float *x,
                  size_t x_stride, float *y, size_t y_stride);
/* The same for several matrices at once. */
void forward_gemm_groups(const forward_t *f, const gemm_groups_t *p);
void forward_norm(const forward_t *f, uint32_t rows, uint32_t count, const float *x,
                  const float *weight, float *y);
/* Runs `work` on slices of neighbouring rows, over the team. */
typedef void forward_rows_work_t(forward_t *f, const void *context, uint32_t first, uint32_t count);
void forward_by_rows(forward_t *f, uint32_t rows, forward_rows_work_t *work, const void *context);
/* All ranks' columns of `part` (dense, this rank's) side by side in `all`. */
MUST_USE status_t forward_gather(forward_t *f, forward_site_id_t site, const forward_cut_t *cut,
                                 uint32_t rows, const float *part, float *all);
/* Where to compute a part that forward_gather will complete: in place if there is nobody to gather
 * from. */
float *forward_part(forward_t *f, float *all);

/* u = this site's normalised input; y = the sublayer's output. */
MUST_USE status_t forward_attention(forward_t *f, const forward_layer_t *layer);
MUST_USE status_t forward_moe(forward_t *f, const forward_layer_t *layer);

/* Columns that this rank computes. */
uint32_t forward_share(const forward_t *f, const forward_cut_t *cut);

/* The tables of a step: TOO_LARGE, or INVALID for a token outside the vocabulary. */
MUST_USE status_t forward_batch_take(forward_t *f, const forward_item_t *items,
                                     uint32_t item_count);
/* A layer's units of one pool, and running rows that a layer keeps. */
rows_view_t forward_view(const forward_t *f, const forward_layer_t *layer, pool_kind_t pool);
batch_state_t forward_window_state(const forward_t *f, const forward_layer_t *layer);
batch_state_t forward_pair_state(const forward_t *f, const forward_layer_t *layer, bool main);

/* Compressor inputs, then entries of the blocks that end in this step, written to their pages; index
 * queries. */
void forward_compress(forward_t *f, const forward_layer_t *layer);
/* Which entries each row reads: selected and selected_count. */
void forward_select(forward_t *f, const forward_layer_t *layer);

void forward_note(const forward_t *f, const char *prefix, const char *name,
                  forward_trace_kind_t kind, uint32_t rows, uint32_t width, const void *values);

#endif
