/* values.h - bodies of messages as a script wants them, with values that an actor has used before.
 *
 * Values are remembered by what their field's name means, so that a request, an epoch or a generation that the actor
 * said once comes back in whatever message has one. A byte of 0 chooses the youngest of them.
 */
#ifndef TESTS_FUZZ_VALUES_H
#define TESTS_FUZZ_VALUES_H

#include "runtime/base/arena.h"
#include "runtime/message.h"
#include "tests/fuzz/script.h"

enum { VALUES_RING = 8, VALUES_MEANINGS = 64 };

/* The last values of one meaning, youngest first. */
typedef struct {
    uint64_t values[VALUES_RING];
} meaning_t;

typedef struct {
    script_t script;
    arena_t arena;   /* of the bodies; whoever calls resets it */
    uint32_t actors; /* of the roster */
    uint32_t last_count;
    meaning_t meanings[VALUES_MEANINGS];
} values_t;

/* Remembers what a message of the actor says. */
void values_learn(values_t *values, const record_t *record, const void *body);
void values_learn_one(values_t *values, const char *name, uint64_t value);
/* Fills a zeroed struct; false if its lists do not fit the arena. */
bool values_choose(values_t *values, const record_t *record, void *body);
/* Where the question has a field of the same name and type, the answer says the same. */
void values_copy(const record_t *to, void *answer, const record_t *from, const void *question);

#endif
