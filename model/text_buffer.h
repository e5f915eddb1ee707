/* text_buffer.h - bytes that are put one behind the other, up to a limit.
 *
 * Putting never fails on the spot: the first failure (NO_MEMORY, TOO_LARGE) is kept, later puts do
 * nothing, and whoever uses the bytes asks for the status once.
 */
#ifndef MODEL_TEXT_BUFFER_H
#define MODEL_TEXT_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

typedef struct {
    char *bytes;
    size_t used;
    size_t room;
    size_t bytes_max;
    status_t status;
} text_buffer_t;

void text_buffer_init(text_buffer_t *buffer, size_t bytes_max);
void text_buffer_fini(text_buffer_t *buffer);

void text_put(text_buffer_t *buffer, const char *bytes, size_t length);
void text_put_text(text_buffer_t *buffer, const char *text);
/* A character as it stands inside a JSON string, escaped as Python's json.dumps with ensure_ascii
 * off. */
void text_put_escaped(text_buffer_t *buffer, uint32_t code);
/* The same for each character of UTF-8; what is none, as where a text was cut, becomes U+FFFD. */
void text_put_escaped_text(text_buffer_t *buffer, const char *bytes, size_t length);

#endif
