/* grammar_ebnf.h - rules as trees of expressions, which both notations for grammars are read into.
 *
 * What needs no rule that leads back to itself is regular, and becomes one automaton; everything else
 * becomes edges. Only used while a grammar is compiled.
 */
#ifndef MODEL_GRAMMAR_EBNF_H
#define MODEL_GRAMMAR_EBNF_H

#include "model/grammar_build.h"

typedef enum {
    EBNF_EMPTY,
    EBNF_TEXT,   /* first: offset into `text`, second: length */
    EBNF_TERM,   /* first: a term of build->regexes */
    EBNF_RULE,   /* first: a name */
    EBNF_CAT,    /* first, second */
    EBNF_OR,     /* first, second */
    EBNF_AND,    /* first, second: terminals only */
    EBNF_NOT,    /* first: terminals only */
    EBNF_REPEAT, /* first, min, max */
} ebnf_kind_t;

typedef struct {
    ebnf_kind_t kind;
    uint32_t first, second, min, max;
} ebnf_node_t;

typedef struct {
    const char *text; /* in the source */
    uint32_t length;
    uint32_t body; /* a node; EBNF_NONE: named, but not defined yet */
    uint32_t rule; /* of the build; EBNF_NONE: none yet */
    uint32_t term; /* once `state` says so */
    unsigned char state;
    bool terminal; /* Lark: one token, so it must be regular, and what is ignored may follow */
} ebnf_name_t;

enum {
    EBNF_NONE = 0xffffffff,
    EBNF_NODES_MAX = 1 << 16,
    EBNF_NAMES_MAX = 8192,
    EBNF_DEPTH_MAX = 200
};

typedef struct {
    build_t *build;
    const char *source;
    size_t length, at;
    ebnf_node_t *nodes;
    uint32_t node_count, node_room;
    ebnf_name_t *names;
    uint32_t name_count, name_room;
    char *text; /* of literals, escapes undone */
    uint32_t text_used, text_room;
    uint32_t depth;
    uint32_t ignored; /* a term that may stand between tokens; REGEX_EMPTY: none */
    bool tokens;      /* Lark: each text, term and terminal of a rule is a token */
} ebnf_t;

void ebnf_init(ebnf_t *ebnf, build_t *build, const char *source, size_t length);
void ebnf_fini(ebnf_t *ebnf);

/* A refusal with the line of the source. */
MUST_USE status_t ebnf_refuse(const ebnf_t *ebnf, status_t status, const char *what);
MUST_USE status_t ebnf_node(ebnf_t *ebnf, ebnf_node_t node, uint32_t *out);
MUST_USE status_t ebnf_name(ebnf_t *ebnf, const char *text, size_t length, uint32_t *out);
/* Adds bytes to the text of the literal that began at text_used. */
MUST_USE status_t ebnf_put(ebnf_t *ebnf, const char *bytes, size_t length);
/* One character behind a backslash in a literal, put as UTF-8. */
MUST_USE status_t ebnf_put_escape(ebnf_t *ebnf);
int ebnf_peek(const ebnf_t *ebnf);
bool ebnf_take(ebnf_t *ebnf, const char *word);

/* The term of a node; UNSUPPORTED if it is not regular. */
MUST_USE status_t ebnf_term(ebnf_t *ebnf, uint32_t node, uint32_t *term);
/* Puts the rule with this name, and all that it needs, into the build as rule 0. */
MUST_USE status_t ebnf_build(ebnf_t *ebnf, const char *start);

#endif
