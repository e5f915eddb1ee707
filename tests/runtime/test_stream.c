/* Two streams over a fake link that delays, loses and cuts, with random seeds: exactly once, in
 * order, within credit, across lost connections and new lives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "messages/message.h"
#include "runtime/base/random.h"
#include "runtime/frame.h"
#include "runtime/stream.h"

enum { FRAMES_MAX = 4096, TICK_US = 20000, LIVES_MAX = 64 };

typedef struct {
    uint8_t *bytes;
    size_t size;
    uint64_t at;
} flying_t;

typedef struct side side_t;

typedef struct {
    flying_t frames[FRAMES_MAX];
    uint32_t first;
    uint32_t count;
    uint64_t last_at;
} wire_t;

typedef struct {
    incarnation_t incarnation;
    uint64_t seq;
    const message_row_t *row;
    size_t size;
} waiting_t;

struct side {
    stream_t stream;
    side_t *peer;
    wire_t *wire; /* towards the peer */
    incarnation_t life;
    bool joined;
    incarnation_t peer_life;
    uint64_t next_value;     /* sent, of this life */
    uint64_t expected_value; /* to come, of the peer's life */
    uint64_t delivered;
    uint32_t joins;
    waiting_t waiting[FRAMES_MAX];
    uint32_t waiting_first;
    uint32_t waiting_count;
};

static random_t chance;
static uint64_t now;
static side_t sides[2];
static wire_t wires[2];
static uint32_t loss_percent;
static uint8_t frame_memory[FRAME_BYTES_MAX];

/* ---- the link ---- */

static void emit(void *context, actor_id_t to, const uint8_t *frame, size_t size)
{
    side_t *side = context;
    wire_t *wire = side->wire;
    flying_t *flying;
    uint64_t at = now + 100 + random_below(&chance, 3000);

    assert_int_equal(to, side->stream.birth.peer);
    if (random_below(&chance, 100) < loss_percent)
        return;
    assert_true(wire->count < FRAMES_MAX);
    flying = &wire->frames[(wire->first + wire->count++) % FRAMES_MAX];
    if (at < wire->last_at)
        at = wire->last_at;
    wire->last_at = at;
    *flying = (flying_t){malloc(size), size, at};
    memcpy(flying->bytes, frame, size);
}

static void cut(wire_t *wire)
{
    for (; wire->count > 0; wire->count--, wire->first++)
        free(wire->frames[wire->first % FRAMES_MAX].bytes);
}

/* ---- what a stream tells ---- */

static bool keep_none(void *context, actor_id_t peer, incarnation_t incarnation, uint64_t seq,
                      uint16_t id, const uint8_t *body, size_t size)
{
    (void)context;
    (void)peer;
    (void)incarnation;
    (void)seq;
    (void)id;
    (void)body;
    (void)size;
    return true;
}

static void on_joined(void *context, actor_id_t peer, incarnation_t incarnation)
{
    side_t *side = context;

    (void)peer;
    assert_false(side->joined);
    assert_true(incarnation > side->peer_life);
    side->joined = true;
    side->peer_life = incarnation;
    side->next_value = side->expected_value = 0; /* both start anew */
    side->joins++;
}

static uint8_t before(incarnation_t life)
{
    return (uint8_t)(life % (RUNTIME_CAUSE_MAX + 1));
}

static void on_exited(void *context, actor_id_t peer, incarnation_t incarnation, uint8_t cause)
{
    side_t *side = context;

    (void)peer;
    assert_true(side->joined);
    assert_int_equal(incarnation, side->peer_life);
    assert_true(cause == before(incarnation + 1) || cause == RUNTIME_CAUSE_UNKNOWN);
    side->joined = false;
}

static bool on_message(void *context, actor_id_t peer, incarnation_t incarnation, uint64_t seq,
                       uint16_t id, const uint8_t *body, size_t size)
{
    static uint8_t memory[4096];
    side_t *side = context;
    const void *decoded = NULL;
    arena_t arena;
    uint64_t value;

    (void)peer;
    assert_true(side->joined);
    assert_int_equal(incarnation, side->peer_life);
    if (random_below(&chance, 200) == 0 && loss_percent)
        return false; /* no room now: as if it was lost */
    arena_init(&arena, memory, sizeof(memory));
    assert_int_equal(message_decode(id, body, size, &arena, &decoded), STATUS_OK);
    value = id == MESSAGE_open      ? ((const message_open_t *)decoded)->request
            : id == MESSAGE_targets ? ((const message_targets_t *)decoded)->epoch
                                    : ((const message_opened_t *)decoded)->request;
    assert_int_equal(value, side->expected_value);
    side->expected_value++;
    side->delivered++;
    assert_true(side->waiting_count < FRAMES_MAX);
    side->waiting[(side->waiting_first + side->waiting_count++) % FRAMES_MAX] =
        (waiting_t){incarnation, seq, &message_table.rows[id], size};
    return true;
}

static stream_events_t events_of(side_t *side)
{
    return (stream_events_t){side, on_joined, on_exited, on_message};
}

/* ---- moves ---- */

static void begin_life(int which)
{
    side_t *side = &sides[which];
    const stream_birth_t birth = {.table = &message_table,
                                  .self = (actor_id_t)which,
                                  .incarnation = side->life + 1,
                                  .peer = (actor_id_t)!which,
                                  .before = before(side->life + 1),
                                  .name = which ? "transfer/0" : "decode/0",
                                  .endpoint = ""};

    stream_fini(&side->stream);
    stream_init(&side->stream, &birth, now);
    side->life++;
    side->peer = &sides[!which];
    side->wire = &wires[which];
    side->joined = false;
    side->peer_life = 0;
    side->next_value = side->expected_value = 0;
    side->waiting_count = 0;
}

static void send_one(side_t *side)
{
    static const uint16_t ids[] = {MESSAGE_open, MESSAGE_opened, MESSAGE_targets};
    const message_row_t *row = &message_table.rows[ids[random_below(&chance, 3)]];
    const stream_t *s = &side->stream;
    uint8_t body[64];
    size_t used = 0;
    message_open_t open = {.request = side->next_value};
    message_opened_t opened = {.request = side->next_value};
    message_targets_t targets = {.epoch = side->next_value};
    const void *bodies[] = {&open, &opened, &targets};

    if (s->state != STREAM_UP || !stream_may_send(s, row))
        return;
    for (size_t i = 0; i < COUNT_OF(ids); i++)
        if (ids[i] == row->id)
            assert_int_equal(message_encode(row->id, bodies[i], body, sizeof(body), &used),
                             STATUS_OK);
    assert_int_equal(stream_push(&side->stream, row, body, used, now), STATUS_OK);
    side->next_value++;
    assert_true(s->requests_out <= s->credit_messages);
    if (row->class == MESSAGE_STATE)
        assert_false(stream_may_send(s, row));
}

static void apply_one(side_t *side)
{
    waiting_t waiting;

    if (side->waiting_count == 0)
        return;
    waiting = side->waiting[side->waiting_first++ % FRAMES_MAX];
    side->waiting_count--;
    stream_applied(&side->stream, waiting.incarnation, waiting.seq, waiting.row, waiting.size);
}

static void deliver_due(int which)
{
    wire_t *wire = &wires[!which]; /* of the peer, towards us */
    const stream_events_t events = events_of(&sides[which]);

    while (wire->count > 0 && wire->frames[wire->first % FRAMES_MAX].at <= now) {
        flying_t flying = wire->frames[wire->first % FRAMES_MAX];

        wire->first++;
        wire->count--;
        stream_receive(&sides[which].stream, flying.bytes, flying.size, now, &events);
        free(flying.bytes);
    }
}

static void step(uint64_t ticks)
{
    now += 1000;
    for (int i = 0; i < 2; i++) {
        deliver_due(i);
        if (ticks % 20 == 0)
            stream_tick(&sides[i].stream, now);
        stream_flush(&sides[i].stream, now, frame_memory, emit, &sides[i]);
    }
}

static void settle(void)
{
    loss_percent = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        step(i);
        apply_one(&sides[0]);
        apply_one(&sides[1]);
        if (sides[0].expected_value == sides[1].next_value && sides[0].joined && sides[1].joined &&
            sides[1].expected_value == sides[0].next_value &&
            sides[0].stream.out.count + sides[1].stream.out.count == 0)
            return;
    }
    stream_print(&sides[0].stream, stderr);
    stream_print(&sides[1].stream, stderr);
    fail_msg("the streams do not come to rest");
}

static void reset(uint64_t seed)
{
    random_init(&chance, seed);
    now = 1;
    for (int i = 0; i < 2; i++) {
        cut(&wires[i]);
        wires[i] = (wire_t){0};
        stream_fini(&sides[i].stream);
        memset(&sides[i], 0, sizeof(sides[i]));
    }
    begin_life(0);
    begin_life(1);
}

/* ---- tests ---- */

/* R2 of docs/bugs.md. */
static void test_lossy_links_deliver_once_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t gaps = 0;

        reset(seed);
        loss_percent = 1 + (uint32_t)(seed % 20);
        for (uint64_t i = 0; i < 3000; i++) {
            step(i);
            for (uint64_t n = random_below(&chance, 4); n > 0; n--)
                send_one(&sides[random_below(&chance, 2)]);
            for (uint64_t n = random_below(&chance, 5); n > 0; n--)
                apply_one(&sides[random_below(&chance, 2)]);
            if (random_below(&chance, 400) == 0) { /* a lost connection, then a new one */
                cut(&wires[0]);
                cut(&wires[1]);
                stream_connected(&sides[0].stream, now);
                stream_connected(&sides[1].stream, now);
            }
        }
        settle();
        for (int i = 0; i < 2; i++) {
            assert_int_equal(sides[i].joins, 1);
            assert_int_equal(sides[i].delivered, sides[!i].next_value);
            assert_int_equal(sides[i].stream.counters.malformed, 0);
            gaps += sides[i].stream.counters.gaps + sides[i].stream.counters.resumes;
        }
        assert_true(gaps > 0);
        assert_true(sides[0].delivered > 100);
    }
}

/* P24 of docs/bugs.md. */
static void test_each_life_is_joined_once_and_starts_anew(void **state)
{
    uint32_t lives = 0;

    (void)state;
    for (uint64_t seed = 100; seed <= 140; seed++) {
        reset(seed);
        loss_percent = 5;
        for (uint64_t i = 0; i < 6000; i++) {
            step(i);
            send_one(&sides[random_below(&chance, 2)]);
            apply_one(&sides[random_below(&chance, 2)]);
            if (random_below(&chance, 1500) == 0) {
                int which = (int)random_below(&chance, 2);
                side_t *other = &sides[!which];
                bool supervised = random_below(&chance, 2) == 0;

                /* Half of the time a supervisor tells; else the HELLO of the next life does. */
                if (supervised && stream_exited(&other->stream, sides[which].life)) {
                    assert_true(other->joined);
                    other->joined = false;
                }
                if (supervised) /* told again, it is swallowed */
                    assert_false(stream_exited(&other->stream, sides[which].life));
                begin_life(which);
                lives++;
            }
        }
        settle();
    }
    assert_true(lives > 100);
}

static void exchange(int rounds)
{
    for (int i = 0; i < rounds; i++)
        step((uint64_t)i);
}

static void test_credit_runs_out_and_comes_back(void **state)
{
    const message_row_t *row = &message_table.rows[MESSAGE_open];
    message_open_t open = {0};
    uint8_t body[64];
    size_t used = 0;
    uint32_t sent = 0;

    (void)state;
    reset(7);
    loss_percent = 0;
    exchange(100);
    assert_true(sides[0].joined && sides[1].joined);
    while (stream_may_send(&sides[0].stream, row)) {
        open.request = sent++;
        assert_int_equal(message_encode(MESSAGE_open, &open, body, sizeof(body), &used), STATUS_OK);
        assert_int_equal(stream_push(&sides[0].stream, row, body, used, now), STATUS_OK);
    }
    assert_int_equal(sent, STREAM_CREDIT_MESSAGES);
    exchange(200);
    assert_int_equal(sides[1].delivered, STREAM_CREDIT_MESSAGES);
    assert_false(stream_may_send(&sides[0].stream, row)); /* received is not applied */
    /* A reply passes without credit. */
    assert_true(stream_may_send(&sides[0].stream, &message_table.rows[MESSAGE_opened]));
    for (int i = 0; i < STREAM_CREDIT_MESSAGES / 2; i++)
        apply_one(&sides[1]);
    exchange(100);
    assert_int_equal(sides[0].stream.requests_out, STREAM_CREDIT_MESSAGES / 2);
    assert_true(stream_may_send(&sides[0].stream, row));
}

static void test_credit_counts_bytes_and_is_passed_by_one_message(void **state)
{
    const message_row_t *row = &message_table.rows[MESSAGE_open];
    static uint8_t body[1 << 20];
    uint32_t sent = 0;

    (void)state;
    reset(8);
    exchange(100);
    while (stream_may_send(&sides[0].stream, row)) {
        assert_int_equal(stream_push(&sides[0].stream, row, body, sizeof(body), now), STATUS_OK);
        sent++;
    }
    assert_int_equal(sent, STREAM_CREDIT_BYTES / sizeof(body));
}

/* Who sends on without acknowledgements is held to what he may have unacknowledged: the rest is as
 * if it were lost, and nothing grows. */
static void flood(bool observer, size_t body_bytes, uint32_t messages)
{
    const frame_header_t header = {
        .kind = FRAME_DATA, .from = 1, .from_incarnation = 1, .to_incarnation = 1};
    static const uint8_t body[1 << 20];
    uint8_t *frame = frame_memory;
    side_t *side = &sides[0];

    side->stream.birth.observer = observer;
    for (uint64_t seq = 1; seq <= messages; seq++) {
        const frame_data_t data = {.first = seq, .count = 1};
        const stream_events_t events = {side, on_joined, on_exited, keep_none};
        size_t used = frame_write_data(frame, &header, &data);

        frame_write_record(frame + used, MESSAGE_targets, body, body_bytes);
        stream_receive(&side->stream, frame, used + frame_record_bytes(MESSAGE_targets, body_bytes),
                       now, &events);
    }
}

static void test_a_flood_is_cut_at_what_a_peer_may_have_unacknowledged(void **state)
{
    const struct {
        bool observer;
        size_t body_bytes;
        uint32_t taken;
    } floods[] = {{true, 1, STREAM_CREDIT_MESSAGES},
                  {true, 1 << 20, 1},
                  {false, 1 << 20, STREAM_OUT_BYTES_MAX >> 20}};

    (void)state;
    for (uint32_t i = 0; i < COUNT_OF(floods); i++) {
        reset(30 + i);
        loss_percent = 0;
        exchange(100);
        assert_true(sides[0].joined);
        flood(floods[i].observer, floods[i].body_bytes, floods[i].taken + 9);
        assert_int_equal(sides[0].stream.received, floods[i].taken);
        assert_int_equal(sides[0].stream.counters.excess + sides[0].stream.counters.gaps, 9);
        assert_int_equal(sides[0].stream.counters.excess, 1);
    }
}

static void test_what_does_not_fit_is_refused_by_name(void **state)
{
    (void)state;
    reset(9);
    sides[0].stream.birth.digests.weights = 1;
    sides[1].stream.birth.digests.weights = 2;
    exchange(300);
    assert_false(sides[0].joined || sides[1].joined);
    assert_true(sides[0].stream.counters.mismatches > 0);
    assert_non_null(strstr(sides[0].stream.refusal, "weights"));
    /* What one side does not know is no difference. */
    sides[1].stream.birth.digests.weights = 0;
    exchange(3000);
    assert_true(sides[0].joined && sides[1].joined);
}

/* P16 of docs/bugs.md. */
static void test_frames_of_an_ended_life_are_stale(void **state)
{
    (void)state;
    reset(10);
    exchange(100);
    assert_true(stream_exited(&sides[0].stream, sides[1].life));
    sides[0].joined = false;
    exchange(3000); /* the zombie goes on saying HELLO */
    assert_false(sides[0].joined);
    assert_true(sides[0].stream.counters.stale > 0);
    assert_int_equal(sides[0].stream.state, STREAM_DOWN);
}

static void test_replies_to_nobody_are_counted(void **state)
{
    (void)state;
    reset(11);
    assert_int_equal(stream_push(&sides[0].stream, &message_table.rows[MESSAGE_abort],
                                 (const uint8_t *)"\x90", 1, now),
                     STATUS_OK);
    assert_int_equal(sides[0].stream.counters.dropped_down, 1);
    assert_int_equal(sides[0].stream.out.count, 0);
}

static bool on_anything(void *context, actor_id_t peer, incarnation_t incarnation, uint64_t seq,
                        uint16_t id, const uint8_t *body, size_t size)
{
    side_t *side = context;
    uint8_t sum = 0;

    (void)peer;
    (void)id;
    for (size_t i = 0; i < size; i++) /* every byte of the body can be read */
        sum = (uint8_t)(sum + body[i]);
    side->waiting[0] = (waiting_t){incarnation, seq, NULL, size};
    return sum != 0;
}

/* Any bytes instead of a frame are counted; the stream lives on. */
static void test_hostile_frames_change_nothing(void **state)
{
    (void)state;
    reset(12);
    exchange(100);
    for (int i = 0; i < 200000; i++) {
        const stream_events_t events = {&sides[0], on_joined, on_exited, on_anything};
        const frame_header_t header = {.kind = (frame_kind_t)random_below(&chance, 4),
                                       .from = 1,
                                       .from_incarnation = sides[1].life,
                                       .to_incarnation = sides[0].life};
        const frame_data_t data = {.applied = random_below(&chance, 3),
                                   .first = random_below(&chance, 3),
                                   .count = (uint32_t)random_below(&chance, 3)};
        uint8_t frame[64], *exact;
        size_t size = frame_write_data(frame, &header, &data), extra = random_below(&chance, 9);

        for (size_t n = 0; n < extra; n++)
            frame[size++] = (uint8_t)random_next(&chance);
        if (random_below(&chance, 2))
            frame[random_below(&chance, size)] = (uint8_t)random_next(&chance);
        if (frame[1] == FRAME_HELLO) /* a well-formed HELLO may change things, and rightly */
            continue;
        exact = malloc(size);
        memcpy(exact, frame, size);
        stream_receive(&sides[0].stream, exact, size, now, &events);
        free(exact);
    }
    assert_true(sides[0].stream.counters.malformed > 1000);
    assert_true(sides[0].joined);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lossy_links_deliver_once_in_order),
        cmocka_unit_test(test_each_life_is_joined_once_and_starts_anew),
        cmocka_unit_test(test_credit_runs_out_and_comes_back),
        cmocka_unit_test(test_credit_counts_bytes_and_is_passed_by_one_message),
        cmocka_unit_test(test_a_flood_is_cut_at_what_a_peer_may_have_unacknowledged),
        cmocka_unit_test(test_what_does_not_fit_is_refused_by_name),
        cmocka_unit_test(test_frames_of_an_ended_life_are_stale),
        cmocka_unit_test(test_replies_to_nobody_are_counted),
        cmocka_unit_test(test_hostile_frames_change_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
