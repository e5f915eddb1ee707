#include "runtime/base/status.h"

#include <stdarg.h>

typedef struct {
    const char *name;
    status_class_t class;
    const char *text;
} status_row_t;

static const status_row_t rows[STATUS_COUNT] = {
#define STATUS_ROW(name, class, text) { #name, CLASS_##class, text },
    STATUS_TABLE(STATUS_ROW)
#undef STATUS_ROW
};

typedef struct {
    status_t status;
    const char *function;
    int line;
} trail_frame_t;

static _Thread_local struct {
    char text[TRAIL_TEXT_MAX];
    trail_frame_t frames[TRAIL_FRAMES_MAX];
    size_t frame_count; /* also counts frames beyond the last one kept */
} trail;

static const status_row_t *row_of(status_t status)
{
    ASSERT((size_t)status < STATUS_COUNT);
    return &rows[status];
}

const char *status_name(status_t status)
{
    return row_of(status)->name;
}

const char *status_text(status_t status)
{
    return row_of(status)->text;
}

status_class_t status_class(status_t status)
{
    return row_of(status)->class;
}

static void trail_push(status_t status, const char *function, int line)
{
    if (trail.frame_count < TRAIL_FRAMES_MAX)
        trail.frames[trail.frame_count] = (trail_frame_t){ status, function, line };
    trail.frame_count++;
}

status_t trail_fail(status_t status, const char *function, int line, const char *format, ...)
{
    va_list arguments;

    ASSERT(status != STATUS_OK);
    trail.frame_count = 0;
    va_start(arguments, format);
    vsnprintf(trail.text, sizeof(trail.text), format, arguments);
    va_end(arguments);
    trail_push(status, function, line);
    return status;
}

status_t trail_pass(status_t status, const char *function, int line)
{
    ASSERT(status != STATUS_OK);
    trail_push(status, function, line);
    return status;
}

void trail_reset(void)
{
    trail.text[0] = '\0';
    trail.frame_count = 0;
}

const char *trail_text(void)
{
    return trail.text;
}

void trail_print(FILE *out)
{
    for (size_t i = 0; i < trail.frame_count && i < TRAIL_FRAMES_MAX; i++) {
        const trail_frame_t *frame = &trail.frames[i];

        fprintf(out, "%s %s:%d%s%s\n", status_name(frame->status), frame->function, frame->line,
                i == 0 ? " " : "", i == 0 ? trail.text : "");
    }
    if (trail.frame_count > TRAIL_FRAMES_MAX)
        fprintf(out, "... %zu more frames\n", trail.frame_count - TRAIL_FRAMES_MAX);
}
