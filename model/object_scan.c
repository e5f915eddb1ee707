/* object_scan.c - a pushdown machine over bytes; see object_scan.h.
 *
 *   START --{--> KEY_OR_END --"--> STRING --"--> COLON --:--> VALUE --> BEHIND --,--> KEY or VALUE
 *
 * A number has no byte of its own at its end, so the byte behind it goes to BEHIND at once.
 */
#include "model/object_scan.h"

#include <stdbool.h>
#include <string.h>

#include "runtime/base/check.h"

enum {
    START,
    KEY_OR_END,
    KEY,
    COLON,
    VALUE_OR_END,
    VALUE,
    BEHIND,
    STRING,
    ESCAPE,
    HEX,
    WORD,
    MINUS,
    ZERO,
    WHOLE,
    POINT,
    FRACTION,
    EXPONENT,
    EXPONENT_SIGN,
    EXPONENT_DIGITS
};

static const char *const words[] = {"true", "false", "null"};

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool one_of(const char *set, char c)
{
    return c != '\0' && strchr(set, c) != NULL;
}

static object_scan_result_t go(object_scan_t *scan, unsigned char state)
{
    scan->state = state;
    return OBJECT_SCAN_MORE;
}

static object_scan_result_t open_string(object_scan_t *scan, bool key)
{
    scan->in_key = key;
    return go(scan, STRING);
}

static object_scan_result_t push(object_scan_t *scan, bool object)
{
    if (scan->depth == DOCUMENT_DEPTH_MAX)
        return OBJECT_SCAN_FAIL;
    scan->objects[scan->depth++] = object;
    return go(scan, object ? KEY_OR_END : VALUE_OR_END);
}

static object_scan_result_t pop(object_scan_t *scan)
{
    scan->state = BEHIND;
    return --scan->depth == 0 ? OBJECT_SCAN_DONE : OBJECT_SCAN_MORE;
}

static object_scan_result_t value(object_scan_t *scan, char c)
{
    if (c == '"')
        return open_string(scan, false);
    if (c == '{' || c == '[')
        return push(scan, c == '{');
    if (c == '-' || digit(c))
        return go(scan, c == '-' ? MINUS : c == '0' ? ZERO : WHOLE);
    for (unsigned char i = 0; i < COUNT_OF(words); i++) {
        if (c == words[i][0]) {
            scan->word = i;
            scan->count = (unsigned char)(strlen(words[i]) - 1);
            return go(scan, WORD);
        }
    }
    return OBJECT_SCAN_FAIL;
}

static object_scan_result_t behind(object_scan_t *scan, char c)
{
    bool object = scan->objects[scan->depth - 1];
    scan->state = BEHIND;
    if (one_of(" \t\r\n", c))
        return OBJECT_SCAN_MORE;
    if (c == (object ? '}' : ']'))
        return pop(scan);
    return c == ',' ? go(scan, object ? KEY : VALUE) : OBJECT_SCAN_FAIL;
}

/* Between values and keys, where white space means nothing. */
static object_scan_result_t between(object_scan_t *scan, char c)
{
    if (one_of(" \t\r\n", c) && scan->state != START)
        return OBJECT_SCAN_MORE;
    switch (scan->state) {
    case START:
        return c == '{' ? push(scan, true) : OBJECT_SCAN_FAIL;
    case KEY_OR_END:
        return c == '}' ? pop(scan) : c == '"' ? open_string(scan, true) : OBJECT_SCAN_FAIL;
    case KEY:
        return c == '"' ? open_string(scan, true) : OBJECT_SCAN_FAIL;
    case COLON:
        return c == ':' ? go(scan, VALUE) : OBJECT_SCAN_FAIL;
    case VALUE_OR_END:
        return c == ']' ? pop(scan) : value(scan, c);
    default:
        return value(scan, c);
    }
}

static object_scan_result_t inside_string(object_scan_t *scan, char c)
{
    if (scan->state == HEX) {
        if (!digit(c) && !one_of("abcdefABCDEF", c))
            return OBJECT_SCAN_FAIL;
        return --scan->count == 0 ? go(scan, STRING) : OBJECT_SCAN_MORE;
    }
    if (scan->state == ESCAPE) {
        scan->count = 4;
        return c == 'u'                  ? go(scan, HEX)
               : one_of("\"\\/bfnrt", c) ? go(scan, STRING)
                                         : OBJECT_SCAN_FAIL;
    }
    if (c == '"')
        return go(scan, scan->in_key ? COLON : BEHIND);
    if (c == '\\')
        return go(scan, ESCAPE);
    return (unsigned char)c < 0x20 ? OBJECT_SCAN_FAIL : OBJECT_SCAN_MORE;
}

static object_scan_result_t inside_number(object_scan_t *scan, char c)
{
    bool digits_follow = digit(c);
    switch (scan->state) {
    case MINUS:
        return digits_follow ? go(scan, c == '0' ? ZERO : WHOLE) : OBJECT_SCAN_FAIL;
    case POINT:
        return digits_follow ? go(scan, FRACTION) : OBJECT_SCAN_FAIL;
    case EXPONENT:
        if (c == '+' || c == '-')
            return go(scan, EXPONENT_SIGN);
        return digits_follow ? go(scan, EXPONENT_DIGITS) : OBJECT_SCAN_FAIL;
    case EXPONENT_SIGN:
        return digits_follow ? go(scan, EXPONENT_DIGITS) : OBJECT_SCAN_FAIL;
    default:
        break;
    }
    if (digits_follow && scan->state != ZERO)
        return OBJECT_SCAN_MORE;
    if (c == '.' && (scan->state == ZERO || scan->state == WHOLE))
        return go(scan, POINT);
    if ((c == 'e' || c == 'E') && scan->state != EXPONENT_DIGITS)
        return go(scan, EXPONENT);
    return behind(scan, c);
}

object_scan_result_t object_scan_push(object_scan_t *scan, char byte)
{
    if (scan->state <= VALUE)
        return between(scan, byte);
    if (scan->state == BEHIND)
        return behind(scan, byte);
    if (scan->state <= HEX)
        return inside_string(scan, byte);
    if (scan->state == WORD) {
        const char *word = words[scan->word];
        if (byte != word[strlen(word) - scan->count])
            return OBJECT_SCAN_FAIL;
        return --scan->count == 0 ? go(scan, BEHIND) : OBJECT_SCAN_MORE;
    }
    return inside_number(scan, byte);
}
