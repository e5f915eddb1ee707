/* The frame ring: one writer, readers of different speed. Also built with ThreadSanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/random.h"
#include "runtime/base/shared.h"
#include "runtime/ring.h"

enum { RECORDS = 200000, BYTES_MAX = 300 };

/* Bytes and size of record number n follow from n, so that a reader can judge what it got. */
static uint32_t size_of(uint64_t n)
{
    return (uint32_t)(random_at(5, n) % BYTES_MAX);
}

static void write_record(ring_t *ring, uint64_t n)
{
    ring_record_t record = {.us = n, .size = size_of(n), .peer = (uint16_t)n};
    uint8_t bytes[BYTES_MAX];

    for (uint32_t i = 0; i < record.size; i++)
        bytes[i] = (uint8_t)(n + i);
    ring_write(ring, &record, bytes);
}

static void expect_record(const ring_record_t *record, const uint8_t *bytes)
{
    assert_int_equal(record->size, size_of(record->us));
    assert_int_equal(record->whole, record->size);
    assert_int_equal(record->peer, (uint16_t)record->us);
    for (uint32_t i = 0; i < record->size; i++)
        assert_int_equal(bytes[i], (uint8_t)(record->us + i));
}

static void test_what_is_written_is_read_in_order(void **state)
{
    static uint8_t bytes[RING_RECORD_BYTES_MAX];
    ring_reader_t reader;
    ring_record_t record;
    ring_t *ring = NULL;

    (void)state;
    assert_int_equal(ring_create_private(&ring), STATUS_OK);
    ring_reader_begin(ring, true, &reader);
    assert_false(ring_read(ring, &reader, &record, bytes));
    for (uint64_t n = 0; n < 20000; n++) {
        write_record(ring, n);
        assert_true(ring_read(ring, &reader, &record, bytes));
        assert_int_equal(record.us, n);
        expect_record(&record, bytes);
    }
    assert_false(ring_read(ring, &reader, &record, bytes));
    assert_int_equal(reader.missed, 0);
    ring_close(ring);
}

static void test_a_slow_reader_learns_what_it_missed(void **state)
{
    static uint8_t bytes[RING_RECORD_BYTES_MAX];
    ring_reader_t reader, late;
    ring_record_t record;
    ring_t *ring = NULL;
    uint64_t next;

    (void)state;
    assert_int_equal(ring_create_private(&ring), STATUS_OK);
    ring_reader_begin(ring, true, &reader);
    for (uint64_t n = 0; n < 30000; n++)
        write_record(ring, n);
    assert_true(ring_read(ring, &reader, &record, bytes));
    assert_true(reader.missed > 0);
    assert_true(record.us > 0);
    expect_record(&record, bytes);
    for (next = record.us + 1; ring_read(ring, &reader, &record, bytes); next++) {
        assert_int_equal(record.us, next);
        expect_record(&record, bytes);
    }
    assert_int_equal(next, 30000);
    ring_reader_begin(ring, false, &late);
    assert_false(ring_read(ring, &late, &record, bytes));
    ring_close(ring);
}

static void test_what_is_too_long_is_cut_and_says_so(void **state)
{
    static uint8_t bytes[RING_RECORD_BYTES_MAX], large[2 * RING_RECORD_BYTES_MAX];
    ring_record_t record = {.size = sizeof(large)};
    ring_reader_t reader;
    ring_t *ring = NULL;

    (void)state;
    assert_int_equal(ring_create_private(&ring), STATUS_OK);
    ring_reader_begin(ring, true, &reader);
    ring_write(ring, &record, large);
    assert_true(ring_read(ring, &reader, &record, bytes));
    assert_int_equal(record.size, RING_RECORD_BYTES_MAX);
    assert_int_equal(record.whole, sizeof(large));
    ring_close(ring);
}

static atomic_bool done;

static void *write_all(void *ring)
{
    for (uint64_t n = 0; n < RECORDS; n++)
        write_record(ring, n);
    atomic_store(&done, true);
    return NULL;
}

static void test_readers_that_race_see_whole_records(void **state)
{
    static uint8_t bytes[RING_RECORD_BYTES_MAX];
    ring_reader_t reader;
    ring_record_t record;
    ring_t *ring = NULL;
    uint64_t last = 0, seen = 0;
    pthread_t writer;
    bool more = true;

    (void)state;
    assert_int_equal(ring_create_private(&ring), STATUS_OK);
    ring_reader_begin(ring, true, &reader);
    assert_int_equal(pthread_create(&writer, NULL, write_all, ring), 0);
    while (more) {
        more = !atomic_load(&done);
        while (ring_read(ring, &reader, &record, bytes)) {
            assert_true(seen == 0 || record.us > last);
            expect_record(&record, bytes);
            last = record.us;
            seen++;
        }
    }
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_int_equal(last, RECORDS - 1);
    assert_true(seen > 100);
    ring_close(ring);
}

static void test_another_process_finds_it_by_name(void **state)
{
    static uint8_t bytes[RING_RECORD_BYTES_MAX];
    ring_reader_t reader;
    ring_record_t record;
    ring_t *ring = NULL, *other = NULL;
    char prefix[64];

    (void)state;
    (void)snprintf(prefix, sizeof(prefix), "/lockstep-test-%d-", (int)getpid());
    assert_int_equal(ring_open(prefix, "decode/0", &other), STATUS_NOT_FOUND);
    assert_int_equal(ring_create(prefix, "decode/0", &ring), STATUS_OK);
    assert_int_equal(ring_open(prefix, "decode/0", &other), STATUS_OK);
    write_record(ring, 7);
    ring_close(ring); /* as if it had died: the name and what it wrote stay */
    ring_reader_begin(other, true, &reader);
    assert_true(ring_read(other, &reader, &record, bytes));
    expect_record(&record, bytes);
    ring_close(other);
    ring_unlink(prefix, "decode/0");
    assert_int_equal(ring_open(prefix, "decode/0", &other), STATUS_NOT_FOUND);
}

/* A process that dies of writing anywhere leaves such a ring to its supervisor. */
static void test_overwritten_memory_ends_neither_reader_nor_writer(void **state)
{
    static uint8_t bytes[RING_RECORD_BYTES_MAX];
    enum { MAGIC = 0, TAIL = 2, HEAD_WORDS = 3, WORDS = HEAD_WORDS + RING_BYTES / 8 };
    ring_reader_t reader;
    ring_record_t record;
    ring_t *ring = NULL, *other = NULL;
    char prefix[64], name[80];
    void *memory = NULL;
    uint64_t *words;

    (void)state;
    (void)snprintf(prefix, sizeof(prefix), "/lockstep-test-%d-", (int)getpid());
    (void)snprintf(name, sizeof(name), "%sdecode.0.ring", prefix);
    assert_int_equal(ring_create(prefix, "decode/0", &ring), STATUS_OK);
    assert_int_equal(shared_open(name, WORDS * sizeof(*words), true, &memory), STATUS_OK);
    words = memory;
    words[MAGIC] ^= 1;
    assert_int_equal(ring_open(prefix, "decode/0", &other), STATUS_MISMATCH);
    assert_null(other); /* nothing to close */
    words[MAGIC] ^= 1;
    words[TAIL] = UINT64_C(1) << 62; /* far behind all that was written, and zeros up to there */
    ring_reader_begin(ring, true, &reader);
    assert_false(ring_read(ring, &reader, &record, bytes));
    for (uint64_t n = 0; n < RECORDS; n++) {
        if (n % 100 == 0 && n < RECORDS / 2)
            memset(words + HEAD_WORDS, (int)(n / 100), RING_BYTES);
        write_record(ring, n);
    }
    ring_reader_begin(ring, true, &reader);
    while (ring_read(ring, &reader, &record, bytes))
        ;
    assert_int_equal(record.us, RECORDS - 1);
    munmap(memory, WORDS * sizeof(*words));
    ring_close(ring);
    ring_unlink(prefix, "decode/0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read_in_order),
        cmocka_unit_test(test_a_slow_reader_learns_what_it_missed),
        cmocka_unit_test(test_what_is_too_long_is_cut_and_says_so),
        cmocka_unit_test(test_readers_that_race_see_whole_records),
        cmocka_unit_test(test_another_process_finds_it_by_name),
        cmocka_unit_test(test_overwritten_memory_ends_neither_reader_nor_writer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
