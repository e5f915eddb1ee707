/* grammar_regex.c - see grammar_regex.h. Terms and their derivatives; automata are in
 * grammar_automaton.c.
 *
 * Each constructor brings its term into a normal form first: unions and intersections are flat,
 * sorted and without twins, concatenation leans to the right, single bytes of a union are one set.
 * So derivatives of one term are finitely many, and few.
 */
#include "model/grammar_regex.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/random.h"

enum { NODES_MAX = 1 << 22, DEPTH_MAX = 2000 };

static void fail(regex_store_t *s, status_t status, const char *what)
{
    if (s->status == STATUS_OK)
        s->status = FAIL(status, "%s", what);
}

/* Doubles *room until `need` items fit; false if that failed. */
static bool grow(regex_store_t *s, void *items, uint32_t *room, uint32_t need, size_t item_bytes)
{
    uint32_t more = *room == 0 ? 64 : *room;
    void *old, *bigger;

    if (need <= *room)
        return true;
    while (more < need)
        more *= 2;
    memcpy(&old, items, sizeof(old));
    bigger = realloc(old, more * item_bytes);
    if (bigger == NULL) {
        fail(s, STATUS_NO_MEMORY, "terms of a regular expression");
        return false;
    }
    memcpy(items, &bigger, sizeof(bigger));
    *room = more;
    return true;
}

static uint64_t hash_node(const regex_store_t *s, const regex_node_t *n)
{
    uint64_t key[3] = {(uint64_t)n->kind << 32 | n->second, (uint64_t)n->min << 32 | n->max,
                       n->first};
    uint64_t hash;

    if (n->kind == REGEX_KIND_OR || n->kind == REGEX_KIND_AND) {
        key[2] = 0;
        hash = random_digest(1, s->children + n->first, n->second * sizeof(uint32_t));
    } else if (n->kind == REGEX_KIND_SET) {
        key[2] = 0;
        hash = random_digest(2, &s->sets[n->first], sizeof(byte_set_t));
    } else {
        hash = 3;
    }
    return random_digest(hash, key, sizeof(key));
}

static bool equal_node(const regex_store_t *s, const regex_node_t *a, const regex_node_t *b)
{
    if (a->kind != b->kind || a->second != b->second || a->min != b->min || a->max != b->max)
        return false;
    if (a->kind == REGEX_KIND_OR || a->kind == REGEX_KIND_AND)
        return memcmp(s->children + a->first, s->children + b->first,
                      a->second * sizeof(uint32_t)) == 0;
    if (a->kind == REGEX_KIND_SET)
        return memcmp(&s->sets[a->first], &s->sets[b->first], sizeof(byte_set_t)) == 0;
    return a->first == b->first;
}

static void rehash(regex_store_t *s)
{
    uint32_t mask = s->index_mask * 2 + 1;
    uint32_t *index = calloc((size_t)mask + 1, sizeof(*index));

    if (index == NULL) {
        fail(s, STATUS_NO_MEMORY, "terms of a regular expression");
        return;
    }
    for (uint32_t node = 0; node < s->node_count; node++) {
        uint32_t at = (uint32_t)hash_node(s, &s->nodes[node]) & mask;
        while (index[at] != 0)
            at = (at + 1) & mask;
        index[at] = node + 1;
    }
    free(s->index);
    s->index = index;
    s->index_mask = mask;
}

/* The number of this term, which may be new. A child list or set that was not new is dropped. */
static uint32_t intern(regex_store_t *s, regex_node_t node)
{
    uint32_t at;

    if (s->status != STATUS_OK)
        return REGEX_NOTHING;
    if (s->node_count * 2 > s->index_mask)
        rehash(s);
    if (s->status != STATUS_OK)
        return REGEX_NOTHING;
    for (at = (uint32_t)hash_node(s, &node) & s->index_mask; s->index[at] != 0;
         at = (at + 1) & s->index_mask) {
        if (!equal_node(s, &s->nodes[s->index[at] - 1], &node))
            continue;
        if (node.kind == REGEX_KIND_OR || node.kind == REGEX_KIND_AND)
            s->child_count = node.first;
        if (node.kind == REGEX_KIND_SET)
            s->set_count = node.first;
        return s->index[at] - 1;
    }
    if (s->node_count == NODES_MAX) {
        fail(s, STATUS_TOO_LARGE, "a regular expression has too many terms");
        return REGEX_NOTHING;
    }
    if (!grow(s, &s->nodes, &s->node_room, s->node_count + 1, sizeof(regex_node_t)))
        return REGEX_NOTHING;
    s->nodes[s->node_count] = node;
    s->index[at] = s->node_count + 1;
    return s->node_count++;
}

void regex_init(regex_store_t *s, uint64_t work_max)
{
    *s = (regex_store_t){.index_mask = 255, .memo_mask = 1023, .work_max = work_max};
    s->index = calloc(256, sizeof(*s->index));
    s->memo_keys = calloc(1024, sizeof(*s->memo_keys));
    s->memo_values = calloc(1024, sizeof(*s->memo_values));
    if (s->index == NULL || s->memo_keys == NULL || s->memo_values == NULL) {
        fail(s, STATUS_NO_MEMORY, "terms of a regular expression");
        return;
    }
    intern(s, (regex_node_t){.kind = REGEX_KIND_NOTHING});
    intern(s, (regex_node_t){.kind = REGEX_KIND_EMPTY, .nullable = 1});
    intern(s, (regex_node_t){.kind = REGEX_KIND_NOT, .first = REGEX_NOTHING, .nullable = 1});
}

void regex_fini(regex_store_t *s)
{
    free(s->nodes);
    free(s->children);
    free(s->sets);
    free(s->index);
    free(s->memo_keys);
    free(s->memo_values);
    *s = (regex_store_t){0};
}

bool regex_is_repeat(const regex_store_t *s, uint32_t a, uint32_t *repeated, uint32_t *min,
                     uint32_t *max)
{
    const regex_node_t *n = &s->nodes[a];

    if (n->kind != REGEX_KIND_REPEAT)
        return false;
    *repeated = n->first;
    *min = n->min;
    *max = n->max;
    return true;
}

bool regex_is_character(const regex_store_t *s, uint32_t a)
{
    return s->nodes[a].character;
}

void regex_mark_character(regex_store_t *s, uint32_t a)
{
    if (a > REGEX_ANY)
        s->nodes[a].character = 1;
}

bool regex_nullable(const regex_store_t *s, uint32_t a)
{
    return s->nodes[a].nullable;
}

uint32_t regex_set(regex_store_t *s, const byte_set_t *set)
{
    byte_set_t none = {{0}};

    if (memcmp(set, &none, sizeof(none)) == 0)
        return REGEX_NOTHING;
    if (!grow(s, &s->sets, &s->set_room, s->set_count + 1, sizeof(byte_set_t)))
        return REGEX_NOTHING;
    s->sets[s->set_count] = *set;
    return intern(s, (regex_node_t){.kind = REGEX_KIND_SET, .first = (s->set_count++) & 0x3ffffff});
}

uint32_t regex_range(regex_store_t *s, unsigned first, unsigned last)
{
    byte_set_t set = {{0}};

    for (unsigned byte = first; byte <= last; byte++)
        set.bits[byte / 64] |= (uint64_t)1 << byte % 64;
    return regex_set(s, &set);
}

uint32_t regex_text(regex_store_t *s, const char *bytes, size_t length)
{
    uint32_t term = REGEX_EMPTY;

    for (size_t i = length; i-- > 0;) {
        unsigned byte = (unsigned char)bytes[i];
        term = regex_cat(s, regex_range(s, byte, byte), term);
    }
    return term;
}

uint32_t regex_cat(regex_store_t *s, uint32_t a, uint32_t b)
{
    regex_node_t n = s->nodes[a];

    if (a == REGEX_NOTHING || b == REGEX_NOTHING)
        return REGEX_NOTHING;
    if (a == REGEX_EMPTY)
        return b;
    if (b == REGEX_EMPTY)
        return a;
    if (n.kind == REGEX_KIND_CAT) {
        if (++s->depth > DEPTH_MAX) {
            fail(s, STATUS_TOO_LARGE, "a regular expression is nested too deeply");
            s->depth--;
            return REGEX_NOTHING;
        }
        b = regex_cat(s, n.second, b);
        s->depth--;
        return regex_cat(s, n.first, b);
    }
    return intern(s, (regex_node_t){.kind = REGEX_KIND_CAT,
                                    .first = a & 0x3ffffff,
                                    .second = b,
                                    .nullable = n.nullable && s->nodes[b].nullable});
}

static int compare_terms(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Puts the children of terms of `kind` in their place; the list may grow, so it is a copy. */
static uint32_t *flatten(regex_store_t *s, regex_kind_t kind, const uint32_t *terms,
                         uint32_t *count)
{
    uint32_t total = 0, *flat;

    for (uint32_t i = 0; i < *count; i++) {
        const regex_node_t *n = &s->nodes[terms[i]];
        total += n->kind == kind ? n->second : 1;
    }
    flat = malloc((total + 1) * sizeof(*flat));
    if (flat == NULL) {
        fail(s, STATUS_NO_MEMORY, "terms of a regular expression");
        return NULL;
    }
    total = 0;
    for (uint32_t i = 0; i < *count; i++) {
        const regex_node_t *n = &s->nodes[terms[i]];
        uint32_t inner = n->kind == kind ? n->second : 0;
        if (inner > 0)
            memcpy(flat + total, s->children + n->first, inner * sizeof(*flat));
        else
            flat[total] = terms[i];
        total += inner > 0 ? inner : 1;
    }
    qsort(flat, total, sizeof(*flat), compare_terms);
    *count = total;
    return flat;
}

/* Single bytes become one set: their union, or their intersection. */
static void join_sets(regex_store_t *s, regex_kind_t kind, uint32_t *terms, uint32_t *count)
{
    byte_set_t all = {{0}};
    uint32_t sets = 0, kept = 0;

    for (uint32_t i = 0; i < *count; i++) {
        const regex_node_t *n = &s->nodes[terms[i]];
        if (n->kind != REGEX_KIND_SET) {
            terms[kept++] = terms[i];
            continue;
        }
        for (unsigned word = 0; word < 4; word++) {
            uint64_t bits = s->sets[n->first].bits[word];
            all.bits[word] = sets == 0               ? bits
                             : kind == REGEX_KIND_OR ? all.bits[word] | bits
                                                     : all.bits[word] & bits;
        }
        sets++;
    }
    if (sets > 0)
        terms[kept++] = regex_set(s, &all);
    *count = kept;
}

/* What does not change the union or intersection goes; *result is set where it is known whole. */
static bool simplify(regex_store_t *s, regex_kind_t kind, uint32_t *terms, uint32_t *count,
                     uint32_t *result)
{
    uint32_t neutral = kind == REGEX_KIND_OR ? REGEX_NOTHING : REGEX_ANY;
    uint32_t absorbing = kind == REGEX_KIND_OR ? REGEX_ANY : REGEX_NOTHING;
    uint32_t kept = 0;
    bool nullable = kind == REGEX_KIND_AND, empty = false;

    join_sets(s, kind, terms, count);
    qsort(terms, *count, sizeof(*terms), compare_terms);
    for (uint32_t i = 0; i < *count; i++) {
        if (terms[i] == absorbing) {
            *result = absorbing;
            return true;
        }
        if (terms[i] == neutral || (kept > 0 && terms[kept - 1] == terms[i]))
            continue;
        empty = empty || terms[i] == REGEX_EMPTY;
        if (terms[i] != REGEX_EMPTY)
            nullable = kind == REGEX_KIND_OR ? nullable || s->nodes[terms[i]].nullable
                                             : nullable && s->nodes[terms[i]].nullable;
        terms[kept++] = terms[i];
    }
    if (empty && kind == REGEX_KIND_AND) { /* the empty text, or nothing */
        *result = nullable ? REGEX_EMPTY : REGEX_NOTHING;
        return true;
    }
    if (empty && nullable && kept > 1) { /* REGEX_EMPTY sorts first: the others contain it */
        memmove(terms, terms + 1, (kept - 1) * sizeof(*terms));
        kept--;
    }
    *count = kept;
    *result = kept == 0 ? neutral : terms[0];
    return kept <= 1;
}

static uint32_t combine(regex_store_t *s, regex_kind_t kind, const uint32_t *terms, uint32_t count)
{
    uint32_t result = REGEX_NOTHING;
    uint32_t *flat = flatten(s, kind, terms, &count);

    if (flat == NULL)
        return REGEX_NOTHING;
    if (!simplify(s, kind, flat, &count, &result) &&
        grow(s, &s->children, &s->child_room, s->child_count + count, sizeof(uint32_t))) {
        bool nullable = kind == REGEX_KIND_AND;
        for (uint32_t i = 0; i < count; i++)
            nullable = kind == REGEX_KIND_OR ? nullable || s->nodes[flat[i]].nullable
                                             : nullable && s->nodes[flat[i]].nullable;
        memcpy(s->children + s->child_count, flat, count * sizeof(*flat));
        s->child_count += count;
        result = intern(s, (regex_node_t){.kind = kind & 15,
                                          .first = (s->child_count - count) & 0x3ffffff,
                                          .second = count,
                                          .nullable = nullable});
    }
    free(flat);
    return result;
}

uint32_t regex_or_all(regex_store_t *s, uint32_t *terms, uint32_t count)
{
    return combine(s, REGEX_KIND_OR, terms, count);
}

uint32_t regex_and_all(regex_store_t *s, uint32_t *terms, uint32_t count)
{
    return combine(s, REGEX_KIND_AND, terms, count);
}

uint32_t regex_or(regex_store_t *s, uint32_t a, uint32_t b)
{
    uint32_t terms[2] = {a, b};

    if (a == b || b == REGEX_NOTHING)
        return a;
    if (a == REGEX_NOTHING)
        return b;
    return combine(s, REGEX_KIND_OR, terms, 2);
}

uint32_t regex_and(regex_store_t *s, uint32_t a, uint32_t b)
{
    uint32_t terms[2] = {a, b};

    if (a == b || b == REGEX_ANY)
        return a;
    if (a == REGEX_ANY)
        return b;
    return combine(s, REGEX_KIND_AND, terms, 2);
}

uint32_t regex_not(regex_store_t *s, uint32_t a)
{
    const regex_node_t *n = &s->nodes[a];

    if (n->kind == REGEX_KIND_NOT)
        return n->first;
    return intern(s, (regex_node_t){
                         .kind = REGEX_KIND_NOT, .first = a & 0x3ffffff, .nullable = !n->nullable});
}

uint32_t regex_repeat(regex_store_t *s, uint32_t a, uint32_t min, uint32_t max)
{
    regex_node_t n = s->nodes[a];

    if (max == 0 || a == REGEX_EMPTY)
        return REGEX_EMPTY;
    if (a == REGEX_NOTHING)
        return min == 0 ? REGEX_EMPTY : REGEX_NOTHING;
    if (n.nullable)
        min = 0;
    if (max == 1)
        return min == 1 ? a : regex_or(s, a, REGEX_EMPTY);
    if (n.kind == REGEX_KIND_REPEAT && n.min == 0 && n.max == REGEX_NO_END)
        return a;
    return intern(s, (regex_node_t){.kind = REGEX_KIND_REPEAT,
                                    .first = a & 0x3ffffff,
                                    .min = min,
                                    .max = max,
                                    .nullable = min == 0});
}

uint32_t regex_multiple(regex_store_t *s, uint32_t divisor, uint32_t remainder)
{
    return intern(s, (regex_node_t){.kind = REGEX_KIND_MULTIPLE,
                                    .min = divisor,
                                    .max = remainder,
                                    .nullable = remainder == 0});
}

/* What is left behind the BEGIN byte, with an end still to come. */
static uint32_t inside(regex_store_t *s, uint32_t rest)
{
    uint32_t end = regex_derive(s, rest, REGEX_END_BYTE);

    if (rest == REGEX_NOTHING)
        return REGEX_NOTHING;
    return intern(s, (regex_node_t){.kind = REGEX_KIND_INSIDE,
                                    .first = rest & 0x3ffffff,
                                    .nullable = s->nodes[end].nullable});
}

uint32_t regex_inside(regex_store_t *s, uint32_t a)
{
    return inside(s, regex_derive(s, a, REGEX_BEGIN_BYTE));
}

static uint32_t derive_list(regex_store_t *s, regex_node_t n, unsigned byte)
{
    uint32_t kept = 0, result;
    uint32_t *terms = malloc((n.second + 1) * sizeof(*terms));

    if (terms == NULL) {
        fail(s, STATUS_NO_MEMORY, "terms of a regular expression");
        return REGEX_NOTHING;
    }
    for (uint32_t i = 0; i < n.second; i++) {
        uint32_t term = regex_derive(s, s->children[n.first + i], byte);
        if (term != REGEX_NOTHING || n.kind == REGEX_KIND_AND)
            terms[kept++] = term;
    }
    result = kept == 1 ? terms[0] : combine(s, (regex_kind_t)n.kind, terms, kept);
    free(terms);
    return result;
}

static uint32_t derive(regex_store_t *s, uint32_t a, unsigned byte)
{
    regex_node_t n = s->nodes[a];
    uint32_t left;

    switch ((regex_kind_t)n.kind) {
    case REGEX_KIND_NOTHING:
    case REGEX_KIND_EMPTY:
        return REGEX_NOTHING;
    case REGEX_KIND_SET:
        return s->sets[n.first].bits[byte / 64] >> byte % 64 & 1 ? REGEX_EMPTY : REGEX_NOTHING;
    case REGEX_KIND_CAT:
        left = regex_cat(s, regex_derive(s, n.first, byte), n.second);
        if (!s->nodes[n.first].nullable)
            return left;
        return regex_or(s, left, regex_derive(s, n.second, byte));
    case REGEX_KIND_REPEAT:
        left = regex_derive(s, n.first, byte);
        return regex_cat(s, left,
                         regex_repeat(s, n.first, n.min > 0 ? n.min - 1 : 0,
                                      n.max == REGEX_NO_END ? n.max : n.max - 1));
    case REGEX_KIND_OR:
    case REGEX_KIND_AND:
        return derive_list(s, n, byte);
    case REGEX_KIND_NOT:
        return regex_not(s, regex_derive(s, n.first, byte));
    case REGEX_KIND_MULTIPLE:
        if (byte < '0' || byte > '9')
            return REGEX_NOTHING;
        return regex_multiple(s, n.min, (uint32_t)(((uint64_t)n.max * 10 + byte - '0') % n.min));
    case REGEX_KIND_INSIDE:
        return inside(s, regex_derive(s, n.first, byte));
    }
    UNREACHABLE("every kind returns");
}

static void memo_put(regex_store_t *s, uint64_t key, uint32_t value)
{
    if (s->memo_count * 2 > s->memo_mask) {
        uint32_t mask = s->memo_mask * 2 + 1;
        uint64_t *keys = calloc((size_t)mask + 1, sizeof(*keys));
        uint32_t *values = calloc((size_t)mask + 1, sizeof(*values));
        if (keys == NULL || values == NULL) {
            free(keys);
            free(values);
            fail(s, STATUS_NO_MEMORY, "derivatives of a regular expression");
            return;
        }
        for (uint32_t i = 0; i <= s->memo_mask; i++) {
            uint32_t at = (uint32_t)random_mix(s->memo_keys[i]) & mask;
            if (s->memo_keys[i] == 0)
                continue;
            while (keys[at] != 0)
                at = (at + 1) & mask;
            keys[at] = s->memo_keys[i];
            values[at] = s->memo_values[i];
        }
        free(s->memo_keys);
        free(s->memo_values);
        s->memo_keys = keys;
        s->memo_values = values;
        s->memo_mask = mask;
    }
    uint32_t at = (uint32_t)random_mix(key) & s->memo_mask;
    while (s->memo_keys[at] != 0)
        at = (at + 1) & s->memo_mask;
    s->memo_keys[at] = key;
    s->memo_values[at] = value;
    s->memo_count++;
}

uint32_t regex_derive(regex_store_t *s, uint32_t a, unsigned byte)
{
    uint64_t key = ((uint64_t)a << 8 | byte) + 1;
    uint32_t result;
    regex_kind_t kind = (regex_kind_t)s->nodes[a].kind;

    if (kind == REGEX_KIND_SET || kind == REGEX_KIND_NOTHING || kind == REGEX_KIND_EMPTY)
        return derive(s, a, byte);
    if (s->status != STATUS_OK)
        return REGEX_NOTHING;
    for (uint32_t at = (uint32_t)random_mix(key) & s->memo_mask; s->memo_keys[at] != 0;
         at = (at + 1) & s->memo_mask) {
        if (s->memo_keys[at] == key)
            return s->memo_values[at];
    }
    s->work += kind == REGEX_KIND_OR || kind == REGEX_KIND_AND ? 1 + s->nodes[a].second : 1;
    if (s->work > s->work_max) {
        fail(s, STATUS_TOO_LARGE, "a regular expression needs too much work");
        return REGEX_NOTHING;
    }
    if (++s->depth > DEPTH_MAX) {
        fail(s, STATUS_TOO_LARGE, "a regular expression is nested too deeply");
        s->depth--;
        return REGEX_NOTHING;
    }
    result = derive(s, a, byte);
    s->depth--;
    memo_put(s, key, result);
    return result;
}
