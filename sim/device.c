#include "sim/device.h"

#include <stdlib.h>
#include <string.h>

#include "actors/rank/convert.h"
#include "sim/oracle.h"

enum {
    LOAD_US_MAX = 20000, /* weights */
    STEP_US_MAX = 2000,  /* one step */
    COPY_US_MAX = 400,   /* one unit */
    LEAVE_US_MAX = 1000, /* out of a broken step */
    QUEUE_MAX = STEPS_IN_FLIGHT_MAX,
    COPIES_MAX = 1024,
};

typedef struct {
    uint64_t epoch;
    uint64_t seq;
    uint8_t *bytes; /* the encoded STEP */
    size_t size;
} queued_step_t;

typedef struct {
    uint64_t copy;
    uint8_t *bytes; /* the encoded DEVICE_COPY */
    size_t size;
    uint32_t next_item;
    bool used;
} running_copy_t;

typedef struct {
    actor_id_t leader;
    device_t *device;
    uint64_t life;        /* counts starts; a timer of an earlier one does nothing */
    uint64_t round;       /* counts reforms, likewise */
    bool ending;          /* the step at the head has its end scheduled */
    uint32_t slow;        /* all takes so many times as long; 0 is 1 */
    uint64_t mapped_us;   /* when the last DEVICE_MAPPED is said */
    uint64_t shuffle_us;  /* what a copy came to is said so late at most */
    uint64_t said_us;     /* when the last of it will have been said */
    uint64_t ended_epoch; /* the step that ended last here, and what came of it */
    uint64_t ended_seq;
    uint64_t ended_result;
    uint32_t queued;
    queued_step_t queue[QUEUE_MAX];
    running_copy_t copies[COPIES_MAX];
} rank_t;

/* A timer's context; in a list so that what never ran is freed at the end. */
typedef struct job {
    sim_devices_t *devices;
    actor_id_t rank;
    uint64_t life;
    uint64_t round;
    uint32_t copy;
    uint64_t epoch;
    char segment[POOL_NAME_BYTES_MAX + 1];
    struct job *previous;
    struct job *next;
} job_t;

struct sim_devices {
    world_t *world;
    symbolic_setup_t setup;
    job_t *jobs;
    uint8_t *scratch;
    arena_t arena;
    convert_step_t step_room;
    convert_done_t done_room;
    rank_t *ranks; /* by actor id */
};

/* ---- jobs ------------------------------------------------------------------------------------ */

static job_t *job_take(sim_devices_t *self, actor_id_t rank)
{
    job_t *job = calloc(1, sizeof(*job));

    ASSERT(job != NULL);
    *job = (job_t){.devices = self,
                   .rank = rank,
                   .life = self->ranks[rank].life,
                   .round = self->ranks[rank].round,
                   .next = self->jobs};
    if (self->jobs)
        self->jobs->previous = job;
    self->jobs = job;
    return job;
}

static void job_return(job_t *job)
{
    if (job->previous)
        job->previous->next = job->next;
    else
        job->devices->jobs = job->next;
    if (job->next)
        job->next->previous = job->previous;
    free(job);
}

/* The rank that a job is about, or NULL if that life or round is over. */
static rank_t *rank_of_job(const job_t *job)
{
    rank_t *rank = &job->devices->ranks[job->rank];

    return rank->device && rank->life == job->life && rank->round == job->round ? rank : NULL;
}

static uint64_t draw_us(sim_devices_t *self, actor_id_t rank, uint64_t max)
{
    uint32_t slow = self->ranks[rank].slow;

    return (1 + sim_draw(world_sim(self->world), rank, max)) * (slow ? slow : 1);
}

void sim_devices_slow(sim_devices_t *self, actor_id_t rank, uint32_t factor)
{
    self->ranks[rank].slow = factor;
}

void sim_devices_shuffle(sim_devices_t *self, actor_id_t rank, uint64_t us)
{
    self->ranks[rank].shuffle_us = us;
}

static void post(sim_devices_t *self, actor_id_t rank, uint16_t id, const void *body,
                 uint64_t delay_us)
{
    sim_post(world_sim(self->world), rank, PORT_DEVICE, id, body, delay_us);
}

static uint8_t *keep(sim_devices_t *self, uint16_t id, const void *body, size_t *size)
{
    uint8_t *bytes;
    status_t status = message_encode(id, body, self->scratch, MESSAGE_BYTES_MAX, size);

    ASSERT(status == STATUS_OK);
    bytes = malloc(*size);
    ASSERT(bytes != NULL);
    return memcpy(bytes, self->scratch, *size);
}

static const void *unkeep(sim_devices_t *self, uint16_t id, const uint8_t *bytes, size_t size)
{
    const void *body = NULL;
    status_t status;

    arena_reset(&self->arena);
    status = message_decode(id, bytes, size, &self->arena, &body);
    ASSERT(status == STATUS_OK);
    return body;
}

/* ---- life ------------------------------------------------------------------------------------ */

sim_devices_t *sim_devices_open(world_t *world, const symbolic_setup_t *setup)
{
    sim_devices_t *self = calloc(1, sizeof(*self));
    const topology_t *topology = world_topology(world);

    ASSERT(self != NULL);
    self->world = world;
    self->setup = *setup;
    self->scratch = malloc(MESSAGE_BYTES_MAX);
    self->ranks = calloc(topology->actor_count, sizeof(*self->ranks));
    arena_init(&self->arena, malloc(MESSAGE_ARENA_BYTES), MESSAGE_ARENA_BYTES);
    ASSERT(self->scratch && self->ranks && self->arena.bytes);
    for (uint32_t i = 0; i < topology->actor_count; i++)
        self->ranks[i].leader = topology->actors[i].leader;
    return self;
}

void sim_devices_close(sim_devices_t *self)
{
    for (uint32_t i = 0; i < world_topology(self->world)->actor_count; i++)
        sim_devices_stop(self, (actor_id_t)i);
    while (self->jobs)
        job_return(self->jobs);
    free(self->arena.bytes);
    free(self->ranks);
    free(self->scratch);
    free(self);
}

static void drop_steps(rank_t *rank)
{
    for (uint32_t i = 0; i < rank->queued; i++)
        free(rank->queue[i].bytes);
    rank->queued = 0;
    rank->ending = false;
}

static void drop_work(rank_t *rank)
{
    drop_steps(rank);
    for (uint32_t i = 0; i < COPIES_MAX; i++)
        if (rank->copies[i].used)
            free(rank->copies[i].bytes);
    memset(rank->copies, 0, sizeof(rank->copies));
}

void sim_devices_start(sim_devices_t *self, actor_id_t id)
{
    const topology_t *topology = world_topology(self->world);
    const topology_actor_t *actor = &topology->actors[id];
    const topology_actor_t *leader = &topology->actors[actor->leader];
    const topology_group_t *group =
        topology_group(topology, (actor_kind_t)leader->kind, leader->instance);
    incarnation_t incarnation = sim_incarnation(world_sim(self->world), id);
    device_config_t config = {
        .rank = actor->rank,
        .world = group->tp,
        .page_count = group->pages, /* page 0 is the test page */
        .border_count = group->borders,
        .slot_count = group->slots,
        .incarnation = incarnation,
    };
    message_device_ready_t ready = {.pages = config.page_count, .borders = config.border_count};
    device_digests_t digests;
    device_pool_t pool;
    rank_t *rank = &self->ranks[id];
    status_t status;

    ASSERT(!rank->device);
    rank->life++;
    snprintf(config.pool.name, sizeof(config.pool.name), "/sim-%u-%u", id, incarnation);
    status = symbolic_ops.open(&config, &self->setup, NULL, &rank->device);
    ASSERT(status == STATUS_OK);
    rank->device->ops->describe(rank->device, &pool, &digests);
    ready.pool =
        (record_pool_t){id, incarnation, {pool.name, (uint32_t)strlen(pool.name)}, pool.bytes};
    ready.slots = config.slot_count;
    ready.weights_digest = digests.weights;
    ready.geometry_digest = digests.geometry;
    ready.numerics_digest = digests.numerics;
    post(self, id, MESSAGE_device_ready, &ready, draw_us(self, id, LOAD_US_MAX));
}

void sim_devices_stop(sim_devices_t *self, actor_id_t id)
{
    rank_t *rank = &self->ranks[id];

    if (!rank->device)
        return;
    drop_work(rank);
    rank->device->ops->close(rank->device);
    rank->device = NULL;
}

device_t *sim_devices_device(sim_devices_t *self, actor_id_t rank)
{
    return self->ranks[rank].device;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void enter_if_all_are_there(sim_devices_t *self, actor_id_t leader);

/* All ranks of a group get the same tokens and units out of a step. */
static void compare_results(sim_devices_t *self, actor_id_t id, const message_step_done_t *done)
{
    rank_t *rank = &self->ranks[id];

    rank->ended_epoch = done->epoch;
    rank->ended_seq = done->seq;
    rank->ended_result = done->result;
    for (uint32_t i = 0; i < world_topology(self->world)->actor_count; i++) {
        const rank_t *other = &self->ranks[i];

        if (other->device && other->leader == rank->leader && other->ended_epoch == done->epoch &&
            other->ended_seq == done->seq && other->ended_result != done->result)
            world_wrong_bytes(self->world, id, "its result of a step differs from another rank's");
    }
}

static bool is_poisoned(const message_step_t *step)
{
    for (uint32_t i = 0; i < step->items.count; i++) {
        const u32s_view_t *tokens = &step->items.data[i].tokens;

        if (step->items.data[i].kind == DEVICE_RUN && tokens->count > 0 &&
            tokens->data[tokens->count - 1] == WORLD_POISON_TOKEN)
            return true;
    }
    return false;
}

static void step_end(sim_devices_t *self, actor_id_t id, rank_t *rank)
{
    queued_step_t head = rank->queue[0];
    const message_step_t *message = unkeep(self, MESSAGE_step, head.bytes, head.size);
    message_step_done_t done;

    if (is_poisoned(message)) {
        world_crash(self->world, id);
        return;
    }
    oracle_step_runs(world_oracle(self->world), id, message);
    trail_reset();
    convert_run(rank->device, message, 0, world_topology(self->world)->actors[id].rank == 0,
                &self->step_room, &self->done_room, &done);
    if (done.status == STATUS_OK)
        compare_results(self, id, &done);
    else if (done.status != STATUS_BROKEN && done.status != STATUS_STALE)
        world_wrong_bytes(self->world, id, trail_text());
    post(self, id, MESSAGE_step_done, &done, 1);
    free(head.bytes);
    memmove(rank->queue, rank->queue + 1, --rank->queued * sizeof(*rank->queue));
    rank->ending = false;
}

static void on_step_end(void *context, sim_t *sim)
{
    job_t *job = context;
    sim_devices_t *self = job->devices;
    rank_t *rank = rank_of_job(job);
    actor_id_t id = job->rank;

    (void)sim;
    job_return(job);
    if (!rank)
        return;
    step_end(self, id, rank);
    enter_if_all_are_there(self, rank->leader);
}

/* Once every rank of the group stands in the same step, it may end on each. Ranks in different
 * ones would hang. */
static void enter_if_all_are_there(sim_devices_t *self, actor_id_t leader)
{
    const topology_t *topology = world_topology(self->world);
    const queued_step_t *first = NULL;

    for (uint32_t i = 0; i < topology->actor_count; i++) {
        const rank_t *rank = &self->ranks[i];

        if (topology->actors[i].kind != ACTOR_RANK || rank->leader != leader)
            continue;
        if (!rank->device || rank->queued == 0 || rank->ending)
            return;
        if (!first)
            first = &rank->queue[0];
        if (rank->queue[0].epoch != first->epoch)
            return; /* one of them is about to be reformed */
        if (rank->queue[0].seq != first->seq) {
            world_violate(self->world,
                          "collective: ranks of %s are in steps %llu and %llu of one epoch",
                          topology->actors[leader].name, (unsigned long long)first->seq,
                          (unsigned long long)rank->queue[0].seq);
            return;
        }
    }
    for (uint32_t i = 0; first && i < topology->actor_count; i++) {
        if (topology->actors[i].kind != ACTOR_RANK || self->ranks[i].leader != leader)
            continue;
        self->ranks[i].ending = true;
        sim_after(world_sim(self->world), draw_us(self, (actor_id_t)i, STEP_US_MAX), on_step_end,
                  job_take(self, (actor_id_t)i));
    }
}

static void push_step(sim_devices_t *self, actor_id_t id, const message_step_t *message)
{
    rank_t *rank = &self->ranks[id];
    queued_step_t *step = &rank->queue[rank->queued];

    if (rank->queued == QUEUE_MAX) {
        world_violate(self->world, "depth: %s got more than %u steps",
                      world_topology(self->world)->actors[id].name, QUEUE_MAX);
        return;
    }
    *step = (queued_step_t){.epoch = message->epoch, .seq = message->seq};
    step->bytes = keep(self, MESSAGE_step, message, &step->size);
    rank->queued++;
    enter_if_all_are_there(self, rank->leader);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void copy_done(sim_devices_t *self, actor_id_t id, running_copy_t *copy, status_t status,
                      uint32_t failed)
{
    message_device_copied_t done = {copy->copy, (uint8_t)status, failed};
    rank_t *rank = &self->ranks[id];
    sim_t *sim = world_sim(self->world);
    uint64_t late_us = 1 + (rank->shuffle_us ? sim_draw(sim, id, rank->shuffle_us) : 0);

    if (rank->said_us < sim_now_us(sim) + late_us)
        rank->said_us = sim_now_us(sim) + late_us;
    post(self, id, MESSAGE_device_copied, &done, late_us);
    free(copy->bytes);
    *copy = (running_copy_t){0};
}

/* Moves the next unit of a copy. */
static status_t move_unit(sim_devices_t *self, actor_id_t id, const running_copy_t *copy,
                          uint32_t *count)
{
    const message_device_copy_t *message =
        unkeep(self, MESSAGE_device_copy, copy->bytes, copy->size);
    const record_pull_item_t *item = &message->items.data[copy->next_item];
    uint32_t failed;
    status_t status;

    *count = message->items.count;
    trail_reset();
    status = convert_copy(self->ranks[id].device, message->source, item, 1, &failed);
    if (status == STATUS_OK)
        oracle_unit_moved(world_oracle(self->world), id, item);
    else if (status != STATUS_STALE)
        world_wrong_bytes(self->world, id, trail_text());
    return status;
}

static void on_copy_item(void *context, sim_t *sim)
{
    job_t *job = context;
    sim_devices_t *self = job->devices;
    rank_t *rank = rank_of_job(job);
    running_copy_t *copy = rank ? &rank->copies[job->copy] : NULL;
    uint32_t count;
    status_t status;

    if (!rank) {
        job_return(job);
        return;
    }
    status = move_unit(self, job->rank, copy, &count);
    if (status != STATUS_OK || copy->next_item + 1 == count) {
        copy_done(self, job->rank, copy, status, copy->next_item);
        job_return(job);
        return;
    }
    copy->next_item++;
    sim_after(sim, draw_us(self, job->rank, COPY_US_MAX), on_copy_item, job);
}

static void push_copy(sim_devices_t *self, actor_id_t id, const message_device_copy_t *message)
{
    rank_t *rank = &self->ranks[id];
    job_t *job = job_take(self, id);

    while (job->copy < COPIES_MAX && rank->copies[job->copy].used)
        job->copy++;
    if (job->copy == COPIES_MAX) {
        world_violate(self->world, "bound: a rank has more than %u copies running", COPIES_MAX);
        job_return(job);
        return;
    }
    rank->copies[job->copy] = (running_copy_t){.copy = message->copy, .used = true};
    rank->copies[job->copy].bytes =
        keep(self, MESSAGE_device_copy, message, &rank->copies[job->copy].size);
    sim_after(world_sim(self->world), draw_us(self, id, COPY_US_MAX), on_copy_item, job);
}

/* ---- reform and map -------------------------------------------------------------------------- */

/* A copy stops behind the unit that it was at. */
static void on_last_unit(void *context, sim_t *sim)
{
    job_t *job = context;
    rank_t *rank = rank_of_job(job);
    running_copy_t *copy = rank ? &rank->copies[job->copy] : NULL;
    uint32_t count;

    (void)sim;
    if (rank) {
        (void)move_unit(job->devices, job->rank, copy, &count);
        copy_done(job->devices, job->rank, copy, STATUS_BROKEN, copy->next_item);
    }
    job_return(job);
}

static bool is_copying(const rank_t *rank)
{
    for (uint32_t i = 0; i < COPIES_MAX; i++)
        if (rank->copies[i].used)
            return true;
    return false;
}

static void on_left(void *context, sim_t *sim)
{
    job_t *job = context;
    rank_t *rank = rank_of_job(job);
    message_device_quiesced_t quiesced = {.epoch = job->epoch};
    status_t status;

    if (rank && is_copying(rank)) {
        sim_after(sim, draw_us(job->devices, job->rank, LEAVE_US_MAX), on_left, job);
        return;
    }
    if (rank) {
        status = rank->device->ops->reform(rank->device, job->epoch, job->segment);
        ASSERT(status == STATUS_OK);
        quiesced.segment = (text_view_t){job->segment, (uint32_t)strlen(job->segment)};
        post(job->devices, job->rank, MESSAGE_device_quiesced, &quiesced,
             rank->said_us > sim_now_us(sim) ? 1 + rank->said_us - sim_now_us(sim) : 1);
    }
    job_return(job);
}

static void push_reform(sim_devices_t *self, actor_id_t id, const message_device_reform_t *message)
{
    rank_t *rank = &self->ranks[id];
    job_t *job;

    rank->round++; /* every timer of the old epoch is void */
    for (uint32_t i = 0; i < rank->queued; i++) {
        message_step_done_t done = {
            .epoch = rank->queue[i].epoch, .seq = rank->queue[i].seq, .status = STATUS_BROKEN};

        post(self, id, MESSAGE_step_done, &done, 1);
    }
    drop_steps(rank);
    for (uint32_t i = 0; i < COPIES_MAX; i++) {
        if (!rank->copies[i].used)
            continue;
        job = job_take(self, id);
        job->copy = i;
        sim_after(world_sim(self->world), draw_us(self, id, COPY_US_MAX), on_last_unit, job);
    }
    job = job_take(self, id);
    job->epoch = message->epoch;
    snprintf(job->segment, sizeof(job->segment), "%.*s", (int)message->segment.count,
             message->segment.data);
    sim_after(world_sim(self->world), draw_us(self, id, LEAVE_US_MAX), on_left, job);
}

static void push_map(sim_devices_t *self, actor_id_t id, const message_device_map_t *message)
{
    rank_t *rank = &self->ranks[id];
    device_pool_t pool = {.bytes = message->pool.bytes, .incarnation = message->pool.incarnation};
    message_device_mapped_t mapped = {.rank = message->pool.rank,
                                      .incarnation = message->pool.incarnation};
    sim_t *sim = world_sim(self->world);
    uint64_t at_us;
    status_t status;

    trail_reset();
    snprintf(pool.name, sizeof(pool.name), "%.*s", (int)message->pool.name.count,
             message->pool.name.data);
    status = rank->device->ops->map(rank->device, message->pool.rank, &pool);
    mapped.status = (uint8_t)status;
    if (status != STATUS_OK)
        mapped.reason =
            (text_view_t){trail_text(), (uint32_t)strnlen(trail_text(), REASON_BYTES_MAX)};
    at_us = sim_now_us(sim) + draw_us(self, id, COPY_US_MAX);
    if (at_us < rank->mapped_us) /* in order, as a copy thread does them */
        at_us = rank->mapped_us;
    rank->mapped_us = at_us;
    post(self, id, MESSAGE_device_mapped, &mapped, at_us - sim_now_us(sim));
}

void sim_devices_push(sim_devices_t *self, actor_id_t rank, uint16_t id, const void *body)
{
    if (!self->ranks[rank].device)
        return;
    switch (id) {
    case MESSAGE_step:
        push_step(self, rank, body);
        break;
    case MESSAGE_device_copy:
        push_copy(self, rank, body);
        break;
    case MESSAGE_device_reform:
        push_reform(self, rank, body);
        break;
    case MESSAGE_device_map:
        push_map(self, rank, body);
        break;
    default:
        world_violate(self->world, "port: a rank pushed %s to its device",
                      message_table.rows[id].name);
    }
}
