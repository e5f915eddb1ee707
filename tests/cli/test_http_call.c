/* test_http_call.c - URLs as people write them, and answers that a server cuts where it likes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/http_call.h"
#include "runtime/base/check.h"
#include "runtime/base/random.h"

static void expect_url(const char *text, const char *host, const char *port, const char *base)
{
    http_url_t url;

    assert_int_equal(http_url_parse(text, &url), STATUS_OK);
    assert_string_equal(url.host, host);
    assert_string_equal(url.port, port);
    assert_string_equal(url.base, base);
}

static void test_urls(void **state)
{
    static const char *const wrong[] = {
        "",          "http://",      "https://h",     "http://:80",    "h:x",      "h:",
        "http://[::1", "http://[::1]x", "http://a b/",   "http://h/\x01",  "h:123456789", "[]:1",
    };
    char text[2 * HTTP_URL_BYTES_MAX];
    http_url_t url;

    (void)state;
    expect_url("http://localhost:8000/v1", "localhost", "8000", "/v1");
    expect_url("HTTP://localhost/", "localhost", "80", "");
    expect_url("127.0.0.1:8000", "127.0.0.1", "8000", "");
    expect_url("http://[::1]:9/a/b//", "::1", "9", "/a/b");
    expect_url("[::1]/a:b", "::1", "80", "/a:b");
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        assert_int_not_equal(http_url_parse(wrong[i], &url), STATUS_OK);
    memset(text, 'h', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(http_url_parse(text, &url), STATUS_INVALID);
}

/* What events said, and how the call ended. */
typedef struct {
    char said[4096];
    char body[4096];
    unsigned status;
    http_call_state_t state;
} result_t;

static void on_event(void *context, const char *data)
{
    result_t *result = context;
    size_t used = strlen(result->said);

    snprintf(result->said + used, sizeof(result->said) - used, "[%s]", data);
}

/* The answer arrives in pieces of `piece` bytes (0: of random sizes), then the connection ends. */
static void receive(const char *answer, size_t bytes, size_t piece, result_t *result)
{
    int pair[2];
    http_call_t call = {.descriptor = -1};
    size_t sent = 0;
    random_t random;

    *result = (result_t){.state = HTTP_CALL_OPEN};
    random_init(&random, bytes);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    call.descriptor = pair[0];
    text_buffer_init(&call.line, 16 << 10);
    text_buffer_init(&call.body, HTTP_CALL_BODY_BYTES_MAX);
    while (sent < bytes && result->state == HTTP_CALL_OPEN) {
        size_t part = piece ? piece : 1 + (size_t)random_below(&random, 40);

        part = part < bytes - sent ? part : bytes - sent;
        assert_int_equal(write(pair[1], answer + sent, part), part);
        sent += part;
        result->state = http_call_read(&call, on_event, result);
    }
    close(pair[1]);
    if (result->state == HTTP_CALL_OPEN)
        result->state = http_call_read(&call, on_event, result);
    result->status = call.status;
    snprintf(result->body, sizeof(result->body), "%s", http_call_body(&call));
    http_call_close(&call);
}

#define EVENTS "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"

static const struct {
    const char *answer;
    http_call_state_t state;
    unsigned status;
    const char *said, *body;
} cases[] = {
    {"HTTP/1.1 200 OK\r\n\r\nall of it", HTTP_CALL_WHOLE, 200, "", "all of it"},
    {"HTTP/1.0 404 No\nContent-Length: 3\n\nyes and more", HTTP_CALL_WHOLE, 404, "", "yes"},
    {"HTTP/1.1 204 None\r\ncontent-length: 0\r\n\r\n", HTTP_CALL_WHOLE, 204, "", ""},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0a;x\r\n0123456789\r\n0\r\n"
     "T: x\r\n\r\n", HTTP_CALL_WHOLE, 200, "", "abc0123456789"},
    {"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTTP/1.1 500 E\r\nContent-Length: 1\r\n\r\nx",
     HTTP_CALL_WHOLE, 500, "", "x"},
    {EVENTS "\r\ndata: one\n\ndata:two\r\n\r\n: note\nevent: x\ndata:  three\n", HTTP_CALL_WHOLE,
     200, "[one][two][ three]", ""},
    {EVENTS "Transfer-Encoding: chunked\r\n\r\n7\r\ndata: a\r\n3\r\nb\n\n\r\n0\r\n\r\n",
     HTTP_CALL_WHOLE, 200, "[ab]", ""},
    {EVENTS "Content-Length: 20\r\n\r\ndata: one\n\n", HTTP_CALL_BROKEN, 200, "[one]", ""},
    {EVENTS "Transfer-Encoding: chunked\r\n\r\n8\r\ndata: a\n\r\n", HTTP_CALL_BROKEN, 200, "[a]",
     ""},
    {EVENTS "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", HTTP_CALL_BROKEN, 200, "", "ab"},
    {EVENTS "Transfer-Encoding: chunked\r\n\r\n-1\r\n", HTTP_CALL_BROKEN, 200, "", ""},
    {EVENTS "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\n", HTTP_CALL_BROKEN, 200, "",
     ""},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", HTTP_CALL_BROKEN, 200, "", ""},
    {"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", HTTP_CALL_BROKEN, 200, "", ""},
    {"HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\nx", HTTP_CALL_BROKEN, 200, "", ""},
    {"HTTP/1.1 200 OK\r\n", HTTP_CALL_BROKEN, 200, "", ""},
    {"HTTP/2 200 OK\r\n\r\n", HTTP_CALL_BROKEN, 0, "", ""},
    {"", HTTP_CALL_BROKEN, 0, "", ""},
};

static void test_answers_however_they_are_cut(void **state)
{
    static const size_t pieces[] = {1, 2, 3, 7, 0, 4096};
    result_t result;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (size_t p = 0; p < COUNT_OF(pieces); p++) {
            receive(cases[i].answer, strlen(cases[i].answer), pieces[p], &result);
            assert_int_equal(result.state, cases[i].state);
            assert_int_equal(result.status, cases[i].status);
            assert_string_equal(result.said, cases[i].said);
            assert_string_equal(result.body, cases[i].body);
        }
    }
}

/* Any byte of a good answer replaced by any other: never more than refused. */
static void test_damaged_answers(void **state)
{
    random_t random;
    result_t result;

    (void)state;
    random_init(&random, 7);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        size_t bytes = strlen(cases[i].answer);
        char damaged[512];

        for (unsigned n = 0; n < 200 && bytes > 0; n++) {
            memcpy(damaged, cases[i].answer, bytes);
            damaged[random_below(&random, bytes)] = (char)random_below(&random, 256);
            receive(damaged, bytes, 0, &result);
            assert_int_not_equal(result.state, HTTP_CALL_OPEN);
        }
    }
}

static void test_a_header_without_end_is_bounded(void **state)
{
    static char answer[64 << 10];
    result_t result;

    (void)state;
    memset(answer, 'x', sizeof(answer));
    memcpy(answer, "HTTP/1.1 200 OK\r\nA: ", 20);
    receive(answer, sizeof(answer), 4096, &result);
    assert_int_equal(result.state, HTTP_CALL_BROKEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_answers_however_they_are_cut),
        cmocka_unit_test(test_damaged_answers),
        cmocka_unit_test(test_a_header_without_end_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
