/* life.h - one life of an actor, as a journal file tells it: its file, its deployment, its birth. */
#ifndef CLI_LIFE_H
#define CLI_LIFE_H

#include "runtime/replay.h"
#include "topology/topology.h"

/* Open: callers read records from `file`. Everything points into the file. */
typedef struct {
    journal_file_t file;
    const topology_t *topology;
    roster_t roster;
    actor_birth_t birth;
    const actor_type_t *type;
} life_t;

/* MISMATCH: written by a build whose structs are others. Owner closes. */
MUST_USE status_t life_open(const char *path, life_t *life);
void life_close(life_t *life);

/* What runs it again; valid as long as `life` stays open and where it is. */
replay_config_t life_replay(const life_t *life);

#endif
