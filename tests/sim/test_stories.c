/* Stories as values: what is written is read, what violates is made small, and what happened is shown, as
 * lines and as a trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "sim/isolated.h"
#include "sim/jobs.h"
#include "sim/shrink.h"
#include "tests/sim/stage.h"

enum { STORIES = 200, SHRINK_RUNS = 1000, SEQUENCE_LINES = 120, LINE_COLUMNS_MAX = 200 };

/* ---- text ------------------------------------------------------------------------------------ */

static char *print(const story_t *story)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    assert_non_null(out);
    story_print(story, "topology/examples/8-devices.yaml", out);
    assert_int_equal(fclose(out), 0);
    return text;
}

static bool read_text(const char *text, story_t *story, char *error, size_t error_bytes)
{
    char file[PATH_BYTES_MAX];
    FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    bool good;

    assert_non_null(in);
    good = story_read(in, story, file, error, error_bytes);
    assert_int_equal(fclose(in), 0);
    if (good)
        assert_string_equal(file, "topology/examples/8-devices.yaml");
    return good;
}

static void test_what_is_written_is_read(void **state)
{
    static story_t drawn, read;
    const topology_t *topology = stage_topology("8-devices");
    char error[256];

    (void)state;
    for (uint64_t seed = 1; seed <= STORIES; seed++) {
        char *text;

        story_draw(&drawn, seed, topology);
        text = print(&drawn);
        if (!read_text(text, &read, error, sizeof(error)))
            fail_msg("seed %llu: %s", (unsigned long long)seed, error);
        assert_memory_equal(&drawn, &read, sizeof(drawn));
        free(text);
    }
}

static void test_what_is_no_story_is_refused_with_its_line(void **state)
{
    static const char *const bad[][2] = {
        {"", "it takes a topology and a request"},
        {"topology t\nrequest 1 prompt_tokens=5\n", "line 2"},
        {"topology t\nrequest 0 prompt_tokens=5 output_tokens_max=1\n", "from 1 to 64"},
        {"topology t\nrequest 65 prompt_tokens=5 output_tokens_max=1\n", "from 1 to 64"},
        {"topology t\nrequest 1 prompt_tokens=x output_tokens_max=1\n", "not a number"},
        {"topology t\nrequest 1 prompt_tokens=4294967296 output_tokens_max=1\n", "that fits"},
        {"topology t\nrequest 1 prompt_tokens=999999 output_tokens_max=1\n", "too long"},
        {"topology t\nfault kind=murder\n", "no such word"},
        {"topology t\nfault sort=kill\n", "no such field"},
        {"topology t\nfault kill\n", "not a field and its value"},
        {"topology t\nstory seed=1 weather=2\n", "no such field"},
        {"topology t\nplot\n", "a line begins with"},
        {"topology t\nfault kind=kill "
         "actor=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
         "too long"},
        {"topology t\nfault\nfault\nfault\nfault\nfault\nfault\nfault\nfault\nfault\n", "too many"},
    };
    static story_t story;
    char error[256];

    (void)state;
    for (uint32_t i = 0; i < COUNT_OF(bad); i++) {
        const char *text = bad[i][0][0] ? bad[i][0] : "\n";

        assert_false(read_text(text, &story, error, sizeof(error)));
        if (!strstr(error, bad[i][1]))
            fail_msg("%s: said '%s', not '%s'", text, error, bad[i][1]);
    }
}

/* ---- shrinking ------------------------------------------------------------------------------- */

/* 64 requests and four faults, in which one token comes out wrong. */
static void draw_large(story_t *story, const topology_t *topology)
{
    uint64_t seed = 1;

    do
        story_draw(story, seed++, topology);
    while (story->request_count < STORY_REQUESTS_MAX || story->fault_count < 3);
}

static void test_a_violation_is_made_small_and_stays_the_same(void **state)
{
    static topology_t topology;
    static story_t story, again;
    scenario_t scenario = {.topology = &topology, .plant = PLANT_wrong_token, .story = &story};
    scenario_result_t result, replayed;
    shrink_counts_t counts;
    char error[256], *text;

    (void)state;
    topology = *stage_topology("8-devices");
    draw_large(&story, &topology);
    isolated_run(&scenario, NULL, NULL, &result);
    assert_false(result.passed);
    counts = shrink(&scenario, &story, &result, SHRINK_RUNS);
    assert_true(counts.kept > 0 && counts.runs < SHRINK_RUNS);
    assert_in_range(story_requests(&story), 1, 2); /* as many as it takes to come to that step */
    assert_int_equal(story.fault_count, 0);
    assert_int_equal(story.tp, 2); /* it takes two ranks to differ */
    text = print(&story);
    assert_true(read_text(text, &again, error, sizeof(error)));
    free(text);
    scenario.story = &again;
    isolated_run(&scenario, NULL, NULL, &replayed);
    assert_string_equal(replayed.violation, result.violation);
    assert_int_equal(replayed.digest, result.digest);
}

/* ---- many seeds ------------------------------------------------------------------------------ */

static void test_jobs_run_every_seed_once_and_name_the_lowest_that_violates(void **state)
{
    static topology_t topology;
    static jobs_total_t total;
    jobs_config_t config = {.topology = &topology, .first = 11, .last = 30, .jobs = 3};
    scenario_t scenario = {.topology = &topology, .plant = PLANT_wrong_token};
    scenario_result_t result;

    (void)state;
    topology = *stage_topology("default");
    jobs_run(&config, &total);
    assert_int_equal(total.seeds, 20);
    assert_int_equal(total.violations, 0);
    config.plant = PLANT_wrong_token;
    config.keep_going = true;
    config.coverage = true;
    jobs_run(&config, &total);
    assert_int_equal(total.seeds, 20);
    assert_true(total.violations > 0);
    assert_non_null(total.coverage);
    assert_true(coverage_of_kind(total.coverage, ACTOR_GATEWAY).reached > 0);
    free(total.coverage);
    for (scenario.seed = 11; scenario.seed < total.failed_seed; scenario.seed++) {
        scenario_run(&scenario, &result);
        assert_true(result.passed);
    }
    scenario_run(&scenario, &result);
    assert_string_equal(result.violation, total.failed.violation);
}

/* ---- showing --------------------------------------------------------------------------------- */

static const char *const tale =
    "topology topology/examples/8-devices.yaml\n"
    "story seed=7\n"
    "request 1 arrives_us=200000 prompt_tokens=300 output_tokens_max=9\n"
    "fault kind=kill actor=decode/0/rank/1 when=phase phase=running "
    "request=1 after_us=500\n";

/* Of a request whose decode rank dies, and is replayed. */
static chronicle_t *record_tale(void)
{
    static topology_t topology;
    static story_t story;
    scenario_t scenario = {.topology = &topology, .story = &story};
    scenario_result_t result;
    char error[256];

    topology = *stage_topology("8-devices");
    assert_true(read_text(tale, &story, error, sizeof(error)));
    scenario.chronicle = chronicle_open();
    scenario_run(&scenario, &result);
    if (!result.passed)
        fail_msg("%s", result.violation);
    assert_int_equal(result.faults, 1);
    return scenario.chronicle;
}

static void test_a_sequence_says_what_led_to_it_and_no_more(void **state)
{
    chronicle_t *chronicle = record_tale();
    char *text = NULL, *line, *rest;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    uint32_t lines = 0;

    (void)state;
    chronicle_print_sequence(chronicle, "end: client 1 was told a lie", SEQUENCE_LINES, out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "*** fault kind=kill actor=decode/0/rank/1"));
    assert_non_null(strstr(text, "    decode/0/rank/1 is dead\n"));
    assert_non_null(strstr(text, "gateway/0 -> prefill/0          submit{request=#1, attempt=2"));
    assert_null(strstr(text, "tick"));
    assert_non_null(strstr(text, "VIOLATION end: client 1 was told a lie\n"));
    for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest), lines++)
        assert_in_range(strlen(line), 1, LINE_COLUMNS_MAX);
    assert_in_range(lines, 10, SEQUENCE_LINES + 2);
    free(text);
    chronicle_close(chronicle);
}

/* ---- trace ----------------------------------------------------------------------------------- */

static json_t *trace_of(const chronicle_t *chronicle)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    json_error_t error;
    json_t *trace;

    chronicle_print_perfetto(chronicle, out);
    assert_int_equal(fclose(out), 0);
    trace = json_loadb(text, bytes, 0, &error);
    if (!trace)
        fail_msg("line %d: %s", error.line, error.text);
    free(text);
    return trace;
}

static json_int_t number(const json_t *event, const char *name)
{
    const json_t *value = json_object_get(event, name);

    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

static bool is(const json_t *event, const char *name, const char *value)
{
    const char *found = json_string_value(json_object_get(event, name));

    return found && strcmp(found, value) == 0;
}

static uint32_t count(const json_t *events, const char *name, const char *value)
{
    uint32_t found = 0;
    size_t i;
    json_t *event;

    json_array_foreach(events, i, event) found += is(event, name, value);
    return found;
}

/* Every arrow has one beginning and one end, in this order, and the slice it begins in. */
static void check_arrows(const json_t *events)
{
    size_t i, k;
    json_t *event, *other;

    json_array_foreach(events, i, event)
    {
        uint32_t ends = 0, slices = 0;

        if (!is(event, "ph", "s"))
            continue;
        json_array_foreach(events, k, other)
        {
            if (is(other, "ph", "f") && number(other, "id") == number(event, "id")) {
                ends++;
                assert_true(number(other, "ts") >= number(event, "ts"));
            }
            slices += is(other, "ph", "X") && number(other, "tid") == number(event, "tid") &&
                      number(other, "ts") == number(event, "ts");
        }
        assert_int_equal(ends, 1);
        assert_true(slices <= 1);
    }
}

/* Slices of one track do not overlap, and every track has a name. */
static void check_tracks(const json_t *events)
{
    static json_int_t busy_until[4096];
    static bool named[4096];
    size_t i;
    json_t *event;

    memset(busy_until, 0, sizeof(busy_until));
    memset(named, 0, sizeof(named));
    json_array_foreach(events, i, event)
    {
        json_int_t track = number(event, "tid");

        assert_in_range(track, 0, 4095);
        if (is(event, "ph", "M"))
            named[track] = true;
        if (!is(event, "ph", "X"))
            continue;
        assert_true(named[track]);
        assert_true(number(event, "ts") >= busy_until[track]);
        busy_until[track] = number(event, "ts") + number(event, "dur");
    }
}

static void test_a_trace_is_json_with_tracks_slices_and_arrows(void **state)
{
    chronicle_t *chronicle = record_tale();
    json_t *trace = trace_of(chronicle);
    const json_t *events = json_object_get(trace, "traceEvents");

    (void)state;
    assert_true(json_is_array(events));
    check_tracks(events);
    check_arrows(events);
    assert_int_equal(count(events, "name", "thread_name"),
                     chronicle->topology.actor_count + 8 /* devices */);
    assert_true(count(events, "name", "submit") >= 2 * 3); /* a slice and both ends of an arrow */
    assert_true(count(events, "name", "step") > 20);
    assert_true(count(events, "name", "copy") >= 2 * 4); /* each rank of decode, begun and ended */
    assert_int_equal(count(events, "name", "dead"), 1);
    json_decref(trace);
    chronicle_close(chronicle);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_what_is_no_story_is_refused_with_its_line),
        cmocka_unit_test(test_a_violation_is_made_small_and_stays_the_same),
        cmocka_unit_test(test_jobs_run_every_seed_once_and_name_the_lowest_that_violates),
        cmocka_unit_test(test_a_sequence_says_what_led_to_it_and_no_more),
        cmocka_unit_test(test_a_trace_is_json_with_tracks_slices_and_arrows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
