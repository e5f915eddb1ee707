/* The simulator: one heap of events ordered by (time, number), so equal times keep the order in
 * which they were made.
 *
 * A node works in RUN events, one message each, so that everything else may come between two
 * messages. Frames and port messages that come to a stalled actor wait in its backlog, as they
 * would in sockets and pipes. Calls that change lives or links while a node is at work become
 * events of now. */
#include "runtime/sim.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/codec.h"
#include "runtime/node.h"

enum { WALL_MS_AT_START = 1000000 };

typedef enum {
    EVENT_FRAME,
    EVENT_POST,
    EVENT_TICK,
    EVENT_RUN,
    EVENT_CONNECT,
    EVENT_TIMER,
    EVENT_START,
    EVENT_KILL,
    EVENT_STALL,
    EVENT_CUT
} event_kind_t;

typedef struct {
    uint64_t at;
    uint64_t order;
    event_kind_t kind;
    actor_id_t actor;
    actor_id_t other;          /* sender, port or peer */
    uint16_t id;               /* POST: message */
    incarnation_t incarnation; /* of the life it is for; START: of the new one */
    uint8_t before;            /* START: how the last one ended */
    uint32_t epoch;            /* FRAME: of the link */
    uint64_t us;               /* CUT; STALL: 1 or 0 */
    uint8_t *bytes;            /* owned */
    size_t size;
    sim_timer_t *timer;
    void *context;
} event_t;

/* What waits for a stalled actor: this, then the bytes. */
typedef struct {
    bool is_frame;
    actor_id_t port;
    uint16_t id;
} backlog_t;

typedef struct {
    sim_t *sim;
    actor_id_t id;
    bool added;
    sim_actor_t fixed;
    node_t *node; /* NULL: not alive */
    incarnation_t incarnation;
    incarnation_t highest;
    bool stalled;
    bool runs;            /* a RUN event is in the heap */
    bool tick_missed;     /* while stalled */
    uint32_t drawn;       /* from its chance, by the simulator */
    uint32_t world_drawn; /* by the world */
    queue_t backlog;
} place_t;

/* One direction between two actors. */
typedef struct {
    uint64_t last_us; /* arrival of the latest frame */
    uint64_t cut_until_us;
    uint32_t epoch; /* counts cuts: frames of an earlier one are lost */
    uint32_t drawn; /* from its chance */
} link_t;

struct sim {
    sim_config_t config;
    uint64_t now;
    uint64_t order;
    uint64_t events;
    uint64_t digest;
    random_t world;
    event_t *heap;
    uint32_t count;
    uint32_t size;
    uint32_t ticks; /* of the events, those that are ticks */
    place_t *places;
    link_t *links; /* [from][to] */
    bool inside;   /* a node is at work */
    sim_hook_t *hook;
    void *hook_context;
    sim_watch_t watch;
    FILE *trace;
    arena_t arena;
    node_room_t room; /* of all nodes */
    uint8_t *scratch;
};

/* ---- heap ---- */

static bool before(const event_t *a, const event_t *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void push(sim_t *sim, event_t event)
{
    uint32_t at;

    if (sim->count == sim->size) {
        sim->size = sim->size ? 2 * sim->size : 1024;
        sim->heap = realloc(sim->heap, sim->size * sizeof(*sim->heap));
        ASSERT(sim->heap != NULL);
    }
    event.order = sim->order++;
    sim->ticks += event.kind == EVENT_TICK;
    for (at = sim->count++; at > 0 && before(&event, &sim->heap[(at - 1) / 2]); at = (at - 1) / 2)
        sim->heap[at] = sim->heap[(at - 1) / 2];
    sim->heap[at] = event;
}

static event_t pop(sim_t *sim)
{
    event_t first = sim->heap[0], last = sim->heap[--sim->count];
    uint32_t at = 0, child;

    sim->ticks -= first.kind == EVENT_TICK;
    while ((child = 2 * at + 1) < sim->count) {
        if (child + 1 < sim->count && before(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!before(&sim->heap[child], &last))
            break;
        sim->heap[at] = sim->heap[child];
        at = child;
    }
    sim->heap[at] = last;
    return first;
}

static uint8_t *copy(const uint8_t *bytes, size_t size)
{
    uint8_t *made = malloc(size ? size : 1);

    ASSERT(made != NULL);
    if (size)
        memcpy(made, bytes, size);
    return made;
}

/* ---- the driver of one node ---- */

static uint64_t clock_us(void *context)
{
    return ((const place_t *)context)->sim->now;
}

static uint64_t wall_ms(void *context)
{
    return WALL_MS_AT_START + clock_us(context) / 1000;
}

static link_t *link_of(sim_t *sim, actor_id_t from, actor_id_t to)
{
    return &sim->links[from * sim->config.roster->count + to];
}

/* Each link and each actor has a chance of its own, so that what one does changes no draw of another:
 * a story with a part taken out stays as it was in all that the part did not touch. */
static uint64_t draw(const sim_t *sim, uint64_t whose, uint32_t *drawn, uint64_t bound)
{
    return random_at(sim->config.seed ^ random_mix(whose + 1), (*drawn)++) % bound;
}

static uint64_t draw_for_link(sim_t *sim, actor_id_t from, actor_id_t to, uint64_t bound)
{
    return draw(sim, (uint64_t)from << 16 | to, &link_of(sim, from, to)->drawn, bound);
}

static uint64_t draw_for_actor(sim_t *sim, place_t *place, uint64_t bound)
{
    return draw(sim, UINT64_C(1) << 32 | place->id, &place->drawn, bound);
}

uint64_t sim_draw(sim_t *sim, actor_id_t id, uint64_t bound)
{
    return draw(sim, UINT64_C(2) << 32 | id, &sim->places[id].world_drawn, bound);
}

static void note_frame(sim_t *sim, actor_id_t from, actor_id_t to, const uint8_t *bytes,
                       size_t size)
{
    uint64_t digest = sim->digest;

    digest = random_mix(digest ^ sim->now);
    digest = random_mix(digest ^ ((uint64_t)from << 48 | (uint64_t)to << 32 | size));
    sim->digest = random_digest(digest, bytes, size);
}

static void send_frame(void *context, actor_id_t to, const uint8_t *bytes, size_t size)
{
    place_t *place = context;
    sim_t *sim = place->sim;
    link_t *link = link_of(sim, place->id, to);
    uint64_t spread = sim->config.delay_us_max - sim->config.delay_us_min + 1;
    uint64_t at = sim->now + sim->config.delay_us_min + draw_for_link(sim, place->id, to, spread);

    note_frame(sim, place->id, to, bytes, size);
    if (sim->now < link->cut_until_us)
        return;
    if (at < link->last_us)
        at = link->last_us;
    link->last_us = at;
    push(sim, (event_t){.at = at,
                        .kind = EVENT_FRAME,
                        .actor = to,
                        .other = place->id,
                        .epoch = link->epoch,
                        .bytes = copy(bytes, size),
                        .size = size});
}

static void to_port(void *context, actor_id_t port, uint16_t id, const uint8_t *body, size_t size)
{
    place_t *place = context;
    sim_t *sim = place->sim;
    const void *decoded = NULL;
    status_t status;

    if (!place->fixed.port)
        return;
    arena_reset(&sim->arena);
    status = codec_decode(&sim->config.table->rows[id], body, size, &sim->arena, &decoded);
    ASSERT(status == STATUS_OK);
    place->fixed.port(place->fixed.context, sim, place->id, port, id, decoded);
}

static void received(void *context, const envelope_t *envelope)
{
    const place_t *place = context;

    place->sim->watch.received(place->sim->watch.context, place->id, envelope);
}

static void pushed(void *context, actor_id_t to, uint16_t id, const void *body)
{
    const place_t *place = context;

    place->sim->watch.pushed(place->sim->watch.context, place->id, to, id, body);
}

/* What is left to say goes out when nothing waits for the actor any more. */
static void want_run(sim_t *sim, place_t *place)
{
    if (place->runs || place->stalled || !place->node)
        return;
    if (node_is_idle(place->node)) {
        node_flush(place->node);
        return;
    }
    place->runs = true;
    push(sim, (event_t){.at = sim->now + 1 + draw_for_actor(sim, place, sim->config.handle_us_max),
                        .kind = EVENT_RUN,
                        .actor = place->id,
                        .incarnation = place->incarnation});
}

static void tell(sim_t *sim, sim_event_kind_t kind, actor_id_t actor, status_t status)
{
    const sim_event_t event = {.kind = kind, .actor = actor, .status = status, .from = ACTOR_NONE};

    if (sim->hook)
        sim->hook(sim->hook_context, sim, &event);
}

static void tell_dispatched(sim_t *sim, actor_id_t actor, const envelope_t *last)
{
    const sim_event_t event = {.kind = SIM_DISPATCHED,
                               .actor = actor,
                               .message = last->id,
                               .from = last->from,
                               .body = last->body};

    if (sim->hook)
        sim->hook(sim->hook_context, sim, &event);
}

/* ---- lives ---- */

static void connect(sim_t *sim, actor_id_t a, actor_id_t b, uint64_t delay_us)
{
    push(sim, (event_t){.at = sim->now + delay_us, .kind = EVENT_CONNECT, .actor = a, .other = b});
}

static void start(sim_t *sim, place_t *place, incarnation_t incarnation, uint8_t before)
{
    const actor_birth_t birth = {.id = place->id,
                                 .incarnation = incarnation,
                                 .topology = place->fixed.topology,
                                 .setup = place->fixed.setup,
                                 .setup_bytes = place->fixed.setup_bytes};
    const node_config_t config = {.type = place->fixed.type,
                                  .birth = &birth,
                                  .before = before,
                                  .table = sim->config.table,
                                  .roster = sim->config.roster,
                                  .digests = place->fixed.digests,
                                  .driver = {.context = place,
                                             .clock_us = clock_us,
                                             .wall_ms = wall_ms,
                                             .frame = send_frame,
                                             .port = to_port,
                                             .received = sim->watch.received ? received : NULL,
                                             .pushed = sim->watch.pushed ? pushed : NULL},
                                  .tick_us = sim->config.tick_us,
                                  .room = &sim->room,
                                  .met = place->fixed.met,
                                  .journal = sim->config.journal,
                                  .credit_messages = sim->config.credit_messages,
                                  .check = sim->config.check};
    status_t status;

    ASSERT(place->added);
    ASSERT(!place->node);
    ASSERT(incarnation > place->highest);
    trail_reset();
    status = node_open(&config, &place->node);
    place->highest = incarnation;
    if (status != STATUS_OK) {
        tell(sim, SIM_DIED, place->id, status);
        return;
    }
    place->incarnation = incarnation;
    place->stalled = place->runs = place->tick_missed = false;
    push(sim, (event_t){.at = sim->now + 1 + draw_for_actor(sim, place, sim->config.tick_us),
                        .kind = EVENT_TICK,
                        .actor = place->id,
                        .incarnation = incarnation});
    for (actor_id_t peer = 0; peer < sim->config.roster->count; peer++)
        if (node_stream(place->node, peer))
            connect(sim, peer, place->id, sim->config.delay_us_max);
    tell(sim, SIM_STARTED, place->id, STATUS_OK);
    want_run(sim, place);
}

static void end(sim_t *sim, place_t *place, status_t status)
{
    if (!place->node)
        return;
    node_close(place->node);
    place->node = NULL;
    place->stalled = false;
    queue_clear(&place->backlog);
    tell(sim, SIM_DIED, place->id, status);
}

static void keep(place_t *place, backlog_t what, const uint8_t *bytes, size_t size)
{
    uint8_t *record = queue_push(&place->backlog, sizeof(what) + size);

    ASSERT(record != NULL);
    memcpy(record, &what, sizeof(what));
    if (size)
        memcpy(record + sizeof(what), bytes, size);
}

static void stall(sim_t *sim, place_t *place, bool stalled)
{
    size_t size = 0;
    uint8_t *record;

    if (!place->node || place->stalled == stalled)
        return;
    place->stalled = stalled;
    if (stalled)
        return;
    while ((record = queue_front(&place->backlog, &size))) {
        backlog_t what;

        memcpy(&what, record, sizeof(what));
        if (what.is_frame)
            node_receive(place->node, record + sizeof(what), size - sizeof(what), false);
        else
            node_post(place->node, what.port, what.id, record + sizeof(what), size - sizeof(what));
        queue_pop(&place->backlog);
    }
    if (place->tick_missed)
        node_tick(place->node);
    place->tick_missed = false;
    want_run(sim, place);
}

static void cut(sim_t *sim, actor_id_t a, actor_id_t b, uint64_t us)
{
    link_t *links[2] = {link_of(sim, a, b), link_of(sim, b, a)};

    for (int i = 0; i < 2; i++) {
        links[i]->epoch++;
        links[i]->cut_until_us = sim->now + us;
        links[i]->last_us = 0;
    }
    connect(sim, a, b, us);
    connect(sim, b, a, us);
}

/* ---- events ---- */

static void run(sim_t *sim, place_t *place)
{
    bool worked = false;
    const envelope_t *last;
    uint32_t depth = node_depth(place->node);
    status_t status;

    place->runs = false;
    if (place->stalled)
        return;
    sim->inside = true;
    status = node_work(place->node, &worked);
    last = node_last(place->node);
    if (sim->trace && worked && last->from != ACTOR_NONE) {
        fprintf(sim->trace, "%12llu %s < %s ", (unsigned long long)sim->now,
                roster_name(sim->config.roster, place->id),
                roster_name(sim->config.roster, last->from));
        codec_print(&sim->config.table->rows[last->id], last->body, true, sim->trace);
        fputc('\n', sim->trace);
    }
    /* A batch ends when nothing waits, and sometimes before. */
    if (!node_is_idle(place->node) && draw_for_actor(sim, place, 4) == 0)
        node_flush(place->node);
    sim->inside = false;
    if (depth > 0 && node_depth(place->node) == depth)
        tell(sim, SIM_WAITED, place->id, STATUS_OK);
    if (worked && last->from != ACTOR_NONE)
        tell_dispatched(sim, place->id, last);
    if (status != STATUS_OK) {
        LOG(WARN, "SIM-ENDED actor=%s: %s", roster_name(sim->config.roster, place->id),
            trail_text());
        end(sim, place, status);
        return;
    }
    want_run(sim, place);
}

static void arrive(sim_t *sim, place_t *place, const event_t *event)
{
    if (event->kind == EVENT_FRAME &&
        link_of(sim, event->other, event->actor)->epoch != event->epoch)
        return;
    if (place->stalled) {
        keep(place, (backlog_t){event->kind == EVENT_FRAME, event->other, event->id}, event->bytes,
             event->size);
        return;
    }
    if (event->kind == EVENT_FRAME)
        node_receive(place->node, event->bytes, event->size, false);
    else
        node_post(place->node, event->other, event->id, event->bytes, event->size);
    want_run(sim, place);
}

static void tick(sim_t *sim, place_t *place)
{
    push(sim, (event_t){.at = sim->now + sim->config.tick_us,
                        .kind = EVENT_TICK,
                        .actor = place->id,
                        .incarnation = place->incarnation});
    if (place->stalled) {
        place->tick_missed = true;
        return;
    }
    node_tick(place->node);
    want_run(sim, place);
}

static bool is_for_this_life(const place_t *place, const event_t *event)
{
    switch (event->kind) {
    case EVENT_POST:
    case EVENT_TICK:
    case EVENT_RUN:
        return place->node && place->incarnation == event->incarnation;
    case EVENT_FRAME:
    case EVENT_CONNECT:
        return place->node != NULL;
    default:
        return true;
    }
}

static void perform(sim_t *sim, event_t *event)
{
    place_t *place = event->kind == EVENT_TIMER ? NULL : &sim->places[event->actor];

    if (place && !is_for_this_life(place, event))
        return;
    switch (event->kind) {
    case EVENT_FRAME:
    case EVENT_POST:
        arrive(sim, place, event);
        break;
    case EVENT_TICK:
        tick(sim, place);
        break;
    case EVENT_RUN:
        run(sim, place);
        break;
    case EVENT_CONNECT:
        if (sim->now >= link_of(sim, event->actor, event->other)->cut_until_us) {
            node_connected(place->node, event->other);
            want_run(sim, place);
        }
        break;
    case EVENT_TIMER:
        event->timer(event->context, sim);
        break;
    case EVENT_START:
        start(sim, place, event->incarnation, event->before);
        break;
    case EVENT_KILL:
        end(sim, place, STATUS_OK);
        break;
    case EVENT_STALL:
        stall(sim, place, event->us != 0);
        break;
    case EVENT_CUT:
        cut(sim, event->actor, event->other, event->us);
        break;
    }
}

bool sim_step(sim_t *sim)
{
    event_t event;

    ASSERT(!sim->inside);
    if (sim->count == 0)
        return false;
    event = pop(sim);
    if (event.at > sim->now)
        sim->now = event.at;
    sim->events++;
    perform(sim, &event);
    free(event.bytes);
    if (event.kind != EVENT_RUN)
        tell(sim, SIM_OTHER, event.kind == EVENT_TIMER ? ACTOR_NONE : event.actor, STATUS_OK);
    return true;
}

void sim_run_until(sim_t *sim, uint64_t us)
{
    while (sim->count > 0 && sim->heap[0].at <= us && sim->now <= us)
        (void)sim_step(sim);
    if (sim->now < us)
        sim->now = us;
}

bool sim_run_while(sim_t *sim, bool (*done)(void *context, sim_t *sim), void *context, uint64_t us)
{
    while (!done(context, sim)) {
        if (sim->count == 0 || sim->now > us)
            return false;
        (void)sim_step(sim);
    }
    return true;
}

/* ---- life of the simulator ---- */

sim_t *sim_open(const sim_config_t *config)
{
    sim_t *sim = calloc(1, sizeof(*sim));
    uint32_t count = config->roster->count;
    status_t status;

    ASSERT(config->delay_us_min <= config->delay_us_max);
    ASSERT(config->handle_us_max > 0 && config->tick_us > 0);
    ASSERT(sim != NULL);
    sim->config = *config;
    random_init(&sim->world, random_at(config->seed, 2));
    sim->places = calloc(count, sizeof(*sim->places));
    sim->links = calloc((size_t)count * count, sizeof(*sim->links));
    sim->scratch = malloc(MESSAGE_BYTES_MAX);
    arena_init(&sim->arena, malloc(MESSAGE_ARENA_BYTES), MESSAGE_ARENA_BYTES);
    ASSERT(sim->places && sim->links && sim->scratch && sim->arena.bytes);
    status = node_room_open(&sim->room);
    ASSERT(status == STATUS_OK);
    for (uint32_t i = 0; i < count; i++) {
        sim->places[i].sim = sim;
        sim->places[i].id = (actor_id_t)i;
        queue_init(&sim->places[i].backlog, MAILBOX_BYTES_MAX);
    }
    return sim;
}

void sim_close(sim_t *sim)
{
    if (!sim)
        return;
    for (uint32_t i = 0; i < sim->config.roster->count; i++) {
        node_close(sim->places[i].node);
        queue_fini(&sim->places[i].backlog);
    }
    for (uint32_t i = 0; i < sim->count; i++)
        free(sim->heap[i].bytes);
    free(sim->heap);
    free(sim->places);
    free(sim->links);
    node_room_close(&sim->room);
    free(sim->scratch);
    free(sim->arena.bytes);
    free(sim);
}

void sim_add_actor(sim_t *sim, actor_id_t id, const sim_actor_t *actor)
{
    ASSERT(id < sim->config.roster->count);
    ASSERT(!sim->places[id].added);
    sim->places[id].fixed = *actor;
    sim->places[id].added = true;
}

void sim_hook_set(sim_t *sim, sim_hook_t *hook, void *context)
{
    sim->hook = hook;
    sim->hook_context = context;
}

void sim_watch_set(sim_t *sim, const sim_watch_t *watch)
{
    sim->watch = *watch;
}

/* ---- calls ---- */

static void call(sim_t *sim, event_t event)
{
    event.at = sim->now;
    if (sim->inside)
        push(sim, event);
    else
        perform(sim, &event);
}

void sim_start(sim_t *sim, actor_id_t id, incarnation_t incarnation, uint8_t before)
{
    call(sim,
         (event_t){.kind = EVENT_START, .actor = id, .incarnation = incarnation, .before = before});
}

void sim_kill(sim_t *sim, actor_id_t id)
{
    call(sim, (event_t){.kind = EVENT_KILL, .actor = id});
}

void sim_stall(sim_t *sim, actor_id_t id, bool stalled)
{
    call(sim, (event_t){.kind = EVENT_STALL, .actor = id, .us = stalled});
}

void sim_cut(sim_t *sim, actor_id_t a, actor_id_t b, uint64_t us)
{
    call(sim, (event_t){.kind = EVENT_CUT, .actor = a, .other = b, .us = us});
}

void sim_pause(sim_t *sim, uint64_t us)
{
    sim->now += us;
}

void sim_post(sim_t *sim, actor_id_t actor, actor_id_t port, uint16_t id, const void *body,
              uint64_t delay_us)
{
    const place_t *place = &sim->places[actor];
    size_t used = 0;
    status_t status =
        codec_encode(&sim->config.table->rows[id], body, sim->scratch, MESSAGE_BYTES_MAX, &used);

    ASSERT(status == STATUS_OK);
    if (!place->node)
        return;
    push(sim, (event_t){.at = sim->now + delay_us,
                        .kind = EVENT_POST,
                        .actor = actor,
                        .other = port,
                        .id = id,
                        .incarnation = place->incarnation,
                        .bytes = copy(sim->scratch, used),
                        .size = used});
}

void sim_after(sim_t *sim, uint64_t delay_us, sim_timer_t *timer, void *context)
{
    push(sim,
         (event_t){
             .at = sim->now + delay_us, .kind = EVENT_TIMER, .timer = timer, .context = context});
}

/* ---- looking inside ---- */

bool sim_is_quiet(const sim_t *sim)
{
    return sim->count == sim->ticks;
}

bool sim_is_alive(const sim_t *sim, actor_id_t id)
{
    return sim->places[id].node != NULL;
}

incarnation_t sim_incarnation(const sim_t *sim, actor_id_t id)
{
    return sim->places[id].incarnation;
}

uint64_t sim_now_us(const sim_t *sim)
{
    return sim->now;
}

const dispatch_t *sim_dispatch(const sim_t *sim, actor_id_t id)
{
    const node_t *node = sim->places[id].node;

    return node ? node_dispatch(node) : NULL;
}

const stream_t *sim_stream(const sim_t *sim, actor_id_t id, actor_id_t peer)
{
    const node_t *node = sim->places[id].node;

    return node ? node_stream(node, peer) : NULL;
}

uint32_t sim_depth(const sim_t *sim, actor_id_t id)
{
    const node_t *node = sim->places[id].node;

    return node ? node_depth(node) : 0;
}

uint64_t sim_digest(const sim_t *sim)
{
    return sim->digest;
}

uint64_t sim_event_count(const sim_t *sim)
{
    return sim->events;
}

random_t *sim_random(sim_t *sim)
{
    return &sim->world;
}

void sim_trace_set(sim_t *sim, FILE *out)
{
    sim->trace = out;
}

void sim_print(const sim_t *sim, FILE *out)
{
    for (uint32_t i = 0; i < sim->config.roster->count; i++) {
        if (sim->places[i].node)
            node_print(sim->places[i].node, out);
        else
            fprintf(out, "%s is not alive\n", sim->config.roster->actors[i].name);
    }
}
