/* Journal files: whatever is done to one, it is read to its end or refused with a reason, and
 * nothing is read behind it. Checks find nearly all of it at once, so each variant is fed a second
 * time with checks that fit: as somebody who means harm would write it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "messages/message.h"
#include "runtime/journal_file.h"
#include "tests/fuzz/fuzz.h"

enum { STATE_BYTES = 4096, FED_STATE_BYTES_MAX = 1 << 20, ROUNDS = 40000 };

static const actor_type_t type = {.kind = ACTOR_PREFILL};

/* A journal with every kind of record in it, and with a state of two runs. */
static char *make_journal(size_t *size)
{
    static uint8_t self[STATE_BYTES] = {[5] = 1, [3000] = 2};
    static const char topology[100] = "as good as any";
    char folder[64] = "/tmp/fuzz-XXXXXX", path[128];
    const journal_place_t place = {.directory = mkdtemp(folder),
                                   .segment_bytes = 4096,
                                   .topology_bytes = sizeof(topology),
                                   .tokens = true};
    const actor_birth_t birth = {
        .incarnation = 1, .topology = (const void *)topology, .setup = self, .setup_bytes = 20};
    journal_t *journal = NULL;
    char *bytes;

    assert_non_null(place.directory);
    assert_int_equal(journal_open(&place, &message_table, &type, &birth, "prefill/0", self,
                                  sizeof(self), &journal),
                     STATUS_OK);
    for (uint32_t i = 0; i < 6; i++) {
        const journal_input_t input = {.us = i, .size = 3 * i, .from = 1, .id = (uint16_t)i};

        journal_input(journal, i == 0 ? JOURNAL_PLAN : JOURNAL_MESSAGE, &input, self);
        for (uint32_t n = 0; n < 40 * i; n++)
            journal_answer(journal, 2, 3, n % 3 == 0);
        for (uint32_t n = 0; n < i; n++)
            journal_output(journal, 1, 4, self, n);
        if (i < 5)
            journal_result(journal, STATUS_OK, 0, i);
    }
    journal_close(journal);
    snprintf(path, sizeof(path), "%s/prefill.0-1-000000.journal", folder);
    bytes = fuzz_read(path, size);
    unlink(path);
    rmdir(folder);
    return bytes;
}

static void read_journal(uint8_t *bytes, size_t size)
{
    journal_record_t record;
    journal_file_t file;
    status_t status;
    uint64_t sum = 0;

    trail_reset();
    if (journal_file_take(bytes, size, &file) != STATUS_OK) {
        assert_true(trail_text()[0] != '\0');
        return;
    }
    if (file.header->state_bytes <= FED_STATE_BYTES_MAX) {
        uint8_t *self = malloc((size_t)file.header->state_bytes + 1);

        if (journal_file_state(&file, self, (size_t)file.header->state_bytes) == STATUS_OK)
            sum += self[0];
        free(self);
    }
    while ((status = journal_file_next(&file, &record)) == STATUS_OK) {
        for (uint32_t i = 0; i < record.input->size; i++)
            sum += record.body[i];
        for (uint32_t i = 0; record.result && i < record.result->output_count; i++)
            sum += record.outputs[i].digest;
        for (uint32_t i = 0; record.result && i < record.result->answer_count; i++)
            sum += record.answers[i / 64] >> i % 64 & 1;
    }
    assert_true(status == STATUS_END || trail_text()[0] != '\0');
    assert_true(file.at <= size);
    if (sum == 1) /* what was read is used */
        print_message("a sum of one\n");
    journal_file_close(&file);
}

/* Each check as it must be, as far as sizes lead to it. */
static void mend(uint8_t *bytes, size_t size)
{
    journal_header_t *header = (void *)bytes;
    size_t at = sizeof(*header), left;
    uint64_t number;

    if (size < sizeof(*header))
        return;
    header->magic = JOURNAL_MAGIC;
    header->version = JOURNAL_VERSION;
    header->used = header->used > size ? size & ~(size_t)7 : header->used;
    left = size - at;
    if (header->topology_bytes > left || header->setup_bytes > left || header->runs_bytes > left)
        return;
    at += journal_padded(header->topology_bytes) + journal_padded(header->setup_bytes) +
          journal_padded(header->runs_bytes);
    if (at > size)
        return;
    header->check = journal_header_check(header, header + 1, at - sizeof(*header));
    number = header->first;
    while (at + sizeof(journal_mark_t) <= size) {
        journal_mark_t *mark = (void *)(bytes + at);

        if (mark->bytes < sizeof(*mark) || mark->bytes % 8 || mark->bytes > size - at)
            return;
        mark->check = journal_record_check(number, mark);
        number += mark->what == JOURNAL_RESULT;
        at += mark->bytes;
    }
}

static void feed(void *context, const char *bytes, size_t size)
{
    uint8_t *plain = malloc(size + 1), *mended = malloc(size + 1);

    (void)context;
    assert_true(plain && mended);
    memcpy(plain, bytes, size);
    memcpy(mended, bytes, size);
    mend(mended, size);
    read_journal(plain, size); /* they are given away */
    read_journal(mended, size);
}

static void test_journal_files(void **state)
{
    size_t size;
    char *seed = make_journal(&size);

    (void)state;
    fuzz_run("journal", seed, size, ROUNDS, feed, NULL);
    free(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_journal_files)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
