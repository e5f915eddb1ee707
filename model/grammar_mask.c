/* grammar_mask.c - which tokens may come next: one walk of the vocabulary's trie; see grammar.h.
 *
 * The threads at each node are what the threads at its parent become with its byte, so a token is
 * allowed exactly if they live at its end. Two things make that fast and change nothing: where a
 * thread lets any text of a slice follow, the slice's tokens are put at once and what lies in it whole
 * is not walked; and where any body of a JSON string may follow, tokens that end the string are taken
 * by what follows their quote, many at a time. A mask is the union of the masks of its threads, so each
 * thread may be treated by itself.
 */
#include <string.h>

#include "model/grammar_match.h"
#include "model/grammar_vocabulary_parts.h"
#include "runtime/base/limits.h"

enum { SLICES = (1 << SLICE_COUNT) - 1, BODY_HERE = GRAMMAR_BODY << SLICE_STATE_START };

typedef struct {
    match_run_t run;
    const grammar_vocabulary_t *vocabulary;
    uint64_t *words;
} masking_t;

/* Threads at one depth of the walk: [first, first + count) of the stack. */
typedef struct {
    uint32_t end; /* of the nodes below it */
    uint32_t first, count;
    uint32_t rows_used;
    uint32_t inside; /* slices that the way here lies in, of those whose tokens are there already */
    int only;        /* the one byte that may follow; -1: not known */
    const uint8_t *classes;
    const uint16_t *next; /* of one automaton's state, by class; NULL: not known */
} depth_t;

/* Characters that a thread may still read, if that is less than a token may have; else UINT32_MAX. */
static uint32_t room_of(const masking_t *m, const match_thread_t *t)
{
    const match_run_t *r = &m->run;
    const grammar_automaton_t *a = &r->automata[r->edges[t->a].symbol];

    if (a->loop == 0 || t->at + m->vocabulary->characters_max <= a->max)
        return UINT32_MAX;
    return a->max - t->at;
}

/* The flags of a thread's state, those that hold with its count. Texts have none. */
static unsigned flags_of(const masking_t *m, const match_thread_t *t)
{
    const match_run_t *r = &m->run;

    if (t->at & MATCH_TEXT)
        return 0;
    const grammar_automaton_t *a = &r->automata[r->edges[t->a].symbol];
    unsigned flags = match_flags(r, a, t->b);
    if (a->loop != 0) {
        bool limited = room_of(m, t) != UINT32_MAX;
        if (t->b != a->loop || (limited && !(flags & (BODY_HERE | GRAMMAR_LINE))))
            return 0;
        if (limited || t->at < a->min)
            flags &= ~(unsigned)GRAMMAR_FREE;
    }
    if (a->unique && t->keys != 0) /* which key it is matters behind the quote */
        flags &= ~(unsigned)GRAMMAR_FREE;
    return flags;
}

/* The tokens of a slice that a thread has room for. */
static void put_slice(masking_t *m, unsigned slice, uint32_t room)
{
    const grammar_vocabulary_t *v = m->vocabulary;
    const uint64_t *all = v->slices[slice];

    if (room == UINT32_MAX) {
        for (uint32_t word = 0; word < v->words; word++)
            m->words[word] |= all[word];
        return;
    }
    if (room == 0)
        return;
    const uint64_t *some =
        v->short_slices[room < SHORT_CHARACTERS_MAX ? room : SHORT_CHARACTERS_MAX];
    for (uint32_t word = 0; word < v->words; word++)
        m->words[word] |= all[word] & some[word];
    for (uint32_t i = 0; i < v->long_count; i++) {
        if (v->long_tokens[2 * i + 1] <= room && token_bit(all, v->long_tokens[2 * i]))
            token_set(m->words, v->long_tokens[2 * i]);
    }
}

static void put_tokens(masking_t *m, token_range_t range)
{
    for (uint32_t i = range.begin; i < range.end; i++)
        token_set(m->words, m->vocabulary->rest_ids[i]);
}

/* All tokens below a node. */
static void put_below(masking_t *m, const trie_node_t *nodes, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        if (nodes[i].token != TRIE_NO_TOKEN)
            token_set(m->words, nodes[i].token);
    }
}

/* The slices that some thread of a depth lets follow: what lies in them is allowed, all of it. */
static uint32_t slices_at(const masking_t *m, const depth_t *depth)
{
    uint32_t slices = 0;

    for (uint32_t i = 0; i < depth->count; i++) {
        const match_thread_t *t = &m->run.state->stack[depth->first + i];
        if (!(t->at & MATCH_TEXT) && room_of(m, t) == UINT32_MAX)
            slices |= flags_of(m, t) / GRAMMAR_SLICE & SLICES;
    }
    return slices;
}

/* Notes the bytes that may follow the threads of a depth, if that is cheap to say. */
static void find_bytes(const masking_t *m, depth_t *depth)
{
    const match_run_t *r = &m->run;
    const match_thread_t *t = &r->state->stack[depth->first];

    depth->next = NULL;
    depth->only = -1;
    if (depth->count != 1)
        return;
    if (!(t->at & MATCH_TEXT)) {
        const grammar_automaton_t *a = &r->automata[r->edges[t->a].symbol];
        depth->classes = (const uint8_t *)r->block + a->classes;
        depth->next = (const uint16_t *)(const void *)(r->block + a->next) + t->b * a->class_count;
    } else if (t->a + 1 == t->b) {
        uint32_t at = r->text_starts[r->edges[t->a].symbol] + (t->at & ~(uint32_t)MATCH_TEXT);
        depth->only = (uint8_t)r->texts[at];
    }
}

/* Does nothing follow with this byte, as far as find_bytes knows? */
static bool is_dead(const depth_t *depth, unsigned byte)
{
    if (depth->next != NULL)
        return depth->next[depth->classes[byte]] == 0;
    return depth->only >= 0 && depth->only != (int)byte;
}

/* The slices of `inside` that a node's byte stays in. */
static uint32_t stays_inside(uint32_t inside, unsigned byte)
{
    for (unsigned slice = 0; slice < SLICE_COUNT; slice++) {
        if (inside & 1u << slice &&
            slice_step((slice_t)slice, SLICE_STATE_START, byte) != SLICE_STATE_START)
            inside &= ~(1u << slice);
    }
    return inside;
}

/* The node is allowed: puts its token, or those that it stands for. */
static void put_node(masking_t *m, const trie_node_t *node, bool rests)
{
    if (node->token == TRIE_NO_TOKEN)
        return;
    if (rests)
        put_tokens(m, m->vocabulary->rest_tokens[node->token]);
    else
        token_set(m->words, node->token);
}

/* What a walk need not look at: tokens of these slices, and all below these first bytes. */
typedef struct {
    uint32_t slices;
    uint64_t bytes[4];
} walked_t;

/* Walks a trie from the threads of the stack's first depth. */
static void walk(masking_t *m, const trie_t *trie, uint32_t count, const walked_t *walked,
                 bool rests)
{
    match_run_t *r = &m->run;
    match_state_t *s = r->state;
    depth_t depths[PIECE_BYTES_MAX + 1];
    uint32_t at = 0, i = 1;
    bool can_end;

    depths[0] = (depth_t){
        .end = trie->count, .count = count, .rows_used = s->rows_used, .inside = walked->slices};
    find_bytes(m, &depths[0]);
    while (i < trie->count && !r->full) {
        while (i >= depths[at].end)
            at--;
        depth_t *here = &depths[at], *next = &depths[at + 1];
        const trie_node_t *node = &trie->nodes[i];
        uint32_t behind = i + node->size;
        r->work += 1;
        if (is_dead(here, node->byte) ||
            (at == 0 && walked->bytes[node->byte / 64] >> node->byte % 64 & 1)) {
            i = behind;
            continue;
        }
        next->inside = here->inside == 0 ? 0 : stays_inside(here->inside, node->byte);
        if (next->inside & node->below) { /* all of it is there */
            i = behind;
            continue;
        }
        s->rows_used = here->rows_used;
        next->first = here->first + here->count;
        if (next->first + GRAMMAR_THREADS_MAX > MATCH_STACK_MAX || r->work > GRAMMAR_WORK_MAX) {
            r->full = true;
            break;
        }
        if (!match_step(r, s->stack + here->first, here->count, node->byte, s->stack + next->first,
                        &next->count, &can_end)) {
            i = behind;
            continue;
        }
        put_node(m, node, rests);
        if (node->size == 1 || next->count == 0) {
            i = behind;
        } else if (!rests && node->below & slices_at(m, next)) {
            r->work += node->size;
            put_below(m, trie->nodes, i + 1, behind);
            i = behind;
        } else {
            next->end = behind;
            next->rows_used = s->rows_used;
            find_bytes(m, next);
            at++;
            i++;
        }
    }
    s->rows_used = depths[0].rows_used;
}

static const walked_t nothing;

/* Any body may follow, then a quote to one state: what may follow that. */
static void walk_rests(masking_t *m, const match_thread_t *thread)
{
    match_run_t *r = &m->run;
    const grammar_vocabulary_t *v = m->vocabulary;
    uint32_t rows_used = r->state->rows_used, count;
    match_thread_t behind[GRAMMAR_THREADS_MAX];
    bool can_end;

    if (match_step(r, thread, 1, '"', behind, &count, &can_end)) {
        put_tokens(m, v->bare);
        memcpy(r->state->stack, behind, count * sizeof(*behind));
        if (count > 0)
            walk(m, &v->rests, count, &nothing, true);
    }
    r->state->rows_used = rows_used;
}

/* A thread that slices may follow: those, and what lies in none of them. */
static void walk_slices(masking_t *m, const match_thread_t *thread, unsigned flags)
{
    const grammar_vocabulary_t *v = m->vocabulary;
    uint32_t slices = flags / GRAMMAR_SLICE & SLICES;

    uint32_t room = room_of(m, thread);
    for (unsigned slice = 0; slice < SLICE_COUNT; slice++) {
        if (slices & 1u << slice)
            put_slice(m, slice, room);
    }
    m->run.state->stack[0] = *thread;
    if (flags & GRAMMAR_FREE)
        walk_rests(m, thread);
    else if (flags & (BODY_HERE | GRAMMAR_LINE))
        walk(m, &v->closers, 1, &nothing, false);
    else
        walk(m, &v->tokens, 1, &(walked_t){.slices = slices}, false);
}

/* First bytes behind which a thread lets any rest of a string's body follow; how many nodes of the
 * trie lie below them. */
static uint32_t find_bodies(const masking_t *m, const match_thread_t *t, uint64_t *bytes)
{
    const match_run_t *r = &m->run;
    const trie_t *trie = &m->vocabulary->tokens;
    uint32_t nodes = 0;

    if (t->at & MATCH_TEXT || r->automata[r->edges[t->a].symbol].loop != 0)
        return 0;
    const grammar_automaton_t *a = &r->automata[r->edges[t->a].symbol];
    for (uint32_t i = 1; i < trie->count; i += trie->nodes[i].size) {
        unsigned byte = trie->nodes[i].byte;
        uint32_t part = slice_step(SLICE_STRING, SLICE_STATE_START, byte);
        uint32_t next = match_next(r, a, t->b, byte);
        if (part == SLICE_STATE_DEAD || next == 0 ||
            !(match_flags(r, a, next) / GRAMMAR_BODY >> part & 1))
            continue;
        bytes[byte / 64] |= (uint64_t)1 << byte % 64;
        nodes += trie->nodes[i].size;
    }
    return nodes;
}

/* A thread that any body may follow but for some first bytes: the slice without what begins so, and
 * that by itself. The mask is empty yet. */
static bool walk_bodies(masking_t *m, const match_thread_t *thread)
{
    const grammar_vocabulary_t *v = m->vocabulary;
    const trie_t *trie = &v->tokens;
    walked_t walked = {0};

    if (find_bodies(m, thread, walked.bytes) < trie->count / 4)
        return false;
    memcpy(m->words, v->slices[SLICE_STRING], v->words * sizeof(*m->words));
    for (uint32_t i = 1; i < trie->count; i += trie->nodes[i].size) {
        unsigned byte = trie->nodes[i].byte;
        if (walked.bytes[byte / 64] >> byte % 64 & 1)
            continue;
        for (uint32_t at = i; at < i + trie->nodes[i].size; at++) {
            uint32_t token = trie->nodes[at].token;
            if (token != TRIE_NO_TOKEN)
                m->words[token / 64] &= ~((uint64_t)1 << token % 64);
        }
    }
    m->run.state->stack[0] = *thread;
    walk(m, trie, 1, &walked, false);
    m->run.state->stack[0] = *thread;
    walk(m, &v->closers, 1, &nothing, false);
    return true;
}

status_t grammar_mask(grammar_matcher_t *matcher, uint64_t *words)
{
    const grammar_vocabulary_t *v = matcher->vocabulary;
    masking_t m = {.vocabulary = v, .words = words};
    match_run_t *r = &m.run;
    uint32_t left = 0;

    match_begin(r, matcher);
    match_state_t *s = r->state;
    memset(words, 0, v->words * sizeof(*words));
    match_find_forced(r, matcher);
    if (s->place.forced_count > 0) {
        token_set(words, s->place.forced[0]);
        return STATUS_OK;
    }
    uint32_t count = s->place.thread_count, first = count;
    for (uint32_t i = 0; i < count && first == count; i++) {
        if (!(flags_of(&m, &s->threads[i]) & GRAMMAR_SLICE) && walk_bodies(&m, &s->threads[i]))
            first = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        unsigned flags = flags_of(&m, &s->threads[i]);
        if (i != first && flags & SLICES * GRAMMAR_SLICE)
            walk_slices(&m, &s->threads[i], flags);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (i != first && !(flags_of(&m, &s->threads[i]) & SLICES * GRAMMAR_SLICE))
            s->stack[left++] = s->threads[i];
    }
    if (left > 0)
        walk(&m, &v->tokens, left, &nothing, false);
    for (uint32_t i = 0; i < v->twin_count; i++) {
        if (token_bit(words, v->twins[2 * i]))
            token_set(words, v->twins[2 * i + 1]);
    }
    return r->full ? FAIL(STATUS_TOO_LARGE, "a mask needs too much work here") : STATUS_OK;
}
