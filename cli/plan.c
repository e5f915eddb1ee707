/* plan.c - `lockstep plan FILE [--dot | --json]`: what a deployment will be, before anything starts.
 */
#include "cli/plan.h"

#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/graph.h"
#include "cli/shared_memory.h"

/* ---- parts ------------------------------------------------------------------------------------ */

static void print_model(const deployment_t *d, FILE *out)
{
    char text[SHARED_MEMORY_TEXT_BYTES];
    weight_bytes_t whole = weight_bytes(&d->config, 0, 1);
    double unit = whole.parameters >= 1000000000 ? 1e9 : 1e6;
    const char *letter = whole.parameters >= 1000000000 ? "B" : "M";
    fprintf(out, "model %s, served as '%s'\n", d->topology.model_path, d->topology.served_name);
    fprintf(out, "  %.2f %s parameters, %.2f %s active per token\n",
            (double)whole.parameters / unit, letter, (double)whole.active_parameters / unit,
            letter);
    fprintf(out, "  weights %s:", shared_memory_text(weight_bytes_total(&whole), text));
    const char *between = " ";
    for (weights_part_t part = 0; part < WEIGHTS_PART_COUNT; part++) {
        if (whole.bytes[part] == 0)
            continue;
        fprintf(out, "%s%s %s", between, weight_bytes_part_name(part),
                shared_memory_text(whole.bytes[part], text));
        between = ", ";
    }
    fprintf(out, "\n");
}

static void print_bytes_row(const char *host, const char *device, const char *name,
                            const deployment_bytes_t *bytes, uint64_t memory, FILE *out)
{
    char text[SHARED_MEMORY_TEXT_BYTES];
    uint64_t total = deployment_bytes_total(bytes);
    fprintf(out, "  %-10s %6s  %-18s", host, device, name);
    fprintf(out, " %8s", shared_memory_text(bytes->weights, text));
    fprintf(out, " %8s", shared_memory_text(bytes->history, text));
    fprintf(out, " %8s", shared_memory_text(bytes->borders, text));
    fprintf(out, " %8s", shared_memory_text(bytes->slots, text));
    fprintf(out, " %9s", shared_memory_text(bytes->workspace, text));
    fprintf(out, " %8s", shared_memory_text(total, text));
    if (memory > 0)
        fprintf(out, "  %3.0f %% of %s", 100 * (double)total / (double)memory,
                shared_memory_text(memory, text));
    fprintf(out, "\n");
}

static void bytes_add(deployment_bytes_t *sum, const deployment_bytes_t *bytes)
{
    sum->weights += bytes->weights;
    sum->history += bytes->history;
    sum->borders += bytes->borders;
    sum->slots += bytes->slots;
    sum->workspace += bytes->workspace;
}

static const deployment_bytes_t *bytes_of_rank(const deployment_t *d, const topology_actor_t *rank)
{
    actor_kind_t kind = d->topology.actors[rank->leader].kind;
    return &deployment_group(d, kind, rank->instance)->bytes;
}

static void print_bytes(const deployment_t *d, FILE *out)
{
    const topology_t *t = &d->topology;
    fprintf(out, "\nbytes by device (weights by the rank with most; workspace is an estimate)\n");
    fprintf(out, "  %-10s %6s  %-18s %8s %8s %8s %8s %9s %8s\n", "host", "device", "rank",
            "weights", "history", "borders", "slots", "workspace", "total");
    for (uint16_t h = 0; h < t->host_count; h++) {
        const topology_host_t *host = &t->hosts[h];
        deployment_bytes_t sum = {0};
        char device[16];
        for (uint16_t i = 0; i < t->actor_count; i++) {
            const topology_actor_t *rank = &t->actors[i];
            if (rank->kind != ACTOR_RANK || rank->host != h)
                continue;
            snprintf(device, sizeof(device), "%u", rank->device);
            print_bytes_row(host->name, device, rank->name, bytes_of_rank(d, rank),
                            host->device_bytes, out);
            bytes_add(&sum, bytes_of_rank(d, rank));
        }
        bool shared = t->device == TOPOLOGY_CPU; /* devices of a CPU lie in the host's memory */
        print_bytes_row(host->name, "all", shared ? "in host memory" : "in device memory", &sum,
                        shared ? host->memory_bytes : host->devices * host->device_bytes, out);
    }
}

static void print_shared_memory(const deployment_t *d, FILE *out)
{
    char text[SHARED_MEMORY_TEXT_BYTES];
    fprintf(out, "\nshared memory (/dev/shm)\n");
    for (uint16_t h = 0; h < d->topology.host_count; h++)
        fprintf(out, "  %-10s needs %s\n", d->topology.hosts[h].name,
                shared_memory_text(shared_memory_needed(d, h), text));
}

uint32_t plan_lengths(const deployment_t *d, uint32_t lengths[PLAN_LENGTHS_MAX])
{
    static const uint32_t round[] = {1 << 10, 8 << 10, 32 << 10, 128 << 10, 1 << 20};
    uint32_t count = 0;
    for (size_t i = 0; i < COUNT_OF(round); i++)
        if (round[i] < d->topology.context_tokens)
            lengths[count++] = round[i];
    lengths[count++] = d->topology.context_tokens;
    return count;
}

void plan_print_capacity(const deployment_t *d, uint32_t tokens, FILE *out)
{
    const char *limit;
    uint64_t sessions = deployment_sessions(d, tokens, &limit);
    fprintf(out, "%llu session%s at ", (unsigned long long)sessions, sessions == 1 ? "" : "s");
    if (tokens % 1024 == 0)
        fprintf(out, "%u K", tokens / 1024);
    else
        fprintf(out, "%u tokens", tokens);
    fprintf(out, ", limited by %s\n", limit);
}

static void print_capacity(const deployment_t *d, FILE *out)
{
    uint32_t lengths[PLAN_LENGTHS_MAX];
    uint32_t count = plan_lengths(d, lengths);
    uint64_t pages = 0, borders = 0;
    fprintf(out, "\ncapacity\n");
    for (uint32_t i = 0; i < count; i++) {
        fprintf(out, "  ");
        plan_print_capacity(d, lengths[i], out);
    }
    for (uint16_t i = 0; i < d->topology.prefill_count; i++) {
        pages += d->prefills[i].counts[UNIT_HISTORY] - 1;
        borders += d->prefills[i].counts[UNIT_BORDER];
    }
    fprintf(out, "  prompts and cached prefixes: %llu tokens in prefill groups, %llu borders\n",
            (unsigned long long)(pages * PAGE_TOKENS), (unsigned long long)borders);
}

static void print_groups(const topology_t *t, actor_kind_t kind, FILE *out)
{
    for (uint16_t i = 0; i < topology_count(t, kind); i++) {
        const topology_group_t *g = topology_group(t, kind, i);
        fprintf(out, "  ");
        topology_place_print(t, kind, i, out);
        fprintf(out, "    %u pages, %u borders, %u slots, %u tokens a step\n", g->pages, g->borders,
                g->slots, g->chunk_tokens);
    }
}

static void print_others(const topology_t *t, FILE *out)
{
    for (uint16_t i = 0; i < t->actor_count; i++) {
        const topology_actor_t *actor = &t->actors[i];
        if (actor->leader != TOPOLOGY_NONE)
            continue;
        fprintf(out, "  %s: on %s", actor->name, t->hosts[actor->host].name);
        if (actor->kind == ACTOR_GATEWAY) {
            const topology_gateway_t *g = &t->gateways[actor->instance];
            fprintf(out, ", clients %s:%u, administration %s:%u", g->listen, g->port,
                    g->admin_listen, g->admin_port);
        }
        fprintf(out, "\n");
    }
}

void plan_print(const deployment_t *d, FILE *out)
{
    const topology_t *t = &d->topology;
    fprintf(out, "deployment %s, version %016llx\n", t->name, (unsigned long long)t->version);
    print_model(d, out);
    fprintf(out, "\nplacement\n");
    print_groups(t, ACTOR_PREFILL, out);
    print_groups(t, ACTOR_DECODE, out);
    print_others(t, out);
    print_bytes(d, out);
    print_shared_memory(d, out);
    print_capacity(d, out);
    fprintf(out, "\ngeometry\n");
    geometry_print(&d->geometry, out);
    fprintf(out, "\nwho may send what to whom\n");
    graph_print(t, out);
}

/* Not part of the plan, which is the same everywhere. */
static void print_shared_memory_here(FILE *out)
{
    char text[SHARED_MEMORY_TEXT_BYTES];
    uint64_t bytes;
    if (shared_memory_free(&bytes) == STATUS_OK)
        fprintf(out, "\nthis machine has %s of /dev/shm free\n", shared_memory_text(bytes, text));
    else
        fprintf(out, "\non this machine %s\n", trail_text());
}

/* ---- command ---------------------------------------------------------------------------------- */

int command_plan(int argc, char **argv)
{
    const char *path = NULL;
    bool dot = false, json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--dot") == 0)
            dot = true;
        else if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (argv[i][0] == '-' || path)
            return command_usage("plan", "--dot or --json, not both");
        else
            path = argv[i];
    }
    if (!path || (dot && json))
        return command_usage("plan", "--dot or --json, not both");
    topology_errors_t errors;
    deployment_t *deployment = malloc(sizeof(*deployment));
    if (!deployment || deployment_load(path, deployment, &errors) == STATUS_NO_MEMORY) {
        fprintf(stderr, "lockstep plan: out of memory\n");
        free(deployment);
        return EXIT_FAILED;
    }
    bool good = errors.count == 0;
    if (!good)
        topology_errors_print(&errors, stderr);
    else if (dot)
        graph_print_dot(&deployment->topology, stdout);
    else if (json)
        plan_print_json(deployment, stdout);
    else
        plan_print(deployment, stdout);
    if (good && !dot && !json)
        print_shared_memory_here(stdout);
    free(deployment);
    return good ? EXIT_OK : EXIT_BAD_FILE;
}
