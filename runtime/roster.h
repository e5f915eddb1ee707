/* roster.h - the actors of a deployment as the runtime sees them: names, kinds, and who speaks with
 * whom.
 *
 * Made once from the topology by whoever starts a driver; constant afterwards; shared by threads.
 * An actor's id is its index here. Observers stand outside: they choose an id from OBSERVER_FIRST
 * up and say HELLO.
 */
#ifndef RUNTIME_ROSTER_H
#define RUNTIME_ROSTER_H

#include "runtime/base/limits.h"
#include "runtime/base/status.h"
#include "runtime/message.h"

enum { OBSERVER_FIRST = 0xfe00 };

typedef struct {
    char name[ACTOR_NAME_BYTES_MAX];
    actor_kind_t kind;
    actor_id_t leader; /* of a rank: its group's leader; else ACTOR_NONE */
    uint16_t host;
} roster_actor_t;

typedef struct {
    uint32_t count;
    roster_actor_t actors[ACTORS_MAX];
} roster_t;

/* Of any id: ports and observers have a kind too. ACTOR_KIND_COUNT for an id that is nobody's. */
actor_kind_t roster_kind(const roster_t *roster, actor_id_t id);
/* "decode/0"; "port", "observer" or "nobody" for ids that are none. */
const char *roster_name(const roster_t *roster, actor_id_t id);

/* True if the table lets messages pass between the two in either direction, and, where one is a
 * rank and the other a leader, if that is its own leader. Two of one kind never speak. Streams
 * exist between such pairs only. */
bool roster_are_peers(const roster_t *roster, const message_table_t *table, actor_id_t a,
                      actor_id_t b);

/* STATUS_MALFORMED if a field that names an actor names one of another kind than its row allows, so that no
 * handler has to ask who that is. */
MUST_USE status_t roster_check(const roster_t *roster, const record_t *record, const void *body);

#endif
