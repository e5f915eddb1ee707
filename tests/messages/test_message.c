/* Every message of the table: round trip, every truncation, every single-byte change, hostile
 * headers, golden bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "messages/message.h"
#include "runtime/codec.h"
#include "runtime/cursor.h"

enum { ARENA_BYTES = 1 << 20, BODY_BYTES = 1 << 16, GUARD_BYTES = 64 };

static uint8_t memory_a[ARENA_BYTES], memory_b[ARENA_BYTES];
static uint8_t bytes[BODY_BYTES];

static bool is_live(uint16_t id)
{
    return message_table.rows[id].name != NULL;
}

static void test_table_is_sound(void **state)
{
    (void)state;
    assert_int_equal(message_table_check(&message_table, stderr), 0);
}

/* A way of a REPLY, by kinds. */
typedef struct {
    uint16_t id;
    actor_kind_t from;
    actor_kind_t to;
} way_t;

static bool is_in(const way_t *ways, size_t count, const way_t *way)
{
    for (size_t i = 0; i < count; i++)
        if (ways[i].id == way->id && ways[i].from == way->from && ways[i].to == way->to)
            return true;
    return false;
}

/* A REQUEST on this stream in the other direction, which it answers, or in the same, behind which
 * it goes. */
static bool is_paid_on_its_stream(const way_t *way)
{
    const char *names = message_table.rows[way->id].answers;

    for (uint32_t id = 0; id < message_table.count; id++) {
        const message_row_t *row = &message_table.rows[id];
        const char *found = row->name ? strstr(names, row->name) : NULL;

        if (row->class == MESSAGE_REQUEST && found &&
            ((row->from & BIT(way->to) && row->to & BIT(way->from)) ||
             (row->from & BIT(way->from) && row->to & BIT(way->to))))
            return true;
    }
    return false;
}

/* What makes a REPLY always possible to send is a place that a REQUEST has paid for, on that
 * stream. With RUNNING the place that SUBMIT paid for passes from prefill to decode. A row allows
 * every kind that says it towards every kind that hears it, also where nobody ever says it. */
static void test_every_reply_is_paid_for_on_its_stream(void **state)
{
    static const way_t passed_on[] = {
        {MESSAGE_abort, ACTOR_GATEWAY, ACTOR_DECODE},
        {MESSAGE_end, ACTOR_DECODE, ACTOR_GATEWAY},
        {MESSAGE_fenced, ACTOR_DECODE, ACTOR_GATEWAY},
    };
    static const way_t never[] = {
        {MESSAGE_busy, ACTOR_PREFILL, ACTOR_PREFILL},
        {MESSAGE_busy, ACTOR_DECODE, ACTOR_GATEWAY},
        {MESSAGE_abort, ACTOR_GATEWAY, ACTOR_TRANSFER},
        {MESSAGE_abort, ACTOR_PREFILL, ACTOR_PREFILL},
        {MESSAGE_abort, ACTOR_PREFILL, ACTOR_TRANSFER},
        {MESSAGE_abort, ACTOR_DECODE, ACTOR_DECODE},
        {MESSAGE_end, ACTOR_PREFILL, ACTOR_PREFILL},
        {MESSAGE_fenced, ACTOR_PREFILL, ACTOR_PREFILL},
        {MESSAGE_fenced, ACTOR_DECODE, ACTOR_DECODE},
        {MESSAGE_fenced, ACTOR_TRANSFER, ACTOR_GATEWAY},
    };
    uint32_t found = 0;

    (void)state;
    for (uint16_t id = 0; id < message_table.count; id++)
        for (actor_kind_t from = 0; from < ACTOR_KIND_COUNT; from++)
            for (actor_kind_t to = 0; to < ACTOR_KIND_COUNT; to++) {
                const message_row_t *row = &message_table.rows[id];
                const way_t way = {id, from, to};

                if (!row->name || row->class != MESSAGE_REPLY || !(row->from & BIT(from)) ||
                    !(row->to & BIT(to)) || is_paid_on_its_stream(&way))
                    continue;
                found++;
                if (!is_in(passed_on, COUNT_OF(passed_on), &way) &&
                    !is_in(never, COUNT_OF(never), &way))
                    fail_msg("nothing pays for %s from kind %u to kind %u", row->name, from, to);
            }
    assert_int_equal(found, COUNT_OF(passed_on) + COUNT_OF(never));
}

/* A copy of the table with one row spoilt must be found out. */
static void test_unsound_tables_are_found_out(void **state)
{
    static message_row_t rows[MESSAGE_COUNT];
    const message_table_t table = {rows, MESSAGE_COUNT};
    FILE *out = fopen("/dev/null", "w");

    (void)state;
    assert_non_null(out);
#define SPOIL(id, change)                                                                          \
    do {                                                                                           \
        memcpy(rows, message_table.rows, sizeof(rows));                                            \
        rows[MESSAGE_##id] change;                                                                 \
        assert_int_not_equal(message_table_check(&table, out), 0);                                 \
    } while (0)
    SPOIL(open, .name = NULL);
    SPOIL(open, .name = "submit");
    SPOIL(opened, .answers = "opem");
    SPOIL(opened, .answers = "");
    SPOIL(tick, .answers = "open");
    SPOIL(routed, .to = BIT(ACTOR_RANK)); /* then nothing answers ROUTE on the way back */
    SPOIL(step, .scope = SCOPE_ATTEMPT);
    SPOIL(submit, .scope = SCOPE_ITEMS);
    SPOIL(watch, .to = 0);
#undef SPOIL
    (void)fclose(out);
}

static void test_random_bodies_come_back_equal(void **state)
{
    random_t random;

    (void)state;
    random_init(&random, 1);
    for (int round = 0; round < 200; round++)
        for (uint16_t id = 0; id < message_table.count; id++) {
            const void *sent, *received = NULL;
            size_t used = 0;
            arena_t a, b;

            if (!is_live(id))
                continue;
            arena_init(&a, memory_a, sizeof(memory_a));
            arena_init(&b, memory_b, sizeof(memory_b));
            sent = message_random(id, &random, &a);
            assert_non_null(sent);
            assert_int_equal(message_encode(id, sent, bytes, sizeof(bytes), &used), STATUS_OK);
            assert_int_equal(message_decode(id, bytes, used, &b, &received), STATUS_OK);
            assert_true(message_equal(id, sent, received));
        }
}

static void test_bodies_that_differ_are_not_equal(void **state)
{
    random_t random;

    (void)state;
    random_init(&random, 2);
    for (uint16_t id = 0; id < message_table.count; id++) {
        uint32_t differ = 0;

        if (!is_live(id))
            continue;
        for (int round = 0; round < 20; round++) {
            const void *x, *y;
            arena_t a, b;

            arena_init(&a, memory_a, sizeof(memory_a));
            arena_init(&b, memory_b, sizeof(memory_b));
            x = message_random(id, &random, &a);
            y = message_random(id, &random, &b);
            differ += !message_equal(id, x, y);
        }
        assert_true(differ >= 15);
    }
}

/* Decodes hostile bytes from a heap block of exactly their size, so that a read beyond it is seen
 * by the sanitizer, into an arena behind which a guard stands. What decodes must encode and decode
 * to itself. */
static void decode_hostile(uint16_t id, const uint8_t *data, size_t size)
{
    const size_t arena_bytes = ARENA_BYTES - GUARD_BYTES;
    uint8_t *exact = malloc(size ? size : 1);
    const void *body = NULL, *again = NULL;
    status_t status;
    size_t used = 0;
    arena_t a, b;

    assert_non_null(exact);
    memcpy(exact, data, size);
    memset(memory_a + arena_bytes, 0xa5, GUARD_BYTES);
    arena_init(&a, memory_a, arena_bytes);
    trail_reset();
    status = message_decode(id, exact, size, &a, &body);
    for (int i = 0; i < GUARD_BYTES; i++)
        assert_int_equal(memory_a[arena_bytes + (size_t)i], 0xa5);
    /* Nothing is taken for what a header only claims: the structs are the largest thing per byte of
     * input. */
    assert_true(a.used <= 4096 + size * 512);
    if (status == STATUS_OK) {
        static uint8_t second[BODY_BYTES];

        arena_init(&b, memory_b, sizeof(memory_b));
        assert_int_equal(message_encode(id, body, second, sizeof(second), &used), STATUS_OK);
        assert_int_equal(message_decode(id, second, used, &b, &again), STATUS_OK);
        assert_true(message_equal(id, body, again));
    } else {
        assert_true(status == STATUS_MALFORMED || status == STATUS_TOO_LARGE);
        assert_string_not_equal(trail_text(), "");
    }
    free(exact);
}

/* P2 of docs/bugs.md. */
static void test_every_truncation_is_valid_or_refused(void **state)
{
    random_t random;

    (void)state;
    random_init(&random, 3);
    for (uint16_t id = 0; id < message_table.count; id++) {
        const void *body;
        size_t used = 0;
        arena_t arena;

        if (!is_live(id))
            continue;
        arena_init(&arena, memory_a, sizeof(memory_a));
        body = codec_random(&message_table.rows[id], &random, 3, &arena);
        assert_int_equal(message_encode(id, body, bytes, sizeof(bytes), &used), STATUS_OK);
        for (size_t size = 0; size < used; size++) {
            const void *cut = NULL;
            arena_t b;

            arena_init(&b, memory_b, sizeof(memory_b));
            assert_int_equal(message_decode(id, bytes, size, &b, &cut), STATUS_MALFORMED);
            decode_hostile(id, bytes, size);
        }
    }
}

static void test_every_single_byte_change_is_valid_or_refused(void **state)
{
    random_t random;

    (void)state;
    random_init(&random, 4);
    for (uint16_t id = 0; id < message_table.count; id++) {
        const void *body;
        size_t used = 0;
        arena_t arena;

        if (!is_live(id))
            continue;
        arena_init(&arena, memory_a, sizeof(memory_a));
        body = codec_random(&message_table.rows[id], &random, 1, &arena);
        assert_int_equal(message_encode(id, body, bytes, sizeof(bytes), &used), STATUS_OK);
        for (size_t at = 0; at < used; at++) {
            uint8_t before = bytes[at];

            for (int value = 0; value < 256; value++) {
                bytes[at] = (uint8_t)value;
                decode_hostile(id, bytes, used);
            }
            bytes[at] = before;
        }
    }
}

static void test_claims_without_bytes_reserve_nothing(void **state)
{
    static const uint8_t claims[][7] = {
        {0xdd, 0xff, 0xff, 0xff, 0xff},       /* an array of 4 G fields */
        {0x91, 0xdd, 0xff, 0xff, 0xff, 0xff}, /* one field: 4 G items */
        {0x91, 0xc6, 0xff, 0xff, 0xff, 0xff}, /* one field: 4 GB of bin */
        {0x91, 0xdb, 0xff, 0xff, 0xff, 0xff}, /* one field: 4 GB of text */
        {0x91, 0xdf, 0xff, 0xff, 0xff, 0xff}, /* one field: a map of 4 G pairs */
    };

    (void)state;
    for (uint16_t id = 0; id < message_table.count; id++) {
        if (!is_live(id))
            continue;
        for (size_t i = 0; i < COUNT_OF(claims); i++) {
            const void *body = NULL;
            arena_t arena;

            arena_init(&arena, memory_a, sizeof(memory_a));
            assert_int_equal(
                message_decode(id, claims[i], claims[i][0] == 0x91 ? 6 : 5, &arena, &body),
                STATUS_MALFORMED);
            assert_true(arena.used <= message_table.rows[id].record.size);
        }
    }
}

static void test_an_arena_too_small_is_a_refusal(void **state)
{
    message_submit_t submit = {.request = 1};
    const uint32_t tokens[200] = {7};
    const void *body = NULL;
    size_t used = 0;
    arena_t arena;

    (void)state;
    submit.prompt = (u32s_view_t){tokens, COUNT_OF(tokens)};
    assert_int_equal(message_encode(MESSAGE_submit, &submit, bytes, sizeof(bytes), &used),
                     STATUS_OK);
    arena_init(&arena, memory_a, sizeof(message_submit_t) + 4 * COUNT_OF(tokens) - 1);
    assert_int_equal(message_decode(MESSAGE_submit, bytes, used, &arena, &body), STATUS_TOO_LARGE);
    arena_init(&arena, memory_a, sizeof(message_submit_t) + 4 * COUNT_OF(tokens));
    assert_int_equal(message_decode(MESSAGE_submit, bytes, used, &arena, &body), STATUS_OK);
}

static void test_missing_fields_are_zero_and_further_ones_are_skipped(void **state)
{
    /* [7] and [7, 2, 3, 1, 0, 0, "", {"new": [1.5, nil, true]}, ext] as an END */
    static const uint8_t old[] = {0x91, 0x07};
    static const uint8_t newer[] = {0x9a, 0x07, 0x02, 0x03, 0x01, 0x00, 0x00, 0x00, 0xa0, 0x81,
                                    0xa3, 'n',  'e',  'w',  0x93, 0xcb, 0x3f, 0xf8, 0,    0,
                                    0,    0,    0,    0,    0xc0, 0xc3, 0xd4, 0x01, 0x02};
    const message_end_t *end;
    const void *body = NULL;
    size_t used = 0;
    arena_t arena;

    (void)state;
    arena_init(&arena, memory_a, sizeof(memory_a));
    assert_int_equal(message_decode(MESSAGE_end, old, sizeof(old), &arena, &body), STATUS_OK);
    end = body;
    assert_int_equal(end->request, 7);
    assert_int_equal(end->attempt, 0);
    assert_int_equal(end->detail.count, 0);
    assert_non_null(end->detail.data); /* a text can be copied without a look */
    assert_int_equal(message_encode(MESSAGE_end, end, bytes, sizeof(bytes), &used), STATUS_OK);
    assert_int_equal(used, sizeof(old)); /* and what says nothing is left out again */
    assert_int_equal(message_decode(MESSAGE_end, newer, sizeof(newer), &arena, &body), STATUS_OK);
    end = body;
    assert_int_equal(end->attempt, 2);
    assert_int_equal(end->reason, 3);
}

static void test_a_refusal_names_the_field(void **state)
{
    static const uint8_t text_for_number[] = {0x92, 0x07, 0xa1, 'x'};
    static const uint8_t not_utf8[] = {0x93, 0x07, 0x02, 0xa2, 0xc0, 0x80};
    const void *body = NULL;
    char *text = NULL;
    size_t size = 0;
    arena_t arena;
    FILE *out;

    (void)state;
    arena_init(&arena, memory_a, sizeof(memory_a));
    trail_reset();
    assert_int_equal(
        message_decode(MESSAGE_end, text_for_number, sizeof(text_for_number), &arena, &body),
        STATUS_MALFORMED);
    out = open_memstream(&text, &size);
    trail_print(out);
    (void)fclose(out);
    assert_non_null(strstr(text, "attempt"));
    free(text);
    trail_reset();
    assert_int_equal(message_decode(MESSAGE_kill, not_utf8, sizeof(not_utf8), &arena, &body),
                     STATUS_MALFORMED);
    assert_non_null(strstr(trail_text(), "kill.reason"));
}

static void test_text_is_cut_and_cleaned(void **state)
{
    char reason[REASON_BYTES_MAX + 8];
    message_kill_t kill = {.actor = 1, .incarnation = 1};
    const message_kill_t *received;
    const void *body = NULL;
    size_t used = 0;
    arena_t arena;

    (void)state;
    memset(reason, 'a', sizeof(reason));
    memcpy(reason, "\xff\0b", 3);
    memcpy(reason + REASON_BYTES_MAX - 1, "\xc3\xa9", 2); /* half of it is beyond the limit */
    kill.reason = (text_view_t){reason, sizeof(reason)};
    assert_int_equal(message_encode(MESSAGE_kill, &kill, bytes, sizeof(bytes), &used), STATUS_OK);
    arena_init(&arena, memory_a, sizeof(memory_a));
    assert_int_equal(message_decode(MESSAGE_kill, bytes, used, &arena, &body), STATUS_OK);
    received = body;
    assert_int_equal(received->reason.count, REASON_BYTES_MAX - 1);
    assert_memory_equal(received->reason.data, "??b", 3);
}

/* ---- limits of fields, and of a whole message ------------------------------------------------ */

static uint64_t longest_record(const record_t *record);

static uint64_t longest_field(const field_t *field)
{
    switch (field->type) {
    case FIELD_U8:
        return 2;
    case FIELD_U16:
    case FIELD_ACTOR:
        return 3;
    case FIELD_U32:
    case FIELD_F32:
    case FIELD_TOKEN:
        return 5;
    case FIELD_U64:
        return 9;
    case FIELD_BYTES:
    case FIELD_TEXT:
        return 5 + (uint64_t)field->limit;
    case FIELD_U32S:
    case FIELD_F32S:
    case FIELD_TOKENS:
        return 5 + 4 * (uint64_t)field->limit;
    case FIELD_U64S:
        return 5 + 8 * (uint64_t)field->limit;
    case FIELD_RECORD:
        return longest_record(field->record);
    case FIELD_ITEMS:
        return 5 + field->limit * longest_record(field->record);
    }
    fail();
    return 0;
}

static uint64_t longest_record(const record_t *record)
{
    uint64_t sum = 5;

    for (uint32_t i = 0; i < record->field_count; i++)
        sum += longest_field(&record->fields[i]);
    return sum;
}

/* A message with every list at its own limit fits MESSAGE_BYTES_MAX, or is one of those whose lists
 * another rule bounds together. A new field that breaks this is found here, not by an assertion of
 * an actor that somebody asked for too much. */
static void test_every_message_fits_whatever_its_fields_allow(void **state)
{
    static const struct {
        uint16_t id;
        uint64_t bytes; /* what the rule leaves */
    } ruled[] = {
        /* a leader's TOKENS has at most 4,096 tokens in all (DECODE_MESSAGE_TOKENS; prefill has one
         * token of each attempt) */
        {MESSAGE_tokens, UINT64_C(4096) * (2 * 4 * LOGPROBS_MAX + 64)},
        /* group_room, which tests/actors/test_prefill.c and test_decode.c hold to it */
        {MESSAGE_step, 0},
    };
    uint32_t found = 0;

    (void)state;
    for (uint16_t id = 0; id < message_table.count; id++) {
        size_t at = 0;

        if (!is_live(id) || longest_record(&message_table.rows[id].record) <= MESSAGE_BYTES_MAX)
            continue;
        while (at < COUNT_OF(ruled) && ruled[at].id != id)
            at++;
        if (at == COUNT_OF(ruled))
            fail_msg("nothing bounds the lists of %s together", message_table.rows[id].name);
        assert_true(ruled[at].bytes + (1 << 16) <= MESSAGE_BYTES_MAX);
        found++;
    }
    assert_int_equal(found, COUNT_OF(ruled));
}

static void test_printing_hides_token_ids(void **state)
{
    const uint32_t tokens[3] = {987654, 987655, 987656};
    message_submit_t submit = {.request = 4711, .prompt = {tokens, 3}};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    message_print(MESSAGE_submit, &submit, out);
    (void)fflush(out);
    assert_non_null(strstr(text, "request=4711"));
    assert_non_null(strstr(text, "prompt=[3 tokens]"));
    assert_null(strstr(text, "98765"));
    codec_print(&message_table.rows[MESSAGE_submit], &submit, true, out);
    (void)fclose(out);
    assert_non_null(strstr(text, "987654"));
    free(text);
}

static void test_bytes_on_the_wire_are_the_golden_ones(void **state)
{
    static char hex[1 << 17], text[1 << 17], printed[1 << 17];
    FILE *file = fopen("tests/messages/golden.txt", "r");
    uint32_t seen = 0;

    (void)state;
    assert_non_null(file);
    while (fgets(hex, sizeof(hex), file) && fgets(text, sizeof(text), file)) {
        static uint8_t golden[BODY_BYTES];
        char *at = NULL;
        uint16_t id = (uint16_t)strtoul(hex, &at, 10);
        const void *body = NULL;
        size_t size = 0, used = 0;
        unsigned byte;
        arena_t arena;
        FILE *out;

        for (at++; sscanf(at, "%2x", &byte) == 1; at += 2)
            golden[size++] = (uint8_t)byte;
        arena_init(&arena, memory_a, sizeof(memory_a));
        assert_int_equal(message_decode(id, golden, size, &arena, &body), STATUS_OK);
        memset(printed, 0, sizeof(printed));
        out = fmemopen(printed, sizeof(printed), "w");
        codec_print(&message_table.rows[id], body, true, out);
        fputc('\n', out);
        (void)fclose(out);
        assert_string_equal(printed, text);
        assert_int_equal(message_encode(id, body, bytes, sizeof(bytes), &used), STATUS_OK);
        assert_int_equal(used, size);
        assert_memory_equal(bytes, golden, size);
        seen++;
    }
    (void)fclose(file);
    for (uint16_t id = 0; id < message_table.count; id++)
        seen -= is_live(id);
    assert_int_equal(seen, 0);
}

static void test_skip_passes_over_every_form(void **state)
{
    static const uint8_t forms[] = {
        0x7f, 0xe0, 0xc0, 0xc2, 0xc3, 0xcc, 1, 0xcd, 1,    2,    0xce, 1, 2,    3,  4,
        0xd3, 1,    2,    3,    4,    5,    6, 7,    8,    0xca, 0,    0, 0,    0,  0xa2,
        'h',  'i',  0xd9, 1,    'x',  0xc4, 2, 9,    9,    0xc7, 3,    1, 1,    2,  3,
        0xd8, 1,    0,    1,    2,    3,    4, 5,    6,    7,    8,    9, 10,   11, 12,
        13,   14,   15,   0x82, 1,    0x91, 2, 3,    0x90, 0xdc, 0,    1, 0xde, 0,  0};
    cursor_t cursor = {forms, sizeof(forms), 0};
    int values = 0;

    (void)state;
    while (cursor.at < cursor.size) {
        assert_int_equal(cursor_skip(&cursor), STATUS_OK);
        values++;
    }
    assert_int_equal(values, 17);
    cursor = (cursor_t){(const uint8_t[]){0xc1}, 1, 0};
    assert_int_equal(cursor_skip(&cursor), STATUS_MALFORMED);
    assert_int_equal(cursor.at, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_sound),
        cmocka_unit_test(test_every_reply_is_paid_for_on_its_stream),
        cmocka_unit_test(test_unsound_tables_are_found_out),
        cmocka_unit_test(test_random_bodies_come_back_equal),
        cmocka_unit_test(test_bodies_that_differ_are_not_equal),
        cmocka_unit_test(test_every_truncation_is_valid_or_refused),
        cmocka_unit_test(test_every_single_byte_change_is_valid_or_refused),
        cmocka_unit_test(test_claims_without_bytes_reserve_nothing),
        cmocka_unit_test(test_an_arena_too_small_is_a_refusal),
        cmocka_unit_test(test_missing_fields_are_zero_and_further_ones_are_skipped),
        cmocka_unit_test(test_a_refusal_names_the_field),
        cmocka_unit_test(test_text_is_cut_and_cleaned),
        cmocka_unit_test(test_every_message_fits_whatever_its_fields_allow),
        cmocka_unit_test(test_printing_hides_token_ids),
        cmocka_unit_test(test_bytes_on_the_wire_are_the_golden_ones),
        cmocka_unit_test(test_skip_passes_over_every_form),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
