/* device_cpu_parts.h - what the files of the CPU device share: device_cpu.c runs steps,
 * device_cpu_pool.c owns the pool, maps those of peers, and copies. */
#ifndef DEVICE_CPU_PARTS_H
#define DEVICE_CPU_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache/generation.h"
#include "device/cpu/cpu.h"
#include "model/forward.h"
#include "model/sampler.h"

enum { DEVICE_CPU_PEERS_MAX = ACTORS_MAX };

/* The first bytes of a pool. */
typedef struct {
    uint64_t magic;
    uint64_t incarnation;
    uint64_t geometry;    /* digest */
    uint64_t test_digest; /* of page 0 */
    uint32_t counts[UNIT_COUNT];
    _Atomic uint32_t ready; /* written last */
} device_cpu_header_t;

/* A pool in this process's address space; a peer's is mapped read-only. */
typedef struct {
    uint8_t *bytes;
    uint64_t size;
    layout_t layout;
    const device_cpu_header_t *header;
    generation_word_t *generations; /* pages, borders, slots */
    uint8_t *units;                 /* what layout speaks of */
} device_cpu_pool_t;

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
    uint32_t *tokens; /* prompt, then answer, for penalties */
    uint32_t prompt_count;
    uint32_t token_count;
} device_cpu_slot_t;

typedef struct {
    device_t base;
    device_cpu_setup_t setup;
    device_config_t config;
    model_config_t model;
    weights_t weights;
    device_digests_t digests;
    geometry_t geometry;
    forward_t *forward;
    device_cpu_pool_t pool;
    device_cpu_slot_t *slots;
    uint32_t *pages;  /* of all slots */
    uint32_t *tokens; /* of all slots */
    float *logits;
    sample_row_t *draws; /* of the batch */
    sample_choice_t *choices;

    pthread_mutex_t lock; /* collective and epoch, between reform and interrupt */
    collective_t collective;
    char segment[2 * DEVICE_NAME_BYTES_MAX]; /* its name; "" without one */
    uint64_t epoch;
    _Atomic uint64_t broken; /* steps of epochs before this one do not go on */

    forward_item_t *batch;                    /* runs being gathered */
    uint32_t *batch_items;                    /* their items in the step */
    uint32_t *batch_ordinals, *batch_targets; /* DEVICE_BORDERS_MAX each */
    uint32_t *batch_carried;                  /* one token each */
    uint32_t batch_count, batch_rows, batch_logits;

    device_token_t *drawn;
    device_closed_t *closed;
    uint32_t drawn_count, closed_count;
    step_digest_t digest;

    struct {
        uint32_t peer;
        device_cpu_pool_t pool;
    } * peers;
    uint32_t peer_count;
} device_cpu_t;

MUST_USE status_t device_cpu_pool_create(device_cpu_t *self);
void device_cpu_pool_close(device_cpu_pool_t *pool);
generation_word_t *device_cpu_generation(const device_cpu_pool_t *pool, unit_kind_t unit,
                                         uint32_t index);

MUST_USE status_t device_cpu_map(device_t *device, uint32_t peer, const device_pool_t *wanted);
MUST_USE status_t device_cpu_copy(device_t *device, const device_copy_t *copy);

#endif
