/* symbolic.h - the symbolic device: bytes are a function of token prefixes, the next token a hash.
 *
 * It implements device/device.h without arithmetic, so that everything else can be run, counted
 * and broken on purpose: by the simulator, by benchmarks of gateway and scheduler, and by real
 * processes without a model. Each page, border and slot is a few content words:
 *
 *     page           hash of the token prefix at its first position, and behind its last filled row
 *     border, slot   position, and the prefix hash there
 *     three more     one per layer group, mixed from those two
 *
 * With penalties the next token is a hash of what they look at too: repetition of prompt and answer, presence and
 * frequency of the answer. So an answer's token that is counted as prompt after a replay changes what follows.
 *
 * A step reads every page of a slot's history: the first must start at the empty prefix, each where
 * the one before it ends, the last must end at the slot's hash, and all layer words must fit. So
 * bytes of another request, of an older state, or with one flipped bit are found by the first step
 * that reads them: STATUS_CORRUPT with place, expected and found. A pool is named shared memory
 * or, within one process, plain memory of a world.
 */
#ifndef DEVICE_SYMBOLIC_H
#define DEVICE_SYMBOLIC_H

#include <stddef.h>

#include "device/device.h"
#include "runtime/base/check.h"

enum { SYMBOLIC_WORDS = 5 /* content words of a unit */ };

/* Pools of one process, by name. A pool lives until it is closed and no device maps it any more. */
typedef struct symbolic_world symbolic_world_t;

/* The `setup` of its open. Copied. */
typedef struct {
    symbolic_world_t *world; /* NULL: pools are named shared memory */
    uint64_t weights;        /* seeds all answers */
    uint32_t vocabulary;     /* tokens 0 .. vocabulary - 1 */
    uint32_t end_token;      /* drawn with chance 1 / answer_tokens at each position */
    uint32_t answer_tokens;  /* mean length of an answer; 0: it never ends by itself */
    uint32_t step_ms;        /* how long a step with tokens takes; it sleeps, as one waits for a GPU */
} symbolic_setup_t;

extern const device_ops_t symbolic_ops;

symbolic_world_t *symbolic_world_open(void);
/* All devices of it must be closed. */
void symbolic_world_close(symbolic_world_t *world);

/* The token that follows a prefix. */
uint32_t symbolic_next(const symbolic_setup_t *setup, const uint32_t *prefix, uint32_t count,
                       const device_sampling_t *sampling);

/* The whole answer that a prompt must get, by the rules of LIMITS in messages/schema.h: it ends
 * behind the end token (unless ignored), behind a stop token, or at `length_max`. Returns its
 * length, at most `size`. */
uint32_t symbolic_answer(const symbolic_setup_t *setup, const uint32_t *prompt,
                         uint32_t prompt_count, const device_sampling_t *sampling, bool ignore_end,
                         const uint32_t *stop_tokens, uint32_t stop_count, uint32_t length_max,
                         uint32_t *tokens, uint32_t size);

/* Faults, for simulator and tests. */
void symbolic_flip(device_t *device, unit_kind_t unit, uint32_t index, uint32_t word,
                   uint32_t bit);
/* The next `count` tokens that this device draws are wrong. */
void symbolic_mistake(device_t *device, uint32_t count);

/* What stands in a unit now. */
void symbolic_read(const device_t *device, unit_kind_t unit, uint32_t index, uint64_t *generation,
                   uint64_t words[SYMBOLIC_WORDS]);

#endif
