/* grammar_vocabulary_parts.h - what a vocabulary is made of. For grammar_*.c only.
 *
 * Tries are lists of nodes in depth-first order: a node, then all below it.
 */
#ifndef MODEL_GRAMMAR_VOCABULARY_PARTS_H
#define MODEL_GRAMMAR_VOCABULARY_PARTS_H

#include "model/grammar_slice.h"
#include "model/grammar_split.h"
#include "model/grammar_vocabulary.h"

enum { TRIE_NO_TOKEN = 0xfffff, TRIE_TOKEN_BITS = 20, SHORT_CHARACTERS_MAX = 32 };

typedef struct {
    uint32_t byte : 8, size : 24;    /* size: this node and all below it */
    uint32_t token : 20, below : 12; /* below: by slice, is all that lies below of it? */
} trie_node_t;

typedef struct {
    trie_node_t *nodes; /* nodes[0] is the root */
    uint32_t count;
} trie_t;

/* Tokens that share a place: of one text in a vocabulary, or of one rest behind a quote. */
typedef struct {
    uint32_t begin, end;
} token_range_t;

struct grammar_vocabulary {
    const tokenizer_t *tokenizer;
    uint32_t id_count, words;
    uint64_t digest;
    uint64_t *usable; /* tokens with text that are no added tokens */
    trie_t tokens;
    uint32_t *twins; /* pairs: a token and another with the same text, which is not in the trie */
    uint32_t twin_count;
    uint64_t *slices[SLICE_COUNT]; /* tokens that lie in it whole */
    /* Tokens of SLICE_STRING that begin at most 1, 2, ... characters; those that begin more, by that. */
    uint64_t *short_slices[SHORT_CHARACTERS_MAX + 1];
    uint32_t *long_tokens, long_count; /* pairs: token and characters */
    trie_t closers;                    /* tokens that end a JSON string */
    /* The same by what follows its quote. */
    trie_t rests; /* token: index into rest_tokens */
    token_range_t *rest_tokens;
    uint32_t *rest_ids;
    uint32_t rest_count;
    token_range_t bare; /* those that end with the quote, in rest_ids */
    grammar_split_t splits[GRAMMAR_SPLITS_MAX];
    uint32_t split_count;
    bool splits_known;       /* false: a pattern is not followed, and nothing is forced by tokens */
    uint32_t characters_max; /* of a token that lies in SLICE_STRING */
    uint32_t bytes_max;      /* of a token */
    size_t bytes;
};

/* The bytes of a token; *length 0 if it is no text. */
const char *grammar_vocabulary_token(const grammar_vocabulary_t *vocabulary, uint32_t token,
                                     size_t *length);

static inline bool token_bit(const uint64_t *words, uint32_t token)
{
    return words[token / 64] >> token % 64 & 1;
}

static inline void token_set(uint64_t *words, uint32_t token)
{
    words[token / 64] |= (uint64_t)1 << token % 64;
}

#endif
