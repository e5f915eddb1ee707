/* chat.h - an OpenAI-style chat request becomes the prompt of the model.
 *
 * The prompt says for each of its bytes whether we (or the checkpoint) wrote it or the client did,
 * so that the tokenizer lets only ours become control tokens. Pure: no clock, no state between
 * calls; any thread. A request that cannot be rendered is refused with the parameter that is wrong.
 */
#ifndef MODEL_CHAT_H
#define MODEL_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "model/chat_blocks.h"
#include "model/chat_thinking.h"
#include "model/document.h"
#include "model/text_buffer.h"
#include "model/tokenizer.h"

/* What a prompt begins with, and all marks that a prompt and an answer are made of, up to a NULL. Each
 * must be one token of the checkpoint's. */
#define CHAT_MARK_BEGIN "<｜begin▁of▁sentence｜>"
extern const char *const chat_marks[];

typedef struct {
    text_buffer_t text;
    text_span_t *spans; /* as tokenizer_encode takes them */
    size_t span_count;
    size_t span_room;
    bool thinking_open; /* the prompt ends with <think>: the answer begins inside reasoning */
    bool tools;         /* tools were rendered */
} chat_prompt_t;

/* Reads of the request: messages, tools, tool_choice, response_format, drop_thinking; of messages also
 * task and wo_eos. Other keys are the caller's. INVALID or TOO_LARGE fill *refusal. Call chat_prompt_fini
 * in any case. */
MUST_USE status_t chat_encode(const chat_blocks_t *blocks, const document_t *request,
                              const chat_thinking_t *thinking, chat_prompt_t *prompt,
                              chat_refusal_t *refusal);
void chat_prompt_fini(chat_prompt_t *prompt);

#endif
