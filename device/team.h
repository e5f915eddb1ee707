/* team.h - threads that share one rank's work.
 *
 * team_run cuts a piece of work into parts and returns when all are done; the caller works too.
 * Which thread takes which part is left to chance, so parts must write to different places and may
 * not depend on each other: then bits do not depend on the number of threads. Waiting polls for a
 * bounded time, then sleeps. One caller at a time; nothing is allocated after open.
 */
#ifndef DEVICE_TEAM_H
#define DEVICE_TEAM_H

#include <stdint.h>

#include "runtime/base/status.h"

enum { TEAM_THREADS_MAX = 64 };

typedef struct team team_t;

/* `thread` is 0 .. threads - 1: for scratch memory. */
typedef void team_work_t(void *context, uint32_t part, uint32_t thread);

/* A team of 1 has no threads of its own. NO_MEMORY, TOO_LARGE or IO. */
MUST_USE status_t team_open(uint32_t threads, team_t **team);
void team_close(team_t *team);
uint32_t team_threads(const team_t *team);
void team_run(team_t *team, uint32_t parts, team_work_t *work, void *context);

#endif
