/* document_python.c - renders a document as Python's json.dumps(..., ensure_ascii=False) would.
 *
 * Integers keep their digits. A float becomes the shortest decimal that reads back as the same
 * double, in Python's choice of fixed or scientific form.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/document.h"
#include "model/utf8.h"

void document_put_string(const document_t *document, uint32_t node, text_buffer_t *out)
{
    ASSERT(document->nodes[node].kind == DOCUMENT_STRING);
    size_t end = document->nodes[node].end - 1;
    for (size_t at = document->nodes[node].start + 1; at < end;) {
        const char *text = document->text + at;
        const char *escape = memchr(text, '\\', end - at);
        size_t plain = escape == NULL ? end - at : (size_t)(escape - text);
        text_put(out, text, plain);
        at += plain;
        if (at < end) {
            char character[4];
            text_put(out, character, utf8_write(document_character(document, &at), character));
        }
    }
}

static void put_quoted(const document_t *document, uint32_t node, text_buffer_t *out)
{
    text_put_text(out, "\"");
    for (size_t at = document->nodes[node].start + 1; at < document->nodes[node].end - 1;)
        text_put_escaped(out, document_character(document, &at));
    text_put_text(out, "\"");
}

/* The next decimal of the same length, "1.29e+00" to "1.30e+00"; false if it would be longer. */
static bool next_decimal(char *text)
{
    char *at = strchr(text, 'e');
    while (--at >= text) {
        if (*at == '9')
            *at = '0';
        else if (*at >= '0' && *at <= '8') {
            ++*at;
            return true;
        }
    }
    return false;
}

/* Digits without point and the exponent of the first: 1.25e-7 is "125", -7. Of each length the
 * nearest decimal is tried, and the one above it: below a power of two doubles lie closer, so there
 * only that one may read back as `value`. */
static int shortest_digits(double value, char digits[32])
{
    char text[40];
    for (int precision = 0; precision < 17; precision++) {
        snprintf(text, sizeof(text), "%.*e", precision, value);
        if (strtod(text, NULL) == value || (next_decimal(text) && strtod(text, NULL) == value))
            break;
    }
    size_t used = 0;
    char *at = text;
    for (; *at != 'e'; at++) {
        if (*at >= '0' && *at <= '9')
            digits[used++] = *at;
    }
    digits[used] = '\0';
    return (int)strtol(at + 1, NULL, 10);
}

static void put_float(double value, text_buffer_t *out)
{
    if (isnan(value)) {
        text_put_text(out, "NaN");
        return;
    }
    if (signbit(value))
        text_put_text(out, "-");
    if (isinf(value)) {
        text_put_text(out, "Infinity");
        return;
    }
    char digits[32], exponent_text[16];
    int exponent = shortest_digits(fabs(value), digits);
    int count = (int)strlen(digits);
    bool fixed = exponent >= -4 && exponent < 16;
    int whole = fixed ? exponent + 1 : 1; /* digits in front of the point */
    if (whole <= 0)
        text_put_text(out, "0.");
    for (int i = whole; i < 0; i++)
        text_put_text(out, "0");
    for (int i = 0; i < count; i++) {
        if (i == whole && i > 0)
            text_put_text(out, ".");
        text_put(out, &digits[i], 1);
    }
    for (int i = count; i < whole; i++)
        text_put_text(out, "0");
    if (fixed && whole >= count)
        text_put_text(out, ".0");
    if (!fixed) {
        snprintf(exponent_text, sizeof(exponent_text), "e%c%02d", exponent < 0 ? '-' : '+',
                 abs(exponent));
        text_put_text(out, exponent_text);
    }
}

static void put_number(const char *text, size_t length, text_buffer_t *out)
{
    bool integer = true;
    for (size_t i = 0; i < length; i++)
        integer = integer && (text[i] == '-' || (text[i] >= '0' && text[i] <= '9'));
    if (integer) {
        bool minus_zero = length == 2 && text[0] == '-' && text[1] == '0';
        text_put(out, text + minus_zero, length - minus_zero);
        return;
    }
    /* strtod needs an end; digits beyond any double's exact form do not matter but must be read. */
    char *copy = strndup(text, length);
    if (copy == NULL) {
        out->status = FAIL(STATUS_NO_MEMORY, "a number of %zu digits", length);
        return;
    }
    put_float(strtod(copy, NULL), out);
    free(copy);
}

void document_put_python(const document_t *document, uint32_t node, text_buffer_t *out)
{
    static const char *const words[] = {
        [DOCUMENT_NULL] = "null", [DOCUMENT_FALSE] = "false", [DOCUMENT_TRUE] = "true"};
    const document_node_t *n = &document->nodes[node];
    if (n->kind <= DOCUMENT_TRUE) {
        text_put_text(out, words[n->kind]);
    } else if (n->kind == DOCUMENT_NUMBER) {
        put_number(document->text + n->start, n->end - n->start, out);
    } else if (n->kind == DOCUMENT_STRING) {
        put_quoted(document, node, out);
    } else {
        bool object = n->kind == DOCUMENT_OBJECT;
        text_put_text(out, object ? "{" : "[");
        const char *separator = "";
        for (uint32_t child = document_next(document, node, DOCUMENT_NONE); child != DOCUMENT_NONE;
             child = document_next(document, node, child)) {
            text_put_text(out, separator);
            separator = ", ";
            if (object) {
                put_quoted(document, child, out);
                text_put_text(out, ": ");
            }
            document_put_python(document, object ? document_value(document, child) : child, out);
        }
        text_put_text(out, object ? "}" : "]");
    }
}
