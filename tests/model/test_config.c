#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "model/config.h"
#include "runtime/base/random.h"

static json_t *load(const char *folder)
{
    char path[2 * PATH_BYTES_MAX];
    json_t *root;

    snprintf(path, sizeof(path), "%s/config.json", folder);
    root = json_load_file(path, 0, NULL);
    if (!root)
        fail_msg("%s cannot be read", path);
    return root;
}

static const char *golden(const char *model)
{
    static char path[PATH_BYTES_MAX];

    snprintf(path, sizeof(path), "tests/golden/numbers/%s", model);
    return path;
}

static status_t parse(json_t *root, model_config_t *config)
{
    char *text = json_dumps(root, 0);
    status_t status = model_config_parse(text, strlen(text), "config.json", config);

    free(text);
    return status;
}

/* The object that "a.b.c" is a field of, and the field's own name. */
static json_t *owner(json_t *root, const char *path, const char **field)
{
    const char *dot;

    while ((dot = strchr(path, '.'))) {
        char name[80];

        snprintf(name, sizeof(name), "%.*s", (int)(dot - path), path);
        root = json_object_get(root, name);
        assert_non_null(root);
        path = dot + 1;
    }
    *field = path;
    return root;
}

/* Sets a field to what `value` reads as, or removes it if NULL. */
static void change(json_t *root, const char *path, const char *value)
{
    const char *field;
    json_t *object = owner(root, path, &field);

    if (value)
        json_object_set_new(object, field, json_loads(value, JSON_DECODE_ANY, NULL));
    else
        json_object_del(object, field);
}

static void test_flash_has_the_schedule_of_the_release(void **state)
{
    model_config_t c;
    uint32_t of_4 = 0, of_128 = 0;

    (void)state;
    assert_int_equal(model_config_load("topology/examples/flash", &c), STATUS_OK);
    for (uint32_t i = 0; i < c.layer_count; i++) {
        of_4 += c.layers[i].ratio == 4;
        of_128 += c.layers[i].ratio == 128;
        assert_int_equal(c.layers[i].hash, i < 3);
    }
    assert_int_equal(c.layer_count, 43);
    assert_int_equal(of_4, 21);
    assert_int_equal(of_128, 20);
    assert_int_equal(c.mtp_count, 1);
    assert_int_equal(c.layers[43].ratio, 0);
    assert_false(c.layers[43].hash);
    assert_int_equal(c.vocabulary, 129280);
    assert_int_equal(c.heads * c.head_dim, 32768);
    assert_int_equal(c.positions_max, 1048576);
    assert_true(c.compressed_rope.yarn && c.compressed_rope.theta == 160000);
    assert_false(c.rope.yarn);
    assert_int_equal(c.stored, STORED_FP8);
    assert_int_equal(c.stored_expert, STORED_MXFP4);
    assert_false(c.scales_float);
    assert_true(model_config_packs(&c));
}

static void test_every_golden_config_and_the_tiny_one_load(void **state)
{
    static const struct {
        const char *model;
        model_stored_t stored, expert;
        bool scales_float;
    } rows[] = {
        {"swa", STORED_FP8, STORED_MXFP4, false},       {"swa/base", STORED_FP8, STORED_FP8, true},
        {"swa/nvfp4", STORED_FP8, STORED_NVFP4, false}, {"swa/hf", STORED_BF16, STORED_BF16, false},
        {"csa/hf", STORED_BF16, STORED_BF16, false},    {"csa", STORED_FP8, STORED_MXFP4, false},
        {"hca", STORED_FP8, STORED_MXFP4, false},       {"full", STORED_FP8, STORED_MXFP4, false},
        {"pro", STORED_FP8, STORED_MXFP4, false},       {"odd", STORED_FP8, STORED_MXFP4, false},
    };
    model_generation_t generation;
    model_config_t config;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (model_config_load(golden(rows[i].model), &config) != STATUS_OK)
            fail_msg("%s: %s", rows[i].model, trail_text());
        assert_int_equal(config.stored, rows[i].stored);
        assert_int_equal(config.stored_expert, rows[i].expert);
        assert_int_equal(config.scales_float, rows[i].scales_float);
    }
    assert_int_equal(model_config_load("model/tiny", &config), STATUS_OK);
    assert_int_equal(config.vocabulary, 1536);
    assert_int_equal(model_generation_load("model/tiny", &generation), STATUS_OK);
    assert_true(generation.temperature == 0.0f);
    assert_int_equal(generation.eos_tokens[0], 1);
    assert_int_equal(generation.output_tokens_max, 256);
}

/* A model has one meaning in both spellings. */
static void test_both_spellings_give_the_same_config(void **state)
{
    static const char *const pairs[][2] = {{"swa", "swa/hf"}, {"csa", "csa/hf"}};
    model_config_t release, transformers;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        assert_int_equal(model_config_load(golden(pairs[i][0]), &release), STATUS_OK);
        assert_int_equal(model_config_load(golden(pairs[i][1]), &transformers), STATUS_OK);
        release.stored = transformers.stored; /* the files differ in this on purpose */
        release.stored_expert = transformers.stored_expert;
        assert_memory_equal(&release, &transformers, sizeof(release));
    }
}

/* The same experts, said in the two ways that repacked checkpoints say it. */
static void test_modelopt_means_nvfp4_experts(void **state)
{
    static const char *const blocks[] = {
        "{\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\", \"producer\": {\"name\": "
        "\"modelopt\", \"version\": \"0.39.0\"}, \"ignore\": [\"lm_head\"], \"config_groups\": {}}",
        "{\"quant_method\": \"modelopt_fp4\", \"quant_algo\": \"NVFP4\", \"group_size\": 16}",
        "{\"quant_method\": \"modelopt\", \"quant_algo\": \"MIXED_PRECISION\", "
        "\"quantized_layers\": {}}",
    };
    static const char *const refused[] = {
        "{\"quant_method\": \"modelopt\", \"quant_algo\": \"W4A8_AWQ\"}",
        "{\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\", \"group_size\": 32}",
        "{\"quant_method\": \"modelopt\"}",
    };
    model_config_t wanted, config;

    (void)state;
    assert_int_equal(model_config_load(golden("swa/nvfp4"), &wanted), STATUS_OK);
    for (size_t i = 0; i < COUNT_OF(blocks) + COUNT_OF(refused); i++) {
        json_t *root = load(golden("swa/nvfp4"));
        bool good = i < COUNT_OF(blocks);

        change(root, "quantization_config", good ? blocks[i] : refused[i - COUNT_OF(blocks)]);
        change(root, "expert_dtype", "\"fp4\""); /* of what was packed anew */
        assert_int_equal(parse(root, &config), good ? STATUS_OK : STATUS_BAD_CONFIG);
        if (good)
            assert_memory_equal(&config, &wanted, sizeof(config));
        json_decref(root);
    }
}

typedef struct {
    const char *path, *value;
} change_t;

static void test_what_may_vary_is_taken(void **state)
{
    static const struct {
        const char *model;
        change_t changes[3];
    } rows[] = {
        {"full", {{"norm_topk_prob", NULL}}},
        {"full", {{"norm_topk_prob", "false"}}},
        {"full", {{"scoring_func", NULL}, {"topk_method", NULL}, {"hidden_act", NULL}}},
        {"full", {{"compress_ratios", "[0,0,4,128,4,128]"}}},       /* cut at the layers */
        {"full", {{"compress_ratios", "[0,0,4,128,4,128,0,0,0]"}}}, /* later releases */
        {"full", {{"eos_token_id", "[1, 5, 7]"}, {"bos_token_id", NULL}}},
        {"full", {{"eos_token_id", "null"}, {"some_new_field", "{\"x\":[1]}"}}},
        {"full", {{"rope_scaling.type", "\"default\""}}},
        {"full", {{"rope_scaling", NULL}}},
        {"full", {{"rope_scaling.rope_type", "\"yarn\""}, {"rope_scaling.type", NULL}}},
        {"full", {{"rope_scaling.attention_factor", "1.0"}}},
        {"full", {{"expert_dtype", NULL}, {"quantization_config.expert_dtype", "\"fp4\""}}},
        {"full", {{"num_nextn_predict_layers", NULL}}},
        {"csa/hf", {{"compress_rates", NULL}}},
        {"csa/hf", {{"compress_rates", NULL}, {"compress_rate_csa", "4"}}},
        {"csa/hf", {{"compress_ratios", "[0,4]"}}},
        {"csa/hf", {{"rope_parameters.compress.attention_factor", NULL}}},
        {"csa/hf", {{"mlp_layer_types", "[\"moe\",\"hash_moe\"]"}}},
        {"csa/hf", {{"mlp_layer_types", NULL}, {"num_hash_layers", "2"}}},
    };
    model_config_t config;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        json_t *root = load(golden(rows[i].model));

        for (size_t c = 0; c < COUNT_OF(rows[i].changes) && rows[i].changes[c].path; c++)
            change(root, rows[i].changes[c].path, rows[i].changes[c].value);
        if (parse(root, &config) != STATUS_OK)
            fail_msg("case %zu: %s", i, trail_text());
        json_decref(root);
    }
}

static const struct {
    const char *model, *path, *value, *expected, *found;
} refusals[] = {
    {"full", "model_type", "\"deepseek_v3\"", "\"deepseek_v4\"", "deepseek_v3"},
    {"full", "model_type", NULL, "\"deepseek_v4\"", "nothing"},
    {"full", "scoring_func", "\"sigmoid\"", "sqrtsoftplus", "sigmoid"},
    {"full", "topk_method", "\"greedy\"", "noaux_tc", "greedy"},
    {"full", "hidden_act", "\"gelu\"", "silu", "gelu"},
    {"full", "tie_word_embeddings", "true", "false", "true"},
    {"full", "attention_bias", "true", "false", "true"},
    {"full", "mlp_bias", "1", "true or false", "1"},
    {"full", "num_key_value_heads", "2", "from 1 to 1", "2"},
    {"full", "n_shared_experts", "2", "from 1 to 1", "2"},
    {"full", "sliding_window", "0", "from 1 to 256", "0"},
    {"full", "rope_scaling.type", "\"linear\"", "yarn", "linear"},
    {"full", "rope_scaling.attention_factor", "1.1", "from 1 to 1", "1.1"},
    {"full", "rope_scaling.truncate", "false", "true", "false"},
    {"full", "rope_scaling.factor", "0.5", "from 1", "0.5"},
    {"full", "rope_scaling", "7", "an object", "7"},
    {"full", "compress_ratios", "[0,0,4,128,4]", "6 to", "[0,0,4,128,4]"},
    {"full", "compress_ratios", "[0,0,4,128,4,64,0]", "0, 4 or 128", "64"},
    {"full", "compress_ratios", "[0,0,4,128,4,\"4\",0]", "0, 4 or 128", "\"4\""},
    {"full", "compress_ratios", "[0,0,4,128,4,128,4]", "behind the last layer", "4"},
    {"full", "compress_ratios", NULL, "a list", "nothing"},
    {"full", "num_hash_layers", "7", "from 0 to 6", "7"},
    {"full", "quantization_config.quant_method", "\"awq\"", "fp8", "awq"},
    {"full", "quantization_config.fmt", "\"e5m2\"", "e4m3", "e5m2"},
    {"full", "quantization_config.scale_fmt", "\"fp32\"", "ue8m0", "fp32"},
    {"full", "quantization_config.weight_block_size", "[64,128]", "[128,128]", "[64,128]"},
    {"full", "quantization_config.activation_scheme", "\"static\"", "dynamic", "static"},
    {"full", "expert_dtype", "\"int4\"", "fp4, nvfp4", "int4"},
    {"full", "eos_token_id", "512", "from 0 to 511", "512"},
    {"full", "eos_token_id", "[1,512]", "below vocab_size", "[1,512]"},
    {"full", "eos_token_id", "[]", "a list of 1", "[]"},
    {"full", "bos_token_id", "-1", "from 0", "-1"},
    {"full", "o_groups", "3", "divisor", "3"},
    {"full", "num_experts_per_tok", "9", "up to n_routed_experts = 8", "9"},
    {"full", "qk_rope_head_dim", "63", "even", "63"},
    {"full", "qk_rope_head_dim", "130", "from 2 to 128", "130"},
    {"full", "index_head_dim", "96", "power of two", "96"},
    {"full", "rms_norm_eps", "\"small\"", "a number", "small"},
    {"full", "hidden_size", "128.5", "whole number", "128.5"},
    {"full", "norm_topk_prob", "\"yes\"", "true or false", "yes"},
    {"csa/hf", "layer_types", "[\"sliding_attention\",\"full_attention\"]",
     "heavily_compressed_attention", "full_attention"},
    {"csa/hf", "layer_types", "[\"sliding_attention\"]", "a list of 2 to 2", "["},
    {"csa/hf", "mlp_layer_types", "[\"hash_moe\",\"dense\"]", "hash_moe or moe", "dense"},
    {"csa/hf", "compress_rates.compressed_sparse_attention", "8", "from 4 to 4", "8"},
    {"csa/hf", "compress_ratios", "[0,128]", "what compress_ratios says", "ratio 4"},
    {"csa/hf", "rope_parameters.main.rope_type", "\"yarn\"", "default", "yarn"},
    {"csa/hf", "rope_parameters.compress", NULL, "an object", "nothing"},
    {"csa/hf", "rope_parameters.compress.attention_factor", "2", "from 1 to 1", "2"},
    {"csa/hf", "partial_rotary_factor", "0.3", "whole number of channels", "0.3"},
    {"csa/hf", "partial_rotary_factor", NULL, "a number", "nothing"},
};

static void test_what_may_not_vary_is_refused_by_name(void **state)
{
    model_config_t config;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        json_t *root = load(golden(refusals[i].model));
        const char *field = strrchr(refusals[i].path, '.');

        field = field ? field + 1 : refusals[i].path;
        change(root, refusals[i].path, refusals[i].value);
        trail_reset();
        if (parse(root, &config) != STATUS_BAD_CONFIG || !strstr(trail_text(), field) ||
            !strstr(trail_text(), refusals[i].expected) || !strstr(trail_text(), refusals[i].found))
            fail_msg("case %zu, %s: \"%s\"", i, refusals[i].path, trail_text());
        json_decref(root);
    }
}

/* Every field that has a range: absent, of another type, below, above. */
static void test_every_number_has_limits(void **state)
{
    static const char *const fields[] = {
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "head_dim",
        "q_lora_rank",
        "o_groups",
        "o_lora_rank",
        "n_routed_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
        "sliding_window",
        "index_n_heads",
        "index_head_dim",
        "index_topk",
        "max_position_embeddings",
        "hc_mult",
        "hc_sinkhorn_iters",
        "routed_scaling_factor",
        "swiglu_limit",
        "rms_norm_eps",
        "hc_eps",
        "rope_theta",
        "compress_rope_theta",
        "rope_scaling.factor",
        "rope_scaling.original_max_position_embeddings",
        "rope_scaling.beta_fast",
        "rope_scaling.beta_slow",
    };
    static const char *const values[] = {
        NULL,
        "\"7\"",
        "-1",
        "1000000000000000",
        "1e300",
        "true",
        "[]",
        "{}",
        "null",
        "9223372036854775807",
        "-9223372036854775808",
    };
    model_config_t config;

    (void)state;
    for (size_t f = 0; f < COUNT_OF(fields); f++)
        for (size_t v = 0; v < COUNT_OF(values); v++) {
            json_t *root = load(golden("full"));
            const char *dot = strrchr(fields[f], '.');

            change(root, fields[f], values[v]);
            trail_reset();
            if (parse(root, &config) != STATUS_BAD_CONFIG ||
                !strstr(trail_text(), dot ? dot + 1 : fields[f]))
                fail_msg("%s = %s: \"%s\"", fields[f], values[v] ? values[v] : "nothing",
                         trail_text());
            json_decref(root);
        }
}

static void test_text_that_is_no_object_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "7",
        "{\"a\":1,\"a\":2}",
        "{\"vocab_size\":1e999}",
        "{\"x\":\"\xff\"}",
        "{} {}",
        "{\"model_type\":99999999999999999999}",
    };
    model_generation_t generation;
    model_config_t config;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        assert_int_equal(model_config_parse(texts[i], strlen(texts[i]), "config.json", &config),
                         STATUS_BAD_FILE);
        assert_int_equal(model_generation_parse(texts[i], strlen(texts[i]), "g.json", &generation),
                         STATUS_BAD_FILE);
    }
    assert_int_equal(model_config_load("tests", &config), STATUS_NOT_FOUND);
}

static void test_changed_bytes_are_read_or_refused(void **state)
{
    json_t *root = load(golden("full"));
    char *text = json_dumps(root, 0);
    size_t size = strlen(text);
    random_t random;

    (void)state;
    random_init(&random, 4);
    for (int round = 0; round < 3000; round++) {
        char *copy = malloc(size);
        model_config_t config;

        memcpy(copy, text, size);
        for (uint64_t flips = random_below(&random, 4) + 1; flips-- > 0;)
            copy[random_below(&random, size)] = (char)random_next(&random);
        if (model_config_parse(copy, size - (round % 5 == 0), "config.json", &config) ==
            STATUS_OK) {
            assert_true(config.layer_count <= LAYERS_MAX && config.experts <= EXPERTS_MAX);
            assert_true(config.experts_per_token <= config.experts);
        }
        free(copy);
    }
    free(text);
    json_decref(root);
}

static void test_generation_defaults(void **state)
{
    static const struct {
        const char *text;
        const char *refused; /* NULL: taken */
    } rows[] = {
        {"{}", NULL},
        {"{\"temperature\":0.6,\"top_p\":0.95,\"top_k\":20,\"min_p\":0.1}", NULL},
        {"{\"do_sample\":false,\"temperature\":1.0}", NULL},
        {"{\"temperature\":-1}", "temperature"},
        {"{\"top_p\":0}", "top_p"},
        {"{\"top_k\":-1}", "top_k"},
        {"{\"do_sample\":1}", "do_sample"},
        {"{\"repetition_penalty\":0}", "repetition_penalty"},
        {"{\"eos_token_id\":[1,2,3,4,5,6,7,8,9]}", "eos_token_id"},
    };
    model_generation_t generation;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        status_t status =
            model_generation_parse(rows[i].text, strlen(rows[i].text), "g.json", &generation);

        assert_int_equal(status, rows[i].refused ? STATUS_BAD_CONFIG : STATUS_OK);
        if (rows[i].refused)
            assert_non_null(strstr(trail_text(), rows[i].refused));
        else if (i == 2)
            assert_true(generation.temperature == 0.0f);
    }
    assert_int_equal(model_generation_load("tests", &generation), STATUS_OK); /* no such file */
    assert_true(generation.temperature == 1.0f && generation.top_p == 1.0f);
    assert_true(generation.repetition_penalty == 1.0f && generation.eos_count == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flash_has_the_schedule_of_the_release),
        cmocka_unit_test(test_every_golden_config_and_the_tiny_one_load),
        cmocka_unit_test(test_both_spellings_give_the_same_config),
        cmocka_unit_test(test_modelopt_means_nvfp4_experts),
        cmocka_unit_test(test_what_may_vary_is_taken),
        cmocka_unit_test(test_what_may_not_vary_is_refused_by_name),
        cmocka_unit_test(test_every_number_has_limits),
        cmocka_unit_test(test_text_that_is_no_object_is_refused),
        cmocka_unit_test(test_changed_bytes_are_read_or_refused),
        cmocka_unit_test(test_generation_defaults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
