#include "model/json_scan.h"

#include <string.h>

void json_scan_init(json_scan_t *scan, const char *text, size_t size)
{
    *scan = (json_scan_t){.text = text, .size = size};
}

bool json_scan_fail(json_scan_t *scan, const char *error)
{
    if (!scan->error)
        scan->error = error;
    return false;
}

/* The next byte that is not white space, or -1 at the end and after an error. */
static int peek(json_scan_t *scan)
{
    if (scan->error)
        return -1;
    while (scan->at < scan->size && strchr(" \t\r\n", scan->text[scan->at]) && scan->text[scan->at])
        scan->at++;
    return scan->at < scan->size ? (unsigned char)scan->text[scan->at] : -1;
}

bool json_scan_sees(json_scan_t *scan, char c)
{
    return peek(scan) == (unsigned char)c;
}

bool json_scan_take(json_scan_t *scan, char c)
{
    if (!json_scan_sees(scan, c)) {
        switch (c) {
        case '{':
            return json_scan_fail(scan, "expected an object");
        case '[':
            return json_scan_fail(scan, "expected a list");
        case '"':
            return json_scan_fail(scan, "expected a string");
        default:
            return json_scan_fail(scan, "expected other punctuation");
        }
    }
    scan->at++;
    return true;
}

bool json_scan_more(json_scan_t *scan, char close)
{
    if (json_scan_sees(scan, close)) {
        scan->at++;
        return false;
    }
    return json_scan_take(scan, ',');
}

bool json_scan_string(json_scan_t *scan, json_string_view_t *string)
{
    if (!json_scan_take(scan, '"'))
        return false;
    *string = (json_string_view_t){.bytes = scan->text + scan->at};
    for (; scan->at < scan->size; scan->at++) {
        char c = scan->text[scan->at];

        if (c == '"') {
            string->size = (size_t)(scan->text + scan->at - string->bytes);
            scan->at++;
            return true;
        }
        if ((unsigned char)c < 0x20)
            return json_scan_fail(scan, "control character in a string");
        if (c == '\\') {
            string->escaped = true;
            scan->at++;
        }
    }
    scan->at = scan->size;
    return json_scan_fail(scan, "string without an end");
}

bool json_scan_key(json_scan_t *scan, json_string_view_t *key)
{
    return json_scan_string(scan, key) && json_scan_take(scan, ':');
}

bool json_scan_u64(json_scan_t *scan, uint64_t *value)
{
    uint64_t sum = 0;
    int c = peek(scan);
    size_t first = scan->at;

    if (c < '0' || c > '9')
        return json_scan_fail(scan, "expected a whole number");
    for (; scan->at < scan->size; scan->at++) {
        c = (unsigned char)scan->text[scan->at];
        if (c < '0' || c > '9')
            break;
        if (sum > (UINT64_MAX - (uint64_t)(c - '0')) / 10)
            return json_scan_fail(scan, "number above 2^64 - 1");
        sum = sum * 10 + (uint64_t)(c - '0');
    }
    if (scan->at < scan->size && strchr(".eE", scan->text[scan->at]) && scan->text[scan->at])
        return json_scan_fail(scan, "expected a whole number");
    if (scan->text[first] == '0' && scan->at > first + 1)
        return json_scan_fail(scan, "number with a leading zero");
    *value = sum;
    return true;
}

static bool skip_scalar(json_scan_t *scan)
{
    json_string_view_t string;
    size_t first;

    if (json_scan_sees(scan, '"'))
        return json_scan_string(scan, &string);
    first = scan->at;
    while (scan->at < scan->size && scan->text[scan->at] &&
           strchr("+-.0123456789abcdefghijklmnopqrstuvwxyzE", scan->text[scan->at]))
        scan->at++;
    return scan->at > first || json_scan_fail(scan, "expected a value");
}

/* Open brackets stand in `close`; between two values comes what the innermost one asks for. */
bool json_scan_skip(json_scan_t *scan)
{
    char close[JSON_SCAN_DEPTH_MAX];
    json_string_view_t key;
    size_t depth = 0;

    do {
        if (depth > 0 && close[depth - 1] == '}' && !json_scan_key(scan, &key))
            return false;
        if (json_scan_sees(scan, '{') || json_scan_sees(scan, '[')) {
            if (depth == JSON_SCAN_DEPTH_MAX)
                return json_scan_fail(scan, "nested too deeply");
            close[depth++] = scan->text[scan->at++] == '{' ? '}' : ']';
            if (!json_scan_sees(scan, close[depth - 1]))
                continue;
        } else if (!skip_scalar(scan)) {
            return false;
        }
        while (depth > 0 && json_scan_sees(scan, close[depth - 1])) {
            scan->at++;
            depth--;
        }
        if (depth > 0 && !json_scan_take(scan, ','))
            return false;
    } while (depth > 0);
    return !scan->error;
}

bool json_scan_end(json_scan_t *scan)
{
    if (peek(scan) >= 0)
        return json_scan_fail(scan, "text behind the end");
    return !scan->error;
}

bool json_string_is(const json_string_view_t *string, const char *text)
{
    return string->size == strlen(text) && memcmp(string->bytes, text, string->size) == 0;
}

bool json_string_plain(const json_string_view_t *string, size_t room)
{
    if (string->size == 0 || string->size >= room || string->escaped)
        return false;
    for (size_t i = 0; i < string->size; i++)
        if (string->bytes[i] < 0x21 || string->bytes[i] > 0x7e)
            return false;
    return true;
}
