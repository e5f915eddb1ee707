/* grammar_build.c - see grammar_build.h: rules, states and edges. The block is made in
 * grammar_emit.c.
 */
#include "model/grammar_build.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/random.h"

void build_init(build_t *b)
{
    *b = (build_t){.text_index_mask = 255};
    regex_init(&b->regexes, BUILD_WORK_MAX);
    b->text_index = calloc(256, sizeof(*b->text_index));
    if (b->text_index == NULL)
        build_fail(b, FAIL(STATUS_NO_MEMORY, "grammar"));
}

void build_fini(build_t *b)
{
    regex_fini(&b->regexes);
    free(b->rules);
    free(b->states);
    free(b->edges);
    free(b->texts);
    free(b->automata);
    free(b->text);
    free(b->text_index);
    *b = (build_t){0};
}

status_t build_fail(build_t *b, status_t status)
{
    if (b->status == STATUS_OK)
        b->status = status;
    return b->status;
}

/* One more item behind `items`; NULL if there is no room. */
static void *push(build_t *b, void *items, uint32_t *count, uint32_t *room, size_t item_bytes)
{
    void *old;

    memcpy(&old, items, sizeof(old));
    if (*count == *room) {
        uint32_t more = *room == 0 ? 64 : 2 * *room;
        void *bigger = more > BUILD_EDGES_MAX ? NULL : realloc(old, more * item_bytes);
        if (bigger == NULL) {
            build_fail(
                b, FAIL(STATUS_TOO_LARGE, "the grammar has more than %u parts of one kind", *room));
            return NULL;
        }
        memcpy(items, &bigger, sizeof(bigger));
        *room = more;
        old = bigger;
    }
    return (char *)old + (*count)++ * item_bytes;
}

static uint32_t add_state(build_t *b, uint32_t rule)
{
    build_state_t *state = push(b, &b->states, &b->state_count, &b->state_room, sizeof(*state));

    if (state == NULL)
        return 0;
    *state = (build_state_t){.rule = rule};
    return b->state_count - 1;
}

uint32_t build_rule(build_t *b)
{
    uint32_t *start = push(b, &b->rules, &b->rule_count, &b->rule_room, sizeof(*start));

    if (start == NULL)
        return 0;
    *start = 0;
    uint32_t rule = b->rule_count - 1;
    b->rules[rule] = add_state(b, rule);
    return rule;
}

uint32_t build_start(const build_t *b, uint32_t rule)
{
    return rule < b->rule_count ? b->rules[rule] : 0;
}

uint32_t build_state(build_t *b, uint32_t beside)
{
    return beside < b->state_count ? add_state(b, b->states[beside].rule) : 0;
}

void build_accept(build_t *b, uint32_t state)
{
    if (state < b->state_count)
        b->states[state].accepts = true;
}

static void add_edge(build_t *b, uint32_t from, uint32_t to, build_kind_t kind, uint32_t symbol)
{
    build_edge_t *edge = push(b, &b->edges, &b->edge_count, &b->edge_room, sizeof(*edge));

    if (edge != NULL)
        *edge = (build_edge_t){from, to, kind, symbol};
}

static void grow_text_index(build_t *b)
{
    uint32_t mask = 2 * b->text_index_mask + 1;
    uint32_t *index = calloc((size_t)mask + 1, sizeof(*index));

    if (index == NULL) {
        build_fail(b, FAIL(STATUS_NO_MEMORY, "texts of a grammar"));
        return;
    }
    for (uint32_t i = 0; i < b->text_count; i++) {
        const build_text_t *t = &b->texts[i];
        uint32_t at = (uint32_t)random_digest(0, b->text + t->start, t->length) & mask;
        while (index[at] != 0)
            at = (at + 1) & mask;
        index[at] = i + 1;
    }
    free(b->text_index);
    b->text_index = index;
    b->text_index_mask = mask;
}

static uint32_t text_number(build_t *b, const char *bytes, size_t length)
{
    uint32_t at;

    if (b->text_count * 2 > b->text_index_mask)
        grow_text_index(b);
    if (b->text_index == NULL)
        return 0;
    for (at = (uint32_t)random_digest(0, bytes, length) & b->text_index_mask;
         b->text_index[at] != 0; at = (at + 1) & b->text_index_mask) {
        const build_text_t *t = &b->texts[b->text_index[at] - 1];
        if (t->length == length && memcmp(b->text + t->start, bytes, length) == 0)
            return b->text_index[at] - 1;
    }
    while (b->text_bytes_room - b->text_bytes < length) {
        uint32_t room = b->text_bytes_room == 0 ? 4096 : 2 * b->text_bytes_room;
        char *more = room > 1 << 22 ? NULL : realloc(b->text, room);
        if (more == NULL) {
            build_fail(b, FAIL(STATUS_TOO_LARGE, "the texts of a grammar are too long"));
            return 0;
        }
        b->text = more;
        b->text_bytes_room = room;
    }
    build_text_t *text = push(b, &b->texts, &b->text_count, &b->text_room, sizeof(*text));
    if (text == NULL)
        return 0;
    *text = (build_text_t){b->text_bytes, (uint32_t)length};
    memcpy(b->text + b->text_bytes, bytes, length);
    b->text_bytes += (uint32_t)length;
    b->text_index[at] = b->text_count;
    return b->text_count - 1;
}

void build_edge_text(build_t *b, uint32_t from, uint32_t to, const char *text, size_t length)
{
    if (length == 0)
        add_edge(b, from, to, BUILD_EMPTY, 0);
    else
        add_edge(b, from, to, BUILD_TEXT, text_number(b, text, length));
}

static void add_automaton(build_t *b, uint32_t from, uint32_t to, build_automaton_t automaton)
{
    uint32_t at = b->automaton_count;

    while (at > 0) { /* few: those used last are looked at first */
        const build_automaton_t *a = &b->automata[at - 1];
        if (a->term == automaton.term && a->counted == automaton.counted &&
            a->unique == automaton.unique && a->min == automaton.min && a->max == automaton.max)
            break;
        at--;
    }
    if (at == 0) {
        build_automaton_t *a =
            push(b, &b->automata, &b->automaton_count, &b->automaton_room, sizeof(*a));
        if (a == NULL)
            return;
        *a = automaton;
        at = b->automaton_count;
    }
    add_edge(b, from, to, BUILD_AUTOMATON, at - 1);
}

void build_edge_term(build_t *b, uint32_t from, uint32_t to, uint32_t term)
{
    if (term == REGEX_NOTHING || b->regexes.status != STATUS_OK)
        return;
    if (regex_nullable(&b->regexes, term))
        add_edge(b, from, to, BUILD_EMPTY, 0);
    if (term != REGEX_EMPTY)
        add_automaton(b, from, to, (build_automaton_t){.term = term});
}

void build_edge_key(build_t *b, uint32_t from, uint32_t to, uint32_t term)
{
    if (term != REGEX_NOTHING && b->regexes.status == STATUS_OK)
        add_automaton(b, from, to, (build_automaton_t){.term = term, .unique = true});
}

void build_edge_standard(build_t *b, uint32_t from, uint32_t to, standard_t which,
                         const standard_name_t *names, uint32_t name_count)
{
    build_automaton_t automaton = {.term = BUILD_STANDARD + which,
                                   .names = names,
                                   .name_count = name_count,
                                   .unique = which == STANDARD_KEY || which == STANDARD_BARE_KEY};

    for (uint32_t i = 0; i < b->automaton_count && name_count > 0; i++) {
        if (b->automata[i].names == names) /* the same object, after another number of keys */
            automaton.term = b->automata[i].term;
    }
    if (name_count > 0 && automaton.term == BUILD_STANDARD + which)
        automaton.term = BUILD_STANDARD + STANDARD_COUNT + b->automaton_count;
    automaton.which = which;
    add_automaton(b, from, to, automaton);
}

void build_edge_rule(build_t *b, uint32_t from, uint32_t to, uint32_t rule)
{
    add_edge(b, from, to, BUILD_RULE, rule);
}

void build_edge_empty(build_t *b, uint32_t from, uint32_t to)
{
    if (from != to)
        add_edge(b, from, to, BUILD_EMPTY, 0);
}

void build_edge_counted(build_t *b, uint32_t from, uint32_t to, const char *prefix,
                        uint32_t character, const char *suffix, uint32_t min, uint32_t max)
{
    regex_store_t *s = &b->regexes;
    uint32_t body = regex_repeat(s, character, 0, max == 0 ? 0 : REGEX_NO_END);
    uint32_t term = regex_cat(s, regex_text(s, prefix, strlen(prefix)),
                              regex_cat(s, body, regex_text(s, suffix, strlen(suffix))));
    bool counted = max != 0 && (min > 0 || max != REGEX_NO_END);

    if (min > max || term == REGEX_NOTHING || s->status != STATUS_OK)
        return;
    add_automaton(b, from, to,
                  (build_automaton_t){.term = term,
                                      .prefix_bytes = (uint32_t)strlen(prefix),
                                      .counted = counted,
                                      .min = counted ? min : 0,
                                      .max = counted ? max : 0});
}
