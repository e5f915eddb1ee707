/* Journals of whole deployments: every life of every actor runs again from its journal alone, its
 * state at another address now and then, and comes to the state that the next segment of its
 * journal begins with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <unistd.h>

#include "cli/life.h"
#include "tests/sim/stage.h"

enum { SEEDS = 8, LONG_SEEDS = 400, RELOCATE = 40, SEGMENT_BYTES = 16 << 10, NAMES_MAX = 512 };

/* What was found in the journals of a run. */
typedef struct {
    uint32_t files;
    uint32_t segments; /* of them, those that go on from another */
    uint64_t records;
    uint64_t outputs;
    uint32_t kinds; /* of actors, as bits */
} found_t;

/* ---- a folder of journals -------------------------------------------------------------------- */

static void make_folder(char folder[64])
{
    snprintf(folder, 64, "%s/replay-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(folder));
}

static int is_journal(const struct dirent *entry)
{
    return strstr(entry->d_name, ".journal") != NULL;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static void remove_folder(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_journal, by_name);
    char path[512];

    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        unlink(path);
        free(entries[i]);
    }
    free(entries);
    rmdir(folder);
}

/* ---- running again --------------------------------------------------------------------------- */

/* A copy of the state at the end of a segment; NULL if its life ended in it. */
typedef struct {
    void *state;
    journal_header_t header;
} end_t;

static void run_again(const char *path, end_t *end, found_t *found)
{
    life_t life;
    replay_config_t config;
    journal_record_t record;
    replay_outcome_t outcome = REPLAY_SAME;
    replay_t *replay = NULL;
    status_t status;
    size_t bytes;

    if (life_open(path, &life) != STATUS_OK)
        fail_msg("%s: %s", path, trail_text());
    config = life_replay(&life);
    config.relocate = RELOCATE;
    if (replay_open(&life.file, &config, &replay) != STATUS_OK)
        fail_msg("%s: %s", path, trail_text());
    if (end->state && end->header.actor == life.file.header->actor &&
        end->header.incarnation == life.file.header->incarnation &&
        end->header.number + 1 == life.file.header->number) {
        const uint8_t *now = replay_state(replay, &bytes), *then = end->state;

        for (size_t i = 0; memcmp(now, then, bytes) != 0; i++)
            if (now[i] != then[i])
                fail_msg("%s: byte %zu of %zu of its state differs from the segment before", path,
                         i, bytes);
        found->segments++;
    }
    free(end->state);
    end->state = NULL;
    while (outcome == REPLAY_SAME &&
           (status = journal_file_next(&life.file, &record)) == STATUS_OK) {
        outcome = replay_step(replay, &record);
        if (outcome == REPLAY_DIFFERS || outcome == REPLAY_ASSERTED)
            fail_msg("%s: record %llu: %s", path, (unsigned long long)record.number,
                     replay_text(replay));
        found->records++;
        found->outputs += record.result ? record.result->output_count : 0;
    }
    if (outcome == REPLAY_SAME) {
        assert_int_equal(status, STATUS_END);
        end->header = *life.file.header;
        end->state = malloc(replay_state(replay, &bytes) ? bytes : 0);
        assert_non_null(end->state);
        memcpy(end->state, replay_state(replay, &bytes), bytes);
    }
    found->files++;
    found->kinds |= BIT(life.file.header->kind);
    replay_close(replay);
    life_close(&life);
}

static void run_all_again(const char *folder, found_t *found)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, is_journal, by_name);
    end_t end = {0};
    char path[512];

    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        run_again(path, &end, found);
        free(entries[i]);
    }
    free(entries);
    free(end.state);
}

/* A run with faults, and all of it once more. */
static void run_seed(const topology_t *topology, uint64_t seed, found_t *found)
{
    char folder[64];
    const journal_place_t journal = {.directory = folder,
                                     .segment_bytes = SEGMENT_BYTES,
                                     .topology_bytes = sizeof(topology_t),
                                     .tokens = true};
    const scenario_t scenario = {.topology = topology, .seed = seed, .journal = &journal};
    scenario_result_t result;

    make_folder(folder);
    scenario_run(&scenario, &result);
    if (!result.passed)
        fail_msg("seed %llu: %s", (unsigned long long)seed, result.violation);
    run_all_again(folder, found);
    remove_folder(folder);
}

static void test_every_life_goes_as_it_went(const char *name)
{
    uint32_t seeds = stage_is_long() ? LONG_SEEDS : SEEDS;
    found_t found = {0};

    for (uint64_t seed = 1; seed <= seeds; seed += stage_stride(1))
        run_seed(stage_topology(name), seed, &found);
    for (uint64_t seed = 2; seed <= seeds && found.segments == 0; seed++) /* long strides may miss one */
        run_seed(stage_topology(name), seed, &found);
    printf("%s: %u journals, %u of them from another on, %llu records, %llu outputs\n", name,
           found.files, found.segments, (unsigned long long)found.records,
           (unsigned long long)found.outputs);
    assert_true(found.segments > 0);
    assert_true(found.outputs > 0);
    for (actor_kind_t kind = 0; kind < ACTOR_KIND_COUNT; kind++)
        if (kind != ACTOR_MIRROR && kind != ACTOR_OBSERVER && kind != ACTOR_PORT)
            assert_true(found.kinds & BIT(kind));
}

static void test_every_life_on_default_goes_as_it_went(void **state)
{
    (void)state;
    test_every_life_goes_as_it_went("default");
}

static void test_every_life_on_8_devices_goes_as_it_went(void **state)
{
    (void)state;
    test_every_life_goes_as_it_went("8-devices");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_life_on_default_goes_as_it_went),
        cmocka_unit_test(test_every_life_on_8_devices_goes_as_it_went),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
