/* weights_layout.h - the one table of what a checkpoint of this model holds.
 *
 * Per tensor: its names in both spellings, its shape as dimensions of the config, the dtypes it may
 * have, the layers that have it, and where its view goes. A new tensor is a new row and a member of
 * a struct in weights.h.
 */
#ifndef MODEL_WEIGHTS_LAYOUT_H
#define MODEL_WEIGHTS_LAYOUT_H

#include "model/weights.h"

typedef enum {
    ONE, /* as rows: a vector, whose shape is its columns alone */
    THREE,
    VOCABULARY,
    HIDDEN,
    STREAMS,
    STREAMS_HIDDEN, /* streams * hidden */
    MIXES,          /* (2 + streams) * streams */
    QUERY_RANK,
    QUERY, /* heads * head_dim */
    HEADS,
    HEAD_DIM,
    GROUP_IN,  /* QUERY / output_groups */
    GROUP_OUT, /* output_groups * output_rank */
    RATIO,
    CHANNELS, /* of the compressor */
    INDEX_QUERY,
    INDEX_HEADS,
    INDEX_DIM,
    INDEX_CHANNELS,
    EXPERTS,
    PER_TOKEN,
    WIDTH,
} layout_dim_t;

typedef enum { IN_MODEL, IN_LAYER, IN_EXPERT } layout_scope_t;
typedef enum { ALWAYS, COMPRESSED, INDEXED, HASHED, SCORED, DRAFTS } layout_when_t;
typedef enum {
    PLAIN,   /* BF16 or F32 */
    MATRIX,  /* also FP8 */
    EXPERT,  /* also FP4 */
    INTEGER, /* I64 or I32 */
} layout_kind_t;

enum { LAYOUT_NAMES_MAX = 3 };

typedef struct {
    layout_scope_t scope;
    layout_when_t when;
    layout_kind_t kind;
    layout_dim_t rows, columns;
    size_t offset; /* of a weight_t in weights_t, weights_layer_t or weights_expert_t */
    /* The release's, transformers', its older one; behind the prefix of layer or expert. */
    const char *names[LAYOUT_NAMES_MAX];
} layout_t;

extern const layout_t weights_layout[];
extern const size_t weights_layout_count;

/* Sizes; `layer` may be NULL for what is IN_MODEL. */
uint32_t layout_dim(const model_config_t *config, const model_layer_t *layer, layout_dim_t dim);
/* Whether a layer (`drafts`: an MTP block) has tensors of this row. */
bool layout_has(const layout_t *row, const model_layer_t *layer, bool drafts);
bool layout_allows(layout_kind_t kind, tensor_dtype_t dtype);
/* For messages: "BF16 or F32". */
const char *layout_dtypes(layout_kind_t kind);

#endif
