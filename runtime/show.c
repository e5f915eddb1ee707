#include "runtime/show.h"

#include "runtime/codec.h"
#include "runtime/frame.h"

const char *show_name(const roster_t *roster, actor_id_t id)
{
    static const char *const ports[] = {"runtime", "device", "client", "process", "figures"};

    return id >= PORT_FIRST && id < PORT_FIRST + COUNT_OF(ports) ? ports[id - PORT_FIRST]
                                                                 : roster_name(roster, id);
}

void show_message(const show_t *message, const message_table_t *table, const roster_t *roster,
                  bool reveal, arena_t *arena, FILE *out)
{
    const message_row_t *row = message->id < table->count ? &table->rows[message->id] : NULL;
    const void *decoded = NULL;

    fprintf(out, "%10.6f %s > %s ", (double)message->us * 1e-6, show_name(roster, message->from),
            show_name(roster, message->to));
    if (!row || !row->name) {
        fprintf(out, "message %u of %zu bytes, which is not known here", message->id,
                message->size);
        return;
    }
    arena_reset(arena);
    if (codec_decode(row, message->body, message->size, arena, &decoded) == STATUS_OK)
        codec_print(row, decoded, reveal, out);
    else
        fprintf(out, "%s: %s", row->name, trail_text());
}

void show_record(const ring_record_t *record, const uint8_t *bytes, actor_id_t actor,
                 show_each_t *each, void *context)
{
    cursor_t cursor = {bytes, record->size, 0};
    frame_header_t header = {0};
    frame_data_t data = {0};
    show_t message = {record->us, record->peer, actor, record->id, bytes, record->size};

    trail_reset();
    if (record->what == RING_PORT_SENT) {
        message.from = actor;
        message.to = record->peer;
    }
    if (record->what == RING_PORT_SENT || record->what == RING_PORT_RECEIVED)
        each(context, &message);
    if (record->what != RING_RECEIVED || frame_read_header(&cursor, &header) != STATUS_OK ||
        header.kind != FRAME_DATA || frame_read_data(&cursor, &data) != STATUS_OK)
        return;
    message.from = header.from;
    for (uint32_t i = 0; i < data.count; i++) {
        uint32_t size = 0;

        if (frame_read_record(&cursor, &message.id, &message.body, &size) != STATUS_OK)
            return; /* cut: it was longer than the ring keeps */
        message.size = size;
        each(context, &message);
    }
}
