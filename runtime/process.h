/* process.h - the driver that runs one actor for real: a node on an event loop, with sockets,
 * clocks and ports.
 *
 * One thread runs one process_t to its end. In a deployment each is a process of its own; with
 * --in-process each is a thread of one (threads.h). Ports live on the loop (process_loop) or
 * bring threads of their own; both say what they have to say with process_post.
 */
#ifndef RUNTIME_PROCESS_H
#define RUNTIME_PROCESS_H

#include <ev.h>

#include "runtime/actor.h"
#include "runtime/node.h"
#include "runtime/transport.h"

typedef struct process process_t;

/* One port of an actor: PORT_DEVICE, PORT_CLIENT or PORT_PROCESS. */
typedef struct {
    actor_id_t id;
    /* Before the loop runs. `setup` as in port_t. What it makes comes back in `*self`. */
    status_t (*open)(process_t *process, const void *setup, void **self);
    /* The actor pushed a message: `body` is its struct, `bytes` the same encoded, for another
     * thread; both borrowed. Must not block. The actor bounds what it pushes, so there is always
     * room. */
    void (*push)(void *self, uint16_t id, const void *body, const uint8_t *bytes, size_t size);
    /* Ends its threads and watchers. */
    void (*close)(void *self);
} port_type_t;

typedef struct {
    const port_type_t *type;
    const void *setup;
} port_t;

enum { PROCESS_PORTS_MAX = 4 };

typedef struct {
    const actor_type_t *type;
    actor_birth_t birth;
    uint8_t before; /* how the life before this one ended (node.h) */
    const message_table_t *table;
    const roster_t *roster;
    const endpoints_t *endpoints;
    stream_digests_t digests;
    port_t ports[PROCESS_PORTS_MAX];
    uint32_t port_count;
    void *zmq; /* context to share (inproc), or NULL */
    /* Only this process (a supervisor) and its children speak as actors; 0: everybody is believed. */
    pid_t family;
    const char
        *shm_prefix;  /* "/lockstep-NAME-": figures and ring are shown under it; NULL: not shown */
    const journal_place_t *journal; /* where to keep one; NULL: nowhere */
    uint64_t tick_us; /* 0: 20 ms */
    uint64_t poll_us; /* how long to look for frames before sleeping; 0 where cores are scarce */
    uint32_t end_states; /* BIT(state) of the actor in which the run ends by itself */
    bool check;
} process_config_t;

/* What the config points to is borrowed until close. Owner closes. */
MUST_USE status_t process_open(const process_config_t *config, process_t **process);
/* Runs until process_stop, an end state (OK both), or an ENGINE status, whose trail it prints. */
MUST_USE status_t process_run(process_t *process);
void process_close(process_t *process);

/* Any thread, any time between open and close; async-signal-safe. */
void process_stop(process_t *process);

/* A port says this to the actor. Any thread; encodes at once. */
void process_post(process_t *process, actor_id_t port, uint16_t id, const void *body);

/* For ports that live on it. */
struct ev_loop *process_loop(process_t *process);
const node_t *process_node(const process_t *process);

#endif
