/* diff.c - compares two deployments key by key, by the table of schema.c. */
#include "topology/diff.h"

#include <string.h>

#include "topology/internal.h"

enum { SHOWN_BYTES_MAX = 2 * PATH_BYTES_MAX + 3 };

static diff_item_t *item_add(topology_diff_t *diff, diff_change_t change, const char *section,
                             uint32_t instance)
{
    ASSERT(diff->count < DIFF_ITEMS_MAX);
    diff_item_t *item = &diff->items[diff->count++];
    memset(item, 0, sizeof(*item));
    item->change = change;
    if (section)
        snprintf(item->name, sizeof(item->name), "%s/%u", section, instance);
    return item;
}

/* Appends "section.key old -> new" if the values differ. */
static void compare_key(const topology_t *before, const topology_t *after, const char *section,
                        const schema_key_t *key, const void *old_base, const void *new_base,
                        diff_item_t *item)
{
    char old_text[SHOWN_BYTES_MAX], new_text[SHOWN_BYTES_MAX];
    topology_format(before, key, old_base, old_text, sizeof(old_text));
    topology_format(after, key, new_base, new_text, sizeof(new_text));
    if (strcmp(old_text, new_text) == 0)
        return;
    size_t used = strlen(item->text);
    snprintf(item->text + used, sizeof(item->text) - used, "%s%s%s%s %s -> %s", used ? ", " : "",
             section, section[0] ? "." : "", key->name, old_text, new_text);
}

static void compare_keys(const topology_t *before, const topology_t *after,
                         const schema_section_t *section, const char *prefix, const void *old_base,
                         const void *new_base, diff_item_t *item)
{
    for (size_t k = 0; k < section->key_count; k++) {
        const schema_key_t *key = &section->keys[k];
        if (key->type == SCHEMA_MAP)
            compare_keys(before, after, key->section, key->name, old_base, new_base, item);
        else if (key->type != SCHEMA_LIST && key->width > 0)
            compare_key(before, after, prefix, key, old_base, new_base, item);
    }
}

static void compare_list(const topology_t *before, const topology_t *after, const schema_key_t *key,
                         topology_diff_t *diff)
{
    const char *old_base = (const char *)before, *new_base = (const char *)after;
    uint16_t old_count = *(const uint16_t *)(const void *)(old_base + key->count);
    uint16_t new_count = *(const uint16_t *)(const void *)(new_base + key->count);
    for (uint32_t i = 0; i < old_count || i < new_count; i++) {
        if (i >= old_count || i >= new_count) {
            item_add(diff, i >= old_count ? DIFF_ADDED : DIFF_REMOVED, key->name, i);
            continue;
        }
        diff_item_t *item = item_add(diff, DIFF_CHANGED, key->name, i);
        compare_keys(before, after, key->section, "", old_base + key->offset + i * key->width,
                     new_base + key->offset + i * key->width, item);
        if (item->text[0] == '\0')
            diff->count--;
    }
}

void topology_diff(const topology_t *before, const topology_t *after, topology_diff_t *diff)
{
    diff->count = 0;
    diff_item_t *item = item_add(diff, DIFF_CHANGED, NULL, 0);
    compare_keys(before, after, &schema_root, "", before, after, item);
    if (item->text[0] == '\0')
        diff->count--;
    for (size_t k = 0; k < schema_root.key_count; k++)
        if (schema_root.keys[k].type == SCHEMA_LIST)
            compare_list(before, after, &schema_root.keys[k], diff);
}

void topology_diff_print(const topology_diff_t *diff, FILE *out)
{
    static const char *const words[] = {"added", "removed", "changed"};
    for (uint32_t i = 0; i < diff->count; i++) {
        const diff_item_t *item = &diff->items[i];
        fprintf(out, "%-8s %s%s%s\n", words[item->change],
                item->name[0] ? item->name : "deployment", item->text[0] ? ": " : "", item->text);
    }
}
