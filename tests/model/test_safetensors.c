#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/json_scan.h"
#include "model/safetensors.h"
#include "runtime/base/random.h"

static char folder[] = "/tmp/lockstep_safetensors_XXXXXX";
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

static void write_file(const char *name, const void *bytes, size_t size)
{
    char full[PATH_BYTES_MAX];
    FILE *out;

    snprintf(full, sizeof(full), "%s/%s", folder, name);
    out = fopen(full, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    fclose(out);
}

/* A file with this header, which claims to be `claimed` bytes long, and `body` bytes of tensors. */
static void write_claiming(uint64_t claimed, const char *header, size_t body)
{
    size_t length = strlen(header), size = 8 + length + body;
    uint8_t *bytes = calloc(1, size);

    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(claimed >> 8 * i);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < body; i++)
        bytes[8 + length + i] = (uint8_t)(i + 1);
    write_file("model.safetensors", bytes, size);
    free(bytes);
}

static status_t open_with(const char *header, size_t body, safetensors_t *file)
{
    write_claiming(strlen(header), header, body);
    return safetensors_open(file, folder);
}

static void test_tensors_are_found_with_shape_and_bytes(void **state)
{
    const tensor_view_t *tensor;
    safetensors_t file;
    char text[64];

    (void)state;
    assert_int_equal(
        open_with("{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\\u00e9\\\"}\"},"
                  "\"b\":{\"data_offsets\":[6,10],\"shape\":[],\"dtype\":\"F32\"},\n"
                  " \"a.weight\" : {\"dtype\":\"BF16\",\"shape\":[3,1],\"data_offsets\":[0,6]}, "
                  "\"empty\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[6,6]}}   ",
                  10, &file),
        STATUS_OK);
    assert_int_equal(file.tensor_count, 3);
    assert_string_equal(file.tensors[0].name, "a.weight"); /* sorted */
    assert_null(safetensors_find(&file, "c"));
    tensor = safetensors_find(&file, "b");
    tensor_describe(tensor, text, sizeof(text));
    assert_string_equal(text, "F32 []");
    assert_memory_equal(tensor->data, "\x07\x08\x09\x0a", 4);
    tensor = safetensors_find(&file, "a.weight");
    tensor_describe(tensor, text, sizeof(text));
    assert_string_equal(text, "BF16 [3, 1]");
    assert_int_equal(tensor->bytes, 6);
    safetensors_close(&file);
    assert_null(safetensors_find(&file, "b"));
}

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

/* Everything that a header may lie about, and what the refusal says. */
static void test_lies_are_refused_with_their_reason(void **state)
{
    static const struct {
        const char *header;
        size_t body;
        const char *reason;
    } rows[] = {
        {"{" T("a", "F32", "[2]", "[0,8]") "," T("b", "F32", "[1]", "[4,8]") "}", 8, "overlap"},
        {"{" T("a", "F32", "[1]", "[0,4]") "," T("b", "F32", "[1]", "[8,12]") "}", 12, "a hole"},
        {"{" T("a", "F32", "[1]", "[4,8]") "}", 8, "a hole"},
        {"{" T("a", "F32", "[1]", "[0,4]") "}", 5, "end with its last tensor"},
        {"{}", 1, "end with its last tensor"},
        {"{" T("a", "F32", "[2]", "[0,8]") "}", 7, "tensor a: expected offsets within"},
        {"{" T("a", "F32", "[2]", "[8,0]") "}", 8, "tensor a: expected offsets within"},
        {"{" T("a", "U8", "[2]", "[18446744073709551614,18446744073709551615]") "}", 8,
         "tensor a: expected offsets within"},
        {"{" T("a", "U8", "[8]", "[0,18446744073709551615]") "}", 8, "expected offsets within"},
        {"{" T("a", "U8", "[8]", "[0,18446744073709551616]") "}", 8, "above 2^64 - 1"},
        {"{" T("a", "F32", "[3]", "[0,8]") "}", 8, "expected 12 bytes for F32 [3], found 8"},
        {"{" T("a", "F64", "[4294967296,4294967296]", "[0,8]") "}", 8, "larger than 2^64"},
        {"{" T("a", "F64", "[2305843009213693952]", "[0,0]") "}", 0, "larger than 2^64"},
        {"{" T("a", "U8", "[18446744073709551615,2]", "[0,8]") "}", 8, "larger than 2^64"},
        {"{" T("a", "F32", "[-1]", "[0,4]") "}", 4, "whole number"},
        {"{" T("a", "F32", "[1.0]", "[0,4]") "}", 4, "whole number"},
        {"{" T("a", "F32", "[01]", "[0,4]") "}", 4, "leading zero"},
        {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "8 dimensions"},
        {"{" T("a", "F33", "[1]", "[0,4]") "}", 4, "tensor a: unknown dtype"},
        {"{" T("a", "F32", "[1]", "[0]") "}", 4, "tensor a"},
        {"{" T("a", "F32", "[1]", "[0,4,8]") "}", 4, "tensor a"},
        {"{" T("a", "F32", "[1]", "[0,4]") "," T("a", "F32", "[1]", "[4,8]") "}", 8,
         "tensor a: expected once"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets, each once"},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4,
         "each once"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"more\":1}}", 4,
         "each once"},
        {"{" T("", "F32", "[1]", "[0,4]") "}", 4, "printable ASCII"},
        {"{" T("a b", "F32", "[1]", "[0,4]") "}", 4, "printable ASCII"},
        {"{" T("a\\n", "F32", "[1]", "[0,4]") "}", 4, "printable ASCII"},
        {"{" T("\xc3\xa9", "F32", "[1]", "[0,4]") "}", 4, "printable ASCII"},
        {"{" T("\xc3", "F32", "[1]", "[0,4]") "}", 4, "UTF-8"},
        {"{\"__metadata__\":{\"x\":\"\xff\"}}", 0, "UTF-8"},
        {"{\"__metadata__\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
         0, "nested too deeply"},
        {"[]", 0, "expected an object"},
        {" {}", 0, "first byte"},
        {"", 0, "expected an object"},
        {"{", 0, "expected a string"},
        {"{\"a", 0, "without an end"},
        {"{} x", 0, "text behind the end"},
        {"{" T("a", "F32", "[1]", "[0,4]") ",}", 4, "expected a string"},
        {"{\"a\"}", 0, "punctuation"},
    };
    safetensors_t file;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        trail_reset();
        assert_int_equal(open_with(rows[i].header, rows[i].body, &file), STATUS_BAD_FILE);
        if (!strstr(trail_text(), rows[i].reason))
            fail_msg("case %zu: expected \"%s\", found \"%s\"", i, rows[i].reason, trail_text());
    }
}

static void test_lengths_of_the_header_are_checked(void **state)
{
    static const uint64_t claims[] = {
        3,
        UINT64_MAX,
        UINT64_MAX - 7,
        UINT64_MAX - 8,
        1ull << 63,
        1ull << 32,
        CHECKPOINT_HEADER_BYTES_MAX,
        0,
    };
    safetensors_t file;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(claims); i++) {
        write_claiming(claims[i], "{}", 0);
        assert_int_equal(safetensors_open(&file, folder), STATUS_BAD_FILE);
    }
    for (size_t size = 0; size < 8; size++) {
        write_file("model.safetensors", "\2\0\0\0\0\0\0\0", size);
        assert_int_equal(safetensors_open(&file, folder), STATUS_BAD_FILE);
    }
    write_claiming(2, "{}", 0);
    assert_int_equal(safetensors_open(&file, folder), STATUS_OK);
    assert_int_equal(file.tensor_count, 0);
    safetensors_close(&file);
    unlink(path);
    assert_int_equal(safetensors_open(&file, folder), STATUS_NOT_FOUND);
    mkdir(path, 0700);
    assert_int_not_equal(safetensors_open(&file, folder), STATUS_OK);
    rmdir(path);
}

/* Any byte of a header changed, any tail cut off: opened or refused, and all views within the file. */
static void test_changed_bytes_never_lead_out_of_the_file(void **state)
{
    static const char header[] =
        "{\"__metadata__\":{\"a\":[1,{\"b\":null}]}," T("a", "BF16", "[3,1]", "[0,6]") "," T(
            "b", "F32", "[2]", "[6,14]") "," T("c", "U8", "[2,1,1]", "[14,16]") "}";
    static const char characters[] = "0129[]{},:\"\\ \xc3";
    enum { SIZE = 8 + sizeof(header) - 1 + 16 };
    uint8_t good[SIZE] = {sizeof(header) - 1}, bytes[SIZE];
    uint32_t opened = 0, refused = 0;
    random_t random;

    (void)state;
    random_init(&random, 9);
    memcpy(good + 8, header, sizeof(header) - 1);
    for (int round = 0; round < 4000; round++) {
        size_t size = round % 4 ? SIZE : random_below(&random, SIZE);
        safetensors_t file;

        memcpy(bytes, good, SIZE);
        for (int flips = round % 3; flips >= 0; flips--) {
            uint8_t other = (uint8_t)random_next(&random);

            if (round % 2)
                other = (uint8_t)characters[random_below(&random, strlen(characters))];
            bytes[random_below(&random, SIZE - 16)] = other;
        }
        write_file("model.safetensors", bytes, size);
        if (safetensors_open(&file, folder) != STATUS_OK) {
            refused++;
            continue;
        }
        opened++;
        for (uint32_t i = 0; i < file.tensor_count; i++) {
            const tensor_view_t *tensor = &file.tensors[i];

            assert_true(tensor->data >= file.files[0].bytes);
            assert_true(tensor->bytes <= (uint64_t)(file.files[0].bytes + size - tensor->data));
        }
        safetensors_close(&file);
    }
    assert_true(opened > 50 && refused > 2000);
}

/* -- shards ---------------------------------------------------------------------------------- */

static void write_shard(const char *name, const char *header, size_t body)
{
    uint8_t bytes[512] = {(uint8_t)strlen(header)};

    memcpy(bytes + 8, header, strlen(header));
    write_file(name, bytes, 8 + strlen(header) + body);
}

static void write_index(const char *map)
{
    char text[512];
    int size =
        snprintf(text, sizeof(text), "{\"metadata\":{\"total_size\":8},\"weight_map\":{%s}}", map);

    write_file("model.safetensors.index.json", text, (size_t)size);
}

static void test_index_and_shards_must_agree(void **state)
{
    static const struct {
        const char *map, *reason;
    } rows[] = {
        {"\"a\":\"1.st\",\"c\":\"2.st\"",
         "tensor b: expected in model.safetensors.index.json, found only in"},
        {"\"a\":\"1.st\",\"b\":\"2.st\",\"b2\":\"2.st\"", "tensor b2: expected in 2.st"},
        {"\"a\":\"2.st\",\"b\":\"1.st\"", "tensor a: expected in 2.st"},
        {"\"a\":\"1.st\",\"b\":\"2.st\",\"c\":\"2.st\"", "tensor c: expected in 2.st"},
        {"\"a\":\"1.st\",\"b\":\"2.st\",\"b\":\"2.st\"", "tensor b"},
        {"\"a\":\"../1.st\",\"b\":\"2.st\"", "beside the index"},
        {"\"a\":\".\",\"b\":\"2.st\"", "beside the index"},
        {"\"a\":\"/etc/passwd\",\"b\":\"2.st\"", "beside the index"},
        {"\"a\":7", "expected a string"},
    };
    safetensors_t file;
    char name[PATH_BYTES_MAX];

    (void)state;
    write_shard("1.st", "{" T("a", "F32", "[1]", "[0,4]") "}", 4);
    write_shard("2.st", "{" T("b", "F32", "[1]", "[0,4]") "}", 4);
    write_index("\"a\":\"1.st\",\"b\":\"2.st\"");
    assert_int_equal(safetensors_open(&file, folder), STATUS_OK);
    assert_int_equal(file.file_count, 2);
    assert_int_equal(file.tensor_count, 2);
    assert_string_equal(file.files[safetensors_find(&file, "b")->file].name, "2.st");
    safetensors_close(&file);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        write_index(rows[i].map);
        trail_reset();
        assert_int_equal(safetensors_open(&file, folder), STATUS_BAD_FILE);
        if (!strstr(trail_text(), rows[i].reason))
            fail_msg("case %zu: expected \"%s\", found \"%s\"", i, rows[i].reason, trail_text());
    }
    write_index("\"a\":\"1.st\",\"b\":\"3.st\"");
    assert_int_equal(safetensors_open(&file, folder), STATUS_NOT_FOUND);
    /* The same tensor in two shards. */
    write_shard("2.st", "{" T("a", "F32", "[1]", "[0,4]") "}", 4);
    write_index("\"a\":\"1.st\",\"b\":\"2.st\"");
    assert_int_equal(safetensors_open(&file, folder), STATUS_BAD_FILE);
    assert_non_null(strstr(trail_text(), "tensor a: expected once, found in 1.st and in 2.st"));
    write_file("model.safetensors.index.json", "{\"weight_map\":[]}", 17);
    assert_int_equal(safetensors_open(&file, folder), STATUS_BAD_FILE);
    write_file("model.safetensors.index.json", "{\"metadata\":{}}", 15);
    assert_int_equal(safetensors_open(&file, folder), STATUS_BAD_FILE);
    assert_non_null(strstr(trail_text(), "expected weight_map"));
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "%s/%s", folder,
                 i == 0   ? "1.st"
                 : i == 1 ? "2.st"
                          : "model.safetensors.index.json");
        unlink(name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_are_found_with_shape_and_bytes),
        cmocka_unit_test(test_lies_are_refused_with_their_reason),
        cmocka_unit_test(test_lengths_of_the_header_are_checked),
        cmocka_unit_test(test_changed_bytes_never_lead_out_of_the_file),
        cmocka_unit_test(test_index_and_shards_must_agree),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
