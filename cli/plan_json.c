/* plan_json.c - the plan for programs. Bytes and counts are numbers, the version is a string. */
#include <jansson.h>

#include "cli/graph.h"
#include "cli/plan.h"
#include "cli/shared_memory.h"
#include "runtime/base/check.h"

/* Out of memory here ends the command; the library returns NULL and passes it on. */
static json_t *must(json_t *value)
{
    ASSERT(value != NULL);
    return value;
}

static void set(json_t *object, const char *key, json_t *value)
{
    ASSERT(json_object_set_new(object, key, must(value)) == 0);
}

static void append(json_t *array, json_t *value)
{
    ASSERT(json_array_append_new(array, must(value)) == 0);
}

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *hex(uint64_t value)
{
    return json_sprintf("%016llx", (unsigned long long)value);
}

static json_t *bytes_json(const deployment_bytes_t *bytes)
{
    json_t *object = must(json_object());
    set(object, "weights", number(bytes->weights));
    set(object, "history", number(bytes->history));
    set(object, "borders", number(bytes->borders));
    set(object, "slots", number(bytes->slots));
    set(object, "workspace", number(bytes->workspace));
    set(object, "total", number(deployment_bytes_total(bytes)));
    return object;
}

static json_t *model_json(const deployment_t *d)
{
    json_t *object = must(json_object()), *parts = must(json_object());
    weight_bytes_t whole = weight_bytes(&d->config, 0, 1);
    set(object, "path", json_string(d->topology.model_path));
    set(object, "served_name", json_string(d->topology.served_name));
    set(object, "parameters", number(whole.parameters));
    set(object, "active_parameters", number(whole.active_parameters));
    for (weights_part_t part = 0; part < WEIGHTS_PART_COUNT; part++)
        set(parts, weight_bytes_part_name(part), number(whole.bytes[part]));
    set(object, "weight_bytes", parts);
    return object;
}

static void add_groups(const deployment_t *d, actor_kind_t kind, json_t *array)
{
    const topology_t *t = &d->topology;
    for (uint16_t i = 0; i < topology_count(t, kind); i++) {
        const topology_group_t *g = topology_group(t, kind, i);
        json_t *object = must(json_object()), *devices = must(json_array());
        set(object, "name", json_string(topology_actor(t, kind, i)->name));
        set(object, "host", json_string(t->hosts[g->host].name));
        set(object, "tp", number(g->tp));
        for (uint16_t r = 0; r < g->tp; r++)
            append(devices, number(g->devices[r]));
        set(object, "devices", devices);
        set(object, "pages", number(g->pages));
        set(object, "borders", number(g->borders));
        set(object, "slots", number(g->slots));
        set(object, "chunk_tokens", number(g->chunk_tokens));
        set(object, "device_memory", number(t->hosts[g->host].device_bytes));
        set(object, "rank_bytes", bytes_json(&deployment_group(d, kind, i)->bytes));
        append(array, object);
    }
}

static json_t *capacity_json(const deployment_t *d)
{
    json_t *array = must(json_array());
    uint32_t lengths[PLAN_LENGTHS_MAX];
    uint32_t count = plan_lengths(d, lengths);
    for (uint32_t i = 0; i < count; i++) {
        json_t *object = must(json_object());
        const char *limit;
        uint64_t sessions = deployment_sessions(d, lengths[i], &limit);
        set(object, "tokens", number(lengths[i]));
        set(object, "sessions", number(sessions));
        set(object, "limited_by", json_string(limit));
        append(array, object);
    }
    return array;
}

static json_t *shared_memory_json(const deployment_t *d)
{
    json_t *object = must(json_object());
    for (uint16_t h = 0; h < d->topology.host_count; h++)
        set(object, d->topology.hosts[h].name, number(shared_memory_needed(d, h)));
    return object;
}

static json_t *geometry_json(const geometry_t *g)
{
    json_t *object = must(json_object()), *bytes = must(json_object());
    for (unit_kind_t unit = 0; unit < UNIT_COUNT; unit++)
        set(bytes, unit_kind_name(unit), number(g->unit_bytes[unit]));
    set(object, "digest", hex(g->digest));
    set(object, "page_tokens", number(PAGE_TOKENS));
    set(object, "unit_bytes", bytes);
    return object;
}

static json_t *actors_json(const topology_t *t)
{
    json_t *array = must(json_array());
    for (uint16_t i = 0; i < t->actor_count; i++) {
        const topology_actor_t *actor = &t->actors[i];
        json_t *object = must(json_object());
        set(object, "id", number(actor->id));
        set(object, "name", json_string(actor->name));
        set(object, "kind", json_string(actor_kind_word(actor->kind)));
        set(object, "host", json_string(t->hosts[actor->host].name));
        if (actor->device != TOPOLOGY_NONE)
            set(object, "device", number(actor->device));
        append(array, object);
    }
    return array;
}

static void add_edge(void *context, const graph_edge_t *edge)
{
    json_t *object = must(json_object()), *messages = must(json_array());
    set(object, "from", json_string(edge->from));
    set(object, "to", json_string(edge->to));
    for (uint32_t i = 0; i < edge->count; i++)
        append(messages, json_string(edge->messages[i]));
    set(object, "messages", messages);
    append(context, object);
}

void plan_print_json(const deployment_t *d, FILE *out)
{
    const topology_t *t = &d->topology;
    json_t *plan = must(json_object()), *groups = must(json_array()), *edges = must(json_array());
    set(plan, "name", json_string(t->name));
    set(plan, "version", hex(t->version));
    set(plan, "model", model_json(d));
    add_groups(d, ACTOR_PREFILL, groups);
    add_groups(d, ACTOR_DECODE, groups);
    set(plan, "groups", groups);
    set(plan, "capacity", capacity_json(d));
    set(plan, "shared_memory", shared_memory_json(d));
    set(plan, "geometry", geometry_json(&d->geometry));
    set(plan, "actors", actors_json(t));
    graph_visit(t, add_edge, edges);
    set(plan, "edges", edges);
    ASSERT(json_dumpf(plan, out, JSON_INDENT(2)) == 0);
    fputc('\n', out);
    json_decref(plan);
}
