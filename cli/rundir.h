/* rundir.h - the directory of one running deployment, and who holds it.
 *
 *   $XDG_RUNTIME_DIR/lockstep/NAME/   (or /tmp/lockstep-UID/NAME/), for its user only
 *     lock         held by the supervisor as long as it lives; its pid as text
 *     topology     the parsed deployment_t as a block of bytes: what every process starts from
 *     log          lines of all processes
 *     gateway-0    the ports that gateway 0 listens on, for clients and for operators, as text
 *     *.ipc        sockets
 *     journal/     journals of its actors, if the topology asks for them
 *     keep         if `down --keep` wants log, journals and incidents to stay
 *     incidents/   what is kept of lives that ended badly, unless the topology names another folder
 *
 * Shared memory of a deployment is named "/lockstep-DIGEST:NAME:...", of user and path; no name has a
 * ':', so none begins another's. There is a lock beside it too: directories vanish, and two machines
 * in containers may share one of the two places and not the other. What has locks that nobody holds is
 * what a killed run left; rundir_open clears it, files and shared memory.
 */
#ifndef CLI_RUNDIR_H
#define CLI_RUNDIR_H

#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "cli/deployment.h"

enum { RUNDIR_PATH_BYTES = 80, RUNDIR_PREFIX_BYTES = 64 };

#define RUNDIR_JOURNAL "journal"
#define RUNDIR_KEEP "keep"

typedef struct {
    char name[NAME_BYTES_MAX];
    char path[RUNDIR_PATH_BYTES];         /* short: it stands in the names of sockets */
    char shm_prefix[RUNDIR_PREFIX_BYTES]; /* "/lockstep-DIGEST:NAME:" */
    int lock;                             /* of the directory; -1: not held here */
    int names;                            /* of the shared memory */
} rundir_t;

/* Only names; touches nothing. INVALID for a name that is none: letters, digits, '-', '_', '.'. */
MUST_USE status_t rundir_name(const char *name, rundir_t *rundir);
/* Takes the locks and clears what is there. BUSY if a deployment of that name runs. */
MUST_USE status_t rundir_open(const char *name, rundir_t *rundir);
/* Closes the locks here; they are held as long as a child has them open too. */
void rundir_leave(rundir_t *rundir);
/* Removes directory and shared memory, unless somebody else holds them, and leaves. */
void rundir_remove(rundir_t *rundir);
/* Marks the directory, so that rundir_remove leaves log, journals and incidents there. */
MUST_USE status_t rundir_keep(const rundir_t *rundir);
/* False: the directory that is held here was removed or moved. */
bool rundir_is_there(const rundir_t *rundir);
/* Whether somebody holds the lock that is open here. */
bool rundir_is_locked(int lock);

/* For journals, in a directory that is held. */
MUST_USE status_t rundir_journal_make(const rundir_t *rundir);

/* The pid of the supervisor; 0 if nothing runs there. */
pid_t rundir_holder(const rundir_t *rundir);
void rundir_pid_write(const rundir_t *rundir, pid_t pid);

/* Names of all deployments of this user that run, at most `max`; returns their number. */
uint32_t rundir_list(char (*names)[NAME_BYTES_MAX], uint32_t max);
/* Whether nothing runs there, but an earlier run has left its directory. */
bool rundir_is_left(const rundir_t *rundir);
/* Names of those, as rundir_list. */
uint32_t rundir_list_left(char (*names)[NAME_BYTES_MAX], uint32_t max);
/* The one that `name` means; NULL: the only one that runs. NOT_FOUND says what there is. */
MUST_USE status_t rundir_find(const char *name, rundir_t *rundir);

MUST_USE status_t rundir_deployment_write(const rundir_t *rundir, const deployment_t *deployment);
/* Owner frees. */
MUST_USE status_t rundir_deployment_read(const rundir_t *rundir, deployment_t **deployment);

/* The newest shared memory of a group's collectives, by its leader; NOT_FOUND if there is none now. */
MUST_USE status_t rundir_segment(const rundir_t *rundir, uint16_t leader, char *name, size_t bytes);
/* Removes those of older epochs, which stay when all ranks of a group die at once: nobody can join them any more. */
void rundir_segments_sweep(const char *shm_prefix);

/* The port of a gateway; 0 until it listens. */
uint16_t rundir_port(const rundir_t *rundir, uint16_t gateway);
uint16_t rundir_admin_port(const rundir_t *rundir, uint16_t gateway);
/* Its directory, and what is in it for people, as one line. */
void rundir_print(const rundir_t *rundir, const topology_t *topology, FILE *out);
/* "DIRECTORY/LEAF" into `path` of RUNDIR_PATH_BYTES + 32. */
void rundir_file(const rundir_t *rundir, const char *leaf, char *path);

#endif
