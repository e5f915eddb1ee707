/* chat_render.c - writes the merged messages of a request as the prompt, span by span.
 *
 * `ours` writes marks and fixed blocks, trusted; `theirs` marks what a client sent, whatever it
 * looks like. No function here decides anything about a request: chat.c has.
 */
#include <stdlib.h>
#include <string.h>

#include "model/chat_parts.h"

#define DSML "｜DSML｜"

const char *const chat_marks[] = {CHAT_MARK_BEGIN,
                                  "<｜end▁of▁sentence｜>",
                                  "<｜User｜>",
                                  "<｜Assistant｜>",
                                  "<think>",
                                  "</think>",
                                  DSML,
                                  NULL};

static const char *const task_tokens[] = {
    NULL,           "<｜action｜>", "<｜query｜>",   "<｜authority｜>",
    "<｜domain｜>", "<｜title｜>",  "<｜read_url｜>"};

/* Everything since the last span gets its trust. */
static void mark(chat_encoding_t *e, bool trusted)
{
    chat_prompt_t *prompt = e->prompt;
    size_t end = prompt->text.used;
    size_t count = prompt->span_count;
    if (end == (count == 0 ? 0 : prompt->spans[count - 1].end))
        return;
    if (count > 0 && prompt->spans[count - 1].trusted == trusted) {
        prompt->spans[count - 1].end = end;
        return;
    }
    if (count == prompt->span_room) {
        size_t room = count == 0 ? 64 : 2 * count;
        text_span_t *spans = realloc(prompt->spans, room * sizeof(*spans));
        if (spans == NULL) {
            prompt->text.status = FAIL(STATUS_NO_MEMORY, "%zu spans", room);
            return;
        }
        prompt->spans = spans;
        prompt->span_room = room;
    }
    prompt->spans[prompt->span_count++] = (text_span_t){end, trusted};
}

static void ours(chat_encoding_t *e, const char *text)
{
    text_put_text(&e->prompt->text, text);
    mark(e, true);
}

static void theirs(chat_encoding_t *e, const document_t *document, uint32_t string)
{
    document_put_string(document, string, &e->prompt->text);
    mark(e, false);
}

static void theirs_as_python(chat_encoding_t *e, const document_t *document, uint32_t value)
{
    document_put_python(document, value, &e->prompt->text);
    mark(e, false);
}

/* A string, or text parts with a blank line between them; nothing if there is no content. */
static void render_content(chat_encoding_t *e, uint32_t message)
{
    uint32_t content = document_member(e->request, message, "content");
    if (content == DOCUMENT_NONE || document_kind(e->request, content) == DOCUMENT_NULL)
        return;
    if (document_kind(e->request, content) == DOCUMENT_STRING) {
        theirs(e, e->request, content);
        return;
    }
    const char *separator = "";
    for (uint32_t part = document_next(e->request, content, DOCUMENT_NONE); part != DOCUMENT_NONE;
         part = document_next(e->request, content, part)) {
        ours(e, separator);
        separator = "\n\n";
        theirs(e, e->request, document_member(e->request, part, "text"));
    }
}

/* Tools and the answer's schema, as the end of a system message. */
static void render_additions(chat_encoding_t *e)
{
    if (e->tools != DOCUMENT_NONE) {
        ours(e, "\n\n");
        ours(e, e->blocks->tools_before);
        const char *separator = "";
        for (uint32_t tool = document_next(e->request, e->tools, DOCUMENT_NONE);
             tool != DOCUMENT_NONE; tool = document_next(e->request, e->tools, tool)) {
            ours(e, separator);
            separator = "\n";
            theirs_as_python(e, e->request, document_member(e->request, tool, "function"));
        }
        ours(e, e->blocks->tools_after);
    }
    if (e->schema != DOCUMENT_NONE) {
        ours(e, "\n\n");
        ours(e, e->blocks->format_before);
        theirs_as_python(e, e->request, e->schema);
    }
}

static void render_user(chat_encoding_t *e, const chat_message_t *message)
{
    ours(e, "<｜User｜>");
    for (size_t i = 0; i < message->block_count; i++) {
        const chat_block_t *block = &e->blocks_list[message->first_block + i];
        ours(e, i == 0 ? "" : "\n\n");
        ours(e, block->tool ? "<tool_result>" : "");
        render_content(e, block->node);
        ours(e, block->tool ? "</tool_result>" : "");
    }
}

static void render_parameter(chat_encoding_t *e, const document_t *document, uint32_t key,
                             uint32_t value)
{
    bool text = document_kind(document, value) == DOCUMENT_STRING;
    ours(e, "<" DSML "parameter name=\"");
    if (key == DOCUMENT_NONE)
        ours(e, "arguments");
    else
        theirs(e, document, key);
    ours(e, text ? "\" string=\"true\">" : "\" string=\"false\">");
    if (text)
        theirs(e, document, value);
    else
        theirs_as_python(e, document, value);
    ours(e, "</" DSML "parameter>");
}

/* Arguments that are no JSON object become one parameter that holds them as they are. */
static status_t render_arguments(chat_encoding_t *e, uint32_t arguments)
{
    text_buffer_t text;
    text_buffer_init(&text, DOCUMENT_BYTES_MAX);
    document_put_string(e->request, arguments, &text);
    document_t parsed = {0};
    status_t status = text.status;
    if (status == STATUS_OK)
        status = document_parse(&parsed, DOCUMENT_PYTHON, text.bytes == NULL ? "" : text.bytes,
                                text.used);
    if (status == STATUS_OK && document_kind(&parsed, 0) == DOCUMENT_OBJECT) {
        const char *separator = "";
        for (uint32_t key = document_next(&parsed, 0, DOCUMENT_NONE); key != DOCUMENT_NONE;
             key = document_next(&parsed, 0, key)) {
            ours(e, separator);
            separator = "\n";
            render_parameter(e, &parsed, key, document_value(&parsed, key));
        }
    } else if (status == STATUS_OK || status == STATUS_INVALID) {
        render_parameter(e, e->request, DOCUMENT_NONE, arguments);
        status = STATUS_OK;
    }
    document_fini(&parsed);
    text_buffer_fini(&text);
    return status;
}

static status_t render_calls(chat_encoding_t *e, uint32_t calls)
{
    const char *separator = "\n\n<" DSML "tool_calls>\n";
    for (uint32_t call = document_next(e->request, calls, DOCUMENT_NONE); call != DOCUMENT_NONE;
         call = document_next(e->request, calls, call)) {
        uint32_t function = document_member(e->request, call, "function");
        ours(e, separator);
        separator = "\n";
        ours(e, "<" DSML "invoke name=\"");
        theirs(e, e->request, document_member(e->request, function, "name"));
        ours(e, "\">\n");
        TRY(render_arguments(e, document_member(e->request, function, "arguments")));
        ours(e, "\n</" DSML "invoke>");
    }
    if (document_next(e->request, calls, DOCUMENT_NONE) != DOCUMENT_NONE)
        ours(e, "\n</" DSML "tool_calls>");
    return STATUS_OK;
}

static bool behind_last_user(const chat_encoding_t *e, size_t index)
{
    return e->last_user == SIZE_MAX || index > e->last_user;
}

static status_t render_assistant(chat_encoding_t *e, size_t index)
{
    const chat_message_t *message = &e->messages[index];
    bool answers_task = index > 0 && e->messages[index - 1].task != 0;
    if (e->thinking && !answers_task && (!e->drop_thinking || behind_last_user(e, index))) {
        uint32_t reasoning = document_member(e->request, message->node, "reasoning_content");
        if (reasoning != DOCUMENT_NONE && document_kind(e->request, reasoning) == DOCUMENT_STRING)
            theirs(e, e->request, reasoning);
        ours(e, "</think>");
    }
    render_content(e, message->node);
    uint32_t calls = document_member(e->request, message->node, "tool_calls");
    if (calls != DOCUMENT_NONE)
        TRY(render_calls(e, calls));
    ours(e, message->open_end ? "" : "<｜end▁of▁sentence｜>");
    return STATUS_OK;
}

/* What hands over to the assistant, where it is its turn. */
static void render_turn(chat_encoding_t *e, size_t index)
{
    const chat_message_t *message = &e->messages[index];
    e->prompt->thinking_open = false;
    if (index + 1 < e->message_count && e->messages[index + 1].role != CHAT_ASSISTANT &&
        e->messages[index + 1].role != CHAT_REMINDER)
        return;
    if (message->task != 0) {
        if (strcmp(task_tokens[message->task], "<｜action｜>") == 0)
            ours(e, e->thinking ? "<｜Assistant｜><think>" : "<｜Assistant｜></think>");
        ours(e, task_tokens[message->task]);
    } else if (message->role == CHAT_USER || message->role == CHAT_DEVELOPER) {
        bool think = e->thinking && (!e->drop_thinking || index >= e->last_user);
        ours(e, think ? "<｜Assistant｜><think>" : "<｜Assistant｜></think>");
        e->prompt->thinking_open = think;
    }
}

status_t chat_render(chat_encoding_t *e)
{
    size_t with_additions = 0;
    while (with_additions < e->message_count && e->messages[with_additions].role != CHAT_SYSTEM)
        with_additions++;
    ours(e, CHAT_MARK_BEGIN);
    if (e->thinking && e->effort != NULL)
        ours(e, e->effort);
    if (with_additions == e->message_count)
        render_additions(e);
    for (size_t i = 0; i < e->message_count; i++) {
        const chat_message_t *message = &e->messages[i];
        if (message->role == CHAT_USER)
            render_user(e, message);
        else if (message->role == CHAT_ASSISTANT)
            TRY(render_assistant(e, i));
        else {
            ours(e, message->role == CHAT_DEVELOPER  ? "<｜User｜>"
                    : message->role == CHAT_REMINDER ? "<｜latest_reminder｜>"
                                                     : "");
            render_content(e, message->node);
        }
        if (i == with_additions)
            render_additions(e);
        render_turn(e, i);
    }
    if (e->prompt->text.status == STATUS_TOO_LARGE) {
        snprintf(e->refusal->param, sizeof(e->refusal->param), "messages");
        snprintf(e->refusal->reason, sizeof(e->refusal->reason), "more than %d bytes as a prompt",
                 PROMPT_BYTES_MAX);
    }
    return e->prompt->text.status;
}
