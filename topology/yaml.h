/* yaml.h - reads the part of YAML that a topology file uses, into a bounded tree with places.
 *
 * libyaml parses; here its events become a tree, and what a topology file does not need is refused
 * by name: anchors, aliases, tags, directives, merge keys, block scalars and other values over
 * several lines, keys that are no scalar, doubled keys, control characters, further documents.
 * Size, nodes and depth are bounded, and nothing is ever expanded.
 */
#ifndef TOPOLOGY_YAML_H
#define TOPOLOGY_YAML_H

#include <stdint.h>

#include "topology/topology.h"

#define YAML_NONE UINT32_MAX /* no node */

typedef enum { YAML_NULL, YAML_SCALAR, YAML_LIST, YAML_MAP } yaml_kind_t;

/* A node is an item of a list, the value of a key, or the root. Texts end with a NUL and contain no
 * other. */
typedef struct {
    yaml_kind_t kind;
    bool quoted;        /* a scalar in quotes is text, whatever it looks like */
    topology_mark_t at; /* of the value */
    topology_mark_t key_at;
    uint32_t key;   /* text of the key in a map: offset in texts */
    uint32_t text;  /* of a scalar: offset in texts */
    uint32_t first; /* of a list or map: its first child */
    uint32_t next;  /* sibling */
} yaml_tree_node_t; /* libyaml has a yaml_node_t */

/* Room for any file that is read; about 850 KB. */
typedef struct {
    uint32_t count;
    uint32_t texts_used;
    yaml_tree_node_t nodes[TOPOLOGY_NODES_MAX]; /* 0 is the root */
    char texts[2 * TOPOLOGY_BYTES_MAX];
} yaml_tree_t;

/* OK and a tree with a root, or an error status and one error in `errors`: what follows it cannot
 * be understood. */
MUST_USE status_t yaml_read(const char *text, size_t bytes, yaml_tree_t *tree,
                            topology_errors_t *errors);

static inline const char *yaml_text(const yaml_tree_t *tree, uint32_t offset)
{
    return tree->texts + offset;
}

/* "a list" and so on. */
const char *yaml_kind_text(yaml_kind_t kind);

#endif
