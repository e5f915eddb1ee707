/* test_forward.c - the forward pass at Flash's layers, narrow: how often ranks meet in a step, and
 * that their number leaves the bits alone there too. Everything else: tests/golden/test_numbers.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/group.h"
#include "runtime/base/random.h"

/* 2 layers without, then 4 and 128 in turns; the first three by token id. Heads, groups and
 * vocabulary divide by 4; index heads, experts and the width of an expert do not. */
static const char config_text[] =
    "{\"model_type\": \"deepseek_v4\", \"vocab_size\": 64, \"hidden_size\": 32,"
    "\"num_hidden_layers\": 43, \"num_attention_heads\": 4, \"num_key_value_heads\": 1,"
    "\"head_dim\": 16, \"qk_rope_head_dim\": 4, \"q_lora_rank\": 16, \"o_groups\": 4,"
    "\"o_lora_rank\": 8, \"n_routed_experts\": 7, \"num_experts_per_tok\": 3,"
    "\"n_shared_experts\": 1, \"moe_intermediate_size\": 22, \"num_hash_layers\": 3,"
    "\"scoring_func\": \"sqrtsoftplus\", \"norm_topk_prob\": true, \"routed_scaling_factor\": 1.5,"
    "\"swiglu_limit\": 10.0, \"hidden_act\": \"silu\", \"sliding_window\": 16,"
    "\"compress_ratios\": [0,0,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,"
    "4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4],"
    "\"index_n_heads\": 3, \"index_head_dim\": 16, \"index_topk\": 4, \"rope_theta\": 10000,"
    "\"compress_rope_theta\": 160000, \"max_position_embeddings\": 4096, \"rms_norm_eps\": 1e-6,"
    "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 16,"
    "\"original_max_position_embeddings\": 256, \"beta_fast\": 32, \"beta_slow\": 1},"
    "\"hc_mult\": 2, \"hc_sinkhorn_iters\": 3, \"hc_eps\": 1e-6, \"num_nextn_predict_layers\": 0,"
    "\"tie_word_embeddings\": false, \"attention_bias\": false, \"bos_token_id\": 0,"
    "\"eos_token_id\": 1}";

enum {
    LAYERS = 43,
    EXPERTS = 7,
    FLOATS = 1 << 16,
    CALLS = 4 * LAYERS + 1,
    SLOTS = 64,
    CHUNK = 140,
    ROWS = CHUNK + SLOTS,
    VOCABULARY = 64,
};

typedef struct {
    model_config_t config;
    weights_t weights;
    weights_layer_t layers[LAYERS];
    weights_expert_t experts[LAYERS][EXPERTS];
    float numbers[FLOATS + 4096];
    int32_t table[VOCABULARY * 3];
    uint32_t used;
} fixture_t;

static void must(status_t status)
{
    if (status != STATUS_OK)
        fail_msg("%s: %s", status_name(status), trail_text());
}

/* Weights are windows into one array of random numbers, which no two have alike. */
static weight_t take(fixture_t *f, uint32_t rows, uint32_t columns)
{
    f->used = (f->used + 31) % FLOATS;
    assert_true(rows * columns <= 4096);
    return weight_view(WEIGHT_F32, rows, columns, f->numbers + f->used, NULL, 1.0f);
}

static weights_site_t take_site(fixture_t *f)
{
    return (weights_site_t){take(f, 8, 64), take(f, 1, 8), take(f, 1, 3)};
}

static weights_expert_t take_expert(fixture_t *f)
{
    return (weights_expert_t){take(f, 22, 32), take(f, 22, 32), take(f, 32, 22)};
}

static weights_compressor_t take_compressor(fixture_t *f, uint32_t ratio)
{
    uint32_t channels = model_compressor_channels(ratio, 16);

    return (weights_compressor_t){take(f, channels, 32), take(f, channels, 32),
                                  take(f, ratio, channels), take(f, 1, 16)};
}

static void take_layer(fixture_t *f, uint32_t index)
{
    weights_layer_t *l = &f->layers[index];
    uint32_t ratio = f->config.layers[index].ratio;

    *l = (weights_layer_t){.hc_attn = take_site(f),
                           .hc_ffn = take_site(f),
                           .attn_norm = take(f, 1, 32),
                           .ffn_norm = take(f, 1, 32),
                           .wq_a = take(f, 16, 32),
                           .q_norm = take(f, 1, 16),
                           .wq_b = take(f, 64, 16),
                           .wkv = take(f, 16, 32),
                           .kv_norm = take(f, 1, 16),
                           .wo_a = take(f, 32, 16),
                           .wo_b = take(f, 32, 32),
                           .attn_sink = take(f, 1, 4),
                           .gate = take(f, EXPERTS, 32),
                           .shared = take_expert(f),
                           .experts = f->experts[index]};
    if (ratio)
        l->compressor = take_compressor(f, ratio);
    if (ratio == 4) {
        l->indexer_wq_b = take(f, 48, 16);
        l->indexer_weights_proj = take(f, 3, 32);
        l->index_compressor = take_compressor(f, ratio);
    }
    if (f->config.layers[index].hash)
        l->tid2eid = weight_view(WEIGHT_I32, VOCABULARY, 3, f->table, NULL, 1.0f);
    else
        l->gate_bias = take(f, 1, EXPERTS);
    for (uint32_t e = 0; e < EXPERTS; e++)
        f->experts[index][e] = take_expert(f);
}

static int open_fixture(void **state)
{
    fixture_t *f = calloc(1, sizeof(*f));
    random_t random;

    *state = f;
    must(model_config_parse(config_text, sizeof(config_text) - 1, "config.json", &f->config));
    random_init(&random, 5);
    for (uint32_t i = 0; i < FLOATS + 4096; i++)
        f->numbers[i] = (float)random_unit(&random) - 0.5f;
    for (uint32_t i = 0; i < VOCABULARY * 3; i++) /* some name an expert twice */
        f->table[i] = (int32_t)random_below(&random, EXPERTS);
    f->weights = (weights_t){.embed = take(f, VOCABULARY, 32),
                             .head = take(f, VOCABULARY, 32),
                             .norm = take(f, 1, 32),
                             .hc_head = {take(f, 2, 64), take(f, 1, 2), take(f, 1, 1)},
                             .layer_count = LAYERS,
                             .layers = f->layers};
    for (uint32_t i = 0; i < LAYERS; i++)
        take_layer(f, i);
    return 0;
}

static int close_fixture(void **state)
{
    free(*state);
    return 0;
}

static group_t *open_group(const fixture_t *f, uint32_t world)
{
    const group_options_t options = {.world = world,
                                     .threads = 1,
                                     .slots = SLOTS,
                                     .rows_max = ROWS,
                                     .logits_max = ROWS,
                                     .positions_max = 512,
                                     .cache_form = FORM_FLOAT32,
                                     .index_form = FORM_FLOAT32};
    group_t *group;

    must(group_open(&f->config, &f->weights, &options, &group));
    return group;
}

/* Slot 0 gets a chunk of `chunk` tokens, slots 1 .. `decoded` one token each. Returns rows whose
 * logits are wanted: one an item, or all. */
static uint32_t run_step(group_t *group, uint32_t chunk, uint32_t decoded, bool all, float *logits)
{
    forward_item_t items[SLOTS + 1];
    uint32_t tokens[ROWS], count = 0;

    for (uint32_t i = 0; i < ROWS; i++)
        tokens[i] = (i * 13 + 5) % VOCABULARY;
    if (chunk)
        items[count++] =
            (forward_item_t){.count = chunk, .tokens = tokens, .logit_count = all ? chunk : 1};
    for (uint32_t i = 0; i < decoded; i++)
        items[count++] = (forward_item_t){
            .slot = chunk ? i + 1 : i, .count = 1, .tokens = tokens + i + 1, .logit_count = 1};
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        group_clear(group, slot);
    must(group_forward(group, items, count, logits, NULL));
    return (all ? chunk : chunk > 0) + decoded;
}

static const struct {
    uint32_t chunk, decoded;
    bool all;
} steps[] = {
    {0, 1, false},    {0, 2, false},          {0, SLOTS, false}, {CHUNK, 0, false},
    {CHUNK, 0, true}, {130, SLOTS - 1, true}, {1, 1, false},     {CHUNK, SLOTS - 1, false},
};

static void test_a_step_has_four_calls_a_layer_and_one(void **state)
{
    const fixture_t *f = *state;
    float *logits = malloc(ROWS * VOCABULARY * sizeof(float));

    for (uint32_t world = 2; world <= 4; world += 2) {
        group_t *group = open_group(f, world);
        for (size_t i = 0; i < COUNT_OF(steps); i++) {
            uint32_t before = group_calls(group);
            run_step(group, steps[i].chunk, steps[i].decoded, steps[i].all, logits);
            assert_int_equal(group_calls(group) - before, CALLS);
        }
        group_close(group);
    }
    free(logits);
}

static void test_ranks_leave_the_bits_alone(void **state)
{
    const fixture_t *f = *state;
    size_t bytes = ROWS * VOCABULARY * sizeof(float);
    float *want = malloc(bytes), *found = malloc(bytes);
    group_t *alone = open_group(f, 1), *group = open_group(f, 4);

    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        uint32_t rows = run_step(alone, steps[i].chunk, steps[i].decoded, steps[i].all, want);
        run_step(group, steps[i].chunk, steps[i].decoded, steps[i].all, found);
        assert_memory_equal(found, want, rows * VOCABULARY * sizeof(float));
        for (uint32_t m = 1; m < rows; m++) /* rows are not one and the same */
            assert_memory_not_equal(want, want + (size_t)m * VOCABULARY,
                                    VOCABULARY * sizeof(float));
    }
    group_close(alone);
    group_close(group);
    free(want);
    free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_has_four_calls_a_layer_and_one),
        cmocka_unit_test(test_ranks_leave_the_bits_alone),
    };
    return cmocka_run_group_tests_name("forward", tests, open_fixture, close_fixture);
}
