#include "runtime/base/arena.h"

#include <stdint.h>
#include <string.h>

#include "runtime/base/check.h"

void arena_init(arena_t *arena, void *memory, size_t size)
{
    *arena = (arena_t){ .bytes = memory, .size = size };
}

void *arena_take(arena_t *arena, size_t count, size_t item_size, size_t align)
{
    uintptr_t base = (uintptr_t)arena->bytes;
    size_t start, size;

    ASSERT(align && (align & (align - 1)) == 0);
    if (__builtin_mul_overflow(count, item_size, &size))
        return NULL;
    start = (size_t)(((base + arena->used + align - 1) & ~(uintptr_t)(align - 1)) - base);
    if (start > arena->size || size > arena->size - start)
        return NULL;
    arena->used = start + size;
    if (arena->used > arena->used_max)
        arena->used_max = arena->used;
    return memset(arena->bytes + start, 0, size);
}

void arena_reset(arena_t *arena)
{
    arena->used = 0;
}
