#include "runtime/base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *const level_names[] = { "error", "warn", "info", "debug", "trace" };

static int log_descriptor = 2;
static char log_name[64];
static _Thread_local char log_thread_name[64];
static log_level_t log_level = LOG_INFO;

void log_open(int descriptor, const char *name)
{
    log_descriptor = descriptor;
    snprintf(log_name, sizeof(log_name), "%s", name);
}

void log_thread_name_set(const char *name)
{
    snprintf(log_thread_name, sizeof(log_thread_name), "%s", name);
}

void log_level_set(log_level_t level)
{
    log_level = level;
}

bool log_wants(log_level_t level)
{
    return level <= log_level;
}

bool log_level_parse(const char *text, log_level_t *level)
{
    for (size_t i = 0; i < COUNT_OF(level_names); i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *level = (log_level_t)i;
            return true;
        }
    }
    return false;
}

void log_write(log_level_t level, const char *format, ...)
{
    const char *name = log_thread_name[0] ? log_thread_name : log_name;
    char line[LOG_LINE_BYTES_MAX];
    struct timespec now;
    struct tm parts;
    va_list arguments;
    size_t used;
    int written;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    used = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &parts);
    used += (size_t)snprintf(line + used, sizeof(line) - used, ".%03ldZ %-5s %s%s",
                             now.tv_nsec / 1000000, level_names[level], name,
                             name[0] ? " " : "");
    va_start(arguments, format);
    written = vsnprintf(line + used, sizeof(line) - used - 1, format, arguments);
    va_end(arguments);
    if (written > 0)
        used += (size_t)written;
    if (used > sizeof(line) - 2)
        used = sizeof(line) - 2; /* cut: a log line is bounded */
    line[used++] = '\n';
    if (write(log_descriptor, line, used) < 0)
        return; /* nowhere left to say so */
}
