/* chat_blocks.h - the fixed texts of the chat format. They belong to the checkpoint, not to us.
 *
 * Two sources, in this order: chat_blocks.json beside the model, or the release's own encoder,
 * encoding/encoding_dsv4.py, from which they are cut out and proven by digest.
 */
#ifndef MODEL_CHAT_BLOCKS_H
#define MODEL_CHAT_BLOCKS_H

#include <stddef.h>

#include "runtime/base/limits.h"
#include "runtime/base/status.h"

typedef struct {
    char *name; /* of an effort, "max" */
    char *text; /* right behind BOS when thinking with it */
} chat_effort_t;

typedef struct {
    chat_effort_t efforts[CHAT_EFFORTS_MAX];
    size_t effort_count;
    char *tools_before; /* around the list of tool schemas */
    char *tools_after;
    char *format_before; /* in front of the schema of the answer */
} chat_blocks_t;

/* NOT_FOUND if neither source is there; BAD_FILE if the first that is there is not what it must be, with
 * its path and the place in it. */
MUST_USE status_t chat_blocks_open(const char *model_folder, chat_blocks_t *blocks);
void chat_blocks_close(chat_blocks_t *blocks);

/* Cuts the blocks out of the text of an encoder; does not look at digests. */
MUST_USE status_t chat_blocks_extract(const char *source, size_t length, chat_blocks_t *blocks);
/* BAD_FILE unless all four are the release's, by SHA-256. */
MUST_USE status_t chat_blocks_prove(const chat_blocks_t *blocks);

#endif
