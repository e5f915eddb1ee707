/* grammar_vocabulary.h - the tokens of a model as a trie of bytes, as grammar masks walk it.
 *
 * Made once from a tokenizer, which must outlive it, then only read, by any number of threads. Added
 * tokens (role tags, ends) are not in it: no grammar over text can name them.
 */
#ifndef MODEL_GRAMMAR_VOCABULARY_H
#define MODEL_GRAMMAR_VOCABULARY_H

#include "model/tokenizer.h"

typedef struct grammar_vocabulary grammar_vocabulary_t;

MUST_USE status_t grammar_vocabulary_open(const tokenizer_t *tokenizer,
                                          grammar_vocabulary_t **vocabulary);
void grammar_vocabulary_close(grammar_vocabulary_t *vocabulary);

/* Of all tokens and their bytes. */
uint64_t grammar_vocabulary_digest(const grammar_vocabulary_t *vocabulary);
/* 64-bit words of a mask. */
uint32_t grammar_vocabulary_words(const grammar_vocabulary_t *vocabulary);
/* Bytes that it takes. */
size_t grammar_vocabulary_bytes(const grammar_vocabulary_t *vocabulary);

#endif
