/* grammar_walk.c - random answers under masks, for grammar_oracle.py, and masks against brute force.
 *
 *     grammar_walk TOKENIZER WALKS STATES < LINES
 *
 * Each line is an object with a schema. For each, WALKS answers are drawn at random from the masks; those
 * that end are printed, one JSON string a line, behind a line with the number of the schema. At every
 * STATES-th place all tokens are tried one by one, and the mask must have exactly those that the matcher
 * takes; and a matcher that went on and was rewound must be as before. Exit 1 if one is not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/document.h"
#include "model/grammar.h"
#include "model/text_buffer.h"
#include "runtime/base/random.h"

enum { WALK_TOKENS_MAX = 250, TEXT_BYTES_MAX = 1 << 16 };

typedef struct {
    tokenizer_t *tokenizer;
    grammar_vocabulary_t *vocabulary;
    grammar_matcher_t matcher;
    uint64_t *mask, *other;
    uint32_t *allowed;
    void *memory;
    random_t random;
    uint64_t states, every, compared, walks, ended;
    bool failed;
} walk_t;

static void compare_with_brute_force(walk_t *w)
{
    uint32_t words = grammar_vocabulary_words(w->vocabulary), mark;

    memset(w->other, 0, words * sizeof(*w->other));
    if (grammar_mark(&w->matcher, &mark) != STATUS_OK)
        return;
    for (uint32_t id = 0; id < tokenizer_id_count(w->tokenizer); id++) {
        status_t status = grammar_take(&w->matcher, id);
        if (status == STATUS_OK) {
            w->other[id / 64] |= (uint64_t)1 << id % 64;
            grammar_rewind(&w->matcher, mark);
        }
    }
    w->compared++;
    if (memcmp(w->mask, w->other, words * sizeof(*w->mask)) != 0) {
        w->failed = true;
        for (uint32_t id = 0; id < tokenizer_id_count(w->tokenizer); id++) {
            bool in = w->mask[id / 64] >> id % 64 & 1, taken = w->other[id / 64] >> id % 64 & 1;
            size_t length;
            const char *piece = tokenizer_piece(w->tokenizer, id, &length);
            if (in != taken)
                fprintf(stderr, "token %u '%.*s' is %s the mask, and %s\n", id, (int)length, piece,
                        in ? "in" : "not in", taken ? "taken" : "refused");
        }
    }
    grammar_rewind(&w->matcher, mark);
    grammar_unmark(&w->matcher, mark);
    if (grammar_mask(&w->matcher, w->other) != STATUS_OK ||
        memcmp(w->mask, w->other, words * sizeof(*w->mask)) != 0) {
        fprintf(stderr, "a rewound matcher has another mask\n");
        w->failed = true;
    }
}

/* One of the allowed tokens; often one that brings an end nearer. */
static uint32_t draw(walk_t *w, uint32_t count)
{
    if (random_unit(&w->random) < 0.4) {
        for (unsigned i = 0; i < 50; i++) {
            uint32_t id = w->allowed[random_below(&w->random, count)];
            size_t length;
            const char *piece = tokenizer_piece(w->tokenizer, id, &length);
            if (length > 0 && memchr("\"}],", piece[0], 4) != NULL)
                return id;
        }
        for (uint32_t i = 0; i < count; i++) {
            size_t length;
            const char *piece = tokenizer_piece(w->tokenizer, w->allowed[i], &length);
            if (length > 0 && length < 3 && memchr("\"}]", piece[0], 3) != NULL)
                return w->allowed[i];
        }
    }
    return w->allowed[random_below(&w->random, count)];
}

static void print_string(const char *text, size_t length)
{
    text_buffer_t out;

    text_buffer_init(&out, 8 * TEXT_BYTES_MAX);
    text_put_text(&out, "\"");
    text_put_escaped_text(&out, text, length);
    text_put_text(&out, "\"\n");
    fwrite(out.bytes, 1, out.used, stdout);
    text_buffer_fini(&out);
}

static void walk(walk_t *w, const void *block)
{
    static char text[TEXT_BYTES_MAX];
    size_t used = 0;

    w->walks++;
    if (grammar_open(&w->matcher, block, w->vocabulary, w->memory) != STATUS_OK)
        return;
    for (unsigned step = 0; step < WALK_TOKENS_MAX; step++) {
        uint32_t count = 0;
        if (grammar_mask(&w->matcher, w->mask) != STATUS_OK) {
            fprintf(stderr, "no mask: %s\n", trail_text());
            return;
        }
        for (uint32_t id = 0; id < tokenizer_id_count(w->tokenizer); id++) {
            if (w->mask[id / 64] >> id % 64 & 1)
                w->allowed[count++] = id;
        }
        if (w->every > 0 && ++w->states % w->every == 0)
            compare_with_brute_force(w);
        bool can_end = grammar_can_end(&w->matcher);
        if (count == 0 && !can_end) {
            fprintf(stderr, "a dead end behind %.*s\n", (int)used, text);
            w->failed = true;
            return;
        }
        if (can_end && (count == 0 || random_unit(&w->random) < 0.5)) {
            w->ended++;
            print_string(text, used);
            return;
        }
        uint32_t id = draw(w, count);
        size_t length;
        const char *piece = tokenizer_piece(w->tokenizer, id, &length);
        if (used + length > sizeof(text))
            return;
        memcpy(text + used, piece, length);
        used += length;
        if (grammar_take(&w->matcher, id) != STATUS_OK) {
            fprintf(stderr, "not taken behind %.*s: %s\n", (int)used, text, trail_text());
            w->failed = true;
            return;
        }
    }
}

static void walk_line(walk_t *w, const char *text, size_t length, uint32_t number, uint32_t walks)
{
    document_t line;
    void *block = NULL;
    size_t bytes;
    grammar_refusal_t refusal;

    if (document_parse(&line, DOCUMENT_STRICT, text, length) == STATUS_OK) {
        uint32_t schema = document_member(&line, 0, "schema");
        grammar_spec_t spec = {.kind = GRAMMAR_JSON_SCHEMA,
                               .source = text + line.nodes[schema].start,
                               .length = line.nodes[schema].end - line.nodes[schema].start};
        if (grammar_compile(&spec, grammar_vocabulary_digest(w->vocabulary), &block, &bytes,
                            &refusal) == STATUS_OK) {
            printf("%u\n", number);
            for (uint32_t i = 0; i < walks; i++)
                walk(w, block);
        }
    }
    free(block);
    document_fini(&line);
}

int main(int argc, char **argv)
{
    walk_t w = {0};
    char *text = NULL;
    size_t room = 0;
    ssize_t length;
    uint32_t number = 0;

    if (argc != 4 || tokenizer_open(argv[1], &w.tokenizer) != STATUS_OK ||
        grammar_vocabulary_open(w.tokenizer, &w.vocabulary) != STATUS_OK) {
        fprintf(stderr, "grammar_walk TOKENIZER WALKS STATES: %s\n", trail_text());
        return 2;
    }
    size_t words = grammar_vocabulary_words(w.vocabulary);
    w.mask = calloc(words, sizeof(uint64_t));
    w.other = calloc(words, sizeof(uint64_t));
    w.allowed = calloc(words * 64, sizeof(uint32_t));
    w.memory = malloc(GRAMMAR_MATCHER_BYTES);
    w.every = strtoull(argv[3], NULL, 10);
    random_init(&w.random, 1);
    while ((length = getline(&text, &room, stdin)) >= 0)
        walk_line(&w, text, (size_t)length, number++, (uint32_t)strtoul(argv[2], NULL, 10));
    fprintf(stderr, "%llu walks, %llu ended, %llu masks compared\n", (unsigned long long)w.walks,
            (unsigned long long)w.ended, (unsigned long long)w.compared);
    grammar_vocabulary_close(w.vocabulary);
    tokenizer_close(w.tokenizer);
    free(w.mask);
    free(w.other);
    free(w.allowed);
    free(w.memory);
    free(text);
    return w.failed ? 1 : 0;
}
