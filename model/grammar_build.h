/* grammar_build.h - a grammar while a front end puts it together; the last step makes its block.
 *
 * A rule is an automaton: it has states, and edges between them that read a text, what a regular
 * expression matches, another rule, or nothing. Recursion of any kind is fine. The first failure stays
 * in `status`; later calls do nothing that matters. Only used while a grammar is compiled: allocates.
 */
#ifndef MODEL_GRAMMAR_BUILD_H
#define MODEL_GRAMMAR_BUILD_H

#include "model/grammar_pattern.h"
#include "model/grammar_standard.h"

typedef enum { BUILD_TEXT, BUILD_AUTOMATON, BUILD_RULE, BUILD_EMPTY } build_kind_t;

typedef struct {
    uint32_t from, to;
    uint32_t kind, symbol;
} build_edge_t;

typedef struct {
    uint32_t rule;
    bool accepts;
} build_state_t;

typedef struct {
    uint32_t start; /* bytes of `text` */
    uint32_t length;
} build_text_t;

/* A term, or a standard automaton, without some names if it has some; its loop may be counted. */
typedef struct {
    uint32_t term; /* BUILD_STANDARD + standard_t; with names, a number of its own behind those */
    const standard_name_t *names;
    uint32_t name_count;
    standard_t which;
    uint32_t prefix_bytes;
    bool counted;
    bool unique;
    uint32_t min, max;
} build_automaton_t;

typedef struct {
    regex_store_t regexes;
    uint32_t *rules; /* start state of each */
    build_state_t *states;
    build_edge_t *edges;
    build_text_t *texts;
    build_automaton_t *automata;
    char *text;
    uint32_t rule_count, rule_room, state_count, state_room, edge_count, edge_room;
    uint32_t text_count, text_room, automaton_count, automaton_room, text_bytes, text_bytes_room;
    uint32_t *text_index; /* open addressing: text + 1 */
    uint32_t text_index_mask;
    status_t status;
} build_t;

enum { BUILD_EDGES_MAX = 1 << 17, BUILD_WORK_MAX = 4000000, BUILD_STANDARD = 0x40000000 };

void build_init(build_t *build);
void build_fini(build_t *build);
/* Keeps the first status that is not OK; returns it. */
status_t build_fail(build_t *build, status_t status);

/* A new rule with a start state. Rule 0 is the whole. */
uint32_t build_rule(build_t *build);
uint32_t build_start(const build_t *build, uint32_t rule);
/* A new state of the rule of `beside`. */
uint32_t build_state(build_t *build, uint32_t beside);
void build_accept(build_t *build, uint32_t state);

void build_edge_text(build_t *build, uint32_t from, uint32_t to, const char *text, size_t length);
void build_edge_term(build_t *build, uint32_t from, uint32_t to, uint32_t term);
void build_edge_rule(build_t *build, uint32_t from, uint32_t to, uint32_t rule);
void build_edge_empty(build_t *build, uint32_t from, uint32_t to);
/* The same for keys: within one run of the rule, no text may be read twice by such edges. */
void build_edge_key(build_t *build, uint32_t from, uint32_t to, uint32_t term);
/* A standard automaton; for a key, unique as above, and without the names, which stay until build_block. */
void build_edge_standard(build_t *build, uint32_t from, uint32_t to, standard_t which,
                         const standard_name_t *names, uint32_t name_count);
/* `prefix`, min to max times `character`, `suffix`; max may be REGEX_NO_END. No text of `character`
 * begins as `suffix` does, and none with another in front of it. */
void build_edge_counted(build_t *build, uint32_t from, uint32_t to, const char *prefix,
                        uint32_t character, const char *suffix, uint32_t min, uint32_t max);

/* The block, allocated with malloc. INVALID: the grammar has no text at all. TOO_LARGE: a limit. */
MUST_USE status_t build_block(build_t *build, uint64_t vocabulary_digest, void **block,
                              size_t *bytes);

#endif
