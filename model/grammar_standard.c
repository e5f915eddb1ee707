/* grammar_standard.c - see grammar_standard.h. */
#include "model/grammar_standard.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "model/grammar_block.h"
#include "model/grammar_follow.h"
#include "model/grammar_schema.h"

static standard_automaton_t standards[STANDARD_COUNT];
static bool made[STANDARD_COUNT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint32_t standard_term(schema_t *s, standard_t which)
{
    regex_store_t *r = &s->build.regexes;
    shape_t shape = {.string_term = REGEX_ANY, .length_max = SCHEMA_NONE};

    if (which >= STANDARD_FORMAT)
        shape.format = which - STANDARD_FORMAT + 1;
    uint32_t term = REGEX_NOTHING;

    if (which == STANDARD_INTEGER || which == STANDARD_NUMBER) {
        for (uint32_t type = SCHEMA_INTEGER; type <= SCHEMA_WHOLE; type *= 2) {
            if (which == STANDARD_NUMBER || type == SCHEMA_INTEGER)
                term = regex_or(r, term, schema_number_term(s, &shape, type));
        }
        return term;
    }
    term = regex_text(r, which == STANDARD_KEY ? "\": " : "\"", which == STANDARD_KEY ? 3 : 1);
    return regex_cat(r, regex_text(r, "\"", 1), regex_cat(r, schema_string_body(s, &shape), term));
}

static bool make(standard_t which)
{
    schema_t *s = calloc(1, sizeof(*s));
    standard_automaton_t *out = &standards[which];
    bool ok;

    if (s == NULL)
        return false;
    build_init(&s->build);
    ok = s->build.status == STATUS_OK &&
         regex_automaton(&s->build.regexes, standard_term(s, which), &out->automaton) == STATUS_OK;
    if (ok)
        out->flags = calloc(out->automaton.state_count, sizeof(uint32_t));
    ok = ok && out->flags != NULL && follow_flags(&out->automaton, out->flags) == STATUS_OK;
    build_fini(&s->build);
    free(s);
    return ok;
}

const standard_automaton_t *standard_automaton(standard_t which)
{
    pthread_mutex_lock(&lock);
    if (!made[which])
        made[which] = make(which);
    pthread_mutex_unlock(&lock);
    return made[which] ? &standards[which] : NULL;
}

/* A trie of the names, beside the states in which the standard automaton is then. */
typedef struct {
    uint32_t base; /* state of the standard automaton */
    uint32_t first, next;
    uint8_t byte;
    bool ends;
} name_node_t;

typedef struct {
    const regex_automaton_t *base;
    name_node_t *nodes;
    uint32_t count;
} names_t;

static uint32_t child_of(names_t *n, uint32_t node, uint8_t byte)
{
    uint32_t child = n->nodes[node].first;

    while (child != 0 && n->nodes[child].byte != byte)
        child = n->nodes[child].next;
    if (child == 0) {
        child = n->count++;
        n->nodes[child] =
            (name_node_t){.base = regex_automaton_step(n->base, n->nodes[node].base, byte),
                          .next = n->nodes[node].first,
                          .byte = byte};
        n->nodes[node].first = child;
    }
    return child;
}

/* Bytes that names have get a class each; *samples: a byte of each class. */
static void split_classes(const names_t *n, regex_automaton_t *out, uint8_t *samples)
{
    uint32_t sizes[256] = {0};

    memcpy(out->classes, n->base->classes, sizeof(out->classes));
    out->class_count = n->base->class_count;
    for (unsigned byte = 0; byte < 256; byte++)
        sizes[out->classes[byte]]++;
    for (uint32_t i = 0; i <= n->count; i++) {
        uint8_t byte = i < n->count ? n->nodes[i].byte : (uint8_t)'"';
        if ((i == 0) || sizes[out->classes[byte]] == 1)
            continue;
        sizes[out->classes[byte]]--;
        sizes[out->class_count] = 1;
        out->classes[byte] = (uint8_t)out->class_count++;
    }
    for (unsigned byte = 256; byte-- > 0;)
        samples[out->classes[byte]] = (uint8_t)byte;
}

static void fill(const names_t *n, const uint32_t *base_flags, const uint8_t *samples,
                 standard_automaton_t *out)
{
    regex_automaton_t *a = &out->automaton;
    uint32_t first = n->base->state_count; /* of the trie's states */

    for (uint32_t state = 1; state < a->state_count; state++) {
        const name_node_t *node = state < first ? NULL : &n->nodes[state - first];
        uint32_t base = node == NULL ? state : node->base;
        uint16_t *row = a->next + (size_t)state * a->class_count;
        for (uint32_t class = 0; class < a->class_count; class ++)
            row[class] = (uint16_t)regex_automaton_step(n->base, base, samples[class]);
        a->accepts[state] = n->base->accepts[base];
        out->flags[state] = base_flags[base] & (node == NULL ? ~0u : ~(uint32_t)GRAMMAR_FREE);
        if (node == NULL)
            continue;
        for (uint32_t child = node->first; child != 0; child = n->nodes[child].next)
            row[a->classes[n->nodes[child].byte]] = (uint16_t)(first + child);
        if (node->ends)
            row[a->classes['"']] = 0;
    }
    a->next[a->class_count + a->classes['"']] = (uint16_t)first; /* the first quote */
}

status_t standard_without(standard_t which, const standard_name_t *names, uint32_t count,
                          standard_automaton_t *out)
{
    const standard_automaton_t *standard = standard_automaton(which);
    size_t bytes = 1;
    uint8_t samples[256];

    *out = (standard_automaton_t){.flags = NULL};
    if (standard == NULL)
        return FAIL(STATUS_NO_MEMORY, "automaton");
    names_t n = {.base = &standard->automaton};
    for (uint32_t i = 0; i < count; i++)
        bytes += names[i].length;
    if (bytes + n.base->state_count > REGEX_STATES_MAX)
        return FAIL(STATUS_TOO_LARGE, "names of %zu bytes need too many states", bytes);
    n.nodes = calloc(bytes, sizeof(*n.nodes));
    if (n.nodes == NULL)
        return FAIL(STATUS_NO_MEMORY, "automaton");
    n.nodes[n.count++] = (name_node_t){.base = regex_automaton_step(n.base, 1, '"')};
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = 0;
        for (size_t at = 0; at < names[i].length; at++)
            node = child_of(&n, node, (uint8_t)names[i].text[at]);
        n.nodes[node].ends = true;
    }
    split_classes(&n, &out->automaton, samples);
    out->automaton.state_count = n.base->state_count + n.count;
    out->automaton.next =
        calloc((size_t)out->automaton.state_count * out->automaton.class_count, sizeof(uint16_t));
    out->automaton.accepts = calloc(out->automaton.state_count, 1);
    out->flags = calloc(out->automaton.state_count, sizeof(uint32_t));
    status_t status = STATUS_OK;
    if (out->automaton.next == NULL || out->automaton.accepts == NULL || out->flags == NULL)
        status = FAIL(STATUS_NO_MEMORY, "automaton");
    else
        fill(&n, standard->flags, samples, out);
    free(n.nodes);
    return status;
}
