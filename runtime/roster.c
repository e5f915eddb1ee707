#include "runtime/roster.h"

#include "runtime/base/check.h"

actor_kind_t roster_kind(const roster_t *roster, actor_id_t id)
{
    if (id < roster->count)
        return roster->actors[id].kind;
    if (id == ACTOR_NONE || id < OBSERVER_FIRST)
        return ACTOR_KIND_COUNT;
    return id < PORT_FIRST ? ACTOR_OBSERVER : ACTOR_PORT;
}

const char *roster_name(const roster_t *roster, actor_id_t id)
{
    if (id < roster->count)
        return roster->actors[id].name;
    switch (roster_kind(roster, id)) {
    case ACTOR_OBSERVER:
        return "observer";
    case ACTOR_PORT:
        return "port";
    default:
        return "nobody";
    }
}

static bool is_leader(actor_kind_t kind)
{
    return kind == ACTOR_PREFILL || kind == ACTOR_DECODE;
}

bool roster_are_peers(const roster_t *roster, const message_table_t *table, actor_id_t a,
                      actor_id_t b)
{
    actor_kind_t x = roster_kind(roster, a), y = roster_kind(roster, b);

    if (x == y || x >= ACTOR_PORT || y >= ACTOR_PORT)
        return false;
    if (x == ACTOR_RANK && is_leader(y))
        return roster->actors[a].leader == b;
    if (y == ACTOR_RANK && is_leader(x))
        return roster->actors[b].leader == a;
    for (uint32_t id = 0; id < table->count; id++) {
        const message_row_t *row = &table->rows[id];

        if (!row->name || row->class == MESSAGE_LOCAL)
            continue;
        if (((row->from & BIT(x)) && (row->to & BIT(y))) ||
            ((row->from & BIT(y)) && (row->to & BIT(x))))
            return true;
    }
    return false;
}

/* Lists of records without an actor in them are long, and passed over. */
static bool names_actors(const record_t *record)
{
    for (uint32_t i = 0; i < record->field_count; i++) {
        const field_t *field = &record->fields[i];

        if (field->type == FIELD_ACTOR || (field->record && names_actors(field->record)))
            return true;
    }
    return false;
}

static status_t check_field(const roster_t *roster, const field_t *field, const void *place)
{
    const bytes_view_t *items = place;
    actor_id_t actor;

    switch (field->type) {
    case FIELD_ACTOR:
        actor = *(const actor_id_t *)place;
        if (actor != ACTOR_NONE && !(field->limit & BIT(roster_kind(roster, actor))))
            return FAIL(STATUS_MALFORMED, "%s: %u is %s", field->name, actor,
                        roster_name(roster, actor));
        return STATUS_OK;
    case FIELD_RECORD:
        return roster_check(roster, field->record, place);
    case FIELD_ITEMS:
        for (uint32_t n = 0; n < items->count && names_actors(field->record); n++)
            TRY(roster_check(roster, field->record, items->data + (size_t)n * field->record->size));
        return STATUS_OK;
    default:
        return STATUS_OK;
    }
}

status_t roster_check(const roster_t *roster, const record_t *record, const void *body)
{
    for (uint32_t i = 0; i < record->field_count; i++)
        TRY(check_field(roster, &record->fields[i], (const char *)body + record->fields[i].offset));
    return STATUS_OK;
}
