/* checkpoint.h - the files beside the weights that serving needs, read and held to config.json.
 *
 * Whoever can open these can answer a chat: commands look before a start, a gateway when it starts.
 */
#ifndef MODEL_CHECKPOINT_H
#define MODEL_CHECKPOINT_H

#include "model/chat_blocks.h"
#include "model/config.h"
#include "model/tokenizer.h"

typedef struct {
    model_generation_t generation; /* generation_config.json, or what counts without one */
    tokenizer_t *tokenizer;        /* tokenizer.json */
    chat_blocks_t blocks;          /* chat_blocks.json or encoding/encoding_dsv4.py */
} checkpoint_t;

/* BAD_FILE, BAD_CONFIG or NOT_FOUND with file and place if one cannot be read or does not go with the
 * others: end tokens within the vocabulary, no more token ids than the model has rows for, and every
 * mark of the chat format one token. Owner closes. */
MUST_USE status_t checkpoint_open(const char *folder, const model_config_t *config,
                                  checkpoint_t *checkpoint);
void checkpoint_close(checkpoint_t *checkpoint);
/* The same, opened and closed. */
MUST_USE status_t checkpoint_check(const char *folder, const model_config_t *config);

#endif
