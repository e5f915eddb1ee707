/* A file: 8 bytes, the header's length; the header, JSON; then the tensors' bytes. The steps of
 * opening:
 *
 *   1. map each file, read its header into tensor_view_t with offsets still relative (read_header)
 *   2. per file, in order of place: each tensor begins where the one before ends (check_places)
 *   3. over all files: sort by name, no name twice
 *   4. with an index: it names the same tensors in the same files
 */
#include "model/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/json_scan.h"
#include "model/safetensors_index.h"
#include "model/utf8.h"

enum { LENGTH_BYTES = 8 };

static const struct {
    const char *name;
    uint32_t bytes;
} dtypes[TENSOR_DTYPE_COUNT] = {
#define TENSOR_DTYPE_ROW(name, bytes) {#name, bytes},
    TENSOR_DTYPE_TABLE(TENSOR_DTYPE_ROW)
#undef TENSOR_DTYPE_ROW
};

const char *tensor_dtype_name(tensor_dtype_t dtype)
{
    ASSERT((unsigned)dtype < TENSOR_DTYPE_COUNT);
    return dtypes[dtype].name;
}

uint32_t tensor_dtype_bytes(tensor_dtype_t dtype)
{
    ASSERT((unsigned)dtype < TENSOR_DTYPE_COUNT);
    return dtypes[dtype].bytes;
}

void tensor_describe(const tensor_view_t *tensor, char *text, size_t size)
{
    FILE *out = fmemopen(text, size, "w");

    ASSERT(size > 0);
    text[0] = '\0';
    if (!out)
        return;
    fprintf(out, "%s [", tensor_dtype_name(tensor->dtype));
    for (uint32_t i = 0; i < tensor->rank; i++)
        fprintf(out, "%s%llu", i ? ", " : "", (unsigned long long)tensor->shape[i]);
    fprintf(out, "]");
    fclose(out);
    text[size - 1] = '\0';
}

/* -- one entry of a header ----------------------------------------------------------------------
 */

/* What stands in an entry, not yet believed. */
typedef struct {
    tensor_view_t tensor;
    uint64_t begin, end;
} entry_t;

static bool read_dtype(json_scan_t *scan, tensor_view_t *tensor)
{
    json_string_view_t text;

    if (!json_scan_string(scan, &text))
        return false;
    for (uint32_t i = 0; i < TENSOR_DTYPE_COUNT; i++)
        if (json_string_is(&text, dtypes[i].name)) {
            tensor->dtype = (tensor_dtype_t)i;
            return true;
        }
    return json_scan_fail(scan, "unknown dtype");
}

static bool read_shape(json_scan_t *scan, tensor_view_t *tensor)
{
    if (!json_scan_take(scan, '['))
        return false;
    if (json_scan_sees(scan, ']'))
        return json_scan_take(scan, ']');
    do {
        if (tensor->rank == TENSOR_RANK_MAX)
            return json_scan_fail(scan, "shape of more than 8 dimensions");
        if (!json_scan_u64(scan, &tensor->shape[tensor->rank++]))
            return false;
    } while (json_scan_more(scan, ']'));
    return !scan->error;
}

static bool read_offsets(json_scan_t *scan, entry_t *entry)
{
    return json_scan_take(scan, '[') && json_scan_u64(scan, &entry->begin) &&
           json_scan_take(scan, ',') && json_scan_u64(scan, &entry->end) &&
           json_scan_take(scan, ']');
}

static bool read_entry(json_scan_t *scan, entry_t *entry)
{
    enum { DTYPE = 1, SHAPE = 2, OFFSETS = 4 };
    unsigned seen = 0, field;
    json_string_view_t key;
    bool read;

    if (!json_scan_take(scan, '{'))
        return false;
    do {
        if (!json_scan_key(scan, &key))
            return false;
        field = json_string_is(&key, "dtype")          ? DTYPE
                : json_string_is(&key, "shape")        ? SHAPE
                : json_string_is(&key, "data_offsets") ? OFFSETS
                                                       : 0;
        if (!field || (seen & field))
            return json_scan_fail(scan, "expected dtype, shape, data_offsets, each once");
        seen |= field;
        read = field == DTYPE   ? read_dtype(scan, &entry->tensor)
               : field == SHAPE ? read_shape(scan, &entry->tensor)
                                : read_offsets(scan, entry);
        if (!read)
            return false;
    } while (json_scan_more(scan, '}'));
    if (seen != (DTYPE | SHAPE | OFFSETS))
        return json_scan_fail(scan, "expected dtype, shape, data_offsets, each once");
    return !scan->error;
}

/* Bytes that dtype and shape ask for, or false if they are more than 2^64. */
static bool shape_bytes(const tensor_view_t *tensor, uint64_t *bytes)
{
    uint64_t product = tensor_dtype_bytes(tensor->dtype);

    for (uint32_t i = 0; i < tensor->rank; i++)
        if (__builtin_mul_overflow(product, tensor->shape[i], &product))
            return false;
    *bytes = product;
    return true;
}

static status_t check_entry(const safetensors_file_t *file, const entry_t *entry)
{
    uint64_t body = file->size - LENGTH_BYTES - file->header_bytes, bytes;
    char text[128];

    tensor_describe(&entry->tensor, text, sizeof(text));
    if (!shape_bytes(&entry->tensor, &bytes))
        return FAIL(STATUS_BAD_FILE, "%s: tensor %s: %s is larger than 2^64 bytes", file->name,
                    entry->tensor.name, text);
    if (entry->begin > entry->end || entry->end > body)
        return FAIL(
            STATUS_BAD_FILE,
            "%s: tensor %s: expected offsets within the file's %llu bytes of tensors, found "
            "[%llu, %llu]",
            file->name, entry->tensor.name, (unsigned long long)body,
            (unsigned long long)entry->begin, (unsigned long long)entry->end);
    if (entry->end - entry->begin != bytes)
        return FAIL(STATUS_BAD_FILE,
                    "%s: tensor %s: expected %llu bytes for %s, found %llu between its offsets",
                    file->name, entry->tensor.name, (unsigned long long)bytes, text,
                    (unsigned long long)(entry->end - entry->begin));
    return STATUS_OK;
}

/* -- one file -----------------------------------------------------------------------------------
 */

static status_t scan_status(const safetensors_file_t *file, const json_scan_t *scan,
                            const char *name)
{
    return FAIL(STATUS_BAD_FILE, "%s: header byte %zu%s%.*s: %s", file->name, scan->at,
                *name ? ", tensor " : "", TENSOR_NAME_BYTES_MAX, name, scan->error);
}

static status_t add_tensor(safetensors_t *self, const tensor_view_t *tensor)
{
    if (self->tensor_count == CHECKPOINT_TENSORS_MAX)
        return FAIL(STATUS_BAD_FILE, "expected up to %d tensors, found more",
                    CHECKPOINT_TENSORS_MAX);
    if (self->tensor_count == self->tensor_room) {
        uint32_t room = self->tensor_room ? 2 * self->tensor_room : 256;
        tensor_view_t *tensors = realloc(self->tensors, room * sizeof(*tensors));

        if (!tensors)
            return FAIL(STATUS_NO_MEMORY, "no memory for %u tensors", room);
        self->tensors = tensors;
        self->tensor_room = room;
    }
    self->tensors[self->tensor_count++] = *tensor;
    return STATUS_OK;
}

/* Names are copied one behind the other to `names`, which has room for the whole header. */
static status_t read_tensor(safetensors_t *self, safetensors_file_t *file, json_scan_t *scan,
                            const json_string_view_t *key, char **names)
{
    entry_t entry = {.tensor = {.name = *names, .file = self->file_count}};

    if (!json_string_plain(key, TENSOR_NAME_BYTES_MAX)) {
        json_scan_fail(scan, "expected a tensor name of up to 255 printable ASCII characters");
        return scan_status(file, scan, "");
    }
    memcpy(*names, key->bytes, key->size);
    (*names)[key->size] = '\0';
    *names += key->size + 1;
    if (!read_entry(scan, &entry))
        return scan_status(file, scan, entry.tensor.name);
    TRY(check_entry(file, &entry));
    entry.tensor.bytes = entry.end - entry.begin;
    entry.tensor.data = file->bytes + LENGTH_BYTES + file->header_bytes + entry.begin;
    return add_tensor(self, &entry.tensor);
}

static status_t read_header(safetensors_t *self, safetensors_file_t *file)
{
    const char *text = (const char *)file->bytes + LENGTH_BYTES;
    char *names = file->names;
    json_string_view_t key;
    size_t broken_at;
    json_scan_t scan;

    json_scan_init(&scan, text, file->header_bytes);
    if (!utf8_check(text, file->header_bytes, &broken_at))
        return FAIL(STATUS_BAD_FILE, "%s: header: expected UTF-8, found other bytes at %zu",
                    file->name, broken_at);
    if (file->header_bytes == 0 || text[0] != '{')
        json_scan_fail(&scan, "expected an object at the header's first byte");
    json_scan_take(&scan, '{');
    if (json_scan_sees(&scan, '}')) {
        json_scan_take(&scan, '}');
    } else {
        do {
            if (!json_scan_key(&scan, &key))
                break;
            if (json_string_is(&key, "__metadata__"))
                json_scan_skip(&scan);
            else
                TRY(read_tensor(self, file, &scan, &key, &names));
        } while (json_scan_more(&scan, '}'));
    }
    if (!json_scan_end(&scan))
        return scan_status(file, &scan, "");
    return STATUS_OK;
}

static int compare_places(const void *a, const void *b)
{
    const tensor_view_t *x = a, *y = b;

    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The tensors of the newest file, from number `first` on, cover its body. */
static status_t check_places(safetensors_t *self, const safetensors_file_t *file, uint32_t first)
{
    const uint8_t *expected = file->bytes + LENGTH_BYTES + file->header_bytes;
    const uint8_t *body = expected;

    if (self->tensor_count > first)
        qsort(self->tensors + first, self->tensor_count - first, sizeof(*self->tensors),
              compare_places);
    for (uint32_t i = first; i < self->tensor_count; i++) {
        const tensor_view_t *tensor = &self->tensors[i];

        if (tensor->data != expected)
            return FAIL(STATUS_BAD_FILE,
                        "%s: tensor %s: expected to begin at offset %llu, where the one before "
                        "ends, found %llu (%s)",
                        file->name, tensor->name, (unsigned long long)(expected - body),
                        (unsigned long long)(tensor->data - body),
                        tensor->data < expected ? "they overlap" : "a hole");
        expected = tensor->data + tensor->bytes;
    }
    if (expected != file->bytes + file->size)
        return FAIL(STATUS_BAD_FILE,
                    "%s: expected the file to end with its last tensor at %llu bytes, found %llu",
                    file->name, (unsigned long long)(expected - file->bytes),
                    (unsigned long long)file->size);
    return STATUS_OK;
}

/* Maps a regular file that is not empty. */
static status_t map_file(const char *path, const uint8_t **bytes, uint64_t *size)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    void *memory;

    if (descriptor < 0)
        return FAIL(errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s", path,
                    strerror(errno));
    if (fstat(descriptor, &about) < 0 || !S_ISREG(about.st_mode) || about.st_size <= 0) {
        close(descriptor);
        return FAIL(STATUS_BAD_FILE, "%s: expected a file with content, found none", path);
    }
    memory = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, descriptor, 0);
    close(descriptor);
    if (memory == MAP_FAILED)
        return FAIL(STATUS_IO, "%s: cannot be mapped: %s", path, strerror(errno));
    *bytes = memory;
    *size = (uint64_t)about.st_size;
    return STATUS_OK;
}

static status_t join_path(char *path, const char *folder, const char *name)
{
    if (snprintf(path, PATH_BYTES_MAX, "%s/%s", folder, name) >= PATH_BYTES_MAX)
        return FAIL(STATUS_BAD_FILE, "%.200s: path is too long", name);
    return STATUS_OK;
}

/* The file is added to self->files at once, so that close undoes every step. */
static status_t add_file(safetensors_t *self, const char *path, const char *name)
{
    safetensors_file_t *files = realloc(self->files, (self->file_count + 1) * sizeof(*files));
    uint32_t first = self->tensor_count;
    safetensors_file_t *file;
    status_t status;
    uint64_t length;

    if (!files)
        return FAIL(STATUS_NO_MEMORY, "no memory for file %s", name);
    self->files = files;
    file = &files[self->file_count];
    *file = (safetensors_file_t){.name = strdup(name)};
    if (!file->name)
        return FAIL(STATUS_NO_MEMORY, "no memory for file %s", name);
    status = map_file(path, &file->bytes, &file->size);
    if (status != STATUS_OK) {
        free(file->name);
        return status;
    }
    self->file_count++;
    length = 0;
    for (size_t i = LENGTH_BYTES; file->size >= LENGTH_BYTES && i-- > 0;)
        length = length << 8 | file->bytes[i];
    if (file->size < LENGTH_BYTES || length > file->size - LENGTH_BYTES ||
        length > CHECKPOINT_HEADER_BYTES_MAX)
        return FAIL(STATUS_BAD_FILE,
                    "%s: expected a header within the file's %llu bytes (and %d), found a length "
                    "of %llu",
                    name, (unsigned long long)file->size, CHECKPOINT_HEADER_BYTES_MAX,
                    (unsigned long long)length);
    file->header_bytes = length;
    file->names = malloc(length + 1);
    if (!file->names)
        return FAIL(STATUS_NO_MEMORY, "%s: no memory for its names", name);
    self->file_count--; /* the number that its tensors carry */
    status = read_header(self, file);
    self->file_count++;
    TRY(status);
    return check_places(self, file, first);
}

/* -- all files ----------------------------------------------------------------------------------
 */

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const tensor_view_t *)a)->name, ((const tensor_view_t *)b)->name);
}

static status_t sort_names(safetensors_t *self)
{
    if (self->tensor_count == 0)
        return STATUS_OK;
    qsort(self->tensors, self->tensor_count, sizeof(*self->tensors), compare_names);
    for (uint32_t i = 1; i < self->tensor_count; i++) {
        const tensor_view_t *a = &self->tensors[i - 1], *b = &self->tensors[i];

        if (strcmp(a->name, b->name) == 0)
            return FAIL(STATUS_BAD_FILE, "tensor %s: expected once, found in %s and in %s", a->name,
                        self->files[a->file].name, self->files[b->file].name);
    }
    return STATUS_OK;
}

status_t safetensors_open_file(safetensors_t *self, const char *path)
{
    const char *slash = strrchr(path, '/');
    status_t status;

    *self = (safetensors_t){0};
    status = add_file(self, path, slash ? slash + 1 : path);
    if (status == STATUS_OK)
        status = sort_names(self);
    if (status != STATUS_OK)
        safetensors_close(self);
    return status;
}

const tensor_view_t *safetensors_find(const safetensors_t *self, const char *name)
{
    tensor_view_t key = {.name = name};

    if (self->tensor_count == 0)
        return NULL;
    return bsearch(&key, self->tensors, self->tensor_count, sizeof(key), compare_names);
}

void safetensors_close(safetensors_t *self)
{
    for (uint32_t i = 0; i < self->file_count; i++) {
        munmap((void *)(uintptr_t)self->files[i].bytes, self->files[i].size);
        free(self->files[i].name);
        free(self->files[i].names);
    }
    free(self->files);
    free(self->tensors);
    *self = (safetensors_t){0};
}

/* -- a sharded checkpoint -------------------------------------------------------------------- */

static status_t open_shards(safetensors_t *self, const char *folder, safetensors_index_t *index)
{
    char path[PATH_BYTES_MAX], name[TENSOR_NAME_BYTES_MAX];

    for (uint32_t i = 0; i < index->file_count; i++) {
        memcpy(name, index->files[i].bytes, index->files[i].size);
        name[index->files[i].size] = '\0';
        TRY(join_path(path, folder, name));
        TRY(add_file(self, path, name));
    }
    TRY(sort_names(self));
    return safetensors_index_check(index, self);
}

static status_t open_index(safetensors_t *self, const char *folder, const uint8_t *bytes,
                           uint64_t size)
{
    safetensors_index_t *index;
    status_t status;

    if (size > CHECKPOINT_INDEX_BYTES_MAX)
        return FAIL(STATUS_BAD_FILE, "%s: expected up to %d bytes, found %llu",
                    safetensors_index_name, CHECKPOINT_INDEX_BYTES_MAX, (unsigned long long)size);
    index = calloc(1, sizeof(*index));
    if (!index)
        return FAIL(STATUS_NO_MEMORY, "%s: no memory to read it", safetensors_index_name);
    status = safetensors_index_read((const char *)bytes, size, index);
    if (status == STATUS_OK)
        status = open_shards(self, folder, index);
    safetensors_index_fini(index);
    free(index);
    return status;
}

status_t safetensors_open(safetensors_t *self, const char *folder)
{
    char path[PATH_BYTES_MAX];
    const uint8_t *bytes;
    uint64_t size;
    status_t status;

    *self = (safetensors_t){0};
    TRY(join_path(path, folder, safetensors_index_name));
    status = map_file(path, &bytes, &size);
    if (status == STATUS_NOT_FOUND) {
        trail_reset();
        TRY(join_path(path, folder, "model.safetensors"));
        return safetensors_open_file(self, path);
    }
    TRY(status);
    status = open_index(self, folder, bytes, size);
    munmap((void *)(uintptr_t)bytes, size);
    if (status != STATUS_OK)
        safetensors_close(self);
    return status;
}
