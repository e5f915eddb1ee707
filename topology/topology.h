/* topology.h - a deployment: what the topology file says, checked, with every rank placed.
 *
 * One block without pointers: a copy of its bytes is a copy of the deployment, and every process
 * that reads the same file has the same block. The file's form is in docs/topology.md.
 * topology_load parses, validates, places and derives the actor table, or says with line and
 * column all that is wrong; then nothing is written. Memory is allocated only while it loads.
 * What needs the model (TP against its heads, pages against bytes) is checked in cli/deployment.h.
 */
#ifndef TOPOLOGY_TOPOLOGY_H
#define TOPOLOGY_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/base/actor_kind.h"
#include "runtime/base/limits.h"
#include "runtime/base/status.h"

typedef enum { TOPOLOGY_CPU, TOPOLOGY_CUDA } topology_device_t;
typedef enum { TOPOLOGY_CACHE_FP8, TOPOLOGY_CACHE_BF16, TOPOLOGY_CACHE_FLOAT32 } topology_cache_t;
typedef enum {
    TOPOLOGY_INDEX_FP4,
    TOPOLOGY_INDEX_FP8,
    TOPOLOGY_INDEX_BF16,
    TOPOLOGY_INDEX_FLOAT32
} topology_index_t;
typedef enum { TOPOLOGY_TOKENS_WITHHELD, TOPOLOGY_TOKENS_KEPT } topology_tokens_t;

/* Who chose the devices of a group. No part of the version. */
typedef enum {
    TOPOLOGY_PLACED,         /* host and devices are ours */
    TOPOLOGY_HOST_STATED,    /* the file names the host */
    TOPOLOGY_DEVICES_STATED, /* and the devices */
} topology_placement_t;

enum { TOPOLOGY_NONE = UINT16_MAX }; /* no such actor, host, device or rank */

/* A place in the file, from 1; {0, 0} where a default stands. No part of the version. */
typedef struct {
    uint32_t line;
    uint32_t column;
} topology_mark_t;

typedef struct {
    char name[NAME_BYTES_MAX];
    char address[ADDRESS_BYTES_MAX];
    uint32_t devices;
    uint64_t device_bytes; /* memory of each device */
    uint64_t memory_bytes; /* memory of the host itself; 0: not stated */
    topology_mark_t memory_at;
} topology_host_t;

typedef struct {
    uint16_t host;
    char listen[ADDRESS_BYTES_MAX];
    char admin_listen[ADDRESS_BYTES_MAX];
    uint16_t port;
    uint16_t admin_port; /* metrics and commands, apart from the clients' port */
    char cors[CORS_BYTES_MAX]; /* origins, spaces between; "": none */
    uint32_t queued_max; /* requests that wait for a prefill group; more get 429 */
    uint32_t streams_max;
} topology_gateway_t;

typedef struct {
    uint16_t tp; /* ranks */
    uint16_t host;
    uint16_t devices[RANKS_MAX]; /* of rank r, on that host */
    uint32_t slots;              /* requests running at once */
    uint32_t pages;              /* history pages; 0: as many as fit, see cli/deployment.h */
    uint32_t borders;            /* border places of the prefix cache; 0: by rule, see there */
    uint32_t chunk_tokens;       /* token rows of one step at most */
    uint16_t placement;          /* topology_placement_t */
    uint16_t device_count;       /* devices that the file names */
    topology_mark_t tp_at;       /* where the file states tp, else where the group begins */
    topology_mark_t pages_at;
} topology_group_t;

typedef struct {
    uint16_t host;
} topology_single_t;

/* A group's ranks follow their leader: rank r has id leader + 1 + r. */
typedef struct {
    uint16_t id;       /* its index in topology_t.actors; 0 is the supervisor of host 0 */
    uint16_t kind;     /* actor_kind_t */
    uint16_t instance; /* of its kind; a rank's: of its group */
    uint16_t rank;     /* TOPOLOGY_NONE but for ranks */
    uint16_t host;
    uint16_t device; /* TOPOLOGY_NONE but for ranks */
    uint16_t leader; /* a rank's group leader; a leader's own id; else TOPOLOGY_NONE */
    char name[ACTOR_NAME_BYTES_MAX]; /* "supervisor/0", "decode/0", "decode/0/rank/1" */
} topology_actor_t;

typedef struct topology {
    uint64_t version; /* digest of the canonical form: files that mean the same have the same */
    char name[NAME_BYTES_MAX];
    char file[PATH_BYTES_MAX];       /* as given to topology_load */
    char model[PATH_BYTES_MAX];      /* as written in the file */
    char model_path[PATH_BYTES_MAX]; /* the same, from the directory of the caller */
    char served_name[NAME_BYTES_MAX];

    uint16_t thinking; /* 1: of a chat that says nothing about it */
    uint16_t device;   /* topology_device_t */
    uint16_t cache_form;
    uint16_t index_form;
    uint32_t border_every;   /* pages between kept borders inside a prompt */
    uint32_t context_tokens; /* prompt and answer of one request together */
    uint64_t request_timeout_ms; /* 0: none */
    uint64_t drain_timeout_ms;
    uint64_t stall_timeout_ms;
    uint64_t journal_bytes;  /* of records in one segment; 0: no journals */
    uint16_t journal_tokens; /* topology_tokens_t */
    char incidents[PATH_BYTES_MAX]; /* folder; a relative one lies in the directory of the run */

    uint16_t host_count;
    uint16_t gateway_count;
    uint16_t prefill_count;
    uint16_t decode_count;
    uint16_t transfer_count;
    uint16_t actor_count;
    topology_single_t scheduler;
    topology_single_t monitor;
    topology_host_t hosts[HOSTS_MAX];
    topology_gateway_t gateways[INSTANCES_MAX];
    topology_group_t prefills[INSTANCES_MAX];
    topology_group_t decodes[INSTANCES_MAX];
    topology_single_t transfers[INSTANCES_MAX];
    topology_actor_t actors[ACTORS_MAX];
} topology_t;

typedef struct {
    topology_mark_t at; /* {0, 0}: the file as a whole */
    char text[TOPOLOGY_TEXT_BYTES_MAX];
} topology_error_t;

/* Everything wrong with one file, in the order of the file. */
typedef struct {
    char file[PATH_BYTES_MAX];
    uint32_t count;   /* of items */
    uint32_t dropped; /* found beyond TOPOLOGY_ERRORS_MAX */
    topology_error_t items[TOPOLOGY_ERRORS_MAX];
} topology_errors_t;

/* OK with a whole topology, or BAD_CONFIG with at least one error in `errors`, or NO_MEMORY. */
MUST_USE status_t topology_load(const char *path, topology_t *topology, topology_errors_t *errors);
/* The same for a text at hand; errors name it `path`, and its `model` is relative to that. */
MUST_USE status_t topology_parse(const char *text, size_t bytes, const char *path,
                                 topology_t *topology, topology_errors_t *errors);

/* Of a block that came from elsewhere: whether everything in it that others take for an index or a
 * count is one, and texts end. CORRUPT says what is not. */
MUST_USE status_t topology_check(const topology_t *topology);

void topology_errors_add(topology_errors_t *errors, topology_mark_t at, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* One line each: "file:line:column: text". */
void topology_errors_print(const topology_errors_t *errors, FILE *out);

/* The whole deployment as a topology file in canonical form; parsing it gives an equal topology. */
void topology_print(const topology_t *topology, FILE *out);

/* One line: where the group runs and who chose that. `kind` is PREFILL or DECODE. */
void topology_place_print(const topology_t *topology, actor_kind_t kind, uint16_t instance,
                          FILE *out);
/* The keys of the file form as Markdown tables; docs/topology.md holds them. */
void topology_schema_print(FILE *out);

/* NULL if there is none. */
const topology_actor_t *topology_actor_by_name(const topology_t *topology, const char *name);
/* Not for ranks. */
const topology_actor_t *topology_actor(const topology_t *topology, actor_kind_t kind,
                                       uint16_t instance);
/* `kind` is PREFILL or DECODE. */
const topology_actor_t *topology_rank(const topology_t *topology, actor_kind_t kind,
                                      uint16_t instance, uint16_t rank);
uint16_t topology_count(const topology_t *topology, actor_kind_t kind);
/* NULL unless `kind` is PREFILL or DECODE and the instance exists. */
const topology_group_t *topology_group(const topology_t *topology, actor_kind_t kind,
                                       uint16_t instance);

#endif
