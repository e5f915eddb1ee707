/* safetensors_index.h - model.safetensors.index.json: which tensor is in which file.
 *
 * Part of safetensors.c. Strings are views into the index's text, which the caller keeps.
 */
#ifndef MODEL_SAFETENSORS_INDEX_H
#define MODEL_SAFETENSORS_INDEX_H

#include "model/json_scan.h"
#include "model/safetensors.h"

typedef struct {
    json_string_view_t name;
    uint32_t file; /* number in `files` */
} safetensors_index_entry_t;

typedef struct {
    safetensors_index_entry_t *entries;
    uint32_t count, room;
    json_string_view_t files[CHECKPOINT_SHARDS_MAX]; /* plain names, in order of first mention */
    uint32_t file_count;
} safetensors_index_t;

extern const char safetensors_index_name[];

/* Into a zeroed index. BAD_FILE with the reason; call fini in any case. */
MUST_USE status_t safetensors_index_read(const char *text, size_t size, safetensors_index_t *index);
/* Index and files, opened in the index's order and sorted by name, hold the same tensors in the same
 * places. Sorts the entries. */
MUST_USE status_t safetensors_index_check(safetensors_index_t *index, const safetensors_t *self);
void safetensors_index_fini(safetensors_index_t *index);

#endif
