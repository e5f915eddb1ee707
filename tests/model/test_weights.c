/* Golden models are opened as they are, and after one change each, in a folder of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "kernels/format.h"
#include "model/weights.h"
#include "model/weights_layout.h"

static const char *const golden_models[] = {
    "swa", "swa/base", "swa/nvfp4", "swa/hf", "csa", "csa/hf", "hca", "full", "pro", "odd",
};

static char folder[] = "/tmp/lockstep_weights_XXXXXX";
static char path[PATH_BYTES_MAX];

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/model.safetensors", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static const char *golden(const char *model)
{
    static char name[PATH_BYTES_MAX];

    snprintf(name, sizeof(name), "tests/golden/numbers/%s", model);
    return name;
}

static void open_golden(const char *model, model_config_t *config, weights_t *weights)
{
    if (model_config_load(golden(model), config) != STATUS_OK ||
        weights_open(weights, golden(model), config) != STATUS_OK)
        fail_msg("%s: %s", model, trail_text());
}

/* -- a checkpoint that can be changed -------------------------------------------------------- */

enum { TENSORS = 2048 };

typedef struct {
    char name[TENSOR_NAME_BYTES_MAX];
    tensor_view_t view;
    uint8_t *bytes; /* own */
} changed_t;

static struct {
    model_config_t config;
    changed_t tensors[TENSORS];
    uint32_t count;
} checkpoint;

static void take_tensor(const char *name, const tensor_view_t *view)
{
    changed_t *tensor = &checkpoint.tensors[checkpoint.count++];

    assert_true(checkpoint.count <= TENSORS);
    snprintf(tensor->name, sizeof(tensor->name), "%s", name);
    tensor->view = *view;
    tensor->bytes = malloc(view->bytes + 1);
    memcpy(tensor->bytes, view->data, view->bytes);
}

static void forget(void)
{
    for (uint32_t i = 0; i < checkpoint.count; i++)
        free(checkpoint.tensors[i].bytes);
    checkpoint.count = 0;
}

static void copy_golden(const char *model)
{
    safetensors_t file;

    forget();
    assert_int_equal(model_config_load(golden(model), &checkpoint.config), STATUS_OK);
    assert_int_equal(safetensors_open(&file, golden(model)), STATUS_OK);
    for (uint32_t i = 0; i < file.tensor_count; i++)
        take_tensor(file.tensors[i].name, &file.tensors[i]);
    safetensors_close(&file);
}

static changed_t *tensor(const char *name)
{
    for (uint32_t i = 0; i < checkpoint.count; i++)
        if (strcmp(checkpoint.tensors[i].name, name) == 0)
            return &checkpoint.tensors[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void write_checkpoint(void)
{
    FILE *out = fopen(path, "wb");
    size_t room = 1 << 20, at = 0;
    char *header = malloc(room);
    uint64_t offset = 0, length;

    assert_non_null(out);
    for (uint32_t i = 0; i < checkpoint.count; i++) {
        const changed_t *t = &checkpoint.tensors[i];

        at += (size_t)snprintf(header + at, room - at, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                               i ? "," : "{", t->name, tensor_dtype_name(t->view.dtype));
        for (uint32_t d = 0; d < t->view.rank; d++)
            at += (size_t)snprintf(header + at, room - at, "%s%llu", d ? "," : "",
                                   (unsigned long long)t->view.shape[d]);
        at += (size_t)snprintf(header + at, room - at, "],\"data_offsets\":[%llu,%llu]}",
                               (unsigned long long)offset,
                               (unsigned long long)(offset + t->view.bytes));
        offset += t->view.bytes;
    }
    at += (size_t)snprintf(header + at, room - at, "}");
    length = at;
    fwrite(&length, sizeof(length), 1, out);
    fwrite(header, 1, at, out);
    for (uint32_t i = 0; i < checkpoint.count; i++)
        fwrite(checkpoint.tensors[i].bytes, 1, checkpoint.tensors[i].view.bytes, out);
    fclose(out);
    free(header);
}

/* Writes the checkpoint as it is now; it must be refused with all of these words. */
static void assert_refused(const char *name, const char *expected, const char *found)
{
    weights_t weights;

    write_checkpoint();
    trail_reset();
    assert_int_equal(weights_open(&weights, folder, &checkpoint.config), STATUS_BAD_FILE);
    if (!strstr(trail_text(), name) || !strstr(trail_text(), expected) ||
        !strstr(trail_text(), found))
        fail_msg("expected \"%s\", \"%s\" and \"%s\" in: %s", name, expected, found, trail_text());
}

/* -- values of two models -------------------------------------------------------------------- */

static const weight_t *at(const void *base, const layout_t *row)
{
    return (const weight_t *)(const void *)((const char *)base + row->offset);
}

static void assert_equal_weight(const weight_t *a, const weight_t *b, const char *name)
{
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->columns, b->columns);
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t c = 0; c < a->columns; c++) {
            bool integer = a->form == WEIGHT_I64 || a->form == WEIGHT_I32;
            bool equal = integer ? weight_integer(a, r, c) == weight_integer(b, r, c)
                                 : weight_value(a, r, c) == weight_value(b, r, c);

            if (!equal)
                fail_msg("%s differs at [%u, %u]", name, r, c);
        }
}

/* Every value of both models, in whatever form, is the same. */
static void assert_equal_models(const weights_t *a, const weights_t *b, uint32_t experts)
{
    assert_int_equal(a->layer_count, b->layer_count);
    for (size_t i = 0; i < weights_layout_count; i++) {
        const layout_t *row = &weights_layout[i];

        if (row->scope == IN_MODEL)
            assert_equal_weight(at(a, row), at(b, row), row->names[0]);
        for (uint32_t n = 0; row->scope == IN_LAYER && n < a->layer_count; n++)
            assert_equal_weight(at(&a->layers[n], row), at(&b->layers[n], row), row->names[0]);
        for (uint32_t n = 0; row->scope == IN_EXPERT && n < a->layer_count; n++)
            for (uint32_t e = 0; e < experts; e++)
                assert_equal_weight(at(&a->layers[n].experts[e], row),
                                    at(&b->layers[n].experts[e], row), row->names[0]);
    }
}

/* The changed checkpoint opens, with the values of the golden one. */
static void assert_same_values(const char *model)
{
    model_config_t config;
    weights_t weights, changed;

    open_golden(model, &config, &weights);
    write_checkpoint();
    if (weights_open(&changed, folder, &checkpoint.config) != STATUS_OK)
        fail_msg("%s", trail_text());
    assert_equal_models(&weights, &changed, config.experts);
    weights_close(&changed);
    weights_close(&weights);
}

/* -- tests ----------------------------------------------------------------------------------- */

static void test_every_golden_model_opens(void **state)
{
    model_config_t config;
    weights_t weights;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(golden_models); i++) {
        open_golden(golden_models[i], &config, &weights);
        assert_int_equal(weights.layer_count, config.layer_count);
        assert_int_equal(weights.mtp_count, config.mtp_count);
        weights_close(&weights);
    }
}

static void test_forms_are_those_of_the_file(void **state)
{
    static const struct {
        const char *model;
        weight_form_t dense, expert;
    } rows[] = {
        {"swa", WEIGHT_FP8_E8M0, WEIGHT_MXFP4},
        {"swa/base", WEIGHT_FP8_F32, WEIGHT_FP8_F32},
        {"swa/nvfp4", WEIGHT_FP8_E8M0, WEIGHT_NVFP4},
        {"swa/hf", WEIGHT_BF16, WEIGHT_BF16},
    };
    model_config_t config;
    weights_t weights;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        open_golden(rows[i].model, &config, &weights);
        assert_int_equal(weights.layers[0].wq_a.form, rows[i].dense);
        assert_int_equal(weights.layers[0].experts[3].w2.form, rows[i].expert);
        assert_int_equal(weights.layers[0].compressor.wkv.form, WEIGHT_NONE);
        assert_int_equal(weights.layers[0].tid2eid.form, WEIGHT_I64);
        assert_int_equal(weights.layers[0].gate_bias.form, WEIGHT_NONE);
        weights_close(&weights);
    }
}

static void test_both_spellings_give_the_same_values(void **state)
{
    static const char *const pairs[][2] = {{"swa", "swa/hf"}, {"csa", "csa/hf"}};
    model_config_t config, config_hf;
    weights_t weights, weights_hf;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        open_golden(pairs[i][0], &config, &weights);
        open_golden(pairs[i][1], &config_hf, &weights_hf);
        assert_equal_models(&weights, &weights_hf, config.experts);
        weights_close(&weights);
        weights_close(&weights_hf);
    }
}

static void test_every_missing_tensor_is_named(void **state)
{
    static const char *const models[] = {"csa", "swa/nvfp4"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(models); i++) {
        copy_golden(models[i]);
        for (uint32_t t = 0; t < checkpoint.count; t++) {
            changed_t kept = checkpoint.tensors[t];
            bool optional = strstr(kept.name, "input_scale");

            if (strstr(kept.name, "experts.") && !strstr(kept.name, "experts.3."))
                continue; /* one of the experts is enough */
            checkpoint.tensors[t] = checkpoint.tensors[--checkpoint.count];
            if (optional)
                assert_same_values(models[i]);
            else if (strstr(kept.name, ".weight_scale") && !strstr(kept.name, "scale_2"))
                assert_refused("layers.0.ffn.experts.3.", ".scale: expected F8_E8M0", "found none");
            else
                assert_refused(kept.name, "expected", "found none");
            checkpoint.count++;
            checkpoint.tensors[t] = kept;
        }
    }
    forget();
}

static void test_every_wrong_shape_is_named(void **state)
{
    (void)state;
    copy_golden("csa");
    for (uint32_t t = 0; t < checkpoint.count; t++) {
        tensor_view_t kept = checkpoint.tensors[t].view;
        tensor_view_t *view = &checkpoint.tensors[t].view;
        char found[128];

        if (strstr(checkpoint.tensors[t].name, "experts.") &&
            !strstr(checkpoint.tensors[t].name, "experts.5."))
            continue;
        view->shape[view->rank++] = 1; /* as many bytes, one dimension more */
        tensor_describe(view, found, sizeof(found));
        assert_refused(checkpoint.tensors[t].name, "expected", found);
        *view = kept;
    }
    forget();
}

static void test_every_wrong_dtype_is_named(void **state)
{
    /* Another dtype of the same size. */
    static const tensor_dtype_t others[TENSOR_DTYPE_COUNT] = {
        [TENSOR_BF16] = TENSOR_F16,     [TENSOR_F32] = TENSOR_U32,
        [TENSOR_F8_E4M3] = TENSOR_BOOL, [TENSOR_F8_E8M0] = TENSOR_F8_E5M2,
        [TENSOR_I8] = TENSOR_F8_E8M0,   [TENSOR_I64] = TENSOR_F64,
    };

    (void)state;
    copy_golden("csa");
    for (uint32_t t = 0; t < checkpoint.count; t++) {
        tensor_view_t *view = &checkpoint.tensors[t].view;
        tensor_dtype_t kept = view->dtype;

        if (strstr(checkpoint.tensors[t].name, "experts.") &&
            !strstr(checkpoint.tensors[t].name, "experts.0."))
            continue;
        view->dtype = others[kept];
        assert_refused(checkpoint.tensors[t].name, "expected", tensor_dtype_name(view->dtype));
        view->dtype = kept;
    }
    forget();
}

/* A form that only routed experts may have, and one that no matrix of its precision may have. */
static void test_forms_have_their_places(void **state)
{
    changed_t *changed;

    (void)state;
    copy_golden("csa");
    changed = tensor("layers.0.attn.wq_a.weight");
    changed->view.dtype = TENSOR_I8;
    assert_refused("layers.0.attn.wq_a.weight", "BF16, F32 or F8_E4M3", "I8");
    copy_golden("csa");
    changed = tensor("layers.1.attn.indexer.weights_proj.weight");
    changed->view.dtype = TENSOR_F8_E4M3;
    changed->view.bytes /= 2;
    assert_refused("layers.1.attn.indexer.weights_proj.weight", "BF16 or F32", "F8_E4M3");
    forget();
}

static void test_foreign_and_doubled_tensors_are_named(void **state)
{
    tensor_view_t view;

    (void)state;
    copy_golden("csa");
    view = tensor("norm.weight")->view;
    view.data = tensor("norm.weight")->bytes;
    take_tensor("layers.0.attn.extra.weight", &view);
    assert_refused("layers.0.attn.extra.weight", "no tensor of this name", "BF16 [64]");
    snprintf(checkpoint.tensors[checkpoint.count - 1].name, TENSOR_NAME_BYTES_MAX,
             "layers.2.attn_norm.weight");
    assert_refused("layers.2.attn_norm.weight", "no tensor of this name", "BF16 [64]");
    snprintf(checkpoint.tensors[checkpoint.count - 1].name, TENSOR_NAME_BYTES_MAX,
             "layers.0.gate.bias");
    assert_refused("layers.0.gate.bias", "no tensor of this name", "BF16 [64]");
    /* The same tensor under two of its names. */
    snprintf(checkpoint.tensors[checkpoint.count - 1].name, TENSOR_NAME_BYTES_MAX,
             "model.norm.weight");
    assert_refused("norm.weight", "expected once", "model.norm.weight");
    snprintf(checkpoint.tensors[checkpoint.count - 1].name, TENSOR_NAME_BYTES_MAX,
             "model.layers.1.input_layernorm.weight");
    assert_refused("model.layers.1.input_layernorm.weight", "no tensor of this name", "BF16");
    /* Twice under one name. */
    snprintf(checkpoint.tensors[checkpoint.count - 1].name, TENSOR_NAME_BYTES_MAX, "norm.weight");
    assert_refused("norm.weight", "expected once", "model.safetensors");
    forget();
}

static void test_expert_numbers_of_a_table_are_checked(void **state)
{
    static const int64_t numbers[] = {8, -1, INT64_MAX, INT64_MIN, 1ll << 32};
    changed_t *table;

    (void)state;
    copy_golden("swa");
    table = tensor("layers.0.ffn.gate.tid2eid");
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        memcpy(table->bytes + table->view.bytes - 8, &numbers[i], 8);
        assert_refused("layers.0.ffn.gate.tid2eid", "below 8", "[255, 1]");
    }
    forget();
}

static void test_a_cut_file_is_refused(void **state)
{
    weights_t weights;

    (void)state;
    copy_golden("swa/base");
    write_checkpoint();
    assert_int_equal(truncate(path, 200000), 0);
    assert_int_equal(weights_open(&weights, folder, &checkpoint.config), STATUS_BAD_FILE);
    assert_non_null(strstr(trail_text(), "expected offsets within the file's"));
    forget();
}

static void rename_all(const char *prefix, const char *from, const char *to)
{
    for (uint32_t i = 0; i < checkpoint.count; i++) {
        char name[TENSOR_NAME_BYTES_MAX];
        char *found;

        snprintf(name, sizeof(name), "%s%s", prefix, checkpoint.tensors[i].name);
        found = from ? strstr(name, from) : NULL;
        if (found && strcmp(found, from) == 0)
            snprintf(found, sizeof(name) - (size_t)(found - name), "%s", to);
        snprintf(checkpoint.tensors[i].name, TENSOR_NAME_BYTES_MAX, "%s", name);
    }
}

static void test_other_spellings_are_read(void **state)
{
    (void)state;
    copy_golden("csa");
    rename_all("model.", NULL, NULL);
    assert_same_values("csa");
    copy_golden("csa");
    rename_all("", ".scale", ".weight_scale_inv");
    assert_same_values("csa");
    copy_golden("csa/hf");
    snprintf(tensor("model.layers.1.self_attn.compressor.indexer.scorer.weights_proj.weight")->name,
             TENSOR_NAME_BYTES_MAX,
             "model.layers.1.self_attn.compressor.indexer.weights_proj.weight");
    assert_same_values("csa");
    forget();
}

/* BF16 tensors as F32, and routing tables as I32. */
static void test_wider_and_narrower_types_are_read(void **state)
{
    (void)state;
    copy_golden("csa");
    for (uint32_t i = 0; i < checkpoint.count; i++) {
        changed_t *t = &checkpoint.tensors[i];
        uint64_t count = t->view.bytes / tensor_dtype_bytes(t->view.dtype);
        uint8_t *bytes = malloc(count * 4);

        if (t->view.dtype == TENSOR_BF16) {
            format_bf16_decode_row(t->bytes, count, (float *)(void *)bytes);
            t->view.dtype = TENSOR_F32;
        } else if (t->view.dtype == TENSOR_I64) {
            for (uint64_t n = 0; n < count; n++)
                memcpy(bytes + 4 * n, t->bytes + 8 * n, 4);
            t->view.dtype = TENSOR_I32;
        } else {
            free(bytes);
            continue;
        }
        free(t->bytes);
        t->bytes = bytes;
        t->view.bytes = count * 4;
    }
    assert_same_values("csa");
    forget();
}

/* One byte in front of everything else puts every tensor at an odd place. */
static void test_misaligned_tensors_are_read(void **state)
{
    changed_t *one, kept;

    (void)state;
    copy_golden("csa");
    one = tensor("layers.0.attn.wkv.scale");
    assert_int_equal(one->view.bytes, 1);
    kept = checkpoint.tensors[0];
    checkpoint.tensors[0] = *one;
    *one = kept;
    assert_same_values("csa");
    forget();
}

static void test_copies_of_embedding_and_head_in_mtp_are_passed_over(void **state)
{
    tensor_view_t view;

    (void)state;
    copy_golden("full");
    view = tensor("embed.weight")->view;
    view.data = tensor("embed.weight")->bytes;
    take_tensor("mtp.0.emb.tok_emb.weight", &view);
    take_tensor("mtp.0.head.weight", &view);
    assert_same_values("full");
    forget();
}

/* transformers leaves MTP blocks out of its checkpoints but not out of the config. */
static void test_mtp_may_be_absent_only_in_transformers_names(void **state)
{
    weights_t weights;

    (void)state;
    copy_golden("swa/hf");
    checkpoint.config.mtp_count = 1;
    write_checkpoint();
    assert_int_equal(weights_open(&weights, folder, &checkpoint.config), STATUS_OK);
    assert_int_equal(weights.mtp_count, 0);
    weights_close(&weights);
    copy_golden("swa");
    checkpoint.config.mtp_count = 1;
    assert_refused("mtp.0.hc_attn_fn", "expected BF16 or F32 [24, 256]", "found none");
    forget();
}

static void test_digests(void **state)
{
    model_config_t config;
    weights_digest_t golden_digest, digest;
    weights_t weights;

    (void)state;
    open_golden("hca", &config, &weights);
    assert_int_equal(weights_digest(&weights, 1, &golden_digest), STATUS_OK);
    for (uint32_t threads = 2; threads < 6; threads++) {
        assert_int_equal(weights_digest(&weights, threads, &digest), STATUS_OK);
        assert_memory_equal(&digest, &golden_digest, sizeof(digest));
    }
    weights_close(&weights);
    /* In one file in place of two: the same weights. */
    copy_golden("hca");
    write_checkpoint();
    assert_int_equal(weights_open(&weights, folder, &checkpoint.config), STATUS_OK);
    assert_int_equal(weights_digest(&weights, 2, &digest), STATUS_OK);
    assert_memory_equal(&digest, &golden_digest, sizeof(digest));
    weights_close(&weights);
    /* One bit of one weight: others, in a file of the same form. */
    tensor("layers.1.attn.wo_b.weight")->bytes[77] ^= 1;
    write_checkpoint();
    assert_int_equal(weights_open(&weights, folder, &checkpoint.config), STATUS_OK);
    assert_int_equal(weights_digest(&weights, 2, &digest), STATUS_OK);
    assert_memory_not_equal(&digest, &golden_digest, sizeof(digest));
    weights_close(&weights);
    weights_close(&weights);
    forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_golden_model_opens),
        cmocka_unit_test(test_forms_are_those_of_the_file),
        cmocka_unit_test(test_both_spellings_give_the_same_values),
        cmocka_unit_test(test_every_missing_tensor_is_named),
        cmocka_unit_test(test_every_wrong_shape_is_named),
        cmocka_unit_test(test_every_wrong_dtype_is_named),
        cmocka_unit_test(test_forms_have_their_places),
        cmocka_unit_test(test_foreign_and_doubled_tensors_are_named),
        cmocka_unit_test(test_expert_numbers_of_a_table_are_checked),
        cmocka_unit_test(test_a_cut_file_is_refused),
        cmocka_unit_test(test_other_spellings_are_read),
        cmocka_unit_test(test_wider_and_narrower_types_are_read),
        cmocka_unit_test(test_misaligned_tensors_are_read),
        cmocka_unit_test(test_copies_of_embedding_and_head_in_mtp_are_passed_over),
        cmocka_unit_test(test_mtp_may_be_absent_only_in_transformers_names),
        cmocka_unit_test(test_digests),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
