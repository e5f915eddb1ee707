/* chat_thinking.h - whether a chat's answer begins with reasoning, out of all the switches that clients use.
 *
 * thinking (true, false, or {"type": "enabled" | "adaptive" | "disabled"}), enable_thinking,
 * reasoning_effort (or effort), reasoning.effort and reasoning.enabled, each of them also inside
 * chat_template_kwargs, are one value: off (an effort of none), on (minimal to high), or on with the
 * most effort (xhigh, max). Pure; any thread.
 */
#ifndef MODEL_CHAT_THINKING_H
#define MODEL_CHAT_THINKING_H

#include "model/document.h"
#include "runtime/base/status.h"

typedef struct {
    char param[96]; /* "messages[2].content" */
    char reason[192];
} chat_refusal_t;

typedef struct {
    bool on;
    bool max; /* with the checkpoint's block for the most effort, if it has one */
} chat_thinking_t;

/* `on`: what counts if the request says nothing. INVALID fills *refusal: a value that does not exist,
 * or two switches that disagree, of which `param` names one and `reason` the other. */
MUST_USE status_t chat_thinking_read(const document_t *request, bool on, chat_thinking_t *thinking,
                                     chat_refusal_t *refusal);

#endif
