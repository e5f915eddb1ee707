/* arena.h - memory given out in order from one block, given back all at once.
 *
 * Used at start (every table of an actor) and per message (decoded views). Never grows: a request that does not
 * fit returns NULL, and the caller decides what that means. Not thread safe.
 */
#ifndef RUNTIME_BASE_ARENA_H
#define RUNTIME_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    unsigned char *bytes;
    size_t size;
    size_t used;
    size_t used_max; /* high water since init */
    bool zeroed;     /* what was never given out is zero */
} arena_t;

/* The caller owns the memory and keeps it until it is done with the arena. */
void arena_init(arena_t *arena, void *memory, size_t size);
/* The same for memory that is zero already, as calloc gives it: it is not touched before it is used, and large tables
 * cost nothing until something stands in them. */
void arena_init_zeroed(arena_t *arena, void *memory, size_t size);
/* Zeroed memory, aligned to `align` (a power of two), or NULL if it does not fit. */
void *arena_take(arena_t *arena, size_t count, size_t item_size, size_t align);
void arena_reset(arena_t *arena);

#define ARENA_TAKE(arena, count, type) ((type *)arena_take((arena), (count), sizeof(type), _Alignof(type)))

#endif
