/* split.h - one split pattern of a tokenizer: cuts text into matches and what lies between them.
 *
 * The pattern comes from tokenizer.json and is compiled by PCRE2 (UTF, just-in-time). It is
 * read-only once open; each thread brings a split_work_t of its own.
 */
#ifndef MODEL_SPLIT_H
#define MODEL_SPLIT_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

typedef struct {
    void *code; /* pcre2_code */
    char *pattern; /* as the file has it */
    size_t length;
} split_t;

/* What one thread needs to match. */
typedef struct {
    void *match;   /* pcre2_match_data */
    void *context; /* pcre2_match_context */
} split_work_t;

/* BAD_FILE if the pattern does not compile or could match nothing at all. */
MUST_USE status_t split_open(split_t *split, const char *pattern, size_t length);
void split_close(split_t *split);
MUST_USE status_t split_work_init(split_work_t *work);
void split_work_fini(split_work_t *work);

/* Next match at or behind `from`; *found false if there is none. `text` must be valid UTF-8.
 * TOO_LARGE if the search would need more work than is allowed. */
MUST_USE status_t split_next(const split_t *split, split_work_t *work, const char *text,
                             size_t length, size_t from, bool *found, size_t *start, size_t *end);

#endif
