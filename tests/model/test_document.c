/* test_document.c - what is JSON and what is not, and Python's way of writing it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/document.h"
#include "runtime/base/limits.h"
#include "runtime/base/random.h"

static status_t parse(document_t *document, document_dialect_t dialect, const char *text)
{
    return document_parse(document, dialect, text, strlen(text));
}

static void expect_python(const char *text, const char *want)
{
    document_t document;
    text_buffer_t out;
    text_buffer_init(&out, 1 << 20);
    status_t status = parse(&document, DOCUMENT_PYTHON, text);
    if (status != STATUS_OK)
        fail_msg("%s: %s", text, trail_text());
    document_put_python(&document, 0, &out);
    text_put(&out, "", 1);
    assert_string_equal(out.bytes, want);
    text_buffer_fini(&out);
    document_fini(&document);
}

static void test_values_are_written_as_python_writes_them(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{}", "{}"},
        {" [ ] ", "[]"},
        {"[1,2 , 3]", "[1, 2, 3]"},
        {"{\"b\":1,\"a\":[null,true,false]}", "{\"b\": 1, \"a\": [null, true, false]}"},
        {"{\"a\":1,\"b\":2,\"a\":3}", "{\"a\": 3, \"b\": 2}"},
        {"{\"\\u0061\":1,\"a\":{\"x\":[1]},\"c\":0}", "{\"a\": {\"x\": [1]}, \"c\": 0}"},
        {"0", "0"},
        {"-0", "0"},
        {"-0.0", "-0.0"},
        {"123456789012345678901234567890", "123456789012345678901234567890"},
        {"1.0", "1.0"},
        {"1e3", "1000.0"},
        {"1E5", "100000.0"},
        {"1e15", "1000000000000000.0"},
        {"1e16", "1e+16"},
        {"1e22", "1e+22"},
        {"123456789.125e8", "1.23456789125e+16"},
        {"0.1", "0.1"},
        {"0.10", "0.1"},
        {"0.0001", "0.0001"},
        {"0.00001", "1e-05"},
        {"1.5e-7", "1.5e-07"},
        {"5e-324", "5e-324"},
        {"7.1202363472230444e-307", "7.120236347223045e-307"},
        {"2.2250738585072014e-308", "2.2250738585072014e-308"},
        {"1.7976931348623157e308", "1.7976931348623157e+308"},
        {"1e999", "Infinity"},
        {"-1e999", "-Infinity"},
        {"3.141592653589793238", "3.141592653589793"},
        {"100.25", "100.25"},
        {"9007199254740993.0", "9007199254740992.0"},
        {"NaN", "NaN"},
        {"[-Infinity]", "[-Infinity]"},
        {"\"\\u00e9\\ud83d\\ude00\\/\\u2028\\u007f\\u0001\\b\\f\\n\\r\\t\\\"\\\\\"",
         "\"é😀/\xe2\x80\xa8\x7f\\u0001\\b\\f\\n\\r\\t\\\"\\\\\""},
        {"\"\\ud83d\"", "\"\xef\xbf\xbd\""},
        {"\"\\ude00\\ud83d\\u0041\"", "\"\xef\xbf\xbd\xef\xbf\xbd"
                                      "A\""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        expect_python(cases[i][0], cases[i][1]);
}

static void test_what_is_not_json_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",          " ",           "nul",
        "nulll",     "[",           "]",
        "[1",        "[1,",         "[1,]",
        "[,1]",      "[1 2]",       "{",
        "{\"a\"",    "{\"a\":",     "{\"a\":1",
        "{\"a\":1,", "{\"a\":1,}",  "{a:1}",
        "{1:1}",     "{\"a\" 1}",   "{\"a\":1]",
        "[1}",       "01",          "-",
        "-a",        "1.",          ".5",
        "1.e5",      "1e",          "1e+",
        "+1",        "0x10",        "1 1",
        "\"",        "\"a",         "\"\\\"",
        "\"\\x\"",   "\"\\u12\"",   "\"\\u123g\"",
        "\"\n\"",    "\"\t\"",      "'a'",
        "NaN",       "Infinity",    "-Infinity",
        "tru",       "[1]x",        "\"a\"b",
        "\xff",      "\"\xc3\"",    "\"\xed\xa0\x80\"",
        "// c\n1",   "{\"a\":1}{}",
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        document_t document;
        if (parse(&document, DOCUMENT_STRICT, cases[i]) != STATUS_INVALID)
            fail_msg("taken: %s", cases[i]);
        document_fini(&document);
    }
}

static void test_depth_is_bounded(void **state)
{
    (void)state;
    char text[4 * DOCUMENT_DEPTH_MAX];
    for (size_t depth = DOCUMENT_DEPTH_MAX; depth <= DOCUMENT_DEPTH_MAX + 1; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        document_t document;
        status_t status = document_parse(&document, DOCUMENT_STRICT, text, 2 * depth);
        assert_int_equal(status, depth > DOCUMENT_DEPTH_MAX ? STATUS_INVALID : STATUS_OK);
        document_fini(&document);
    }
}

static void test_members_are_found_by_their_characters(void **state)
{
    (void)state;
    document_t document;
    assert_int_equal(parse(&document, DOCUMENT_STRICT,
                           "{\"n\\u00e4me\":\"x\",\"empty\":{},\"list\":[],\"n\\u00e4me\":\"y\"}"),
                     STATUS_OK);
    assert_true(document.twins);
    uint32_t node = document_member(&document, 0, "näme");
    assert_true(document_equals(&document, node, "y"));
    assert_false(document_equals(&document, node, "yy"));
    assert_false(document_equals(&document, node, ""));
    assert_int_equal(document_member(&document, 0, "nam"), DOCUMENT_NONE);
    uint32_t empty = document_member(&document, 0, "empty");
    assert_int_equal(document_next(&document, empty, DOCUMENT_NONE), DOCUMENT_NONE);
    assert_int_equal(document_member(&document, empty, "n"), DOCUMENT_NONE);
    size_t keys = 0;
    for (uint32_t key = document_next(&document, 0, DOCUMENT_NONE); key != DOCUMENT_NONE;
         key = document_next(&document, 0, key))
        keys++;
    assert_int_equal(keys, 3);
    document_fini(&document);
}

static void test_many_equal_keys_take_no_quadratic_time(void **state)
{
    (void)state;
    text_buffer_t text;
    text_buffer_init(&text, 1 << 24);
    text_put_text(&text, "{");
    for (unsigned i = 0; i < 200000; i++) {
        char member[48];
        snprintf(member, sizeof(member), "%s\"key%u\":%u", i == 0 ? "" : ",", i / 2, i);
        text_put_text(&text, member);
    }
    text_put_text(&text, "}");
    document_t document;
    assert_int_equal(document_parse(&document, DOCUMENT_STRICT, text.bytes, text.used), STATUS_OK);
    assert_true(document.twins);
    size_t keys = 0;
    for (uint32_t key = document_next(&document, 0, DOCUMENT_NONE); key != DOCUMENT_NONE;
         key = document_next(&document, 0, key))
        keys++;
    assert_int_equal(keys, 100000);
    document_fini(&document);
    text_buffer_fini(&text);
}

/* A rendered value is JSON again and renders to itself; broken texts never do harm. */
static void test_random_texts(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "{", "}",      "[",    "]",    ",", ":",  "\"", "\"a\"", "\\u00e4", "\\ud800",
        "1", "-0.5e3", "null", "true", " ", "\n", "é",  "\\",    "\"b\":"};
    random_t random;
    random_init(&random, 3);
    for (unsigned round = 0; round < 20000; round++) {
        char text[128];
        size_t used = 0, count = (size_t)random_below(&random, 12);
        for (size_t i = 0; i < count; i++) {
            const char *part = parts[random_below(&random, COUNT_OF(parts))];
            memcpy(text + used, part, strlen(part));
            used += strlen(part);
        }
        document_t document;
        if (document_parse(&document, DOCUMENT_STRICT, text, used) == STATUS_OK) {
            text_buffer_t out;
            text_buffer_init(&out, 1 << 16);
            document_put_python(&document, 0, &out);
            text_put(&out, "", 1);
            expect_python(out.bytes, out.bytes);
            text_buffer_fini(&out);
        }
        document_fini(&document);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_written_as_python_writes_them),
        cmocka_unit_test(test_what_is_not_json_is_refused),
        cmocka_unit_test(test_depth_is_bounded),
        cmocka_unit_test(test_members_are_found_by_their_characters),
        cmocka_unit_test(test_many_equal_keys_take_no_quadratic_time),
        cmocka_unit_test(test_random_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
