/* print.c - the canonical form of a deployment, its digest, and the reference of the file form. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/random.h"
#include "topology/internal.h"

enum { VALUE_BYTES_MAX = 2 * PATH_BYTES_MAX + 3 /* a path, each sign escaped, in quotes */ };

static uint64_t load_number(const void *field, uint32_t width)
{
    switch (width) {
    case sizeof(uint16_t):
        return *(const uint16_t *)field;
    case sizeof(uint32_t):
        return *(const uint32_t *)field;
    default:
        ASSERT(width == sizeof(uint64_t));
        return *(const uint64_t *)field;
    }
}

static void format_quoted(const char *value, char *text, size_t size)
{
    size_t used = 0;
    ASSERT(size >= 2 * strlen(value) + 3);
    text[used++] = '"';
    for (const char *c = value; *c; c++) {
        if (*c == '"' || *c == '\\')
            text[used++] = '\\';
        text[used++] = *c;
    }
    text[used++] = '"';
    text[used] = '\0';
}

static void format_devices(const topology_group_t *group, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (uint16_t r = 0; r < group->tp && used < size; r++)
        used += (size_t)snprintf(text + used, size - used, "%s%u", r ? ", " : "",
                                 (unsigned)group->devices[r]);
    ASSERT(used + 1 < size);
    snprintf(text + used, size - used, "]");
}

/* Words hold nothing that a YAML text in quotes would have to escape but quotes and backslashes. */
static void format_words(const char *words, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "[");

    while (*words) {
        size_t bytes = strcspn(words, " ");

        used += (size_t)snprintf(text + used, size - used, "%s\"", used > 1 ? ", " : "");
        for (size_t i = 0; i < bytes; i++)
            used += (size_t)snprintf(text + used, size - used, "%s%c",
                                     words[i] == '"' || words[i] == '\\' ? "\\" : "", words[i]);
        used += (size_t)snprintf(text + used, size - used, "\"");
        words += bytes + (words[bytes] == ' ');
    }
    snprintf(text + used, size - used, "]");
}

void topology_format(const topology_t *topology, const schema_key_t *key, const void *base,
                     char *text, size_t size)
{
    const char *field = (const char *)base + key->offset;
    switch (key->type) {
    case SCHEMA_NUMBER:
    case SCHEMA_BYTES:
    case SCHEMA_DURATION: {
        uint64_t value = load_number(field, key->width);
        if (value == 0 && key->zero)
            snprintf(text, size, "%s", key->zero);
        else
            schema_format_number(value, key->type, text, size);
        break;
    }
    case SCHEMA_CHOICE:
        snprintf(text, size, "%s", key->choices[load_number(field, key->width)]);
        break;
    case SCHEMA_HOST: {
        uint64_t host = load_number(field, key->width);
        ASSERT(host < topology->host_count);
        format_quoted(topology->hosts[host].name, text, size);
        break;
    }
    case SCHEMA_WORDS:
        format_words(field, text, size);
        break;
    case SCHEMA_DEVICES:
        format_devices(base, text, size);
        break;
    default:
        ASSERT(key->type == SCHEMA_NAME || key->type == SCHEMA_TEXT ||
               key->type == SCHEMA_ADDRESS || key->type == SCHEMA_LISTEN);
        format_quoted(field, text, size);
    }
}

/* Keys that are not kept (width 0) have done their work: "count" is unfolded. */
static void print_keys(const topology_t *topology, const schema_section_t *section,
                       const void *base, const char *first, const char *further, FILE *out)
{
    char text[VALUE_BYTES_MAX];
    const char *indent = first;
    for (size_t k = 0; k < section->key_count; k++) {
        const schema_key_t *key = &section->keys[k];
        if (key->width == 0)
            continue;
        topology_format(topology, key, base, text, sizeof(text));
        fprintf(out, "%s%s: %s\n", indent, key->name, text);
        indent = further;
    }
}

void topology_print(const topology_t *topology, FILE *out)
{
    char text[VALUE_BYTES_MAX];
    fprintf(out, "lockstep: 1\n");
    for (size_t k = 0; k < schema_root.key_count; k++) {
        const schema_key_t *key = &schema_root.keys[k];
        const char *base = (const char *)topology;
        if (key->type == SCHEMA_MAP) {
            fprintf(out, "%s:\n", key->name);
            print_keys(topology, key->section, topology, "  ", "  ", out);
        } else if (key->type == SCHEMA_LIST) {
            uint64_t count = load_number(base + key->count, sizeof(uint16_t));
            fprintf(out, "%s:\n", key->name);
            for (uint64_t i = 0; i < count; i++)
                print_keys(topology, key->section, base + key->offset + i * key->width, "  - ",
                           "    ", out);
        } else if (key->width > 0) {
            topology_format(topology, key, topology, text, sizeof(text));
            fprintf(out, "%s: %s\n", key->name, text);
        }
    }
}

uint64_t topology_digest(const topology_t *topology)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ASSERT(out != NULL);
    topology_print(topology, out);
    ASSERT(fclose(out) == 0);
    uint64_t digest = random_mix(size);
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, text + i, size - i < sizeof(word) ? size - i : sizeof(word));
        digest = random_mix(digest ^ word);
    }
    free(text);
    return digest;
}

/* ---- the reference ---------------------------------------------------------------------------- */

void topology_schema_print(FILE *out)
{
    for (size_t s = 0; s < schema_section_count; s++) {
        const schema_section_t *section = schema_sections[s];
        fprintf(out, "%s### %s\n\n%s\n\n", s ? "\n" : "",
                section->name[0] ? section->name : "top level", section->meaning);
        fprintf(out, "| key | value | default | meaning |\n| --- | --- | --- | --- |\n");
        for (size_t k = 0; k < section->key_count; k++) {
            const schema_key_t *key = &section->keys[k];
            char value[TOPOLOGY_TEXT_BYTES_MAX];
            schema_describe(key, value, sizeof(value));
            fprintf(out, "| `%s` | %s | ", key->name, value);
            if (key->type == SCHEMA_MAP)
                fprintf(out, "defaults of its keys | ");
            else if (key->standard)
                fprintf(out, "`%s` | ", key->standard);
            else
                fprintf(out, "%s | ", key->derived ? key->derived : "must be there");
            fprintf(out, "%s |\n", key->section ? key->section->meaning : key->meaning);
        }
    }
}
