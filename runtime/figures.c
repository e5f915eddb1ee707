#include "runtime/figures.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/shared.h"

const char *figures_drop_name(figures_drop_t drop)
{
    static const char *const names[] = {
#define FIGURES_DROP_NAME(name, text) #name,
        FIGURES_DROP_TABLE(FIGURES_DROP_NAME)
#undef FIGURES_DROP_NAME
    };

    ASSERT(drop < DROP_COUNT);
    return names[drop];
}

void figures_init(figures_t *figures, actor_id_t actor, incarnation_t incarnation, const char *name)
{
    memset(figures, 0, sizeof(*figures));
    (void)snprintf(figures->name, sizeof(figures->name), "%s", name);
    figure_set(&figures->actor, actor);
    figure_set(&figures->incarnation, incarnation);
    figure_set(&figures->process, (uint64_t)getpid());
    figure_set(&figures->version, FIGURES_VERSION);
    atomic_store_explicit(&figures->magic, FIGURES_MAGIC, memory_order_release);
}

enum { OBJECT_BYTES_MAX = 160 };

static status_t object_name(const char *prefix, const char *actor, char *object)
{
    int length = snprintf(object, OBJECT_BYTES_MAX, "%s%s", prefix, actor);

    if (length < 0 || length >= OBJECT_BYTES_MAX)
        return FAIL(STATUS_TOO_LARGE, "a shared memory name of %d bytes", length);
    for (char *at = object + strlen(prefix); *at; at++)
        if (*at == '/')
            *at = '.';
    return STATUS_OK;
}

status_t figures_create(const char *prefix, const char *actor, figures_t **figures)
{
    char object[OBJECT_BYTES_MAX];
    void *memory = NULL;

    TRY(object_name(prefix, actor, object));
    TRY(shared_create(object, sizeof(figures_t), &memory));
    *figures = memory;
    return STATUS_OK;
}

static status_t map(const char *prefix, const char *actor, bool writable, figures_t **figures)
{
    char object[OBJECT_BYTES_MAX];
    figures_t *seen;
    void *memory = NULL;

    TRY(object_name(prefix, actor, object));
    TRY(shared_open(object, sizeof(figures_t), writable, &memory));
    seen = memory;
    if (atomic_load_explicit(&seen->magic, memory_order_acquire) != FIGURES_MAGIC ||
        figure_get(&seen->version) != FIGURES_VERSION) {
        figures_close(seen);
        return FAIL(STATUS_MISMATCH, "%s does not hold figures of version %d", object,
                    FIGURES_VERSION);
    }
    *figures = seen;
    return STATUS_OK;
}

status_t figures_open(const char *prefix, const char *actor, const figures_t **figures)
{
    figures_t *seen = NULL;

    TRY(map(prefix, actor, false, &seen));
    *figures = seen;
    return STATUS_OK;
}

status_t figures_probes_set(const char *prefix, const char *actor, uint64_t on, uint64_t off)
{
    figures_t *figures = NULL;

    TRY(map(prefix, actor, true, &figures));
    (void)atomic_fetch_or(&figures->probes, on);
    (void)atomic_fetch_and(&figures->probes, ~off);
    figures_close(figures);
    return STATUS_OK;
}

void figures_close(const figures_t *figures)
{
    if (figures)
        (void)munmap((void *)(uintptr_t)figures, sizeof(*figures));
}

void figures_unlink(const char *prefix, const char *actor)
{
    char object[OBJECT_BYTES_MAX];

    if (object_name(prefix, actor, object) == STATUS_OK)
        shared_unlink(object);
}
