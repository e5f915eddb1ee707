/* keeper.c - a list of incidents to write, and the thread that does it in their order. What waits is
 * bounded by lives: each asks for its own incident once, and a supervisor starts only so many.
 */
#include "actors/supervisor/keeper.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"

typedef struct task task_t;

struct task {
    bool ends; /* `incident`; else a copy of `actor` */
    incident_t incident;
    actor_id_t actor;
    incarnation_t lives[ACTORS_MAX];
    task_t *next;
};

struct keeper {
    const incident_place_t *place;
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t ready;
    task_t *first;
    task_t *last;
    bool ending;
};

static void run(const incident_place_t *place, task_t *task)
{
    if (task->ends)
        incident_end(place, &task->incident);
    else
        incident_copy(place, task->actor, task->lives);
    free(task);
}

static void *work(void *context)
{
    keeper_t *keeper = context;

    (void)pthread_setname_np(pthread_self(), "keeper");
    (void)pthread_mutex_lock(&keeper->lock);
    while (keeper->first || !keeper->ending) {
        task_t *task = keeper->first;

        if (!task) {
            (void)pthread_cond_wait(&keeper->ready, &keeper->lock);
            continue;
        }
        keeper->first = task->next;
        (void)pthread_mutex_unlock(&keeper->lock);
        run(keeper->place, task);
        (void)pthread_mutex_lock(&keeper->lock);
    }
    (void)pthread_mutex_unlock(&keeper->lock);
    return NULL;
}

status_t keeper_open(const incident_place_t *place, keeper_t **out)
{
    keeper_t *keeper = calloc(1, sizeof(*keeper));

    if (!keeper)
        return FAIL(STATUS_NO_MEMORY, "a thread for incidents");
    keeper->place = place;
    (void)pthread_mutex_init(&keeper->lock, NULL);
    (void)pthread_cond_init(&keeper->ready, NULL);
    if (pthread_create(&keeper->thread, NULL, work, keeper) != 0) {
        free(keeper);
        return FAIL(STATUS_NO_MEMORY, "a thread for incidents");
    }
    *out = keeper;
    return STATUS_OK;
}

void keeper_close(keeper_t *keeper)
{
    if (!keeper)
        return;
    (void)pthread_mutex_lock(&keeper->lock);
    keeper->ending = true;
    (void)pthread_cond_signal(&keeper->ready);
    (void)pthread_mutex_unlock(&keeper->lock);
    (void)pthread_join(keeper->thread, NULL);
    (void)pthread_mutex_destroy(&keeper->lock);
    (void)pthread_cond_destroy(&keeper->ready);
    free(keeper);
}

static void push(keeper_t *keeper, task_t *task)
{
    (void)pthread_mutex_lock(&keeper->lock);
    if (keeper->first)
        keeper->last->next = task;
    else
        keeper->first = task;
    keeper->last = task;
    (void)pthread_cond_signal(&keeper->ready);
    (void)pthread_mutex_unlock(&keeper->lock);
}

void keeper_end(keeper_t *keeper, incident_t *incident)
{
    task_t *task = incident_is_open(incident) ? calloc(1, sizeof(*task)) : NULL;

    if (!task) {
        incident_end(keeper->place, incident); /* nothing to do, or no memory to do it elsewhere */
        return;
    }
    task->ends = true;
    task->incident = *incident;
    *incident = (incident_t){0};
    push(keeper, task);
}

void keeper_copy(keeper_t *keeper, actor_id_t actor, const incarnation_t *lives)
{
    task_t *task = calloc(1, sizeof(*task));

    if (!task) {
        incident_copy(keeper->place, actor, lives);
        return;
    }
    task->actor = actor;
    memcpy(task->lives, lives, sizeof(task->lives));
    push(keeper, task);
}
