/* step_digest.h - what a rank says of a step in two words, so that a leader can compare ranks and name
 * the item in which two of them differ.
 *
 * Whatever an item produced (a token, a closed unit, the state it left behind) becomes one mixed
 * word w. A step digest is the sum of all w, and the sum of w * (item + 1), both mod 2^64. Equal steps
 * give equal sums, in any order of adding. If exactly one item differs, by d, the sums differ by d
 * and d * (item + 1): so two words find one item among thousands, and no list has to travel.
 */
#ifndef DEVICE_STEP_DIGEST_H
#define DEVICE_STEP_DIGEST_H

#include <stdint.h>

typedef struct {
    uint64_t sum;
    uint64_t weighted;
} step_digest_t;

/* What a word speaks of: the same number means different things in different places. */
typedef enum { STEP_DIGEST_TOKEN, STEP_DIGEST_UNIT, STEP_DIGEST_STATE } step_digest_kind_t;

enum { STEP_DIGEST_SEVERAL = UINT32_MAX };

/* Of step `seq`, with nothing in it yet. */
step_digest_t step_digest_begin(uint64_t seq);
/* `where`: slot of a token, unit and index of a unit, position of a state. */
void step_digest_add(step_digest_t *digest, uint32_t item, step_digest_kind_t kind, uint64_t where,
                 uint64_t value);
/* The item in which two digests whose sums differ do, or STEP_DIGEST_SEVERAL. */
uint32_t step_digest_item(step_digest_t a, step_digest_t b, uint32_t item_count);

#endif
