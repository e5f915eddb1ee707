/* reply.h - tokens become the bytes of an HTTP answer, streamed or whole, in the API's form.
 *
 * Chats: token -> text (whole characters) -> reasoning, content and tool calls -> stop strings in the
 * content -> chunks. Completions: token -> text -> stop strings -> chunks.
 * One answer, one reply_t; bytes to be sent stand in `out`, and whoever sends them empties it.
 * No JSON library: what is written here is escaped here.
 */
#ifndef ACTORS_GATEWAY_REPLY_H
#define ACTORS_GATEWAY_REPLY_H

#include "actors/gateway/openai.h"
#include "model/answer.h"
#include "model/tokenizer.h"

enum {
    REPLY_ID_BYTES = 40,
    REPLY_BYTES_MAX = 64 << 20, /* of a whole answer, and of what one token may add to a stream */
};

/* Fixed facts of an answer; what they point to outlives it. */
typedef struct {
    const tokenizer_t *tokenizer;
    const openai_parameters_t *parameters;
    const char *model;
    const uint32_t *end_tokens;
    uint32_t end_count;
    uint64_t created; /* Unix seconds */
    uint64_t number;  /* makes the id unique */
    bool chat;
    bool thinking; /* the prompt ended with <think> */
    bool tools;    /* tools were rendered */
    uint32_t prompt_tokens;
    size_t bytes_max; /* REPLY_BYTES_MAX */
} reply_facts_t;

typedef struct {
    reply_facts_t facts;
    char id[REPLY_ID_BYTES];
    tokenizer_decoder_t decoder;
    answer_t answer;
    char *delta;           /* text of one token */
    text_buffer_t out;     /* to be sent */
    text_buffer_t held;    /* could be the beginning of a stop string */
    text_buffer_t content; /* whole answers: what was said so far */
    text_buffer_t reasoning;
    text_buffer_t calls;    /* JSON of the calls */
    text_buffer_t logprobs; /* JSON entries not yet sent */
    text_buffer_t values;   /* completions keep four lists */
    text_buffer_t tops;
    text_buffer_t offsets;
    text_buffer_t suppressed; /* JSON strings */
    uint32_t suppressed_count;
    uint32_t call_count;
    uint32_t completion_tokens;
    uint32_t characters; /* of the text so far */
    bool begun;          /* the role was sent */
    bool streaming; /* set by whoever sends: the stream has begun, so an error is an event in it */
    bool stopped;   /* a stop string was met: what follows is not shown */
    const char *stop;      /* that string, in the parameters */
    uint32_t stop_bytes;
    uint32_t stop_token;   /* 1 + the stop token that came; 0: none */
    bool logprobs_told;    /* some object of logprobs was sent */
    bool ended;
    status_t status; /* NO_MEMORY, TOO_LARGE: the answer could not be kept and ends as an error */
} reply_t;

MUST_USE status_t reply_init(reply_t *reply, const reply_facts_t *facts);
void reply_fini(reply_t *reply);

/* After it, `stopped` may have become true: then the request should be aborted as STOPPED. Or `status`
 * tells of a failure: then it should be aborted as well, and `out` holds nothing of this token. */
void reply_token(reply_t *reply, const record_token_t *token);
/* The last bytes. A reason that is no regular end becomes an error, in a stream an error event; a stop
 * string that was met ended the answer, whatever came later. Returns the status of a whole answer. */
unsigned reply_end(reply_t *reply, end_reason_t reason, uint32_t cached_tokens, const char *detail);

/* END_STOP, END_LENGTH, END_STOPPED. */
bool reply_is_regular(end_reason_t reason);
/* HTTP status for an answer that ended so before its first byte. */
unsigned reply_status(end_reason_t reason);
/* The API's error body. */
void reply_put_error(text_buffer_t *out, const openai_error_t *error);

#endif
