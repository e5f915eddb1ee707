/* answer.h - generated text becomes reasoning, content and tool calls, while it is generated.
 *
 * Feed bytes as they come; events leave as soon as they are certain, each made of whole characters.
 * What is sent is never taken back, and how the text was cut into pieces changes nothing but when
 * events come. The policy is tests/golden/chat/README.md. Memory is bounded by what may wait for a
 * decision (ANSWER_HELD_BYTES_MAX). One thread at a time.
 */
#ifndef MODEL_ANSWER_H
#define MODEL_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/object_scan.h"
#include "model/text_buffer.h"

typedef enum {
    ANSWER_REASONING,  /* text to append to the reasoning */
    ANSWER_CONTENT,    /* text to append to the content */
    ANSWER_CALL,       /* call number `call` begins; text is its name */
    ANSWER_ARGUMENTS,  /* text to append to the arguments of call number `call` */
    ANSWER_SUPPRESSED, /* markup that is not shown; one whole entry */
    ANSWER_KINDS
} answer_kind_t;

typedef struct {
    answer_kind_t kind;
    uint32_t call;
    const char *text; /* valid during the call of the sink */
    size_t length;
} answer_event_t;

typedef void answer_sink_t(void *context, const answer_event_t *event);

typedef enum { ANSWER_ENDED_BY_EOS, ANSWER_ENDED_BY_LENGTH } answer_end_t;

typedef enum { ANSWER_STOP, ANSWER_TOOL_CALLS, ANSWER_LENGTH } answer_reason_t;

typedef struct {
    bool thinking;            /* the prompt ended with <think> */
    bool tools;               /* tools were rendered */
    bool parallel_tool_calls; /* more than one call may be made */
} answer_options_t;

/* Open because callers embed it; what is in it belongs to answer*.c. */
typedef struct {
    answer_options_t options;
    answer_sink_t *sink;
    void *context;
    status_t status;
    bool ended;
    answer_end_t ended_by;
    bool reasoning; /* the open channel */
    uint32_t call_count;
    bool arguments_open;  /* of the last call */
    uint32_t nonstandard; /* tags of calls that were written with ASCII bars */

    char partial[4]; /* bytes of a character that is not whole yet */
    size_t partial_count;

    text_buffer_t text; /* all offsets below go into it */
    size_t start;       /* everything before is decided and sent */
    size_t scan;        /* how far the state has looked */
    unsigned state;
    unsigned inside; /* what is open around an invoke */

    /* a block that is held until its goal is reached */
    unsigned goal;
    size_t block;    /* its first '<'; from `start` to here is white space that goes with it */
    size_t invoke;   /* the invoke tag that is being read */
    size_t live;     /* where the call begins to be sent, once it may */
    size_t item_end; /* behind the last whole item */
    bool any_invoke; /* of a whole block */
    bool further;    /* an invoke in a wrapper that is open already */

    /* the call that is being read */
    size_t value; /* where the value that is being read begins */
    object_scan_t json;
    bool json_body;
    bool any_sent;       /* of its arguments */
    text_buffer_t names; /* of its parameters, each with a newline behind it */
    uint32_t name_count;
    size_t name; /* the last of them */
    text_buffer_t scratch;
} answer_t;

void answer_init(answer_t *answer, const answer_options_t *options, answer_sink_t *sink,
                 void *context);
void answer_fini(answer_t *answer);

/* Bytes that are not UTF-8 become U+FFFD. NO_MEMORY only. */
MUST_USE status_t answer_feed(answer_t *answer, const char *bytes, size_t length);
/* Once, after the last feed. */
MUST_USE status_t answer_finish(answer_t *answer, answer_end_t ended_by, answer_reason_t *reason);

#endif
