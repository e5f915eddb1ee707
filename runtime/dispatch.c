#include "runtime/dispatch.h"

#include <string.h>

#include "runtime/base/log.h"
#include "runtime/base/probe.h"
#include "runtime/codec.h"
#include "runtime/outbox.h"

size_t dispatch_state_bytes(const actor_type_t *type, const actor_birth_t *birth)
{
    return type->bytes ? type->bytes(birth) : type->state_bytes;
}

static size_t cells_of(const actor_table_t *table, const message_table_t *messages)
{
    return (size_t)table->state_count * messages->count;
}

size_t dispatch_bytes(const actor_type_t *type, const message_table_t *table,
                      const actor_birth_t *birth)
{
    size_t cells = cells_of(&type->table, table) + cells_of(&type->attempts, table);

    return dispatch_state_bytes(type, birth) + cells * sizeof(dispatch_cell_t) + 256;
}

static void set(dispatch_cell_t *cells, const actor_table_t *table, uint32_t message_count,
                uint8_t state, uint16_t message, dispatch_cell_t cell, bool any_pass)
{
    ASSERT(message < message_count);
    if (any_pass != (state == ACTOR_STATE_ANY))
        return;
    if (!any_pass) {
        ASSERT(state < table->state_count);
        cells[state * message_count + message] = cell;
        return;
    }
    for (uint32_t s = 0; s < table->state_count; s++)
        cells[s * message_count + message] = cell;
}

/* Rows for any state first, so that rows which name one replace them. */
static void fill(dispatch_cell_t *cells, const actor_table_t *table, uint32_t message_count)
{
    for (uint32_t i = 0; i < table->state_count * message_count; i++)
        cells[i].reason = "no rule and no refusal for it";
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < table->rule_count; i++) {
            const actor_rule_t *rule = &table->rules[i];

            set(cells, table, message_count, rule->state, rule->message,
                (dispatch_cell_t){rule->handler, rule->leaves_in, NULL}, pass == 0);
        }
        for (uint32_t i = 0; i < table->refusal_count; i++) {
            const actor_refusal_t *refusal = &table->refusals[i];

            set(cells, table, message_count, refusal->state, refusal->message,
                (dispatch_cell_t){NULL, 0, refusal->reason}, pass == 0);
        }
    }
}

status_t dispatch_init(dispatch_t *dispatch, const actor_type_t *type, const message_table_t *table,
                       const actor_birth_t *birth, arena_t *arena)
{
    size_t bytes = dispatch_state_bytes(type, birth);

    ASSERT(table->count <= MESSAGES_MAX);
    ASSERT(type->table.state_count <= ACTOR_STATES_MAX);
    ASSERT(type->attempts.state_count <= ACTOR_STATES_MAX);
    *dispatch = (dispatch_t){.type = type, .table = table, .self_bytes = bytes};
    dispatch->self = arena_take(arena, bytes, 1, 64);
    dispatch->actor = ARENA_TAKE(arena, cells_of(&type->table, table), dispatch_cell_t);
    if (!dispatch->self || !dispatch->actor)
        return FAIL(STATUS_NO_MEMORY, "an actor of %zu bytes", bytes);
    fill(dispatch->actor, &type->table, table->count);
    if (type->attempt_state) {
        dispatch->attempts = ARENA_TAKE(arena, cells_of(&type->attempts, table), dispatch_cell_t);
        if (!dispatch->attempts)
            return FAIL(STATUS_NO_MEMORY, "the table of attempt states");
        fill(dispatch->attempts, &type->attempts, table->count);
    }
    if (type->init)
        TRY(type->init(dispatch->self, birth));
    if (type->check)
        type->check(dispatch->self);
    return STATUS_OK;
}

const char *dispatch_state_name(const dispatch_t *dispatch)
{
    return dispatch->type->table.state_names[dispatch->type->state(dispatch->self)];
}

/* Apart from settle, which runs for every message, for the sake of its buffer. */
static void log_failure(const dispatch_t *dispatch, const envelope_t *envelope, const char *state)
{
    char trail[1024] = "";
    FILE *out = fmemopen(trail, sizeof(trail) - 1, "w");

    if (out) {
        trail_print(out);
        (void)fclose(out);
    }
    LOG(WARN, "MESSAGE-FAILED message=%s from=%u state=%s trail:\n%s",
        dispatch->table->rows[envelope->id].name, envelope->from, state, trail);
}

static status_t settle(dispatch_t *dispatch, const envelope_t *envelope, const char *state,
                       status_t status)
{
    if (status_class(status) == CLASS_NONE)
        return STATUS_OK;
    dispatch->failed[envelope->id]++;
    if (status_class(status) == CLASS_ENGINE)
        return trail_pass(status, dispatch->table->rows[envelope->id].name, 0);
    log_failure(dispatch, envelope, state);
    return STATUS_OK;
}

static status_t refuse(dispatch_t *dispatch, const envelope_t *envelope, uint8_t state,
                       const char *reason)
{
    PROBE(message_refused, envelope->id, envelope->from, state);
    dispatch->refused[envelope->id]++;
    dispatch->refused_why[envelope->id] = reason;
    return STATUS_OK;
}

static status_t by_actor(dispatch_t *dispatch, const envelope_t *envelope, outbox_t *outbox)
{
    const actor_type_t *type = dispatch->type;
    uint8_t state = type->state(dispatch->self);
    const dispatch_cell_t *cell = &dispatch->actor[state * dispatch->table->count + envelope->id];
    status_t status;

    ASSERT(state < type->table.state_count);
    if (dispatch->met)
        dispatch->met->actor[state][envelope->id]++;
    if (!cell->handler) {
        return refuse(dispatch, envelope, state, cell->reason);
    }
    status = cell->handler(dispatch->self, envelope, outbox);
    ASSERT(cell->leaves_in & BIT(type->state(dispatch->self)));
    return settle(dispatch, envelope, type->table.state_names[state], status);
}

/* Scopes ATTEMPT and ITEMS: both fields stand first in the struct (message_table_check). */
static status_t by_attempt(dispatch_t *dispatch, const envelope_t *envelope, const void *named,
                           outbox_t *outbox)
{
    const actor_type_t *type = dispatch->type;
    uint64_t request;
    uint32_t attempt;
    uint8_t state;
    const dispatch_cell_t *cell;
    status_t status;

    memcpy(&request, named, sizeof(request));
    memcpy(&attempt, (const char *)named + sizeof(request), sizeof(attempt));
    state = type->attempt_state(dispatch->self, request, attempt);
    ASSERT(state < type->attempts.state_count);
    if (dispatch->met)
        dispatch->met->attempts[state][envelope->id]++;
    cell = &dispatch->attempts[state * dispatch->table->count + envelope->id];
    if (!cell->handler) {
        return refuse(dispatch, envelope, state, cell->reason);
    }
    status = cell->handler(dispatch->self, envelope, outbox);
    ASSERT(cell->leaves_in & BIT(type->attempt_state(dispatch->self, request, attempt)));
    return settle(dispatch, envelope, type->attempts.state_names[state], status);
}

static status_t by_items(dispatch_t *dispatch, const envelope_t *envelope, outbox_t *outbox)
{
    const record_t *record = &dispatch->table->rows[envelope->id].record;
    envelope_t each = *envelope;

    for (uint32_t i = 0; i < record->field_count; i++) {
        const field_t *field = &record->fields[i];
        const bytes_view_t *items = (const void *)((const char *)envelope->body + field->offset);

        if (field->type != FIELD_ITEMS)
            continue;
        for (uint32_t n = 0; n < items->count; n++) {
            each.item = items->data + (size_t)n * field->record->size;
            TRY(by_attempt(dispatch, &each, each.item, outbox));
        }
        return STATUS_OK;
    }
    UNREACHABLE("a message of scope ITEMS has items");
}

status_t dispatch_admit(const dispatch_t *dispatch, const roster_t *roster, actor_id_t sender,
                        uint16_t id, const uint8_t *body, size_t size, arena_t *arena,
                        const void **decoded)
{
    const message_row_t *row = id < dispatch->table->count ? &dispatch->table->rows[id] : NULL;
    actor_kind_t from = roster_kind(roster, sender);

    if (!row || !row->name)
        return FAIL(STATUS_MALFORMED, "message %u is not known here", id);
    if (!(row->from & BIT(from)) || !(row->to & BIT(dispatch->type->kind)) ||
        (row->class == MESSAGE_LOCAL && from != ACTOR_PORT))
        return FAIL(STATUS_MALFORMED, "%s does not go this way", row->name);
    TRY(codec_decode(row, body, size, arena, decoded));
    if (from != ACTOR_PORT)
        TRY(roster_check(roster, &row->record, *decoded));
    return STATUS_OK;
}

status_t dispatch_message(dispatch_t *dispatch, const envelope_t *envelope, outbox_t *outbox)
{
    const message_row_t *row = &dispatch->table->rows[envelope->id];
    status_t status;

    ASSERT(envelope->id < dispatch->table->count);
    trail_reset();
    dispatch->handled[envelope->id]++;
    if (row->scope == SCOPE_ACTOR || !dispatch->attempts)
        status = by_actor(dispatch, envelope, outbox);
    else if (row->scope == SCOPE_ATTEMPT)
        status = by_attempt(dispatch, envelope, envelope->body, outbox);
    else
        status = by_items(dispatch, envelope, outbox);
    if (dispatch->check && dispatch->type->check)
        dispatch->type->check(dispatch->self);
    return status;
}

void dispatch_plan(dispatch_t *dispatch, outbox_t *outbox)
{
    if (!dispatch->type->plan)
        return;
    outbox->planning = true;
    dispatch->type->plan(dispatch->self, outbox);
    outbox->planning = false;
    if (dispatch->check && dispatch->type->check)
        dispatch->type->check(dispatch->self);
}

void dispatch_print(const dispatch_t *dispatch, FILE *out)
{
    for (uint32_t id = 0; id < dispatch->table->count; id++) {
        if (dispatch->refused[id])
            fprintf(out, "%s: %llu refused, last: %s\n", dispatch->table->rows[id].name,
                    (unsigned long long)dispatch->refused[id], dispatch->refused_why[id]);
        if (dispatch->failed[id])
            fprintf(out, "%s: %llu failed\n", dispatch->table->rows[id].name,
                    (unsigned long long)dispatch->failed[id]);
    }
}
