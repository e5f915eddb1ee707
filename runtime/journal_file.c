#include "runtime/journal_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Moves on by `size` bytes, padded; NULL if they are not there. Everything begins at a word. */
static const void *take(const journal_file_t *file, size_t *at, uint64_t size)
{
    const uint8_t *from = file->bytes + *at;
    size_t left = file->size - *at;

    if (size > left || journal_padded((size_t)size) > left)
        return NULL;
    *at += journal_padded((size_t)size);
    return from;
}

/* ---- the head -------------------------------------------------------------------------------- */

static status_t read_head(journal_file_t *file, size_t size)
{
    const journal_header_t *header = (const void *)file->bytes;
    const uint8_t *parts;
    size_t at = sizeof(*header);

    if (size < sizeof(*header) || header->magic != JOURNAL_MAGIC)
        return FAIL(STATUS_BAD_FILE, "this is no journal");
    if (header->version != JOURNAL_VERSION)
        return FAIL(STATUS_BAD_FILE, "a journal of version %u; this build reads version %u",
                    header->version, JOURNAL_VERSION);
    if (header->used > size || header->used < sizeof(*header) || header->used % 8 != 0)
        return FAIL(STATUS_CORRUPT, "it says that it has %llu bytes, and has %zu",
                    (unsigned long long)header->used, size);
    file->size = (size_t)header->used;
    parts = file->bytes + at;
    file->topology = take(file, &at, header->topology_bytes);
    file->setup = file->topology ? take(file, &at, header->setup_bytes) : NULL;
    if (!file->setup || !take(file, &at, header->runs_bytes))
        return FAIL(STATUS_CORRUPT, "its state does not end within %zu bytes", file->size);
    if (header->check != journal_header_check(header, parts, at - sizeof(*header)))
        return FAIL(STATUS_CORRUPT, "its header or state is damaged");
    if (memchr(header->name, '\0', sizeof(header->name)) == NULL || header->incarnation == 0)
        return FAIL(STATUS_CORRUPT, "its header names no actor");
    file->header = header;
    journal_file_rewind(file);
    return STATUS_OK;
}

void journal_file_rewind(journal_file_t *file)
{
    const journal_header_t *header = file->header;

    file->next = header->first;
    file->at = sizeof(*header) + journal_padded((size_t)header->topology_bytes) +
               journal_padded((size_t)header->setup_bytes) +
               journal_padded((size_t)header->runs_bytes);
}

status_t journal_file_take(uint8_t *bytes, size_t size, journal_file_t *file)
{
    status_t status;

    *file = (journal_file_t){.bytes = bytes};
    status = read_head(file, size);
    if (status != STATUS_OK)
        journal_file_close(file);
    return status;
}

static status_t read_all(int descriptor, const char *path, uint8_t **bytes, size_t *size)
{
    struct stat info;
    ssize_t count;

    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode))
        return FAIL(STATUS_BAD_FILE, "%s is no file", path);
    if (info.st_size > JOURNAL_FILE_BYTES_MAX)
        return FAIL(STATUS_TOO_LARGE, "%s: %lld bytes; a journal has up to %d", path,
                    (long long)info.st_size, JOURNAL_FILE_BYTES_MAX);
    *bytes = malloc((size_t)info.st_size + 1);
    if (!*bytes)
        return FAIL(STATUS_NO_MEMORY, "%s: %lld bytes", path, (long long)info.st_size);
    for (*size = 0; *size < (size_t)info.st_size; *size += (size_t)count) {
        count = read(descriptor, *bytes + *size, (size_t)info.st_size - *size);
        if (count <= 0)
            break; /* shorter by now: what is there is judged */
    }
    return STATUS_OK;
}

status_t journal_file_open(const char *path, journal_file_t *file)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    uint8_t *bytes = NULL;
    size_t size = 0;
    status_t status;

    if (descriptor < 0)
        return FAIL(STATUS_NOT_FOUND, "cannot open %s: %s", path, strerror(errno));
    status = read_all(descriptor, path, &bytes, &size);
    close(descriptor);
    if (status == STATUS_OK)
        status = journal_file_take(bytes, size, file);
    return status == STATUS_OK ? status : trail_pass(status, path, 0);
}

void journal_file_close(journal_file_t *file)
{
    free(file->bytes);
    *file = (journal_file_t){0};
}

status_t journal_file_state(const journal_file_t *file, void *self, size_t bytes)
{
    const journal_header_t *header = file->header;
    size_t at = sizeof(*header) + journal_padded((size_t)header->topology_bytes) +
                journal_padded((size_t)header->setup_bytes);
    size_t end = at + (size_t)header->runs_bytes;

    ASSERT(header->state_bytes == bytes);
    memset(self, 0, bytes);
    while (at < end) {
        const journal_run_t *run = take(file, &at, sizeof(*run));
        const uint8_t *kept = run ? take(file, &at, run->size) : NULL;

        if (!kept || run->offset > bytes || run->size > bytes - run->offset || at > end)
            return FAIL(STATUS_CORRUPT, "its state goes beyond its end");
        memcpy((uint8_t *)self + run->offset, kept, (size_t)run->size);
    }
    return STATUS_OK;
}

/* ---- records --------------------------------------------------------------------------------- */

/* The record at `*at`, of at least `head` bytes behind its mark, if it is one of number
 * `file->next`. */
static status_t read_mark(const journal_file_t *file, size_t *at, const journal_mark_t **mark_p)
{
    const journal_mark_t *mark = (const void *)(file->bytes + *at);
    size_t left = file->size - *at;

    if (left < sizeof(*mark) || mark->bytes > left || mark->bytes < sizeof(*mark) ||
        mark->bytes % 8 != 0 || mark->what >= JOURNAL_WHATS ||
        mark->check != journal_record_check(file->next, mark))
        return FAIL(STATUS_CORRUPT, "record %llu is damaged", (unsigned long long)file->next);
    *at += sizeof(*mark);
    *mark_p = mark;
    return STATUS_OK;
}

static status_t disorder(const journal_file_t *file)
{
    return FAIL(STATUS_CORRUPT, "record %llu is not in order", (unsigned long long)file->next);
}

static status_t read_input(const journal_file_t *file, size_t *at, journal_record_t *record)
{
    const journal_mark_t *mark = NULL;
    size_t end = *at;

    TRY(read_mark(file, at, &mark));
    end += mark->bytes;
    record->number = file->next;
    record->what = (journal_what_t)mark->what;
    record->input = take(file, at, sizeof(*record->input));
    record->body = record->input ? take(file, at, record->input->size) : NULL;
    if (!record->body || *at != end || record->what == JOURNAL_RESULT ||
        (record->what == JOURNAL_PLAN && record->input->size != 0) ||
        record->input->size > MESSAGE_BYTES_MAX)
        return disorder(file);
    return STATUS_OK;
}

static status_t read_result(const journal_file_t *file, size_t *at, journal_record_t *record)
{
    const journal_result_t *result;
    const journal_mark_t *mark = NULL;
    size_t end = *at;

    TRY(read_mark(file, at, &mark));
    end += mark->bytes;
    result = take(file, at, sizeof(*result));
    if (!result || mark->what != JOURNAL_RESULT || result->answer_count > JOURNAL_ANSWERS_MAX ||
        result->output_count > JOURNAL_OUTPUTS_MAX || result->status >= STATUS_COUNT)
        return disorder(file);
    record->answers = take(file, at, (result->answer_count + 7) / 8);
    if (record->answers)
        record->outputs = take(file, at, result->output_count * sizeof(*record->outputs));
    if (!record->answers || !record->outputs || *at != end)
        return disorder(file);
    record->result = result;
    return STATUS_OK;
}

status_t journal_file_next(journal_file_t *file, journal_record_t *record)
{
    journal_record_t read = {0};
    size_t at = file->at;

    if (at == file->size)
        return STATUS_END;
    TRY(read_input(file, &at, &read));
    if (at < file->size)
        TRY(read_result(file, &at, &read));
    file->at = at;
    file->next++;
    *record = read;
    return STATUS_OK;
}
