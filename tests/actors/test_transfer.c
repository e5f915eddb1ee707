#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "actors/transfer/transfer.h"
#include "device/device.h"
#include "tests/actors/scene.h"

enum { TP = 2, REQUEST = 9, TARGET_EPOCH = 5, SOURCE_EPOCH = 3, SLOT = 6 };

static actor_id_t prefill(scene_t *scene)
{
    return scene_actor(scene, ACTOR_PREFILL, 0);
}

static actor_id_t decode(scene_t *scene)
{
    return scene_actor(scene, ACTOR_DECODE, 0);
}

static actor_id_t rank(scene_t *scene, uint16_t number)
{
    return scene_rank(scene, ACTOR_DECODE, 0, number);
}

static void announce(scene_t *scene, actor_kind_t kind, uint64_t epoch)
{
    record_pool_t pools[TP] = {0};
    message_targets_t m = {.epoch = epoch};

    for (uint16_t i = 0; i < TP; i++)
        pools[i] = (record_pool_t){.rank = scene_rank(scene, kind, 0, i), .incarnation = 1};
    m.pools.data = pools;
    m.pools.count = TP;
    scene_send(scene, scene_actor(scene, kind, 0),
               kind == ACTOR_DECODE ? MESSAGE_targets : MESSAGE_sources, &m);
}

static int setup(void **state)
{
    scene_t *scene = scene_open(&transfer_type, ACTOR_TRANSFER, 1, 1, TP);

    announce(scene, ACTOR_DECODE, TARGET_EPOCH);
    scene_take(scene, scene_actor(scene, ACTOR_SCHEDULER, 0), MESSAGE_instance);
    announce(scene, ACTOR_PREFILL, SOURCE_EPOCH);
    *state = scene;
    return 0;
}

static int teardown(void **state)
{
    scene_close(*state);
    return 0;
}

static void open_attempt(scene_t *scene, uint64_t epoch)
{
    static const uint32_t pages[] = {21, 22, 23};
    static const uint64_t generations[] = {121, 122, 123};
    message_open_t m = {
        .request = REQUEST, .attempt = 1, .prefill = prefill(scene), .slot = SLOT, .epoch = epoch};

    m.slot_generation = 106;
    m.pages = (u32s_view_t){pages, 3};
    m.generations = (u64s_view_t){generations, 3};
    scene_send(scene, decode(scene), MESSAGE_open, &m);
}

/* Pages [first, first + count) of the prompt, and the slot behind them if it is the last piece. */
static const message_kv_answer_t *piece(scene_t *scene, uint32_t number, uint32_t first,
                                        uint32_t count, uint8_t last)
{
    record_unit_t units[4] = {0};
    message_kv_ready_t m = {
        .request = REQUEST, .attempt = 1, .decode = decode(scene), .piece = number};

    for (uint32_t i = 0; i < count; i++)
        units[i] = (record_unit_t){UNIT_HISTORY, 31 + first + i, 131 + first + i, 1000 + first + i,
                                   PAGE_TOKENS};
    units[count] = (record_unit_t){UNIT_SLOT, 2, 102, 2000, 0};
    m.source_epoch = SOURCE_EPOCH;
    m.first_page = first;
    m.units.data = units;
    m.units.count = count + last;
    m.last = last;
    m.first_token = 44;
    scene_send(scene, prefill(scene), MESSAGE_kv_ready, &m);
    return scene_take(scene, prefill(scene), MESSAGE_kv_answer);
}

static void answer_pull(scene_t *scene, uint16_t number, const message_pull_t *pull, uint8_t status)
{
    message_pulled_t m = {REQUEST, 1, pull->copy, status, 0};

    scene_send(scene, rank(scene, number), MESSAGE_pulled, &m);
}

static void expect_both_fenced(scene_t *scene)
{
    scene_take(scene, decode(scene), MESSAGE_fenced);
    scene_take(scene, prefill(scene), MESSAGE_fenced);
    scene_expect_nothing(scene);
}

static void test_every_pair_is_decided(void **state)
{
    (void)state;
    assert_int_equal(actor_type_check(&transfer_type, &message_table, stderr), 0);
}

static void test_hand_over_lands_on_all_ranks_before_it_is_said(void **state)
{
    scene_t *scene = *state;
    const message_pull_t *pulls[TP];
    const message_landed_t *landed;

    open_attempt(scene, TARGET_EPOCH);
    scene_take(scene, decode(scene), MESSAGE_opened);
    assert_int_equal(piece(scene, 0, 0, 2, 0)->taken, 1);
    for (uint16_t i = 0; i < TP; i++) {
        pulls[i] = scene_take(scene, rank(scene, i), MESSAGE_pull);
        assert_int_equal(pulls[i]->source, scene_rank(scene, ACTOR_PREFILL, 0, i));
        assert_int_equal(pulls[i]->items.count, 2);
        assert_int_equal(pulls[i]->items.data[1].source, 32);
        assert_int_equal(pulls[i]->items.data[1].target, 22);
        assert_int_equal(pulls[i]->items.data[1].target_generation, 122);
        assert_int_equal(pulls[i]->items.data[1].digest, 1001);
    }
    assert_int_equal(piece(scene, 1, 2, 1, 1)->taken, 1);
    scene_expect_nothing(scene); /* one pull of an attempt at a time */
    for (uint16_t i = 0; i < TP; i++) {
        answer_pull(scene, i, pulls[i], STATUS_OK);
        pulls[i] = scene_take(scene, rank(scene, i), MESSAGE_pull);
        assert_int_equal(pulls[i]->items.count, 2);
        assert_int_equal(pulls[i]->items.data[1].unit, UNIT_SLOT);
        assert_int_equal(pulls[i]->items.data[1].target, SLOT);
    }
    answer_pull(scene, 0, pulls[0], STATUS_OK);
    scene_expect_nothing(scene);
    answer_pull(scene, 1, pulls[1], STATUS_OK);
    landed = scene_take(scene, decode(scene), MESSAGE_landed);
    assert_int_equal(landed->failed, 0);
    assert_int_equal(landed->first_token, 44);
    expect_both_fenced(scene);
}

/* Schedule: ABORT between two pieces; a later KV_READY is dropped. P4 of docs/bugs.md. */
static void test_abort_fences_only_when_no_pull_runs(void **state)
{
    scene_t *scene = *state;
    const message_pull_t *pulls[TP];
    message_abort_t abort = {REQUEST, 1, END_ABORTED};

    open_attempt(scene, TARGET_EPOCH);
    piece(scene, 0, 0, 2, 0);
    for (uint16_t i = 0; i < TP; i++)
        pulls[i] = scene_take(scene, rank(scene, i), MESSAGE_pull);
    answer_pull(scene, 0, pulls[0], STATUS_OK);
    scene_take(scene, decode(scene), MESSAGE_opened);
    scene_send(scene, decode(scene), MESSAGE_abort, &abort);
    scene_take(scene, rank(scene, 1), MESSAGE_pull_cancel);
    scene_expect_nothing(scene);
    assert_int_equal(piece(scene, 1, 2, 1, 1)->taken, 0);
    answer_pull(scene, 1, pulls[1], STATUS_BROKEN);
    expect_both_fenced(scene);
    assert_int_equal(piece(scene, 1, 2, 1, 1)->taken, 0);
    scene_send(scene, decode(scene), MESSAGE_abort, &abort);
    assert_int_equal(scene->dispatch.refused[MESSAGE_abort], 1);
    scene_expect_nothing(scene);
}

static void test_abort_before_the_source_spoke_owes_it_nothing(void **state)
{
    scene_t *scene = *state;
    message_abort_t abort = {REQUEST, 1, END_ABORTED};

    open_attempt(scene, TARGET_EPOCH);
    scene_take(scene, decode(scene), MESSAGE_opened);
    scene_send(scene, decode(scene), MESSAGE_abort, &abort);
    scene_take(scene, decode(scene), MESSAGE_fenced);
    scene_expect_nothing(scene);
}

/* P5 P21 P33 of docs/bugs.md. */
static void test_failed_pull_is_told_and_drains_the_others(void **state)
{
    scene_t *scene = *state;
    const message_pull_t *pulls[TP];
    const message_landed_t *landed;

    open_attempt(scene, TARGET_EPOCH);
    scene_take(scene, decode(scene), MESSAGE_opened);
    piece(scene, 0, 0, 3, 1);
    for (uint16_t i = 0; i < TP; i++)
        pulls[i] = scene_take(scene, rank(scene, i), MESSAGE_pull);
    answer_pull(scene, 0, pulls[0], STATUS_CORRUPT);
    landed = scene_take(scene, decode(scene), MESSAGE_landed);
    assert_int_equal(landed->failed, 1);
    assert_int_equal(landed->copies_failed, 1);
    scene_take(scene, rank(scene, 1), MESSAGE_pull_cancel);
    scene_expect_nothing(scene);
    answer_pull(scene, 1, pulls[1], STATUS_OK);
    expect_both_fenced(scene);
}

/* Only OK is bytes that are there, whatever else a rank found. */
static void test_whatever_a_pull_failed_of_it_has_not_landed(void **state)
{
    static const uint8_t statuses[] = {STATUS_STALE,   STATUS_CORRUPT, STATUS_BROKEN,
                                       STATUS_REFUSED, STATUS_INVALID, STATUS_COUNT};
    (void)state;
    for (size_t n = 0; n < COUNT_OF(statuses); n++) {
        void *opened = NULL;
        scene_t *scene;
        const message_pull_t *pulls[TP];
        const message_landed_t *landed;

        setup(&opened);
        scene = opened;
        open_attempt(scene, TARGET_EPOCH);
        scene_take(scene, decode(scene), MESSAGE_opened);
        piece(scene, 0, 0, 3, 1);
        for (uint16_t i = 0; i < TP; i++)
            pulls[i] = scene_take(scene, rank(scene, i), MESSAGE_pull);
        answer_pull(scene, 0, pulls[0], STATUS_OK);
        answer_pull(scene, 1, pulls[1], statuses[n]);
        landed = scene_take(scene, decode(scene), MESSAGE_landed);
        assert_int_equal(landed->failed, 1);
        /* A rank that had no place, or another epoch, says nothing about memory. */
        assert_int_equal(landed->copies_failed, statuses[n] == STATUS_REFUSED ? 0 : 2);
        expect_both_fenced(scene);
        teardown(&opened);
    }
}

static void test_death_of_a_decode_rank_fails_it(void **state)
{
    scene_t *scene = *state;
    const message_pull_t *pull;

    open_attempt(scene, TARGET_EPOCH);
    scene_take(scene, decode(scene), MESSAGE_opened);
    piece(scene, 0, 0, 3, 1);
    scene_take(scene, rank(scene, 1), MESSAGE_pull);
    pull = scene_take(scene, rank(scene, 0), MESSAGE_pull);
    scene_exited(scene, rank(scene, 1), 1);
    assert_int_equal(
        ((const message_landed_t *)scene_take(scene, decode(scene), MESSAGE_landed))->failed, 1);
    scene_take(scene, rank(scene, 0), MESSAGE_pull_cancel);
    scene_expect_nothing(scene);
    answer_pull(scene, 0, pull, STATUS_OK);
    expect_both_fenced(scene);
}

/* The group has its next life before anybody told the end of the one that the order went to. */
static void test_pull_to_a_life_that_has_ended_is_ordered_again(void **state)
{
    scene_t *scene = *state;
    const message_pull_t *pull;

    open_attempt(scene, TARGET_EPOCH);
    scene_take(scene, decode(scene), MESSAGE_opened);
    piece(scene, 0, 0, 3, 1);
    answer_pull(scene, 0, scene_take(scene, rank(scene, 0), MESSAGE_pull), STATUS_OK);
    scene_take(scene, rank(scene, 1), MESSAGE_pull);
    scene_exited(scene, rank(scene, 1), 0); /* TARGETS names life 1 */
    scene_expect_nothing(scene);
    capture_up_set(scene->capture, rank(scene, 1), true);
    scene_tick(scene, 50);
    pull = scene_take(scene, rank(scene, 1), MESSAGE_pull);
    assert_int_equal(pull->items.count, 4);
    answer_pull(scene, 1, pull, STATUS_OK);
    assert_int_equal(
        ((const message_landed_t *)scene_take(scene, decode(scene), MESSAGE_landed))->failed, 0);
    expect_both_fenced(scene);
}

static void test_new_target_epoch_ends_what_belongs_to_the_old(void **state)
{
    scene_t *scene = *state;

    open_attempt(scene, TARGET_EPOCH);
    scene_take(scene, decode(scene), MESSAGE_opened);
    piece(scene, 0, 0, 3, 1);
    for (uint16_t i = 0; i < TP; i++)
        scene_take(scene, rank(scene, i), MESSAGE_pull);
    announce(scene, ACTOR_DECODE, TARGET_EPOCH + 1);
    assert_int_equal(
        ((const message_landed_t *)scene_take(scene, decode(scene), MESSAGE_landed))->failed, 1);
    expect_both_fenced(scene);
}

static void test_pulls_wait_for_the_epoch_that_open_names(void **state)
{
    scene_t *scene = *state;

    open_attempt(scene, TARGET_EPOCH + 1);
    scene_take(scene, decode(scene), MESSAGE_opened);
    piece(scene, 0, 0, 3, 1);
    scene_expect_nothing(scene);
    announce(scene, ACTOR_DECODE, TARGET_EPOCH + 1);
    for (uint16_t i = 0; i < TP; i++)
        assert_int_equal(
            ((const message_pull_t *)scene_take(scene, rank(scene, i), MESSAGE_pull))->epoch,
            TARGET_EPOCH + 1);
}

/* Pages of another epoch may lie in another life's memory. */
static void test_pulls_wait_for_the_source_epoch_that_pieces_name(void **state)
{
    scene_t *scene = *state;

    announce(scene, ACTOR_PREFILL, SOURCE_EPOCH - 1);
    open_attempt(scene, TARGET_EPOCH);
    scene_take(scene, decode(scene), MESSAGE_opened);
    assert_int_equal(piece(scene, 0, 0, 3, 1)->taken, 1);
    scene_expect_nothing(scene);
    announce(scene, ACTOR_PREFILL, SOURCE_EPOCH);
    for (uint16_t i = 0; i < TP; i++)
        scene_take(scene, rank(scene, i), MESSAGE_pull);
}

static void test_new_source_epoch_ends_what_moves(void **state)
{
    scene_t *scene = *state;
    const message_pull_t *pulls[TP];

    open_attempt(scene, TARGET_EPOCH);
    scene_take(scene, decode(scene), MESSAGE_opened);
    piece(scene, 0, 0, 2, 0);
    for (uint16_t i = 0; i < TP; i++)
        pulls[i] = scene_take(scene, rank(scene, i), MESSAGE_pull);
    announce(scene, ACTOR_PREFILL, SOURCE_EPOCH + 1);
    assert_int_equal(
        ((const message_landed_t *)scene_take(scene, decode(scene), MESSAGE_landed))->failed, 1);
    for (uint16_t i = 0; i < TP; i++) {
        scene_take(scene, rank(scene, i), MESSAGE_pull_cancel);
        answer_pull(scene, i, pulls[i], STATUS_STALE);
    }
    expect_both_fenced(scene);
}

static void test_pieces_of_two_epochs_fail_the_attempt(void **state)
{
    scene_t *scene = *state;
    record_unit_t unit = {UNIT_HISTORY, 33, 133, 1002, PAGE_TOKENS};
    message_kv_ready_t m = {.request = REQUEST, .attempt = 1, .decode = decode(scene), .piece = 1};
    const message_pull_t *pulls[TP];

    open_attempt(scene, TARGET_EPOCH);
    scene_take(scene, decode(scene), MESSAGE_opened);
    piece(scene, 0, 0, 2, 0);
    for (uint16_t i = 0; i < TP; i++)
        pulls[i] = scene_take(scene, rank(scene, i), MESSAGE_pull);
    m.source_epoch = SOURCE_EPOCH + 1;
    m.first_page = 2;
    m.units.data = &unit;
    m.units.count = 1;
    scene_send(scene, prefill(scene), MESSAGE_kv_ready, &m);
    assert_int_equal(
        ((const message_kv_answer_t *)scene_take(scene, prefill(scene), MESSAGE_kv_answer))->taken,
        0);
    assert_int_equal(
        ((const message_landed_t *)scene_take(scene, decode(scene), MESSAGE_landed))->failed, 1);
    for (uint16_t i = 0; i < TP; i++) {
        scene_take(scene, rank(scene, i), MESSAGE_pull_cancel);
        answer_pull(scene, i, pulls[i], STATUS_OK);
    }
    expect_both_fenced(scene);
}

/* P5 of docs/bugs.md. */
static void test_dead_openers_get_nothing(void **state)
{
    scene_t *scene = *state;
    const message_pull_t *pulls[TP];

    open_attempt(scene, TARGET_EPOCH);
    scene_take(scene, decode(scene), MESSAGE_opened);
    piece(scene, 0, 0, 3, 1);
    for (uint16_t i = 0; i < TP; i++)
        pulls[i] = scene_take(scene, rank(scene, i), MESSAGE_pull);
    scene_exited(scene, prefill(scene), 1);
    scene_take(scene, decode(scene), MESSAGE_landed);
    for (uint16_t i = 0; i < TP; i++)
        scene_take(scene, rank(scene, i), MESSAGE_pull_cancel);
    scene_exited(scene, decode(scene), 1);
    for (uint16_t i = 0; i < TP; i++)
        answer_pull(scene, i, pulls[i], STATUS_OK);
    scene_expect_nothing(scene);
}

/* P8 P34 of docs/bugs.md. */
static void test_pieces_out_of_order_fail_the_attempt(void **state)
{
    scene_t *scene = *state;

    open_attempt(scene, TARGET_EPOCH);
    scene_take(scene, decode(scene), MESSAGE_opened);
    assert_int_equal(piece(scene, 1, 1, 1, 0)->taken, 0);
    assert_int_equal(
        ((const message_landed_t *)scene_take(scene, decode(scene), MESSAGE_landed))->failed, 1);
    scene_take(scene, decode(scene), MESSAGE_fenced);
    scene_expect_nothing(scene);
}

#define SCENE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair_is_decided),
        SCENE_TEST(test_hand_over_lands_on_all_ranks_before_it_is_said),
        SCENE_TEST(test_abort_fences_only_when_no_pull_runs),
        SCENE_TEST(test_abort_before_the_source_spoke_owes_it_nothing),
        SCENE_TEST(test_failed_pull_is_told_and_drains_the_others),
        cmocka_unit_test(test_whatever_a_pull_failed_of_it_has_not_landed),
        SCENE_TEST(test_pulls_wait_for_the_source_epoch_that_pieces_name),
        SCENE_TEST(test_new_source_epoch_ends_what_moves),
        SCENE_TEST(test_pieces_of_two_epochs_fail_the_attempt),
        SCENE_TEST(test_death_of_a_decode_rank_fails_it),
        SCENE_TEST(test_pull_to_a_life_that_has_ended_is_ordered_again),
        SCENE_TEST(test_new_target_epoch_ends_what_belongs_to_the_old),
        SCENE_TEST(test_pulls_wait_for_the_epoch_that_open_names),
        SCENE_TEST(test_dead_openers_get_nothing),
        SCENE_TEST(test_pieces_out_of_order_fail_the_attempt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
