/* grammar_schema_text.c - strings: lengths, patterns, and what a string must not be. */
#include <stdlib.h>
#include <string.h>

#include "model/grammar_schema.h"

typedef struct pattern_cache {
    uint32_t key;  /* the string of the document */
    uint32_t term; /* in JSON form */
    bool has_automaton;
    regex_automaton_t automaton;
    struct pattern_cache *next;
} pattern_cache_t;

static pattern_cache_t *find_pattern(schema_t *s, uint32_t owner, uint32_t value,
                                     const char *keyword)
{
    pattern_cache_t *at = s->patterns;
    size_t length;

    while (at != NULL && at->key != value)
        at = at->next;
    if (at != NULL)
        return at;
    at = schema_take(s, sizeof(*at));
    *at = (pattern_cache_t){.key = value, .next = s->patterns};
    if (document_kind(&s->document, value) != DOCUMENT_STRING) {
        schema_refuse(s, STATUS_INVALID, owner, keyword, "it is no string");
        return at;
    }
    const char *text = schema_string(s, value, &length);
    status_t status =
        pattern_parse(&s->build.regexes, PATTERN_JSON, true, text, length, "", &at->term);
    if (status != STATUS_OK) {
        char reason[120];
        strncpy(reason, trail_text(), sizeof(reason) - 1);
        reason[sizeof(reason) - 1] = '\0';
        schema_refuse(s, status, owner, keyword, "%s", reason);
    } else {
        s->patterns = at;
    }
    return at;
}

uint32_t schema_pattern(schema_t *s, uint32_t owner, uint32_t value, const char *keyword)
{
    return find_pattern(s, owner, value, keyword)->term;
}

bool schema_matches(schema_t *s, uint32_t owner, uint32_t pattern, uint32_t name)
{
    pattern_cache_t *cached = find_pattern(s, owner, pattern, "pattern");
    text_buffer_t text;
    size_t length;

    if (schema_failed(s))
        return false;
    if (!cached->has_automaton) {
        status_t status = regex_automaton(&s->build.regexes, cached->term, &cached->automaton);
        if (status != STATUS_OK) {
            regex_automaton_fini(&cached->automaton);
            schema_refuse(s, status, owner, "pattern", "it needs too many states");
            return false;
        }
        cached->has_automaton = true;
    }
    const char *bytes = schema_string(s, name, &length);
    text_buffer_init(&text, GRAMMAR_SOURCE_BYTES_MAX * 6);
    text_put_escaped_text(&text, bytes, length);
    bool matches = regex_automaton_accepts(&cached->automaton, text.bytes, text.used);
    text_buffer_fini(&text);
    return matches;
}

void schema_forget_patterns(schema_t *s)
{
    for (pattern_cache_t *at = s->patterns; at != NULL; at = at->next) {
        if (at->has_automaton)
            regex_automaton_fini(&at->automaton);
    }
}

static uint32_t any_character(schema_t *s)
{
    if (s->any_character == 0)
        s->any_character = pattern_any(&s->build.regexes, PATTERN_JSON);
    return s->any_character;
}

/* Strings that `not` names as constants. */
static uint32_t excluded(schema_t *s, const shape_t *shape)
{
    const document_t *d = &s->document;
    regex_store_t *regexes = &s->build.regexes;
    uint32_t term = REGEX_NOTHING;

    for (const element_list_t *at = shape->not_constants; at != NULL; at = at->next) {
        uint32_t values = at->element >> 1;
        bool many = document_kind(d, values) == DOCUMENT_ARRAY;
        uint32_t value =
            many ? document_next(d, values, DOCUMENT_NONE) : schema_member(s, values, "const");
        for (; value != DOCUMENT_NONE;
             value = many ? document_next(d, values, value) : DOCUMENT_NONE) {
            size_t length;
            if (document_kind(d, value) != DOCUMENT_STRING)
                continue;
            const char *text = schema_string(s, value, &length);
            term = regex_or(regexes, term, pattern_text(regexes, PATTERN_JSON, text, length));
        }
    }
    return term;
}

uint32_t schema_string_body(schema_t *s, const shape_t *shape)
{
    regex_store_t *regexes = &s->build.regexes;
    uint32_t max = shape->length_max == SCHEMA_NONE ? REGEX_NO_END : shape->length_max;
    uint32_t min = shape->length_min;

    if (max >= REGEX_NO_END)
        max = REGEX_NO_END;
    if (min >= REGEX_NO_END)
        return REGEX_NOTHING;
    uint32_t term = regex_repeat(regexes, any_character(s), min, max);
    term = regex_and(regexes, term, shape->string_term);
    if (shape->format != 0)
        term = regex_and(regexes, term, schema_format_term(s, shape->format - 1));
    uint32_t without = excluded(s, shape);
    return without == REGEX_NOTHING ? term : regex_and(regexes, term, regex_not(regexes, without));
}

void schema_write_string(schema_t *s, const shape_t *shape, uint32_t from, uint32_t to)
{
    regex_store_t *regexes = &s->build.regexes;
    uint32_t max = shape->length_max, min = shape->length_min;
    uint32_t character = any_character(s), inner, low, high;

    if (shape->string_term == REGEX_ANY && shape->not_constants == NULL && min == 0 &&
        max == SCHEMA_NONE) {
        build_edge_standard(&s->build, from, to,
                            shape->format == 0 ? STANDARD_STRING
                                               : (standard_t)(STANDARD_FORMAT + shape->format - 1),
                            NULL, 0);
        return;
    }
    if (excluded(s, shape) == REGEX_NOTHING && shape->format == 0) {
        bool any = shape->string_term == REGEX_ANY;
        if (!any && regex_is_repeat(regexes, shape->string_term, &inner, &low, &high) &&
            regex_is_character(regexes, inner)) {
            any = true; /* one class, counted */
            character = inner;
            min = low > min ? low : min;
            max = high < max ? high : max;
        }
        if (any) {
            build_edge_counted(&s->build, from, to, "\"", character, "\"",
                               min < REGEX_NO_END ? min : REGEX_NO_END - 1,
                               max < REGEX_NO_END ? max : REGEX_NO_END);
            return;
        }
    }
    uint32_t quote = regex_text(regexes, "\"", 1);
    build_edge_term(
        &s->build, from, to,
        regex_cat(regexes, quote, regex_cat(regexes, schema_string_body(s, shape), quote)));
}
