#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/arena.h"
#include "runtime/base/limits.h"
#include "runtime/base/log.h"
#include "runtime/base/random.h"
#include "runtime/base/status.h"

static jmp_buf assertion_jump;
static const char *assertion_condition;

static void note_and_jump(const char *condition, const char *file, int line)
{
    (void)file;
    (void)line;
    assertion_condition = condition;
    longjmp(assertion_jump, 1);
}

static void test_failed_assertion_calls_the_hook(void **state)
{
    check_hook_t *before = check_hook_set(note_and_jump);

    (void)state;
    if (setjmp(assertion_jump) == 0) {
        ASSERT(1 + 1 == 3);
        fail();
    }
    check_hook_set(before);
    assert_string_equal(assertion_condition, "1 + 1 == 3");
}

static status_t decide(int n)
{
    return n < 0 ? FAIL(STATUS_MALFORMED, "number %d is negative", n) : STATUS_OK;
}

static status_t pass_on(int n)
{
    TRY(decide(n));
    return STATUS_OK;
}

static void test_trail_reads_from_cause_to_edge(void **state)
{
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    (void)state;
    trail_reset();
    assert_int_equal(pass_on(1), STATUS_OK);
    assert_string_equal(trail_text(), "");
    assert_int_equal(pass_on(-4), STATUS_MALFORMED);
    trail_print(out);
    fclose(out);
    assert_non_null(strstr(text, "MALFORMED decide:"));
    assert_non_null(strstr(text, "number -4 is negative\nMALFORMED pass_on:"));
    assert_int_equal(status_class(STATUS_MALFORMED), CLASS_PEER);
}

static void test_arena_refuses_what_does_not_fit(void **state)
{
    _Alignas(16) unsigned char memory[64];
    arena_t arena;

    (void)state;
    arena_init(&arena, memory, sizeof(memory));
    assert_non_null(arena_take(&arena, 3, 1, 1));
    assert_int_equal((uintptr_t)arena_take(&arena, 1, 8, 8) % 8, 0);
    assert_null(arena_take(&arena, 49, 1, 1));
    assert_null(arena_take(&arena, SIZE_MAX, 2, 1));
    assert_non_null(arena_take(&arena, 48, 1, 1));
    arena_reset(&arena);
    assert_non_null(arena_take(&arena, 64, 1, 1));
    assert_int_equal(arena.used_max, 64);
}

static void test_random_is_the_published_splitmix64(void **state)
{
    random_t random;

    (void)state;
    random_init(&random, 1234567);
    assert_true(random_next(&random) == UINT64_C(6457827717110365317));
    assert_true(random_next(&random) == UINT64_C(3203168211198807973));
    for (int i = 0; i < 1000; i++)
        assert_true(random_below(&random, 7) < 7);
    assert_true(random_at(1, 2) == random_at(1, 2) && random_at(1, 2) != random_at(1, 3));
}

static void test_log_level_names_parse(void **state)
{
    log_level_t level;

    (void)state;
    assert_true(log_level_parse("debug", &level) && level == LOG_DEBUG);
    assert_false(log_level_parse("loud", &level));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failed_assertion_calls_the_hook),
        cmocka_unit_test(test_trail_reads_from_cause_to_edge),
        cmocka_unit_test(test_arena_refuses_what_does_not_fit),
        cmocka_unit_test(test_random_is_the_published_splitmix64),
        cmocka_unit_test(test_log_level_names_parse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
