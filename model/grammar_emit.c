/* grammar_emit.c - a grammar that is put together becomes its block; see grammar_build.h.
 *
 * What cannot end in a text of the grammar is taken out, so a matcher never goes where it cannot come
 * back from. Empty edges are taken out where their closure fits, and equal grammars give equal bytes:
 * everything is numbered in the order in which it is met from the start.
 */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "model/grammar.h"
#include "model/grammar_block.h"
#include "model/grammar_build.h"
#include "model/grammar_follow.h"

enum { NONE = 0xffffffff, CLOSED_EDGES_MAX = 1 << 16 };

/* Edges grouped by some number of theirs. */
typedef struct {
    uint32_t *begin; /* of each group, one more at the end */
    uint32_t *edges;
} groups_t;

typedef struct {
    build_t *b;
    standard_automaton_t *automata; /* by automaton of the build; those of one term share */
    uint32_t *automaton_owner;      /* the first automaton with this term */
    uint8_t *productive, *nullable; /* by state */
    groups_t from, to, rule;
    uint32_t *text_rank;
    /* The result, in its order. */
    uint32_t *state_number, *states; /* new number by old; old by new */
    uint32_t state_count;
    uint32_t *rule_number, *rules;
    uint32_t rule_count;
    uint32_t *automaton_number, *kept_automata;
    uint32_t automaton_count;
    uint32_t *text_number, *kept_texts;
    uint32_t text_count;
    build_edge_t *edges; /* by new state */
    uint32_t *edge_begin;
    uint32_t edge_count, edge_room;
    uint32_t *stack;
    uint8_t *seen;
} emit_t;

static void *take(emit_t *e, size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);

    if (memory == NULL)
        build_fail(e->b, FAIL(STATUS_NO_MEMORY, "grammar"));
    return memory;
}

static uint32_t key_of(const build_edge_t *edge, build_kind_t kind, unsigned which)
{
    if (which == 2)
        return edge->kind == kind ? edge->symbol : NONE;
    return which == 0 ? edge->from : edge->to;
}

/* Groups by `which`: 0 from, 1 to, 2 rule. */
static void group(emit_t *e, groups_t *groups, unsigned which, uint32_t group_count)
{
    const build_t *b = e->b;

    groups->begin = take(e, (size_t)group_count + 1, sizeof(uint32_t));
    groups->edges = take(e, b->edge_count, sizeof(uint32_t));
    if (b->status != STATUS_OK)
        return;
    for (uint32_t i = 0; i < b->edge_count; i++) {
        uint32_t key = key_of(&b->edges[i], BUILD_RULE, which);
        if (key != NONE)
            groups->begin[key + 1]++;
    }
    for (uint32_t i = 0; i < group_count; i++)
        groups->begin[i + 1] += groups->begin[i];
    uint32_t *next = take(e, group_count, sizeof(uint32_t));
    if (next == NULL)
        return;
    memcpy(next, groups->begin, group_count * sizeof(uint32_t));
    for (uint32_t i = 0; i < b->edge_count; i++) {
        uint32_t key = key_of(&b->edges[i], BUILD_RULE, which);
        if (key != NONE)
            groups->edges[next[key]++] = i;
    }
    free(next);
}

static bool is_borrowed(const build_automaton_t *source)
{
    return source->term >= BUILD_STANDARD && source->name_count == 0;
}

static status_t make_automaton(build_t *b, const build_automaton_t *source,
                               standard_automaton_t *out)
{
    const standard_automaton_t *standard;

    if (source->term < BUILD_STANDARD)
        return regex_automaton(&b->regexes, source->term, &out->automaton);
    if (source->name_count > 0)
        return standard_without(source->which, source->names, source->name_count, out);
    standard = standard_automaton(source->which);
    if (standard == NULL)
        return FAIL(STATUS_NO_MEMORY, "automaton");
    *out = *standard;
    return STATUS_OK;
}

static void make_automata(emit_t *e)
{
    build_t *b = e->b;

    for (uint32_t i = 0; i < b->automaton_count && b->status == STATUS_OK; i++) {
        e->automaton_owner[i] = i;
        for (uint32_t j = 0; j < i; j++) {
            if (b->automata[j].term == b->automata[i].term) {
                e->automaton_owner[i] = j;
                break;
            }
        }
        if (e->automaton_owner[i] == i)
            build_fail(b, make_automaton(b, &b->automata[i], &e->automata[i]));
    }
}

/* May an edge be passed, if rules count whose start is in `marked`? */
static bool passes(const emit_t *e, const build_edge_t *edge, const uint8_t *marked, bool nullable)
{
    switch ((build_kind_t)edge->kind) {
    case BUILD_EMPTY:
        return true;
    case BUILD_RULE:
        return marked[e->b->rules[edge->symbol]];
    case BUILD_AUTOMATON:
        return !nullable && e->automata[e->automaton_owner[edge->symbol]].automaton.state_count > 1;
    case BUILD_TEXT:
        return !nullable;
    }
    return false;
}

/* Marks all states from which a rule can end: at all, or with nothing read. */
static void mark_states(emit_t *e, uint8_t *marked, bool nullable)
{
    const build_t *b = e->b;
    uint32_t top = 0;

    for (uint32_t i = 0; i < b->state_count; i++) {
        if (b->states[i].accepts) {
            marked[i] = 1;
            e->stack[top++] = i;
        }
    }
    while (top > 0) {
        uint32_t state = e->stack[--top];
        uint32_t rule = b->states[state].rule;
        for (uint32_t i = e->to.begin[state]; i < e->to.begin[state + 1]; i++) {
            const build_edge_t *edge = &b->edges[e->to.edges[i]];
            if (!marked[edge->from] && passes(e, edge, marked, nullable)) {
                marked[edge->from] = 1;
                e->stack[top++] = edge->from;
            }
        }
        if (b->rules[rule] != state)
            continue;
        for (uint32_t i = e->rule.begin[rule]; i < e->rule.begin[rule + 1]; i++) {
            const build_edge_t *edge = &b->edges[e->rule.edges[i]];
            if (!marked[edge->from] && marked[edge->to]) {
                marked[edge->from] = 1;
                e->stack[top++] = edge->from;
            }
        }
    }
}

static int compare_text(const void *a, const void *b, void *context)
{
    const build_t *build = context;
    const build_text_t *x = &build->texts[*(const uint32_t *)a],
                       *y = &build->texts[*(const uint32_t *)b];
    uint32_t shorter = x->length < y->length ? x->length : y->length;
    int order = memcmp(build->text + x->start, build->text + y->start, shorter);

    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

static void rank_texts(emit_t *e)
{
    build_t *b = e->b;
    uint32_t *order = take(e, b->text_count, sizeof(*order));

    if (order == NULL)
        return;
    for (uint32_t i = 0; i < b->text_count; i++)
        order[i] = i;
    qsort_r(order, b->text_count, sizeof(*order), compare_text, b);
    for (uint32_t i = 0; i < b->text_count; i++)
        e->text_rank[order[i]] = i;
    free(order);
}

static bool keeps(const emit_t *e, const build_edge_t *edge)
{
    return e->productive[edge->to] && passes(e, edge, e->productive, false);
}

/* A rule that may read nothing can also be passed by. */
static bool passes_empty(const emit_t *e, const build_edge_t *edge)
{
    return edge->kind == BUILD_EMPTY ||
           (edge->kind == BUILD_RULE && e->nullable[e->b->rules[edge->symbol]]);
}

static void push_edge(emit_t *e, const build_edge_t *edge, uint32_t kind)
{
    if (e->edge_count == e->edge_room) {
        uint32_t room = e->edge_room == 0 ? 256 : 2 * e->edge_room;
        build_edge_t *more = realloc(e->edges, room * sizeof(*more));
        if (more == NULL) {
            build_fail(e->b, FAIL(STATUS_NO_MEMORY, "grammar"));
            return;
        }
        e->edges = more;
        e->edge_room = room;
    }
    e->edges[e->edge_count] = *edge;
    e->edges[e->edge_count++].kind = kind;
}

/* Puts the edges of an old state behind the others: with `close`, also those behind empty edges. */
static bool put_edges(emit_t *e, uint32_t state, bool close)
{
    const build_t *b = e->b;
    uint32_t top = 0, reached = 0;
    bool accepts = b->states[state].accepts;

    e->stack[top++] = state;
    e->seen[state] = 1;
    while (reached < top) {
        uint32_t at = e->stack[reached++];
        accepts = accepts || (close && b->states[at].accepts);
        for (uint32_t i = e->from.begin[at]; i < e->from.begin[at + 1]; i++) {
            const build_edge_t *edge = &b->edges[e->from.edges[i]];
            if (!keeps(e, edge))
                continue;
            bool empty = passes_empty(e, edge);
            if (edge->kind != BUILD_EMPTY)
                push_edge(e, edge, edge->kind);
            if (empty && !close)
                push_edge(e, edge, BUILD_EMPTY);
            if (empty && close && !e->seen[edge->to]) {
                e->seen[edge->to] = 1;
                e->stack[top++] = edge->to;
            }
        }
    }
    while (top > 0)
        e->seen[e->stack[--top]] = 0;
    return accepts;
}

static int compare_edge(const void *a, const void *b, void *context)
{
    const emit_t *e = context;
    const build_edge_t *x = a, *y = b;
    uint32_t left = x->kind == BUILD_TEXT ? e->text_rank[x->symbol] : x->symbol;
    uint32_t right = y->kind == BUILD_TEXT ? e->text_rank[y->symbol] : y->symbol;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (left != right && x->kind != BUILD_EMPTY)
        return left < right ? -1 : 1;
    return (x->to > y->to) - (x->to < y->to);
}

static void settle_edges(emit_t *e, uint32_t begin)
{
    uint32_t kept = begin;

    if (e->edge_count == begin)
        return;
    qsort_r(e->edges + begin, e->edge_count - begin, sizeof(*e->edges), compare_edge, e);
    for (uint32_t i = begin; i < e->edge_count; i++) {
        if (kept == begin || compare_edge(&e->edges[kept - 1], &e->edges[i], e) != 0)
            e->edges[kept++] = e->edges[i];
    }
    e->edge_count = kept;
}

static void meet(uint32_t old, uint32_t *number, uint32_t *kept, uint32_t *count)
{
    if (number[old] != NONE)
        return;
    number[old] = *count;
    kept[(*count)++] = old;
}

/* Walks all states from the start, and numbers what it meets. False: too many edges. */
static bool walk(emit_t *e, bool close)
{
    build_t *b = e->b;

    memset(e->state_number, 0xff, b->state_count * sizeof(uint32_t));
    memset(e->rule_number, 0xff, b->rule_count * sizeof(uint32_t));
    memset(e->automaton_number, 0xff, b->automaton_count * sizeof(uint32_t));
    memset(e->text_number, 0xff, b->text_count * sizeof(uint32_t));
    e->state_count = e->rule_count = e->automaton_count = e->text_count = e->edge_count = 0;
    meet(b->rules[0], e->state_number, e->states, &e->state_count);
    meet(0, e->rule_number, e->rules, &e->rule_count);
    for (uint32_t at = 0; at < e->state_count && b->status == STATUS_OK; at++) {
        uint32_t old = e->states[at], begin = e->edge_count;
        e->edge_begin[at] = begin;
        e->seen[old] = 0;
        bool accepts = put_edges(e, old, close);
        settle_edges(e, begin);
        b->states[old].accepts = accepts;
        for (uint32_t i = begin; i < e->edge_count; i++) {
            const build_edge_t *edge = &e->edges[i];
            if (edge->kind == BUILD_RULE) {
                meet(edge->symbol, e->rule_number, e->rules, &e->rule_count);
                meet(b->rules[edge->symbol], e->state_number, e->states, &e->state_count);
            }
            if (edge->kind == BUILD_AUTOMATON)
                meet(edge->symbol, e->automaton_number, e->kept_automata, &e->automaton_count);
            if (edge->kind == BUILD_TEXT)
                e->text_number[edge->symbol] = 0; /* numbered by rank below */
            meet(edge->to, e->state_number, e->states, &e->state_count);
        }
        if (close && e->edge_count > CLOSED_EDGES_MAX)
            return false;
    }
    e->edge_begin[e->state_count] = e->edge_count;
    for (uint32_t i = 0; i < b->text_count; i++)
        e->kept_texts[e->text_rank[i]] = i;
    for (uint32_t i = 0; i < b->text_count; i++) {
        uint32_t text = e->kept_texts[i];
        if (e->text_number[text] == NONE)
            continue;
        e->text_number[text] = e->text_count;
        e->kept_texts[e->text_count++] = text;
    }
    return true;
}

/* Space in the block, in its order. */
static uint32_t place(size_t *end, size_t bytes)
{
    size_t start = (*end + 7) & ~(size_t)7;

    *end = start + bytes;
    return (uint32_t)start;
}

typedef struct {
    uint32_t classes, next, flags;
} tables_t;

static size_t lay_out(emit_t *e, grammar_block_t *head, tables_t *tables)
{
    size_t end = sizeof(*head), text_bytes = 0;

    head->state_count = e->state_count;
    head->rule_count = e->rule_count;
    head->automaton_count = e->automaton_count;
    head->text_count = e->text_count;
    head->states = place(&end, e->state_count * sizeof(grammar_state_t));
    head->edges = place(&end, e->edge_count * sizeof(grammar_edge_t));
    head->rules = place(&end, e->rule_count * sizeof(grammar_rule_t));
    head->automata = place(&end, e->automaton_count * sizeof(grammar_automaton_t));
    head->text_starts = place(&end, (e->text_count + 1) * sizeof(uint32_t));
    for (uint32_t i = 0; i < e->text_count; i++)
        text_bytes += e->b->texts[e->kept_texts[i]].length;
    head->texts = place(&end, text_bytes);
    for (uint32_t i = 0; i < e->automaton_count; i++) {
        uint32_t owner = e->automaton_owner[e->kept_automata[i]];
        const regex_automaton_t *a = &e->automata[owner].automaton;
        if (tables[owner].next != 0)
            continue;
        tables[owner].classes = place(&end, 256);
        tables[owner].next =
            place(&end, (size_t)a->state_count * a->class_count * sizeof(uint16_t));
        tables[owner].flags = place(&end, a->state_count * sizeof(uint32_t));
    }
    return (end + 7) & ~(size_t)7;
}

static void write_states(const emit_t *e, char *block, const grammar_block_t *head)
{
    grammar_state_t *states = (void *)(block + head->states);
    grammar_edge_t *edges = (void *)(block + head->edges);
    grammar_rule_t *rules = (void *)(block + head->rules);

    for (uint32_t i = 0; i < e->state_count; i++) {
        const build_state_t *old = &e->b->states[e->states[i]];
        uint32_t ends[4], at = e->edge_begin[i];
        for (uint32_t kind = 0; kind < 4; kind++) {
            while (at < e->edge_begin[i + 1] && e->edges[at].kind <= kind)
                at++;
            ends[kind] = at;
        }
        states[i] =
            (grammar_state_t){e->edge_begin[i],          ends[0],     ends[1], ends[2], ends[3],
                              e->rule_number[old->rule], old->accepts};
    }
    for (uint32_t i = 0; i < e->edge_count; i++) {
        const build_edge_t *edge = &e->edges[i];
        uint32_t symbol = edge->kind == BUILD_TEXT        ? e->text_number[edge->symbol]
                          : edge->kind == BUILD_AUTOMATON ? e->automaton_number[edge->symbol]
                          : edge->kind == BUILD_RULE      ? e->rule_number[edge->symbol]
                                                          : 0;
        edges[i] = (grammar_edge_t){symbol, e->state_number[edge->to]};
    }
    for (uint32_t i = 0; i < e->rule_count; i++) {
        uint32_t start = e->b->rules[e->rules[i]];
        rules[i] = (grammar_rule_t){e->state_number[start], e->nullable[start]};
    }
}

static void write_texts(const emit_t *e, char *block, const grammar_block_t *head)
{
    uint32_t *starts = (void *)(block + head->text_starts);
    uint32_t at = 0;

    for (uint32_t i = 0; i < e->text_count; i++) {
        const build_text_t *text = &e->b->texts[e->kept_texts[i]];
        starts[i] = at;
        memcpy(block + head->texts + at, e->b->text + text->start, text->length);
        at += text->length;
    }
    starts[e->text_count] = at;
}

static void write_automaton(emit_t *e, char *block, const tables_t *tables, uint32_t index,
                            grammar_automaton_t *out)
{
    const build_automaton_t *source = &e->b->automata[index];
    const standard_automaton_t *made = &e->automata[e->automaton_owner[index]];
    const regex_automaton_t *a = &made->automaton;
    uint32_t loop = source->counted ? 1 + source->prefix_bytes : 0;

    *out = (grammar_automaton_t){.classes = tables->classes,
                                 .next = tables->next,
                                 .flags = tables->flags,
                                 .class_count = a->class_count,
                                 .loop = loop,
                                 .close = loop != 0 ? regex_automaton_step(a, loop, '"') : 0,
                                 .min = source->min,
                                 .max = source->max,
                                 .unique = source->unique};
    uint32_t *flags = (void *)(block + tables->flags);
    if (flags[1] != 0)
        return; /* written with another count already */
    memcpy(block + tables->classes, a->classes, 256);
    memcpy(block + tables->next, a->next,
           (size_t)a->state_count * a->class_count * sizeof(uint16_t));
    if (made->flags != NULL)
        memcpy(flags, made->flags, a->state_count * sizeof(*flags));
    else
        build_fail(e->b, follow_flags(a, flags));
}

static void write_block(emit_t *e, uint64_t vocabulary_digest, void **out, size_t *bytes)
{
    grammar_block_t head = {
        .magic = GRAMMAR_MAGIC, .version = GRAMMAR_VERSION, .vocabulary_digest = vocabulary_digest};
    tables_t *tables = take(e, e->b->automaton_count, sizeof(*tables));
    if (tables == NULL)
        return;
    size_t total = lay_out(e, &head, tables);
    char *block = total > GRAMMAR_BYTES_MAX ? NULL : calloc(1, total);

    if (block == NULL) {
        build_fail(e->b, FAIL(STATUS_TOO_LARGE, "the compiled grammar has %zu bytes, at most %d",
                              total, GRAMMAR_BYTES_MAX));
        free(tables);
        return;
    }
    head.bytes = (uint32_t)total;
    write_states(e, block, &head);
    write_texts(e, block, &head);
    grammar_automaton_t *automata = (void *)(block + head.automata);
    for (uint32_t i = 0; i < e->automaton_count; i++) {
        uint32_t index = e->kept_automata[i];
        write_automaton(e, block, &tables[e->automaton_owner[index]], index, &automata[i]);
    }
    memcpy(block, &head, sizeof(head));
    crypto_generichash(head.digest, sizeof(head.digest), (unsigned char *)block, total, NULL, 0);
    memcpy(block + offsetof(grammar_block_t, digest), head.digest, sizeof(head.digest));
    free(tables);
    *out = block;
    *bytes = total;
}

static void emit_fini(emit_t *e)
{
    for (uint32_t i = 0; e->automata != NULL && i < e->b->automaton_count; i++) {
        if (is_borrowed(&e->b->automata[i]))
            continue;
        regex_automaton_fini(&e->automata[i].automaton);
        free(e->automata[i].flags);
    }
    void *all[] = {e->automata,      e->automaton_owner, e->productive, e->nullable,
                   e->from.begin,    e->from.edges,      e->to.begin,   e->to.edges,
                   e->rule.begin,    e->rule.edges,      e->text_rank,  e->state_number,
                   e->states,        e->rule_number,     e->rules,      e->automaton_number,
                   e->kept_automata, e->text_number,     e->kept_texts, e->edges,
                   e->edge_begin,    e->stack,           e->seen};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        free(all[i]);
}

static void emit_init(emit_t *e)
{
    const build_t *b = e->b;

    e->automata = take(e, b->automaton_count, sizeof(*e->automata));
    e->automaton_owner = take(e, b->automaton_count, sizeof(uint32_t));
    e->productive = take(e, b->state_count, 1);
    e->nullable = take(e, b->state_count, 1);
    e->text_rank = take(e, b->text_count, sizeof(uint32_t));
    e->state_number = take(e, b->state_count, sizeof(uint32_t));
    e->states = take(e, b->state_count, sizeof(uint32_t));
    e->rule_number = take(e, b->rule_count, sizeof(uint32_t));
    e->rules = take(e, b->rule_count, sizeof(uint32_t));
    e->automaton_number = take(e, b->automaton_count, sizeof(uint32_t));
    e->kept_automata = take(e, b->automaton_count, sizeof(uint32_t));
    e->text_number = take(e, b->text_count, sizeof(uint32_t));
    e->kept_texts = take(e, b->text_count, sizeof(uint32_t));
    e->edge_begin = take(e, (size_t)b->state_count + 1, sizeof(uint32_t));
    e->stack = take(e, b->state_count, sizeof(uint32_t));
    e->seen = take(e, b->state_count, 1);
    group(e, &e->from, 0, b->state_count);
    group(e, &e->to, 1, b->state_count);
    group(e, &e->rule, 2, b->rule_count);
}

status_t build_block(build_t *b, uint64_t vocabulary_digest, void **block, size_t *bytes)
{
    emit_t e = {.b = b};

    build_fail(b, b->regexes.status);
    if (b->status != STATUS_OK)
        return b->status;
    emit_init(&e);
    if (b->status == STATUS_OK)
        make_automata(&e);
    if (b->status == STATUS_OK) {
        mark_states(&e, e.productive, false);
        mark_states(&e, e.nullable, true);
        rank_texts(&e);
        if (!e.productive[b->rules[0]])
            build_fail(b, FAIL(STATUS_INVALID, "no text satisfies the grammar"));
    }
    if (b->status == STATUS_OK && !walk(&e, true) && b->status == STATUS_OK)
        walk(&e, false);
    if (b->status == STATUS_OK)
        write_block(&e, vocabulary_digest, block, bytes);
    emit_fini(&e);
    return b->status;
}
