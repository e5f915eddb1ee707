/* grammar_schema_array.c - arrays: items by place, counts, `contains`, and values that come once. */
#include <string.h>

#include "model/grammar_schema.h"

enum { ELEMENTS_MAX = 64, CONTAINS_MAX = 3 };

typedef struct {
    schema_t *s;
    const shape_t *shape;
    element_t nodes[ELEMENTS_MAX];
    uint32_t node_count;
    element_t contains[CONTAINS_MAX]; /* what some item must be */
    uint32_t contains_count;
    uint32_t prefix; /* places that have a schema of their own */
    uint32_t levels, masks;
    uint32_t *states;
} array_t;

static uint32_t length_of(const schema_t *s, uint32_t array)
{
    uint32_t count = 0;

    for (uint32_t at = document_next(&s->document, array, DOCUMENT_NONE); at != DOCUMENT_NONE;
         at = document_next(&s->document, array, at))
        count++;
    return count;
}

/* The schemas by place of an array schema, or DOCUMENT_NONE, and that of all places behind them. */
static uint32_t places_of(const schema_t *s, uint32_t node, uint32_t *rest)
{
    uint32_t prefix = schema_member(s, node, "prefixItems");
    uint32_t items = schema_member(s, node, "items");

    *rest = items;
    if (prefix == DOCUMENT_NONE && items != DOCUMENT_NONE &&
        document_kind(&s->document, items) == DOCUMENT_ARRAY) {
        prefix = items;
        *rest = schema_member(s, node, "additionalItems");
    }
    return prefix;
}

/* What holds for the item at a place. */
static uint32_t item_elements(array_t *a, uint32_t place, element_t *elements)
{
    const document_t *d = &a->s->document;
    uint32_t count = 0;

    for (uint32_t i = 0; i < a->node_count; i++) {
        uint32_t rest, at = DOCUMENT_NONE, left = place;
        uint32_t prefix = places_of(a->s, a->nodes[i] >> 1, &rest);
        if (prefix != DOCUMENT_NONE) {
            at = document_next(d, prefix, DOCUMENT_NONE);
            while (at != DOCUMENT_NONE && left > 0) {
                at = document_next(d, prefix, at);
                left--;
            }
        }
        if (at == DOCUMENT_NONE)
            at = rest;
        if (at != DOCUMENT_NONE)
            elements[count++] = at << 1;
    }
    return count;
}

static bool find_contains(array_t *a)
{
    schema_t *s = a->s;

    for (const element_list_t *at = a->shape->contains; at != NULL; at = at->next) {
        uint32_t node = at->element >> 1;
        element_t element = at->element;
        if (!(element & 1)) {
            uint32_t least = schema_member(s, node, "minContains");
            uint32_t count =
                least == DOCUMENT_NONE ? 1 : schema_count(s, node, "minContains", least);
            if (count == 0)
                continue;
            if (count > 1)
                schema_refuse(s, STATUS_UNSUPPORTED, node, "minContains", "only 0 and 1 are");
            element = schema_member(s, node, "contains") << 1;
        }
        if (a->contains_count == CONTAINS_MAX) {
            schema_refuse(s, STATUS_TOO_LARGE, node, "contains", "more than %d hold for one array",
                          CONTAINS_MAX);
            return false;
        }
        a->contains[a->contains_count++] = element;
    }
    return !schema_failed(s);
}

static uint32_t *state_at(array_t *a, uint32_t level, uint32_t mask)
{
    return &a->states[level * a->masks + mask];
}

/* An item at `level`, with every choice of what it is counted for. */
static void write_items(array_t *a, uint32_t level, uint32_t mask, uint32_t from)
{
    schema_t *s = a->s;
    element_t elements[ELEMENTS_MAX + CONTAINS_MAX];
    uint32_t next = level + 1 < a->levels ? level + 1 : level;

    for (uint32_t claim = 0; claim < a->masks; claim++) {
        if (claim & mask)
            continue;
        uint32_t count = item_elements(a, level, elements);
        for (uint32_t i = 0; i < a->contains_count; i++) {
            if (claim & 1u << i)
                elements[count++] = a->contains[i];
        }
        schema_write(s, elements, count, from, *state_at(a, next, mask | claim));
    }
}

static void write_state(array_t *a, uint32_t level, uint32_t mask, uint32_t to)
{
    schema_t *s = a->s;
    build_t *b = &s->build;
    uint32_t from = *state_at(a, level, mask);
    bool done = level >= a->shape->items_min && mask + 1 == a->masks;

    if (level == 0) {
        uint32_t inside = build_state(b, from);
        build_edge_text(b, from, inside, "[", 1);
        if (a->shape->items_max > 0)
            write_items(a, level, mask, inside);
        if (done)
            build_edge_text(b, schema_space(s, inside), to, "]", 1);
        return;
    }
    uint32_t start = schema_space(s, from);
    if (level < a->shape->items_max) {
        uint32_t item = build_state(b, from);
        build_edge_text(b, start, item, ", ", s->any_space ? 1 : 2);
        write_items(a, level, mask, item);
    }
    if (done)
        build_edge_text(b, start, to, "]", 1);
}

/* The constants that an item may be, if it may be nothing else: their number, or SCHEMA_NONE. */
static uint32_t item_constants(array_t *a, uint32_t *values, uint32_t room)
{
    schema_t *s = a->s;
    const document_t *d = &s->document;
    element_t elements[ELEMENTS_MAX];
    uint32_t element_count = item_elements(a, 0, elements), count = 0;
    const resolved_t *list = schema_resolve(s, elements, element_count);

    if (schema_failed(s) || list->shapes.count != 1 ||
        list->shapes.shapes[0].constants == SCHEMA_NONE)
        return SCHEMA_NONE;
    uint32_t source = list->shapes.shapes[0].constants;
    bool many = document_kind(d, source) == DOCUMENT_ARRAY;
    uint32_t at =
        many ? document_next(d, source, DOCUMENT_NONE) : schema_member(s, source, "const");
    for (; at != DOCUMENT_NONE; at = many ? document_next(d, source, at) : DOCUMENT_NONE) {
        bool fits = true;
        for (uint32_t i = 0; i < element_count && fits; i++)
            fits = schema_validates(s, at, elements[i]);
        for (uint32_t i = 0; i < count && fits; i++)
            fits = !schema_equal(s, values[i], at);
        if (fits && count == room)
            return SCHEMA_NONE;
        if (fits)
            values[count++] = at;
    }
    return count;
}

/* Each value at most once: a state for each set of values that were written. */
static void write_unique(array_t *a, const uint32_t *values, uint32_t count, uint32_t from,
                         uint32_t to)
{
    schema_t *s = a->s;
    build_t *b = &s->build;
    uint32_t *states = schema_take(s, (1u << count) * sizeof(*states));

    if (schema_failed(s))
        return;
    for (uint32_t set = 0; set < 1u << count; set++)
        states[set] = build_state(b, from);
    build_edge_text(b, from, states[0], "[", 1);
    for (uint32_t set = 0; set < 1u << count && !schema_failed(s); set++) {
        uint32_t size = (uint32_t)__builtin_popcount(set), start = schema_space(s, states[set]);
        if (size >= a->shape->items_min)
            build_edge_text(b, start, to, "]", 1);
        if (size >= a->shape->items_max)
            continue;
        uint32_t item = set == 0 ? start : build_state(b, from);
        if (set != 0)
            build_edge_text(b, start, item, ", ", s->any_space ? 1 : 2);
        for (uint32_t i = 0; i < count; i++) {
            if (!(set & 1u << i))
                schema_write_constant(s, values[i], item, states[set | 1u << i]);
        }
    }
}

void schema_write_array(schema_t *s, const shape_t *shape, uint32_t from, uint32_t to)
{
    array_t *a = schema_take(s, sizeof(*a));
    uint32_t max = shape->items_max, values[SCHEMA_UNIQUE_MAX];

    if (schema_failed(s))
        return;
    *a = (array_t){.s = s, .shape = shape, .levels = 2};
    for (const element_list_t *at = shape->arrays; at != NULL; at = at->next) {
        uint32_t rest, places = places_of(s, at->element >> 1, &rest);
        uint32_t count = places != DOCUMENT_NONE ? length_of(s, places) : 0;
        a->prefix = count > a->prefix ? count : a->prefix;
        if (a->node_count == ELEMENTS_MAX) {
            schema_refuse(s, STATUS_TOO_LARGE, at->element >> 1, "allOf",
                          "more than %d schemas hold for one array", ELEMENTS_MAX);
            return;
        }
        a->nodes[a->node_count++] = at->element;
    }
    if (!find_contains(a))
        return;
    if (shape->unique && max > 1) {
        uint32_t count = a->prefix == 0 && a->contains_count == 0
                             ? item_constants(a, values, SCHEMA_UNIQUE_MAX)
                             : SCHEMA_NONE;
        if (count == SCHEMA_NONE)
            schema_refuse(s, STATUS_UNSUPPORTED, shape->unique_node, "uniqueItems",
                          "only items that are one of at most %d constants", SCHEMA_UNIQUE_MAX);
        else
            write_unique(a, values, count, from, to);
        return;
    }
    uint32_t bounds[] = {a->prefix + 1, shape->items_min + 1, max == SCHEMA_NONE ? 0 : max + 1};
    for (size_t i = 0; i < COUNT_OF(bounds); i++)
        a->levels = bounds[i] > a->levels ? bounds[i] : a->levels;
    a->masks = 1u << a->contains_count;
    if (a->levels > SCHEMA_ITEMS_MAX) {
        schema_refuse(s, STATUS_TOO_LARGE, shape->arrays != NULL ? shape->arrays->element >> 1 : 0,
                      max != SCHEMA_NONE ? "maxItems" : "minItems", "it counts too many items");
        return;
    }
    a->states = schema_take(s, (size_t)a->levels * a->masks * sizeof(*a->states));
    if (schema_failed(s))
        return;
    for (uint32_t i = 0; i < a->levels * a->masks; i++)
        a->states[i] = i == 0 ? from : build_state(&s->build, from);
    for (uint32_t level = 0; level < a->levels && !schema_failed(s); level++) {
        for (uint32_t mask = 0; mask < a->masks; mask++) {
            if (level > 0 || mask == 0)
                write_state(a, level, mask, to);
        }
    }
}
