/* Grammars from outside: what is refused says why, and what compiles has masks without a dead end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/grammar.h"
#include "tests/fuzz/fuzz.h"

enum { ROUNDS = 60, STEPS = 6 };

typedef struct {
    tokenizer_t *tokenizer;
    grammar_vocabulary_t *vocabulary;
    uint64_t *mask;
    void *memory;
    grammar_kind_t kind;
} fuzzing_t;

static uint32_t first_of(const fuzzing_t *f, uint32_t from)
{
    uint32_t bits = 64 * grammar_vocabulary_words(f->vocabulary);

    for (uint32_t i = 0; i < bits; i++) {
        uint32_t id = (from + i) % bits;
        if (f->mask[id / 64] >> id % 64 & 1)
            return id;
    }
    return UINT32_MAX;
}

static void feed(void *context, const char *bytes, size_t size)
{
    fuzzing_t *f = context;
    grammar_spec_t spec = {.kind = f->kind, .source = bytes, .length = size};
    grammar_refusal_t refusal;
    grammar_matcher_t matcher;
    void *block = NULL;
    size_t block_bytes;

    trail_reset();
    status_t status = grammar_compile(&spec, 1, &block, &block_bytes, &refusal);
    if (status != STATUS_OK) {
        assert_int_equal(status_class(status), CLASS_REQUEST);
        assert_true(strlen(trail_text()) > 0);
        assert_null(block);
        return;
    }
    assert_int_equal(grammar_check(block, block_bytes, 1), STATUS_OK);
    status = grammar_open(&matcher, block, f->vocabulary, f->memory);
    for (uint32_t step = 0; step < STEPS && status == STATUS_OK; step++) {
        status = grammar_mask(&matcher, f->mask);
        if (status != STATUS_OK)
            break;
        uint32_t id = first_of(f, (uint32_t)size * 7919 + step * 104729);
        if (id == UINT32_MAX) {
            assert_true(grammar_can_end(&matcher));
            break;
        }
        status = grammar_take(&matcher, id);
    }
    assert_true(status == STATUS_OK || status == STATUS_TOO_LARGE);
    free(block);
}

static void test_sources(void **state)
{
    static const struct {
        grammar_kind_t kind;
        const char *name, *seed;
    } seeds[] = {
        {GRAMMAR_JSON_SCHEMA, "schema",
         "{\"type\":\"object\",\"properties\":{\"a\":{\"enum\":[1,\"b\"]},\"c\":{\"$ref\":\"#\"}},"
         "\"patternProperties\":{\"^x\":{\"minimum\":-3.5,\"multipleOf\":0.5}},\"required\":[\"a\"]"
         ","
         "\"oneOf\":[{\"minProperties\":2},{\"not\":{\"required\":[\"c\"]}}]}"},
        {GRAMMAR_JSON_SCHEMA, "schema of arrays",
         "{\"anyOf\":[{\"items\":{\"format\":\"date\"},\"minItems\":2},{\"prefixItems\":[true,"
         "{\"const\":null}],\"contains\":{\"type\":\"integer\"}}],\"if\":{\"maxItems\":3},"
         "\"then\":{\"uniqueItems\":false},\"$defs\":{\"d\":{\"allOf\":[{\"pattern\":\"a+\"}]}}}"},
        {GRAMMAR_REGEX, "regex", "(?i:a|[^b-d\\n]{2,5})*\\d+(?=x.)(?!y)\\u00e9[\\w-]?$"},
        {GRAMMAR_CHOICE, "choice", "[\"one\", \"t\\u0077o\", \"\"]"},
        {GRAMMAR_GBNF, "gbnf", "root ::= a{1,3} (\"x\" | [^y-z])* # c\na ::= \"\\n\" root? | .\n"},
        {GRAMMAR_LARK, "lark",
         "start: a~1..2 | B \"x\"i\n?a.2: (B [start]) -> t\nB: /[a-z]+/i & ~\"if\"\n"
         "%import common.INT\n%ignore / /\n"},
    };
    fuzzing_t f = {.memory = malloc(GRAMMAR_MATCHER_BYTES)};

    (void)state;
    assert_int_equal(tokenizer_open("model/tiny/tokenizer.json", &f.tokenizer), STATUS_OK);
    assert_int_equal(grammar_vocabulary_open(f.tokenizer, &f.vocabulary), STATUS_OK);
    f.mask = calloc(grammar_vocabulary_words(f.vocabulary), sizeof(*f.mask));
    assert_non_null(f.mask);
    for (size_t i = 0; i < COUNT_OF(seeds); i++) {
        f.kind = seeds[i].kind;
        fuzz_run(seeds[i].name, seeds[i].seed, strlen(seeds[i].seed), ROUNDS, feed, &f);
    }
    grammar_vocabulary_close(f.vocabulary);
    tokenizer_close(f.tokenizer);
    free(f.mask);
    free(f.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sources)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
