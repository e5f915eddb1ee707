/* diff.h - what changes between two deployments, as a list of instances.
 *
 * Instances of a kind are compared by number: decode/1 before with decode/1 after. A change that
 * touches all of them (model, cache form, context) is one row of the deployment itself. Pure, no
 * allocation.
 */
#ifndef TOPOLOGY_DIFF_H
#define TOPOLOGY_DIFF_H

#include "topology/topology.h"

enum {
    DIFF_ITEMS_MAX = ACTORS_MAX + 64, /* every instance, and every key of the deployment */
    DIFF_TEXT_BYTES_MAX = 160
};

typedef enum { DIFF_ADDED, DIFF_REMOVED, DIFF_CHANGED } diff_change_t;

typedef struct {
    diff_change_t change;
    char name[ACTOR_NAME_BYTES_MAX]; /* "decode/1", "hosts/0"; "" is the deployment itself */
    char text[DIFF_TEXT_BYTES_MAX];  /* changed: "slots 64 -> 32, pages auto -> 512"; else "" */
} diff_item_t;

typedef struct {
    uint32_t count;
    diff_item_t items[DIFF_ITEMS_MAX];
} topology_diff_t;

/* In the order of the file form: the deployment, hosts, gateways, ... */
void topology_diff(const topology_t *before, const topology_t *after, topology_diff_t *diff);
void topology_diff_print(const topology_diff_t *diff, FILE *out);

#endif
