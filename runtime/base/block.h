/* block.h - one block that may be copied away: a struct, and behind it the parts that its offsets lead to.
 *
 * Offsets count from the struct, so no pointer lies in the block.
 */
#ifndef RUNTIME_BASE_BLOCK_H
#define RUNTIME_BASE_BLOCK_H

#include <stddef.h>

#define AT(self, type, offset) ((type *)(void *)((char *)(self) + (self)->offset))
#define AT_CONST(self, type, offset)                                                               \
    ((const type *)(const void *)((const char *)(self) + (self)->offset))

/* The offset of a further part in a block that ends at `*end`. */
static inline size_t block_take(size_t *end, size_t bytes)
{
    size_t start = (*end + 63) & ~(size_t)63;

    *end = start + bytes;
    return start;
}

#endif
