/* grammar_schema_negate.c - a schema that must not hold: a choice among the negations of its keywords.
 *
 * What cannot be negated exactly is refused, unless no value that is left would be touched by it.
 */
#include <string.h>

#include "model/grammar_schema.h"

/* Alternatives of a negated schema: each negates one keyword. */
typedef struct {
    schema_t *s;
    resolving_t *r;
    const shape_t *shape;
    uint32_t node;
} negating_t;

static void negate_types(negating_t *n, uint32_t value)
{
    shape_t shape = *n->shape;
    uint32_t bits = schema_named_types(n->s, n->node, value);

    if (bits & SCHEMA_INTEGER) /* 1.0 is an integer for some */
        bits |= SCHEMA_WHOLE;
    shape.types &= ~bits;
    schema_expand(n->s, n->r, shape, NULL);
}

static void negate_constants(negating_t *n, uint32_t value)
{
    shape_t shape = *n->shape;

    shape.not_constants = schema_push(n->s, shape.not_constants, value << 1);
    schema_expand(n->s, n->r, shape, NULL);
}

static void negate_required(negating_t *n, uint32_t value)
{
    schema_t *s = n->s;
    const document_t *d = &s->document;

    if (document_kind(d, value) != DOCUMENT_ARRAY)
        return;
    for (uint32_t at = document_next(d, value, DOCUMENT_NONE); at != DOCUMENT_NONE;
         at = document_next(d, value, at)) {
        shape_t shape = *n->shape;
        shape.types &= SCHEMA_OBJECT;
        schema_forbid(s, &shape, at);
        schema_expand(s, n->r, shape, NULL);
    }
}

static void negate_properties(negating_t *n, uint32_t value)
{
    schema_t *s = n->s;
    const document_t *d = &s->document;

    for (uint32_t key = document_next(d, value, DOCUMENT_NONE); key != DOCUMENT_NONE;
         key = document_next(d, value, key)) {
        shape_t shape = *n->shape;
        shape.types &= SCHEMA_OBJECT;
        schema_require(s, &shape, key);
        shape.properties =
            schema_push_name(s, shape.properties, key, document_value(d, key) << 1 | 1);
        schema_expand(s, n->r, shape, NULL);
    }
}

static void negate_strings(negating_t *n, const char *keyword, uint32_t value)
{
    schema_t *s = n->s;
    shape_t shape = *n->shape;
    uint32_t term = REGEX_ANY;
    size_t length;

    if (strcmp(keyword, "pattern") == 0)
        term = schema_pattern(s, n->node, value, keyword);
    else if (document_kind(&s->document, value) == DOCUMENT_STRING)
        term = schema_format(s, schema_string(s, value, &length));
    shape.types &= SCHEMA_STRING;
    shape.string_term =
        regex_and(&s->build.regexes, shape.string_term, regex_not(&s->build.regexes, term));
    schema_expand(s, n->r, shape, NULL);
}

/* minX n: at most n - 1; maxX n: at least n + 1. */
static void negate_count(negating_t *n, const char *keyword, uint32_t value)
{
    shape_t shape = *n->shape;
    uint32_t count = schema_count(n->s, n->node, keyword, value);
    bool upper = keyword[1] == 'a';
    bool length = strstr(keyword, "Length") != NULL, items = strstr(keyword, "Items") != NULL;

    shape.types &= length ? SCHEMA_STRING : items ? SCHEMA_ARRAY : SCHEMA_OBJECT;
    uint32_t *low = length ? &shape.length_min : items ? &shape.items_min : &shape.properties_min;
    uint32_t *high = length ? &shape.length_max : items ? &shape.items_max : &shape.properties_max;
    if (upper)
        at_least(low, count + 1);
    else if (count == 0)
        return;
    else
        at_most(high, count - 1);
    schema_expand(n->s, n->r, shape, NULL);
}

static void negate_bound(negating_t *n, const char *keyword, uint32_t value)
{
    shape_t shape = *n->shape;
    bool lower = strstr(keyword, "inimum") != NULL;
    bool exclusive = keyword[0] == 'e';

    if (document_kind(&n->s->document, value) != DOCUMENT_NUMBER)
        return;
    if (!exclusive)
        exclusive = schema_is_true(
            n->s, schema_member(n->s, n->node, lower ? "exclusiveMinimum" : "exclusiveMaximum"));
    shape.types &= SCHEMA_NUMBER;
    schema_add_bound(n->s, &shape, value, !exclusive, lower);
    schema_expand(n->s, n->r, shape, NULL);
}

static void negate_multiple(negating_t *n, uint32_t value)
{
    shape_t shape = *n->shape;

    shape.types &= SCHEMA_NUMBER;
    shape.multiples = schema_push(n->s, shape.multiples, value << 1 | 1);
    schema_expand(n->s, n->r, shape, NULL);
}

/* Types that a keyword says something about. */
static uint32_t keyword_types(const char *keyword)
{
    static const struct {
        const char *keyword;
        uint32_t types;
    } known[] = {{"additionalProperties", SCHEMA_OBJECT},
                 {"patternProperties", SCHEMA_OBJECT},
                 {"propertyNames", SCHEMA_OBJECT},
                 {"dependencies", SCHEMA_OBJECT},
                 {"dependentRequired", SCHEMA_OBJECT},
                 {"dependentSchemas", SCHEMA_OBJECT},
                 {"unevaluatedProperties", SCHEMA_OBJECT},
                 {"items", SCHEMA_ARRAY},
                 {"prefixItems", SCHEMA_ARRAY},
                 {"additionalItems", SCHEMA_ARRAY},
                 {"contains", SCHEMA_ARRAY},
                 {"uniqueItems", SCHEMA_ARRAY},
                 {"if", SCHEMA_ANY},
                 {"$dynamicRef", SCHEMA_ANY},
                 {"oneOf", SCHEMA_ANY}};

    for (size_t i = 0; i < COUNT_OF(known); i++) {
        if (strcmp(keyword, known[i].keyword) == 0)
            return known[i].types;
    }
    return 0;
}

/* Items that are all of one schema, which is negated for one of them: that is `contains`. */
static bool negate_items(negating_t *n, const char *keyword, uint32_t value)
{
    schema_t *s = n->s;
    shape_t shape = *n->shape;

    if (strcmp(keyword, "items") != 0 || document_kind(&s->document, value) == DOCUMENT_ARRAY ||
        schema_member(s, n->node, "prefixItems") != DOCUMENT_NONE)
        return false;
    shape.types &= SCHEMA_ARRAY;
    shape.contains = schema_push(s, shape.contains, value << 1 | 1);
    at_least(&shape.items_min, 1);
    schema_expand(s, n->r, shape, NULL);
    return true;
}

static void negate_keyword(negating_t *n, const char *keyword, uint32_t value)
{
    schema_t *s = n->s;
    document_kind_t kind = document_kind(&s->document, value);
    uint32_t types;

    if (strcmp(keyword, "type") == 0)
        negate_types(n, value);
    else if (strcmp(keyword, "enum") == 0)
        negate_constants(n, value);
    else if (strcmp(keyword, "const") == 0 && s->draft >= 6)
        negate_constants(n, n->node);
    else if (strcmp(keyword, "required") == 0)
        negate_required(n, value);
    else if (strcmp(keyword, "properties") == 0)
        negate_properties(n, value);
    else if (strcmp(keyword, "pattern") == 0 || strcmp(keyword, "format") == 0)
        negate_strings(n, keyword, value);
    else if (strcmp(keyword, "multipleOf") == 0 && kind == DOCUMENT_NUMBER)
        negate_multiple(n, value);
    else if (strcmp(keyword, "not") == 0)
        schema_expand(s, n->r, *n->shape, schema_push(s, NULL, value << 1));
    else if (strcmp(keyword, "anyOf") == 0)
        schema_expand(s, n->r, *n->shape, schema_push_all(s, NULL, value, true));
    else if (strcmp(keyword, "allOf") == 0)
        for (uint32_t at = document_next(&s->document, value, DOCUMENT_NONE); at != DOCUMENT_NONE;
             at = document_next(&s->document, value, at))
            schema_expand(s, n->r, *n->shape, schema_push(s, NULL, at << 1 | 1));
    else if (strstr(keyword, "inimum") != NULL || strstr(keyword, "aximum") != NULL)
        negate_bound(n, keyword, value);
    else if (strncmp(keyword, "min", 3) == 0 || strncmp(keyword, "max", 3) == 0) {
        if (strstr(keyword, "Length") || strstr(keyword, "Items") || strstr(keyword, "Properties"))
            negate_count(n, keyword, value);
    } else if ((types = keyword_types(keyword)) != 0 && kind != DOCUMENT_TRUE &&
               !negate_items(n, keyword, value) && n->shape->types & types)
        schema_refuse(s, STATUS_UNSUPPORTED, n->node, keyword, "its negation is not supported");
}

void schema_negate(schema_t *s, resolving_t *r, const shape_t *shape, uint32_t node)
{
    const document_t *d = &s->document;
    negating_t n = {s, r, shape, node};
    uint32_t reference = schema_member(s, node, "$ref");

    if (reference != DOCUMENT_NONE && document_kind(d, reference) == DOCUMENT_STRING) {
        uint32_t target = schema_reference(s, node, reference);
        if (target == SCHEMA_NONE)
            return;
        schema_expand(s, r, *shape, schema_push(s, NULL, target << 1 | 1));
        if (s->draft <= 7)
            return;
    }
    for (uint32_t key = document_next(d, node, DOCUMENT_NONE); key != DOCUMENT_NONE;
         key = document_next(d, node, key)) {
        size_t length;
        negate_keyword(&n, schema_string(s, key, &length), document_value(d, key));
        if (schema_failed(s))
            return;
    }
}
