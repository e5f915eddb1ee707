/* chat_parts.h - what one encoding holds. For chat.c and chat_render.c only. */
#ifndef MODEL_CHAT_PARTS_H
#define MODEL_CHAT_PARTS_H

#include "model/chat.h"

typedef enum {
    CHAT_SYSTEM,
    CHAT_DEVELOPER,
    CHAT_USER,
    CHAT_ASSISTANT,
    CHAT_TOOL, /* only before merging */
    CHAT_REMINDER
} chat_role_t;

/* A part of a user message: a text or a tool's result. */
typedef struct {
    uint32_t node; /* the message it was */
    bool tool;
    unsigned order;
} chat_block_t;

/* The id of a call, as characters. */
typedef struct {
    size_t length;
    char bytes[CHAT_CALL_ID_BYTES_MAX];
} chat_id_t;

/* After merging. */
typedef struct {
    uint32_t node;
    unsigned role;
    unsigned task; /* 0: none */
    bool open_end; /* no EOS behind it: the answer continues it */
    size_t first_block;
    size_t block_count; /* of a user message */
} chat_message_t;

typedef struct {
    const chat_blocks_t *blocks;
    const document_t *request;
    chat_prompt_t *prompt;
    chat_refusal_t *refusal;
    bool thinking;
    bool drop_thinking;
    const char *effort; /* its block, or NULL */
    uint32_t tools;     /* to be rendered, or DOCUMENT_NONE */
    uint32_t schema;
    chat_message_t *messages;
    size_t message_count;
    chat_block_t *blocks_list;
    size_t block_count;
    chat_id_t *call_ids; /* of the last message with calls */
    unsigned call_count;
    size_t last_user; /* SIZE_MAX: none */
} chat_encoding_t;

MUST_USE status_t chat_refuse(chat_encoding_t *e, const char *reason, const char *param, ...)
    PRINTF_LIKE(3, 4);
MUST_USE status_t chat_render(chat_encoding_t *e);

#endif
