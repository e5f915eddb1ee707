/* journal.h - what went into one life of an actor, and digests of what came out: enough to run it
 * again without its deployment (replay.h).
 *
 * An actor is a function of its state, the message in hand, and what its outbox answered when asked
 * whether a stream is up and has credit. So a journal is a state and, for each message since, the
 * message as it came, those answers, and a digest of each message pushed; time, frames and
 * connections come in as messages, or not at all. It is kept between node and dispatch, where
 * simulator and real processes are one.
 *
 * Records go into a file that is mapped, so they outlive a process that is killed in the middle of
 * the next one. A file is a segment: header, facts of birth, state, records. When one is full the
 * next begins with the state as it is then, in the place of the one before the last: two are there,
 * and the last segment's worth of records is always whole. The input stands in the file
 * before its handler runs, so the message that killed an actor is the last one there.
 *
 * Token ids are somebody's text. Unless they are allowed, a kind of actor that is sent any keeps no
 * state, no answers and no digests, and its messages with every token id blanked: what remains can
 * be read, not run. Kinds that never see one are journalled whole either way.
 *
 * One thread. What fails (a full disk, a file that somebody cuts short) is logged once and ends the journal, never
 * the actor.
 */
#ifndef RUNTIME_JOURNAL_H
#define RUNTIME_JOURNAL_H

#include "runtime/actor.h"
#include "runtime/base/limits.h"

typedef struct journal journal_t;

enum {
    JOURNAL_MAGIC = 0x4c6b4a4e,
    JOURNAL_VERSION = 1,
    JOURNAL_SEGMENT_BYTES = 4 << 20, /* of records, unless a place says otherwise */
    JOURNAL_IS_UP = 0xffff, /* in place of a message: the question is whether the stream is up */
    JOURNAL_PATH_BYTES = 256
};

/* Where actors of a run keep theirs. */
typedef struct {
    const char *directory; /* which must exist */
    size_t segment_bytes;  /* of records; 0: JOURNAL_SEGMENT_BYTES */
    size_t topology_bytes; /* of actor_birth_t.topology */
    bool tokens;           /* token ids may be kept */
} journal_place_t;

/* ---- the form of a file: structs as they stand in memory, each a whole number of words ---- */

typedef struct {
    uint32_t magic;
    uint32_t version;
    uint64_t used;     /* bytes of the file that are whole; moves with every record */
    uint64_t build;    /* digest of the executable */
    uint64_t table;    /* digest of the message table */
    uint64_t first;    /* number of the first record, from 0 at birth */
    uint32_t number;   /* of this segment in its life, from 0 */
    uint32_t withheld; /* 1: no token ids, so no state and no results */
    uint64_t state_bytes;
    uint64_t runs_bytes; /* of the journal_run_t with their bytes */
    uint64_t topology_bytes;
    uint64_t setup_bytes;
    incarnation_t incarnation;
    actor_id_t actor;
    uint16_t kind; /* actor_kind_t */
    char name[ACTOR_NAME_BYTES_MAX];
    uint64_t check; /* of everything above but `used`, and of the parts that follow: topology,
                       setup, runs, each padded to words */
} journal_header_t;

/* Bytes of the state where it is not zero; they follow, padded. */
typedef struct {
    uint64_t offset;
    uint64_t size;
} journal_run_t;

typedef enum { JOURNAL_MESSAGE, JOURNAL_PLAN, JOURNAL_RESULT, JOURNAL_WHATS } journal_what_t;

/* In front of every record. */
typedef struct {
    uint32_t bytes; /* of the whole record, with this */
    uint32_t what;
    uint64_t check; /* of `what`, the record's number and all that follows */
} journal_mark_t;

/* JOURNAL_MESSAGE, then the body; JOURNAL_PLAN: zeros but for the time. */
typedef struct {
    uint64_t us; /* clock of the actor's process */
    uint32_t size;
    incarnation_t incarnation;
    actor_id_t from;
    uint16_t id;
    uint32_t unused;
} journal_input_t;

/* JOURNAL_RESULT, then the answers as bits in whole words, then the outputs. */
typedef struct {
    uint8_t status; /* status_t */
    uint8_t state;  /* of the actor, afterwards */
    uint8_t lost;   /* 1: more outputs or answers than are kept; the next segment goes on */
    uint8_t unused;
    uint32_t attempts;
    uint32_t answer_count;
    uint32_t output_count;
    uint64_t asked; /* digest of the questions with their answers */
} journal_result_t;

typedef struct {
    uint64_t digest; /* of the encoded body; 0 if withheld */
    uint32_t size;
    actor_id_t to;
    uint16_t id;
} journal_output_t;

static inline size_t journal_padded(size_t size)
{
    return (size + 7) & ~(size_t)7;
}

uint64_t journal_header_check(const journal_header_t *header, const void *parts, size_t size);
uint64_t journal_record_check(uint64_t number, const journal_mark_t *mark);
uint64_t journal_asked(uint64_t asked, actor_id_t to, uint16_t id, bool answer);
uint64_t journal_output_digest(const uint8_t *body, size_t size);
/* Of this executable; the same file gives the same anywhere. */
uint64_t journal_build(void);
uint64_t journal_table(const message_table_t *table);
/* Whether an actor of that kind is ever sent a token id. */
bool journal_sees_tokens(const message_table_t *table, actor_kind_t kind);

/* ---- writing ---- */

/* Of the life that begins with `self` as its init left it. Owner closes. */
MUST_USE status_t journal_open(const journal_place_t *place, const message_table_t *table,
                               const actor_type_t *type, const actor_birth_t *birth,
                               const char *name, const void *self, size_t self_bytes,
                               journal_t **journal);
/* The file ends with its last record. */
void journal_close(journal_t *journal);

/* Cuts a file that a killed process left behind its last record. */
void journal_trim(const char *path);

/* In this order, for each piece of work; a NULL journal is a no-op, so callers need not look. A
 * JOURNAL_PLAN has no body: only the planner runs. */
void journal_input(journal_t *journal, journal_what_t what, const journal_input_t *input,
                   const uint8_t *body);
void journal_answer(journal_t *journal, actor_id_t to, uint16_t id, bool answer);
void journal_output(journal_t *journal, actor_id_t to, uint16_t id, const uint8_t *body,
                    size_t size);
void journal_result(journal_t *journal, status_t status, uint8_t state, uint32_t attempts);

#endif
