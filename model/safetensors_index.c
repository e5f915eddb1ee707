#include "model/safetensors_index.h"

#include <stdlib.h>
#include <string.h>

#include "model/utf8.h"

const char safetensors_index_name[] = "model.safetensors.index.json";

static bool index_file(json_scan_t *scan, safetensors_index_t *index,
                       const json_string_view_t *name, uint32_t *file)
{
    if (!json_string_plain(name, TENSOR_NAME_BYTES_MAX) || name->bytes[0] == '.' ||
        memchr(name->bytes, '/', name->size))
        return json_scan_fail(scan, "expected the name of a file beside the index");
    for (uint32_t i = index->file_count; i-- > 0;)
        if (index->files[i].size == name->size &&
            memcmp(index->files[i].bytes, name->bytes, name->size) == 0) {
            *file = i;
            return true;
        }
    if (index->file_count == CHECKPOINT_SHARDS_MAX)
        return json_scan_fail(scan, "too many files");
    *file = index->file_count;
    index->files[index->file_count++] = *name;
    return true;
}

static bool index_entry(json_scan_t *scan, safetensors_index_t *index)
{
    json_string_view_t name, file;
    safetensors_index_entry_t entry;

    if (!json_scan_key(scan, &name) || !json_scan_string(scan, &file))
        return false;
    if (!json_string_plain(&name, TENSOR_NAME_BYTES_MAX))
        return json_scan_fail(scan, "expected a tensor name of printable ASCII");
    if (!index_file(scan, index, &file, &entry.file))
        return false;
    if (index->count == CHECKPOINT_TENSORS_MAX)
        return json_scan_fail(scan, "too many tensors");
    if (index->count == index->room) {
        uint32_t room = index->room ? 2 * index->room : 256;
        safetensors_index_entry_t *entries = realloc(index->entries, room * sizeof(*entries));

        if (!entries)
            return json_scan_fail(scan, "no memory for its entries");
        index->entries = entries;
        index->room = room;
    }
    entry.name = name;
    index->entries[index->count++] = entry;
    return true;
}

status_t safetensors_index_read(const char *text, size_t size, safetensors_index_t *index)
{
    json_string_view_t key;
    size_t broken_at;
    json_scan_t scan;
    bool found = false;

    json_scan_init(&scan, text, size);
    if (!utf8_check(text, size, &broken_at))
        json_scan_fail(&scan, "expected UTF-8, found other bytes");
    json_scan_take(&scan, '{');
    do {
        if (!json_scan_key(&scan, &key))
            break;
        if (found || !json_string_is(&key, "weight_map")) {
            json_scan_skip(&scan);
            continue;
        }
        found = true;
        json_scan_take(&scan, '{');
        do {
            if (!index_entry(&scan, index))
                break;
        } while (json_scan_more(&scan, '}'));
    } while (json_scan_more(&scan, '}'));
    if (json_scan_end(&scan) && !found)
        json_scan_fail(&scan, "expected weight_map, found no such field");
    if (scan.error)
        return FAIL(STATUS_BAD_FILE, "%s: byte %zu: %s", safetensors_index_name, scan.at,
                    scan.error);
    return STATUS_OK;
}

static int compare_index(const void *a, const void *b)
{
    const json_string_view_t *x = &((const safetensors_index_entry_t *)a)->name;
    const json_string_view_t *y = &((const safetensors_index_entry_t *)b)->name;
    int order = memcmp(x->bytes, y->bytes, x->size < y->size ? x->size : y->size);

    return order ? order : x->size < y->size ? -1 : x->size > y->size;
}

/* Both lists are sorted by name; the first difference says what is wrong. */
status_t safetensors_index_check(safetensors_index_t *index, const safetensors_t *self)
{
    if (index->count > 0)
        qsort(index->entries, index->count, sizeof(*index->entries), compare_index);
    for (uint32_t i = 0; i < index->count || i < self->tensor_count; i++) {
        const safetensors_index_entry_t *entry = i < index->count ? &index->entries[i] : NULL;
        const tensor_view_t *tensor = i < self->tensor_count ? &self->tensors[i] : NULL;
        safetensors_index_entry_t named = {.name = {.bytes = tensor ? tensor->name : "",
                                                    .size = tensor ? strlen(tensor->name) : 0}};
        int order = !tensor ? -1 : !entry ? 1 : compare_index(entry, &named);

        if (order < 0)
            return FAIL(STATUS_BAD_FILE, "tensor %.*s: expected in %.*s as %s says, found nowhere",
                        (int)entry->name.size, entry->name.bytes,
                        (int)index->files[entry->file].size, index->files[entry->file].bytes,
                        safetensors_index_name);
        if (order > 0)
            return FAIL(STATUS_BAD_FILE, "tensor %s: expected in %s, found only in %s",
                        tensor->name, safetensors_index_name, self->files[tensor->file].name);
        if (entry->file != tensor->file)
            return FAIL(STATUS_BAD_FILE, "tensor %s: expected in %s as %s says, found in %s",
                        tensor->name, self->files[entry->file].name, safetensors_index_name,
                        self->files[tensor->file].name);
    }
    return STATUS_OK;
}

void safetensors_index_fini(safetensors_index_t *index)
{
    free(index->entries);
    index->entries = NULL;
}
