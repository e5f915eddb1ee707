/* chronicle_print.c - a recorded run as lines that a person reads. */
#include <stdlib.h>
#include <string.h>

#include "sim/chronicle.h"
#include "messages/message.h"

enum { LINE_BYTES_MAX = 110, ACTORS_CONCERNED_MAX = 8, CLIENTS_CONCERNED_MAX = 4 };

/* What says nothing about how a violation came to be. */
static const char *const dull_fields[] = {"sampling",    "limits", "seniority", "parent",
                                          "generations", "salt",   "prompt",    "keys"};
static const uint16_t dull_messages[] = {MESSAGE_tick, MESSAGE_instance, MESSAGE_figures,
                                         MESSAGE_joined};

/* ---- one message ----------------------------------------------------------------------------- */

typedef struct {
    const chronicle_t *chronicle;
    const char *at;
    FILE *out;
    size_t left;
} printer_t;

static void put(printer_t *self, const char *text, size_t bytes)
{
    if (bytes > self->left) {
        bytes = 0;
        if (self->left > 0)
            fputs(" ...", self->out);
        self->left = 0;
    }
    fwrite(text, 1, bytes, self->out);
    self->left -= bytes;
}

/* Behind a value: nested records and lists in brackets, texts in quotes. */
static const char *value_end(const char *at)
{
    int depth = 0;
    bool quoted = false;

    for (; *at; at++) {
        if (*at == '"' && at[-1] != '\\')
            quoted = !quoted;
        if (quoted)
            continue;
        if (depth == 0 && (*at == ',' || *at == '}'))
            break;
        depth += (*at == '{') + (*at == '[') - (*at == '}') - (*at == ']');
    }
    return at;
}

static bool is_dull(const char *name, size_t name_bytes, const char *value, size_t value_bytes)
{
    if ((value_bytes == 1 && *value == '0') ||
        (value_bytes == 2 && (strncmp(value, "[]", 2) == 0 || strncmp(value, "\"\"", 2) == 0)))
        return true;
    for (uint32_t i = 0; i < COUNT_OF(dull_fields); i++)
        if (strlen(dull_fields[i]) == name_bytes && strncmp(dull_fields[i], name, name_bytes) == 0)
            return true;
    return false;
}

/* "request=#3", by the number of its client in the story. */
static void put_value(printer_t *self, const char *name, size_t name_bytes, const char *value,
                      size_t value_bytes)
{
    char text[32];

    put(self, name, name_bytes);
    put(self, "=", 1);
    if (name_bytes == 7 && strncmp(name, "request", 7) == 0)
        for (uint32_t i = 0; i < STORY_REQUESTS_MAX; i++)
            if (self->chronicle->requests[i] &&
                self->chronicle->requests[i] == strtoull(value, NULL, 10)) {
                snprintf(text, sizeof(text), "#%u", i + 1);
                put(self, text, strlen(text));
                return;
            }
    put(self, value, value_bytes);
}

static void put_fields(printer_t *self);

/* "[{...} {...}]" */
static void put_records(printer_t *self)
{
    put(self, "[", 1);
    self->at++;
    while (*self->at == '{' || *self->at == ' ') {
        if (*self->at == ' ')
            put(self, self->at++, 1);
        else
            put_fields(self);
    }
    put(self, "]", 1);
    self->at += *self->at == ']';
}

/* "{name=value, ...}" */
static void put_fields(printer_t *self)
{
    bool first = true;

    put(self, "{", 1);
    for (self->at++; *self->at && *self->at != '}';) {
        const char *name = self->at, *value = strchr(name, '='), *end;
        size_t name_bytes;

        if (!value)
            break;
        name_bytes = (size_t)(value - name);
        end = value_end(++value);
        if (!is_dull(name, name_bytes, value, (size_t)(end - value))) {
            if (!first)
                put(self, ", ", 2);
            first = false;
            if (strncmp(value, "[{", 2) == 0) {
                put(self, name, name_bytes + 1);
                self->at = value;
                put_records(self);
            } else {
                put_value(self, name, name_bytes, value, (size_t)(end - value));
            }
        }
        self->at = end;
        while (*self->at == ',' || *self->at == ' ')
            self->at++;
    }
    put(self, "}", 1);
    self->at += *self->at == '}';
}

void chronicle_print_message(const chronicle_t *chronicle, const char *text, size_t bytes_max,
                             FILE *out)
{
    const char *fields = strchr(text, '{');
    printer_t printer = {chronicle, fields, out, bytes_max};

    put(&printer, text, fields ? (size_t)(fields - text) : strlen(text));
    if (fields)
        put_fields(&printer);
}

/* ---- who is concerned ------------------------------------------------------------------------ */

typedef struct {
    actor_id_t actors[ACTORS_CONCERNED_MAX];
    uint32_t actor_count;
    uint64_t requests[CLIENTS_CONCERNED_MAX];
    uint32_t request_count;
} concern_t;

/* "client 3", "client: 3". */
static void find_client(const chronicle_t *chronicle, const char *violation, concern_t *concern)
{
    const char *at = strstr(violation, "client");
    unsigned long number;

    if (!at)
        return;
    at += strlen("client");
    number = strtoul(at + strspn(at, ": "), NULL, 10);
    if (number < 1 || number > STORY_REQUESTS_MAX || !chronicle->requests[number - 1])
        return;
    concern->requests[concern->request_count++] = chronicle->requests[number - 1];
}

/* A violation names its actors, and its client by number. */
static concern_t find_concern(const chronicle_t *chronicle, const char *violation)
{
    concern_t concern = {0};

    for (uint32_t i = 0; i < chronicle->topology.actor_count; i++) {
        const char *name = chronicle->topology.actors[i].name, *at = strstr(violation, name);

        if (at && at[strlen(name)] != '/' && concern.actor_count < ACTORS_CONCERNED_MAX)
            concern.actors[concern.actor_count++] = (actor_id_t)i;
    }
    /* An assertion names nobody: it is the actor's that was at work. */
    for (uint32_t i = chronicle->count;
         i-- > 0 && concern.actor_count == 0 && strncmp(violation, "assert ", 7) == 0;)
        if (chronicle->entries[i].kind == CHRONICLE_HANDLED)
            concern.actors[concern.actor_count++] = chronicle->entries[i].actor;
    find_client(chronicle, violation, &concern);
    return concern;
}

static bool names_request(const char *text, uint64_t request)
{
    char wanted[40];
    const char *at;

    snprintf(wanted, sizeof(wanted), "request=%llu", (unsigned long long)request);
    at = text ? strstr(text, wanted) : NULL;
    return at && (at[strlen(wanted)] < '0' || at[strlen(wanted)] > '9');
}

static const char *text_at(const chronicle_t *chronicle, const chronicle_entry_t *entry)
{
    return entry->text || entry->other == CHRONICLE_NONE ? entry->text
                                                         : chronicle->entries[entry->other].text;
}

static bool concerns_actor(const concern_t *concern, const chronicle_entry_t *entry)
{
    for (uint32_t i = 0; i < concern->actor_count; i++)
        if (entry->actor == concern->actors[i] || entry->peer == concern->actors[i])
            return true;
    return false;
}

/* Everybody starts once. */
static bool is_restart(const chronicle_t *chronicle, const chronicle_entry_t *entry)
{
    for (const chronicle_entry_t *before = chronicle->entries; before < entry; before++)
        if (before->kind == CHRONICLE_DIED && before->actor == entry->actor)
            return true;
    return false;
}

/* Steps go to every rank of a group alike: the first one is shown. */
static bool is_one_of_many(const chronicle_t *chronicle, const chronicle_entry_t *entry)
{
    const topology_t *topology = &chronicle->topology;
    actor_id_t rank =
        topology->actors[entry->actor].kind == ACTOR_RANK ? entry->actor : entry->peer;

    return (entry->message == MESSAGE_step || entry->message == MESSAGE_step_done) &&
           (entry->peer == PORT_DEVICE ||
            (rank < topology->actor_count && topology->actors[rank].rank > 0));
}

static bool is_shown(const chronicle_t *chronicle, const concern_t *concern,
                     const chronicle_entry_t *entry)
{
    if (entry->kind == CHRONICLE_SENT && entry->peer != PORT_CLIENT && entry->peer != PORT_PROCESS)
        return false; /* shown where it was handled */
    if (entry->kind == CHRONICLE_STARTED)
        return is_restart(chronicle, entry);
    if (entry->kind == CHRONICLE_DIED || entry->kind == CHRONICLE_FAULT)
        return true;
    if (entry->message == MESSAGE_client_tokens || entry->message == MESSAGE_client_end)
        return true; /* they name clients, and there are few in a story that was made small */
    for (uint32_t i = 0; i < COUNT_OF(dull_messages); i++)
        if (entry->message == dull_messages[i])
            return false;
    for (uint32_t i = 0; i < concern->request_count; i++)
        if (names_request(text_at(chronicle, entry), concern->requests[i]))
            return concerns_actor(concern, entry) || !is_one_of_many(chronicle, entry);
    if (concern->request_count == 0 && concern->actor_count == 0)
        return !is_one_of_many(chronicle, entry);
    return concerns_actor(concern, entry);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static const char *name_of(const chronicle_t *chronicle, actor_id_t id)
{
    switch (id) {
    case PORT_RUNTIME:
        return "runtime";
    case PORT_DEVICE:
        return "device";
    case PORT_CLIENT:
        return "client";
    case PORT_PROCESS:
        return "processes";
    default:
        return id < chronicle->topology.actor_count ? chronicle->topology.actors[id].name : "port";
    }
}

static void print_line(const chronicle_t *chronicle, const chronicle_entry_t *entry, FILE *out)
{
    const char *text = text_at(chronicle, entry);

    fprintf(out, "%12.6f  ", (double)entry->at_us * 1e-6);
    if (entry->kind == CHRONICLE_FAULT) {
        fprintf(out, "*** %s\n", entry->text);
    } else if (entry->kind == CHRONICLE_HANDLED || entry->kind == CHRONICLE_SENT) {
        bool sent = entry->kind == CHRONICLE_SENT;

        fprintf(out, "%18s -> %-18s ", name_of(chronicle, sent ? entry->actor : entry->peer),
                name_of(chronicle, sent ? entry->peer : entry->actor));
        chronicle_print_message(chronicle, text, LINE_BYTES_MAX, out);
        if (entry->other != CHRONICLE_NONE)
            fprintf(out, "  (+%llu us)",
                    (unsigned long long)(entry->at_us - chronicle->entries[entry->other].at_us));
        fputc('\n', out);
    } else {
        fprintf(out, "    %s %s\n", name_of(chronicle, entry->actor),
                entry->kind == CHRONICLE_STARTED ? "begins" : "is dead");
    }
}

void chronicle_print_sequence(const chronicle_t *chronicle, const char *violation, uint32_t lines,
                              FILE *out)
{
    concern_t concern = find_concern(chronicle, violation);
    uint32_t first = chronicle->count, shown = 0, all = 0;

    for (uint32_t i = chronicle->count; i-- > 0;) {
        if (!is_shown(chronicle, &concern, &chronicle->entries[i]))
            continue;
        if (++all <= lines) {
            first = i;
            shown++;
        }
    }
    if (all > shown)
        fprintf(out, "   ... %u lines before\n", all - shown);
    for (uint32_t i = first; i < chronicle->count; i++)
        if (is_shown(chronicle, &concern, &chronicle->entries[i]))
            print_line(chronicle, &chronicle->entries[i], out);
    fprintf(out, "              VIOLATION %s\n", violation);
}
