#include "sim/coverage.h"

#include <string.h>

#include "actors/types.h"
#include "messages/message.h"

/* Pairs that take a peer which breaks the protocol, or something that no simulated run has: `messages` and
 * `states` are words, NULL is any state. Tests of tests/actors/ and the hostile peer of tests/e2e/ try those. */
typedef struct {
    uint32_t kinds;
    const char *messages;
    const char *states;
    const char *why;
} explained_t;

static const explained_t explained[] = {
    {BIT(ACTOR_SUPERVISOR), "mailboxes", NULL, "supervisors do not ask for them"},
    {BIT(ACTOR_SUPERVISOR), "drain kill joined exited incident", "stopped",
     "its process is about to end"},
    {BIT(ACTOR_SUPERVISOR), "reaped stalled", "stopped", "no child is left"},
    {BIT(ACTOR_SCHEDULER) | BIT(ACTOR_PREFILL) | BIT(ACTOR_DECODE) | BIT(ACTOR_RANK) |
         BIT(ACTOR_TRANSFER) | BIT(ACTOR_MONITOR),
     "stop", NULL, "only supervisors and gateways are told; others are signalled"},
    {BIT(ACTOR_MONITOR), "watch", NULL, "asked by tools from outside"},
    {BIT(ACTOR_MONITOR), "figures", NULL, "they are in shared memory"},
    {BIT(ACTOR_MONITOR), "pair", NULL, "decode groups tell prefill groups only"},

    {BIT(ACTOR_GATEWAY), "stop", "closing", "a supervisor says it once"},
    {BIT(ACTOR_GATEWAY), "busy", NULL, "it takes 1,024 attempts at one prefill group"},
    {BIT(ACTOR_GATEWAY), "routed", "queued routed prefill decode ending",
     "one answer to each ROUTE"},
    {BIT(ACTOR_GATEWAY), "tokens end fenced", "queued routing routed", "nothing was submitted"},
    {BIT(ACTOR_GATEWAY), "end", "ending", "END comes once"},

    {BIT(ACTOR_PREFILL) | BIT(ACTOR_DECODE), "rank_join", "ready",
     "EXITED of its last life comes before"},
    {BIT(ACTOR_PREFILL) | BIT(ACTOR_DECODE), "quiesced", "ready",
     "said once an epoch, and the last one makes it ready"},
    {BIT(ACTOR_PREFILL) | BIT(ACTOR_DECODE), "step_done", "drained",
     "no step is in flight without an attempt"},

    {BIT(ACTOR_PREFILL), "submit", "queued reserving prefilling handing ending",
     "one SUBMIT an attempt"},
    {BIT(ACTOR_PREFILL), "busy reserved", "none queued prefilling handing",
     "one answer to RESERVE"},
    {BIT(ACTOR_PREFILL), "running", "none queued reserving prefilling",
     "it follows the last piece"},
    {BIT(ACTOR_PREFILL), "end fenced", "none queued", "decode has nothing open"},
    {BIT(ACTOR_PREFILL), "fenced", "reserving", "decode says END before, and no piece was sent"},
    {BIT(ACTOR_PREFILL), "kv_answer", "queued reserving", "no piece was sent"},

    {BIT(ACTOR_DECODE), "reserve", "opening landing running ending", "one RESERVE an attempt"},
    {BIT(ACTOR_DECODE), "opened", "none landing running", "the transfer's first word"},
    {BIT(ACTOR_DECODE), "landed", "none running", "LANDED comes once, before FENCED"},
    {BIT(ACTOR_DECODE), "landed", "opening", "it takes 2,048 attempts at one transfer"},
    {BIT(ACTOR_DECODE), "fenced", "none opening landing", "the transfer's last word"},

    {BIT(ACTOR_RANK), "rank_joined", "loading waiting leaving stepping", "one answer to RANK_JOIN"},
    {BIT(ACTOR_RANK), "reform", "loading joining", "it has not joined"},
    {BIT(ACTOR_RANK), "step", "loading joining waiting leaving", "steps follow QUIESCED"},
    {BIT(ACTOR_RANK), "step_done", "loading waiting", "its device has no step"},
    {BIT(ACTOR_RANK), "peer_pool", "loading joining waiting leaving",
     "decode asks when all ranks have left"},
    {BIT(ACTOR_RANK), "fence_copies tick joined exited pull pull_cancel", "waiting",
     "REFORM stands behind RANK_JOINED in its frame"},
    {BIT(ACTOR_RANK), "pull_cancel", "loading", "it has answered what was pulled"},
    {BIT(ACTOR_RANK), "fence_copies", "loading joining", "decode asks ranks that have joined"},
    {BIT(ACTOR_RANK), "device_ready", "joining waiting leaving stepping", "a device says it once"},
    {BIT(ACTOR_RANK), "device_quiesced", "loading waiting stepping", "its device leaves nothing"},
    {BIT(ACTOR_RANK), "device_copied", "loading waiting", "its device has no copy"},
    {BIT(ACTOR_RANK), "device_mapped", "loading waiting", "its device maps nothing"},

    {BIT(ACTOR_TRANSFER), "open", "waiting moving draining", "one OPEN an attempt"},
    {BIT(ACTOR_TRANSFER), "pulled", "waiting", "it has ordered nothing"},
};

/* ---- counting -------------------------------------------------------------------------------- */

void coverage_note_fault(coverage_t *coverage, const story_fault_t *fault, world_t *world)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; i < world_client_count(world); i++)
        if (fault->kind != FAULT_abort || fault->request == i + 1)
            seen |= BIT(phase_of(world, i));
    for (uint32_t phase = 0; phase < PHASE_COUNT; phase++)
        coverage->faults[fault->kind][phase] += (seen >> phase) & 1;
}

void coverage_add(coverage_t *to, const coverage_t *from)
{
    for (uint32_t kind = 0; kind < ACTOR_KIND_COUNT; kind++)
        for (uint32_t state = 0; state < ACTOR_STATES_MAX; state++)
            for (uint32_t id = 0; id < MESSAGES_MAX; id++) {
                to->met[kind].actor[state][id] += from->met[kind].actor[state][id];
                to->met[kind].attempts[state][id] += from->met[kind].attempts[state][id];
            }
    for (uint32_t fault = 0; fault < FAULT_COUNT; fault++)
        for (uint32_t phase = 0; phase < PHASE_COUNT; phase++)
            to->faults[fault][phase] += from->faults[fault][phase];
}

/* ---- pairs ----------------------------------------------------------------------------------- */

typedef struct {
    actor_kind_t kind;
    bool is_attempt; /* the state is an attempt's */
    uint8_t state;
    uint16_t message;
    uint32_t count;
} pair_t;

typedef void pair_visit_t(void *context, const pair_t *pair);

/* Every pair that can be dispatched at an actor of this kind. */
static void each_pair(const coverage_t *coverage, actor_kind_t kind, pair_visit_t *visit,
                      void *context)
{
    const actor_type_t *type = actor_type_of(kind);

    for (uint16_t id = 0; type && id < message_table.count; id++) {
        const message_row_t *row = &message_table.rows[id];
        bool is_attempt = row->scope != SCOPE_ACTOR && type->attempt_state;
        const actor_table_t *table = is_attempt ? &type->attempts : &type->table;

        if (!row->name || !(row->to & BIT(kind)))
            continue;
        for (uint8_t state = 0; state < table->state_count; state++) {
            const dispatch_met_t *met = &coverage->met[kind];
            pair_t pair = {kind, is_attempt, state, id,
                           is_attempt ? met->attempts[state][id] : met->actor[state][id]};

            visit(context, &pair);
        }
    }
}

static const char *state_name(const pair_t *pair)
{
    const actor_type_t *type = actor_type_of(pair->kind);

    return (pair->is_attempt ? &type->attempts : &type->table)->state_names[pair->state];
}

static bool has_word(const char *words, const char *word)
{
    size_t bytes = strlen(word);

    for (const char *at = words; (at = strstr(at, word)); at += bytes)
        if ((at == words || at[-1] == ' ') && (!at[bytes] || at[bytes] == ' '))
            return true;
    return false;
}

static bool explains(const explained_t *row, const pair_t *pair)
{
    return row->kinds & BIT(pair->kind) &&
           has_word(row->messages, message_table.rows[pair->message].name) &&
           (!row->states || has_word(row->states, state_name(pair)));
}

static const char *why_not(const pair_t *pair)
{
    for (uint32_t i = 0; i < COUNT_OF(explained); i++)
        if (explains(&explained[i], pair))
            return explained[i].why;
    return NULL;
}

typedef struct {
    const explained_t *row;
    uint32_t pairs;
} tally_t;

static void tally_pair(void *context, const pair_t *pair)
{
    tally_t *tally = context;

    tally->pairs += explains(tally->row, pair);
}

static uint32_t count_words(const char *words)
{
    uint32_t count = 1;

    for (; *words; words++)
        count += *words == ' ';
    return count;
}

const char *coverage_stale_row(void)
{
    static coverage_t nothing;

    for (uint32_t i = 0; i < COUNT_OF(explained); i++) {
        const explained_t *row = &explained[i];
        tally_t tally = {.row = row};

        for (actor_kind_t kind = 0; kind < ACTOR_KIND_COUNT; kind++)
            each_pair(&nothing, kind, tally_pair, &tally);
        if (tally.pairs < (uint32_t)__builtin_popcount(row->kinds) * count_words(row->messages) *
                              (row->states ? count_words(row->states) : 1))
            return row->messages;
    }
    return NULL;
}

static void sum_pair(void *context, const pair_t *pair)
{
    coverage_sum_t *sum = context;

    sum->pairs++;
    sum->reached += pair->count > 0;
    sum->explained += pair->count == 0 && why_not(pair);
    sum->contradicted += pair->count > 0 && why_not(pair);
}

coverage_sum_t coverage_of_kind(const coverage_t *coverage, actor_kind_t kind)
{
    coverage_sum_t sum = {0};

    each_pair(coverage, kind, sum_pair, &sum);
    return sum;
}

/* One that starts late struck before anybody came; who has not come or has ended cannot leave. */
static const char *why_not_struck(fault_kind_t fault, phase_t phase)
{
    if (fault == FAULT_late && phase != PHASE_coming)
        return "it strikes before the first request";
    if (fault == FAULT_abort && (phase == PHASE_coming || phase == PHASE_ended))
        return "there is nothing to leave";
    return NULL;
}

coverage_sum_t coverage_of_faults(const coverage_t *coverage)
{
    coverage_sum_t sum = {0};

    for (fault_kind_t fault = 0; fault < FAULT_COUNT; fault++)
        for (phase_t phase = 0; phase < PHASE_COUNT; phase++) {
            bool reached = coverage->faults[fault][phase] > 0;

            sum.pairs++;
            sum.reached += reached;
            sum.explained += !reached && why_not_struck(fault, phase);
        }
    return sum;
}

/* ---- report ---------------------------------------------------------------------------------- */

static void print_missed(void *context, const pair_t *pair)
{
    FILE *out = context;
    const char *why = why_not(pair);

    if (pair->count > 0 && why)
        fprintf(out, "  REACHED %s %s%s x %s, %u times, though: %s\n", actor_kind_word(pair->kind),
                pair->is_attempt ? "attempt " : "", state_name(pair),
                message_table.rows[pair->message].name, pair->count, why);
    if (pair->count == 0)
        fprintf(out, "  %s %s%s x %s%s%s%s\n", actor_kind_word(pair->kind),
                pair->is_attempt ? "attempt " : "", state_name(pair),
                message_table.rows[pair->message].name, why ? " (" : "", why ? why : "",
                why ? ")" : "");
}

static void print_sum(const char *name, coverage_sum_t sum, FILE *out)
{
    fprintf(out, "%-12s %4u pairs, %4u reached, %4u explained, %4u missed\n", name, sum.pairs,
            sum.reached, sum.explained, sum.pairs - sum.reached - sum.explained);
}

void coverage_print(const coverage_t *coverage, FILE *out)
{
    fprintf(
        out,
        "coverage: pairs of a state and a message by kind of actor, and of a fault and the phase "
        "of a request\n");
    for (actor_kind_t kind = 0; kind < ACTOR_KIND_COUNT; kind++)
        if (actor_type_of(kind))
            print_sum(actor_kind_word(kind), coverage_of_kind(coverage, kind), out);
    print_sum("faults", coverage_of_faults(coverage), out);
    fprintf(out, "never reached:\n");
    for (actor_kind_t kind = 0; kind < ACTOR_KIND_COUNT; kind++)
        each_pair(coverage, kind, print_missed, out);
    for (fault_kind_t fault = 0; fault < FAULT_COUNT; fault++)
        for (phase_t phase = 0; phase < PHASE_COUNT; phase++) {
            const char *why = why_not_struck(fault, phase);

            if (coverage->faults[fault][phase] == 0)
                fprintf(out, "  fault %s x request %s%s%s%s\n", fault_names[fault],
                        phase_names[phase], why ? " (" : "", why ? why : "", why ? ")" : "");
        }
}
