/* yaml.c - a bounded tree out of libyaml's events.
 *
 * libyaml's parser works in a loop without recursion and its look-ahead is bounded, so a hostile
 * file costs what its bytes cost. The first error ends the reading: `failed` is set, and nothing
 * more is taken.
 */
#include "topology/yaml.h"

#include <stdarg.h>
#include <string.h>
#include <yaml.h>

/* A list or map that is open. */
typedef struct {
    uint32_t node;
    uint32_t last; /* its last child so far */
    bool has_key;  /* of a map: a key was read and its value follows */
    uint32_t key;
    topology_mark_t key_at;
} level_t;

typedef struct {
    yaml_tree_t *tree;
    topology_errors_t *errors;
    bool failed;
    uint32_t documents;
    uint32_t depth;
    level_t levels[TOPOLOGY_DEPTH_MAX];
} reader_t;

const char *yaml_kind_text(yaml_kind_t kind)
{
    static const char *const texts[] = {"nothing", "a value", "a list", "a map"};
    return texts[kind];
}

static topology_mark_t mark(yaml_mark_t at)
{
    return (topology_mark_t){(uint32_t)at.line + 1, (uint32_t)at.column + 1};
}

static void PRINTF_LIKE(3, 4) fail(reader_t *r, topology_mark_t at, const char *format, ...)
{
    char text[TOPOLOGY_TEXT_BYTES_MAX];
    va_list list;
    if (r->failed)
        return;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    topology_errors_add(r->errors, at, "%s", text);
    r->failed = true;
}

/* ---- tree ------------------------------------------------------------------------------------ */

static level_t *level_top(reader_t *r)
{
    return r->depth > 0 ? &r->levels[r->depth - 1] : NULL;
}

/* Appends a node to the list or map that is open; YAML_NONE if there is no room. */
static uint32_t node_add(reader_t *r, yaml_kind_t kind, topology_mark_t at)
{
    if (r->tree->count == TOPOLOGY_NODES_MAX) {
        fail(r, at, "more than %d values, lists and maps in one file", TOPOLOGY_NODES_MAX);
        return YAML_NONE;
    }
    uint32_t node = r->tree->count++;
    yaml_tree_node_t *n = &r->tree->nodes[node];
    *n = (yaml_tree_node_t){.kind = kind, .at = at, .first = YAML_NONE, .next = YAML_NONE};
    level_t *level = level_top(r);
    if (!level)
        return node;
    if (level->last == YAML_NONE)
        r->tree->nodes[level->node].first = node;
    else
        r->tree->nodes[level->last].next = node;
    level->last = node;
    n->key = level->key;
    n->key_at = level->key_at;
    level->has_key = false;
    return node;
}

static bool wants_key(reader_t *r)
{
    const level_t *level = level_top(r);
    return level && r->tree->nodes[level->node].kind == YAML_MAP && !level->has_key;
}

static void open_level(reader_t *r, yaml_kind_t kind, topology_mark_t at)
{
    if (wants_key(r))
        fail(r, at, "%s cannot be a key; put a name in front of the ':'", yaml_kind_text(kind));
    else if (r->depth == TOPOLOGY_DEPTH_MAX)
        fail(r, at, "lists and maps nested more than %d deep", TOPOLOGY_DEPTH_MAX);
    uint32_t node = r->failed ? YAML_NONE : node_add(r, kind, at);
    if (!r->failed)
        r->levels[r->depth++] = (level_t){.node = node, .last = YAML_NONE};
}

/* ---- scalars --------------------------------------------------------------------------------- */

/* Copies the text of a scalar; returns its offset. */
static uint32_t text_add(reader_t *r, const yaml_event_t *event)
{
    yaml_tree_t *tree = r->tree;
    size_t length = event->data.scalar.length;
    uint32_t offset = tree->texts_used;
    /* An escape grows by half at most ("\L" is three bytes), so this is never reached today. */
    if (length >= sizeof(tree->texts) - offset) {
        fail(r, mark(event->start_mark), "the values of the file have too many bytes");
        return 0;
    }
    memcpy(tree->texts + offset, event->data.scalar.value, length);
    tree->texts[offset + length] = '\0';
    tree->texts_used += (uint32_t)length + 1;
    return offset;
}

/* Escapes can spell what may not stand in a file as it is: control characters, Unicode's own ends of
 * lines, U+FFFE and U+FFFF. A text without them can be printed and read again. */
static bool has_control(const char *text)
{
    static const char *const more[] = {"\u2028", "\u2029", "\xEF\xBF\xBE", "\xEF\xBF\xBF"};
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if ((*c < 0x20 && *c != '\t') || *c == 0x7F || (*c == 0xC2 && c[1] < 0xA0))
            return true;
    for (size_t i = 0; i < COUNT_OF(more); i++)
        if (strstr(text, more[i]))
            return true;
    return false;
}

static void check_scalar(reader_t *r, const yaml_event_t *event)
{
    topology_mark_t at = mark(event->start_mark);
    yaml_scalar_style_t style = event->data.scalar.style;
    if (style == YAML_LITERAL_SCALAR_STYLE || style == YAML_FOLDED_SCALAR_STYLE)
        fail(r, at, "a block scalar; write the value on one line");
    else if (event->start_mark.line != event->end_mark.line)
        fail(
            r, at,
            "a value over several lines; write it on one, and put the keys of a map in one column");
    else if (strlen((const char *)event->data.scalar.value) != event->data.scalar.length ||
             has_control((const char *)event->data.scalar.value))
        fail(r, at, "a control character in a value; topology files have none");
}

static void take_key(reader_t *r, const yaml_event_t *event)
{
    level_t *level = level_top(r);
    topology_mark_t at = mark(event->start_mark);
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    uint32_t key = text_add(r, event);
    if (r->failed)
        return;
    const char *name = yaml_text(r->tree, key);
    if (plain && name[0] == '\0')
        fail(r, at, "a key is missing in front of ':'; a map holds 'key: value'");
    if (plain && strcmp(name, "<<") == 0)
        fail(r, at, "'<<' would be a merge key; topology files have none, repeat the values");
    for (uint32_t i = r->tree->nodes[level->node].first; i != YAML_NONE;
         i = r->tree->nodes[i].next) {
        if (strcmp(yaml_text(r->tree, r->tree->nodes[i].key), name) == 0)
            fail(r, at, "'%.60s' stands here a second time; the first is in line %u", name,
                 r->tree->nodes[i].key_at.line);
    }
    level->key = key;
    level->key_at = at;
    level->has_key = true;
}

static void take_scalar(reader_t *r, const yaml_event_t *event)
{
    check_scalar(r, event);
    if (r->failed)
        return;
    if (wants_key(r)) {
        take_key(r, event);
        return;
    }
    uint32_t node = node_add(r, YAML_SCALAR, mark(event->start_mark));
    uint32_t text = text_add(r, event);
    if (r->failed)
        return;
    yaml_tree_node_t *n = &r->tree->nodes[node];
    n->text = text;
    n->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    const char *value = yaml_text(r->tree, text);
    if (!n->quoted && (!value[0] || strcmp(value, "~") == 0 || strcmp(value, "null") == 0))
        n->kind = YAML_NULL;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void check_properties(reader_t *r, const yaml_event_t *event, const yaml_char_t *anchor,
                             const yaml_char_t *tag)
{
    if (anchor)
        fail(r, mark(event->start_mark),
             "'&' would be an anchor; topology files have none, repeat the value");
    if (tag)
        fail(r, mark(event->start_mark), "'!' would be a tag; topology files have none");
}

static void take_document(reader_t *r, const yaml_event_t *event)
{
    topology_mark_t at = mark(event->start_mark);
    if (r->documents++ > 0)
        fail(r, at, "a second document; a topology file holds one");
    if (event->data.document_start.version_directive ||
        event->data.document_start.tag_directives.start !=
            event->data.document_start.tag_directives.end)
        fail(r, at, "'%%' would be a directive; topology files have none");
}

static void take_event(reader_t *r, const yaml_event_t *event)
{
    topology_mark_t at = mark(event->start_mark);
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        take_document(r, event);
        break;
    case YAML_ALIAS_EVENT:
        fail(r, at, "'*' would be an alias; topology files have none, repeat the value");
        break;
    case YAML_SCALAR_EVENT:
        check_properties(r, event, event->data.scalar.anchor, event->data.scalar.tag);
        take_scalar(r, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        check_properties(r, event, event->data.sequence_start.anchor,
                         event->data.sequence_start.tag);
        open_level(r, YAML_LIST, at);
        break;
    case YAML_MAPPING_START_EVENT:
        check_properties(r, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
        open_level(r, YAML_MAP, at);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        ASSERT(r->depth > 0);
        r->depth--;
        break;
    default: /* begin and end of the stream, end of a document */
        break;
    }
}

/* ---- libyaml's errors ------------------------------------------------------------------------ */

/* What would be right. The first row whose words stand in libyaml's problem or context fits. */
static const struct {
    const char *words;
    bool at_context; /* the place where the thing began tells more than the one where it broke */
    const char *advice;
} advices[] = {
    {"escape", false, "write a backslash as two, or use single quotes"},
    {"hexdecimal", false, "write a backslash as two, or use single quotes"},
    {"a quoted scalar", true, "this quote is not closed"},
    {"block scalar", false, "write the value on one line, in quotes if it begins with '|' or '>'"},
    {"directive", false, "topology files have none; put a value with '%' in quotes"},
    {"anchor", false, "topology files have none; put a value that begins with '&' in quotes"},
    {"alias", false, "topology files have none; put a value that begins with '*' in quotes"},
    {"tag", false, "topology files have none; put a value that begins with '!' in quotes"},
    {"tab character", false, "indent with spaces"},
    {"cannot start any token", false,
     "a value that begins with '@', '`' or '%' needs quotes; a tab cannot indent"},
    {"mapping values are not allowed", false,
     "begin a new line or use quotes; a map has one 'key: value' a line, its keys in one column"},
    {"mapping keys are not allowed", false, "a line is 'key: value' or '- item'"},
    {"block sequence entries", false, "a list begins on the line below its key"},
    {"expected ':'", true, "a map holds 'key: value'"},
    {"expected key", false, "a map has one 'key: value' a line, its keys in one column"},
    {"'-' indicator", false, "the items of a list stand in one column, each behind '- '"},
    {"',' or", false, "a ',' is missing, or the bracket is not closed"},
    {"node content", false, "a value is missing here"},
    {"<document start>", false, "a topology file is one map, its keys in one column"},
};

static void fail_at_byte(reader_t *r, const char *text, size_t bytes, const yaml_parser_t *parser)
{
    topology_mark_t at = {1, 1};
    size_t bad = parser->problem_offset;
    for (size_t i = 0; i < bad && i < bytes; i++) {
        at.column += ((unsigned char)text[i] & 0xC0) != 0x80; /* columns count characters */
        if (text[i] == '\n')
            at = (topology_mark_t){at.line + 1, 1};
    }
    fail(r, at, "byte 0x%02x: %s; a topology file is UTF-8 text",
         bad < bytes ? (unsigned char)text[bad] : 0u, parser->problem);
}

/* "PROBLEM CONTEXT (from line N); ADVICE" */
static void fail_parse(reader_t *r, const yaml_parser_t *parser)
{
    const char *context = parser->context ? parser->context : "";
    const char *advice = NULL;
    yaml_mark_t at = parser->problem_mark;
    for (size_t i = 0; i < COUNT_OF(advices) && !advice; i++) {
        if (!strstr(parser->problem, advices[i].words) && !strstr(context, advices[i].words))
            continue;
        advice = advices[i].advice;
        if (advices[i].at_context && parser->context)
            at = parser->context_mark;
    }
    char from[40] = "";
    if (parser->context && parser->context_mark.line != at.line)
        snprintf(from, sizeof(from), " from line %zu", parser->context_mark.line + 1);
    fail(r, mark(at), "%s%s%s%s%s%s", parser->problem, context[0] ? " " : "", context, from,
         advice ? "; " : "", advice ? advice : "");
}

/* ---- the file -------------------------------------------------------------------------------- */

static status_t read_events(reader_t *r, const char *text, size_t bytes)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        fail(r, (topology_mark_t){0, 0}, "no memory to read the file");
        return FAIL(STATUS_NO_MEMORY, "no memory to read YAML");
    }
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
    bool ended = false;
    while (!ended && !r->failed) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event))
            break;
        take_event(r, &event);
        ended = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    bool memory = parser.error == YAML_MEMORY_ERROR;
    if (memory)
        fail(r, (topology_mark_t){0, 0}, "no memory to read the file");
    else if (parser.error == YAML_READER_ERROR)
        fail_at_byte(r, text, bytes, &parser);
    else if (parser.error != YAML_NO_ERROR)
        fail_parse(r, &parser);
    yaml_parser_delete(&parser);
    return memory ? FAIL(STATUS_NO_MEMORY, "no memory to read YAML") : STATUS_OK;
}

status_t yaml_read(const char *text, size_t bytes, yaml_tree_t *tree, topology_errors_t *errors)
{
    reader_t r = {.tree = tree, .errors = errors};
    const topology_mark_t whole = {0, 0};
    tree->count = 0;
    tree->texts_used = 0;
    if (bytes > TOPOLOGY_BYTES_MAX) {
        fail(&r, whole, "the file has more than %d bytes", TOPOLOGY_BYTES_MAX);
    } else {
        size_t order_mark = bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
        TRY(read_events(&r, text + order_mark, bytes - order_mark));
    }
    if (!r.failed && tree->count == 0)
        fail(&r, whole, "the file is empty; docs/topology.md shows the smallest one");
    if (r.failed)
        return FAIL(STATUS_BAD_CONFIG, "the file cannot be read as YAML");
    return STATUS_OK;
}
