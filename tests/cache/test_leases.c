/* Thousands of random operations on pool and prefix index, against a model that is too simple to be wrong: a list of
 * cached pages, each with the whole path of page contents that leads to it. After every operation the books must
 * agree; now and then both blocks are moved to other memory, as a snapshot would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cache/prefix.h"
#include "runtime/base/random.h"

enum {
    PAGES = 24,
    BORDERS = 7,
    SLOTS = 3,
    DEPTH_MAX = 5, /* pages of a prompt */
    CONTENTS = 3,  /* different pages of tokens */
    ATTEMPTS = 8,  /* handles; SLOTS of them run at most */
    OPERATIONS = 6000
};

typedef struct {
    char path[DEPTH_MAX + 2]; /* salt, then contents, as text; "" when unused */
    uint32_t page;
    uint32_t references;
    bool border;
    uint32_t border_references;
} model_page_t;

typedef struct {
    bool running;
    char path[DEPTH_MAX + 2];
    uint32_t depth;
    uint32_t closed;         /* pages that are filled and offered to the index */
    page_t pages[DEPTH_MAX]; /* what the request reads and writes */
    page_t chain[DEPTH_MAX]; /* the equal pages of the index, up to `closed`; references on all */
    slot_t slot;
    bool restoring;
    border_t border;
    char border_path[DEPTH_MAX + 2];
} attempt_t;

typedef struct {
    random_t random;
    pool_t *pool;
    prefix_t *prefix;
    uint32_t epoch;
    model_page_t model[PAGES];
    attempt_t attempts[ATTEMPTS];
    uint32_t done[16]; /* operations that had an effect, by kind */
} world_t;

static const uint32_t counts[UNIT_COUNT] = {PAGES, BORDERS, SLOTS};

static uint64_t salt_of(const char *path)
{
    return (uint64_t)path[0];
}

static void fill_tokens(uint32_t *tokens, const char *path)
{
    for (size_t page = 0; path[1 + page] != '\0'; page++) {
        for (uint32_t i = 0; i < PAGE_TOKENS; i++)
            tokens[page * PAGE_TOKENS + i] = (uint32_t)path[1 + page] * 1000 + i;
    }
}

/* The first `pages` pages of a path. */
static void path_cut(char cut[DEPTH_MAX + 2], const char *path, uint32_t pages)
{
    memset(cut, 0, DEPTH_MAX + 2);
    memcpy(cut, path, pages + 1);
}

static model_page_t *model_find(world_t *world, const char *path, uint32_t pages)
{
    char cut[DEPTH_MAX + 2];

    path_cut(cut, path, pages);
    for (int i = 0; i < PAGES; i++) {
        if (world->model[i].path[0] != '\0' && strcmp(world->model[i].path, cut) == 0)
            return &world->model[i];
    }
    return NULL;
}

static uint32_t model_count(const world_t *world, bool borders)
{
    uint32_t count = 0;

    for (int i = 0; i < PAGES; i++)
        count += world->model[i].path[0] != '\0' && (!borders || world->model[i].border);
    return count;
}

/* True if nobody uses this page or any page below it. */
static bool model_evictable(const world_t *world, const model_page_t *page)
{
    for (int i = 0; i < PAGES; i++) {
        const model_page_t *other = &world->model[i];

        if (other->path[0] == '\0' || strncmp(other->path, page->path, strlen(page->path)) != 0)
            continue;
        if (other->references > 0 || other->border_references > 0)
            return false;
    }
    return true;
}

/* Forgets what the index has dropped, which must have been allowed. */
static uint32_t model_drop_missing(world_t *world)
{
    const world_t before = *world;
    uint32_t dropped = 0;

    for (int i = 0; i < PAGES; i++) {
        model_page_t *page = &world->model[i];

        if (page->path[0] == '\0' || prefix_has(world->prefix, page_at(page->page)))
            continue;
        assert_true(model_evictable(&before, page));
        memset(page, 0, sizeof(*page));
        dropped++;
    }
    return dropped;
}

static uint32_t evict_pages(world_t *world, uint32_t wanted)
{
    uint32_t possible = 0, freed;

    for (int i = 0; i < PAGES; i++)
        possible += world->model[i].path[0] != '\0' && model_evictable(world, &world->model[i]);
    freed = prefix_evict_pages(world->prefix, world->pool, wanted);
    assert_int_equal(freed, wanted < possible ? wanted : possible);
    assert_int_equal(model_drop_missing(world), freed);
    return freed;
}

static bool evict_borders(world_t *world, uint32_t wanted)
{
    uint32_t possible = 0, freed;

    for (int i = 0; i < PAGES; i++)
        possible += world->model[i].border && world->model[i].border_references == 0;
    freed = prefix_evict_borders(world->prefix, world->pool, wanted);
    assert_int_equal(freed, wanted < possible ? wanted : possible);
    for (int i = 0; i < PAGES; i++) {
        model_page_t *page = &world->model[i];
        /* the index says whether the border is there by matching up to it */
        uint32_t tokens[DEPTH_MAX * PAGE_TOKENS + 1] = {0};
        page_t pages[DEPTH_MAX];
        const uint32_t depth = page->path[0] == '\0' ? 0 : (uint32_t)strlen(page->path) - 1;

        if (!page->border)
            continue;
        fill_tokens(tokens, page->path);
        page->border = prefix_match(world->prefix, tokens, depth * PAGE_TOKENS + 1,
                                    salt_of(page->path), pages, DEPTH_MAX)
                           .page_count == depth;
        if (!page->border)
            assert_int_equal(page->border_references, 0);
    }
    return freed > 0;
}

/* True if page i is leased to the attempt itself. */
static bool is_own(const attempt_t *attempt, uint32_t i)
{
    return i >= attempt->closed || attempt->pages[i].value != attempt->chain[i].value;
}

static bool start(world_t *world, uint32_t handle)
{
    attempt_t *attempt = &world->attempts[handle];
    uint32_t tokens[DEPTH_MAX * PAGE_TOKENS + 1] = {0}, usable = 0, own;
    prefix_match_t match;

    if (attempt->running || !pool_has(world->pool, (uint32_t[]){0, 0, 1}))
        return false;
    memset(attempt, 0, sizeof(*attempt));
    attempt->depth = (uint32_t)random_below(&world->random, DEPTH_MAX + 1);
    attempt->path[0] = (char)('A' + random_below(&world->random, 2));
    for (uint32_t i = 0; i < attempt->depth; i++)
        attempt->path[1 + i] = (char)('a' + random_below(&world->random, CONTENTS));
    fill_tokens(tokens, attempt->path);

    /* what the model says is usable, then what the index says */
    for (uint32_t pages = 1; pages <= attempt->depth; pages++) {
        const model_page_t *page = model_find(world, attempt->path, pages);

        if (page == NULL)
            break;
        if (page->border)
            usable = pages;
    }
    match = prefix_acquire(world->prefix, world->pool, tokens, attempt->depth * PAGE_TOKENS + 1,
                           salt_of(attempt->path), attempt->pages, DEPTH_MAX);
    assert_int_equal(match.page_count, usable);
    for (uint32_t i = 0; i < usable; i++) {
        model_page_t *page = model_find(world, attempt->path, i + 1);

        assert_int_equal(page->page, attempt->pages[i].value);
        page->references++;
        attempt->chain[i] = attempt->pages[i];
    }
    if (usable > 0) {
        attempt->restoring = true;
        attempt->border = match.border;
        path_cut(attempt->border_path, attempt->path, usable);
        model_find(world, attempt->path, usable)->border_references++;
    }
    attempt->closed = usable;

    own = attempt->depth - usable;
    if (!pool_has(world->pool, (uint32_t[]){own, 0, 1}))
        evict_pages(world, own - pool_count(world->pool, UNIT_HISTORY, POOL_FREE));
    if (pool_lease_pages(world->pool, handle, own, attempt->pages + usable) != STATUS_OK) {
        /* no room: everything goes back */
        prefix_release(world->prefix, world->pool, attempt->pages, usable);
        for (uint32_t i = 0; i < usable; i++)
            model_find(world, attempt->path, i + 1)->references--;
        if (attempt->restoring) {
            pool_unshare(world->pool, unit_border(attempt->border));
            model_find(world, attempt->path, usable)->border_references--;
        }
        memset(attempt, 0, sizeof(*attempt));
        return true;
    }
    assert_int_equal(pool_lease_slot(world->pool, handle, &attempt->slot), STATUS_OK);
    attempt->running = true;
    return true;
}

static bool restored(world_t *world, uint32_t handle)
{
    attempt_t *attempt = &world->attempts[handle];

    if (!attempt->running || !attempt->restoring)
        return false;
    pool_unshare(world->pool, unit_border(attempt->border));
    model_find(world, attempt->border_path, (uint32_t)strlen(attempt->border_path) - 1)
        ->border_references--;
    attempt->restoring = false;
    return true;
}

/* The next page is full: it goes to the index, or stays private. */
static bool close_page(world_t *world, uint32_t handle)
{
    attempt_t *attempt = &world->attempts[handle];
    uint32_t tokens[DEPTH_MAX * PAGE_TOKENS];
    const uint32_t i = attempt->closed;
    model_page_t *there;
    page_t standing;

    if (!attempt->running || i == attempt->depth)
        return false;
    fill_tokens(tokens, attempt->path);
    assert_int_equal(prefix_insert(world->prefix, world->pool, handle,
                                   i > 0 ? attempt->chain[i - 1] : (page_t){UNITS_NONE},
                                   attempt->pages[i], tokens + (size_t)i * PAGE_TOKENS,
                                   salt_of(attempt->path), &standing),
                     STATUS_OK);
    there = model_find(world, attempt->path, i + 1);
    if (there == NULL) {
        assert_int_equal(standing.value, attempt->pages[i].value);
        for (there = world->model; there->path[0] != '\0'; there++)
            assert_true(there < world->model + PAGES - 1);
        path_cut(there->path, attempt->path, i + 1);
        there->page = standing.value;
    }
    assert_int_equal(standing.value, there->page);
    if (standing.value != attempt->pages[i].value)
        prefix_hold(world->prefix, world->pool, standing);
    there->references++;
    attempt->chain[i] = standing;
    attempt->closed++;
    return true;
}

static bool keep_border(world_t *world, uint32_t handle)
{
    attempt_t *attempt = &world->attempts[handle];
    border_t border;
    model_page_t *page;
    status_t status;

    if (!attempt->running || attempt->closed == 0)
        return false;
    page = model_find(world, attempt->path, attempt->closed);
    if (pool_lease_border(world->pool, handle, &border) != STATUS_OK)
        return false;
    status = prefix_border_add(world->prefix, world->pool, handle,
                               attempt->chain[attempt->closed - 1], border);
    assert_int_equal(status, page->border ? STATUS_BUSY : STATUS_OK);
    page->border = true;
    if (status != STATUS_OK)
        pool_release(world->pool, unit_border(border), handle);
    return status == STATUS_OK;
}

static bool drop_border(world_t *world)
{
    model_page_t *page = &world->model[random_below(&world->random, PAGES)];
    status_t status;

    if (page->path[0] == '\0')
        return false;
    status = prefix_border_drop(world->prefix, world->pool, page_at(page->page));
    assert_int_equal(status, !page->border                 ? STATUS_NOT_FOUND
                             : page->border_references > 0 ? STATUS_BUSY
                                                           : STATUS_OK);
    if (status == STATUS_OK)
        page->border = false;
    return status == STATUS_OK;
}

static bool end(world_t *world, uint32_t handle)
{
    attempt_t *attempt = &world->attempts[handle];

    if (!attempt->running)
        return false;
    restored(world, handle);
    for (uint32_t i = 0; i < attempt->depth; i++) {
        if (i < attempt->closed)
            model_find(world, attempt->path, i + 1)->references--;
        if (is_own(attempt, i))
            pool_release(world->pool, unit_page(attempt->pages[i]), handle);
    }
    prefix_release(world->prefix, world->pool, attempt->chain, attempt->closed);
    pool_release(world->pool, unit_slot(attempt->slot), handle);
    assert_int_equal(pool_owned(world->pool, handle), 0);
    memset(attempt, 0, sizeof(*attempt));
    return true;
}

static bool reform(world_t *world)
{
    pool_quarantine_all(world->pool, ++world->epoch);
    prefix_clear(world->prefix);
    pool_check_all(world->pool);
    prefix_check(world->prefix, world->pool);
    pool_quarantine_release(world->pool);
    memset(world->model, 0, sizeof(world->model));
    memset(world->attempts, 0, sizeof(world->attempts));
    return true;
}

static bool move_house(world_t *world)
{
    pool_t *pool = malloc(world->pool->bytes);
    prefix_t *prefix = malloc(world->prefix->bytes);

    memcpy(pool, world->pool, world->pool->bytes);
    memcpy(prefix, world->prefix, world->prefix->bytes);
    memset(world->pool, 0xee, world->pool->bytes);
    memset(world->prefix, 0xee, world->prefix->bytes);
    free(world->pool);
    free(world->prefix);
    world->pool = pool;
    world->prefix = prefix;
    return true;
}

/* The model's books and the real ones. */
static void check(world_t *world)
{
    uint32_t leased = 0, running = 0;

    pool_check_all(world->pool);
    prefix_check(world->prefix, world->pool);
    for (int i = 0; i < PAGES; i++) {
        const model_page_t *page = &world->model[i];

        if (page->path[0] == '\0')
            continue;
        assert_true(prefix_has(world->prefix, page_at(page->page)));
        assert_int_equal(pool_item(world->pool, unit_page(page_at(page->page)))->references,
                         page->references);
    }
    assert_int_equal(world->prefix->count, model_count(world, false));
    assert_int_equal(pool_count(world->pool, UNIT_BORDER, POOL_CACHED), model_count(world, true));
    for (uint32_t handle = 0; handle < ATTEMPTS; handle++) {
        const attempt_t *attempt = &world->attempts[handle];
        uint32_t own = 0;

        for (uint32_t i = 0; i < attempt->depth; i++)
            own += is_own(attempt, i);
        running += attempt->running;
        leased += own;
        assert_int_equal(pool_owned(world->pool, handle), own + attempt->running);
    }
    assert_int_equal(pool_count(world->pool, UNIT_HISTORY, POOL_LEASED), leased);
    assert_int_equal(pool_count(world->pool, UNIT_SLOT, POOL_LEASED), running);
}

static void step(world_t *world)
{
    const uint32_t handle = (uint32_t)random_below(&world->random, ATTEMPTS);
    const uint32_t dice = (uint32_t)random_below(&world->random, 100);

    if (dice < 25)
        world->done[0] += start(world, handle);
    else if (dice < 35)
        world->done[1] += restored(world, handle);
    else if (dice < 60)
        world->done[2] += close_page(world, handle);
    else if (dice < 72)
        world->done[3] += keep_border(world, handle);
    else if (dice < 75)
        world->done[4] += drop_border(world);
    else if (dice < 91)
        world->done[5] += end(world, handle);
    else if (dice < 94)
        world->done[6] += evict_pages(world, (uint32_t)random_below(&world->random, 3)) > 0;
    else if (dice < 97)
        world->done[7] += evict_borders(world, (uint32_t)random_below(&world->random, 3));
    else if (dice < 99)
        world->done[8] += move_house(world);
    else if (random_below(&world->random, 4) == 0)
        world->done[9] += reform(world);
}

static void run_seed(uint64_t seed)
{
    world_t world = {.epoch = 1};

    random_init(&world.random, seed);
    world.pool = pool_init(malloc(pool_bytes(counts)), pool_bytes(counts), counts);
    world.prefix = prefix_init(calloc(1, prefix_bytes(PAGES)), prefix_bytes(PAGES), PAGES);
    reform(&world);
    for (int i = 0; i < OPERATIONS; i++) {
        step(&world);
        check(&world);
    }
    for (uint32_t handle = 0; handle < ATTEMPTS; handle++)
        end(&world, handle);
    evict_pages(&world, PAGES);
    check(&world);
    assert_int_equal(pool_count(world.pool, UNIT_HISTORY, POOL_FREE), PAGES - 1);
    assert_int_equal(pool_count(world.pool, UNIT_BORDER, POOL_FREE), BORDERS);
    for (int i = 0; i <= 9; i++)
        assert_true(world.done[i] > 0); /* every kind of operation has happened */
    free(world.pool);
    free(world.prefix);
}

static void test_random_operations_agree_with_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++)
        run_seed(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_operations_agree_with_the_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
