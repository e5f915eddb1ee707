/* grammar_lark.c - Lark's notation, as llguidance reads it; `start` is the whole.
 *
 * Names in capitals are terminals: each is one regular expression. A text is of the grammar if some
 * reading of it is: there is no rule that a terminal reads on as far as it can. What a grammar cannot
 * say here (stop, lazy, %json, special tokens and so on) is refused.
 */
#include <string.h>

#include "model/grammar_ebnf.h"
#include "model/grammar_parts.h"

static status_t read_choices(ebnf_t *e, uint32_t *out);

static bool is_word(int c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static size_t word_length(const ebnf_t *e)
{
    size_t end = e->at;

    while (end < e->length && is_word((unsigned char)e->source[end]))
        end++;
    return end - e->at;
}

/* Blanks and comments; line ends too where `lines`. */
static void skip(ebnf_t *e, bool lines)
{
    for (;;) {
        int c = ebnf_peek(e);
        bool comment =
            c == '#' || (c == '/' && e->at + 1 < e->length && e->source[e->at + 1] == '/');
        if (comment) {
            while (ebnf_peek(e) >= 0 && ebnf_peek(e) != '\n')
                e->at++;
        } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
            e->at++;
        } else {
            return;
        }
    }
}

/* The next line that is not empty goes on with `|`? Then that is taken. */
static bool take_bar(ebnf_t *e)
{
    size_t before = e->at;

    skip(e, true);
    if (ebnf_peek(e) == '|') {
        e->at++;
        return true;
    }
    e->at = before;
    return false;
}

static status_t read_string(ebnf_t *e, uint32_t *start, uint32_t *length)
{
    *start = e->text_used;
    while (ebnf_peek(e) != '"') {
        if (ebnf_peek(e) < 0 || ebnf_peek(e) == '\n')
            return ebnf_refuse(e, STATUS_INVALID, "a string does not end");
        if (ebnf_take(e, "\\"))
            TRY(ebnf_put_escape(e));
        else
            TRY(ebnf_put(e, e->source + e->at++, 1));
    }
    e->at++;
    *length = e->text_used - *start;
    return STATUS_OK;
}

/* Letters behind a string or pattern: only i and s mean anything here. */
static void read_flags(ebnf_t *e, char flags[3])
{
    unsigned count = 0;

    while (ebnf_peek(e) >= 0 && strchr("imslux", ebnf_peek(e)) != NULL &&
           !is_word(e->at + 1 < e->length && strchr("imslux", e->source[e->at + 1]) == NULL
                        ? (unsigned char)e->source[e->at + 1]
                        : ' ')) {
        if (strchr("is", ebnf_peek(e)) != NULL && count < 2)
            flags[count++] = e->source[e->at];
        e->at++;
    }
    flags[count] = '\0';
}

/* A text in any case: each letter as a pattern of its own. */
static status_t folded(ebnf_t *e, uint32_t start, uint32_t length, uint32_t *term)
{
    *term = REGEX_EMPTY;
    for (uint32_t i = length; i-- > 0;) {
        unsigned char c = (unsigned char)e->text[start + i];
        unsigned char other = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ? c ^ 32 : c;
        regex_store_t *s = &e->build->regexes;
        *term =
            regex_cat(s, regex_or(s, regex_range(s, c, c), regex_range(s, other, other)), *term);
    }
    return e->build->regexes.status;
}

/* "text", "text"i, or "a".."z". */
static status_t read_literal(ebnf_t *e, uint32_t *out)
{
    uint32_t start, length, term;
    char flags[3];

    TRY(read_string(e, &start, &length));
    if (ebnf_take(e, "..")) {
        pattern_range_t range = {(unsigned char)e->text[start], 0};
        uint32_t end_start, end_length;
        if (!ebnf_take(e, "\""))
            return ebnf_refuse(e, STATUS_INVALID, "a range needs two strings");
        TRY(read_string(e, &end_start, &end_length));
        range.last = (unsigned char)e->text[end_start];
        if (length != 1 || end_length != 1 || range.last < range.first)
            return ebnf_refuse(e, STATUS_UNSUPPORTED,
                               "a range is from one ASCII character up to another");
        term = pattern_characters(&e->build->regexes, PATTERN_PLAIN, &range, 1);
        return ebnf_node(e, (ebnf_node_t){.kind = EBNF_TERM, .first = term}, out);
    }
    read_flags(e, flags);
    if (strchr(flags, 'i') == NULL)
        return ebnf_node(e, (ebnf_node_t){.kind = EBNF_TEXT, .first = start, .second = length},
                         out);
    TRY(folded(e, start, length, &term));
    return ebnf_node(e, (ebnf_node_t){.kind = EBNF_TERM, .first = term}, out);
}

/* /pattern/flags, behind the first slash. */
static status_t read_pattern(ebnf_t *e, uint32_t *out)
{
    size_t start = e->at;
    uint32_t term;
    char flags[3];
    bool in_class = false;

    for (; ebnf_peek(e) != '/' || in_class; e->at++) {
        int c = ebnf_peek(e);
        if (c < 0 || c == '\n')
            return ebnf_refuse(e, STATUS_INVALID, "a pattern does not end");
        in_class = c == '[' || (in_class && c != ']');
        e->at += c == '\\';
    }
    size_t length = e->at++ - start;
    read_flags(e, flags);
    TRY(pattern_parse(&e->build->regexes, PATTERN_PLAIN, false, e->source + start, length, flags,
                      &term));
    return ebnf_node(e, (ebnf_node_t){.kind = EBNF_TERM, .first = term}, out);
}

static status_t read_nested(ebnf_t *e, const char *end, uint32_t *out)
{
    if (++e->depth > EBNF_DEPTH_MAX)
        return ebnf_refuse(e, STATUS_TOO_LARGE, "nested too deeply");
    TRY(read_choices(e, out));
    e->depth--;
    skip(e, true);
    return ebnf_take(e, end) ? STATUS_OK : ebnf_refuse(e, STATUS_INVALID, "a group does not end");
}

static status_t read_atom(ebnf_t *e, uint32_t *out)
{
    size_t length = word_length(e);
    uint32_t name;

    if (ebnf_take(e, "~")) {
        skip(e, false);
        TRY(read_atom(e, out));
        return ebnf_node(e, (ebnf_node_t){.kind = EBNF_NOT, .first = *out}, out);
    }
    if (ebnf_take(e, "\""))
        return read_literal(e, out);
    if (ebnf_take(e, "/"))
        return read_pattern(e, out);
    if (ebnf_take(e, "("))
        return read_nested(e, ")", out);
    if (ebnf_take(e, "[")) {
        TRY(read_nested(e, "]", out));
        return ebnf_node(e, (ebnf_node_t){.kind = EBNF_REPEAT, .first = *out, .max = 1}, out);
    }
    if (length == 0)
        return ebnf_refuse(e, STATUS_UNSUPPORTED, "a string, pattern, group or name is expected");
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

/* ? * + ~n ~n..m {n} {n,} {n,m} */
static status_t read_repeats(ebnf_t *e, uint32_t *out)
{
    for (;;) {
        ebnf_node_t repeat = {.kind = EBNF_REPEAT, .first = *out, .max = REGEX_NO_END};
        size_t before = e->at;
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
            if (!ebnf_take(e, "}"))
                return ebnf_refuse(e, STATUS_INVALID, "a count does not end");
        } else {
            skip(e, false);
            if (!ebnf_take(e, "~") || ebnf_peek(e) < '0' || ebnf_peek(e) > '9') {
                e->at = before; /* a complement follows, or nothing */
                return STATUS_OK;
            }
            TRY(read_number(e, &repeat.min));
            repeat.max = repeat.min;
            if (ebnf_take(e, ".."))
                TRY(read_number(e, &repeat.max));
        }
        if (repeat.max < repeat.min)
            return ebnf_refuse(e, STATUS_INVALID, "a count goes down");
        TRY(ebnf_node(e, repeat, out));
    }
}

static status_t read_cat(ebnf_t *e, uint32_t *out)
{
    bool any = false;

    TRY(ebnf_node(e, (ebnf_node_t){.kind = EBNF_EMPTY}, out));
    for (;;) {
        uint32_t next;
        skip(e, e->depth > 0);
        int c = ebnf_peek(e);
        if (c < 0 || c == '\n' || c == '\r' || c == '|' || c == ')' || c == ']' || c == '&')
            return STATUS_OK;
        if (ebnf_take(e, "->")) { /* a name for the tree that Lark would make */
            skip(e, false);
            e->at += word_length(e);
            continue;
        }
        TRY(read_atom(e, &next));
        TRY(read_repeats(e, &next));
        if (any)
            TRY(ebnf_node(e, (ebnf_node_t){.kind = EBNF_CAT, .first = *out, .second = next},
                          &next));
        *out = next;
        any = true;
    }
}

static status_t read_and(ebnf_t *e, uint32_t *out)
{
    TRY(read_cat(e, out));
    while (ebnf_take(e, "&")) {
        uint32_t next;
        TRY(read_cat(e, &next));
        TRY(ebnf_node(e, (ebnf_node_t){.kind = EBNF_AND, .first = *out, .second = next}, out));
    }
    return STATUS_OK;
}

static status_t read_choices(ebnf_t *e, uint32_t *out)
{
    TRY(read_and(e, out));
    while (take_bar(e)) {
        uint32_t next;
        TRY(read_and(e, &next));
        TRY(ebnf_node(e, (ebnf_node_t){.kind = EBNF_OR, .first = *out, .second = next}, out));
    }
    return STATUS_OK;
}

/* Terminals of Lark's own library. */
static const struct {
    const char *name, *pattern;
} common[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9a-fA-F]"},
    {"INT", "[0-9]+"},
    {"SIGNED_INT", "[+-]?[0-9]+"},
    {"DECIMAL", "[0-9]+\\.[0-9]*|\\.[0-9]+"},
    {"FLOAT", "[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"NUMBER", "[0-9]+|[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?"},
    {"SIGNED_NUMBER",
     "[+-]?([0-9]+|[0-9]+[eE][+-]?[0-9]+|([0-9]+\\.[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?)"},
    {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\.)*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[_A-Za-z][_A-Za-z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(\\r?\\n)+"},
};

static status_t read_import(ebnf_t *e)
{
    uint32_t name, term;

    skip(e, false);
    if (!ebnf_take(e, "common."))
        return ebnf_refuse(e, STATUS_UNSUPPORTED, "only terminals of `common` can be imported");
    size_t length = word_length(e);
    const char *word = e->source + e->at, *alias = word;
    size_t alias_length = length;
    e->at += length;
    skip(e, false);
    if (ebnf_take(e, "->")) {
        skip(e, false);
        alias = e->source + e->at;
        alias_length = word_length(e);
        e->at += alias_length;
    }
    for (size_t i = 0; i < COUNT_OF(common); i++) {
        if (strlen(common[i].name) != length || memcmp(common[i].name, word, length) != 0)
            continue;
        TRY(pattern_parse(&e->build->regexes, PATTERN_PLAIN, false, common[i].pattern,
                          strlen(common[i].pattern), "", &term));
        TRY(ebnf_name(e, alias, alias_length, &name));
        e->names[name].terminal = true;
        return ebnf_node(e, (ebnf_node_t){.kind = EBNF_TERM, .first = term}, &e->names[name].body);
    }
    return ebnf_refuse(e, STATUS_UNSUPPORTED, "`common` has no such terminal here");
}

static status_t read_directive(ebnf_t *e, uint32_t *ignored)
{
    uint32_t node;

    if (ebnf_take(e, "%import"))
        return read_import(e);
    if (!ebnf_take(e, "%ignore"))
        return ebnf_refuse(e, STATUS_UNSUPPORTED, "this directive is not supported");
    skip(e, false);
    TRY(read_choices(e, &node));
    if (*ignored != EBNF_NONE)
        TRY(ebnf_node(e, (ebnf_node_t){.kind = EBNF_OR, .first = *ignored, .second = node}, &node));
    *ignored = node;
    return STATUS_OK;
}

static status_t read_rule(ebnf_t *e)
{
    uint32_t name, body;

    while (ebnf_take(e, "?") || ebnf_take(e, "!")) { /* about the tree that Lark would make */
    }
    size_t length = word_length(e);
    const char *word = e->source + e->at;
    if (length == 0)
        return ebnf_refuse(e, STATUS_INVALID, "a rule begins with its name");
    TRY(ebnf_name(e, word, length, &name));
    e->at += length;
    if (ebnf_take(e, ".")) { /* a priority, which no reading needs */
        e->at += ebnf_peek(e) == '-';
        TRY(read_number(e, &body));
    }
    skip(e, false);
    if (!ebnf_take(e, ":"))
        return ebnf_refuse(e, STATUS_UNSUPPORTED, "a colon is expected");
    if (e->names[name].body != EBNF_NONE)
        return ebnf_refuse(e, STATUS_INVALID, "a rule is defined twice");
    TRY(read_choices(e, &body));
    e->names[name].body = body;
    size_t letter = strspn(word, "_");
    e->names[name].terminal = letter < length && word[letter] >= 'A' && word[letter] <= 'Z';
    skip(e, false);
    if (ebnf_peek(e) >= 0 && ebnf_peek(e) != '\n' && ebnf_peek(e) != '\r')
        return ebnf_refuse(e, STATUS_INVALID, "a rule ends with its line");
    return STATUS_OK;
}

static status_t read_all(ebnf_t *e)
{
    uint32_t ignored = EBNF_NONE;

    for (skip(e, true); ebnf_peek(e) >= 0; skip(e, true)) {
        if (ebnf_peek(e) == '%')
            TRY(read_directive(e, &ignored));
        else
            TRY(read_rule(e));
    }
    e->tokens = true;
    if (ignored != EBNF_NONE) {
        uint32_t term;
        TRY(ebnf_term(e, ignored, &term));
        e->ignored = regex_repeat(&e->build->regexes, term, 0, REGEX_NO_END);
    }
    return ebnf_build(e, "start");
}

status_t grammar_read_lark(build_t *build, const char *text, size_t length)
{
    ebnf_t e;

    ebnf_init(&e, build, text, length);
    status_t status = read_all(&e);
    ebnf_fini(&e);
    return status;
}
