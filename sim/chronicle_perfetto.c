/* chronicle_perfetto.c - a recorded run as Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open.
 *
 * A host is a process, an actor a thread of it, a rank's device one more: steps are slices there, and
 * copies, which overlap, are asynchronous ones. A message is a slice of a microsecond where it is handled,
 * with an arrow from the slice in which it was said. Handlers take no virtual time, so what is said
 * stands at the time of its slice. */
#include <stdlib.h>
#include <string.h>

#include "sim/chronicle.h"
#include "messages/message.h"

enum { ARGUMENT_BYTES_MAX = 400, DEVICES_AT = 1000 /* thread ids of devices */ };

typedef struct {
    const chronicle_t *chronicle;
    FILE *out;
    bool more;                     /* an event stands before */
    uint64_t step_end[ACTORS_MAX]; /* of a rank's device */
} writer_t;

static void put_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned char)*text);
        else
            fputc(*text, out);
    }
    fputc('"', out);
}

/* `phase` is Chrome's word for the kind of an event. The caller closes it. */
static void begin(writer_t *self, const char *phase, const char *name, uint64_t at_us,
                  actor_id_t actor, bool device)
{
    const topology_t *topology = &self->chronicle->topology;
    bool known = actor < topology->actor_count;

    fprintf(self->out,
            "%s\n{\"ph\":\"%s\",\"ts\":%llu,\"pid\":%u,\"tid\":%u,\"name\":", self->more ? "," : "",
            phase, (unsigned long long)at_us, known ? topology->actors[actor].host + 1 : 0,
            known ? actor + 1 + (device ? DEVICES_AT : 0) : 0);
    self->more = true;
    put_text(self->out, name);
}

static void end(writer_t *self)
{
    fputc('}', self->out);
}

static void put_argument(writer_t *self, const char *name, const char *text)
{
    char *shown = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&shown, &bytes);

    ASSERT(out != NULL);
    chronicle_print_message(self->chronicle, text, ARGUMENT_BYTES_MAX, out);
    (void)fclose(out);
    fprintf(self->out, ",\"args\":{\"%s\":", name);
    put_text(self->out, shown);
    fputc('}', self->out);
    free(shown);
}

static void put_name(writer_t *self, const char *what, const char *name, actor_id_t actor,
                     bool device)
{
    begin(self, "M", what, 0, actor, device);
    fputs(",\"args\":{\"name\":", self->out);
    put_text(self->out, name);
    fputc('}', self->out);
    end(self);
}

static void put_tracks(writer_t *self)
{
    const topology_t *topology = &self->chronicle->topology;
    char name[ACTOR_NAME_BYTES_MAX + 8];

    for (uint32_t i = 0; i < topology->actor_count; i++) {
        const topology_actor_t *actor = &topology->actors[i];

        if (actor->kind == ACTOR_SUPERVISOR)
            put_name(self, "process_name", topology->hosts[actor->host].name, (actor_id_t)i, false);
        put_name(self, "thread_name", actor->name, (actor_id_t)i, false);
        if (actor->kind != ACTOR_RANK)
            continue;
        snprintf(name, sizeof(name), "%s device", actor->name);
        put_name(self, "thread_name", name, (actor_id_t)i, true);
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static void put_message(writer_t *self, uint32_t index)
{
    const chronicle_entry_t *entry = &self->chronicle->entries[index];
    const chronicle_entry_t *sent =
        entry->other == CHRONICLE_NONE ? NULL : &self->chronicle->entries[entry->other];
    const char *name = message_table.rows[entry->message].name;

    begin(self, "X", name, entry->at_us, entry->actor, false);
    fputs(",\"dur\":1,\"cat\":\"message\"", self->out);
    put_argument(self, "message", sent ? sent->text : entry->text);
    end(self);
    if (!sent)
        return;
    begin(self, "s", name, sent->at_us, sent->actor, false);
    fprintf(self->out, ",\"cat\":\"way\",\"id\":%u", index);
    end(self);
    begin(self, "f", name, entry->at_us, entry->actor, false);
    fprintf(self->out, ",\"cat\":\"way\",\"bp\":\"e\",\"id\":%u", index);
    end(self);
}

/* ---- devices --------------------------------------------------------------------------------- */

/* True if the first `fields` fields of two messages are equal: what names a step or a copy. */
static bool same_fields(const char *a, const char *b, int fields)
{
    a = strchr(a, '{');
    b = strchr(b, '{');
    while (a && b && *a && *a == *b) {
        if (*a == ',' && --fields == 0)
            return true;
        a++;
        b++;
    }
    return false;
}

/* Where a device told its rank what came of what it was asked; NULL: never. */
static const chronicle_entry_t *find_answer(const chronicle_t *chronicle, uint32_t index,
                                            uint16_t answer, int fields)
{
    const chronicle_entry_t *asked = &chronicle->entries[index];

    for (uint32_t i = index + 1; i < chronicle->count; i++) {
        const chronicle_entry_t *entry = &chronicle->entries[i];

        if (entry->actor != asked->actor)
            continue;
        if (entry->kind == CHRONICLE_DIED)
            return NULL;
        if (entry->kind == CHRONICLE_HANDLED && entry->message == answer &&
            entry->peer == PORT_DEVICE && same_fields(asked->text, entry->text, fields))
            return entry;
    }
    return NULL;
}

static void put_step(writer_t *self, uint32_t index)
{
    const chronicle_entry_t *asked = &self->chronicle->entries[index];
    const chronicle_entry_t *done = find_answer(self->chronicle, index, MESSAGE_step_done, 2);
    uint64_t from_us = self->step_end[asked->actor];

    if (!done)
        return;
    from_us = from_us > asked->at_us ? from_us : asked->at_us; /* one after another */
    begin(self, "X", "step", from_us, asked->actor, true);
    fprintf(self->out, ",\"cat\":\"device\",\"dur\":%llu",
            (unsigned long long)(done->at_us - from_us));
    put_argument(self, "step", asked->text);
    end(self);
    self->step_end[asked->actor] = done->at_us;
}

static void put_copy(writer_t *self, uint32_t index)
{
    const chronicle_entry_t *asked = &self->chronicle->entries[index];
    const chronicle_entry_t *done = find_answer(self->chronicle, index, MESSAGE_device_copied, 1);

    if (!done)
        return;
    begin(self, "b", "copy", asked->at_us, asked->actor, true);
    fprintf(self->out, ",\"cat\":\"device\",\"id\":%u", index);
    put_argument(self, "copy", asked->text);
    end(self);
    begin(self, "e", "copy", done->at_us, asked->actor, true);
    fprintf(self->out, ",\"cat\":\"device\",\"id\":%u", index);
    end(self);
}

/* ---- all ------------------------------------------------------------------------------------- */

static void put_instant(writer_t *self, const chronicle_entry_t *entry, const char *name)
{
    begin(self, "i", name, entry->at_us, entry->actor, false);
    fprintf(self->out, ",\"cat\":\"life\",\"s\":\"%s\"",
            entry->kind == CHRONICLE_FAULT ? "g" : "t");
    end(self);
}

static void put_entry(writer_t *self, uint32_t index)
{
    const chronicle_entry_t *entry = &self->chronicle->entries[index];

    switch (entry->kind) {
    case CHRONICLE_HANDLED:
        put_message(self, index);
        break;
    case CHRONICLE_SENT:
        if (entry->peer == PORT_DEVICE && entry->message == MESSAGE_step)
            put_step(self, index);
        else if (entry->peer == PORT_DEVICE && entry->message == MESSAGE_device_copy)
            put_copy(self, index);
        break;
    case CHRONICLE_FAULT:
        put_instant(self, entry, entry->text);
        break;
    case CHRONICLE_STARTED:
    case CHRONICLE_DIED:
        put_instant(self, entry, entry->kind == CHRONICLE_STARTED ? "begins" : "dead");
        break;
    }
}

void chronicle_print_perfetto(const chronicle_t *chronicle, FILE *out)
{
    writer_t *self = calloc(1, sizeof(*self));

    ASSERT(self != NULL);
    *self = (writer_t){.chronicle = chronicle, .out = out};
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
    put_tracks(self);
    for (uint32_t i = 0; i < chronicle->count; i++)
        put_entry(self, i);
    fputs("\n]}\n", out);
    free(self);
}
