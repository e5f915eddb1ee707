/* shared.h - memory that processes share by name ("/lockstep-...").
 *
 * All of it is taken when it is made: where there is too little, its maker is told so, and nobody
 * dies of a page later. Who has it mapped keeps it when its name vanishes, and unmaps it.
 */
#ifndef RUNTIME_BASE_SHARED_H
#define RUNTIME_BASE_SHARED_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/status.h"

/* Zeroed, in the place of what has that name. */
MUST_USE status_t shared_create(const char *name, size_t bytes, void **memory);
/* The same, made by whoever comes first and never smaller than it is. */
MUST_USE status_t shared_join(const char *name, size_t bytes, void **memory);
/* What another has made of so many bytes; NOT_FOUND or MISMATCH. */
MUST_USE status_t shared_open(const char *name, size_t bytes, bool writable, void **memory);
/* It may be gone already. */
void shared_unlink(const char *name);

#endif
