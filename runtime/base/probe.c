#include "runtime/base/probe.h"

#include <string.h>

#include "runtime/base/check.h"
#include "runtime/base/log.h"

static _Atomic uint64_t own_word;
_Atomic uint64_t *probe_word = &own_word;

static const struct {
    const char *name;
    const char *keys;
    const char *text;
} rows[PROBE_COUNT] = {
#define PROBE_ROW(name, keys, text) {#name, keys, text},
    PROBE_TABLE(PROBE_ROW)
#undef PROBE_ROW
};

_Static_assert(PROBE_COUNT <= 64, "the switches are bits of one word");

void probe_switches_set(_Atomic uint64_t *switches)
{
    probe_word = switches ? switches : &own_word;
}

_Atomic uint64_t *probe_switches(void)
{
    return probe_word;
}

const char *probe_name(probe_t probe)
{
    ASSERT((unsigned)probe < PROBE_COUNT);
    return rows[probe].name;
}

const char *probe_text(probe_t probe)
{
    ASSERT((unsigned)probe < PROBE_COUNT);
    return rows[probe].text;
}

bool probe_parse(const char *name, probe_t *probe)
{
    for (uint32_t i = 0; i < PROBE_COUNT; i++)
        if (strcmp(rows[i].name, name) == 0) {
            *probe = (probe_t)i;
            return true;
        }
    return false;
}

void probe_raise(probe_t probe, const uint64_t *values, uint32_t count)
{
    char line[LOG_LINE_BYTES_MAX / 2] = "";
    const char *key = rows[probe].keys;
    size_t used = 0;

    ASSERT((unsigned)probe < PROBE_COUNT);
    ASSERT(count <= PROBE_VALUES_MAX);
    for (uint32_t i = 0; i < count; i++) {
        size_t length = strcspn(key, " ");

        ASSERT(length > 0); /* as many keys as values */
        used += (size_t)snprintf(line + used, sizeof(line) - used, " %.*s=%llu", (int)length, key,
                                 (unsigned long long)values[i]);
        key += length + strspn(key + length, " ");
    }
    ASSERT(*key == '\0');
    log_write(LOG_INFO, "PROBE %s%s", rows[probe].name, line);
}
