/* group.h - all ranks of a group as threads of one process, with caches of their own: no actors, no
 * messages.
 *
 * For `lockstep run`, `lockstep verify`, benchmarks and tests. Each rank has its own pools, as it
 * has in a deployment; slot s always uses the same pages, so nothing is leased. Items name a slot;
 * their pages are filled in here.
 */
#ifndef MODEL_GROUP_H
#define MODEL_GROUP_H

#include "model/forward.h"

typedef struct {
    uint32_t world;
    uint32_t threads; /* of each rank */
    uint32_t slots;
    uint32_t borders;
    uint32_t rows_max;
    uint32_t logits_max;
    uint32_t positions_max;
    geometry_form_t cache_form, index_form;
    bool drafts;
    const forward_trace_t *trace; /* of rank 0; NULL: none */
} group_options_t;

typedef struct group group_t;

MUST_USE status_t group_open(const model_config_t *config, const weights_t *weights,
                             const group_options_t *options, group_t **group);
void group_close(group_t *group);
/* A slot without tokens. */
void group_clear(group_t *group, uint32_t slot);
/* A slot that continues at `position`, a page's end, from a border that was kept from the slot
 * `source`: its history before `position` is copied. */
void group_resume(group_t *group, uint32_t slot, uint32_t source, uint32_t border,
                  uint32_t position);

/* As forward_step and forward_draft, on all ranks; outputs are rank 0's, and CORRUPT tells that
 * ranks differ in logits. */
MUST_USE status_t group_forward(group_t *group, const forward_item_t *items, uint32_t item_count,
                             float *logits, float *streams);
MUST_USE status_t group_draft(group_t *group, uint32_t block, const forward_item_t *items,
                              uint32_t item_count, const float *streams, float *logits,
                              float *next_streams);

/* Digest of a unit in rank `rank`'s pool. */
uint64_t group_digest(const group_t *group, uint32_t rank, unit_kind_t unit, uint32_t index);
/* Collective calls so far, of each rank; 0 for ever in a world of 1. */
uint32_t group_calls(const group_t *group);
uint32_t group_page(const group_t *group, uint32_t slot, uint32_t ordinal);

#endif
