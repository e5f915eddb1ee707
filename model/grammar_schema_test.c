/* grammar_schema_test.c - does a constant of the document satisfy a schema of it?
 *
 * Constants are few and known, so they are tested whole, by every keyword, instead of being made part
 * of the grammar. Recursion follows the constant; what cannot be tested is refused.
 */
#include <math.h>
#include <string.h>

#include "model/grammar_schema.h"

bool schema_equal(const schema_t *s, uint32_t a, uint32_t b)
{
    const document_t *d = &s->document;
    document_kind_t kind = document_kind(d, a);
    uint32_t x, y;

    if (kind != document_kind(d, b))
        return false;
    switch (kind) {
    case DOCUMENT_NUMBER:
        return schema_double(s, a) == schema_double(s, b);
    case DOCUMENT_STRING: {
        size_t at = d->nodes[a].start + 1u, other = d->nodes[b].start + 1u;
        while (at < d->nodes[a].end - 1u && other < d->nodes[b].end - 1u) {
            if (document_character(d, &at) != document_character(d, &other))
                return false;
        }
        return at == d->nodes[a].end - 1u && other == d->nodes[b].end - 1u;
    }
    case DOCUMENT_ARRAY:
        x = document_next(d, a, DOCUMENT_NONE);
        y = document_next(d, b, DOCUMENT_NONE);
        for (; x != DOCUMENT_NONE && y != DOCUMENT_NONE;
             x = document_next(d, a, x), y = document_next(d, b, y)) {
            if (!schema_equal(s, x, y))
                return false;
        }
        return x == y;
    case DOCUMENT_OBJECT: {
        uint32_t count = 0, other_count = 0;
        for (x = document_next(d, a, DOCUMENT_NONE); x != DOCUMENT_NONE;
             x = document_next(d, a, x), count++) {
            for (y = document_next(d, b, DOCUMENT_NONE);
                 y != DOCUMENT_NONE && !schema_equal(s, x, y);)
                y = document_next(d, b, y);
            if (y == DOCUMENT_NONE || !schema_equal(s, document_value(d, x), document_value(d, y)))
                return false;
        }
        for (y = document_next(d, b, DOCUMENT_NONE); y != DOCUMENT_NONE; y = document_next(d, b, y))
            other_count++;
        return count == other_count;
    }
    default:
        return true;
    }
}

static bool is_type(const schema_t *s, uint32_t value, uint32_t name)
{
    static const char *const names[] = {"null",   "boolean", "boolean", "number",
                                        "string", "array",   "object"};
    document_kind_t kind = document_kind(&s->document, value);

    if (document_equals(&s->document, name, "any"))
        return true;
    if (kind == DOCUMENT_NUMBER && document_equals(&s->document, name, "integer")) {
        uint32_t type = schema_number_type(s, value);
        return type == SCHEMA_INTEGER || (type == SCHEMA_WHOLE && s->draft >= 6);
    }
    return document_equals(&s->document, name, names[kind]);
}

static bool test_type(const schema_t *s, uint32_t value, uint32_t types)
{
    const document_t *d = &s->document;

    if (document_kind(d, types) == DOCUMENT_STRING)
        return is_type(s, value, types);
    for (uint32_t at = document_next(d, types, DOCUMENT_NONE); at != DOCUMENT_NONE;
         at = document_next(d, types, at)) {
        if (is_type(s, value, at))
            return true;
    }
    return false;
}

/* How many of an array of schemas hold. */
static uint32_t hold(schema_t *s, uint32_t value, uint32_t schemas, uint32_t *total)
{
    const document_t *d = &s->document;
    uint32_t count = 0;

    *total = 0;
    for (uint32_t at = document_next(d, schemas, DOCUMENT_NONE); at != DOCUMENT_NONE;
         at = document_next(d, schemas, at)) {
        count += schema_validates(s, value, at << 1);
        *total += 1;
    }
    return count;
}

static bool test_logic(schema_t *s, uint32_t value, uint32_t node)
{
    uint32_t total, at;

    if ((at = schema_member(s, node, "allOf")) != DOCUMENT_NONE &&
        hold(s, value, at, &total) != total)
        return false;
    if ((at = schema_member(s, node, "anyOf")) != DOCUMENT_NONE && hold(s, value, at, &total) == 0)
        return false;
    if ((at = schema_member(s, node, "oneOf")) != DOCUMENT_NONE && hold(s, value, at, &total) != 1)
        return false;
    if ((at = schema_member(s, node, "not")) != DOCUMENT_NONE &&
        schema_validates(s, value, at << 1))
        return false;
    if ((at = schema_member(s, node, "if")) == DOCUMENT_NONE)
        return true;
    at = schema_member(s, node, schema_validates(s, value, at << 1) ? "then" : "else");
    return at == DOCUMENT_NONE || schema_validates(s, value, at << 1);
}

static bool test_number(schema_t *s, uint32_t value, uint32_t node)
{
    const document_t *d = &s->document;
    double number = schema_double(s, value);
    uint32_t at, strict;

    if ((at = schema_member(s, node, "minimum")) != DOCUMENT_NONE) {
        strict = schema_member(s, node, "exclusiveMinimum");
        double bound = schema_double(s, at);
        if (number < bound || (strict != DOCUMENT_NONE &&
                               document_kind(d, strict) == DOCUMENT_TRUE && number <= bound))
            return false;
    }
    if ((at = schema_member(s, node, "maximum")) != DOCUMENT_NONE) {
        strict = schema_member(s, node, "exclusiveMaximum");
        double bound = schema_double(s, at);
        if (number > bound || (strict != DOCUMENT_NONE &&
                               document_kind(d, strict) == DOCUMENT_TRUE && number >= bound))
            return false;
    }
    at = schema_member(s, node, "exclusiveMinimum");
    if (at != DOCUMENT_NONE && document_kind(d, at) == DOCUMENT_NUMBER &&
        number <= schema_double(s, at))
        return false;
    at = schema_member(s, node, "exclusiveMaximum");
    if (at != DOCUMENT_NONE && document_kind(d, at) == DOCUMENT_NUMBER &&
        number >= schema_double(s, at))
        return false;
    if ((at = schema_member(s, node, "multipleOf")) == DOCUMENT_NONE)
        return true;
    double quotient = number / schema_double(s, at);
    return quotient == floor(quotient);
}

static bool test_string(schema_t *s, uint32_t value, uint32_t node)
{
    size_t length, characters = 0;
    const char *text = schema_string(s, value, &length);
    uint32_t at;

    for (size_t i = 0; i < length; i++)
        characters += (text[i] & 0xc0) != 0x80;
    if ((at = schema_member(s, node, "minLength")) != DOCUMENT_NONE &&
        characters < schema_count(s, node, "minLength", at))
        return false;
    if ((at = schema_member(s, node, "maxLength")) != DOCUMENT_NONE &&
        characters > schema_count(s, node, "maxLength", at))
        return false;
    if ((at = schema_member(s, node, "pattern")) != DOCUMENT_NONE &&
        !schema_matches(s, node, at, value))
        return false;
    at = schema_member(s, node, "format");
    if (at == DOCUMENT_NONE || document_kind(&s->document, at) != DOCUMENT_STRING)
        return true;
    size_t name_length;
    uint32_t term = schema_format(s, schema_string(s, at, &name_length));
    if (term == REGEX_ANY)
        return true;
    regex_automaton_t automaton;
    text_buffer_t escaped;
    text_buffer_init(&escaped, GRAMMAR_SOURCE_BYTES_MAX * 6);
    text_put_escaped_text(&escaped, text, length);
    bool fits = regex_automaton(&s->build.regexes, term, &automaton) == STATUS_OK &&
                regex_automaton_accepts(&automaton, escaped.bytes, escaped.used);
    text_buffer_fini(&escaped);
    regex_automaton_fini(&automaton);
    return fits;
}

static bool test_array(schema_t *s, uint32_t value, uint32_t node)
{
    const document_t *d = &s->document;
    uint32_t prefix = schema_member(s, node, "prefixItems"), rest = schema_member(s, node, "items");
    uint32_t contains = schema_member(s, node, "contains"), count = 0, found = 0, at;

    if (prefix == DOCUMENT_NONE && rest != DOCUMENT_NONE &&
        document_kind(d, rest) == DOCUMENT_ARRAY) {
        prefix = rest;
        rest = schema_member(s, node, "additionalItems");
    }
    uint32_t place =
        prefix == DOCUMENT_NONE ? DOCUMENT_NONE : document_next(d, prefix, DOCUMENT_NONE);
    at = schema_member(s, node, "uniqueItems");
    bool unique = at != DOCUMENT_NONE && document_kind(d, at) == DOCUMENT_TRUE;
    for (uint32_t item = document_next(d, value, DOCUMENT_NONE); item != DOCUMENT_NONE;
         item = document_next(d, value, item), count++) {
        uint32_t schema = place != DOCUMENT_NONE ? place : rest;
        if (schema != DOCUMENT_NONE && !schema_validates(s, item, schema << 1))
            return false;
        if (place != DOCUMENT_NONE)
            place = document_next(d, prefix, place);
        found += contains != DOCUMENT_NONE && schema_validates(s, item, contains << 1);
        for (uint32_t other = document_next(d, value, DOCUMENT_NONE); unique && other != item;
             other = document_next(d, value, other)) {
            if (schema_equal(s, item, other))
                return false;
        }
    }
    if ((at = schema_member(s, node, "minItems")) != DOCUMENT_NONE &&
        count < schema_count(s, node, "minItems", at))
        return false;
    if ((at = schema_member(s, node, "maxItems")) != DOCUMENT_NONE &&
        count > schema_count(s, node, "maxItems", at))
        return false;
    at = schema_member(s, node, "minContains");
    return contains == DOCUMENT_NONE ||
           found >= (at == DOCUMENT_NONE ? 1 : schema_count(s, node, "minContains", at));
}

static bool has_key(schema_t *s, uint32_t value, uint32_t name)
{
    for (uint32_t key = document_next(&s->document, value, DOCUMENT_NONE); key != DOCUMENT_NONE;
         key = document_next(&s->document, value, key)) {
        if (schema_same_string(s, key, name))
            return true;
    }
    return false;
}

static bool has_all(schema_t *s, uint32_t value, uint32_t names)
{
    if (document_kind(&s->document, names) == DOCUMENT_STRING)
        return has_key(s, value, names);
    for (uint32_t name = document_next(&s->document, names, DOCUMENT_NONE); name != DOCUMENT_NONE;
         name = document_next(&s->document, names, name)) {
        if (!has_key(s, value, name))
            return false;
    }
    return true;
}

static bool test_dependencies(schema_t *s, uint32_t value, uint32_t node)
{
    static const char *const names[] = {"dependencies", "dependentRequired", "dependentSchemas"};
    const document_t *d = &s->document;

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        uint32_t all = schema_member(s, node, names[i]);
        if (all == DOCUMENT_NONE || document_kind(d, all) != DOCUMENT_OBJECT)
            continue;
        for (uint32_t key = document_next(d, all, DOCUMENT_NONE); key != DOCUMENT_NONE;
             key = document_next(d, all, key)) {
            uint32_t what = document_value(d, key);
            document_kind_t kind = document_kind(d, what);
            if (!has_key(s, value, key))
                continue;
            if (kind == DOCUMENT_ARRAY || kind == DOCUMENT_STRING
                    ? !has_all(s, value, what)
                    : !schema_validates(s, value, what << 1))
                return false;
        }
    }
    return true;
}

static bool test_object(schema_t *s, uint32_t value, uint32_t node)
{
    const document_t *d = &s->document;
    shape_t shape = {.objects = schema_push(s, NULL, node << 1)};
    uint32_t names = schema_member(s, node, "propertyNames"), count = 0, at;
    element_t elements[64];

    for (uint32_t key = document_next(d, value, DOCUMENT_NONE);
         key != DOCUMENT_NONE && !schema_failed(s); key = document_next(d, value, key), count++) {
        uint32_t element_count = schema_property(s, &shape, key, elements, COUNT_OF(elements));
        for (uint32_t i = 0; i < element_count; i++) {
            if (!schema_validates(s, document_value(d, key), elements[i]))
                return false;
        }
        if (names != DOCUMENT_NONE && !schema_validates(s, key, names << 1))
            return false;
    }
    if ((at = schema_member(s, node, "minProperties")) != DOCUMENT_NONE &&
        count < schema_count(s, node, "minProperties", at))
        return false;
    if ((at = schema_member(s, node, "maxProperties")) != DOCUMENT_NONE &&
        count > schema_count(s, node, "maxProperties", at))
        return false;
    at = schema_member(s, node, "required");
    if (at != DOCUMENT_NONE && document_kind(d, at) == DOCUMENT_ARRAY && !has_all(s, value, at))
        return false;
    return test_dependencies(s, value, node);
}

static bool test_kind(schema_t *s, uint32_t value, uint32_t node)
{
    switch (document_kind(&s->document, value)) {
    case DOCUMENT_NUMBER:
        return test_number(s, value, node);
    case DOCUMENT_STRING:
        return test_string(s, value, node);
    case DOCUMENT_ARRAY:
        return test_array(s, value, node);
    case DOCUMENT_OBJECT:
        return test_object(s, value, node);
    default:
        return true;
    }
}

static bool test(schema_t *s, uint32_t value, uint32_t node)
{
    const document_t *d = &s->document;
    uint32_t at = schema_member(s, node, "$ref");

    if (at != DOCUMENT_NONE && document_kind(d, at) == DOCUMENT_STRING) {
        uint32_t target = schema_reference(s, node, at);
        if (target == SCHEMA_NONE || !schema_validates(s, value, target << 1))
            return false;
        if (s->draft <= 7)
            return true;
    }
    if ((at = schema_member(s, node, "type")) != DOCUMENT_NONE && !test_type(s, value, at))
        return false;
    if ((at = schema_member(s, node, "enum")) != DOCUMENT_NONE &&
        document_kind(d, at) == DOCUMENT_ARRAY) {
        uint32_t item = document_next(d, at, DOCUMENT_NONE), tried = 0;
        if (at < value && value < d->nodes[at].next)
            item = value; /* it comes from this very list */
        for (; item != DOCUMENT_NONE && item != value && !schema_equal(s, item, value); tried++)
            item = document_next(d, at, item);
        s->work += tried / 8;
        if (item == DOCUMENT_NONE)
            return false;
    }
    if ((at = schema_member(s, node, "const")) != DOCUMENT_NONE && s->draft >= 6 &&
        !schema_equal(s, at, value))
        return false;
    return test_kind(s, value, node) && test_logic(s, value, node);
}

bool schema_validates(schema_t *s, uint32_t value, element_t element)
{
    uint32_t node = element >> 1;
    bool holds = false;

    if (schema_failed(s))
        return false;
    if (++s->work > SCHEMA_WORK_MAX || ++s->depth > SCHEMA_DEPTH_MAX) {
        schema_refuse(s, STATUS_TOO_LARGE, node, "enum", "testing constants needs too much work");
        return false;
    }
    switch (document_kind(&s->document, node)) {
    case DOCUMENT_TRUE:
        holds = true;
        break;
    case DOCUMENT_OBJECT:
        holds = test(s, value, node);
        break;
    case DOCUMENT_FALSE:
        break;
    default:
        schema_refuse(s, STATUS_INVALID, node, "", "a schema is an object or a boolean");
    }
    s->depth--;
    return holds != (element & 1);
}
