/* Journals of the small actors of toys.h, and replays of them: what is the same is found the same,
 * what is not is found in its record, and no damage of a file goes unseen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "messages/message.h"
#include "runtime/replay.h"
#include "runtime/sim.h"
#include "tests/runtime/toys.h"

enum {
    SEGMENT = 8 << 10,
    PATH = 256,
    ODD = 7 /* the attempt that a mutated actor treats otherwise */
};

static char folder[PATH];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "%s/journal-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static const char *path_of(const char *actor, unsigned life, unsigned number)
{
    static char path[2 * PATH];

    snprintf(path, sizeof(path), "%s/%s-%u-%06u.journal", folder, actor, life, number);
    return path;
}

static int remove_folder(void **state)
{
    static const char *const actors[] = {"decode.0", "transfer.0", "supervisor.0", "prefill.0"};

    (void)state;
    for (unsigned a = 0; a < COUNT_OF(actors); a++)
        for (unsigned life = 1; life <= 2; life++)
            for (unsigned number = 0; number < 100; number++)
                unlink(path_of(actors[a], life, number));
    return rmdir(folder);
}

/* ---- recording and replaying ----------------------------------------------------------------- */

static sim_t *run_toys(const journal_place_t *place, uint64_t us)
{
    const sim_config_t config = {.seed = 5,
                                 .roster = &toy_roster,
                                 .table = &message_table,
                                 .delay_us_min = 20,
                                 .delay_us_max = 2000,
                                 .handle_us_max = 30,
                                 .tick_us = TOY_TICK_US,
                                 .check = true,
                                 .journal = place};
    sim_t *sim = sim_open(&config);

    sim_add_actor(sim, TOY_DECODE, &(sim_actor_t){.type = &toy_decode});
    sim_add_actor(sim, TOY_TRANSFER, &(sim_actor_t){.type = &toy_transfer});
    sim_add_actor(sim, TOY_SUPERVISOR, &(sim_actor_t){.type = &toy_supervisor});
    for (actor_id_t id = 0; id < TOY_COUNT; id++)
        sim_start(sim, id, 1, EXIT_CLEAN);
    sim_run_until(sim, us);
    return sim;
}

static journal_place_t place_with_tokens(size_t segment_bytes)
{
    return (journal_place_t){.directory = folder, .segment_bytes = segment_bytes, .tokens = true};
}

/* Where a replay of the file ends, by what, and in which record. */
typedef struct {
    replay_outcome_t outcome;
    uint64_t number;
    uint64_t records;
    status_t read; /* the status that ended reading, if no record did */
    char text[512];
    toy_t last;
} ended_t;

static ended_t replay_file(journal_file_t *file, const actor_type_t *type)
{
    const actor_birth_t birth = {.id = file->header->actor,
                                 .incarnation = file->header->incarnation};
    const replay_config_t config = {
        .type = type, .table = &message_table, .roster = &toy_roster, .birth = &birth};
    ended_t ended = {.outcome = REPLAY_SAME};
    journal_record_t record;
    replay_t *replay = NULL;
    size_t bytes;

    assert_int_equal(replay_open(file, &config, &replay), STATUS_OK);
    while (ended.outcome == REPLAY_SAME &&
           (ended.read = journal_file_next(file, &record)) == STATUS_OK) {
        ended.number = record.number;
        ended.records++;
        ended.outcome = replay_step(replay, &record);
    }
    snprintf(ended.text, sizeof(ended.text), "%s", replay_text(replay));
    memcpy(&ended.last, replay_state(replay, &bytes), sizeof(ended.last));
    replay_close(replay);
    return ended;
}

static ended_t replay_path(const char *path, const actor_type_t *type)
{
    journal_file_t file;
    ended_t ended;

    if (journal_file_open(path, &file) != STATUS_OK)
        fail_msg("%s", trail_text());
    ended = replay_file(&file, type);
    journal_file_close(&file);
    return ended;
}

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *in = fopen(path, "r");
    uint8_t *bytes = malloc(1 << 20);

    assert_non_null(in);
    *size = fread(bytes, 1, 1 << 20, in);
    fclose(in);
    return bytes;
}

/* ---- what is the same ------------------------------------------------------------------------ */

static void test_a_life_runs_again_as_it_went(void **state)
{
    const journal_place_t place = place_with_tokens(1 << 20);
    sim_t *sim = run_toys(&place, 300000);
    toy_t decode, transfer;
    ended_t ended;

    (void)state;
    memcpy(&decode, sim_dispatch(sim, TOY_DECODE)->self, sizeof(decode));
    memcpy(&transfer, sim_dispatch(sim, TOY_TRANSFER)->self, sizeof(transfer));
    assert_int_equal(decode.answered_count, TOY_ATTEMPTS);
    sim_close(sim);
    ended = replay_path(path_of("decode.0", 1, 0), &toy_decode);
    assert_int_equal(ended.outcome, REPLAY_SAME);
    assert_int_equal(ended.read, STATUS_END);
    assert_true(ended.records > TOY_ATTEMPTS);
    assert_memory_equal(&ended.last, &decode, sizeof(decode));
    ended = replay_path(path_of("transfer.0", 1, 0), &toy_transfer);
    assert_int_equal(ended.outcome, REPLAY_SAME);
    assert_memory_equal(&ended.last, &transfer, sizeof(transfer));
}

static void test_two_segments_stay_and_the_last_goes_on(void **state)
{
    const journal_place_t place = place_with_tokens(SEGMENT);
    sim_t *sim = run_toys(&place, 300000);
    unsigned last = 0;
    ended_t before, ended;

    (void)state;
    sim_close(sim);
    while (access(path_of("decode.0", 1, last), F_OK) != 0)
        last++;
    assert_true(last > 1); /* the first ones are gone */
    before = replay_path(path_of("decode.0", 1, last), &toy_decode);
    ended = replay_path(path_of("decode.0", 1, last + 1), &toy_decode);
    assert_int_equal(before.outcome, REPLAY_SAME);
    assert_int_equal(ended.outcome, REPLAY_SAME);
    assert_int_equal(ended.number - before.number, ended.records);
    assert_int_equal(ended.last.answered_count, TOY_ATTEMPTS);
    assert_int_not_equal(access(path_of("decode.0", 1, last + 2), F_OK), 0);
}

static void test_an_actor_without_room_for_a_journal_works(void **state)
{
    const journal_place_t place = {.directory = "/nowhere/at/all"};
    sim_t *sim = run_toys(&place, 300000);

    (void)state;
    assert_int_equal(((const toy_t *)sim_dispatch(sim, TOY_DECODE)->self)->answered_count,
                     TOY_ATTEMPTS);
    sim_close(sim);
}

/* Somebody empties a file, or cuts it short anywhere: its actor goes on, and what remains of the file is
 * as it was. */
static void test_an_actor_outlives_its_journals_file(void **state)
{
    static const off_t sizes[] = {0, 1, 4095, 4096, 8192, 40000};
    const journal_place_t place = place_with_tokens(1 << 20);

    (void)state;
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        const char *path = path_of("decode.0", 1, 0);
        sim_t *sim = run_toys(&place, 20000);
        struct stat after;

        assert_int_equal(truncate(path, sizes[i]), 0);
        sim_run_until(sim, 300000);
        assert_int_equal(((const toy_t *)sim_dispatch(sim, TOY_DECODE)->self)->answered_count,
                         TOY_ATTEMPTS);
        sim_close(sim);
        assert_int_equal(stat(path, &after), 0);
        assert_int_equal(after.st_size, sizes[i]);
    }
}

/* What is written into the file by others is not read back. */
static void test_an_actor_outlives_foreign_bytes_in_its_journal(void **state)
{
    const journal_place_t place = place_with_tokens(1 << 20);
    sim_t *sim = run_toys(&place, 20000);
    FILE *file = fopen(path_of("decode.0", 1, 0), "r+");

    (void)state;
    assert_non_null(file);
    for (int i = 0; i < 1 << 16; i++)
        fputc(0xff, file);
    assert_int_equal(fclose(file), 0);
    sim_run_until(sim, 300000);
    assert_int_equal(((const toy_t *)sim_dispatch(sim, TOY_DECODE)->self)->answered_count,
                     TOY_ATTEMPTS);
    sim_close(sim);
}

/* ---- what is not ----------------------------------------------------------------------------- */

static actor_type_t mutated;
static actor_rule_t mutated_rules[8];
static actor_handler_t *original;

/* The transfer of toys.h, but for one message. */
static const actor_type_t *mutate(actor_handler_t *handler)
{
    mutated = toy_transfer;
    memcpy(mutated_rules, mutated.table.rules, mutated.table.rule_count * sizeof(actor_rule_t));
    for (uint32_t i = 0; i < mutated.table.rule_count; i++)
        if (mutated_rules[i].message == MESSAGE_open) {
            original = mutated_rules[i].handler;
            mutated_rules[i].handler = handler;
        }
    mutated.table.rules = mutated_rules;
    return &mutated;
}

static status_t answer_another(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    const message_open_t *m = envelope->body;
    message_opened_t opened = {.request = m->request, .attempt = 2};

    if (m->request != ODD)
        return original(self, envelope, outbox);
    outbox_push(outbox, envelope->from, MESSAGE_opened, &opened);
    return STATUS_OK;
}

static status_t answer_nothing(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    const message_open_t *m = envelope->body;

    return m->request == ODD ? STATUS_OK : original(self, envelope, outbox);
}

static status_t answer_twice(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    const message_open_t *m = envelope->body;

    if (m->request == ODD)
        (void)original(self, envelope, outbox);
    return original(self, envelope, outbox);
}

static status_t ask_more(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    const message_open_t *m = envelope->body;

    if (m->request == ODD)
        (void)outbox_is_up(outbox, envelope->from);
    return original(self, envelope, outbox);
}

static status_t fail_it(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    const message_open_t *m = envelope->body;
    status_t status = original(self, envelope, outbox);

    return m->request == ODD ? FAIL(STATUS_INTERNAL, "as planned") : status;
}

static status_t assert_it(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    const message_open_t *m = envelope->body;

    ASSERT(m->request != ODD);
    return original(self, envelope, outbox);
}

/* The record of the OPEN of attempt ODD. */
static uint64_t odd_record(const char *path)
{
    static _Alignas(16) uint8_t memory[1 << 16];
    journal_record_t record;
    journal_file_t file;
    uint64_t found = 0;
    arena_t arena;

    assert_int_equal(journal_file_open(path, &file), STATUS_OK);
    while (journal_file_next(&file, &record) == STATUS_OK) {
        const void *body = NULL;

        arena_init(&arena, memory, sizeof(memory));
        if (record.what == JOURNAL_MESSAGE && record.input->id == MESSAGE_open &&
            message_decode(MESSAGE_open, record.body, record.input->size, &arena, &body) ==
                STATUS_OK &&
            ((const message_open_t *)body)->request == ODD)
            found = record.number;
    }
    journal_file_close(&file);
    assert_true(found > 0);
    return found;
}

static void test_an_actor_that_does_another_thing_is_found_in_that_record(void **state)
{
    static const struct {
        actor_handler_t *handler;
        replay_outcome_t outcome;
        const char *says;
    } mutations[] = {
        {answer_another, REPLAY_DIFFERS, "output 1: now opened to decode/0"},
        {answer_nothing, REPLAY_DIFFERS, "output 1: now nothing; then opened to decode/0"},
        {answer_twice, REPLAY_DIFFERS, "then nothing"},
        {ask_more, REPLAY_DIFFERS, "asks"},
        {fail_it, REPLAY_DIFFERS, "it ends with INTERNAL; then with OK"},
        {assert_it, REPLAY_ASSERTED, "m->request != ODD"},
    };
    const journal_place_t place = place_with_tokens(1 << 20);

    (void)state;
    sim_close(run_toys(&place, 300000));
    for (uint32_t i = 0; i < COUNT_OF(mutations); i++) {
        ended_t ended = replay_path(path_of("transfer.0", 1, 0), mutate(mutations[i].handler));

        assert_int_equal(ended.outcome, mutations[i].outcome);
        assert_int_equal(ended.number, odd_record(path_of("transfer.0", 1, 0)));
        if (!strstr(ended.text, mutations[i].says))
            fail_msg("mutation %u: %s", i, ended.text);
    }
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* The first record that cannot be read; UINT64_MAX: none; UINT64_MAX - 1: the head. */
static uint64_t first_damaged(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    journal_record_t record;
    journal_file_t file;
    uint64_t number;
    status_t status;

    memcpy(copy, bytes, size);
    trail_reset();
    if (journal_file_take(copy, size, &file) != STATUS_OK)
        return UINT64_MAX - 1;
    while ((status = journal_file_next(&file, &record)) == STATUS_OK)
        ;
    number = status == STATUS_END ? UINT64_MAX : file.next;
    journal_file_close(&file);
    return number;
}

static void test_no_changed_byte_goes_unseen_and_its_record_is_named(void **state)
{
    const journal_place_t place = place_with_tokens(1 << 16);
    size_t size, at, head;
    journal_record_t record;
    journal_file_t file;
    uint8_t *bytes;

    (void)state;
    sim_close(run_toys(&place, 8000));
    bytes = read_file(path_of("transfer.0", 1, 0), &size);
    assert_int_equal(first_damaged(bytes, size), UINT64_MAX);
    assert_int_equal(journal_file_open(path_of("transfer.0", 1, 0), &file), STATUS_OK);
    head = file.at;
    for (at = 0; at < head; at++) {
        bytes[at] ^= 0x20;
        assert_true(first_damaged(bytes, size) != UINT64_MAX);
        bytes[at] ^= 0x20;
    }
    while (journal_file_next(&file, &record) == STATUS_OK)
        for (; at < file.at; at++) {
            bytes[at] ^= 0x20;
            assert_int_equal(first_damaged(bytes, size), record.number);
            bytes[at] ^= 0x20;
        }
    assert_int_equal(at, size);
    assert_true(record.number > 20);
    for (at = 0; at < size; at += 5) /* cut short: `used` says so */
        assert_int_equal(first_damaged(bytes, at), UINT64_MAX - 1);
    journal_file_close(&file);
    free(bytes);
}

/* ---- lives that end, and what is withheld ---------------------------------------------------- */

static status_t ignore(void *self, const envelope_t *envelope, outbox_t *outbox)
{
    (void)self;
    (void)envelope;
    (void)outbox;
    return STATUS_OK;
}

static uint8_t state_of(const void *self)
{
    return *(const uint8_t *)self;
}

static const char *const state_names[] = {"on"};
static const actor_rule_t prefill_rules[] = {{0, MESSAGE_submit, ignore, BIT(0)}};
static const actor_type_t prefill = {.kind = ACTOR_PREFILL,
                                     .state_bytes = 4096,
                                     .state = state_of,
                                     .table = {state_names, 1, prefill_rules, 1, NULL, 0}};
static const actor_birth_t prefill_birth = {.id = 0, .incarnation = 1};
static uint8_t prefill_state[4096];

static journal_t *open_prefill(const journal_place_t *place)
{
    journal_t *journal = NULL;

    assert_int_equal(journal_open(place, &message_table, &prefill, &prefill_birth, "prefill/0",
                                  prefill_state, sizeof(prefill_state), &journal),
                     STATUS_OK);
    return journal;
}

/* A SUBMIT whose prompt is twelve times one token. */
static void submit(journal_t *journal, uint32_t token)
{
    static const uint32_t forced[2] = {1, 2};
    uint32_t prompt[12];
    uint8_t body[512];
    message_submit_t m = {.request = 9, .prompt = {prompt, 12}, .forced = {forced, 2}};
    journal_input_t input = {.us = 5, .incarnation = 3, .from = 1, .id = MESSAGE_submit};
    size_t used = 0;

    for (uint32_t i = 0; i < 12; i++)
        prompt[i] = token;
    assert_int_equal(message_encode(MESSAGE_submit, &m, body, sizeof(body), &used), STATUS_OK);
    input.size = (uint32_t)used;
    journal_input(journal, JOURNAL_MESSAGE, &input, body);
}

/* The journal of a process that is gone has no end; its file is read as it was left. */
static void test_the_record_in_which_a_life_ended_is_the_last(void **state)
{
    const journal_place_t place = place_with_tokens(SEGMENT);
    journal_t *journal = open_prefill(&place);
    ended_t ended;

    (void)state;
    journal_input(journal, JOURNAL_PLAN, &(journal_input_t){.us = 1}, NULL);
    journal_result(journal, STATUS_OK, 0, 0);
    submit(journal, 77);
    ended = replay_path(path_of("prefill.0", 1, 0), &prefill);
    assert_int_equal(ended.outcome, REPLAY_ENDED);
    assert_int_equal(ended.number, 1);
    journal_close(journal);
}

static void test_a_record_with_too_much_in_it_is_left_out_and_the_next_segment_goes_on(void **state)
{
    const journal_place_t place = place_with_tokens(SEGMENT);
    journal_t *journal = open_prefill(&place);
    ended_t ended;

    (void)state;
    submit(journal, 77);
    for (uint32_t i = 0; i <= JOURNAL_OUTPUTS_MAX; i++)
        journal_output(journal, 1, MESSAGE_end, (const uint8_t *)"x", 1);
    prefill_state[100] = 44;
    journal_result(journal, STATUS_OK, 0, 0);
    journal_input(journal, JOURNAL_PLAN, &(journal_input_t){.us = 1}, NULL);
    journal_result(journal, STATUS_OK, 0, 0);
    journal_close(journal);
    ended = replay_path(path_of("prefill.0", 1, 0), &prefill);
    assert_int_equal(ended.outcome, REPLAY_LOST);
    ended = replay_path(path_of("prefill.0", 1, 1), &prefill);
    assert_int_equal(ended.outcome, REPLAY_SAME);
    assert_int_equal(ended.number, 1);
    assert_int_equal(((const uint8_t *)&ended.last)[100], 44);
    prefill_state[100] = 0;
}

static void test_without_leave_no_token_id_is_kept_and_the_rest_can_be_read(void **state)
{
    static const uint32_t secret = 0x00077315;
    static _Alignas(16) uint8_t memory[1 << 16];
    const journal_place_t place = {.directory = folder, .segment_bytes = SEGMENT};
    journal_t *journal = open_prefill(&place);
    const actor_birth_t birth = prefill_birth;
    const replay_config_t config = {
        .type = &prefill, .table = &message_table, .roster = &toy_roster, .birth = &birth};
    replay_t *replay = NULL;
    const void *body = NULL;
    const message_submit_t *m;
    journal_record_t record;
    journal_file_t file;
    arena_t arena;
    uint8_t *bytes;
    size_t size;

    (void)state;
    assert_true(journal_sees_tokens(&message_table, ACTOR_PREFILL));
    assert_true(journal_sees_tokens(&message_table, ACTOR_RANK));
    assert_false(journal_sees_tokens(&message_table, ACTOR_SCHEDULER));
    assert_false(journal_sees_tokens(&message_table, ACTOR_SUPERVISOR));
    memcpy(prefill_state + 200, &secret, sizeof(secret));
    submit(journal, secret);
    journal_output(journal, 1, MESSAGE_end, (const uint8_t *)&secret, sizeof(secret));
    journal_result(journal, STATUS_OK, 0, 0);
    journal_close(journal);
    memset(prefill_state, 0, sizeof(prefill_state));

    bytes = read_file(path_of("prefill.0", 1, 0), &size);
    assert_null(memmem(bytes, size, &secret, sizeof(secret)));
    free(bytes);
    assert_int_equal(journal_file_open(path_of("prefill.0", 1, 0), &file), STATUS_OK);
    assert_int_equal(journal_file_next(&file, &record), STATUS_OK);
    arena_init(&arena, memory, sizeof(memory));
    assert_int_equal(message_decode(MESSAGE_submit, record.body, record.input->size, &arena, &body),
                     STATUS_OK);
    m = body;
    assert_int_equal(m->request, 9);
    assert_int_equal(m->prompt.count, 12);
    assert_int_equal(m->prompt.data[3], 0);
    assert_int_equal(m->forced.count, 2);
    assert_int_equal(record.result->output_count, 1);
    assert_int_equal(record.outputs[0].digest, 0);
    assert_int_equal(replay_open(&file, &config, &replay), STATUS_REFUSED);
    assert_non_null(strstr(trail_text(), "without token ids"));
    journal_file_close(&file);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_a_life_runs_again_as_it_went),
        TEST(test_two_segments_stay_and_the_last_goes_on),
        TEST(test_an_actor_without_room_for_a_journal_works),
        TEST(test_an_actor_outlives_its_journals_file),
        TEST(test_an_actor_outlives_foreign_bytes_in_its_journal),
        TEST(test_an_actor_that_does_another_thing_is_found_in_that_record),
        TEST(test_no_changed_byte_goes_unseen_and_its_record_is_named),
        TEST(test_the_record_in_which_a_life_ended_is_the_last),
        TEST(test_a_record_with_too_much_in_it_is_left_out_and_the_next_segment_goes_on),
        TEST(test_without_leave_no_token_id_is_kept_and_the_rest_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
