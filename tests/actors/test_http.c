/* A real socket on each side, one thread: the test turns the server's crank itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "actors/gateway/http.h"

enum {
    STREAM_BYTES = 1 << 20,
    TURNS_MAX = 100000,
    CONNECTIONS_MAX = 16,
    BODY_BYTES = 3 << 20,
    BODIES_BYTES = 8 << 20,
    LARGE_BYTES = 6 << 20 /* more than sockets hold for who does not read */
};

static const http_limits_t limits = {
    .connections = CONNECTIONS_MAX, .body_bytes = BODY_BYTES, .bodies_bytes = BODIES_BYTES};

typedef struct {
    http_t *http;
    http_exchange_t *waiting;
    char path[64];
    size_t body_bytes;
    unsigned requests;
    unsigned whole;
    unsigned cut;
    size_t stream_left;
    bool quiet; /* streams have nothing to say yet */
} world_t;

static void on_request(void *context, http_exchange_t *exchange, const char *method,
                       const char *path, const char *body, size_t body_bytes)
{
    world_t *world = context;

    (void)method;
    (void)body;
    world->requests++;
    world->body_bytes = body_bytes;
    snprintf(world->path, sizeof(world->path), "%s", path);
    if (strcmp(path, "/now") == 0) {
        http_answer(exchange, 200, "text/plain", "at once", 7);
    } else if (strcmp(path, "/large") == 0) {
        static char large[LARGE_BYTES];

        http_answer(exchange, 200, "text/plain", large, sizeof(large));
    } else if (strcmp(path, "/stream") == 0) {
        world->stream_left = STREAM_BYTES;
        http_stream_begin(exchange, 200, "text/event-stream");
    } else {
        world->waiting = exchange;
    }
}

static void on_more(void *context, http_exchange_t *exchange)
{
    world_t *world = context;
    static char block[4096];

    if (world->quiet)
        return;
    memset(block, 'x', sizeof(block));
    while (world->stream_left > 0 && http_stream_room(exchange) >= sizeof(block)) {
        http_stream_write(exchange, block, sizeof(block));
        world->stream_left -= sizeof(block);
    }
    if (world->stream_left == 0)
        http_stream_end(exchange);
}

static void on_done(void *context, http_exchange_t *exchange, bool whole)
{
    world_t *world = context;

    if (exchange == world->waiting)
        world->waiting = NULL;
    if (whole)
        world->whole++;
    else
        world->cut++;
}

static int setup(void **state)
{
    static const http_handlers_t handlers = {on_request, on_more, on_done};
    world_t *world = calloc(1, sizeof(*world));

    if (http_open("127.0.0.1", 0, &limits, &handlers, world, &world->http) != STATUS_OK)
        return -1;
    *state = world;
    return 0;
}

static int teardown(void **state)
{
    world_t *world = *state;

    http_close(world->http);
    free(world);
    return 0;
}

static void turn(world_t *world)
{
    struct pollfd watch = {http_descriptor(world->http), POLLIN, 0};
    uint64_t timeout_ms = http_timeout_ms(world->http);

    poll(&watch, 1, timeout_ms < 10 ? (int)timeout_ms : 10);
    http_run(world->http);
}

static int client(world_t *world, const char *request)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(http_port(world->http))};
    int descriptor = socket(AF_INET, SOCK_STREAM, 0);

    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(descriptor, (struct sockaddr *)&where, sizeof(where)), 0);
    assert_int_equal(send(descriptor, request, strlen(request), 0), strlen(request));
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
    return descriptor;
}

/* Turns until the answer holds `until` or the connection ends; returns the bytes read. */
static size_t read_until(world_t *world, int descriptor, const char *until, char *text, size_t size)
{
    size_t used = 0;

    for (int i = 0; i < TURNS_MAX && used + 1 < size; i++) {
        ssize_t bytes;

        turn(world);
        bytes = recv(descriptor, text + used, size - used - 1, 0);
        if (bytes == 0)
            break;
        if (bytes > 0)
            used += (size_t)bytes;
        text[used] = '\0';
        if (bytes > 0 && memmem(text, used, until, strlen(until)))
            break;
    }
    return used;
}

static void test_whole_answer_goes_out_at_once(void **state)
{
    world_t *world = *state;
    char text[1024];
    int descriptor =
        client(world, "POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");

    read_until(world, descriptor, "at once", text, sizeof(text));
    assert_non_null(strstr(text, "HTTP/1.1 200"));
    assert_non_null(strstr(text, "at once"));
    assert_int_equal(world->body_bytes, 4);
    turn(world);
    assert_int_equal(world->whole, 1);
    close(descriptor);
}

static void test_answer_may_come_later_and_names_when_to_retry(void **state)
{
    world_t *world = *state;
    char text[1024];
    int descriptor = client(world, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");

    for (int i = 0; i < TURNS_MAX && !world->waiting; i++)
        turn(world);
    assert_non_null(world->waiting);
    http_answer(world->waiting, 429, "application/json", "{}", 2);
    read_until(world, descriptor, "{}", text, sizeof(text));
    assert_non_null(strstr(text, "HTTP/1.1 429"));
    assert_non_null(strstr(text, "Retry-After: " HTTP_RETRY_AFTER));
    close(descriptor);
}

/* A body that could not be written whole is none: neither its beginning nor its status goes out. */
static void test_what_could_not_be_written_is_503(void **state)
{
    world_t *world = *state;
    char text[1024];
    int descriptor = client(world, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    text_buffer_t body;

    for (int i = 0; i < TURNS_MAX && !world->waiting; i++)
        turn(world);
    assert_non_null(world->waiting);
    text_buffer_init(&body, 8);
    text_put_text(&body, "{\"a\": ");
    text_put_text(&body, "\"too long\"}");
    http_answer_text(world->waiting, 200, "application/json", &body);
    read_until(world, descriptor, "code", text, sizeof(text));
    assert_non_null(strstr(text, "HTTP/1.1 503"));
    assert_non_null(strstr(text, "Retry-After: " HTTP_RETRY_AFTER));
    assert_non_null(strstr(text, "{\"error\": {"));
    assert_null(strstr(text, "{\"a\""));
    close(descriptor);
}

/* It may not look like a whole answer: the last chunk is missing. */
static void test_a_dropped_stream_has_no_end(void **state)
{
    world_t *world = *state;
    char text[1024];
    int descriptor = client(world, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");

    world->quiet = true;
    for (int i = 0; i < TURNS_MAX && !world->waiting; i++)
        turn(world);
    assert_non_null(world->waiting);
    http_stream_begin(world->waiting, 200, "text/event-stream");
    http_stream_write(world->waiting, "begun", 5);
    read_until(world, descriptor, "begun", text, sizeof(text));
    http_drop(world->waiting);
    for (int i = 0; i < TURNS_MAX && world->cut == 0; i++)
        turn(world);
    assert_int_equal(world->cut, 1);
    assert_true(recv(descriptor, text, sizeof(text), 0) <= 0);
    close(descriptor);
}

static void test_client_that_leaves_while_it_waits_is_seen(void **state)
{
    world_t *world = *state;
    int descriptor = client(world, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");

    for (int i = 0; i < TURNS_MAX && !world->waiting; i++)
        turn(world);
    assert_non_null(world->waiting);
    close(descriptor);
    for (int i = 0; i < TURNS_MAX && world->cut == 0; i++)
        turn(world);
    assert_int_equal(world->cut, 1);
    assert_null(world->waiting);
}

static void test_long_stream_reaches_a_slow_reader_in_bounded_memory(void **state)
{
    world_t *world = *state;
    static char text[2 * STREAM_BYTES];
    int descriptor = client(world, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    size_t used = read_until(world, descriptor, "\r\n0\r\n\r\n", text, sizeof(text)), count = 0;

    for (size_t i = 0; i < used; i++)
        count += text[i] == 'x';
    assert_in_range(count, STREAM_BYTES, STREAM_BYTES + 8); /* a header may hold the letter */
    turn(world);
    assert_int_equal(world->whole, 1);
    close(descriptor);
}

static void test_client_that_leaves_in_a_stream_is_seen(void **state)
{
    world_t *world = *state;
    char text[256];
    int descriptor = client(world, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");

    read_until(world, descriptor, "200", text, sizeof(text));
    close(descriptor);
    for (int i = 0; i < TURNS_MAX && world->cut == 0; i++)
        turn(world);
    assert_int_equal(world->cut, 1);
}

/* A keep-alive connection at rest must not keep the sockets of those who left. */
static void test_clients_that_leave_give_their_places_back_beside_an_idle_one(void **state)
{
    world_t *world = *state;
    char text[1024];
    int idle = client(world, "GET /now HTTP/1.1\r\nHost: a\r\n\r\n");

    read_until(world, idle, "at once", text, sizeof(text));
    world->quiet = true;
    for (unsigned left = 0; left < 2 * CONNECTIONS_MAX; left++) {
        int descriptor = client(world, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");

        text[0] = '\0';
        for (int i = 0; i < 100 && !strstr(text, "200"); i++) {
            ssize_t bytes;

            turn(world);
            bytes = recv(descriptor, text, sizeof(text) - 1, 0);
            text[bytes > 0 ? bytes : 0] = '\0';
        }
        assert_non_null(strstr(text, "200"));
        close(descriptor);
        for (int i = 0; i < TURNS_MAX && world->cut == left; i++)
            turn(world);
        assert_int_equal(world->cut, left + 1);
    }
    close(idle);
}

static void test_body_over_the_limit_is_refused_with_413(void **state)
{
    world_t *world = *state;
    char text[1024];
    static char block[1 << 20];
    int descriptor =
        client(world, "POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 3145729\r\n\r\n");
    size_t sent = 0;

    memset(block, 'b', sizeof(block));
    while (sent < BODY_BYTES + 1) {
        size_t left = BODY_BYTES + 1 - sent;
        ssize_t bytes = send(descriptor, block, left < sizeof(block) ? left : sizeof(block), 0);

        if (bytes > 0)
            sent += (size_t)bytes;
        turn(world);
    }
    read_until(world, descriptor, "too large", text, sizeof(text));
    assert_non_null(strstr(text, "HTTP/1.1 413"));
    assert_int_equal(world->requests, 0);
    close(descriptor);
}

/* What two servers in a row could understand in two ways, and what cannot be taken, is refused with the
 * head, and the connection closed. */
static void test_heads_that_cannot_be_taken_are_refused(void **state)
{
    static const struct {
        const char *request;
        const char *status;
    } rows[] = {
        {"POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nbody",
         " 400 "},
        {"POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\nbody",
         " 400 "},
        {"POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: "
         "chunked\r\n\r\n0\r\n\r\n",
         " 400 "},
        {"GET /now HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", " 400 "},
        {"GET /now HTTP/1.1\r\n\r\n", " 400 "},
        {"POST /now HTTP/1.1\r\nHost: a\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nbody",
         " 415 "},
        {"POST /now HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3145729\r\n\r\n",
         " 413 "},
        {"POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999\r\n\r\n", " 413 "},
    };
    world_t *world = *state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[1024] = "";
        int descriptor = client(world, rows[i].request);

        read_until(world, descriptor, "no such text: to the end", text, sizeof(text));
        if (!strstr(text, rows[i].status) || strstr(text, " 100 ") || !strstr(text, "\"error\""))
            fail_msg("%s\n%s", rows[i].request, text);
        assert_int_equal(world->requests, 0);
        close(descriptor);
    }
}

static void test_targets_have_two_forms(void **state)
{
    static const struct {
        const char *target;
        const char *path;
    } rows[] = {{"/a/b", "/a/b"},  {"http://x/a/b", "/a/b"}, {"HTTPS://x:1/a", "/a"},
                {"http://x", "/"}, {"http:/x", "http:/x"},   {"/http://x/a", "/http://x/a"}};
    world_t *world = *state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char request[128];
        int descriptor;

        (void)snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: y\r\n\r\n",
                       rows[i].target);
        descriptor = client(world, request);
        for (int n = 0; n < TURNS_MAX && world->requests == i; n++)
            turn(world);
        assert_string_equal(world->path, rows[i].path);
        close(descriptor);
    }
}

static void test_every_answer_names_its_request(void **state)
{
    static const struct {
        const char *header;
        const char *expected;
    } rows[] = {{"x-request-id: abc-1\r\n", "x-request-id: abc-1\r\n"},
                {"X-Request-Id: a b\r\n", "x-request-id: req-"},
                {"", "x-request-id: req-"}};
    world_t *world = *state;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char request[128], text[1024] = "";
        int descriptor;

        (void)snprintf(request, sizeof(request), "GET /now HTTP/1.1\r\nHost: y\r\n%s\r\n",
                       rows[i].header);
        descriptor = client(world, request);
        read_until(world, descriptor, "at once", text, sizeof(text));
        assert_non_null(strstr(text, rows[i].expected));
        assert_null(strstr(text, "Access-Control"));
        close(descriptor);
    }
}

/* Of pages of origins that were named, and of no others. */
static void test_pages_of_named_origins_may_ask(void **state)
{
    static const http_handlers_t handlers = {on_request, on_more, on_done};
    static const struct {
        const char *origins, *origin;
        bool allowed;
    } rows[] = {{"*", "http://a.b", true},
                {"http://c.d http://a.b", "http://a.b", true},
                {"http://c.d http://a.b", "http://a", false},
                {"http://a.b", "http://a.bc", false},
                {"", "http://a.b", false}};

    (void)state;
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        http_limits_t with = limits;
        world_t world = {0};
        char request[256], text[1024] = "";
        bool preflight = i % 2;
        int descriptor;

        with.origins = rows[i / 2].origins;
        assert_int_equal(http_open("127.0.0.1", 0, &with, &handlers, &world, &world.http),
                         STATUS_OK);
        (void)snprintf(request, sizeof(request),
                       "%s /now HTTP/1.1\r\nHost: y\r\nOrigin: %s\r\n%s\r\n",
                       preflight ? "OPTIONS" : "GET", rows[i / 2].origin,
                       preflight ? "Access-Control-Request-Method: POST\r\n"
                                   "Access-Control-Request-Headers: content-type\r\n"
                                 : "");
        descriptor = client(&world, request);
        read_until(&world, descriptor, "\r\n\r\n", text, sizeof(text));
        assert_int_equal(strstr(text, "Access-Control-Allow-Origin: ") != NULL,
                         rows[i / 2].allowed);
        assert_int_equal(strstr(text, "Access-Control-Allow-Headers: content-type") != NULL,
                         preflight && rows[i / 2].allowed);
        assert_int_equal(strstr(text, " 204 ") != NULL, preflight && rows[i / 2].allowed);
        close(descriptor);
        http_close(world.http);
    }
}

/* Half of a request and then an end: there is nothing to wait for. */
static void test_an_end_inside_a_request_is_seen_beside_an_idle_client(void **state)
{
    static const char *const halves[] = {"G", "GET /now HTTP/1.1\r\nHo",
                                         "POST /now HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf"};
    world_t *world = *state;
    char text[1024];
    int idle = client(world, "GET /now HTTP/1.1\r\nHost: a\r\n\r\n");

    read_until(world, idle, "at once", text, sizeof(text));
    for (unsigned i = 0; i < 4 * CONNECTIONS_MAX; i++) {
        int descriptor = client(world, halves[i % COUNT_OF(halves)]);

        if (i % 2)
            turn(world);
        close(descriptor);
    }
    for (int i = 0; i < 1000 && http_connections(world->http) > 1; i++)
        turn(world);
    assert_int_equal(http_connections(world->http), 1);
    assert_int_equal(world->requests, 1);
    close(idle);
}

/* Who holds a place and asks for nothing keeps nobody out; who waits for an answer keeps his. */
static void test_the_connection_longest_at_rest_makes_room(void **state)
{
    world_t *world = *state;
    int waiting = client(world, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");
    int resting[2 * CONNECTIONS_MAX];
    char text[1024];
    int last;

    for (int i = 0; i < TURNS_MAX && !world->waiting; i++)
        turn(world);
    for (unsigned i = 0; i < COUNT_OF(resting); i++) {
        resting[i] = client(world, "GET /now HTTP/1.1\r\nHo");
        turn(world);
    }
    last = client(world, "GET /now HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(world, last, "at once", text, sizeof(text));
    assert_non_null(strstr(text, "at once"));
    assert_int_equal(recv(resting[0], text, sizeof(text), 0), 0);
    assert_non_null(world->waiting);
    http_answer(world->waiting, 200, "text/plain", "later", 5);
    read_until(world, waiting, "later", text, sizeof(text));
    assert_non_null(strstr(text, "later"));
    for (unsigned i = 0; i < COUNT_OF(resting); i++)
        close(resting[i]);
    close(waiting);
    close(last);
}

static void test_who_does_not_read_keeps_nobody_out(void **state)
{
    world_t *world = *state;
    int deaf[2 * CONNECTIONS_MAX], last;
    char text[1024];

    for (unsigned i = 0; i < COUNT_OF(deaf); i++) {
        deaf[i] = client(world, "GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        for (int n = 0; n < TURNS_MAX && world->requests <= i; n++)
            turn(world);
    }
    last = client(world, "GET /now HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(world, last, "at once", text, sizeof(text));
    assert_non_null(strstr(text, "at once"));
    assert_int_equal(world->requests, COUNT_OF(deaf) + 1);
    for (unsigned i = 0; i < COUNT_OF(deaf); i++)
        close(deaf[i]);
    close(last);
}

/* Bodies that never become whole hold only so much memory, and who goes on gets through. */
static void test_the_body_longest_at_rest_makes_room(void **state)
{
    static const char head[] = "POST /now HTTP/1.1\r\nHost: a\r\nContent-Length: 2097152\r\n\r\n";
    static char block[1 << 20];
    world_t *world = *state;
    int halves[8], last;
    char text[1024];

    memset(block, 'b', sizeof(block));
    for (unsigned i = 0; i <= COUNT_OF(halves); i++) {
        int descriptor = client(world, head);
        size_t left = i < COUNT_OF(halves) ? sizeof(block) : 2 * sizeof(block);

        while (left > 0) {
            ssize_t bytes = send(descriptor, block, left < sizeof(block) ? left : sizeof(block), 0);

            left -= bytes > 0 ? (size_t)bytes : 0;
            turn(world);
        }
        *(i < COUNT_OF(halves) ? &halves[i] : &last) = descriptor;
    }
    read_until(world, last, "at once", text, sizeof(text));
    assert_non_null(strstr(text, "at once"));
    assert_int_equal(world->body_bytes, 2 * sizeof(block));
    assert_int_equal(recv(halves[0], text, sizeof(text), 0), 0);
    assert_int_equal(recv(halves[COUNT_OF(halves) - 1], text, sizeof(text), 0), -1); /* goes on */
    assert_in_range(http_connections(world->http), 2, 5);
    for (unsigned i = 0; i < COUNT_OF(halves); i++)
        close(halves[i]);
    close(last);
}

/* Idle clients take no more than leave some for others, here for the clients' own ends. */
static void test_descriptors_do_not_run_out_first(void **state)
{
    static const http_handlers_t handlers = {on_request, on_more, on_done};
    const http_limits_t many = {.connections = 1000, .descriptors = 100};
    world_t *world = *state;
    struct rlimit files, few;
    int idle[60], last;
    char text[1024];

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    few = files;
    few.rlim_cur = 120;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    http_close(world->http);
    assert_int_equal(http_open("127.0.0.1", 0, &many, &handlers, world, &world->http), STATUS_OK);
    for (unsigned i = 0; i < COUNT_OF(idle); i++) {
        idle[i] = client(world, "GET /now HTTP/1.1\r\nHo");
        turn(world);
    }
    assert_in_range(http_connections(world->http), 10, 20);
    last = client(world, "GET /now HTTP/1.1\r\nHost: a\r\n\r\n");
    read_until(world, last, "at once", text, sizeof(text));
    assert_non_null(strstr(text, "at once"));
    for (unsigned i = 0; i < COUNT_OF(idle); i++)
        close(idle[i]);
    close(last);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

static void test_closing_ends_what_waits(void **state)
{
    world_t *world = *state;
    static const http_handlers_t handlers = {on_request, on_more, on_done};
    int descriptor = client(world, "GET /later HTTP/1.1\r\nHost: a\r\n\r\n");

    for (int i = 0; i < TURNS_MAX && !world->waiting; i++)
        turn(world);
    http_close(world->http);
    assert_int_equal(world->cut, 1);
    close(descriptor);
    assert_int_equal(http_open("127.0.0.1", 0, &limits, &handlers, world, &world->http), STATUS_OK);
}

/* Else two deployments of one user would share a port, and each get some of the other's clients. */
static void test_port_is_taken_once(void **state)
{
    world_t *world = *state;
    static const http_handlers_t handlers = {on_request, on_more, on_done};
    const uint16_t port = http_port(world->http);
    http_t *other;

    assert_int_equal(http_open("127.0.0.1", port, &limits, &handlers, world, &other), STATUS_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole_answer_goes_out_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answer_may_come_later_and_names_when_to_retry, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_could_not_be_written_is_503, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_dropped_stream_has_no_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_client_that_leaves_while_it_waits_is_seen, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_long_stream_reaches_a_slow_reader_in_bounded_memory,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_client_that_leaves_in_a_stream_is_seen, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            test_clients_that_leave_give_their_places_back_beside_an_idle_one, setup, teardown),
        cmocka_unit_test_setup_teardown(test_heads_that_cannot_be_taken_are_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_targets_have_two_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_answer_names_its_request, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pages_of_named_origins_may_ask, setup, teardown),
        cmocka_unit_test_setup_teardown(test_body_over_the_limit_is_refused_with_413, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_an_end_inside_a_request_is_seen_beside_an_idle_client,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_connection_longest_at_rest_makes_room, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_who_does_not_read_keeps_nobody_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_body_longest_at_rest_makes_room, setup, teardown),
        cmocka_unit_test_setup_teardown(test_descriptors_do_not_run_out_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closing_ends_what_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_port_is_taken_once, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
