/* grammar_split.h - a tokenizer's split patterns over ASCII, without allocation or clock.
 *
 * The tokenizer itself splits with PCRE2, which the code of steps may not reach. What a grammar forces
 * is nearly always ASCII, so a small machine with PCRE's order of choices is enough: it says where words
 * end, as long as what follows the text cannot change that.
 */
#ifndef MODEL_GRAMMAR_SPLIT_H
#define MODEL_GRAMMAR_SPLIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GRAMMAR_SPLIT_STEPS = 512, GRAMMAR_SPLIT_SETS = 64, GRAMMAR_SPLITS_MAX = 8 };

typedef struct {
    uint8_t kind;
    uint8_t set;
    uint16_t next, other;
} grammar_split_step_t;

typedef struct {
    grammar_split_step_t steps[GRAMMAR_SPLIT_STEPS];
    uint64_t sets[GRAMMAR_SPLIT_SETS][2]; /* of ASCII characters */
    uint32_t step_count, set_count;
} grammar_split_t;

/* False: the pattern has something that is not followed here. */
bool grammar_split_read(grammar_split_t *split, const char *pattern, size_t length);

/* Called with each word; returns false to stop. */
typedef bool grammar_word_t(void *context, uint32_t start, uint32_t end);

/* Splits ASCII text by all patterns, one behind the other, and gives the words in order up to the first
 * whose end could change. With `whole` nothing follows the text, and the last word is given too. */
void grammar_split_words(const grammar_split_t *splits, uint32_t split_count, const char *text,
                         uint32_t length, bool whole, grammar_word_t *word, void *context);

#endif
