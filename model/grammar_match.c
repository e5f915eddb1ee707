/* grammar_match.c - see grammar_match.h: rows, threads and steps, and the calls that move a matcher.
 */
#include "model/grammar_match.h"

#include <string.h>

#include "model/grammar_vocabulary_parts.h"

enum { KEY_DEPTH_MAX = 64 };

void match_begin(match_run_t *r, const grammar_matcher_t *m)
{
    const grammar_block_t *block = (const void *)m->block;

    *r = (match_run_t){.state = (void *)m->memory,
                       .block = m->block,
                       .states = GRAMMAR_PART(block, grammar_state_t, states),
                       .edges = GRAMMAR_PART(block, grammar_edge_t, edges),
                       .rules = GRAMMAR_PART(block, grammar_rule_t, rules),
                       .automata = GRAMMAR_PART(block, grammar_automaton_t, automata),
                       .text_starts = GRAMMAR_PART(block, uint32_t, text_starts),
                       .texts = GRAMMAR_PART(block, char, texts)};
    r->rows_max = r->state->rows_used + MATCH_ROWS_MAX - MATCH_KEPT_MAX;
}

static void push_thread(match_run_t *r, match_thread_t *out, uint32_t *count, match_thread_t thread)
{
    for (uint32_t i = 0; i < *count; i++) {
        if (out[i].a == thread.a && out[i].b == thread.b && out[i].origin == thread.origin &&
            out[i].at == thread.at && out[i].keys == thread.keys)
            return;
    }
    if (*count == GRAMMAR_THREADS_MAX) {
        r->full = true;
        return;
    }
    r->work += 1 + *count / 8;
    out[(*count)++] = thread;
}

/* The ways to read on from a new row. */
static void start_threads(match_run_t *r, uint32_t row, match_thread_t *out, uint32_t *count)
{
    for (uint32_t i = 0; i < r->state->rows[row + ROW_ITEMS] && !r->full; i++) {
        const uint32_t *item = match_item(r->state, row, i);
        const grammar_state_t *state = &r->states[item[ITEM_STATE]];
        match_thread_t thread = {.row = row, .origin = item[ITEM_ORIGIN], .keys = item[ITEM_KEYS]};
        if (state->texts < state->automata) {
            thread.a = state->texts;
            thread.b = state->automata;
            thread.at = MATCH_TEXT;
            push_thread(r, out, count, thread);
        }
        thread.b = 1;
        thread.at = 0;
        for (thread.a = state->automata; thread.a < state->rules; thread.a++)
            push_thread(r, out, count, thread);
    }
}

/* Where an item is in the table of the row that is made, or where it belongs. */
static uint32_t table_place(const match_state_t *s, uint32_t row, const uint32_t *item)
{
    uint32_t at = (item[0] * 0x9e3779b1u ^ item[1] * 0x85ebca77u ^ item[2] * 0xc2b2ae3du) >> 20;

    while (s->table[at] != 0 &&
           memcmp(match_item(s, row, s->table[at] - 1), item, ITEM_WORDS * sizeof(*item)) != 0)
        at = (at + 1) % MATCH_TABLE;
    return at;
}

/* Puts an item into the row that is made, unless it is there. */
static void add_item(match_run_t *r, uint32_t row, uint32_t state, uint32_t origin, uint32_t keys)
{
    enum { TABLE_FROM = 16 };
    match_state_t *s = r->state;
    uint32_t *words = s->rows + row, count = words[ROW_ITEMS], at = 0;
    uint32_t item[ITEM_WORDS] = {state, origin, keys};

    if (count < TABLE_FROM) {
        for (uint32_t i = 0; i < count; i++) {
            if (memcmp(match_item(s, row, i), item, sizeof(item)) == 0)
                return;
        }
    } else {
        if (count == TABLE_FROM) { /* the table begins with all so far */
            memset(s->table, 0, sizeof(s->table));
            for (uint32_t i = 0; i < count; i++)
                s->table[table_place(s, row, match_item(s, row, i))] = i + 1;
        }
        at = table_place(s, row, item);
        if (s->table[at] != 0)
            return;
    }
    if (count == GRAMMAR_ITEMS_MAX || row + match_row_size(s, row) + ITEM_WORDS > r->rows_max) {
        r->full = true;
        return;
    }
    r->work += 1;
    memcpy(words + ROW_HEAD + ITEM_WORDS * count, item, sizeof(item));
    words[ROW_ITEMS]++;
    if (count >= TABLE_FROM)
        s->table[at] = count + 1;
}

/* The rule of an item that began in row `origin` is done: those that waited for it there go on. */
static void complete(match_run_t *r, uint32_t row, uint32_t rule, uint32_t origin)
{
    for (uint32_t i = 0; i < r->state->rows[origin + ROW_ITEMS] && !r->full; i++) {
        const uint32_t *item = match_item(r->state, origin, i);
        const grammar_state_t *state = &r->states[item[ITEM_STATE]];
        r->work += 1;
        for (uint32_t edge = state->rules; edge < state->empties; edge++) {
            if (r->edges[edge].symbol == rule)
                add_item(r, row, r->edges[edge].target, item[ITEM_ORIGIN], item[ITEM_KEYS]);
        }
    }
}

/* Adds what follows from the kernel of a row. A rule that reads nothing completes where it began; its
 * edges have an empty twin, so that needs no care here. */
static void close_row(match_run_t *r, uint32_t row)
{
    uint32_t *words = r->state->rows + row;

    for (uint32_t i = 0; i < words[ROW_ITEMS] && !r->full; i++) {
        const uint32_t *item = match_item(r->state, row, i);
        const grammar_state_t *state = &r->states[item[ITEM_STATE]];
        uint32_t origin = item[ITEM_ORIGIN], keys = item[ITEM_KEYS];
        if (state->accepts) {
            if (state->rule == 0 && origin == 0)
                words[ROW_CAN_END] = 1;
            if (origin != row)
                complete(r, row, state->rule, origin);
        }
        for (uint32_t edge = state->rules; edge < state->empties; edge++)
            add_item(r, row, r->rules[r->edges[edge].symbol].start, row, 0);
        for (uint32_t edge = state->empties; edge < state->end; edge++)
            add_item(r, row, r->edges[edge].target, origin, keys);
    }
    if (!r->full)
        r->state->rows_used = row + match_row_size(r->state, row);
}

/* A row with this kernel among those that the threads began in, or 0. Row 0 has no kernel of others. */
static uint32_t find_row(const match_run_t *r, const match_thread_t *threads, uint32_t count,
                         const uint32_t *kernel, uint32_t kernel_count)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = threads[i].row;
        if (row == last || r->state->rows[row + ROW_KERNEL] != kernel_count)
            continue;
        last = row;
        if (memcmp(match_item(r->state, row, 0), kernel,
                   ITEM_WORDS * kernel_count * sizeof(*kernel)) == 0)
            return row;
    }
    return 0;
}

/* One more kernel item, in order and without twins. */
static void add_kernel(match_run_t *r, uint32_t *count, uint32_t state, uint32_t origin,
                       uint32_t keys)
{
    uint32_t *kernel = r->state->kernel, at = *count;
    uint32_t item[ITEM_WORDS] = {state, origin, keys};

    for (; at > 0; at--) {
        const uint32_t *before = kernel + ITEM_WORDS * (at - 1);
        if (before[0] != state    ? before[0] < state
            : before[1] != origin ? before[1] < origin
                                  : before[2] <= keys)
            break;
    }
    if (at > 0 && memcmp(kernel + ITEM_WORDS * (at - 1), item, sizeof(item)) == 0)
        return;
    if (*count == GRAMMAR_THREADS_MAX) {
        r->full = true;
        return;
    }
    memmove(kernel + ITEM_WORDS * (at + 1), kernel + ITEM_WORDS * at,
            ITEM_WORDS * (*count - at) * sizeof(*kernel));
    memcpy(kernel + ITEM_WORDS * at, item, sizeof(item));
    (*count)++;
}

/* The row behind the kernel; its threads join those that read on. */
static bool enter_row(match_run_t *r, const match_thread_t *from, uint32_t count,
                      uint32_t kernel_count, match_thread_t *out, uint32_t *out_count)
{
    match_state_t *s = r->state;
    uint32_t row = find_row(r, from, count, s->kernel, kernel_count);

    if (row == 0) {
        row = s->rows_used;
        if (row + ROW_HEAD + ITEM_WORDS * kernel_count > r->rows_max) {
            r->full = true;
            return false;
        }
        s->rows[row + ROW_KERNEL] = s->rows[row + ROW_ITEMS] = kernel_count;
        s->rows[row + ROW_CAN_END] = 0;
        memcpy(s->rows + row + ROW_HEAD, s->kernel, ITEM_WORDS * kernel_count * sizeof(uint32_t));
        close_row(r, row);
    }
    r->work += s->rows[row + ROW_ITEMS];
    start_threads(r, row, out, out_count);
    return s->rows[row + ROW_CAN_END] != 0;
}

/* What comes before a key's quote does not count. */
static uint32_t key_hash(uint32_t hash, unsigned byte)
{
    if (hash == 0 && byte != '"')
        return 0;
    hash = (hash ^ byte) * 0x01000193u;
    return (hash ^ hash >> 15) & ~(uint32_t)MATCH_TEXT;
}

static bool key_is_used(match_run_t *r, uint32_t keys, uint32_t hash)
{
    for (; keys != 0; keys = match_item(r->state, keys, 0)[ITEM_ORIGIN]) {
        r->work += 1;
        if (match_item(r->state, keys, 0)[ITEM_STATE] == hash)
            return true;
    }
    return false;
}

/* Is there a key from here on that was not used? Only few states are not endless: the last bytes of a
 * key, and keys that few texts match. */
static bool key_is_left(match_run_t *r, const grammar_automaton_t *a, uint32_t state, uint32_t hash,
                        uint32_t keys, unsigned depth)
{
    unsigned flags = match_flags(r, a, state);

    r->work += 1;
    if (flags & GRAMMAR_ENDLESS || depth == KEY_DEPTH_MAX ||
        (flags & GRAMMAR_ACCEPTS && !key_is_used(r, keys, hash)))
        return true;
    for (unsigned byte = 0; byte < 256 && flags & GRAMMAR_GOES_ON; byte++) {
        uint32_t next = match_next(r, a, state, byte);
        if (next != 0 && key_is_left(r, a, next, key_hash(hash, byte), keys, depth + 1))
            return true;
    }
    return false;
}

/* The keys with one more; the same if there is no room. */
static uint32_t add_key(match_run_t *r, uint32_t keys, uint32_t hash)
{
    match_state_t *s = r->state;
    uint32_t row = s->rows_used;
    const uint32_t words[ROW_HEAD + ITEM_WORDS] = {0, 1, 0, hash, keys, 0};

    if (row + COUNT_OF(words) > r->rows_max) {
        r->full = true;
        return keys;
    }
    memcpy(s->rows + row, words, sizeof(words));
    s->rows_used += (uint32_t)COUNT_OF(words);
    return row;
}

/* Texts [a, b) agree in all bytes so far and lie in order: those with this byte next lie together. */
static void step_texts(match_run_t *r, const match_thread_t *t, unsigned byte, match_thread_t *out,
                       uint32_t *out_count, uint32_t *kernel_count)
{
    uint32_t depth = t->at & ~(uint32_t)MATCH_TEXT, bounds[2];

    for (unsigned above = 0; above < 2; above++) {
        uint32_t low = above ? bounds[0] : t->a, high = t->b;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            uint32_t start = r->text_starts[r->edges[middle].symbol] + depth;
            if ((uint8_t)r->texts[start] < byte + above)
                low = middle + 1;
            else
                high = middle;
        }
        bounds[above] = low;
    }
    uint32_t low = bounds[0], high = bounds[1];
    while (low < high) { /* those that end here come first */
        uint32_t text = r->edges[low].symbol;
        if (r->text_starts[text + 1] - r->text_starts[text] > depth + 1)
            break;
        add_kernel(r, kernel_count, r->edges[low].target, t->origin, t->keys);
        low++;
    }
    if (low < high)
        push_thread(r, out, out_count,
                    (match_thread_t){t->row, t->origin, t->keys, low, high, t->at + 1});
}

static void step_automaton(match_run_t *r, const match_thread_t *t, unsigned byte,
                           match_thread_t *out, uint32_t *out_count, uint32_t *kernel_count)
{
    const grammar_automaton_t *a = &r->automata[r->edges[t->a].symbol];
    uint32_t next = match_next(r, a, t->b, byte), at = t->at;

    if (next == 0)
        return;
    if (a->loop != 0) {
        if (t->b == a->loop && (next == a->close ? at < a->min : at >= a->max))
            return;
        if (next == a->loop)
            at = t->b < a->loop ? 0 : at + 1;
    }
    unsigned flags = match_flags(r, a, next);
    uint32_t keys = t->keys;
    if (a->unique) {
        at = key_hash(at, byte);
        if (!(flags & GRAMMAR_ENDLESS) && keys != 0 && !key_is_left(r, a, next, at, keys, 0))
            return;
        if (flags & GRAMMAR_ACCEPTS)
            keys = add_key(r, keys, at);
    }
    if (flags & GRAMMAR_ACCEPTS)
        add_kernel(r, kernel_count, r->edges[t->a].target, t->origin, keys);
    if (flags & GRAMMAR_GOES_ON)
        push_thread(r, out, out_count,
                    (match_thread_t){t->row, t->origin, t->keys, t->a, next, at});
}

bool match_step(match_run_t *r, const match_thread_t *from, uint32_t count, unsigned byte,
                match_thread_t *out, uint32_t *out_count, bool *can_end)
{
    uint32_t kernel_count = 0;

    *out_count = 0;
    *can_end = false;
    r->work += 1;
    for (uint32_t i = 0; i < count && !r->full; i++) {
        if (from[i].at & MATCH_TEXT)
            step_texts(r, &from[i], byte, out, out_count, &kernel_count);
        else
            step_automaton(r, &from[i], byte, out, out_count, &kernel_count);
    }
    if (kernel_count > 0 && !r->full)
        *can_end = enter_row(r, from, count, kernel_count, out, out_count);
    return !r->full && (*out_count > 0 || *can_end);
}

/* Marks a row as needed, in its third word, which otherwise is 0 or 1. */
enum { ROW_NEEDED = 2 };

static void need_rows(match_state_t *s, const match_thread_t *threads, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        s->rows[threads[i].row + ROW_CAN_END] |= ROW_NEEDED;
        s->rows[threads[i].origin + ROW_CAN_END] |= ROW_NEEDED;
        s->rows[threads[i].keys + ROW_CAN_END] |= ROW_NEEDED;
    }
}

static uint32_t renamed(const match_state_t *s, uint32_t row)
{
    return s->rows[row + ROW_KERNEL] >> 16; /* see match_compact */
}

static void rename_rows(const match_state_t *s, match_thread_t *threads, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        threads[i].row = renamed(s, threads[i].row);
        threads[i].origin = renamed(s, threads[i].origin);
        threads[i].keys = renamed(s, threads[i].keys);
    }
}

/* Where each row goes is kept for a while in the upper half of its first word: rows are below 2^16
 * words and kernels below 2^16 items. */
_Static_assert(MATCH_ROWS_MAX / (ROW_HEAD + ITEM_WORDS) <=
                   MATCH_STACK_MAX * sizeof(match_thread_t) / 4,
               "the stack holds a word for each row");
_Static_assert(MATCH_ROWS_MAX < 1 << 16 && GRAMMAR_THREADS_MAX < 1 << 16, "both fit a word");

bool match_compact(match_run_t *r)
{
    match_state_t *s = r->state;
    uint32_t *list = (uint32_t *)(void *)s->stack; /* scratch: where each row begins */
    uint32_t kept = 0, row_count = 0, size;

    s->rows[ROW_CAN_END] |= ROW_NEEDED;
    need_rows(s, s->threads, s->place.thread_count);
    need_rows(s, s->marked, s->marked_used);
    for (uint32_t row = 0; row < s->rows_used; row += match_row_size(s, row))
        list[row_count++] = row;
    while (row_count > 0) { /* an origin never lies behind the row that names it */
        uint32_t row = list[--row_count];
        if (!(s->rows[row + ROW_CAN_END] & ROW_NEEDED))
            continue;
        for (uint32_t i = 0; i < s->rows[row + ROW_ITEMS]; i++) {
            const uint32_t *item = match_item(s, row, i);
            s->rows[item[ITEM_ORIGIN] + ROW_CAN_END] |= ROW_NEEDED;
            s->rows[item[ITEM_KEYS] + ROW_CAN_END] |= ROW_NEEDED;
        }
    }
    for (uint32_t row = 0; row < s->rows_used; row += size) {
        size = match_row_size(s, row);
        s->rows[row + ROW_KERNEL] |= kept << 16;
        if (s->rows[row + ROW_CAN_END] & ROW_NEEDED)
            kept += size;
    }
    rename_rows(s, s->threads, s->place.thread_count);
    rename_rows(s, s->marked, s->marked_used);
    for (uint32_t row = 0; row < s->rows_used; row += match_row_size(s, row)) {
        for (uint32_t i = 0; i < s->rows[row + ROW_ITEMS]; i++) {
            uint32_t *item = s->rows + row + ROW_HEAD + ITEM_WORDS * i;
            item[ITEM_ORIGIN] = renamed(s, item[ITEM_ORIGIN]);
            item[ITEM_KEYS] = renamed(s, item[ITEM_KEYS]);
        }
    }
    for (uint32_t row = 0; row < s->rows_used; row += size) {
        size = match_row_size(s, row);
        uint32_t target = renamed(s, row);
        s->rows[row + ROW_KERNEL] &= 0xffff;
        if (!(s->rows[row + ROW_CAN_END] & ROW_NEEDED))
            continue;
        s->rows[row + ROW_CAN_END] &= ~(uint32_t)ROW_NEEDED;
        memmove(s->rows + target, s->rows + row, size * sizeof(*s->rows));
    }
    s->rows_used = kept;
    return kept <= MATCH_KEPT_MAX;
}

status_t grammar_open(grammar_matcher_t *m, const void *block,
                      const grammar_vocabulary_t *vocabulary, void *memory)
{
    match_run_t r;

    grammar_attach(m, block, vocabulary, memory);
    ((match_state_t *)memory)->rows_used = 0;
    match_begin(&r, m);
    match_state_t *s = r.state;
    s->mark_count = s->marked_used = 0;
    s->place.thread_count = s->place.can_end = 0;
    s->place.forced_known = s->place.forced_count = 0;
    s->rows[ROW_KERNEL] = s->rows[ROW_ITEMS] = 1;
    s->rows[ROW_CAN_END] = 0;
    memset(s->rows + ROW_HEAD, 0, ITEM_WORDS * sizeof(*s->rows));
    s->rows[ROW_HEAD + ITEM_STATE] = r.rules[0].start;
    close_row(&r, 0);
    start_threads(&r, 0, s->threads, &s->place.thread_count);
    s->place.can_end = s->rows[ROW_CAN_END];
    if (r.full || s->rows_used > MATCH_KEPT_MAX)
        return FAIL(STATUS_TOO_LARGE, "the grammar begins in too many ways");
    return STATUS_OK;
}

void grammar_attach(grammar_matcher_t *m, const void *block, const grammar_vocabulary_t *vocabulary,
                    void *memory)
{
    *m = (grammar_matcher_t){block, vocabulary, memory};
}

bool grammar_can_end(grammar_matcher_t *m)
{
    const match_state_t *s = (const void *)m->memory;

    return s->place.can_end != 0;
}

/* All bytes of the token; the threads behind it are at the begin of the stack. */
static status_t take_bytes(match_run_t *r, const char *bytes, size_t length, uint32_t *count,
                           bool *can_end)
{
    match_state_t *s = r->state;
    match_thread_t *here = s->stack, *there = s->stack + GRAMMAR_THREADS_MAX;

    *count = s->place.thread_count;
    memcpy(here, s->threads, *count * sizeof(*here));
    for (size_t i = 0; i < length; i++) {
        uint32_t next_count;
        bool alive =
            match_step(r, here, *count, (unsigned char)bytes[i], there, &next_count, can_end);
        if (r->full)
            return FAIL(STATUS_TOO_LARGE, "the grammar is under way in too many ways here");
        if (!alive)
            return FAIL(STATUS_REFUSED, "the grammar does not allow this token here");
        match_thread_t *swap = here;
        here = there;
        there = swap;
        *count = next_count;
    }
    memmove(s->stack, here, *count * sizeof(*here));
    return STATUS_OK;
}

status_t grammar_take(grammar_matcher_t *m, uint32_t token)
{
    match_run_t r;
    size_t length;
    const char *bytes = grammar_vocabulary_token(m->vocabulary, token, &length);
    uint32_t count;
    bool can_end = false;

    match_begin(&r, m);
    match_state_t *s = r.state;
    if (length == 0)
        return FAIL(STATUS_REFUSED, "token %u is no text", token);
    if (s->rows_used > MATCH_KEPT_MAX && !match_compact(&r))
        return FAIL(STATUS_TOO_LARGE, "the grammar is nested too deeply here");
    match_find_forced(&r, m);
    if (s->place.forced_count > 0 && s->place.forced[0] != token)
        return FAIL(STATUS_REFUSED, "token %u is not the one that is forced here", token);
    uint32_t rows_used = s->rows_used;
    status_t status = take_bytes(&r, bytes, length, &count, &can_end);
    if (status != STATUS_OK) {
        s->rows_used = rows_used;
        return status;
    }
    s->place.thread_count = count;
    s->place.can_end = can_end;
    memcpy(s->threads, s->stack, count * sizeof(*s->threads));
    if (s->place.forced_count > 0) {
        s->place.forced_count--;
        memmove(s->place.forced, s->place.forced + 1, s->place.forced_count * sizeof(uint32_t));
    }
    s->place.forced_known = s->place.forced_count > 0;
    if (s->rows_used > MATCH_KEPT_MAX && !match_compact(&r))
        return FAIL(STATUS_TOO_LARGE, "the grammar is nested too deeply here");
    return STATUS_OK;
}

status_t grammar_mark(grammar_matcher_t *m, uint32_t *mark)
{
    match_state_t *s = (void *)m->memory;
    uint32_t count = s->place.thread_count;

    if (s->mark_count == GRAMMAR_MARKS_MAX || s->marked_used + count > MATCH_MARKED_MAX)
        return FAIL(STATUS_TOO_LARGE, "no room for one more mark");
    *mark = s->mark_count++;
    s->marks[*mark] = (match_mark_t){s->place, s->marked_used};
    memcpy(s->marked + s->marked_used, s->threads, count * sizeof(*s->threads));
    s->marked_used += count;
    return STATUS_OK;
}

void grammar_rewind(grammar_matcher_t *m, uint32_t mark)
{
    match_state_t *s = (void *)m->memory;

    ASSERT(mark < s->mark_count);
    s->place = s->marks[mark].place;
    memcpy(s->threads, s->marked + s->marks[mark].first,
           s->place.thread_count * sizeof(*s->threads));
    s->mark_count = mark + 1;
    s->marked_used = s->marks[mark].first + s->place.thread_count;
}

void grammar_unmark(grammar_matcher_t *m, uint32_t mark)
{
    match_state_t *s = (void *)m->memory;

    ASSERT(mark < s->mark_count);
    s->mark_count = mark;
    s->marked_used = s->marks[mark].first;
}

uint32_t grammar_forced(grammar_matcher_t *m, uint32_t *tokens, uint32_t max)
{
    match_run_t r;

    match_begin(&r, m);
    match_find_forced(&r, m);
    uint32_t count = r.state->place.forced_count < max ? r.state->place.forced_count : max;
    memcpy(tokens, r.state->place.forced, count * sizeof(*tokens));
    return count;
}
