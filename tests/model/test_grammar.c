/* test_grammar.c - what grammars of each kind let through, and that masks say the same as tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/grammar.h"
#include "model/grammar_block.h"
#include "runtime/base/random.h"

static tokenizer_t *tokenizer;
static grammar_vocabulary_t *vocabulary;
static uint64_t *mask, *other;
static void *memory, *spare;

static status_t compile(grammar_kind_t kind, const char *source, void **block, size_t *bytes)
{
    grammar_spec_t spec = {.kind = kind, .source = source, .length = strlen(source)};
    grammar_refusal_t refusal;

    *block = NULL;
    return grammar_compile(&spec, grammar_vocabulary_digest(vocabulary), block, bytes, &refusal);
}

static void *must_compile(grammar_kind_t kind, const char *source)
{
    void *block;
    size_t bytes;

    if (compile(kind, source, &block, &bytes) != STATUS_OK)
        fail_msg("%s: %s", source, trail_text());
    assert_int_equal(grammar_check(block, bytes, grammar_vocabulary_digest(vocabulary)), STATUS_OK);
    return block;
}

/* Takes the text token by token, as far as the masks go. */
static bool accepts(const void *block, const char *text)
{
    grammar_matcher_t matcher;
    uint32_t ids[4096];
    size_t count, at = 0;

    assert_int_equal(grammar_open(&matcher, block, vocabulary, memory), STATUS_OK);
    assert_int_equal(tokenizer_encode_plain(tokenizer, text, strlen(text), ids, 4096, &count),
                     STATUS_OK);
    for (size_t next = 0; at < strlen(text);) {
        uint32_t id = ids[next++], forced;
        size_t length;
        if (grammar_forced(&matcher, &forced, 1) == 1 && forced != id) {
            const char *piece = tokenizer_piece(tokenizer, forced, &length);
            if (strncmp(text + at, piece, length) != 0)
                return false;
            id = forced; /* the same bytes, cut in another way */
            next = 0;
            assert_int_equal(tokenizer_encode_plain(tokenizer, text + at + length,
                                                    strlen(text + at + length), ids, 4096, &count),
                             STATUS_OK);
        }
        tokenizer_piece(tokenizer, id, &length);
        assert_int_equal(grammar_mask(&matcher, mask), STATUS_OK);
        bool allowed = mask[id / 64] >> id % 64 & 1;
        assert_int_equal(grammar_take(&matcher, id), allowed ? STATUS_OK : STATUS_REFUSED);
        if (!allowed)
            return false;
        at += length;
    }
    return grammar_can_end(&matcher);
}

typedef struct {
    grammar_kind_t kind;
    const char *source;
    const char *good[6], *bad[6];
} case_t;

static void check_cases(const case_t *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *block = must_compile(cases[i].kind, cases[i].source);
        for (size_t j = 0; j < 6 && cases[i].good[j] != NULL; j++) {
            if (!accepts(block, cases[i].good[j]))
                fail_msg("%s refuses %s", cases[i].source, cases[i].good[j]);
        }
        for (size_t j = 0; j < 6 && cases[i].bad[j] != NULL; j++) {
            if (accepts(block, cases[i].bad[j]))
                fail_msg("%s accepts %s", cases[i].source, cases[i].bad[j]);
        }
        free(block);
    }
}

static const case_t schema_cases[] = {
    {0,
     "true",
     {"{\"a\": [1, null]}", "-0.0", "1e-07", "\"\\u0001\""},
     {"-0", "1.50", "1e5", "[1,2]", "\"\\/\""}},
    {0,
     "{\"type\":\"integer\",\"minimum\":-3,\"maximum\":120}",
     {"-3", "0", "120"},
     {"-4", "121", "1.0", "007"}},
    {0,
     "{\"type\":\"number\",\"exclusiveMinimum\":0.5,\"maximum\":2}",
     {"0.51", "1", "2.0"},
     {"0.5", "2.01", "0"}},
    {0, "{\"type\":\"integer\",\"multipleOf\":7}", {"0", "-14", "7000000000007"}, {"1", "13"}},
    {0,
     "{\"not\":{\"type\":[\"object\",\"array\",\"number\"]}}",
     {"\"x\"", "null"},
     {"{}", "1", "1.5"}},
    {0, "{\"enum\":[1,\"a\",{\"b\":[2]}],\"not\":{\"const\":1}}", {"\"a\"", "{\"b\": [2]}"}, {"1"}},
    {0,
     "{\"properties\":{\"b\":{\"type\":\"null\"},\"a\":{\"const\":1}},\"required\":[\"a\"],"
     "\"additionalProperties\":{\"type\":\"string\"}}",
     {"{\"b\": null, \"a\": 1}", "{\"a\": 1, \"c\": \"\"}", "7"},
     {"{}", "{\"a\": 1, \"b\": null}", "{\"a\": 1, \"c\": 2}",
      "{\"a\": 1, \"c\": \"\", \"c\": \"\"}"}},
    {0,
     "{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"null\"}},"
     "\"additionalProperties\":false,\"minProperties\":1,\"maxProperties\":2}",
     {"{\"x\": null}", "{\"xa\": null, \"xb\": null}"},
     {"{}", "{\"a\": null}", "{\"xa\": null, \"xb\": null, \"xc\": null}"}},
    {0,
     "{\"type\":\"object\",\"propertyNames\":{\"maxLength\":2}}",
     {"{\"ab\": 1}", "{}"},
     {"{\"abc\": 1}"}},
    {0,
     "{\"type\":\"array\",\"prefixItems\":[{\"type\":\"null\"}],\"items\":{\"type\":"
     "\"integer\"},\"minItems\":1,\"maxItems\":3}",
     {"[null]", "[null, 1, 2]"},
     {"[]", "[1]", "[null, 1, 2, 3]", "[null, null]"}},
    {0,
     "{\"type\":\"array\",\"contains\":{\"const\":5},\"maxItems\":2}",
     {"[5]", "[1, 5]"},
     {"[]", "[1, 2]"}},
    {0,
     "{\"type\":\"array\",\"items\":{\"enum\":[1,2]},\"uniqueItems\":true}",
     {"[]", "[2, 1]"},
     {"[1, 1]"}},
    {0,
     "{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
     {"\"\\n\\\"\"", "\"\xc3\xa9zz\""},
     {"\"a\"", "\"abcd\""}},
    {0,
     "{\"type\":\"string\",\"pattern\":\"b$\",\"not\":{\"pattern\":\"^a\"}}",
     {"\"b\"", "\"xab\""},
     {"\"ab\"", "\"bc\""}},
    {0,
     "{\"type\":\"string\",\"format\":\"date\"}",
     {"\"2024-02-29\"", "\"1999-12-31\""},
     {"\"2023-02-29\"", "\"1999-1-01\"", "\"2100-02-29\""}},
    {0,
     "{\"type\":\"string\",\"format\":\"ipv4\"}",
     {"\"10.0.255.1\""},
     {"\"256.0.0.1\"", "\"1.2.3\""}},
    {0,
     "{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\",\"minimum\":3}]}",
     {"2", "3.5"},
     {"3", "2.5"}},
    {0,
     "{\"type\":\"object\",\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"}},\"required\":["
     "\"k\"]},{\"properties\":{\"k\":{\"const\":\"b\"},\"v\":{\"type\":\"null\"}},\"required\":"
     "[\"k\",\"v\"]}]}",
     {"{\"k\": \"a\"}", "{\"k\": \"b\", \"v\": null}"},
     {"{\"k\": \"b\"}", "{\"k\": \"c\"}"}},
    {0,
     "{\"if\":{\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"]},\"then\":{"
     "\"required\":[\"b\"]},\"properties\":{\"a\":{},\"b\":{}}}",
     {"{\"a\": 2}", "{\"a\": 1, \"b\": 0}", "{}"},
     {"{\"a\": 1}"}},
    {0,
     "{\"properties\":{\"a\":{},\"b\":{}},\"dependentRequired\":{\"a\":[\"b\"]}}",
     {"{\"b\": 1}", "{\"a\": 1, \"b\": 1}"},
     {"{\"a\": 1}"}},
    {0,
     "{\"$ref\":\"#/$defs/"
     "t\",\"$defs\":{\"t\":{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#/$defs/"
     "t\"}},\"additionalProperties\":false}}}",
     {"{}", "{\"n\": {\"n\": {}}}"},
     {"{\"n\": 1}", "{\"m\": {}}"}},
    {0,
     "{\"allOf\":[{\"properties\":{\"a\":{\"minimum\":2}}},{\"properties\":{\"a\":{\"maximum\":"
     "3,\"type\":\"integer\"}},\"required\":[\"a\"]}],\"type\":\"object\"}",
     {"{\"a\": 2}"},
     {"{\"a\": 4}", "{\"a\": 1}", "{}"}},
    {0,
     "{\"$schema\":\"http://json-schema.org/draft-04/"
     "schema#\",\"type\":\"integer\",\"minimum\":1,\"exclusiveMinimum\":true}",
     {"2"},
     {"1"}},
};

static void test_schemas(void **state)
{
    (void)state;
    check_cases(schema_cases, COUNT_OF(schema_cases));
}

static void test_space_is_free_where_that_is_asked_for(void **state)
{
    static const char source[] =
        "{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"items\":{\"type\":"
        "\"null\"}}},\"required\":[\"a\"],\"type\":\"object\"}";
    static const char *const good[] = {"{\"a\":1}", " { \"a\" : 1 ,\n\"b\":[ null,null ]\t} ",
                                       "{\"a\": 1, \"c\" :{ }}"};
    static const char *const bad[] = {"{\"a\":1 1}", "{\"a\" 1}", "{ }",
                                      "{\"a\":1,\"c\":1,\"c\":2}"};
    grammar_spec_t spec = {.any_space = true, .source = source, .length = sizeof(source) - 1};
    grammar_refusal_t refusal;
    void *block;
    size_t bytes;

    (void)state;
    assert_int_equal(
        grammar_compile(&spec, grammar_vocabulary_digest(vocabulary), &block, &bytes, &refusal),
        STATUS_OK);
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        if (!accepts(block, good[i]))
            fail_msg("refused: %s", good[i]);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        if (accepts(block, bad[i]))
            fail_msg("accepted: %s", bad[i]);
    }
    free(block);
}

static void test_other_notations(void **state)
{
    static const case_t cases[] = {
        {GRAMMAR_REGEX, "(ab|c){2,3}", {"abab", "cabc"}, {"ab", "cccc", "abx"}},
        {GRAMMAR_REGEX, "[^a-c\\n]+\\.\\d", {"x.1", "\xe4\xb8\xad.9"}, {"a.1", "x.", "\n.1"}},
        {GRAMMAR_REGEX, "(?=.*1)[a-z0-9]+(?!x)z", {"1z", "a1bz"}, {"az", "1"}},
        {GRAMMAR_CHOICE,
         "[\"yes\", \"yesterday\", \"\\u00e9\"]",
         {"yes", "yesterday", "\xc3\xa9"},
         {"y", "yester", ""}},
        {GRAMMAR_GBNF,
         "root ::= pair (\",\" pair)* # list\npair ::= [a-z]{2} \"=\" value\nvalue ::= \"(\" value "
         "\")\" | [0-9]+\n",
         {"ab=1", "ab=((12)),cd=3"},
         {"a=1", "ab=(1", "ab=1,"}},
        {GRAMMAR_GBNF,
         "root ::= \"\\\"\" ([^\"\\\\] | \"\\\\\" .)* \"\\\"\"",
         {"\"a\\\"b\""},
         {"\"a\"b", "\"\\\""}},
        {GRAMMAR_LARK,
         "start: expr\n?expr: expr (\"+\" | \"-\") term -> sum\n    | term\nterm: NUMBER | \"(\" "
         "expr \")\"\nNUMBER: /[0-9]+/\n%ignore /[ ]+/\n",
         {"1", " 1 + (2-3)", "((7))"},
         {"1 +", "1 2", "(1"}},
        {GRAMMAR_LARK,
         "start: A b~2..3 [\"!\"]\nA: \"x\"i & ~\"x\"\nb: \"b\" | B\nB: \"0\"..\"3\"\n",
         {"Xbb", "Xb3b!"},
         {"xbb", "Xb", "X4b"}},
        {GRAMMAR_LARK,
         "start: INT \",\" ESCAPED_STRING\n%import common.INT\n%import common.ESCAPED_STRING\n",
         {"12,\"a\\\"\""},
         {"12,\"", "a,\"\""}},
    };

    (void)state;
    check_cases(cases, COUNT_OF(cases));
}

static void test_what_is_not_exact_is_refused_by_place(void **state)
{
    static const struct {
        const char *source, *pointer, *keyword;
        status_t status;
    } cases[] = {
        {"{\"properties\":{\"a\":{\"items\":{\"unevaluatedItems\":false}}}}", "/properties/a/items",
         "unevaluatedItems", STATUS_UNSUPPORTED},
        {"{\"type\":\"array\",\"uniqueItems\":true}", "", "uniqueItems", STATUS_UNSUPPORTED},
        {"{\"properties\":{\"a\":{\"pattern\":\"(a)\\\\1\"}}}", "/properties/a", "pattern",
         STATUS_UNSUPPORTED},
        {"{\"properties\":{\"a\":{\"pattern\":\"(\"}}}", "/properties/a", "pattern",
         STATUS_INVALID},
        {"{\"items\":{\"$ref\":\"http://elsewhere/x\"}}", "/items", "$ref", STATUS_UNSUPPORTED},
        {"{\"not\":{\"additionalProperties\":false}}", "/not", "additionalProperties",
         STATUS_UNSUPPORTED},
        {"{\"type\":\"nothing\"}", "", "type", STATUS_INVALID},
        {"{\"items\":{\"minLength\":-1}}", "/items", "minLength", STATUS_INVALID},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        grammar_refusal_t refusal;
        grammar_spec_t spec = {.source = cases[i].source, .length = strlen(cases[i].source)};
        void *block = NULL;
        size_t bytes;
        assert_int_equal(grammar_compile(&spec, 0, &block, &bytes, &refusal), cases[i].status);
        assert_string_equal(refusal.pointer, cases[i].pointer);
        assert_string_equal(refusal.keyword, cases[i].keyword);
        assert_null(block);
    }
}

static const struct {
    grammar_kind_t kind;
    const char *source;
} walked[] = {
    {0, "true"},
    {0, "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"n\":{\"type\":"
        "\"number\"}},\"required\":[\"name\"]}"},
    {0,
     "{\"type\":\"object\",\"patternProperties\":{\"^x-\":{\"type\":\"string\",\"maxLength\":3}}}"},
    {0, "{\"type\":\"string\",\"pattern\":\"^[a-z_]+(/[A-Za-z0-9]*)*$\"}"},
    {GRAMMAR_REGEX, "[^x]*"},
    {GRAMMAR_REGEX, "(\\w+ )*\\d{1,4}"},
    {GRAMMAR_GBNF, "root ::= \"(\" root* \")\" [a-z]*"},
    {GRAMMAR_LARK, "start: (WORD \",\")* WORD\nWORD: /[^,]+/\n"},
    {GRAMMAR_CHOICE, "[\"the first\", \"the second\", \"there\"]"},
};

static uint32_t draw(random_t *random)
{
    uint32_t words = grammar_vocabulary_words(vocabulary), count = 0, pick;

    for (uint32_t i = 0; i < words; i++)
        count += (uint32_t)__builtin_popcountll(mask[i]);
    if (count == 0)
        return UINT32_MAX;
    pick = (uint32_t)random_below(random, count);
    for (uint32_t id = 0;; id++) {
        if (mask[id / 64] >> id % 64 & 1 && pick-- == 0)
            return id;
    }
}

/* Every token, tried by itself, is taken exactly if the mask has it; and to be rewound leaves no trace. */
static void compare_with_each_token(grammar_matcher_t *matcher)
{
    uint32_t words = grammar_vocabulary_words(vocabulary), mark;

    memset(other, 0, words * sizeof(*other));
    assert_int_equal(grammar_mark(matcher, &mark), STATUS_OK);
    for (uint32_t id = 0; id < tokenizer_id_count(tokenizer); id++) {
        if (grammar_take(matcher, id) == STATUS_OK)
            other[id / 64] |= (uint64_t)1 << id % 64;
        grammar_rewind(matcher, mark);
    }
    grammar_unmark(matcher, mark);
    assert_memory_equal(mask, other, words * sizeof(*mask));
    assert_int_equal(grammar_mask(matcher, other), STATUS_OK);
    assert_memory_equal(mask, other, words * sizeof(*mask));
}

static void test_masks_have_exactly_the_tokens_that_are_taken(void **state)
{
    random_t random;
    unsigned compared = 0;

    (void)state;
    random_init(&random, 7);
    for (size_t i = 0; i < COUNT_OF(walked); i++) {
        void *block = must_compile(walked[i].kind, walked[i].source);
        for (unsigned walk = 0; walk < 4; walk++) {
            grammar_matcher_t matcher;
            assert_int_equal(grammar_open(&matcher, block, vocabulary, memory), STATUS_OK);
            for (unsigned step = 0; step < 12; step++) {
                assert_int_equal(grammar_mask(&matcher, mask), STATUS_OK);
                compare_with_each_token(&matcher);
                compared++;
                uint32_t id = draw(&random);
                if (id == UINT32_MAX)
                    break;
                assert_int_equal(grammar_take(&matcher, id), STATUS_OK);
            }
        }
        free(block);
    }
    assert_true(compared > 200);
}

/* Memory and block, copied elsewhere, go on alike. */
static void test_a_matcher_and_its_block_can_be_moved(void **state)
{
    grammar_matcher_t matcher, moved;
    random_t random;

    (void)state;
    random_init(&random, 3);
    for (size_t i = 0; i < COUNT_OF(walked); i++) {
        void *block = must_compile(walked[i].kind, walked[i].source), *again;
        size_t bytes;
        assert_int_equal(compile(walked[i].kind, walked[i].source, &again, &bytes), STATUS_OK);
        assert_memory_equal(block, again, bytes); /* equal bytes for equal input */
        assert_int_equal(grammar_open(&matcher, block, vocabulary, memory), STATUS_OK);
        for (unsigned step = 0; step < 6; step++) {
            memcpy(spare, memory, GRAMMAR_MATCHER_BYTES);
            grammar_attach(&moved, again, vocabulary, spare);
            assert_int_equal(grammar_mask(&matcher, mask), STATUS_OK);
            assert_int_equal(grammar_mask(&moved, other), STATUS_OK);
            assert_memory_equal(mask, other, grammar_vocabulary_words(vocabulary) * sizeof(*mask));
            uint32_t id = draw(&random);
            if (id == UINT32_MAX)
                break;
            assert_int_equal(grammar_take(&matcher, id), STATUS_OK);
        }
        ((char *)block)[bytes - 1] ^= 1;
        assert_int_equal(grammar_check(block, bytes, grammar_vocabulary_digest(vocabulary)),
                         STATUS_CORRUPT);
        assert_int_equal(grammar_check(again, bytes, 1), STATUS_MISMATCH);
        assert_int_equal(grammar_check(again, bytes - 1, 0), STATUS_CORRUPT);
        free(block);
        free(again);
    }
}

/* Where text is forced, its tokens are those of the tokenizer, each alone in its mask. */
static void test_forced_text_is_cut_as_the_tokenizer_cuts_it(void **state)
{
    static const char source[] =
        "{\"type\":\"object\",\"properties\":{\"temperature_celsius\":{\"const\":\"not known "
        "yet\"},\"the other value\":{\"type\":\"string\"}},\"required\":[\"temperature_celsius\","
        "\"the other value\"],\"additionalProperties\":false}";
    static const char text[] =
        "{\"temperature_celsius\": \"not known yet\", \"the other value\": \"";
    void *block = must_compile(GRAMMAR_JSON_SCHEMA, source);
    uint32_t ids[64], forced[GRAMMAR_FORCED_MAX];
    size_t count;
    grammar_matcher_t matcher;

    (void)state;
    assert_int_equal(tokenizer_encode_plain(tokenizer, text, strlen(text), ids, 64, &count),
                     STATUS_OK);
    assert_int_equal(grammar_open(&matcher, block, vocabulary, memory), STATUS_OK);
    uint32_t forced_count = grammar_forced(&matcher, forced, GRAMMAR_FORCED_MAX);
    assert_true(forced_count > 8);
    assert_true(count - forced_count <= 2); /* the last word could go on */
    assert_memory_equal(forced, ids, forced_count * sizeof(*ids));
    for (uint32_t i = 0; i < forced_count; i++) {
        assert_int_equal(grammar_mask(&matcher, mask), STATUS_OK);
        uint32_t set = 0;
        for (uint32_t word = 0; word < grammar_vocabulary_words(vocabulary); word++)
            set += (uint32_t)__builtin_popcountll(mask[word]);
        assert_int_equal(set, 1);
        assert_true(mask[forced[i] / 64] >> forced[i] % 64 & 1);
        assert_int_equal(grammar_take(&matcher, forced[i]), STATUS_OK);
    }
    free(block);
    block = must_compile(GRAMMAR_CHOICE, "[\"one answer.\"]"); /* to the very end */
    assert_int_equal(tokenizer_encode_plain(tokenizer, "one answer.", 11, ids, 64, &count),
                     STATUS_OK);
    assert_int_equal(grammar_open(&matcher, block, vocabulary, memory), STATUS_OK);
    assert_int_equal(grammar_forced(&matcher, forced, GRAMMAR_FORCED_MAX), count);
    assert_memory_equal(forced, ids, count * sizeof(*ids));
    assert_int_equal(grammar_forced(&matcher, forced, 1), 1);
    free(block);
}

/* A long answer needs only what is still open; a deep one ends at the same token each time. */
static void test_limits_of_an_answer_are_met_at_the_same_token(void **state)
{
    void *block = must_compile(GRAMMAR_JSON_SCHEMA, "true");
    grammar_matcher_t matcher;
    uint32_t open, count[2];
    size_t ids;

    (void)state;
    assert_int_equal(tokenizer_encode_plain(tokenizer, "[", 1, &open, 1, &ids), STATUS_OK);
    for (unsigned run = 0; run < 2; run++) {
        status_t status = STATUS_OK;
        memset(memory, run ? 0xff : 0, GRAMMAR_MATCHER_BYTES);
        assert_int_equal(grammar_open(&matcher, block, vocabulary, memory), STATUS_OK);
        for (count[run] = 0; status == STATUS_OK && count[run] < 100000; count[run]++) {
            if (run == 1 && count[run] % 7 == 0) /* masks and marks change nothing */
                assert_true(grammar_mask(&matcher, mask) == STATUS_OK);
            status = grammar_take(&matcher, open);
        }
        assert_int_equal(status, STATUS_TOO_LARGE);
    }
    assert_int_equal(count[0], count[1]);
    assert_true(count[0] > 200);

    uint32_t item[32];
    assert_int_equal(tokenizer_encode_plain(tokenizer, "[1", 2, item, 32, &ids), STATUS_OK);
    assert_int_equal(grammar_open(&matcher, block, vocabulary, memory), STATUS_OK);
    for (size_t i = 0; i < ids; i++)
        assert_int_equal(grammar_take(&matcher, item[i]), STATUS_OK);
    assert_int_equal(tokenizer_encode_plain(tokenizer, ", {\"a\": [\"b\"]}", 14, item, 32, &ids),
                     STATUS_OK);
    for (unsigned i = 0; i < 5000; i++) {
        for (size_t j = 0; j < ids; j++)
            assert_int_equal(grammar_take(&matcher, item[j]), STATUS_OK);
    }
    free(block);
}

static char *repeated(const char *begin, const char *part, unsigned count, const char *end)
{
    char *text = malloc(strlen(begin) + count * (strlen(part) + 8) + strlen(end) + 1);
    size_t used = 0;

    assert_non_null(text);
    memcpy(text, begin, strlen(begin));
    used = strlen(begin);
    for (unsigned i = 0; i < count; i++) {
        const char *number = strstr(part, "%u");
        int length = number == NULL ? snprintf(text + used, strlen(part) + 8, "%s", part)
                                    : snprintf(text + used, strlen(part) + 8, "%.*s%u%s",
                                               (int)(number - part), part, i, number + 2);
        used += (size_t)length;
    }
    memcpy(text + used, end, strlen(end) + 1);
    return text;
}

static void test_hostile_sources_are_refused(void **state)
{
    static const struct {
        grammar_kind_t kind;
        const char *begin, *part;
        unsigned count;
        const char *end;
    } cases[] = {
        {0, "{\"type\":\"array\",\"minItems\":1000000000}", "", 0, ""},
        {0, "{\"type\":\"object\",\"minProperties\":1000000000}", "", 0, ""},
        {0, "{\"type\":\"string\",\"pattern\":\"^(a{1,1000}b?){1,1000}$\"}", "", 0, ""},
        {0, "{\"type\":\"string\",\"pattern\":\"^.*a.{40}$\"}", "", 0, ""},
        {0, "{\"$ref\":\"#/a\",\"a\":{\"$ref\":\"#/b\"},\"b\":{\"$ref\":\"#/a\"}}", "", 0, ""},
        {0, "{\"allOf\":[{\"$ref\":\"#\"}]}", "", 0, ""},
        {0,
         "{\"$defs\":{\"a\":{\"anyOf\":[{\"$ref\":\"#/$defs/"
         "a\"},{\"type\":\"null\"}]}},\"$ref\":\"#/$defs/a\"}",
         "", 0, ""},
        {0, "{\"enum\":[", "\"enumerated value %u\",", 100000, "0]}"},
        {0, "", "{\"not\":", 120, ""},
        {0, "{\"allOf\":[", "{\"anyOf\":[{\"minimum\":1},{\"maximum\":5},{\"type\":\"string\"}]},",
         40, "true]}"},
        {GRAMMAR_REGEX, "", "(", 5000, ""},
        {GRAMMAR_REGEX, "(a?){1000000000}(b?){1000000000}c{1000000000}", "", 0, ""},
        {GRAMMAR_GBNF, "root ::= (\"a\" root){1000000000}", "", 0, ""},
        {GRAMMAR_GBNF, "root ::= \"a\" root", "", 0, ""},
        {GRAMMAR_GBNF, "root ::= ", "(", 5000, ""},
        {GRAMMAR_LARK, "start: A\nA: B\nB: A\n", "", 0, ""},
        {GRAMMAR_CHOICE, "[1]", "", 0, ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char *source = repeated(cases[i].begin, cases[i].part, cases[i].count, cases[i].end);
        void *block;
        size_t bytes;
        status_t status = compile(cases[i].kind, source, &block, &bytes);
        if (status == STATUS_OK)
            fail_msg("%.60s is compiled", source);
        assert_int_equal(status_class(status), CLASS_REQUEST);
        free(source);
    }
}

static int open_all(void **state)
{
    (void)state;
    assert_int_equal(tokenizer_open("model/tiny/tokenizer.json", &tokenizer), STATUS_OK);
    assert_int_equal(grammar_vocabulary_open(tokenizer, &vocabulary), STATUS_OK);
    mask = calloc(grammar_vocabulary_words(vocabulary), sizeof(*mask));
    other = calloc(grammar_vocabulary_words(vocabulary), sizeof(*other));
    memory = malloc(GRAMMAR_MATCHER_BYTES);
    spare = malloc(GRAMMAR_MATCHER_BYTES);
    return mask == NULL || other == NULL || memory == NULL || spare == NULL;
}

static int close_all(void **state)
{
    (void)state;
    grammar_vocabulary_close(vocabulary);
    tokenizer_close(tokenizer);
    free(mask);
    free(other);
    free(memory);
    free(spare);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schemas),
        cmocka_unit_test(test_space_is_free_where_that_is_asked_for),
        cmocka_unit_test(test_other_notations),
        cmocka_unit_test(test_what_is_not_exact_is_refused_by_place),
        cmocka_unit_test(test_masks_have_exactly_the_tokens_that_are_taken),
        cmocka_unit_test(test_a_matcher_and_its_block_can_be_moved),
        cmocka_unit_test(test_forced_text_is_cut_as_the_tokenizer_cuts_it),
        cmocka_unit_test(test_limits_of_an_answer_are_met_at_the_same_token),
        cmocka_unit_test(test_hostile_sources_are_refused),
    };

    return cmocka_run_group_tests(tests, open_all, close_all);
}
