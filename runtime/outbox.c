#include "runtime/outbox.h"

#include "runtime/codec.h"

void outbox_init(outbox_t *outbox, const message_table_t *table, const roster_t *roster,
                 actor_id_t self, outbox_sink_t sink, uint8_t *scratch, size_t scratch_bytes)
{
    *outbox = (outbox_t){.table = table,
                         .roster = roster,
                         .self = self,
                         .scratch = scratch,
                         .scratch_bytes = scratch_bytes,
                         .sink = sink};
}

static const message_row_t *row_of(const outbox_t *outbox, uint16_t id)
{
    ASSERT(id < outbox->table->count);
    ASSERT(outbox->table->rows[id].name != NULL);
    return &outbox->table->rows[id];
}

static bool is_paced(const message_row_t *row)
{
    return row->class == MESSAGE_REQUEST || row->class == MESSAGE_STATE;
}

static void check_push(const outbox_t *outbox, const message_row_t *row, actor_id_t to)
{
    actor_kind_t self_kind = roster_kind(outbox->roster, outbox->self);
    actor_kind_t to_kind = roster_kind(outbox->roster, to);

    ASSERT(row->from & BIT(self_kind));
    ASSERT(to_kind < ACTOR_KIND_COUNT);
    ASSERT(row->to & BIT(to_kind));
    if (to_kind == ACTOR_PORT)
        return;
    ASSERT(row->class != MESSAGE_LOCAL);
    if (is_paced(row)) {
        ASSERT(outbox->planning);
        ASSERT(outbox->sink.may_send(outbox->sink.context, to, row));
    }
}

void outbox_push_all(outbox_t *outbox, actor_id_t first, uint32_t count, uint16_t id,
                     const void *body)
{
    const message_row_t *row = row_of(outbox, id);
    size_t used = 0;
    status_t status = codec_encode(row, body, outbox->scratch, outbox->scratch_bytes, &used);

    ASSERT(status == STATUS_OK);
    for (uint32_t i = 0; i < count; i++) {
        actor_id_t to = (actor_id_t)(first + i);

        check_push(outbox, row, to);
        outbox->sink.put(outbox->sink.context, to, row, outbox->scratch, used);
        if (outbox->sink.pushed)
            outbox->sink.pushed(outbox->sink.context, to, id, body);
        outbox->pushed++;
    }
}

void outbox_push(outbox_t *outbox, actor_id_t to, uint16_t id, const void *body)
{
    outbox_push_all(outbox, to, 1, id, body);
}

bool outbox_may_send(const outbox_t *outbox, actor_id_t to, uint16_t id)
{
    const message_row_t *row = row_of(outbox, id);

    if (roster_kind(outbox->roster, to) == ACTOR_PORT || !is_paced(row))
        return true;
    return outbox->planning && outbox->sink.may_send(outbox->sink.context, to, row);
}

bool outbox_is_up(const outbox_t *outbox, actor_id_t to)
{
    return roster_kind(outbox->roster, to) == ACTOR_PORT ||
           outbox->sink.is_up(outbox->sink.context, to);
}
