#include "runtime/base/map.h"

#include "runtime/base/check.h"
#include "runtime/base/random.h"

static uint32_t cells_for(uint32_t capacity)
{
    uint32_t cells = 8;

    while (cells - cells / 4 <= capacity)
        cells *= 2;
    return cells;
}

size_t map_bytes(uint32_t capacity)
{
    return sizeof(map_t) + cells_for(capacity) * sizeof(map_cell_t);
}

void map_init(map_t *map, uint32_t capacity)
{
    *map = (map_t){ .capacity = capacity, .mask = cells_for(capacity) - 1 };
}

static uint32_t home_of(const map_t *map, uint64_t key, uint32_t sub)
{
    return (uint32_t)random_mix(key ^ random_mix(sub + UINT64_C(0x9e3779b97f4a7c15))) & map->mask;
}

/* The cell of the key, or the empty cell where it would go. */
static uint32_t find(const map_t *map, uint64_t key, uint32_t sub)
{
    uint32_t cell = home_of(map, key, sub);

    while (map->cells[cell].filled &&
           (map->cells[cell].key != key || map->cells[cell].sub != sub))
        cell = (cell + 1) & map->mask;
    return cell;
}

uint32_t map_get(const map_t *map, uint64_t key, uint32_t sub)
{
    return map->cells[find(map, key, sub)].filled - 1; /* MAP_NONE, of an empty cell */
}

void map_put(map_t *map, uint64_t key, uint32_t sub, uint32_t value)
{
    uint32_t cell = find(map, key, sub);

    ASSERT(value != MAP_NONE);
    ASSERT(!map->cells[cell].filled);
    ASSERT(map->count < map->capacity);
    map->cells[cell] = (map_cell_t){ key, sub, value + 1 };
    map->count++;
}

void map_remove(map_t *map, uint64_t key, uint32_t sub)
{
    uint32_t hole = find(map, key, sub);
    uint32_t cell = hole;

    ASSERT(map->cells[hole].filled);
    map->count--;
    for (;;) {
        uint32_t home;

        cell = (cell + 1) & map->mask;
        if (!map->cells[cell].filled)
            break;
        home = home_of(map, map->cells[cell].key, map->cells[cell].sub);
        /* The entry may fill the hole unless its home lies behind the hole, on the way to it. */
        if (((cell - home) & map->mask) >= ((cell - hole) & map->mask)) {
            map->cells[hole] = map->cells[cell];
            hole = cell;
        }
    }
    map->cells[hole] = (map_cell_t){ 0 };
}
