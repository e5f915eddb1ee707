/* probe.h - every choice of path that somebody may want to watch while it runs, in one table.
 *
 * A probe that is off costs one load and one branch. Switched on, it writes a line "PROBE name
 * key=value ..." into the log of its process; where systemtap's header was there at build time it is a
 * USDT probe `lockstep:name` as well, which perf and bpftrace see whether it is on or off. Values are
 * integers. Any thread may raise any probe.
 *
 * The switches of a process are one word. The process driver keeps it in the shared figures, so that
 * another process can turn it (figures_probes_set); a program without figures has a word of its own.
 */
#ifndef RUNTIME_BASE_PROBE_H
#define RUNTIME_BASE_PROBE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__has_include)
#if __has_include(<sys/sdt.h>)
#define PROBE_USDT 1
#define SDT_USE_VARIADIC
#include <sys/sdt.h>
#endif
#endif

/*    name             keys, in order                                  raised when */
#define PROBE_TABLE(P)                                                                             \
    P(message_handled, "message from wait_us handle_us", "an actor handled a message")             \
    P(message_refused, "message from state", "a refusal row dropped a message")                    \
    P(stream_state,    "peer life state", "a stream came up or went down")                         \
    P(stream_resume,   "peer received sent", "a peer asked for messages again")                    \
    P(stream_gap,      "peer received first", "a frame came ahead of its turn")                    \
    P(step_sent,       "epoch seq items", "a leader gave out a step")                              \
    P(step_done,       "epoch seq status", "a rank ended a step")                                  \
    P(step_diverged,   "epoch seq rank item expected found", "ranks differ in a step's outcome")   \
    P(copy_path,       "pool op layout granularity entries page", "bytes of a unit were moved")    \
    P(copy_refused,    "unit index reason", "a copy was stale or corrupt and was dropped")         \
    P(prefix_match,    "tokens_prompt tokens_cached", "a prompt was looked up in the prefix cache")

typedef enum {
#define PROBE_ID(name, keys, text) PROBE_##name,
    PROBE_TABLE(PROBE_ID)
#undef PROBE_ID
    PROBE_COUNT
} probe_t;

enum { PROBE_VALUES_MAX = 6 };

/* The word of switches, a bit per probe. Set once, before threads start. */
void probe_switches_set(_Atomic uint64_t *switches);
_Atomic uint64_t *probe_switches(void);

const char *probe_name(probe_t probe);
const char *probe_text(probe_t probe);
/* False if `name` is nobody's. */
bool probe_parse(const char *name, probe_t *probe);

extern _Atomic uint64_t *probe_word;

static inline bool probe_is_on(probe_t probe)
{
    return atomic_load_explicit(probe_word, memory_order_relaxed) >> probe & 1;
}

/* Use the macro: PROBE(stream_gap, peer, received, first). As many values as the row has keys. */
void probe_raise(probe_t probe, const uint64_t *values, uint32_t count);

#ifdef PROBE_USDT
#define PROBE_SDT(name, ...) STAP_PROBEV(lockstep, name, __VA_ARGS__)
#else
#define PROBE_SDT(name, ...) (void)0
#endif

#define PROBE(name, ...)                                                                           \
    do {                                                                                           \
        PROBE_SDT(name, __VA_ARGS__);                                                              \
        if (probe_is_on(PROBE_##name)) {                                                           \
            const uint64_t probe_values_[] = {__VA_ARGS__};                                        \
            probe_raise(PROBE_##name, probe_values_, sizeof(probe_values_) / sizeof(uint64_t));    \
        }                                                                                          \
    } while (0)

#endif
