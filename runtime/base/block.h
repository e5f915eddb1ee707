/* block.h - one block that may be copied away: a struct, and behind it the parts that its offsets lead to.
 *
 * Offsets count from the struct, so no pointer lies in the block.
 */
#ifndef RUNTIME_BASE_BLOCK_H
#define RUNTIME_BASE_BLOCK_H

#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#define AT(self, type, offset) ((type *)(void *)((char *)(self) + (self)->offset))
#define AT_CONST(self, type, offset)                                                               \
    ((const type *)(const void *)((const char *)(self) + (self)->offset))

enum { BLOCK_MAP_BYTES = 1 << 20 };

/* Zeroed memory, which costs what is touched of it: most of a large block never is, so the system need
 * not have as much. NULL: none. */
static inline void *block_open(size_t bytes)
{
    void *memory;

    if (bytes < BLOCK_MAP_BYTES)
        return calloc(1, bytes);
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static inline void block_close(void *memory, size_t bytes)
{
    if (memory && bytes >= BLOCK_MAP_BYTES)
        (void)munmap(memory, bytes);
    else
        free(memory);
}

/* The offset of a further part in a block that ends at `*end`. */
static inline size_t block_take(size_t *end, size_t bytes)
{
    size_t start = (*end + 63) & ~(size_t)63;

    *end = start + bytes;
    return start;
}

#endif
