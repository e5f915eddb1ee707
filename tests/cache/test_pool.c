#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cache/pool.h"
#include "tests/cache/assertion.h"

enum { PAGES = 9, BORDERS = 2, SLOTS = 3 };

static const uint32_t counts[UNIT_COUNT] = {PAGES, BORDERS, SLOTS};

static pool_t *pool_fresh(void)
{
    const size_t bytes = pool_bytes(counts);
    pool_t *pool = pool_init(malloc(bytes), bytes, counts);

    pool_quarantine_all(pool, 1);
    pool_quarantine_release(pool);
    return pool;
}

static void test_everything_starts_in_quarantine(void **state)
{
    const size_t bytes = pool_bytes(counts);
    pool_t *pool = pool_init(malloc(bytes), bytes, counts);
    page_t page;

    (void)state;
    assert_int_equal(pool_count(pool, UNIT_HISTORY, POOL_QUARANTINED), PAGES);
    assert_int_equal(pool_lease_pages(pool, 1, 1, &page), STATUS_BUSY);
    pool_check_all(pool);
    assert_int_equal(pool_quarantine_release(pool), PAGES - 1 + BORDERS + SLOTS);
    assert_int_equal(pool_lease_pages(pool, 1, 1, &page), STATUS_OK);
    pool_check_all(pool);
    free(pool);
}

static void test_test_page_is_never_leased(void **state)
{
    pool_t *pool = pool_fresh();
    page_t pages[PAGES];

    (void)state;
    assert_int_equal(pool_lease_pages(pool, 1, PAGES, pages), STATUS_BUSY);
    assert_int_equal(pool_lease_pages(pool, 1, PAGES - 1, pages), STATUS_OK);
    for (int i = 0; i < PAGES - 1; i++)
        assert_int_equal(pages[i].value, i + 1); /* ascending in a fresh pool */
    free(pool);
}

static void test_lease_is_all_or_nothing_and_says_what_is_free(void **state)
{
    pool_t *pool = pool_fresh();
    page_t pages[PAGES] = {{77}};

    (void)state;
    assert_int_equal(pool_lease_pages(pool, 1, 5, pages), STATUS_OK);
    pages[0] = page_at(77);
    trail_reset();
    assert_int_equal(pool_lease_pages(pool, 2, 4, pages), STATUS_BUSY);
    assert_string_equal(trail_text(), "4 units of history wanted, 3 of 9 are free");
    assert_int_equal(pages[0].value, 77);
    assert_int_equal(pool_count(pool, UNIT_HISTORY, POOL_LEASED), 5);
    assert_int_equal(pool_owned(pool, 2), 0);
    assert_true(pool_has(pool, (uint32_t[]){3, 2, 3}));
    assert_false(pool_has(pool, (uint32_t[]){4, 2, 3}));
    assert_false(pool_has(pool, (uint32_t[]){3, 2, 4}));
    free(pool);
}

static void test_each_lease_is_a_new_generation_over_epochs(void **state)
{
    pool_t *pool = pool_fresh();
    generation_t before, after;
    slot_t slot;

    (void)state;
    assert_int_equal(pool_lease_slot(pool, 1, &slot), STATUS_OK);
    before = pool_item(pool, unit_slot(slot))->generation;
    assert_int_equal(before.epoch, 1);
    pool_release(pool, unit_slot(slot), 1);
    assert_int_equal(pool_lease_slot(pool, 2, &slot), STATUS_OK);
    after = pool_item(pool, unit_slot(slot))->generation;
    assert_false(generation_equal(before, after));
    pool_quarantine_all(pool, 2);
    pool_quarantine_release(pool);
    before = after;
    assert_int_equal(pool_lease_slot(pool, 2, &slot), STATUS_OK);
    after = pool_item(pool, unit_slot(slot))->generation;
    assert_int_equal(after.epoch, 2);
    assert_true(after.count > before.count);
    assert_true(generation_equal(generation_unpack(generation_pack(after)), after));
    free(pool);
}

static void test_cached_unit_has_references_and_no_owner(void **state)
{
    pool_t *pool = pool_fresh();
    page_t page;

    (void)state;
    assert_int_equal(pool_lease_pages(pool, 1, 1, &page), STATUS_OK);
    pool_cache(pool, unit_page(page), 1);
    pool_share(pool, unit_page(page));
    pool_check_all(pool);
    assert_int_equal(pool_owned(pool, 1), 0);
    assert_int_equal(pool_unshare(pool, unit_page(page)), 1);
    EXPECT_ASSERTION(pool_evict(pool, unit_page(page)));
    assert_int_equal(pool_unshare(pool, unit_page(page)), 0);
    EXPECT_ASSERTION(pool_unshare(pool, unit_page(page)));
    pool_evict(pool, unit_page(page));
    EXPECT_ASSERTION(pool_evict(pool, unit_page(page)));
    pool_check_all(pool);
    free(pool);
}

static void test_wrong_calls_are_caught(void **state)
{
    pool_t *pool = pool_fresh();
    slot_t slot;
    page_t page;

    (void)state;
    assert_int_equal(pool_lease_slot(pool, 1, &slot), STATUS_OK);
    assert_int_equal(pool_lease_pages(pool, 1, 1, &page), STATUS_OK);
    EXPECT_ASSERTION(pool_release(pool, unit_slot(slot), 2));           /* another's */
    EXPECT_ASSERTION(pool_cache(pool, unit_slot(slot), 1));             /* slots are never cached */
    EXPECT_ASSERTION(pool_release(pool, unit_page(page_at(PAGES)), 1)); /* out of range */
    EXPECT_ASSERTION(pool_share(pool, unit_page(page)));                /* leased, not cached */
    EXPECT_ASSERTION(pool_quarantine_all(pool, 1));                     /* the same epoch */
    pool_release(pool, unit_page(page), 1);
    EXPECT_ASSERTION(pool_release(pool, unit_page(page), 1)); /* twice */
    free(pool);
}

static void test_new_epoch_takes_everything_from_everybody(void **state)
{
    pool_t *pool = pool_fresh();
    page_t pages[3];

    (void)state;
    assert_int_equal(pool_lease_pages(pool, 1, 3, pages), STATUS_OK);
    pool_cache(pool, unit_page(pages[0]), 1);
    pool_quarantine_all(pool, 5);
    pool_check_all(pool);
    assert_int_equal(pool_owned(pool, 1), 0);
    assert_int_equal(pool_count(pool, UNIT_HISTORY, POOL_QUARANTINED), PAGES);
    assert_int_equal(pool_quarantine_release(pool), PAGES - 1 + BORDERS + SLOTS);
    pool_check_all(pool);
    free(pool);
}

static void test_checks_see_planted_damage(void **state)
{
    pool_t *pool = pool_fresh();
    page_t pages[2];

    (void)state;
    assert_int_equal(pool_lease_pages(pool, 1, 2, pages), STATUS_OK);
    pool->units[UNIT_HISTORY].in_state[POOL_FREE]++;
    EXPECT_ASSERTION(pool_check(pool));
    pool->units[UNIT_HISTORY].in_state[POOL_LEASED]--;
    pool_check(pool); /* the sum is right, the parts are not */
    EXPECT_ASSERTION(pool_check_all(pool));
    pool->units[UNIT_HISTORY].in_state[POOL_FREE]--;
    pool->units[UNIT_HISTORY].in_state[POOL_LEASED]++;
    pool_check_all(pool);
    pool->items[pages[0].value].references = 1;
    EXPECT_ASSERTION(pool_check_all(pool));
    pool->items[pages[0].value].references = 0;
    pool->items[pages[0].value].owner = POOL_NOBODY;
    EXPECT_ASSERTION(pool_check_all(pool));
    pool->items[pages[0].value].owner = 1;
    pool->items[5].next_free = 5; /* a ring */
    EXPECT_ASSERTION(pool_check_all(pool));
    free(pool);
}

static void test_print_names_states(void **state)
{
    pool_t *pool = pool_fresh();
    char text[512] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    (void)state;
    pool_print(pool, out);
    fclose(out);
    assert_non_null(strstr(text, "history         9 free 8 leased 0 cached 0 quarantined 1"));
    free(pool);
}

static void test_generation_words_tell_lives_apart(void **state)
{
    generation_word_t words[4] = {{0}};
    const generation_t first = {3, 7}, second = {3, 8};

    (void)state;
    assert_true(generation_is(words, 2, (generation_t){0, 0}));
    generation_publish(words, 2, first);
    assert_true(generation_is(words, 2, first));
    assert_true(generation_still(words, 2, first));
    assert_false(generation_is(words, 1, first));
    generation_publish(words, 2, second);
    assert_false(generation_is(words, 2, first));
    assert_false(generation_still(words, 2, first));
    assert_true(generation_equal(generation_read(words, 2), second));
}

/* What two processes share: one unit, its word, and the "message" that names the life whose bytes are complete. */
typedef struct {
    generation_word_t word;
    _Atomic uint64_t complete;
    uint64_t bytes[64];
} shared_t;

enum { LIVES = 200000 };

static void live(shared_t *shared)
{
    for (uint32_t life = 1; life <= LIVES; life++) {
        generation_publish(&shared->word, 0, (generation_t){1, life});
        for (size_t i = 0; i < COUNT_OF(shared->bytes); i++)
            ((volatile uint64_t *)shared->bytes)[i] = life;
        atomic_store_explicit(&shared->complete, life, memory_order_release);
    }
}

/* P17 of docs/bugs.md. */
static void test_accepted_copies_are_of_one_life_across_processes(void **state)
{
    shared_t *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t accepted = 0, life = 0;
    pid_t writer;

    (void)state;
    assert_ptr_not_equal(shared, MAP_FAILED);
    writer = fork();
    assert_true(writer >= 0);
    if (writer == 0) {
        live(shared);
        _exit(0);
    }
    while (life < LIVES) {
        uint64_t copy[COUNT_OF(shared->bytes)];

        life = (uint32_t)atomic_load_explicit(&shared->complete, memory_order_acquire);
        if (life == 0 || !generation_is(&shared->word, 0, (generation_t){1, life}))
            continue;
        for (size_t i = 0; i < COUNT_OF(copy); i++)
            copy[i] = ((volatile uint64_t *)shared->bytes)[i];
        if (!generation_still(&shared->word, 0, (generation_t){1, life}))
            continue;
        accepted++;
        for (size_t i = 0; i < COUNT_OF(copy); i++)
            assert_int_equal(copy[i], life);
    }
    assert_int_equal(waitpid(writer, NULL, 0), writer);
    assert_true(accepted > 0); /* the last life at least */
    munmap(shared, sizeof(*shared));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_starts_in_quarantine),
        cmocka_unit_test(test_test_page_is_never_leased),
        cmocka_unit_test(test_lease_is_all_or_nothing_and_says_what_is_free),
        cmocka_unit_test(test_each_lease_is_a_new_generation_over_epochs),
        cmocka_unit_test(test_cached_unit_has_references_and_no_owner),
        cmocka_unit_test(test_wrong_calls_are_caught),
        cmocka_unit_test(test_new_epoch_takes_everything_from_everybody),
        cmocka_unit_test(test_checks_see_planted_damage),
        cmocka_unit_test(test_print_names_states),
        cmocka_unit_test(test_generation_words_tell_lives_apart),
        cmocka_unit_test(test_accepted_copies_are_of_one_life_across_processes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
