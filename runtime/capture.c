#include "runtime/capture.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/codec.h"

enum {
    CAPTURE_PUSHES_MAX = 4096,
    CAPTURE_KEYS = 65536,
    CAPTURE_ARENA_BYTES = 4 * MESSAGE_ARENA_BYTES
};

typedef struct {
    actor_id_t to;
    uint16_t id;
    bool seen;
    uint8_t *bytes;
    size_t size;
} kept_t;

struct capture {
    outbox_t outbox;
    const message_table_t *table;
    arena_t arena;
    bool down[CAPTURE_KEYS];
    bool (*denied)[MESSAGES_MAX]; /* by actor */
    kept_t kept[CAPTURE_PUSHES_MAX];
    uint32_t count;
};

static void put(void *context, actor_id_t to, const message_row_t *row, const uint8_t *body,
                size_t size)
{
    capture_t *self = context;
    uint8_t *bytes = malloc(size);

    ASSERT(bytes != NULL);
    ASSERT(self->count < CAPTURE_PUSHES_MAX);
    memcpy(bytes, body, size);
    self->kept[self->count++] = (kept_t){.to = to, .id = row->id, .bytes = bytes, .size = size};
}

static bool is_up(const void *context, actor_id_t to)
{
    const capture_t *self = context;

    return !self->down[to];
}

static bool may_send(const void *context, actor_id_t to, const message_row_t *row)
{
    const capture_t *self = context;

    return !self->down[to] && !self->denied[to][row->id];
}

capture_t *capture_open(const message_table_t *table, const roster_t *roster, actor_id_t self)
{
    capture_t *capture = calloc(1, sizeof(*capture));
    uint8_t *scratch = malloc(MESSAGE_BYTES_MAX);
    void *memory = malloc(CAPTURE_ARENA_BYTES);

    ASSERT(capture && scratch && memory);
    capture->denied = calloc(CAPTURE_KEYS, sizeof(*capture->denied));
    ASSERT(capture->denied != NULL);
    capture->table = table;
    arena_init(&capture->arena, memory, CAPTURE_ARENA_BYTES);
    outbox_init(&capture->outbox, table, roster, self,
                (outbox_sink_t){capture, put, is_up, may_send, NULL}, scratch, MESSAGE_BYTES_MAX);
    return capture;
}

void capture_close(capture_t *capture)
{
    capture_forget(capture);
    free(capture->denied);
    free(capture->outbox.scratch);
    free(capture->arena.bytes);
    free(capture);
}

outbox_t *capture_outbox(capture_t *capture)
{
    return &capture->outbox;
}

void capture_up_set(capture_t *capture, actor_id_t to, bool up)
{
    capture->down[to] = !up;
}

void capture_may_send_set(capture_t *capture, actor_id_t to, uint16_t id, bool may)
{
    ASSERT(id < capture->table->count);
    capture->denied[to][id] = !may;
}

void capture_plan(capture_t *capture, const actor_type_t *type, void *self)
{
    capture->outbox.planning = true;
    if (type->plan)
        type->plan(self, &capture->outbox);
    capture->outbox.planning = false;
}

static const void *see(capture_t *capture, kept_t *kept)
{
    const void *body = NULL;
    status_t status = codec_decode(&capture->table->rows[kept->id], kept->bytes, kept->size,
                                   &capture->arena, &body);

    ASSERT(status == STATUS_OK);
    kept->seen = true;
    return body;
}

bool capture_next(capture_t *capture, capture_push_t *push)
{
    for (uint32_t i = 0; i < capture->count; i++) {
        kept_t *kept = &capture->kept[i];

        if (kept->seen)
            continue;
        *push = (capture_push_t){kept->to, kept->id, see(capture, kept)};
        return true;
    }
    return false;
}

const void *capture_find(capture_t *capture, actor_id_t to, uint16_t id)
{
    for (uint32_t i = 0; i < capture->count; i++) {
        kept_t *kept = &capture->kept[i];

        if (!kept->seen && kept->to == to && kept->id == id)
            return see(capture, kept);
    }
    return NULL;
}

uint32_t capture_count(const capture_t *capture)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < capture->count; i++)
        count += !capture->kept[i].seen;
    return count;
}

void capture_forget(capture_t *capture)
{
    for (uint32_t i = 0; i < capture->count; i++)
        free(capture->kept[i].bytes);
    capture->count = 0;
    arena_reset(&capture->arena);
}
