/* figures.h - what an actor shows of itself while it runs: one struct in shared memory, written
 * in passing.
 *
 * The actor's thread is the only writer and uses plain relaxed stores of words; a reader copies
 * the struct at any time and may see figures of two moments side by side, never half a word.
 * Reading costs the actor nothing, and works also when it is stuck: that is when one looks.
 * figures_open maps those of a running process by name.
 */
#ifndef RUNTIME_FIGURES_H
#define RUNTIME_FIGURES_H

#include <stdatomic.h>

#include "runtime/base/limits.h"
#include "runtime/base/status.h"
#include "runtime/message.h"

enum { FIGURES_MAGIC = 0x4c6b4647, FIGURES_VERSION = 5, FIGURES_WAITS_MAX = 2,
       FIGURES_ATTEMPT_WAITS_MAX = 8 };

typedef _Atomic uint64_t figure_t;

static inline void figure_set(figure_t *figure, uint64_t value)
{
    atomic_store_explicit(figure, value, memory_order_relaxed);
}

static inline void figure_add(figure_t *figure, uint64_t value)
{
    figure_set(figure, atomic_load_explicit(figure, memory_order_relaxed) + value);
}

static inline uint64_t figure_get(const figure_t *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

typedef struct {
    figure_t received;
    figure_t refused;
    figure_t failed;
    figure_t wait_us;   /* sum, from arrival to dispatch */
    figure_t handle_us; /* sum, of handler and planner */
} figures_message_t;

typedef struct {
    figure_t peer; /* actor id */
    figure_t life; /* its incarnation; 0: down */
    figure_t state;
    figure_t sent; /* last seq */
    figure_t acked;
    figure_t received;
    figure_t applied;
    figure_t credit; /* messages left; 0 also if no bytes are left */
} figures_stream_t;

/* What it cannot go on without: actor_wait_t. */
typedef struct {
    figure_t whom; /* bits from `first` on; 0: it does not wait */
    figure_t first;
    figure_t message;
    figure_t number;
    figure_t age_ms;
} figures_wait_t;

/* What an actor drops, each under a name: nothing is lost in silence.
 *    name        what */
#define FIGURES_DROP_TABLE(D)                                                                      \
    D(frames,     "frames that do not decode, are for somebody else, or of nobody known here")     \
    D(strangers,  "frames in an actor's name from a process that is not of the deployment")        \
    D(malformed,  "messages and frames that do not decode, or do not go this way")                 \
    D(stale,      "frames of or to an earlier life")                                               \
    D(mismatches, "HELLOs of another protocol, topology or model")                                 \
    D(gaps,       "frames ahead of their turn: what was lost comes again")                         \
    D(duplicates, "messages that came again")                                                      \
    D(excess,     "messages beyond what a peer may have unacknowledged")                           \
    D(down,       "replies to a life that has ended")                                              \
    D(unread,     "observers turned out because they acknowledge nothing")

typedef enum {
#define FIGURES_DROP_ENUM(name, text) DROP_##name,
    FIGURES_DROP_TABLE(FIGURES_DROP_ENUM)
#undef FIGURES_DROP_ENUM
        DROP_COUNT
} figures_drop_t;

/* "frames", "strangers" ... */
const char *figures_drop_name(figures_drop_t drop);

typedef struct {
    figure_t magic;
    figure_t version;
    figure_t actor;
    figure_t incarnation;
    figure_t process;
    figure_t state; /* of the actor; its name is in state_name */
    figure_t depth; /* messages that wait now */
    figure_t depth_max;
    figure_t oldest_us; /* clock when the oldest waiting message came; 0: none waits */
    figure_t received;
    figure_t refused;
    figure_t malformed;
    figure_t progress; /* moves with every message, TICK included */
    figure_t attempts;
    figure_t now_us; /* clock at the last dispatch */
    figure_t stream_count;
    figure_t dropped[DROP_COUNT];
    figure_t probes; /* switches, probe.h; the only word that others write */
    char name[ACTOR_NAME_BYTES_MAX];
    char state_names[16][STATE_NAME_BYTES_MAX]; /* constant after the start */
    figures_message_t messages[MESSAGES_MAX];
    figures_stream_t streams[ACTORS_MAX];
    figures_wait_t waits[FIGURES_WAITS_MAX];
    figure_t attempt_waits[FIGURES_ATTEMPT_WAITS_MAX]; /* attempts that wait for it */
    char attempt_wait_names[FIGURES_ATTEMPT_WAITS_MAX][STATE_NAME_BYTES_MAX]; /* "": none */
} figures_t;

/* In place: names and zeros. */
void figures_init(figures_t *figures, actor_id_t actor, incarnation_t incarnation,
                  const char *name);

/* Shared memory objects "<prefix><actor name with dots for slashes>". Create replaces what a
 * killed process left. */
MUST_USE status_t figures_create(const char *prefix, const char *actor, figures_t **figures);
/* Read-only; STATUS_NOT_FOUND if there is none, STATUS_MISMATCH if it is of another version. */
MUST_USE status_t figures_open(const char *prefix, const char *actor, const figures_t **figures);
void figures_close(const figures_t *figures);
/* Turns the probes of a running process: sets the bits of `on`, clears those of `off`. */
MUST_USE status_t figures_probes_set(const char *prefix, const char *actor, uint64_t on,
                                     uint64_t off);
void figures_unlink(const char *prefix, const char *actor);

#endif
