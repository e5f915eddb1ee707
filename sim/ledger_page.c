/* ledger_page.c - who holds which page, border and slot, and what the shared ones hold. */
#include "actors/decode/decode.h"
#include "actors/prefill/prefill.h"
#include "sim/ledger.h"
#include "runtime/base/random.h"

/* A new epoch of this group: what was named in an older one is in quarantine. */
void ledger_page_begin(ledger_group_t *group)
{
    for (int kind = 0; kind < UNIT_COUNT; kind++)
        for (uint32_t i = 0; i < group->unit_counts[kind]; i++) {
            group->units[kind][i].holders = 0;
            group->units[kind][i].whole = false;
        }
}

static ledger_opening_t *begin_opening(const ledger_group_t *group, ledger_attempt_t *attempt)
{
    ledger_opening_t *opening = &attempt->openings[group->place];

    if (opening->epoch != group->epoch) {
        opening->epoch = group->epoch;
        opening->last_seq = 0;
        opening->slot_open = opening->slot_taken = false;
        opening->drawn = opening->rows = opening->page_count = 0;
    }
    return opening;
}

static ledger_unit_t *unit_at(oracle_t *oracle, const ledger_group_t *group, unit_kind_t kind,
                              uint32_t number)
{
    if (number < group->unit_counts[kind] && !(kind == UNIT_HISTORY && number == POOL_TEST_PAGE))
        return &group->units[kind][number];
    world_violate(oracle->world, "page: %s gives out %s %u, which is none",
                  ledger_name(oracle, group->leader), unit_kind_name(kind), number);
    return &group->units[kind][0];
}

/* A lease that nobody else has: a new generation of a unit that nobody holds. */
static void take_new(oracle_t *oracle, const ledger_group_t *group, ledger_attempt_t *attempt,
                     unit_kind_t kind, uint32_t number, uint64_t generation)
{
    ledger_unit_t *unit = unit_at(oracle, group, kind, number);

    if (unit->holders > 0)
        ledger_attempt_bury(oracle, group, kind, number);
    if (unit->holders > 0)
        world_violate(oracle->world, "page: %s gives %s %u to %s while %s holds it",
                      ledger_name(oracle, group->leader), unit_kind_name(kind), number,
                      ledger_title(attempt), ledger_title(&oracle->attempts[unit->owner]));
    if (generation <= unit->generation)
        world_violate(oracle->world, "page: %s leases %s %u at generation %llx, which is over",
                      ledger_name(oracle, group->leader), unit_kind_name(kind), number,
                      (unsigned long long)generation);
    *unit = (ledger_unit_t){
        .generation = generation, .owner = (uint32_t)(attempt - oracle->attempts), .holders = 1};
}

/* A page of another attempt: whole, and of the same tokens. */
static void share(oracle_t *oracle, const ledger_group_t *group, ledger_attempt_t *attempt,
                  uint32_t ordinal, uint32_t page)
{
    ledger_unit_t *unit = unit_at(oracle, group, UNIT_HISTORY, page);

    if (!unit->whole || unit->tokens != (ordinal + 1) * PAGE_TOKENS ||
        unit->tokens >= attempt->prompt_tokens || unit->prefix != attempt->prefixes[ordinal])
        world_violate(oracle->world, "page: %s shares page %u with %s, whose page %u it is not",
                      ledger_name(oracle, group->leader), page, ledger_title(attempt), ordinal);
    unit->holders++;
}

void ledger_page_take(oracle_t *oracle, ledger_group_t *group, ledger_attempt_t *attempt,
                      uint32_t first, const uint32_t *pages, const uint64_t *generations,
                      uint32_t count)
{
    ledger_opening_t *opening = begin_opening(group, attempt);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t ordinal = first + i;

        if (ordinal < opening->page_count) { /* named before: at decode, by OPEN */
            if (opening->pages[ordinal] != pages[i])
                world_violate(oracle->world, "page: %s names page %u for %s, and page %u before",
                              ledger_name(oracle, group->leader), pages[i], ledger_title(attempt),
                              opening->pages[ordinal]);
            continue;
        }
        if (group->place == AT_PREFILL &&
            unit_at(oracle, group, UNIT_HISTORY, pages[i])->generation == generations[i])
            share(oracle, group, attempt, ordinal, pages[i]);
        else
            take_new(oracle, group, attempt, UNIT_HISTORY, pages[i], generations[i]);
        opening->pages =
            ledger_grow(opening->pages, &opening->page_max, ordinal + 1, sizeof(*opening->pages));
        opening->pages[ordinal] = pages[i];
        opening->page_count = ordinal + 1;
    }
}

void ledger_page_take_slot(oracle_t *oracle, ledger_group_t *group, ledger_attempt_t *attempt,
                           uint32_t slot, uint64_t generation)
{
    ledger_opening_t *opening = begin_opening(group, attempt);

    if (opening->slot_taken && opening->slot == slot &&
        group->units[UNIT_SLOT][slot].generation == generation)
        return;
    take_new(oracle, group, attempt, UNIT_SLOT, slot, generation);
    opening->slot_taken = true;
    opening->slot = slot;
}

static const pool_t *pool_of(const oracle_t *oracle, const ledger_group_t *group)
{
    const dispatch_t *dispatch = sim_dispatch(oracle->sim, group->leader);

    if (!dispatch)
        return NULL;
    return leader_pool(dispatch->self);
}

/* Its border is of its own prefix, and stays so: the leader holds it, and nobody is given its place. */
void ledger_page_load(oracle_t *oracle, ledger_group_t *group, ledger_attempt_t *attempt,
                      const record_step_item_t *item)
{
    const ledger_unit_t *unit = unit_at(oracle, group, UNIT_BORDER, item->border);
    const pool_item_t *held =
        pool_item(pool_of(oracle, group), unit_border(border_at(item->border)));

    if (held->state != POOL_CACHED || held->references == 0)
        world_violate(oracle->world, "page: %s loads border %u for %s, and does not hold it",
                      ledger_name(oracle, group->leader), item->border, ledger_title(attempt));
    if (unit->tokens != item->position || item->position == 0 ||
        item->position >= attempt->prompt_tokens ||
        unit->prefix != attempt->prefixes[item->position / PAGE_TOKENS - 1])
        world_violate(oracle->world,
                      "page: %s loads border %u for %s at %u, which holds another prefix",
                      ledger_name(oracle, group->leader), item->border, ledger_title(attempt),
                      item->position);
    attempt->openings[group->place].rows = item->position;
}

static void keep_border(oracle_t *oracle, ledger_group_t *group, ledger_attempt_t *attempt,
                        const record_step_item_t *item, uint32_t i)
{
    ledger_unit_t *unit = unit_at(oracle, group, UNIT_BORDER, item->border_targets.data[i]);
    uint32_t ordinal = item->border_pages.data[i];

    if (item->border_generations.data[i] <= unit->generation)
        world_violate(oracle->world, "page: %s has %s write border %u, which others may load",
                      ledger_name(oracle, group->leader), ledger_title(attempt),
                      item->border_targets.data[i]);
    *unit = (ledger_unit_t){.generation = item->border_generations.data[i],
                            .owner = (uint32_t)(attempt - oracle->attempts),
                            .tokens = (ordinal + 1) * PAGE_TOKENS,
                            .prefix = attempt->prefixes[ordinal]};
}

void ledger_page_run(oracle_t *oracle, ledger_group_t *group, ledger_attempt_t *attempt,
                     const record_step_item_t *item)
{
    const ledger_opening_t *opening = &attempt->openings[group->place];

    for (uint32_t ordinal = item->position / PAGE_TOKENS;
         item->count > 0 && ordinal <= (item->position + item->count - 1) / PAGE_TOKENS;
         ordinal++) {
        const ledger_unit_t *unit =
            ordinal < opening->page_count
                ? unit_at(oracle, group, UNIT_HISTORY, opening->pages[ordinal])
                : NULL;

        if (!unit || unit->owner != (uint32_t)(attempt - oracle->attempts) || unit->whole)
            world_violate(oracle->world, "page: %s has %s write its page %u, which is not its own",
                          ledger_name(oracle, group->leader), ledger_title(attempt), ordinal);
    }
    for (uint32_t i = 0; i < item->border_targets.count; i++)
        keep_border(oracle, group, attempt, item, i);
}

void ledger_page_done(ledger_group_t *group, ledger_attempt_t *attempt, uint32_t rows)
{
    ledger_opening_t *opening = &attempt->openings[group->place];

    for (uint32_t i = opening->rows / PAGE_TOKENS;
         group->place == AT_PREFILL && i < rows / PAGE_TOKENS; i++) {
        ledger_unit_t *unit = &group->units[UNIT_HISTORY][opening->pages[i]];

        unit->whole = true;
        unit->tokens = (i + 1) * PAGE_TOKENS;
        unit->prefix = attempt->prefixes[i];
    }
    opening->rows = rows;
}

bool ledger_page_is_ready(const ledger_group_t *group, const ledger_attempt_t *attempt,
                          uint32_t first, uint32_t count, bool last)
{
    const ledger_opening_t *opening = &attempt->openings[group->place];

    if (last)
        return opening->rows == attempt->prompt_tokens;
    for (uint32_t i = first; i < first + count; i++)
        if (!group->units[UNIT_HISTORY][opening->pages[i]].whole)
            return false;
    return true;
}

void ledger_page_release(oracle_t *oracle, ledger_opening_t *opening)
{
    ledger_group_t *group = oracle->actors[opening->opened].group;

    if (!group || opening->epoch != group->epoch)
        return;
    for (uint32_t i = 0; i < opening->page_count; i++)
        group->units[UNIT_HISTORY][opening->pages[i]].holders--;
    if (opening->slot_taken)
        group->units[UNIT_SLOT][opening->slot].holders--;
    opening->page_count = 0;
    opening->slot_taken = false;
}

/* ---- the leader's own account ---------------------------------------------------------------- */

static bool is_taken_back(const ledger_unit_t *unit, const pool_item_t *item)
{
    return unit->holders > 0 && item->generation.epoch == unit->generation >> 32 &&
           (item->generation.count != (uint32_t)unit->generation || item->state == POOL_FREE);
}

static void count_kind(oracle_t *oracle, const ledger_group_t *group, const pool_t *pool,
                       unit_kind_t kind)
{
    uint32_t found[POOL_STATE_COUNT] = {0};

    for (uint32_t i = 0; i < group->unit_counts[kind]; i++) {
        const ledger_unit_t *unit = &group->units[kind][i];
        const pool_item_t *item = pool_item(pool, (unit_t){kind, i});

        found[item->state]++;
        if (!is_taken_back(unit, item))
            continue;
        ledger_attempt_bury(oracle, group, kind, i);
        if (is_taken_back(unit, item))
            world_violate(oracle->world, "page: %s has taken %s %u back, which %s holds",
                          ledger_name(oracle, group->leader), unit_kind_name(kind), i,
                          ledger_title(&oracle->attempts[unit->owner]));
    }
    for (int state = 0; state < POOL_STATE_COUNT; state++)
        if (found[state] != pool_count(pool, kind, (pool_state_t)state))
            world_violate(oracle->world, "page: %s counts %u units of %s in state %d, there are %u",
                          ledger_name(oracle, group->leader),
                          pool_count(pool, kind, (pool_state_t)state), unit_kind_name(kind), state,
                          found[state]);
}

/* Looking at every unit costs, so only when a count has changed. */
void ledger_page_count(oracle_t *oracle, ledger_group_t *group)
{
    const pool_t *pool = pool_of(oracle, group);
    uint64_t counts;

    if (!pool)
        return;
    counts = pool->epoch;
    for (int kind = 0; kind < UNIT_COUNT; kind++)
        for (int state = 0; state < POOL_STATE_COUNT; state++)
            counts = random_mix(counts + pool->units[kind].in_state[state]);
    if (counts == group->counted)
        return;
    group->counted = counts;
    for (int kind = 0; kind < UNIT_COUNT; kind++)
        count_kind(oracle, group, pool, (unit_kind_t)kind);
}
