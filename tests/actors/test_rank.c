/* A rank alone: what it lets through to its device, what it refuses, and what it says when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "actors/group.h"
#include "actors/rank/rank.h"
#include "tests/actors/scene.h"

enum { EPOCH = 5 };

static scene_t *scene;

static actor_id_t leader(void)
{
    return scene_actor(scene, ACTOR_DECODE, 0);
}

static actor_id_t orderers[2];

/* Who orders copies: a transfer, or in some tests an actor of the other kind that may. */
static actor_id_t orderer(void)
{
    return orderers[0];
}

static void reform(uint64_t epoch)
{
    message_reform_t m = {epoch, {"/segment", 8}};

    scene_send(scene, leader(), MESSAGE_reform, &m);
}

static void quiesced(uint64_t epoch)
{
    message_device_quiesced_t m = {.epoch = epoch};

    scene_send(scene, PORT_DEVICE, MESSAGE_device_quiesced, &m);
}

/* Ready for steps of EPOCH; nothing is left to take. */
static int set_up(actor_kind_t kind)
{
    static topology_t topology;
    message_device_ready_t ready = {.pool = {0, 1, {"/pool", 5}, 64}, .pages = 64, .slots = 8};
    message_rank_joined_t joined = {.accepted = 1};
    const message_rank_join_t *join;

    topology = (topology_t){0};
    scene_topology(&topology, 1, 1, 2);
    for (uint16_t i = 0; i < COUNT_OF(orderers); i++)
        orderers[i] = topology_actor(&topology, ACTOR_TRANSFER, i)->id;
    for (uint16_t i = 0; i < COUNT_OF(orderers); i++)
        topology.actors[orderers[i]].kind = (uint16_t)kind;
    scene = scene_open_on(&topology, &rank_type, ACTOR_RANK);
    scene_send(scene, PORT_DEVICE, MESSAGE_device_ready, &ready);
    join = scene_take(scene, leader(), MESSAGE_rank_join);
    assert_int_equal(join->pages, 64);
    assert_int_equal(join->pool.rank, scene->id);
    assert_memory_equal(join->pool.name.data, "/pool", 5);
    scene_send(scene, leader(), MESSAGE_rank_joined, &joined);
    reform(EPOCH);
    scene_take(scene, PORT_DEVICE, MESSAGE_device_reform);
    quiesced(EPOCH);
    scene_take(scene, leader(), MESSAGE_quiesced);
    scene_expect_nothing(scene);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return set_up(ACTOR_TRANSFER);
}

static int setup_mirror(void **state)
{
    (void)state;
    return set_up(ACTOR_MIRROR);
}

static int teardown(void **state)
{
    (void)state;
    scene_close(scene);
    return 0;
}

static uint64_t step(uint64_t epoch, uint64_t seq, uint64_t parent)
{
    static const uint32_t tokens[2] = {3, 4};
    record_step_item_t item = {.kind = DEVICE_RUN, .slot = 1, .count = 2, .tokens = {tokens, 2}};
    message_step_t m = {.epoch = epoch, .seq = seq, .parent = parent};

    m.items.data = &item;
    m.items.count = 1;
    scene_send(scene, leader(), MESSAGE_step, &m);
    return step_chain(parent, &m);
}

static void device_done(uint64_t seq)
{
    record_step_token_t token = {.slot = 1, .token = {.token = 7}};
    message_step_done_t m = {.epoch = EPOCH, .seq = seq, .result = 9};

    m.tokens.data = &token;
    m.tokens.count = 1;
    scene_send(scene, PORT_DEVICE, MESSAGE_step_done, &m);
}

static void pull(uint64_t request, uint64_t copy, uint64_t epoch)
{
    record_pull_item_t items[2] = {{.unit = UNIT_HISTORY, .source = 3, .target = 4, .digest = 8},
                                   {.unit = UNIT_SLOT, .source = 1, .target = 2}};
    message_pull_t m = {.request = request, .attempt = 1, .copy = copy, .epoch = epoch};

    m.source = scene_rank(scene, ACTOR_PREFILL, 0, 0);
    m.items.data = items;
    m.items.count = 2;
    scene_send(scene, orderer(), MESSAGE_pull, &m);
}

static void copied(uint64_t copy, uint8_t status)
{
    message_device_copied_t m = {copy, status, 0};

    scene_send(scene, PORT_DEVICE, MESSAGE_device_copied, &m);
}

static void test_every_pair_is_decided(void **state)
{
    (void)state;
    assert_int_equal(actor_type_check(&rank_type, &message_table, stderr), 0);
}

static void test_steps_reach_the_device_and_their_answers_carry_the_chain(void **state)
{
    uint64_t chain = step(EPOCH, 1, 0);
    const message_step_done_t *done;

    (void)state;
    step(EPOCH, 2, chain);
    scene_take(scene, PORT_DEVICE, MESSAGE_step);
    scene_take(scene, PORT_DEVICE, MESSAGE_step);
    device_done(1);
    done = scene_take(scene, leader(), MESSAGE_step_done);
    assert_int_equal(done->parent, 0);
    assert_int_equal(done->result, 9);
    assert_int_equal(done->tokens.count, 1); /* rank 0 speaks for all */
    device_done(2);
    done = scene_take(scene, leader(), MESSAGE_step_done);
    assert_int_equal(done->parent, chain);
    scene_expect_nothing(scene);
}

/* T3 of docs/bugs.md. */
static void test_a_step_out_of_order_or_of_another_chain_never_reaches_the_device(void **state)
{
    const message_step_done_t *done;
    char detail[REASON_BYTES_MAX + 1];

    (void)state;
    step(EPOCH, 2, 0);
    done = scene_take(scene, leader(), MESSAGE_step_done);
    assert_int_equal(done->status, STATUS_MISMATCH);
    assert_memory_equal(done->detail.data, "STEPs must follow", 17);
    step(EPOCH, 1, 12); /* T5: a plan that another one went into; both digests are named */
    done = scene_take(scene, leader(), MESSAGE_step_done);
    assert_int_equal(done->status, STATUS_MISMATCH);
    snprintf(detail, sizeof(detail), "%.*s", (int)done->detail.count, done->detail.data);
    assert_string_equal(detail, "the parent is not this rank's chain: step 1 with parent "
                                "000000000000000c came behind step 0 with chain 0000000000000000");
    step(EPOCH - 1, 1, 0);
    step(EPOCH + 1, 1, 0);
    scene_expect_nothing(scene);
    step(EPOCH, 1, 0);
    scene_take(scene, PORT_DEVICE, MESSAGE_step);
    scene_expect_nothing(scene);
}

static void test_a_reform_waits_for_what_runs_and_says_how_far_it_came(void **state)
{
    uint64_t chain = step(EPOCH, 1, 0);
    const message_quiesced_t *m;

    (void)state;
    step(EPOCH, 2, chain);
    scene_take(scene, PORT_DEVICE, MESSAGE_step);
    scene_take(scene, PORT_DEVICE, MESSAGE_step);
    device_done(1);
    scene_take(scene, leader(), MESSAGE_step_done);
    reform(EPOCH + 1);
    scene_take(scene, PORT_DEVICE, MESSAGE_device_reform);
    device_done(2); /* broken or not: nobody waits for it */
    scene_expect_nothing(scene);
    reform(EPOCH + 2); /* overtakes the first */
    scene_take(scene, PORT_DEVICE, MESSAGE_device_reform);
    quiesced(EPOCH + 1);
    scene_expect_nothing(scene);
    quiesced(EPOCH + 2);
    m = scene_take(scene, leader(), MESSAGE_quiesced);
    assert_int_equal(m->epoch, EPOCH + 2);
    assert_int_equal(m->last_seq, 2);
    reform(EPOCH + 2); /* no epoch comes twice */
    scene_expect_nothing(scene);
    step(EPOCH + 2, 1, 0);
    scene_take(scene, PORT_DEVICE, MESSAGE_step);
}

static void test_pulls_wait_for_the_device_in_order(void **state)
{
    const message_device_copy_t *first, *second, *third;
    const message_pulled_t *m;

    (void)state;
    for (uint64_t i = 1; i <= RANK_COPIES_MAX + 1; i++)
        pull(i, 70 + i, EPOCH);
    first = scene_take(scene, PORT_DEVICE, MESSAGE_device_copy);
    second = scene_take(scene, PORT_DEVICE, MESSAGE_device_copy);
    assert_int_equal(first->items.count, 2);
    assert_int_equal(first->items.data[0].digest, 8);
    scene_expect_nothing(scene);
    copied(second->copy, STATUS_CORRUPT);
    m = scene_take(scene, orderer(), MESSAGE_pulled);
    assert_int_equal(m->copy, 72);
    assert_int_equal(m->status, STATUS_CORRUPT);
    third = scene_take(scene, PORT_DEVICE, MESSAGE_device_copy);
    copied(first->copy, STATUS_OK);
    copied(third->copy, STATUS_OK);
    assert_int_equal(((const message_pulled_t *)scene_take(scene, orderer(), MESSAGE_pulled))->copy,
                     71);
    assert_int_equal(((const message_pulled_t *)scene_take(scene, orderer(), MESSAGE_pulled))->copy,
                     73);
    scene_expect_nothing(scene);
}

static void test_a_cancelled_pull_that_waits_is_answered_at_once(void **state)
{
    message_pull_cancel_t cancel = {3, 1};
    const message_pulled_t *m;

    (void)state;
    for (uint64_t i = 1; i <= 3; i++)
        pull(i, 70 + i, EPOCH);
    scene_send(scene, orderer(), MESSAGE_pull_cancel, &cancel);
    m = scene_take(scene, orderer(), MESSAGE_pulled);
    assert_int_equal(m->copy, 73);
    cancel.request = 1; /* at the device: it ends by itself */
    scene_send(scene, orderer(), MESSAGE_pull_cancel, &cancel);
    assert_null(capture_find(scene->capture, orderer(), MESSAGE_pulled));
}

static void test_a_reform_answers_waiting_pulls_and_refuses_those_of_the_old_epoch(void **state)
{
    const message_pulled_t *m;

    (void)state;
    for (uint64_t i = 1; i <= 3; i++)
        pull(i, 70 + i, EPOCH);
    reform(EPOCH + 1);
    m = scene_take(scene, orderer(), MESSAGE_pulled);
    assert_int_equal(m->copy, 73);
    assert_int_equal(m->status, STATUS_STALE);
    pull(4, 74, EPOCH);
    m = scene_take(scene, orderer(), MESSAGE_pulled);
    assert_int_equal(m->status, STATUS_STALE);
}

static void test_copies_of_an_exited_transfer_are_fenced_when_none_runs_and_none_comes(void **state)
{
    message_fence_copies_t fence = {orderer(), 1};
    const message_device_copy_t *running;
    const message_copies_fenced_t *m;

    (void)state;
    pull(1, 71, EPOCH);
    running = scene_take(scene, PORT_DEVICE, MESSAGE_device_copy);
    scene_exited(scene, orderer(), 1);
    scene_send(scene, leader(), MESSAGE_fence_copies, &fence);
    assert_null(capture_find(scene->capture, leader(), MESSAGE_copies_fenced));
    copied(running->copy, STATUS_OK);
    m = scene_take(scene, leader(), MESSAGE_copies_fenced);
    assert_int_equal(m->actor, orderer());
    assert_int_equal(m->incarnation, 1);
    capture_up_set(scene->capture, orderer(), true);
    pull(2, 72, EPOCH); /* of the life that was fenced */
    assert_int_equal(
        ((const message_pulled_t *)scene_take(scene, orderer(), MESSAGE_pulled))->status,
        STATUS_REFUSED);
    scene_expect_nothing(scene);
}

/* Its next life has ordered nothing, and may not know the attempt. P36 of docs/bugs.md. */
static void test_a_copy_that_outlives_its_transfer_is_not_told_to_the_next_life(void **state)
{
    const message_device_copy_t *running;

    (void)state;
    pull(1, 71, EPOCH);
    running = scene_take(scene, PORT_DEVICE, MESSAGE_device_copy);
    scene_exited(scene, orderer(), 1);
    capture_up_set(scene->capture, orderer(), true);
    copied(running->copy, STATUS_OK);
    scene_expect_nothing(scene);
}

static void test_a_transfer_it_never_heard_of_is_fenced_too(void **state)
{
    message_fence_copies_t fence = {orderers[1], 4};

    (void)state;
    scene_send(scene, leader(), MESSAGE_fence_copies, &fence);
    scene_take(scene, leader(), MESSAGE_copies_fenced);
    scene_expect_nothing(scene);
}

static void test_a_new_leader_is_joined_again(void **state)
{
    message_joined_t joined = {leader(), 2};

    (void)state;
    scene_exited(scene, leader(), 1);
    step(EPOCH, 1, 0);
    scene_expect_nothing(scene);
    capture_up_set(scene->capture, leader(), true);
    scene_send(scene, PORT_RUNTIME, MESSAGE_joined, &joined);
    capture_may_send_set(scene->capture, leader(), MESSAGE_rank_join, true);
    scene_take(scene, leader(), MESSAGE_rank_join);
}

/* T11 of docs/bugs.md. */
/* What an earlier life has asked for, its next one has not. */
static void test_a_new_leader_hears_no_answer_to_the_one_before(void **state)
{
    message_step_done_t done = {.epoch = EPOCH, .seq = 1};
    message_peer_pool_t peer = {.pool = {.rank = 9, .incarnation = 1, .name = {"/peer", 5}}};
    message_device_mapped_t mapped = {.rank = 9, .incarnation = 1};
    message_fence_copies_t fence = {orderer(), 1};
    const message_device_copy_t *running;

    (void)state;
    step(EPOCH, 1, 0);
    scene_take(scene, PORT_DEVICE, MESSAGE_step);
    scene_send(scene, leader(), MESSAGE_peer_pool, &peer);
    scene_take(scene, PORT_DEVICE, MESSAGE_device_map);
    pull(1, 71, EPOCH);
    running = scene_take(scene, PORT_DEVICE, MESSAGE_device_copy);
    scene_send(scene, leader(), MESSAGE_fence_copies, &fence);
    scene_exited(scene, leader(), 1);
    capture_up_set(scene->capture, leader(), true);
    scene_send(scene, PORT_DEVICE, MESSAGE_step_done, &done);
    scene_take(scene, leader(), MESSAGE_rank_join);
    scene_send(scene, PORT_DEVICE, MESSAGE_device_mapped, &mapped);
    copied(running->copy, STATUS_OK);
    scene_take(scene, orderer(), MESSAGE_pulled);
    scene_expect_nothing(scene);
    scene_send(scene, leader(), MESSAGE_peer_pool, &peer);
    scene_take(scene, PORT_DEVICE, MESSAGE_device_map);
    scene_send(scene, PORT_DEVICE, MESSAGE_device_mapped, &mapped);
    scene_take(scene, leader(), MESSAGE_peer_mapped);
}

static void test_a_device_that_cannot_go_on_ends_the_rank(void **state)
{
    message_device_ready_t broken = {.status = STATUS_BAD_FILE, .detail = {"no weights", 10}};
    envelope_t envelope = {
        .from = PORT_DEVICE, .id = MESSAGE_device_ready, .body = &broken, .incarnation = 1};

    (void)state;
    assert_int_equal(dispatch_message(&scene->dispatch, &envelope, capture_outbox(scene->capture)),
                     STATUS_BAD_FILE);
}

#define ALONE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* What orders copies is a kind, not a transfer. */
#define OF_MIRROR(test) cmocka_unit_test_setup_teardown(test, setup_mirror, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair_is_decided),
        ALONE(test_steps_reach_the_device_and_their_answers_carry_the_chain),
        ALONE(test_a_step_out_of_order_or_of_another_chain_never_reaches_the_device),
        ALONE(test_a_reform_waits_for_what_runs_and_says_how_far_it_came),
        ALONE(test_pulls_wait_for_the_device_in_order),
        ALONE(test_a_cancelled_pull_that_waits_is_answered_at_once),
        ALONE(test_a_reform_answers_waiting_pulls_and_refuses_those_of_the_old_epoch),
        ALONE(test_copies_of_an_exited_transfer_are_fenced_when_none_runs_and_none_comes),
        ALONE(test_a_copy_that_outlives_its_transfer_is_not_told_to_the_next_life),
        ALONE(test_a_transfer_it_never_heard_of_is_fenced_too),
        OF_MIRROR(test_pulls_wait_for_the_device_in_order),
        OF_MIRROR(test_a_cancelled_pull_that_waits_is_answered_at_once),
        OF_MIRROR(test_a_reform_answers_waiting_pulls_and_refuses_those_of_the_old_epoch),
        OF_MIRROR(test_copies_of_an_exited_transfer_are_fenced_when_none_runs_and_none_comes),
        OF_MIRROR(test_a_copy_that_outlives_its_transfer_is_not_told_to_the_next_life),
        OF_MIRROR(test_a_transfer_it_never_heard_of_is_fenced_too),
        ALONE(test_a_new_leader_is_joined_again),
        ALONE(test_a_new_leader_hears_no_answer_to_the_one_before),
        ALONE(test_a_device_that_cannot_go_on_ends_the_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
