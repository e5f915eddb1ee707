/* grammar_block.h - what a compiled grammar is made of: one block of bytes without pointers.
 *
 * A grammar is a set of rules, and each rule an automaton over texts, regular expressions and rules.
 * All offsets count from the start of the block. Only what belongs to model/grammar*.c reads this.
 */
#ifndef MODEL_GRAMMAR_BLOCK_H
#define MODEL_GRAMMAR_BLOCK_H

#include <stddef.h>
#include <stdint.h>

enum { GRAMMAR_MAGIC = 0x4d47534c, GRAMMAR_VERSION = 1, GRAMMAR_DIGEST_BYTES = 32 };

/* Edges lie sorted by kind: texts (in byte order), automata, rules, empty ones. */
typedef struct {
    uint32_t texts, automata, rules, empties, end; /* first edge of each kind; the last's end */
    uint32_t rule;                                 /* that it belongs to */
    uint32_t accepts;
} grammar_state_t;

typedef struct {
    uint32_t symbol; /* text, automaton or rule */
    uint32_t target; /* state */
} grammar_edge_t;

typedef struct {
    uint32_t start; /* state */
    uint32_t nullable;
} grammar_rule_t;

/* What is true of a state of an automaton, as bits. */
enum {
    GRAMMAR_ACCEPTS = 1,
    GRAMMAR_GOES_ON = 2, /* some byte may follow */
    GRAMMAR_FREE = 4,    /* GRAMMAR_BODY, and a quote always leads to one and the same state */
    GRAMMAR_ENDLESS = 8, /* there are texts of any length from here on */
    GRAMMAR_SLICE = 16,  /* from here on: any text of slice 0, 1, ... may follow */
    /* From here on: any text of SLICE_LINE, and nothing else but a quote between its characters. */
    GRAMMAR_LINE = 1 << 10,
    /* From here on: with state q of SLICE_STRING, any rest of a JSON string's body may follow, and
     * nothing else but a quote between two of its characters. */
    GRAMMAR_BODY = 1 << 16
};

/* With `loop`, a character is what leads from state `loop` back to it; there are min to max of them
 * before state `close`. States below `loop` are in front of the characters. */
typedef struct {
    uint32_t classes, next, flags; /* offsets: uint8_t[256], uint16_t[], uint32_t[] */
    uint32_t class_count;
    uint32_t loop, close, min, max;
    uint32_t unique; /* it reads a key, and in one run of a rule no key may come twice */
} grammar_automaton_t;

typedef struct {
    uint32_t magic, version;
    uint32_t bytes; /* of the block */
    uint32_t state_count, rule_count, automaton_count, text_count;
    uint32_t states, edges, rules, automata, text_starts, texts; /* offsets */
    uint64_t vocabulary_digest;
    uint8_t digest[GRAMMAR_DIGEST_BYTES]; /* of all bytes behind the header, and of those before */
} grammar_block_t;

#define GRAMMAR_PART(block, type, offset)                                                          \
    ((const type *)(const void *)((const char *)(block) + (block)->offset))

#endif
