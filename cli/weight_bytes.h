/* weight_bytes.h - bytes of a model's weights and of one rank's share, from config.json alone.
 *
 * Counts the release's storage forms (FP8 and FP4 with their scales, BF16, F32) over the table of
 * model/weights_layout.h and cuts it as the forward pass does: heads, output groups and vocabulary
 * by the number of ranks, rows of every expert and of the output projection as evenly as they go,
 * the rest on every rank.
 */
#ifndef CLI_WEIGHT_BYTES_H
#define CLI_WEIGHT_BYTES_H

#include <stdint.h>

#include "model/config.h"

typedef enum {
    WEIGHTS_EXPERTS,   /* routed */
    WEIGHTS_ATTENTION, /* projections, compressors, indexer */
    WEIGHTS_TOKENS,    /* embedding and head */
    WEIGHTS_OTHER,     /* shared experts, routers, mixes, norms */
    WEIGHTS_DRAFTS,    /* drafting (MTP) blocks, which are no part of the parameters */
    WEIGHTS_PART_COUNT
} weights_part_t;

typedef struct {
    uint64_t parameters;        /* numbers, without scales, tables of token ids, drafting blocks */
    uint64_t active_parameters; /* of those, what one token meets; one row of the embedding */
    uint64_t bytes[WEIGHTS_PART_COUNT];
} weight_bytes_t;

/* The share of `rank` of `world`; 0 of 1 is the whole model. `world` divides what it must. */
weight_bytes_t weight_bytes(const model_config_t *config, uint32_t rank, uint32_t world);
uint64_t weight_bytes_total(const weight_bytes_t *bytes);
const char *weight_bytes_part_name(weights_part_t part);

#endif
