/* validate.c - what no single value shows: names, ports, devices, sizes that must fit each other.
 *
 * Fills in what "auto" means where that needs no placement. What needs the model's shape is in
 * cli/deployment.c.
 */
#include <arpa/inet.h>
#include <string.h>

#include "topology/internal.h"

typedef void group_check_t(topology_load_t *load, actor_kind_t kind, uint16_t instance,
                           topology_group_t *group);

static void each_group(topology_load_t *load, group_check_t *check)
{
    topology_t *t = &load->topology;
    for (uint16_t i = 0; i < t->prefill_count; i++)
        check(load, ACTOR_PREFILL, i, &t->prefills[i]);
    for (uint16_t i = 0; i < t->decode_count; i++)
        check(load, ACTOR_DECODE, i, &t->decodes[i]);
}

static void validate_hosts(topology_load_t *load)
{
    topology_t *t = &load->topology;
    for (uint16_t i = 0; i < t->host_count; i++) {
        topology_host_t *host = &t->hosts[i];
        host->memory_at = places_find(load, &host->memory_bytes, host);
        for (uint16_t k = 0; k < i; k++) {
            if (strcmp(t->hosts[k].name, host->name) == 0)
                topology_errors_add(load->errors, places_find(load, host->name, host),
                                    "hosts[%u].name: '%s' is the name of hosts[%u] too", i,
                                    host->name, k);
        }
        if (host->device_bytes == 0 && t->device == TOPOLOGY_CUDA) {
            topology_mark_t at = places_find(load, &host->device_bytes, host);
            topology_errors_add(load->errors, at.line ? at : places_find(load, &t->device, NULL),
                                "hosts[%u].device_memory: with device: cuda it must be stated, for "
                                "example 80GiB",
                                i);
        }
        if (host->device_bytes == 0)
            host->device_bytes = 256ull << 20;
    }
}

static void default_host(uint16_t *host)
{
    if (*host == TOPOLOGY_NONE)
        *host = 0;
}

static void validate_singles(topology_load_t *load)
{
    topology_t *t = &load->topology;
    default_host(&t->scheduler.host);
    default_host(&t->monitor.host);
    for (uint16_t i = 0; i < t->transfer_count; i++)
        default_host(&t->transfers[i].host);
    for (uint16_t i = 0; i < t->gateway_count; i++)
        default_host(&t->gateways[i].host);
}

/* ---- ports ------------------------------------------------------------------------------------ */

static bool is_wildcard(const char *address)
{
    return strcmp(address, "0.0.0.0") == 0;
}

/* Listener `which` of a gateway: 0 for clients, 1 for administration. */
static const char *listener(const topology_gateway_t *gateway, int which, uint16_t *port)
{
    *port = which == 0 ? gateway->port : gateway->admin_port;
    return which == 0 ? gateway->listen : gateway->admin_listen;
}

static bool listeners_clash(const topology_t *t, const topology_gateway_t *a, int which_a,
                            const topology_gateway_t *b, int which_b)
{
    uint16_t port_a, port_b;
    const char *address_a = listener(a, which_a, &port_a);
    const char *address_b = listener(b, which_b, &port_b);
    bool same_host = strcmp(t->hosts[a->host].address, t->hosts[b->host].address) == 0;
    return same_host && port_a == port_b &&
           (strcmp(address_a, address_b) == 0 || is_wildcard(address_a) || is_wildcard(address_b));
}

/* A name could mean another address at each start, but for localhost; gateways do not listen on IPv6. */
static void validate_listeners(topology_load_t *load)
{
    static const char *const words[] = {"listen", "admin_listen"};
    topology_t *t = &load->topology;

    for (int i = 0; i < 2 * t->gateway_count; i++) {
        topology_gateway_t *gateway = &t->gateways[i / 2];
        char *address = i % 2 ? gateway->admin_listen : gateway->listen;
        struct in_addr parsed;

        if (strcmp(address, "localhost") == 0)
            memcpy(address, "127.0.0.1", sizeof("127.0.0.1"));
        if (inet_pton(AF_INET, address, &parsed) != 1)
            topology_errors_add(load->errors, places_find(load, address, gateway),
                                "gateway[%d].%s: found '%s', expected an IPv4 address or localhost",
                                i / 2, words[i % 2], address);
    }
}

static void validate_ports(topology_load_t *load)
{
    static const char *const words[] = {"port", "admin_port"};
    topology_t *t = &load->topology;
    for (int later = 1; later < 2 * t->gateway_count; later++) {
        for (int earlier = 0; earlier < later; earlier++) {
            topology_gateway_t *a = &t->gateways[earlier / 2];
            topology_gateway_t *b = &t->gateways[later / 2];
            if (!listeners_clash(t, a, earlier % 2, b, later % 2))
                continue;
            uint16_t port;
            listener(b, later % 2, &port);
            topology_errors_add(
                load->errors, places_find(load, later % 2 ? &b->admin_port : &b->port, b),
                "gateway[%d].%s: %u is taken by gateway[%d].%s on the same host; choose another",
                later / 2, words[later % 2], port, earlier / 2, words[earlier % 2]);
            break;
        }
    }
}

/* ---- groups ----------------------------------------------------------------------------------- */

static void validate_group_sizes(topology_load_t *load, actor_kind_t kind, uint16_t instance,
                                 topology_group_t *g)
{
    const char *word = actor_kind_word(kind);
    uint32_t context_pages = (load->topology.context_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS;
    g->tp_at = places_find(load, &g->tp, g);
    g->pages_at = places_find(load, &g->pages, g);
    if (kind == ACTOR_DECODE && g->chunk_tokens < g->slots)
        topology_errors_add(load->errors, places_find(load, &g->chunk_tokens, g),
                            "%s[%u].chunk_tokens: %u is less than slots, %u; each running request "
                            "needs a token in every step",
                            word, instance, g->chunk_tokens, g->slots);
    if (g->pages != 0 && g->pages - 1 < context_pages)
        topology_errors_add(load->errors, g->pages_at,
                            "%s[%u].pages: %u, but one request of limits.context_tokens %u needs "
                            "%u pages and one is for tests; lower that or give at least %u",
                            word, instance, g->pages, load->topology.context_tokens, context_pages,
                            context_pages + 1);
}

static void validate_group_devices(topology_load_t *load, actor_kind_t kind, uint16_t instance,
                                   topology_group_t *g)
{
    topology_t *t = &load->topology;
    const char *word = actor_kind_word(kind);
    if (g->placement != TOPOLOGY_DEVICES_STATED) {
        g->placement = g->host == TOPOLOGY_NONE ? TOPOLOGY_PLACED : TOPOLOGY_HOST_STATED;
        return;
    }
    topology_mark_t at = places_find(load, g->devices, g);
    if (g->device_count != g->tp)
        topology_errors_add(load->errors, at,
                            "%s[%u].devices: %u devices for tp %u; each rank needs one", word,
                            instance, g->device_count, g->tp);
    if (g->host == TOPOLOGY_NONE && t->host_count > 1)
        topology_errors_add(load->errors, at,
                            "%s[%u].devices: of which host? There are %u; add 'host'", word,
                            instance, t->host_count);
    default_host(&g->host);
    const topology_host_t *host = &t->hosts[g->host];
    for (uint16_t i = 0; i < g->device_count; i++) {
        if (host->devices != 0 && g->devices[i] >= host->devices)
            topology_errors_add(load->errors, at,
                                "%s[%u].devices: there is no device %u; host '%s' has %u, numbered "
                                "from 0",
                                word, instance, g->devices[i], host->name, host->devices);
        for (uint16_t k = 0; k < i; k++)
            if (g->devices[k] == g->devices[i])
                topology_errors_add(load->errors, at, "%s[%u].devices: %u stands there twice", word,
                                    instance, g->devices[i]);
    }
}

/* A pull reads whole units of the ranks on the other side: their counts must divide. */
static void validate_pairs(topology_load_t *load)
{
    topology_t *t = &load->topology;
    for (uint16_t d = 0; d < t->decode_count; d++) {
        for (uint16_t p = 0; p < t->prefill_count; p++) {
            uint16_t decode_tp = t->decodes[d].tp, prefill_tp = t->prefills[p].tp;
            if (decode_tp % prefill_tp == 0 || prefill_tp % decode_tp == 0)
                continue;
            topology_errors_add(load->errors, t->decodes[d].tp_at,
                                "decode[%u].tp: %u does not map to prefill[%u].tp, %u; one must "
                                "divide the other",
                                d, decode_tp, p, prefill_tp);
            break;
        }
    }
}

static void validate_forms(topology_load_t *load)
{
    static const uint16_t with[] = {[TOPOLOGY_CACHE_FP8] = TOPOLOGY_INDEX_FP4,
                                    [TOPOLOGY_CACHE_BF16] = TOPOLOGY_INDEX_BF16,
                                    [TOPOLOGY_CACHE_FLOAT32] = TOPOLOGY_INDEX_FLOAT32};
    topology_t *t = &load->topology;
    uint16_t fitting = with[t->cache_form];
    if (t->index_form > TOPOLOGY_INDEX_FLOAT32) /* auto */
        t->index_form = fitting;
    bool fits = t->index_form == fitting ||
                (t->cache_form == TOPOLOGY_CACHE_FP8 && t->index_form == TOPOLOGY_INDEX_FP8);
    if (!fits)
        topology_errors_add(load->errors, places_find(load, &t->index_form, NULL),
                            "cache.index: this does not go with the form of the cache; form fp8 "
                            "takes fp4 or fp8, bf16 takes bf16, float32 takes float32");
}

static void validate_count(topology_load_t *load)
{
    uint32_t needed = topology_actors_needed(&load->topology);
    if (needed > ACTORS_MAX)
        topology_errors_add(load->errors, (topology_mark_t){0, 0},
                            "%u actors, ranks included; a deployment has at most %d", needed,
                            ACTORS_MAX);
}

void topology_validate(topology_load_t *load)
{
    validate_hosts(load);
    validate_singles(load);
    validate_forms(load);
    validate_listeners(load);
    validate_ports(load);
    each_group(load, validate_group_sizes);
    each_group(load, validate_group_devices);
    validate_pairs(load);
    validate_count(load);
}
