/* journal_file.h - reads what journal.h writes, and trusts none of it.
 *
 * A file is read whole and judged as it is read: sizes against what is there, order of records, a
 * check for each part. Checks find damage, not malice: a state is memory of an actor, and whoever
 * makes one up can make up its checks. So it is only ever given to an actor in a process that does
 * nothing else (cli/replay.c), and reading alone never looks into it.
 */
#ifndef RUNTIME_JOURNAL_FILE_H
#define RUNTIME_JOURNAL_FILE_H

#include "runtime/journal.h"

/* One record: what went in, and what came out. Borrowed from the file. */
typedef struct {
    uint64_t number;
    journal_what_t what; /* MESSAGE or PLAN */
    const journal_input_t *input;
    const uint8_t *body;
    const journal_result_t *result; /* NULL: the life ended in it */
    const uint64_t *answers;        /* bits */
    const journal_output_t *outputs;
} journal_record_t;

/* Open: readers look at header and parts. */
typedef struct {
    const journal_header_t *header;
    const uint8_t *topology;
    const uint8_t *setup;
    uint8_t *bytes;
    size_t size;   /* what is whole */
    size_t at;     /* of the next record */
    uint64_t next; /* its number */
} journal_file_t;

/* Owner closes. BAD_FILE: no journal, or of another version; CORRUPT: damaged. */
MUST_USE status_t journal_file_open(const char *path, journal_file_t *file);
/* The same for bytes at hand, taken over also if they are refused (free). */
MUST_USE status_t journal_file_take(uint8_t *bytes, size_t size, journal_file_t *file);
void journal_file_close(journal_file_t *file);

/* Puts the state at the beginning into `self`, all `bytes` of it: as many as the header says
 * (ASSERT). CORRUPT. */
MUST_USE status_t journal_file_state(const journal_file_t *file, void *self, size_t bytes);
/* END behind the last one; CORRUPT names the record. */
MUST_USE status_t journal_file_next(journal_file_t *file, journal_record_t *record);
/* To the first record again. */
void journal_file_rewind(journal_file_t *file);

#endif
