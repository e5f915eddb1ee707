/* utf8.h - one step of UTF-8 decoding, strict (no surrogates, no overlong forms, nothing above
 * U+10FFFF).
 *
 * Broken bytes are cut into maximal parts, as the Unicode standard recommends and Python and Rust
 * do: each such part is one U+FFFD. Pure functions, no allocation.
 */
#ifndef MODEL_UTF8_H
#define MODEL_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    UTF8_WHOLE, /* a character */
    UTF8_CUT,   /* the text ends inside a character that more bytes could complete */
    UTF8_BROKEN /* bytes that cannot become a character, whatever follows */
} utf8_kind_t;

typedef struct {
    utf8_kind_t kind;
    unsigned bytes; /* of the character or of the broken part; 1..4 */
    uint32_t code;  /* only for UTF8_WHOLE */
} utf8_step_t;

enum { UTF8_BYTES_MAX = 4, UTF8_REPLACEMENT_CODE = 0xfffd };

/* The same as bytes. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Looks at the first character of `text`; length > 0. */
utf8_step_t utf8_step(const char *text, size_t length);
/* Writes up to 4 bytes, no NUL; returns their number. `code` must be a scalar value. */
unsigned utf8_write(uint32_t code, char *out);
/* True if all of `text` is characters; else *broken_at is the offset of the first that is not. */
bool utf8_check(const char *text, size_t length, size_t *broken_at);

#endif
