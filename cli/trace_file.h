/* trace_file.h - intermediates of one prompt, gathered and written as a safetensors file.
 *
 * Names and shapes are those of tests/golden/numbers/README.md, with a row for every position.
 */
#ifndef CLI_TRACE_FILE_H
#define CLI_TRACE_FILE_H

#include "model/forward.h"

enum { TRACE_TENSORS_MAX = 8192 };

typedef struct {
    char name[128];
    forward_trace_kind_t kind;
    uint32_t rows, width;
    void *bytes;
} trace_tensor_t;

typedef struct {
    trace_tensor_t *tensors;
    uint32_t count;
    bool full; /* something did not fit: writing fails */
} trace_file_t;

MUST_USE status_t trace_file_init(trace_file_t *trace);
void trace_file_fini(trace_file_t *trace);
/* As forward_trace_t wants it; the context is the trace_file_t. */
void trace_file_note(void *context, const char *name, forward_trace_kind_t kind, uint32_t rows,
                     uint32_t width, const void *values);
MUST_USE status_t trace_file_write(const trace_file_t *trace, const char *path);

#endif
