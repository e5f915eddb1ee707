/* mapped.c - see mapped.h. */
#include "runtime/base/mapped.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

/* `size` is set last and cleared first: a handler that sees it sees the rest. */
typedef struct {
    atomic_bool taken;
    _Atomic(uintptr_t) start;
    _Atomic(size_t) size;
    atomic_bool lost;
} guard_t;

static guard_t guards[MAPPED_GUARDS_MAX];
static pthread_mutex_t installing = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction previous; /* for a SIGBUS anywhere else */

/* One system call and atomics: nothing that a handler may not do. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)info->si_addr;

    (void)context;
    for (int i = 0; i < MAPPED_GUARDS_MAX; i++) {
        size_t size = atomic_load(&guards[i].size);
        uintptr_t start = atomic_load(&guards[i].start);

        if (size == 0 || at < start || at - start >= size)
            continue;
        atomic_store(&guards[i].lost, true);
        if (mmap((void *)start, size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
            return; /* and the instruction runs again */
    }
    sigaction(number, &previous, NULL); /* the instruction runs again, and is theirs */
}

/* Each time, since somebody else may have taken the signal meanwhile. */
static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction before;

    pthread_mutex_lock(&installing);
    if (sigaction(SIGBUS, &action, &before) == 0 && before.sa_sigaction != on_bus_error)
        previous = before;
    pthread_mutex_unlock(&installing);
}

int mapped_guard(void *bytes, size_t size)
{
    install();
    for (int i = 0; i < MAPPED_GUARDS_MAX; i++) {
        bool taken = false;

        if (!atomic_compare_exchange_strong(&guards[i].taken, &taken, true))
            continue;
        atomic_store(&guards[i].lost, false);
        atomic_store(&guards[i].start, (uintptr_t)bytes);
        atomic_store(&guards[i].size, size);
        return i;
    }
    return -1;
}

void mapped_release(int guard)
{
    if (guard < 0)
        return;
    atomic_store(&guards[guard].size, 0);
    atomic_store(&guards[guard].taken, false);
}

bool mapped_is_lost(int guard)
{
    return guard >= 0 && atomic_load(&guards[guard].lost);
}
