/* worker.h - one thread behind a bounded queue of encoded messages: what keeps a device port
 * from blocking its actor.
 *
 * Jobs are done in the order of pushing. The push never blocks; a full queue is a programmer
 * error, since an actor bounds what it has in flight.
 */
#ifndef RUNTIME_WORKER_H
#define RUNTIME_WORKER_H

#include "runtime/base/arena.h"
#include "runtime/message.h"
#include "runtime/base/status.h"

typedef struct worker worker_t;

/* Called in the worker's thread with the decoded message, which lives until it returns. */
typedef void worker_job_t(void *context, uint16_t id, const void *body);

/* `name` shows in ps and gdb, 15 bytes. Owner closes. */
MUST_USE status_t worker_open(const char *name, const message_table_t *table, uint32_t jobs_max,
                              worker_job_t *job, void *context, worker_t **worker);
/* Bytes are copied. */
void worker_push(worker_t *worker, uint16_t id, const uint8_t *bytes, size_t size);
/* Jobs that wait or run. */
uint32_t worker_count(worker_t *worker);
/* Waits for the job that runs; those that wait are dropped. */
void worker_close(worker_t *worker);

#endif
