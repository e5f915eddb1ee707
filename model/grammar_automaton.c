/* grammar_automaton.c - the automaton of a regular expression, by derivatives; see grammar_regex.h.
 *
 * States are explored breadth first, so equal terms give equal automata. States from which nothing
 * is accepted any more are found by walking all transitions backwards, and become state 0: with
 * complement and intersection that cannot be seen from a term.
 */
#include <stdlib.h>
#include <string.h>

#include "model/grammar_regex.h"

typedef struct {
    regex_store_t *store;
    regex_automaton_t *out;
    uint32_t *terms;    /* of each state */
    uint32_t *state_of; /* by term, 0: none yet; grows with the store */
    uint32_t state_of_room;
    uint32_t state_room;
    uint8_t sample[256]; /* one byte of each class */
} making_t;

/* Cuts the classes of `out` by one set. */
static void refine(regex_automaton_t *out, const byte_set_t *set)
{
    int split[256];
    uint32_t inside[256] = {0}, total[256] = {0};

    for (unsigned byte = 0; byte < 256; byte++) {
        total[out->classes[byte]]++;
        inside[out->classes[byte]] += (uint32_t)(set->bits[byte / 64] >> byte % 64 & 1);
    }
    for (unsigned class = 0; class < out->class_count; class ++)
        split[class] = -1;
    uint32_t count = out->class_count;
    for (unsigned byte = 0; byte < 256; byte++) {
        unsigned class = out->classes[byte];
        bool is_inside = set->bits[byte / 64] >> byte % 64 & 1;
        if (!is_inside || inside[class] == total[class])
            continue;
        if (split[class] < 0)
            split[class] = (int)count++;
        out->classes[byte] = (uint8_t)split[class];
    }
    out->class_count = count;
}

static void mark_children(const regex_store_t *s, uint32_t term, uint8_t *seen, uint32_t *stack,
                          uint32_t *top)
{
    const regex_node_t *n = &s->nodes[term];
    uint32_t pair[2] = {n->first, n->second};
    const uint32_t *children = pair;
    uint32_t count = 0;

    switch (n->kind) {
    case REGEX_KIND_CAT:
        count = 2;
        break;
    case REGEX_KIND_REPEAT:
    case REGEX_KIND_NOT:
    case REGEX_KIND_INSIDE:
        count = 1;
        break;
    case REGEX_KIND_OR:
    case REGEX_KIND_AND:
        children = s->children + n->first;
        count = n->second;
        break;
    default:
        break;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!seen[children[i]]) {
            seen[children[i]] = 1;
            stack[(*top)++] = children[i];
        }
    }
}

/* Bytes that no set of the term tells apart are one class. */
static status_t find_classes(making_t *m, uint32_t root)
{
    const regex_store_t *s = m->store;
    uint8_t *seen = calloc(s->node_count, 1);
    uint8_t *seen_set = calloc(s->set_count + 1, 1);
    uint32_t *stack = malloc(s->node_count * sizeof(*stack));
    uint32_t top = 0;

    if (seen == NULL || stack == NULL || seen_set == NULL) {
        free(seen);
        free(seen_set);
        free(stack);
        return FAIL(STATUS_NO_MEMORY, "automaton");
    }
    m->out->class_count = 1;
    seen[root] = 1;
    stack[top++] = root;
    while (top > 0) {
        uint32_t term = stack[--top];
        const regex_node_t *n = &s->nodes[term];
        if (n->kind == REGEX_KIND_SET && !seen_set[n->first]) {
            seen_set[n->first] = 1;
            refine(m->out, &s->sets[n->first]);
        }
        for (unsigned digit = '0'; n->kind == REGEX_KIND_MULTIPLE && digit <= '9'; digit++) {
            byte_set_t set = {{0}};
            set.bits[digit / 64] = (uint64_t)1 << digit % 64;
            refine(m->out, &set);
        }
        mark_children(s, term, seen, stack, &top);
    }
    free(seen);
    free(seen_set);
    free(stack);
    for (unsigned byte = 256; byte-- > 0;)
        m->sample[m->out->classes[byte]] = (uint8_t)byte;
    return STATUS_OK;
}

static status_t state_for(making_t *m, uint32_t term, uint32_t *state)
{
    regex_automaton_t *out = m->out;

    if (term == REGEX_NOTHING) {
        *state = 0;
        return STATUS_OK;
    }
    if (term >= m->state_of_room) {
        uint32_t room = 2 * term + 64;
        uint32_t *more = realloc(m->state_of, room * sizeof(*more));
        if (more == NULL)
            return FAIL(STATUS_NO_MEMORY, "automaton");
        memset(more + m->state_of_room, 0, (room - m->state_of_room) * sizeof(*more));
        m->state_of = more;
        m->state_of_room = room;
    }
    if (m->state_of[term] == 0) {
        if (out->state_count == REGEX_STATES_MAX)
            return FAIL(STATUS_TOO_LARGE, "a regular expression needs more than %d states",
                        REGEX_STATES_MAX);
        if (out->state_count == m->state_room) {
            uint32_t room = 2 * m->state_room;
            uint16_t *next =
                realloc(out->next, (size_t)room * out->class_count * sizeof(*out->next));
            out->next = next != NULL ? next : out->next;
            uint32_t *terms = realloc(m->terms, room * sizeof(*m->terms));
            m->terms = terms != NULL ? terms : m->terms;
            if (next == NULL || terms == NULL)
                return FAIL(STATUS_NO_MEMORY, "automaton");
            m->state_room = room;
        }
        m->terms[out->state_count] = term;
        m->state_of[term] = out->state_count++;
    }
    *state = m->state_of[term];
    return STATUS_OK;
}

static status_t explore(making_t *m, uint32_t root)
{
    regex_automaton_t *out = m->out;
    uint32_t state;

    TRY(state_for(m, root, &state));
    for (uint32_t from = 1; from < out->state_count; from++) {
        for (uint32_t class = 0; class < out->class_count; class ++) {
            uint32_t term = regex_derive(m->store, m->terms[from], m->sample[class]);
            if (m->store->status != STATUS_OK)
                return m->store->status;
            TRY(state_for(m, term, &state));
            out->next[(size_t)from * out->class_count + class] = (uint16_t)state;
        }
    }
    return STATUS_OK;
}

/* Marks in `alive` all states that reach an accepting one. */
static status_t find_alive(const regex_automaton_t *a, uint8_t *alive)
{
    size_t edge_count = (size_t)a->state_count * a->class_count;
    uint32_t *begin = calloc((size_t)a->state_count + 2, sizeof(*begin));
    uint32_t *from = malloc(edge_count * sizeof(*from));
    uint32_t *stack = malloc(a->state_count * sizeof(*stack)), top = 0;

    if (begin == NULL || from == NULL || stack == NULL) {
        free(begin);
        free(from);
        free(stack);
        return FAIL(STATUS_NO_MEMORY, "automaton");
    }
    for (size_t i = a->class_count; i < edge_count; i++)
        begin[a->next[i] + 2]++;
    for (uint32_t i = 0; i < a->state_count; i++)
        begin[i + 1] += begin[i];
    for (size_t i = a->class_count; i < edge_count; i++)
        from[begin[a->next[i] + 1]++] = (uint32_t)(i / a->class_count);
    for (uint32_t i = 1; i < a->state_count; i++) {
        alive[i] = a->accepts[i];
        if (alive[i])
            stack[top++] = i;
    }
    while (top > 0) {
        uint32_t state = stack[--top];
        for (uint32_t i = begin[state]; i < begin[state + 1]; i++) {
            if (!alive[from[i]]) {
                alive[from[i]] = 1;
                stack[top++] = from[i];
            }
        }
    }
    free(begin);
    free(from);
    free(stack);
    return STATUS_OK;
}

/* Takes dead states out and closes the gaps. */
static status_t prune(regex_automaton_t *a)
{
    uint8_t *alive = calloc(a->state_count, 1);
    uint16_t *renamed = calloc(a->state_count, sizeof(*renamed));
    uint32_t kept = 1;
    status_t status = alive == NULL || renamed == NULL ? FAIL(STATUS_NO_MEMORY, "automaton")
                                                       : find_alive(a, alive);

    if (status == STATUS_OK) {
        for (uint32_t i = 1; i < a->state_count; i++)
            renamed[i] = alive[i] && (i == 1 || alive[1]) ? (uint16_t)kept++ : 0;
        for (uint32_t i = 1; i < a->state_count; i++) {
            if (renamed[i] == 0)
                continue;
            uint16_t *target = a->next + (size_t)renamed[i] * a->class_count;
            for (uint32_t class = 0; class < a->class_count; class ++)
                target[class] = renamed[a->next[(size_t)i * a->class_count + class]];
            a->accepts[renamed[i]] = a->accepts[i];
        }
        a->state_count = kept;
    }
    free(alive);
    free(renamed);
    return status;
}

status_t regex_automaton(regex_store_t *store, uint32_t term, regex_automaton_t *out)
{
    making_t m = {.store = store, .out = out, .state_room = 32};
    status_t status = store->status;

    *out = (regex_automaton_t){.state_count = 1};
    if (status == STATUS_OK)
        status = find_classes(&m, term);
    if (status == STATUS_OK) {
        out->next = calloc((size_t)m.state_room * out->class_count, sizeof(*out->next));
        m.terms = calloc(m.state_room, sizeof(*m.terms));
        status = out->next == NULL || m.terms == NULL ? FAIL(STATUS_NO_MEMORY, "automaton")
                                                      : explore(&m, term);
    }
    if (status == STATUS_OK) {
        out->accepts = calloc(out->state_count, 1);
        if (out->accepts == NULL)
            status = FAIL(STATUS_NO_MEMORY, "automaton");
    }
    if (status == STATUS_OK) {
        for (uint32_t i = 1; i < out->state_count; i++)
            out->accepts[i] = regex_nullable(store, m.terms[i]);
        status = prune(out);
    }
    free(m.terms);
    free(m.state_of);
    return status;
}

void regex_automaton_fini(regex_automaton_t *automaton)
{
    free(automaton->next);
    free(automaton->accepts);
    *automaton = (regex_automaton_t){0};
}

bool regex_automaton_is_finite(const regex_automaton_t *a)
{
    uint8_t *open = malloc(a->state_count); /* states that may lie on a cycle, or lead to one */
    bool again = open != NULL, finite = open != NULL;

    if (open != NULL)
        memset(open, 1, a->state_count);
    while (again) {
        again = false;
        finite = true;
        for (uint32_t state = a->state_count; state-- > 1;) {
            bool leads = false;
            for (uint32_t class = 0; class < a->class_count && open[state]; class ++) {
                uint32_t next = a->next[(size_t)state * a->class_count + class];
                leads = leads || (next != 0 && open[next]);
            }
            again = again || (open[state] && !leads);
            open[state] = leads;
            finite = finite && !leads;
        }
    }
    free(open);
    return finite;
}

bool regex_automaton_accepts(const regex_automaton_t *automaton, const char *text, size_t length)
{
    uint32_t state = automaton->state_count > 1 ? 1 : 0;

    for (size_t i = 0; i < length && state != 0; i++)
        state = regex_automaton_step(automaton, state, (unsigned char)text[i]);
    return state != 0 && automaton->accepts[state];
}
