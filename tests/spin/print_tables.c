/* print_tables.c - the messages and the attempt tables of the actors, as Promela.
 *
 * Prints what dispatch itself would look up: each actor is born, and its cells are read. For each
 * actor: its states as numbers, and X_LEAVES(state, message), the set of states (as bits) that the
 * rule may leave in, REFUSED where the pair is refused, UNDECIDED where this kind of actor never
 * gets the message. Behind it one comment a rule, which run.py holds against what the model took.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "actors/decode/decode.h"
#include "actors/gateway/gateway.h"
#include "actors/prefill/prefill.h"
#include "actors/rank/rank.h"
#include "actors/transfer/transfer.h"
#include "runtime/base/limits.h"
#include "tests/actors/scene.h"

typedef struct {
    const char *name;
    const actor_type_t *type;
    actor_kind_t kind;
} subject_t;

static const subject_t subjects[] = {
    {"GATEWAY", &gateway_type, ACTOR_GATEWAY},
    {"PREFILL", &prefill_type, ACTOR_PREFILL},
    {"DECODE", &decode_type, ACTOR_DECODE},
    {"TRANSFER", &transfer_type, ACTOR_TRANSFER},
    {"RANK", &rank_type, ACTOR_RANK},
};

static const char *shout(const char *name)
{
    static char text[2][STATE_NAME_BYTES_MAX];
    static uint32_t turn;
    char *to = text[turn++ % 2];
    size_t i;

    for (i = 0; name[i] && i < STATE_NAME_BYTES_MAX - 1; i++)
        to[i] = (char)toupper((unsigned char)name[i]);
    to[i] = '\0';
    return to;
}

/* Does this table decide about the message? A rank keeps no attempts, so its own decides all. */
static bool is_decided(const actor_type_t *type, const message_row_t *row)
{
    bool of_attempt = row->scope != SCOPE_ACTOR;

    return row->name && (row->to & BIT(type->kind)) && (!type->attempt_state || of_attempt);
}

static void print_messages(void)
{
    printf("mtype:message = {");
    for (uint32_t id = 0; id < message_table.count; id++)
        if (message_table.rows[id].name)
            printf("%s\n    %s", id ? "," : "", shout(message_table.rows[id].name));
    printf("\n}\n\n#define MESSAGE_ID(m) ( \\\n");
    for (uint32_t id = 0; id < message_table.count; id++)
        if (message_table.rows[id].name)
            printf("    ((m) == %s) -> %u : ( \\\n", shout(message_table.rows[id].name), id);
    printf("    255 ");
    for (uint32_t id = 0; id < message_table.count; id++)
        if (message_table.rows[id].name)
            putchar(')');
    printf(")\n");
}

static void print_cells(const actor_table_t *table, const dispatch_cell_t *cells, uint16_t id)
{
    for (uint32_t state = 0; state < table->state_count; state++) {
        const dispatch_cell_t *cell = &cells[state * message_table.count + id];

        printf("        ((s) == %u) -> %u : ( \\\n", state, cell->handler ? cell->leaves_in : 0);
    }
    printf("        UNDECIDED ");
    for (uint32_t state = 0; state < table->state_count; state++)
        putchar(')');
    printf(" \\\n");
}

static void print_rules(const subject_t *subject, const actor_table_t *table,
                        const dispatch_cell_t *cells)
{
    for (uint16_t id = 0; id < message_table.count; id++)
        for (uint32_t state = 0; state < table->state_count; state++)
            if (is_decided(subject->type, &message_table.rows[id]) &&
                cells[state * message_table.count + id].handler)
                printf("// rule %s %u %u %s %s\n", subject->name, state, id,
                       table->state_names[state], message_table.rows[id].name);
}

static void print_subject(const subject_t *subject)
{
    scene_t *scene = scene_open(subject->type, subject->kind, 1, 1, 1);
    bool of_attempt = subject->type->attempt_state != NULL;
    const actor_table_t *table = of_attempt ? &subject->type->attempts : &subject->type->table;
    const dispatch_cell_t *cells = of_attempt ? scene->dispatch.attempts : scene->dispatch.actor;
    uint32_t open = 0;

    printf("\n");
    for (uint32_t state = 0; state < table->state_count; state++)
        printf("#define %s_%s %u\n", subject->name, shout(table->state_names[state]), state);
    printf("#define %s_LEAVES(s, m) ( \\\n", subject->name);
    for (uint16_t id = 0; id < message_table.count; id++) {
        if (!is_decided(subject->type, &message_table.rows[id]))
            continue;
        printf("    ((m) == %s) -> ( \\\n", shout(message_table.rows[id].name));
        print_cells(table, cells, id);
        printf("    ) : ( \\\n");
        open++;
    }
    printf("    UNDECIDED ");
    while (open-- > 0)
        putchar(')');
    printf(")\n");
    print_rules(subject, table, cells);
    scene_close(scene);
}

int main(void)
{
    printf("/* Printed by tests/spin/print_tables.c from the tables that the actors run by. */\n");
    printf("#define REFUSED 0\n#define UNDECIDED 65535\n");
    printf("#define STEPS_AHEAD_MAX %d\n", STEPS_AHEAD_MAX);
    printf("#define STEPS_IN_FLIGHT_MAX %d\n\n", STEPS_IN_FLIGHT_MAX);
    print_messages();
    for (uint32_t i = 0; i < COUNT_OF(subjects); i++)
        print_subject(&subjects[i]);
    return fflush(stdout) == 0 ? 0 : 1;
}
