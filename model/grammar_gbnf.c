/* grammar_gbnf.c - llama.cpp's notation: `name ::= alternatives`, with `root` as the whole. */
#include <string.h>

#include "model/grammar_ebnf.h"
#include "model/grammar_parts.h"

static status_t read_choices(ebnf_t *e, bool nested, uint32_t *out);

static bool is_word(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

/* Blanks and comments; line ends too where `lines`. */
static void skip(ebnf_t *e, bool lines)
{
    for (;;) {
        int c = ebnf_peek(e);
        if (c == '#') {
            while (ebnf_peek(e) >= 0 && ebnf_peek(e) != '\n')
                e->at++;
        } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
            e->at++;
        } else {
            return;
        }
    }
}

static size_t word_length(const ebnf_t *e)
{
    size_t end = e->at;

    while (end < e->length && is_word((unsigned char)e->source[end]))
        end++;
    return end - e->at;
}

static status_t read_literal(ebnf_t *e, uint32_t *out)
{
    uint32_t start = e->text_used;

    while (ebnf_peek(e) != '"') {
        if (ebnf_peek(e) < 0 || ebnf_peek(e) == '\n')
            return ebnf_refuse(e, STATUS_INVALID, "a literal does not end");
        if (ebnf_take(e, "\\"))
            TRY(ebnf_put_escape(e));
        else
            TRY(ebnf_put(e, e->source + e->at++, 1));
    }
    e->at++;
    return ebnf_node(
        e, (ebnf_node_t){.kind = EBNF_TEXT, .first = start, .second = e->text_used - start}, out);
}

/* [...]: read by the reader of patterns, which knows the same escapes. */
static status_t read_class(ebnf_t *e, uint32_t *out)
{
    size_t start = e->at;
    uint32_t term;

    for (e->at++; ebnf_peek(e) != ']'; e->at++) {
        if (ebnf_peek(e) < 0)
            return ebnf_refuse(e, STATUS_INVALID, "a class does not end");
        if (ebnf_peek(e) == '\\')
            e->at++;
    }
    e->at++;
    TRY(pattern_parse(&e->build->regexes, PATTERN_PLAIN, false, e->source + start, e->at - start,
                      "", &term));
    return ebnf_node(e, (ebnf_node_t){.kind = EBNF_TERM, .first = term}, out);
}

static status_t read_atom(ebnf_t *e, uint32_t *out)
{
    size_t length = word_length(e);
    uint32_t name;

    if (ebnf_take(e, "\""))
        return read_literal(e, out);
    if (ebnf_peek(e) == '[')
        return read_class(e, out);
    if (ebnf_take(e, "."))
        return ebnf_node(e,
                         (ebnf_node_t){.kind = EBNF_TERM,
                                       .first = pattern_any(&e->build->regexes, PATTERN_PLAIN)},
                         out);
    if (ebnf_take(e, "(")) {
        if (++e->depth > EBNF_DEPTH_MAX)
            return ebnf_refuse(e, STATUS_TOO_LARGE, "nested too deeply");
        TRY(read_choices(e, true, out));
        e->depth--;
        return ebnf_take(e, ")") ? STATUS_OK
                                 : ebnf_refuse(e, STATUS_INVALID, "a group does not end");
    }
    if (length == 0)
        return ebnf_refuse(e, STATUS_INVALID, "a literal, class, group or name is expected");
    TRY(ebnf_name(e, e->source + e->at, length, &name));
    e->at += length;
    return ebnf_node(e, (ebnf_node_t){.kind = EBNF_RULE, .first = name}, out);
}

static status_t read_number(ebnf_t *e, uint32_t *value)
{
    if (ebnf_peek(e) < '0' || ebnf_peek(e) > '9')
        return ebnf_refuse(e, STATUS_INVALID, "a number is expected");
    for (*value = 0; ebnf_peek(e) >= '0' && ebnf_peek(e) <= '9'; e->at++) {
        *value = *value * 10 + (uint32_t)(ebnf_peek(e) - '0');
        if (*value >= REGEX_NO_END)
            *value = REGEX_NO_END - 1;
    }
    return STATUS_OK;
}

static status_t read_repeats(ebnf_t *e, uint32_t *out)
{
    for (;;) {
        ebnf_node_t repeat = {.kind = EBNF_REPEAT, .first = *out, .max = REGEX_NO_END};
        if (ebnf_take(e, "*")) {
            repeat.min = 0;
        } else if (ebnf_take(e, "+")) {
            repeat.min = 1;
        } else if (ebnf_take(e, "?")) {
            repeat.max = 1;
        } else if (ebnf_take(e, "{")) {
            if (ebnf_peek(e) != ',')
                TRY(read_number(e, &repeat.min));
            repeat.max = repeat.min;
            if (ebnf_take(e, ",")) {
                repeat.max = REGEX_NO_END;
                if (ebnf_peek(e) != '}')
                    TRY(read_number(e, &repeat.max));
            }
            if (!ebnf_take(e, "}") || repeat.max < repeat.min)
                return ebnf_refuse(e, STATUS_INVALID, "a count does not end, or goes down");
        } else {
            return STATUS_OK;
        }
        TRY(ebnf_node(e, repeat, out));
    }
}

/* Does another rule begin here? */
static bool at_rule(const ebnf_t *e)
{
    size_t end = e->at + word_length(e);

    if (end == e->at)
        return false;
    while (end < e->length && (e->source[end] == ' ' || e->source[end] == '\t'))
        end++;
    return e->length - end >= 3 && memcmp(e->source + end, "::=", 3) == 0;
}

static status_t read_cat(ebnf_t *e, bool nested, uint32_t *out)
{
    bool any = false;

    TRY(ebnf_node(e, (ebnf_node_t){.kind = EBNF_EMPTY}, out));
    for (;;) {
        size_t before = e->at;
        skip(e, true);
        int c = ebnf_peek(e);
        if (c < 0 || c == '|' || c == ')' || at_rule(e)) {
            if (c == ')' && !nested)
                return ebnf_refuse(e, STATUS_INVALID, "a parenthesis closes nothing");
            e->at = c < 0 || nested || c == '|' ? e->at : before;
            return STATUS_OK;
        }
        uint32_t next;
        TRY(read_atom(e, &next));
        TRY(read_repeats(e, &next));
        if (any)
            TRY(ebnf_node(e, (ebnf_node_t){.kind = EBNF_CAT, .first = *out, .second = next},
                          &next));
        *out = next;
        any = true;
    }
}

static status_t read_choices(ebnf_t *e, bool nested, uint32_t *out)
{
    TRY(read_cat(e, nested, out));
    while (ebnf_take(e, "|")) {
        uint32_t next;
        TRY(read_cat(e, nested, &next));
        TRY(ebnf_node(e, (ebnf_node_t){.kind = EBNF_OR, .first = *out, .second = next}, out));
    }
    return STATUS_OK;
}

static status_t read_rules(ebnf_t *e)
{
    for (;;) {
        uint32_t name, body;
        skip(e, true);
        if (ebnf_peek(e) < 0)
            return STATUS_OK;
        if (!at_rule(e))
            return ebnf_refuse(e, STATUS_INVALID, "a rule begins with a name and ::=");
        size_t length = word_length(e);
        TRY(ebnf_name(e, e->source + e->at, length, &name));
        e->at += length;
        skip(e, false);
        if (!ebnf_take(e, "::=") || e->names[name].body != EBNF_NONE)
            return ebnf_refuse(e, STATUS_INVALID, "a rule is defined twice");
        TRY(read_choices(e, false, &body));
        e->names[name].body = body;
    }
}

status_t grammar_read_gbnf(build_t *build, const char *text, size_t length)
{
    ebnf_t e;

    ebnf_init(&e, build, text, length);
    status_t status = read_rules(&e);
    if (status == STATUS_OK)
        status = ebnf_build(&e, "root");
    ebnf_fini(&e);
    return status;
}
