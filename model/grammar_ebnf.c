/* grammar_ebnf.c - see grammar_ebnf.h. */
#include "model/grammar_ebnf.h"

#include <stdlib.h>
#include <string.h>

#include "model/utf8.h"

enum { NAME_NEW, NAME_LOOKED_AT, NAME_REGULAR, NAME_NOT_REGULAR };

void ebnf_init(ebnf_t *e, build_t *build, const char *source, size_t length)
{
    *e = (ebnf_t){.build = build, .source = source, .length = length, .ignored = REGEX_EMPTY};
}

void ebnf_fini(ebnf_t *e)
{
    free(e->nodes);
    free(e->names);
    free(e->text);
}

status_t ebnf_refuse(const ebnf_t *e, status_t status, const char *what)
{
    unsigned line = 1;

    for (size_t i = 0; i < e->at && i < e->length; i++)
        line += e->source[i] == '\n';
    return FAIL(status, "grammar, line %u: %s", line, what);
}

status_t ebnf_node(ebnf_t *e, ebnf_node_t node, uint32_t *out)
{
    if (e->node_count == e->node_room) {
        uint32_t room = e->node_room == 0 ? 256 : 2 * e->node_room;
        ebnf_node_t *more = room > EBNF_NODES_MAX ? NULL : realloc(e->nodes, room * sizeof(*more));
        if (more == NULL)
            return ebnf_refuse(e, STATUS_TOO_LARGE, "too many parts");
        e->nodes = more;
        e->node_room = room;
    }
    e->nodes[e->node_count] = node;
    *out = e->node_count++;
    return STATUS_OK;
}

status_t ebnf_name(ebnf_t *e, const char *text, size_t length, uint32_t *out)
{
    for (uint32_t i = 0; i < e->name_count; i++) {
        if (e->names[i].length == length && memcmp(e->names[i].text, text, length) == 0) {
            *out = i;
            return STATUS_OK;
        }
    }
    if (e->name_count == e->name_room) {
        uint32_t room = e->name_room == 0 ? 64 : 2 * e->name_room;
        ebnf_name_t *more = room > EBNF_NAMES_MAX ? NULL : realloc(e->names, room * sizeof(*more));
        if (more == NULL)
            return ebnf_refuse(e, STATUS_TOO_LARGE, "too many rules");
        e->names = more;
        e->name_room = room;
    }
    e->names[e->name_count] = (ebnf_name_t){
        .text = text, .length = (uint32_t)length, .body = EBNF_NONE, .rule = EBNF_NONE};
    *out = e->name_count++;
    return STATUS_OK;
}

status_t ebnf_put(ebnf_t *e, const char *bytes, size_t length)
{
    while (e->text_room - e->text_used < length) {
        uint32_t room = e->text_room == 0 ? 1024 : 2 * e->text_room;
        char *more = room > 1 << 20 ? NULL : realloc(e->text, room);
        if (more == NULL)
            return ebnf_refuse(e, STATUS_TOO_LARGE, "literals are too long");
        e->text = more;
        e->text_room = room;
    }
    memcpy(e->text + e->text_used, bytes, length);
    e->text_used += (uint32_t)length;
    return STATUS_OK;
}

static int hex_value(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

status_t ebnf_put_escape(ebnf_t *e)
{
    static const char letters[] = "ntrbf0", values[] = "\n\t\r\b\f\0";
    int c = ebnf_peek(e);
    char bytes[UTF8_BYTES_MAX];

    if (c < 0)
        return ebnf_refuse(e, STATUS_INVALID, "it ends behind a backslash");
    e->at++;
    const char *letter = memchr(letters, c, sizeof(letters) - 1);
    unsigned digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    uint32_t code = letter != NULL ? (unsigned char)values[letter - letters] : (uint32_t)c;
    if (digits > 0)
        code = 0;
    for (unsigned i = 0; i < digits; i++, e->at++) {
        int value = hex_value(ebnf_peek(e));
        if (value < 0)
            return ebnf_refuse(e, STATUS_INVALID, "an escape needs more hexadecimal digits");
        code = code << 4 | (uint32_t)value;
    }
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return ebnf_refuse(e, STATUS_INVALID, "an escape names no character");
    return ebnf_put(e, bytes, utf8_write(code, bytes));
}

int ebnf_peek(const ebnf_t *e)
{
    return e->at < e->length ? (unsigned char)e->source[e->at] : -1;
}

bool ebnf_take(ebnf_t *e, const char *word)
{
    size_t length = strlen(word);

    if (e->length - e->at < length || memcmp(e->source + e->at, word, length) != 0)
        return false;
    e->at += length;
    return true;
}

/* A name's body must be there; its term, if it is regular, is made once. */
static status_t name_term(ebnf_t *e, uint32_t name, uint32_t *term)
{
    if (e->names[name].body == EBNF_NONE)
        return FAIL(STATUS_INVALID, "grammar: %.*s is not defined", (int)e->names[name].length,
                    e->names[name].text);
    if (e->names[name].state == NAME_NEW) {
        e->names[name].state = NAME_LOOKED_AT;
        status_t status = ebnf_term(e, e->names[name].body, term);
        if (status != STATUS_OK && status != STATUS_UNSUPPORTED)
            return status;
        e->names[name].state = status == STATUS_OK ? NAME_REGULAR : NAME_NOT_REGULAR;
        e->names[name].term = *term;
    }
    *term = e->names[name].term;
    return e->names[name].state == NAME_REGULAR ? STATUS_OK : STATUS_UNSUPPORTED;
}

/* Sequences and choices lean to the left and may be long: no recursion along them. */
static status_t chain_term(ebnf_t *e, uint32_t node, uint32_t *term)
{
    regex_store_t *s = &e->build->regexes;
    ebnf_kind_t kind = e->nodes[node].kind;
    uint32_t all = kind == EBNF_CAT ? REGEX_EMPTY : kind == EBNF_OR ? REGEX_NOTHING : REGEX_ANY;

    for (;;) {
        const ebnf_node_t n = e->nodes[node];
        bool more = n.kind == kind;
        TRY(ebnf_term(e, more ? n.second : node, term));
        all = kind == EBNF_CAT  ? regex_cat(s, *term, all)
              : kind == EBNF_OR ? regex_or(s, all, *term)
                                : regex_and(s, all, *term);
        if (!more)
            break;
        node = n.first;
    }
    *term = all;
    return s->status;
}

static status_t term_of(ebnf_t *e, uint32_t node, uint32_t *term)
{
    regex_store_t *s = &e->build->regexes;
    const ebnf_node_t n = e->nodes[node];

    switch (n.kind) {
    case EBNF_EMPTY:
        *term = REGEX_EMPTY;
        break;
    case EBNF_TEXT:
        *term = regex_text(s, e->text + n.first, n.second);
        break;
    case EBNF_TERM:
        *term = n.first;
        break;
    case EBNF_RULE:
        return name_term(e, n.first, term);
    case EBNF_CAT:
    case EBNF_OR:
    case EBNF_AND:
        return chain_term(e, node, term);
    case EBNF_NOT: { /* of characters, not of bytes */
        TRY(ebnf_term(e, n.first, term));
        uint32_t all = regex_repeat(s, pattern_any(s, PATTERN_PLAIN), 0, REGEX_NO_END);
        *term = regex_and(s, all, regex_not(s, *term));
        break;
    }
    case EBNF_REPEAT:
        TRY(ebnf_term(e, n.first, term));
        *term = regex_repeat(s, *term, n.min, n.max);
        break;
    }
    return s->status;
}

status_t ebnf_term(ebnf_t *e, uint32_t node, uint32_t *term)
{
    *term = REGEX_NOTHING;
    if (++e->depth > EBNF_DEPTH_MAX)
        return FAIL(STATUS_TOO_LARGE, "grammar: nested more than %d deep", EBNF_DEPTH_MAX);
    status_t status = term_of(e, node, term);
    e->depth--;
    return status;
}

static status_t emit(ebnf_t *e, uint32_t node, uint32_t from, uint32_t to);

/* What is ignored may follow a token. */
static uint32_t behind_token(ebnf_t *e, uint32_t to)
{
    if (e->ignored == REGEX_EMPTY)
        return to;
    uint32_t at = build_state(e->build, to);
    build_edge_term(e->build, at, to, e->ignored);
    return at;
}

static status_t emit_rule(ebnf_t *e, uint32_t name, uint32_t from, uint32_t to)
{
    uint32_t term;

    /* In Lark a regular rule may still be several tokens, with something ignored between them. */
    if (!e->tokens || e->names[name].terminal) {
        status_t status = name_term(e, name, &term);
        if (status == STATUS_OK) {
            build_edge_term(e->build, from, e->names[name].terminal ? behind_token(e, to) : to,
                            term);
            return STATUS_OK;
        }
        if (status != STATUS_UNSUPPORTED)
            return status;
        if (e->names[name].terminal)
            return FAIL(STATUS_INVALID, "grammar: the terminal %.*s is not regular",
                        (int)e->names[name].length, e->names[name].text);
    }
    if (e->names[name].body == EBNF_NONE)
        return FAIL(STATUS_INVALID, "grammar: %.*s is not defined", (int)e->names[name].length,
                    e->names[name].text);
    if (e->names[name].rule == EBNF_NONE)
        e->names[name].rule = build_rule(e->build); /* filled by ebnf_build */
    build_edge_rule(e->build, from, to, e->names[name].rule);
    return STATUS_OK;
}

static status_t emit_repeat(ebnf_t *e, const ebnf_node_t *n, uint32_t from, uint32_t to)
{
    build_t *b = e->build;

    for (uint32_t i = 0; i < n->min && b->status == STATUS_OK; i++) {
        uint32_t next = build_state(b, from);
        TRY(emit(e, n->first, from, next));
        from = next;
    }
    if (n->max == REGEX_NO_END) {
        uint32_t loop = build_state(b, from);
        build_edge_empty(b, from, loop);
        TRY(emit(e, n->first, loop, loop));
        build_edge_empty(b, loop, to);
        return b->status;
    }
    build_edge_empty(b, from, to);
    for (uint32_t i = n->min; i < n->max && b->status == STATUS_OK; i++) {
        uint32_t next = build_state(b, from);
        TRY(emit(e, n->first, from, next));
        build_edge_empty(b, next, to);
        from = next;
    }
    return b->status;
}

static status_t emit_chain(ebnf_t *e, uint32_t node, uint32_t from, uint32_t to)
{
    ebnf_kind_t kind = e->nodes[node].kind;

    while (e->nodes[node].kind == kind) {
        const ebnf_node_t n = e->nodes[node];
        uint32_t middle = kind == EBNF_CAT ? build_state(e->build, from) : from;
        TRY(emit(e, n.second, middle, to));
        to = kind == EBNF_CAT ? middle : to;
        node = n.first;
    }
    return emit(e, node, from, to);
}

static status_t emit_node(ebnf_t *e, uint32_t node, uint32_t from, uint32_t to)
{
    const ebnf_node_t n = e->nodes[node];
    build_t *b = e->build;
    uint32_t term;

    if (n.kind == EBNF_TEXT && n.second > 0) {
        build_edge_text(b, from, behind_token(e, to), e->text + n.first, n.second);
        return b->status;
    }
    if (n.kind == EBNF_RULE)
        return emit_rule(e, n.first, from, to);
    bool one_token = n.kind == EBNF_TERM || n.kind == EBNF_AND || n.kind == EBNF_NOT;
    if (!e->tokens || one_token || e->ignored == REGEX_EMPTY) {
        status_t status = n.kind == EBNF_OR ? STATUS_UNSUPPORTED : ebnf_term(e, node, &term);
        if (status == STATUS_OK) {
            build_edge_term(b, from, one_token ? behind_token(e, to) : to, term);
            return b->status;
        }
        if (status != STATUS_UNSUPPORTED)
            return status;
    }
    switch (n.kind) {
    case EBNF_EMPTY:
    case EBNF_TEXT:
        build_edge_empty(b, from, to);
        return b->status;
    case EBNF_CAT:
    case EBNF_OR:
        return emit_chain(e, node, from, to);
    case EBNF_REPEAT:
        return emit_repeat(e, &n, from, to);
    default:
        return FAIL(STATUS_UNSUPPORTED, "grammar: & and ~ are for terminals");
    }
}

static status_t emit(ebnf_t *e, uint32_t node, uint32_t from, uint32_t to)
{
    if (++e->depth > EBNF_DEPTH_MAX)
        return FAIL(STATUS_TOO_LARGE, "grammar: nested more than %d deep", EBNF_DEPTH_MAX);
    status_t status = emit_node(e, node, from, to);
    e->depth--;
    return status == STATUS_OK ? e->build->status : status;
}

status_t ebnf_build(ebnf_t *e, const char *start)
{
    build_t *b = e->build;
    uint32_t name, from, end;

    TRY(ebnf_name(e, start, strlen(start), &name));
    if (e->names[name].body == EBNF_NONE)
        return FAIL(STATUS_INVALID, "grammar: there is no rule %s", start);
    from = build_start(b, build_rule(b)); /* rule 0 */
    end = build_state(b, from);
    build_accept(b, end);
    if (e->ignored != REGEX_EMPTY) {
        uint32_t behind = build_state(b, from);
        build_edge_term(b, from, behind, e->ignored);
        from = behind;
    }
    TRY(emit_rule(e, name, from, end));
    for (bool again = true; again && b->status == STATUS_OK;) { /* rules come up on the way */
        again = false;
        for (uint32_t i = 0; i < e->name_count; i++) {
            if (e->names[i].rule == EBNF_NONE || e->names[i].state == NAME_NOT_REGULAR + 1)
                continue;
            e->names[i].state = NAME_NOT_REGULAR + 1; /* written */
            again = true;
            uint32_t rule = e->names[i].rule;
            end = build_state(b, build_start(b, rule));
            build_accept(b, end);
            TRY(emit(e, e->names[i].body, build_start(b, rule), end));
        }
    }
    return b->status;
}
