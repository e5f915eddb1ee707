/* Text that clients and the model send: request bodies, and generated answers at any chunking. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/answer.h"
#include "model/chat.h"
#include "model/document.h"
#include "model/utf8.h"
#include "runtime/base/random.h"
#include "tests/fuzz/fuzz.h"

enum { TRANSCRIPT_BYTES = 1 << 16, ROUNDS = 40 };

/* ---- requests ------------------------------------------------------------------------------- */

/* A prompt that is made is whole: valid UTF-8, and its spans cover it. A refusal says why. */
static void feed_request(void *context, const char *bytes, size_t size)
{
    const chat_blocks_t *blocks = context;
    chat_refusal_t refusal = {0};
    chat_prompt_t prompt = {0};
    document_t document;
    size_t broken_at;
    status_t status;

    trail_reset();
    status = document_parse(&document, DOCUMENT_STRICT, bytes, size);
    if (status == STATUS_OK) {
        chat_thinking_t thinking;

        status = chat_thinking_read(&document, false, &thinking, &refusal);
        if (status == STATUS_OK)
            status = chat_encode(blocks, &document, &thinking, &prompt, &refusal);
        if (status == STATUS_OK) {
            assert_true(utf8_check(prompt.text.bytes, prompt.text.used, &broken_at));
            assert_true(prompt.span_count > 0);
            assert_int_equal(prompt.spans[prompt.span_count - 1].end, prompt.text.used);
        } else {
            assert_true(refusal.reason[0] != '\0');
        }
        chat_prompt_fini(&prompt);
    } else {
        assert_int_equal(status, STATUS_INVALID);
        assert_true(trail_text()[0] != '\0');
    }
    document_fini(&document);
}

static void test_requests(void **state)
{
    size_t size;
    char *text = fuzz_read("tests/golden/chat/encode.json", &size);
    uint32_t vectors, vector = DOCUMENT_NONE;
    chat_blocks_t blocks;
    document_t document;

    (void)state;
    assert_int_equal(chat_blocks_open("model/tiny", &blocks), STATUS_OK);
    assert_int_equal(document_parse(&document, DOCUMENT_STRICT, text, size), STATUS_OK);
    vectors = document_member(&document, 0, "vectors");
    while ((vector = document_next(&document, vectors, vector)) != DOCUMENT_NONE) {
        const document_node_t *request =
            &document.nodes[document_member(&document, vector, "request")];

        fuzz_run("request", text + request->start, request->end - request->start, ROUNDS,
                 feed_request, &blocks);
    }
    document_fini(&document);
    chat_blocks_close(&blocks);
    free(text);
}

/* ---- answers -------------------------------------------------------------------------------- */

/* Events as one text: pieces of one kind and call are joined, each run with its kind in front. */
typedef struct {
    char text[TRANSCRIPT_BYTES];
    size_t used;
    answer_kind_t kind;
    uint32_t call;
    answer_reason_t reason;
} transcript_t;

static void note(void *context, const answer_event_t *event)
{
    transcript_t *transcript = context;
    size_t broken_at;

    assert_true(utf8_check(event->text, event->length, &broken_at));
    assert_true(transcript->used + event->length + 16 < sizeof(transcript->text));
    if (transcript->used == 0 || event->kind != transcript->kind ||
        event->call != transcript->call || event->kind == ANSWER_SUPPRESSED)
        transcript->used += (size_t)snprintf(transcript->text + transcript->used, 16, "\n[%d %u] ",
                                             (int)event->kind, event->call);
    memcpy(transcript->text + transcript->used, event->text, event->length);
    transcript->used += event->length;
    transcript->kind = event->kind;
    transcript->call = event->call;
}

/* Feeds pieces of up to `piece_max` bytes. */
static void answer(const answer_options_t *options, const char *bytes, size_t size,
                   size_t piece_max, answer_end_t end, transcript_t *transcript)
{
    random_t random;
    answer_t parser;
    size_t piece;

    random_init(&random, size);
    transcript->used = 0;
    answer_init(&parser, options, note, transcript);
    for (size_t at = 0; at < size; at += piece) {
        piece = (size_t)random_below(&random, piece_max) + 1;
        if (piece > size - at)
            piece = size - at;
        assert_int_equal(answer_feed(&parser, bytes + at, piece), STATUS_OK);
    }
    assert_int_equal(answer_finish(&parser, end, &transcript->reason), STATUS_OK);
    answer_fini(&parser);
}

/* However the text is cut, the same comes out. */
static void feed_answer(void *context, const char *bytes, size_t size)
{
    static transcript_t whole, pieces;
    const size_t piece_max[] = {1, 3, 40};

    (void)context;
    for (unsigned n = 0; n < 16; n++) {
        answer_options_t options = {(n & 1) != 0, (n & 2) != 0, (n & 4) != 0};
        answer_end_t end = n & 8 ? ANSWER_ENDED_BY_LENGTH : ANSWER_ENDED_BY_EOS;

        answer(&options, bytes, size, size ? size : 1, end, &whole);
        for (size_t i = 0; i < COUNT_OF(piece_max); i++) {
            answer(&options, bytes, size, piece_max[i], end, &pieces);
            assert_int_equal(pieces.used, whole.used);
            assert_memory_equal(pieces.text, whole.text, whole.used);
            assert_int_equal(pieces.reason, whole.reason);
        }
    }
}

static void test_answers(void **state)
{
    size_t size, length;
    char *text = fuzz_read("tests/golden/chat/output.json", &size), *seed = malloc(1 << 14);
    uint32_t vectors, vector = DOCUMENT_NONE;
    document_t document;

    (void)state;
    assert_non_null(seed);
    assert_int_equal(document_parse(&document, DOCUMENT_STRICT, text, size), STATUS_OK);
    vectors = document_member(&document, 0, "vectors");
    while ((vector = document_next(&document, vectors, vector)) != DOCUMENT_NONE) {
        uint32_t node = document_member(&document, vector, "text");
        text_buffer_t buffer;

        text_buffer_init(&buffer, 1 << 16);
        document_put_string(&document, node, &buffer);
        assert_int_equal(buffer.status, STATUS_OK);
        length = buffer.used < 1 << 14 ? buffer.used : 1 << 14;
        if (length > 0)
            memcpy(seed, buffer.bytes, length);
        text_buffer_fini(&buffer);
        fuzz_run("answer", seed, length, ROUNDS, feed_answer, NULL);
    }
    document_fini(&document);
    free(seed);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
