/* ledger_stream.c - lives, and what is under way between two of them. */
#include <stdlib.h>
#include <string.h>

#include "sim/ledger.h"

enum { RING_AT_FIRST = 16 };

/* A word of a list. */
static bool names(const char *list, const char *word)
{
    size_t bytes = strlen(word);

    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[bytes] == ' ' || at[bytes] == '\0'))
            return true;
    return false;
}

/* ---- lives ----------------------------------------------------------------------------------- */

void ledger_stream_lived(oracle_t *oracle, actor_id_t id, bool begins)
{
    ledger_actor_t *actor = &oracle->actors[id];
    incarnation_t life = sim_incarnation(oracle->sim, id);

    if (begins && (actor->lives || life <= actor->life))
        world_violate(oracle->world, "life: %s begins life %u, and life %u %s",
                      ledger_name(oracle, id), life, actor->life,
                      actor->lives ? "has not ended" : "was before it");
    actor->lives = begins;
    actor->life = life;
    actor->epoch = actor->device_epoch = actor->device_seq = 0;
    memset(&oracle->met[id * oracle->actor_count], 0, oracle->actor_count * sizeof(*oracle->met));
    if (actor->group && actor->group->leader != id)
        ledger_attempt_rank_left(oracle, id);
}

static void on_joined(oracle_t *oracle, actor_id_t actor, const message_joined_t *m)
{
    incarnation_t *met = &oracle->met[actor * oracle->actor_count + m->actor];

    if (*met != 0)
        world_violate(oracle->world, "life: %s hears JOINED of %s, life %u, within life %u",
                      ledger_name(oracle, actor), ledger_name(oracle, m->actor), m->incarnation,
                      *met);
    *met = m->incarnation;
}

static void on_exited(oracle_t *oracle, actor_id_t actor, const message_exited_t *m)
{
    incarnation_t *met = &oracle->met[actor * oracle->actor_count + m->actor];

    if (*met != m->incarnation)
        world_violate(oracle->world, "life: %s hears EXITED of %s, life %u, and had met life %u",
                      ledger_name(oracle, actor), ledger_name(oracle, m->actor), m->incarnation,
                      *met);
    if (ledger_lives(oracle, m->actor, m->incarnation))
        world_violate(oracle->world, "life: %s hears EXITED of %s, life %u, which lives",
                      ledger_name(oracle, actor), ledger_name(oracle, m->actor), m->incarnation);
    *met = 0;
}

void ledger_stream_heard(oracle_t *oracle, actor_id_t actor, const envelope_t *envelope)
{
    if (envelope->from < oracle->actor_count &&
        oracle->met[actor * oracle->actor_count + envelope->from] != envelope->incarnation)
        world_violate(oracle->world, "life: %s hears %s of %s, life %u, and has met life %u",
                      ledger_name(oracle, actor), message_table.rows[envelope->id].name,
                      ledger_name(oracle, envelope->from), envelope->incarnation,
                      oracle->met[actor * oracle->actor_count + envelope->from]);
    if (envelope->id == MESSAGE_joined)
        on_joined(oracle, actor, envelope->body);
    else if (envelope->id == MESSAGE_reaped) /* a supervisor tells EXITED, and hears none */
        oracle
            ->met[actor * oracle->actor_count + ((const message_reaped_t *)envelope->body)->actor] =
            0;
    else if (envelope->id == MESSAGE_exited)
        on_exited(oracle, actor, envelope->body);
}

void ledger_stream_open(oracle_t *oracle)
{
    for (uint32_t reply = 0; reply < MESSAGE_COUNT; reply++)
        for (uint16_t id = 0; id < MESSAGE_COUNT && message_table.rows[reply].name; id++) {
            const message_row_t *row = &message_table.rows[id];
            ledger_payers_t *payers = &oracle->payers[reply];

            if (!row->name || row->class != MESSAGE_REQUEST ||
                !names(message_table.rows[reply].answers, row->name))
                continue;
            ASSERT(payers->count < LEDGER_PAYERS_MAX);
            payers->ids[payers->count++] = id;
        }
}

/* ---- credit ---------------------------------------------------------------------------------- */

static ledger_pair_t *pair_of(oracle_t *oracle, actor_id_t from, actor_id_t to)
{
    ledger_pair_t **pair = &oracle->pairs[from * oracle->actor_count + to];

    if (!*pair)
        *pair = calloc(1, sizeof(**pair));
    ASSERT(*pair != NULL);
    return *pair;
}

static void forget(ledger_pair_t *pair, incarnation_t from_life, incarnation_t to_life)
{
    pair->from_life = from_life;
    pair->to_life = to_life;
    pair->first = pair->count = pair->requests = 0;
    memset(pair->states, 0, sizeof(pair->states));
    memset(pair->said, 0, sizeof(pair->said));
}

static void append(ledger_pair_t *pair, ledger_message_t message)
{
    if (pair->count == pair->size) {
        uint32_t size = pair->size ? 2 * pair->size : RING_AT_FIRST;
        ledger_message_t *ring = malloc(size * sizeof(*ring));

        ASSERT(ring != NULL);
        for (uint32_t i = 0; i < pair->count; i++)
            ring[i] = pair->ring[(pair->first + i) % pair->size];
        free(pair->ring);
        pair->ring = ring;
        pair->size = size;
        pair->first = 0;
    }
    pair->ring[(pair->first + pair->count++) % pair->size] = message;
    pair->requests += message.is_request;
}

static void acknowledge(ledger_pair_t *pair, uint64_t acked)
{
    while (pair->count > 0 && pair->ring[pair->first].seq <= acked) {
        pair->requests -= pair->ring[pair->first].is_request;
        pair->first = (pair->first + 1) % pair->size;
        pair->count--;
    }
}

static void judge_credit(oracle_t *oracle, const stream_t *stream, const ledger_pair_t *pair)
{
    if (pair->requests != stream->requests_out)
        world_violate(oracle->world, "credit: %s has %u requests under way to %s and counts %u",
                      ledger_name(oracle, stream->birth.self), pair->requests,
                      ledger_name(oracle, stream->birth.peer), stream->requests_out);
    if (pair->requests > stream->credit_messages)
        world_violate(oracle->world, "credit: %s has %u requests under way to %s, which granted %u",
                      ledger_name(oracle, stream->birth.self), pair->requests,
                      ledger_name(oracle, stream->birth.peer), stream->credit_messages);
}

/* Messages of the kinds that pay for this reply, from either side: an opener pays for its own ABORT,
 * and for one more, when TOKENS come that crossed it. */
static uint32_t paid_for(const oracle_t *oracle, const ledger_pair_t *pair, actor_id_t actor,
                         actor_id_t to, uint16_t reply)
{
    const ledger_pair_t *back = oracle->pairs[to * oracle->actor_count + actor];
    bool is_back = back && back->from_life == pair->to_life && back->to_life == pair->from_life;
    uint32_t paid = 0;

    for (uint32_t i = 0; i < oracle->payers[reply].count; i++) {
        uint16_t id = oracle->payers[reply].ids[i];

        paid += pair->said[id] + (is_back ? back->said[id] : 0);
    }
    return reply == MESSAGE_abort ? 2 * paid : paid;
}

/* Decode answers a gateway for prefill's RESERVE. */
static bool is_handed_over(const oracle_t *oracle, actor_id_t a, actor_id_t b)
{
    actor_kind_t kinds[2] = {ledger_kind(oracle, a), ledger_kind(oracle, b)};

    return (kinds[0] == ACTOR_DECODE && kinds[1] == ACTOR_GATEWAY) ||
           (kinds[0] == ACTOR_GATEWAY && kinds[1] == ACTOR_DECODE);
}

void ledger_stream_said(oracle_t *oracle, actor_id_t actor, actor_id_t to, uint16_t id)
{
    const stream_t *stream = sim_stream(oracle->sim, actor, to);
    ledger_pair_t *pair = pair_of(oracle, actor, to);
    const message_row_t *row = &message_table.rows[id];
    uint64_t seq = stream->out_next - 1;

    if (pair->to_life != stream->peer_incarnation || pair->from_life != oracle->actors[actor].life)
        forget(pair, oracle->actors[actor].life, stream->peer_incarnation);
    acknowledge(pair, stream->out_acked);
    append(pair, (ledger_message_t){seq, row->class == MESSAGE_REQUEST});
    pair->said[id]++;
    if (row->class == MESSAGE_REPLY && !is_handed_over(oracle, actor, to) &&
        pair->said[id] > paid_for(oracle, pair, actor, to, id))
        world_violate(oracle->world, "bound: %s says %s to %s %u times, and was paid for %u",
                      ledger_name(oracle, actor), row->name, ledger_name(oracle, to),
                      pair->said[id], paid_for(oracle, pair, actor, to, id));
    if (row->class == MESSAGE_REQUEST)
        judge_credit(oracle, stream, pair);
    if (row->class != MESSAGE_STATE)
        return;
    if (pair->states[id] > stream->out_acked)
        world_violate(oracle->world, "bound: %s has two %s under way to %s",
                      ledger_name(oracle, actor), row->name, ledger_name(oracle, to));
    pair->states[id] = seq;
}

void ledger_stream_close(oracle_t *oracle)
{
    for (uint32_t from = 0; from < oracle->actor_count; from++)
        for (uint32_t to = 0; to < oracle->actor_count; to++) {
            ledger_pair_t *pair = oracle->pairs[from * oracle->actor_count + to];
            const stream_t *stream = sim_stream(oracle->sim, (actor_id_t)from, (actor_id_t)to);

            if (!pair || !stream || pair->from_life != oracle->actors[from].life ||
                pair->to_life != stream->peer_incarnation)
                continue;
            acknowledge(pair, stream->out_acked);
            judge_credit(oracle, stream, pair);
        }
}
