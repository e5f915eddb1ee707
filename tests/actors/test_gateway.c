#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "actors/gateway/gateway.h"
#include "tests/actors/scene.h"

static const uint32_t prompt[600] = {5, 6, 7};

static int setup(void **state)
{
    scene_t *scene = scene_open(&gateway_type, ACTOR_GATEWAY, 2, 2, 1);

    scene_tick(scene, 50);
    *state = scene;
    return 0;
}

static int teardown(void **state)
{
    scene_close(*state);
    return 0;
}

static actor_id_t scheduler(scene_t *scene)
{
    return scene_actor(scene, ACTOR_SCHEDULER, 0);
}

static actor_id_t prefill(scene_t *scene, uint16_t instance)
{
    return scene_actor(scene, ACTOR_PREFILL, instance);
}

static actor_id_t decode(scene_t *scene, uint16_t instance)
{
    return scene_actor(scene, ACTOR_DECODE, instance);
}

static void ask(scene_t *scene, uint64_t client, uint32_t output_tokens_max, uint32_t deadline_ms)
{
    message_client_request_t request = {.client = client, .deadline_ms = deadline_ms};

    request.prompt = (u32s_view_t){prompt, COUNT_OF(prompt)};
    request.limits.output_tokens_max = output_tokens_max;
    scene_send(scene, PORT_CLIENT, MESSAGE_client_request, &request);
}

static void answer_route(scene_t *scene, const message_route_t *route, uint16_t instance)
{
    message_routed_t routed = {
        .request = route->request, .attempt = route->attempt, .outcome = ROUTE_OK};

    routed.prefill = prefill(scene, instance);
    routed.decode = decode(scene, instance);
    routed.transfer = scene_actor(scene, ACTOR_TRANSFER, 0);
    scene_send(scene, scheduler(scene), MESSAGE_routed, &routed);
}

/* Asks and routes; returns what was submitted at prefill/0. */
static const message_submit_t *submit(scene_t *scene, uint64_t client)
{
    ask(scene, client, 8, 0);
    answer_route(scene, scene_take(scene, scheduler(scene), MESSAGE_route), 0);
    return scene_take(scene, prefill(scene, 0), MESSAGE_submit);
}

static void whole_tokens_from(scene_t *scene, actor_id_t from, const message_submit_t *m,
                              uint32_t attempt, uint32_t first, const record_token_t *tokens,
                              uint32_t count)
{
    record_tokens_item_t item = {
        .request = m->request, .attempt = attempt, .first = first, .tokens = {tokens, count}};
    message_tokens_t message;

    message.items.data = &item;
    message.items.count = 1;
    scene_send(scene, from, MESSAGE_tokens, &message);
}

static void tokens_from(scene_t *scene, actor_id_t from, const message_submit_t *m,
                        uint32_t attempt, uint32_t first, const uint32_t *ids, uint32_t count)
{
    record_token_t tokens[16] = {0};

    for (uint32_t i = 0; i < count; i++)
        tokens[i].token = ids[i];
    whole_tokens_from(scene, from, m, attempt, first, tokens, count);
}

static void end_from(scene_t *scene, actor_id_t from, const message_submit_t *m, uint32_t attempt,
                     uint8_t reason, uint32_t token_count)
{
    message_end_t end = {
        .request = m->request, .attempt = attempt, .reason = reason, .token_count = token_count};

    scene_send(scene, from, MESSAGE_end, &end);
}

static void expect_client_tokens(scene_t *scene, uint64_t client, uint32_t first, uint32_t token,
                                 uint32_t count)
{
    const message_client_tokens_t *news = scene_take(scene, PORT_CLIENT, MESSAGE_client_tokens);

    assert_true(news->client == client);
    assert_int_equal(news->first, first);
    assert_int_equal(news->tokens.count, count);
    assert_int_equal(news->tokens.data[0].token, token);
}

static void expect_client_end(scene_t *scene, uint64_t client, uint8_t reason, uint32_t token_count)
{
    const message_client_end_t *end = scene_take(scene, PORT_CLIENT, MESSAGE_client_end);

    assert_true(end->client == client);
    assert_int_equal(end->reason, reason);
    assert_int_equal(end->token_count, token_count);
}

static void test_every_pair_is_decided(void **state)
{
    (void)state;
    assert_int_equal(actor_type_check(&gateway_type, &message_table, stderr), 0);
}

static void test_a_request_goes_from_client_to_end(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *m = submit(scene, 77);

    assert_int_equal(m->attempt, 1);
    assert_int_equal(m->prompt.count, COUNT_OF(prompt));
    assert_int_equal(m->prompt.data[2], 7);
    assert_int_equal(m->forced.count, 0);
    tokens_from(scene, prefill(scene, 0), m, 1, 0, (uint32_t[]){11}, 1);
    expect_client_tokens(scene, 77, 0, 11, 1);
    tokens_from(scene, decode(scene, 0), m, 1, 0, (uint32_t[]){11, 12, 13}, 3);
    expect_client_tokens(scene, 77, 1, 12, 2);
    end_from(scene, decode(scene, 0), m, 1, END_STOP, 3);
    expect_client_end(scene, 77, END_STOP, 3);
    scene_expect_nothing(scene);
    assert_int_equal(gateway_counts(scene->dispatch.self)->live, 0);
    assert_int_equal(gateway_counts(scene->dispatch.self)->differing, 0);
}

static void test_end_waits_for_the_last_token(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *m = submit(scene, 1);

    end_from(scene, decode(scene, 0), m, 1, END_LENGTH, 2);
    scene_expect_nothing(scene);
    tokens_from(scene, decode(scene, 0), m, 1, 0, (uint32_t[]){11, 12}, 2);
    expect_client_tokens(scene, 1, 0, 11, 2);
    expect_client_end(scene, 1, END_LENGTH, 2);
}

/* R5 of docs/bugs.md. */
static void test_lost_attempt_is_replayed_with_its_tokens_forced(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *m = submit(scene, 1);
    const message_submit_t *again;

    tokens_from(scene, decode(scene, 0), m, 1, 0, (uint32_t[]){11, 12}, 2);
    scene_exited(scene, decode(scene, 0), 1);
    scene_take(scene, prefill(scene, 0), MESSAGE_abort);
    answer_route(scene, scene_take(scene, scheduler(scene), MESSAGE_route), 1);
    again = scene_take(scene, prefill(scene, 1), MESSAGE_submit);
    assert_int_equal(again->attempt, 2);
    assert_int_equal(again->forced.count, 2);
    assert_int_equal(again->forced.data[1], 12);
    expect_client_tokens(scene, 1, 0, 11, 2);
    /* The old attempt's words mean nothing any more; whoever still runs it is told. */
    end_from(scene, prefill(scene, 0), m, 1, END_LOST, 0);
    tokens_from(scene, decode(scene, 0), m, 1, 2, (uint32_t[]){99}, 1);
    assert_int_equal(
        ((const message_abort_t *)scene_take(scene, decode(scene, 0), MESSAGE_abort))->attempt, 1);
    tokens_from(scene, decode(scene, 1), m, 2, 2, (uint32_t[]){13}, 1);
    expect_client_tokens(scene, 1, 2, 13, 1);
    scene_expect_nothing(scene);
}

static void test_attempts_in_vain_come_ever_more_slowly_until_one_brings_a_token(void **state)
{
    static const uint32_t waits_ms[] = {0, 0, 0, 100, 200, 400, 800, 800};
    scene_t *scene = *state;
    const message_submit_t *m = submit(scene, 1);
    uint32_t attempt = 1;
    uint64_t now_ms = 1000;

    scene_tick(scene, now_ms);
    for (uint32_t i = 0; i < COUNT_OF(waits_ms); i++) {
        end_from(scene, prefill(scene, 0), m, attempt++, END_LOST, 0);
        if (waits_ms[i]) {
            scene_tick(scene, now_ms + waits_ms[i] - 1);
            scene_expect_nothing(scene);
            scene_tick(scene, now_ms += waits_ms[i]);
        }
        answer_route(scene, scene_take(scene, scheduler(scene), MESSAGE_route), 0);
        m = scene_take(scene, prefill(scene, 0), MESSAGE_submit);
    }
    tokens_from(scene, decode(scene, 0), m, attempt, 0, (uint32_t[]){11}, 1);
    expect_client_tokens(scene, 1, 0, 11, 1);
    end_from(scene, decode(scene, 0), m, attempt, END_LOST, 1);
    answer_route(scene, scene_take(scene, scheduler(scene), MESSAGE_route), 0);
    assert_int_equal(
        ((const message_submit_t *)scene_take(scene, prefill(scene, 0), MESSAGE_submit))->attempt,
        attempt + 1);
}

/* It never opened the attempt there: no message about it may come before its opening. */
static void test_the_next_life_of_prefill_hears_nothing_of_what_decode_runs(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *m = submit(scene, 1);
    message_client_abort_t abort = {1, END_ABORTED};

    tokens_from(scene, decode(scene, 0), m, 1, 0, (uint32_t[]){11, 12}, 2);
    expect_client_tokens(scene, 1, 0, 11, 2);
    scene_exited(scene, prefill(scene, 0), 1);
    capture_up_set(scene->capture, prefill(scene, 0), true);
    scene_send(scene, PORT_CLIENT, MESSAGE_client_abort, &abort);
    scene_take(scene, decode(scene, 0), MESSAGE_abort);
    expect_client_end(scene, 1, END_ABORTED, 2);
    scene_expect_nothing(scene);
}

static void test_tokens_that_come_twice_must_be_equal(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *m = submit(scene, 1);

    tokens_from(scene, decode(scene, 0), m, 1, 0, (uint32_t[]){11, 12}, 2);
    tokens_from(scene, decode(scene, 0), m, 1, 0, (uint32_t[]){11, 99, 13}, 3);
    assert_int_equal(gateway_counts(scene->dispatch.self)->differing, 1);
    expect_client_tokens(scene, 1, 0, 11, 2);
    expect_client_tokens(scene, 1, 2, 13, 1);
}

static void test_gap_in_tokens_is_refused(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *m = submit(scene, 1);

    tokens_from(scene, decode(scene, 0), m, 1, 1, (uint32_t[]){12}, 1);
    assert_int_equal(scene->dispatch.failed[MESSAGE_tokens], 1);
    scene_expect_nothing(scene);
}

static void test_alternatives_without_logarithms_are_refused(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *m = submit(scene, 1);
    uint32_t alternatives[] = {11, 12};
    float logarithm = -0.5f;
    record_token_t token = {
        .token = 11, .top_tokens = {alternatives, 2}, .top_logprobs = {&logarithm, 1}};

    whole_tokens_from(scene, decode(scene, 0), m, 1, 0, &token, 1);
    assert_int_equal(scene->dispatch.failed[MESSAGE_tokens], 1);
    scene_expect_nothing(scene);
}

static void test_abort_before_and_after_submission(void **state)
{
    scene_t *scene = *state;
    message_client_abort_t abort = {1, END_ABORTED};

    ask(scene, 1, 8, 0);
    scene_send(scene, PORT_CLIENT, MESSAGE_client_abort, &abort);
    expect_client_end(scene, 1, END_ABORTED, 0);
    answer_route(scene, scene_take(scene, scheduler(scene), MESSAGE_route), 0);
    assert_int_equal(scene->dispatch.refused[MESSAGE_routed], 1);
    scene_expect_nothing(scene);

    submit(scene, 2);
    abort.client = 2;
    scene_send(scene, PORT_CLIENT, MESSAGE_client_abort, &abort);
    assert_int_equal(
        ((const message_abort_t *)scene_take(scene, prefill(scene, 0), MESSAGE_abort))->reason,
        END_ABORTED);
    expect_client_end(scene, 2, END_ABORTED, 0);
    scene_expect_nothing(scene);
}

static void test_second_charge_ends_it_as_poisoned(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *m = submit(scene, 1);
    message_end_t end = {.request = m->request, .attempt = 1, .reason = END_LOST, .suspect = 1};
    const message_client_poisoned_t *kept;
    uint32_t prompt_count = m->prompt.count;

    scene_send(scene, prefill(scene, 0), MESSAGE_end, &end);
    for (uint32_t attempt = 2; attempt <= 3; attempt++) {
        const message_submit_t *again;

        answer_route(scene, scene_take(scene, scheduler(scene), MESSAGE_route), 0);
        again = scene_take(scene, prefill(scene, 0), MESSAGE_submit);
        assert_int_equal(again->alone, 1);
        end.attempt = attempt;
        end.charge = 1;
        scene_send(scene, prefill(scene, 0), MESSAGE_end, &end);
    }
    scene_take(scene, scene_actor(scene, ACTOR_SUPERVISOR, 0), MESSAGE_incident);
    kept = scene_take(scene, PORT_CLIENT, MESSAGE_client_poisoned);
    assert_int_equal(kept->client, 1);
    assert_int_equal(kept->request, end.request);
    assert_int_equal(kept->attempts, 3);
    assert_int_equal(kept->prompt.count, prompt_count);
    expect_client_end(scene, 1, END_POISONED, 0);
    scene_expect_nothing(scene);
}

/* The leader of `m`'s prefill ends; returns what is submitted there next, or NULL if nothing is. */
static const message_submit_t *next_life(scene_t *scene, incarnation_t life, exit_cause_t cause)
{
    const message_route_t *route;

    scene_exited_by(scene, prefill(scene, 0), life, cause);
    capture_up_set(scene->capture, prefill(scene, 0), true);
    scene_send(scene, PORT_RUNTIME, MESSAGE_joined,
               &(message_joined_t){prefill(scene, 0), life + 1});
    scene_tick(scene, life * 1000); /* fruitless attempts wait */
    route = capture_find(scene->capture, scheduler(scene), MESSAGE_route);
    if (!route)
        return NULL;
    answer_route(scene, route, 0);
    return scene_take(scene, prefill(scene, 0), MESSAGE_submit);
}

/* Two by chance, two while no other suspect is out. */
static void test_who_crashes_its_leader_again_and_again_is_poisoned(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *m = submit(scene, 1);

    for (incarnation_t life = 1; life <= 3; life++) {
        m = next_life(scene, life, life % 2 ? EXIT_CRASHED : EXIT_HUNG);
        assert_non_null(m);
        assert_int_equal(m->alone, 1);
        assert_int_equal(m->attempt, life + 1);
    }
    assert_null(next_life(scene, 4, EXIT_FAILED_ITSELF));
    scene_take(scene, scene_actor(scene, ACTOR_SUPERVISOR, 0), MESSAGE_incident);
    scene_take(scene, PORT_CLIENT, MESSAGE_client_poisoned);
    expect_client_end(scene, 1, END_POISONED, 0);
    scene_expect_nothing(scene);
}

/* A transfer or the scheduler dies of it until it is poisoned; returns how often. Of the transfer the
 * leader may have told first. */
static uint32_t count_crashes(scene_t *scene, actor_id_t victim, bool end_first)
{
    const actor_id_t gates = scheduler(scene);
    incarnation_t life = 0;
    uint64_t now_ms = 1000;

    while (gateway_counts(scene->dispatch.self)->poisoned == 0 && life < 9) {
        const message_route_t *route = scene_take(scene, gates, MESSAGE_route);

        if (victim != gates) {
            message_end_t end = {
                .request = route->request, .attempt = route->attempt, .reason = END_LOST};

            answer_route(scene, route, 0);
            scene_take(scene, prefill(scene, 0), MESSAGE_submit);
            if (end_first) {
                scene_send(scene, prefill(scene, 0), MESSAGE_end, &end);
                scene_tick(scene, now_ms += 1000); /* fruitless attempts wait */
                scene_take(scene, gates, MESSAGE_route);
            }
        }
        scene_exited_by(scene, victim, ++life, EXIT_CRASHED);
        capture_up_set(scene->capture, victim, true);
        scene_send(scene, PORT_RUNTIME, MESSAGE_joined, &(message_joined_t){victim, life + 1});
        scene_tick(scene, now_ms += 1000);
    }
    return life;
}

static void test_who_crashes_the_scheduler_is_poisoned(void **state)
{
    scene_t *scene = *state;

    ask(scene, 1, 8, 0);
    assert_int_equal(count_crashes(scene, scheduler(scene), false), 4);
}

static void test_who_crashes_its_transfer_is_poisoned(void **state)
{
    scene_t *scene = *state;

    ask(scene, 1, 8, 0);
    assert_int_equal(count_crashes(scene, scene_actor(scene, ACTOR_TRANSFER, 0), false), 4);
}

static void test_a_crash_of_its_transfer_counts_after_the_leaders_end(void **state)
{
    scene_t *scene = *state;

    ask(scene, 1, 8, 0);
    assert_int_equal(count_crashes(scene, scene_actor(scene, ACTOR_TRANSFER, 0), true), 4);
}

static void test_who_is_with_a_leader_that_was_killed_is_no_suspect(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *m = submit(scene, 1);

    for (incarnation_t life = 1; life <= 8; life++) {
        m = next_life(scene, life, life % 2 ? EXIT_KILLED_OUTSIDE : EXIT_KILLED_BY_US);
        assert_non_null(m);
        assert_int_equal(m->alone, 0);
    }
    scene_expect_nothing(scene);
}

/* Who did it is found out by letting them out in turn; who did not ends as if nothing had been. */
static void test_those_with_two_crashes_go_out_one_at_a_time(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *m;

    submit(scene, 1);
    submit(scene, 2);
    assert_non_null(next_life(scene, 1, EXIT_CRASHED)); /* the first one; here is the second */
    answer_route(scene, scene_take(scene, scheduler(scene), MESSAGE_route), 0);
    scene_take(scene, prefill(scene, 0), MESSAGE_submit);
    m = next_life(scene, 2, EXIT_CRASHED);
    assert_non_null(m);
    scene_expect_nothing(scene); /* the second one waits */
    submit(scene, 3);            /* for whom nobody waits who is no suspect */
    m = next_life(scene, 3, EXIT_CRASHED);
    assert_non_null(m);
    assert_int_equal(m->attempt, 4);
    assert_int_equal(gateway_counts(scene->dispatch.self)->poisoned, 0);
    answer_route(scene, scene_take(scene, scheduler(scene), MESSAGE_route), 0);
    assert_int_equal(
        ((const message_submit_t *)scene_take(scene, prefill(scene, 0), MESSAGE_submit))->alone, 1);
    end_from(scene, prefill(scene, 0), m, 4, END_STOP, 0);
    expect_client_end(scene, 1, END_STOP, 0);
    scene_take(scene, scheduler(scene), MESSAGE_route); /* now it is the second one's turn */
    scene_expect_nothing(scene);
}

static void test_first_attempt_may_be_overloaded_but_a_replay_waits(void **state)
{
    scene_t *scene = *state;
    message_routed_t routed = {.outcome = ROUTE_OVERLOADED};
    const message_route_t *route;
    const message_submit_t *m;

    ask(scene, 1, 8, 0);
    route = scene_take(scene, scheduler(scene), MESSAGE_route);
    assert_int_equal(route->keys.count, 2);
    assert_int_equal(route->replay, 0);
    routed.request = route->request;
    routed.attempt = 1;
    scene_send(scene, scheduler(scene), MESSAGE_routed, &routed);
    expect_client_end(scene, 1, END_OVERLOADED, 0);

    m = submit(scene, 2);
    end_from(scene, prefill(scene, 0), m, 1, END_LOST, 0);
    route = scene_take(scene, scheduler(scene), MESSAGE_route);
    assert_int_equal(route->replay, 1);
    routed.request = route->request;
    routed.attempt = 2;
    routed.outcome = ROUTE_NO_INSTANCE;
    scene_send(scene, scheduler(scene), MESSAGE_routed, &routed);
    scene_expect_nothing(scene);
    scene_tick(scene, 50 + GATEWAY_AGAIN_MS);
    scene_take(scene, scheduler(scene), MESSAGE_route);
}

/* A group that comes back within seconds costs its clients seconds, not an error. */
static void test_new_request_waits_for_an_instance_but_not_for_ever(void **state)
{
    scene_t *scene = *state;
    message_routed_t routed = {.attempt = 1, .outcome = ROUTE_NO_INSTANCE};

    ask(scene, 1, 8, 0);
    for (uint64_t ms = 0; ms < GATEWAY_PATIENCE_MS; ms += GATEWAY_AGAIN_MS) {
        const message_route_t *route = scene_take(scene, scheduler(scene), MESSAGE_route);

        routed.request = route->request;
        scene_send(scene, scheduler(scene), MESSAGE_routed, &routed);
        scene_expect_nothing(scene);
        scene_tick(scene, 50 + ms + GATEWAY_AGAIN_MS);
    }
    expect_client_end(scene, 1, END_UNAVAILABLE, 0);
    scene_expect_nothing(scene);
}

static void ask_to_probe(scene_t *scene)
{
    message_client_request_t request = {.client = GATEWAY_PROBE};

    request.prompt = (u32s_view_t){prompt, 1};
    request.limits.output_tokens_max = 1;
    scene_send(scene, PORT_CLIENT, MESSAGE_client_request, &request);
}

static void route_as(scene_t *scene, const message_route_t *route, uint8_t outcome)
{
    message_routed_t routed = {
        .request = route->request, .attempt = route->attempt, .outcome = outcome};

    scene_send(scene, scheduler(scene), MESSAGE_routed, &routed);
}

/* Time in the queue of a group that is ready but full is no time without one, and who was routed once
 * is not sent away for load. */
static void test_patience_does_not_count_time_in_a_queue(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *m = submit(scene, 1);
    const message_route_t *route;
    message_busy_t busy = {.request = m->request, .attempt = 1};
    uint64_t now_ms = 50;

    for (uint32_t i = 0; i < 3 * GATEWAY_PATIENCE_MS / GATEWAY_RETRY_MS; i++) {
        scene_send(scene, prefill(scene, 0), MESSAGE_busy, &busy);
        scene_expect_nothing(scene);
        scene_tick(scene, now_ms += GATEWAY_RETRY_MS);
        route = scene_take(scene, scheduler(scene), MESSAGE_route);
        assert_int_equal(route->replay, 1);
        if (i == 1) {
            route_as(scene, route, ROUTE_OVERLOADED);
            scene_expect_nothing(scene);
            scene_tick(scene, now_ms += GATEWAY_RETRY_MS);
            route = scene_take(scene, scheduler(scene), MESSAGE_route);
        }
        answer_route(scene, route, 0);
        scene_take(scene, prefill(scene, 0), MESSAGE_submit);
    }
    scene_send(scene, prefill(scene, 0), MESSAGE_busy, &busy);
    scene_tick(scene, now_ms += GATEWAY_RETRY_MS);
    for (uint64_t ms = 0; ms < GATEWAY_PATIENCE_MS; ms += GATEWAY_AGAIN_MS) {
        route_as(scene, scene_take(scene, scheduler(scene), MESSAGE_route), ROUTE_NO_INSTANCE);
        scene_expect_nothing(scene);
        scene_tick(scene, now_ms += GATEWAY_AGAIN_MS);
    }
    expect_client_end(scene, 1, END_UNAVAILABLE, 0);
}

/* A full gateway is a healthy one: its own request has a place, and what is full says so at once. */
static void test_the_probe_has_a_place_when_all_others_are_taken(void **state)
{
    scene_t *scene = *state;
    const topology_gateway_t *gateway = &scene->topology.gateways[0];
    const message_route_t *route;
    const message_submit_t *m;
    uint64_t now_ms = 50;

    for (uint32_t i = 1; i <= gateway->streams_max; i++) {
        ask(scene, i, 1, 0);
        answer_route(scene, scene_take(scene, scheduler(scene), MESSAGE_route), 0);
        scene_take(scene, prefill(scene, 0), MESSAGE_submit);
    }
    ask(scene, gateway->streams_max + 1, 1, 0);
    expect_client_end(scene, gateway->streams_max + 1, END_OVERLOADED, 0);
    for (uint32_t i = 0; i < 3; i++) {
        ask_to_probe(scene);
        route = scene_take(scene, scheduler(scene), MESSAGE_route);
        if (i == 0) {
            route_as(scene, route, ROUTE_OVERLOADED);
            expect_client_end(scene, GATEWAY_PROBE, END_OVERLOADED, 0);
        }
        if (i == 1) {
            answer_route(scene, route, 0);
            m = scene_take(scene, prefill(scene, 0), MESSAGE_submit);
            scene_send(scene, prefill(scene, 0), MESSAGE_busy,
                       &(message_busy_t){.request = m->request, .attempt = 1});
            expect_client_end(scene, GATEWAY_PROBE, END_OVERLOADED, 0);
        }
    }
    while (now_ms < 50 + GATEWAY_PROBE_PATIENCE_MS) {
        route_as(scene, route, ROUTE_NO_INSTANCE);
        scene_expect_nothing(scene);
        scene_tick(scene, now_ms += GATEWAY_AGAIN_MS);
        if (now_ms < 50 + GATEWAY_PROBE_PATIENCE_MS)
            route = scene_take(scene, scheduler(scene), MESSAGE_route);
    }
    expect_client_end(scene, GATEWAY_PROBE, END_UNAVAILABLE, 0);
    scene_expect_nothing(scene);
}

/* R17 of docs/bugs.md. */
static void test_what_does_not_fit_is_refused_and_says_why(void **state)
{
    scene_t *scene = *state;

    ask(scene, 1, 4096, 0);
    expect_client_end(scene, 1, END_REFUSED, 0);
    ask(scene, 1, 0, 0);
    expect_client_end(scene, 1, END_REFUSED, 0);
    for (uint64_t client = 1; client <= 16; client++)
        ask(scene, client, 8, 0);
    ask(scene, 17, 8, 0);
    expect_client_end(scene, 17, END_OVERLOADED, 0);
}

/* The runtime tells the end only of a life that has joined: an attempt at any other could hang. */
static void test_nothing_is_submitted_for_who_is_not_known_here(void **state)
{
    scene_t *scene = *state;

    capture_up_set(scene->capture, decode(scene, 0), false);
    ask(scene, 7, 8, 0);
    answer_route(scene, scene_take(scene, scheduler(scene), MESSAGE_route), 0);
    scene_expect_nothing(scene);
    scene_tick(scene, 50 + GATEWAY_AGAIN_MS);
    answer_route(scene, scene_take(scene, scheduler(scene), MESSAGE_route), 1);
    assert_int_equal(
        ((const message_submit_t *)scene_take(scene, prefill(scene, 1), MESSAGE_submit))->attempt,
        1);
    scene_expect_nothing(scene);
}

static void degrade(scene_t *scene, actor_id_t actor)
{
    const message_degraded_t *told;

    scene_send(scene, scene_actor(scene, ACTOR_SUPERVISOR, 0), MESSAGE_degraded,
               &(message_degraded_t){actor});
    told = scene_take(scene, PORT_CLIENT, MESSAGE_degraded);
    assert_int_equal(told->actor, actor);
}

/* While one group is left its requests go there; without any they end, with a reason. */
static void test_nobody_waits_for_what_stays_down(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *m = submit(scene, 1);
    const message_client_end_t *end;

    tokens_from(scene, prefill(scene, 0), m, 1, 0, (uint32_t[]){11}, 1);
    expect_client_tokens(scene, 1, 0, 11, 1);
    degrade(scene, scene_rank(scene, ACTOR_DECODE, 0, 0)); /* its leader lives, and can do nothing */
    scene_take(scene, prefill(scene, 0), MESSAGE_abort);
    answer_route(scene, scene_take(scene, scheduler(scene), MESSAGE_route), 1);
    assert_int_equal(
        ((const message_submit_t *)scene_take(scene, prefill(scene, 1), MESSAGE_submit))->alone, 0);
    scene_tick(scene, 100);
    scene_expect_nothing(scene);
    degrade(scene, decode(scene, 1));
    scene_take(scene, prefill(scene, 1), MESSAGE_abort);
    scene_take(scene, scheduler(scene), MESSAGE_route);
    scene_send(scene, scheduler(scene), MESSAGE_routed,
               &(message_routed_t){.request = m->request,
                                   .attempt = 3,
                                   .outcome = ROUTE_NO_INSTANCE,
                                   .prefill = ACTOR_NONE,
                                   .decode = ACTOR_NONE,
                                   .transfer = ACTOR_NONE});
    scene_tick(scene, 150);
    end = scene_take(scene, PORT_CLIENT, MESSAGE_client_end);
    assert_int_equal(end->reason, END_UNAVAILABLE);
    assert_int_equal(end->token_count, 1);
    assert_memory_equal(end->detail.data, "no decode group is left", 23);
    scene_expect_nothing(scene);
}

static void test_deadline_aborts(void **state)
{
    scene_t *scene = *state;

    ask(scene, 1, 8, 500);
    answer_route(scene, scene_take(scene, scheduler(scene), MESSAGE_route), 0);
    scene_take(scene, prefill(scene, 0), MESSAGE_submit);
    scene_tick(scene, 549);
    scene_expect_nothing(scene);
    scene_tick(scene, 550);
    scene_take(scene, prefill(scene, 0), MESSAGE_abort);
    expect_client_end(scene, 1, END_DEADLINE, 0);
}

static void test_scheduler_restart_asks_again(void **state)
{
    scene_t *scene = *state;

    ask(scene, 1, 8, 0);
    scene_take(scene, scheduler(scene), MESSAGE_route);
    scene_exited(scene, scheduler(scene), 1);
    scene_expect_nothing(scene);
    capture_up_set(scene->capture, scheduler(scene), true);
    scene_send(scene, PORT_RUNTIME, MESSAGE_joined, &(message_joined_t){scheduler(scene), 2});
    scene_take(scene, scheduler(scene), MESSAGE_route);
}

/* STOP: what is open may end, what comes is sent away, and at the end of the time all is told. */
static void test_a_gateway_that_closes_lets_what_it_has_end_and_nobody_in(void **state)
{
    scene_t *scene = *state;
    const message_submit_t *first = submit(scene, 1);
    const message_client_end_t *end;

    submit(scene, 2);
    scene_send(scene, scene_actor(scene, ACTOR_SUPERVISOR, 0), MESSAGE_stop,
               &(message_stop_t){1000});
    scene_take(scene, PORT_CLIENT, MESSAGE_client_close);
    ask(scene, 3, 8, 0);
    end = scene_take(scene, PORT_CLIENT, MESSAGE_client_end);
    assert_int_equal(end->reason, END_UNAVAILABLE);
    assert_int_equal(end->retry_ms, GATEWAY_RETRY_MS);
    tokens_from(scene, decode(scene, 0), first, 1, 0, (uint32_t[]){11, 12}, 2);
    expect_client_tokens(scene, 1, 0, 11, 2);
    end_from(scene, decode(scene, 0), first, 1, END_STOP, 2);
    expect_client_end(scene, 1, END_STOP, 2);
    scene_tick(scene, 50 + 999);
    scene_expect_nothing(scene);
    scene_tick(scene, 50 + 1000);
    scene_take(scene, prefill(scene, 0), MESSAGE_abort);
    end = scene_take(scene, PORT_CLIENT, MESSAGE_client_end);
    assert_int_equal(end->reason, END_UNAVAILABLE);
    assert_true(end->detail.count > 0);
    scene_expect_nothing(scene);
}

static void test_an_operators_wish_goes_to_the_supervisor_and_its_answer_back(void **state)
{
    scene_t *scene = *state;
    actor_id_t supervisor = scene_actor(scene, ACTOR_SUPERVISOR, 0);
    message_drain_t drain = {decode(scene, 1), 1, 0};
    message_drain_answer_t answer = {decode(scene, 1), STATUS_REFUSED, {"no", 2}};

    scene_send(scene, supervisor, MESSAGE_drain_answer, &answer);
    assert_int_equal(scene->dispatch.failed[MESSAGE_drain_answer], 1); /* nobody asked */
    capture_may_send_set(scene->capture, supervisor, MESSAGE_drain, false);
    scene_send(scene, PORT_CLIENT, MESSAGE_drain, &drain);
    scene_expect_nothing(scene);
    capture_may_send_set(scene->capture, supervisor, MESSAGE_drain, true);
    scene_tick(scene, 100);
    assert_true(message_equal(MESSAGE_drain, &drain,
                              scene_take(scene, supervisor, MESSAGE_drain)));
    scene_expect_nothing(scene); /* once */
    scene_send(scene, supervisor, MESSAGE_drain_answer, &answer);
    assert_true(message_equal(MESSAGE_drain_answer, &answer,
                              scene_take(scene, PORT_CLIENT, MESSAGE_drain_answer)));
}

#define SCENE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair_is_decided),
        SCENE_TEST(test_a_request_goes_from_client_to_end),
        SCENE_TEST(test_end_waits_for_the_last_token),
        SCENE_TEST(test_lost_attempt_is_replayed_with_its_tokens_forced),
        SCENE_TEST(test_attempts_in_vain_come_ever_more_slowly_until_one_brings_a_token),
        SCENE_TEST(test_the_next_life_of_prefill_hears_nothing_of_what_decode_runs),
        SCENE_TEST(test_tokens_that_come_twice_must_be_equal),
        SCENE_TEST(test_gap_in_tokens_is_refused),
        SCENE_TEST(test_alternatives_without_logarithms_are_refused),
        SCENE_TEST(test_abort_before_and_after_submission),
        SCENE_TEST(test_second_charge_ends_it_as_poisoned),
        SCENE_TEST(test_who_crashes_its_leader_again_and_again_is_poisoned),
        SCENE_TEST(test_who_crashes_the_scheduler_is_poisoned),
        SCENE_TEST(test_who_crashes_its_transfer_is_poisoned),
        SCENE_TEST(test_a_crash_of_its_transfer_counts_after_the_leaders_end),
        SCENE_TEST(test_who_is_with_a_leader_that_was_killed_is_no_suspect),
        SCENE_TEST(test_those_with_two_crashes_go_out_one_at_a_time),
        SCENE_TEST(test_first_attempt_may_be_overloaded_but_a_replay_waits),
        SCENE_TEST(test_patience_does_not_count_time_in_a_queue),
        SCENE_TEST(test_the_probe_has_a_place_when_all_others_are_taken),
        SCENE_TEST(test_new_request_waits_for_an_instance_but_not_for_ever),
        SCENE_TEST(test_what_does_not_fit_is_refused_and_says_why),
        SCENE_TEST(test_nothing_is_submitted_for_who_is_not_known_here),
        SCENE_TEST(test_nobody_waits_for_what_stays_down),
        SCENE_TEST(test_deadline_aborts),
        SCENE_TEST(test_scheduler_restart_asks_again),
        SCENE_TEST(test_a_gateway_that_closes_lets_what_it_has_end_and_nobody_in),
        SCENE_TEST(test_an_operators_wish_goes_to_the_supervisor_and_its_answer_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
