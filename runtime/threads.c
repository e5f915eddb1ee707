#include "runtime/threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/base/log.h"

typedef struct {
    threads_t *all;
    process_t *process;
    pthread_t thread;
    bool started;
    const char *name;
} one_t;

struct threads {
    uint32_t count;
    atomic_int first; /* status of the first that ended, or -1 */
    one_t each[];
};

static void *run(void *context)
{
    one_t *one = context;
    char short_name[16]; /* as many as a debugger can show */
    int none = -1;
    status_t status;

    (void)snprintf(short_name, sizeof(short_name), "%s", one->name);
    (void)pthread_setname_np(pthread_self(), short_name);
    log_thread_name_set(one->name);
    status = process_run(one->process);
    (void)atomic_compare_exchange_strong(&one->all->first, &none, (int)status);
    threads_stop(one->all);
    return NULL;
}

status_t threads_open(const process_config_t *configs, uint32_t count, threads_t **threads_p)
{
    threads_t *threads = calloc(1, sizeof(*threads) + count * sizeof(one_t));

    if (!threads)
        return FAIL(STATUS_NO_MEMORY, "%u threads", count);
    atomic_init(&threads->first, -1);
    for (; threads->count < count; threads->count++) {
        one_t *one = &threads->each[threads->count];
        const process_config_t *config = &configs[threads->count];
        status_t status;

        ASSERT(config->zmq != NULL);
        one->all = threads;
        one->name = roster_name(config->roster, config->birth.id);
        status = process_open(config, &one->process);
        if (status != STATUS_OK) {
            threads_close(threads);
            return trail_pass(status, __func__, __LINE__);
        }
    }
    *threads_p = threads;
    return STATUS_OK;
}

status_t threads_run(threads_t *threads)
{
    for (uint32_t i = 0; i < threads->count; i++) {
        one_t *one = &threads->each[i];

        if (pthread_create(&one->thread, NULL, run, one) != 0) {
            atomic_store(&threads->first, STATUS_NO_MEMORY);
            threads_stop(threads);
            break;
        }
        one->started = true;
    }
    for (uint32_t i = 0; i < threads->count; i++)
        if (threads->each[i].started)
            (void)pthread_join(threads->each[i].thread, NULL);
    return (status_t)atomic_load(&threads->first);
}

void threads_stop(threads_t *threads)
{
    for (uint32_t i = 0; i < threads->count; i++)
        process_stop(threads->each[i].process);
}

void threads_close(threads_t *threads)
{
    if (!threads)
        return;
    for (uint32_t i = 0; i < threads->count; i++)
        process_close(threads->each[i].process);
    free(threads);
}

process_t *threads_process(const threads_t *threads, uint32_t index)
{
    ASSERT(index < threads->count);
    return threads->each[index].process;
}
