/* map.h - a bounded hash map from {u64, u32} to a small number, in memory that may be copied away.
 *
 * Open addressing with linear probing and backward-shift deletion, at most 3/4 full. It holds no pointers: a map is
 * a header and the cells behind it, so an actor's state that contains one is relocatable. Iteration is by the
 * owner's own tables, never by the map, so hash order can decide nothing.
 */
#ifndef RUNTIME_BASE_MAP_H
#define RUNTIME_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAP_NONE = 0xffffffff };

typedef struct {
    uint64_t key;
    uint32_t sub;
    uint32_t filled; /* value + 1, so that zeroed cells are empty */
} map_cell_t;

typedef struct {
    uint32_t capacity; /* of entries */
    uint32_t count;
    uint32_t mask; /* cells - 1 */
    uint32_t unused;
    map_cell_t cells[];
} map_t;

/* Bytes of a map of `capacity` entries. */
size_t map_bytes(uint32_t capacity);
/* On zeroed memory, whose cells it does not touch. */
void map_init(map_t *map, uint32_t capacity);
/* MAP_NONE if absent. */
uint32_t map_get(const map_t *map, uint64_t key, uint32_t sub);
/* The key must be absent and the map not full (ASSERT); value != MAP_NONE. */
void map_put(map_t *map, uint64_t key, uint32_t sub, uint32_t value);
/* The key must be present (ASSERT). */
void map_remove(map_t *map, uint64_t key, uint32_t sub);

#endif
