#include "sim/chronicle.h"

#include <stdlib.h>
#include <string.h>

#include "actors/gateway/gateway.h"
#include "messages/message.h"
#include "runtime/codec.h"

chronicle_t *chronicle_open(void)
{
    chronicle_t *chronicle = calloc(1, sizeof(*chronicle));

    ASSERT(chronicle != NULL);
    return chronicle;
}

void chronicle_close(chronicle_t *chronicle)
{
    if (!chronicle)
        return;
    for (uint32_t i = 0; i < chronicle->count; i++)
        free(chronicle->entries[i].text);
    free(chronicle->entries);
    free(chronicle->unhandled);
    free(chronicle);
}

void chronicle_begin(chronicle_t *chronicle, const topology_t *topology)
{
    size_t pairs = (size_t)topology->actor_count * topology->actor_count;

    chronicle->topology = *topology;
    chronicle->unhandled = calloc(pairs, sizeof(*chronicle->unhandled));
    ASSERT(chronicle->unhandled != NULL);
}

static chronicle_entry_t *add(chronicle_t *chronicle, chronicle_entry_t entry)
{
    if (chronicle->count == chronicle->size) {
        chronicle->size = chronicle->size ? 2 * chronicle->size : 1024;
        chronicle->entries =
            realloc(chronicle->entries, chronicle->size * sizeof(*chronicle->entries));
        ASSERT(chronicle->entries != NULL);
    }
    chronicle->entries[chronicle->count] = entry;
    return &chronicle->entries[chronicle->count++];
}

static char *text_of(uint16_t id, const void *body)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    ASSERT(out != NULL);
    codec_print(&message_table.rows[id], body, true, out);
    (void)fclose(out);
    return text;
}

/* The entry that said what is handled now. A stream keeps the order, so what stands before it was lost. */
static uint32_t find_sent(chronicle_t *chronicle, actor_id_t from, actor_id_t to, uint16_t id)
{
    uint32_t *first = &chronicle->unhandled[from * chronicle->topology.actor_count + to];

    for (uint32_t i = *first; i < chronicle->count; i++) {
        const chronicle_entry_t *entry = &chronicle->entries[i];

        if (entry->kind != CHRONICLE_SENT || entry->actor != from || entry->peer != to ||
            entry->message != id)
            continue;
        *first = i + 1;
        return i;
    }
    return CHRONICLE_NONE;
}

void chronicle_received(chronicle_t *chronicle, uint64_t now_us, actor_id_t actor,
                        const envelope_t *envelope)
{
    bool from_actor = envelope->from < chronicle->topology.actor_count;
    chronicle_entry_t entry = {.kind = CHRONICLE_HANDLED,
                               .at_us = now_us,
                               .actor = actor,
                               .peer = envelope->from,
                               .message = envelope->id,
                               .other = CHRONICLE_NONE};

    if (envelope->id == MESSAGE_tick)
        return;
    if (envelope->id == MESSAGE_client_request)
        chronicle->client_seen =
            (uint32_t)((const message_client_request_t *)envelope->body)->client;
    if (from_actor)
        entry.other = find_sent(chronicle, envelope->from, actor, envelope->id);
    if (entry.other != CHRONICLE_NONE)
        chronicle->entries[entry.other].other = chronicle->count;
    else
        entry.text = text_of(envelope->id, envelope->body);
    add(chronicle, entry);
}

void chronicle_pushed(chronicle_t *chronicle, uint64_t now_us, actor_id_t actor, actor_id_t to,
                      uint16_t id, const void *body)
{
    add(chronicle, (chronicle_entry_t){.kind = CHRONICLE_SENT,
                                       .at_us = now_us,
                                       .actor = actor,
                                       .peer = to,
                                       .message = id,
                                       .other = CHRONICLE_NONE,
                                       .text = text_of(id, body)});
}

/* Its gateway has just given it a number. */
static void learn_request(chronicle_t *chronicle, world_t *world, actor_id_t gateway)
{
    const dispatch_t *dispatch = sim_dispatch(world_sim(world), gateway);
    uint32_t attempt;

    if (dispatch && chronicle->client_seen - 1 < STORY_REQUESTS_MAX)
        (void)gateway_find(dispatch->self, chronicle->client_seen,
                           &chronicle->requests[chronicle->client_seen - 1], &attempt);
}

/* What was under way to it is lost. */
static void forget_under_way(chronicle_t *chronicle, actor_id_t actor)
{
    for (uint32_t from = 0; from < chronicle->topology.actor_count; from++)
        chronicle->unhandled[from * chronicle->topology.actor_count + actor] = chronicle->count;
}

void chronicle_event(chronicle_t *chronicle, world_t *world, const sim_event_t *event)
{
    chronicle_entry_t entry = {.kind =
                                   event->kind == SIM_STARTED ? CHRONICLE_STARTED : CHRONICLE_DIED,
                               .at_us = sim_now_us(world_sim(world)),
                               .actor = event->actor,
                               .peer = ACTOR_NONE,
                               .other = CHRONICLE_NONE};

    if (event->kind == SIM_DISPATCHED && event->message == MESSAGE_client_request)
        learn_request(chronicle, world, event->actor);
    if (event->kind == SIM_STARTED || event->kind == SIM_DIED)
        add(chronicle, entry);
    if (event->kind == SIM_DIED)
        forget_under_way(chronicle, event->actor);
}

void chronicle_fault(chronicle_t *chronicle, world_t *world, const story_fault_t *fault)
{
    const topology_actor_t *actor = topology_actor_by_name(&chronicle->topology, fault->actor);
    chronicle_entry_t entry = {.kind = CHRONICLE_FAULT,
                               .at_us = sim_now_us(world_sim(world)),
                               .actor = actor ? actor->id : (actor_id_t)ACTOR_NONE,
                               .peer = ACTOR_NONE,
                               .other = CHRONICLE_NONE};
    size_t bytes = 0;
    FILE *out = open_memstream(&entry.text, &bytes);

    ASSERT(out != NULL);
    story_print_fault(fault, out);
    (void)fclose(out);
    add(chronicle, entry);
}
