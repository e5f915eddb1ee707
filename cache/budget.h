/* budget.h - how many pages, borders and slots fit a device, and what they are worth in words.
 *
 * Policy: weights, workspace and a reserve go first; then the slots that were asked for, since a
 * request without a slot cannot run; what is left is history, with one border for every
 * `pages_per_border` pages. Decode groups keep no prefixes and take pages_per_border 0.
 */
#ifndef CACHE_BUDGET_H
#define CACHE_BUDGET_H

#include "cache/geometry.h"

enum {
    BUDGET_PAGES_MAX = 1 << 24,       /* of one pool: what messages and tables can name */
    BUDGET_RESERVE_PERMILLE_MAX = 900 /* of the device */
};

typedef struct {
    uint64_t device_bytes;
    uint64_t weights_bytes;
    uint64_t workspace_bytes;
    uint32_t reserve_permille; /* of the device, left alone */
    uint32_t slots;            /* running requests */
    uint32_t pages_per_border; /* 0: no borders */
    uint32_t tokens_min;       /* positions that must fit, or the budget is refused; 0: one page */
} budget_t;

/* Fills counts[UNIT_COUNT]. BAD_CONFIG, with figures: not even `tokens_min` positions fit. One page
 * more than the history needs is counted, since page 0 is never leased. */
MUST_USE status_t budget_counts(const geometry_t *g, const budget_t *budget,
                                uint32_t counts[UNIT_COUNT]);

typedef enum { BUDGET_BY_PAGES, BUDGET_BY_SLOTS } budget_limit_t;

typedef struct {
    uint32_t sessions;
    budget_limit_t limit; /* what one session more would lack */
} budget_capacity_t;

/* The inverse: sessions of `tokens` positions each that run at once. */
budget_capacity_t budget_capacity(const uint32_t counts[UNIT_COUNT], uint32_t tokens);

#endif
