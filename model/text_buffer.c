/* text_buffer.c - see text_buffer.h. */
#include "model/text_buffer.h"

#include <stdlib.h>
#include <string.h>

#include "model/utf8.h"

void text_buffer_init(text_buffer_t *buffer, size_t bytes_max)
{
    *buffer = (text_buffer_t){.bytes_max = bytes_max};
}

void text_buffer_fini(text_buffer_t *buffer)
{
    free(buffer->bytes);
    *buffer = (text_buffer_t){.bytes_max = buffer->bytes_max};
}

static status_t reserve(text_buffer_t *buffer, size_t length)
{
    if (length > buffer->bytes_max - buffer->used)
        return FAIL(STATUS_TOO_LARGE, "text of more than %zu bytes", buffer->bytes_max);
    if (length <= buffer->room - buffer->used)
        return STATUS_OK;
    size_t room = 2 * (buffer->used + length);
    char *bytes = realloc(buffer->bytes, room);
    if (bytes == NULL)
        return FAIL(STATUS_NO_MEMORY, "text of %zu bytes", room);
    buffer->bytes = bytes;
    buffer->room = room;
    return STATUS_OK;
}

void text_put(text_buffer_t *buffer, const char *bytes, size_t length)
{
    if (length == 0 || buffer->status != STATUS_OK)
        return;
    buffer->status = reserve(buffer, length);
    if (buffer->status != STATUS_OK)
        return;
    memcpy(buffer->bytes + buffer->used, bytes, length);
    buffer->used += length;
}

void text_put_text(text_buffer_t *buffer, const char *text)
{
    text_put(buffer, text, strlen(text));
}

void text_put_escaped(text_buffer_t *buffer, uint32_t code)
{
    static const char plain[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    const char *found = code == 0 || code > 0x7f ? NULL : strchr(plain, (int)code);
    char text[8];
    if (found != NULL) {
        text[0] = '\\';
        text[1] = letters[found - plain];
        text_put(buffer, text, 2);
    } else if (code < 0x20) {
        text_put(buffer, text, (size_t)snprintf(text, sizeof(text), "\\u%04x", code));
    } else {
        text_put(buffer, text, utf8_write(code, text));
    }
}

void text_put_escaped_text(text_buffer_t *buffer, const char *bytes, size_t length)
{
    for (size_t at = 0; at < length;) {
        utf8_step_t step = utf8_step(bytes + at, length - at);
        text_put_escaped(buffer, step.kind == UTF8_WHOLE ? step.code : UTF8_REPLACEMENT_CODE);
        at += step.bytes;
    }
}
