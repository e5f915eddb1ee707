/* parse.c - from the tree of a file to fields, by the table of schema.c.
 *
 * Keys are read in the order of the table, errors come in the order of the file at the end. All is
 * tried: one wrong value does not hide the next. Defaults take the same way as written values.
 */
#include <inttypes.h>
#include <string.h>

#include "topology/internal.h"

enum { KEYS_MAX = 24 /* of one section */ };

typedef struct {
    topology_load_t *load;
    const schema_section_t *section;
    char path[ACTOR_NAME_BYTES_MAX]; /* "prefill[0]", "" for the file itself */
    bool quiet;                      /* a further copy of an entry: its errors are told already */
} parser_t;

static void parse_section(const parser_t *p, uint32_t node, void *base);

static const yaml_tree_node_t *node_at(const parser_t *p, uint32_t node)
{
    return &p->load->tree.nodes[node];
}

static void complain(const parser_t *p, topology_mark_t at, const char *key, const char *what)
{
    if (!p->quiet)
        topology_errors_add(p->load->errors, at, "%s%s%s: %s", p->path, p->path[0] ? "." : "", key,
                            what);
}

static void place_add(const parser_t *p, const void *field, bool entry, topology_mark_t at)
{
    topology_places_t *places = &p->load->places;
    ASSERT(places->count < PLACES_MAX);
    places->items[places->count].offset =
        (uint32_t)((const char *)field - (const char *)&p->load->topology);
    places->items[places->count].entry = entry;
    places->items[places->count++].at = at;
}

topology_mark_t places_find(const topology_load_t *load, const void *field, const void *or_entry)
{
    const topology_places_t *places = &load->places;
    uint32_t wanted = (uint32_t)((const char *)field - (const char *)&load->topology);
    uint32_t entry =
        or_entry ? (uint32_t)((const char *)or_entry - (const char *)&load->topology) : UINT32_MAX;
    topology_mark_t at = {0, 0};
    for (uint32_t i = 0; i < places->count; i++) {
        if (!places->items[i].entry && places->items[i].offset == wanted)
            return places->items[i].at;
        if (places->items[i].entry && places->items[i].offset == entry)
            at = places->items[i].at;
    }
    return at;
}

/* ---- scalars --------------------------------------------------------------------------------- */

static void store_number(void *field, uint32_t width, uint64_t value)
{
    switch (width) {
    case 0:
        break;
    case sizeof(uint16_t):
        *(uint16_t *)field = (uint16_t)value;
        break;
    case sizeof(uint32_t):
        *(uint32_t *)field = (uint32_t)value;
        break;
    default:
        ASSERT(width == sizeof(uint64_t));
        *(uint64_t *)field = value;
    }
}

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* NAME: a file and process name. ADDRESS and LISTEN: what getaddrinfo takes. TEXT: one line without control. */
static bool text_fits(schema_type_t type, const char *text)
{
    const char *signs = type == SCHEMA_NAME ? "-_." : "-_.:%[]";
    if (text[0] == '\0' || (type == SCHEMA_NAME && !is_letter_or_digit(text[0])))
        return false;
    for (const char *c = text; *c; c++) {
        if (type == SCHEMA_TEXT ? (unsigned char)*c < 0x20
                                : !is_letter_or_digit(*c) && !strchr(signs, *c))
            return false;
    }
    return true;
}

static bool is_text(schema_type_t type)
{
    return type == SCHEMA_NAME || type == SCHEMA_TEXT || type == SCHEMA_ADDRESS ||
           type == SCHEMA_LISTEN;
}

static bool find_choice(const schema_key_t *key, const char *text, uint64_t *value)
{
    for (uint64_t i = 0; key->choices[i]; i++) {
        if (strcmp(key->choices[i], text) == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}

static bool find_host(const parser_t *p, const char *text, uint64_t *value)
{
    const topology_t *topology = &p->load->topology;
    for (uint16_t i = 0; i < topology->host_count; i++) {
        if (strcmp(topology->hosts[i].name, text) == 0) {
            *value = i;
            return true;
        }
    }
    return false;
}

static const char *nearest_word(const parser_t *p, const schema_key_t *key, const char *text)
{
    const topology_t *topology = &p->load->topology;
    const char *words[HOSTS_MAX] = {NULL};
    size_t count = 0;
    if (key->type == SCHEMA_HOST) {
        for (; count < topology->host_count; count++)
            words[count] = topology->hosts[count].name;
    } else if (key->type == SCHEMA_CHOICE) {
        for (; key->choices[count]; count++)
            words[count] = key->choices[count];
    } else if (key->zero) {
        words[count++] = key->zero;
    }
    return schema_nearest(text, words, count);
}

/* "found 'x', expected ...; did you mean 'y'?" */
static void complain_value(const parser_t *p, topology_mark_t at, const schema_key_t *key,
                           const char *text, const char *instead)
{
    char expected[TOPOLOGY_TEXT_BYTES_MAX / 2];
    char what[TOPOLOGY_TEXT_BYTES_MAX];
    if (text && is_text(key->type) && text_fits(key->type, text)) { /* all but its length */
        snprintf(what, sizeof(what), "found '%.40s...' of %zu bytes, at most %u are possible", text,
                 strlen(text), key->width - 1);
        complain(p, at, key->name, what);
        return;
    }
    schema_describe(key, expected, sizeof(expected));
    const char *nearest = text ? nearest_word(p, key, text) : NULL;
    int used =
        text ? snprintf(what, sizeof(what), "found '%.40s'%s", text, strlen(text) > 40 ? "..." : "")
             : snprintf(what, sizeof(what), "found %s", instead);
    snprintf(what + used, sizeof(what) - (size_t)used, ", expected %s%s%s%s", expected,
             nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    complain(p, at, key->name, what);
}

/* Stores one value; `quoted` text is never a number. False: it is not what the key wants. */
static bool store_text(const parser_t *p, const schema_key_t *key, const char *text, bool quoted,
                       void *field)
{
    uint64_t value = 0;
    switch (key->type) {
    case SCHEMA_NUMBER:
    case SCHEMA_BYTES:
    case SCHEMA_DURATION:
        if (quoted)
            return false;
        if (!(key->zero && strcmp(text, key->zero) == 0) &&
            (!schema_parse_number(text, key->type, &value) || value < key->min || value > key->max))
            return false;
        break;
    case SCHEMA_CHOICE:
        if (!find_choice(key, text, &value))
            return false;
        break;
    case SCHEMA_HOST:
        if (!find_host(p, text, &value))
            return false;
        break;
    default:
        if (!text_fits(key->type, text) || strlen(text) >= key->width)
            return false;
        memcpy(field, text, strlen(text) + 1);
        return true;
    }
    store_number(field, key->width, value);
    return true;
}

/* ---- lists and maps -------------------------------------------------------------------------- */

static void parse_devices(const parser_t *p, const schema_key_t *key, uint32_t node,
                          topology_group_t *group)
{
    uint32_t count = 0;
    for (uint32_t i = node_at(p, node)->first; i != YAML_NONE; i = node_at(p, i)->next) {
        const yaml_tree_node_t *n = node_at(p, i);
        uint64_t device = 0;
        const char *text = n->kind == YAML_SCALAR ? yaml_text(&p->load->tree, n->text) : NULL;
        if (!text || n->quoted || !schema_parse_number(text, SCHEMA_NUMBER, &device) ||
            device >= DEVICES_MAX) {
            complain_value(p, n->at, key, text, yaml_kind_text(n->kind));
        } else if (count == RANKS_MAX) {
            complain(p, n->at, key->name, "more devices than a group can have ranks");
            return;
        } else {
            group->devices[count++] = (uint16_t)device;
        }
    }
    if (node_at(p, node)->first == YAML_NONE)
        complain(p, node_at(p, node)->at, key->name,
                 "the list is empty; name a device for each rank");
    group->device_count = (uint16_t)count;
    group->placement = TOPOLOGY_DEVICES_STATED;
}

/* Copies that an entry stands for. */
static uint64_t entry_copies(const parser_t *p, const schema_section_t *section, uint32_t node)
{
    uint64_t copies = 1;
    if (strcmp(section->keys[0].name, "count") != 0 || node_at(p, node)->kind != YAML_MAP)
        return copies;
    for (uint32_t i = node_at(p, node)->first; i != YAML_NONE; i = node_at(p, i)->next) {
        const yaml_tree_node_t *n = node_at(p, i);
        if (strcmp(yaml_text(&p->load->tree, n->key), "count") == 0 && n->kind == YAML_SCALAR &&
            (!schema_parse_number(yaml_text(&p->load->tree, n->text), SCHEMA_NUMBER, &copies) ||
             copies < section->keys[0].min || copies > section->keys[0].max))
            copies = 1; /* parse_section says what is wrong */
    }
    return copies;
}

static void parse_list(const parser_t *p, const schema_key_t *key, uint32_t node, char *base)
{
    char *first = base + key->offset;
    uint16_t *count = (uint16_t *)(void *)(base + key->count);
    uint32_t entry = 0;
    for (uint32_t i = node_at(p, node)->first; i != YAML_NONE; i = node_at(p, i)->next, entry++) {
        parser_t inner = {.load = p->load, .section = key->section};
        snprintf(inner.path, sizeof(inner.path), "%s[%u]", key->name, entry);
        uint64_t copies = entry_copies(p, key->section, i);
        for (uint64_t copy = 0; copy < copies; copy++) {
            if (*count == key->max) {
                complain(p, node_at(p, i)->at, key->name,
                         "more entries than a deployment can have");
                return;
            }
            void *target = first + (size_t)*count * key->width;
            *count = (uint16_t)(*count + 1);
            inner.quiet = copy > 0;
            place_add(p, target, true, node_at(p, i)->at);
            parse_section(&inner, i, target);
        }
    }
    if (entry == 0)
        complain(p, node_at(p, node)->at, key->name, "the list is empty, at least one is needed");
}

/* A list that the file does not have: one entry of defaults. */
static void default_list(const parser_t *p, const schema_key_t *key, char *base)
{
    parser_t inner = {.load = p->load, .section = key->section};
    snprintf(inner.path, sizeof(inner.path), "%s[0]", key->name);
    *(uint16_t *)(void *)(base + key->count) = 1;
    parse_section(&inner, YAML_NONE, base + key->offset);
}

static void parse_words(const parser_t *p, const schema_key_t *key, uint32_t node, char *field)
{
    size_t used = 0;

    field[0] = '\0';
    for (uint32_t i = node_at(p, node)->first; i != YAML_NONE; i = node_at(p, i)->next) {
        const yaml_tree_node_t *n = node_at(p, i);
        const char *text = n->kind == YAML_SCALAR ? yaml_text(&p->load->tree, n->text) : NULL;
        size_t bytes = text ? strlen(text) : 0;
        bool good = bytes > 0 && used + bytes + 2 <= key->width;

        for (size_t at = 0; good && at < bytes; at++)
            good = text[at] > ' ' && text[at] < 0x7f;
        if (!good) {
            complain_value(p, n->at, key, text, yaml_kind_text(n->kind));
            return;
        }
        used += (size_t)snprintf(field + used, key->width - used, "%s%s", used ? " " : "", text);
    }
}

static void parse_value(const parser_t *p, const schema_key_t *key, uint32_t node, void *base)
{
    const yaml_tree_node_t *n = node_at(p, node);
    char *field = (char *)base + key->offset;
    yaml_kind_t wanted =
        key->type == SCHEMA_MAP ? YAML_MAP
        : key->type == SCHEMA_LIST || key->type == SCHEMA_DEVICES || key->type == SCHEMA_WORDS
            ? YAML_LIST
            : YAML_SCALAR;
    if (n->kind != wanted) {
        const char *text = n->kind == YAML_SCALAR ? yaml_text(&p->load->tree, n->text) : NULL;
        complain_value(p, n->kind == YAML_NULL ? n->key_at : n->at, key, text,
                       yaml_kind_text(n->kind));
        return;
    }
    if (key->width > 0 && key->type != SCHEMA_LIST)
        place_add(p, field, false, n->at);
    if (key->type == SCHEMA_MAP) {
        parser_t inner = {.load = p->load, .section = key->section};
        snprintf(inner.path, sizeof(inner.path), "%s", key->name);
        parse_section(&inner, node, base);
    } else if (key->type == SCHEMA_LIST) {
        parse_list(p, key, node, base);
    } else if (key->type == SCHEMA_DEVICES) {
        parse_devices(p, key, node, base);
    } else if (key->type == SCHEMA_WORDS) {
        parse_words(p, key, node, field);
    } else {
        const char *text = yaml_text(&p->load->tree, n->text);
        if (!store_text(p, key, text, n->quoted, field))
            complain_value(p, n->at, key, text, NULL);
    }
}

static void parse_absent(const parser_t *p, const schema_key_t *key, topology_mark_t at, void *base)
{
    char *field = (char *)base + key->offset;
    if (key->type == SCHEMA_MAP) {
        parser_t inner = {.load = p->load, .section = key->section};
        snprintf(inner.path, sizeof(inner.path), "%s", key->name);
        parse_section(&inner, YAML_NONE, base);
    } else if (key->standard) {
        bool stored = store_text(p, key, key->standard, false, field);
        ASSERT(stored);
    } else if (key->derived) {
        if (key->type == SCHEMA_LIST)
            default_list(p, key, base);
        else if (key->type == SCHEMA_HOST)
            store_number(field, key->width, TOPOLOGY_NONE);
    } else {
        char what[TOPOLOGY_TEXT_BYTES_MAX / 2];
        snprintf(what, sizeof(what), "this key must be there: %s",
                 key->section ? key->section->meaning : key->meaning);
        complain(p, at, key->name, what);
    }
}

static void check_known(const parser_t *p, const yaml_tree_node_t *n)
{
    const char *name = yaml_text(&p->load->tree, n->key);
    const char *words[KEYS_MAX];
    char what[TOPOLOGY_TEXT_BYTES_MAX];
    ASSERT(p->section->key_count <= KEYS_MAX);
    for (size_t i = 0; i < p->section->key_count; i++) {
        words[i] = p->section->keys[i].name;
        if (strcmp(words[i], name) == 0)
            return;
    }
    const char *nearest = schema_nearest(name, words, p->section->key_count);
    size_t used = (size_t)snprintf(what, sizeof(what), "there is no such key%s%s%s",
                                   nearest ? "; did you mean '" : "; there are ",
                                   nearest ? nearest : "", nearest ? "'?" : "");
    for (size_t i = 0; !nearest && i < p->section->key_count && used < sizeof(what); i++)
        used += (size_t)snprintf(what + used, sizeof(what) - used, "%s%s", i ? ", " : "", words[i]);
    char shown[48];
    snprintf(shown, sizeof(shown), "%.40s%s", name, strlen(name) > 40 ? "..." : "");
    complain(p, n->key_at, shown, what);
}

/* Fills the struct at `base` from the map `node`, or with defaults alone if that is YAML_NONE. */
static void parse_section(const parser_t *p, uint32_t node, void *base)
{
    topology_mark_t at = {0, 0};
    uint32_t first = YAML_NONE;
    if (node != YAML_NONE && node_at(p, node)->kind != YAML_MAP) {
        if (!p->quiet)
            topology_errors_add(p->load->errors, node_at(p, node)->at,
                                "%s: found %s, expected a map with keys such as '%s'",
                                p->path[0] ? p->path : "the file",
                                yaml_kind_text(node_at(p, node)->kind),
                                p->section->keys[p->section->key_count > 1].name);
        return;
    }
    if (node != YAML_NONE) {
        at = node_at(p, node)->at;
        first = node_at(p, node)->first;
    }
    for (uint32_t i = first; i != YAML_NONE; i = node_at(p, i)->next)
        check_known(p, node_at(p, i));
    for (size_t k = 0; k < p->section->key_count; k++) {
        const schema_key_t *key = &p->section->keys[k];
        uint32_t i = first;
        while (i != YAML_NONE && strcmp(yaml_text(&p->load->tree, node_at(p, i)->key), key->name))
            i = node_at(p, i)->next;
        if (i != YAML_NONE)
            parse_value(p, key, i, base);
        else
            parse_absent(p, key, at, base);
    }
}

void topology_parse_tree(topology_load_t *load)
{
    parser_t p = {.load = load, .section = &schema_root};
    parse_section(&p, 0, &load->topology);
}
