/* Files that a deployer hands in: topology, model configuration, checkpoint, tokenizer. Whatever is
 * done to them, they are taken or refused with a reason; nothing is read behind their end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/config.h"
#include "model/safetensors.h"
#include "model/tokenizer.h"
#include "tests/fuzz/fuzz.h"
#include "topology/topology.h"

static const char *const topologies[] = {
    "topology/examples/default.yaml",   "topology/examples/tp2.yaml",
    "topology/examples/unequal.yaml",   "topology/examples/8-devices.yaml",
    "topology/examples/8-gpus.yaml",
};

/* A file that exists in memory only; `path` names it as long as the descriptor is open. */
static int memory_file(const char *bytes, size_t size, char *path, size_t path_bytes)
{
    int descriptor = memfd_create("fuzz", MFD_CLOEXEC);

    assert_true(descriptor >= 0);
    assert_int_equal(write(descriptor, bytes, size), size);
    snprintf(path, path_bytes, "/proc/self/fd/%d", descriptor);
    return descriptor;
}

/* What is taken means the same when it is printed and read again. */
static void feed_topology(void *context, const char *bytes, size_t size)
{
    static topology_t topology, again;
    static topology_errors_t errors;
    status_t status;
    char *text = NULL;
    size_t text_bytes = 0;
    FILE *out;

    (void)context;
    trail_reset();
    status = topology_parse(bytes, size, "topology/examples/fuzz.yaml", &topology, &errors);
    if (status != STATUS_OK) {
        assert_int_equal(status, STATUS_BAD_CONFIG);
        assert_true(errors.count > 0);
        assert_true(errors.items[0].text[0] != '\0');
        return;
    }
    out = open_memstream(&text, &text_bytes);
    assert_non_null(out);
    topology_print(&topology, out);
    fclose(out);
    assert_int_equal(
        topology_parse(text, text_bytes, "topology/examples/fuzz.yaml", &again, &errors),
        STATUS_OK);
    assert_true(again.version == topology.version);
    free(text);
}

static void test_topology_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(topologies); i++) {
        size_t size;
        char *seed = fuzz_read(topologies[i], &size);

        fuzz_run(topologies[i], seed, size, 1000, feed_topology, NULL);
        free(seed);
    }
}

static void feed_config(void *context, const char *bytes, size_t size)
{
    static model_config_t config;
    model_generation_t generation;

    (void)context;
    trail_reset();
    if (model_config_parse(bytes, size, "config.json", &config) != STATUS_OK) {
        assert_true(trail_text()[0] != '\0');
    } else {
        assert_true(config.layer_count > 0 && config.layer_count <= LAYERS_MAX);
        assert_true(config.heads > 0 && config.head_dim > 0 && config.vocabulary > 0);
    }
    trail_reset();
    if (model_generation_parse(bytes, size, "generation_config.json", &generation) != STATUS_OK)
        assert_true(trail_text()[0] != '\0');
}

static void test_model_configurations(void **state)
{
    static const char *const paths[] = {"model/tiny/config.json",
                                        "model/tiny/generation_config.json",
                                        "topology/examples/flash/config.json"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        size_t size;
        char *seed = fuzz_read(paths[i], &size);

        fuzz_run(paths[i], seed, size, 3000, feed_config, NULL);
        free(seed);
    }
}

/* Every tensor of a file that is taken lies in it whole, and none lies in another. */
static void feed_checkpoint(void *context, const char *bytes, size_t size)
{
    char path[64];
    int descriptor = memory_file(bytes, size, path, sizeof(path));
    safetensors_t tensors;
    uint64_t total = 0;
    status_t status;

    (void)context;
    trail_reset();
    status = safetensors_open_file(&tensors, path);
    if (status != STATUS_OK) {
        assert_true(status == STATUS_BAD_FILE || status == STATUS_NO_MEMORY);
        assert_true(trail_text()[0] != '\0');
        close(descriptor);
        return;
    }
    for (uint32_t i = 0; i < tensors.tensor_count; i++) {
        const tensor_view_t *tensor = &tensors.tensors[i];
        const safetensors_file_t *file = &tensors.files[tensor->file];

        assert_true(tensor->data >= file->bytes && tensor->bytes <= file->size);
        assert_true(tensor->data + tensor->bytes <= file->bytes + file->size);
        assert_ptr_equal(safetensors_find(&tensors, tensor->name), tensor);
        total += tensor->bytes;
    }
    assert_true(total + 8 + tensors.files[0].header_bytes == size);
    safetensors_close(&tensors);
    close(descriptor);
}

static void test_checkpoints(void **state)
{
    static const char header[] =
        "{\"__metadata__\": {\"format\": \"pt\"}, "
        "\"a\": {\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [0, 24]}, "
        "\"b.weight\": {\"dtype\": \"F8_E4M3\", \"shape\": [4], \"data_offsets\": [24, 28]}, "
        "\"c\": {\"dtype\": \"I64\", \"shape\": [], \"data_offsets\": [28, 36]}, "
        "\"d\": {\"dtype\": \"BF16\", \"shape\": [0, 7], \"data_offsets\": [36, 36]}}";
    char file[8 + sizeof(header) - 1 + 36] = {(char)(sizeof(header) - 1),
                                              (sizeof(header) - 1) >> 8};

    (void)state;
    memcpy(file + 8, header, sizeof(header) - 1);
    fuzz_run("checkpoint", file, sizeof(file), 20000, feed_checkpoint, NULL);
}

/* A tokenizer that is taken gives text back as it got it. */
static void feed_tokenizer(void *context, const char *bytes, size_t size)
{
    static const char text[] = "Hello wörld 12345, \xe6\x97\xa5\xe6\x9c\xac <think>";
    tokenizer_decoder_t decoder = {0};
    tokenizer_t *tokenizer;
    uint32_t ids[256];
    size_t count = 0;
    char path[64];
    int descriptor = memory_file(bytes, size, path, sizeof(path));
    status_t status;

    (void)context;
    trail_reset();
    status = tokenizer_open(path, &tokenizer);
    close(descriptor);
    if (status != STATUS_OK) {
        assert_true(trail_text()[0] != '\0');
        return;
    }
    if (tokenizer_encode_plain(tokenizer, text, strlen(text), ids, COUNT_OF(ids), &count) ==
        STATUS_OK) {
        char *delta = malloc(tokenizer_delta_bytes_max(tokenizer));

        assert_non_null(delta);
        for (size_t i = 0; i < count; i++) {
            assert_true(ids[i] < tokenizer_id_count(tokenizer));
            tokenizer_decode(tokenizer, &decoder, ids[i], delta);
        }
        tokenizer_decode_end(&decoder, delta);
        free(delta);
    }
    tokenizer_close(tokenizer);
}

static void test_tokenizers(void **state)
{
    size_t size;
    char *seed = fuzz_read("model/tiny/tokenizer.json", &size);

    (void)state;
    fuzz_run("tokenizer", seed, size, 150, feed_tokenizer, NULL);
    free(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topology_files),
        cmocka_unit_test(test_model_configurations),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_tokenizers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
