/* local.h - a model in this process, without actors: what `run` and `verify` share.
 *
 * Options --cache, --tp, --chunk, --threads; a group of ranks (model/group.h) with one slot.
 */
#ifndef CLI_LOCAL_H
#define CLI_LOCAL_H

#include "model/group.h"

typedef struct {
    const char *folder;
    const char *cache; /* float32, bf16, fp8, fp8i8 */
    uint32_t tp;
    uint32_t chunk;
    uint32_t threads; /* of each rank */
} local_options_t;

typedef struct {
    local_options_t options;
    model_config_t config;
    weights_t weights;
    group_t *group;
    uint32_t positions_max;
    float *logits; /* of the last row */
} local_t;

/* The defaults; threads: the cores of this machine, shared by the ranks. */
void local_options_init(local_options_t *options);
/* Takes argv[*at] (and its value) if it is one of the options above, and moves *at behind it. */
MUST_USE status_t local_option(int argc, char **argv, int *at, local_options_t *options,
                               bool *taken);
/* A whole number of at least 1 for an option. */
MUST_USE status_t local_number(const char *option, const char *text, uint32_t max,
                               uint32_t *number);

/* Reads the checkpoint and opens the group for contexts of up to positions_max. */
MUST_USE status_t local_open(local_t *local, const local_options_t *options, uint32_t positions_max,
                             const forward_trace_t *trace);
void local_close(local_t *local);
/* Tokens at `position` of the one slot, in chunks; position 0 starts anew. Fills local->logits. */
MUST_USE status_t local_feed(local_t *local, const uint32_t *tokens, uint32_t count,
                             uint32_t position);
/* The best token after the last feed; ties go to the lower id. */
uint32_t local_best(const local_t *local);
bool local_is_end(const local_t *local, uint32_t token);

#endif
