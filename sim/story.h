/* story.h - what happens in one simulated run, as a value: who is there, which requests come, which
 * faults strike, how much memory there is.
 *
 * A seed draws a story (story_draw), but any story can be run (scenario.h): parts can be taken out
 * of it until only what a violation needs is left (shrink.h), and it can be written to a file that
 * a person reads and edits, and read again. Network and devices draw from `seed` by link, actor and
 * count, so a part taken out changes as little as can be of what is left.
 */
#ifndef SIM_STORY_H
#define SIM_STORY_H

#include <stdio.h>

#include "sim/phase.h"
#include "topology/topology.h"

enum { STORY_REQUESTS_MAX = 64, STORY_FAULTS_MAX = 8 };

/*    name        what strikes */
#define FAULT_TABLE(F)                                                                             \
    F(kill, "a process dies at once")                                                              \
    F(stall, "a process stops for `us`; who stops too long is killed by its supervisor")           \
    F(cut, "the connection to `other` breaks for `us`")                                            \
    F(abort, "the client of `request` leaves, or has enough if `number` is 1")                     \
    F(pause, "the whole machine stands still for `us`")                                            \
    F(slow, "a rank takes `number` times as long")                                                 \
    F(shuffle, "what a rank's copies came to is said up to `us` late, in any order")               \
    F(flip, "one bit of a rank's pool is another: `unit`, `index`, `word`, `number`")              \
    F(late, "the process starts `us` late")                                                        \
    F(drain, "an operator drains a group, and takes that back after `us`")                         \
    F(down, "the deployment is stopped, with `us` for what runs")

typedef enum {
#define FAULT_ENUM(name, text) FAULT_##name,
    FAULT_TABLE(FAULT_ENUM)
#undef FAULT_ENUM
        FAULT_COUNT
} fault_kind_t;

extern const char *const fault_names[FAULT_COUNT];

typedef enum {
    WHEN_time,   /* `after_us` from the beginning */
    WHEN_phase,  /* `after_us` behind the moment when `request` comes into `phase` */
    WHEN_behind, /* `after_us` behind the fault before it */
    WHEN_COUNT
} fault_when_t;

typedef struct {
    uint8_t kind;
    uint8_t when;
    uint8_t phase;
    uint8_t unit;     /* flip */
    uint32_t request; /* whose phase; abort: whose client */
    uint64_t after_us;
    uint64_t us;
    uint32_t number;
    uint32_t index;                   /* flip */
    uint32_t word;                    /* flip */
    char actor[ACTOR_NAME_BYTES_MAX]; /* "decode/0/rank/1"; nobody of that name: nothing strikes */
    char other[ACTOR_NAME_BYTES_MAX];
} story_fault_t;

typedef world_load_t story_request_t;

typedef struct {
    uint64_t seed; /* of network and devices */
    /* so many of those in the topology file; 0: all */
    uint32_t gateways;
    uint32_t prefills;
    uint32_t decodes;
    uint32_t transfers;
    uint32_t tp;
    /* bounds; 0: as the topology says */
    uint32_t pages;
    uint32_t slots;
    uint32_t streams; /* of a gateway */
    uint32_t chunk_tokens;
    uint32_t border_every;
    uint32_t credit;   /* messages that each receiver grants */
    uint32_t poisoned; /* the number of a request whose prompt crashes the ranks that compute its end */
    uint64_t tick_us;
    uint32_t drain_ms; /* what runs in a group that drains may go on for so long */
    uint32_t request_count;
    uint32_t fault_count;
    story_request_t requests[STORY_REQUESTS_MAX]; /* number n is requests[n - 1] for good */
    story_fault_t faults[STORY_FAULTS_MAX];
} story_t;

/* Follows from `seed` and the actors alone. */
void story_draw(story_t *story, uint64_t seed, const topology_t *topology);
/* Requests that are left. */
uint32_t story_requests(const story_t *story);
/* The topology that the story is played on. False if what it asks for cannot be. */
bool story_topology(const story_t *story, const topology_t *file, topology_t *topology);

/* One line each: "fault kind=kill when=phase request=2 phase=handing after_us=40 actor=decode/0". What
 * is 0 is left out. `topology` is the file's path. */
void story_print(const story_t *story, const char *topology, FILE *out);
/* Its fields alone, without the end of the line. */
void story_print_fault(const story_fault_t *fault, FILE *out);
/* What story_print wrote, or a person. False: `error` says the line and what is wrong with it. */
bool story_read(FILE *in, story_t *story, char topology[PATH_BYTES_MAX], char *error,
                size_t error_bytes);

#endif
