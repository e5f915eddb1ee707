/* values.c - a value is chosen by a byte: mostly one that the actor has used, else a small, odd or huge one. */
#include "tests/fuzz/values.h"

#include <string.h>

#include "runtime/base/check.h"
#include "runtime/codec.h"

enum { LIST_MAX = 40 };

/* Fields whose names say the same share their values. */
static meaning_t *meaning_of(values_t *values, const char *name)
{
    static const char *const stems[] = {"generation", "epoch", "digest", "incarnation", "request",
                                        "attempt",    "page",  "slot",   "seq",         "token"};
    uint32_t hash = 2166136261u;

    for (uint32_t i = 0; i < COUNT_OF(stems); i++)
        if (strstr(name, stems[i]))
            return &values->meanings[i];
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 16777619u;
    return &values->meanings[COUNT_OF(stems) + hash % (VALUES_MEANINGS - COUNT_OF(stems))];
}

void values_learn_one(values_t *values, const char *name, uint64_t value)
{
    meaning_t *meaning = meaning_of(values, name);

    if (meaning->values[0] == value)
        return;
    memmove(meaning->values + 1, meaning->values, (VALUES_RING - 1) * sizeof(uint64_t));
    meaning->values[0] = value;
}

static size_t bytes_of(uint64_t most)
{
    return most == UINT8_MAX ? 1 : most == UINT16_MAX ? 2 : most == UINT32_MAX ? 4 : 8;
}

static uint64_t read_uint(const void *place, uint64_t most)
{
    uint64_t value = 0;

    memcpy(&value, place, bytes_of(most)); /* little endian, as everything that runs this */
    return value;
}

static void write_uint(void *place, uint64_t most, uint64_t value)
{
    memcpy(place, &value, bytes_of(most));
}

void values_learn(values_t *values, const record_t *record, const void *body)
{
    for (uint32_t i = 0; i < record->field_count; i++) {
        const field_t *field = &record->fields[i];
        const char *place = (const char *)body + field->offset;
        const bytes_view_t *view = (const void *)place;
        uint64_t most = codec_uint_max(field);

        if (most)
            values_learn_one(values, field->name, read_uint(place, most));
        else if (field->type == FIELD_RECORD)
            values_learn(values, field->record, place);
        else if (field->type == FIELD_ITEMS)
            for (uint32_t n = 0; n < view->count && n < VALUES_RING; n++)
                values_learn(values, field->record, view->data + (size_t)n * field->record->size);
        else if (field->type == FIELD_U32S || field->type == FIELD_U64S)
            for (uint32_t n = 0; n < view->count && n < VALUES_RING; n++)
                values_learn_one(values, field->name,
                                 read_uint(view->data + n * (field->type == FIELD_U64S ? 8u : 4u),
                                           field->type == FIELD_U64S ? UINT64_MAX : UINT32_MAX));
    }
}

static uint64_t choose_uint(values_t *values, const field_t *field)
{
    script_t *script = &values->script;
    const meaning_t *meaning = meaning_of(values, field->name);
    uint8_t how = script_byte(script);
    uint64_t known = meaning->values[how >> 5];

    switch (how & 15) {
    default:
        return known;
    case 1:
        return script_below(script, 8);
    case 2:
        return script_byte(script);
    case 3:
        return known + 1;
    case 4:
        return known - 1;
    case 5:
        return UINT64_MAX - script_below(script, 2);
    case 6:
        return 1ull << script_below(script, 64);
    case 7:
        return script_u64(script);
    case 8:
    case 9:
    case 10:
    case 11:
        return field->type == FIELD_ACTOR ? script_below(script, values->actors) : known;
    }
}

static text_view_t choose_text(values_t *values, const field_t *field)
{
    static const char *const texts[] = {"", "/lockstep-fuzz", "gateway/0", "decode/0/rank/1",
                                        "rather long, but not too long for a reason, is it?"};
    const char *text = texts[script_below(&values->script, COUNT_OF(texts))];
    size_t length = strlen(text);

    return (text_view_t){text, (uint32_t)(length < field->limit ? length : field->limit)};
}

static uint32_t element_bytes(const field_t *field)
{
    switch (field->type) {
    case FIELD_ITEMS:
        return field->record->size;
    case FIELD_U64S:
        return 8;
    case FIELD_BYTES:
        return 1;
    default:
        return 4;
    }
}

/* Lists that belong together have as many elements, if they want to. */
static bool choose_list(values_t *values, const field_t *field, bytes_view_t *view)
{
    uint8_t how = script_byte(&values->script);
    uint32_t count = how < 64 ? how % 4u : how < 128 ? values->last_count : how % LIST_MAX;
    uint32_t size = element_bytes(field);
    uint8_t *data;

    if (how == 255)
        count = 1024;
    if (count > field->limit)
        count = field->limit;
    data = arena_take(&values->arena, count ? count : 1, size, 8);
    if (!data)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *place = data + (size_t)i * size;

        if (field->type == FIELD_ITEMS) {
            if (!values_choose(values, field->record, place))
                return false;
        } else {
            write_uint(place, size == 8 ? UINT64_MAX : size == 1 ? UINT8_MAX : UINT32_MAX,
                       choose_uint(values, field));
        }
    }
    values->last_count = count;
    *view = (bytes_view_t){data, count};
    return true;
}

bool values_choose(values_t *values, const record_t *record, void *body)
{
    for (uint32_t i = 0; i < record->field_count; i++) {
        const field_t *field = &record->fields[i];
        void *place = (char *)body + field->offset;
        uint64_t most = codec_uint_max(field);

        if (most) {
            write_uint(place, most, choose_uint(values, field));
        } else if (field->type == FIELD_RECORD) {
            if (!values_choose(values, field->record, place))
                return false;
        } else if (field->type == FIELD_TEXT) {
            *(text_view_t *)place = choose_text(values, field);
        } else if (field->type == FIELD_F32) {
            static const float floats[] = {0, 1, -1, 1e30f, 0.5f};

            *(float *)place = floats[script_below(&values->script, COUNT_OF(floats))];
        } else if (!choose_list(values, field, place)) {
            return false;
        }
    }
    return true;
}

/* Where the question has a field of the same name and type, the answer says the same. */
void values_copy(const record_t *to, void *answer, const record_t *from, const void *question)
{
    for (uint32_t i = 0; i < to->field_count; i++)
        for (uint32_t n = 0; n < from->field_count; n++) {
            const field_t *a = &to->fields[i], *b = &from->fields[n];
            const char *place = (const char *)question + b->offset;
            uint64_t most = codec_uint_max(a);

            if (b->type == FIELD_RECORD)
                values_copy(to, answer, b->record, place);
            else if (a->type == b->type && most && strcmp(a->name, b->name) == 0)
                write_uint((char *)answer + a->offset, most, read_uint(place, most));
        }
}
