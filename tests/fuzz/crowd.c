/* crowd.c - a script is a list of actions, each a byte and what it asks for:
 *
 *      a peer says a message that is good but for its meaning, answers what it was asked last, says it twice,
 *      early or spoilt; a peer says HELLO, acknowledges, is born again; the supervisor says that it was; raw bytes
 *      arrive; a port answers; time passes
 *
 * A byte of 0 is the well-behaved choice wherever there is one, so a few bytes lead far: values are by default
 * those that the actor itself has used in fields of the same meaning.
 */
#include "tests/fuzz/crowd.h"

#include <stdlib.h>
#include <string.h>

#include "actors/roster.h"
#include "actors/types.h"
#include "messages/message.h"
#include "runtime/base/log.h"
#include "runtime/codec.h"
#include "runtime/frame.h"
#include "runtime/node.h"
#include "tests/fuzz/manners.h"
#include "tests/fuzz/values.h"

enum {
    OBSERVERS = 3,
    PEERS_MAX = 64,
    LIFE = 2,
    TICK_US = 20000,
    ASKED_BYTES = 1 << 16,
    ARENA_BYTES = 4 << 20,
    FRAME_SCRATCH = 1 << 20,
    ACTIONS_MAX = 1000,
    PORT_MAX = 64
};

static const char topology_text[] = "lockstep: 1\n"
                                    "model: model/tiny\n"
                                    "limits: {context_tokens: 1024}\n"
                                    "gateway:\n"
                                    "  - {port: 8000, admin_port: 8001, streams_max: 8}\n"
                                    "  - {port: 8002, admin_port: 8003, streams_max: 8}\n"
                                    "prefill: [{tp: 2, pages: 12, borders: 4, slots: 3}]\n"
                                    "decode: [{tp: 2, pages: 12, borders: 4, slots: 3}]\n"
                                    "transfer: [{count: 2}]\n";

/* A peer as it pretends to be. */
typedef struct {
    actor_id_t id;
    incarnation_t life;
    uint64_t sent;     /* seq of its last message */
    uint64_t received; /* of the last one that came */
    bool mute;         /* acknowledges nothing of itself */
    uint32_t turn;     /* how often it has behaved */
    uint16_t asked_id; /* the last message that came */
    uint32_t asked_bytes;
    uint8_t asked[ASKED_BYTES];
} liar_t;

/* What the actor asked of its port and has no answer yet. */
typedef struct {
    uint16_t id;
    uint32_t bytes;
    uint8_t body[4096];
} order_t;

typedef struct {
    values_t values;
    manners_t manners;
    FILE *trace;
    node_t *node;
    actor_id_t self;
    actor_kind_t kind;
    uint64_t now_us;
    bool ended; /* the process would have ended */
    liar_t *peers;
    uint32_t peer_count;
    order_t orders[PORT_MAX];
    uint32_t order_first;
    uint32_t order_count;
    bool device_ready;
    uint64_t clients;
    incarnation_t children[PEERS_MAX]; /* a supervisor's, that run */
    uint8_t *frame;
    uint8_t *body;
} crowd_t;

static topology_t topology;
static roster_t roster;
static node_room_t room; /* for all runs: to get it again takes longer than most scripts */

static void open_world(void)
{
    static topology_errors_t errors;
    status_t status;

    if (roster.count > 0)
        return;
    log_level_set(LOG_ERROR);
    status = topology_parse(topology_text, sizeof(topology_text) - 1, "fuzz.yaml", &topology,
                            &errors);
    if (status != STATUS_OK)
        topology_errors_print(&errors, stderr);
    ASSERT(status == STATUS_OK);
    roster_init(&roster, &topology);
    status = node_room_open(&room);
    ASSERT(status == STATUS_OK);
    ASSERT(roster.count + OBSERVERS <= PEERS_MAX);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static liar_t *liar_of(crowd_t *crowd, actor_id_t id)
{
    for (uint32_t i = 0; i < crowd->peer_count; i++)
        if (crowd->peers[i].id == id)
            return &crowd->peers[i];
    return NULL;
}

static frame_header_t header_of(const crowd_t *crowd, const liar_t *peer, frame_kind_t kind)
{
    return (frame_header_t){.kind = kind,
                            .from = peer->id,
                            .from_incarnation = peer->life,
                            .to = crowd->self,
                            .to_incarnation = LIFE};
}

static void deliver(crowd_t *crowd, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1); /* so that a read behind the end is seen */

    ASSERT(exact != NULL);
    memcpy(exact, crowd->frame, size);
    node_receive(crowd->node, exact, size, false);
    free(exact);
}

static void say_hello(crowd_t *crowd, const liar_t *peer, bool asks, uint64_t received,
                      uint32_t credit)
{
    const frame_header_t header = header_of(crowd, peer, FRAME_HELLO);
    const frame_hello_t hello = {.asks = asks,
                                 .received = received,
                                 .credit_messages = credit,
                                 .credit_bytes = 1 << 20,
                                 .name = {"liar", 4},
                                 .endpoint = {"ipc:///nowhere", 14}};

    deliver(crowd, frame_write_hello(crowd->frame, &header, &hello));
}

static void say_ack(crowd_t *crowd, const liar_t *peer, uint64_t applied)
{
    const frame_header_t header = header_of(crowd, peer, FRAME_ACK);

    deliver(crowd, frame_write_ack(crowd->frame, &header, applied));
}

/* `count` times the same message, the first as seq `first`; `spoil` bytes of it are changed. */
static void say(crowd_t *crowd, liar_t *peer, uint64_t first, uint16_t id, size_t size,
                uint32_t count, uint32_t spoil)
{
    const frame_header_t header = header_of(crowd, peer, FRAME_DATA);
    const frame_data_t data = {.applied = peer->mute ? 0 : peer->received,
                               .first = first,
                               .count = count};
    size_t used = frame_write_data(crowd->frame, &header, &data);

    if (used + count * frame_record_bytes(id, size) > FRAME_SCRATCH)
        return;
    for (uint32_t i = 0; i < count; i++) {
        frame_write_record(crowd->frame + used, id, crowd->body, size);
        used += frame_record_bytes(id, size);
    }
    for (; spoil > 0; spoil--)
        crowd->frame[script_below(&crowd->values.script, used < 65536 ? (uint32_t)used : 65536)] =
            script_byte(&crowd->values.script);
    deliver(crowd, used);
}

/* ---- what the node says ---------------------------------------------------------------------- */

static uint64_t clock_of(void *context)
{
    return ((crowd_t *)context)->now_us;
}

static uint64_t wall_of(void *context)
{
    return ((crowd_t *)context)->now_us / 1000;
}

static void hear_data(crowd_t *crowd, liar_t *peer, cursor_t *cursor)
{
    frame_data_t data = {0};
    status_t status = frame_read_data(cursor, &data);

    ASSERT(status == STATUS_OK);
    for (uint32_t i = 0; i < data.count; i++) {
        const void *body = NULL;
        const uint8_t *bytes;
        uint32_t size = 0;
        uint16_t id = 0;

        status = frame_read_record(cursor, &id, &bytes, &size);
        ASSERT(status == STATUS_OK);
        ASSERT(id < message_table.count);
        arena_reset(&crowd->values.arena);
        status = message_decode(id, bytes, size, &crowd->values.arena, &body);
        if (status == STATUS_TOO_LARGE)
            continue; /* for this arena */
        ASSERT(status == STATUS_OK);
        values_learn(&crowd->values, &message_table.rows[id].record, body);
        if (size <= sizeof(peer->asked)) {
            peer->asked_id = id;
            peer->asked_bytes = size;
            memcpy(peer->asked, bytes, size);
        }
    }
    if (data.first <= peer->received + 1 && data.first + data.count > peer->received)
        peer->received = data.first + data.count - 1;
}

static void hear_frame(void *context, actor_id_t to, const uint8_t *frame, size_t size)
{
    crowd_t *crowd = context;
    cursor_t cursor = {.bytes = frame, .size = size};
    frame_header_t header = {0};
    frame_hello_t hello = {0};
    liar_t *peer = liar_of(crowd, to);
    status_t status = frame_read_header(&cursor, &header);

    ASSERT(status == STATUS_OK);
    if (!peer)
        return; /* raw bytes made up an observer */
    if (header.kind == FRAME_HELLO) {
        status = frame_read_hello(&cursor, &hello);
        ASSERT(status == STATUS_OK);
    } else if (header.kind == FRAME_DATA && header.to_incarnation == peer->life) {
        hear_data(crowd, peer, &cursor);
    }
}

static void hear_port(void *context, actor_id_t port, uint16_t id, const uint8_t *body, size_t size)
{
    crowd_t *crowd = context;
    order_t *order = &crowd->orders[(crowd->order_first + crowd->order_count) % PORT_MAX];
    const void *decoded = NULL;
    status_t status;

    (void)port;
    arena_reset(&crowd->values.arena);
    status = message_decode(id, body, size, &crowd->values.arena, &decoded);
    ASSERT(status == STATUS_OK || status == STATUS_TOO_LARGE);
    if (status != STATUS_OK)
        return;
    values_learn(&crowd->values, &message_table.rows[id].record, decoded);
    if (id == MESSAGE_spawn) {
        const message_spawn_t *m = decoded;

        ASSERT(m->actor < PEERS_MAX);
        ASSERT(m->incarnation > crowd->children[m->actor]);
        crowd->children[m->actor] = m->incarnation;
        return;
    }
    if (crowd->kind != ACTOR_RANK)
        return;
    ASSERT(crowd->order_count < PORT_MAX);
    if (size > sizeof(order->body)) { /* it is answered as if it were empty */
        memset(order->body, 0, sizeof(order->body));
        order->bytes = 0;
    } else {
        memcpy(order->body, body, size);
        order->bytes = (uint32_t)size;
    }
    order->id = id;
    crowd->order_count++;
}

static void hear_observer(void *context, actor_id_t observer, const char *endpoint)
{
    (void)context;
    (void)observer;
    ASSERT(strlen(endpoint) < ENDPOINT_BYTES_MAX);
}

/* ---- ports ----------------------------------------------------------------------------------- */

static void post(crowd_t *crowd, actor_id_t port, uint16_t id, const void *body)
{
    size_t used = 0;
    status_t status = message_encode(id, body, crowd->body, FRAME_SCRATCH, &used);

    ASSERT(status == STATUS_OK);
    node_post(crowd->node, port, id, crowd->body, used);
}

static void answer_device(crowd_t *crowd)
{
    static const uint16_t answers[][2] = {{MESSAGE_step, MESSAGE_step_done},
                                          {MESSAGE_device_copy, MESSAGE_device_copied},
                                          {MESSAGE_device_map, MESSAGE_device_mapped},
                                          {MESSAGE_device_reform, MESSAGE_device_quiesced}};
    const order_t *order = &crowd->orders[crowd->order_first];
    const message_device_ready_t ready = {
        .pool = {.name = {"/lockstep-fuzz", 14}, .bytes = 4096},
        .pages = 12,
        .borders = 4,
        .slots = 3};

    if (!crowd->device_ready) {
        crowd->device_ready = true;
        post(crowd, PORT_DEVICE, MESSAGE_device_ready, &ready);
        return;
    }
    if (crowd->order_count == 0)
        return;
    for (uint32_t i = 0; i < COUNT_OF(answers); i++) {
        const message_row_t *row = &message_table.rows[answers[i][1]];
        const void *question = NULL;
        void *answer;

        if (answers[i][0] != order->id)
            continue;
        arena_reset(&crowd->values.arena);
        answer = arena_take(&crowd->values.arena, 1, row->record.size, 8);
        if (message_decode(order->id, order->body, order->bytes, &crowd->values.arena, &question) ==
            STATUS_OK)
            values_copy(&row->record, answer, &message_table.rows[order->id].record, question);
        crowd->order_first = (crowd->order_first + 1) % PORT_MAX;
        crowd->order_count--;
        post(crowd, PORT_DEVICE, row->id, answer);
        return;
    }
    UNREACHABLE("a rank asks its device for nothing else");
}

static void act_client(crowd_t *crowd)
{
    static const uint32_t tokens[64] = {1, 2, 3, 4, 5, 6, 7};
    script_t *script = &crowd->values.script;
    uint8_t how = script_byte(script);
    message_client_abort_t abort = {.reason = END_ABORTED};
    message_client_request_t request = {.prompt = {tokens, 1u + how % COUNT_OF(tokens)},
                                        .limits = {.output_tokens_max = 1 + script_byte(script)}};

    if (how >= 192) {
        abort.client = 1 + script_below(script, (uint32_t)(crowd->clients % 256) + 1);
        post(crowd, PORT_CLIENT, MESSAGE_client_abort, &abort);
        return;
    }
    request.client = ++crowd->clients;
    request.deadline_ms = script_below(script, 4) * 50;
    post(crowd, PORT_CLIENT, MESSAGE_client_request, &request);
}

static void act_children(crowd_t *crowd)
{
    script_t *script = &crowd->values.script;
    uint8_t how = script_byte(script);
    actor_id_t child = (actor_id_t)script_below(script, roster.count);
    incarnation_t life = crowd->children[child];
    message_reaped_t reaped = {child, life, (uint8_t)(how % 5), 9};
    message_stalled_t stalled = {child, life, 1000u * how, how & 1};
    message_stop_t stop = {0};

    if (how == 255)
        post(crowd, PORT_PROCESS, MESSAGE_stop, &stop);
    else if (life == 0)
        return;
    else if (how >= 192)
        post(crowd, PORT_PROCESS, MESSAGE_stalled, &stalled);
    else
        post(crowd, PORT_PROCESS, MESSAGE_reaped, &reaped);
}

static void act_port(crowd_t *crowd)
{
    void *body;

    switch (crowd->kind) {
    case ACTOR_RANK:
        answer_device(crowd);
        break;
    case ACTOR_GATEWAY:
        act_client(crowd);
        break;
    case ACTOR_SUPERVISOR:
        act_children(crowd);
        break;
    case ACTOR_MONITOR:
        arena_reset(&crowd->values.arena);
        body = arena_take(&crowd->values.arena, 1, sizeof(message_figures_t), 8);
        if (values_choose(&crowd->values, &message_table.rows[MESSAGE_figures].record, body))
            post(crowd, PORT_FIGURES, MESSAGE_figures, body);
        break;
    default:
        break;
    }
}

/* ---- actions --------------------------------------------------------------------------------- */

/* One of the messages that this peer may send here, by the table; 0: none. */
static uint16_t choose_message(crowd_t *crowd, const liar_t *peer)
{
    uint16_t ids[MESSAGES_MAX];
    uint32_t count = 0;
    actor_kind_t from = roster_kind(&roster, peer->id);

    for (uint16_t id = 0; id < message_table.count; id++) {
        const message_row_t *row = &message_table.rows[id];

        if (row->name && row->class != MESSAGE_LOCAL && (row->from & BIT(from)) &&
            (row->to & BIT(crowd->kind)))
            ids[count++] = id;
    }
    return count ? ids[script_below(&crowd->values.script, count)] : 0;
}

/* Encodes a message of this peer into crowd->body. */
static bool make(crowd_t *crowd, uint16_t id, size_t *size)
{
    const message_row_t *row = &message_table.rows[id];
    void *body;

    arena_reset(&crowd->values.arena);
    body = arena_take(&crowd->values.arena, 1, row->record.size, 8);
    return values_choose(&crowd->values, &row->record, body) &&
           message_encode(id, body, crowd->body, FRAME_SCRATCH, size) == STATUS_OK;
}

/* The reply to what this peer was asked last, right in all that the question says. */
static bool make_answer(crowd_t *crowd, const liar_t *peer, uint16_t *id, size_t *size)
{
    const message_row_t *asked = &message_table.rows[peer->asked_id];
    uint32_t which = script_below(&crowd->values.script, 4);

    if (peer->asked_bytes == 0)
        return false;
    for (uint16_t i = 0; i < message_table.count; i++) {
        const message_row_t *row = &message_table.rows[i];
        const void *question = NULL;
        void *body;

        if (!row->name || !row->answers || !strstr(row->answers, asked->name) || which-- > 0)
            continue;
        arena_reset(&crowd->values.arena);
        body = arena_take(&crowd->values.arena, 1, row->record.size, 8);
        if (!values_choose(&crowd->values, &row->record, body) ||
            message_decode(asked->id, peer->asked, peer->asked_bytes, &crowd->values.arena,
                           &question) != STATUS_OK)
            return false;
        values_copy(&row->record, body, &asked->record, question);
        *id = i;
        return message_encode(i, body, crowd->body, FRAME_SCRATCH, size) == STATUS_OK;
    }
    return false;
}

static void act_say(crowd_t *crowd, liar_t *peer, uint8_t action)
{
    script_t *script = &crowd->values.script;
    uint16_t id = choose_message(crowd, peer);
    size_t size = 0;

    if (action == 2) { /* any, also what does not go this way */
        id = (uint16_t)script_below(script, MESSAGES_MAX);
        if (id >= message_table.count || !message_table.rows[id].name)
            size = script_below(script, 200);
        else if (!make(crowd, id, &size))
            return;
    } else if (action == 1 ? !make_answer(crowd, peer, &id, &size) : !make(crowd, id, &size)) {
        return;
    }
    if (crowd->trace)
        fprintf(crowd->trace, "%s life %u says %s, %zu bytes\n", roster_name(&roster, peer->id),
                peer->life,
                id < message_table.count && message_table.rows[id].name
                    ? message_table.rows[id].name
                    : "what nobody knows",
                size);
    switch (action) {
    case 3: /* again, or early */
        say(crowd, peer, peer->sent + script_below(script, 4), id, size, 1, 0);
        break;
    case 4: /* spoilt */
        say(crowd, peer, peer->sent + 1, id, size, 1, 1 + script_below(script, 3));
        peer->sent += script_below(script, 2); /* who knows whether it was taken */
        break;
    case 5: { /* many */
        uint32_t count = 1 + script_below(script, 64);

        say(crowd, peer, peer->sent + 1, id, size, count, 0);
        peer->sent += count;
        break;
    }
    default:
        say(crowd, peer, ++peer->sent, id, size, 1, 0);
    }
}

/* It says what an honest one would. */
static void behave(crowd_t *crowd, liar_t *peer)
{
    manners_turn_t turn = {.peer = peer->id, .turn = peer->turn++, .asked_id = MANNERS_NOTHING};
    const void *body = NULL;
    size_t size = 0;
    uint16_t id;

    arena_reset(&crowd->values.arena);
    if (peer->asked_bytes > 0 &&
        message_decode(peer->asked_id, peer->asked, peer->asked_bytes, &crowd->values.arena,
                       &turn.asked) == STATUS_OK)
        turn.asked_id = peer->asked_id;
    id = manners_next(&crowd->manners, &turn, &body);
    if (id == MANNERS_NOTHING ||
        message_encode(id, body, crowd->body, FRAME_SCRATCH, &size) != STATUS_OK)
        return;
    if (crowd->trace)
        fprintf(crowd->trace, "%s behaves: %s\n", roster_name(&roster, peer->id),
                message_table.rows[id].name);
    say(crowd, peer, ++peer->sent, id, size, 1, 0);
}

static void exited(crowd_t *crowd, const liar_t *peer)
{
    liar_t *supervisor = liar_of(crowd, 0);
    const message_exited_t exited = {peer->id, peer->life, EXIT_CRASHED};
    size_t size = 0;

    if (!supervisor || supervisor == peer)
        return;
    if (message_encode(MESSAGE_exited, &exited, crowd->body, FRAME_SCRATCH, &size) == STATUS_OK)
        say(crowd, supervisor, ++supervisor->sent, MESSAGE_exited, size, 1, 0);
}

static void be_born(liar_t *peer, incarnation_t life)
{
    peer->life = life;
    peer->sent = peer->received = 0;
    peer->asked_bytes = 0;
}

static void act_life(crowd_t *crowd, liar_t *peer)
{
    uint8_t how = script_byte(&crowd->values.script);

    if (!(how & 1))
        exited(crowd, peer);
    be_born(peer, how & 2   ? (incarnation_t)script_u64(&crowd->values.script)
                  : how & 4 ? (peer->life > 1 ? peer->life - 1 : 1)
                            : peer->life + 1);
    if (peer->life == 0)
        peer->life = 1;
    say_hello(crowd, peer, true, 0, 64);
    if (how & 8)
        peer->sent = script_u64(&crowd->values.script); /* and says what it likes */
}

static void act_time(crowd_t *crowd)
{
    uint32_t ticks = 1 + script_below(&crowd->values.script, 60);

    for (uint32_t i = 0; i < ticks; i++) {
        crowd->now_us += TICK_US;
        node_tick(crowd->node);
    }
}

static void work(crowd_t *crowd)
{
    status_t status = STATUS_OK;
    bool worked = true;

    while (worked && status == STATUS_OK) {
        crowd->now_us += 10;
        status = node_work(crowd->node, &worked);
    }
    if (status != STATUS_OK) {
        /* A leader may tell a rank that it does not belong: nothing else from outside ends one. */
        ASSERT(status == STATUS_BAD_CONFIG);
        crowd->ended = true;
        return;
    }
    node_flush(crowd->node);
    for (uint32_t i = 0; i < crowd->peer_count; i++)
        if (!crowd->peers[i].mute)
            say_ack(crowd, &crowd->peers[i], crowd->peers[i].received);
}

/* Everybody in turn, as if nothing were wrong. */
static void act_all(crowd_t *crowd)
{
    for (uint32_t i = 0; i < crowd->peer_count && !crowd->ended; i++) {
        behave(crowd, &crowd->peers[i]);
        work(crowd);
    }
    if (!crowd->ended)
        act_port(crowd);
}

static void act(crowd_t *crowd)
{
    script_t *script = &crowd->values.script;
    uint8_t action = script_byte(script);
    liar_t *peer = &crowd->peers[script_below(script, crowd->peer_count)];

    switch (action & 0x40 ? 14 : action & 15) {
    case 0:
        act_all(crowd);
        break;
    case 6:
        say_hello(crowd, peer, script_byte(script) & 1, script_below(script, 16),
                  script_byte(script));
        break;
    case 7:
        say_ack(crowd, peer,
                script_byte(script) < 128 ? script_below(script, 64) : script_u64(script));
        break;
    case 8:
        act_life(crowd, peer);
        break;
    case 9:
        peer->mute = !peer->mute;
        break;
    case 10:
        act_time(crowd);
        break;
    case 11: {
        uint32_t size = script_below(script, 100);

        for (uint32_t i = 0; i < size; i++)
            crowd->frame[i] = script_byte(script);
        deliver(crowd, size);
        break;
    }
    case 12:
    case 13:
        act_port(crowd);
        break;
    case 14:
    case 15:
        behave(crowd, peer);
        break;
    default:
        act_say(crowd, peer, action & 15);
    }
    if (!(action & 0x80)) /* else several arrive before the actor looks */
        work(crowd);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void fill_crowd(crowd_t *crowd)
{
    for (uint32_t i = 0; i < roster.count + OBSERVERS; i++) {
        actor_id_t id = (actor_id_t)(i < roster.count ? i : OBSERVER_FIRST + i);

        if (id == crowd->self)
            continue;
        crowd->peers[crowd->peer_count++] = (liar_t){.id = id, .life = LIFE};
    }
    values_learn_one(&crowd->values, "incarnation", LIFE);
    values_learn_one(&crowd->values, "pages", 12);
    values_learn_one(&crowd->values, "borders", 4);
    values_learn_one(&crowd->values, "slots", 3);
}

/* What the actor was made to handle, for a person. */
static void print_reached(const crowd_t *crowd)
{
    const dispatch_t *dispatch = node_dispatch(crowd->node);

    for (uint32_t id = 0; id < message_table.count; id++)
        if (dispatch->handled[id])
            fprintf(crowd->trace, "reached: %s %s %llu, refused %llu, failed %llu\n",
                    roster.actors[crowd->self].name, message_table.rows[id].name,
                    (unsigned long long)dispatch->handled[id],
                    (unsigned long long)dispatch->refused[id],
                    (unsigned long long)dispatch->failed[id]);
}

void crowd_run(const uint8_t *bytes, size_t size, FILE *trace)
{
    crowd_t *crowd = calloc(1, sizeof(*crowd));
    actor_birth_t birth = {.incarnation = LIFE, .topology = &topology};
    node_config_t config = {.birth = &birth,
                            .table = &message_table,
                            .roster = &roster,
                            .room = &room,
                            .tick_us = TICK_US,
                            .check = true};
    status_t status;

    open_world();
    ASSERT(crowd != NULL);
    crowd->values.script = (script_t){bytes, size, 0};
    crowd->values.actors = roster.count;
    crowd->trace = trace;
    crowd->self = (actor_id_t)script_below(&crowd->values.script, roster.count);
    crowd->kind = roster.actors[crowd->self].kind;
    crowd->manners = (manners_t){.topology = &topology, .self = crowd->self};
    crowd->now_us = 1000000;
    crowd->peers = calloc(PEERS_MAX, sizeof(liar_t));
    crowd->frame = malloc(FRAME_SCRATCH);
    crowd->body = malloc(FRAME_SCRATCH);
    arena_init(&crowd->values.arena, malloc(ARENA_BYTES), ARENA_BYTES);
    ASSERT(crowd->peers && crowd->frame && crowd->body && crowd->values.arena.bytes);
    memset(crowd->body, 0xc0, FRAME_SCRATCH);
    birth.id = crowd->self;
    config.type = actor_type_of(crowd->kind);
    config.driver = (node_driver_t){.context = crowd,
                                    .clock_us = clock_of,
                                    .wall_ms = wall_of,
                                    .frame = hear_frame,
                                    .port = hear_port,
                                    .observer = hear_observer};
    status = node_open(&config, &crowd->node);
    ASSERT(status == STATUS_OK);
    fill_crowd(crowd);
    if (trace)
        fprintf(trace, "%zu bytes against %s\n", size, roster.actors[crowd->self].name);
    for (uint32_t i = 0; i < crowd->peer_count; i++)
        if (i < roster.count - 1u)
            say_hello(crowd, &crowd->peers[i], true, 0, 64);
    work(crowd);
    for (uint32_t i = 0; i < ACTIONS_MAX && !crowd->ended; i++)
        if (!script_is_over(&crowd->values.script))
            act(crowd);
    if (!crowd->ended)
        work(crowd);
    if (trace)
        print_reached(crowd);
    node_close(crowd->node);
    free(crowd->values.arena.bytes);
    free(crowd->peers);
    free(crowd->frame);
    free(crowd->body);
    free(crowd);
}
