/* document.c - see document.h. Parsing; rendering is in document_python.c.
 *
 * No recursion: open arrays and objects are on a small stack, so depth costs nothing but its limit.
 * Twins among the keys of an object are found by sorting them when it closes; hashing would leave
 * a sender of colliding keys quadratic time.
 */
#include "model/document.h"

#include <stdlib.h>
#include <string.h>

#include "model/utf8.h"
#include "runtime/base/limits.h"

typedef struct {
    document_t *document;
    const char *text;
    size_t length;
    size_t at;
    document_dialect_t dialect;
    uint32_t open[DOCUMENT_DEPTH_MAX];
    uint32_t depth;
} parsing_t;

#define REFUSE(p, ...) FAIL(STATUS_INVALID, "at byte %zu: " __VA_ARGS__)

static void skip_space(parsing_t *p)
{
    while (p->at < p->length && memchr(" \t\r\n", p->text[p->at], 4) != NULL)
        p->at++;
}

static int peek(const parsing_t *p)
{
    return p->at < p->length ? (unsigned char)p->text[p->at] : -1;
}

static bool take(parsing_t *p, const char *word)
{
    size_t length = strlen(word);
    if (p->length - p->at < length || memcmp(p->text + p->at, word, length) != 0)
        return false;
    p->at += length;
    return true;
}

static status_t add_node(parsing_t *p, document_kind_t kind, uint32_t *node)
{
    document_t *d = p->document;
    if (d->node_count == d->node_room) {
        uint32_t room = d->node_room == 0 ? 32 : 2 * d->node_room;
        document_node_t *nodes = realloc(d->nodes, room * sizeof(*nodes));
        if (nodes == NULL)
            return FAIL(STATUS_NO_MEMORY, "%u nodes", room);
        d->nodes = nodes;
        d->node_room = room;
    }
    *node = d->node_count++;
    d->nodes[*node] = (document_node_t){
        .start = (uint32_t)p->at, .next = d->node_count, .kind = (unsigned char)kind};
    return STATUS_OK;
}

static size_t digits(parsing_t *p)
{
    size_t start = p->at;
    while (p->at < p->length && p->text[p->at] >= '0' && p->text[p->at] <= '9')
        p->at++;
    return p->at - start;
}

static status_t parse_number(parsing_t *p)
{
    size_t start = p->at;
    take(p, "-");
    if (p->dialect == DOCUMENT_PYTHON && take(p, "Infinity"))
        return STATUS_OK;
    bool zero = peek(p) == '0';
    size_t whole = digits(p);
    if (whole == 0 || (zero && whole > 1))
        return REFUSE(p, "not a JSON value", start);
    if (take(p, ".") && digits(p) == 0)
        return REFUSE(p, "a number needs digits behind the point", start);
    if (take(p, "e") || take(p, "E")) {
        if (!take(p, "+"))
            take(p, "-");
        if (digits(p) == 0)
            return REFUSE(p, "a number needs digits in its exponent", start);
    }
    return STATUS_OK;
}

static int hex_digit(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static status_t parse_string(parsing_t *p)
{
    size_t start = p->at++;
    for (;;) {
        int c = peek(p);
        if (c < 0)
            return REFUSE(p, "a string does not end", start);
        if (c < 0x20)
            return REFUSE(p, "a control character in a string", p->at);
        p->at++;
        if (c == '"')
            return STATUS_OK;
        if (c != '\\')
            continue;
        int escape = peek(p);
        if (escape < 0 || strchr("\"\\/bfnrtu", escape) == NULL || escape == 0)
            return REFUSE(p, "an unknown escape in a string", p->at);
        p->at++;
        for (unsigned i = 0; escape == 'u' && i < 4; i++, p->at++) {
            if (hex_digit(peek(p)) < 0)
                return REFUSE(p, "\\u needs four hexadecimal digits", p->at);
        }
    }
}

static status_t parse_scalar(parsing_t *p, uint32_t *node)
{
    static const struct {
        const char *word;
        document_kind_t kind;
    } words[] = {{"null", DOCUMENT_NULL},
                 {"false", DOCUMENT_FALSE},
                 {"true", DOCUMENT_TRUE},
                 {"NaN", DOCUMENT_NUMBER},
                 {"Infinity", DOCUMENT_NUMBER}};
    bool quoted = peek(p) == '"';
    TRY(add_node(p, quoted ? DOCUMENT_STRING : DOCUMENT_NUMBER, node));
    bool done = false;
    size_t count = p->dialect == DOCUMENT_PYTHON ? 5 : 3;
    for (size_t i = 0; !done && i < count; i++) {
        if (take(p, words[i].word)) {
            p->document->nodes[*node].kind = (unsigned char)words[i].kind;
            done = true;
        }
    }
    if (!done)
        TRY(quoted ? parse_string(p) : parse_number(p));
    p->document->nodes[*node].end = (uint32_t)p->at;
    return STATUS_OK;
}

uint32_t document_character(const document_t *document, size_t *at)
{
    const char *text = document->text + *at;
    if (text[0] != '\\') {
        utf8_step_t step =
            utf8_step(text, UTF8_BYTES_MAX); /* checked text, with a quote behind it */
        *at += step.bytes;
        return step.code;
    }
    static const char letters[] = "bfnrt", values[] = "\b\f\n\r\t";
    const char *letter = strchr(letters, text[1]);
    if (text[1] != 'u') {
        *at += 2;
        return (unsigned char)(letter == NULL ? text[1] : values[letter - letters]);
    }
    uint32_t units[2] = {0, 0};
    for (unsigned i = 0; i < 4; i++)
        units[0] = units[0] << 4 | (uint32_t)hex_digit(text[2 + i]);
    *at += 6;
    bool high = units[0] >= 0xd800 && units[0] < 0xdc00;
    if (high && text[6] == '\\' && text[7] == 'u') {
        for (unsigned i = 0; i < 4; i++)
            units[1] = units[1] << 4 | (uint32_t)hex_digit(text[8 + i]);
        if (units[1] >= 0xdc00 && units[1] < 0xe000) {
            *at += 6;
            return 0x10000 + ((units[0] - 0xd800) << 10) + (units[1] - 0xdc00);
        }
    }
    return units[0] >= 0xd800 && units[0] < 0xe000 ? UTF8_REPLACEMENT_CODE : units[0];
}

static int compare_texts(const document_t *d, uint32_t left, uint32_t right)
{
    size_t at = d->nodes[left].start + 1, other = d->nodes[right].start + 1;
    size_t end = d->nodes[left].end - 1, other_end = d->nodes[right].end - 1;
    while (at < end && other < other_end) {
        uint32_t code = document_character(d, &at), other_code = document_character(d, &other);
        if (code != other_code)
            return code < other_code ? -1 : 1;
    }
    return (at < end) - (other < other_end);
}

/* By characters, then by place. */
static int compare_keys(const void *a, const void *b, void *context)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    int order = compare_texts(context, left, right);
    return order != 0 ? order : left < right ? -1 : 1;
}

static status_t find_twins(document_t *d, uint32_t object)
{
    size_t count = 0;
    for (uint32_t key = object + 1; key < d->node_count; key = d->nodes[key + 1].next)
        count++;
    if (count < 2)
        return STATUS_OK;
    uint32_t *keys = malloc(count * sizeof(*keys));
    if (keys == NULL)
        return FAIL(STATUS_NO_MEMORY, "%zu keys", count);
    count = 0;
    for (uint32_t key = object + 1; key < d->node_count; key = d->nodes[key + 1].next)
        keys[count++] = key;
    qsort_r(keys, count, sizeof(*keys), compare_keys, d);
    size_t first = 0;
    for (size_t i = 1; i < count; i++) {
        if (compare_texts(d, keys[first], keys[i]) != 0) {
            first = i;
            continue;
        }
        d->nodes[keys[first]].value = keys[i] + 1;
        d->nodes[keys[i]].hidden = true;
        d->twins = true;
    }
    free(keys);
    return STATUS_OK;
}

static status_t parse_key(parsing_t *p)
{
    skip_space(p);
    if (peek(p) != '"')
        return REFUSE(p, "expected a key in quotes", p->at);
    uint32_t key;
    TRY(add_node(p, DOCUMENT_STRING, &key));
    TRY(parse_string(p));
    p->document->nodes[key].end = (uint32_t)p->at;
    skip_space(p);
    if (!take(p, ":"))
        return REFUSE(p, "expected ':' behind a key", p->at);
    return STATUS_OK;
}

/* Opens an array or object. *expect_value false if it closes at once. */
static status_t open_container(parsing_t *p, bool *expect_value)
{
    bool object = peek(p) == '{';
    if (p->depth == DOCUMENT_DEPTH_MAX)
        return REFUSE(p, "nested deeper than %d", p->at, DOCUMENT_DEPTH_MAX);
    TRY(add_node(p, object ? DOCUMENT_OBJECT : DOCUMENT_ARRAY, &p->open[p->depth]));
    p->depth++;
    p->at++;
    skip_space(p);
    *expect_value = peek(p) != (object ? '}' : ']');
    return *expect_value && object ? parse_key(p) : STATUS_OK;
}

static status_t close_container(parsing_t *p)
{
    document_t *d = p->document;
    uint32_t container = p->open[--p->depth];
    d->nodes[container].end = (uint32_t)++p->at;
    d->nodes[container].next = d->node_count;
    return d->nodes[container].kind == DOCUMENT_OBJECT ? find_twins(d, container) : STATUS_OK;
}

/* Behind a value, or at a closing bracket: closes what ends here and steps over a comma. */
static status_t behind_value(parsing_t *p)
{
    while (p->depth > 0) {
        skip_space(p);
        bool object = p->document->nodes[p->open[p->depth - 1]].kind == DOCUMENT_OBJECT;
        if (peek(p) == (object ? '}' : ']')) {
            TRY(close_container(p));
            continue;
        }
        if (!take(p, ","))
            return REFUSE(p, "expected ',' or '%c'", p->at, object ? '}' : ']');
        return object ? parse_key(p) : STATUS_OK;
    }
    return STATUS_OK;
}

static status_t parse_all(parsing_t *p)
{
    do {
        skip_space(p);
        bool expect_value = false;
        uint32_t node;
        if (peek(p) == '{' || peek(p) == '[')
            TRY(open_container(p, &expect_value));
        else
            TRY(parse_scalar(p, &node));
        if (!expect_value)
            TRY(behind_value(p));
    } while (p->depth > 0);
    skip_space(p);
    return p->at == p->length ? STATUS_OK : REFUSE(p, "text behind the value", p->at);
}

status_t document_parse(document_t *document, document_dialect_t dialect, const char *text,
                        size_t length)
{
    *document = (document_t){.text = text};
    size_t broken_at;
    if (length > DOCUMENT_BYTES_MAX)
        return FAIL(STATUS_INVALID, "%zu bytes, at most %d", length, DOCUMENT_BYTES_MAX);
    if (!utf8_check(text, length, &broken_at))
        return FAIL(STATUS_INVALID, "at byte %zu: not UTF-8", broken_at);
    parsing_t p = {.document = document, .text = text, .length = length, .dialect = dialect};
    return parse_all(&p);
}

void document_fini(document_t *document)
{
    free(document->nodes);
    *document = (document_t){0};
}

document_kind_t document_kind(const document_t *document, uint32_t node)
{
    return document->nodes[node].kind;
}

uint32_t document_next(const document_t *document, uint32_t parent, uint32_t child)
{
    bool object = document->nodes[parent].kind == DOCUMENT_OBJECT;
    uint32_t end = document->nodes[parent].next;
    if (!object && document->nodes[parent].kind != DOCUMENT_ARRAY)
        return DOCUMENT_NONE;
    uint32_t next =
        child == DOCUMENT_NONE ? parent + 1 : document->nodes[object ? child + 1 : child].next;
    while (next < end && document->nodes[next].hidden)
        next = document->nodes[next + 1].next;
    return next < end ? next : DOCUMENT_NONE;
}

uint32_t document_twin(const document_t *d, uint32_t object)
{
    if (!d->twins || d->nodes[object].kind != DOCUMENT_OBJECT)
        return DOCUMENT_NONE;
    for (uint32_t key = object + 1; key < d->nodes[object].next; key = d->nodes[key + 1].next)
        if (d->nodes[key].hidden)
            return key;
    return DOCUMENT_NONE;
}

uint32_t document_value(const document_t *document, uint32_t key)
{
    uint32_t twin = document->nodes[key].value;
    return twin == DOCUMENT_NONE ? key + 1 : twin;
}

bool document_equals(const document_t *document, uint32_t node, const char *text)
{
    if (document->nodes[node].kind != DOCUMENT_STRING)
        return false;
    size_t at = document->nodes[node].start + 1, end = document->nodes[node].end - 1;
    size_t length = strlen(text), other = 0;
    while (at < end && other < length) {
        utf8_step_t step = utf8_step(text + other, length - other);
        if (document_character(document, &at) != step.code)
            return false;
        other += step.bytes;
    }
    return at == end && other == length;
}

uint32_t document_member(const document_t *document, uint32_t object, const char *key)
{
    if (document->nodes[object].kind != DOCUMENT_OBJECT)
        return DOCUMENT_NONE;
    for (uint32_t child = document_next(document, object, DOCUMENT_NONE); child != DOCUMENT_NONE;
         child = document_next(document, object, child)) {
        if (document_equals(document, child, key))
            return document_value(document, child);
    }
    return DOCUMENT_NONE;
}
