/* forward.h - the forward pass: token rows in, cached rows written, logits out.
 *
 * One forward_t is one rank's share of the model: its weights, packed, and the workspace of a step.
 * A step holds items, each a run of tokens of one slot: a chunk of a prompt or one decoded token,
 * any mix. Caches are the pools of cache/layout.h; a slot's state is in its history pages and its
 * slot unit, so an item is the whole truth about what to do.
 *
 * The bits of a row depend on its sequence's tokens, the weights and the cache forms: not on
 * chunks, batch, threads, instruction set, nor (beyond design 8) on the number of ranks: ranks
 * exchange slices and never add across ranks.
 *
 * A step makes 4 collective calls a layer and one for logits, whatever it holds.
 *
 * Not thread safe; allocates at open only. Ranks of a group make the same calls in the same order.
 */
#ifndef MODEL_FORWARD_H
#define MODEL_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache/layout.h"
#include "device/collective.h"
#include "kernels/sample/sample.h"
#include "model/config.h"
#include "model/weights.h"

typedef struct forward forward_t;

/* Where the pools lie. */
typedef struct {
    const layout_t *layout;
    void *memory;
} forward_cache_t;

/* Tokens [position, position + count) of a slot. Slots of one step differ. */
typedef struct {
    uint32_t slot;
    uint32_t position;
    uint32_t count;
    const uint32_t *tokens;
    const uint32_t
        *pages;           /* of the slot, from its first position on; enough for position + count */
    uint32_t logit_count; /* logits of the last so many rows are wanted */
    uint32_t
        border_count; /* borders to keep: page numbers of the slot whose ends lie in this run */
    const uint32_t *border_ordinals;
    const uint32_t *border_targets;
} forward_item_t;

/* The collectives of a layer, for reports. Router and indexer need none. */
#define FORWARD_SITE_TABLE(S)                                                                      \
    S(ATTENTION_GROUPS, "attention groups")                                                        \
    S(ATTENTION_OUTPUT, "attention output")                                                        \
    S(EXPERT_WIDTH, "expert width")                                                                \
    S(MOE_OUTPUT, "moe output")                                                                    \
    S(LOGITS, "logits")

typedef enum {
#define SITE_ENUM(site, name) SITE_##site,
    FORWARD_SITE_TABLE(SITE_ENUM)
#undef SITE_ENUM
} forward_site_id_t;

/* "unknown" for a number that is none. */
const char *forward_site_name(uint32_t site);

/* For golden tests and `run --trace`: intermediates by the names of tests/golden/numbers/README.md.
 * Rank 0 sees what it computes: all of it in a world of 1. */
typedef enum { TRACE_F32, TRACE_I32, TRACE_U8 } forward_trace_kind_t;
typedef struct {
    void *context;
    void (*note)(void *context, const char *name, forward_trace_kind_t kind, uint32_t rows,
                 uint32_t width, const void *values);
} forward_trace_t;

typedef struct {
    uint32_t rank;
    uint32_t world;               /* 1: no collectives */
    uint32_t threads;             /* of this rank */
    uint32_t rows_max;            /* token rows of one step */
    uint32_t logits_max;          /* rows of one step whose logits are wanted */
    uint32_t positions_max;       /* longest context */
    const forward_trace_t *trace; /* stays the caller's; NULL: none */
} forward_options_t;

/* What the model needs of the caches. `drafts`: the drafting blocks' windows too. */
MUST_USE status_t forward_geometry(const model_config_t *config, geometry_form_t cache_form,
                                   geometry_form_t index_form, bool drafts, geometry_t *geometry);
/* "float32", "bf16", "fp8" (index keys fp4) and "fp8i8" (index keys fp8 with a scale per row).
 * False: no such form. */
bool forward_form_parse(const char *text, geometry_form_t *cache_form, geometry_form_t *index_form);
/* UNSUPPORTED if the model does not divide by `world`, with what does not. */
MUST_USE status_t forward_world_check(const model_config_t *config, uint32_t world);

/* Packs this rank's share of the weights, which are not needed afterwards but for embeddings and
 * routing tables. `config`, `weights` and `geometry` stay. NO_MEMORY, UNSUPPORTED, BAD_FILE. */
MUST_USE status_t forward_open(const model_config_t *config, const weights_t *weights,
                               const geometry_t *geometry, const forward_options_t *options,
                               forward_t **forward);
void forward_close(forward_t *forward);
/* Of the group, for the calls that follow; stays the caller's. Needed in a world of more than 1. */
void forward_collective_set(forward_t *forward, collective_t *collective);
/* Largest post of one collective call that a step can make, in bytes, for collective_open: no call
 * of forward_step or forward_draft is ever cut. */
uint64_t forward_collective_capacity(const model_config_t *config,
                                     const forward_options_t *options);

/* Runs the items. logits: [sum of logit_count, vocabulary], in order of items. streams: [rows,
 * streams * hidden] after the last layer, or NULL. BROKEN or MISMATCH from a collective; TOO_LARGE;
 * INVALID for a token outside the vocabulary. */
MUST_USE status_t forward_step(forward_t *forward, const forward_cache_t *cache,
                               const forward_item_t *items, uint32_t item_count, float *logits,
                               float *streams);
/* Draws a token for each of the first `rows` rows of `logits`, as they lie behind forward_step; at
 * most logits_max. Rows are independent. */
void forward_draw(forward_t *forward, const float *logits, const sample_row_t *how, uint32_t rows,
                  sample_choice_t *choices);
/* Of the streams that an item of the last forward_step left behind: every rank carries all of them
 * itself, so ranks that differ in anything that they compute alike differ here in the same step. */
uint64_t forward_digest(const forward_t *f, uint32_t item);
/* A drafting block on rows (streams of position p, token of position p + 1): predicts p + 2.
 * next_streams may be NULL or the same as streams; it feeds a chained draft. */
MUST_USE status_t forward_draft(forward_t *forward, uint32_t block, const forward_cache_t *cache,
                                const forward_item_t *items, uint32_t item_count,
                                const float *streams, float *logits, float *next_streams);

/* A fresh slot that continues at the page end `position` from a border; INVALID if one of these is none. */
MUST_USE status_t forward_border_load(const geometry_t *geometry, const forward_cache_t *cache,
                                      uint32_t border, uint32_t slot, uint32_t position);

#endif
