/* grammar_standard.h - automata that nearly every JSON schema needs, made once a process.
 *
 * They are equal to those that their terms would give, so a grammar's block is the same; only compiling
 * is faster. Once made they are read by any number of threads.
 */
#ifndef MODEL_GRAMMAR_STANDARD_H
#define MODEL_GRAMMAR_STANDARD_H

#include "model/grammar_regex.h"

typedef enum {
    STANDARD_STRING,   /* "...", as json.dumps writes it */
    STANDARD_KEY,      /* "...": and a blank */
    STANDARD_BARE_KEY, /* "..." */
    STANDARD_INTEGER,
    STANDARD_NUMBER,
    STANDARD_FORMAT, /* and behind it: a string of each format */
    STANDARD_COUNT = STANDARD_FORMAT + 10
} standard_t;

enum { FORMAT_COUNT = STANDARD_COUNT - STANDARD_FORMAT };

/* With the flags of grammar_block.h of each state. */
typedef struct {
    regex_automaton_t automaton;
    uint32_t *flags;
} standard_automaton_t;

/* Bodies of strings, escaped as in JSON. */
typedef struct {
    const char *text;
    size_t length;
} standard_name_t;

/* NULL if there was no memory for them. */
const standard_automaton_t *standard_automaton(standard_t which);
/* A string or key without these. TOO_LARGE: too many states. The caller frees both parts. */
MUST_USE status_t standard_without(standard_t which, const standard_name_t *names, uint32_t count,
                                   standard_automaton_t *out);

#endif
