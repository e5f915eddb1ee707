/* The monitor: what its port reports, it shows to whoever watches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "actors/monitor/host.h"
#include "actors/monitor/monitor.h"
#include "runtime/figures.h"
#include "tests/actors/scene.h"

enum { OBSERVER = OBSERVER_FIRST + 3 };

static scene_t *scene;

static int set_up(void **state)
{
    (void)state;
    scene = scene_open(&monitor_type, ACTOR_MONITOR, 1, 1, 2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scene_close(scene);
    return 0;
}

static text_view_t text(const char *chars)
{
    return (text_view_t){chars, (uint32_t)strlen(chars)};
}

static void test_every_pair_is_decided(void **state)
{
    (void)state;
    assert_int_equal(actor_type_check(&monitor_type, &message_table, stderr), 0);
}

static void test_who_was_never_seen_is_shown_as_not_running(void **state)
{
    const message_watch_t watch = {0};
    const message_mailboxes_t *m;

    (void)state;
    scene_send(scene, OBSERVER, MESSAGE_watch, &watch);
    m = scene_take(scene, OBSERVER, MESSAGE_mailboxes);
    assert_int_equal(m->mailboxes.count, scene->topology.actor_count);
    for (uint32_t i = 0; i < m->mailboxes.count; i++)
        assert_int_equal(m->mailboxes.data[i].incarnation, 0);
}

static void test_the_last_report_is_shown(void **state)
{
    record_mailbox_t reports[2] = {{.actor = text("decode/0"), .incarnation = 1, .depth = 7},
                                   {.actor = text("nobody/0"), .incarnation = 1}};
    const message_figures_t figures = {.mailboxes = {reports, 2}};
    const message_watch_t watch = {.actor = text("decode/0")};
    const message_mailboxes_t *m;

    (void)state;
    reports[0].state = text("starting");
    scene_send(scene, PORT_FIGURES, MESSAGE_figures, &figures);
    reports[0].state = text("up");
    reports[0].depth = 3;
    scene_send(scene, PORT_FIGURES, MESSAGE_figures, &figures);
    scene_send(scene, OBSERVER, MESSAGE_watch, &watch);
    m = scene_take(scene, OBSERVER, MESSAGE_mailboxes);
    assert_int_equal(m->mailboxes.count, 1);
    assert_int_equal(m->mailboxes.data[0].depth, 3);
    assert_int_equal(m->mailboxes.data[0].state.count, 2);
    assert_memory_equal(m->mailboxes.data[0].state.data, "up", 2);
}

/* A journal holds states against each other byte by byte: they may hold nothing but what was said. */
static void test_its_state_does_not_depend_on_where_a_report_lay(void **state)
{
    const size_t bytes = scene->dispatch.self_bytes;
    uint8_t *first = malloc(bytes);
    record_mailbox_t reports[2];
    char up[] = "up";

    (void)state;
    assert_non_null(first);
    for (int i = 0; i < 2; i++) {
        const message_figures_t figures = {.mailboxes = {&reports[i], 1}};

        memset(&reports[i], i ? 0xaa : 0x55, sizeof(reports[i]));
        reports[i].actor = text("decode/0");
        reports[i].state = (text_view_t){i ? up : "up", 2};
        reports[i].incarnation = reports[i].process = 1;
        reports[i].depth = reports[i].depth_max = 2;
        reports[i].oldest_us = reports[i].received = 3;
        reports[i].refused = reports[i].malformed = reports[i].progress = 4;
        scene_send(scene, PORT_FIGURES, MESSAGE_figures, &figures);
        if (i == 0)
            memcpy(first, scene->dispatch.self, bytes);
    }
    assert_memory_equal(first, scene->dispatch.self, bytes);
    free(first);
}

static void test_a_name_that_is_nobodys_is_answered_with_nothing(void **state)
{
    const message_watch_t watch = {.actor = text("decode/77")};
    const message_mailboxes_t *m;

    (void)state;
    scene_send(scene, OBSERVER, MESSAGE_watch, &watch);
    m = scene_take(scene, OBSERVER, MESSAGE_mailboxes);
    assert_int_equal(m->mailboxes.count, 0);
}

static void test_a_report_reads_figures_of_a_living_process(void **state)
{
    const actor_id_t decode = scene_actor(scene, ACTOR_DECODE, 0);
    char prefix[64], name[STATE_NAME_BYTES_MAX];
    const host_setup_t setup = {&scene->roster, 0, prefix};
    record_mailbox_t report;
    figures_t *figures = NULL;

    (void)state;
    (void)snprintf(prefix, sizeof(prefix), "/lockstep-test-%d-", (int)getpid());
    trail_reset();
    host_report(&setup, decode, name, &report);
    assert_int_equal(report.incarnation, 0);
    assert_int_equal(figures_create(prefix, "decode/0", &figures), STATUS_OK);
    figures_init(figures, decode, 5, "decode/0");
    (void)snprintf(figures->state_names[0], STATE_NAME_BYTES_MAX, "up");
    figure_set(&figures->depth, 2);
    figure_set(&figures->oldest_us, 1);
    host_report(&setup, decode, name, &report);
    assert_int_equal(report.incarnation, 5);
    assert_int_equal(report.process, getpid());
    assert_int_equal(report.depth, 2);
    assert_true(report.oldest_us > 0);
    assert_string_equal(name, "up");
    figure_set(&figures->process, 0x7ffffff0); /* a process that is gone */
    host_report(&setup, decode, name, &report);
    assert_int_equal(report.incarnation, 0);
    figures_close(figures);
    figures_unlink(prefix, "decode/0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_every_pair_is_decided),
        TEST(test_who_was_never_seen_is_shown_as_not_running),
        TEST(test_the_last_report_is_shown),
        TEST(test_its_state_does_not_depend_on_where_a_report_lay),
        TEST(test_a_name_that_is_nobodys_is_answered_with_nothing),
        TEST(test_a_report_reads_figures_of_a_living_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
