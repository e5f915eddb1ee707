#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include <cmocka.h>

#include "runtime/base/arena.h"
#include "runtime/base/token_list.h"
#include "runtime/base/limits.h"
#include "runtime/base/log.h"
#include "runtime/base/map.h"
#include "runtime/base/random.h"
#include "runtime/base/shared.h"
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

static void test_map_agrees_with_a_plain_array(void **state)
{
    enum { KEYS = 40, CAPACITY = 20 };
    uint32_t plain[KEYS];
    uint32_t count = 0;
    random_t random;
    map_t *map = calloc(1, map_bytes(CAPACITY));

    (void)state;
    map_init(map, CAPACITY);
    memset(plain, 0xff, sizeof(plain));
    random_init(&random, 7);
    for (int i = 0; i < 20000; i++) {
        uint32_t key = (uint32_t)random_below(&random, KEYS);

        assert_int_equal(map_get(map, key / 3, key), plain[key]);
        if (plain[key] != MAP_NONE) {
            map_remove(map, key / 3, key);
            plain[key] = MAP_NONE;
            count--;
        } else if (count < CAPACITY) {
            plain[key] = (uint32_t)i;
            map_put(map, key / 3, key, plain[key]);
            count++;
        }
        assert_int_equal(map->count, count);
    }
    free(map);
}

static void test_chains_keep_their_words_and_give_blocks_back(void **state)
{
    enum { CHAINS = 3, WORDS = 3000 };
    static uint32_t plain[CHAINS][WORDS + (CHAINS * TOKEN_BLOCK_WORDS)];
    uint32_t read[400];
    token_list_t chains[CHAINS];
    random_t random;
    token_store_t *store = malloc(token_store_bytes(WORDS, CHAINS));

    (void)state;
    token_store_init(store, WORDS, CHAINS);
    for (int c = 0; c < CHAINS; c++)
        token_list_init(&chains[c]);
    random_init(&random, 9);
    for (int i = 0; i < 5000; i++) {
        size_t c = random_below(&random, CHAINS);
        uint32_t n = (uint32_t)random_below(&random, 400);

        if (token_list_room(store, &chains[c], n)) {
            for (uint32_t k = 0; k < n; k++)
                plain[c][chains[c].count + k] = (uint32_t)random_next(&random);
            token_list_append(store, &chains[c], plain[c] + chains[c].count, n);
        } else {
            token_list_clear(store, &chains[c]);
        }
        if (chains[c].count > 0) {
            uint32_t start = (uint32_t)random_below(&random, chains[c].count);
            uint32_t part = chains[c].count - start < 400 ? chains[c].count - start : 400;

            token_list_read(store, &chains[c], start, part, read);
            assert_memory_equal(read, plain[c] + start, part * sizeof(*read));
        }
    }
    for (int c = 0; c < CHAINS; c++)
        token_list_clear(store, &chains[c]);
    assert_int_equal(store->free_count, store->block_count);
    free(store);
}

/* What is named and mapped, but has no memory, is a signal in the middle of something, later. */
static void test_shared_memory_is_taken_whole_or_not_at_all(void **state)
{
    const char *name = "/lockstep-test-shared";
    struct statvfs system;
    void *memory = NULL, *seen = NULL;
    size_t more;

    (void)state;
    assert_int_equal(shared_create(name, 10000, &memory), STATUS_OK);
    memcpy(memory, "word", 5);
    assert_int_equal(shared_join(name, 10000, &seen), STATUS_OK);
    assert_string_equal(seen, "word");
    munmap(seen, 10000);
    assert_int_equal(shared_open(name, 10000, false, &seen), STATUS_OK);
    assert_string_equal(seen, "word");
    munmap(seen, 10000);
    assert_int_equal(shared_open(name, 9999, true, &seen), STATUS_MISMATCH);
    munmap(memory, 10000);
    assert_int_equal(shared_create(name, 10000, &memory), STATUS_OK); /* another one */
    assert_string_equal(memory, "");
    munmap(memory, 10000);
    assert_int_equal(statvfs("/dev/shm", &system), 0);
    more = (size_t)(system.f_blocks + 1) * system.f_frsize;
    assert_int_equal(shared_create(name, more, &memory), STATUS_NO_MEMORY);
    assert_non_null(strstr(trail_text(), name));
    assert_int_equal(shared_open(name, more, false, &memory), STATUS_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failed_assertion_calls_the_hook),
        cmocka_unit_test(test_trail_reads_from_cause_to_edge),
        cmocka_unit_test(test_arena_refuses_what_does_not_fit),
        cmocka_unit_test(test_random_is_the_published_splitmix64),
        cmocka_unit_test(test_log_level_names_parse),
        cmocka_unit_test(test_map_agrees_with_a_plain_array),
        cmocka_unit_test(test_chains_keep_their_words_and_give_blocks_back),
        cmocka_unit_test(test_shared_memory_is_taken_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
