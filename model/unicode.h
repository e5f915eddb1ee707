/* unicode.h - characters that Unicode 15 and 16 added to the classes that split patterns name.
 *
 * PCRE2 of Debian 12 knows Unicode 14, the library that made the published token ids knows 16. All
 * differences are additions, so a pattern that names a class also names these ranges (split.c).
 * With a newer PCRE2 they say nothing new.
 */
#ifndef MODEL_UNICODE_H
#define MODEL_UNICODE_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t first, last;
} unicode_range_t;

/* Ranges added to class L, M, N, P or S; NULL and 0 for any other letter. */
const unicode_range_t *unicode_additions(char class_letter, size_t *count);

#endif
