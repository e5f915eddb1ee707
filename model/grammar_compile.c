/* grammar_compile.c - a source of any kind becomes a block; see grammar.h. */
#include "model/grammar.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "model/document.h"
#include "model/grammar_block.h"
#include "model/grammar_parts.h"
#include "model/utf8.h"

/* The only rule, from its start to its end. */
static uint32_t begin_whole(build_t *build, uint32_t *end)
{
    uint32_t start = build_start(build, build_rule(build));

    *end = build_state(build, start);
    build_accept(build, *end);
    return start;
}

static status_t read_regex(build_t *build, const char *text, size_t length)
{
    uint32_t end, start = begin_whole(build, &end), term;

    TRY(pattern_parse(&build->regexes, PATTERN_PLAIN, false, text, length, "", &term));
    build_edge_term(build, start, end, term);
    return STATUS_OK;
}

static status_t read_choices(build_t *build, const document_t *list)
{
    uint32_t end, start = begin_whole(build, &end);
    status_t status = STATUS_OK;

    if (document_kind(list, 0) != DOCUMENT_ARRAY)
        return FAIL(STATUS_INVALID, "choices are a list of strings");
    for (uint32_t at = document_next(list, 0, DOCUMENT_NONE); at != DOCUMENT_NONE;
         at = document_next(list, 0, at)) {
        text_buffer_t text;
        if (document_kind(list, at) != DOCUMENT_STRING)
            return FAIL(STATUS_INVALID, "choices are a list of strings");
        text_buffer_init(&text, GRAMMAR_SOURCE_BYTES_MAX);
        document_put_string(list, at, &text);
        status = text.status;
        if (status == STATUS_OK)
            build_edge_text(build, start, end, text.bytes, text.used);
        text_buffer_fini(&text);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static status_t read_choice(build_t *build, const char *text, size_t length)
{
    document_t list;
    status_t status = document_parse(&list, DOCUMENT_STRICT, text, length);

    if (status == STATUS_OK)
        status = read_choices(build, &list);
    document_fini(&list);
    return status;
}

status_t grammar_compile(const grammar_spec_t *spec, uint64_t vocabulary_digest, void **block,
                         size_t *bytes, grammar_refusal_t *refusal)
{
    static status_t (*const readers[GRAMMAR_KINDS])(build_t *, const char *,
                                                    size_t) = {[GRAMMAR_REGEX] = read_regex,
                                                               [GRAMMAR_CHOICE] = read_choice,
                                                               [GRAMMAR_GBNF] = grammar_read_gbnf,
                                                               [GRAMMAR_LARK] = grammar_read_lark};
    build_t build;
    size_t broken_at;
    status_t status;

    ASSERT(spec->kind < GRAMMAR_KINDS);
    *refusal = (grammar_refusal_t){{0}, {0}};
    if (spec->length > GRAMMAR_SOURCE_BYTES_MAX)
        return FAIL(STATUS_TOO_LARGE, "a grammar of %zu bytes, at most %d", spec->length,
                    GRAMMAR_SOURCE_BYTES_MAX);
    if (!utf8_check(spec->source, spec->length, &broken_at))
        return FAIL(STATUS_INVALID, "the grammar is not UTF-8 at byte %zu", broken_at);
    if (spec->kind == GRAMMAR_JSON_SCHEMA)
        return grammar_compile_schema(spec, vocabulary_digest, block, bytes, refusal);
    build_init(&build);
    status = build_fail(&build, readers[spec->kind](&build, spec->source, spec->length));
    if (status == STATUS_OK)
        status = build_block(&build, vocabulary_digest, block, bytes);
    build_fini(&build);
    return status;
}

const uint8_t *grammar_digest(const void *block)
{
    return ((const grammar_block_t *)block)->digest;
}

status_t grammar_check(const void *block, size_t bytes, uint64_t vocabulary_digest)
{
    const grammar_block_t *head = block;
    static const uint8_t none[GRAMMAR_DIGEST_BYTES];
    uint8_t digest[GRAMMAR_DIGEST_BYTES];
    crypto_generichash_state state;
    const size_t at = offsetof(grammar_block_t, digest);

    if (bytes < sizeof(*head) || bytes > GRAMMAR_BYTES_MAX || head->magic != GRAMMAR_MAGIC ||
        head->version != GRAMMAR_VERSION || head->bytes != bytes)
        return FAIL(STATUS_CORRUPT, "%zu bytes that are no compiled grammar", bytes);
    crypto_generichash_init(&state, NULL, 0, sizeof(digest));
    crypto_generichash_update(&state, block, at);
    crypto_generichash_update(&state, none, sizeof(none));
    crypto_generichash_update(&state, (const uint8_t *)block + at + sizeof(digest),
                              bytes - at - sizeof(digest));
    crypto_generichash_final(&state, digest, sizeof(digest));
    if (memcmp(digest, head->digest, sizeof(digest)) != 0)
        return FAIL(STATUS_CORRUPT, "a compiled grammar was damaged");
    if (head->vocabulary_digest != vocabulary_digest)
        return FAIL(STATUS_MISMATCH, "a grammar compiled for another vocabulary");
    return STATUS_OK;
}
