/* yaml.c - a recursive descent over bytes; depth is bounded, every loop consumes.
 *
 * The reader stands on a byte and knows its line. Block structure is found by columns: `content`
 * moves to the next byte that is neither blank nor comment, and its column says whose child it is.
 * The first error ends the reading: `failed` is set, and every function returns at once.
 */
#include "topology/yaml.h"

#include <stdarg.h>
#include <string.h>

typedef struct {
    const char *text;
    size_t size;
    size_t at;
    size_t line_start;
    uint32_t line;
    uint32_t depth;
    bool failed;
    yaml_tree_t *tree;
    topology_errors_t *errors;
} reader_t;

static uint32_t read_block(reader_t *r, uint32_t column);
static uint32_t read_flow(reader_t *r);

const char *yaml_kind_text(yaml_kind_t kind)
{
    static const char *const texts[] = {"nothing", "a value", "a list", "a map"};
    return texts[kind];
}

/* ---- bytes and places ------------------------------------------------------------------------ */

/* Byte `ahead` bytes on, or NUL behind the end; the text itself contains none. */
static char peek(const reader_t *r, size_t ahead)
{
    return r->at + ahead < r->size ? r->text[r->at + ahead] : '\0';
}

static bool ends_line(char c)
{
    return c == '\n' || c == '\0';
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' ||
           c == '\r'; /* check_bytes lets a return stand only at a line's end */
}

/* Columns count characters, not bytes. */
static topology_mark_t mark_at(const reader_t *r, size_t at)
{
    uint32_t column = 1;
    for (size_t i = r->line_start; i < at; i++)
        column += ((unsigned char)r->text[i] & 0xC0) != 0x80;
    return (topology_mark_t){r->line, column};
}

static topology_mark_t mark(const reader_t *r)
{
    return mark_at(r, r->at);
}

static uint32_t PRINTF_LIKE(3, 4) fail(reader_t *r, topology_mark_t at, const char *format, ...)
{
    if (!r->failed) {
        char text[TOPOLOGY_TEXT_BYTES_MAX];
        va_list list;
        va_start(list, format);
        vsnprintf(text, sizeof(text), format, list);
        va_end(list);
        topology_errors_add(r->errors, at, "%s", text);
    }
    r->failed = true;
    return YAML_NONE;
}

static uint32_t node_add(reader_t *r, yaml_kind_t kind, topology_mark_t at)
{
    if (r->tree->count == TOPOLOGY_NODES_MAX)
        return fail(r, at, "more than %d values, lists and maps in one file", TOPOLOGY_NODES_MAX);
    uint32_t node = r->tree->count++;
    r->tree->nodes[node] =
        (yaml_node_t){.kind = kind, .at = at, .first = YAML_NONE, .next = YAML_NONE};
    return node;
}

/* Texts never outgrow their room: each byte of the file is copied at most once as a key and once
 * as a value, and each text needs one NUL but had a separator in the file. */
static void text_push(reader_t *r, char c)
{
    ASSERT(r->tree->texts_used < sizeof(r->tree->texts));
    r->tree->texts[r->tree->texts_used++] = c;
}

static void skip_blanks(reader_t *r)
{
    while (blank(peek(r, 0)))
        r->at++;
}

/* Behind a value: only blanks and a comment may follow; stands at the line's end afterwards. */
static void skip_line_rest(reader_t *r)
{
    size_t start = r->at;
    skip_blanks(r);
    if (peek(r, 0) == '#' && (r->at > start || r->at == r->line_start)) {
        while (!ends_line(peek(r, 0)))
            r->at++;
    }
}

static void next_line(reader_t *r)
{
    ASSERT(peek(r, 0) == '\n');
    r->at++;
    r->line++;
    r->line_start = r->at;
}

static uint32_t column_of(const reader_t *r)
{
    return (uint32_t)(r->at - r->line_start);
}

static bool item_starts(const reader_t *r)
{
    return peek(r, 0) == '-' && (blank(peek(r, 1)) || ends_line(peek(r, 1)));
}

static bool document_mark(const reader_t *r)
{
    return r->at == r->line_start && r->at + 3 <= r->size &&
           (memcmp(r->text + r->at, "---", 3) == 0 || memcmp(r->text + r->at, "...", 3) == 0) &&
           (blank(peek(r, 3)) || ends_line(peek(r, 3)));
}

/* To the next content at or behind the reader, over blank lines and comments. False at the end. */
static bool content(reader_t *r)
{
    for (;;) {
        skip_line_rest(r);
        char c = peek(r, 0);
        if (c == '\0')
            return false;
        if (c != '\n')
            break;
        next_line(r);
    }
    for (size_t i = r->line_start; i < r->at && blank(r->text[i]); i++) {
        if (r->text[i] == '\t')
            fail(r, mark_at(r, i), "a tab in the indentation; indent with spaces");
    }
    if (document_mark(r))
        fail(r, mark(r), "a second document; a topology file holds one");
    return !r->failed;
}

/* ---- scalars --------------------------------------------------------------------------------- */

static const char *refused_sign(char c)
{
    switch (c) {
    case '&':
        return "'&' would be an anchor; topology files have none, repeat the value";
    case '*':
        return "'*' would be an alias; topology files have none, repeat the value";
    case '!':
        return "'!' would be a tag; topology files have none";
    case '|':
    case '>':
        return "a block scalar; write the value on one line";
    case '%':
        return "'%' would be a directive; topology files have none";
    case '@':
    case '`':
        return "a value cannot begin with this sign; put it in quotes";
    case '#':
        return "a comment needs a blank in front of its '#'";
    case '[':
    case '{':
        return "a list or map cannot be a key";
    case ',':
    case ']':
    case '}':
        return "a value is missing in front of this sign";
    default:
        return NULL;
    }
}

static bool in_flow(char c)
{
    return c == ',' || c == '[' || c == ']' || c == '{' || c == '}';
}

/* A ':' that ends a key here. */
static bool key_ends(const reader_t *r, size_t ahead, bool flow)
{
    char after = peek(r, ahead + 1);
    return peek(r, ahead) == ':' && (blank(after) || ends_line(after) || (flow && in_flow(after)));
}

/* Bytes of the plain scalar that begins here, without blanks at its end. */
static size_t plain_length(const reader_t *r, bool flow)
{
    size_t length = 0;
    for (size_t i = 0; !ends_line(peek(r, i)); i++) {
        char c = peek(r, i);
        if (key_ends(r, i, flow) || (flow && in_flow(c)))
            break;
        if (c == '#' && i > 0 && blank(peek(r, i - 1)))
            break;
        if (!blank(c))
            length = i + 1;
    }
    return length;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Stands behind the backslash; pushes what it means. */
static void read_escape(reader_t *r)
{
    static const char signs[] = "\"\\/ tnr";
    static const char means[] = "\"\\/ \t\n\r";
    char c = peek(r, 0);
    const char *sign = c ? strchr(signs, c) : NULL;
    if (sign) {
        text_push(r, means[sign - signs]);
        r->at++;
        return;
    }
    int high = c == 'x' ? hex_digit(peek(r, 1)) : -1;
    int low = high >= 0 ? hex_digit(peek(r, 2)) : -1;
    int code = low >= 0 ? 16 * high + low : 0;
    if (code < 0x20 || code > 0x7E) {
        fail(r, mark_at(r, r->at - 1),
             "an escape that is not read; there are \\\" \\\\ \\/ \\t \\n \\r and \\x20 to \\x7e");
        return;
    }
    text_push(r, (char)code);
    r->at += 3;
}

static void read_quoted(reader_t *r)
{
    topology_mark_t start = mark(r);
    char quote = peek(r, 0);
    r->at++;
    while (!r->failed) {
        char c = peek(r, 0);
        if (ends_line(c)) {
            fail(r, start, "this quote is not closed on its line");
        } else if (c == quote && quote == '\'' && peek(r, 1) == '\'') {
            text_push(r, '\'');
            r->at += 2;
        } else if (c == quote) {
            r->at++;
            break;
        } else if (c == '\\' && quote == '"') {
            r->at++;
            read_escape(r);
        } else {
            text_push(r, c);
            r->at++;
        }
    }
    text_push(r, '\0');
}

/* A plain or quoted scalar as text; returns its offset. */
static uint32_t read_text(reader_t *r, bool flow, bool *quoted)
{
    uint32_t offset = r->tree->texts_used;
    char c = peek(r, 0);
    *quoted = c == '"' || c == '\'';
    if (*quoted) {
        read_quoted(r);
        return offset;
    }
    const char *refused = refused_sign(c);
    if (refused)
        return fail(r, mark(r), "%s", refused);
    if ((c == '?' || c == '-' || c == ':') && (blank(peek(r, 1)) || ends_line(peek(r, 1))))
        return fail(r, mark(r), "'%c' cannot stand here; a line is 'key: value' or '- item'", c);
    size_t length = plain_length(r, flow);
    for (size_t i = 0; i < length; i++)
        text_push(r, peek(r, i));
    text_push(r, '\0');
    r->at += length;
    return offset;
}

static uint32_t read_scalar(reader_t *r, bool flow)
{
    topology_mark_t at = mark(r);
    uint32_t node = node_add(r, YAML_SCALAR, at);
    bool quoted;
    uint32_t text = read_text(r, flow, &quoted);
    if (r->failed)
        return YAML_NONE;
    yaml_node_t *n = &r->tree->nodes[node];
    n->text = text;
    n->quoted = quoted;
    const char *value = yaml_text(r->tree, text);
    if (!quoted && (strcmp(value, "~") == 0 || strcmp(value, "null") == 0))
        n->kind = YAML_NULL;
    return node;
}

/* ---- maps ------------------------------------------------------------------------------------ */

typedef struct {
    uint32_t text;
    topology_mark_t at;
} yaml_key_t;

/* Reads "key:" and stands behind the colon. Refuses a key that the map has already. */
static yaml_key_t read_key(reader_t *r, uint32_t map, bool flow)
{
    bool quoted;
    yaml_key_t key = {.at = mark(r)};
    key.text = read_text(r, flow, &quoted);
    skip_blanks(r);
    if (r->failed)
        return key;
    const char *name = yaml_text(r->tree, key.text);
    if (!key_ends(r, 0, flow) && !(quoted && flow && peek(r, 0) == ':')) {
        fail(r, key.at, "'%.60s' has no ':' and value; a map holds 'key: value'", name);
        return key;
    }
    r->at++;
    for (uint32_t i = r->tree->nodes[map].first; i != YAML_NONE; i = r->tree->nodes[i].next) {
        if (strcmp(yaml_text(r->tree, r->tree->nodes[i].key), name) == 0)
            fail(r, key.at, "'%.60s' stands here a second time; the first is in line %u", name,
                 r->tree->nodes[i].key_at.line);
    }
    return key;
}

static void append(reader_t *r, uint32_t parent, uint32_t *last, uint32_t child)
{
    if (r->failed)
        return;
    if (*last == YAML_NONE)
        r->tree->nodes[parent].first = child;
    else
        r->tree->nodes[*last].next = child;
    *last = child;
}

static void append_key(reader_t *r, uint32_t map, uint32_t *last, uint32_t child, yaml_key_t key)
{
    if (r->failed)
        return;
    r->tree->nodes[child].key = key.text;
    r->tree->nodes[child].key_at = key.at;
    append(r, map, last, child);
}

static bool enter(reader_t *r)
{
    if (r->depth == TOPOLOGY_DEPTH_MAX)
        fail(r, mark(r), "lists and maps nested more than %d deep", TOPOLOGY_DEPTH_MAX);
    else
        r->depth++;
    return !r->failed;
}

/* Over blanks, comments and line ends inside brackets. False at the end of the file. */
static bool flow_content(reader_t *r, topology_mark_t open)
{
    if (!content(r) && !r->failed)
        fail(r, open, "this bracket is not closed");
    return !r->failed;
}

static uint32_t read_flow(reader_t *r)
{
    char c = peek(r, 0);
    if (c != '[' && c != '{')
        return read_scalar(r, true);
    topology_mark_t open = mark(r);
    bool map = c == '{';
    char close = map ? '}' : ']';
    uint32_t node = node_add(r, map ? YAML_MAP : YAML_LIST, open);
    uint32_t last = YAML_NONE;
    if (r->failed || !enter(r))
        return YAML_NONE;
    r->at++;
    while (flow_content(r, open) && peek(r, 0) != close) {
        yaml_key_t key = {0};
        if (map) {
            key = read_key(r, node, true);
            if (r->failed || !flow_content(r, open))
                break;
        }
        topology_mark_t at = mark(r);
        bool none = map && (peek(r, 0) == ',' || peek(r, 0) == '}');
        uint32_t child = none ? node_add(r, YAML_NULL, at) : read_flow(r);
        if (map)
            append_key(r, node, &last, child, key);
        else
            append(r, node, &last, child);
        if (r->failed || !flow_content(r, open))
            break;
        if (peek(r, 0) == ',')
            r->at++;
        else if (peek(r, 0) != close)
            fail(r, mark(r), "expected ',' or '%c' here; the bracket opened in line %u", close,
                 open.line);
    }
    r->at++;
    r->depth--;
    return node;
}

/* A value that begins on this line behind a key or dash: flow or scalar, then the line's end. */
static uint32_t read_inline(reader_t *r)
{
    char c = peek(r, 0);
    bool flow = c == '[' || c == '{';
    uint32_t node = flow ? read_flow(r) : read_scalar(r, false);
    if (r->failed)
        return YAML_NONE;
    skip_line_rest(r);
    if (!ends_line(peek(r, 0)))
        return key_ends(r, 0, false)
                   ? fail(r, mark(r), "a second ':' in one line; begin a new line or use quotes")
                   : fail(r, mark(r), "more behind a value; begin a new line or use quotes");
    return node;
}

/* Behind "key:" or "-" at `column`: the value on this line, or the deeper block that follows, or
 * nothing. A list may stand at its key's own column. */
static uint32_t read_value(reader_t *r, uint32_t column, bool keyed)
{
    skip_line_rest(r);
    if (!ends_line(peek(r, 0)))
        return read_inline(r);
    topology_mark_t at = mark(r);
    if (content(r)) {
        uint32_t deeper = column_of(r);
        if (deeper > column || (keyed && deeper == column && item_starts(r)))
            return read_block(r, deeper);
    }
    return r->failed ? YAML_NONE : node_add(r, YAML_NULL, at);
}

/* After an entry of the block at `column`: true if another one begins here. */
static bool block_goes_on(reader_t *r, uint32_t column, bool list)
{
    if (r->failed || !content(r) || column_of(r) < column)
        return false;
    if (column_of(r) > column) {
        fail(r, mark(r), "indented by %u, expected %u as the lines above", column_of(r), column);
        return false;
    }
    if (item_starts(r) != list) {
        /* The list of a key may end at the key's own column; whoever called decides. */
        if (list)
            return false;
        fail(r, mark(r), "a list item between the keys of a map");
        return false;
    }
    return true;
}

static uint32_t read_block_map(reader_t *r, uint32_t column)
{
    uint32_t node = node_add(r, YAML_MAP, mark(r));
    uint32_t last = YAML_NONE;
    if (r->failed || !enter(r))
        return YAML_NONE;
    do {
        yaml_key_t key = read_key(r, node, false);
        if (!r->failed)
            append_key(r, node, &last, read_value(r, column, true), key);
    } while (block_goes_on(r, column, false));
    r->depth--;
    return node;
}

/* Over a quoted scalar, or to the line's end if it is not closed. */
static void skip_quoted(reader_t *r)
{
    char quote = peek(r, 0);
    r->at++;
    while (!ends_line(peek(r, 0))) {
        bool pair = quote == '"' ? peek(r, 0) == '\\' && !ends_line(peek(r, 1))
                                 : peek(r, 0) == quote && peek(r, 1) == quote;
        if (!pair && peek(r, 0) == quote) {
            r->at++;
            return;
        }
        r->at += pair ? 2 : 1;
    }
}

static bool key_starts(const reader_t *r)
{
    reader_t ahead = *r; /* looks only: the copy's place moves, tree and errors stay */
    char c = peek(r, 0);
    if (c == '"' || c == '\'') {
        skip_quoted(&ahead);
    } else if (c != '[' && c != '{') {
        ahead.at += plain_length(r, false);
    }
    skip_blanks(&ahead);
    return key_ends(&ahead, 0, false);
}

static uint32_t read_block_list(reader_t *r, uint32_t column)
{
    uint32_t node = node_add(r, YAML_LIST, mark(r));
    uint32_t last = YAML_NONE;
    if (r->failed || !enter(r))
        return YAML_NONE;
    do {
        r->at++;
        size_t behind = r->at;
        skip_blanks(r);
        bool empty = ends_line(peek(r, 0)) || peek(r, 0) == '#';
        bool compact = !empty && (item_starts(r) || key_starts(r));
        bool tab = memchr(r->text + behind, '\t', r->at - behind) != NULL;
        if (compact && tab)
            fail(r, mark_at(r, behind), "a tab in the indentation; indent with spaces");
        else if (compact)
            append(r, node, &last, read_block(r, column_of(r)));
        if (!compact) {
            r->at = behind; /* a comment begins behind a blank */
            append(r, node, &last, read_value(r, column, false));
        }
    } while (block_goes_on(r, column, true));
    r->depth--;
    return node;
}

/* The block that begins here, at this column. */
static uint32_t read_block(reader_t *r, uint32_t column)
{
    if (item_starts(r))
        return read_block_list(r, column);
    if (key_starts(r))
        return read_block_map(r, column);
    return read_inline(r);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Length of the well-formed character at `at`, 0 if there is none (Unicode 15, table 3-7). */
static size_t utf8_length(const unsigned char *at, size_t left)
{
    unsigned char c = at[0];
    size_t length = c < 0x80                ? 1
                    : c >= 0xC2 && c < 0xE0 ? 2
                    : c >= 0xE0 && c < 0xF0 ? 3
                    : c >= 0xF0 && c < 0xF5 ? 4
                                            : 0;
    if (length == 0 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    bool bad = length > 1 && ((c == 0xE0 && at[1] < 0xA0) || (c == 0xED && at[1] > 0x9F) ||
                              (c == 0xF0 && at[1] < 0x90) || (c == 0xF4 && at[1] > 0x8F));
    return bad ? 0 : length;
}

/* Also counts a carriage return in front of a line feed as part of it. */
static bool readable(const reader_t *r, size_t at)
{
    unsigned char c = (unsigned char)r->text[at];
    if (c == '\r')
        return at + 1 < r->size && r->text[at + 1] == '\n';
    return (c >= 0x20 && c != 0x7F) || c == '\n' || c == '\t';
}

static void check_bytes(reader_t *r)
{
    reader_t scan = *r;
    while (scan.at < scan.size) {
        size_t length =
            utf8_length((const unsigned char *)scan.text + scan.at, scan.size - scan.at);
        if (length == 0 || !readable(&scan, scan.at)) {
            fail(r, mark_at(&scan, scan.at), "byte 0x%02x is not %s; a topology file is UTF-8 text",
                 (unsigned char)scan.text[scan.at], length ? "readable" : "part of a character");
            return;
        }
        if (scan.text[scan.at] == '\n')
            next_line(&scan);
        else
            scan.at += length;
    }
}

static void read_start(reader_t *r)
{
    if (r->size >= 3 && memcmp(r->text, "\xEF\xBB\xBF", 3) == 0)
        r->line_start = r->at = 3;
    reader_t start = *r;
    for (skip_line_rest(&start); peek(&start, 0) == '\n'; skip_line_rest(&start))
        next_line(&start);
    if (document_mark(&start) && peek(&start, 0) == '-') {
        start.at += 3;
        skip_line_rest(&start);
        if (!ends_line(peek(&start, 0)))
            fail(&start, mark(&start), "nothing may follow '---' on its line");
        *r = start;
    }
}

status_t yaml_read(const char *text, size_t bytes, yaml_tree_t *tree, topology_errors_t *errors)
{
    reader_t r = {.text = text, .size = bytes, .line = 1, .tree = tree, .errors = errors};
    tree->count = 0;
    tree->texts_used = 0;
    if (bytes > TOPOLOGY_BYTES_MAX)
        fail(&r, (topology_mark_t){0, 0}, "the file has more than %d bytes", TOPOLOGY_BYTES_MAX);
    else
        check_bytes(&r);
    if (!r.failed) {
        read_start(&r);
        if (content(&r))
            read_block(&r, column_of(&r));
        else if (!r.failed)
            fail(&r, (topology_mark_t){0, 0},
                 "the file is empty; docs/topology.md shows the smallest one");
        if (!r.failed && content(&r))
            fail(&r, mark(&r), "indented less than the first line");
    }
    if (r.failed)
        return FAIL(STATUS_BAD_CONFIG, "the file cannot be read as YAML");
    return STATUS_OK;
}
