/* safetensors.h - a checkpoint in safetensors files, mapped read-only.
 *
 * The files are foreign: lengths, offsets, names and shapes are checked against each other and
 * against the file's size before anything is used, with arithmetic that cannot overflow, and memory
 * grows with what the header holds, never with what it claims. Tensors must cover the file exactly:
 * no holes, no overlaps, nothing behind the last. A file that is cut short while it is mapped kills
 * the process (SIGBUS); files must not change under the engine.
 */
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/limits.h"
#include "runtime/base/status.h"

/*    name      bytes of an element */
#define TENSOR_DTYPE_TABLE(D)                                                                      \
    D(BOOL, 1)                                                                                     \
    D(U8, 1)                                                                                       \
    D(I8, 1)                                                                                       \
    D(F8_E4M3, 1)                                                                                  \
    D(F8_E5M2, 1)                                                                                  \
    D(F8_E8M0, 1)                                                                                  \
    D(I16, 2)                                                                                      \
    D(U16, 2)                                                                                      \
    D(F16, 2)                                                                                      \
    D(BF16, 2)                                                                                     \
    D(I32, 4)                                                                                      \
    D(U32, 4)                                                                                      \
    D(F32, 4)                                                                                      \
    D(I64, 8)                                                                                      \
    D(U64, 8)                                                                                      \
    D(F64, 8)

typedef enum {
#define TENSOR_DTYPE_ENUM(name, bytes) TENSOR_##name,
    TENSOR_DTYPE_TABLE(TENSOR_DTYPE_ENUM)
#undef TENSOR_DTYPE_ENUM
        TENSOR_DTYPE_COUNT
} tensor_dtype_t;

typedef struct {
    const char *name; /* printable ASCII, ends with NUL */
    tensor_dtype_t dtype;
    uint32_t rank; /* 0: a single number */
    uint64_t shape[TENSOR_RANK_MAX];
    uint64_t bytes;
    const uint8_t *data; /* any alignment */
    uint32_t file;       /* number of the shard */
} tensor_view_t;

typedef struct {
    char *name; /* within the folder */
    const uint8_t *bytes;
    uint64_t size;
    uint64_t header_bytes;
    char *names; /* of its tensors */
} safetensors_file_t;

/* Open for reading; tensors are sorted by name. */
typedef struct {
    safetensors_file_t *files;
    uint32_t file_count;
    tensor_view_t *tensors;
    uint32_t tensor_count;
    uint32_t tensor_room;
} safetensors_t;

const char *tensor_dtype_name(tensor_dtype_t dtype);
uint32_t tensor_dtype_bytes(tensor_dtype_t dtype);
/* Writes like "BF16 [512, 128]"; always ends with NUL. */
void tensor_describe(const tensor_view_t *tensor, char *text, size_t size);

/* One file. BAD_FILE with path, tensor and reason; IO; NO_MEMORY. Closed again after a failure. */
MUST_USE status_t safetensors_open_file(safetensors_t *self, const char *path);
/* FOLDER/model.safetensors.index.json and the shards it names, or FOLDER/model.safetensors. Index
 * and shards must name the same tensors, each once. */
MUST_USE status_t safetensors_open(safetensors_t *self, const char *folder);
void safetensors_close(safetensors_t *self);

/* NULL if there is none. */
const tensor_view_t *safetensors_find(const safetensors_t *self, const char *name);

#endif
