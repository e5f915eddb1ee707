/* cursor.h - a bounded reader of msgpack that allocates nothing.
 *
 * Every verb reads one value and moves on, or refuses (STATUS_MALFORMED, the reason in the trail)
 * and stays where it was. A count that a header claims is never trusted: each element needs at
 * least one byte, so an array that claims more elements than bytes are left is refused before
 * anybody reserves memory for it. Integers may stand in any msgpack form that holds their value;
 * floats in 32 or 64 bits; bytes only as bin, text only as str.
 */
#ifndef RUNTIME_CURSOR_H
#define RUNTIME_CURSOR_H

#include "runtime/base/status.h"

#include <stdint.h>

/* Open: callers make one as { bytes, size, 0 }. The bytes are borrowed. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
    size_t at; /* next byte to read; never beyond size */
} cursor_t;

/* `*count` is at most the number of bytes left. */
MUST_USE status_t cursor_array(cursor_t *cursor, uint32_t *count);
/* Refuses negative ones and those above `max`. */
MUST_USE status_t cursor_uint(cursor_t *cursor, uint64_t max, uint64_t *value);
/* A 64-bit float is rounded; NaN keeps its bits as far as the format has room. */
MUST_USE status_t cursor_float(cursor_t *cursor, float *value);
MUST_USE status_t cursor_bin(cursor_t *cursor, const uint8_t **data, uint32_t *count);
/* The bytes as they stand; the caller judges whether they are UTF-8. */
MUST_USE status_t cursor_str(cursor_t *cursor, const char **data, uint32_t *count);
/* Passes over one value of any type and depth, in constant memory. */
MUST_USE status_t cursor_skip(cursor_t *cursor);

#endif
