#include "runtime/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limits.h"
#include "runtime/base/log.h"
#include "runtime/codec.h"
#include "runtime/queue.h"

struct worker {
    const message_table_t *table;
    worker_job_t *job;
    void *context;
    uint32_t jobs_max;
    char name[16];
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ready;
    queue_t queue; /* records: u16 id, padded to 8, then the body */
    uint32_t running;
    bool ending;
    arena_t arena;
    uint8_t *bytes; /* of the job in hand, copied out of the queue */
};

enum { RECORD_HEAD = 8 };

static void run(worker_t *worker, const uint8_t *record, size_t size)
{
    const void *body = NULL;
    uint16_t id;

    memcpy(&id, record, sizeof(id));
    arena_reset(&worker->arena);
    trail_reset();
    if (codec_decode(&worker->table->rows[id], record + RECORD_HEAD, size - RECORD_HEAD,
                     &worker->arena, &body) == STATUS_OK)
        worker->job(worker->context, id, body);
    else
        LOG(ERROR, "WORKER-MALFORMED worker=%s message=%u: %s", worker->name, id, trail_text());
}

static void *work(void *context)
{
    worker_t *worker = context;
    size_t size = 0;

    (void)pthread_setname_np(pthread_self(), worker->name);
    (void)pthread_mutex_lock(&worker->lock);
    while (!worker->ending) {
        const uint8_t *record = queue_front(&worker->queue, &size);

        if (!record) {
            (void)pthread_cond_wait(&worker->ready, &worker->lock);
            continue;
        }
        memcpy(worker->bytes, record, size);
        queue_pop(&worker->queue);
        worker->running = 1;
        (void)pthread_mutex_unlock(&worker->lock);
        run(worker, worker->bytes, size);
        (void)pthread_mutex_lock(&worker->lock);
        worker->running = 0;
    }
    (void)pthread_mutex_unlock(&worker->lock);
    return NULL;
}

status_t worker_open(const char *name, const message_table_t *table, uint32_t jobs_max,
                     worker_job_t *job, void *context, worker_t **worker_p)
{
    worker_t *worker = calloc(1, sizeof(*worker));
    void *memory = malloc(MESSAGE_ARENA_BYTES);

    if (worker)
        worker->bytes = malloc(MESSAGE_BYTES_MAX + RECORD_HEAD);
    if (!worker || !memory || !worker->bytes) {
        free(worker ? worker->bytes : NULL);
        free(worker);
        free(memory);
        return FAIL(STATUS_NO_MEMORY, "worker %s", name);
    }
    worker->table = table;
    worker->job = job;
    worker->context = context;
    worker->jobs_max = jobs_max;
    (void)snprintf(worker->name, sizeof(worker->name), "%s", name);
    arena_init(&worker->arena, memory, MESSAGE_ARENA_BYTES);
    queue_init(&worker->queue, (size_t)jobs_max * (MESSAGE_BYTES_MAX + RECORD_HEAD));
    (void)pthread_mutex_init(&worker->lock, NULL);
    (void)pthread_cond_init(&worker->ready, NULL);
    if (pthread_create(&worker->thread, NULL, work, worker) != 0) {
        free(worker->bytes);
        free(worker);
        free(memory);
        return FAIL(STATUS_NO_MEMORY, "thread of worker %s", name);
    }
    *worker_p = worker;
    return STATUS_OK;
}

void worker_push(worker_t *worker, uint16_t id, const uint8_t *bytes, size_t size)
{
    uint8_t *record;

    ASSERT(id < worker->table->count);
    (void)pthread_mutex_lock(&worker->lock);
    ASSERT(worker->queue.count < worker->jobs_max);
    record = queue_push(&worker->queue, RECORD_HEAD + size);
    ASSERT(record != NULL);
    memset(record, 0, RECORD_HEAD);
    memcpy(record, &id, sizeof(id));
    memcpy(record + RECORD_HEAD, bytes, size);
    (void)pthread_cond_signal(&worker->ready);
    (void)pthread_mutex_unlock(&worker->lock);
}

uint32_t worker_count(worker_t *worker)
{
    uint32_t count;

    (void)pthread_mutex_lock(&worker->lock);
    count = worker->queue.count + worker->running;
    (void)pthread_mutex_unlock(&worker->lock);
    return count;
}

void worker_close(worker_t *worker)
{
    if (!worker)
        return;
    (void)pthread_mutex_lock(&worker->lock);
    worker->ending = true;
    (void)pthread_cond_signal(&worker->ready);
    (void)pthread_mutex_unlock(&worker->lock);
    (void)pthread_join(worker->thread, NULL);
    (void)pthread_mutex_destroy(&worker->lock);
    (void)pthread_cond_destroy(&worker->ready);
    queue_fini(&worker->queue);
    free(worker->arena.bytes);
    free(worker->bytes);
    free(worker);
}
