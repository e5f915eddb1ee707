#include "runtime/cursor.h"

#include <string.h>

/* First bytes of the msgpack forms (github.com/msgpack/msgpack/blob/master/spec.md). */
enum {
    FORM_FIXMAP = 0x80,
    FORM_FIXARRAY = 0x90,
    FORM_FIXSTR = 0xa0,
    FORM_NIL = 0xc0,
    FORM_UNUSED = 0xc1,
    FORM_BIN8 = 0xc4,
    FORM_EXT8 = 0xc7,
    FORM_FLOAT32 = 0xca,
    FORM_FLOAT64 = 0xcb,
    FORM_UINT8 = 0xcc,
    FORM_INT8 = 0xd0,
    FORM_FIXEXT1 = 0xd4,
    FORM_STR8 = 0xd9,
    FORM_ARRAY16 = 0xdc,
    FORM_MAP16 = 0xde,
    FORM_NEGATIVE = 0xe0,
};

static size_t left(const cursor_t *cursor)
{
    return cursor->size - cursor->at;
}

static uint64_t big_endian(const uint8_t *bytes, uint32_t count)
{
    uint64_t value = 0;

    for (uint32_t i = 0; i < count; i++)
        value = value << 8 | bytes[i];
    return value;
}

/* Reads the first byte and the `wide` bytes behind it as a number, without moving on. */
static status_t peek(const cursor_t *cursor, uint32_t wide, uint64_t *value)
{
    if (left(cursor) < 1 + (size_t)wide)
        return FAIL(STATUS_MALFORMED, "ends in a header at byte %zu", cursor->at);
    *value = big_endian(cursor->bytes + cursor->at + 1, wide);
    return STATUS_OK;
}

static status_t first_byte(const cursor_t *cursor, uint8_t *form)
{
    if (left(cursor) == 0)
        return FAIL(STATUS_MALFORMED, "ends at byte %zu, where a value should begin", cursor->at);
    *form = cursor->bytes[cursor->at];
    return STATUS_OK;
}

status_t cursor_array(cursor_t *cursor, uint32_t *count)
{
    uint64_t claimed = 0;
    uint32_t wide = 0;
    uint8_t form = 0;

    TRY(first_byte(cursor, &form));
    if ((form & 0xf0) == FORM_FIXARRAY) {
        claimed = form & 0x0f;
    } else if (form == FORM_ARRAY16 || form == FORM_ARRAY16 + 1) {
        wide = form == FORM_ARRAY16 ? 2 : 4;
        TRY(peek(cursor, wide, &claimed));
    } else {
        return FAIL(STATUS_MALFORMED, "byte 0x%02x is not an array", form);
    }
    if (claimed > left(cursor) - 1 - wide)
        return FAIL(STATUS_MALFORMED, "an array claims %llu elements, only %zu bytes are left",
                    (unsigned long long)claimed, left(cursor) - 1 - wide);
    cursor->at += 1 + wide;
    *count = (uint32_t)claimed;
    return STATUS_OK;
}

status_t cursor_uint(cursor_t *cursor, uint64_t max, uint64_t *value)
{
    uint64_t number = 0;
    uint32_t wide = 0;
    uint8_t form = 0;

    TRY(first_byte(cursor, &form));
    if (form < FORM_FIXMAP) {
        number = form;
    } else if (form >= FORM_UINT8 && form < FORM_UINT8 + 4) {
        wide = BIT(form - FORM_UINT8);
        TRY(peek(cursor, wide, &number));
    } else if (form >= FORM_INT8 && form < FORM_INT8 + 4) {
        wide = BIT(form - FORM_INT8);
        TRY(peek(cursor, wide, &number));
        if (number >> (8 * wide - 1))
            return FAIL(STATUS_MALFORMED, "a negative number");
    } else {
        return FAIL(STATUS_MALFORMED, "byte 0x%02x is not a number from 0 up", form);
    }
    if (number > max)
        return FAIL(STATUS_MALFORMED, "%llu is above %llu", (unsigned long long)number,
                    (unsigned long long)max);
    cursor->at += 1 + wide;
    *value = number;
    return STATUS_OK;
}

status_t cursor_float(cursor_t *cursor, float *value)
{
    uint64_t bits = 0;
    uint8_t form = 0;

    TRY(first_byte(cursor, &form));
    if (form == FORM_FLOAT32) {
        uint32_t narrow;

        TRY(peek(cursor, 4, &bits));
        narrow = (uint32_t)bits;
        memcpy(value, &narrow, sizeof(*value));
        cursor->at += 5;
    } else if (form == FORM_FLOAT64) {
        double wide;

        TRY(peek(cursor, 8, &bits));
        memcpy(&wide, &bits, sizeof(wide));
        if (wide > 3.4028234663852886e38 || wide < -3.4028234663852886e38)
            *value = wide > 0 ? __builtin_inff() : -__builtin_inff();
        else
            *value = (float)wide;
        cursor->at += 9;
    } else {
        return FAIL(STATUS_MALFORMED, "byte 0x%02x is not a float", form);
    }
    return STATUS_OK;
}

/* Both forms of counted bytes: three headers of growing width that start at `form8`. */
static status_t counted(cursor_t *cursor, uint8_t form, uint8_t form8, const uint8_t **data,
                        uint32_t *count)
{
    uint32_t wide = BIT(form - form8);
    uint64_t claimed = 0;

    TRY(peek(cursor, wide, &claimed));
    if (claimed > left(cursor) - 1 - wide)
        return FAIL(STATUS_MALFORMED, "%llu bytes are claimed, only %zu are left",
                    (unsigned long long)claimed, left(cursor) - 1 - wide);
    *data = cursor->bytes + cursor->at + 1 + wide;
    *count = (uint32_t)claimed;
    cursor->at += 1 + wide + (size_t)claimed;
    return STATUS_OK;
}

status_t cursor_bin(cursor_t *cursor, const uint8_t **data, uint32_t *count)
{
    uint8_t form = 0;

    TRY(first_byte(cursor, &form));
    if (form < FORM_BIN8 || form > FORM_BIN8 + 2)
        return FAIL(STATUS_MALFORMED, "byte 0x%02x is not bin", form);
    TRY(counted(cursor, form, FORM_BIN8, data, count));
    return STATUS_OK;
}

status_t cursor_str(cursor_t *cursor, const char **data, uint32_t *count)
{
    const uint8_t *bytes = NULL;
    uint8_t form = 0;

    TRY(first_byte(cursor, &form));
    if ((form & 0xe0) == FORM_FIXSTR) {
        uint32_t claimed = form & 0x1f;

        if (claimed > left(cursor) - 1)
            return FAIL(STATUS_MALFORMED, "%u bytes of text are claimed, only %zu are left",
                        claimed, left(cursor) - 1);
        bytes = cursor->bytes + cursor->at + 1;
        cursor->at += 1 + claimed;
        *count = claimed;
    } else if (form >= FORM_STR8 && form <= FORM_STR8 + 2) {
        TRY(counted(cursor, form, FORM_STR8, &bytes, count));
    } else {
        return FAIL(STATUS_MALFORMED, "byte 0x%02x is not str", form);
    }
    *data = (const char *)bytes;
    return STATUS_OK;
}

/* Bytes of the value at the cursor without its elements, and how many elements follow it. */
static status_t measure(const cursor_t *cursor, uint8_t form, uint64_t *bytes, uint64_t *elements)
{
    uint64_t claimed = 0;

    *bytes = 1;
    *elements = 0;
    if (form < FORM_FIXMAP || form >= FORM_NEGATIVE || (form >= FORM_NIL && form < FORM_BIN8)) {
        if (form == FORM_UNUSED)
            return FAIL(STATUS_MALFORMED, "byte 0xc1 is no msgpack");
    } else if (form < FORM_FIXARRAY) {
        *elements = 2 * (uint64_t)(form & 0x0f);
    } else if (form < FORM_FIXSTR) {
        *elements = form & 0x0f;
    } else if (form < FORM_NIL) {
        *bytes += form & 0x1f;
    } else if (form < FORM_FLOAT32) { /* bin 8, 16, 32 and ext 8, 16, 32 */
        uint32_t wide = BIT((form - FORM_BIN8) % 3);

        TRY(peek(cursor, wide, &claimed));
        *bytes += wide + claimed + (form >= FORM_EXT8);
    } else if (form < FORM_UINT8) {
        *bytes += form == FORM_FLOAT32 ? 4 : 8;
    } else if (form < FORM_FIXEXT1) {
        *bytes += BIT((form - FORM_UINT8) % 4);
    } else if (form < FORM_STR8) {
        *bytes += 1 + BIT(form - FORM_FIXEXT1);
    } else if (form < FORM_ARRAY16) {
        uint32_t wide = BIT(form - FORM_STR8);

        TRY(peek(cursor, wide, &claimed));
        *bytes += wide + claimed;
    } else {
        uint32_t wide = form & 1 ? 4 : 2;

        TRY(peek(cursor, wide, &claimed));
        *bytes += wide;
        *elements = form < FORM_MAP16 ? claimed : 2 * claimed;
    }
    return STATUS_OK;
}

status_t cursor_skip(cursor_t *cursor)
{
    cursor_t ahead = *cursor;
    uint64_t values = 1;

    while (values > 0) {
        uint64_t bytes, elements;
        uint8_t form = 0;

        TRY(first_byte(&ahead, &form));
        TRY(measure(&ahead, form, &bytes, &elements));
        if (bytes > left(&ahead))
            return FAIL(STATUS_MALFORMED, "a value of %llu bytes, only %zu are left",
                        (unsigned long long)bytes, left(&ahead));
        ahead.at += (size_t)bytes;
        values += elements - 1;
        if (values > left(&ahead))
            return FAIL(STATUS_MALFORMED, "%llu values are claimed, only %zu bytes are left",
                        (unsigned long long)values, left(&ahead));
    }
    *cursor = ahead;
    return STATUS_OK;
}
