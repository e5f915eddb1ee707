#include "runtime/actor.h"

#include <string.h>

#include "runtime/base/limits.h"

/* How often a pair is decided by rows that name its state, and by rows for any state. */
typedef struct {
    uint32_t named;
    uint32_t any;
} decided_t;

static decided_t decided(const actor_table_t *table, uint32_t state, uint16_t message)
{
    decided_t count = {0};

    for (uint32_t i = 0; i < table->rule_count; i++)
        if (table->rules[i].message == message) {
            count.named += table->rules[i].state == state;
            count.any += table->rules[i].state == ACTOR_STATE_ANY;
        }
    for (uint32_t i = 0; i < table->refusal_count; i++)
        if (table->refusals[i].message == message) {
            count.named += table->refusals[i].state == state;
            count.any += table->refusals[i].state == ACTOR_STATE_ANY;
        }
    return count;
}

static bool is_by_attempt(const actor_type_t *type, const message_row_t *row)
{
    return type->attempt_state && row->scope != SCOPE_ACTOR;
}

/* A state and a message as this kind of actor gets it, `row` NULL if it never does. */
static uint32_t check_row(const actor_type_t *type, const actor_table_t *table, const char *which,
                          const message_table_t *messages, uint8_t state, uint16_t message,
                          FILE *out)
{
    const message_row_t *row = message < messages->count ? &messages->rows[message] : NULL;

    if (state != ACTOR_STATE_ANY && state >= table->state_count) {
        fprintf(out, "%s table: a row names state %u of %u\n", which, state, table->state_count);
        return 1;
    }
    if (!row || !row->name || !(row->to & BIT(type->kind))) {
        fprintf(out, "%s table: message %u (%s) never comes here\n", which, message,
                row && row->name ? row->name : "unknown");
        return 1;
    }
    if (is_by_attempt(type, row) != (table == &type->attempts)) {
        fprintf(out, "%s table: %s is not dispatched by this table\n", which, row->name);
        return 1;
    }
    return 0;
}

static uint32_t check_table(const actor_type_t *type, const actor_table_t *table, const char *which,
                            const message_table_t *messages, FILE *out)
{
    uint32_t faults = 0;

    for (uint32_t i = 0; i < table->rule_count; i++) {
        const actor_rule_t *rule = &table->rules[i];

        faults += check_row(type, table, which, messages, rule->state, rule->message, out);
        if (!rule->handler || !rule->leaves_in || rule->leaves_in >> table->state_count) {
            fprintf(out, "%s table: rule %u has no handler or no state to leave in\n", which, i);
            faults++;
        }
    }
    for (uint32_t i = 0; i < table->refusal_count; i++) {
        const actor_refusal_t *refusal = &table->refusals[i];

        faults += check_row(type, table, which, messages, refusal->state, refusal->message, out);
        if (!refusal->reason || !refusal->reason[0]) {
            fprintf(out, "%s table: refusal %u has no reason\n", which, i);
            faults++;
        }
    }
    for (uint16_t id = 0; id < messages->count; id++) {
        const message_row_t *row = &messages->rows[id];

        if (!row->name || !(row->to & BIT(type->kind)) ||
            is_by_attempt(type, row) != (table == &type->attempts))
            continue;
        for (uint32_t state = 0; state < table->state_count; state++) {
            decided_t count = decided(table, state, id);

            if (count.named > 1 || count.any > 1) {
                fprintf(out, "%s state %s, message %s: decided more than once\n", which,
                        table->state_names[state], row->name);
                faults++;
            } else if (count.named + count.any == 0) {
                fprintf(out, "%s state %s, message %s: undecided\n", which,
                        table->state_names[state], row->name);
                faults++;
            }
        }
    }
    return faults;
}

uint32_t actor_type_check(const actor_type_t *type, const message_table_t *messages, FILE *out)
{
    uint32_t faults = check_table(type, &type->table, "actor", messages, out);

    if (type->attempt_state)
        faults += check_table(type, &type->attempts, "attempt", messages, out);
    return faults;
}

/* One arrow per pair of states, with the messages that take it, in table order. */
static void print_arrows(const actor_table_t *table, const message_table_t *messages, FILE *out)
{
    for (uint32_t from = 0; from < table->state_count; from++)
        for (uint32_t to = 0; to < table->state_count; to++) {
            const char *gap = "";

            if (from == to)
                continue;
            for (uint32_t i = 0; i < table->rule_count; i++) {
                const actor_rule_t *rule = &table->rules[i];
                bool applies = rule->state == from;

                if (rule->state == ACTOR_STATE_ANY)
                    applies = decided(table, from, rule->message).named == 0;
                if (!applies || !(rule->leaves_in & BIT(to)))
                    continue;
                if (!gap[0])
                    fprintf(out, "    %s --> %s: ", table->state_names[from],
                            table->state_names[to]);
                fprintf(out, "%s%s", gap, messages->rows[rule->message].name);
                gap = ", ";
            }
            if (gap[0])
                fputc('\n', out);
        }
}

void actor_print_table(const actor_type_t *type, const message_table_t *messages, FILE *out)
{
    fprintf(out, "```mermaid\nstateDiagram-v2\n    [*] --> %s\n", type->table.state_names[0]);
    print_arrows(&type->table, messages, out);
    fputs("```\n", out);
    if (!type->attempt_state)
        return;
    fprintf(out, "\nAn attempt:\n\n```mermaid\nstateDiagram-v2\n    [*] --> %s\n",
            type->attempts.state_names[0]);
    print_arrows(&type->attempts, messages, out);
    fputs("```\n", out);
}
