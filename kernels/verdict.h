/* verdict.h - what a rank says of a step in two words, so that a leader can compare ranks and name
 * the item in which two of them differ.
 *
 * Whatever an item produced (a token, a closed unit, the state it left behind) becomes one mixed
 * word w. A verdict is the sum of all w, and the sum of w * (item + 1), both mod 2^64. Equal steps
 * give equal sums, in any order of adding. If exactly one item differs, by d, the sums differ by d
 * and d * (item + 1): so two words find one item among thousands, and no list has to travel.
 */
#ifndef KERNELS_VERDICT_H
#define KERNELS_VERDICT_H

#include <stdint.h>

typedef struct {
    uint64_t sum;
    uint64_t weighted;
} verdict_t;

/* What a word speaks of: the same number means different things in different places. */
typedef enum { VERDICT_TOKEN, VERDICT_UNIT, VERDICT_STATE } verdict_kind_t;

enum { VERDICT_SEVERAL = UINT32_MAX };

/* Of step `seq`, with nothing in it yet. */
verdict_t verdict_begin(uint64_t seq);
/* `where`: slot of a token, unit and index of a unit, position of a state. */
void verdict_add(verdict_t *verdict, uint32_t item, verdict_kind_t kind, uint64_t where,
                 uint64_t value);
/* The item in which two verdicts whose sums differ do, or VERDICT_SEVERAL. */
uint32_t verdict_item(verdict_t a, verdict_t b, uint32_t item_count);

#endif
