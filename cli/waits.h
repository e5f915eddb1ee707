/* waits.h - who waits for whom in a running deployment, from shared memory alone.
 *
 * Three sources: what leaders and transfers say of themselves (figures), where ranks stand in their
 * collectives (the segment of their group), and streams whose peer stands still or gives no credit.
 * It asks nobody, so it works when everything hangs. What is awaited and waits for nobody itself is
 * where to look: the hang begins there.
 */
#ifndef CLI_WAITS_H
#define CLI_WAITS_H

#include "cli/rundir.h"
#include "runtime/message.h"

enum { WAITS_MAX = 4 * ACTORS_MAX, WAIT_TEXT_BYTES = 128, STILL_MS = 500 };

typedef struct {
    actor_id_t who;
    uint32_t whom_count;
    actor_id_t whom[RANKS_MAX];
    char what[WAIT_TEXT_BYTES]; /* "in collective 17 of step 42 (layer 3, moe output)" */
} wait_t;

typedef struct {
    uint32_t count;
    wait_t waits[WAITS_MAX];
    bool blocks[ACTORS_MAX]; /* by actor: awaited, and waits for nobody */
} waits_t;

void waits_read(const rundir_t *rundir, const topology_t *topology, waits_t *waits);
/* One line each; nothing if nobody waits. */
void waits_print(const waits_t *waits, const topology_t *topology);
/* Where each rank stands in its group's collectives, as a table. */
void waits_print_ranks(const rundir_t *rundir, const topology_t *topology);

#endif
