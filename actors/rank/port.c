#include "actors/rank/port.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/rank/convert.h"
#include "runtime/base/log.h"
#include "runtime/worker.h"

enum {
    JOBS_MAX = 256 /* steps, copies and maps are bounded by the actor; reforms by its leader */
};

typedef struct {
    process_t *process;
    rank_port_setup_t setup;
    device_t *device;         /* of the compute thread until DEVICE_READY, then of both */
    _Atomic bool open;        /* the device may be interrupted */
    _Atomic uint64_t wanted;  /* epoch of the newest DEVICE_REFORM */
    _Atomic uint64_t drained; /* epoch of the newest one that the copy thread has reached */
    worker_t *compute;
    worker_t *copy;
    convert_step_t step_room; /* of the compute thread */
    convert_done_t done_room;
} port_state_t;

static void post(port_state_t *self, uint16_t id, const void *body)
{
    process_post(self->process, PORT_DEVICE, id, body);
}

/* ---- compute thread ---------------------------------------------------------------------------- */

/* The rank ends itself, with this as its last word. */
static void post_failure(port_state_t *self, status_t status)
{
    const char *detail = trail_text();
    message_device_ready_t ready = {.status = (uint8_t)status};

    ready.detail = (text_view_t){detail, (uint32_t)strnlen(detail, REASON_BYTES_MAX)};
    post(self, MESSAGE_device_ready, &ready);
}

static void load(port_state_t *self)
{
    const device_config_t *config = &self->setup.config;
    device_pool_t pool;
    device_digests_t digests;
    message_device_ready_t ready = {
        .pages = config->page_count, .borders = config->border_count, .slots = config->slot_count};
    status_t status = self->setup.ops->open(config, self->setup.setup, NULL, &self->device);

    if (status != STATUS_OK) {
        post_failure(self, status);
        return;
    }
    self->setup.ops->describe(self->device, &pool, &digests);
    ready.pool.name = (text_view_t){pool.name, (uint32_t)strnlen(pool.name, DEVICE_NAME_BYTES_MAX)};
    ready.pool.bytes = pool.bytes;
    ready.pool.incarnation = (uint32_t)pool.incarnation;
    ready.weights_digest = digests.weights;
    ready.geometry_digest = digests.geometry;
    ready.numerics_digest = digests.numerics;
    atomic_store(&self->open, true);
    post(self, MESSAGE_device_ready, &ready);
}

static void run_step(port_state_t *self, const message_step_t *m)
{
    message_step_done_t done;

    convert_run(self->device, m, atomic_load(&self->wanted), self->setup.config.rank == 0,
                &self->step_room, &self->done_room, &done);
    post(self, MESSAGE_step_done, &done);
}

static void run_reform(port_state_t *self, const message_device_reform_t *m)
{
    message_device_quiesced_t quiesced = {.epoch = m->epoch};
    char segment[DEVICE_NAME_BYTES_MAX + POOL_NAME_BYTES_MAX];
    status_t status;

    if (m->epoch < atomic_load(&self->wanted))
        return; /* a newer one is behind it */
    snprintf(segment, sizeof(segment), "%s%.*s",
             self->setup.shm_prefix ? self->setup.shm_prefix : "/", (int)m->segment.count,
             m->segment.data);
    status = self->setup.ops->reform(self->device, m->epoch, segment);
    if (status == STATUS_BROKEN)
        return;
    if (status != STATUS_OK)
        post_failure(self, status);
    else
        post(self, MESSAGE_device_quiesced, &quiesced);
}

static void compute_job(void *context, uint16_t id, const void *body)
{
    port_state_t *self = context;

    if (id == MESSAGE_step) {
        run_step(self, body);
    } else if (id == MESSAGE_device_reform) {
        const message_device_reform_t *m = body;

        if (m->epoch == 0)
            load(self);
        else
            run_reform(self, m);
    }
}

/* ---- copy thread ------------------------------------------------------------------------------- */

static void run_copy(port_state_t *self, const message_device_copy_t *m)
{
    message_device_copied_t copied = {.copy = m->copy};
    status_t status = STATUS_OK;

    for (uint32_t i = 0; i < m->items.count && status == STATUS_OK; i += DEVICE_COPIES_MAX) {
        uint32_t count = m->items.count - i, failed = 0;

        if (count > DEVICE_COPIES_MAX)
            count = DEVICE_COPIES_MAX;
        if (atomic_load(&self->drained) < atomic_load(&self->wanted))
            status = FAIL(STATUS_BROKEN, "a newer epoch has begun");
        else
            status = convert_copy(self->device, m->source, &m->items.data[i], count, &failed);
        copied.failed_item = i + failed;
    }
    if (status != STATUS_OK && status != STATUS_BROKEN)
        LOG(WARN, "RANK-COPY item=%u: %s", copied.failed_item, trail_text());
    copied.status = (uint8_t)status;
    post(self, MESSAGE_device_copied, &copied);
}

static void run_map(port_state_t *self, const message_device_map_t *m)
{
    device_pool_t pool = {.bytes = m->pool.bytes, .incarnation = m->pool.incarnation};
    message_device_mapped_t mapped = {.rank = m->pool.rank, .incarnation = m->pool.incarnation};
    status_t status;
    const char *reason;

    if (m->pool.name.count >= sizeof(pool.name)) {
        status = FAIL(STATUS_TOO_LARGE, "a pool's name has %u bytes", m->pool.name.count);
    } else {
        memcpy(pool.name, m->pool.name.data, m->pool.name.count);
        status = self->setup.ops->map(self->device, m->pool.rank, &pool);
    }
    reason = status == STATUS_OK ? "" : trail_text();
    mapped.status = (uint8_t)status;
    mapped.reason = (text_view_t){reason, (uint32_t)strnlen(reason, REASON_BYTES_MAX)};
    post(self, MESSAGE_device_mapped, &mapped);
}

/* All copies before it are answered: the rest of the reform is the compute thread's. */
static void pass_reform(port_state_t *self, const message_device_reform_t *m)
{
    uint8_t bytes[256];
    size_t used = 0;
    status_t status = message_encode(MESSAGE_device_reform, m, bytes, sizeof(bytes), &used);

    ASSERT(status == STATUS_OK);
    atomic_store(&self->drained, m->epoch);
    worker_push(self->compute, MESSAGE_device_reform, bytes, used);
}

static void copy_job(void *context, uint16_t id, const void *body)
{
    if (id == MESSAGE_device_copy)
        run_copy(context, body);
    else if (id == MESSAGE_device_map)
        run_map(context, body);
    else if (id == MESSAGE_device_reform)
        pass_reform(context, body);
}

/* ---- the actor's thread ------------------------------------------------------------------------ */

static void push_load(port_state_t *self)
{
    const message_device_reform_t first = {.epoch = 0};
    uint8_t bytes[64];
    size_t used = 0;
    status_t status = message_encode(MESSAGE_device_reform, &first, bytes, sizeof(bytes), &used);

    ASSERT(status == STATUS_OK);
    worker_push(self->compute, MESSAGE_device_reform, bytes, used);
}

static void port_close(void *context)
{
    port_state_t *self = context;

    if (!self)
        return;
    if (atomic_load(&self->open)) {
        atomic_store(&self->wanted, UINT64_MAX);
        self->setup.ops->interrupt(self->device, UINT64_MAX);
    }
    worker_close(self->copy); /* first, for it pushes to the other one */
    worker_close(self->compute);
    if (self->device)
        self->setup.ops->close(self->device);
    free(self);
}

static status_t port_open(process_t *process, const void *setup, void **out)
{
    port_state_t *self = calloc(1, sizeof(*self));
    status_t status;

    if (!self)
        return FAIL(STATUS_NO_MEMORY, "the device port");
    self->process = process;
    self->setup = *(const rank_port_setup_t *)setup;
    status = worker_open("compute", &message_table, JOBS_MAX, compute_job, self, &self->compute);
    if (status == STATUS_OK)
        status = worker_open("copy", &message_table, JOBS_MAX, copy_job, self, &self->copy);
    if (status != STATUS_OK) {
        port_close(self);
        return status;
    }
    push_load(self);
    *out = self;
    return STATUS_OK;
}

static void port_push(void *context, uint16_t id, const void *body, const uint8_t *bytes,
                      size_t size)
{
    port_state_t *self = context;

    switch (id) {
    case MESSAGE_step:
        worker_push(self->compute, id, bytes, size);
        break;
    case MESSAGE_device_copy:
    case MESSAGE_device_map:
        worker_push(self->copy, id, bytes, size);
        break;
    case MESSAGE_device_reform:
        atomic_store(&self->wanted, ((const message_device_reform_t *)body)->epoch);
        self->setup.ops->interrupt(self->device, ((const message_device_reform_t *)body)->epoch);
        worker_push(self->copy, id, bytes, size);
        break;
    default:
        UNREACHABLE("the table lets a rank push nothing else to its device");
    }
}

const port_type_t rank_port = {PORT_DEVICE, port_open, port_push, port_close};
