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
