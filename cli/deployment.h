/* deployment.h - a topology and its model, checked against each other, with every "auto" filled in.
 *
 * What topology/ cannot know: whether tp divides the model's heads, how many pages fit a device.
 * `up` and every process that it starts load the same file through here and get the same figures.
 */
#ifndef CLI_DEPLOYMENT_H
#define CLI_DEPLOYMENT_H

#include "cache/geometry.h"
#include "cli/weight_bytes.h"
#include "topology/topology.h"

/* What the rank with most bytes of a group needs of its device. */
typedef struct {
    uint64_t weights;
    uint64_t history;
    uint64_t borders;
    uint64_t slots;
    uint64_t workspace;
} deployment_bytes_t;

typedef struct {
    uint32_t counts[UNIT_COUNT]; /* pages, borders, slots of each rank's pools */
    deployment_bytes_t bytes;
} deployment_group_t;

typedef struct {
    topology_t topology; /* pages and borders of every group are numbers now; 0 borders: none */
    model_config_t config;
    geometry_t geometry;
    deployment_group_t prefills[INSTANCES_MAX];
    deployment_group_t decodes[INSTANCES_MAX];
} deployment_t;

/* OK, or BAD_CONFIG with at least one error in `errors`, or NO_MEMORY. Reads config.json, not the
 * weights. topology.version is that of the file: resolving "auto" does not change it. */
MUST_USE status_t deployment_load(const char *path, deployment_t *deployment,
                                  topology_errors_t *errors);
/* False for a folder with no more than its config.json: it can be planned, not started. */
bool deployment_has_weights(const deployment_t *deployment);
/* What loading the model would refuse, found before: names, shapes and forms of all tensors, and all
 * files beside them. The values are looked at when they are loaded. */
MUST_USE status_t deployment_check_model(const deployment_t *deployment);
/* `kind` is PREFILL or DECODE. */
const deployment_group_t *deployment_group(const deployment_t *deployment, actor_kind_t kind,
                                           uint16_t instance);
uint64_t deployment_bytes_total(const deployment_bytes_t *bytes);
/* Sessions of `tokens` positions that run at once; `*limit` names what one more would lack: "decode
 * slots", "decode pages" or "gateway streams". */
uint64_t deployment_sessions(const deployment_t *deployment, uint32_t tokens, const char **limit);

#endif
