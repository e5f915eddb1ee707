#include "cache/budget.h"

/* Bytes that are left for units; saturates at 0. */
static uint64_t bytes_left(const budget_t *b)
{
    const uint64_t taken[] = {b->weights_bytes, b->workspace_bytes,
                              b->device_bytes / 1000 * b->reserve_permille};
    uint64_t left = b->device_bytes;

    for (size_t i = 0; i < COUNT_OF(taken); i++)
        left = left > taken[i] ? left - taken[i] : 0;
    return left;
}

/* Borders that go with this many pages. */
static uint32_t borders_of(const budget_t *b, uint64_t pages)
{
    return b->pages_per_border == 0 ? 0 : (uint32_t)(pages / b->pages_per_border) + 1;
}

status_t budget_counts(const geometry_t *g, const budget_t *b, uint32_t counts[UNIT_COUNT])
{
    const uint64_t slot_bytes = g->unit_bytes[UNIT_SLOT], page_bytes = g->unit_bytes[UNIT_HISTORY];
    const uint64_t border_bytes = g->unit_bytes[UNIT_BORDER];
    const uint32_t pages_min = (b->tokens_min > 0 ? tokens_pages(b->tokens_min) : 1) + 1;
    const uint64_t left = bytes_left(b);
    uint64_t need, pages;

    if (b->slots == 0 || b->slots > SLOTS_MAX)
        return FAIL(STATUS_BAD_CONFIG, "%u slots; 1 to %d are possible", b->slots, SLOTS_MAX);
    if (b->reserve_permille > BUDGET_RESERVE_PERMILLE_MAX)
        return FAIL(STATUS_BAD_CONFIG, "reserve of %u permille; %d are possible",
                    b->reserve_permille, BUDGET_RESERVE_PERMILLE_MAX);
    need = b->slots * slot_bytes + pages_min * page_bytes + borders_of(b, pages_min) * border_bytes;
    if (left < need)
        return FAIL(STATUS_BAD_CONFIG,
                    "%llu bytes are left after weights, workspace and reserve, but %u slots and %u "
                    "pages need %llu",
                    (unsigned long long)left, b->slots, pages_min, (unsigned long long)need);

    /* pages * page + (pages / n + 1) * border <= left - slots, so solve for pages */
    pages = left - b->slots * slot_bytes;
    if (page_bytes == 0) /* no compressed layer: a page is a name only */
        pages = (uint64_t)b->slots * pages_min;
    else if (b->pages_per_border == 0)
        pages /= page_bytes;
    else
        pages = (pages - border_bytes) / (b->pages_per_border * page_bytes + border_bytes) *
                b->pages_per_border;
    /* the division rounds down to whole groups of pages_per_border; the minimum fits, as shown */
    pages = pages > pages_min ? pages : pages_min;
    pages = pages < BUDGET_PAGES_MAX ? pages : BUDGET_PAGES_MAX;
    counts[UNIT_HISTORY] = (uint32_t)pages;
    counts[UNIT_BORDER] = borders_of(b, pages);
    counts[UNIT_SLOT] = b->slots;
    return STATUS_OK;
}

budget_capacity_t budget_capacity(const uint32_t counts[UNIT_COUNT], uint32_t tokens)
{
    const uint32_t pages = counts[UNIT_HISTORY] > 0 ? counts[UNIT_HISTORY] - 1 : 0;
    const uint32_t each = tokens > 0 ? tokens_pages(tokens) : 1;

    if (pages / each < counts[UNIT_SLOT])
        return (budget_capacity_t){pages / each, BUDGET_BY_PAGES};
    return (budget_capacity_t){counts[UNIT_SLOT], BUDGET_BY_SLOTS};
}
