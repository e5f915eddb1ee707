/* team.c - see team.h: threads that share one rank's work. */
#include "device/team.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/futex.h"

enum { POLLS = 2000, PART_BITS = 24 }; /* polls: about as long as a futex call takes */

/* `ticket` holds a round's number of parts and the next part in one word, so a helper that comes
 * late can neither take a part of a round that is over nor mistake one round's parts for another's.
 * The caller waits for parts, not for helpers: on a busy machine it does the work of those that
 * sleep. `work` and `context` change only when all parts are done. */
struct team {
    uint32_t threads;
    uint32_t polls;
    team_work_t *work;
    void *context;
    _Atomic uint64_t ticket;
    atomic_uint done;     /* parts of this round; futex */
    atomic_uint round;    /* bumped to start one; futex */
    atomic_uint sleepers; /* on either futex */
    atomic_bool closing;
    pthread_t handles[TEAM_THREADS_MAX];
    struct member {
        team_t *team;
        uint32_t thread;
    } members[TEAM_THREADS_MAX];
};

static void take_parts(team_t *team, uint32_t thread)
{
    const uint64_t mask = (1u << PART_BITS) - 1;

    for (;;) {
        uint64_t ticket = atomic_fetch_add(&team->ticket, 1);
        uint32_t part = (uint32_t)(ticket & mask), parts = (uint32_t)(ticket >> PART_BITS & mask);
        if (part >= parts)
            return;
        team->work(team->context, part, thread);
        if (atomic_fetch_add(&team->done, 1) + 1 == parts && atomic_load(&team->sleepers))
            futex_wake(&team->done, false);
    }
}

/* Returns when *word is not `value` any more. */
static void wait_change(team_t *team, atomic_uint *word, unsigned value)
{
    for (uint32_t i = 0; i < team->polls; i++) {
        if (atomic_load(word) != value)
            return;
        futex_relax();
    }
    atomic_fetch_add(&team->sleepers, 1);
    while (atomic_load(word) == value)
        futex_wait(word, value, false);
    atomic_fetch_sub(&team->sleepers, 1);
}

static void *member_main(void *argument)
{
    const struct member *self = argument;
    team_t *team = self->team;
    unsigned round = 0;

    for (;;) {
        wait_change(team, &team->round, round);
        round = atomic_load(&team->round);
        if (atomic_load(&team->closing))
            return NULL;
        take_parts(team, self->thread);
    }
}

status_t team_open(uint32_t threads, team_t **out)
{
    team_t *team;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (threads == 0 || threads > TEAM_THREADS_MAX)
        return FAIL(STATUS_TOO_LARGE, "%u threads; 1 to %d are possible", threads,
                    TEAM_THREADS_MAX);
    team = calloc(1, sizeof(*team));
    if (!team)
        return FAIL(STATUS_NO_MEMORY, "no memory for a team of %u threads", threads);
    team->polls = (long)threads <= cores ? POLLS : 0;
    team->threads = 1;
    for (uint32_t i = 1; i < threads; i++) {
        team->members[i] = (struct member){team, i};
        if (pthread_create(&team->handles[i], NULL, member_main, &team->members[i]) != 0) {
            team_close(team);
            return FAIL(STATUS_IO, "cannot start thread %u of %u", i, threads);
        }
        team->threads++;
    }
    *out = team;
    return STATUS_OK;
}

void team_close(team_t *team)
{
    if (!team)
        return;
    atomic_store(&team->closing, true);
    atomic_fetch_add(&team->round, 1);
    futex_wake(&team->round, false);
    for (uint32_t i = 1; i < team->threads; i++)
        pthread_join(team->handles[i], NULL);
    free(team);
}

uint32_t team_threads(const team_t *team)
{
    return team->threads;
}

void team_run(team_t *team, uint32_t parts, team_work_t *work, void *context)
{
    ASSERT(parts < 1u << (PART_BITS - 1));
    if (team->threads == 1 || parts <= 1) {
        for (uint32_t part = 0; part < parts; part++)
            work(context, part, 0);
        return;
    }
    team->work = work;
    team->context = context;
    atomic_store(&team->done, 0);
    atomic_store(&team->ticket, (uint64_t)parts << PART_BITS);
    atomic_fetch_add(&team->round, 1);
    if (atomic_load(&team->sleepers))
        futex_wake(&team->round, false);
    take_parts(team, 0);
    for (unsigned done; (done = atomic_load(&team->done)) < parts;)
        wait_change(team, &team->done, done);
}
