/* ledger_group.c - steps and epochs of a group, and what may be published of them. */
#include "sim/ledger.h"
#include "runtime/base/random.h"

static ledger_group_t *led_by(const oracle_t *oracle, actor_id_t actor)
{
    ledger_group_t *group = oracle->actors[actor].group;

    return group && group->leader == actor ? group : NULL;
}

/* The rank `actor` of a group, or NULL. */
static ledger_actor_t *rank_of(const oracle_t *oracle, actor_id_t actor)
{
    ledger_actor_t *rank = actor < oracle->actor_count ? &oracle->actors[actor] : NULL;

    return rank && rank->group && rank->group->leader != actor ? rank : NULL;
}

static uint64_t all_ranks(const ledger_group_t *group)
{
    return group->rank_count == 64 ? UINT64_MAX : (UINT64_C(1) << group->rank_count) - 1;
}

/* The name of the lowest rank among these bits. */
static const char *rank_name(const oracle_t *oracle, const ledger_group_t *group, uint64_t ranks)
{
    return ledger_name(oracle, (actor_id_t)(group->leader + 1 + __builtin_ctzll(ranks)));
}

static void begin_epoch(ledger_group_t *group, uint64_t epoch)
{
    if (epoch <= group->epoch)
        return;
    group->epoch = epoch;
    group->left = group->seq = group->done_seq = 0;
    group->sending = false;
    for (uint32_t i = 0; i < LEDGER_STEPS; i++)
        group->steps[i].seq = 0;
    ledger_page_begin(group);
}

/* As a group's generations count epochs (amendment 7). */
static uint32_t pool_epoch(uint64_t epoch)
{
    return (uint32_t)(epoch >> 32 & 0xffff) << 16 | (uint32_t)(epoch & 0xffff);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t digest, uint64_t word)
{
    digest = (digest ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return digest ^ digest >> 32;
}

static uint64_t mix_words(uint64_t digest, const u32s_view_t *words)
{
    digest = mix(digest, words->count);
    for (uint32_t i = 0; i < words->count; i++)
        digest = mix(digest, words->data[i]);
    return digest;
}

/* All that a device acts by. */
static uint64_t digest_of(const message_step_t *m)
{
    uint64_t digest = mix(mix(m->epoch, m->seq), m->items.count);

    for (uint32_t i = 0; i < m->items.count; i++) {
        const record_step_item_t *item = &m->items.data[i];

        digest = mix(digest, (uint64_t)item->kind << 32 | item->slot);
        digest = mix(digest, (uint64_t)item->position << 32 | item->count);
        digest = mix(digest, (uint64_t)item->border << 32 | (uint64_t)(item->sample << 1) |
                                 (uint64_t)item->tail);
        digest = mix(mix(digest, item->slot_generation), item->sampling.seed);
        digest = mix_words(digest, &item->tokens);
        digest = mix_words(digest, &item->pages);
        digest = mix_words(digest, &item->border_targets);
        for (uint32_t k = 0; k < item->generations.count; k++)
            digest = mix(digest, item->generations.data[k]);
    }
    return digest;
}

static void on_item(oracle_t *oracle, ledger_group_t *group, const record_step_item_t *item,
                    ledger_item_t *kept)
{
    ledger_attempt_t *attempt = ledger_attempt(oracle, item->request, item->attempt);
    ledger_opening_t *opening = &attempt->openings[group->place];

    *kept = (ledger_item_t){.attempt = (uint32_t)(attempt - oracle->attempts),
                            .kind = item->kind,
                            .sample = item->sample,
                            .end = item->position + item->count};
    if (!opening->heard || opening->opened != group->leader || opening->fenced)
        world_violate(oracle->world, "causal: %s puts %s into step %llu, and does not have it",
                      ledger_name(oracle, group->leader), ledger_title(attempt),
                      (unsigned long long)group->seq);
    switch (item->kind) {
    case DEVICE_OPEN:
        ledger_page_take_slot(oracle, group, attempt, item->slot, item->slot_generation);
        ledger_page_take(oracle, group, attempt, 0, item->pages.data, item->generations.data,
                         item->pages.count);
        opening->slot_open = true;
        break;
    case DEVICE_EXTEND:
        ledger_page_take(oracle, group, attempt, opening->page_count, item->pages.data,
                         item->generations.data, item->pages.count);
        break;
    case DEVICE_LOAD:
        ledger_page_load(oracle, group, attempt, item);
        break;
    case DEVICE_RUN:
        ledger_page_run(oracle, group, attempt, item);
        break;
    default:
        opening->slot_open = false;
        break;
    }
    opening->last_seq = group->seq;
}

/* The first rank that gets it; `digest` is compared when the others do. */
static void new_step(oracle_t *oracle, ledger_group_t *group, const message_step_t *m)
{
    ledger_step_t *step = &group->steps[m->seq % LEDGER_STEPS];

    if (m->seq != group->seq + 1)
        world_violate(oracle->world, "order: %s sends step %llu behind step %llu",
                      ledger_name(oracle, group->leader), (unsigned long long)m->seq,
                      (unsigned long long)group->seq);
    if (group->left != all_ranks(group))
        world_violate(oracle->world, "epoch: %s sends step %llu before %s has left the old epoch",
                      ledger_name(oracle, group->leader), (unsigned long long)m->seq,
                      rank_name(oracle, group, all_ranks(group) & ~group->left));
    group->seq = m->seq;
    step->items = ledger_grow(step->items, &step->item_max, m->items.count, sizeof(*step->items));
    *step = (ledger_step_t){.seq = m->seq,
                            .digest = digest_of(m),
                            .item_count = m->items.count,
                            .item_max = step->item_max,
                            .items = step->items};
    for (uint32_t i = 0; i < m->items.count; i++)
        on_item(oracle, group, &m->items.data[i], &step->items[i]);
    group->sending = true;
    oracle->sender = group;
}

static void on_step_sent(oracle_t *oracle, ledger_group_t *group, actor_id_t to,
                         const message_step_t *m)
{
    ledger_step_t *step = &group->steps[m->seq % LEDGER_STEPS];
    uint64_t rank = UINT64_C(1) << (to - group->leader - 1);

    begin_epoch(group, m->epoch);
    if (!group->sending || group->seq != m->seq)
        new_step(oracle, group, m);
    else if (step->digest != digest_of(m))
        world_violate(oracle->world, "order: %s sends %s another step %llu than the ranks before",
                      ledger_name(oracle, group->leader), ledger_name(oracle, to),
                      (unsigned long long)m->seq);
    step->sent |= rank;
}

void ledger_group_settle(oracle_t *oracle)
{
    ledger_group_t *group = oracle->sender;
    const ledger_step_t *step = &group->steps[group->seq % LEDGER_STEPS];
    uint64_t missing = all_ranks(group) & ~step->sent;

    oracle->sender = NULL;
    if (group->sending && missing)
        world_violate(oracle->world, "order: %s sends step %llu, but not to %s",
                      ledger_name(oracle, group->leader), (unsigned long long)step->seq,
                      rank_name(oracle, group, missing));
    group->sending = false;
}

/* A rank gives its device what its leader has sent, and nothing else. */
static void on_step_given(oracle_t *oracle, actor_id_t actor, ledger_actor_t *rank,
                          const message_step_t *m)
{
    const ledger_step_t *step = &rank->group->steps[m->seq % LEDGER_STEPS];
    bool is_current = m->epoch == rank->group->epoch && step->seq == m->seq;

    if (m->epoch != rank->epoch)
        world_violate(oracle->world, "epoch: %s gives its device step %llu of another epoch",
                      ledger_name(oracle, actor), (unsigned long long)m->seq);
    if (m->seq != rank->device_seq + 1)
        world_violate(oracle->world, "order: %s gives its device step %llu behind step %llu",
                      ledger_name(oracle, actor), (unsigned long long)m->seq,
                      (unsigned long long)rank->device_seq);
    if (is_current && step->digest != digest_of(m))
        world_violate(oracle->world, "order: %s gives its device another step %llu than was sent",
                      ledger_name(oracle, actor), (unsigned long long)m->seq);
    rank->device_seq = m->seq;
}

/* All ranks have answered alike. */
static void complete(oracle_t *oracle, ledger_group_t *group, const ledger_step_t *step)
{
    for (uint32_t i = 0; i < step->item_count; i++) {
        const ledger_item_t *item = &step->items[i];
        ledger_attempt_t *attempt = &oracle->attempts[item->attempt];

        if (item->kind != DEVICE_RUN)
            continue;
        attempt->openings[group->place].drawn += item->sample;
        ledger_page_done(group, attempt, item->end);
    }
    group->done_seq = step->seq;
}

static void on_step_done(oracle_t *oracle, ledger_group_t *group, uint32_t rank,
                         const message_step_done_t *m)
{
    ledger_step_t *step = &group->steps[m->seq % LEDGER_STEPS];

    if (m->epoch != group->epoch || step->seq != m->seq || m->status != STATUS_OK)
        return;
    if (!step->done)
        step->result = m->result;
    if (step->result == m->result) /* or the group reforms, and nothing of it counts */
        step->done |= UINT64_C(1) << rank;
    for (step = &group->steps[(group->done_seq + 1) % LEDGER_STEPS];
         step->seq == group->done_seq + 1 && step->done == all_ranks(group);
         step = &group->steps[(group->done_seq + 1) % LEDGER_STEPS])
        complete(oracle, group, step);
}

const char *ledger_group_busy(const oracle_t *oracle, const ledger_opening_t *opening)
{
    const ledger_group_t *group = oracle->actors[opening->opened].group;
    const ledger_step_t *step = &group->steps[opening->last_seq % LEDGER_STEPS];
    bool is_current = opening->epoch == group->epoch;
    bool is_done = opening->last_seq == 0 || (is_current && opening->last_seq <= group->done_seq);

    for (uint32_t i = 0; i < group->rank_count && opening->epoch != 0; i++) {
        const ledger_actor_t *rank = &oracle->actors[group->leader + 1 + i];
        bool has_answered = is_current && step->seq == opening->last_seq && step->done >> i & 1;

        if (rank->lives && rank->epoch == opening->epoch &&
            ((!is_done && !has_answered) || opening->slot_open))
            return ledger_name(oracle, (actor_id_t)(group->leader + 1 + i));
    }
    return NULL;
}

/* ---- what is published ----------------------------------------------------------------------- */

/* Why step after `done_seq` is not complete. */
static const char *missing_rank(const oracle_t *oracle, const ledger_group_t *group)
{
    const ledger_step_t *step = &group->steps[(group->done_seq + 1) % LEDGER_STEPS];
    uint64_t missing = all_ranks(group) & ~step->done;

    return step->seq == group->done_seq + 1 && missing ? rank_name(oracle, group, missing)
                                                       : "any rank";
}

static void on_tokens(oracle_t *oracle, const ledger_group_t *group, const message_tokens_t *m)
{
    for (uint32_t i = 0; i < m->items.count; i++) {
        const record_tokens_item_t *item = &m->items.data[i];
        ledger_attempt_t *attempt = ledger_attempt(oracle, item->request, item->attempt);
        const ledger_opening_t *opening = &attempt->openings[group->place];
        /* Decode goes on behind what the client has, or behind prefill's token. */
        uint32_t before = group->place == AT_PREFILL ? 0 : attempt->forced ? attempt->forced : 1;

        if (item->first + item->tokens.count > before + opening->drawn)
            world_violate(oracle->world,
                          "publish: %s sends token %u of %s before %s has answered step %llu",
                          ledger_name(oracle, group->leader), item->first + item->tokens.count - 1,
                          ledger_title(attempt), missing_rank(oracle, group),
                          (unsigned long long)group->done_seq + 1);
    }
}

/* Pages that are whole, or all of the prompt: as all ranks agree on it. */
static void on_kv_ready(oracle_t *oracle, ledger_group_t *group, const message_kv_ready_t *m)
{
    ledger_attempt_t *attempt = ledger_attempt(oracle, m->request, m->attempt);

    begin_epoch(group, m->source_epoch);
    for (uint32_t i = 0; i < m->units.count - (m->last ? 1 : 0); i++)
        ledger_page_take(oracle, group, attempt, m->first_page + i, &m->units.data[i].index,
                         &m->units.data[i].generation, 1);
    if (ledger_page_is_ready(group, attempt, m->first_page, m->units.count, m->last))
        return;
    world_violate(oracle->world,
                  "publish: %s hands over page %u of %s before %s has answered step %llu",
                  ledger_name(oracle, group->leader), m->first_page, ledger_title(attempt),
                  missing_rank(oracle, group), (unsigned long long)group->done_seq + 1);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void judge_copy(oracle_t *oracle, actor_id_t actor, const ledger_actor_t *rank,
                       const record_pull_item_t *item)
{
    if ((uint32_t)(item->target_generation >> 32) != pool_epoch(rank->epoch))
        world_violate(
            oracle->world, "epoch: %s copies into %s %u for epoch %x, but says that it is in %x",
            ledger_name(oracle, actor), unit_kind_name((unit_kind_t)item->unit), item->target,
            (uint32_t)(item->target_generation >> 32), pool_epoch(rank->epoch));
}

void oracle_step_runs(oracle_t *oracle, actor_id_t actor, const message_step_t *m)
{
    const ledger_actor_t *rank = &oracle->actors[actor];

    if (m->epoch != rank->epoch)
        world_violate(oracle->world, "epoch: %s runs step %llu of an epoch that it has left",
                      ledger_name(oracle, actor), (unsigned long long)m->seq);
}

void oracle_unit_moved(oracle_t *oracle, actor_id_t actor, const record_pull_item_t *item)
{
    const ledger_actor_t *rank = &oracle->actors[actor];
    const ledger_unit_t *unit = &rank->group->units[item->unit][item->target];

    judge_copy(oracle, actor, rank, item);
    if (rank->epoch == rank->group->epoch &&
        (unit->holders == 0 || unit->generation != item->target_generation))
        world_violate(oracle->world, "late: %s writes %s %u, whose lease is over",
                      ledger_name(oracle, actor), unit_kind_name((unit_kind_t)item->unit),
                      item->target);
}

/* ---- heard and said -------------------------------------------------------------------------- */

void ledger_group_heard(oracle_t *oracle, actor_id_t actor, const envelope_t *envelope)
{
    ledger_group_t *group = led_by(oracle, actor);
    const ledger_actor_t *rank = rank_of(oracle, envelope->from);

    if (envelope->id == MESSAGE_device_quiesced)
        oracle->actors[actor].device_epoch =
            ((const message_device_quiesced_t *)envelope->body)->epoch;
    if (!group || !rank)
        return;
    if (envelope->id == MESSAGE_step_done)
        on_step_done(oracle, group, rank->rank, envelope->body);
    if (envelope->id == MESSAGE_quiesced &&
        ((const message_quiesced_t *)envelope->body)->epoch == group->epoch)
        group->left |= UINT64_C(1) << rank->rank;
}

static void leader_said(oracle_t *oracle, ledger_group_t *group, actor_id_t to, uint16_t id,
                        const void *body)
{
    if (id == MESSAGE_step)
        on_step_sent(oracle, group, to, body);
    else if (id == MESSAGE_reform)
        begin_epoch(group, ((const message_reform_t *)body)->epoch);
    else if (id == MESSAGE_tokens)
        on_tokens(oracle, group, body);
    else if (id == MESSAGE_kv_ready)
        on_kv_ready(oracle, group, body);
    else if (id == MESSAGE_open) {
        const message_open_t *m = body;
        ledger_attempt_t *attempt = ledger_attempt(oracle, m->request, m->attempt);

        begin_epoch(group, m->epoch);
        ledger_page_take_slot(oracle, group, attempt, m->slot, m->slot_generation);
        ledger_page_take(oracle, group, attempt, 0, m->pages.data, m->generations.data,
                         m->pages.count);
    }
}

static void on_quiesced_said(oracle_t *oracle, actor_id_t actor, ledger_actor_t *rank,
                             const message_quiesced_t *m)
{
    if (m->epoch != rank->device_epoch)
        world_violate(oracle->world,
                      "epoch: %s says QUIESCED before its device has left the old one",
                      ledger_name(oracle, actor));
    rank->epoch = m->epoch;
    rank->device_seq = 0;
    ledger_attempt_rank_left(oracle, actor);
}

static void rank_said(oracle_t *oracle, actor_id_t actor, ledger_actor_t *rank, uint16_t id,
                      const void *body)
{
    if (id == MESSAGE_step)
        on_step_given(oracle, actor, rank, body);
    else if (id == MESSAGE_quiesced)
        on_quiesced_said(oracle, actor, rank, body);
    else if (id == MESSAGE_device_copy) {
        const message_device_copy_t *m = body;

        for (uint32_t i = 0; i < m->items.count; i++)
            judge_copy(oracle, actor, rank, &m->items.data[i]);
    }
}

void ledger_group_said(oracle_t *oracle, actor_id_t actor, actor_id_t to, uint16_t id,
                       const void *body)
{
    ledger_group_t *group = led_by(oracle, actor);
    ledger_actor_t *rank = rank_of(oracle, actor);

    if (group)
        leader_said(oracle, group, to, id, body);
    else if (rank)
        rank_said(oracle, actor, rank, id, body);
}
