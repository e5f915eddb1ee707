/* answer_parts.h - how the parts of the answer parser know each other. For answer*.c only.
 *
 * Every state has a step: it decides as much as it can and says whether to go on at once. A step never
 * looks at where the text was cut, only at the text and at whether it has ended.
 *
 *            '<' of a block                       goal reached
 *   TEXT  ------------------->  HOLD_...  ---------------------------->  LIVE_...
 *    ^ ^ <-------------------             (or the block is suppressed)     |  |
 *    |       cannot become one                         |                   |  |
 *    |                                                 v       call closed |  |
 *    +---------------------------------------------- BEHIND <--------------+  |
 *    ^   neither a block nor the end follows                                  |
 *    |   ended inside: its arguments stay unclosed                            |
 *    +------------------------------------------------------------------------+
 */
#ifndef MODEL_ANSWER_PARTS_H
#define MODEL_ANSWER_PARTS_H

#include "model/answer.h"
#include "model/answer_tag.h"

enum {
    ANSWER_IN_TEXT,
    ANSWER_BEHIND,       /* a block or an invoke */
    ANSWER_HOLD_START,   /* an invoke tag */
    ANSWER_HOLD_WRAPPER, /* in a wrapper, before an invoke tag or its end */
    ANSWER_HOLD_INVOKE,  /* behind an invoke tag */
    ANSWER_HOLD_JSON,    /* in an object as body */
    ANSWER_HOLD_VALUE,   /* in a parameter */
    ANSWER_HOLD_AFTER,   /* behind a parameter or an object */
    ANSWER_LIVE_AFTER,   /* the same of a call that has begun */
    ANSWER_LIVE_STRING,
    ANSWER_LIVE_LITERAL,
    ANSWER_LIVE_STRAY,   /* in text between parameters, up to the next tag that fits */
    ANSWER_LIVE_DROPPED, /* in a parameter that does not count */
    ANSWER_STATES
};

/* What is open around an invoke. */
enum { ANSWER_INSIDE_NOTHING, ANSWER_INSIDE_ORPHAN, ANSWER_INSIDE_WRAPPER };

/* What must have been read of a held block. */
enum {
    ANSWER_GOAL_CALL,   /* enough to begin a call */
    ANSWER_GOAL_INVOKE, /* an invoke up to its end */
    ANSWER_GOAL_BLOCK   /* a wrapper with its invokes up to its end */
};

/* answer.c */
void answer_emit(answer_t *a, answer_kind_t kind, const char *text, size_t length);
void answer_emit_text(answer_t *a, size_t from, size_t to);
/* Takes [from, to) out of the answer; everything before it is decided too. */
void answer_suppress(answer_t *a, size_t from, size_t to);
/* Moves scan over white space from `start`; false at the end of the text. */
bool answer_skip_space(answer_t *a);
/* The same without white space at its ends. */
void answer_suppress_trimmed(answer_t *a, size_t from, size_t to);
/* The tag at `at`, by what the options allow. */
tag_t answer_tag(const answer_t *a, size_t at, unsigned wanted);
/* The first end of a parameter: where it begins and its length. */
bool answer_find_closer(const answer_t *a, size_t from, size_t *at, size_t *length);
/* Bytes of the longest one. */
#define ANSWER_CLOSER_BYTES (sizeof(TAG_PARAMETER_CLOSER) - 1)
/* Strict JSON without keys that are there twice. */
bool answer_is_json(answer_t *a, size_t from, size_t to);
bool answer_enter(answer_t *a, unsigned state, size_t start);
/* False if the call has that parameter already, or too many. */
bool answer_add_name(answer_t *a, const tag_t *tag);
bool answer_suppresses(const answer_t *a);

/* answer_hold.c */
bool answer_hold_wrapper(answer_t *a, size_t block, const tag_t *tag);
bool answer_hold_invoke(answer_t *a, size_t block, unsigned inside);
bool answer_step_hold(answer_t *a);

/* answer_call.c */
/* The goal ANSWER_GOAL_CALL is reached: from here on the call is sent as it is read. */
bool answer_begin_call(answer_t *a);
bool answer_step_after(answer_t *a);
bool answer_step_string(answer_t *a);
bool answer_step_literal(answer_t *a);
bool answer_step_stray(answer_t *a);
bool answer_step_dropped(answer_t *a);

#endif
