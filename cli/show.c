#include "cli/show.h"

#include "messages/message.h"
#include "runtime/codec.h"

const char *show_name(const topology_t *topology, uint16_t id)
{
    static const char *const ports[] = {"runtime", "device", "client", "process", "figures"};

    if (id < topology->actor_count)
        return topology->actors[id].name;
    return id >= PORT_FIRST && id < PORT_FIRST + COUNT_OF(ports) ? ports[id - PORT_FIRST]
                                                                 : "observer";
}

void show_message(const show_t *message, bool reveal, arena_t *arena, FILE *out)
{
    const message_row_t *row =
        message->id < message_table.count ? &message_table.rows[message->id] : NULL;
    const void *decoded = NULL;

    fprintf(out, "%10.6f %s > %s ", (double)message->us * 1e-6, message->from, message->to);
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
