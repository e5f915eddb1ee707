/* place.c - gives every rank a device. A pure function: the same file, the same answer everywhere.
 *
 * 1. Devices that the file names are taken first; naming one twice is an error.
 * 2. The other groups follow, large ones first so that small ones do not split what a large one
 *    needs, equal ones in the order of the file with prefill before decode.
 * 3. Each goes to the host it names, or to the first one with room, onto the lowest free devices.
 *    A group never spans hosts: its collectives run in one machine's memory.
 * 4. A host with `devices: auto` then has as many as are used.
 */
#include "topology/internal.h"

typedef struct {
    const topology_group_t *owner[HOSTS_MAX][DEVICES_MAX];
} place_map_t;

typedef struct {
    topology_group_t *group;
    actor_kind_t kind;
    uint16_t instance;
} place_item_t;

static void describe(const topology_t *t, const topology_group_t *group, char *text, size_t size)
{
    bool prefill = group >= t->prefills && group < t->prefills + INSTANCES_MAX;
    snprintf(text, size, "%s[%u]", prefill ? "prefill" : "decode",
             (unsigned)(group - (prefill ? t->prefills : t->decodes)));
}

static uint32_t devices_of(const topology_t *t, uint16_t host)
{
    return t->hosts[host].devices ? t->hosts[host].devices : DEVICES_MAX;
}

static void place_stated(topology_load_t *load, place_map_t *map, const place_item_t *item)
{
    topology_t *t = &load->topology;
    topology_group_t *g = item->group;
    for (uint16_t r = 0; r < g->tp; r++) {
        const topology_group_t **owner = &map->owner[g->host][g->devices[r]];
        if (*owner) {
            char name[ACTOR_NAME_BYTES_MAX];
            describe(t, *owner, name, sizeof(name));
            topology_errors_add(load->errors, places_find(load, g->devices, g),
                                "%s[%u].devices: device %u of host '%s' belongs to %s already",
                                actor_kind_word(item->kind), item->instance, g->devices[r],
                                t->hosts[g->host].name, name);
            return;
        }
        *owner = g;
    }
}

static uint32_t free_devices(const topology_t *t, const place_map_t *map, uint16_t host)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < devices_of(t, host); i++)
        count += !map->owner[host][i];
    return count;
}

/* The named host, else the first one with room; TOPOLOGY_NONE if there is none. */
static uint16_t place_host(const topology_t *t, const place_map_t *map, const topology_group_t *g)
{
    for (uint16_t host = 0; host < t->host_count; host++) {
        bool allowed = g->placement == TOPOLOGY_PLACED || g->host == host;
        if (allowed && free_devices(t, map, host) >= g->tp)
            return host;
    }
    return TOPOLOGY_NONE;
}

static void complain_room(topology_load_t *load, const place_map_t *map, const place_item_t *item)
{
    const topology_t *t = &load->topology;
    const topology_group_t *g = item->group;
    const char *word = actor_kind_word(item->kind);
    uint16_t only = g->placement == TOPOLOGY_HOST_STATED ? g->host : 0;
    if (g->placement == TOPOLOGY_PLACED && t->host_count > 1)
        topology_errors_add(load->errors, g->tp_at,
                            "%s[%u].tp: needs %u devices of one host, and none has so many left",
                            word, item->instance, g->tp);
    else
        topology_errors_add(load->errors, g->tp_at,
                            "%s[%u].tp: needs %u devices, but host '%s' has %u of %u devices left",
                            word, item->instance, g->tp, t->hosts[only].name,
                            free_devices(t, map, only), devices_of(t, only));
}

static void place_free(topology_load_t *load, place_map_t *map, const place_item_t *item)
{
    topology_t *t = &load->topology;
    topology_group_t *g = item->group;
    uint16_t host = place_host(t, map, g);
    if (host == TOPOLOGY_NONE) {
        complain_room(load, map, item);
        return;
    }
    g->host = host;
    uint16_t rank = 0;
    for (uint16_t device = 0; rank < g->tp; device++) {
        ASSERT(device < devices_of(t, host));
        if (map->owner[host][device])
            continue;
        map->owner[host][device] = g;
        g->devices[rank++] = device;
    }
}

static void count_devices(topology_t *t, const place_map_t *map)
{
    for (uint16_t host = 0; host < t->host_count; host++) {
        if (t->hosts[host].devices != 0)
            continue;
        t->hosts[host].devices = 1;
        for (uint32_t i = 0; i < DEVICES_MAX; i++)
            if (map->owner[host][i])
                t->hosts[host].devices = i + 1;
    }
}

void topology_place(topology_load_t *load)
{
    topology_t *t = &load->topology;
    static const place_map_t empty;
    place_map_t map = empty;
    place_item_t items[2 * INSTANCES_MAX];
    uint32_t count = 0;
    for (uint16_t i = 0; i < t->prefill_count; i++)
        items[count++] = (place_item_t){&t->prefills[i], ACTOR_PREFILL, i};
    for (uint16_t i = 0; i < t->decode_count; i++)
        items[count++] = (place_item_t){&t->decodes[i], ACTOR_DECODE, i};
    for (uint32_t i = 0; i < count; i++)
        if (items[i].group->placement == TOPOLOGY_DEVICES_STATED)
            place_stated(load, &map, &items[i]);
    for (uint16_t tp = RANKS_MAX; tp > 0; tp--)
        for (uint32_t i = 0; i < count; i++)
            if (items[i].group->placement != TOPOLOGY_DEVICES_STATED && items[i].group->tp == tp)
                place_free(load, &map, &items[i]);
    if (load->errors->count == 0)
        count_devices(t, &map);
}

void topology_place_print(const topology_t *t, actor_kind_t kind, uint16_t instance, FILE *out)
{
    static const char *const reasons[] = {
        [TOPOLOGY_PLACED] = "first host with room, lowest free devices, large groups first",
        [TOPOLOGY_HOST_STATED] = "host as the file says, lowest free devices, large groups first",
        [TOPOLOGY_DEVICES_STATED] = "as the file says",
    };
    const topology_group_t *g = topology_group(t, kind, instance);
    ASSERT(g != NULL);
    fprintf(out, "%s/%u: tp %u on %s, device", actor_kind_word(kind), instance, g->tp,
            t->hosts[g->host].name);
    for (uint16_t r = 0; r < g->tp; r++)
        fprintf(out, " %u", g->devices[r]);
    fprintf(out, " (%s)\n", reasons[g->placement]);
}
