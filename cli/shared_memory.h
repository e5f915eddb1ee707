/* shared_memory.h - how much of /dev/shm a deployment takes on a host, and how much there is here.
 *
 * Pools, the collectives of groups, and what every actor shows (figures, ring of frames) lie there. It
 * is a file system of its own, often smaller than the memory: a container has 64 MB if nobody says
 * otherwise.
 */
#ifndef CLI_SHARED_MEMORY_H
#define CLI_SHARED_MEMORY_H

#include "cli/deployment.h"

enum { SHARED_MEMORY_TEXT_BYTES = 24 };

/* Bytes that actors of this host take once all run; from above, by less than a tenth. */
uint64_t shared_memory_needed(const deployment_t *deployment, uint16_t host);
/* Bytes that are free here. IO if there is no /dev/shm, with what to do. */
MUST_USE status_t shared_memory_free(uint64_t *bytes);
/* NO_MEMORY, in one line, if less is free here than the host's actors need. */
MUST_USE status_t shared_memory_check(const deployment_t *deployment, uint16_t host);
/* Three digits and a decimal unit, as memory is sold: "38.2 GB". Returns `text`. */
const char *shared_memory_text(uint64_t bytes, char text[SHARED_MEMORY_TEXT_BYTES]);

#endif
