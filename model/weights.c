/* Loading walks the table of weights_layout.c over the model: each row is looked up under its
 * names, held to its shape and dtypes, and becomes a view. What is left in the file is foreign. */
#include "model/weights.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "model/weights_layout.h"

/* -- names in the file ----------------------------------------------------------------------- */

typedef struct {
    const char *name; /* without "model." */
    const tensor_view_t *tensor;
    bool used;
} named_t;

/* Memory of the weights: a chain of blocks. */
typedef struct block {
    struct block *next;
    alignas(64) unsigned char bytes[];
} block_t;

typedef struct {
    const model_config_t *config;
    weights_t *weights;
    named_t *names;
    uint32_t name_count;
    char prefix[64];                     /* of the layer or expert at hand */
    char other_prefix[64];               /* the same in transformers' names */
    char name[TENSOR_NAME_BYTES_MAX];    /* of the tensor at hand */
    char sibling[TENSOR_NAME_BYTES_MAX]; /* of its scales */
} loader_t;

static int compare_named(const void *a, const void *b)
{
    return strcmp(((const named_t *)a)->name, ((const named_t *)b)->name);
}

static status_t list_names(loader_t *loader)
{
    const safetensors_t *file = &loader->weights->file;

    loader->names = calloc(file->tensor_count ? file->tensor_count : 1, sizeof(*loader->names));
    if (!loader->names)
        return FAIL(STATUS_NO_MEMORY, "no memory for %u names", file->tensor_count);
    loader->name_count = file->tensor_count;
    for (uint32_t i = 0; i < file->tensor_count; i++) {
        const char *name = file->tensors[i].name;

        loader->names[i].tensor = &file->tensors[i];
        loader->names[i].name = strncmp(name, "model.", 6) == 0 ? name + 6 : name;
    }
    if (loader->name_count > 0)
        qsort(loader->names, loader->name_count, sizeof(*loader->names), compare_named);
    for (uint32_t i = 1; i < loader->name_count; i++)
        if (compare_named(&loader->names[i - 1], &loader->names[i]) == 0)
            return FAIL(STATUS_BAD_FILE, "tensor %s: expected once, found also as %s",
                        loader->names[i - 1].tensor->name, loader->names[i].tensor->name);
    return STATUS_OK;
}

static named_t *find(const loader_t *loader, const char *name)
{
    named_t key = {.name = name};

    return loader->name_count == 0
               ? NULL
               : bsearch(&key, loader->names, loader->name_count, sizeof(key), compare_named);
}

/* NULL if the file has none. What is taken is not foreign. */
static const tensor_view_t *take(const loader_t *loader, const char *name)
{
    named_t *found = find(loader, name);

    if (!found)
        return NULL;
    found->used = true;
    return found->tensor;
}

/* The tensor of a row under any of its names. Leaves the name found, or else the first, in
 * loader->name. */
static const tensor_view_t *take_row(loader_t *loader, const layout_t *row)
{
    for (size_t i = 0; i < LAYOUT_NAMES_MAX && row->names[i]; i++) {
        const tensor_view_t *tensor;

        snprintf(loader->name, sizeof(loader->name), "%s%s",
                 i == 0 ? loader->prefix : loader->other_prefix, row->names[i]);
        tensor = take(loader, loader->name);
        if (tensor)
            return tensor;
    }
    snprintf(loader->name, sizeof(loader->name), "%s%s", loader->prefix, row->names[0]);
    return NULL;
}

static void *block_take(weights_t *weights, size_t count, size_t size)
{
    block_t *block = count > SIZE_MAX / 2 / size
                         ? NULL
                         : aligned_alloc(64, (sizeof(*block) + count * size + 63) / 64 * 64);

    if (!block)
        return NULL;
    memset(block, 0, sizeof(*block) + count * size);
    block->next = weights->memory;
    weights->memory = block;
    return block->bytes;
}

/* The tensor's bytes, copied if the file does not align them. */
static status_t align(const loader_t *loader, const tensor_view_t *tensor, const void **data)
{
    void *copy;

    *data = tensor->data;
    if ((uintptr_t)tensor->data % tensor_dtype_bytes(tensor->dtype) == 0)
        return STATUS_OK;
    copy = block_take(loader->weights, tensor->bytes, 1);
    if (!copy)
        return FAIL(STATUS_NO_MEMORY, "tensor %s: no memory for a copy", tensor->name);
    memcpy(copy, tensor->data, tensor->bytes);
    *data = copy;
    return STATUS_OK;
}

/* -- one tensor ------------------------------------------------------------------------------ */

/* What a tensor must be: `rank` sizes, the first of which count the experts of a joined tensor. */
typedef struct {
    layout_kind_t kind;
    uint32_t joined; /* experts in one tensor, 0: not joined */
    uint32_t rows, columns;
    bool vector;
} want_t;

static status_t refuse_shape(const char *name, const char *dtypes, const uint64_t *shape,
                             uint32_t rank, const tensor_view_t *found)
{
    char expected[128], text[128] = "none";
    int at = snprintf(expected, sizeof(expected), "%s [", dtypes);

    for (uint32_t i = 0; i < rank; i++)
        at += snprintf(expected + at, sizeof(expected) - (size_t)at, "%s%llu", i ? ", " : "",
                       (unsigned long long)shape[i]);
    if (found)
        tensor_describe(found, text, sizeof(text));
    return FAIL(STATUS_BAD_FILE, "tensor %s: expected %s], found %s", name, expected, text);
}

/* Shape of a tensor with `rows` rows of `columns`; [1] may be written as []. */
static status_t check_shape(const char *name, const char *dtypes, bool right_dtype,
                            const want_t *want, uint64_t rows, uint64_t columns,
                            const tensor_view_t *found)
{
    uint64_t shape[3];
    uint32_t rank = 0;

    if (want->joined)
        shape[rank++] = want->joined;
    if (!want->vector)
        shape[rank++] = rows;
    shape[rank++] = columns;
    if (!found || !right_dtype)
        return refuse_shape(name, dtypes, shape, rank, found);
    if (want->vector && columns == 1 && found->rank == 0)
        return STATUS_OK;
    if (found->rank != rank || memcmp(found->shape, shape, rank * sizeof(*shape)) != 0)
        return refuse_shape(name, dtypes, shape, rank, found);
    return STATUS_OK;
}

/* The tensor of scales that belongs to loader->name: `suffix` in place of "weight", or behind a
 * name without it. */
static const tensor_view_t *take_sibling(loader_t *loader, const char *suffix,
                                         const char *joined_suffix)
{
    size_t length = strlen(loader->name), tail = strlen("weight");

    if (length > tail && strcmp(loader->name + length - tail, "weight") == 0)
        snprintf(loader->sibling, sizeof(loader->sibling), "%.*s%s", (int)(length - tail),
                 loader->name, suffix);
    else
        snprintf(loader->sibling, sizeof(loader->sibling), "%s%s", loader->name, joined_suffix);
    return take(loader, loader->sibling);
}

/* In either spelling. */
static const tensor_view_t *take_scale(loader_t *loader)
{
    const tensor_view_t *found = take_sibling(loader, "weight_scale_inv", "_scale_inv");

    return found ? found : take_sibling(loader, "scale", "_scale");
}

static status_t take_block_scales(loader_t *loader, const want_t *want, weight_form_t *form,
                                  const void **scale)
{
    const tensor_view_t *found = take_scale(loader);

    TRY(check_shape(loader->sibling, "F8_E8M0 or F32",
                    found && (found->dtype == TENSOR_F8_E8M0 || found->dtype == TENSOR_F32), want,
                    (want->rows + 127) / 128, (want->columns + 127) / 128, found));
    *form = found->dtype == TENSOR_F32 ? WEIGHT_FP8_F32 : WEIGHT_FP8_E8M0;
    return align(loader, found, scale);
}

static status_t take_float(loader_t *loader, const tensor_view_t *found, float *value)
{
    static const want_t scalar = {.vector = true};

    TRY(check_shape(loader->sibling, "F32", found && found->dtype == TENSOR_F32, &scalar, 1, 1,
                    found));
    memcpy(value, found->data, sizeof(*value));
    return STATUS_OK;
}

/* NVFP4 is told from MXFP4 by the name of its scales. */
static status_t take_group_scales(loader_t *loader, const want_t *want, weight_form_t *form,
                                  const void **scale, float *second)
{
    const tensor_view_t *found = take_sibling(loader, "weight_scale", "_weight_scale");
    bool nvfp4 = found != NULL;
    uint32_t group = nvfp4 ? 16 : 32;

    if (!nvfp4)
        found = take_scale(loader);
    if (want->columns % group != 0)
        return FAIL(STATUS_BAD_FILE,
                    "tensor %s: expected FP4 only in matrices of whole groups of %u "
                    "columns, found %u columns",
                    loader->name, group, want->columns);
    TRY(check_shape(loader->sibling, nvfp4 ? "F8_E4M3" : "F8_E8M0",
                    found && found->dtype == (nvfp4 ? TENSOR_F8_E4M3 : TENSOR_F8_E8M0), want,
                    want->rows, want->columns / group, found));
    *form = nvfp4 ? WEIGHT_NVFP4 : WEIGHT_MXFP4;
    TRY(align(loader, found, scale));
    if (!nvfp4)
        return STATUS_OK;
    found = take_sibling(loader, "weight_scale_2", "_weight_scale_2");
    TRY(take_float(loader, found, second));
    /* It is for quantised activations, which nobody here has. */
    found = take_sibling(loader, "input_scale", "_input_scale");
    return found ? take_float(loader, found, &(float){0}) : STATUS_OK;
}

/* The view of the tensor called loader->name; of a joined one, that of its first expert. */
static status_t view_tensor(loader_t *loader, const want_t *want, const tensor_view_t *found,
                            weight_t *weight)
{
    bool right = found && layout_allows(want->kind, found->dtype);
    bool packed = right && (found->dtype == TENSOR_I8 || found->dtype == TENSOR_U8);
    weight_form_t form = WEIGHT_NONE;
    const void *data, *scale = NULL;
    float second = 1;

    TRY(check_shape(loader->name, layout_dtypes(want->kind), right, want, want->rows,
                    packed ? want->columns / 2 : want->columns, found));
    TRY(align(loader, found, &data));
    switch (found->dtype) {
    case TENSOR_BF16:
        form = WEIGHT_BF16;
        break;
    case TENSOR_F32:
        form = WEIGHT_F32;
        break;
    case TENSOR_I64:
        form = WEIGHT_I64;
        break;
    case TENSOR_I32:
        form = WEIGHT_I32;
        break;
    case TENSOR_F8_E4M3:
        TRY(take_block_scales(loader, want, &form, &scale));
        break;
    default:
        TRY(take_group_scales(loader, want, &form, &scale, &second));
    }
    *weight = weight_view(form, want->rows, want->columns, data, scale, second);
    return STATUS_OK;
}

/* -- layers ---------------------------------------------------------------------------------- */

static status_t load_row(loader_t *loader, const layout_t *row, const model_layer_t *layer,
                         void *base)
{
    want_t want = {.kind = row->kind,
                   .rows = layout_dim(loader->config, layer, row->rows),
                   .columns = layout_dim(loader->config, layer, row->columns),
                   .vector = row->rows == ONE};
    const tensor_view_t *found = take_row(loader, row);

    return view_tensor(loader, &want, found, (weight_t *)(void *)((char *)base + row->offset));
}

/* Expert numbers index tables later on: one out of range would read past them. */
static status_t check_routing(const loader_t *loader, const weight_t *table)
{
    for (uint32_t row = 0; row < table->rows; row++)
        for (uint32_t i = 0; i < table->columns; i++) {
            int64_t expert = weight_integer(table, row, i);

            if (expert < 0 || expert >= loader->config->experts)
                return FAIL(STATUS_BAD_FILE,
                            "tensor %sffn.gate.tid2eid: expected expert numbers below %u, found "
                            "%lld at [%u, %u]",
                            loader->prefix, loader->config->experts, (long long)expert, row, i);
        }
    return STATUS_OK;
}

/* Expert number `expert` of a joined tensor whose first expert is `first`. */
static weight_t joined_expert(const weight_t *first, uint32_t expert)
{
    weight_t weight = *first;
    uint32_t block = weight_block_rows(first->form);
    uint64_t scale_rows = block ? (first->rows + block - 1) / block : 0;

    weight.data = (const uint8_t *)first->data + expert * (first->rows * first->row_bytes);
    if (block)
        weight.scale = (const uint8_t *)first->scale + expert * (scale_rows * first->scale_stride);
    return weight;
}

static status_t view_joined(loader_t *loader, uint32_t layer, const char *leaf, uint32_t rows,
                            uint32_t columns, weight_t *weight)
{
    want_t want = {
        .kind = MATRIX, .joined = loader->config->experts, .rows = rows, .columns = columns};

    snprintf(loader->name, sizeof(loader->name), "layers.%u.mlp.experts.%s", layer, leaf);
    return view_tensor(loader, &want, take(loader, loader->name), weight);
}

static status_t load_joined_experts(loader_t *loader, uint32_t layer, weights_layer_t *out)
{
    uint32_t width = loader->config->expert_width, hidden = loader->config->hidden;
    weight_t up, down;

    TRY(view_joined(loader, layer, "gate_up_proj", 2 * width, hidden, &up));
    TRY(view_joined(loader, layer, "down_proj", hidden, width, &down));
    for (uint32_t e = 0; e < loader->config->experts; e++) {
        weight_t both = joined_expert(&up, e);

        out->experts[e].w1 = weight_rows(&both, 0, width);
        out->experts[e].w3 = weight_rows(&both, width, width);
        out->experts[e].w2 = joined_expert(&down, e);
    }
    return STATUS_OK;
}

static status_t load_experts(loader_t *loader, const char *room, uint32_t number,
                             const model_layer_t *layer, weights_layer_t *out)
{
    char joined[64];

    out->experts = block_take(loader->weights, loader->config->experts, sizeof(*out->experts));
    if (!out->experts)
        return FAIL(STATUS_NO_MEMORY, "no memory for %u experts", loader->config->experts);
    snprintf(joined, sizeof(joined), "%s.%u.mlp.experts.gate_up_proj", room, number);
    if (strcmp(room, "layers") == 0 && find(loader, joined))
        return load_joined_experts(loader, number, out);
    for (uint32_t e = 0; e < loader->config->experts; e++) {
        snprintf(loader->prefix, sizeof(loader->prefix), "%s.%u.ffn.experts.%u.", room, number, e);
        snprintf(loader->other_prefix, sizeof(loader->other_prefix), "%s.%u.mlp.experts.%u.", room,
                 number, e);
        for (size_t i = 0; i < weights_layout_count; i++)
            if (weights_layout[i].scope == IN_EXPERT)
                TRY(load_row(loader, &weights_layout[i], layer, &out->experts[e]));
    }
    return STATUS_OK;
}

/* `room` is "layers" or "mtp". */
static status_t load_layer(loader_t *loader, const char *room, uint32_t number,
                           const model_layer_t *layer, weights_layer_t *out)
{
    bool drafts = strcmp(room, "mtp") == 0;

    snprintf(loader->prefix, sizeof(loader->prefix), "%s.%u.", room, number);
    snprintf(loader->other_prefix, sizeof(loader->other_prefix), "%s.%u.", room, number);
    for (size_t i = 0; i < weights_layout_count; i++)
        if (weights_layout[i].scope == IN_LAYER && layout_has(&weights_layout[i], layer, drafts))
            TRY(load_row(loader, &weights_layout[i], layer, out));
    if (layer->hash)
        TRY(check_routing(loader, &out->tid2eid));
    return load_experts(loader, room, number, layer, out);
}

/* -- the model ------------------------------------------------------------------------------- */

/* Copies of embedding and head that a release may carry for its MTP blocks; the main ones count. */
static bool is_duplicate(const char *name)
{
    size_t length = strlen(name), tail = strlen("head.weight");

    return strncmp(name, "mtp.", 4) == 0 &&
           (strstr(name, "emb") ||
            (length > tail && strcmp(name + length - tail, "head.weight") == 0));
}

static status_t check_foreign(const loader_t *loader)
{
    char text[128];

    for (uint32_t i = 0; i < loader->name_count; i++) {
        const named_t *named = &loader->names[i];

        if (named->used || is_duplicate(named->name))
            continue;
        tensor_describe(named->tensor, text, sizeof(text));
        return FAIL(STATUS_BAD_FILE,
                    "tensor %s: expected no tensor of this name in this model, found %s",
                    named->tensor->name, text);
    }
    return STATUS_OK;
}

static bool has_drafts(const loader_t *loader)
{
    for (uint32_t i = 0; i < loader->name_count; i++)
        if (strncmp(loader->names[i].name, "mtp.", 4) == 0)
            return true;
    return false;
}

static status_t load_model(loader_t *loader)
{
    const model_config_t *config = loader->config;
    weights_t *weights = loader->weights;
    bool transformers = find(loader, "embed_tokens.weight");

    weights->layer_count = config->layer_count;
    weights->mtp_count = transformers && !has_drafts(loader) ? 0 : config->mtp_count;
    weights->layers =
        block_take(weights, weights->layer_count + weights->mtp_count, sizeof(*weights->layers));
    if (!weights->layers)
        return FAIL(STATUS_NO_MEMORY, "no memory for %u layers", weights->layer_count);
    for (size_t i = 0; i < weights_layout_count; i++)
        if (weights_layout[i].scope == IN_MODEL)
            TRY(load_row(loader, &weights_layout[i], NULL, weights));
    for (uint32_t i = 0; i < weights->layer_count; i++)
        TRY(load_layer(loader, "layers", i, &config->layers[i], &weights->layers[i]));
    for (uint32_t i = 0; i < weights->mtp_count; i++)
        TRY(load_layer(loader, "mtp", i, &config->layers[config->layer_count + i],
                       &weights->layers[weights->layer_count + i]));
    return check_foreign(loader);
}

status_t weights_open(weights_t *weights, const char *folder, const model_config_t *config)
{
    loader_t loader = {.config = config, .weights = weights};
    status_t status;

    *weights = (weights_t){0};
    TRY(safetensors_open(&weights->file, folder));
    status = list_names(&loader);
    if (status == STATUS_OK)
        status = load_model(&loader);
    free(loader.names);
    if (status != STATUS_OK)
        weights_close(weights);
    return status;
}

void weights_close(weights_t *weights)
{
    while (weights->memory) {
        block_t *block = weights->memory;

        weights->memory = block->next;
        free(block);
    }
    safetensors_close(&weights->file);
    *weights = (weights_t){0};
}
