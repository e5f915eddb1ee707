#include "runtime/queue.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/check.h"

/* In front of every record: its size. Records start at multiples of 8. */
enum { QUEUE_HEADER_BYTES = 8, QUEUE_FIRST_BYTES = 4096 };

static size_t span(size_t size)
{
    return QUEUE_HEADER_BYTES + ((size + 7) & ~(size_t)7);
}

static size_t size_at(const queue_t *queue, size_t offset)
{
    size_t size;

    memcpy(&size, queue->bytes + offset, sizeof(size));
    return size;
}

void queue_init(queue_t *queue, size_t limit)
{
    *queue = (queue_t){.limit = limit};
}

void queue_fini(queue_t *queue)
{
    free(queue->bytes);
    *queue = (queue_t){.limit = queue->limit};
}

/* Moves the records to the front of the block, so that all free room is behind them. */
static void close_gap(queue_t *queue)
{
    memmove(queue->bytes, queue->bytes + queue->head, queue->tail - queue->head);
    queue->base += queue->head;
    queue->tail -= queue->head;
    queue->head = 0;
}

static bool make_room(queue_t *queue, size_t need)
{
    size_t held = queue->tail - queue->head, size = queue->size ? queue->size : QUEUE_FIRST_BYTES;
    uint8_t *bytes;

    if (need <= queue->size - queue->tail)
        return true;
    if (held <= queue->size / 2 && need <= queue->size - held) {
        close_gap(queue);
        return true;
    }
    if (need > queue->limit - held)
        return false;
    while (size < held + need || size / 2 < held)
        size *= 2;
    bytes = realloc(queue->bytes, size);
    if (!bytes)
        return false;
    queue->bytes = bytes;
    queue->size = size;
    if (queue->head)
        close_gap(queue);
    return true;
}

void *queue_push(queue_t *queue, size_t size)
{
    uint8_t *record;

    if (queue->count == 0 && queue->head)
        queue_clear(queue);
    if (size > queue->limit || !make_room(queue, span(size)))
        return NULL;
    record = queue->bytes + queue->tail;
    memcpy(record, &size, sizeof(size));
    queue->tail += span(size);
    queue->count++;
    return record + QUEUE_HEADER_BYTES;
}

void *queue_front(const queue_t *queue, size_t *size)
{
    if (queue->count == 0)
        return NULL;
    *size = size_at(queue, queue->head);
    return queue->bytes + queue->head + QUEUE_HEADER_BYTES;
}

void queue_pop(queue_t *queue)
{
    ASSERT(queue->count > 0);
    queue->head += span(size_at(queue, queue->head));
    queue->count--;
    ASSERT(queue->head <= queue->tail);
}

void queue_clear(queue_t *queue)
{
    queue->base += queue->tail;
    queue->head = 0;
    queue->tail = 0;
    queue->count = 0;
}

size_t queue_bytes(const queue_t *queue)
{
    return queue->tail - queue->head;
}

uint64_t queue_first(const queue_t *queue)
{
    return queue->base + queue->head;
}

uint64_t queue_end(const queue_t *queue)
{
    return queue->base + queue->tail;
}

void *queue_at(const queue_t *queue, uint64_t place, size_t *size, uint64_t *next)
{
    size_t offset = (size_t)(place - queue->base);

    ASSERT(place >= queue_first(queue));
    ASSERT(offset <= queue->tail);
    if (offset == queue->tail)
        return NULL;
    *size = size_at(queue, offset);
    *next = place + span(*size);
    return queue->bytes + offset + QUEUE_HEADER_BYTES;
}
