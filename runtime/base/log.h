/* log.h - lines for people. A line starts with a stable id in capitals, then key=value.
 *
 * error, warn: rare. info: start, stop, topology. debug: grows with requests. trace: grows with messages.
 * Thread safe (one write per line). Prompts and answers never go into a line.
 */
#ifndef RUNTIME_BASE_LOG_H
#define RUNTIME_BASE_LOG_H

#include <stdbool.h>

#include "runtime/base/check.h"

typedef enum { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE } log_level_t;

enum { LOG_LINE_BYTES_MAX = 1024 };

/* Where lines go (a descriptor, not owned; 2 at first) and which name stands in front of each ("" at first). */
void log_open(int descriptor, const char *name);
/* Another name for the lines of this thread, where one process runs several actors. */
void log_thread_name_set(const char *name);
void log_level_set(log_level_t level);
bool log_wants(log_level_t level);
/* "error" ... "trace"; false if `text` names none. */
bool log_level_parse(const char *text, log_level_t *level);
void log_write(log_level_t level, const char *format, ...) PRINTF_LIKE(2, 3);

#define LOG(level, ...)                                                                            \
    do {                                                                                           \
        if (log_wants(LOG_##level))                                                                \
            log_write(LOG_##level, __VA_ARGS__);                                                   \
    } while (0)

#endif
