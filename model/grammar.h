/* grammar.h - answers held to a grammar: which tokens may come next, token by token.
 *
 * Compiling is done once, where memory may be allocated: it gives a block of bytes without pointers,
 * equal for equal input, that is copied to wherever it is used. A matcher follows one answer. It lives
 * in memory that the caller brings and in nothing else; opening, masks and tokens allocate nothing,
 * read no clock and depend on the block, the vocabulary and the tokens taken alone, so every rank
 * gives the same masks, and a replay gives them again.
 */
#ifndef MODEL_GRAMMAR_H
#define MODEL_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/grammar_vocabulary.h"
#include "runtime/base/status.h"

enum {
    GRAMMAR_SOURCE_BYTES_MAX = 512 << 10, /* the text that is compiled */
    GRAMMAR_BYTES_MAX = 1 << 20,          /* its block */
    GRAMMAR_MATCHER_BYTES = 256 << 10,    /* the memory of one matcher */
    GRAMMAR_THREADS_MAX = 256,            /* ways to read on, at one place of an answer */
    GRAMMAR_ITEMS_MAX = 1024,             /* rules under way that begin or go on at one place */
    GRAMMAR_WORK_MAX = 1 << 21,           /* items and nodes that one mask looks at */
    GRAMMAR_FORCED_MAX = 64,              /* tokens that grammar_forced gives at most */
    GRAMMAR_MARKS_MAX = 16,               /* marks of one matcher */
};

/* What a source is. */
typedef enum {
    GRAMMAR_JSON_SCHEMA, /* drafts 4 to 2020-12; true or {} is any JSON value */
    GRAMMAR_REGEX,       /* the whole answer matches */
    GRAMMAR_CHOICE,      /* a JSON list of strings: one of them */
    GRAMMAR_GBNF,        /* llama.cpp's notation; `root` is the whole */
    GRAMMAR_LARK,        /* Lark's, as llguidance reads it; `start` is the whole */
    GRAMMAR_KINDS
} grammar_kind_t;

typedef struct {
    grammar_kind_t kind;
    bool any_space; /* JSON: space between tokens is free instead of as json.dumps writes it */
    const char *source;
    size_t length;
} grammar_spec_t;

enum { GRAMMAR_POINTER_BYTES = 256, GRAMMAR_KEYWORD_BYTES = 64 };

/* Where a JSON schema was refused; both "" for anything else. */
typedef struct {
    char pointer[GRAMMAR_POINTER_BYTES]; /* as in "/properties/a/items", cut at its end */
    char keyword[GRAMMAR_KEYWORD_BYTES];
} grammar_refusal_t;

/* Allocates *block with malloc. INVALID: the source is wrong, or no text satisfies it; UNSUPPORTED: it
 * cannot be followed exactly; TOO_LARGE: over a limit. trail_text says why. */
MUST_USE status_t grammar_compile(const grammar_spec_t *spec, uint64_t vocabulary_digest,
                                  void **block, size_t *bytes, grammar_refusal_t *refusal);
/* Is this a whole block, undamaged, for this vocabulary? CORRUPT or MISMATCH if not. */
MUST_USE status_t grammar_check(const void *block, size_t bytes, uint64_t vocabulary_digest);
/* GRAMMAR_DIGEST_BYTES bytes: equal for equal blocks only. */
const uint8_t *grammar_digest(const void *block);

/* A view: what it points to outlives it. All that changes is in `memory`, which holds no pointer, so
 * it may be copied away and attached to again. */
typedef struct {
    const char *block;
    const grammar_vocabulary_t *vocabulary;
    char *memory;
} grammar_matcher_t;

/* Begins an answer in GRAMMAR_MATCHER_BYTES bytes, aligned to 8. TOO_LARGE: the grammar's start alone
 * is over a limit. */
MUST_USE status_t grammar_open(grammar_matcher_t *matcher, const void *block,
                               const grammar_vocabulary_t *vocabulary, void *memory);
/* Goes on in memory that grammar_open filled. */
void grammar_attach(grammar_matcher_t *matcher, const void *block,
                    const grammar_vocabulary_t *vocabulary, void *memory);

/* Sets the bits of the tokens that may come next in grammar_vocabulary_words words, clears the others.
 * End tokens are never set: whether they may come is grammar_can_end. TOO_LARGE: over a limit, at this
 * place of this answer always. */
MUST_USE status_t grammar_mask(grammar_matcher_t *matcher, uint64_t *words);
/* The answer goes on with this token. REFUSED: no mask has it here, and nothing was changed;
 * TOO_LARGE as above, and the matcher is of no more use. */
MUST_USE status_t grammar_take(grammar_matcher_t *matcher, uint32_t token);
/* May the answer end here? Where it must, the mask is empty. */
bool grammar_can_end(grammar_matcher_t *matcher);
/* Writes the tokens, at most GRAMMAR_FORCED_MAX and `max`, that the grammar alone allows next, and
 * takes none of them. Each of them is the only one in its mask. */
uint32_t grammar_forced(grammar_matcher_t *matcher, uint32_t *tokens, uint32_t max);

/* Remembers this place. TOO_LARGE: GRAMMAR_MARKS_MAX are set, or there is no room. */
MUST_USE status_t grammar_mark(grammar_matcher_t *matcher, uint32_t *mark);
/* Back to a mark, which stays; those set after it are gone. */
void grammar_rewind(grammar_matcher_t *matcher, uint32_t mark);
/* Forgets a mark and those set after it. */
void grammar_unmark(grammar_matcher_t *matcher, uint32_t mark);

#endif
