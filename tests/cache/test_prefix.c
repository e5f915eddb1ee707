#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/prefix.h"
#include "tests/cache/assertion.h"

enum { PAGES = 12, BORDERS = 6, OWNER = 1, OTHER = 2, DEPTH_MAX = 6 };
#define SALT UINT64_C(42)

typedef struct {
    pool_t *pool;
    prefix_t *prefix;
    uint32_t tokens[DEPTH_MAX * PAGE_TOKENS + 1];
} world_t;

static const page_t none = {UNITS_NONE};

static int setup(void **state)
{
    const uint32_t counts[UNIT_COUNT] = {PAGES, BORDERS, 0};
    world_t *world = calloc(1, sizeof(*world));

    world->pool = pool_init(malloc(pool_bytes(counts)), pool_bytes(counts), counts);
    world->prefix = prefix_init(calloc(1, prefix_bytes(PAGES)), prefix_bytes(PAGES), PAGES);
    pool_quarantine_release(world->pool);
    for (uint32_t i = 0; i < COUNT_OF(world->tokens); i++)
        world->tokens[i] = i;
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    world_t *world = *state;

    pool_check_all(world->pool);
    prefix_check(world->prefix, world->pool);
    free(world->pool);
    free(world->prefix);
    free(world);
    return 0;
}

static page_t lease(world_t *world, uint32_t owner)
{
    page_t page;

    assert_int_equal(pool_lease_pages(world->pool, owner, 1, &page), STATUS_OK);
    return page;
}

/* Inserts pages [first, last) of the tokens for OWNER below pages[first - 1]. */
static void insert(world_t *world, uint32_t first, uint32_t last, page_t *pages)
{
    page_t standing;

    for (uint32_t i = first; i < last; i++) {
        pages[i] = lease(world, OWNER);
        assert_int_equal(prefix_insert(world->prefix, world->pool, OWNER,
                                       i == 0 ? none : pages[i - 1], pages[i],
                                       world->tokens + i * PAGE_TOKENS, SALT, &standing),
                         STATUS_OK);
        assert_int_equal(standing.value, pages[i].value);
    }
}

static void border(world_t *world, page_t page)
{
    border_t border;

    assert_int_equal(pool_lease_border(world->pool, OWNER, &border), STATUS_OK);
    assert_int_equal(prefix_border_add(world->prefix, world->pool, OWNER, page, border), STATUS_OK);
}

static uint32_t match(const world_t *world, uint32_t tokens)
{
    page_t pages[DEPTH_MAX];

    return prefix_match(world->prefix, world->tokens, tokens, SALT, pages, DEPTH_MAX).page_count;
}

static void test_prefix_is_usable_up_to_a_border_and_not_its_last_token(void **state)
{
    world_t *world = *state;
    page_t pages[DEPTH_MAX];

    insert(world, 0, 4, pages);
    assert_int_equal(match(world, 4 * PAGE_TOKENS + 1), 0); /* no border at all */
    border(world, pages[1]);
    assert_int_equal(match(world, 4 * PAGE_TOKENS + 1), 2);
    border(world, pages[3]);
    assert_int_equal(match(world, 4 * PAGE_TOKENS + 1), 4);
    assert_int_equal(match(world, 4 * PAGE_TOKENS), 2); /* (n - 1) div 256 = 3, no border there */
    assert_int_equal(match(world, 2 * PAGE_TOKENS + 1), 2);
    assert_int_equal(match(world, 2 * PAGE_TOKENS), 0);
    assert_int_equal(match(world, 1), 0);
    assert_int_equal(match(world, 0), 0);
}

static void test_match_fits_the_callers_room(void **state)
{
    world_t *world = *state;
    page_t pages[DEPTH_MAX], found[3];

    insert(world, 0, 4, pages);
    border(world, pages[1]);
    border(world, pages[3]);
    assert_int_equal(
        prefix_match(world->prefix, world->tokens, COUNT_OF(world->tokens), SALT, found, 3)
            .page_count,
        2);
    assert_int_equal(found[1].value, pages[1].value);
}

static void test_one_token_or_the_salt_makes_another_prefix(void **state)
{
    world_t *world = *state;
    page_t pages[DEPTH_MAX], found[DEPTH_MAX];

    insert(world, 0, 2, pages);
    border(world, pages[0]);
    border(world, pages[1]);
    world->tokens[PAGE_TOKENS + 255] ^= 1;
    assert_int_equal(match(world, 2 * PAGE_TOKENS + 1), 1);
    world->tokens[0] ^= 1;
    assert_int_equal(match(world, 2 * PAGE_TOKENS + 1), 0);
    world->tokens[0] ^= 1;
    assert_int_equal(
        prefix_match(world->prefix, world->tokens, COUNT_OF(world->tokens), SALT + 1, found, 2)
            .page_count,
        0);
}

static void test_equal_keys_do_not_make_equal_tokens(void **state)
{
    world_t *world = *state;
    page_t pages[DEPTH_MAX];
    uint32_t *stored;

    insert(world, 0, 1, pages);
    border(world, pages[0]);
    stored = (uint32_t *)(void *)((unsigned char *)world->prefix + world->prefix->tokens_at) +
             (size_t)pages[0].value * PAGE_TOKENS;
    stored[17] ^= 1; /* the key stays: as if two texts had one hash */
    assert_int_equal(match(world, PAGE_TOKENS + 1), 0);
    stored[17] ^= 1;
    assert_int_equal(match(world, PAGE_TOKENS + 1), 1);
}

static void test_second_of_two_equal_pages_stays_private(void **state)
{
    world_t *world = *state;
    page_t pages[DEPTH_MAX], mine = lease(world, OTHER), standing;

    insert(world, 0, 1, pages);
    assert_int_equal(prefix_insert(world->prefix, world->pool, OTHER, none, mine, world->tokens,
                                   SALT, &standing),
                     STATUS_OK);
    assert_int_equal(standing.value, pages[0].value);
    assert_int_equal(pool_item(world->pool, unit_page(mine))->state, POOL_LEASED);
    assert_false(prefix_has(world->prefix, mine));
    assert_int_equal(pool_item(world->pool, unit_page(standing))->references, 1);
    prefix_hold(world->prefix, world->pool, standing);
    assert_int_equal(pool_item(world->pool, unit_page(standing))->references, 2);
    /* its next page goes below the standing one */
    assert_int_equal(prefix_insert(world->prefix, world->pool, OTHER, standing, lease(world, OTHER),
                                   world->tokens + PAGE_TOKENS, SALT, &standing),
                     STATUS_OK);
    pool_release(world->pool, unit_page(mine), OTHER);
}

static void test_page_without_its_parents_history_is_refused(void **state)
{
    world_t *world = *state;
    page_t page = lease(world, OWNER), parent = lease(world, OWNER), pages[1], standing;

    trail_reset();
    assert_int_equal(prefix_insert(world->prefix, world->pool, OWNER, parent, page, world->tokens,
                                   SALT, &standing),
                     STATUS_NOT_FOUND);
    assert_non_null(strstr(trail_text(), "not in the index"));
    assert_int_equal(prefix_insert(world->prefix, world->pool, OWNER, page_at(PAGES), page,
                                   world->tokens, SALT, &standing),
                     STATUS_NOT_FOUND);
    insert(world, 0, 1, pages);
    assert_int_equal(prefix_insert(world->prefix, world->pool, OWNER, pages[0], page, world->tokens,
                                   SALT + 1, &standing),
                     STATUS_MISMATCH);
    assert_int_equal(pool_item(world->pool, unit_page(page))->state, POOL_LEASED);
}

static void test_only_unused_leaves_are_evicted_oldest_first(void **state)
{
    world_t *world = *state;
    page_t pages[DEPTH_MAX], used[DEPTH_MAX];
    prefix_match_t taken;

    insert(world, 0, 4, pages);
    border(world, pages[1]);
    assert_int_equal(prefix_evict_pages(world->prefix, world->pool, 9), 0); /* the owner reads */
    prefix_release(world->prefix, world->pool, pages, 4);
    taken = prefix_acquire(world->prefix, world->pool, world->tokens, COUNT_OF(world->tokens), SALT,
                           used, DEPTH_MAX);
    assert_int_equal(taken.page_count, 2);
    pool_unshare(world->pool, unit_border(taken.border));
    assert_int_equal(prefix_evict_pages(world->prefix, world->pool, 1), 1);
    assert_false(prefix_has(world->prefix, pages[3]));
    assert_true(prefix_has(world->prefix, pages[2]));
    assert_int_equal(prefix_evict_pages(world->prefix, world->pool, 9), 1);
    assert_true(prefix_has(world->prefix, pages[1]));
    prefix_release(world->prefix, world->pool, used, 2);
    assert_int_equal(prefix_evict_pages(world->prefix, world->pool, 9), 2);
    assert_int_equal(pool_count(world->pool, UNIT_BORDER, POOL_FREE), BORDERS);
    assert_int_equal(pool_count(world->pool, UNIT_HISTORY, POOL_CACHED), 0);
}

static void test_least_recently_used_branch_goes_first(void **state)
{
    world_t *world = *state;
    page_t pages[DEPTH_MAX], branch[2], used[DEPTH_MAX], standing;
    prefix_match_t taken;

    insert(world, 0, 2, pages);
    border(world, pages[1]);
    branch[0] = pages[0];
    branch[1] = lease(world, OWNER);
    assert_int_equal(prefix_insert(world->prefix, world->pool, OWNER, pages[0], branch[1],
                                   world->tokens + 3 * PAGE_TOKENS, SALT, &standing),
                     STATUS_OK);
    prefix_release(world->prefix, world->pool, &branch[1], 1);
    prefix_release(world->prefix, world->pool, pages, 2);
    taken = prefix_acquire(world->prefix, world->pool, world->tokens, 2 * PAGE_TOKENS + 1, SALT,
                           used, DEPTH_MAX);
    assert_int_equal(taken.page_count, 2);
    pool_unshare(world->pool, unit_border(taken.border));
    prefix_release(world->prefix, world->pool, used, 2);
    assert_int_equal(prefix_evict_pages(world->prefix, world->pool, 1), 1);
    assert_false(prefix_has(world->prefix, branch[1]));
    assert_true(prefix_has(world->prefix, pages[1]));
}

static void test_least_recently_used_border_goes_first(void **state)
{
    world_t *world = *state;
    page_t pages[DEPTH_MAX];
    border_t second;

    insert(world, 0, 3, pages);
    border(world, pages[1]); /* the oldest */
    border(world, pages[0]);
    border(world, pages[2]);
    assert_int_equal(pool_lease_border(world->pool, OWNER, &second), STATUS_OK);
    assert_int_equal(prefix_border_add(world->prefix, world->pool, OWNER, pages[1], second),
                     STATUS_BUSY);
    pool_release(world->pool, unit_border(second), OWNER);
    assert_int_equal(prefix_evict_borders(world->prefix, world->pool, 2), 2);
    assert_int_equal(match(world, 3 * PAGE_TOKENS + 1), 3);
    assert_int_equal(match(world, 2 * PAGE_TOKENS + 1), 0);
    assert_int_equal(prefix_border_drop(world->prefix, world->pool, pages[0]), STATUS_NOT_FOUND);
    assert_int_equal(prefix_evict_borders(world->prefix, world->pool, 9), 1);
    assert_int_equal(match(world, 3 * PAGE_TOKENS + 1), 0);
}

/* Each request goes on from the shared page, and leaves a page and a border that nobody asks for. */
static void test_hot_shared_prefix_survives_pressure(void **state)
{
    enum { REQUESTS = 5 * PAGES };
    world_t *world = *state;
    page_t pages[DEPTH_MAX];

    insert(world, 0, 1, pages);
    border(world, pages[0]);
    prefix_release(world->prefix, world->pool, pages, 1);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        prefix_match_t taken;

        world->tokens[PAGE_TOKENS] = (uint32_t)COUNT_OF(world->tokens) + i;
        taken = prefix_acquire(world->prefix, world->pool, world->tokens, 2 * PAGE_TOKENS + 1, SALT,
                               pages, DEPTH_MAX);
        assert_int_equal(taken.page_count, 1);
        pool_unshare(world->pool, unit_border(taken.border));
        if (pool_count(world->pool, UNIT_HISTORY, POOL_FREE) == 0)
            assert_int_equal(prefix_evict_pages(world->prefix, world->pool, 1), 1);
        insert(world, 1, 2, pages);
        if (pool_count(world->pool, UNIT_BORDER, POOL_FREE) == 0)
            assert_int_equal(prefix_evict_borders(world->prefix, world->pool, 1), 1);
        border(world, pages[1]);
        prefix_release(world->prefix, world->pool, pages, 2);
    }
}

static void test_border_being_restored_from_stays(void **state)
{
    world_t *world = *state;
    page_t pages[DEPTH_MAX], used[DEPTH_MAX];
    prefix_match_t taken;

    insert(world, 0, 1, pages);
    border(world, pages[0]);
    taken = prefix_acquire(world->prefix, world->pool, world->tokens, PAGE_TOKENS + 1, SALT, used,
                           DEPTH_MAX);
    prefix_release(world->prefix, world->pool, pages, 1);
    assert_int_equal(prefix_border_drop(world->prefix, world->pool, pages[0]), STATUS_BUSY);
    assert_int_equal(prefix_evict_borders(world->prefix, world->pool, 1), 0);
    pool_unshare(world->pool, unit_border(taken.border));
    prefix_release(world->prefix, world->pool, used, 1);
    assert_int_equal(prefix_border_drop(world->prefix, world->pool, pages[0]), STATUS_OK);
    assert_int_equal(prefix_evict_pages(world->prefix, world->pool, 1), 1);
}

static void test_keys_travel_in_place_of_tokens(void **state)
{
    world_t *world = *state;
    page_t pages[DEPTH_MAX];
    uint64_t keys[DEPTH_MAX];

    insert(world, 0, 3, pages);
    assert_int_equal(page_keys(world->tokens, 3 * PAGE_TOKENS + 1, SALT, keys, DEPTH_MAX), 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(keys[i], prefix_key(world->prefix, pages[i]));
    assert_int_equal(page_keys(world->tokens, 3 * PAGE_TOKENS, SALT, keys, DEPTH_MAX), 2);
    assert_int_equal(page_keys(world->tokens, COUNT_OF(world->tokens), SALT, keys, 1), 1);
    assert_int_equal(page_keys(world->tokens, 0, SALT, keys, DEPTH_MAX), 0);
    assert_int_not_equal(page_salt(1, 2, 3, 4), page_salt(2, 1, 3, 4));
    assert_int_not_equal(page_salt(1, 2, 3, 4), page_salt(1, 2, 3, 5));
}

static void test_checks_see_planted_damage(void **state)
{
    world_t *world = *state;
    prefix_node_t *nodes =
        (prefix_node_t *)(void *)((unsigned char *)world->prefix + world->prefix->nodes_at);
    page_t pages[DEPTH_MAX];

    insert(world, 0, 2, pages);
    border(world, pages[1]);
    prefix_check(world->prefix, world->pool);
    nodes[pages[0].value].children = 2;
    EXPECT_ASSERTION(prefix_check(world->prefix, world->pool));
    nodes[pages[0].value].children = 1;
    nodes[pages[1].value].parent = pages[1].value; /* a page that follows itself */
    EXPECT_ASSERTION(prefix_check(world->prefix, world->pool));
    nodes[pages[1].value].parent = pages[0].value;
    nodes[pages[1].value].idle = true; /* someone reads it */
    EXPECT_ASSERTION(prefix_check(world->prefix, world->pool));
    nodes[pages[1].value].idle = false;
    world->prefix->count++;
    EXPECT_ASSERTION(prefix_check(world->prefix, world->pool));
    world->prefix->count--;
}

static void test_print_shows_chains(void **state)
{
    world_t *world = *state;
    page_t pages[DEPTH_MAX];
    char text[1024] = "";
    FILE *out = fmemopen(text, sizeof(text), "w");

    insert(world, 0, 2, pages);
    prefix_print(world->prefix, out);
    fclose(out);
    assert_non_null(strstr(text, "2 of 12 pages in the index"));
    assert_non_null(strstr(text, "parent 1 ordinal 1 children 0 border -1"));
}

static void test_page_that_nobody_holds_has_no_new_children(void **state)
{
    world_t *world = *state;
    page_t pages[DEPTH_MAX], page = lease(world, OWNER), standing;
    volatile status_t status = STATUS_OK;

    insert(world, 0, 1, pages);
    prefix_release(world->prefix, world->pool, pages, 1);
    EXPECT_ASSERTION(status = prefix_insert(world->prefix, world->pool, OWNER, pages[0], page,
                                            world->tokens + PAGE_TOKENS, SALT, &standing));
    assert_int_equal(status, STATUS_OK); /* as it was */
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_prefix_is_usable_up_to_a_border_and_not_its_last_token),
        WITH_WORLD(test_match_fits_the_callers_room),
        WITH_WORLD(test_one_token_or_the_salt_makes_another_prefix),
        WITH_WORLD(test_equal_keys_do_not_make_equal_tokens),
        WITH_WORLD(test_second_of_two_equal_pages_stays_private),
        WITH_WORLD(test_page_without_its_parents_history_is_refused),
        WITH_WORLD(test_only_unused_leaves_are_evicted_oldest_first),
        WITH_WORLD(test_least_recently_used_branch_goes_first),
        WITH_WORLD(test_least_recently_used_border_goes_first),
        WITH_WORLD(test_hot_shared_prefix_survives_pressure),
        WITH_WORLD(test_border_being_restored_from_stays),
        WITH_WORLD(test_page_that_nobody_holds_has_no_new_children),
        WITH_WORLD(test_keys_travel_in_place_of_tokens),
        WITH_WORLD(test_checks_see_planted_damage),
        WITH_WORLD(test_print_shows_chains),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
