/* Probes: silent until switched on, then a line with every key; switched from another process by figures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/probe.h"
#include "runtime/figures.h"

static int ends[2];

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(pipe(ends), 0);
    log_open(ends[1], "");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_open(STDERR_FILENO, "");
    probe_switches_set(NULL);
    atomic_store(probe_switches(), 0);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return 0;
}

/* What was logged since; a mark in front of the end keeps the read from waiting. */
static const char *logged(void)
{
    static char text[4096];
    ssize_t count;

    log_write(LOG_INFO, "MARK");
    count = read(ends[0], text, sizeof(text) - 1);
    assert_true(count > 0);
    text[count] = '\0';
    return text;
}

static void test_a_probe_is_silent_until_it_is_switched_on(void **state)
{
    const char *text;

    (void)state;
    PROBE(stream_gap, 4, 7, 9);
    assert_null(strstr(logged(), "PROBE"));
    atomic_fetch_or(probe_switches(), UINT64_C(1) << PROBE_stream_gap);
    PROBE(stream_resume, 1, 2, 3);
    PROBE(stream_gap, 4, 7, 9);
    text = logged();
    assert_non_null(strstr(text, "PROBE stream_gap peer=4 received=7 first=9"));
    assert_null(strstr(text, "stream_resume"));
}

static void test_every_probe_has_a_name_and_a_text(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PROBE_COUNT; i++) {
        probe_t found = PROBE_COUNT;

        assert_true(probe_parse(probe_name((probe_t)i), &found));
        assert_int_equal(found, i);
        assert_true(strlen(probe_text((probe_t)i)) > 10);
    }
    assert_false(probe_parse("nobody", &(probe_t){0}));
}

static void test_another_process_switches_it_through_the_figures(void **state)
{
    const uint64_t bit = UINT64_C(1) << PROBE_copy_path;
    figures_t *figures = NULL;
    char prefix[64], path[96];
    struct stat info;

    (void)state;
    (void)snprintf(prefix, sizeof(prefix), "/lockstep-test-%d-", (int)getpid());
    assert_int_equal(figures_create(prefix, "rank/0", &figures), STATUS_OK);
    (void)snprintf(path, sizeof(path), "/dev/shm%srank.0", prefix);
    assert_int_equal(stat(path, &info), 0);
    assert_true((size_t)info.st_blocks * 512 >= sizeof(*figures)); /* no page of it is to come yet */
    figures_init(figures, 0, 1, "rank/0");
    probe_switches_set(&figures->probes);
    assert_false(probe_is_on(PROBE_copy_path));
    assert_int_equal(figures_probes_set(prefix, "rank/0", bit, 0), STATUS_OK);
    assert_true(probe_is_on(PROBE_copy_path));
    PROBE(copy_path, 1, 2, 3, 4, 5, 6);
    assert_non_null(strstr(logged(), "granularity=4 entries=5 page=6"));
    assert_int_equal(figures_probes_set(prefix, "rank/0", 0, bit), STATUS_OK);
    assert_false(probe_is_on(PROBE_copy_path));
    assert_int_equal(figures_probes_set(prefix, "rank/1", bit, 0), STATUS_NOT_FOUND);
    probe_switches_set(NULL);
    figures_close(figures);
    figures_unlink(prefix, "rank/0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_a_probe_is_silent_until_it_is_switched_on),
        TEST(test_every_probe_has_a_name_and_a_text),
        TEST(test_another_process_switches_it_through_the_figures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
