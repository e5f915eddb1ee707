/* checkpoint.c - see checkpoint.h. */
#include "model/checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "model/chat.h"

static status_t check_generation(const model_generation_t *generation, const model_config_t *config)
{
    for (uint32_t i = 0; i < generation->eos_count; i++)
        if (generation->eos_tokens[i] >= config->vocabulary)
            return FAIL(STATUS_BAD_CONFIG,
                        "generation_config.json: eos_token_id: expected less than the %u of "
                        "config.json's vocab_size, found %u",
                        config->vocabulary, generation->eos_tokens[i]);
    return STATUS_OK;
}

static status_t check_tokenizer(const tokenizer_t *tokenizer, const model_config_t *config)
{
    uint32_t id;

    if (tokenizer_id_count(tokenizer) > config->vocabulary)
        return FAIL(STATUS_BAD_FILE,
                    "tokenizer.json: ids go up to %u, config.json's vocab_size is %u",
                    tokenizer_id_count(tokenizer) - 1, config->vocabulary);
    for (size_t i = 0; chat_marks[i] != NULL; i++)
        if (tokenizer_find_added(tokenizer, chat_marks[i], &id) != STATUS_OK)
            return FAIL(STATUS_BAD_FILE,
                        "tokenizer.json: added_tokens has no %s, which the chat format needs",
                        chat_marks[i]);
    TRY(tokenizer_find_added(tokenizer, CHAT_MARK_BEGIN, &id));
    if (id != config->bos_token)
        return FAIL(STATUS_BAD_FILE, "tokenizer.json: %s is %u, config.json's bos_token_id is %u",
                    CHAT_MARK_BEGIN, id, config->bos_token);
    return STATUS_OK;
}

static status_t open_all(const char *folder, const model_config_t *config, checkpoint_t *checkpoint)
{
    char path[PATH_BYTES_MAX + 32];

    TRY(model_generation_load(folder, &checkpoint->generation));
    TRY(check_generation(&checkpoint->generation, config));
    if (snprintf(path, sizeof(path), "%s/tokenizer.json", folder) >= (int)sizeof(path))
        return FAIL(STATUS_TOO_LARGE, "the path of the model folder is too long");
    TRY(tokenizer_open(path, &checkpoint->tokenizer));
    TRY(check_tokenizer(checkpoint->tokenizer, config));
    return chat_blocks_open(folder, &checkpoint->blocks);
}

status_t checkpoint_open(const char *folder, const model_config_t *config, checkpoint_t *checkpoint)
{
    status_t status;

    *checkpoint = (checkpoint_t){0};
    status = open_all(folder, config, checkpoint);
    if (status != STATUS_OK)
        checkpoint_close(checkpoint);
    return status;
}

void checkpoint_close(checkpoint_t *checkpoint)
{
    tokenizer_close(checkpoint->tokenizer);
    chat_blocks_close(&checkpoint->blocks);
    *checkpoint = (checkpoint_t){0};
}

status_t checkpoint_check(const char *folder, const model_config_t *config)
{
    checkpoint_t checkpoint;

    TRY(checkpoint_open(folder, config, &checkpoint));
    checkpoint_close(&checkpoint);
    return STATUS_OK;
}
