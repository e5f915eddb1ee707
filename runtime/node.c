#include "runtime/node.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/block.h"
#include "runtime/base/log.h"
#include "runtime/base/plant.h"
#include "runtime/base/probe.h"
#include "runtime/codec.h"

_Static_assert((int)FIGURES_WAITS_MAX == (int)ACTOR_WAITS_MAX, "each wait is shown");
_Static_assert((int)FIGURES_ATTEMPT_WAITS_MAX == (int)ACTOR_ATTEMPT_WAITS_MAX,
               "and each of attempts");

enum {
    PEER_NONE = 0xffff,
    OBSERVER_IDLE_US = 60 * 1000 * 1000,
    RUNTIME_BODY_BYTES_MAX = 64,
    MALFORMED_LINES = 16
};

/* A record of the mailbox; the body stands behind it. */
typedef struct {
    uint64_t arrived_us;
    uint64_t seq; /* on its stream; 0: from a port */
    uint32_t size;
    incarnation_t incarnation;
    actor_id_t from;
    uint16_t id;
    bool swallowed; /* the actor must not hear of it; it is acknowledged in its turn */
} mail_t;

typedef struct {
    stream_t stream;
    incarnation_t met; /* the life that the actor knows: JOINED was handled, EXITED not yet */
    bool dirty;        /* a flush may have something to send */
    bool observer;
    bool unread;       /* an observer that does not acknowledge: it goes when the handler is done */
    uint64_t heard_us; /* observers: when it last spoke */
} peer_t;

struct node {
    node_config_t config;
    actor_birth_t birth;
    dispatch_t dispatch;
    outbox_t outbox;
    queue_t mailbox;
    node_room_t room;
    node_room_t own_room; /* if the driver gave none */
    arena_t arena;        /* of the message in hand */
    void *memory;         /* of the dispatch tables and the actor's state */
    size_t memory_bytes;
    peer_t *peers;        /* those of the roster in its order, then observers */
    uint32_t peer_count;
    uint32_t peer_max;
    uint16_t *peer_of; /* by actor id of the roster; PEER_NONE: none */
    uint16_t *dirty;   /* indices of dirty peers */
    uint32_t dirty_count;
    uint64_t now_us;    /* clock when it was last looked at */
    uint64_t ticked_us; /* clock at the last TICK that was queued */
    uint64_t life_us;   /* what the actor takes for the time since it began */
    bool tick_waits;
    bool plan_due;
    bool working;    /* a handler runs: ports must not post into the mailbox under it */
    status_t failed; /* of a push; ends the process after the handler */
    envelope_t last;
    journal_t *journal; /* NULL: none is kept */
    figures_t *figures;
    figures_t *own_figures; /* if the driver gave none */
};

/* Reading a clock costs as much as a small handler, so it is read once for each thing that comes in
 * and once for each message that is done; in between `now_us` holds. */
static uint64_t look_at_clock(node_t *node)
{
    node->now_us = node->config.driver.clock_us(node->config.driver.context);
    return node->now_us;
}

static peer_t *find(const node_t *node, actor_id_t id)
{
    if (id < node->config.roster->count)
        return node->peer_of[id] == PEER_NONE ? NULL : &node->peers[node->peer_of[id]];
    if (id == ACTOR_NONE) /* as which free places of observers stand */
        return NULL;
    for (uint32_t i = 0; i < node->peer_count; i++)
        if (node->peers[i].observer && node->peers[i].stream.birth.peer == id)
            return &node->peers[i];
    return NULL;
}

static void mark(node_t *node, peer_t *peer)
{
    if (peer->dirty)
        return;
    peer->dirty = true;
    node->dirty[node->dirty_count++] = (uint16_t)(peer - node->peers);
}

/* ---- mailbox ---- */

static void drop(node_t *node, figures_drop_t what, uint64_t count)
{
    figure_add(&node->figures->dropped[what], count);
}

static bool put_mail(node_t *node, const mail_t *mail, const uint8_t *body)
{
    uint8_t *record = queue_push(&node->mailbox, sizeof(*mail) + mail->size);

    ASSERT(!node->working);
    if (!record)
        return false;
    memcpy(record, mail, sizeof(*mail));
    if (mail->size)
        memcpy(record + sizeof(*mail), body, mail->size);
    figure_set(&node->figures->depth, node->mailbox.count);
    if (node->mailbox.count > figure_get(&node->figures->depth_max))
        figure_set(&node->figures->depth_max, node->mailbox.count);
    if (node->mailbox.count == 1)
        figure_set(&node->figures->oldest_us, mail->arrived_us);
    return true;
}

/* JOINED, EXITED and TICK are encoded like everything else, so that traces show them alike. */
static void post_runtime(node_t *node, uint16_t id, const void *body)
{
    uint8_t bytes[RUNTIME_BODY_BYTES_MAX];
    size_t used = 0;
    status_t status =
        codec_encode(&node->config.table->rows[id], body, bytes, sizeof(bytes), &used);

    ASSERT(status == STATUS_OK);
    node_post(node, PORT_RUNTIME, id, bytes, used);
}

void node_tick(node_t *node)
{
    uint64_t now = look_at_clock(node), worth = now - node->ticked_us;
    runtime_tick_t tick = {.wall_ms = node->config.driver.wall_ms(node->config.driver.context)};

    for (uint32_t i = 0; i < node->peer_count; i++) {
        stream_tick(&node->peers[i].stream, now);
        mark(node, &node->peers[i]);
    }
    if (node->tick_waits)
        return;
    if (worth > 2 * node->config.tick_us)
        worth = 2 * node->config.tick_us;
    node->life_us += worth;
    node->ticked_us = now;
    node->tick_waits = true;
    tick.now_ms = node->life_us / 1000;
    post_runtime(node, RUNTIME_TICK, &tick);
}

/* ---- what streams tell ---- */

static void on_joined(void *context, actor_id_t peer, incarnation_t incarnation)
{
    const runtime_joined_t joined = {.actor = peer, .incarnation = incarnation};
    node_t *node = context;

    LOG(DEBUG, "STREAM-UP peer=%s incarnation=%u", roster_name(node->config.roster, peer),
        incarnation);
    post_runtime(node, RUNTIME_JOINED, &joined);
}

static void post_exited(node_t *node, actor_id_t peer, incarnation_t incarnation, uint8_t cause)
{
    const runtime_exited_t exited = {.actor = peer, .incarnation = incarnation, .cause = cause};

    post_runtime(node, RUNTIME_EXITED, &exited);
}

static void on_exited(void *context, actor_id_t peer, incarnation_t incarnation, uint8_t cause)
{
    node_t *node = context;

    LOG(DEBUG, "STREAM-LATER-LIFE peer=%s ended=%u cause=%u",
        roster_name(node->config.roster, peer), incarnation, cause);
    post_exited(node, peer, incarnation, cause);
}

/* A supervisor says that a process was reaped, or its process port tells it so in a body that begins
 * alike. True if the actor must not hear of it in these words: it never heard that it joined, or has
 * heard already that it ended, or knew an earlier life only, and hears of the end of that one
 * instead. */
static bool close_exited(node_t *node, const uint8_t *body, size_t size)
{
    const message_row_t *row = &node->config.table->rows[RUNTIME_EXITED];
    const runtime_exited_t *exited;
    const void *decoded = NULL;
    incarnation_t known;
    peer_t *peer;

    arena_reset(&node->arena);
    if (codec_decode(row, body, size, &node->arena, &decoded) != STATUS_OK)
        return false; /* the dispatch will count it as malformed */
    exited = decoded;
    peer = find(node, exited->actor);
    if (!peer)
        return true;
    mark(node, peer);
    known = peer->stream.peer_incarnation;
    if (!stream_exited(&peer->stream, exited->incarnation))
        return true;
    if (known == exited->incarnation)
        return false;
    post_exited(node, exited->actor, known, RUNTIME_CAUSE_UNKNOWN);
    return true;
}

static bool on_message(void *context, actor_id_t from, incarnation_t incarnation, uint64_t seq,
                       uint16_t id, const uint8_t *body, size_t size)
{
    node_t *node = context;
    mail_t mail = {.arrived_us = node->now_us,
                   .seq = seq,
                   .size = (uint32_t)size,
                   .incarnation = incarnation,
                   .from = from,
                   .id = id};

    /* Room that peers cannot fill is left for what ports and the runtime say. */
    if (queue_bytes(&node->mailbox) >= MAILBOX_BYTES_MAX / 4 * 3)
        return false;
    if (id == RUNTIME_EXITED && roster_kind(node->config.roster, from) == ACTOR_SUPERVISOR)
        mail.swallowed = close_exited(node, body, size) || PLANTED(lost_exit);
    return put_mail(node, &mail, body);
}

/* ---- observers ---- */

static void drop_observer(node_t *node, peer_t *peer)
{
    stream_t *stream = &peer->stream;

    if (stream->state == STREAM_UP)
        post_exited(node, stream->birth.peer, stream->peer_incarnation, RUNTIME_CAUSE_UNKNOWN);
    stream_fini(stream);
    memset(stream, 0, sizeof(*stream));
    stream->birth.peer = ACTOR_NONE;
}

static stream_birth_t birth_for(const node_t *node, actor_id_t peer)
{
    return (stream_birth_t){.table = node->config.table,
                            .self = node->birth.id,
                            .incarnation = node->birth.incarnation,
                            .peer = peer,
                            .digests = node->config.digests,
                            .before = node->config.before,
                            .credit_messages = node->config.credit_messages,
                            .name = roster_name(node->config.roster, node->birth.id),
                            .endpoint = node->config.endpoint ? node->config.endpoint : ""};
}

/* A place for an observer that speaks for the first time: a free one, or that of the one silent
 * for longest. */
static peer_t *admit_observer(node_t *node, actor_id_t id)
{
    peer_t *place = NULL;
    stream_birth_t birth = birth_for(node, id);

    if (!node->config.driver.observer || roster_kind(node->config.roster, id) != ACTOR_OBSERVER ||
        !roster_are_peers(node->config.roster, node->config.table, node->birth.id, id))
        return NULL;
    if (node->peer_count < node->peer_max) {
        place = &node->peers[node->peer_count++];
    } else {
        for (uint32_t i = 0; i < node->peer_count; i++) {
            peer_t *peer = &node->peers[i];

            if (peer->observer && (!place || peer->heard_us < place->heard_us))
                place = peer;
        }
        drop_observer(node, place);
    }
    birth.observer = true;
    *place = (peer_t){.observer = true, .dirty = place->dirty};
    birth.digests = (stream_digests_t){0}; /* an observer knows none, and is told none */
    stream_init(&place->stream, &birth, look_at_clock(node));
    return place;
}

/* Those that were silent for long, and those for whom more answers wait than they may leave unread. */
static void retire_observers(node_t *node)
{
    uint64_t now = look_at_clock(node);

    for (uint32_t i = 0; i < node->peer_count; i++) {
        peer_t *peer = &node->peers[i];

        if (!peer->observer || peer->stream.birth.peer == ACTOR_NONE ||
            (!peer->unread && now - peer->heard_us <= OBSERVER_IDLE_US))
            continue;
        if (peer->unread)
            drop(node, DROP_unread, 1);
        peer->unread = false;
        drop_observer(node, peer);
    }
}

/* ---- in ---- */

/* The stream that a frame is for; NULL, and it is counted, if there is none. */
static peer_t *peer_of(node_t *node, const uint8_t *frame, size_t size, bool stranger)
{
    figures_drop_t why = DROP_frames;
    actor_id_t from = ACTOR_NONE, to = ACTOR_NONE;
    peer_t *peer = NULL;

    trail_reset();
    if (stream_peek(frame, size, &from, &to) && to == node->birth.id) {
        if (stranger && roster_kind(node->config.roster, from) != ACTOR_OBSERVER) {
            why = DROP_strangers;
        } else {
            peer = find(node, from);
            if (!peer)
                peer = admit_observer(node, from);
        }
    }
    if (!peer) {
        drop(node, why, 1);
        LOG(DEBUG, "FRAME-REFUSED bytes=%zu from=%u to=%u stranger=%d: %s", size, from, to,
            stranger, trail_text());
    }
    return peer;
}

static void show_drops(node_t *node, const stream_counters_t *before, const stream_counters_t *now)
{
    const struct {
        figures_drop_t what;
        uint64_t count;
    } drops[] = {
        {DROP_malformed, now->malformed - before->malformed},
        {DROP_stale, now->stale - before->stale},
        {DROP_mismatches, now->mismatches - before->mismatches},
        {DROP_gaps, now->gaps - before->gaps},
        {DROP_duplicates, now->duplicates - before->duplicates},
        {DROP_excess, now->excess - before->excess},
    };

    for (uint32_t i = 0; i < COUNT_OF(drops); i++)
        if (drops[i].count > 0)
            drop(node, drops[i].what, drops[i].count);
}

void node_receive(node_t *node, const uint8_t *frame, size_t size, bool stranger)
{
    const stream_events_t events = {node, on_joined, on_exited, on_message};
    peer_t *peer = peer_of(node, frame, size, stranger);
    stream_counters_t before;
    actor_id_t from;
    uint64_t acked;

    if (!peer)
        return;
    from = peer->stream.birth.peer;
    before = peer->stream.counters;
    acked = peer->stream.out_acked;
    peer->heard_us = look_at_clock(node);
    stream_receive(&peer->stream, frame, size, peer->heard_us, &events);
    show_drops(node, &before, &peer->stream.counters);
    if (peer->observer && peer->stream.peer_endpoint[0])
        node->config.driver.observer(node->config.driver.context, from, peer->stream.peer_endpoint);
    if (peer->stream.out_acked != acked)
        node->plan_due = true;
    mark(node, peer);
}

void node_connected(node_t *node, actor_id_t id)
{
    peer_t *peer = find(node, id);

    if (!peer)
        return;
    stream_connected(&peer->stream, look_at_clock(node));
    mark(node, peer);
}

void node_post(node_t *node, actor_id_t port, uint16_t id, const uint8_t *body, size_t size)
{
    const mail_t mail = {
        .arrived_us = look_at_clock(node), .size = (uint32_t)size, .from = port, .id = id};

    ASSERT(port >= PORT_FIRST && port != ACTOR_NONE);
    ASSERT(id < node->config.table->count);
    ASSERT(size <= MESSAGE_BYTES_MAX);
    if (port == PORT_PROCESS && id == RUNTIME_REAPED)
        (void)close_exited(node, body, size);
    if (!put_mail(node, &mail, body)) /* a port is bounded by what it was asked for */
        node->failed =
            FAIL(STATUS_NO_MEMORY, "the mailbox is full of %u messages", node->mailbox.count);
}

/* ---- out ---- */

/* A stream can be up with a life whose JOINED still waits in the mailbox. What the actor sends
 * before it knows is meant for an earlier life, and must not reach this one. */
static bool has_met(const peer_t *peer)
{
    return peer->stream.state == STREAM_UP && peer->met == peer->stream.peer_incarnation;
}

static void put(void *context, actor_id_t to, const message_row_t *row, const uint8_t *body,
                size_t size)
{
    node_t *node = context;
    peer_t *peer;
    status_t status;

    journal_output(node->journal, to, row->id, body, size);
    if (roster_kind(node->config.roster, to) == ACTOR_PORT) {
        node->config.driver.port(node->config.driver.context, to, row->id, body, size);
        return;
    }
    peer = find(node, to);
    if (!peer) { /* an observer that went between question and answer */
        ASSERT(roster_kind(node->config.roster, to) == ACTOR_OBSERVER);
        return;
    }
    if (!has_met(peer)) {
        peer->stream.counters.dropped_down++;
        drop(node, DROP_down, 1);
        return;
    }
    status = stream_push(&peer->stream, row, body, size, node->now_us);
    if (status != STATUS_OK && peer->observer)
        peer->unread = true;
    else if (status != STATUS_OK)
        node->failed = status;
    mark(node, peer);
    /* A planner with much to say does not make the peer wait for its end. */
    if (stream_unsent_bytes(&peer->stream) >= FRAME_BATCH_BYTES)
        stream_flush(&peer->stream, node->now_us, node->room.frame, node->config.driver.frame,
                     node->config.driver.context);
}

/* What went into the void was not said. */
static void pushed(void *context, actor_id_t to, uint16_t id, const void *body)
{
    const node_t *node = context;
    const node_driver_t *driver = &node->config.driver;
    const bool to_port = roster_kind(node->config.roster, to) == ACTOR_PORT;
    const peer_t *peer = to_port ? NULL : find(node, to);

    if (to_port || (peer && has_met(peer)))
        driver->pushed(driver->context, to, id, body);
}

static bool is_up(const void *context, actor_id_t to)
{
    const node_t *node = context;
    const peer_t *peer = find(node, to);
    bool up = peer && has_met(peer);

    journal_answer(node->journal, to, JOURNAL_IS_UP, up);
    return up;
}

static bool may_send(const void *context, actor_id_t to, const message_row_t *row)
{
    const node_t *node = context;
    const peer_t *peer = find(node, to);
    bool may = peer && has_met(peer) && stream_may_send(&peer->stream, row);

    journal_answer(node->journal, to, row->id, may);
    return may;
}

static void show_stream(node_t *node, const peer_t *peer)
{
    uint32_t index = (uint32_t)(peer - node->peers);
    figures_stream_t *figures;
    const stream_t *s = &peer->stream;

    if (index >= ACTORS_MAX)
        return;
    figures = &node->figures->streams[index];
    figure_set(&figures->peer, s->birth.peer);
    figure_set(&figures->life, s->peer_incarnation);
    figure_set(&figures->state, s->state);
    figure_set(&figures->sent, s->out_sent);
    figure_set(&figures->acked, s->out_acked);
    figure_set(&figures->received, s->received);
    figure_set(&figures->applied, s->applied);
    figure_set(&figures->credit,
               s->request_bytes_out < s->credit_bytes ? s->credit_messages - s->requests_out : 0);
    figure_set(&node->figures->stream_count, node->peer_count);
}

void node_flush(node_t *node)
{
    const node_driver_t *driver = &node->config.driver;
    uint64_t now = look_at_clock(node);

    for (uint32_t i = 0; i < node->dirty_count; i++) {
        peer_t *peer = &node->peers[node->dirty[i]];

        peer->dirty = false;
        if (peer->stream.birth.peer == ACTOR_NONE)
            continue;
        stream_flush(&peer->stream, now, node->room.frame, driver->frame, driver->context);
        show_stream(node, peer);
    }
    node->dirty_count = 0;
}

/* ---- work ---- */

/* Before the handler: what it sends in answer is already meant for the life of this JOINED. */
static void meet(node_t *node, uint16_t id, const void *body)
{
    const runtime_joined_t *joined = body; /* EXITED begins with the same fields */
    peer_t *peer = find(node, joined->actor);

    if (peer)
        peer->met = id == RUNTIME_JOINED ? joined->incarnation : 0;
}

static status_t handle(node_t *node, const mail_t *mail, const uint8_t *body)
{
    const node_config_t *config = &node->config;
    const void *decoded = NULL;
    status_t status;

    trail_reset();
    status = dispatch_admit(&node->dispatch, config->roster, mail->from, mail->id, body, mail->size,
                            &node->arena, &decoded);
    if (status != STATUS_OK) {
        uint64_t before = figure_get(&node->figures->malformed);

        /* Every one is counted; of many, fewer and fewer are worth a line. */
        figure_add(&node->figures->malformed, 1);
        drop(node, DROP_malformed, 1);
        if (before < MALFORMED_LINES || (before & (before + 1)) == 0)
            LOG(WARN, "MESSAGE-MALFORMED from=%s message=%u bytes=%u before=%llu: %s",
                roster_name(config->roster, mail->from), mail->id, mail->size,
                (unsigned long long)before, trail_text());
        return STATUS_OK;
    }
    if (mail->id == RUNTIME_JOINED || mail->id == RUNTIME_EXITED)
        meet(node, mail->id, decoded);
    node->last = (envelope_t){
        .from = mail->from, .incarnation = mail->incarnation, .id = mail->id, .body = decoded};
    if (config->driver.received)
        config->driver.received(config->driver.context, &node->last);
    return dispatch_message(&node->dispatch, &node->last, &node->outbox);
}

static void show_waits(figures_t *figures, const dispatch_t *dispatch)
{
    actor_wait_t waits[ACTOR_WAITS_MAX] = {0};
    uint32_t count = dispatch->type->waits(dispatch->self, waits);

    for (uint32_t i = 0; i < FIGURES_WAITS_MAX; i++) {
        figures_wait_t *figure = &figures->waits[i];

        figure_set(&figure->whom, i < count ? waits[i].whom : 0);
        figure_set(&figure->first, waits[i].first);
        figure_set(&figure->message, waits[i].message);
        figure_set(&figure->number, waits[i].number);
        figure_set(&figure->age_ms, waits[i].age_ms);
    }
}

static void show_attempt_waits(figures_t *figures, const dispatch_t *dispatch)
{
    uint32_t counts[ACTOR_ATTEMPT_WAITS_MAX] = {0};

    dispatch->type->attempt_waits(dispatch->self, counts);
    for (uint32_t i = 0; i < ACTOR_ATTEMPT_WAITS_MAX; i++)
        figure_set(&figures->attempt_waits[i], counts[i]);
}

static void show(node_t *node, const mail_t *mail, uint64_t began_us, uint64_t ended_us)
{
    const dispatch_t *dispatch = &node->dispatch;
    figures_t *figures = node->figures;
    const mail_t *next;
    size_t size;

    if (mail && mail->id < MESSAGES_MAX) {
        figures_message_t *message = &figures->messages[mail->id];
        uint64_t refused = dispatch->refused[mail->id];

        PROBE(message_handled, mail->id, mail->from, began_us - mail->arrived_us,
              ended_us - began_us);
        figure_add(&message->received, 1);
        figure_add(&message->wait_us, began_us - mail->arrived_us);
        figure_add(&message->handle_us, ended_us - began_us);
        figure_add(&figures->refused, refused - figure_get(&message->refused));
        figure_set(&message->refused, refused);
        figure_set(&message->failed, dispatch->failed[mail->id]);
        figure_add(&figures->received, 1);
    }
    next = queue_front(&node->mailbox, &size);
    figure_set(&figures->oldest_us, next ? next->arrived_us : 0);
    figure_set(&figures->depth, node->mailbox.count);
    figure_set(&figures->state, dispatch->type->state(dispatch->self));
    if (dispatch->type->attempt_count)
        figure_set(&figures->attempts, dispatch->type->attempt_count(dispatch->self));
    if (dispatch->type->waits)
        show_waits(figures, dispatch);
    if (dispatch->type->attempt_waits)
        show_attempt_waits(figures, dispatch);
    figure_set(&figures->now_us, ended_us);
    figure_add(&figures->progress, 1);
}

/* Before the work, so that what ends the process stands in the journal. */
static void note_input(node_t *node, const mail_t *mail)
{
    journal_input_t input = {.us = node->now_us};

    if (!mail || mail->swallowed) {
        journal_input(node->journal, JOURNAL_PLAN, &input, NULL);
        return;
    }
    input.size = mail->size;
    input.incarnation = mail->incarnation;
    input.from = mail->from;
    input.id = mail->id;
    journal_input(node->journal, JOURNAL_MESSAGE, &input, (const uint8_t *)(mail + 1));
}

static void note_result(node_t *node, status_t status)
{
    const dispatch_t *dispatch = &node->dispatch;
    const actor_type_t *type = dispatch->type;

    if (node->journal)
        journal_result(node->journal, status, type->state(dispatch->self),
                       type->attempt_count ? type->attempt_count(dispatch->self) : 0);
}

/* A plant: until it has credit everywhere, it handles nothing. */
static bool waits_for_credit(const node_t *node)
{
    for (uint32_t i = 0; i < node->peer_count && PLANTED(handler_waits); i++) {
        const stream_t *stream = &node->peers[i].stream;

        if (stream->state == STREAM_UP && stream->requests_out == stream->credit_messages)
            return true;
    }
    return false;
}

status_t node_work(node_t *node, bool *worked)
{
    size_t size = 0;
    const mail_t *front = waits_for_credit(node) ? NULL : queue_front(&node->mailbox, &size);
    uint64_t began = node->now_us;
    mail_t mail = {0};
    status_t status = STATUS_OK;
    peer_t *peer;

    *worked = front != NULL || node->plan_due;
    if (!*worked)
        return STATUS_OK;
    node->working = true;
    node->last = (envelope_t){.from = ACTOR_NONE};
    arena_reset(&node->arena);
    note_input(node, front);
    if (front) {
        mail = *front;
        if (mail.from == PORT_RUNTIME && mail.id == RUNTIME_TICK)
            node->tick_waits = false;
        if (!mail.swallowed)
            status = handle(node, &mail, (const uint8_t *)(front + 1));
        queue_pop(&node->mailbox);
        peer = mail.seq ? find(node, mail.from) : NULL;
        if (peer) {
            stream_applied(&peer->stream, mail.incarnation, mail.seq,
                           mail.id < node->config.table->count ? &node->config.table->rows[mail.id]
                                                               : NULL,
                           mail.size);
            mark(node, peer);
        }
    }
    node->plan_due = false;
    if (status == STATUS_OK)
        dispatch_plan(&node->dispatch, &node->outbox);
    note_result(node, status);
    node->working = false;
    show(node, front ? &mail : NULL, began, look_at_clock(node));
    if (mail.id == RUNTIME_TICK && mail.from == PORT_RUNTIME)
        retire_observers(node);
    return status != STATUS_OK ? status : node->failed;
}

/* ---- life ---- */

static status_t open_peers(node_t *node)
{
    const roster_t *roster = node->config.roster;
    uint64_t now = look_at_clock(node);

    node->peer_max = OBSERVERS_MAX;
    for (actor_id_t id = 0; id < roster->count; id++)
        node->peer_max += roster_are_peers(roster, node->config.table, node->birth.id, id);
    node->peers = calloc(node->peer_max, sizeof(*node->peers));
    node->dirty = calloc(node->peer_max, sizeof(*node->dirty));
    node->peer_of = calloc(roster->count + 1, sizeof(*node->peer_of));
    if (!node->peers || !node->dirty || !node->peer_of)
        return FAIL(STATUS_NO_MEMORY, "%u streams", node->peer_max);
    for (actor_id_t id = 0; id < roster->count; id++) {
        stream_birth_t birth = birth_for(node, id);

        node->peer_of[id] = PEER_NONE;
        if (!roster_are_peers(roster, node->config.table, node->birth.id, id))
            continue;
        node->peer_of[id] = (uint16_t)node->peer_count;
        birth.endpoint = "";
        stream_init(&node->peers[node->peer_count].stream, &birth, now);
        mark(node, &node->peers[node->peer_count++]);
    }
    return STATUS_OK;
}

status_t node_room_open(node_room_t *room)
{
    *room = (node_room_t){.encoded = malloc(MESSAGE_BYTES_MAX),
                          .decoded = malloc(MESSAGE_ARENA_BYTES),
                          .frame = malloc(FRAME_BYTES_MAX)};
    if (room->encoded && room->decoded && room->frame)
        return STATUS_OK;
    node_room_close(room);
    return FAIL(STATUS_NO_MEMORY, "room for one message and one frame");
}

void node_room_close(node_room_t *room)
{
    free(room->encoded);
    free(room->decoded);
    free(room->frame);
    *room = (node_room_t){0};
}

static status_t open_parts(node_t *node)
{
    const node_config_t *config = &node->config;
    const actor_table_t *table = &config->type->table;
    size_t bytes = dispatch_bytes(config->type, config->table, &node->birth);
    arena_t arena;

    if (!config->room)
        TRY(node_room_open(&node->own_room));
    node->room = config->room ? *config->room : node->own_room;
    node->memory = block_open(bytes);
    node->memory_bytes = bytes;
    if (!node->figures)
        node->figures = node->own_figures = calloc(1, sizeof(figures_t));
    if (!node->memory || !node->figures)
        return FAIL(STATUS_NO_MEMORY, "an actor of %zu bytes and its buffers", bytes);
    figures_init(node->figures, node->birth.id, node->birth.incarnation,
                 roster_name(config->roster, node->birth.id));
    for (uint32_t i = 0; i < table->state_count && i < COUNT_OF(node->figures->state_names); i++)
        (void)snprintf(node->figures->state_names[i], STATE_NAME_BYTES_MAX, "%s",
                       table->state_names[i]);
    for (uint32_t i = 0; config->type->attempt_waits && i < ACTOR_ATTEMPT_WAITS_MAX; i++)
        if (config->type->attempt_wait_names[i])
            (void)snprintf(node->figures->attempt_wait_names[i], STATE_NAME_BYTES_MAX, "%s",
                           config->type->attempt_wait_names[i]);
    arena_init(&node->arena, node->room.decoded, MESSAGE_ARENA_BYTES);
    outbox_init(&node->outbox, config->table, config->roster, node->birth.id,
                (outbox_sink_t){node, put, is_up, may_send, config->driver.pushed ? pushed : NULL},
                node->room.encoded, MESSAGE_BYTES_MAX);
    arena_init_zeroed(&arena, node->memory, bytes);
    TRY(dispatch_init(&node->dispatch, config->type, config->table, &node->birth, &arena));
    node->dispatch.check = config->check;
    node->dispatch.met = config->met;
    return STATUS_OK;
}

/* Without one an actor works as well. */
static void open_journal(node_t *node)
{
    const node_config_t *config = &node->config;
    const char *name = roster_name(config->roster, node->birth.id);

    if (journal_open(config->journal, config->table, config->type, &node->birth, name,
                     node->dispatch.self, node->dispatch.self_bytes, &node->journal) != STATUS_OK)
        LOG(ERROR, "JOURNAL-ABSENT actor=%s: %s", name, trail_text());
}

status_t node_open(const node_config_t *config, node_t **node_p)
{
    node_t *node = calloc(1, sizeof(*node));
    status_t status;

    if (!node)
        return FAIL(STATUS_NO_MEMORY, "a node");
    node->config = *config;
    node->birth = *config->birth;
    node->figures = config->figures;
    ASSERT(roster_kind(config->roster, node->birth.id) == config->type->kind);
    queue_init(&node->mailbox, MAILBOX_BYTES_MAX);
    node->ticked_us = look_at_clock(node);
    status = open_parts(node);
    if (status == STATUS_OK)
        status = open_peers(node);
    if (status != STATUS_OK) {
        node_close(node);
        return trail_pass(status, __func__, __LINE__);
    }
    if (config->journal)
        open_journal(node);
    node->plan_due = true;
    node_tick(node);
    *node_p = node;
    return STATUS_OK;
}

void node_close(node_t *node)
{
    if (!node)
        return;
    for (uint32_t i = 0; i < node->peer_count; i++)
        stream_fini(&node->peers[i].stream);
    journal_close(node->journal);
    queue_fini(&node->mailbox);
    free(node->peers);
    free(node->peer_of);
    free(node->dirty);
    block_close(node->memory, node->memory_bytes);
    node_room_close(&node->own_room);
    free(node->own_figures);
    free(node);
}

/* ---- looking inside ---- */

const dispatch_t *node_dispatch(const node_t *node)
{
    return &node->dispatch;
}

const stream_t *node_stream(const node_t *node, actor_id_t peer)
{
    const peer_t *found = find(node, peer);

    return found ? &found->stream : NULL;
}

bool node_is_idle(const node_t *node)
{
    return node->mailbox.count == 0 && !node->plan_due;
}

uint32_t node_depth(const node_t *node)
{
    return node->mailbox.count;
}

const envelope_t *node_last(const node_t *node)
{
    return &node->last;
}

void node_print(const node_t *node, FILE *out)
{
    fprintf(out, "%s incarnation=%u state=%s depth=%u received=%llu malformed=%llu\n",
            roster_name(node->config.roster, node->birth.id), node->birth.incarnation,
            dispatch_state_name(&node->dispatch), node->mailbox.count,
            (unsigned long long)figure_get(&node->figures->received),
            (unsigned long long)figure_get(&node->figures->malformed));
    dispatch_print(&node->dispatch, out);
    for (uint32_t i = 0; i < node->peer_count; i++) {
        fputs("  ", out);
        stream_print(&node->peers[i].stream, out);
    }
}
