/* grammar_pattern.h - the text of a regular expression becomes a term of grammar_regex.h.
 *
 * Syntax: what ECMA 262, Python and Rust have in common: classes, groups, counts, anchors, lazy marks
 * (which do not change a language), \d \w \s of ASCII, escapes, lookahead outside repeats, and Lark's
 * flags i and s. Backreferences, lookbehind, \b and \p{..} are refused. A class such as \D stands for
 * what every dialect agrees on, so nothing is let through that one of them refuses.
 */
#ifndef MODEL_GRAMMAR_PATTERN_H
#define MODEL_GRAMMAR_PATTERN_H

#include "model/grammar_regex.h"

/* How a character is written in the text that the term describes. */
typedef enum {
    PATTERN_PLAIN, /* as UTF-8 */
    PATTERN_JSON   /* as inside a JSON string that Python's json.dumps wrote */
} pattern_form_t;

typedef struct {
    uint32_t first, last; /* characters, both inclusive */
} pattern_range_t;

enum { PATTERN_BYTES_MAX = 1 << 16, PATTERN_DEPTH_MAX = 100 };

/* `flags` are letters of "is", or "". The whole text matches; with `search` a part of it is enough, as
 * in JSON Schema. INVALID with the offset, UNSUPPORTED for what is named above. */
MUST_USE status_t pattern_parse(regex_store_t *store, pattern_form_t form, bool search,
                                const char *text, size_t length, const char *flags, uint32_t *term);

/* One character of these ranges. */
uint32_t pattern_characters(regex_store_t *store, pattern_form_t form,
                            const pattern_range_t *ranges, size_t count);
/* Any character. */
uint32_t pattern_any(regex_store_t *store, pattern_form_t form);
/* UTF-8 text in this form. */
uint32_t pattern_text(regex_store_t *store, pattern_form_t form, const char *text, size_t length);

#endif
