/* replay.h - runs one life of an actor again from its journal, and says where it goes another way.
 *
 * The actor is born from the journal's facts, takes its state, and is given each message as the
 * node gave it; its outbox answers as it answered then. Everything that comes out is held to the
 * digests in the journal at once: the first difference ends the run in the middle of the handler
 * that made it, since what follows would follow from it. The actor's own check runs after every
 * message, so a state that was wrong before it did harm is found too.
 *
 * One replay of a process steps at a time (a failed assertion must find its way out).
 */
#ifndef RUNTIME_REPLAY_H
#define RUNTIME_REPLAY_H

#include "runtime/actor.h"
#include "runtime/journal_file.h"
#include "runtime/roster.h"

typedef struct replay replay_t;

typedef struct {
    const actor_type_t *type;
    const message_table_t *table;
    const roster_t *roster;
    const actor_birth_t *birth; /* what it points to is borrowed until close */
    uint32_t relocate; /* the state moves to another address before every so many records, and the
                          old one is overwritten; 0: it stays */
    /* Each message that the actor pushes, before it is judged; bytes are borrowed. NULL: nobody
     * looks. */
    void (*pushed)(void *context, actor_id_t to, uint16_t id, const uint8_t *body, size_t size);
    void *context;
} replay_config_t;

typedef enum {
    REPLAY_SAME,
    REPLAY_DIFFERS,  /* replay_text says how */
    REPLAY_ASSERTED, /* likewise */
    REPLAY_ENDED,    /* the life ended in this record, so there is nothing to hold it to */
    REPLAY_LOST,     /* the journal kept no result of this record; its next segment goes on */
} replay_outcome_t;

/* MISMATCH: this build's actor is another one. REFUSED: the journal was kept without token ids, and
 * this kind of actor needs them. Owner closes. */
MUST_USE status_t replay_open(const journal_file_t *file, const replay_config_t *config,
                              replay_t **replay);
void replay_close(replay_t *replay);

/* After anything but SAME the replay is over. */
replay_outcome_t replay_step(replay_t *replay, const journal_record_t *record);
/* What differed, one line. */
const char *replay_text(const replay_t *replay);
const void *replay_state(const replay_t *replay, size_t *bytes);
const char *replay_state_name(const replay_t *replay);

#endif
