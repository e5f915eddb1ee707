/* grammar_schema_shape.c - lists of schema elements are resolved into shapes without choices.
 *
 * All keywords that leave no choice are applied first, so that a choice made later is often seen to be
 * impossible at once. `oneOf` is a union where its parts are seen to exclude each other in this place;
 * else each part goes with the negation of the others. A negated schema is a choice among the
 * negations of its keywords.
 */
#include <string.h>

#include "model/grammar_schema.h"

enum { CHOOSE_ANY, CHOOSE_ONE, CHOOSE_IF, CHOOSE_DEPENDENCY, CHOOSE_NOT, CHOOSE_NOT_ALL };

static uint32_t type_bits(const schema_t *s, uint32_t node)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } types[] = {{"null", SCHEMA_NULL},       {"boolean", SCHEMA_FALSE | SCHEMA_TRUE},
                 {"integer", SCHEMA_INTEGER}, {"number", SCHEMA_NUMBER},
                 {"string", SCHEMA_STRING},   {"array", SCHEMA_ARRAY},
                 {"object", SCHEMA_OBJECT},   {"any", SCHEMA_ANY}};

    for (size_t i = 0; i < COUNT_OF(types); i++) {
        if (document_equals(&s->document, node, types[i].name))
            return types[i].bits;
    }
    return 0;
}

/* All types that `type` names; `integer` without 1.0, which only some drafts count as one. */
uint32_t schema_named_types(schema_t *s, uint32_t node, uint32_t value)
{
    const document_t *d = &s->document;
    uint32_t bits = 0;

    if (document_kind(d, value) == DOCUMENT_STRING) {
        bits = type_bits(s, value);
    } else if (document_kind(d, value) == DOCUMENT_ARRAY) {
        for (uint32_t at = document_next(d, value, DOCUMENT_NONE); at != DOCUMENT_NONE;
             at = document_next(d, value, at)) {
            uint32_t one = type_bits(s, at);
            if (one == 0)
                bits = 0;
            if (one == 0)
                break;
            bits |= one;
        }
    }
    if (bits == 0)
        schema_refuse(s, STATUS_INVALID, node, "type", "it names no type");
    return bits;
}

static uint32_t constant_type(const schema_t *s, uint32_t node)
{
    switch (document_kind(&s->document, node)) {
    case DOCUMENT_NULL:
        return SCHEMA_NULL;
    case DOCUMENT_FALSE:
        return SCHEMA_FALSE;
    case DOCUMENT_TRUE:
        return SCHEMA_TRUE;
    case DOCUMENT_NUMBER:
        return schema_number_type(s, node);
    case DOCUMENT_STRING:
        return SCHEMA_STRING;
    case DOCUMENT_ARRAY:
        return SCHEMA_ARRAY;
    case DOCUMENT_OBJECT:
        return SCHEMA_OBJECT;
    }
    return 0;
}

static bool is_one_of(schema_t *s, const name_list_t *names, uint32_t name)
{
    for (; names != NULL; names = names->next) {
        if (schema_same_string(s, names->name, name))
            return true;
    }
    return false;
}

const name_list_t *schema_push_name(schema_t *s, const name_list_t *list, uint32_t name,
                                    element_t element)
{
    name_list_t *item = schema_take(s, sizeof(*item));

    *item = (name_list_t){name, element, list};
    return item;
}

void schema_require(schema_t *s, shape_t *shape, uint32_t name)
{
    if (is_one_of(s, shape->forbidden, name))
        shape->types &= ~(uint32_t)SCHEMA_OBJECT;
    if (!is_one_of(s, shape->required, name))
        shape->required = schema_push_name(s, shape->required, name, 0);
}

void schema_forbid(schema_t *s, shape_t *shape, uint32_t name)
{
    if (is_one_of(s, shape->required, name))
        shape->types &= ~(uint32_t)SCHEMA_OBJECT;
    if (!is_one_of(s, shape->forbidden, name))
        shape->forbidden = schema_push_name(s, shape->forbidden, name, 0);
}

static void require_all(schema_t *s, shape_t *shape, uint32_t array)
{
    const document_t *d = &s->document;

    if (document_kind(d, array) != DOCUMENT_ARRAY)
        return;
    for (uint32_t at = document_next(d, array, DOCUMENT_NONE); at != DOCUMENT_NONE;
         at = document_next(d, array, at)) {
        if (document_kind(d, at) == DOCUMENT_STRING)
            schema_require(s, shape, at);
    }
}

static void add_choice(schema_t *s, shape_t *shape, unsigned kind, uint32_t node, uint32_t value,
                       uint32_t key)
{
    choice_list_t *choice = schema_take(s, sizeof(*choice));
    const choice_list_t **at = &shape->choices;

    *choice = (choice_list_t){node, value, key, (unsigned char)kind, NULL};
    /* Behind those that are there: lists are shared, so the way to the end is copied. */
    while (*at != NULL) {
        choice_list_t *copy = schema_take(s, sizeof(*copy));
        *copy = **at;
        *at = copy;
        at = &copy->next;
    }
    *at = choice;
}

void schema_add_bound(schema_t *s, shape_t *shape, uint32_t node, bool exclusive, bool upper)
{
    bound_list_t *bound = schema_take(s, sizeof(*bound));

    *bound = (bound_list_t){{node, exclusive}, upper, shape->bounds};
    shape->bounds = bound;
}

bool schema_is_true(const schema_t *s, uint32_t node)
{
    return node != DOCUMENT_NONE && document_kind(&s->document, node) == DOCUMENT_TRUE;
}

static void apply_bounds(schema_t *s, shape_t *shape, uint32_t node)
{
    static const char *const names[] = {"minimum", "maximum", "exclusiveMinimum",
                                        "exclusiveMaximum"};

    for (unsigned i = 0; i < 4; i++) {
        uint32_t value = schema_member(s, node, names[i]);
        if (value == DOCUMENT_NONE || document_kind(&s->document, value) != DOCUMENT_NUMBER)
            continue;
        bool exclusive = i >= 2 || schema_is_true(s, schema_member(s, node, names[i + 2]));
        schema_add_bound(s, shape, value, exclusive, i & 1);
    }
}

static void apply_counts(schema_t *s, shape_t *shape, uint32_t node)
{
    const struct {
        const char *keyword;
        uint32_t *field;
        bool upper;
    } counts[] = {{"minLength", &shape->length_min, false},
                  {"maxLength", &shape->length_max, true},
                  {"minItems", &shape->items_min, false},
                  {"maxItems", &shape->items_max, true},
                  {"minProperties", &shape->properties_min, false},
                  {"maxProperties", &shape->properties_max, true}};

    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        uint32_t value = schema_member(s, node, counts[i].keyword);
        if (value == DOCUMENT_NONE)
            continue;
        uint32_t count = schema_count(s, node, counts[i].keyword, value);
        if (counts[i].upper)
            at_most(counts[i].field, count);
        else
            at_least(counts[i].field, count);
    }
}

static void apply_strings(schema_t *s, shape_t *shape, uint32_t node)
{
    regex_store_t *regexes = &s->build.regexes;
    uint32_t value = schema_member(s, node, "pattern");

    if (!(shape->types & SCHEMA_STRING))
        return;
    if (value != DOCUMENT_NONE)
        shape->string_term =
            regex_and(regexes, shape->string_term, schema_pattern(s, node, value, "pattern"));
    value = schema_member(s, node, "format");
    if (value != DOCUMENT_NONE && document_kind(&s->document, value) == DOCUMENT_STRING) {
        size_t length;
        uint32_t format = schema_find_format(schema_string(s, value, &length));
        if (format < FORMAT_COUNT && shape->format != 0 && shape->format != format + 1)
            shape->string_term =
                regex_and(regexes, shape->string_term, schema_format_term(s, format));
        else if (format < FORMAT_COUNT)
            shape->format = format + 1;
    }
}

static bool has_any(const schema_t *s, uint32_t node, const char *const *keywords, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (schema_member(s, node, keywords[i]) != DOCUMENT_NONE)
            return true;
    }
    return false;
}

static void apply_containers(schema_t *s, shape_t *shape, uint32_t node)
{
    static const char *const object_keywords[] = {"properties", "patternProperties",
                                                  "additionalProperties"};
    static const char *const array_keywords[] = {"items", "prefixItems", "additionalItems"};
    uint32_t value;

    if (has_any(s, node, object_keywords, COUNT_OF(object_keywords)))
        shape->objects = schema_push(s, shape->objects, node << 1);
    if (has_any(s, node, array_keywords, COUNT_OF(array_keywords)))
        shape->arrays = schema_push(s, shape->arrays, node << 1);
    value = schema_member(s, node, "required");
    if (value != DOCUMENT_NONE)
        require_all(s, shape, value);
    value = schema_member(s, node, "propertyNames");
    if (value != DOCUMENT_NONE)
        shape->names = schema_push(s, shape->names, value << 1);
    value = schema_member(s, node, "contains");
    if (value != DOCUMENT_NONE && s->draft >= 6) {
        shape->contains = schema_push(s, shape->contains, node << 1);
    }
    value = schema_member(s, node, "uniqueItems");
    if (value != DOCUMENT_NONE && schema_is_true(s, value)) {
        shape->unique = true;
        shape->unique_node = node;
    }
}

static void add_dependencies(schema_t *s, shape_t *shape, uint32_t node)
{
    static const char *const names[] = {"dependencies", "dependentRequired", "dependentSchemas"};
    const document_t *d = &s->document;

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        uint32_t value = schema_member(s, node, names[i]);
        if (value == DOCUMENT_NONE || document_kind(d, value) != DOCUMENT_OBJECT)
            continue;
        for (uint32_t key = document_next(d, value, DOCUMENT_NONE); key != DOCUMENT_NONE;
             key = document_next(d, value, key))
            add_choice(s, shape, CHOOSE_DEPENDENCY, node, document_value(d, key), key);
    }
}

static void add_choices(schema_t *s, shape_t *shape, uint32_t node)
{
    uint32_t value = schema_member(s, node, "if");

    if (value != DOCUMENT_NONE && (schema_member(s, node, "then") != DOCUMENT_NONE ||
                                   schema_member(s, node, "else") != DOCUMENT_NONE))
        add_choice(s, shape, CHOOSE_IF, node, value, 0);
    add_dependencies(s, shape, node);
    value = schema_member(s, node, "oneOf");
    if (value != DOCUMENT_NONE)
        add_choice(s, shape, CHOOSE_ONE, node, value, 0);
    value = schema_member(s, node, "anyOf");
    if (value != DOCUMENT_NONE)
        add_choice(s, shape, CHOOSE_ANY, node, value, 0);
}

/* What would have to hold as well, and cannot be followed. */
static void refuse_unknown(schema_t *s, uint32_t node)
{
    static const char *const refused[] = {"unevaluatedProperties",
                                          "unevaluatedItems",
                                          "$dynamicRef",
                                          "$recursiveRef",
                                          "extends",
                                          "disallow",
                                          "maxContains"};

    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        uint32_t value = schema_member(s, node, refused[i]);
        if (value != DOCUMENT_NONE && !schema_is_true(s, value))
            schema_refuse(s, STATUS_UNSUPPORTED, node, refused[i], "it is not supported");
    }
}

const element_list_t *schema_push_all(schema_t *s, const element_list_t *list, uint32_t array,
                                      bool negated)
{
    const document_t *d = &s->document;

    uint32_t count = 0, room = 0;

    if (document_kind(d, array) != DOCUMENT_ARRAY)
        return list;
    for (uint32_t at = document_next(d, array, DOCUMENT_NONE); at != DOCUMENT_NONE;
         at = document_next(d, array, at))
        room++;
    uint32_t *all = schema_take(s, (room + 1) * sizeof(*all));
    if (schema_failed(s))
        return list;
    for (uint32_t at = document_next(d, array, DOCUMENT_NONE); at != DOCUMENT_NONE;
         at = document_next(d, array, at))
        all[count++] = at;
    while (count > 0) /* the first comes first */
        list = schema_push(s, list, all[--count] << 1 | negated);
    return list;
}

static const element_list_t *apply(schema_t *s, shape_t *shape, uint32_t node,
                                   const element_list_t *pending)
{
    const document_t *d = &s->document;
    uint32_t value = schema_member(s, node, "$ref");

    if (value != DOCUMENT_NONE && document_kind(d, value) == DOCUMENT_STRING) {
        uint32_t target = schema_reference(s, node, value);
        if (target == SCHEMA_NONE)
            return pending;
        pending = schema_push(s, pending, target << 1);
        if (s->draft <= 7)
            return pending;
    }
    refuse_unknown(s, node);
    value = schema_member(s, node, "type");
    if (value != DOCUMENT_NONE)
        shape->types &= schema_named_types(s, node, value);
    value = schema_member(s, node, "enum");
    if (value != DOCUMENT_NONE && document_kind(d, value) == DOCUMENT_ARRAY) {
        uint32_t types = 0;
        for (uint32_t at = document_next(d, value, DOCUMENT_NONE); at != DOCUMENT_NONE;
             at = document_next(d, value, at))
            types |= constant_type(s, at);
        shape->types &= types | (types & SCHEMA_WHOLE ? SCHEMA_INTEGER : 0);
        shape->constants = shape->constants == SCHEMA_NONE ? value : shape->constants;
    }
    value = schema_member(s, node, "const");
    if (value != DOCUMENT_NONE && s->draft >= 6) {
        shape->types &= constant_type(s, value);
        shape->constants = node; /* one value: the best choice */
    }
    apply_bounds(s, shape, node);
    apply_counts(s, shape, node);
    apply_strings(s, shape, node);
    apply_containers(s, shape, node);
    value = schema_member(s, node, "multipleOf");
    if (value != DOCUMENT_NONE && document_kind(d, value) == DOCUMENT_NUMBER)
        shape->multiples = schema_push(s, shape->multiples, value << 1);
    add_choices(s, shape, node);
    value = schema_member(s, node, "not");
    if (value != DOCUMENT_NONE)
        pending = schema_push(s, pending, value << 1 | 1);
    value = schema_member(s, node, "allOf");
    if (value != DOCUMENT_NONE)
        pending = schema_push_all(s, pending, value, false);
    return pending;
}

static void add_shape(schema_t *s, resolving_t *r, const shape_t *shape)
{
    shapes_t *out = r->out;

    if (out->count == SCHEMA_SHAPES_MAX) {
        schema_refuse(s, STATUS_TOO_LARGE, 0, "anyOf", "it has more than %d cases",
                      SCHEMA_SHAPES_MAX);
        return;
    }
    if (out->count == out->room) {
        uint32_t room = out->room == 0 ? 4 : 2 * out->room;
        shape_t *more = schema_take(s, room * sizeof(*more));
        if (schema_failed(s))
            return;
        if (out->count > 0)
            memcpy(more, out->shapes, out->count * sizeof(*more));
        out->shapes = more;
        out->room = room;
    }
    out->shapes[out->count++] = *shape;
}

/* Takes types away that have no value; true if none is left. */
static bool narrow(schema_t *s, shape_t *shape)
{
    if (shape->length_min > shape->length_max || shape->string_term == REGEX_NOTHING)
        shape->types &= ~(uint32_t)SCHEMA_STRING;
    if (shape->items_min > shape->items_max)
        shape->types &= ~(uint32_t)SCHEMA_ARRAY;
    if (shape->properties_min > shape->properties_max)
        shape->types &= ~(uint32_t)SCHEMA_OBJECT;
    for (const bound_list_t *low = shape->bounds; low != NULL; low = low->next) {
        for (const bound_list_t *high = shape->bounds; high != NULL; high = high->next) {
            if (low->upper || !high->upper)
                continue;
            double a = schema_double(s, low->bound.node), b = schema_double(s, high->bound.node);
            if (a > b || (a >= b && (low->bound.exclusive || high->bound.exclusive)))
                shape->types &= ~(uint32_t)SCHEMA_NUMBER;
        }
    }
    return shape->types == 0;
}

/* Is there a value at all, as far as can be seen? Only called where that decides. */
static bool has_value(schema_t *s, shape_t *shape)
{
    element_t elements[64];

    if (shape->constants != SCHEMA_NONE)
        return true; /* the caller tests constants by themselves */
    if (s->empty_depth < SCHEMA_EMPTY_DEPTH && shape->types & SCHEMA_OBJECT) {
        for (const name_list_t *name = shape->required; name != NULL; name = name->next) {
            uint32_t count = schema_property(s, shape, name->name, elements, COUNT_OF(elements));
            s->empty_depth++;
            if (schema_is_empty(s, elements, count))
                shape->types &= ~(uint32_t)SCHEMA_OBJECT;
            s->empty_depth--;
        }
    }
    if (shape->types & SCHEMA_STRING && (shape->string_term != REGEX_ANY || shape->format != 0)) {
        regex_automaton_t automaton;
        status_t status =
            regex_automaton(&s->build.regexes, schema_string_body(s, shape), &automaton);
        if (status == STATUS_OK && automaton.state_count == 1)
            shape->types &= ~(uint32_t)SCHEMA_STRING;
        regex_automaton_fini(&automaton);
    }
    for (uint32_t type = SCHEMA_INTEGER; type <= SCHEMA_WHOLE; type *= 2) {
        if (!(shape->types & type) || (shape->bounds == NULL && shape->multiples == NULL))
            continue;
        regex_automaton_t automaton;
        status_t status =
            regex_automaton(&s->build.regexes, schema_number_term(s, shape, type), &automaton);
        if (status == STATUS_OK && automaton.state_count == 1)
            shape->types &= ~type;
        regex_automaton_fini(&automaton);
    }
    return shape->types != 0;
}

/* A look ahead that may fail without harm: what cannot be followed is only not known then. */
typedef struct {
    uint32_t depth, empty_depth;
} attempt_t;

static attempt_t attempt_begin(const schema_t *s)
{
    return (attempt_t){s->depth, s->empty_depth};
}

/* False if it failed, and nothing is known. */
static bool attempt_end(schema_t *s, attempt_t attempt)
{
    if (!schema_failed(s))
        return true;
    if (s->build.regexes.status == STATUS_OK && s->work <= SCHEMA_WORK_MAX) {
        s->build.status = STATUS_OK;
        s->refusal->pointer[0] = s->refusal->keyword[0] = '\0';
    }
    s->depth = attempt.depth;
    s->empty_depth = attempt.empty_depth;
    return false;
}

/* True if both options cannot hold together in this shape. */
static bool exclude(schema_t *s, const shape_t *shape, element_t a, element_t b)
{
    shapes_t found = {0};
    resolving_t r = {&found, true};
    shape_t both = *shape;

    both.choices = NULL;
    attempt_t attempt = attempt_begin(s);
    schema_expand(s, &r, both, schema_push(s, schema_push(s, NULL, a), b));
    if (!attempt_end(s, attempt))
        return false;
    for (uint32_t i = 0; i < found.count; i++) {
        shape_t *one = &found.shapes[i];
        if (one->constants == SCHEMA_NONE)
            return false;
        /* Some constant that both allow? */
        const document_t *d = &s->document;
        uint32_t values = one->constants, single = schema_member(s, values, "const");
        if (document_kind(d, values) == DOCUMENT_ARRAY) {
            for (uint32_t at = document_next(d, values, DOCUMENT_NONE); at != DOCUMENT_NONE;
                 at = document_next(d, values, at)) {
                if (schema_validates(s, at, a) && schema_validates(s, at, b))
                    return false;
            }
        } else if (schema_validates(s, single, a) && schema_validates(s, single, b)) {
            return false;
        }
    }
    return true;
}

static void choose_one(schema_t *s, resolving_t *r, const shape_t *shape, uint32_t value)
{
    const document_t *d = &s->document;
    uint32_t count = 0;
    const shape_t base = *shape;

    for (uint32_t at = document_next(d, value, DOCUMENT_NONE); at != DOCUMENT_NONE;
         at = document_next(d, value, at), count++) {
        const element_list_t *pending = schema_push(s, NULL, at << 1);
        for (uint32_t other = document_next(d, value, DOCUMENT_NONE); other != DOCUMENT_NONE;
             other = document_next(d, value, other)) {
            if (other != at && !exclude(s, &base, at << 1, other << 1))
                pending = schema_push(s, pending, other << 1 | 1);
            if (schema_failed(s))
                return;
        }
        schema_expand(s, r, base, pending);
    }
}

static void choose_dependency(schema_t *s, resolving_t *r, const shape_t *shape,
                              const choice_list_t *choice)
{
    const document_t *d = &s->document;
    shape_t with = *shape, without = *shape;
    const element_list_t *pending = NULL;

    schema_require(s, &with, choice->key);
    with.types &= SCHEMA_OBJECT;
    if (document_kind(d, choice->value) == DOCUMENT_ARRAY)
        require_all(s, &with, choice->value);
    else if (document_kind(d, choice->value) == DOCUMENT_STRING)
        schema_require(s, &with, choice->value);
    else
        pending = schema_push(s, NULL, choice->value << 1);
    schema_expand(s, r, with, pending);
    if (shape->types & SCHEMA_OBJECT)
        schema_forbid(s, &without, choice->key);
    if (without.types & SCHEMA_OBJECT || shape->types & ~(uint32_t)SCHEMA_OBJECT)
        schema_expand(s, r, without, NULL);
}

static void choose_if(schema_t *s, resolving_t *r, const shape_t *shape, uint32_t node,
                      uint32_t condition)
{
    uint32_t branch[2] = {schema_member(s, node, "then"), schema_member(s, node, "else")};

    for (unsigned negated = 0; negated < 2; negated++) {
        const element_list_t *pending = schema_push(s, NULL, condition << 1 | negated);
        if (branch[negated] != DOCUMENT_NONE)
            pending = schema_push(s, pending, branch[negated] << 1);
        schema_expand(s, r, *shape, pending);
    }
}

static void choose(schema_t *s, resolving_t *r, shape_t shape)
{
    const document_t *d = &s->document;
    const choice_list_t *choice = shape.choices;

    shape.choices = choice->next;
    switch (choice->kind) {
    case CHOOSE_ANY:
    case CHOOSE_NOT_ALL:
        for (uint32_t at = document_next(d, choice->value, DOCUMENT_NONE); at != DOCUMENT_NONE;
             at = document_next(d, choice->value, at))
            schema_expand(s, r, shape,
                          schema_push(s, NULL, at << 1 | (choice->kind == CHOOSE_NOT_ALL)));
        break;
    case CHOOSE_ONE:
        choose_one(s, r, &shape, choice->value);
        break;
    case CHOOSE_IF:
        choose_if(s, r, &shape, choice->node, choice->value);
        break;
    case CHOOSE_DEPENDENCY:
        choose_dependency(s, r, &shape, choice);
        break;
    case CHOOSE_NOT:
        schema_negate(s, r, &shape, choice->node);
        break;
    default:
        break;
    }
}

void schema_expand(schema_t *s, resolving_t *r, shape_t shape, const element_list_t *pending)
{
    if (schema_failed(s) || (r->only_first && r->out->count >= 8))
        return;
    if (++s->depth > SCHEMA_DEPTH_MAX) {
        schema_refuse(s, STATUS_TOO_LARGE, 0, "$ref",
                      "schemas lead into each other without end, or too deeply");
        return;
    }
    for (unsigned steps = 0; pending != NULL && shape.types != 0 && !schema_failed(s); steps++) {
        element_t element = pending->element;
        uint32_t node = element >> 1;
        document_kind_t kind = document_kind(&s->document, node);
        pending = pending->next;
        if (steps == SCHEMA_STEPS_MAX) {
            schema_refuse(s, STATUS_TOO_LARGE, node, "$ref",
                          "schemas lead into each other without end");
        } else if (++s->work > SCHEMA_WORK_MAX) {
            schema_refuse(s, STATUS_TOO_LARGE, node, "", "the schema needs too much work");
        } else if (kind == DOCUMENT_TRUE || kind == DOCUMENT_FALSE) {
            if ((kind == DOCUMENT_TRUE) == (element & 1))
                shape.types = 0;
        } else if (kind != DOCUMENT_OBJECT) {
            schema_refuse(s, STATUS_INVALID, node, "", "a schema is an object or a boolean");
        } else if (element & 1) {
            add_choice(s, &shape, CHOOSE_NOT, node, node, 0);
        } else {
            pending = apply(s, &shape, node, pending);
        }
    }
    if (!schema_failed(s) && !narrow(s, &shape)) {
        if (shape.choices != NULL)
            choose(s, r, shape);
        else if (!r->only_first || has_value(s, &shape))
            add_shape(s, r, &shape);
    }
    s->depth--;
}

static shape_t any_shape(void)
{
    return (shape_t){.types = SCHEMA_ANY,
                     .constants = SCHEMA_NONE,
                     .string_term = REGEX_ANY,
                     .length_max = SCHEMA_NONE,
                     .items_max = SCHEMA_NONE,
                     .properties_max = SCHEMA_NONE};
}

static const element_list_t *list_of(schema_t *s, const element_t *elements, uint32_t count)
{
    const element_list_t *list = NULL;

    while (count > 0)
        list = schema_push(s, list, elements[--count]);
    return list;
}

resolved_t *schema_resolve(schema_t *s, element_t *elements, uint32_t count)
{
    uint32_t kept = 0, hash = 0;

    for (uint32_t i = 0; i < count;
         i++) { /* in the order in which they came: it decides that of keys */
        bool twin = false;
        for (uint32_t j = 0; j < kept; j++)
            twin = twin || elements[j] == elements[i];
        if (!twin)
            elements[kept++] = elements[i];
    }
    for (uint32_t i = 0; i < kept; i++)
        hash = (hash ^ elements[i]) * 0x9e3779b1u;
    resolved_t **place = &s->places[hash >> 20 & (SCHEMA_PLACES - 1)];
    for (resolved_t *at = *place; at != NULL; at = at->next_in_place) {
        if (at->count == kept && memcmp(at->elements, elements, kept * sizeof(*elements)) == 0)
            return at;
    }
    resolved_t *made = schema_take(s, sizeof(*made));
    *made = (resolved_t){.count = kept, .rule = SCHEMA_NONE, .next_in_place = *place};
    made->elements = schema_take(s, (kept + 1) * sizeof(*elements));
    if (schema_failed(s))
        return made;
    memcpy(made->elements, elements, kept * sizeof(*elements));
    *place = made;
    resolving_t r = {&made->shapes, false};
    schema_expand(s, &r, any_shape(), list_of(s, elements, kept));
    return made;
}

bool schema_is_empty(schema_t *s, element_t *elements, uint32_t count)
{
    shapes_t found = {0};
    resolving_t r = {&found, true};

    attempt_t attempt = attempt_begin(s);
    schema_expand(s, &r, any_shape(), list_of(s, elements, count));
    if (!attempt_end(s, attempt))
        return false;
    for (uint32_t i = 0; i < found.count; i++) {
        const document_t *d = &s->document;
        uint32_t values = found.shapes[i].constants;
        if (values == SCHEMA_NONE)
            return false;
        bool many = document_kind(d, values) == DOCUMENT_ARRAY;
        uint32_t at =
            many ? document_next(d, values, DOCUMENT_NONE) : schema_member(s, values, "const");
        for (; at != DOCUMENT_NONE; at = many ? document_next(d, values, at) : DOCUMENT_NONE) {
            bool fits = true;
            for (uint32_t j = 0; j < count && fits; j++)
                fits = schema_validates(s, at, elements[j]);
            if (fits)
                return false;
        }
    }
    return true;
}
