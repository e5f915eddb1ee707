/* stream.h - copies of bytes that nobody reads soon: past the caches, so that nothing useful leaves them.
 *
 * Its stores are weakly ordered even on x86: call stream_end before anybody else is told of the bytes. Without AVX2 it
 * is memcpy.
 */
#ifndef CACHE_STREAM_H
#define CACHE_STREAM_H

#include <stddef.h>

/* `next` is what will be read after this, or NULL: its first lines are fetched meanwhile, since the
 * hardware's own prefetch starts anew at each run. Source and target do not overlap. */
void stream_copy(void *target, const void *source, size_t bytes, const void *next);
void stream_end(void);

#endif
