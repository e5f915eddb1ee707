/* threads.h - the third driver: all actors in one process, one thread each, frames over inproc.
 *
 * For debugging (`--in-process`): one gdb sees everything. No isolation, so no actor can die
 * alone and no supervisor is needed: the first that ends ends all.
 */
#ifndef RUNTIME_THREADS_H
#define RUNTIME_THREADS_H

#include "runtime/process.h"

typedef struct threads threads_t;

/* Opens `count` processes with the ZeroMQ context in their configs (the caller's, shared by
 * all). Owner closes. */
MUST_USE status_t threads_open(const process_config_t *configs, uint32_t count,
                               threads_t **threads);
/* Runs all until one ends or threads_stop; stops the others. The status of the first that ended. */
MUST_USE status_t threads_run(threads_t *threads);
void threads_stop(threads_t *threads);
void threads_close(threads_t *threads);
/* The process of configs[index]. */
process_t *threads_process(const threads_t *threads, uint32_t index);

#endif
