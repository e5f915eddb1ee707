#include "cli/waits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "device/collective.h"
#include "messages/message.h"
#include "model/forward.h"
#include "runtime/figures.h"
#include "runtime/stream.h"

enum { SEGMENT_NAME_BYTES = RUNDIR_PREFIX_BYTES + 64 };

static wait_t *add(waits_t *waits, actor_id_t who)
{
    wait_t *wait;

    if (waits->count == WAITS_MAX)
        return NULL;
    wait = &waits->waits[waits->count++];
    *wait = (wait_t){.who = who};
    return wait;
}

static void add_bits(wait_t *wait, const topology_t *topology, uint64_t first, uint64_t whom)
{
    for (uint32_t n = 0; n < RANKS_MAX; n++)
        if (whom >> n & 1 && first + n < topology->actor_count)
            wait->whom[wait->whom_count++] = (actor_id_t)(first + n);
}

/* ---- what actors say ------------------------------------------------------------------------- */

static void read_own(const figures_t *figures, const topology_t *topology, actor_id_t who,
                     waits_t *waits)
{
    for (uint32_t i = 0; i < FIGURES_WAITS_MAX; i++) {
        const figures_wait_t *from = &figures->waits[i];
        uint64_t whom = figure_get(&from->whom), message = figure_get(&from->message);
        wait_t *wait = whom ? add(waits, who) : NULL;

        if (!wait)
            continue;
        add_bits(wait, topology, figure_get(&from->first), whom);
        snprintf(wait->what, sizeof(wait->what), "for %s %" PRIu64 " since %" PRIu64 " ms",
                 message < message_table.count ? message_table.rows[message].name : "?",
                 figure_get(&from->number), figure_get(&from->age_ms));
    }
}

static uint64_t quiet_ms(const figures_t *figures)
{
    uint64_t at_us = figure_get(&figures->now_us), now_us;
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    now_us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    return at_us && now_us > at_us ? (now_us - at_us) / 1000 : 0;
}

/* A peer that owes an acknowledgement is no news, since it comes with the next tick; one that
 * handles nothing, ticks included, is. */
static void read_stream(const figures_stream_t *stream, const uint64_t quiet[ACTORS_MAX],
                        const topology_t *topology, actor_id_t who, waits_t *waits)
{
    uint64_t peer = figure_get(&stream->peer);
    uint64_t unread = figure_get(&stream->sent) - figure_get(&stream->acked);
    bool still = peer < topology->actor_count && quiet[peer] > STILL_MS && unread > 0;
    bool broke = figure_get(&stream->credit) == 0;
    wait_t *wait;

    if (peer >= topology->actor_count || figure_get(&stream->state) != STREAM_UP ||
        (!still && !broke) || !(wait = add(waits, who)))
        return;
    wait->whom[wait->whom_count++] = (actor_id_t)peer;
    if (broke)
        snprintf(wait->what, sizeof(wait->what), "for credit");
    else
        snprintf(wait->what, sizeof(wait->what), "for it to take %" PRIu64 " messages", unread);
}

/* ---- where ranks stand ----------------------------------------------------------------------- */

static status_t look(const rundir_t *rundir, actor_id_t leader,
                     const collective_segment_t **segment)
{
    char name[SEGMENT_NAME_BYTES];

    TRY(rundir_segment(rundir, leader, name, sizeof(name)));
    return collective_look(name, segment);
}

static bool has_ranks(const topology_actor_t *actor)
{
    return actor->kind == ACTOR_PREFILL || actor->kind == ACTOR_DECODE;
}

static void read_ranks(const rundir_t *rundir, const topology_t *topology, actor_id_t leader,
                       waits_t *waits)
{
    const collective_segment_t *segment;

    if (look(rundir, leader, &segment) != STATUS_OK)
        return;
    for (uint32_t r = 0; r < collective_world(segment); r++) {
        const collective_place_t *place = &segment->places[r];
        uint64_t missing = collective_missing(segment, r);
        wait_t *wait = missing ? add(waits, (actor_id_t)(leader + 1 + r)) : NULL;

        if (!wait)
            continue;
        add_bits(wait, topology, leader + 1u, missing);
        snprintf(wait->what, sizeof(wait->what), "in collective %u of step %llu (layer %u, %s)",
                 atomic_load(&place->posted), (unsigned long long)atomic_load(&place->seq),
                 atomic_load(&place->layer), forward_site_name(atomic_load(&place->site)));
    }
    collective_look_end(segment);
}

void waits_print_ranks(const rundir_t *rundir, const topology_t *topology)
{
    printf("%-22s %-16s %8s %5s %-18s %9s %9s %9s\n", "RANK", "EPOCH", "STEP", "LAYER", "SITE",
           "POSTED", "ENTERED", "LEFT");
    for (uint32_t i = 0; i < topology->actor_count; i++) {
        const collective_segment_t *segment;

        if (!has_ranks(&topology->actors[i]) || look(rundir, (actor_id_t)i, &segment) != STATUS_OK)
            continue;
        for (uint32_t r = 0; r < collective_world(segment); r++) {
            const collective_place_t *place = &segment->places[r];

            printf("%-22s %-16llx %8llu %5u %-18s %9u %9u %9u\n", topology->actors[i + 1 + r].name,
                   (unsigned long long)atomic_load(&place->epoch),
                   (unsigned long long)atomic_load(&place->seq), atomic_load(&place->layer),
                   forward_site_name(atomic_load(&place->site)), atomic_load(&place->posted),
                   atomic_load(&place->entered), atomic_load(&place->left));
        }
        collective_look_end(segment);
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void find_blocks(waits_t *waits)
{
    memset(waits->blocks, 0, sizeof(waits->blocks));
    for (uint32_t i = 0; i < waits->count; i++)
        for (uint32_t k = 0; k < waits->waits[i].whom_count; k++)
            waits->blocks[waits->waits[i].whom[k]] = true;
    for (uint32_t i = 0; i < waits->count; i++)
        waits->blocks[waits->waits[i].who] = false;
}

void waits_read(const rundir_t *rundir, const topology_t *topology, waits_t *waits)
{
    static const figures_t *figures[ACTORS_MAX];
    static uint64_t quiet[ACTORS_MAX];

    waits->count = 0;
    for (uint32_t i = 0; i < topology->actor_count; i++) {
        if (figures_open(rundir->shm_prefix, topology->actors[i].name, &figures[i]) != STATUS_OK)
            figures[i] = NULL;
        quiet[i] = figures[i] ? quiet_ms(figures[i]) : 0;
    }
    for (uint32_t i = 0; i < topology->actor_count; i++) {
        if (has_ranks(&topology->actors[i]))
            read_ranks(rundir, topology, (actor_id_t)i, waits);
        if (!figures[i])
            continue;
        read_own(figures[i], topology, (actor_id_t)i, waits);
        for (uint64_t k = 0; k < figure_get(&figures[i]->stream_count) && k < ACTORS_MAX; k++)
            read_stream(&figures[i]->streams[k], quiet, topology, (actor_id_t)i, waits);
    }
    for (uint32_t i = 0; i < topology->actor_count; i++)
        figures_close(figures[i]);
    find_blocks(waits);
}

void waits_print(const waits_t *waits, const topology_t *topology)
{
    for (uint32_t i = 0; i < waits->count; i++) {
        const wait_t *wait = &waits->waits[i];

        printf("%s%s waits %s:", i ? "" : "\n", topology->actors[wait->who].name, wait->what);
        for (uint32_t k = 0; k < wait->whom_count; k++)
            printf(" %s", topology->actors[wait->whom[k]].name);
        printf("\n");
    }
    for (uint32_t i = 0; i < topology->actor_count; i++)
        if (waits->blocks[i])
            printf("%s is awaited and waits for nobody\n", topology->actors[i].name);
}
