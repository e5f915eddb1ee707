/* grammar_regex.h - regular expressions over bytes as terms, and the automata that they become.
 *
 * Terms are kept once each (equal terms have equal numbers) and never change, so a term's number
 * stands for its language. An automaton is made by derivatives: its states are the terms that are
 * left after each byte. Intersection, complement and counts are terms like any other. Only used while
 * a grammar is compiled: all of this allocates.
 *
 * The first failure (TOO_LARGE, NO_MEMORY) stays in `status`; later calls do nothing that matters.
 */
#ifndef MODEL_GRAMMAR_REGEX_H
#define MODEL_GRAMMAR_REGEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/status.h"

enum {
    REGEX_NOTHING = 0,       /* no text at all */
    REGEX_EMPTY = 1,         /* the empty text only */
    REGEX_ANY = 2,           /* every text of bytes */
    REGEX_NO_END = 0xffffff, /* a count without an upper bound */
    REGEX_BEGIN_BYTE =
        0xfe, /* never part of UTF-8: where a text begins and ends, see regex_inside */
    REGEX_END_BYTE = 0xff,
    REGEX_STATES_MAX = 20000, /* of one automaton */
};

typedef struct {
    uint64_t bits[4];
} byte_set_t;

typedef enum {
    REGEX_KIND_NOTHING,
    REGEX_KIND_EMPTY,
    REGEX_KIND_SET,
    REGEX_KIND_CAT,
    REGEX_KIND_REPEAT,
    REGEX_KIND_OR,
    REGEX_KIND_AND,
    REGEX_KIND_NOT,
    REGEX_KIND_MULTIPLE,
    REGEX_KIND_INSIDE
} regex_kind_t;

typedef struct {
    uint32_t kind : 4, nullable : 1, character : 1,
        first : 26;  /* first: child, or where the children begin */
    uint32_t second; /* child, or number of children */
    uint32_t min, max;
} regex_node_t;

typedef struct {
    regex_node_t *nodes;
    uint32_t node_count, node_room;
    uint32_t *children; /* of unions and intersections */
    uint32_t child_count, child_room;
    byte_set_t *sets;
    uint32_t set_count, set_room;
    uint32_t *index; /* open addressing: node + 1 */
    uint32_t index_mask;
    uint64_t *memo_keys; /* node << 8 | byte, + 1 */
    uint32_t *memo_values;
    uint32_t memo_mask, memo_count;
    uint32_t depth; /* of the recursion that runs */
    uint64_t work, work_max;
    status_t status;
} regex_store_t;

/* States are numbered from 1, where it starts; 0 is dead. Every other state can still accept. */
typedef struct {
    uint8_t classes[256]; /* of each byte */
    uint32_t class_count;
    uint32_t state_count; /* with state 0; 1 if nothing is accepted */
    uint16_t *next;       /* state * class_count + class */
    uint8_t *accepts;     /* by state */
} regex_automaton_t;

void regex_init(regex_store_t *store, uint64_t work_max);
void regex_fini(regex_store_t *store);

uint32_t regex_set(regex_store_t *store, const byte_set_t *set);
uint32_t regex_range(regex_store_t *store, unsigned first, unsigned last);
uint32_t regex_text(regex_store_t *store, const char *bytes, size_t length);
uint32_t regex_cat(regex_store_t *store, uint32_t a, uint32_t b);
uint32_t regex_or(regex_store_t *store, uint32_t a, uint32_t b);
uint32_t regex_and(regex_store_t *store, uint32_t a, uint32_t b);
/* Of many at once; `terms` is put in another order. */
uint32_t regex_or_all(regex_store_t *store, uint32_t *terms, uint32_t count);
uint32_t regex_and_all(regex_store_t *store, uint32_t *terms, uint32_t count);
/* All texts of bytes that are not of `a`. */
uint32_t regex_not(regex_store_t *store, uint32_t a);
/* `min` to `max` times; max REGEX_NO_END: no bound. */
uint32_t regex_repeat(regex_store_t *store, uint32_t a, uint32_t min, uint32_t max);
/* Decimal digits whose number, behind digits with that remainder, divides by `divisor`. */
uint32_t regex_multiple(regex_store_t *store, uint32_t divisor, uint32_t remainder);
/* Texts t for which BEGIN t END is of `a`. */
uint32_t regex_inside(regex_store_t *store, uint32_t a);

/* If `a` is one term, repeated: true, with that. */
bool regex_is_repeat(const regex_store_t *store, uint32_t a, uint32_t *repeated, uint32_t *min,
                     uint32_t *max);
/* Is it one character, as pattern_characters made it? No text of such a term begins another. */
bool regex_is_character(const regex_store_t *store, uint32_t a);
void regex_mark_character(regex_store_t *store, uint32_t a);
bool regex_nullable(const regex_store_t *store, uint32_t a);
/* What may follow `byte`. */
uint32_t regex_derive(regex_store_t *store, uint32_t a, unsigned byte);

/* TOO_LARGE: too many states or too much work. The caller calls fini in any case. */
MUST_USE status_t regex_automaton(regex_store_t *store, uint32_t a, regex_automaton_t *out);
void regex_automaton_fini(regex_automaton_t *automaton);
/* Does it accept only finitely many texts? */
bool regex_automaton_is_finite(const regex_automaton_t *automaton);
bool regex_automaton_accepts(const regex_automaton_t *automaton, const char *text, size_t length);

static inline uint32_t regex_automaton_step(const regex_automaton_t *automaton, uint32_t state,
                                            unsigned byte)
{
    return automaton->next[state * automaton->class_count + automaton->classes[byte]];
}

#endif
