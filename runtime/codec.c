#include "runtime/codec.h"

#include <msgpack.h>
#include <string.h>

#include "runtime/cursor.h"

/* Any list of records: every items view of messages/message.h has this shape. */
typedef struct {
    const void *data;
    uint32_t count;
} items_view_t;

static uint32_t element_bytes(const field_t *field)
{
    switch (field->type) {
    case FIELD_U32S:
    case FIELD_TOKENS:
    case FIELD_F32S:
        return 4;
    case FIELD_U64S:
        return 8;
    case FIELD_ITEMS:
        return field->record->size;
    default:
        return 1;
    }
}

static uint64_t read_uint(const field_t *field, const void *place)
{
    switch (field->type) {
    case FIELD_U8:
        return *(const uint8_t *)place;
    case FIELD_U16:
    case FIELD_ACTOR:
        return *(const uint16_t *)place;
    case FIELD_U32:
    case FIELD_TOKEN:
        return *(const uint32_t *)place;
    default:
        ASSERT(field->type == FIELD_U64);
        return *(const uint64_t *)place;
    }
}

static void write_uint(const field_t *field, void *place, uint64_t value)
{
    switch (field->type) {
    case FIELD_U8:
        *(uint8_t *)place = (uint8_t)value;
        break;
    case FIELD_U16:
    case FIELD_ACTOR:
        *(uint16_t *)place = (uint16_t)value;
        break;
    case FIELD_U32:
    case FIELD_TOKEN:
        *(uint32_t *)place = (uint32_t)value;
        break;
    default:
        ASSERT(field->type == FIELD_U64);
        *(uint64_t *)place = value;
    }
}

uint64_t codec_uint_max(const field_t *field)
{
    switch (field->type) {
    case FIELD_U8:
        return UINT8_MAX;
    case FIELD_U16:
    case FIELD_ACTOR:
        return UINT16_MAX;
    case FIELD_U32:
    case FIELD_TOKEN:
        return UINT32_MAX;
    case FIELD_U64:
        return UINT64_MAX;
    default:
        return 0;
    }
}

/* Bytes of the UTF-8 character that `data` begins with, or 0 if it is none or NUL (RFC 3629). */
static uint32_t character(const char *data, uint32_t left)
{
    const uint8_t *b = (const uint8_t *)data;
    uint32_t count = b[0] < 0x80 ? 1 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;

    if (b[0] == 0 || (b[0] >= 0x80 && b[0] < 0xc2) || b[0] > 0xf4 || count > left)
        return 0;
    for (uint32_t i = 1; i < count; i++)
        if ((b[i] & 0xc0) != 0x80)
            return 0;
    if ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) ||
        (b[0] == 0xf0 && b[1] < 0x90) || (b[0] == 0xf4 && b[1] > 0x8f))
        return 0;
    return count;
}

/* ---- encode ---- */

typedef struct {
    uint8_t *bytes;
    size_t size;
    size_t used;
    bool full;
} writer_t;

static int writer_put(void *data, const char *bytes, size_t count)
{
    writer_t *writer = data;

    if (writer->full || count > writer->size - writer->used) {
        writer->full = true;
        return -1;
    }
    if (count == 1) /* most are: small numbers and heads */
        writer->bytes[writer->used] = (uint8_t)bytes[0];
    else
        memcpy(writer->bytes + writer->used, bytes, count);
    writer->used += count;
    return 0;
}

static void encode_text(msgpack_packer *packer, text_view_t text, uint32_t limit)
{
    uint32_t whole = 0, step;

    /* A cut never leaves half a character: what would be one is not counted. */
    while (whole < text.count) {
        step = character(text.data + whole, text.count - whole);
        if (whole + (step ? step : 1) > limit)
            break;
        whole += step ? step : 1;
    }
    (void)msgpack_pack_str(packer, whole);
    for (uint32_t at = 0; at < whole; at += step ? step : 1) {
        step = character(text.data + at, whole - at);
        (void)msgpack_pack_str_body(packer, step ? text.data + at : "?", step ? step : 1);
    }
}

/* Hosts are little endian (a static assertion below), so numbers go out as they stand. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "views of numbers are copied as they stand");

static void encode_view(msgpack_packer *packer, const field_t *field, const void *place)
{
    const bytes_view_t *view = place;
    size_t size = (size_t)view->count * element_bytes(field);

    (void)msgpack_pack_bin(packer, size);
    if (size > 0)
        (void)msgpack_pack_bin_body(packer, view->data, size);
}

/* Fields up to the last one that is not zero or empty: a receiver takes missing ones for that. Most
 * items of a STEP say little, and most of what a leader sends are STEPs. */
static uint32_t fields_said(const record_t *record, const void *body);

static bool is_said(const field_t *field, const void *place)
{
    switch (field->type) { /* without default: a new type must be decided here */
    case FIELD_U8:
    case FIELD_U16:
    case FIELD_ACTOR:
    case FIELD_U32:
    case FIELD_TOKEN:
    case FIELD_U64:
        return read_uint(field, place) != 0;
    case FIELD_F32:
        return *(const uint32_t *)place != 0; /* -0 is said */
    case FIELD_RECORD:
        return fields_said(field->record, place) > 0;
    case FIELD_TEXT:
        return ((const text_view_t *)place)->count > 0;
    case FIELD_BYTES:
    case FIELD_U32S:
    case FIELD_TOKENS:
    case FIELD_U64S:
    case FIELD_F32S:
    case FIELD_ITEMS:
        return ((const items_view_t *)place)->count > 0;
    }
    UNREACHABLE("a field has one of the types above");
}

static uint32_t fields_said(const record_t *record, const void *body)
{
    uint32_t count = record->field_count;

    while (count > 0 && !is_said(&record->fields[count - 1],
                                 (const char *)body + record->fields[count - 1].offset))
        count--;
    return count;
}

static void encode_record(msgpack_packer *packer, const record_t *record, const void *body)
{
    const uint32_t said = fields_said(record, body);

    (void)msgpack_pack_array(packer, said);
    for (uint32_t i = 0; i < said; i++) {
        const field_t *field = &record->fields[i];
        const void *place = (const char *)body + field->offset;

        switch (field->type) {
        case FIELD_F32:
            (void)msgpack_pack_float(packer, *(const float *)place);
            break;
        case FIELD_TEXT:
            encode_text(packer, *(const text_view_t *)place, field->limit);
            break;
        case FIELD_RECORD:
            encode_record(packer, field->record, place);
            break;
        case FIELD_ITEMS: {
            const items_view_t *items = place;

            ASSERT(items->count <= field->limit);
            (void)msgpack_pack_array(packer, items->count);
            for (uint32_t n = 0; n < items->count; n++)
                encode_record(packer, field->record,
                              (const char *)items->data + (size_t)n * field->record->size);
            break;
        }
        case FIELD_BYTES:
        case FIELD_U32S:
        case FIELD_TOKENS:
        case FIELD_U64S:
        case FIELD_F32S:
            ASSERT(((const bytes_view_t *)place)->count <= field->limit);
            encode_view(packer, field, place);
            break;
        default:
            (void)msgpack_pack_uint64(packer, read_uint(field, place));
        }
    }
}

status_t codec_encode(const message_row_t *row, const void *body, uint8_t *bytes, size_t size,
                      size_t *used)
{
    writer_t writer = {.bytes = bytes, .size = size};
    msgpack_packer packer;

    msgpack_packer_init(&packer, &writer, writer_put);
    encode_record(&packer, &row->record, body);
    if (writer.full)
        return FAIL(STATUS_TOO_LARGE, "%s does not fit %zu bytes", row->name, size);
    *used = writer.used;
    return STATUS_OK;
}

/* ---- decode ---- */

static status_t decode_record(cursor_t *cursor, const record_t *record, arena_t *arena, void *body);

static status_t take(arena_t *arena, const record_t *record, const field_t *field, uint32_t count,
                     void **memory)
{
    *memory = arena_take(arena, count, element_bytes(field), 8);
    if (!*memory)
        return FAIL(STATUS_TOO_LARGE, "%s.%s: %u elements do not fit the arena", record->name,
                    field->name, count);
    return STATUS_OK;
}

static status_t decode_view(cursor_t *cursor, const record_t *record, const field_t *field,
                            arena_t *arena, void *place)
{
    uint32_t element = element_bytes(field), size = 0;
    const uint8_t *data = NULL;
    void *memory;

    TRY(cursor_bin(cursor, &data, &size));
    if (size % element != 0)
        return FAIL(STATUS_MALFORMED, "%s.%s: %u bytes are no multiple of %u", record->name,
                    field->name, size, element);
    if (size / element > field->limit)
        return FAIL(STATUS_MALFORMED, "%s.%s: %u elements, at most %u are allowed", record->name,
                    field->name, size / element, field->limit);
    if (field->type == FIELD_BYTES || size == 0) {
        *(bytes_view_t *)place = (bytes_view_t){.data = size ? data : NULL, .count = size};
        return STATUS_OK;
    }
    TRY(take(arena, record, field, size / element, &memory));
    memcpy(memory, data, size);
    *(bytes_view_t *)place = (bytes_view_t){.data = memory, .count = size / element};
    return STATUS_OK;
}

static status_t decode_text(cursor_t *cursor, const record_t *record, const field_t *field,
                            void *place)
{
    text_view_t text = {0};

    TRY(cursor_str(cursor, &text.data, &text.count));
    if (text.count > field->limit)
        return FAIL(STATUS_MALFORMED, "%s.%s: %u bytes, at most %u are allowed", record->name,
                    field->name, text.count, field->limit);
    for (uint32_t at = 0; at < text.count;) {
        uint32_t step = character(text.data + at, text.count - at);

        if (step == 0)
            return FAIL(STATUS_MALFORMED, "%s.%s: byte %u is no UTF-8", record->name, field->name,
                        at);
        at += step;
    }
    *(text_view_t *)place = text;
    return STATUS_OK;
}

static status_t decode_items(cursor_t *cursor, const record_t *record, const field_t *field,
                             arena_t *arena, void *place)
{
    uint32_t count = 0;
    void *memory = NULL;

    TRY(cursor_array(cursor, &count));
    if (count > field->limit)
        return FAIL(STATUS_MALFORMED, "%s.%s: %u items, at most %u are allowed", record->name,
                    field->name, count, field->limit);
    if (count > 0)
        TRY(take(arena, record, field, count, &memory));
    for (uint32_t n = 0; n < count; n++)
        TRY(decode_record(cursor, field->record, arena,
                          (char *)memory + (size_t)n * field->record->size));
    *(items_view_t *)place = (items_view_t){.data = memory, .count = count};
    return STATUS_OK;
}

static status_t decode_field(cursor_t *cursor, const record_t *record, const field_t *field,
                             arena_t *arena, void *place)
{
    uint64_t value = 0;

    switch (field->type) {
    case FIELD_F32:
        return cursor_float(cursor, place);
    case FIELD_TEXT:
        return decode_text(cursor, record, field, place);
    case FIELD_RECORD:
        return decode_record(cursor, field->record, arena, place);
    case FIELD_ITEMS:
        return decode_items(cursor, record, field, arena, place);
    case FIELD_BYTES:
    case FIELD_U32S:
    case FIELD_TOKENS:
    case FIELD_U64S:
    case FIELD_F32S:
        return decode_view(cursor, record, field, arena, place);
    default:
        TRY(cursor_uint(cursor, codec_uint_max(field), &value));
        write_uint(field, place, value);
        return STATUS_OK;
    }
}

/* What was left out is zero, as the memory is; but a text is never NULL, so it can be copied. */
static void fill_missing(const record_t *record, uint32_t present, void *body)
{
    for (uint32_t i = present; i < record->field_count; i++) {
        const field_t *field = &record->fields[i];
        void *place = (char *)body + field->offset;

        if (field->type == FIELD_TEXT)
            ((text_view_t *)place)->data = "";
        else if (field->type == FIELD_RECORD)
            fill_missing(field->record, 0, place);
    }
}

static status_t decode_record(cursor_t *cursor, const record_t *record, arena_t *arena, void *body)
{
    uint32_t present = 0;

    TRY(cursor_array(cursor, &present));
    for (uint32_t i = 0; i < present; i++) {
        const field_t *field = &record->fields[i];
        status_t status;

        if (i >= record->field_count) {
            TRY(cursor_skip(cursor));
            continue;
        }
        status = decode_field(cursor, record, field, arena, (char *)body + field->offset);
        if (status != STATUS_OK)
            return trail_pass(status, field->name, 0);
    }
    fill_missing(record, present, body);
    return STATUS_OK;
}

status_t codec_decode(const message_row_t *row, const uint8_t *bytes, size_t size, arena_t *arena,
                      const void **body)
{
    cursor_t cursor = {.bytes = bytes, .size = size};
    void *memory = arena_take(arena, 1, row->record.size, 8);

    if (!memory)
        return FAIL(STATUS_TOO_LARGE, "%s: its struct does not fit the arena", row->name);
    TRY(decode_record(&cursor, &row->record, arena, memory));
    if (cursor.at != size)
        return FAIL(STATUS_MALFORMED, "%s: %zu bytes behind its end", row->name, size - cursor.at);
    *body = memory;
    return STATUS_OK;
}

/* ---- blanking ---- */

static bool holds_ids(const field_t *field)
{
    return field->type == FIELD_TOKEN || field->type == FIELD_TOKENS;
}

/* The head of a value says how long it is and stays: of a bin its first bytes, of an integer one,
 * none of one that is a single byte. */
static size_t head_bytes(uint8_t first)
{
    switch (first) {
    case 0xc4:
        return 2;
    case 0xc5:
        return 3;
    case 0xc6:
        return 5;
    default:
        return first >= 0xcc && first <= 0xd3;
    }
}

static status_t blank_record(cursor_t *cursor, const record_t *record, uint8_t *bytes)
{
    uint32_t count = 0, items = 1;

    TRY(cursor_array(cursor, &count));
    if (count > record->field_count)
        return FAIL(STATUS_MALFORMED, "%s: %u fields, not %u", record->name, count,
                    record->field_count);
    for (uint32_t i = 0; i < count; i++) {
        const field_t *field = &record->fields[i];
        size_t at = cursor->at;

        if (!field->record) {
            TRY(cursor_skip(cursor));
            if (holds_ids(field)) {
                at += head_bytes(bytes[at]);
                memset(bytes + at, 0, cursor->at - at);
            }
            continue;
        }
        if (field->type == FIELD_ITEMS)
            TRY(cursor_array(cursor, &items));
        else
            items = 1;
        for (uint32_t n = 0; n < items; n++)
            TRY(blank_record(cursor, field->record, bytes));
    }
    return STATUS_OK;
}

status_t codec_blank_tokens(const message_row_t *row, uint8_t *bytes, size_t size)
{
    cursor_t cursor = {.bytes = bytes, .size = size};

    TRY(blank_record(&cursor, &row->record, bytes));
    if (cursor.at != size)
        return FAIL(STATUS_MALFORMED, "%s: %zu bytes behind its end", row->name, size - cursor.at);
    return STATUS_OK;
}

/* ---- compare ---- */

static bool record_equal(const record_t *record, const void *a, const void *b)
{
    for (uint32_t i = 0; i < record->field_count; i++) {
        const field_t *field = &record->fields[i];
        const void *left = (const char *)a + field->offset,
                   *right = (const char *)b + field->offset;
        const items_view_t *x = left, *y = right;

        switch (field->type) {
        case FIELD_U8:
        case FIELD_U16:
        case FIELD_ACTOR:
        case FIELD_U32:
        case FIELD_TOKEN:
        case FIELD_U64:
            if (read_uint(field, left) != read_uint(field, right))
                return false;
            break;
        case FIELD_F32:
            if (memcmp(left, right, sizeof(float)) != 0)
                return false;
            break;
        case FIELD_RECORD:
            if (!record_equal(field->record, left, right))
                return false;
            break;
        case FIELD_ITEMS:
            if (x->count != y->count)
                return false;
            for (uint32_t n = 0; n < x->count; n++) {
                size_t offset = (size_t)n * field->record->size;

                if (!record_equal(field->record, (const char *)x->data + offset,
                                  (const char *)y->data + offset))
                    return false;
            }
            break;
        default:
            if (x->count != y->count ||
                (x->count &&
                 memcmp(x->data, y->data, (size_t)x->count * element_bytes(field)) != 0))
                return false;
        }
    }
    return true;
}

bool codec_equal(const message_row_t *row, const void *a, const void *b)
{
    return record_equal(&row->record, a, b);
}

/* ---- print ---- */

enum { PRINT_ELEMENTS_MAX = 8 };

static void print_record(const record_t *record, const void *body, bool reveal, FILE *out);

static void print_numbers(const field_t *field, const void *place, FILE *out)
{
    const bytes_view_t *view = place;
    uint32_t shown = view->count < PRINT_ELEMENTS_MAX ? view->count : PRINT_ELEMENTS_MAX;

    fputc('[', out);
    for (uint32_t i = 0; i < shown; i++) {
        const uint8_t *element = view->data + (size_t)i * element_bytes(field);
        uint32_t narrow;
        uint64_t wide;
        float real;

        fputs(i ? " " : "", out);
        if (field->type == FIELD_BYTES) {
            fprintf(out, "%02x", *element);
        } else if (field->type == FIELD_U64S) {
            memcpy(&wide, element, sizeof(wide));
            fprintf(out, "%llu", (unsigned long long)wide);
        } else if (field->type == FIELD_F32S) {
            memcpy(&real, element, sizeof(real));
            fprintf(out, "%g", (double)real);
        } else {
            memcpy(&narrow, element, sizeof(narrow));
            fprintf(out, "%u", narrow);
        }
    }
    if (view->count > shown)
        fprintf(out, " ... %u in all", view->count);
    fputc(']', out);
}

static void print_items(const field_t *field, const items_view_t *items, bool reveal, FILE *out)
{
    uint32_t shown = items->count < PRINT_ELEMENTS_MAX ? items->count : PRINT_ELEMENTS_MAX;

    fputc('[', out);
    for (uint32_t n = 0; n < shown; n++) {
        fputs(n ? " " : "", out);
        print_record(field->record, (const char *)items->data + (size_t)n * field->record->size,
                     reveal, out);
    }
    if (items->count > shown)
        fprintf(out, " ... %u in all", items->count);
    fputc(']', out);
}

static void print_field(const field_t *field, const void *place, bool reveal, FILE *out)
{
    const text_view_t *text = place;

    switch (field->type) {
    case FIELD_F32:
        fprintf(out, "%g", (double)*(const float *)place);
        break;
    case FIELD_TEXT:
        fprintf(out, "\"%.*s\"", (int)text->count, text->count ? text->data : "");
        break;
    case FIELD_RECORD:
        print_record(field->record, place, reveal, out);
        break;
    case FIELD_ITEMS:
        print_items(field, place, reveal, out);
        break;
    case FIELD_TOKEN:
        fprintf(out, reveal ? "%u" : "?", *(const uint32_t *)place);
        break;
    case FIELD_TOKENS:
        if (!reveal) {
            fprintf(out, "[%u tokens]", text->count);
            break;
        } /* fall through */
    case FIELD_BYTES:
    case FIELD_U32S:
    case FIELD_U64S:
    case FIELD_F32S:
        print_numbers(field, place, out);
        break;
    default:
        fprintf(out, "%llu", (unsigned long long)read_uint(field, place));
    }
}

static void print_record(const record_t *record, const void *body, bool reveal, FILE *out)
{
    fputc('{', out);
    for (uint32_t i = 0; i < record->field_count; i++) {
        const field_t *field = &record->fields[i];

        fprintf(out, "%s%s=", i ? ", " : "", field->name);
        print_field(field, (const char *)body + field->offset, reveal, out);
    }
    fputc('}', out);
}

void codec_print(const message_row_t *row, const void *body, bool reveal, FILE *out)
{
    fputs(row->name, out);
    print_record(&row->record, body, reveal, out);
}

/* ---- generate ---- */

static bool random_record(const record_t *record, random_t *random, uint32_t count_max,
                          arena_t *arena, void *body);

/* Edges are where encodings change their form, so half of all numbers stand next to a power of two.
 */
static uint64_t random_uint(random_t *random, uint64_t max)
{
    uint64_t value = random_next(random);

    if (value & 1)
        value = (1ull << random_below(random, 64)) - 1 + random_below(random, 2);
    else
        value = random_next(random);
    return value & max;
}

static bool random_text(const field_t *field, random_t *random, uint32_t count_max, arena_t *arena,
                        text_view_t *text)
{
    static const char *const characters[] = {
        "a", "Z", " ", "\"", "\xc3\xa9", "\xe6\xbc\xa2", "\xf0\x9f\x8c\x8a"};
    uint32_t room = count_max < field->limit ? count_max : field->limit;
    uint32_t count = (uint32_t)random_below(random, room + 1);
    char *data = arena_take(arena, room + 4, 1, 1);

    if (!data)
        return false;
    text->data = data;
    for (uint32_t at = 0; at < count;) {
        const char *next = characters[random_below(random, COUNT_OF(characters))];
        uint32_t step = (uint32_t)strlen(next);

        if (at + step > room)
            break;
        memcpy(data + at, next, step);
        at += step;
        text->count = at;
    }
    return true;
}

static bool random_list(const field_t *field, random_t *random, uint32_t count_max, arena_t *arena,
                        void *place)
{
    uint32_t room = count_max < field->limit ? count_max : field->limit;
    uint32_t count = (uint32_t)random_below(random, room + 1), element = element_bytes(field);
    uint8_t *data = arena_take(arena, count ? count : 1, element, 8);

    if (!data)
        return false;
    *(items_view_t *)place = (items_view_t){.data = count ? data : NULL, .count = count};
    if (field->type != FIELD_ITEMS) {
        for (size_t i = 0; i < (size_t)count * element; i++)
            data[i] = (uint8_t)random_next(random);
        return true;
    }
    for (uint32_t n = 0; n < count; n++)
        if (!random_record(field->record, random, count_max, arena, data + (size_t)n * element))
            return false;
    return true;
}

static bool random_record(const record_t *record, random_t *random, uint32_t count_max,
                          arena_t *arena, void *body)
{
    for (uint32_t i = 0; i < record->field_count; i++) {
        const field_t *field = &record->fields[i];
        void *place = (char *)body + field->offset;
        bool fits = true;

        switch (field->type) {
        case FIELD_F32:
            *(float *)place = (float)(random_unit(random) * 4 - 2);
            break;
        case FIELD_TEXT:
            fits = random_text(field, random, count_max, arena, place);
            break;
        case FIELD_RECORD:
            fits = random_record(field->record, random, count_max, arena, place);
            break;
        case FIELD_BYTES:
        case FIELD_U32S:
        case FIELD_TOKENS:
        case FIELD_U64S:
        case FIELD_F32S:
        case FIELD_ITEMS:
            fits = random_list(field, random, count_max, arena, place);
            break;
        default:
            write_uint(field, place, random_uint(random, codec_uint_max(field)));
        }
        if (!fits)
            return false;
    }
    return true;
}

const void *codec_random(const message_row_t *row, random_t *random, uint32_t count_max,
                         arena_t *arena)
{
    void *body = arena_take(arena, 1, row->record.size, 8);

    if (!body || !random_record(&row->record, random, count_max, arena, body))
        return NULL;
    return body;
}
