/* The descriptor table of all messages, made from schema.h, and its own checks. What can be done
 * with a message is in runtime/codec.c, once for all of them; the macros end where the table
 * stands. */
#include "messages/message.h"

#include <string.h>

#include "runtime/codec.h"

/* ---- fields and records ---- */

#define TYPE_u8 FIELD_U8
#define TYPE_u16 FIELD_U16
#define TYPE_u32 FIELD_U32
#define TYPE_u64 FIELD_U64
#define TYPE_f32 FIELD_F32
#define TYPE_bytes FIELD_BYTES
#define TYPE_text FIELD_TEXT
#define TYPE_u32s FIELD_U32S
#define TYPE_u64s FIELD_U64S
#define TYPE_f32s FIELD_F32S
#define TYPE_token FIELD_TOKEN
#define TYPE_tokens FIELD_TOKENS
#define TYPE_actor FIELD_ACTOR

#define FIELD_ROW(type, name, record, limit, text)                                                 \
    {#name, type, (uint32_t)offsetof(FIELD_OWNER(record), name), limit, NULL, text},
#define FIELD_ROW_OF(type, name, record, limit, inner, text)                                       \
    {#name, type, (uint32_t)offsetof(FIELD_OWNER(record), name), limit, &inner##_record, text},

#define FIELD_PLAIN(r, type, name, limit, text) FIELD_ROW(TYPE_##type, name, r, limit, text)
#define FIELD_NESTED(r, inner, name, text) FIELD_ROW_OF(FIELD_RECORD, name, r, 0, inner, text)
#define FIELD_LIST(r, inner, name, limit, text)                                                    \
    FIELD_ROW_OF(FIELD_ITEMS, name, r, limit, inner, text)

#define FIELD_OWNER(r) record_##r##_t
#define RECORD_DESCRIBE(name, FIELDS)                                                              \
    static const field_t name##_record_fields[] = {                                                \
        FIELDS(FIELD_PLAIN, FIELD_NESTED, FIELD_LIST, name)};                                      \
    static const record_t name##_record = {#name, sizeof(record_##name##_t), name##_record_fields, \
                                           COUNT_OF(name##_record_fields)};
RECORD_TABLE(RECORD_DESCRIBE)
#undef FIELD_OWNER

#define FIELD_OWNER(r) message_##r##_t
#define MESSAGE_DESCRIBE(name, FIELDS)                                                             \
    static const field_t name##_fields[] = {FIELDS(FIELD_PLAIN, FIELD_NESTED, FIELD_LIST, name)};
MESSAGE_FIELDS_TABLE(MESSAGE_DESCRIBE)
#undef FIELD_OWNER

/* ---- the table ---- */

#define ROW(name, id, class, scope, from, to, answers, text)                                       \
    [id] = {#name,                                                                                 \
            id,                                                                                    \
            MESSAGE_##class,                                                                       \
            SCOPE_##scope,                                                                         \
            from,                                                                                  \
            to,                                                                                    \
            answers,                                                                               \
            {#name, sizeof(message_##name##_t), name##_fields, COUNT_OF(name##_fields)},           \
            text},
static const message_row_t rows[] = {MESSAGE_TABLE(ROW)};
#undef ROW

const message_table_t message_table = {.rows = rows, .count = COUNT_OF(rows)};

_Static_assert(COUNT_OF(rows) == MESSAGE_COUNT, "MESSAGE_COUNT is one above the last id");
_Static_assert(COUNT_OF(rows) <= MESSAGES_MAX, "limits.h has room for every message");

/* The runtime itself makes and reads the first three; its own structs are these. REAPED it reads as EXITED. */
#define SAME(mine, theirs, field)                                                                  \
    _Static_assert(offsetof(mine, field) == offsetof(theirs, field), #mine " is " #theirs)
_Static_assert((int)MESSAGE_joined == (int)RUNTIME_JOINED, "the runtime knows this id");
_Static_assert((int)MESSAGE_exited == (int)RUNTIME_EXITED, "the runtime knows this id");
_Static_assert((int)MESSAGE_tick == (int)RUNTIME_TICK, "the runtime knows this id");
_Static_assert((int)MESSAGE_reaped == (int)RUNTIME_REAPED, "the runtime knows this id");
_Static_assert((int)EXIT_KILLED_OUTSIDE == (int)RUNTIME_CAUSE_UNKNOWN, "charged to nobody");
_Static_assert((int)EXIT_KILLED_BY_US == (int)RUNTIME_CAUSE_MAX, "the last one");
_Static_assert(sizeof(message_joined_t) == sizeof(runtime_joined_t), "joined");
_Static_assert(sizeof(message_exited_t) == sizeof(runtime_exited_t), "exited");
_Static_assert(sizeof(message_tick_t) == sizeof(runtime_tick_t), "tick");
SAME(message_joined_t, runtime_joined_t, actor);
SAME(message_joined_t, runtime_joined_t, incarnation);
SAME(message_exited_t, runtime_exited_t, actor);
SAME(message_exited_t, runtime_exited_t, incarnation);
SAME(message_exited_t, runtime_exited_t, cause);
SAME(message_tick_t, runtime_tick_t, now_ms);
SAME(message_tick_t, runtime_tick_t, wall_ms);

static const message_row_t *row_of(uint16_t id)
{
    ASSERT(id < message_table.count);
    ASSERT(message_table.rows[id].name != NULL);
    return &message_table.rows[id];
}

status_t message_encode(uint16_t id, const void *body, uint8_t *bytes, size_t size, size_t *used)
{
    return codec_encode(row_of(id), body, bytes, size, used);
}

status_t message_decode(uint16_t id, const uint8_t *bytes, size_t size, arena_t *arena,
                        const void **body)
{
    return codec_decode(row_of(id), bytes, size, arena, body);
}

bool message_equal(uint16_t id, const void *a, const void *b)
{
    return codec_equal(row_of(id), a, b);
}

void message_print(uint16_t id, const void *body, FILE *out)
{
    codec_print(row_of(id), body, false, out);
}

const void *message_random(uint16_t id, random_t *random, arena_t *arena)
{
    return codec_random(row_of(id), random, 1 + (uint32_t)random_below(random, 12), arena);
}

/* ---- checks of the table ---- */

static const message_row_t *find(const message_table_t *table, const char *name, size_t length)
{
    for (uint32_t id = 0; id < table->count; id++) {
        const char *other = table->rows[id].name;

        if (other && strlen(other) == length && memcmp(other, name, length) == 0)
            return &table->rows[id];
    }
    return NULL;
}

static bool names_attempt(const record_t *record)
{
    const field_t *f = record->fields;

    return record->field_count >= 2 && strcmp(f[0].name, "request") == 0 &&
           f[0].type == FIELD_U64 && f[0].offset == 0 && strcmp(f[1].name, "attempt") == 0 &&
           f[1].type == FIELD_U32 && f[1].offset == 8;
}

static uint32_t check_scope(const message_row_t *row, FILE *out)
{
    const field_t *items = NULL;

    for (uint32_t i = 0; i < row->record.field_count && !items; i++)
        if (row->record.fields[i].type == FIELD_ITEMS)
            items = &row->record.fields[i];
    if (row->scope == SCOPE_ATTEMPT && !names_attempt(&row->record)) {
        fprintf(out, "%s: of scope ATTEMPT, but does not begin with request, attempt\n", row->name);
        return 1;
    }
    if (row->scope == SCOPE_ITEMS && !(items && names_attempt(items->record))) {
        fprintf(out, "%s: of scope ITEMS, but its items do not begin with request, attempt\n",
                row->name);
        return 1;
    }
    return 0;
}

/* A REPLY names what pays for it, every name is a REQUEST, and nothing else is paid for. */
static uint32_t check_answers(const message_table_t *table, const message_row_t *row,
                              bool *answered, FILE *out)
{
    uint32_t faults = 0, named = 0;

    for (const char *at = row->answers; *at;) {
        size_t length = strcspn(at, " ");
        const message_row_t *request = find(table, at, length);

        if (!request || request->class != MESSAGE_REQUEST) {
            fprintf(out, "%s: answers '%.*s', which is no REQUEST\n", row->name, (int)length, at);
            faults++;
        } else {
            bool back = (row->from & request->to) && (row->to & request->from);

            answered[request->id] |= back;
        }
        named++;
        at += length + strspn(at + length, " ");
    }
    if ((row->class == MESSAGE_REPLY) != (named > 0)) {
        fprintf(out, "%s: a REPLY names what it answers, nothing else does\n", row->name);
        faults++;
    }
    return faults;
}

uint32_t message_table_check(const message_table_t *table, FILE *out)
{
    bool answered[MESSAGES_MAX] = {false};
    uint32_t faults = 0;

    ASSERT(table->count <= MESSAGES_MAX);
    for (uint32_t id = 0; id < table->count; id++) {
        const message_row_t *row = &table->rows[id];

        if (!row->name) {
            bool retired = false;

#define RETIRED(number) retired |= id == (number);
            MESSAGE_RETIRED_TABLE(RETIRED)
#undef RETIRED
            if (!retired) {
                fprintf(out, "id %u: has neither a row nor a place among the retired\n", id);
                faults++;
            }
            continue;
        }
        if (find(table, row->name, strlen(row->name)) != row) {
            fprintf(out, "%s: there are two of this name\n", row->name);
            faults++;
        }
        if (!row->from || !row->to) {
            fprintf(out, "%s: nobody sends it, or nobody gets it\n", row->name);
            faults++;
        }
        faults += check_scope(row, out) + check_answers(table, row, answered, out);
    }
    for (uint32_t id = 0; id < table->count; id++) {
        const message_row_t *row = &table->rows[id];

        if (row->name && row->class == MESSAGE_REQUEST && !answered[id]) {
            fprintf(out, "%s: a REQUEST that no REPLY answers on the way back\n", row->name);
            faults++;
        }
    }
    return faults;
}

/* ---- docs/messages.md ---- */

static void print_kinds(uint32_t kinds, FILE *out)
{
    const char *gap = "";

    if ((kinds & ALL) == ALL) {
        fputs(kinds == ALL ? "all" : "all, observer", out);
        return;
    }
    for (uint32_t kind = 0; kind < ACTOR_KIND_COUNT; kind++)
        if (kinds & BIT(kind)) {
            fprintf(out, "%s%s", gap, actor_kind_word(kind));
            gap = ", ";
        }
}

static void print_fields(const record_t *record, FILE *out)
{
    static const char *const types[] = {
        [FIELD_U8] = "u8",         [FIELD_U16] = "u16",     [FIELD_U32] = "u32",
        [FIELD_U64] = "u64",       [FIELD_F32] = "f32",     [FIELD_BYTES] = "bytes",
        [FIELD_TEXT] = "text",     [FIELD_U32S] = "u32s",   [FIELD_TOKEN] = "token",
        [FIELD_TOKENS] = "tokens", [FIELD_U64S] = "u64s",   [FIELD_F32S] = "f32s",
        [FIELD_RECORD] = "record", [FIELD_ITEMS] = "items", [FIELD_ACTOR] = "actor",
    };

    fputs("| # | field | type | at most | meaning |\n| --- | --- | --- | --- | --- |\n", out);
    for (uint32_t i = 0; i < record->field_count; i++) {
        const field_t *f = &record->fields[i];

        fprintf(out, "| %u | %s | %s%s%s | ", i, f->name, types[f->type], f->record ? " " : "",
                f->record ? f->record->name : "");
        if (f->type == FIELD_ACTOR)
            print_kinds(f->limit, out);
        else if (f->limit)
            fprintf(out, "%u", f->limit);
        fprintf(out, " | %s |\n", f->text);
    }
    fputc('\n', out);
}

void message_print_docs(FILE *out)
{
    static const char *const classes[] = {"control", "reply", "request", "state", "local"};
    static const char *const scopes[] = {"the actor", "the attempt", "each item's attempt"};

    fputs(
        "# Messages\n\n"
        "Printed from messages/schema.h by `build/release/tests/print_messages`; a test compares.\n"
        "How they look on the wire, and what the classes mean to a peer, is in wire.md.\n\n"
        "| id | message | class | from | to | answers | meaning |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n",
        out);
    for (uint32_t id = 0; id < message_table.count; id++) {
        const message_row_t *row = &message_table.rows[id];

        if (!row->name)
            continue;
        fprintf(out, "| %u | [%s](#%s) | %s | ", id, row->name, row->name, classes[row->class]);
        print_kinds(row->from, out);
        fputs(" | ", out);
        print_kinds(row->to, out);
        fprintf(out, " | %s | %s |\n", row->answers, row->text);
    }
    fputs("\n## Fields\n\n", out);
    for (uint32_t id = 0; id < message_table.count; id++) {
        const message_row_t *row = &message_table.rows[id];

        if (!row->name)
            continue;
        fprintf(out, "### %s\n\n%u, %s; dispatched by the state of %s.\n\n", row->name, id,
                classes[row->class], scopes[row->scope]);
        print_fields(&row->record, out);
    }
    fputs("## Records\n\n", out);
#define RECORD_PRINT(name, FIELDS)                                                                 \
    fputs("### record " #name "\n\n", out);                                                        \
    print_fields(&name##_record, out);
    RECORD_TABLE(RECORD_PRINT)
#undef RECORD_PRINT
}
