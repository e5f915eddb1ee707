/* Prints docs/states.md: the states of every actor, drawn from its tables. */
#include <stdio.h>

#include "actors/types.h"
#include "messages/message.h"
#include "runtime/actor.h"

int main(void)
{
    puts("# States\n\n"
         "Printed from the actors' tables by `tests/actors/print_states.c`; a test holds this page "
         "to\n"
         "them. An arrow names the messages at which an actor, or an attempt in it, may change so; "
         "what\n"
         "a planner or a message about another attempt changes is in the heads of the sources.");
    for (uint32_t number = 0; number < ACTOR_PLACED_KINDS; number++) {
        const actor_kind_t kind = (actor_kind_t)number;
        const actor_type_t *type = actor_type_of(kind);

        printf("\n## %s\n\n", actor_kind_word(kind));
        if (type->table.state_count == 1 && !type->attempt_state)
            puts("It has one state.");
        else
            actor_print_table(type, &message_table, stdout);
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
