/* grammar_slice.h - sets of texts that many tokens lie in whole, known to compiler and vocabulary.
 *
 * Each is all texts over some characters, so what is left of such a text behind any of its characters
 * is in the set too.
 */
#ifndef MODEL_GRAMMAR_SLICE_H
#define MODEL_GRAMMAR_SLICE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    SLICE_STRING, /* the body of a JSON string as json.dumps writes it */
    SLICE_LINE,   /* the same without line ends: what a dot of a pattern lets through */
    SLICE_WORD,   /* A-Z a-z 0-9 */
    SLICE_LOWER,  /* a-z */
    SLICE_DIGIT,  /* 0-9 */
    SLICE_COUNT
} slice_t;

enum { SLICE_STATE_DEAD = 0, SLICE_STATE_START = 1, SLICE_STATES = 32 };

/* Characters that a token of the slice has at most, so that counted ones may hold it; 0: any number. */
uint32_t slice_bound(slice_t slice);
/* The state of a slice behind one more byte; 0: the text left it. */
uint32_t slice_step(slice_t slice, uint32_t state, unsigned byte);

#endif
