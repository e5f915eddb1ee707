#include "cache/stream.h"

#include <stdint.h>
#include <string.h>

#include "kernels/isa.h"

#if ISA_HAS_X86
#include <immintrin.h>

enum {
    LINE = 64,         /* bytes of a cache line */
    BLOCK = 4 * LINE,  /* bytes of one round of the loop */
    SHORT = 2 * BLOCK, /* shorter runs are memcpy's */
    AHEAD = 16 * LINE, /* how far in front of the loop lines are fetched */
    NEXT_LINES = 16    /* of the next run */
};

static void fetch(const unsigned char *from, int lines)
{
    for (int i = 0; i < lines; i++)
        _mm_prefetch((const char *)from + i * LINE, _MM_HINT_NTA); /* past the end is harmless */
}

ISA_TARGET_AVX2 static void copy_avx2(unsigned char *to, const unsigned char *from, size_t bytes)
{
    const size_t head = -(uintptr_t)to % LINE;

    memcpy(to, from, head);
    to += head;
    from += head;
    for (bytes -= head; bytes >= BLOCK; bytes -= BLOCK, to += BLOCK, from += BLOCK) {
        fetch(from + AHEAD, BLOCK / LINE);
        for (int i = 0; i < BLOCK; i += 32)
            _mm256_stream_si256((__m256i *)(void *)(to + i),
                                _mm256_loadu_si256((const __m256i *)(const void *)(from + i)));
    }
    memcpy(to, from, bytes);
}
#endif

void stream_copy(void *target, const void *source, size_t bytes, const void *next)
{
#if ISA_HAS_X86
    if (next != NULL)
        fetch(next, NEXT_LINES);
    if (bytes >= SHORT && isa_level() >= ISA_AVX2) {
        copy_avx2(target, source, bytes);
        return;
    }
#endif
    (void)next;
    memcpy(target, source, bytes);
}

void stream_end(void)
{
#if ISA_HAS_X86
    _mm_sfence();
#endif
}
