/* grammar_match.h - the inside of a matcher: rows, threads, and one byte more. For grammar_*.c only.
 *
 * This is Earley's algorithm over automata, one byte at a time. A row holds the rules that are under
 * way at one place of the text, as pairs of a state and the row in which its rule began; a row is made
 * only where a text or regular expression ends, and never changes. A thread is a way to read on: an
 * edge of some row's item, and how far into its text or automaton the bytes have come. Threads and one
 * flag are the whole state of a matcher; rows that no thread leads to are taken away when room is
 * needed. Nothing here allocates, reads a clock or calls out.
 */
#ifndef MODEL_GRAMMAR_MATCH_H
#define MODEL_GRAMMAR_MATCH_H

#include "model/grammar.h"
#include "model/grammar_block.h"

enum {
    MATCH_TEXT = 0x80000000, /* in `at`: the thread reads texts */
    MATCH_STACK_MAX = 2048,  /* threads on the way to one node of the trie */
    MATCH_MARKED_MAX = 1024, /* threads that marks hold */
    MATCH_TABLE = 4096,      /* places of the table that finds twins */
    MATCH_RUN_BYTES = 512,   /* of forced text that is looked at */
};

typedef struct {
    uint32_t row;    /* where it began */
    uint32_t origin; /* row in which the rule of its item began */
    uint32_t keys;   /* the last key that its rule has read, or 0 */
    uint32_t a, b;   /* texts: edges [a, b) that agree so far; automaton: edge, state */
    uint32_t at; /* texts: MATCH_TEXT | bytes read; automaton: characters counted, or, where keys
                      * are unique, a hash of the bytes read */
} match_thread_t;

typedef struct {
    uint32_t thread_count;
    uint32_t can_end;
    uint32_t forced_known, forced_count, forced[GRAMMAR_FORCED_MAX];
} match_place_t;

typedef struct {
    match_place_t place;
    uint32_t first; /* of its threads in `marked` */
} match_mark_t;

/* A row is a list of words: kernel items, items, 1 if the answer may end; then state, origin and keys of
 * each item, those of the kernel first. Rows are named by where they begin. A key that was read is a row
 * too, of one item: its hash, and the key before it. */
enum { ROW_KERNEL, ROW_ITEMS, ROW_CAN_END, ROW_HEAD };
enum { ITEM_STATE, ITEM_ORIGIN, ITEM_KEYS, ITEM_WORDS };

typedef struct {
    uint32_t rows_used; /* words */
    uint32_t mark_count, marked_used;
    match_place_t place;
    match_mark_t marks[GRAMMAR_MARKS_MAX];
    match_thread_t threads[GRAMMAR_THREADS_MAX];
    match_thread_t marked[MATCH_MARKED_MAX];
    match_thread_t stack[MATCH_STACK_MAX]; /* scratch from here on, but for the rows */
    uint32_t table[MATCH_TABLE];
    uint32_t kernel[ITEM_WORDS * GRAMMAR_THREADS_MAX];
    uint32_t rows[];
} match_state_t;

enum {
    MATCH_ROWS_MAX = (GRAMMAR_MATCHER_BYTES - sizeof(match_state_t)) / sizeof(uint32_t),
    MATCH_KEPT_MAX = MATCH_ROWS_MAX / 2 /* of an answer; the rest is for a walk */
};

/* One call of the interface. */
typedef struct {
    match_state_t *state;
    const char *block;
    const grammar_state_t *states;
    const grammar_edge_t *edges;
    const grammar_rule_t *rules;
    const grammar_automaton_t *automata;
    const uint32_t *text_starts;
    const char *texts;
    uint64_t work;
    uint32_t rows_max; /* how far a walk from here may go, whatever lies there unneeded */
    bool full;         /* a limit was met */
} match_run_t;

void match_begin(match_run_t *run, const grammar_matcher_t *matcher);
/* What `count` threads become with one byte; false if nothing is left of them. *can_end: the answer may
 * end behind it. `out` has room for GRAMMAR_THREADS_MAX. */
bool match_step(match_run_t *run, const match_thread_t *from, uint32_t count, unsigned byte,
                match_thread_t *out, uint32_t *out_count, bool *can_end);
/* Fills place.forced of the current place, once. */
void match_find_forced(match_run_t *run, const grammar_matcher_t *matcher);
/* Takes rows that nobody needs away; false if those needed have more than MATCH_KEPT_MAX words. */
bool match_compact(match_run_t *run);

/* The forced bytes behind the current place, at most MATCH_RUN_BYTES; *ends: the answer must end there. */
uint32_t match_forced_bytes(match_run_t *run, char *bytes, bool *ends);

static inline const uint32_t *match_item(const match_state_t *state, uint32_t row, uint32_t item)
{
    return state->rows + row + ROW_HEAD + ITEM_WORDS * item;
}

/* Words of the row there. */
static inline uint32_t match_row_size(const match_state_t *state, uint32_t row)
{
    return ROW_HEAD + ITEM_WORDS * state->rows[row + ROW_ITEMS];
}

static inline unsigned match_flags(const match_run_t *run, const grammar_automaton_t *automaton,
                                   uint32_t state)
{
    return ((const uint32_t *)(const void *)(run->block + automaton->flags))[state];
}

static inline uint32_t match_next(const match_run_t *run, const grammar_automaton_t *automaton,
                                  uint32_t state, unsigned byte)
{
    const uint16_t *next = (const uint16_t *)(const void *)(run->block + automaton->next);

    return next[state * automaton->class_count + (uint8_t)run->block[automaton->classes + byte]];
}

#endif
