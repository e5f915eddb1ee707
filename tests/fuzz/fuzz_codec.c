/* libFuzzer on the codec and on frames: bytes are refused, or mean the same after they were written again.
 *
 * The first byte chooses: a message id, whose body follows, or a frame as it comes off the wire. Even ids get a
 * body that is made from the bytes as seed and then spoilt by them, so that good ones are near.
 */
#include <stdlib.h>
#include <string.h>

#include "messages/message.h"
#include "runtime/base/check.h"
#include "runtime/frame.h"

enum { ARENA_BYTES = 8 << 20, BODY_BYTES = 1 << 20 };

static uint8_t memory_a[ARENA_BYTES], memory_b[ARENA_BYTES], body_a[BODY_BYTES], body_b[BODY_BYTES];

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* From a block of exactly its size, so that a read behind the end is seen. */
static void decode(uint16_t id, const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    const void *one = NULL, *two = NULL;
    size_t used = 0;
    status_t status;
    arena_t a, b;

    ASSERT(exact != NULL);
    if (size > 0)
        memcpy(exact, bytes, size);
    arena_init(&a, memory_a, sizeof(memory_a));
    arena_init(&b, memory_b, sizeof(memory_b));
    status = message_decode(id, exact, size, &a, &one);
    ASSERT(a.used <= 4096 + size * 512); /* nothing is taken for what a head only claims */
    if (status == STATUS_OK) {
        ASSERT(message_encode(id, one, body_b, sizeof(body_b), &used) == STATUS_OK);
        ASSERT(message_decode(id, body_b, used, &b, &two) == STATUS_OK);
        ASSERT(message_equal(id, one, two));
    } else {
        ASSERT(status == STATUS_MALFORMED || status == STATUS_TOO_LARGE);
        ASSERT(trail_text()[0] != '\0');
    }
    free(exact);
}

static void decode_spoilt(uint16_t id, const uint8_t *bytes, size_t size)
{
    random_t random;
    uint64_t seed = 0;
    const void *body;
    size_t used = 0;
    arena_t arena;

    memcpy(&seed, bytes, size < 2 ? size : 2);
    random_init(&random, seed);
    arena_init(&arena, memory_a, sizeof(memory_a));
    body = message_random(id, &random, &arena);
    if (!body || message_encode(id, body, body_a, sizeof(body_a), &used) != STATUS_OK)
        return;
    for (size_t i = 2; i + 2 < size; i += 3)
        body_a[(256u * bytes[i] + bytes[i + 1]) % used] = bytes[i + 2];
    decode(id, body_a, used);
}

static void read_frame(const uint8_t *bytes, size_t size)
{
    cursor_t cursor = {.bytes = bytes, .size = size};
    frame_header_t header = {0};
    frame_hello_t hello = {0};
    frame_data_t data = {0};
    text_view_t reason = {0};
    uint64_t applied = 0;
    status_t status = frame_read_header(&cursor, &header);

    if (status != STATUS_OK)
        return;
    if (header.kind == FRAME_HELLO) {
        status = frame_read_hello(&cursor, &hello);
    } else if (header.kind == FRAME_REFUSE) {
        status = frame_read_refuse(&cursor, &reason);
    } else if (header.kind == FRAME_ACK) {
        status = frame_read_ack(&cursor, &applied);
    } else {
        status = frame_read_data(&cursor, &data);
        for (uint32_t i = 0; i < data.count && status == STATUS_OK; i++) {
            const uint8_t *body = NULL;
            uint32_t used = 0;
            uint16_t id = 0;

            status = frame_read_record(&cursor, &id, &body, &used);
            ASSERT(status != STATUS_OK || (body >= bytes && body + used <= bytes + size));
        }
    }
    ASSERT(cursor.at <= size);
    ASSERT(status == STATUS_OK || status == STATUS_MALFORMED);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint16_t id;

    trail_reset();
    if (size == 0)
        return 0;
    id = bytes[0] / 2;
    if (id >= message_table.count || !message_table.rows[id].name)
        read_frame(bytes + 1, size - 1);
    else if (bytes[0] % 2)
        decode(id, bytes + 1, size - 1);
    else
        decode_spoilt(id, bytes + 1, size - 1);
    return 0;
}
