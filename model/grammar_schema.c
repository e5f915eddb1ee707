/* grammar_schema.c - a JSON schema becomes a grammar: references, memory, and the values.
 *
 * See grammar_schema.h. Values are written by kind: grammar_schema_object.c, _array.c, _number.c and
 * _text.c. A list of elements that has objects or arrays in it gets a rule of its own, once, so
 * recursion in the schema is recursion of rules.
 */
#include "model/grammar_schema.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/grammar_parts.h"
#include "model/utf8.h"
#include "runtime/base/limits.h"

enum { BLOCK_BYTES = 1 << 18, BLOCKS_MAX = 512 };

bool schema_failed(const schema_t *s)
{
    return s->build.status != STATUS_OK;
}

void *schema_take(schema_t *s, size_t bytes)
{
    bytes = (bytes + 15) & ~(size_t)15;
    if (bytes > s->memory_left) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        char *block =
            s->block_count == BLOCKS_MAX || size > BLOCK_BYTES * 16 ? NULL : calloc(1, size);
        if (block == NULL) {
            build_fail(&s->build, FAIL(STATUS_TOO_LARGE, "the schema needs too much memory"));
            /* The first block stays usable, so that callers need not look at once. */
            s->memory = s->blocks[0];
            s->memory_left = BLOCK_BYTES;
            return s->blocks[0];
        }
        s->blocks[s->block_count++] = block;
        s->memory = block;
        s->memory_left = size;
    }
    void *taken = s->memory;
    s->memory += bytes;
    s->memory_left -= bytes;
    return taken;
}

/* The path to a node, as a JSON pointer. */
static void write_pointer(const document_t *d, uint32_t node, char *out, size_t room)
{
    uint32_t at = 0;
    size_t used = 0;

    out[0] = '\0';
    while (at != node && used + 1 < room) {
        uint32_t child = DOCUMENT_NONE, index = 0;
        bool object = document_kind(d, at) == DOCUMENT_OBJECT;
        for (child = document_next(d, at, DOCUMENT_NONE); child != DOCUMENT_NONE;
             child = document_next(d, at, child), index++) {
            uint32_t value = object ? document_value(d, child) : child;
            if (value <= node && node < d->nodes[value].next)
                break;
        }
        if (child == DOCUMENT_NONE)
            return;
        int length = object ? snprintf(out + used, room - used, "/%.*s",
                                       (int)(d->nodes[child].end - d->nodes[child].start - 2),
                                       d->text + d->nodes[child].start + 1)
                            : snprintf(out + used, room - used, "/%u", index);
        used += (size_t)length;
        at = object ? document_value(d, child) : child;
    }
}

void schema_refuse(schema_t *s, status_t status, uint32_t node, const char *keyword,
                   const char *format, ...)
{
    char text[160];
    va_list arguments;

    if (schema_failed(s))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    write_pointer(&s->document, node, s->refusal->pointer, sizeof(s->refusal->pointer));
    snprintf(s->refusal->keyword, sizeof(s->refusal->keyword), "%s", keyword);
    build_fail(&s->build, FAIL(status, "schema #%s, %s: %s", s->refusal->pointer, keyword, text));
}

const element_list_t *schema_push(schema_t *s, const element_list_t *list, element_t element)
{
    element_list_t *item = schema_take(s, sizeof(*item));

    *item = (element_list_t){element, list};
    return schema_failed(s) ? NULL : item;
}

uint32_t schema_member(const schema_t *s, uint32_t node, const char *key)
{
    return document_member(&s->document, node, key);
}

const char *schema_string(schema_t *s, uint32_t node, size_t *length)
{
    const document_node_t *n = &s->document.nodes[node];
    char *out = schema_take(s, 2 * (size_t)(n->end - n->start) + 8);
    size_t at = n->start + 1;
    *length = 0;

    if (schema_failed(s))
        return "";
    while (at < n->end - 1u) {
        uint32_t code = document_character(&s->document, &at);
        *length += utf8_write(code, out + *length);
    }
    out[*length] = '\0';
    return out;
}

const char *schema_escaped(schema_t *s, uint32_t node, size_t *length)
{
    text_buffer_t text;
    size_t plain_length;
    const char *plain = schema_string(s, node, &plain_length);

    text_buffer_init(&text, 6 * GRAMMAR_SOURCE_BYTES_MAX);
    text_put_escaped_text(&text, plain, plain_length);
    build_fail(&s->build, text.status);
    char *out = schema_take(s, text.used + 1);
    *length = 0;
    if (!schema_failed(s)) {
        memcpy(out, text.bytes == NULL ? "" : text.bytes, text.used);
        *length = text.used;
    }
    text_buffer_fini(&text);
    return out;
}

bool schema_same_string(schema_t *s, uint32_t a, uint32_t b)
{
    const document_t *d = &s->document;
    size_t x = d->nodes[a].start + 1u, y = d->nodes[b].start + 1u;
    size_t x_end = d->nodes[a].end - 1u, y_end = d->nodes[b].end - 1u;

    if (a == b)
        return true;
    if (x_end - x == y_end - y && memcmp(d->text + x, d->text + y, x_end - x) == 0)
        return true;
    while (x < x_end && y < y_end) {
        if (document_character(d, &x) != document_character(d, &y))
            return false;
    }
    return x == x_end && y == y_end;
}

double schema_double(const schema_t *s, uint32_t node)
{
    return strtod(s->document.text + s->document.nodes[node].start, NULL);
}

uint32_t schema_number_type(const schema_t *s, uint32_t node)
{
    const document_node_t *n = &s->document.nodes[node];
    const char *text = s->document.text + n->start;
    size_t length = n->end - n->start;

    if (memchr(text, '.', length) == NULL && memchr(text, 'e', length) == NULL &&
        memchr(text, 'E', length) == NULL)
        return SCHEMA_INTEGER;
    double value = schema_double(s, node);
    return value > 1e15 || value < -1e15 || value == (double)(int64_t)value ? SCHEMA_WHOLE
                                                                            : SCHEMA_FRACTION;
}

uint32_t schema_count(schema_t *s, uint32_t node, const char *keyword, uint32_t value)
{
    double number =
        document_kind(&s->document, value) == DOCUMENT_NUMBER ? schema_double(s, value) : -1;

    if (!(number >= 0) || number != (double)(uint64_t)(number < 1e18 ? number : 0)) {
        if (number < 1e18)
            schema_refuse(s, STATUS_INVALID, node, keyword, "it is no whole number of at least 0");
    }
    return number >= SCHEMA_NONE ? SCHEMA_NONE - 1 : number < 0 ? 0 : (uint32_t)number;
}

static void add_id(schema_t *s, uint32_t node, const char *key)
{
    uint32_t value = schema_member(s, node, key);

    if (value == DOCUMENT_NONE || document_kind(&s->document, value) != DOCUMENT_STRING ||
        s->id_count == SCHEMA_IDS_MAX)
        return;
    size_t length;
    s->ids[s->id_count++] = (schema_id_t){schema_string(s, value, &length), node, value};
}

void schema_find_ids(schema_t *s)
{
    s->ids = schema_take(s, SCHEMA_IDS_MAX * sizeof(*s->ids));
    for (uint32_t node = 0; node < s->document.node_count && !schema_failed(s); node++) {
        if (document_kind(&s->document, node) != DOCUMENT_OBJECT)
            continue;
        add_id(s, node, s->draft == 4 ? "id" : "$id");
        add_id(s, node, "$anchor");
    }
}

/* One step of a JSON pointer, with its escapes undone. */
static size_t pointer_step(const char *pointer, char *out, size_t room)
{
    size_t at = 0, used = 0;

    while (pointer[at] != '\0' && pointer[at] != '/' && used + 1 < room) {
        unsigned code;
        if (pointer[at] == '~' && (pointer[at + 1] == '0' || pointer[at + 1] == '1')) {
            out[used++] = pointer[at + 1] == '0' ? '~' : '/';
            at += 2;
        } else if (pointer[at] == '%' && sscanf(pointer + at + 1, "%2x", &code) == 1) {
            out[used++] = (char)code;
            at += 3;
        } else {
            out[used++] = pointer[at++];
        }
    }
    out[used] = '\0';
    return at;
}

static uint32_t follow_pointer(const document_t *d, uint32_t node, const char *pointer)
{
    char step[1024];

    while (*pointer == '/') {
        pointer++;
        pointer += pointer_step(pointer, step, sizeof(step));
        uint32_t child;
        if (document_kind(d, node) == DOCUMENT_OBJECT) {
            child = document_member(d, node, step);
        } else {
            char *end;
            unsigned long index = strtoul(step, &end, 10);
            child = *end == '\0' && step[0] != '\0' && document_kind(d, node) == DOCUMENT_ARRAY
                        ? document_next(d, node, DOCUMENT_NONE)
                        : DOCUMENT_NONE;
            while (child != DOCUMENT_NONE && index-- > 0)
                child = document_next(d, node, child);
        }
        if (child == DOCUMENT_NONE)
            return SCHEMA_NONE;
        node = child;
    }
    return *pointer == '\0' ? node : SCHEMA_NONE;
}

/* What an absolute or relative reference without its fragment names. */
static uint32_t find_base(const schema_t *s, const char *text, size_t length)
{
    for (uint32_t i = 0; i < s->id_count; i++) {
        const char *id = s->ids[i].text;
        size_t id_length = strcspn(id, "#");
        if (id_length == length && memcmp(id, text, length) == 0)
            return s->ids[i].node;
    }
    for (uint32_t i = 0; i < s->id_count; i++) { /* relative to the id of the whole */
        const char *id = s->ids[i].text;
        size_t id_length = strcspn(id, "#");
        if (length > 0 && id_length > length &&
            memcmp(id + id_length - length, text, length) == 0 &&
            (text[0] == '/' || id[id_length - length - 1] == '/'))
            return s->ids[i].node;
    }
    return SCHEMA_NONE;
}

/* The nearest schema around a node that has an id of its own: fragments count from there. */
static uint32_t base_of(const schema_t *s, uint32_t node)
{
    uint32_t base = 0;

    for (uint32_t i = 0; i < s->id_count; i++) {
        uint32_t at = s->ids[i].node;
        if (at <= node && node < s->document.nodes[at].next && at >= base &&
            s->ids[i].text[0] != '#' && strcspn(s->ids[i].text, ":/.") < strlen(s->ids[i].text))
            base = at;
    }
    return base;
}

uint32_t schema_reference(schema_t *s, uint32_t node, uint32_t value)
{
    size_t length, base_length;
    const char *text = schema_string(s, value, &length);
    uint32_t base, target = SCHEMA_NONE;

    if (schema_failed(s))
        return SCHEMA_NONE;
    base_length = strcspn(text, "#");
    base = base_length == 0 ? base_of(s, node) : find_base(s, text, base_length);
    const char *fragment = text[base_length] == '#' ? text + base_length + 1 : "";
    if (base != SCHEMA_NONE && (*fragment == '/' || *fragment == '\0')) {
        target = follow_pointer(&s->document, base, fragment);
        if (target == SCHEMA_NONE && base_length == 0)
            target = follow_pointer(&s->document, 0, fragment);
    }
    for (uint32_t i = 0; i < s->id_count && target == SCHEMA_NONE; i++) {
        const char *id = s->ids[i].text;
        if (strcmp(id, text) == 0 || (id[0] == '#' && strcmp(id + 1, fragment) == 0) ||
            (*fragment != '\0' && *fragment != '/' && strcmp(id, fragment) == 0))
            target = s->ids[i].node;
    }
    if (target == SCHEMA_NONE)
        schema_refuse(s, STATUS_UNSUPPORTED, node, "$ref", "nothing in the document is %.80s",
                      text);
    return target;
}

/* A schema that is nothing but a reference stands for what it names. */
static element_t follow_references(schema_t *s, element_t element)
{
    for (unsigned i = 0; i < 100; i++) {
        uint32_t node = element >> 1, reference = schema_member(s, node, "$ref");
        if (reference == DOCUMENT_NONE || document_kind(&s->document, reference) != DOCUMENT_STRING)
            return element;
        if (s->draft > 7) {
            const document_t *d = &s->document;
            uint32_t first = document_next(d, node, DOCUMENT_NONE);
            if (document_next(d, node, first) != DOCUMENT_NONE)
                return element;
        }
        uint32_t target = schema_reference(s, node, reference);
        if (target == SCHEMA_NONE)
            return element;
        element = target << 1 | (element & 1);
    }
    schema_refuse(s, STATUS_INVALID, element >> 1, "$ref", "references lead in a ring");
    return element;
}

void schema_write_constant(schema_t *s, uint32_t node, uint32_t from, uint32_t to)
{
    text_buffer_t text;

    text_buffer_init(&text, GRAMMAR_SOURCE_BYTES_MAX);
    document_put_python(&s->document, node, &text);
    if (text.status != STATUS_OK)
        build_fail(&s->build, text.status);
    else
        build_edge_text(&s->build, schema_space(s, from), to, text.bytes, text.used);
    text_buffer_fini(&text);
}

uint32_t schema_space(schema_t *s, uint32_t from)
{
    regex_store_t *regexes = &s->build.regexes;

    if (!s->any_space)
        return from;
    if (s->space == 0) {
        byte_set_t set = {{0}};
        for (const char *at = " \t\r\n"; *at != '\0'; at++)
            set.bits[0] |= (uint64_t)1 << *at;
        s->space = regex_repeat(regexes, regex_set(regexes, &set), 0, REGEX_NO_END);
    }
    uint32_t to = build_state(&s->build, from);
    build_edge_term(&s->build, from, to, s->space);
    return to;
}

/* All values that `enum` or `const` names and that every element allows. */
static void write_constants(schema_t *s, const resolved_t *list, uint32_t values, uint32_t from,
                            uint32_t to)
{
    const document_t *d = &s->document;
    bool many = document_kind(d, values) == DOCUMENT_ARRAY;
    uint32_t at =
        many ? document_next(d, values, DOCUMENT_NONE) : schema_member(s, values, "const");

    for (; at != DOCUMENT_NONE && !schema_failed(s);
         at = many ? document_next(d, values, at) : DOCUMENT_NONE) {
        bool fits = true;
        for (uint32_t i = 0; i < list->count && fits; i++)
            fits = schema_validates(s, at, list->elements[i]);
        if (fits)
            schema_write_constant(s, at, from, to);
    }
}

/* Is null, false or true among the constants that a value must not be? */
static bool is_excluded(schema_t *s, const shape_t *shape, document_kind_t kind)
{
    const document_t *d = &s->document;

    for (const element_list_t *at = shape->not_constants; at != NULL; at = at->next) {
        uint32_t values = at->element >> 1;
        bool many = document_kind(d, values) == DOCUMENT_ARRAY;
        uint32_t value =
            many ? document_next(d, values, DOCUMENT_NONE) : schema_member(s, values, "const");
        for (; value != DOCUMENT_NONE;
             value = many ? document_next(d, values, value) : DOCUMENT_NONE) {
            if (document_kind(d, value) == kind)
                return true;
        }
    }
    return false;
}

/* Arrays and objects cannot be excluded as constants. */
static void refuse_excluded(schema_t *s, const shape_t *shape)
{
    const document_t *d = &s->document;

    for (const element_list_t *at = shape->not_constants; at != NULL; at = at->next) {
        uint32_t values = at->element >> 1;
        bool many = document_kind(d, values) == DOCUMENT_ARRAY;
        uint32_t value =
            many ? document_next(d, values, DOCUMENT_NONE) : schema_member(s, values, "const");
        for (; value != DOCUMENT_NONE;
             value = many ? document_next(d, values, value) : DOCUMENT_NONE) {
            document_kind_t kind = document_kind(d, value);
            if ((kind == DOCUMENT_ARRAY && shape->types & SCHEMA_ARRAY) ||
                (kind == DOCUMENT_OBJECT && shape->types & SCHEMA_OBJECT))
                schema_refuse(s, STATUS_UNSUPPORTED, values, "not",
                              "constants of arrays or objects cannot be excluded");
        }
    }
}

static void write_shape(schema_t *s, const resolved_t *list, const shape_t *shape, uint32_t from,
                        uint32_t to)
{
    static const struct {
        uint32_t type;
        document_kind_t kind;
        const char *text;
    } words[] = {{SCHEMA_NULL, DOCUMENT_NULL, "null"},
                 {SCHEMA_FALSE, DOCUMENT_FALSE, "false"},
                 {SCHEMA_TRUE, DOCUMENT_TRUE, "true"}};

    if (shape->constants != SCHEMA_NONE) {
        write_constants(s, list, shape->constants, from, to);
        return;
    }
    refuse_excluded(s, shape);
    uint32_t start = schema_space(s, from);
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (shape->types & words[i].type && !is_excluded(s, shape, words[i].kind))
            build_edge_text(&s->build, start, to, words[i].text, strlen(words[i].text));
    }
    if (shape->types & SCHEMA_NUMBER)
        schema_write_number(s, shape, start, to);
    if (shape->types & SCHEMA_STRING)
        schema_write_string(s, shape, start, to);
    if (shape->types & SCHEMA_ARRAY)
        schema_write_array(s, shape, start, to);
    if (shape->types & SCHEMA_OBJECT)
        schema_write_object(s, shape, start, to);
}

static bool needs_rule(const resolved_t *list)
{
    for (uint32_t i = 0; i < list->shapes.count; i++) {
        const shape_t *shape = &list->shapes.shapes[i];
        if (shape->types & (SCHEMA_ARRAY | SCHEMA_OBJECT) && shape->constants == SCHEMA_NONE)
            return true;
    }
    return list->shapes.count > 4;
}

void schema_write(schema_t *s, element_t *elements, uint32_t count, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < count; i++)
        elements[i] = follow_references(s, elements[i]);
    if (schema_failed(s))
        return;
    resolved_t *list = schema_resolve(s, elements, count);
    if (schema_failed(s))
        return;
    if (!needs_rule(list)) {
        for (uint32_t i = 0; i < list->shapes.count; i++)
            write_shape(s, list, &list->shapes.shapes[i], from, to);
        return;
    }
    if (list->rule == SCHEMA_NONE) {
        list->rule = build_rule(&s->build);
        if (s->last_to_write == NULL)
            s->first_to_write = list;
        else
            s->last_to_write->next_to_write = list;
        s->last_to_write = list;
    }
    build_edge_rule(&s->build, from, to, list->rule);
}

static unsigned draft_of(schema_t *s)
{
    static const struct {
        const char *part;
        unsigned draft;
    } drafts[] = {
        {"draft-03", 4}, {"draft-04", 4}, {"draft-06", 6}, {"draft-07", 7}, {"2019-09", 2019}};
    uint32_t value = schema_member(s, 0, "$schema");
    size_t length;

    if (value == DOCUMENT_NONE || document_kind(&s->document, value) != DOCUMENT_STRING)
        return 2020;
    const char *text = schema_string(s, value, &length);
    for (size_t i = 0; i < COUNT_OF(drafts); i++) {
        if (strstr(text, drafts[i].part) != NULL)
            return drafts[i].draft;
    }
    return 2020;
}

static void write_all(schema_t *s)
{
    element_t root[1] = {0};
    uint32_t start = build_start(&s->build, build_rule(&s->build));
    uint32_t end = build_state(&s->build, start);

    schema_find_ids(s);
    schema_write(s, root, 1, start, end);
    build_accept(&s->build, schema_space(s, end));
    while (s->first_to_write != NULL && !schema_failed(s)) {
        resolved_t *list = s->first_to_write;
        uint32_t from = build_start(&s->build, list->rule);
        uint32_t to = build_state(&s->build, from);
        s->first_to_write = list->next_to_write;
        if (s->first_to_write == NULL)
            s->last_to_write = NULL;
        build_accept(&s->build, to);
        for (uint32_t i = 0; i < list->shapes.count && !schema_failed(s); i++)
            write_shape(s, list, &list->shapes.shapes[i], from, to);
    }
    if (!schema_failed(s))
        build_fail(&s->build, s->build.regexes.status);
}

status_t grammar_compile_schema(const grammar_spec_t *spec, uint64_t vocabulary_digest,
                                void **block, size_t *bytes, grammar_refusal_t *refusal)
{
    schema_t *s = calloc(1, sizeof(*s));
    status_t status;

    if (s == NULL)
        return FAIL(STATUS_NO_MEMORY, "schema");
    s->refusal = refusal;
    s->any_space = spec->any_space;
    build_init(&s->build);
    s->blocks = calloc(BLOCKS_MAX, sizeof(*s->blocks));
    if (s->blocks != NULL)
        s->blocks[0] = calloc(1, BLOCK_BYTES);
    if (s->blocks == NULL || s->blocks[0] == NULL) {
        build_fail(&s->build, FAIL(STATUS_NO_MEMORY, "schema"));
    } else {
        s->block_count = 1;
        s->memory = s->blocks[0];
        s->memory_left = BLOCK_BYTES;
        build_fail(&s->build,
                   document_parse(&s->document, DOCUMENT_STRICT, spec->source, spec->length));
    }
    if (!schema_failed(s)) {
        s->draft = draft_of(s);
        write_all(s);
    }
    status = build_block(&s->build, vocabulary_digest, block, bytes);
    schema_forget_patterns(s);
    build_fini(&s->build);
    document_fini(&s->document);
    for (uint32_t i = 0; i < s->block_count; i++)
        free(s->blocks[i]);
    free(s->blocks);
    free(s);
    return status;
}
