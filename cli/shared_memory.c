/* shared_memory.c - see shared_memory.h. */
#include "cli/shared_memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "device/collective.h"
#include "model/forward.h"
#include "runtime/figures.h"
#include "runtime/ring.h"

enum { PAGE_BYTES = 4096, GENERATION_BYTES = 8 };

static uint64_t whole_pages(uint64_t bytes)
{
    return (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* Units with a word each that counts its lives, and a header. */
static uint64_t pool_bytes_of(const deployment_group_t *group)
{
    uint64_t units = 0;

    for (unit_kind_t unit = 0; unit < UNIT_COUNT; unit++)
        units += group->counts[unit];
    return whole_pages(group->bytes.history + group->bytes.borders + group->bytes.slots) +
           whole_pages(units * GENERATION_BYTES) + PAGE_BYTES;
}

static uint64_t group_bytes(const deployment_t *d, actor_kind_t kind, uint16_t instance)
{
    const topology_group_t *group = topology_group(&d->topology, kind, instance);
    const forward_options_t options = {.world = group->tp,
                                       .rows_max = group->chunk_tokens,
                                       .logits_max = group->slots,
                                       .positions_max = d->topology.context_tokens};
    uint64_t bytes = group->tp * pool_bytes_of(deployment_group(d, kind, instance));

    if (group->tp > 1)
        bytes += collective_bytes(group->tp, forward_collective_capacity(&d->config, &options));
    return bytes;
}

uint64_t shared_memory_needed(const deployment_t *d, uint16_t host)
{
    static const actor_kind_t kinds[] = {ACTOR_PREFILL, ACTOR_DECODE};
    const topology_t *t = &d->topology;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < t->actor_count; i++)
        if (t->actors[i].host == host)
            bytes += whole_pages(sizeof(figures_t)) + whole_pages(RING_BYTES + PAGE_BYTES);
    for (size_t k = 0; k < COUNT_OF(kinds) && t->device == TOPOLOGY_CPU; k++)
        for (uint16_t i = 0; i < topology_count(t, kinds[k]); i++)
            if (topology_group(t, kinds[k], i)->host == host)
                bytes += group_bytes(d, kinds[k], i);
    return bytes;
}

status_t shared_memory_free(uint64_t *bytes)
{
    struct statvfs info;

    if (statvfs("/dev/shm", &info) != 0)
        return FAIL(STATUS_IO, "there is no shared memory: /dev/shm: %s (mount a tmpfs there)",
                    strerror(errno));
    *bytes = (uint64_t)info.f_bavail * info.f_frsize;
    return STATUS_OK;
}

status_t shared_memory_check(const deployment_t *d, uint16_t host)
{
    char needed[SHARED_MEMORY_TEXT_BYTES], found[SHARED_MEMORY_TEXT_BYTES];
    uint64_t bytes = 0, need = shared_memory_needed(d, host);

    TRY(shared_memory_free(&bytes));
    if (bytes >= need)
        return STATUS_OK;
    return FAIL(STATUS_NO_MEMORY,
                "needs %s of shared memory, /dev/shm has %s free: make it larger (mount -o "
                "remount,size=..., docker run --shm-size=...) or lower pages and slots",
                shared_memory_text(need, needed), shared_memory_text(bytes, found));
}

const char *shared_memory_text(uint64_t bytes, char text[SHARED_MEMORY_TEXT_BYTES])
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    double value = (double)bytes;
    size_t unit = 0;

    for (; value >= 999.5 && unit + 1 < COUNT_OF(units); unit++)
        value /= 1000;
    int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(text, SHARED_MEMORY_TEXT_BYTES, "%.*f %s", digits, value, units[unit]);
    return text;
}
