/* grammar_schema_object.c - objects: named keys in their order, then other keys by class.
 *
 * The automaton's states are pairs: the next named key, and how many keys were written. The number is
 * exact only as far as it matters: 0 or more where nothing counts keys.
 */
#include <stdio.h>
#include <string.h>

#include "model/grammar_schema.h"

typedef struct {
    uint32_t name; /* a string of the document */
    bool required;
    element_t *elements;
    uint32_t element_count;
} named_t;

/* Keys without a name: those that match just these patterns. */
typedef struct {
    uint32_t term; /* of the key with its quotes; REGEX_NOTHING: any key without a name */
    bool finite;   /* all of them may have been used: what comes before them is read with them */
    element_t *elements;
    uint32_t element_count;
} other_t;

enum { OTHERS_MAX = 1 << SCHEMA_PATTERNS_MAX, ELEMENTS_MAX = 64 };

typedef struct {
    uint32_t owner, key; /* the schema, and the pattern */
    uint32_t term;
} key_pattern_t;

typedef struct {
    schema_t *s;
    const shape_t *shape;
    named_t *named;
    uint32_t named_count, named_room;
    other_t others[OTHERS_MAX];
    uint32_t other_count;
    const standard_name_t *names; /* of all that are named */
    uint32_t levels;              /* numbers of keys that are told apart */
    uint32_t *states;
} object_t;

static bool contains_name(schema_t *s, const name_list_t *names, uint32_t name)
{
    for (; names != NULL; names = names->next) {
        if (schema_same_string(s, names->name, name))
            return true;
    }
    return false;
}

static uint32_t add(schema_t *s, element_t *elements, uint32_t count, uint32_t room,
                    element_t element)
{
    if (count == room) {
        schema_refuse(s, STATUS_TOO_LARGE, element >> 1, "allOf",
                      "more than %u schemas hold for one value", room);
        return count;
    }
    elements[count] = element;
    return count + 1;
}

/* The key of `properties` with this name, or DOCUMENT_NONE. */
static uint32_t find_property(schema_t *s, uint32_t properties, uint32_t name)
{
    const document_t *d = &s->document;

    if (properties == DOCUMENT_NONE)
        return DOCUMENT_NONE;
    for (uint32_t key = document_next(d, properties, DOCUMENT_NONE); key != DOCUMENT_NONE;
         key = document_next(d, properties, key)) {
        if (schema_same_string(s, key, name))
            return key;
    }
    return DOCUMENT_NONE;
}

static uint32_t add_patterns(schema_t *s, uint32_t node, uint32_t name, element_t *elements,
                             uint32_t count, uint32_t room)
{
    const document_t *d = &s->document;
    uint32_t patterns = schema_member(s, node, "patternProperties");

    if (patterns == DOCUMENT_NONE)
        return count;
    for (uint32_t key = document_next(d, patterns, DOCUMENT_NONE); key != DOCUMENT_NONE;
         key = document_next(d, patterns, key)) {
        if (schema_matches(s, node, key, name))
            count = add(s, elements, count, room, document_value(d, key) << 1);
    }
    return count;
}

/* Lists grow at the front; this gives them in the order in which they grew. */
static uint32_t in_order(const element_list_t *list, element_t *out, uint32_t room)
{
    uint32_t count = 0;

    for (const element_list_t *at = list; at != NULL; at = at->next)
        count++;
    if (count > room)
        return 0;
    for (uint32_t i = count; i-- > 0; list = list->next)
        out[i] = list->element;
    return count;
}

uint32_t schema_property(schema_t *s, const shape_t *shape, uint32_t name, element_t *elements,
                         uint32_t room)
{
    element_t objects[ELEMENTS_MAX];
    uint32_t object_count = in_order(shape->objects, objects, ELEMENTS_MAX), count = 0;

    if (object_count == 0 && shape->objects != NULL)
        schema_refuse(s, STATUS_TOO_LARGE, shape->objects->element >> 1, "allOf",
                      "more than %d schemas hold for one object", ELEMENTS_MAX);
    for (uint32_t i = 0; i < object_count; i++) {
        uint32_t node = objects[i] >> 1, before = count;
        uint32_t key = find_property(s, schema_member(s, node, "properties"), name);
        if (key != DOCUMENT_NONE)
            count = add(s, elements, count, room, document_value(&s->document, key) << 1);
        count = add_patterns(s, node, name, elements, count, room);
        uint32_t additional = schema_member(s, node, "additionalProperties");
        if (count == before && additional != DOCUMENT_NONE)
            count = add(s, elements, count, room, additional << 1);
    }
    for (const name_list_t *at = shape->properties; at != NULL; at = at->next) {
        if (schema_same_string(s, at->name, name))
            count = add(s, elements, count, room, at->element);
    }
    return count;
}

static void add_named(object_t *o, uint32_t name)
{
    schema_t *s = o->s;

    for (uint32_t i = 0; i < o->named_count; i++) {
        if (schema_same_string(s, o->named[i].name, name))
            return;
    }
    if (o->named_count == o->named_room) {
        uint32_t room = o->named_room == 0 ? 16 : 2 * o->named_room;
        named_t *more = schema_take(s, room * sizeof(*more));
        if (schema_failed(s))
            return;
        if (o->named_count > 0)
            memcpy(more, o->named, o->named_count * sizeof(*more));
        o->named = more;
        o->named_room = room;
    }
    o->named[o->named_count++] =
        (named_t){.name = name, .required = contains_name(s, o->shape->required, name)};
}

static void add_names(object_t *o, const name_list_t *list)
{
    if (list == NULL)
        return;
    add_names(o, list->next); /* the first that came is the last of the list */
    add_named(o, list->name);
}

static void find_named(object_t *o)
{
    schema_t *s = o->s;
    const document_t *d = &s->document;
    element_t objects[ELEMENTS_MAX];
    uint32_t object_count = in_order(o->shape->objects, objects, ELEMENTS_MAX);

    for (uint32_t i = 0; i < object_count; i++) {
        uint32_t properties = schema_member(s, objects[i] >> 1, "properties");
        if (properties == DOCUMENT_NONE || document_kind(d, properties) != DOCUMENT_OBJECT)
            continue;
        for (uint32_t key = document_next(d, properties, DOCUMENT_NONE);
             key != DOCUMENT_NONE && !schema_failed(s); key = document_next(d, properties, key))
            add_named(o, key);
    }
    add_names(o, o->shape->required);
    add_names(o, o->shape->properties);
    add_names(o, o->shape->forbidden);
}

static bool name_allowed(schema_t *s, const shape_t *shape, uint32_t name)
{
    for (const element_list_t *at = shape->names; at != NULL; at = at->next) {
        if (!schema_validates(s, name, at->element))
            return false;
    }
    return !contains_name(s, shape->forbidden, name);
}

/* What each named key holds; those that may not be there leave the list. False: no object at all. */
static bool fill_named(object_t *o)
{
    schema_t *s = o->s;
    element_t elements[ELEMENTS_MAX];

    for (uint32_t i = 0; i < o->named_count && !schema_failed(s); i++) {
        named_t *named = &o->named[i];
        uint32_t count = schema_property(s, o->shape, named->name, elements, ELEMENTS_MAX);
        bool allowed = name_allowed(s, o->shape, named->name);
        for (uint32_t j = 0; j < count; j++) {
            if (document_kind(&s->document, elements[j] >> 1) == DOCUMENT_FALSE &&
                !(elements[j] & 1))
                allowed = false;
        }
        if (!allowed && named->required)
            return false;
        named->elements = schema_take(s, (count + 1) * sizeof(*elements));
        named->element_count = count;
        if (schema_failed(s))
            return false;
        memcpy(named->elements, elements, count * sizeof(*elements));
        named->required = named->required && allowed;
        if (!allowed)
            named->element_count = SCHEMA_NONE;
    }
    return !schema_failed(s);
}

/* All keys that propertyNames lets through. */
static uint32_t allowed_keys(object_t *o)
{
    schema_t *s = o->s;
    const document_t *d = &s->document;
    regex_store_t *regexes = &s->build.regexes;
    shape_t any = {.string_term = REGEX_ANY, .length_max = SCHEMA_NONE};
    uint32_t keys = schema_string_body(s, &any);

    for (const element_list_t *at = o->shape->names; at != NULL && !schema_failed(s);
         at = at->next) {
        element_t element[1] = {at->element};
        const shapes_t *shapes = &schema_resolve(s, element, 1)->shapes;
        uint32_t some = REGEX_NOTHING;
        for (uint32_t i = 0; i < shapes->count; i++) {
            const shape_t *shape = &shapes->shapes[i];
            uint32_t values = shape->constants;
            if (values == SCHEMA_NONE && shape->types & SCHEMA_STRING)
                some = regex_or(regexes, some, schema_string_body(s, shape));
            if (values == SCHEMA_NONE)
                continue;
            bool many = document_kind(d, values) == DOCUMENT_ARRAY;
            uint32_t value =
                many ? document_next(d, values, DOCUMENT_NONE) : schema_member(s, values, "const");
            for (; value != DOCUMENT_NONE;
                 value = many ? document_next(d, values, value) : DOCUMENT_NONE) {
                size_t length;
                if (document_kind(d, value) != DOCUMENT_STRING ||
                    !schema_validates(s, value, at->element))
                    continue;
                const char *text = schema_string(s, value, &length);
                some = regex_or(regexes, some, pattern_text(regexes, PATTERN_JSON, text, length));
            }
        }
        keys = regex_and(regexes, keys, some);
    }
    return keys;
}

static uint32_t without_names(object_t *o, uint32_t keys)
{
    schema_t *s = o->s;
    regex_store_t *regexes = &s->build.regexes;
    uint32_t *names = schema_take(s, (o->named_count + 1) * sizeof(*names));

    if (schema_failed(s) || o->named_count == 0)
        return keys;
    for (uint32_t i = 0; i < o->named_count; i++) {
        size_t length;
        const char *text = schema_string(s, o->named[i].name, &length);
        names[i] = pattern_text(regexes, PATTERN_JSON, text, length);
    }
    return regex_and(regexes, keys,
                     regex_not(regexes, regex_or_all(regexes, names, o->named_count)));
}

/* The class of keys that match the patterns of `chosen`, and no other. */
static void add_other(object_t *o, const key_pattern_t *patterns, uint32_t pattern_count,
                      uint32_t chosen, uint32_t keys)
{
    schema_t *s = o->s;
    regex_store_t *regexes = &s->build.regexes;
    element_t objects[ELEMENTS_MAX], elements[ELEMENTS_MAX];
    uint32_t object_count = in_order(o->shape->objects, objects, ELEMENTS_MAX), count = 0;

    for (uint32_t i = 0; i < object_count; i++) {
        uint32_t node = objects[i] >> 1, before = count;
        for (uint32_t j = 0; j < pattern_count; j++) {
            if (patterns[j].owner == node && chosen & 1u << j)
                count = add(s, elements, count, ELEMENTS_MAX,
                            document_value(&s->document, patterns[j].key) << 1);
        }
        uint32_t additional = schema_member(s, node, "additionalProperties");
        if (count == before && additional != DOCUMENT_NONE)
            count = add(s, elements, count, ELEMENTS_MAX, additional << 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (document_kind(&s->document, elements[i] >> 1) == DOCUMENT_FALSE)
            return;
    }
    for (uint32_t j = 0; j < pattern_count; j++) {
        uint32_t term = patterns[j].term;
        if (term != 0)
            keys = regex_and(regexes, keys, chosen & 1u << j ? term : regex_not(regexes, term));
    }
    if (keys == REGEX_NOTHING || schema_failed(s))
        return;
    other_t *other = &o->others[o->other_count++];
    if (chosen != 0 || o->shape->names != NULL) {
        regex_automaton_t automaton;
        other->finite = regex_automaton(regexes, keys, &automaton) == STATUS_OK &&
                        regex_automaton_is_finite(&automaton);
        regex_automaton_fini(&automaton);
    }
    uint32_t quote = regex_text(regexes, "\"", 1);
    const char *colon = s->any_space ? "\"" : "\": ";
    other->term = regex_cat(regexes, quote,
                            regex_cat(regexes, keys, regex_text(regexes, colon, strlen(colon))));
    other->elements = schema_take(s, (count + 1) * sizeof(*elements));
    other->element_count = count;
    if (!schema_failed(s))
        memcpy(other->elements, elements, count * sizeof(*elements));
}

/* No pattern and no rule for names: one class, of all keys without a name of their own. */
static void add_any_other(object_t *o)
{
    schema_t *s = o->s;
    element_t objects[ELEMENTS_MAX], elements[ELEMENTS_MAX];
    uint32_t object_count = in_order(o->shape->objects, objects, ELEMENTS_MAX), count = 0;

    for (uint32_t i = 0; i < object_count; i++) {
        uint32_t additional = schema_member(s, objects[i] >> 1, "additionalProperties");
        if (additional == DOCUMENT_NONE)
            continue;
        if (document_kind(&s->document, additional) == DOCUMENT_FALSE)
            return;
        count = add(s, elements, count, ELEMENTS_MAX, additional << 1);
    }
    standard_name_t *names = schema_take(s, (o->named_count + 1) * sizeof(*names));
    other_t *other = &o->others[o->other_count++];
    *other = (other_t){.term = REGEX_NOTHING, .element_count = count};
    other->elements = schema_take(s, (count + 1) * sizeof(*elements));
    if (schema_failed(s))
        return;
    memcpy(other->elements, elements, count * sizeof(*elements));
    for (uint32_t i = 0; i < o->named_count; i++)
        names[i].text = schema_escaped(s, o->named[i].name, &names[i].length);
    o->names = names;
}

static uint32_t collect_patterns(object_t *o, key_pattern_t *patterns)
{
    schema_t *s = o->s;
    const document_t *d = &s->document;
    uint32_t count = 0;

    for (const element_list_t *at = o->shape->objects; at != NULL; at = at->next) {
        uint32_t node = at->element >> 1, value = schema_member(s, node, "patternProperties");
        if (value == DOCUMENT_NONE || document_kind(d, value) != DOCUMENT_OBJECT)
            continue;
        for (uint32_t key = document_next(d, value, DOCUMENT_NONE); key != DOCUMENT_NONE;
             key = document_next(d, value, key)) {
            if (count == 4 * SCHEMA_PATTERNS_MAX) {
                schema_refuse(s, STATUS_TOO_LARGE, node, "patternProperties",
                              "more than %d patterns", 4 * SCHEMA_PATTERNS_MAX);
                return count;
            }
            patterns[count++] =
                (key_pattern_t){node, key, schema_pattern(s, node, key, "patternProperties")};
        }
    }
    return count;
}

/* Patterns of which no key matches two are one class each, and all other keys one more. */
static void add_classes(object_t *o, const key_pattern_t *patterns, uint32_t count, uint32_t keys,
                        uint32_t at, uint32_t chosen, uint32_t left)
{
    schema_t *s = o->s;
    regex_automaton_t automaton;

    if (schema_failed(s))
        return;
    if (at == count) {
        if (o->other_count == OTHERS_MAX)
            schema_refuse(s, STATUS_TOO_LARGE, patterns[0].owner, "patternProperties",
                          "the patterns overlap in too many ways");
        else
            add_other(o, patterns, count, chosen, keys);
        return;
    }
    uint32_t with = regex_and(&s->build.regexes, left, patterns[at].term);
    bool some = with != REGEX_NOTHING;
    if (some && chosen != 0) { /* do they overlap at all? */
        status_t status = regex_automaton(&s->build.regexes, with, &automaton);
        some = status != STATUS_OK || automaton.state_count > 1;
        regex_automaton_fini(&automaton);
    }
    if (some)
        add_classes(o, patterns, count, keys, at + 1, chosen | 1u << at, with);
    add_classes(o, patterns, count, keys, at + 1, chosen, left);
}

static void find_others(object_t *o)
{
    key_pattern_t patterns[4 * SCHEMA_PATTERNS_MAX];
    uint32_t count = collect_patterns(o, patterns);

    if (schema_failed(o->s))
        return;
    if (count == 0 && o->shape->names == NULL) {
        add_any_other(o);
        return;
    }
    uint32_t keys = allowed_keys(o);
    add_classes(o, patterns, count, without_names(o, keys), 0, 0, keys);
}

/* `{` or `,`, a key of this name and a colon; the state for the value. */
static uint32_t write_key(object_t *o, uint32_t from, const char *open, uint32_t name)
{
    schema_t *s = o->s;
    build_t *b = &s->build;
    text_buffer_t text;
    size_t length;
    const char *key = schema_string(s, name, &length);
    uint32_t to = build_state(b, from);

    text_buffer_init(&text, GRAMMAR_SOURCE_BYTES_MAX);
    if (s->any_space) {
        uint32_t behind = build_state(b, from), colon = build_state(b, from);
        build_edge_text(b, from, behind, open, 1);
        text_put_text(&text, "\"");
        text_put_escaped_text(&text, key, length);
        text_put_text(&text, "\"");
        build_edge_text(b, schema_space(s, behind), colon, text.bytes, text.used);
        build_edge_text(b, schema_space(s, colon), to, ":", 1);
    } else {
        text_put_text(&text, open);
        text_put_text(&text, "\"");
        text_put_escaped_text(&text, key, length);
        text_put_text(&text, "\": ");
        build_edge_text(b, from, to, text.bytes, text.used);
    }
    if (text.status != STATUS_OK)
        build_fail(b, text.status);
    text_buffer_fini(&text);
    return to;
}

static uint32_t *state_at(object_t *o, uint32_t key, uint32_t level)
{
    return &o->states[(size_t)key * o->levels + level];
}

static uint32_t next_level(const object_t *o, uint32_t level)
{
    return level + 1 < o->levels ? level + 1 : level;
}

static bool may_add(const object_t *o, uint32_t level)
{
    return o->shape->properties_max == SCHEMA_NONE || level < o->shape->properties_max;
}

/* A key without a name, by class, and its value. */
static void write_others(object_t *o, uint32_t level, uint32_t from)
{
    schema_t *s = o->s;
    build_t *b = &s->build;
    regex_store_t *regexes = &b->regexes;
    const char *open = level == 0 ? "{" : s->any_space ? "," : ", ";
    uint32_t behind = build_state(b, from),
             target = *state_at(o, o->named_count, next_level(o, level));

    build_edge_text(b, from, behind, open, strlen(open));
    behind = schema_space(s, behind);
    for (uint32_t i = 0; i < o->other_count; i++) {
        const other_t *other = &o->others[i];
        uint32_t value = build_state(b, from);
        uint32_t colon = s->any_space ? build_state(b, from) : value;
        if (other->term == REGEX_NOTHING)
            build_edge_standard(b, behind, colon, s->any_space ? STANDARD_BARE_KEY : STANDARD_KEY,
                                o->names, o->named_count);
        else if (other->finite)
            build_edge_key(
                b, from, colon,
                regex_cat(regexes, regex_text(regexes, open, strlen(open)),
                          regex_cat(regexes, s->any_space ? s->space : REGEX_EMPTY, other->term)));
        else
            build_edge_key(b, behind, colon, other->term);
        if (s->any_space)
            build_edge_text(b, schema_space(s, colon), value, ":", 1);
        schema_write(s, other->elements, other->element_count, value, target);
    }
}

/* All that may happen with key number `key` next and `level` keys written. */
static void write_state(object_t *o, uint32_t key, uint32_t level, uint32_t to)
{
    schema_t *s = o->s;
    build_t *b = &s->build;
    uint32_t from = *state_at(o, key, level);
    const char *open = level == 0 ? "{" : ", ";

    if (key < o->named_count) {
        const named_t *named = &o->named[key];
        bool allowed = named->element_count != SCHEMA_NONE;
        if (!named->required)
            build_edge_empty(b, from, *state_at(o, key + 1, level));
        if (allowed && may_add(o, level)) {
            uint32_t start = s->any_space && level > 0 ? schema_space(s, from) : from;
            schema_write(s, named->elements, named->element_count,
                         write_key(o, start, open, named->name),
                         *state_at(o, key + 1, next_level(o, level)));
        }
        return;
    }
    uint32_t start = s->any_space && level > 0 ? schema_space(s, from) : from;
    if (may_add(o, level) && o->other_count > 0)
        write_others(o, level, start);
    if (level < o->shape->properties_min)
        return;
    if (level == 0 && s->any_space) {
        uint32_t inside = build_state(b, from);
        build_edge_text(b, from, inside, "{", 1);
        build_edge_text(b, schema_space(s, inside), to, "}", 1);
    } else {
        build_edge_text(b, start, to, level == 0 ? "{}" : "}", level == 0 ? 2 : 1);
    }
}

void schema_write_object(schema_t *s, const shape_t *shape, uint32_t from, uint32_t to)
{
    object_t *o = schema_take(s, sizeof(*o));
    uint32_t max = shape->properties_max, min = shape->properties_min;

    if (schema_failed(s))
        return;
    *o = (object_t){.s = s, .shape = shape};
    find_named(o);
    if (schema_failed(s) || !fill_named(o))
        return;
    find_others(o);
    if (o->other_count == 0 && max != SCHEMA_NONE && max >= o->named_count)
        max = SCHEMA_NONE; /* never met */
    if (o->other_count == 0 && min > o->named_count)
        return;
    o->levels = 2;
    if (min + 1 > o->levels)
        o->levels = min + 1;
    if (max != SCHEMA_NONE && max + 1 > o->levels)
        o->levels = max + 1;
    size_t states = (size_t)(o->named_count + 1) * o->levels;
    if (o->levels > SCHEMA_ITEMS_MAX || states > (o->levels > 2 ? SCHEMA_ITEMS_MAX : 1 << 17)) {
        schema_refuse(s, STATUS_TOO_LARGE, shape->objects ? shape->objects->element >> 1 : 0,
                      max != SCHEMA_NONE ? "maxProperties" : "minProperties",
                      "it counts too many keys");
        return;
    }
    o->states = schema_take(s, states * sizeof(*o->states));
    if (schema_failed(s))
        return;
    for (size_t i = 0; i < states; i++)
        o->states[i] = i == 0 ? from : build_state(&s->build, from);
    for (uint32_t key = 0; key <= o->named_count; key++) {
        for (uint32_t level = 0; level < o->levels && !schema_failed(s); level++) {
            if (level <= key + (o->other_count > 0 ? o->levels : 0))
                write_state(o, key, level, to);
        }
    }
}
