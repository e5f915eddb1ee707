/* internal.h - the steps of topology_load, for the files of this folder only.
 *
 * read (yaml.c) -> parse -> validate -> place -> validate what placing decided -> actors, version.
 * A later step runs only when the ones before it found nothing wrong. Each is a pure function of
 * the topology so far: the same file gives the same block everywhere.
 */
#ifndef TOPOLOGY_INTERNAL_H
#define TOPOLOGY_INTERNAL_H

#include "topology/schema.h"
#include "topology/topology.h"
#include "topology/yaml.h"

enum { PLACES_MAX = 4096 /* every key of every entry */ };

/* Where each field of the topology stands in the file, so that checks after parsing can point. */
typedef struct {
    uint32_t count;
    struct {
        uint32_t offset; /* of the field in topology_t */
        bool entry;      /* a whole entry of a list, not its first field */
        topology_mark_t at;
    } items[PLACES_MAX];
} topology_places_t;

/* What one load works with; one allocation. */
typedef struct {
    topology_t topology;
    topology_places_t places;
    yaml_tree_t tree;
    topology_errors_t *errors;
} topology_load_t;

/* Of a field, or of the entry `or_entry` if the file does not state the field. */
topology_mark_t places_find(const topology_load_t *load, const void *field, const void *or_entry);

/* Each adds what is wrong to load->errors. */
void topology_parse_tree(topology_load_t *load);
void topology_validate(topology_load_t *load);
void topology_place(topology_load_t *load);

uint32_t topology_actors_needed(const topology_t *topology);
/* Needs hosts and devices of every group; asserts that ACTORS_MAX suffices. */
void topology_derive_actors(topology_t *topology);
uint64_t topology_digest(const topology_t *topology);

/* Value of a key as the canonical form writes it; `base` is the section's struct. */
void topology_format(const topology_t *topology, const schema_key_t *key, const void *base,
                     char *text, size_t size);

#endif
