/* The transport against peers that say too much, or where nobody is. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <zmq.h>

#include "runtime/base/log.h"
#include "runtime/transport.h"

enum { OBSERVER = ACTORS_MAX + 7, PATIENCE_MS = 10000 };

typedef struct {
    char folder[64];
    char endpoint[ENDPOINT_BYTES_MAX];
    endpoints_t endpoints;
    transport_t *transport;
    void *context;
    size_t got;   /* bytes of the last frame */
    pid_t sender; /* of it */
} place_t;

static void set_up(place_t *p)
{
    memset(p, 0, sizeof(*p));
    snprintf(p->folder, sizeof(p->folder), "/tmp/lockstep-transport-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->endpoint, sizeof(p->endpoint), "ipc://%s/in.ipc", p->folder);
    assert_int_equal(transport_open_at(NULL, &p->endpoints, p->endpoint, &p->transport), STATUS_OK);
    p->context = zmq_ctx_new();
    assert_non_null(p->context);
}

static void tear_down(place_t *p)
{
    transport_close(p->transport);
    assert_int_equal(zmq_ctx_term(p->context), 0);
    assert_int_equal(rmdir(p->folder), 0);
}

static void on_frame(void *context, const uint8_t *frame, size_t size)
{
    (void)frame;
    place_t *p = context;

    p->got = size;
    p->sender = transport_sender(p->transport);
}

/* Sends a frame of `size` bytes on a connection of its own, which stays. */
static void *say(place_t *p, size_t size)
{
    void *socket = zmq_socket(p->context, ZMQ_PUSH);
    const int linger = 0;
    uint8_t *frame = calloc(1, size);

    assert_non_null(socket);
    assert_non_null(frame);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger)), 0);
    assert_int_equal(zmq_connect(socket, p->endpoint), 0);
    assert_int_equal(zmq_send(socket, frame, size, 0), (int)size);
    free(frame);
    return socket;
}

static size_t take(place_t *p)
{
    zmq_pollitem_t item = {.fd = transport_descriptor(p->transport), .events = ZMQ_POLLIN};

    p->got = 0;
    while (transport_receive(p->transport, 1, on_frame, p) == 0)
        assert_int_equal(zmq_poll(&item, 1, PATIENCE_MS), 1);
    return p->got;
}

/* Sends on `socket` a frame above the limit; the other side must end the connection. */
static void say_too_much(place_t *p, void *socket)
{
    static const uint8_t frame[FRAME_BYTES_MAX + 1] = {0};
    void *events = zmq_socket(p->context, ZMQ_PAIR);
    const int patience = PATIENCE_MS;
    char event[64];

    assert_int_equal(zmq_socket_monitor(socket, "inproc://events", ZMQ_EVENT_DISCONNECTED), 0);
    assert_int_equal(zmq_setsockopt(events, ZMQ_RCVTIMEO, &patience, sizeof(patience)), 0);
    assert_int_equal(zmq_connect(events, "inproc://events"), 0);
    assert_int_equal(zmq_send(socket, frame, sizeof(frame), 0), sizeof(frame));
    assert_true(zmq_recv(events, event, sizeof(event), 0) > 0);
    assert_int_equal(zmq_close(events), 0);
}

static void test_a_frame_above_the_limit_is_not_taken(void **state)
{
    place_t place;
    void *large, *small;

    (void)state;
    set_up(&place);
    large = say(&place, FRAME_BYTES_MAX);
    assert_int_equal(take(&place), FRAME_BYTES_MAX);
    say_too_much(&place, large);
    small = say(&place, 5);
    assert_int_equal(take(&place), 5);
    zmq_close(large);
    zmq_close(small);
    tear_down(&place);
}

/* Each frame of an observer repeats where it receives. One whose endpoint is none must neither fill
 * the log nor take the places of the others. */
static void test_an_endpoint_that_is_none_is_tried_once(void **state)
{
    char lines[4 * LOG_LINE_BYTES_MAX], good[ENDPOINT_BYTES_MAX + 16];
    const uint8_t hello = 1;
    place_t place;
    ssize_t size;
    void *inward;
    int ends[2];

    (void)state;
    set_up(&place);
    inward = zmq_socket(place.context, ZMQ_PULL);
    snprintf(good, sizeof(good), "ipc://%s/good.ipc", place.folder);
    assert_int_equal(zmq_bind(inward, good), 0);
    assert_int_equal(pipe(ends), 0);
    transport_observer(place.transport, OBSERVER, good);
    log_open(ends[1], "");
    for (int i = 0; i < 2 * OBSERVERS_MAX; i++)
        transport_observer(place.transport, OBSERVER + 1, "no-endpoint");
    log_open(2, "");
    close(ends[1]);
    size = read(ends[0], lines, sizeof(lines) - 1);
    assert_true(size > 0);
    assert_ptr_equal(memchr(lines, '\n', (size_t)size), &lines[size - 1]); /* one line */
    close(ends[0]);

    for (int i = 0; !transport_send(place.transport, OBSERVER, &hello, 1); i++)
        assert_true(i < PATIENCE_MS && zmq_poll(NULL, 0, 1) == 0); /* it still connects */
    zmq_close(inward);
    snprintf(good, sizeof(good), "%s/good.ipc", place.folder);
    (void)unlink(good);
    tear_down(&place);
}

/* As another process, until it is killed: its frame may be on the way. */
static int speak_to(const char *endpoint)
{
    void *out = zmq_socket(zmq_ctx_new(), ZMQ_PUSH);

    if (zmq_connect(out, endpoint) == 0 && zmq_send(out, "12345", 5, 0) == 5)
        pause();
    return 1;
}

/* Whatever a frame says: the kernel knows whose it is. */
static void test_a_frame_is_known_by_its_process(void **state)
{
    place_t place;
    void *socket;
    pid_t child;

    (void)state;
    set_up(&place);
    socket = say(&place, 3);
    assert_int_equal(take(&place), 3);
    assert_int_equal(place.sender, getpid());
    zmq_close(socket);
    child = fork();
    if (child == 0) { /* threads start after exec only: ThreadSanitizer wants it so */
        (void)execl("/proc/self/exe", "test_transport", place.endpoint, (char *)NULL);
        _exit(1);
    }
    assert_int_equal(take(&place), 5);
    assert_int_equal(place.sender, child);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    tear_down(&place);
}

/* Within one process ZeroMQ keeps what is for an endpoint that nobody has bound yet: so many frames
 * and no more. P25 T12 of docs/bugs.md. */
static void test_what_nobody_reads_has_a_bound(void **state)
{
    static endpoints_t endpoints;
    void *context = zmq_ctx_new();
    transport_t *transport;
    uint32_t sent = 0;

    (void)state;
    snprintf(endpoints.at[0], ENDPOINT_BYTES_MAX, "inproc://self");
    snprintf(endpoints.at[1], ENDPOINT_BYTES_MAX, "inproc://nobody");
    assert_int_equal(transport_open(context, &endpoints, 0, &transport), STATUS_OK);
    while (sent <= PEER_FRAMES_MAX && transport_send(transport, 1, (const uint8_t *)"hello", 5))
        sent++;
    assert_in_range(sent, 1, PEER_FRAMES_MAX);
    transport_close(transport);
    assert_int_equal(zmq_ctx_term(context), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_frame_above_the_limit_is_not_taken),
        cmocka_unit_test(test_an_endpoint_that_is_none_is_tried_once),
        cmocka_unit_test(test_a_frame_is_known_by_its_process),
        cmocka_unit_test(test_what_nobody_reads_has_a_bound),
    };

    if (argc == 2)
        return speak_to(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
