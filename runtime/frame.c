#include "runtime/frame.h"

#include <string.h>

/* ---- writing: plain msgpack, forms of fixed width where the value comes last ---- */

static uint8_t *put_uint(uint8_t *at, uint64_t value)
{
    int wide = value < 0x80          ? 0
               : value <= 0xff       ? 1
               : value <= 0xffff     ? 2
               : value <= 0xffffffff ? 4
                                     : 8;

    if (wide == 0) {
        *at++ = (uint8_t)value;
        return at;
    }
    *at++ = (uint8_t)(wide == 1 ? 0xcc : wide == 2 ? 0xcd : wide == 4 ? 0xce : 0xcf);
    for (int i = wide - 1; i >= 0; i--)
        *at++ = (uint8_t)(value >> (8 * i));
    return at;
}

static uint8_t *put_text(uint8_t *at, text_view_t text)
{
    ASSERT(text.count <= UINT8_MAX);
    *at++ = 0xd9;
    *at++ = (uint8_t)text.count;
    if (text.count)
        memcpy(at, text.data, text.count);
    return at + text.count;
}

static uint8_t *put_header(uint8_t *at, const frame_header_t *header, uint32_t fields)
{
    ASSERT(6 + fields < 16 + 8);
    if (6 + fields < 16) {
        *at++ = (uint8_t)(0x90 | (6 + fields));
    } else {
        *at++ = 0xdc;
        *at++ = 0;
        *at++ = (uint8_t)(6 + fields);
    }
    at = put_uint(at, FRAME_PROTOCOL);
    at = put_uint(at, header->kind);
    at = put_uint(at, header->from);
    at = put_uint(at, header->from_incarnation);
    at = put_uint(at, header->to);
    return put_uint(at, header->to_incarnation);
}

size_t frame_write_hello(uint8_t *frame, const frame_header_t *header, const frame_hello_t *hello)
{
    uint8_t *at = put_header(frame, header, 11);

    at = put_uint(at, hello->asks);
    at = put_uint(at, hello->digests.topology);
    at = put_uint(at, hello->digests.weights);
    at = put_uint(at, hello->digests.geometry);
    at = put_uint(at, hello->digests.numerics);
    at = put_uint(at, hello->received);
    at = put_uint(at, hello->credit_messages);
    at = put_uint(at, hello->credit_bytes);
    at = put_text(at, hello->name);
    at = put_text(at, hello->endpoint);
    at = put_uint(at, hello->before);
    return (size_t)(at - frame);
}

size_t frame_write_ack(uint8_t *frame, const frame_header_t *header, uint64_t applied)
{
    return (size_t)(put_uint(put_header(frame, header, 1), applied) - frame);
}

size_t frame_write_refuse(uint8_t *frame, const frame_header_t *header, const char *reason)
{
    uint32_t count = (uint32_t)strnlen(reason, UINT8_MAX);

    return (size_t)(put_text(put_header(frame, header, 1), (text_view_t){reason, count}) - frame);
}

size_t frame_write_data(uint8_t *frame, const frame_header_t *header, const frame_data_t *data)
{
    uint8_t *at = put_header(frame, header, 3);
    uint32_t elements = 2 * data->count;

    at = put_uint(at, data->applied);
    at = put_uint(at, data->first);
    *at++ = 0xdd;
    for (int i = 3; i >= 0; i--)
        *at++ = (uint8_t)(elements >> (8 * i));
    return (size_t)(at - frame);
}

static int bin_wide(size_t size)
{
    return size <= 0xff ? 1 : size <= 0xffff ? 2 : 4;
}

size_t frame_record_bytes(uint16_t id, size_t size)
{
    return (id < 0x80 ? 1u : id <= 0xff ? 2u : 3u) + 1 + (size_t)bin_wide(size) + size;
}

void frame_write_record(uint8_t *record, uint16_t id, const uint8_t *body, size_t size)
{
    uint8_t *at = put_uint(record, id);
    int wide = bin_wide(size);

    ASSERT(size <= MESSAGE_BYTES_MAX);
    *at++ = (uint8_t)(wide == 1 ? 0xc4 : wide == 2 ? 0xc5 : 0xc6);
    for (int i = wide - 1; i >= 0; i--)
        *at++ = (uint8_t)(size >> (8 * i));
    memcpy(at, body, size);
}

/* ---- reading ---- */

static status_t read_u64(cursor_t *cursor, uint64_t *value)
{
    return cursor_uint(cursor, UINT64_MAX, value);
}

static status_t read_u32(cursor_t *cursor, uint32_t *value)
{
    uint64_t wide = 0;

    TRY(cursor_uint(cursor, UINT32_MAX, &wide));
    *value = (uint32_t)wide;
    return STATUS_OK;
}

static status_t read_u16(cursor_t *cursor, uint16_t *value)
{
    uint64_t wide = 0;

    TRY(cursor_uint(cursor, UINT16_MAX, &wide));
    *value = (uint16_t)wide;
    return STATUS_OK;
}

static status_t read_text(cursor_t *cursor, uint32_t limit, text_view_t *text)
{
    TRY(cursor_str(cursor, &text->data, &text->count));
    if (text->count > limit)
        return FAIL(STATUS_MALFORMED, "text of %u bytes, at most %u are allowed", text->count,
                    limit);
    for (uint32_t i = 0; i < text->count; i++)
        if ((uint8_t)text->data[i] < ' ')
            return FAIL(STATUS_MALFORMED, "text with control characters");
    return STATUS_OK;
}

status_t frame_read_header(cursor_t *cursor, frame_header_t *header)
{
    uint32_t fields = 0, kind = 0;

    TRY(cursor_array(cursor, &fields));
    TRY(read_u32(cursor, &header->protocol));
    TRY(read_u32(cursor, &kind));
    TRY(read_u16(cursor, &header->from));
    TRY(read_u32(cursor, &header->from_incarnation));
    TRY(read_u16(cursor, &header->to));
    TRY(read_u32(cursor, &header->to_incarnation));
    if (kind >= FRAME_KIND_COUNT)
        return FAIL(STATUS_MALFORMED, "a frame of unknown kind %u", kind);
    if (header->from_incarnation == 0)
        return FAIL(STATUS_MALFORMED, "a frame of incarnation 0");
    header->kind = (frame_kind_t)kind;
    return STATUS_OK;
}

status_t frame_read_hello(cursor_t *cursor, frame_hello_t *hello)
{
    uint64_t asks = 0, before = RUNTIME_CAUSE_UNKNOWN;

    TRY(cursor_uint(cursor, 1, &asks));
    TRY(read_u64(cursor, &hello->digests.topology));
    TRY(read_u64(cursor, &hello->digests.weights));
    TRY(read_u64(cursor, &hello->digests.geometry));
    TRY(read_u64(cursor, &hello->digests.numerics));
    TRY(read_u64(cursor, &hello->received));
    TRY(read_u32(cursor, &hello->credit_messages));
    TRY(read_u64(cursor, &hello->credit_bytes));
    TRY(read_text(cursor, ACTOR_NAME_BYTES_MAX, &hello->name));
    TRY(read_text(cursor, ENDPOINT_BYTES_MAX - 1, &hello->endpoint));
    if (cursor->at < cursor->size)
        TRY(read_u64(cursor, &before));
    hello->asks = asks != 0;
    hello->before =
        (uint8_t)(before <= RUNTIME_CAUSE_MAX ? before : (uint64_t)RUNTIME_CAUSE_UNKNOWN);
    return STATUS_OK;
}

status_t frame_read_data(cursor_t *cursor, frame_data_t *data)
{
    uint32_t elements = 0;

    TRY(read_u64(cursor, &data->applied));
    TRY(read_u64(cursor, &data->first));
    TRY(cursor_array(cursor, &elements));
    if (elements % 2 != 0)
        return FAIL(STATUS_MALFORMED, "a message without a body");
    if (data->first == 0 || data->first > UINT64_MAX - elements)
        return FAIL(STATUS_MALFORMED, "a seq out of range");
    data->count = elements / 2;
    return STATUS_OK;
}

status_t frame_read_record(cursor_t *cursor, uint16_t *id, const uint8_t **body, uint32_t *size)
{
    TRY(read_u16(cursor, id));
    TRY(cursor_bin(cursor, body, size));
    if (*size > MESSAGE_BYTES_MAX)
        return FAIL(STATUS_MALFORMED, "a body of %u bytes, at most %u are allowed", *size,
                    MESSAGE_BYTES_MAX);
    return STATUS_OK;
}

status_t frame_read_ack(cursor_t *cursor, uint64_t *applied)
{
    TRY(read_u64(cursor, applied));
    return STATUS_OK;
}

status_t frame_read_refuse(cursor_t *cursor, text_view_t *reason)
{
    TRY(read_text(cursor, UINT8_MAX, reason));
    return STATUS_OK;
}
