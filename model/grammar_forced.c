/* grammar_forced.c - the tokens of what the grammar forces: those that the tokenizer makes of it.
 *
 * Where one byte alone may follow, and then one alone again, these bytes are cut into words and merged
 * as the tokenizer does, up to the first word whose end or tokens could change with what follows. The
 * tokens wait in the matcher, and while one waits it is the only one in the mask, so that jumping over
 * them and drawing them one by one is the same.
 */
#include <string.h>

#include "model/grammar_match.h"
#include "model/grammar_vocabulary_parts.h"

enum { WORD_BYTES_MAX = 128 };

/* The one byte that may follow a thread; -1: several, -2: none. */
static int only_byte(const match_run_t *r, const match_thread_t *t)
{
    int found = -2;

    if (t->at & MATCH_TEXT) {
        uint32_t depth = t->at & ~(uint32_t)MATCH_TEXT;
        uint8_t first = (uint8_t)r->texts[r->text_starts[r->edges[t->a].symbol] + depth];
        uint8_t last = (uint8_t)r->texts[r->text_starts[r->edges[t->b - 1].symbol] + depth];
        return first == last ? first : -1;
    }
    const grammar_automaton_t *a = &r->automata[r->edges[t->a].symbol];
    for (unsigned byte = 0; byte < 256; byte++) {
        uint32_t next = match_next(r, a, t->b, byte);
        if (next == 0 || (a->loop != 0 && t->b == a->loop &&
                          (next == a->close ? t->at < a->min : t->at >= a->max)))
            continue;
        if (found >= 0)
            return -1;
        found = (int)byte;
    }
    return found;
}

uint32_t match_forced_bytes(match_run_t *r, char *bytes, bool *ends)
{
    match_state_t *s = r->state;
    match_thread_t *here = s->stack, *there = s->stack + GRAMMAR_THREADS_MAX;
    uint32_t count = s->place.thread_count, rows_used = s->rows_used, length = 0;
    bool can_end = s->place.can_end;

    memcpy(here, s->threads, count * sizeof(*here));
    while (!can_end && length < MATCH_RUN_BYTES) {
        int only = -2;
        for (uint32_t i = 0; i < count && only != -1; i++) {
            int byte = only_byte(r, &here[i]);
            only = only == -2 || byte == only ? byte : -1;
        }
        uint32_t next_count;
        if (only < 0 || !match_step(r, here, count, (unsigned)only, there, &next_count, &can_end))
            break;
        bytes[length++] = (char)only;
        match_thread_t *swap = here;
        here = there;
        there = swap;
        count = next_count;
    }
    *ends = can_end && count == 0;
    s->rows_used = rows_used;
    return length;
}

typedef struct {
    const tokenizer_t *tokenizer;
    const char *bytes;
    match_place_t *place;
} merging_t;

/* Merges the pair of lowest rank, leftmost first, until none is left: words are short. */
static bool merge_word(void *context, uint32_t start, uint32_t end)
{
    merging_t *m = context;
    uint32_t ids[WORD_BYTES_MAX], count = end - start;

    if (count > WORD_BYTES_MAX)
        return false;
    for (uint32_t i = 0; i < count; i++)
        ids[i] = tokenizer_byte_id(m->tokenizer, (unsigned char)m->bytes[start + i]);
    for (;;) {
        uint32_t best = UINT32_MAX, best_at = 0, best_id = 0;
        for (uint32_t i = 0; i + 1 < count; i++) {
            uint32_t rank, id;
            if (tokenizer_merge(m->tokenizer, ids[i], ids[i + 1], &rank, &id) && rank < best) {
                best = rank;
                best_at = i;
                best_id = id;
            }
        }
        if (best == UINT32_MAX)
            break;
        ids[best_at] = best_id;
        memmove(ids + best_at + 1, ids + best_at + 2, (count - best_at - 2) * sizeof(*ids));
        count--;
    }
    if (m->place->forced_count + count > GRAMMAR_FORCED_MAX)
        return false;
    memcpy(m->place->forced + m->place->forced_count, ids, count * sizeof(*ids));
    m->place->forced_count += count;
    return true;
}

void match_find_forced(match_run_t *r, const grammar_matcher_t *matcher)
{
    const grammar_vocabulary_t *v = matcher->vocabulary;
    match_place_t *place = &r->state->place;
    char bytes[MATCH_RUN_BYTES];
    bool ends, full = r->full;

    if (place->forced_known)
        return;
    place->forced_known = 1;
    place->forced_count = 0;
    if (!v->splits_known)
        return;
    uint32_t length = match_forced_bytes(r, bytes, &ends), ascii = 0;
    while (ascii < length && (unsigned char)bytes[ascii] < 0x80)
        ascii++;
    r->full = full; /* a limit that is met on the way only ends what is forced */
    r->work = 0;
    if (ascii == 0)
        return;
    merging_t m = {v->tokenizer, bytes, place};
    grammar_split_words(v->splits, v->split_count, bytes, ascii, ends && ascii == length,
                        merge_word, &m);
}
