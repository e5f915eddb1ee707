/* weight_bytes.c - one loop over the table of tensors: rows of this rank, form, bytes. */
#include "cli/weight_bytes.h"

#include <string.h>

#include "kernels/weight.h"
#include "model/weights_layout.h"

/* Tensors whose rows (of vectors: elements) are shared out, by their release name, beside those of
 * routed experts. All others are on every rank. */
static const char *const cut_names[] = {
    "head.weight",
    "attn.wq_b.weight",
    "attn.wo_a.weight",
    "attn.wo_b.weight",
    "attn.attn_sink",
    "ffn.shared_experts.w1.weight",
    "ffn.shared_experts.w3.weight",
    "ffn.shared_experts.w2.weight",
};

static bool is_cut(const layout_t *row)
{
    const char *name = row->names[0];

    if (row->scope == IN_EXPERT)
        return true;
    for (size_t i = 0; i < COUNT_OF(cut_names); i++)
        if (strcmp(name, cut_names[i]) == 0)
            return true;
    return false;
}

/* Mixes, sinks, position terms and the routers' biases are float32 in the release. */
static bool name_is_float(const char *name)
{
    size_t length = strlen(name);
    return strncmp(name, "hc_", 3) == 0 || strcmp(name, "attn.attn_sink") == 0 ||
           strcmp(name, "ffn.gate.bias") == 0 ||
           (length > 4 && strcmp(name + length - 4, ".ape") == 0);
}

static weight_form_t stored_form(model_stored_t stored, bool scales_float)
{
    switch (stored) {
    case STORED_BF16:
        return WEIGHT_BF16;
    case STORED_FP8:
        return scales_float ? WEIGHT_FP8_F32 : WEIGHT_FP8_E8M0;
    case STORED_MXFP4:
        return WEIGHT_MXFP4;
    case STORED_NVFP4:
        return WEIGHT_NVFP4;
    }
    UNREACHABLE("a stored form");
}

static weight_form_t form_of(const model_config_t *config, const layout_t *row)
{
    switch (row->kind) {
    case PLAIN:
        return name_is_float(row->names[0]) ? WEIGHT_F32 : WEIGHT_BF16;
    case MATRIX:
        return stored_form(config->stored, config->scales_float);
    case EXPERT:
        return stored_form(config->stored_expert, config->scales_float);
    case INTEGER:
        return WEIGHT_I64;
    }
    UNREACHABLE("a kind of tensor");
}

static uint64_t blocks(uint64_t count, uint32_t block)
{
    return (count + block - 1) / block;
}

static uint64_t tensor_bytes(weight_form_t form, uint64_t rows, uint64_t columns)
{
    uint64_t bytes = rows * weight_data_bytes(form, columns);
    if (weight_block_rows(form) > 0)
        bytes += blocks(rows, weight_block_rows(form)) *
                 blocks(columns, weight_block_columns(form)) * weight_scale_bytes(form);
    return bytes;
}

static weights_part_t part_of(const layout_t *row, bool drafts)
{
    if (drafts)
        return WEIGHTS_DRAFTS;
    if (row->scope == IN_EXPERT)
        return WEIGHTS_EXPERTS;
    if (row->rows == VOCABULARY && row->scope == IN_MODEL)
        return WEIGHTS_TOKENS;
    return strncmp(row->names[0], "attn.", 5) == 0 ? WEIGHTS_ATTENTION : WEIGHTS_OTHER;
}

/* Rows [first, end) of `count` that a rank holds. */
static uint64_t cut(uint64_t count, uint32_t rank, uint32_t world)
{
    return count * (rank + 1) / world - count * rank / world;
}

/* Adds one tensor, or the tensors of all experts. `layer` is NULL for those of the model. */
static void add(const model_config_t *config, const layout_t *row, const model_layer_t *layer,
                bool drafts, uint32_t rank, uint32_t world, weight_bytes_t *sum)
{
    uint64_t rows = layout_dim(config, layer, row->rows);
    uint64_t columns = layout_dim(config, layer, row->columns);
    uint64_t copies = row->scope == IN_EXPERT ? config->experts : 1;
    weight_form_t form = form_of(config, row);
    if (is_cut(row)) {
        if (row->rows == ONE)
            columns = cut(columns, rank, world);
        else
            rows = cut(rows, rank, world);
    }
    sum->bytes[part_of(row, drafts)] += copies * tensor_bytes(form, rows, columns);
    if (drafts || row->kind == INTEGER)
        return;
    bool embedding = strcmp(row->names[0], "embed.weight") == 0;
    uint64_t met = row->scope == IN_EXPERT ? config->experts_per_token : copies;
    sum->parameters += copies * rows * columns;
    sum->active_parameters += embedding ? columns : met * rows * columns;
}

weight_bytes_t weight_bytes(const model_config_t *config, uint32_t rank, uint32_t world)
{
    weight_bytes_t sum = {0};
    ASSERT(rank < world);
    for (size_t i = 0; i < weights_layout_count; i++) {
        const layout_t *row = &weights_layout[i];
        if (row->scope == IN_MODEL) {
            add(config, row, NULL, false, rank, world, &sum);
            continue;
        }
        for (uint32_t l = 0; l < config->layer_count + config->mtp_count; l++) {
            bool drafts = l >= config->layer_count;
            if (layout_has(row, &config->layers[l], drafts))
                add(config, row, &config->layers[l], drafts, rank, world, &sum);
        }
    }
    return sum;
}

uint64_t weight_bytes_total(const weight_bytes_t *bytes)
{
    uint64_t total = 0;
    for (int part = 0; part < WEIGHTS_PART_COUNT; part++)
        total += bytes->bytes[part];
    return total;
}

const char *weight_bytes_part_name(weights_part_t part)
{
    static const char *const names[] = {"experts", "attention", "embedding and head", "other",
                                        "drafting blocks"};
    ASSERT(part < WEIGHTS_PART_COUNT);
    return names[part];
}
