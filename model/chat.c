/* chat.c - see chat.h.
 *
 * Three passes over the messages, as the release's encoder does it:
 *
 *   merge    tool messages become blocks of user messages, neighbouring user messages become one
 *   settle   tool results get the order of the calls; old reasoning and developer messages go
 *   render   role by role, with the assistant's tag where it is the assistant's turn
 */
#include "model/chat.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "model/chat_parts.h"
#include "model/utf8.h"

static const char *const role_names[] = {"system",    "developer", "user",
                                         "assistant", "tool",      "latest_reminder"};

static const char *const task_names[] = {NULL,     "action", "query",   "authority",
                                         "domain", "title",  "read_url"};

status_t chat_refuse(chat_encoding_t *e, const char *reason, const char *param, ...)
{
    va_list arguments;
    va_start(arguments, param);
    vsnprintf(e->refusal->param, sizeof(e->refusal->param), param, arguments);
    va_end(arguments);
    snprintf(e->refusal->reason, sizeof(e->refusal->reason), "%s", reason);
    return FAIL(STATUS_INVALID, "%s: %s", e->refusal->param, e->refusal->reason);
}

/* A parameter of the request that is there and not null, or DOCUMENT_NONE. */
static uint32_t parameter(const chat_encoding_t *e, const char *key)
{
    uint32_t node = document_member(e->request, 0, key);
    return node != DOCUMENT_NONE && document_kind(e->request, node) == DOCUMENT_NULL ? DOCUMENT_NONE
                                                                                     : node;
}

/* The same of an object inside; of nothing it is nothing. */
static uint32_t member(const chat_encoding_t *e, uint32_t object, const char *key)
{
    if (object == DOCUMENT_NONE)
        return DOCUMENT_NONE;
    uint32_t node = document_member(e->request, object, key);
    return node != DOCUMENT_NONE && document_kind(e->request, node) == DOCUMENT_NULL ? DOCUMENT_NONE
                                                                                     : node;
}

static bool is(const chat_encoding_t *e, uint32_t node, document_kind_t kind)
{
    return node != DOCUMENT_NONE && document_kind(e->request, node) == kind;
}

/* Leaves *flag alone if there is nothing. */
static status_t read_flag(chat_encoding_t *e, uint32_t node, const char *param, bool *flag)
{
    if (node == DOCUMENT_NONE)
        return STATUS_OK;
    if (!is(e, node, DOCUMENT_TRUE) && !is(e, node, DOCUMENT_FALSE))
        return chat_refuse(e, "must be true or false", "%s", param);
    *flag = is(e, node, DOCUMENT_TRUE);
    return STATUS_OK;
}

/* An effort without a block adds nothing. */
static void set_thinking(chat_encoding_t *e, const chat_thinking_t *thinking)
{
    e->thinking = thinking->on;
    for (size_t i = 0; thinking->max && i < e->blocks->effort_count; i++) {
        if (strcmp(e->blocks->efforts[i].name, "max") == 0)
            e->effort = e->blocks->efforts[i].text;
    }
}

static status_t read_tool_choice(chat_encoding_t *e, bool *none)
{
    uint32_t choice = parameter(e, "tool_choice");
    *none = false;
    if (choice == DOCUMENT_NONE)
        return STATUS_OK;
    *none = document_equals(e->request, choice, "none");
    if (*none || document_equals(e->request, choice, "auto") ||
        document_equals(e->request, choice, "required"))
        return STATUS_OK;
    uint32_t function = member(e, choice, "function");
    if (!is(e, function, DOCUMENT_OBJECT) || !is(e, member(e, function, "name"), DOCUMENT_STRING))
        return chat_refuse(e, "must be \"none\", \"auto\", \"required\" or name a function",
                           "tool_choice");
    return STATUS_OK;
}

static status_t read_tools(chat_encoding_t *e)
{
    bool none;
    TRY(read_tool_choice(e, &none));
    uint32_t tools = parameter(e, "tools");
    if (tools == DOCUMENT_NONE)
        return STATUS_OK;
    if (!is(e, tools, DOCUMENT_ARRAY))
        return chat_refuse(e, "must be an array", "tools");
    unsigned index = 0;
    for (uint32_t tool = document_next(e->request, tools, DOCUMENT_NONE); tool != DOCUMENT_NONE;
         tool = document_next(e->request, tools, tool), index++) {
        uint32_t type = member(e, tool, "type"), function = member(e, tool, "function");
        if (type != DOCUMENT_NONE && !document_equals(e->request, type, "function"))
            return chat_refuse(e, "must be \"function\"", "tools[%u].type", index);
        if (!is(e, function, DOCUMENT_OBJECT))
            return chat_refuse(e, "must be an object", "tools[%u].function", index);
        if (!is(e, member(e, function, "name"), DOCUMENT_STRING))
            return chat_refuse(e, "must be a string", "tools[%u].function.name", index);
        if (document_equals(e->request, member(e, function, "name"), ""))
            return chat_refuse(e, "must not be empty", "tools[%u].function.name", index);
    }
    e->tools = index > 0 && !none ? tools : DOCUMENT_NONE;
    return STATUS_OK;
}

static status_t read_response_format(chat_encoding_t *e)
{
    uint32_t format = parameter(e, "response_format");
    if (format == DOCUMENT_NONE)
        return STATUS_OK;
    uint32_t type = member(e, format, "type");
    if (type == DOCUMENT_NONE)
        return chat_refuse(e, "must be an object with a type", "response_format");
    if (document_equals(e->request, type, "text") ||
        document_equals(e->request, type, "json_object"))
        return STATUS_OK;
    if (!document_equals(e->request, type, "json_schema"))
        return chat_refuse(e, "must be \"text\", \"json_object\" or \"json_schema\"",
                           "response_format.type");
    uint32_t schema = member(e, member(e, format, "json_schema"), "schema");
    if (!is(e, schema, DOCUMENT_OBJECT))
        return chat_refuse(e, "must be an object", "response_format.json_schema.schema");
    if (document_next(e->request, schema, DOCUMENT_NONE) != DOCUMENT_NONE)
        e->schema = schema; /* an empty one asks for nothing */
    return STATUS_OK;
}

/* Text, or an array of text parts. */
static status_t check_content(chat_encoding_t *e, uint32_t message, unsigned index, bool needed)
{
    uint32_t content = member(e, message, "content");
    if (content == DOCUMENT_NONE && !needed)
        return STATUS_OK;
    if (is(e, content, DOCUMENT_STRING))
        return STATUS_OK;
    if (!is(e, content, DOCUMENT_ARRAY))
        return chat_refuse(e, "must be a string or an array of text parts", "messages[%u].content",
                           index);
    unsigned part_index = 0;
    for (uint32_t part = document_next(e->request, content, DOCUMENT_NONE); part != DOCUMENT_NONE;
         part = document_next(e->request, content, part), part_index++) {
        uint32_t type = member(e, part, "type");
        if (type == DOCUMENT_NONE || !document_equals(e->request, type, "text"))
            return chat_refuse(e, "must be \"text\"", "messages[%u].content[%u].type", index,
                               part_index);
        if (!is(e, member(e, part, "text"), DOCUMENT_STRING))
            return chat_refuse(e, "must be a string", "messages[%u].content[%u].text", index,
                               part_index);
    }
    return STATUS_OK;
}

/* The text of an id; empty if there is none. False if it is not text or too long. */
static bool read_id(const chat_encoding_t *e, uint32_t node, chat_id_t *id)
{
    id->length = 0;
    if (node == DOCUMENT_NONE)
        return true;
    if (!is(e, node, DOCUMENT_STRING))
        return false;
    size_t end = e->request->nodes[node].end - 1;
    for (size_t at = e->request->nodes[node].start + 1; at < end;) {
        if (id->length + 4 > sizeof(id->bytes))
            return false;
        id->length += utf8_write(document_character(e->request, &at), id->bytes + id->length);
    }
    return true;
}

static status_t check_tool_calls(chat_encoding_t *e, uint32_t calls, unsigned index)
{
    if (calls == DOCUMENT_NONE)
        return STATUS_OK;
    if (!is(e, calls, DOCUMENT_ARRAY))
        return chat_refuse(e, "must be an array", "messages[%u].tool_calls", index);
    unsigned call_index = 0;
    for (uint32_t call = document_next(e->request, calls, DOCUMENT_NONE); call != DOCUMENT_NONE;
         call = document_next(e->request, calls, call), call_index++) {
        if (call_index == CHAT_CALLS_MAX)
            return chat_refuse(e, "has too many calls", "messages[%u].tool_calls", index);
        uint32_t function = member(e, call, "function");
        chat_id_t id;
        if (!read_id(e, member(e, call, "id"), &id))
            return chat_refuse(e, "must be a short string", "messages[%u].tool_calls[%u].id", index,
                               call_index);
        if (!is(e, member(e, function, "name"), DOCUMENT_STRING))
            return chat_refuse(e, "must be a string", "messages[%u].tool_calls[%u].function.name",
                               index, call_index);
        if (!is(e, member(e, function, "arguments"), DOCUMENT_STRING))
            return chat_refuse(e, "must be a string",
                               "messages[%u].tool_calls[%u].function.arguments", index, call_index);
    }
    return STATUS_OK;
}

static status_t read_task(chat_encoding_t *e, uint32_t message, unsigned index, unsigned *task)
{
    uint32_t node = member(e, message, "task");
    *task = 0;
    if (node == DOCUMENT_NONE)
        return STATUS_OK;
    for (unsigned i = 1; i < COUNT_OF(task_names); i++) {
        if (document_equals(e->request, node, task_names[i])) {
            *task = i;
            return STATUS_OK;
        }
    }
    return chat_refuse(e, "must be action, query, authority, domain, title or read_url",
                       "messages[%u].task", index);
}

/* Checks one message and appends it, or its blocks to the user message before it. */
static status_t merge_message(chat_encoding_t *e, uint32_t node, unsigned index)
{
    if (!is(e, node, DOCUMENT_OBJECT))
        return chat_refuse(e, "must be an object", "messages[%u]", index);
    uint32_t role_node = member(e, node, "role");
    unsigned role = 0;
    while (
        role < COUNT_OF(role_names) &&
        (role_node == DOCUMENT_NONE || !document_equals(e->request, role_node, role_names[role])))
        role++;
    if (role == COUNT_OF(role_names))
        return chat_refuse(e, "must be system, developer, user, assistant, tool or latest_reminder",
                           "messages[%u].role", index);
    TRY(check_content(e, node, index, role == CHAT_USER || role == CHAT_DEVELOPER));
    chat_message_t message = {.node = node, .role = role, .first_block = e->block_count};
    TRY(read_task(e, node, index, &message.task));
    if (role == CHAT_ASSISTANT) {
        TRY(check_tool_calls(e, member(e, node, "tool_calls"), index));
        uint32_t reasoning = member(e, node, "reasoning_content");
        if (reasoning != DOCUMENT_NONE && !is(e, reasoning, DOCUMENT_STRING))
            return chat_refuse(e, "must be a string", "messages[%u].reasoning_content", index);
        char param[48];
        snprintf(param, sizeof(param), "messages[%u].wo_eos", index);
        TRY(read_flag(e, member(e, node, "wo_eos"), param, &message.open_end));
    }
    chat_id_t id;
    if (role == CHAT_TOOL && !read_id(e, member(e, node, "tool_call_id"), &id))
        return chat_refuse(e, "must be a short string", "messages[%u].tool_call_id", index);
    if (role == CHAT_USER || role == CHAT_TOOL) {
        chat_message_t *last = e->message_count > 0 ? &e->messages[e->message_count - 1] : NULL;
        e->blocks_list[e->block_count++] = (chat_block_t){.node = node, .tool = role == CHAT_TOOL};
        if (last != NULL && last->role == CHAT_USER && (role == CHAT_TOOL || last->task == 0)) {
            last->block_count++;
            return STATUS_OK;
        }
        message.block_count = 1;
        message.role = CHAT_USER;
        if (role == CHAT_TOOL)
            message.task = 0;
    }
    e->messages[e->message_count++] = message;
    return STATUS_OK;
}

static status_t merge_messages(chat_encoding_t *e)
{
    uint32_t messages = parameter(e, "messages");
    uint32_t first = messages == DOCUMENT_NONE ? DOCUMENT_NONE
                                               : document_next(e->request, messages, DOCUMENT_NONE);
    if (!is(e, messages, DOCUMENT_ARRAY) || first == DOCUMENT_NONE)
        return chat_refuse(e, "must be an array with at least one message", "messages");
    size_t count = 0;
    for (uint32_t node = first; node != DOCUMENT_NONE;
         node = document_next(e->request, messages, node))
        count++;
    if (count > CHAT_MESSAGES_MAX)
        return chat_refuse(e, "has too many messages", "messages");
    e->messages = calloc(count, sizeof(*e->messages));
    e->blocks_list = calloc(count, sizeof(*e->blocks_list));
    e->call_ids = calloc(CHAT_CALLS_MAX, sizeof(*e->call_ids));
    if (e->messages == NULL || e->blocks_list == NULL || e->call_ids == NULL)
        return FAIL(STATUS_NO_MEMORY, "%zu messages", count);
    unsigned index = 0;
    for (uint32_t node = first; node != DOCUMENT_NONE;
         node = document_next(e->request, messages, node), index++)
        TRY(merge_message(e, node, index));
    return STATUS_OK;
}

/* The ids of calls that later results answer. */
static void remember_calls(chat_encoding_t *e, uint32_t calls)
{
    e->call_count = 0;
    for (uint32_t call = document_next(e->request, calls, DOCUMENT_NONE); call != DOCUMENT_NONE;
         call = document_next(e->request, calls, call))
        ASSERT(read_id(e, member(e, call, "id"), &e->call_ids[e->call_count++]));
}

/* The place of a tool result among the calls that it answers; 0 if none has its id. */
static unsigned call_order(const chat_encoding_t *e, uint32_t result)
{
    chat_id_t id;
    unsigned order = 0;
    ASSERT(read_id(e, member(e, result, "tool_call_id"), &id));
    for (unsigned i = 0; i < e->call_count; i++) {
        if (e->call_ids[i].length == id.length && id.length > 0 &&
            memcmp(e->call_ids[i].bytes, id.bytes, id.length) == 0)
            order = i;
    }
    return order;
}

static int compare_blocks(const void *a, const void *b)
{
    const chat_block_t *left = a, *right = b;
    if (left->order != right->order)
        return left->order < right->order ? -1 : 1;
    return left->node < right->node ? -1 : 1;
}

/* Tool results take the order of the calls; text between them stays where it is. */
static status_t sort_results(chat_encoding_t *e, const chat_message_t *message)
{
    chat_block_t *blocks = e->blocks_list + message->first_block;
    chat_block_t *results = calloc(message->block_count, sizeof(*results));
    if (results == NULL)
        return FAIL(STATUS_NO_MEMORY, "%zu blocks", message->block_count);
    size_t count = 0;
    for (size_t i = 0; i < message->block_count; i++) {
        if (blocks[i].tool) {
            results[count] = blocks[i];
            results[count++].order = call_order(e, blocks[i].node);
        }
    }
    qsort(results, count, sizeof(*results), compare_blocks);
    count = 0;
    for (size_t i = 0; i < message->block_count; i++) {
        if (blocks[i].tool)
            blocks[i] = results[count++];
    }
    free(results);
    return STATUS_OK;
}

static size_t find_last_user(const chat_encoding_t *e)
{
    for (size_t i = e->message_count; i > 0; i--) {
        if (e->messages[i - 1].role == CHAT_USER || e->messages[i - 1].role == CHAT_DEVELOPER)
            return i - 1;
    }
    return SIZE_MAX; /* none: every message comes behind it */
}

static status_t settle(chat_encoding_t *e)
{
    for (size_t i = 0; i < e->message_count; i++) {
        uint32_t calls = e->messages[i].role == CHAT_ASSISTANT
                             ? member(e, e->messages[i].node, "tool_calls")
                             : DOCUMENT_NONE;
        if (calls != DOCUMENT_NONE && document_next(e->request, calls, DOCUMENT_NONE) != 0)
            remember_calls(e, calls);
        if (e->messages[i].block_count > 1)
            TRY(sort_results(e, &e->messages[i]));
    }
    size_t last_user = find_last_user(e);
    if (e->thinking && e->drop_thinking && last_user != SIZE_MAX) {
        size_t kept = 0;
        for (size_t i = 0; i < e->message_count; i++) {
            if (e->messages[i].role != CHAT_DEVELOPER || i >= last_user)
                e->messages[kept++] = e->messages[i];
        }
        e->message_count = kept;
    }
    e->last_user = find_last_user(e);
    return STATUS_OK;
}

static status_t encode(chat_encoding_t *e)
{
    if (document_kind(e->request, 0) != DOCUMENT_OBJECT)
        return chat_refuse(e, "must be a JSON object", "body");
    TRY(read_tools(e));
    TRY(read_response_format(e));
    e->drop_thinking = true;
    TRY(read_flag(e, parameter(e, "drop_thinking"), "drop_thinking", &e->drop_thinking));
    if (e->tools != DOCUMENT_NONE)
        e->drop_thinking = false; /* reasoning between calls belongs to the task */
    TRY(merge_messages(e));
    TRY(settle(e));
    return chat_render(e);
}

status_t chat_encode(const chat_blocks_t *blocks, const document_t *request,
                     const chat_thinking_t *thinking, chat_prompt_t *prompt,
                     chat_refusal_t *refusal)
{
    *prompt = (chat_prompt_t){0};
    *refusal = (chat_refusal_t){0};
    text_buffer_init(&prompt->text, PROMPT_BYTES_MAX);
    chat_encoding_t e = {
        .blocks = blocks, .request = request, .prompt = prompt, .refusal = refusal};
    set_thinking(&e, thinking);
    status_t status = encode(&e);
    free(e.messages);
    free(e.blocks_list);
    free(e.call_ids);
    prompt->tools = e.tools != DOCUMENT_NONE;
    return status;
}

void chat_prompt_fini(chat_prompt_t *prompt)
{
    text_buffer_fini(&prompt->text);
    free(prompt->spans);
    *prompt = (chat_prompt_t){0};
}
