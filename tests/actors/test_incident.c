/* What is kept of a life that ended badly, in real folders. */
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

#include "actors/supervisor/incident.h"
#include "messages/message.h"
#include "runtime/journal.h"

enum { GATEWAY = 1, SECRET = 0x00077315, PATH = 512 };

static const roster_t roster = {.count = 2,
                                .actors = {{"supervisor/0", ACTOR_SUPERVISOR, ACTOR_NONE, 0},
                                           {"gateway/0", ACTOR_GATEWAY, ACTOR_NONE, 0}}};
static char root[PATH / 4], folder[PATH / 2], prefix[64];

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/incident-XXXXXX");
    snprintf(prefix, sizeof(prefix), "/lockstep-test-%d-", (int)getpid());
    if (!mkdtemp(root))
        return -1;
    snprintf(folder, sizeof(folder), "%s/incidents", root);
    return 0;
}

static int tear_down(void **state)
{
    char command[PATH];

    (void)state;
    snprintf(command, sizeof(command), "rm -r %s", root);
    return system(command);
}

static incident_place_t place(void)
{
    return (incident_place_t){folder, root, prefix, &roster, &message_table, NULL};
}

static const char *in(const char *where, const char *leaf)
{
    static char path[2 * PATH];

    snprintf(path, sizeof(path), "%s/%s", where, leaf);
    return path;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static size_t read_file(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "r");
    size_t bytes;

    assert_non_null(file);
    bytes = fread(text, 1, size - 1, file);
    text[bytes] = '\0';
    fclose(file);
    return bytes;
}

/* A request of twelve equal tokens, as the client port gave it. */
static ring_t *make_ring(void)
{
    uint32_t prompt[12];
    uint8_t body[512];
    message_client_request_t m = {.client = 41, .prompt = {prompt, 12}};
    ring_record_t record = {.us = 7000000,
                            .peer = PORT_CLIENT,
                            .id = MESSAGE_client_request,
                            .what = RING_PORT_RECEIVED};
    ring_t *ring = NULL;
    size_t used = 0;

    for (uint32_t i = 0; i < 12; i++)
        prompt[i] = SECRET;
    assert_int_equal(message_encode(MESSAGE_client_request, &m, body, sizeof(body), &used),
                     STATUS_OK);
    record.size = (uint32_t)used;
    assert_int_equal(ring_create(prefix, "gateway/0", &ring), STATUS_OK);
    ring_write(ring, &record, body);
    return ring;
}

static void test_frames_are_kept_as_text_without_token_ids(void **state)
{
    incident_place_t where = place();
    incident_t incident = {0};
    ring_t *ring = make_ring();
    char text[4096], secret[32];

    (void)state;
    incident_begin(&where, GATEWAY, 3, &incident);
    ring_close(ring); /* the next life makes its own */
    ring_unlink(prefix, "gateway/0");
    incident_end(&where, &incident);
    read_file(in(folder, "000001-gateway.0-3/gateway.0.frames"), text, sizeof(text));
    assert_non_null(strstr(text, "  7.000000 client > gateway/0 client_request{client=41"));
    assert_non_null(strstr(text, "prompt=[12 "));
    snprintf(secret, sizeof(secret), "%d", SECRET);
    assert_null(strstr(text, secret));
}

static void test_journals_of_that_life_move_and_those_of_others_stay(void **state)
{
    incident_place_t where = place();
    incident_t incident = {0};
    char text[64];

    (void)state;
    write_file(in(root, "gateway.0-3-000007.journal"), "seven");
    write_file(in(root, "gateway.0-3-000008.journal"), "eight");
    write_file(in(root, "gateway.0-33-000000.journal"), "another life");
    incident_begin(&where, GATEWAY, 3, &incident);
    incident_end(&where, &incident);
    read_file(in(folder, "000001-gateway.0-3/gateway.0-3-000008.journal"), text, sizeof(text));
    assert_string_equal(text, "eight");
    read_file(in(folder, "000001-gateway.0-3/gateway.0-3-000007.journal"), text, sizeof(text));
    assert_string_equal(text, "seven");
    assert_int_not_equal(access(in(root, "gateway.0-3-000007.journal"), F_OK), 0);
    assert_int_equal(access(in(root, "gateway.0-33-000000.journal"), F_OK), 0);
    incident_none(&where, GATEWAY, 33);
    assert_int_not_equal(access(in(root, "gateway.0-33-000000.journal"), F_OK), 0);
}

static void test_only_the_last_ones_are_kept_and_numbers_go_on(void **state)
{
    incident_place_t where = place();
    char name[64];

    (void)state;
    for (incarnation_t life = 1; life <= INCIDENTS_MAX + 3; life++) {
        incident_t incident = {0};

        snprintf(name, sizeof(name), "gateway.0-%u-000000.journal", life);
        write_file(in(root, name), "");
        incident_begin(&where, GATEWAY, life, &incident);
        incident_end(&where, &incident);
    }
    assert_int_not_equal(access(in(folder, "000003-gateway.0-3"), F_OK), 0);
    assert_int_equal(access(in(folder, "000004-gateway.0-4"), F_OK), 0);
    snprintf(name, sizeof(name), "%06u-gateway.0-%u", INCIDENTS_MAX + 3, INCIDENTS_MAX + 3);
    assert_int_equal(access(in(folder, name), F_OK), 0);
}

static void test_of_a_life_that_goes_on_all_is_copied_and_stays(void **state)
{
    static const incarnation_t lives[] = {0, 3};
    incident_place_t where = place();
    ring_t *ring = make_ring();
    char text[4096];

    (void)state;
    write_file(in(root, "gateway.0-3-000008.journal"), "eight");
    incident_copy(&where, GATEWAY, lives);
    read_file(in(folder, "000001-gateway.0-3/gateway.0.frames"), text, sizeof(text));
    assert_non_null(strstr(text, "client_request{client=41"));
    read_file(in(folder, "000001-gateway.0-3/gateway.0-3-000008.journal"), text, sizeof(text));
    assert_string_equal(text, "eight");
    assert_int_equal(access(in(root, "gateway.0-3-000008.journal"), F_OK), 0);
    ring_close(ring);
    ring_unlink(prefix, "gateway/0");
}

static void test_what_cannot_be_kept_is_no_reason_to_fail(void **state)
{
    incident_place_t where = place();
    incident_t incident = {0};

    (void)state;
    where.folder = "/nowhere/at/all";
    write_file(in(root, "gateway.0-1-000000.journal"), "");
    incident_begin(&where, GATEWAY, 1, &incident);
    incident_end(&where, &incident);
    assert_int_not_equal(access(in(root, "gateway.0-1-000000.journal"), F_OK), 0);
    where.folder = NULL;
    incident_begin(&where, GATEWAY, 1, &incident);
    incident_end(&where, &incident);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_frames_are_kept_as_text_without_token_ids),
        TEST(test_journals_of_that_life_move_and_those_of_others_stay),
        TEST(test_only_the_last_ones_are_kept_and_numbers_go_on),
        TEST(test_of_a_life_that_goes_on_all_is_copied_and_stays),
        TEST(test_what_cannot_be_kept_is_no_reason_to_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
