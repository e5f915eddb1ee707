/* status.h - one status type for the whole engine, grouped by blast radius, with a trail of where it came from.
 *
 * FAIL decides an error: it records function, line and text in a bounded trail of this thread. TRY passes a
 * status on and adds one frame. The runtime resets the trail before each dispatch and prints it once, so one
 * failure is one log entry that reads from cause to edge. Codes of libraries are translated at the border.
 */
#ifndef RUNTIME_BASE_STATUS_H
#define RUNTIME_BASE_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "runtime/base/check.h"

/* The largest thing that a status hurts; the runtime acts on this, never on single codes. */
typedef enum {
    CLASS_NONE,    /* no error */
    CLASS_REQUEST, /* answer this request with a refusal and go on */
    CLASS_PEER,    /* drop what this peer sent, or the connection to it */
    CLASS_ENGINE,  /* this process cannot go on: say why and stop */
} status_class_t;

/*    name          class     text */
#define STATUS_TABLE(S)                                                                            \
    S(OK,           NONE,     "ok")                                                                \
    S(AGAIN,        NONE,     "not now, try again later")                                          \
    S(END,          NONE,     "nothing more follows")                                              \
    S(INVALID,      REQUEST,  "invalid argument")                                                  \
    S(TOO_LARGE,    REQUEST,  "larger than its limit")                                             \
    S(NOT_FOUND,    REQUEST,  "not found")                                                         \
    S(REFUSED,      REQUEST,  "refused")                                                           \
    S(BUSY,         REQUEST,  "no room now")                                                       \
    S(UNSUPPORTED,  REQUEST,  "not supported")                                                     \
    S(MALFORMED,    PEER,     "bytes do not decode")                                               \
    S(UNEXPECTED,   PEER,     "message does not fit the state")                                    \
    S(STALE,        PEER,     "of an earlier incarnation, epoch or generation")                    \
    S(MISMATCH,     PEER,     "digests or versions differ")                                        \
    S(CORRUPT,      PEER,     "bytes do not have the digest they claim")                           \
    S(BROKEN,       PEER,     "peer is gone or the group is broken")                               \
    S(NO_MEMORY,    ENGINE,   "out of memory")                                                     \
    S(IO,           ENGINE,   "input or output failed")                                            \
    S(BAD_FILE,     ENGINE,   "file is not what it must be")                                       \
    S(BAD_CONFIG,   ENGINE,   "configuration is not valid")                                        \
    S(INTERNAL,     ENGINE,   "internal error")

typedef enum {
#define STATUS_ENUM(name, class, text) STATUS_##name,
    STATUS_TABLE(STATUS_ENUM)
#undef STATUS_ENUM
    STATUS_COUNT
} status_t;

const char *status_name(status_t status);
const char *status_text(status_t status);
status_class_t status_class(status_t status);

enum {
    TRAIL_TEXT_MAX = 512, /* bytes of the deciding text, with the final NUL; longer ones are cut */
    TRAIL_FRAMES_MAX = 16 /* frames kept; later ones are counted only */
};

/* Use the macros. */
status_t trail_fail(status_t status, const char *function, int line, const char *format, ...)
    PRINTF_LIKE(4, 5);
status_t trail_pass(status_t status, const char *function, int line);

#define FAIL(status, ...) trail_fail((status), __func__, __LINE__, __VA_ARGS__)
#define TRY(expression)                                                                            \
    do {                                                                                           \
        status_t try_status_ = (expression);                                                       \
        if (try_status_ != STATUS_OK)                                                              \
            return trail_pass(try_status_, __func__, __LINE__);                                    \
    } while (0)

void trail_reset(void);
/* Text of the last FAIL of this thread, "" after a reset. Valid until the next FAIL or reset. */
const char *trail_text(void);
/* Prints the trail, cause first, one line per frame. */
void trail_print(FILE *out);

#endif
