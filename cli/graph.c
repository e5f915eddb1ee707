/* graph.c - edges are rows of the message table between kinds; a rank speaks with its own leader. */
#include "cli/graph.h"

#include <string.h>

#include "messages/message.h"

typedef struct {
    char name[ACTOR_NAME_BYTES_MAX];
    actor_kind_t kind;
    uint16_t leader;
    uint16_t host;
} graph_node_t;

typedef struct {
    graph_node_t items[ACTORS_MAX];
    uint32_t count;
} graph_nodes_t;

static void ranks_name(const topology_t *t, actor_kind_t kind, uint16_t instance, char *name,
                       size_t size)
{
    uint16_t tp = topology_group(t, kind, instance)->tp;
    int used = snprintf(name, size, "%s/%u/rank/0", actor_kind_word(kind), (unsigned)instance);
    if (tp > 1)
        snprintf(name + used, size - (size_t)used, "-%u", tp - 1u);
}

static void collect(const topology_t *t, graph_nodes_t *nodes)
{
    nodes->count = 0;
    for (uint16_t i = 0; i < t->actor_count; i++) {
        const topology_actor_t *actor = &t->actors[i];
        if (actor->kind == ACTOR_RANK && actor->rank > 0)
            continue;
        graph_node_t *node = &nodes->items[nodes->count++];
        *node = (graph_node_t){
            .kind = (actor_kind_t)(actor->kind), .leader = actor->leader, .host = actor->host};
        if (actor->kind == ACTOR_RANK)
            ranks_name(t, t->actors[actor->leader].kind, actor->instance, node->name,
                       sizeof(node->name));
        else
            memcpy(node->name, actor->name, sizeof(node->name));
    }
}

static bool is_leader(const graph_node_t *node)
{
    return node->kind == ACTOR_PREFILL || node->kind == ACTOR_DECODE;
}

static bool may_speak(const graph_node_t *a, const graph_node_t *b)
{
    if (a->kind == b->kind)
        return false;
    bool rank = a->kind == ACTOR_RANK || b->kind == ACTOR_RANK;
    bool leader = is_leader(a) || is_leader(b);
    return !(rank && leader) || a->leader == b->leader;
}

void graph_visit(const topology_t *t, graph_visitor_t *visit, void *context)
{
    static graph_nodes_t nodes; /* a command has one thread */
    collect(t, &nodes);
    for (uint32_t i = 0; i < nodes.count; i++) {
        for (uint32_t k = 0; k < nodes.count; k++) {
            const graph_node_t *a = &nodes.items[i], *b = &nodes.items[k];
            graph_edge_t edge = {.from = a->name, .to = b->name};
            for (uint32_t id = 0; id < message_table.count && may_speak(a, b); id++) {
                const message_row_t *row = &message_table.rows[id];
                if (row->name && row->class != MESSAGE_LOCAL && (row->from & BIT(a->kind)) &&
                    (row->to & BIT(b->kind)) && edge.count < GRAPH_MESSAGES_MAX)
                    edge.messages[edge.count++] = row->name;
            }
            if (edge.count > 0)
                visit(context, &edge);
        }
    }
}

void graph_visit_pages(const topology_t *t, graph_visitor_t *visit, void *context)
{
    char from[ACTOR_NAME_BYTES_MAX], to[ACTOR_NAME_BYTES_MAX];
    for (uint16_t p = 0; p < t->prefill_count; p++) {
        for (uint16_t d = 0; d < t->decode_count; d++) {
            ranks_name(t, ACTOR_PREFILL, p, from, sizeof(from));
            ranks_name(t, ACTOR_DECODE, d, to, sizeof(to));
            visit(context,
                  &(graph_edge_t){.from = from, .to = to, .messages = {"pages"}, .count = 1});
        }
    }
}

/* ---- text ------------------------------------------------------------------------------------- */

static void print_messages(const graph_edge_t *edge, const char *between, FILE *out)
{
    for (uint32_t i = 0; i < edge->count; i++)
        fprintf(out, "%s%s", i ? between : "", edge->messages[i]);
}

typedef struct {
    FILE *out;
    char from[ACTOR_NAME_BYTES_MAX]; /* of the line before */
} print_t;

static void print_edge(void *context, const graph_edge_t *edge)
{
    print_t *p = context;
    bool again = strcmp(p->from, edge->from) == 0;
    fprintf(p->out, "  %-20s -> %-20s ", again ? "" : edge->from, edge->to);
    print_messages(edge, " ", p->out);
    fputc('\n', p->out);
    snprintf(p->from, sizeof(p->from), "%s", edge->from);
}

static void print_pages(void *context, const graph_edge_t *edge)
{
    fprintf(context, "  %-20s => %-20s pages, read by the receiver\n", edge->from, edge->to);
}

void graph_print(const topology_t *topology, FILE *out)
{
    print_t p = {.out = out};
    graph_visit(topology, print_edge, &p);
    graph_visit_pages(topology, print_pages, out);
}

/* ---- Graphviz --------------------------------------------------------------------------------- */

static void dot_edge(void *context, const graph_edge_t *edge)
{
    FILE *out = context;
    bool supervisor = strncmp(edge->from, "supervisor", strlen("supervisor")) == 0;
    fprintf(out, "    \"%s\" -> \"%s\" [label=\"", edge->from, edge->to);
    print_messages(edge, "\\n", out);
    fprintf(out, "\"%s];\n", supervisor ? ", color=gray, fontcolor=gray, style=dashed" : "");
}

static void dot_pages(void *context, const graph_edge_t *edge)
{
    fprintf(context, "    \"%s\" -> \"%s\" [label=\"pages\", style=bold, color=blue];\n",
            edge->from, edge->to);
}

void graph_print_dot(const topology_t *t, FILE *out)
{
    static graph_nodes_t nodes;
    collect(t, &nodes);
    fprintf(out, "digraph \"%s\" {\n    rankdir=LR;\n    node [shape=box];\n", t->name);
    for (uint16_t h = 0; h < t->host_count; h++) {
        fprintf(out, "    subgraph cluster_%u {\n        label=\"%s\";\n", h, t->hosts[h].name);
        for (uint32_t i = 0; i < nodes.count; i++)
            if (nodes.items[i].host == h)
                fprintf(out, "        \"%s\";\n", nodes.items[i].name);
        fprintf(out, "    }\n");
    }
    graph_visit(t, dot_edge, out);
    graph_visit_pages(t, dot_pages, out);
    fprintf(out, "}\n");
}
