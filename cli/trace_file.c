#include "cli/trace_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/text_buffer.h"

enum { TRACE_HEADER_BYTES_MAX = TRACE_TENSORS_MAX * 256 };

status_t trace_file_init(trace_file_t *trace)
{
    *trace = (trace_file_t){.tensors = calloc(TRACE_TENSORS_MAX, sizeof(trace_tensor_t))};
    if (!trace->tensors)
        return FAIL(STATUS_NO_MEMORY, "no memory for a trace");
    return STATUS_OK;
}

void trace_file_fini(trace_file_t *trace)
{
    for (uint32_t i = 0; i < trace->count; i++)
        free(trace->tensors[i].bytes);
    free(trace->tensors);
    *trace = (trace_file_t){0};
}

static size_t tensor_bytes(const trace_tensor_t *tensor)
{
    return (size_t)tensor->rows * tensor->width * (tensor->kind == TRACE_U8 ? 1 : 4);
}

void trace_file_note(void *context, const char *name, forward_trace_kind_t kind, uint32_t rows,
                     uint32_t width, const void *values)
{
    trace_file_t *trace = context;
    trace_tensor_t tensor = {.kind = kind, .rows = rows, .width = width};

    snprintf(tensor.name, sizeof(tensor.name), "%s", name);
    tensor.bytes = malloc(tensor_bytes(&tensor) + 1);
    if (!tensor.bytes || trace->count == TRACE_TENSORS_MAX) {
        trace->full = true;
        free(tensor.bytes);
        return;
    }
    memcpy(tensor.bytes, values, tensor_bytes(&tensor));
    trace->tensors[trace->count++] = tensor;
}

/* Numbers of four bytes come first, so that all are aligned. */
static int compare_kinds(const void *a, const void *b)
{
    const trace_tensor_t *x = a, *y = b;
    int late = (x->kind == TRACE_U8) - (y->kind == TRACE_U8);
    return late ? late : strcmp(x->name, y->name);
}

static void put_header(const trace_file_t *trace, text_buffer_t *header)
{
    static const char *const names[] = {"F32", "I32", "U8"};
    size_t at = 0;
    char text[384];

    text_put_text(header, "{");
    for (uint32_t i = 0; i < trace->count; i++) {
        const trace_tensor_t *t = &trace->tensors[i];
        snprintf(text, sizeof(text),
                 "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%u,%u],\"data_offsets\":[%zu,%zu]}",
                 i ? "," : "", t->name, names[t->kind], t->rows, t->width, at,
                 at + tensor_bytes(t));
        text_put_text(header, text);
        at += tensor_bytes(t);
    }
    text_put_text(header, "}");
    while (header->used % 8 && header->status == STATUS_OK)
        text_put_text(header, " ");
}

static status_t write_all(const trace_file_t *trace, const text_buffer_t *header, FILE *file)
{
    uint64_t length = header->used;
    bool good = fwrite(&length, sizeof(length), 1, file) == 1 &&
                fwrite(header->bytes, 1, header->used, file) == header->used;

    for (uint32_t i = 0; good && i < trace->count; i++) {
        size_t bytes = tensor_bytes(&trace->tensors[i]);
        good = fwrite(trace->tensors[i].bytes, 1, bytes, file) == bytes;
    }
    return good ? STATUS_OK : FAIL(STATUS_IO, "writing failed: %m");
}

status_t trace_file_write(const trace_file_t *trace, const char *path)
{
    text_buffer_t header;
    status_t status;
    FILE *file;

    if (trace->full)
        return FAIL(STATUS_NO_MEMORY, "the trace does not fit");
    qsort(trace->tensors, trace->count, sizeof(trace->tensors[0]), compare_kinds);
    text_buffer_init(&header, TRACE_HEADER_BYTES_MAX);
    put_header(trace, &header);
    status = header.status;
    file = status == STATUS_OK ? fopen(path, "wb") : NULL;
    if (status == STATUS_OK && !file)
        status = FAIL(STATUS_IO, "cannot write %s: %m", path);
    if (file) {
        status = write_all(trace, &header, file);
        if (fclose(file) != 0 && status == STATUS_OK)
            status = FAIL(STATUS_IO, "cannot write %s: %m", path);
    }
    text_buffer_fini(&header);
    return status;
}
