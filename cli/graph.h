/* graph.h - who sends what to whom, from the topology and the message table.
 *
 * The ranks of a group are one node ("decode/0/rank/0-3"): they all speak with the same actors.
 */
#ifndef CLI_GRAPH_H
#define CLI_GRAPH_H

#include <stdio.h>

#include "topology/topology.h"

enum { GRAPH_MESSAGES_MAX = 64 };

typedef struct {
    const char *from, *to;
    const char *messages[GRAPH_MESSAGES_MAX]; /* of the wire, in the order of the table */
    uint32_t count;
} graph_edge_t;

typedef void graph_visitor_t(void *context, const graph_edge_t *edge);

/* Every pair of nodes with at least one message, senders in the order of the actor table. */
void graph_visit(const topology_t *topology, graph_visitor_t *visit, void *context);
/* Pages move without messages: each decode group's ranks read those of each prefill group. */
void graph_visit_pages(const topology_t *topology, graph_visitor_t *visit, void *context);

void graph_print(const topology_t *topology, FILE *out);
/* For Graphviz: `lockstep plan FILE --dot | dot -Tsvg > plan.svg`. */
void graph_print_dot(const topology_t *topology, FILE *out);

#endif
