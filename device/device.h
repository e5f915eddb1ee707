/* device.h - the device port: what a rank asks of the machine that computes.
 *
 * One table of operations. A device owns one rank's pools, its block tables by slot, and the slots' running
 * state. What all devices do alike stands in generic.c and pool.c; backend.h says what is left to implement.
 *
 * Threads: `step` and `reform` are called from the rank's compute thread, `copy` and `map` from its copy thread;
 * everything else before both start. A call runs to its end. `interrupt` may be called from any thread at any time:
 * it makes a `step` that waits in a collective return STATUS_BROKEN soon.
 *
 * Determinism: the result of `step` depends on the items and on the bytes of the pools they name, and on nothing
 * else: no clock, no free memory, no thread timing (design 4).
 */
#ifndef DEVICE_DEVICE_H
#define DEVICE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "cache/unit.h"
#include "device/step_digest.h"
#include "runtime/base/limits.h"
#include "runtime/base/status.h"

enum {
    DEVICE_NAME_BYTES_MAX = 96,
    DEVICE_BORDERS_MAX = 16,
    DEVICE_COPIES_MAX = 32, /* units of one copy */
};

/* How the next token is drawn. Meanings as in the OpenAI API and vLLM; see model/sampler.h. */
typedef struct {
    uint64_t seed;
    float temperature; /* 0: greedy */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    float presence_penalty;
    float frequency_penalty;
    float repetition_penalty; /* 1: off */
    uint32_t top_k;           /* 0: off */
    uint32_t logprobs;        /* 0: none; n + 1: of the chosen token and the n best */
    const uint32_t *bias_tokens;
    const float *bias_values;
    uint32_t bias_count;
} device_sampling_t;

typedef enum {
    DEVICE_OPEN,   /* slot starts an attempt: sampling, its first pages. At position 0 its state is
                    * cleared, and tokens run in it are prompt. At another position, pages and slot
                    * hold that many tokens, which copies brought; tokens run in it are the answer's
                    * (penalties count them) */
    DEVICE_EXTEND, /* slot gets more pages, behind those it has */
    DEVICE_LOAD,  /* slot takes its state from a border: it continues at `position`, a page's end */
    DEVICE_RUN,   /* tokens [position, position + count) of the slot go through the model */
    DEVICE_CLOSE, /* the last item that names this attempt: the slot is forgotten */
} device_item_kind_t;

/* One item of a step, in the order of the step. */
typedef struct {
    device_item_kind_t kind;
    uint32_t slot;
    uint32_t position;      /* OPEN: tokens already there. LOAD, RUN: first token position */
    uint32_t count;         /* RUN: tokens */
    /* RUN: `count` tokens as given, or NULL: one token, carried from the slot's last sample.
     * OPEN: tokens already there that count as prompt for the repetition penalty, or NULL. What runs in a slot opened
     * at position 0 is prompt too, so OPEN names only what a border brings */
    const uint32_t *tokens;
    uint32_t token_count;   /* of `tokens` */
    bool sample;            /* RUN: draw a token after the last row */
    bool tail;              /* RUN: also report digests of the open page and of the slot (hand-over is next) */
    const uint32_t *pages;  /* OPEN, EXTEND: pages for the positions that follow, in order */
    uint32_t page_count;
    uint32_t border;        /* LOAD: the border to take. RUN: see borders */
    /* RUN: borders to keep: at page number `page_ordinal[i]` of the slot, whose end lies in this run */
    uint32_t border_count;
    uint32_t border_pages[DEVICE_BORDERS_MAX];
    uint32_t border_targets[DEVICE_BORDERS_MAX];
    const device_sampling_t *sampling; /* OPEN */
} device_item_t;

typedef struct {
    uint64_t epoch;
    uint64_t seq;
    const device_item_t *items;
    uint32_t item_count;
} device_step_t;

/* A token drawn by item `item` of the step. */
typedef struct {
    uint32_t item;
    uint32_t slot;
    uint32_t token;
    float logprob;
    uint32_t top_count;
    uint32_t top_tokens[LOGPROBS_MAX];
    float top_logprobs[LOGPROBS_MAX];
} device_token_t;

/* A unit that this step closed (a history page that is full, a border kept), or, with `tail`, the open page and
 * the slot as they are after the run. KV is replicated over the group, so every rank reports the same digest. */
typedef struct {
    unit_kind_t unit;
    uint32_t index; /* page, border or slot in the pool */
    uint64_t digest;
} device_closed_t;

/* Filled by `step`; arrays belong to the device and are valid until its next step. */
typedef struct {
    step_digest_t digest; /* of all that every rank of the group must have alike */
    uint32_t call;     /* the last collective call; 0: none in this epoch */
    const device_token_t *tokens;
    uint32_t token_count;
    const device_closed_t *closed;
    uint32_t closed_count;
} device_result_t;

/* One unit from a peer's pool (or the own one) into the own pool. */
typedef struct {
    unit_kind_t unit;
    uint32_t source;
    uint64_t source_generation;
    uint32_t target;
    uint64_t target_generation; /* becomes the own word before the copy */
    uint32_t rows;   /* history: token positions filled, PAGE_TOKENS for a full page */
    uint64_t digest; /* expected */
} device_copy_t;

/* Where a pool can be found by others. */
typedef struct {
    char name[DEVICE_NAME_BYTES_MAX]; /* of the shared memory, "/lockstep-..." */
    uint64_t bytes;
    uint64_t incarnation;
} device_pool_t;

typedef struct {
    uint32_t rank;
    uint32_t world;
    uint32_t page_count; /* 0 is the test page: never leased */
    uint32_t border_count;
    uint32_t slot_count;
    uint64_t incarnation;
    device_pool_t pool; /* name to create; bytes filled in by open */
} device_config_t;

typedef struct {
    uint64_t weights;
    uint64_t geometry;
    uint64_t numerics; /* weights, pool dtypes, TP size, device kind, operator-set version */
} device_digests_t;

typedef struct device device_t;

typedef struct {
    const char *name;
    /* `progress` in permille is written while weights load; may be NULL. Owner closes. */
    status_t (*open)(const device_config_t *config, const void *setup, volatile uint32_t *progress,
                     device_t **device);
    void (*close)(device_t *device);
    void (*describe)(const device_t *device, device_pool_t *pool, device_digests_t *digests);
    /* A new epoch: every slot is empty, collectives use the segment `name` (created by whoever comes first). */
    status_t (*reform)(device_t *device, uint64_t epoch, const char *segment);
    status_t (*step)(device_t *device, const device_step_t *step, device_result_t *result);
    void (*interrupt)(device_t *device, uint64_t epoch);
    /* The word of a unit in this pool that readers check: {epoch, count}, set when it is leased. Of a unit that is
     * not there nothing is set: the step that names it is refused. */
    void (*generation_set)(device_t *device, unit_kind_t unit, uint32_t index,
                           uint64_t generation);
    /* Maps a peer's pool read-only and tests it with page 0; a later map of the same peer replaces the earlier one. */
    status_t (*map)(device_t *device, uint32_t peer, const device_pool_t *pool);
    /* Copies units, at most DEVICE_COPIES_MAX, from the pool that `peer` names, as given to map; returns when all are
     * there. Their bytes are good only with STATUS_OK. Otherwise `failed` is the first that is not: NOT_FOUND no such
     * peer; INVALID a number beyond a pool; STALE the peer's generation word is not source_generation before and
     * after the copy, or the own one is newer than target_generation; CORRUPT the bytes have not `digest`. */
    status_t (*copy)(device_t *device, uint32_t peer, const device_copy_t *copies, uint32_t count,
                     uint32_t *failed);
} device_ops_t;

struct device {
    const device_ops_t *ops; /* the implementation's struct begins with this one */
};

#endif
