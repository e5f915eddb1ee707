/* ledger_attempt.c - openings: who may say what about an attempt, and what must follow. */
#include <stdlib.h>

#include "sim/ledger.h"
#include "runtime/base/random.h"

/* ---- words ----------------------------------------------------------------------------------- */

static incarnation_t life_of(const oracle_t *oracle, actor_id_t actor)
{
    return oracle->actors[actor].life;
}

static void due(oracle_t *oracle, ledger_attempt_t *attempt)
{
    if (attempt->pending)
        return;
    attempt->pending = true;
    attempt->next_pending = oracle->pending_first;
    oracle->pending_first = (uint32_t)(attempt - oracle->attempts);
}

/* The opening that this actor holds, or NULL. */
static ledger_opening_t *opening_at(const oracle_t *oracle, ledger_attempt_t *attempt,
                                    actor_id_t actor)
{
    static const ledger_place_t places[ACTOR_KIND_COUNT] = {
        [ACTOR_PREFILL] = AT_PREFILL, [ACTOR_DECODE] = AT_DECODE, [ACTOR_TRANSFER] = AT_TRANSFER};
    actor_kind_t kind = ledger_kind(oracle, actor);
    ledger_opening_t *opening;

    if (kind != ACTOR_PREFILL && kind != ACTOR_DECODE && kind != ACTOR_TRANSFER)
        return NULL;
    opening = &attempt->openings[places[kind]];
    return opening->heard && opening->opened == actor &&
                   opening->opened_life == life_of(oracle, actor)
               ? opening
               : NULL;
}

static bool is_opener(const oracle_t *oracle, const ledger_opening_t *opening, actor_id_t actor)
{
    return opening->opener == actor && opening->opener_life == life_of(oracle, actor);
}

/* Nobody is there to hear END and FENCED of it: who opened it or, once decode runs it, its gateway. */
static bool is_orphan(const oracle_t *oracle, const ledger_attempt_t *attempt,
                      const ledger_opening_t *opening)
{
    return opening->runs ? !ledger_lives(oracle, attempt->gateway, attempt->gateway_life)
                         : !ledger_lives(oracle, opening->opener, opening->opener_life);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void open_said(oracle_t *oracle, ledger_attempt_t *attempt, ledger_place_t place,
                      actor_id_t opener, actor_id_t opened)
{
    ledger_opening_t *opening = &attempt->openings[place];
    uint32_t *pages = opening->pages;
    uint32_t page_max = opening->page_max;

    if (opening->opener_life && !opening->busy)
        world_violate(oracle->world, "reopen: %s opens %s at %s, but %s had opened it at %s before",
                      ledger_name(oracle, opener), ledger_title(attempt),
                      ledger_name(oracle, opened), ledger_name(oracle, opening->opener),
                      ledger_name(oracle, opening->opened));
    *opening = (ledger_opening_t){
        .opener = opener,
        .opened = opened,
        .opener_life = life_of(oracle, opener),
        .opened_life = sim_stream(oracle->sim, opener, opened)->peer_incarnation,
        .pages = pages,
        .page_max = page_max,
    };
}

/* What cached pages and borders will be held to. */
static void keep_prompt(ledger_attempt_t *attempt, const message_submit_t *m)
{
    uint64_t hash = random_mix(m->salt);

    attempt->seniority = m->seniority;
    attempt->forced = m->forced.count;
    attempt->prompt_tokens = m->prompt.count;
    free(attempt->prefixes);
    attempt->prefixes = calloc(m->prompt.count / PAGE_TOKENS + 1, sizeof(*attempt->prefixes));
    ASSERT(attempt->prefixes != NULL);
    for (uint32_t i = 0; i < m->prompt.count; i++) {
        hash = (hash ^ m->prompt.data[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
        if ((i + 1) % PAGE_TOKENS == 0)
            attempt->prefixes[i / PAGE_TOKENS] = hash;
    }
}

static bool is_older(const ledger_attempt_t *a, const ledger_attempt_t *b)
{
    if (a->seniority.admitted_ms != b->seniority.admitted_ms)
        return a->seniority.admitted_ms < b->seniority.admitted_ms;
    if (a->seniority.gateway != b->seniority.gateway)
        return a->seniority.gateway < b->seniority.gateway;
    return a->seniority.counter < b->seniority.counter;
}

static bool is_at_work(const oracle_t *oracle, const ledger_attempt_t *attempt,
                       const ledger_opening_t *opening)
{
    return opening && !opening->ended && !opening->busy && !is_orphan(oracle, attempt, opening);
}

/* Who waits for the same decode group was admitted later. */
static void judge_turn(oracle_t *oracle, const ledger_attempt_t *attempt, actor_id_t prefill,
                       actor_id_t decode)
{
    for (uint32_t i = 0; i < oracle->attempt_count; i++) {
        ledger_attempt_t *other = &oracle->attempts[i];
        const ledger_opening_t *opening = opening_at(oracle, other, prefill);
        const ledger_opening_t *next = &other->openings[AT_DECODE];

        if (other != attempt && is_at_work(oracle, other, opening) && opening->decode == decode &&
            (next->opener_life == 0 || (next->busy && next->told_end)) && is_older(other, attempt))
            world_violate(oracle->world, "seniority: %s reserves for %s while %s, older, waits",
                          ledger_name(oracle, prefill), ledger_title(attempt), ledger_title(other));
    }
}

static void judge_retraction(oracle_t *oracle, const ledger_attempt_t *attempt, actor_id_t decode)
{
    for (uint32_t i = 0; i < oracle->attempt_count; i++) {
        ledger_attempt_t *other = &oracle->attempts[i];
        const ledger_opening_t *opening = opening_at(oracle, other, decode);

        if (other != attempt && is_at_work(oracle, other, opening) && is_older(attempt, other))
            world_violate(oracle->world, "seniority: %s retracts %s and keeps %s, which is younger",
                          ledger_name(oracle, decode), ledger_title(attempt), ledger_title(other));
    }
}

/* ---- heard ----------------------------------------------------------------------------------- */

static void on_opening(oracle_t *oracle, ledger_attempt_t *attempt, ledger_place_t place,
                       actor_id_t actor, const envelope_t *envelope)
{
    ledger_opening_t *opening = &attempt->openings[place];

    if (opening->opened != actor || opening->opener != envelope->from ||
        opening->opener_life != envelope->incarnation)
        world_violate(oracle->world, "reopen: %s hears an old opening of %s from %s",
                      ledger_name(oracle, actor), ledger_title(attempt),
                      ledger_name(oracle, envelope->from));
    opening->heard = true;
}

/* It has not heard that its opener is gone, and so has not ended it for that. */
static bool knows_opener(const oracle_t *oracle, const ledger_opening_t *opening, actor_id_t actor)
{
    return oracle->met[actor * oracle->actor_count + opening->opener] == opening->opener_life;
}

/* Of what this actor has opened itself, at whom it hears from. */
static void on_answer(oracle_t *oracle, ledger_attempt_t *attempt, actor_id_t actor,
                      const envelope_t *envelope)
{
    for (int place = 0; place < LEDGER_PLACES; place++) {
        ledger_opening_t *opening = &attempt->openings[place];

        if (opening->opened != envelope->from || opening->opened_life != envelope->incarnation ||
            !is_opener(oracle, opening, actor))
            continue;
        if (envelope->id == MESSAGE_reserved || envelope->id == MESSAGE_opened)
            opening->reserved = true;
        if (envelope->id == MESSAGE_busy || envelope->id == MESSAGE_end ||
            envelope->id == MESSAGE_running || envelope->id == MESSAGE_fenced)
            opening->told_end = true;
        if (envelope->id == MESSAGE_fenced)
            opening->told_fenced = true;
    }
    if (envelope->id == MESSAGE_landed && !((const message_landed_t *)envelope->body)->failed &&
        !attempt->openings[AT_DECODE].ended &&
        knows_opener(oracle, &attempt->openings[AT_DECODE], actor))
        attempt->openings[AT_DECODE].runs = true;
    if (envelope->id == MESSAGE_running)
        attempt->openings[AT_PREFILL].handed = attempt->openings[AT_PREFILL].ended = true;
    if (envelope->id == MESSAGE_pulled && oracle->actors[envelope->from].group)
        attempt->pulling &= ~(UINT64_C(1) << oracle->actors[envelope->from].rank);
}

static void on_abort(oracle_t *oracle, ledger_attempt_t *attempt, actor_id_t actor)
{
    ledger_opening_t *opening = opening_at(oracle, attempt, actor);

    if (opening != &attempt->openings[AT_PREFILL] && opening != &attempt->openings[AT_DECODE])
        return; /* a transfer says only when it is over: FENCED */
    opening->end_due = !opening->ended && !opening->busy;
    if (opening == &attempt->openings[AT_PREFILL] && opening->handed && !opening->fenced)
        attempt->openings[AT_DECODE].pass_due = true;
    due(oracle, attempt);
}

void ledger_attempt_heard(oracle_t *oracle, actor_id_t actor, const envelope_t *envelope)
{
    const message_busy_t *name = envelope->body; /* whatever is about an attempt begins so */
    actor_kind_t kind = ledger_kind(oracle, actor);
    ledger_attempt_t *attempt;

    if (message_table.rows[envelope->id].scope != SCOPE_ATTEMPT)
        return;
    attempt = ledger_attempt(oracle, name->request, name->attempt);
    if (envelope->id == MESSAGE_submit || envelope->id == MESSAGE_reserve ||
        envelope->id == MESSAGE_open) {
        on_opening(oracle, attempt,
                   envelope->id == MESSAGE_submit    ? AT_PREFILL
                   : envelope->id == MESSAGE_reserve ? AT_DECODE
                                                     : AT_TRANSFER,
                   actor, envelope);
        return;
    }
    if (kind == ACTOR_GATEWAY
            ? attempt->gateway != actor || attempt->gateway_life != life_of(oracle, actor)
            : !opening_at(oracle, attempt, actor)) {
        world_violate(oracle->world, "causal: %s hears %s of %s from %s before it was opened there",
                      ledger_name(oracle, actor), message_table.rows[envelope->id].name,
                      ledger_title(attempt), ledger_name(oracle, envelope->from));
        return;
    }
    if (envelope->id == MESSAGE_abort)
        on_abort(oracle, attempt, actor);
    else
        on_answer(oracle, attempt, actor, envelope);
}

/* ---- said ------------------------------------------------------------------------------------ */

/* Whom this actor has opened it at, and who may still be at it there: he must be told. */
static void pass_on(oracle_t *oracle, ledger_attempt_t *attempt, actor_id_t actor,
                    ledger_place_t place)
{
    ledger_opening_t *next = &attempt->openings[place];

    if (next->opener_life == 0 || !is_opener(oracle, next, actor) || next->busy ||
        next->told_fenced || (place == AT_DECODE && next->told_end))
        return;
    next->pass_due = true;
    due(oracle, attempt);
}

static void on_end(oracle_t *oracle, ledger_attempt_t *attempt, actor_id_t actor,
                   const message_end_t *m)
{
    ledger_opening_t *opening = opening_at(oracle, attempt, actor);

    if (!opening || opening->busy || opening->fenced)
        world_violate(oracle->world, "end: %s says END of %s, which it does not have",
                      ledger_name(oracle, actor), ledger_title(attempt));
    else if (opening->handed)
        world_violate(oracle->world, "end: %s says END of %s, which %s runs",
                      ledger_name(oracle, actor), ledger_title(attempt),
                      ledger_name(oracle, attempt->openings[AT_DECODE].opened));
    else if (opening->ended)
        world_violate(oracle->world, "end: %s says END of %s a second time",
                      ledger_name(oracle, actor), ledger_title(attempt));
    if (!opening)
        return;
    if (m->reason == END_RETRACTED && opening == &attempt->openings[AT_DECODE])
        judge_retraction(oracle, attempt, actor);
    opening->ended = true;
    pass_on(oracle, attempt, actor,
            opening == &attempt->openings[AT_PREFILL] ? AT_DECODE : AT_TRANSFER);
}

/* Why this actor may not say FENCED yet, or NULL. */
static const char *still_moving(const oracle_t *oracle, const ledger_attempt_t *attempt,
                                const ledger_opening_t *opening)
{
    const ledger_opening_t *all = attempt->openings;
    const ledger_opening_t *next = NULL;

    if (opening == &all[AT_TRANSFER] || opening == &all[AT_SOURCE])
        return attempt->pulling ? "a rank that pulls for it" : NULL;
    if (opening == &all[AT_PREFILL] && all[AT_DECODE].opener_life && !all[AT_DECODE].busy &&
        !all[AT_DECODE].told_fenced && !opening->handed)
        next = &all[AT_DECODE];
    else if (opening == &all[AT_PREFILL] && all[AT_SOURCE].heard && !all[AT_SOURCE].told_fenced)
        next = &all[AT_SOURCE];
    else if (opening == &all[AT_DECODE] && all[AT_TRANSFER].opener_life &&
             !all[AT_TRANSFER].told_fenced)
        next = &all[AT_TRANSFER];
    if (next && ledger_lives(oracle, next->opened, next->opened_life))
        return ledger_name(oracle, next->opened);
    return ledger_group_busy(oracle, opening);
}

static void on_fenced(oracle_t *oracle, ledger_attempt_t *attempt, actor_id_t actor, actor_id_t to)
{
    ledger_opening_t *opening = opening_at(oracle, attempt, actor);
    const char *busy;

    if (opening == &attempt->openings[AT_TRANSFER] && ledger_kind(oracle, to) == ACTOR_PREFILL)
        opening = &attempt->openings[AT_SOURCE];
    if (!opening || opening->busy || !opening->heard) {
        world_violate(oracle->world, "fence: %s says FENCED of %s, which it does not have",
                      ledger_name(oracle, actor), ledger_title(attempt));
        return;
    }
    if (opening->fenced)
        world_violate(oracle->world, "fence: %s says FENCED of %s to %s a second time",
                      ledger_name(oracle, actor), ledger_title(attempt), ledger_name(oracle, to));
    if (ledger_kind(oracle, actor) != ACTOR_TRANSFER && !opening->ended)
        world_violate(oracle->world, "fence: %s says FENCED of %s before its END",
                      ledger_name(oracle, actor), ledger_title(attempt));
    busy = still_moving(oracle, attempt, opening);
    if (busy)
        world_violate(oracle->world, "fence: %s says FENCED of %s, and %s is not done with it",
                      ledger_name(oracle, actor), ledger_title(attempt), busy);
    opening->fenced = true;
    ledger_page_release(oracle, opening);
}

static void on_pull(oracle_t *oracle, actor_id_t actor, actor_id_t to, const message_pull_t *m)
{
    ledger_attempt_t *attempt = ledger_attempt(oracle, m->request, m->attempt);
    const ledger_opening_t *opening = opening_at(oracle, attempt, actor);
    const ledger_actor_t *rank = &oracle->actors[to];

    if (!opening || opening->fenced)
        world_violate(oracle->world, "causal: %s has %s pull for %s, which it does not have",
                      ledger_name(oracle, actor), ledger_name(oracle, to), ledger_title(attempt));
    if (rank->lives && rank->epoch == m->epoch &&
        sim_stream(oracle->sim, actor, to)->peer_incarnation == rank->life)
        attempt->pulling |= UINT64_C(1) << rank->rank;
}

/* What may only follow an answer. */
static void judge_order(oracle_t *oracle, const ledger_attempt_t *attempt, actor_id_t actor,
                        uint16_t id)
{
    const ledger_opening_t *next =
        &attempt->openings[id == MESSAGE_kv_ready ? AT_DECODE : AT_TRANSFER];

    if (!is_opener(oracle, next, actor) || !next->reserved)
        world_violate(oracle->world, "causal: %s says %s of %s before it has heard %s",
                      ledger_name(oracle, actor), message_table.rows[id].name,
                      ledger_title(attempt), id == MESSAGE_kv_ready ? "RESERVED" : "OPENED");
}

static void on_kv_answer(oracle_t *oracle, ledger_attempt_t *attempt, actor_id_t actor,
                         actor_id_t to, const message_kv_answer_t *m)
{
    ledger_opening_t *source = &attempt->openings[AT_SOURCE];

    if (!m->taken || source->heard)
        return;
    *source =
        (ledger_opening_t){.opener = to,
                           .opened = actor,
                           .opener_life = sim_stream(oracle->sim, actor, to)->peer_incarnation,
                           .opened_life = life_of(oracle, actor),
                           .heard = true,
                           .ended = true};
}

static void on_route(oracle_t *oracle, actor_id_t actor, const message_route_t *m)
{
    ledger_attempt_t *attempt = ledger_attempt(oracle, m->request, m->attempt);

    attempt->gateway = actor;
    attempt->gateway_life = life_of(oracle, actor);
    attempt->seniority = m->seniority;
}

static void about_attempt(oracle_t *oracle, ledger_attempt_t *attempt, actor_id_t actor,
                          actor_id_t to, uint16_t id, const void *body)
{
    ledger_opening_t *opening = opening_at(oracle, attempt, actor);

    switch (id) {
    case MESSAGE_submit:
        open_said(oracle, attempt, AT_PREFILL, actor, to);
        attempt->openings[AT_PREFILL].decode = ((const message_submit_t *)body)->decode;
        keep_prompt(attempt, body);
        break;
    case MESSAGE_reserve:
        judge_turn(oracle, attempt, actor, to);
        open_said(oracle, attempt, AT_DECODE, actor, to);
        break;
    case MESSAGE_open:
        open_said(oracle, attempt, AT_TRANSFER, actor, to);
        break;
    case MESSAGE_reserved:
    case MESSAGE_kv_ready:
        judge_order(oracle, attempt, actor, id);
        break;
    case MESSAGE_kv_answer:
        on_kv_answer(oracle, attempt, actor, to, body);
        break;
    case MESSAGE_busy:
        if (opening)
            opening->busy = true;
        break;
    case MESSAGE_abort:
        for (int place = 0; place < LEDGER_PLACES; place++)
            if (attempt->openings[place].opened == to)
                attempt->openings[place].pass_due = false;
        break;
    case MESSAGE_end:
        on_end(oracle, attempt, actor, body);
        break;
    case MESSAGE_fenced:
        on_fenced(oracle, attempt, actor, to);
        break;
    default:
        break;
    }
}

void ledger_attempt_said(oracle_t *oracle, actor_id_t actor, actor_id_t to, uint16_t id,
                         const void *body)
{
    const message_busy_t *name = body;

    if (id == MESSAGE_route)
        on_route(oracle, actor, body);
    else if (id == MESSAGE_pull)
        on_pull(oracle, actor, to, body);
    else if (message_table.rows[id].scope == SCOPE_ATTEMPT)
        about_attempt(oracle, ledger_attempt(oracle, name->request, name->attempt), actor, to, id,
                      body);
}

/* ---- what is due ----------------------------------------------------------------------------- */

void ledger_attempt_settle(oracle_t *oracle)
{
    while (oracle->pending_first != LEDGER_NOBODY) {
        ledger_attempt_t *attempt = &oracle->attempts[oracle->pending_first];

        oracle->pending_first = attempt->next_pending;
        attempt->pending = false;
        for (int place = 0; place < LEDGER_PLACES; place++) {
            ledger_opening_t *opening = &attempt->openings[place];

            if (opening->end_due && !opening->ended && !is_orphan(oracle, attempt, opening) &&
                ledger_lives(oracle, opening->opened, opening->opened_life))
                world_violate(oracle->world, "abort: %s hears ABORT of %s and does not end it",
                              ledger_name(oracle, opening->opened), ledger_title(attempt));
            if (opening->pass_due &&
                ledger_reaches(oracle, opening->opener, opening->opened, opening->opened_life))
                world_violate(oracle->world, "abort: %s ends %s and does not tell %s",
                              ledger_name(oracle, opening->opener), ledger_title(attempt),
                              ledger_name(oracle, opening->opened));
            opening->end_due = opening->pass_due = false;
        }
    }
}

static bool holds(const ledger_opening_t *opening, unit_kind_t kind, uint32_t number)
{
    bool found = kind == UNIT_SLOT && opening->slot_taken && opening->slot == number;

    for (uint32_t i = 0; kind == UNIT_HISTORY && i < opening->page_count; i++)
        found |= opening->pages[i] == number;
    return found;
}

void ledger_attempt_bury(oracle_t *oracle, const ledger_group_t *group, unit_kind_t kind,
                         uint32_t number)
{
    for (uint32_t i = 0; i < oracle->attempt_count; i++) {
        const ledger_attempt_t *attempt = &oracle->attempts[i];
        ledger_opening_t *opening = &oracle->attempts[i].openings[group->place];

        if (opening->opened == group->leader && opening->epoch == group->epoch &&
            holds(opening, kind, number) && is_orphan(oracle, attempt, opening) &&
            !still_moving(oracle, attempt, opening)) {
            opening->fenced = true;
            ledger_page_release(oracle, opening);
        }
    }
}

void ledger_attempt_rank_left(oracle_t *oracle, actor_id_t rank)
{
    const ledger_group_t *group = oracle->actors[rank].group;

    for (uint32_t i = 0; i < oracle->attempt_count; i++)
        if (oracle->attempts[i].openings[AT_DECODE].opened == group->leader)
            oracle->attempts[i].pulling &= ~(UINT64_C(1) << oracle->actors[rank].rank);
}

void ledger_attempt_close(oracle_t *oracle)
{
    for (uint32_t i = 0; i < oracle->attempt_count; i++) {
        const ledger_attempt_t *attempt = &oracle->attempts[i];

        for (int place = 0; place < LEDGER_PLACES; place++) {
            const ledger_opening_t *opening = &attempt->openings[place];

            if (!opening->heard || opening->busy || is_orphan(oracle, attempt, opening) ||
                !ledger_lives(oracle, opening->opened, opening->opened_life))
                continue;
            if (!opening->ended && place <= AT_DECODE)
                world_violate(oracle->world, "end: %s never ended %s, opened by %s",
                              ledger_name(oracle, opening->opened), ledger_title(attempt),
                              ledger_name(oracle, opening->opener));
            if (!opening->fenced)
                world_violate(oracle->world, "fence: %s never said FENCED of %s to %s",
                              ledger_name(oracle, opening->opened), ledger_title(attempt),
                              ledger_name(oracle, opening->opener));
        }
    }
}
