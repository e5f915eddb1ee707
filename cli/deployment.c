/* deployment.c - topology meets model: what must divide, what must fit, what "auto" is.
 *
 * A rank's device holds, in this order of claims: weights, workspace, a reserve (CUDA: 5 % for the
 * driver's own needs), slots, then pages with their borders. `pages: auto` is what is left; a
 * decode group takes no more than its slots can use at the longest context.
 */
#include "cli/deployment.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/budget.h"
#include "model/checkpoint.h"
#include "model/forward.h"
#include "model/weights.h"

enum { RESERVE_PERMILLE_CUDA = 50 };

static void complain(topology_errors_t *errors, actor_kind_t kind, uint16_t instance,
                     const char *key, topology_mark_t at, const char *text)
{
    topology_errors_add(errors, at, "%s[%u].%s: %s", actor_kind_word(kind), instance, key, text);
}

static void check_division(deployment_t *d, actor_kind_t kind, uint16_t instance,
                           topology_errors_t *errors)
{
    const topology_group_t *group = topology_group(&d->topology, kind, instance);
    if (forward_world_check(&d->config, group->tp) != STATUS_OK)
        complain(errors, kind, instance, "tp", group->tp_at, trail_text());
}

/* ---- bytes ------------------------------------------------------------------------------------ */

static geometry_form_t cache_form(const topology_t *topology)
{
    static const geometry_form_t forms[] = {[TOPOLOGY_CACHE_FP8] = FORM_FP8_BLOCKS,
                                            [TOPOLOGY_CACHE_BF16] = FORM_BF16,
                                            [TOPOLOGY_CACHE_FLOAT32] = FORM_FLOAT32};
    return forms[topology->cache_form];
}

static geometry_form_t index_form(const topology_t *topology)
{
    static const geometry_form_t forms[] = {[TOPOLOGY_INDEX_FP4] = FORM_FP4_BLOCKS,
                                            [TOPOLOGY_INDEX_FP8] = FORM_FP8_ROW,
                                            [TOPOLOGY_INDEX_BF16] = FORM_BF16,
                                            [TOPOLOGY_INDEX_FLOAT32] = FORM_FLOAT32};
    return forms[topology->index_form];
}

/* Rows of one step in float32: streams and their sums, site input and output, queries and core of
 * the rank's heads, low-rank halves, compressor inputs, the chosen experts' widths and answers, the
 * choice of entries; and logits for every slot. An estimate from above, not what a device allocates. */
static uint64_t workspace_bytes(const model_config_t *c, const topology_group_t *group)
{
    uint64_t heads = (uint64_t)c->heads * c->head_dim / group->tp;
    uint64_t row =
        2ull * c->streams * c->hidden + 4ull * c->hidden + 2 * heads + 2ull * c->query_rank +
        (uint64_t)c->output_groups * c->output_rank + 4ull * c->head_dim + 4ull * c->index_dim +
        (uint64_t)c->index_heads * c->index_dim + c->index_topk +
        (uint64_t)c->experts_per_token * c->hidden +
        (c->experts_per_token + 1ull) * (c->expert_width + 3ull * c->expert_width / group->tp);
    uint64_t logits = (uint64_t)group->slots * c->vocabulary;
    return sizeof(float) * (row * group->chunk_tokens + logits);
}

static uint64_t weights_bytes(const model_config_t *config, uint16_t world)
{
    uint64_t most = 0;
    for (uint32_t rank = 0; rank < world; rank++) {
        weight_bytes_t share = weight_bytes(config, rank, world);
        uint64_t bytes = weight_bytes_total(&share);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t deployment_bytes_total(const deployment_bytes_t *bytes)
{
    return bytes->weights + bytes->history + bytes->borders + bytes->slots + bytes->workspace;
}

/* ---- what "auto" is --------------------------------------------------------------------------- */

static uint32_t least(uint64_t a, uint64_t b)
{
    return (uint32_t)(a < b ? a : b);
}

/* Pages from what is left of the device. A prefill group keeps a border for each prompt in work
 * besides those that border_every asks for. */
static status_t count_auto(const deployment_t *d, actor_kind_t kind, const topology_group_t *group,
                           const deployment_bytes_t *bytes, uint32_t counts[UNIT_COUNT])
{
    const topology_t *t = &d->topology;
    bool prefill = kind == ACTOR_PREFILL;
    uint64_t own_borders = prefill ? group->slots * d->geometry.unit_bytes[UNIT_BORDER] : 0;
    budget_t budget = {
        .device_bytes = t->hosts[group->host].device_bytes,
        .weights_bytes = bytes->weights,
        .workspace_bytes = bytes->workspace + own_borders,
        .reserve_permille = t->device == TOPOLOGY_CUDA ? RESERVE_PERMILLE_CUDA : 0,
        .slots = group->slots,
        .pages_per_border = prefill ? t->border_every : 0,
        .tokens_min = t->context_tokens,
    };
    TRY(budget_counts(&d->geometry, &budget, counts));
    uint64_t useful = 1 + (uint64_t)group->slots * tokens_pages(t->context_tokens);
    if (!prefill)
        counts[UNIT_HISTORY] = least(counts[UNIT_HISTORY], useful);
    else
        counts[UNIT_BORDER] += group->slots;
    return STATUS_OK;
}

static void count_stated(const deployment_t *d, actor_kind_t kind, const topology_group_t *group,
                         uint32_t counts[UNIT_COUNT])
{
    bool prefill = kind == ACTOR_PREFILL;
    counts[UNIT_HISTORY] = group->pages;
    counts[UNIT_BORDER] = prefill ? group->pages / d->topology.border_every + 1 + group->slots : 0;
    counts[UNIT_SLOT] = group->slots;
}

static void resolve_group(deployment_t *d, actor_kind_t kind, uint16_t instance,
                          topology_errors_t *errors)
{
    bool prefill = kind == ACTOR_PREFILL;
    topology_group_t *group =
        prefill ? &d->topology.prefills[instance] : &d->topology.decodes[instance];
    deployment_group_t *out = prefill ? &d->prefills[instance] : &d->decodes[instance];
    char text[TOPOLOGY_TEXT_BYTES_MAX / 2];
    out->bytes.weights = weights_bytes(&d->config, group->tp);
    out->bytes.workspace = workspace_bytes(&d->config, group);
    if (group->pages > 0) {
        count_stated(d, kind, group, out->counts);
    } else if (count_auto(d, kind, group, &out->bytes, out->counts) != STATUS_OK) {
        snprintf(text, sizeof(text), "auto: %.110s", trail_text());
        complain(errors, kind, instance, "pages", group->pages_at, text);
        return;
    }
    if (group->borders > 0)
        out->counts[UNIT_BORDER] = group->borders;
    out->bytes.history = out->counts[UNIT_HISTORY] * d->geometry.unit_bytes[UNIT_HISTORY];
    out->bytes.borders = out->counts[UNIT_BORDER] * d->geometry.unit_bytes[UNIT_BORDER];
    out->bytes.slots = out->counts[UNIT_SLOT] * d->geometry.unit_bytes[UNIT_SLOT];
    group->pages = out->counts[UNIT_HISTORY];
    group->borders = out->counts[UNIT_BORDER];
    uint64_t needed = deployment_bytes_total(&out->bytes);
    uint64_t device = d->topology.hosts[group->host].device_bytes;
    if (needed > device) {
        snprintf(text, sizeof(text), "a rank needs %.1f MB, device_memory is %.1f MB",
                 (double)needed / 1e6, (double)device / 1e6);
        complain(errors, kind, instance, "pages", group->pages_at, text);
    }
}

/* Devices of a CPU lie in the memory of their host. */
static void check_hosts(deployment_t *d, topology_errors_t *errors)
{
    const topology_t *t = &d->topology;
    uint64_t needed[HOSTS_MAX] = {0};
    for (uint16_t i = 0; i < t->prefill_count; i++)
        needed[t->prefills[i].host] +=
            t->prefills[i].tp * deployment_bytes_total(&d->prefills[i].bytes);
    for (uint16_t i = 0; i < t->decode_count; i++)
        needed[t->decodes[i].host] +=
            t->decodes[i].tp * deployment_bytes_total(&d->decodes[i].bytes);
    for (uint16_t i = 0; i < t->host_count && t->device == TOPOLOGY_CPU; i++) {
        const topology_host_t *host = &t->hosts[i];
        if (host->memory_bytes > 0 && needed[i] > host->memory_bytes)
            topology_errors_add(errors, host->memory_at,
                                "hosts[%u].memory: %.1f MB, but the ranks of '%s' need %.1f MB", i,
                                (double)host->memory_bytes / 1e6, host->name,
                                (double)needed[i] / 1e6);
    }
}

/* ---- loading ---------------------------------------------------------------------------------- */

static void check_model(deployment_t *d, topology_errors_t *errors)
{
    topology_mark_t whole = {0, 0};
    if (model_config_load(d->topology.model_path, &d->config) != STATUS_OK) {
        topology_errors_add(errors, whole, "model: %s", trail_text());
        return;
    }
    if (d->topology.context_tokens > d->config.positions_max)
        topology_errors_add(errors, whole,
                            "limits.context_tokens: %u, but the model has %u positions",
                            d->topology.context_tokens, d->config.positions_max);
    if (forward_geometry(&d->config, cache_form(&d->topology), index_form(&d->topology), false,
                         &d->geometry) != STATUS_OK)
        topology_errors_add(errors, whole, "cache: %s", trail_text());
}

typedef void group_step_t(deployment_t *d, actor_kind_t kind, uint16_t instance,
                          topology_errors_t *errors);

static void each_group(deployment_t *d, topology_errors_t *errors, group_step_t *step)
{
    for (uint16_t i = 0; i < d->topology.prefill_count; i++)
        step(d, ACTOR_PREFILL, i, errors);
    for (uint16_t i = 0; i < d->topology.decode_count; i++)
        step(d, ACTOR_DECODE, i, errors);
}

status_t deployment_load(const char *path, deployment_t *d, topology_errors_t *errors)
{
    memset(d, 0, sizeof(*d));
    TRY(topology_load(path, &d->topology, errors));
    check_model(d, errors);
    if (errors->count == 0)
        each_group(d, errors, check_division);
    if (errors->count == 0)
        each_group(d, errors, resolve_group);
    if (errors->count == 0)
        check_hosts(d, errors);
    if (errors->count > 0)
        return FAIL(STATUS_BAD_CONFIG, "%s: %s", path, errors->items[0].text);
    return STATUS_OK;
}

bool deployment_has_weights(const deployment_t *d)
{
    static const char *const names[] = {"model.safetensors", "model.safetensors.index.json"};
    char path[2 * PATH_BYTES_MAX];
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", d->topology.model_path, names[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    return false;
}

status_t deployment_check_model(const deployment_t *d)
{
    weights_t weights;
    TRY(weights_open(&weights, d->topology.model_path, &d->config));
    weights_close(&weights);
    return checkpoint_check(d->topology.model_path, &d->config);
}

const deployment_group_t *deployment_group(const deployment_t *d, actor_kind_t kind,
                                           uint16_t instance)
{
    ASSERT(topology_group(&d->topology, kind, instance) != NULL);
    return kind == ACTOR_PREFILL ? &d->prefills[instance] : &d->decodes[instance];
}

uint64_t deployment_sessions(const deployment_t *d, uint32_t tokens, const char **limit)
{
    uint64_t sessions = 0, streams = 0;
    bool by_slots = true;
    for (uint16_t i = 0; i < d->topology.decode_count; i++) {
        budget_capacity_t capacity = budget_capacity(d->decodes[i].counts, tokens);
        sessions += capacity.sessions;
        by_slots = by_slots && capacity.limit == BUDGET_BY_SLOTS;
    }
    for (uint16_t i = 0; i < d->topology.gateway_count; i++)
        streams += d->topology.gateways[i].streams_max;
    *limit = streams < sessions ? "gateway streams" : by_slots ? "decode slots" : "decode pages";
    return streams < sessions ? streams : sessions;
}
