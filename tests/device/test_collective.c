/* test_collective.c - slices cross between processes, with more ranks than cores, and no fault
 * leaves a waiter behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/collective.h"
#include "device/team.h"

enum { WORLD = 8, ROWS = 5, COLUMNS = 24, CAPACITY = 256 };

static void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    return memory;
}

static float value_of(uint32_t rank, uint32_t round, uint32_t row, uint32_t column)
{
    return (float)(rank * 1000000 + round * 1000 + row * 31 + column);
}

/* Many calls of both kinds, checked; returns the exit code. Slices are of unequal width, one is
 * empty. */
static int exchange_rounds(collective_t *c, uint32_t rounds)
{
    static const uint32_t offsets[WORLD + 1] = {0, 3, 6, 6, 7, 12, 16, 20, 24};
    uint32_t rank = c->rank, width = offsets[rank + 1] - offsets[rank];

    for (uint32_t round = 0; round < rounds; round++) {
        float mine[ROWS * COLUMNS], all[ROWS][COLUMNS];
        uint8_t owners[ROWS];

        collective_step(c, 1, round);
        for (uint32_t i = 0; i < ROWS * width; i++)
            mine[i] = value_of(rank, round, i / (width ? width : 1),
                               offsets[rank] + i % (width ? width : 1));
        if (collective_gather(c, 1, mine, ROWS, offsets, all[0], COLUMNS) != STATUS_OK)
            return 2;
        for (uint32_t r = 0; r < WORLD; r++)
            for (uint32_t row = 0; row < ROWS; row++)
                for (uint32_t column = offsets[r]; column < offsets[r + 1]; column++)
                    if (all[row][column] != value_of(r, round, row, column))
                        return 3;

        for (uint32_t i = 0; i < ROWS * COLUMNS; i++)
            mine[i] = value_of(rank, round, i / COLUMNS, i % COLUMNS);
        for (uint32_t row = 0; row < ROWS; row++)
            owners[row] = (uint8_t)((row * 3 + round) % WORLD);
        if (collective_pick(c, 2, mine, ROWS, COLUMNS, owners, rank, 2, all[0]) != STATUS_OK)
            return 4;
        for (uint32_t row = 0; row < ROWS; row++)
            for (uint32_t i = 0; i < 2; i++)
                if (all[0][row * 2 + i] != value_of(owners[row], round, row, rank + i))
                    return 5;
    }
    return 0;
}

static pid_t start_rank(void *memory, uint32_t rank, uint32_t rounds)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        collective_t c;
        if (collective_init(&c, memory, rank, WORLD, CAPACITY) != STATUS_OK)
            _exit(1);
        _exit(exchange_rounds(&c, rounds));
    }
    return child;
}

static int wait_exit(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void test_eight_processes_see_each_others_slices(void **state)
{
    void *memory = shared_memory(collective_bytes(WORLD, CAPACITY));
    pid_t children[WORLD];

    (void)state;
    for (uint32_t r = 0; r < WORLD; r++)
        children[r] = start_rank(memory, r, 200);
    for (uint32_t r = 0; r < WORLD; r++)
        assert_int_equal(wait_exit(children[r]), 0);
    munmap(memory, collective_bytes(WORLD, CAPACITY));
}

/* T15: one rank is killed; an observer sets `broken`; all others leave, and say so. */
static void test_a_dead_rank_leaves_no_waiter(void **state)
{
    collective_segment_t *memory = shared_memory(collective_bytes(WORLD, CAPACITY));
    pid_t children[WORLD];

    (void)state;
    for (uint32_t r = 0; r < WORLD; r++)
        children[r] = start_rank(memory, r, UINT32_MAX);
    while (atomic_load(&memory->places[3].left) < 20)
        assert_int_equal(waitpid(children[3], NULL, WNOHANG), 0);
    kill(children[3], SIGKILL);
    assert_int_equal(wait_exit(children[3]), -SIGKILL);
    collective_break(memory, RANKS_MAX);
    for (uint32_t r = 0; r < WORLD; r++) {
        int code = r == 3 ? 2 : wait_exit(children[r]);
        assert_true(code == 2 || code == 4);
    }
    assert_int_equal(atomic_load(&memory->broken), RANKS_MAX + 1);
    munmap(memory, collective_bytes(WORLD, CAPACITY));
}

static void *gather_once(void *argument)
{
    static const uint32_t offsets[3] = {0, 1, 2};
    collective_t *c = argument;
    float mine[4] = {0}, all[8];
    status_t status = collective_gather(c, 1, mine, c->rank ? 4 : 2, offsets, all, 2);

    if (status == STATUS_MISMATCH) /* the text names both calls */
        return strstr(trail_text(), "32 bytes") && strstr(trail_text(), "16 bytes") ? c : NULL;
    return status == STATUS_BROKEN ? c : NULL;
}

static void *gather_elsewhere(void *argument)
{
    static const uint32_t offsets[3] = {0, 1, 2};
    collective_t *c = argument;
    float mine[1] = {0}, all[2];
    status_t status;

    collective_step(c, 5, 42);
    collective_layer(c, 3 + c->rank);
    status = collective_gather(c, 6 + c->rank, mine, 1, offsets, all, 2);
    if (status == STATUS_MISMATCH)
        return strstr(trail_text(), "step 42 layer 3 site 6 ") &&
                       strstr(trail_text(), "step 42 layer 4 site 7 ")
                   ? c
                   : NULL;
    return status == STATUS_BROKEN ? c : NULL;
}

/* T14: one rank is a layer further, with as many bytes. Nothing is taken over from it. */
static void test_ranks_in_different_layers_are_told_apart(void **state)
{
    void *memory = shared_memory(collective_bytes(2, CAPACITY)), *result;
    collective_t ranks[2];
    pthread_t thread;

    (void)state;
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(collective_init(&ranks[r], memory, r, 2, CAPACITY), STATUS_OK);
    assert_int_equal(pthread_create(&thread, NULL, gather_elsewhere, &ranks[1]), 0);
    assert_non_null(gather_elsewhere(&ranks[0]));
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_non_null(result);
    assert_true(collective_broken(&ranks[0]));
    munmap(memory, collective_bytes(2, CAPACITY));
}

static void *gather_alone(void *argument)
{
    static const uint32_t offsets[4] = {0, 1, 2, 3};
    float mine[1] = {0}, all[3];

    if (collective_gather(argument, 6, mine, 1, offsets, all, 3) != STATUS_BROKEN)
        return NULL;
    return strstr(trail_text(), "in call 1 of step 42, layer 3, site 6, and missed 1") ? argument
                                                                                      : NULL;
}

/* T10, T15: two of three wait. Who looks on from outside sees for whom, and so do they when told to
 * leave. */
static void test_who_waits_for_whom_shows_from_outside(void **state)
{
    const collective_segment_t *seen;
    collective_t ranks[3];
    pthread_t threads[3];
    char name[64];
    void *result;

    (void)state;
    snprintf(name, sizeof(name), "/lockstep-test-%d-look", (int)getpid());
    assert_int_equal(collective_look(name, &seen), STATUS_NOT_FOUND);
    for (uint32_t r = 0; r < 3; r++)
        assert_int_equal(collective_open(&ranks[r], name, r, 3, CAPACITY), STATUS_OK);
    assert_int_equal(collective_look(name, &seen), STATUS_OK);
    assert_int_equal(collective_world(seen), 3);
    for (uint32_t r = 0; r < 3; r += 2) {
        collective_step(&ranks[r], 5, 42);
        collective_layer(&ranks[r], 3);
        assert_int_equal(pthread_create(&threads[r], NULL, gather_alone, &ranks[r]), 0);
    }
    while (atomic_load(&seen->places[0].posted) != 1 || atomic_load(&seen->places[2].posted) != 1)
        (void)sched_yield();
    assert_int_equal(collective_missing(seen, 0), 1 << 1);
    assert_int_equal(collective_missing(seen, 1), 0); /* it waits for nobody */
    assert_int_equal(collective_missing(seen, 2), 1 << 1);
    assert_int_equal(atomic_load(&seen->places[2].seq), 42);
    assert_int_equal(atomic_load(&seen->places[2].layer), 3);
    assert_int_equal(atomic_load(&seen->places[2].site), 6);
    assert_int_equal(atomic_load(&seen->places[2].entered), 0);
    collective_break(ranks[1].segment, 1);
    for (uint32_t r = 0; r < 3; r += 2) {
        assert_int_equal(pthread_join(threads[r], &result), 0);
        assert_non_null(result);
    }
    collective_look_end(seen);
    for (uint32_t r = 0; r < 3; r++)
        collective_close(&ranks[r]);
    collective_unlink(name);
}

/* T3: sizes differ. */
static void test_ranks_that_disagree_are_told_apart(void **state)
{
    void *memory = shared_memory(collective_bytes(2, CAPACITY)), *result;
    collective_t ranks[2];
    pthread_t thread;

    (void)state;
    for (uint32_t r = 0; r < 2; r++)
        assert_int_equal(collective_init(&ranks[r], memory, r, 2, CAPACITY), STATUS_OK);
    assert_int_equal(pthread_create(&thread, NULL, gather_once, &ranks[1]), 0);
    assert_non_null(gather_once(&ranks[0]));
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_non_null(result);
    assert_true(collective_broken(&ranks[0]));
    munmap(memory, collective_bytes(2, CAPACITY));
}

static void test_a_segment_has_one_shape(void **state)
{
    collective_t a, b;
    char name[64];

    (void)state;
    snprintf(name, sizeof(name), "/lockstep-test-%d", (int)getpid());
    assert_int_equal(collective_open(&a, name, 0, 2, CAPACITY), STATUS_OK);
    assert_int_equal(collective_open(&b, name, 1, 3, CAPACITY), STATUS_MISMATCH);
    assert_int_equal(collective_open(&b, name, 1, 2, CAPACITY), STATUS_OK);
    collective_close(&b);
    collective_close(&a);
    collective_unlink(name);
}

typedef struct {
    atomic_uint done[97];
} team_marks_t;

static void mark_part(void *context, uint32_t part, uint32_t thread)
{
    team_marks_t *marks = context;
    assert_true(thread < 5);
    atomic_fetch_add(&marks->done[part], 1);
}

static void test_a_team_does_every_part_once(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        team_marks_t marks = {0};
        team_t *team;
        assert_int_equal(team_open(threads, &team), STATUS_OK);
        for (unsigned round = 1; round <= 300; round++) {
            team_run(team, COUNT_OF(marks.done), mark_part, &marks);
            for (size_t i = 0; i < COUNT_OF(marks.done); i++)
                assert_int_equal(atomic_load(&marks.done[i]), round);
        }
        team_close(team);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eight_processes_see_each_others_slices),
        cmocka_unit_test(test_a_dead_rank_leaves_no_waiter),
        cmocka_unit_test(test_ranks_that_disagree_are_told_apart),
        cmocka_unit_test(test_ranks_in_different_layers_are_told_apart),
        cmocka_unit_test(test_who_waits_for_whom_shows_from_outside),
        cmocka_unit_test(test_a_segment_has_one_shape),
        cmocka_unit_test(test_a_team_does_every_part_once),
    };
    return cmocka_run_group_tests_name("collective", tests, NULL, NULL);
}
