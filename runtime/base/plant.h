/* plant.h - known faults that can be put back, to prove that an oracle of the simulator sees them.
 *
 * PLANTED(name) stands where a programmer would make that mistake. In the product it is the
 * constant false, so no fault is in its code. The folders that hold plants are compiled a second
 * time, with LOCKSTEP_PLANTS, into `lockstep-sim`, which `lockstep sim --plant NAME` executes;
 * there it is true once plant_set has named it. Set once, before anything runs.
 *
 * Adding one: a row here, PLANTED in the code, and a row in tests/sim/plants.py that says which
 * check must catch it.
 */
#ifndef RUNTIME_BASE_PLANT_H
#define RUNTIME_BASE_PLANT_H

#include <stdbool.h>

/*    name             what goes wrong */
#define PLANT_TABLE(P)                                                                             \
    P(none, "nothing")                                                                             \
    P(bit_flip, "one bit of one unit on one rank flips (in the simulated device)")                 \
    P(wrong_token, "one rank draws one wrong token (in the simulated device)")                     \
    P(tp_desync, "a STEP goes to those ranks of a group that have credit for it")                  \
    P(abort_wedge, "decode does not pass an ABORT on to the transfer")                             \
    P(late_write, "the transfer says FENCED while a rank still pulls")                             \
    P(early_return, "leases return before the last step that names them is done")                  \
    P(reopened_attempt, "a replay goes by the same attempt number as before")                      \
    P(lost_fence, "prefill says no FENCED for what it handed over")                                \
    P(double_end, "prefill says END again when an ABORT crosses it")                               \
    P(epoch_mixup, "a step of an older epoch is awaited in the new one")                           \
    P(credit_leak, "credit that an ended life held never comes back")                              \
    P(handler_waits, "an actor without credit handles no message until it has some")               \
    P(starved_abort, "an ABORT of what is queued waits for its turn")                              \
    P(stale_prefix, "a cached border is given back before the step that loads it")                 \
    P(replay_skips_token, "decode does not run the last forced token of a replay")                 \
    P(unpublished_check, "tokens go out when the first rank has answered")                         \
    P(no_quiesce, "a rank says QUIESCED before its device has left the old epoch")                 \
    P(state_flood, "a STATE goes out while the one before is under way")                           \
    P(seniority_flip, "the oldest loses its pages when they run out")                              \
    P(early_pulled, "a rank says PULLED of what is cancelled while its device copies it")          \
    P(lost_exit, "an actor does not hear that a peer has ended")                                   \
    P(early_reserved, "decode says RESERVED before the transfer has OPENED")                       \
    P(lost_attempt, "what has ended stays when its last tokens are taken")

typedef enum {
#define PLANT_ENUM(name, text) PLANT_##name,
    PLANT_TABLE(PLANT_ENUM)
#undef PLANT_ENUM
        PLANT_COUNT
} plant_t;

#ifdef LOCKSTEP_PLANTS
#define PLANTED(name) plant_is_set(PLANT_##name)
#else
#define PLANTED(name) false
#endif

void plant_set(plant_t plant);
bool plant_is_set(plant_t plant);
/* False: the simulated device does it, in any binary. */
bool plant_is_code(plant_t plant);
/* This binary holds the code of plants. */
bool plant_is_built(void);

/* "bit-flip" for bit_flip; false if `text` names none. */
bool plant_parse(const char *text, plant_t *plant);
/* "bit-flip" */
const char *plant_name(plant_t plant);
const char *plant_text(plant_t plant);

#endif
