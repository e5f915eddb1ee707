/* script.h - a fuzzer's bytes, read as choices. Behind their end every choice is 0, so any bytes are a whole
 * script, and a short one is a simple one. */
#ifndef TESTS_FUZZ_SCRIPT_H
#define TESTS_FUZZ_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const uint8_t *bytes;
    size_t size;
    size_t at;
} script_t;

static inline bool script_is_over(const script_t *script)
{
    return script->at >= script->size;
}

static inline uint8_t script_byte(script_t *script)
{
    return script_is_over(script) ? 0 : script->bytes[script->at++];
}

/* In [0, count); count > 0, at most 65536. */
static inline uint32_t script_below(script_t *script, uint32_t count)
{
    uint32_t value = script_byte(script);

    if (count > 256)
        value = value << 8 | script_byte(script);
    return value % count;
}

static inline uint64_t script_u64(script_t *script)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value << 8 | script_byte(script);
    return value;
}

#endif
