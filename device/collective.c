/* collective.c - post, wait for all, compare, copy.
 *
 * Call c uses buffer c mod 2. A rank posts c + 1 only after it has left c, and nobody opens c + 1
 * before all have posted it, so when a rank writes buffer c mod 2 again (call c + 2), all have left
 * c: two buffers are enough and no one waits for leaving. The last to post opens the call and wakes
 * the others: one wake per call.
 */
#include "device/collective.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/futex.h"
#include "runtime/base/shared.h"

enum { POLLS = 4000 };

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

size_t collective_bytes(uint32_t world, uint64_t capacity)
{
    return round_up(sizeof(collective_segment_t)) +
           (size_t)world * COLLECTIVE_BUFFERS * round_up(capacity);
}

static uint8_t *buffer_of(const collective_t *c, uint32_t rank, uint32_t call)
{
    return c->buffers +
           ((size_t)rank * COLLECTIVE_BUFFERS + call % COLLECTIVE_BUFFERS) * c->capacity;
}

/* The first rank writes the shape; the others compare. */
static status_t agree_on_shape(collective_t *c)
{
    uint64_t mine = (uint64_t)c->world << 48 | c->capacity, shape = 0;

    if (atomic_compare_exchange_strong(&c->segment->shape, &shape, mine) || shape == mine)
        return STATUS_OK;
    return FAIL(STATUS_MISMATCH,
                "segment is for %llu ranks of %llu bytes, rank %u came for %u of %llu",
                (unsigned long long)(shape >> 48), (unsigned long long)(shape & ((1ull << 48) - 1)),
                c->rank, c->world, (unsigned long long)c->capacity);
}

status_t collective_init(collective_t *c, void *memory, uint32_t rank, uint32_t world,
                         uint64_t capacity)
{
    ASSERT(world > 0 && world <= RANKS_MAX && rank < world && capacity > 0 &&
           capacity < 1ull << 47);
    *c = (collective_t){
        .segment = memory,
        .buffers = (uint8_t *)memory + round_up(sizeof(collective_segment_t)),
        .capacity = round_up(capacity),
        .rank = rank,
        .world = world,
        .polls = (long)world <= sysconf(_SC_NPROCESSORS_ONLN) ? POLLS : 0,
    };
    return agree_on_shape(c);
}

status_t collective_open(collective_t *c, const char *name, uint32_t rank, uint32_t world,
                         uint64_t capacity)
{
    size_t bytes = collective_bytes(world, capacity);
    void *memory = NULL;
    status_t status;

    TRY(shared_join(name, bytes, &memory));
    status = collective_init(c, memory, rank, world, capacity);
    c->bytes = bytes;
    if (status != STATUS_OK)
        collective_close(c);
    return status;
}

void collective_close(collective_t *c)
{
    if (c->segment && c->bytes)
        munmap(c->segment, c->bytes);
    c->segment = NULL;
}

void collective_unlink(const char *name)
{
    shared_unlink(name);
}

void collective_step(collective_t *c, uint64_t epoch, uint64_t seq)
{
    collective_place_t *place = &c->segment->places[c->rank];

    c->epoch = epoch;
    c->seq = seq;
    atomic_store_explicit(&place->epoch, epoch, memory_order_relaxed);
    atomic_store_explicit(&place->seq, seq, memory_order_relaxed);
}

void collective_layer(collective_t *c, uint32_t layer)
{
    c->layer = layer;
    atomic_store_explicit(&c->segment->places[c->rank].layer, layer, memory_order_relaxed);
}

/* ---- looking on ------------------------------------------------------------------------------ */

uint32_t collective_world(const collective_segment_t *segment)
{
    return (uint32_t)(atomic_load(&segment->shape) >> 48);
}

status_t collective_look(const char *name, const collective_segment_t **segment)
{
    int file = shm_open(name, O_RDONLY | O_CLOEXEC, 0);
    struct stat info;
    void *memory = MAP_FAILED;

    if (file < 0)
        return FAIL(STATUS_NOT_FOUND, "no shared memory %s", name);
    if (fstat(file, &info) == 0 && info.st_size >= (off_t)sizeof(collective_segment_t))
        memory = mmap(NULL, sizeof(collective_segment_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED)
        return FAIL(STATUS_MISMATCH, "shared memory %s is no segment of collectives", name);
    *segment = memory;
    if (collective_world(*segment) <= RANKS_MAX)
        return STATUS_OK;
    collective_look_end(*segment);
    return FAIL(STATUS_MISMATCH, "segment %s says that it is for %u ranks", name,
                collective_world(*segment));
}

void collective_look_end(const collective_segment_t *segment)
{
    munmap((void *)(uintptr_t)segment, sizeof(*segment));
}

uint64_t collective_missing(const collective_segment_t *segment, uint32_t rank)
{
    unsigned posted = atomic_load(&segment->places[rank].posted);
    uint64_t missing = 0;

    if (atomic_load(&segment->places[rank].entered) == posted)
        return 0;
    for (uint32_t r = 0; r < collective_world(segment); r++)
        if ((int32_t)(atomic_load(&segment->places[r].posted) - posted) < 0)
            missing |= UINT64_C(1) << r;
    return missing;
}

/* ---- calls ----------------------------------------------------------------------------------- */

void collective_break(collective_segment_t *segment, uint32_t who)
{
    unsigned none = 0;

    atomic_compare_exchange_strong(&segment->broken, &none, who + 1);
    atomic_fetch_add(&segment->open,
                     1); /* no sleeper may miss it: the word that it waits on changes */
    futex_wake(&segment->open, true);
}

bool collective_broken(const collective_t *c)
{
    return atomic_load(&c->segment->broken) != 0;
}

/* Says who was missing: after a deadline, that is the one to look at. */
static status_t fail_broken(const collective_t *c)
{
    uint64_t missing = collective_missing(c->segment, c->rank);
    char ranks[128] = " nobody";
    size_t used = 0;

    for (uint32_t r = 0; r < c->world && used + 4 < sizeof(ranks); r++)
        if (missing >> r & 1)
            used += (size_t)snprintf(ranks + used, sizeof(ranks) - used, " %u", r);
    return FAIL(STATUS_BROKEN,
                "the group was broken by %u; rank %u was in call %u of step %llu, layer %u, site "
                "%u, and missed%s",
                atomic_load(&c->segment->broken) - 1, c->rank, c->call, (unsigned long long)c->seq,
                c->layer, c->site, ranks);
}

/* Until all ranks have posted this call. */
static status_t wait_open(collective_t *c)
{
    collective_segment_t *s = c->segment;
    uint32_t polls = 0;

    for (;;) {
        unsigned open = atomic_load(&s->open);
        if (atomic_load(&s->broken))
            return fail_broken(c);
        if ((int32_t)(open - c->call) >= 0)
            return STATUS_OK;
        if (polls++ < c->polls)
            futex_relax();
        else
            futex_wait(&s->open, open, true);
    }
}

static status_t compare_calls(collective_t *c)
{
    const collective_call_t *mine =
        &c->segment->places[c->rank].calls[c->call % COLLECTIVE_BUFFERS];

    for (uint32_t r = 0; r < c->world; r++) {
        const collective_call_t *other = &c->segment->places[r].calls[c->call % COLLECTIVE_BUFFERS];
        if (other->epoch == mine->epoch && other->seq == mine->seq && other->layer == mine->layer &&
            other->site == mine->site && other->bytes == mine->bytes)
            continue;
        collective_break(c->segment, c->rank);
        return FAIL(STATUS_MISMATCH,
                    "call %u: rank %u is in epoch %llx step %llu layer %u site %u with %llu bytes, "
                    "rank %u in epoch %llx step %llu layer %u site %u with %llu bytes",
                    c->call, c->rank, (unsigned long long)mine->epoch,
                    (unsigned long long)mine->seq, mine->layer, mine->site,
                    (unsigned long long)mine->bytes, r, (unsigned long long)other->epoch,
                    (unsigned long long)other->seq, other->layer, other->site,
                    (unsigned long long)other->bytes);
    }
    return STATUS_OK;
}

/* Posts `bytes` (agreed on by all) of which `mine_bytes` are this rank's, and waits for all. */
static status_t enter(collective_t *c, uint64_t agreed, const void *mine, size_t mine_bytes)
{
    collective_segment_t *s = c->segment;
    collective_place_t *place = &s->places[c->rank];

    ASSERT(mine_bytes <= c->capacity);
    c->call++;
    if (atomic_load(&s->broken))
        return fail_broken(c);
    memcpy(buffer_of(c, c->rank, c->call), mine, mine_bytes);
    place->calls[c->call % COLLECTIVE_BUFFERS] =
        (collective_call_t){c->epoch, c->seq, c->layer, c->site, c->call, agreed};
    atomic_store_explicit(&place->site, c->site, memory_order_relaxed);
    atomic_store(&place->posted, c->call);
    if (atomic_fetch_add(&s->arrived, 1) + 1 == c->call * c->world) {
        atomic_fetch_add(&s->open, 1);
        futex_wake(&s->open, true);
    }
    TRY(wait_open(c));
    atomic_store(&place->entered, c->call);
    return compare_calls(c);
}

static void leave(collective_t *c)
{
    atomic_store(&c->segment->places[c->rank].left, c->call);
}

/* More rows than fit are moved in several calls; all ranks cut alike, by the widest rank. */
static uint32_t rows_at_once(const collective_t *c, uint32_t rows, size_t width)
{
    size_t fit = c->capacity / (width * sizeof(float));

    ASSERT(fit > 0);
    return fit < rows ? (uint32_t)fit : rows;
}

status_t collective_gather(collective_t *c, uint32_t site, const float *mine, uint32_t rows,
                           const uint32_t *offsets, float *all, size_t all_stride)
{
    uint32_t widest = 0, own = offsets[c->rank + 1] - offsets[c->rank], count;

    c->site = site;
    for (uint32_t r = 0; r < c->world; r++)
        widest = offsets[r + 1] - offsets[r] > widest ? offsets[r + 1] - offsets[r] : widest;
    for (uint32_t row = 0; row < rows; row += count) {
        count = rows_at_once(c, rows - row, widest);
        TRY(enter(c, (uint64_t)count * offsets[c->world] * sizeof(float), mine + (size_t)row * own,
                  (size_t)count * own * sizeof(float)));
        for (uint32_t r = 0; r < c->world; r++) {
            uint32_t width = offsets[r + 1] - offsets[r];
            const float *from = (const float *)(const void *)buffer_of(c, r, c->call);
            for (uint32_t i = 0; i < count; i++)
                memcpy(all + (row + i) * all_stride + offsets[r], from + (size_t)i * width,
                       width * sizeof(float));
        }
        leave(c);
    }
    return STATUS_OK;
}

status_t collective_pick(collective_t *c, uint32_t site, const float *mine, uint32_t rows,
                         uint32_t columns, const uint8_t *owners, uint32_t first, uint32_t count,
                         float *out)
{
    uint32_t part;

    c->site = site;
    for (uint32_t row = 0; row < rows; row += part) {
        part = rows_at_once(c, rows - row, columns);
        TRY(enter(c, (uint64_t)part * columns * sizeof(float), mine + (size_t)row * columns,
                  (size_t)part * columns * sizeof(float)));
        for (uint32_t i = 0; i < part; i++) {
            const float *from = (const float *)(const void *)buffer_of(c, owners[row + i], c->call);
            memcpy(out + (size_t)(row + i) * count, from + (size_t)i * columns + first,
                   count * sizeof(float));
        }
        leave(c);
    }
    return STATUS_OK;
}
