#include "runtime/stream.h"

#include <string.h>

#include "runtime/base/log.h"
#include "runtime/base/plant.h"
#include "runtime/base/probe.h"
#include "runtime/frame.h"

/* How long a stream waits before it says HELLO again, doubled each time; and before it doubts a
 * peer that does not acknowledge, or believes a later life of a peer whose end no supervisor has
 * told yet. */
enum {
    HELLO_WAIT_US_MIN = 50 * 1000,
    HELLO_WAIT_US_MAX = 1000 * 1000,
    DOUBT_US = 500 * 1000,
    LATER_LIFE_US = 500 * 1000,
    RESUME_WAIT_US = 100 * 1000,
};

/* A record of the queue: this, then the message as it stands in a frame. */
typedef struct {
    uint32_t body_bytes;
    uint16_t id;
    uint16_t class;
} out_t;

static void check(const stream_t *stream)
{
    ASSERT(stream->out_acked <= stream->out_sent);
    ASSERT(stream->out_sent < stream->out_next);
    ASSERT(stream->out_next - stream->out_acked - 1 == stream->out.count);
    ASSERT(stream->told <= stream->applied);
    ASSERT(stream->applied <= stream->received);
    if (stream->state == STREAM_UP)
        ASSERT(stream->peer_incarnation > stream->dead_incarnation);
}

void stream_init(stream_t *stream, const stream_birth_t *birth, uint64_t now_us)
{
    ASSERT(birth->incarnation > 0);
    *stream = (stream_t){.birth = *birth, .out_next = 1};
    if (stream->birth.credit_messages == 0)
        stream->birth.credit_messages = STREAM_CREDIT_MESSAGES;
    queue_init(&stream->out, birth->observer ? OBSERVER_OUT_BYTES_MAX : STREAM_OUT_BYTES_MAX);
    stream_connected(stream, now_us);
    check(stream);
}

void stream_fini(stream_t *stream)
{
    queue_fini(&stream->out);
}

void stream_connected(stream_t *stream, uint64_t now_us)
{
    stream->hello_due = true;
    stream->hello_asks = true;
    stream->hello_wait_us = HELLO_WAIT_US_MIN;
    stream->hello_us = now_us;
}

/* Both directions start at seq 1 with the next life of the peer. */
static void forget(stream_t *stream)
{
    if (stream->state == STREAM_UP)
        PROBE(stream_state, stream->birth.peer, stream->peer_incarnation, STREAM_DOWN);
    queue_clear(&stream->out);
    stream->out_place = queue_first(&stream->out);
    stream->state = STREAM_DOWN;
    stream->peer_incarnation = 0;
    stream->out_next = 1;
    stream->out_sent = stream->out_acked = 0;
    if (!PLANTED(credit_leak))
        stream->requests_out = 0;
    stream->request_bytes_out = 0;
    memset(stream->states_out, 0, sizeof(stream->states_out));
    stream->received = stream->applied = stream->told = stream->applied_bytes = 0;
    stream->waiting_bytes = 0;
    stream->ack_due = stream->resuming = false;
    stream->later_life_us = 0;
}

bool stream_exited(stream_t *stream, incarnation_t incarnation)
{
    bool was_up = stream->state == STREAM_UP && incarnation >= stream->peer_incarnation;

    if (incarnation > stream->dead_incarnation)
        stream->dead_incarnation = incarnation;
    if (stream->peer_incarnation && incarnation >= stream->peer_incarnation) {
        forget(stream);
        stream->hello_due = true; /* a next life may wait for it */
        stream->hello_wait_us = HELLO_WAIT_US_MIN;
    }
    check(stream);
    return was_up;
}

/* ---- sending ---- */

bool stream_may_send(const stream_t *stream, const message_row_t *row)
{
    if (stream->state != STREAM_UP)
        return false;
    if (row->class == MESSAGE_REQUEST)
        return stream->requests_out < stream->credit_messages &&
               stream->request_bytes_out < stream->credit_bytes;
    return row->class != MESSAGE_STATE || !stream->states_out[row->id] || PLANTED(state_flood);
}

status_t stream_push(stream_t *stream, const message_row_t *row, const uint8_t *body, size_t size,
                     uint64_t now_us)
{
    uint8_t *record;
    out_t *out;

    ASSERT(row->class != MESSAGE_LOCAL);
    if (stream->state != STREAM_UP) {
        ASSERT(row->class == MESSAGE_REPLY || row->class == MESSAGE_CONTROL);
        stream->counters.dropped_down++;
        return STATUS_OK;
    }
    ASSERT(stream_may_send(stream, row));
    record = queue_push(&stream->out, sizeof(*out) + frame_record_bytes(row->id, size));
    if (!record)
        return FAIL(STATUS_TOO_LARGE, "%zu bytes to actor %u are not acknowledged, no more fit",
                    queue_bytes(&stream->out), stream->birth.peer);
    out = (out_t *)(void *)record;
    *out = (out_t){(uint32_t)size, row->id, (uint16_t)row->class};
    frame_write_record(record + sizeof(*out), row->id, body, size);
    if (stream->out_sent + 1 == stream->out_next && stream->out_sent == stream->out_acked)
        stream->moved_us = now_us;
    stream->out_next++;
    if (row->class == MESSAGE_REQUEST) {
        stream->requests_out++;
        stream->request_bytes_out += size;
    } else if (row->class == MESSAGE_STATE) {
        stream->states_out[row->id] = 1;
    }
    check(stream);
    return STATUS_OK;
}

size_t stream_unsent_bytes(const stream_t *stream)
{
    return (size_t)(queue_end(&stream->out) - stream->out_place);
}

static frame_header_t header_of(const stream_t *stream, frame_kind_t kind)
{
    return (frame_header_t){.kind = kind,
                            .from = stream->birth.self,
                            .from_incarnation = stream->birth.incarnation,
                            .to = stream->birth.peer,
                            .to_incarnation = stream->peer_incarnation};
}

static void flush_hello(stream_t *stream, uint64_t now_us, uint8_t *frame, stream_emit_t *emit,
                        void *context)
{
    const frame_header_t header = header_of(stream, FRAME_HELLO);
    const stream_birth_t *birth = &stream->birth;
    frame_hello_t hello = {.asks = stream->hello_asks || stream->state != STREAM_UP,
                           .digests = birth->digests,
                           .received = stream->received,
                           .credit_messages = birth->credit_messages,
                           .credit_bytes = STREAM_CREDIT_BYTES,
                           .before = birth->before};

    hello.name = (text_view_t){birth->name, (uint32_t)strlen(birth->name)};
    hello.endpoint = (text_view_t){birth->endpoint, (uint32_t)strlen(birth->endpoint)};
    stream->hello_due = stream->hello_asks = false;
    stream->hello_us = now_us;
    stream->ack_due = stream->state == STREAM_UP;
    stream->counters.frames_sent++;
    emit(context, birth->peer, frame, frame_write_hello(frame, &header, &hello));
}

/* As many messages as one frame takes; there is at least one. */
static void flush_batch(stream_t *stream, uint8_t *frame, stream_emit_t *emit, void *context)
{
    const frame_header_t header = header_of(stream, FRAME_DATA);
    frame_data_t data = {.applied = stream->applied, .first = stream->out_sent + 1};
    uint64_t place = stream->out_place, next = place;
    size_t used, bytes = 0, size = 0;

    while (data.count < FRAME_BATCH_MESSAGES && queue_at(&stream->out, place, &size, &next)) {
        if (data.count > 0 && bytes + size > FRAME_BATCH_BYTES)
            break;
        bytes += size - sizeof(out_t);
        data.count++;
        place = next;
    }
    ASSERT(data.count > 0);
    used = frame_write_data(frame, &header, &data);
    for (place = stream->out_place; data.count > 0; data.count--, place = next) {
        const uint8_t *record = queue_at(&stream->out, place, &size, &next);

        memcpy(frame + used, record + sizeof(out_t), size - sizeof(out_t));
        used += size - sizeof(out_t);
        stream->out_sent++;
        stream->counters.messages_sent++;
    }
    stream->out_place = place;
    stream->told = stream->applied;
    stream->applied_bytes = 0;
    stream->ack_due = false;
    stream->counters.frames_sent++;
    emit(context, stream->birth.peer, frame, used);
}

void stream_flush(stream_t *stream, uint64_t now_us, uint8_t *frame, stream_emit_t *emit,
                  void *context)
{
    if (stream->refuse_due) {
        const frame_header_t header = header_of(stream, FRAME_REFUSE);

        stream->refuse_due = false;
        stream->counters.frames_sent++;
        emit(context, stream->birth.peer, frame,
             frame_write_refuse(frame, &header, stream->refusal));
    }
    if (stream->hello_due)
        flush_hello(stream, now_us, frame, emit, context);
    if (stream->state != STREAM_UP)
        return;
    if (stream->out_sent + 1 < stream->out_next)
        stream->moved_us = now_us;
    while (stream->out_sent + 1 < stream->out_next)
        flush_batch(stream, frame, emit, context);
    if (stream->ack_due) {
        const frame_header_t header = header_of(stream, FRAME_ACK);

        stream->ack_due = false;
        stream->told = stream->applied;
        stream->applied_bytes = 0;
        stream->counters.frames_sent++;
        emit(context, stream->birth.peer, frame, frame_write_ack(frame, &header, stream->applied));
    }
    check(stream);
}

void stream_tick(stream_t *stream, uint64_t now_us)
{
    if (stream->state != STREAM_UP) {
        if (now_us - stream->hello_us < stream->hello_wait_us)
            return;
        stream->hello_due = stream->hello_asks = true;
        stream->hello_wait_us *= 2;
        if (stream->hello_wait_us > HELLO_WAIT_US_MAX)
            stream->hello_wait_us = HELLO_WAIT_US_MAX;
        return;
    }
    if (stream->told < stream->applied)
        stream->ack_due = true;
    /* What is sent and not acknowledged for long may be lost with nothing behind it to show the
     * gap. */
    if (stream->out_acked < stream->out_sent && now_us - stream->moved_us >= DOUBT_US &&
        now_us - stream->hello_us >= DOUBT_US)
        stream->hello_due = stream->hello_asks = true;
    if (stream->resuming && now_us - stream->hello_us >= RESUME_WAIT_US)
        stream->hello_due = stream->hello_asks = true;
}

void stream_applied(stream_t *stream, incarnation_t incarnation, uint64_t seq,
                    const message_row_t *row, size_t size)
{
    if (incarnation != stream->peer_incarnation)
        return;
    ASSERT(seq == stream->applied + 1);
    stream->applied = seq;
    stream->applied_bytes += size;
    ASSERT(stream->waiting_bytes >= size);
    stream->waiting_bytes -= size;
    /* STATE holds its sender back until acknowledged, REQUESTs when half of the credit is used. */
    if ((row && row->class == MESSAGE_STATE) ||
        2 * (stream->applied - stream->told) >= stream->birth.credit_messages ||
        stream->applied_bytes >= STREAM_CREDIT_BYTES / 2)
        stream->ack_due = true;
    check(stream);
}

/* ---- receiving ---- */

/* Counts what the peer should not have sent; the first of its life is worth a line. */
static void malformed(stream_t *stream, const char *what)
{
    stream->counters.malformed++;
    if (stream->malformed_incarnation == stream->peer_incarnation)
        return;
    stream->malformed_incarnation = stream->peer_incarnation;
    LOG(WARN, "FRAME-MALFORMED peer=%u incarnation=%u: %s %s", stream->birth.peer,
        stream->peer_incarnation, what, trail_text());
}

static void acknowledged(stream_t *stream, uint64_t applied, uint64_t now_us)
{
    if (applied >= stream->out_next) {
        malformed(stream, "acknowledges what was never sent");
        return;
    }
    if (applied > stream->out_acked)
        stream->moved_us = now_us;
    while (stream->out_acked < applied) {
        size_t size = 0;
        const out_t *out = queue_front(&stream->out, &size);

        if (out->class == MESSAGE_REQUEST) {
            stream->requests_out--;
            stream->request_bytes_out -= out->body_bytes;
        } else if (out->class == MESSAGE_STATE) {
            stream->states_out[out->id] = 0;
        }
        queue_pop(&stream->out);
        stream->out_acked++;
    }
    if (stream->out_sent < stream->out_acked) { /* a late HELLO had made us go back behind it */
        stream->out_sent = stream->out_acked;
        stream->out_place = queue_first(&stream->out);
    }
    check(stream);
}

/* The next message to send is the one behind `received`. */
static void rewind_to(stream_t *stream, uint64_t received)
{
    uint64_t place = queue_first(&stream->out), next = place;
    size_t size;

    if (received < stream->out_acked) /* an acknowledgement overtook this HELLO */
        received = stream->out_acked;
    if (received < stream->out_sent) {
        stream->counters.resumes++;
        PROBE(stream_resume, stream->birth.peer, received, stream->out_sent);
    }
    for (uint64_t seq = stream->out_acked; seq < received; seq++) {
        ASSERT(queue_at(&stream->out, place, &size, &next) != NULL);
        place = next;
    }
    stream->out_place = place;
    stream->out_sent = received;
}

static bool fits(stream_t *stream, const char *what, uint64_t mine, uint64_t theirs)
{
    if (!mine || !theirs || mine == theirs)
        return true;
    (void)snprintf(stream->refusal, sizeof(stream->refusal), "%s is %016llx here, %016llx there",
                   what, (unsigned long long)mine, (unsigned long long)theirs);
    return false;
}

static bool is_welcome(stream_t *stream, const frame_header_t *header, const frame_hello_t *hello)
{
    const stream_digests_t *mine = &stream->birth.digests, *theirs = &hello->digests;

    if (fits(stream, "protocol version", FRAME_PROTOCOL, header->protocol) &&
        fits(stream, "topology", mine->topology, theirs->topology) &&
        fits(stream, "weights", mine->weights, theirs->weights) &&
        fits(stream, "geometry", mine->geometry, theirs->geometry) &&
        fits(stream, "numerics", mine->numerics, theirs->numerics))
        return true;
    stream->refuse_due = true;
    stream->counters.mismatches++;
    if (stream->refused_incarnation != header->from_incarnation) {
        stream->refused_incarnation = header->from_incarnation;
        LOG(WARN, "STREAM-REFUSED peer=%.*s incarnation=%u reason=\"%s\"", (int)hello->name.count,
            hello->name.data, header->from_incarnation, stream->refusal);
    }
    return false;
}

/* A peer that is up speaks as a later life: its supervisor's EXITED gets a while. The next life knows
 * as well why the one before it ended; one behind that does not. */
static bool believe_later_life(stream_t *stream, incarnation_t life, uint8_t before,
                               uint64_t now_us, const stream_events_t *events)
{
    incarnation_t ended = stream->peer_incarnation;

    if (stream->later_life_us == 0)
        stream->later_life_us = now_us ? now_us : 1;
    if (now_us - stream->later_life_us < LATER_LIFE_US)
        return false;
    stream->dead_incarnation = ended;
    forget(stream);
    events->exited(events->context, stream->birth.peer, ended,
                   life == ended + 1 ? before : RUNTIME_CAUSE_UNKNOWN);
    return true;
}

static void receive_hello(stream_t *stream, const frame_header_t *header,
                          const frame_hello_t *hello, uint64_t now_us,
                          const stream_events_t *events)
{
    bool knows_us = header->to_incarnation == stream->birth.incarnation;

    /* First of all, so that an observer can be told why it is refused. */
    memcpy(stream->peer_endpoint, hello->endpoint.data, hello->endpoint.count);
    stream->peer_endpoint[hello->endpoint.count] = '\0';
    if (!is_welcome(stream, header, hello))
        return;
    if (header->from_incarnation > stream->peer_incarnation) {
        if (stream->state == STREAM_UP &&
            !believe_later_life(stream, header->from_incarnation, hello->before, now_us, events))
            return;
        forget(stream);
        stream->peer_incarnation = header->from_incarnation;
        stream->state = STREAM_KNOWN;
    }
    if (knows_us) {
        if (hello->received >= stream->out_next) {
            malformed(stream, "took what was never sent");
            return;
        }
        /* No peer makes us keep more for it than we would keep for any. */
        stream->credit_messages = hello->credit_messages < STREAM_CREDIT_MESSAGES
                                      ? hello->credit_messages
                                      : STREAM_CREDIT_MESSAGES;
        stream->credit_bytes =
            hello->credit_bytes < STREAM_CREDIT_BYTES ? hello->credit_bytes : STREAM_CREDIT_BYTES;
        rewind_to(stream, hello->received);
        stream->moved_us = now_us;
        if (stream->state != STREAM_UP) {
            stream->state = STREAM_UP;
            PROBE(stream_state, stream->birth.peer, stream->peer_incarnation, STREAM_UP);
            stream->hello_wait_us = HELLO_WAIT_US_MIN;
            events->joined(events->context, stream->birth.peer, stream->peer_incarnation);
        }
    }
    if (hello->asks || !knows_us)
        stream->hello_due = true;
}

/* An honest peer never has more unacknowledged: an actor by its queue, an observer by its credit. */
static bool has_room(const stream_t *stream, uint32_t size)
{
    if (!stream->birth.observer)
        return stream->waiting_bytes + size <= STREAM_OUT_BYTES_MAX;
    return stream->received - stream->applied < stream->birth.credit_messages &&
           stream->waiting_bytes < STREAM_CREDIT_BYTES;
}

static void receive_data(stream_t *stream, cursor_t *cursor, uint64_t now_us,
                         const stream_events_t *events)
{
    frame_data_t data = {0};
    uint64_t seq;

    if (frame_read_data(cursor, &data) != STATUS_OK) {
        malformed(stream, "frame");
        return;
    }
    acknowledged(stream, data.applied, now_us);
    if (data.first > stream->received + 1) {
        stream->counters.gaps++;
        PROBE(stream_gap, stream->birth.peer, stream->received, data.first);
        if (!stream->resuming)
            stream->hello_due = true;
        stream->resuming = true;
        return;
    }
    for (seq = data.first; seq - data.first < data.count; seq++) {
        const uint8_t *body = NULL;
        uint32_t size = 0;
        uint16_t id = 0;

        if (frame_read_record(cursor, &id, &body, &size) != STATUS_OK) {
            malformed(stream, "message");
            return;
        }
        if (seq <= stream->received) {
            stream->counters.duplicates++;
            continue;
        }
        if (!has_room(stream, size)) {
            stream->counters.excess++;
            return; /* as if it were lost */
        }
        if (!events->message(events->context, stream->birth.peer, stream->peer_incarnation, seq, id,
                             body, size))
            return;
        if (stream->state != STREAM_UP)
            return; /* the message closed this stream */
        stream->received = seq;
        stream->waiting_bytes += size;
        stream->resuming = false;
        stream->counters.messages_received++;
    }
}

void stream_receive(stream_t *stream, const uint8_t *bytes, size_t size, uint64_t now_us,
                    const stream_events_t *events)
{
    cursor_t cursor = {.bytes = bytes, .size = size};
    frame_header_t header = {0};
    frame_hello_t hello = {0};
    text_view_t reason = {0};
    uint64_t applied = 0;

    stream->counters.frames_received++;
    trail_reset();
    if (frame_read_header(&cursor, &header) != STATUS_OK || header.from != stream->birth.peer ||
        header.to != stream->birth.self ||
        (header.kind == FRAME_HELLO && frame_read_hello(&cursor, &hello) != STATUS_OK)) {
        malformed(stream, "frame");
        return;
    }
    if (header.from_incarnation <= stream->dead_incarnation ||
        header.from_incarnation < stream->peer_incarnation) {
        stream->counters.stale++;
        return;
    }
    if (header.kind == FRAME_HELLO) {
        receive_hello(stream, &header, &hello, now_us, events);
    } else if (header.kind == FRAME_REFUSE) {
        if (frame_read_refuse(&cursor, &reason) == STATUS_OK &&
            stream->refused_incarnation != header.from_incarnation) {
            stream->refused_incarnation = header.from_incarnation;
            stream->counters.mismatches++;
            LOG(WARN, "STREAM-REFUSED by peer=%u incarnation=%u reason=\"%.*s\"",
                stream->birth.peer, header.from_incarnation, (int)reason.count, reason.data);
        }
    } else if (stream->state != STREAM_UP || header.from_incarnation != stream->peer_incarnation ||
               header.to_incarnation != stream->birth.incarnation) {
        stream->counters.stale++;
        if (now_us - stream->hello_us >= RESUME_WAIT_US)
            stream->hello_due = stream->hello_asks = true;
    } else if (header.kind == FRAME_DATA) {
        receive_data(stream, &cursor, now_us, events);
    } else if (frame_read_ack(&cursor, &applied) == STATUS_OK) {
        acknowledged(stream, applied, now_us);
    } else {
        malformed(stream, "acknowledgement");
    }
    check(stream);
}

bool stream_peek(const uint8_t *frame, size_t size, actor_id_t *from, actor_id_t *to)
{
    cursor_t cursor = {.bytes = frame, .size = size};
    frame_header_t header = {0};

    if (frame_read_header(&cursor, &header) != STATUS_OK)
        return false;
    *from = header.from;
    *to = header.to;
    return true;
}

const char *stream_state_name(stream_state_t state)
{
    static const char *const names[] = {"down", "known", "up"};

    ASSERT(state < COUNT_OF(names));
    return names[state];
}

void stream_print(const stream_t *stream, FILE *out)
{
    const stream_counters_t *c = &stream->counters;

    fprintf(out,
            "stream to=%u state=%s life=%u sent=%llu acked=%llu waiting=%u received=%llu "
            "applied=%llu gaps=%llu resumes=%llu duplicates=%llu stale=%llu malformed=%llu "
            "mismatches=%llu excess=%llu dropped=%llu\n",
            stream->birth.peer, stream_state_name(stream->state), stream->peer_incarnation,
            (unsigned long long)stream->out_sent, (unsigned long long)stream->out_acked,
            stream->out.count, (unsigned long long)stream->received,
            (unsigned long long)stream->applied, (unsigned long long)c->gaps,
            (unsigned long long)c->resumes, (unsigned long long)c->duplicates,
            (unsigned long long)c->stale, (unsigned long long)c->malformed,
            (unsigned long long)c->mismatches, (unsigned long long)c->excess,
            (unsigned long long)c->dropped_down);
}
