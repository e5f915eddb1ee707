/* Tables say which field goes where and what it may be; functions follow only where a field has two
 * spellings or depends on another. Every refusal names file, field, what was expected, what was
 * found. */
#include "model/config.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

/* An object of the file and how messages call it: "config.json: " or "config.json: rope_scaling.".
 */
typedef struct {
    const char *file;
    const char *prefix;
    const json_t *object;
} reader_t;

enum { FOUND_BYTES_MAX = 120 };

/* -- one field ------------------------------------------------------------------------------- */

static status_t refuse(const reader_t *reader, const char *field, const json_t *found,
                       const char *expected)
{
    char *text =
        found ? json_dumps(found, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    status_t status =
        FAIL(STATUS_BAD_CONFIG, "%s: %s%s: expected %s, found %.*s", reader->file, reader->prefix,
             field, expected, FOUND_BYTES_MAX, text ? text : "nothing");

    free(text);
    return status;
}

/* NULL for a field that is absent or null. */
static const json_t *find(const reader_t *reader, const char *field)
{
    const json_t *value = json_object_get(reader->object, field);

    return json_is_null(value) ? NULL : value;
}

static status_t read_integer(const reader_t *reader, const char *field, int64_t min, int64_t max,
                             uint32_t *out)
{
    const json_t *value = find(reader, field);
    char expected[80];

    if (!json_is_integer(value) || json_integer_value(value) < min ||
        json_integer_value(value) > max) {
        snprintf(expected, sizeof(expected), "a whole number from %lld to %lld", (long long)min,
                 (long long)max);
        return refuse(reader, field, value, expected);
    }
    *out = (uint32_t)json_integer_value(value);
    return STATUS_OK;
}

static status_t read_number(const reader_t *reader, const char *field, double min, double max,
                            double *out)
{
    const json_t *value = find(reader, field);
    char expected[80];

    if (!json_is_number(value) || !(json_number_value(value) >= min) ||
        !(json_number_value(value) <= max)) {
        snprintf(expected, sizeof(expected), "a number from %g to %g", min, max);
        return refuse(reader, field, value, expected);
    }
    *out = json_number_value(value);
    return STATUS_OK;
}

/* An absent field is left alone. */
static status_t read_float(const reader_t *reader, const char *field, double min, double max,
                           float *out)
{
    double value;

    if (!find(reader, field))
        return STATUS_OK;
    TRY(read_number(reader, field, min, max, &value));
    *out = (float)value;
    return STATUS_OK;
}

/* The field has this text, or is absent and may be. */
static status_t check_text(const reader_t *reader, const char *field, bool required,
                           const char *expected)
{
    const json_t *value = find(reader, field);
    char quoted[80];

    if (!value && !required)
        return STATUS_OK;
    if (json_is_string(value) && strcmp(json_string_value(value), expected) == 0)
        return STATUS_OK;
    snprintf(quoted, sizeof(quoted), "\"%s\"", expected);
    return refuse(reader, field, value, quoted);
}

static status_t read_flag(const reader_t *reader, const char *field, bool *out)
{
    const json_t *value = find(reader, field);

    if (value && !json_is_boolean(value))
        return refuse(reader, field, value, "true or false");
    if (value)
        *out = json_is_true(value);
    return STATUS_OK;
}

static status_t read_object(const reader_t *reader, const char *field, const char *prefix,
                            reader_t *out)
{
    const json_t *value = find(reader, field);

    if (!json_is_object(value))
        return refuse(reader, field, value, "an object");
    *out = (reader_t){reader->file, prefix, value};
    return STATUS_OK;
}

static status_t read_array(const reader_t *reader, const char *field, size_t min, size_t max,
                           const json_t **out)
{
    const json_t *value = find(reader, field);
    char expected[80];

    if (!json_is_array(value) || json_array_size(value) < min || json_array_size(value) > max) {
        snprintf(expected, sizeof(expected), "a list of %zu to %zu entries", min, max);
        return refuse(reader, field, value, expected);
    }
    *out = value;
    return STATUS_OK;
}

/* -- config.json ----------------------------------------------------------------------------- */

typedef struct {
    const char *field;
    size_t offset; /* of a uint32_t in model_config_t */
    int64_t min, max;
} integer_row_t;

#define AT(member) offsetof(model_config_t, member)

static const integer_row_t integers[] = {
    {"vocab_size", AT(vocabulary), 2, VOCABULARY_MAX},
    {"hidden_size", AT(hidden), 1, HIDDEN_MAX},
    {"num_hidden_layers", AT(layer_count), 1, LAYERS_MAX},
    {"num_attention_heads", AT(heads), 1, HEADS_MAX},
    {"head_dim", AT(head_dim), 2, HEAD_DIM_MAX},
    {"q_lora_rank", AT(query_rank), 1, LORA_RANK_MAX},
    {"o_groups", AT(output_groups), 1, HEADS_MAX},
    {"o_lora_rank", AT(output_rank), 1, LORA_RANK_MAX},
    {"n_routed_experts", AT(experts), 1, EXPERTS_MAX},
    {"num_experts_per_tok", AT(experts_per_token), 1, EXPERTS_PER_TOKEN_MAX},
    {"moe_intermediate_size", AT(expert_width), 1, EXPERT_WIDTH_MAX},
    {"sliding_window", AT(window), 1, PAGE_TOKENS},
    {"index_n_heads", AT(index_heads), 1, HEADS_MAX},
    {"index_head_dim", AT(index_dim), 2, HEAD_DIM_MAX},
    {"index_topk", AT(index_topk), 1, INDEX_TOPK_MAX},
    {"max_position_embeddings", AT(positions_max), 1, PROMPT_TOKENS_MAX},
    {"hc_mult", AT(streams), 1, STREAMS_MAX},
    {"hc_sinkhorn_iters", AT(sinkhorn_rounds), 1, SINKHORN_ROUNDS_MAX},
};

typedef struct {
    const char *field;
    size_t offset; /* of a double */
    double min, max;
} number_row_t;

static const number_row_t numbers[] = {
    {"routed_scaling_factor", AT(routed_scale), 1e-6, 1e6},
    {"swiglu_limit", AT(swiglu_limit), 1e-6, 1e6},
    {"rms_norm_eps", AT(norm_eps), 0, 0.1},
    {"hc_eps", AT(stream_eps), 0, 0.1},
};

/* Switches with one value that this engine computes. */
static const char *const texts[][2] = {
    {"scoring_func", "sqrtsoftplus"},
    {"topk_method", "noaux_tc"},
    {"hidden_act", "silu"},
};

static const char *const flags_off[] = {"tie_word_embeddings", "attention_bias", "mlp_bias"};
static const char *const integers_one[] = {"num_key_value_heads", "n_shared_experts"};

static status_t read_tables(const reader_t *reader, model_config_t *config)
{
    uint32_t one;

    TRY(check_text(reader, "model_type", true, "deepseek_v4"));
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        TRY(check_text(reader, texts[i][0], false, texts[i][1]));
    for (size_t i = 0; i < COUNT_OF(flags_off); i++) {
        bool set = false;

        TRY(read_flag(reader, flags_off[i], &set));
        if (set)
            return refuse(reader, flags_off[i], find(reader, flags_off[i]), "false");
    }
    for (size_t i = 0; i < COUNT_OF(integers_one); i++)
        TRY(read_integer(reader, integers_one[i], 1, 1, &one));
    for (size_t i = 0; i < COUNT_OF(integers); i++)
        TRY(read_integer(reader, integers[i].field, integers[i].min, integers[i].max,
                         (uint32_t *)(void *)((char *)config + integers[i].offset)));
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        TRY(read_number(reader, numbers[i].field, numbers[i].min, numbers[i].max,
                        (double *)(void *)((char *)config + numbers[i].offset)));
    config->normalize_weights = true;
    TRY(read_flag(reader, "norm_topk_prob", &config->normalize_weights));
    config->mtp_count = 0;
    if (find(reader, "num_nextn_predict_layers"))
        TRY(read_integer(reader, "num_nextn_predict_layers", 0, MTP_BLOCKS_MAX,
                         &config->mtp_count));
    return STATUS_OK;
}

static status_t read_rope_dim(const reader_t *reader, model_config_t *config)
{
    double part, dim;

    if (find(reader, "qk_rope_head_dim"))
        return read_integer(reader, "qk_rope_head_dim", 2, config->head_dim, &config->rope_dim);
    TRY(read_number(reader, "partial_rotary_factor", 0, 1, &part));
    dim = part * config->head_dim;
    if (dim < 2 || fabs(dim - round(dim)) > 1e-6)
        return refuse(reader, "partial_rotary_factor", find(reader, "partial_rotary_factor"),
                      "a share of head_dim that is a whole number of channels");
    config->rope_dim = (uint32_t)round(dim);
    return STATUS_OK;
}

/* compress_ratios may be longer than layers and MTP blocks (later releases list their drafter's
 * stages), or end with the layers (transformers cuts it there). */
static status_t read_ratios(const reader_t *reader, model_config_t *config)
{
    const json_t *list;

    TRY(read_array(reader, "compress_ratios", config->layer_count, LAYERS_MAX + 64, &list));
    for (uint32_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        json_int_t ratio = json_is_integer(entry) ? json_integer_value(entry) : -1;
        char field[40];

        snprintf(field, sizeof(field), "compress_ratios[%u]", i);
        if (ratio != 0 && ratio != 4 && ratio != 128)
            return refuse(reader, field, entry, "0, 4 or 128");
        if (ratio != 0 && i >= config->layer_count)
            return refuse(reader, field, entry, "0 behind the last layer");
        if (i < config->layer_count)
            config->layers[i].ratio = (uint32_t)ratio;
    }
    return STATUS_OK;
}

static const struct {
    const char *type;
    const char *old_field; /* of early versions, in place of compress_rates */
    uint32_t ratio;
} layer_types[] = {
    {"sliding_attention", NULL, 0},
    {"compressed_sparse_attention", "compress_rate_csa", 4},
    {"heavily_compressed_attention", "compress_rate_hca", 128},
};

static status_t check_rates(const reader_t *reader)
{
    reader_t rates = *reader;
    bool joined = find(reader, "compress_rates");

    if (joined)
        TRY(read_object(reader, "compress_rates", "compress_rates.", &rates));
    for (size_t i = 1; i < COUNT_OF(layer_types); i++) {
        const char *field = joined ? layer_types[i].type : layer_types[i].old_field;
        uint32_t ratio;

        if (joined || find(reader, field))
            TRY(read_integer(&rates, field, layer_types[i].ratio, layer_types[i].ratio, &ratio));
    }
    return STATUS_OK;
}

static status_t read_layer_types(const reader_t *reader, model_config_t *config)
{
    const json_t *list;

    TRY(check_rates(reader));
    TRY(read_array(reader, "layer_types", config->layer_count, config->layer_count, &list));
    for (uint32_t i = 0; i < config->layer_count; i++) {
        const json_t *entry = json_array_get(list, i);
        const char *type = json_is_string(entry) ? json_string_value(entry) : "";
        size_t kind = 0;
        char field[40];

        while (kind < COUNT_OF(layer_types) && strcmp(type, layer_types[kind].type) != 0)
            kind++;
        snprintf(field, sizeof(field), "layer_types[%u]", i);
        if (kind == COUNT_OF(layer_types))
            return refuse(reader, field, entry,
                          "sliding_attention, compressed_sparse_attention or "
                          "heavily_compressed_attention");
        config->layers[i].ratio = layer_types[kind].ratio;
    }
    return STATUS_OK;
}

static status_t read_routing(const reader_t *reader, model_config_t *config)
{
    uint32_t hash_count;
    const json_t *list;

    if (!find(reader, "mlp_layer_types")) {
        TRY(read_integer(reader, "num_hash_layers", 0, config->layer_count, &hash_count));
        for (uint32_t i = 0; i < config->layer_count; i++)
            config->layers[i].hash = i < hash_count;
        return STATUS_OK;
    }
    TRY(read_array(reader, "mlp_layer_types", config->layer_count, config->layer_count, &list));
    for (uint32_t i = 0; i < config->layer_count; i++) {
        const json_t *entry = json_array_get(list, i);
        const char *type = json_is_string(entry) ? json_string_value(entry) : "";
        char field[40];

        snprintf(field, sizeof(field), "mlp_layer_types[%u]", i);
        if (strcmp(type, "hash_moe") != 0 && strcmp(type, "moe") != 0)
            return refuse(reader, field, entry, "hash_moe or moe");
        config->layers[i].hash = strcmp(type, "hash_moe") == 0;
    }
    return STATUS_OK;
}

/* Theta is read by the caller: the two spellings keep it in different places. */
static status_t read_scaling(const reader_t *scaling, model_rope_t *rope)
{
    const char *field = find(scaling, "rope_type") ? "rope_type" : "type";
    const json_t *type = find(scaling, field);
    double one = 1;
    bool truncate = true;

    if (json_is_string(type) && strcmp(json_string_value(type), "default") == 0)
        return STATUS_OK;
    if (!json_is_string(type) || strcmp(json_string_value(type), "yarn") != 0)
        return refuse(scaling, field, type, "\"yarn\" or \"default\"");
    rope->yarn = true;
    TRY(read_number(scaling, "factor", 1, 1e6, &rope->factor));
    TRY(read_number(scaling, "original_max_position_embeddings", 1, PROMPT_TOKENS_MAX,
                    &rope->original_positions));
    TRY(read_number(scaling, "beta_fast", 1e-3, 1e6, &rope->beta_fast));
    TRY(read_number(scaling, "beta_slow", 1e-3, 1e6, &rope->beta_slow));
    if (find(scaling, "attention_factor"))
        TRY(read_number(scaling, "attention_factor", 1, 1, &one));
    TRY(read_flag(scaling, "truncate", &truncate));
    if (!truncate)
        return refuse(scaling, "truncate", find(scaling, "truncate"), "true");
    return STATUS_OK;
}

static status_t read_rope(const reader_t *reader, model_config_t *config)
{
    reader_t both, part;

    if (find(reader, "rope_parameters")) {
        TRY(read_object(reader, "rope_parameters", "rope_parameters.", &both));
        TRY(read_object(&both, "main", "rope_parameters.main.", &part));
        TRY(check_text(&part, "rope_type", false, "default"));
        TRY(read_number(&part, "rope_theta", 1.001, 1e12, &config->rope.theta));
        TRY(read_object(&both, "compress", "rope_parameters.compress.", &part));
        TRY(read_number(&part, "rope_theta", 1.001, 1e12, &config->compressed_rope.theta));
        return read_scaling(&part, &config->compressed_rope);
    }
    TRY(read_number(reader, "rope_theta", 1.001, 1e12, &config->rope.theta));
    TRY(read_number(reader, "compress_rope_theta", 1.001, 1e12, &config->compressed_rope.theta));
    if (!find(reader, "rope_scaling"))
        return STATUS_OK;
    TRY(read_object(reader, "rope_scaling", "rope_scaling.", &part));
    return read_scaling(&part, &config->compressed_rope);
}

static status_t read_expert_dtype(const reader_t *reader, model_config_t *config)
{
    static const struct {
        const char *text;
        model_stored_t stored;
    } known[] = {
        {"fp4", STORED_MXFP4},     {"nvfp4", STORED_NVFP4}, {"fp8", STORED_FP8},
        {"bfloat16", STORED_BF16}, {"bf16", STORED_BF16},
    };
    const json_t *value = find(reader, "expert_dtype");
    const char *text = json_is_string(value) ? json_string_value(value) : "";

    if (!value)
        return STATUS_OK;
    for (size_t i = 0; i < COUNT_OF(known); i++)
        if (strcmp(text, known[i].text) == 0) {
            config->stored_expert = known[i].stored;
            return STATUS_OK;
        }
    return refuse(reader, "expert_dtype", value, "fp4, nvfp4, fp8 or bfloat16");
}

static bool is_text(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* As modelopt writes it: routed experts were packed anew, all else keeps the format it had, and so does
 * expert_dtype, which is then no longer true. */
static status_t read_modelopt(const reader_t *quant, model_config_t *config)
{
    const json_t *algorithm = find(quant, "quant_algo"), *group = find(quant, "group_size");

    if (!is_text(algorithm, "NVFP4") && !is_text(algorithm, "MIXED_PRECISION"))
        return refuse(quant, "quant_algo", algorithm, "NVFP4 or MIXED_PRECISION");
    if (group && !(json_is_integer(group) && json_integer_value(group) == 16))
        return refuse(quant, "group_size", group, "16");
    config->stored = STORED_FP8;
    config->stored_expert = STORED_NVFP4;
    return STATUS_OK;
}

static status_t read_storage(const reader_t *reader, model_config_t *config)
{
    const json_t *block;
    reader_t quant;
    bool has_scale_format;

    config->stored = config->stored_expert = STORED_BF16;
    if (!find(reader, "quantization_config"))
        return read_expert_dtype(reader, config);
    TRY(read_object(reader, "quantization_config", "quantization_config.", &quant));
    if (is_text(find(&quant, "quant_method"), "modelopt") ||
        is_text(find(&quant, "quant_method"), "modelopt_fp4"))
        return read_modelopt(&quant, config);
    TRY(check_text(&quant, "quant_method", true, "fp8"));
    TRY(check_text(&quant, "fmt", false, "e4m3"));
    TRY(check_text(&quant, "activation_scheme", false, "dynamic"));
    TRY(check_text(&quant, "scale_fmt", false, "ue8m0"));
    has_scale_format = find(&quant, "scale_fmt");
    TRY(read_array(&quant, "weight_block_size", 2, 2, &block));
    for (size_t i = 0; i < 2; i++)
        if (json_integer_value(json_array_get(block, i)) != 128)
            return refuse(&quant, "weight_block_size", block, "[128,128]");
    config->stored = config->stored_expert = STORED_FP8;
    config->scales_float = !has_scale_format;
    TRY(read_expert_dtype(&quant, config));
    return read_expert_dtype(reader, config);
}

/* `limit` is the first id that is too large. */
static status_t read_eos(const reader_t *reader, uint32_t limit, uint32_t *tokens, uint32_t *count)
{
    const json_t *value = find(reader, "eos_token_id");
    const json_t *list = value;

    if (!value)
        return STATUS_OK;
    if (json_is_integer(value)) {
        *count = 1;
        return read_integer(reader, "eos_token_id", 0, (int64_t)limit - 1, &tokens[0]);
    }
    TRY(read_array(reader, "eos_token_id", 1, EOS_TOKENS_MAX, &list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);

        if (!json_is_integer(entry) || json_integer_value(entry) < 0 ||
            json_integer_value(entry) >= limit)
            return refuse(reader, "eos_token_id", value, "token ids below vocab_size");
        tokens[i] = (uint32_t)json_integer_value(entry);
    }
    *count = (uint32_t)json_array_size(list);
    return STATUS_OK;
}

/* What holds between fields. */
static status_t check_relations(const reader_t *reader, const model_config_t *config)
{
    uint32_t narrow = config->head_dim < config->index_dim ? config->head_dim : config->index_dim;

    if (config->rope_dim % 2 != 0 || config->rope_dim > narrow)
        return FAIL(STATUS_BAD_CONFIG,
                    "%s: qk_rope_head_dim: expected an even number up to head_dim and "
                    "index_head_dim (%u), found %u",
                    reader->file, narrow, config->rope_dim);
    if ((config->index_dim & (config->index_dim - 1)) != 0)
        return refuse(reader, "index_head_dim", find(reader, "index_head_dim"), "a power of two");
    if (config->heads * config->head_dim % config->output_groups != 0)
        return FAIL(STATUS_BAD_CONFIG,
                    "%s: o_groups: expected a divisor of num_attention_heads * head_dim = %u, "
                    "found %u",
                    reader->file, config->heads * config->head_dim, config->output_groups);
    if (config->experts_per_token > config->experts)
        return FAIL(STATUS_BAD_CONFIG,
                    "%s: num_experts_per_tok: expected up to n_routed_experts = %u, found %u",
                    reader->file, config->experts, config->experts_per_token);
    return STATUS_OK;
}

static status_t read_config(const reader_t *reader, model_config_t *config)
{
    uint32_t type_ratios[LAYERS_MAX];

    TRY(read_tables(reader, config));
    TRY(read_rope_dim(reader, config));
    if (find(reader, "layer_types")) {
        TRY(read_layer_types(reader, config));
        for (uint32_t i = 0; i < config->layer_count; i++)
            type_ratios[i] = config->layers[i].ratio;
    }
    if (find(reader, "compress_ratios") || !find(reader, "layer_types"))
        TRY(read_ratios(reader, config));
    for (uint32_t i = 0; find(reader, "layer_types") && i < config->layer_count; i++)
        if (type_ratios[i] != config->layers[i].ratio)
            return FAIL(STATUS_BAD_CONFIG,
                        "%s: layer_types[%u]: expected what compress_ratios says (%u), found a "
                        "type of ratio %u",
                        reader->file, i, config->layers[i].ratio, type_ratios[i]);
    TRY(read_routing(reader, config));
    TRY(read_rope(reader, config));
    TRY(read_storage(reader, config));
    config->eos_tokens[0] = 1;
    config->eos_count = 1;
    TRY(read_eos(reader, config->vocabulary, config->eos_tokens, &config->eos_count));
    if (find(reader, "bos_token_id"))
        TRY(read_integer(reader, "bos_token_id", 0, (int64_t)config->vocabulary - 1,
                         &config->bos_token));
    return check_relations(reader, config);
}

/* -- files ----------------------------------------------------------------------------------- */

static status_t parse(const char *text, size_t size, const char *name, json_t **root)
{
    json_error_t error;

    *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!*root)
        return FAIL(STATUS_BAD_FILE, "%s:%d:%d: %s", name, error.line, error.column, error.text);
    if (!json_is_object(*root)) {
        json_decref(*root);
        return FAIL(STATUS_BAD_FILE, "%s: expected an object, found something else", name);
    }
    return STATUS_OK;
}

status_t model_config_parse(const char *text, size_t size, const char *name, model_config_t *config)
{
    model_config_t parsed = {0};
    status_t status;
    json_t *root;

    TRY(parse(text, size, name, &root));
    status = read_config(&(reader_t){name, "", root}, &parsed);
    json_decref(root);
    TRY(status);
    *config = parsed;
    return STATUS_OK;
}

static status_t read_generation(const reader_t *reader, model_generation_t *generation)
{
    bool sample = true;

    TRY(read_float(reader, "temperature", 0, 100, &generation->temperature));
    TRY(read_flag(reader, "do_sample", &sample));
    if (!sample)
        generation->temperature = 0;
    TRY(read_float(reader, "top_p", 1e-6, 1, &generation->top_p));
    TRY(read_float(reader, "min_p", 0, 1, &generation->min_p));
    TRY(read_float(reader, "repetition_penalty", 1e-3, 1e3, &generation->repetition_penalty));
    if (find(reader, "top_k"))
        TRY(read_integer(reader, "top_k", 0, VOCABULARY_MAX, &generation->top_k));
    if (find(reader, "max_new_tokens"))
        TRY(read_integer(reader, "max_new_tokens", 1, OUTPUT_TOKENS_MAX,
                         &generation->output_tokens_max));
    return read_eos(reader, VOCABULARY_MAX, generation->eos_tokens, &generation->eos_count);
}

status_t model_generation_parse(const char *text, size_t size, const char *name,
                                model_generation_t *generation)
{
    model_generation_t parsed = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};
    status_t status;
    json_t *root;

    TRY(parse(text, size, name, &root));
    status = read_generation(&(reader_t){name, "", root}, &parsed);
    json_decref(root);
    TRY(status);
    *generation = parsed;
    return STATUS_OK;
}

/* The whole file in memory that the caller frees. NOT_FOUND if there is no such file. */
static status_t read_file(const char *folder, const char *name, char **text, size_t *size)
{
    char path[PATH_BYTES_MAX];
    FILE *file;

    if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
        return FAIL(STATUS_BAD_FILE, "%s: path is too long", name);
    file = fopen(path, "rb");
    if (!file)
        return FAIL(errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s", path,
                    strerror(errno));
    *text = malloc(CONFIG_BYTES_MAX + 1);
    *size = *text ? fread(*text, 1, CONFIG_BYTES_MAX + 1, file) : 0;
    fclose(file);
    if (!*text)
        return FAIL(STATUS_NO_MEMORY, "%s: no memory to read it", path);
    if (*size <= CONFIG_BYTES_MAX)
        return STATUS_OK;
    free(*text);
    return FAIL(STATUS_BAD_FILE, "%s: expected up to %d bytes, found more", path, CONFIG_BYTES_MAX);
}

status_t model_config_load(const char *folder, model_config_t *config)
{
    status_t status;
    char *text;
    size_t size;

    TRY(read_file(folder, "config.json", &text, &size));
    status = model_config_parse(text, size, "config.json", config);
    free(text);
    return status;
}

status_t model_generation_load(const char *folder, model_generation_t *generation)
{
    status_t status;
    char *text;
    size_t size;

    status = read_file(folder, "generation_config.json", &text, &size);
    if (status == STATUS_NOT_FOUND) {
        trail_reset();
        return model_generation_parse("{}", 2, "generation_config.json", generation);
    }
    TRY(status);
    status = model_generation_parse(text, size, "generation_config.json", generation);
    free(text);
    return status;
}
