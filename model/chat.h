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

typedef struct {
    char param[96]; /* "messages[2].content" */
    char reason[192];
} chat_refusal_t;

/* Reads of the request: messages, tools, tool_choice, response_format, drop_thinking, effort (the
 * name of a block of the checkpoint); of messages also task and wo_eos. Whether to think is said by
 * thinking (true, false, or {"type": "enabled" | "adaptive" | "disabled"}), enable_thinking,
 * reasoning_effort, reasoning.enabled, reasoning.effort, or the first three of these in
 * chat_template_kwargs; two that disagree are refused. Other keys are the caller's.
 * INVALID or TOO_LARGE fill *refusal. Call chat_prompt_fini in any case. */
MUST_USE status_t chat_encode(const chat_blocks_t *blocks, const document_t *request,
                              chat_prompt_t *prompt, chat_refusal_t *refusal);
void chat_prompt_fini(chat_prompt_t *prompt);

#endif
