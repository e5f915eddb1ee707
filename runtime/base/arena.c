#include "runtime/base/arena.h"

#include <stdint.h>
#include <string.h>

#include "runtime/base/check.h"

void arena_init(arena_t *arena, void *memory, size_t size)
{
    *arena = (arena_t){ .bytes = memory, .size = size };
}

void arena_init_zeroed(arena_t *arena, void *memory, size_t size)
{
    arena_init(arena, memory, size);
    arena->zeroed = true;
}

void *arena_take(arena_t *arena, size_t count, size_t item_size, size_t align)
{
    uintptr_t base = (uintptr_t)arena->bytes;
    size_t start, size, used_max = arena->used_max, dirty;

    ASSERT(align && (align & (align - 1)) == 0);
    if (__builtin_mul_overflow(count, item_size, &size))
        return NULL;
    start = (size_t)(((base + arena->used + align - 1) & ~(uintptr_t)(align - 1)) - base);
    if (start > arena->size || size > arena->size - start)
        return NULL;
    arena->used = start + size;
    if (arena->used > arena->used_max)
        arena->used_max = arena->used;
    dirty = !arena->zeroed ? size : start < used_max ? used_max - start : 0;
    return memset(arena->bytes + start, 0, dirty < size ? dirty : size);
}

void arena_reset(arena_t *arena)
{
    arena->used = 0;
}
