/* backend.h - what a backend of the device port implements, and the generic half that does the rest.
 *
 * The generic half stands between device.h and a backend. It owns block tables, sampling parameters and token
 * histories of slots, checks every item, orders runs into batches, tells which units a run closed and digests
 * the step; it creates the pool, maps those of peers, and holds copies to generations and digests. A backend
 * computes: its table below says what. CPU, symbolic and any later backend give the same results of all that.
 *
 * A backend's struct begins with a device_generic_t. Its `open` allocates it, fills in base.ops, backend,
 * config and shape, and calls generic_open; `close` comes through the table.
 *
 * Threads are those of device.h: `copy`, and `map` with the `digest` of a peer's page 0, come from the copy
 * thread while `run` may be under way; units that a copy writes are in no run, which the caller sees to.
 */
#ifndef DEVICE_BACKEND_H
#define DEVICE_BACKEND_H

#include <stdatomic.h>

#include "cache/generation.h"
#include "device/device.h"

enum { DEVICE_PEERS_MAX = ACTORS_MAX, DEVICE_POOL_ALIGN = 4096 };

typedef struct device_generic device_generic_t;

/* The first bytes of a pool. A generation word for each unit follows, then from units_offset on the units, in
 * an order that is the backend's own. */
typedef struct {
    uint64_t magic;
    uint64_t incarnation;
    uint64_t geometry;    /* digest: whoever has another one cannot read the units */
    uint64_t test_digest; /* of page 0 */
    uint32_t counts[UNIT_COUNT];
    _Atomic uint32_t ready; /* written last */
} device_header_t;

/* A pool in this process's address space; a peer's is mapped read-only. */
typedef struct {
    void *memory;
    uint64_t bytes;
    uint32_t counts[UNIT_COUNT];
    const device_header_t *header;
    generation_word_t *generations; /* pages, borders, slots */
    uint8_t *units;
} device_memory_t;

/* Tokens [position, position + count) of a slot: an item, or a piece of a long one. */
typedef struct {
    uint32_t item; /* of the step */
    uint32_t slot;
    uint32_t position;
    uint32_t count;
    const uint32_t *tokens; /* count */
    bool draw;              /* a token is wanted behind the last one */
    uint32_t
        border_count; /* borders to keep at ends of pages of the slot, by the page's number in it */
    uint32_t border_pages[DEVICE_BORDERS_MAX];
    uint32_t border_targets[DEVICE_BORDERS_MAX];
    uint32_t carried; /* backing of `tokens` */
} device_run_t;

/* What a run gave. */
typedef struct {
    uint64_t state;       /* digest of the stream that it left, alike on every rank */
    device_token_t token; /* with `draw`: all but item and slot */
} device_outcome_t;

/* What the generic half knows of a slot. */
typedef struct {
    bool open;
    bool carries;   /* `last` is a token that this slot drew */
    bool continued; /* opened behind copied tokens: tokens that run are the answer's */
    bool pending;   /* has a run in the batch that is being gathered */
    uint32_t last;
    uint32_t page_count;
    uint32_t *pages;
    device_sampling_t sampling; /* its bias points below */
    uint32_t bias_tokens[LOGIT_BIAS_MAX];
    float bias_values[LOGIT_BIAS_MAX];
    uint32_t *tokens; /* prompt, then answer, if the draws of this slot look back at them */
    uint32_t prompt_count;
    uint32_t token_count;
} device_slot_t;

typedef struct {
    /* Frees the device itself; the pool and the tables are gone already. */
    void (*close)(device_generic_t *device);
    /* The block that holds a pool: created with config.pool's name, or a peer's, read-only. NULL: named shared
     * memory, for all three. `unmap` of the own pool takes its name away too. */
    status_t (*create)(device_generic_t *device, uint64_t bytes, void **memory);
    status_t (*map)(device_generic_t *device, const device_pool_t *wanted, void **memory);
    void (*unmap)(device_generic_t *device, void *memory, bool own);
    /* Bytes of the units of a pool with these counts. */
    status_t (*units_bytes)(const device_generic_t *device, const uint32_t counts[UNIT_COUNT],
                            uint64_t *bytes);
    /* Gives page 0 bytes that only this pool's life has. */
    void (*test_fill)(device_generic_t *device);

    /* A new epoch; `segment` as in device.h. NULL: nothing to do. */
    status_t (*reform)(device_generic_t *device, uint64_t epoch, const char *segment);
    /* `run` shall end soon, with BROKEN. Any thread. NULL: it never waits. */
    void (*interrupt)(device_generic_t *device, uint64_t epoch);
    /* Runs of this step follow. NULL: nothing to do. */
    void (*begin)(device_generic_t *device, const device_step_t *step);
    /* The slot starts at `position`, its table and sampling are set: at 0 its state is cleared, else copies
     * brought it. INVALID for sampling parameters that the model cannot have. */
    status_t (*start)(device_generic_t *device, uint32_t slot, uint32_t position);
    /* The slot, started at 0, goes on at `position` from the border. */
    status_t (*load)(device_generic_t *device, uint32_t border, uint32_t slot, uint32_t position);
    /* At most slot_count runs and rows_max tokens. */
    status_t (*run)(device_generic_t *device, const device_run_t *runs, uint32_t count,
                    device_outcome_t *outcomes);
    /* Of a unit in any pool; `rows`: of a page, the token positions filled. */
    uint64_t (*digest)(const device_generic_t *device, const device_memory_t *pool,
                       unit_kind_t unit, uint32_t index, uint32_t rows);
    /* Bytes only; numbers are checked, generations and digests are the generic half's. */
    status_t (*copy)(device_generic_t *device, const device_memory_t *from,
                     const device_copy_t *copies, uint32_t count);
} device_backend_t;

typedef struct {
    uint32_t vocabulary;
    uint32_t positions_max; /* longest context */
    uint32_t rows_max;      /* tokens of one batch */
    device_digests_t digests;
} device_shape_t;

struct device_generic {
    device_t base;
    const device_backend_t *backend;
    device_config_t config;
    device_shape_t shape;
    device_memory_t pool;
    device_slot_t *slots;
    uint32_t call; /* as in device_result_t; the backend's */

    /* The rest is the generic half's own. */
    uint32_t *pages, *tokens; /* backing of the slots' tables */
    _Atomic uint64_t broken;  /* steps of epochs before this one do not go on */
    uint64_t epoch;
    device_run_t *runs; /* the batch that is being gathered */
    device_outcome_t *outcomes;
    uint32_t run_count, row_count;
    device_token_t *drawn;
    device_closed_t *closed;
    uint32_t drawn_count, closed_count;
    step_digest_t digest;
    struct {
        uint32_t peer;
        device_memory_t pool;
    } * peers;
    uint32_t peer_count;
};

/* Tables and pool of a device whose backend is ready to compute. After a failure the caller closes it. */
MUST_USE status_t generic_open(device_generic_t *device);
/* Also of a device that was opened in part: all but `backend` may be zero. */
void generic_close(device_t *device);
/* Steps of epochs before `epoch` are to end: what a backend's `run` that takes long asks itself. */
bool generic_is_broken(const device_generic_t *device, uint64_t epoch);

void generic_describe(const device_t *device, device_pool_t *pool, device_digests_t *digests);
MUST_USE status_t generic_reform(device_t *device, uint64_t epoch, const char *segment);
MUST_USE status_t generic_step(device_t *device, const device_step_t *step,
                               device_result_t *result);
void generic_interrupt(device_t *device, uint64_t epoch);
void generic_generation_set(device_t *device, unit_kind_t unit, uint32_t index,
                            uint64_t generation);
MUST_USE status_t generic_map(device_t *device, uint32_t peer, const device_pool_t *wanted);
MUST_USE status_t generic_copy(device_t *device, uint32_t peer, const device_copy_t *copies,
                               uint32_t count, uint32_t *failed);

/* A backend's table for device.h; `opener` is its open. */
#define GENERIC_OPS(text, opener)                                                                  \
    {                                                                                              \
        .name = text, .open = opener, .close = generic_close, .describe = generic_describe,        \
        .reform = generic_reform, .step = generic_step, .interrupt = generic_interrupt,            \
        .generation_set = generic_generation_set, .map = generic_map, .copy = generic_copy,        \
    }

/* pool.c */
MUST_USE status_t generic_pool_create(device_generic_t *device);
void generic_pools_close(device_generic_t *device);
generation_word_t *generic_generation(const device_memory_t *pool, unit_kind_t unit,
                                      uint32_t index);

#endif
