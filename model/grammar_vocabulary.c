/* grammar_vocabulary.c - see grammar_vocabulary.h: sorts the tokens and makes the tries. */
#include "model/grammar_vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "model/grammar_vocabulary_parts.h"
#include "model/tokenizer_parts.h"
#include "runtime/base/limits.h"
#include "runtime/base/random.h"

/* A piece of text that a trie gets, with its value. */
typedef struct {
    const unsigned char *bytes;
    uint32_t length;
    uint32_t value;
} entry_t;

static int compare_entries(const void *a, const void *b)
{
    const entry_t *x = a, *y = b;
    size_t shorter = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->bytes, y->bytes, shorter);

    if (order != 0)
        return order;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return (x->value > y->value) - (x->value < y->value);
}

/* By the first two bytes in one pass, then each group by itself. */
static status_t sort_entries(entry_t *entries, uint32_t count)
{
    enum { GROUPS = 256 * 257 };
    uint32_t *begin = calloc(GROUPS + 1, sizeof(*begin));
    entry_t *sorted = malloc((count + 1) * sizeof(*sorted));

    if (begin == NULL || sorted == NULL) {
        free(begin);
        free(sorted);
        return FAIL(STATUS_NO_MEMORY, "vocabulary");
    }
#define GROUP(e) ((e).bytes[0] * 257u + ((e).length > 1 ? (e).bytes[1] + 1u : 0u))
    for (uint32_t i = 0; i < count; i++)
        begin[GROUP(entries[i]) + 1]++;
    for (uint32_t i = 0; i < GROUPS; i++)
        begin[i + 1] += begin[i];
    for (uint32_t i = 0; i < count; i++)
        sorted[begin[GROUP(entries[i])]++] = entries[i];
    memcpy(entries, sorted, count * sizeof(*sorted));
    for (uint32_t i = 0, start = 0; i < GROUPS; start = begin[i], i++) /* begin moved to the end */
        qsort(entries + start, begin[i] - start, sizeof(*entries), compare_entries);
#undef GROUP
    free(begin);
    free(sorted);
    return STATUS_OK;
}

static uint32_t common_bytes(const entry_t *a, const entry_t *b)
{
    uint32_t shorter = a->length < b->length ? a->length : b->length, i = 0;

    while (i < shorter && a->bytes[i] == b->bytes[i])
        i++;
    return i;
}

/* Of sorted entries without twins. */
static status_t make_trie(const entry_t *entries, uint32_t count, trie_t *trie)
{
    uint32_t path[PIECE_BYTES_MAX + 1], depth = 0;
    size_t node_count = 1;

    for (uint32_t i = 0; i < count; i++)
        node_count += entries[i].length - (i > 0 ? common_bytes(&entries[i - 1], &entries[i]) : 0);
    trie->nodes = node_count < 1 << 24 ? calloc(node_count, sizeof(*trie->nodes)) : NULL;
    if (trie->nodes == NULL)
        return FAIL(STATUS_NO_MEMORY, "a vocabulary of %zu nodes", node_count);
    trie->nodes[0] = (trie_node_t){.token = TRIE_NO_TOKEN};
    trie->count = 1;
    path[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t common = i > 0 ? common_bytes(&entries[i - 1], &entries[i]) : 0;
        for (; depth > common; depth--)
            trie->nodes[path[depth]].size = (trie->count - path[depth]) & 0xffffff;
        while (depth < entries[i].length) {
            path[depth + 1] = trie->count;
            trie->nodes[trie->count++] =
                (trie_node_t){.byte = entries[i].bytes[depth], .token = TRIE_NO_TOKEN};
            depth++;
        }
        trie->nodes[path[depth]].token = entries[i].value & TRIE_NO_TOKEN;
    }
    for (;; depth--) {
        trie->nodes[path[depth]].size = (trie->count - path[depth]) & 0xffffff;
        if (depth == 0)
            return STATUS_OK;
    }
}

/* States of a slice in which a byte may follow, and where that leads. */
typedef struct {
    uint8_t state[SLICE_STATES], next[SLICE_STATES];
    uint32_t count;
} alive_t;

static void find_alive(slice_t slice, alive_t *alive)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        alive[byte].count = 0;
        for (uint32_t state = 1; state < SLICE_STATES; state++) {
            uint32_t next = slice_step(slice, state, byte);
            if (next == SLICE_STATE_DEAD || (slice_bound(slice) > 0 && state > 1))
                continue;
            alive[byte].state[alive[byte].count] = (uint8_t)state;
            alive[byte].next[alive[byte].count++] = (uint8_t)next;
        }
    }
}

/* For each node and slice: the slice states from which nothing below the node leaves the slice. */
static status_t find_below(trie_t *trie)
{
    alive_t alive[256];
    uint32_t *held = malloc(trie->count * sizeof(*held));
    uint16_t *depths = calloc(trie->count, sizeof(*depths)), *deepest;

    deepest = calloc(trie->count, sizeof(*deepest));
    if (held == NULL || depths == NULL || deepest == NULL) {
        free(held);
        free(depths);
        free(deepest);
        return FAIL(STATUS_NO_MEMORY, "vocabulary");
    }
    for (uint32_t i = 0; i < trie->count; i++) {
        for (uint32_t child = i + 1; child < i + trie->nodes[i].size;
             child += trie->nodes[child].size)
            depths[child] = (uint16_t)(depths[i] + 1);
    }
    for (uint32_t i = trie->count; i-- > 0;) {
        deepest[i] = depths[i] > deepest[i] ? depths[i] : deepest[i];
        for (uint32_t child = i + 1; child < i + trie->nodes[i].size;
             child += trie->nodes[child].size)
            deepest[i] = deepest[child] > deepest[i] ? deepest[child] : deepest[i];
    }
    for (unsigned slice = 0; slice < SLICE_COUNT; slice++) {
        uint32_t bound = slice_bound((slice_t)slice);
        find_alive((slice_t)slice, alive);
        for (uint32_t i = trie->count; i-- > 0;) {
            uint32_t end = i + trie->nodes[i].size, kept = 0xffffffff;
            for (uint32_t child = i + 1; child < end; child += trie->nodes[child].size) {
                const alive_t *pairs = &alive[trie->nodes[child].byte];
                uint32_t ok = 0;
                for (uint32_t pair = 0; pair < pairs->count; pair++)
                    ok |= (held[child] >> pairs->next[pair] & 1) << pairs->state[pair];
                kept &= ok;
            }
            held[i] = kept;
            if (kept >> SLICE_STATE_START & 1 && (bound == 0 || deepest[i] <= bound))
                trie->nodes[i].below = (trie->nodes[i].below | 1u << slice) & 0xfff;
        }
    }
    free(held);
    free(depths);
    free(deepest);
    return STATUS_OK;
}

/* The state of a slice behind a text. */
static uint32_t slice_end(slice_t slice, const unsigned char *bytes, size_t length)
{
    uint32_t state = SLICE_STATE_START;

    for (size_t i = 0; i < length && state != SLICE_STATE_DEAD; i++)
        state = slice_step(slice, state, bytes[i]);
    return state;
}

/* The offset of the quote that ends a JSON string in this token, or its length. */
static uint32_t closing_quote(const entry_t *e)
{
    uint32_t state = SLICE_STATE_START;

    for (uint32_t i = 0; i < e->length && state != SLICE_STATE_DEAD; i++) {
        if (state == SLICE_STATE_START && e->bytes[i] == '"')
            return i;
        state = slice_step(SLICE_STRING, state, e->bytes[i]);
    }
    return e->length;
}

static status_t make_slices(grammar_vocabulary_t *v, const entry_t *entries, uint32_t count)
{
    for (unsigned slice = 0; slice < SLICE_COUNT; slice++) {
        v->slices[slice] = calloc(v->words, sizeof(uint64_t));
        if (v->slices[slice] == NULL)
            return FAIL(STATUS_NO_MEMORY, "vocabulary");
        for (uint32_t i = 0; i < count; i++) {
            if (slice_end((slice_t)slice, entries[i].bytes, entries[i].length) ==
                    SLICE_STATE_DEAD ||
                (slice_bound((slice_t)slice) > 0 &&
                 entries[i].length > slice_bound((slice_t)slice)))
                continue;
            token_set(v->slices[slice], entries[i].value);
        }
    }
    return STATUS_OK;
}

/* Characters of a string's body that a token begins. */
static uint32_t characters_of(const entry_t *e)
{
    uint32_t state = SLICE_STATE_START, count = 0;

    for (uint32_t i = 0; i < e->length; i++) {
        count += state == SLICE_STATE_START;
        state = slice_step(SLICE_STRING, state, e->bytes[i]);
    }
    return count;
}

/* The tokens of SLICE_STRING by how many characters they begin. */
static status_t make_short(grammar_vocabulary_t *v, const entry_t *entries, uint32_t count)
{
    v->long_tokens = malloc((2 * (size_t)count + 1) * sizeof(*v->long_tokens));
    for (uint32_t k = 1; k <= SHORT_CHARACTERS_MAX; k++)
        v->short_slices[k] = calloc(v->words, sizeof(uint64_t));
    if (v->long_tokens == NULL || v->short_slices[SHORT_CHARACTERS_MAX] == NULL)
        return FAIL(STATUS_NO_MEMORY, "vocabulary");
    for (uint32_t i = 0; i < count; i++) {
        if (!token_bit(v->slices[SLICE_STRING], entries[i].value))
            continue;
        uint32_t characters = characters_of(&entries[i]);
        if (characters > v->characters_max)
            v->characters_max = characters;
        if (characters <= SHORT_CHARACTERS_MAX) {
            token_set(v->short_slices[characters], entries[i].value);
        } else {
            v->long_tokens[2 * v->long_count] = entries[i].value;
            v->long_tokens[2 * v->long_count++ + 1] = characters;
        }
    }
    for (uint32_t k = 2; k <= SHORT_CHARACTERS_MAX; k++) {
        for (uint32_t word = 0; word < v->words; word++)
            v->short_slices[k][word] |= v->short_slices[k - 1][word];
    }
    uint32_t *fitted = realloc(v->long_tokens, (2 * v->long_count + 1) * sizeof(*v->long_tokens));
    v->long_tokens = fitted != NULL ? fitted : v->long_tokens;
    v->bytes += SHORT_CHARACTERS_MAX * v->words * sizeof(uint64_t) + 8 * v->long_count;
    return STATUS_OK;
}

/* Tokens that end a JSON string, as a trie of their own. Entries are sorted and have no twins. */
static status_t make_closers(grammar_vocabulary_t *v, const entry_t *entries, uint32_t count)
{
    entry_t *closers = malloc((count + 1) * sizeof(*closers));
    uint32_t kept = 0;

    if (closers == NULL)
        return FAIL(STATUS_NO_MEMORY, "vocabulary");
    for (uint32_t i = 0; i < count; i++) {
        if (closing_quote(&entries[i]) < entries[i].length)
            closers[kept++] = entries[i];
    }
    status_t status = make_trie(closers, kept, &v->closers);
    free(closers);
    v->bytes += v->closers.count * sizeof(trie_node_t);
    return status;
}

/* Tokens grouped by what follows their closing quote. */
static status_t make_rests(grammar_vocabulary_t *v, const entry_t *entries, uint32_t count)
{
    entry_t *rests = malloc((count + 1) * sizeof(*rests));
    uint32_t rest_count = 0, kept = 0, bare = 0;

    v->rest_ids = malloc((count + 1) * sizeof(*v->rest_ids));
    v->rest_tokens = malloc((count + 1) * sizeof(*v->rest_tokens));
    if (rests == NULL || v->rest_ids == NULL || v->rest_tokens == NULL) {
        free(rests);
        return FAIL(STATUS_NO_MEMORY, "vocabulary");
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t quote = closing_quote(&entries[i]);
        if (quote + 1 == entries[i].length)
            v->rest_ids[bare++] = entries[i].value;
        else if (quote < entries[i].length)
            rests[rest_count++] = (entry_t){entries[i].bytes + quote + 1,
                                            entries[i].length - quote - 1, entries[i].value};
    }
    v->bare = (token_range_t){0, bare};
    status_t status = sort_entries(rests, rest_count);
    for (uint32_t i = 0; i < rest_count && status == STATUS_OK; i++) {
        bool twin = i > 0 && rests[kept - 1].length == rests[i].length &&
                    common_bytes(&rests[kept - 1], &rests[i]) == rests[i].length;
        v->rest_ids[bare + i] = rests[i].value;
        if (!twin) {
            v->rest_tokens[kept] = (token_range_t){bare + i, bare + i};
            rests[kept] = (entry_t){rests[i].bytes, rests[i].length, kept};
            kept++;
        }
        v->rest_tokens[kept - 1].end++;
    }
    v->rest_count = kept;
    if (status == STATUS_OK)
        status = make_trie(rests, kept, &v->rests);
    free(rests);
    v->bytes += (bare + rest_count) * sizeof(*v->rest_ids) + kept * sizeof(*v->rest_tokens) +
                v->rests.count * sizeof(trie_node_t);
    return status;
}

/* Tokens of the same text as the one before them leave the list. */
static status_t drop_twins(grammar_vocabulary_t *v, entry_t *entries, uint32_t *count)
{
    uint32_t kept = 0;

    v->twins = malloc((2 * (size_t)*count + 1) * sizeof(*v->twins));
    if (v->twins == NULL)
        return FAIL(STATUS_NO_MEMORY, "vocabulary");
    for (uint32_t i = 0; i < *count; i++) {
        const entry_t *last = &entries[kept > 0 ? kept - 1 : 0];
        if (kept > 0 && last->length == entries[i].length &&
            common_bytes(last, &entries[i]) == last->length) {
            v->twins[2 * v->twin_count] = last->value;
            v->twins[2 * v->twin_count++ + 1] = entries[i].value;
        } else {
            entries[kept++] = entries[i];
        }
    }
    *count = kept;
    uint32_t *fitted = realloc(v->twins, (2 * (size_t)v->twin_count + 1) * sizeof(*v->twins));
    v->twins = fitted != NULL ? fitted : v->twins;
    return STATUS_OK;
}

static uint32_t collect(grammar_vocabulary_t *v, entry_t *entries)
{
    uint32_t count = 0;

    for (uint32_t id = 0; id < v->id_count; id++) {
        size_t length;
        const char *piece = tokenizer_piece(v->tokenizer, id, &length);
        uint32_t size = (uint32_t)length;
        v->digest = random_digest(v->digest, &size, sizeof(size));
        v->digest = random_digest(v->digest, piece, length);
        if (length == 0 || token_bit(v->usable, id))
            continue;
        entries[count++] = (entry_t){(const unsigned char *)piece, size, id};
        v->bytes_max = size > v->bytes_max ? size : v->bytes_max;
    }
    memset(v->usable, 0, v->words * sizeof(*v->usable));
    for (uint32_t i = 0; i < count; i++)
        token_set(v->usable, entries[i].value);
    return count;
}

static status_t fill(grammar_vocabulary_t *v, entry_t *entries)
{
    for (unsigned pass = 0; pass < ADDED_PASSES; pass++) { /* for now: those that are not usable */
        const added_set_t *set = &v->tokenizer->added[pass];
        for (size_t i = 0; i < set->count; i++)
            token_set(v->usable, set->tokens[i].id);
    }
    v->splits_known = v->tokenizer->split_count <= GRAMMAR_SPLITS_MAX;
    for (size_t i = 0; i < v->tokenizer->split_count && v->splits_known; i++) {
        const split_t *split = &v->tokenizer->splits[i];
        v->splits_known = grammar_split_read(&v->splits[i], split->pattern, split->length);
        v->split_count++;
    }
    uint32_t count = collect(v, entries);
    TRY(sort_entries(entries, count));
    TRY(make_rests(v, entries, count));
    TRY(make_slices(v, entries, count));
    TRY(make_short(v, entries, count));
    TRY(drop_twins(v, entries, &count));
    TRY(make_closers(v, entries, count));
    TRY(make_trie(entries, count, &v->tokens));
    TRY(find_below(&v->tokens));
    v->bytes += sizeof(*v) + v->tokens.count * sizeof(trie_node_t) +
                (1 + SLICE_COUNT) * v->words * sizeof(uint64_t) +
                2 * v->twin_count * sizeof(*v->twins);
    return STATUS_OK;
}

status_t grammar_vocabulary_open(const tokenizer_t *tokenizer, grammar_vocabulary_t **vocabulary)
{
    grammar_vocabulary_t *v = calloc(1, sizeof(*v));
    uint32_t id_count = tokenizer_id_count(tokenizer);
    entry_t *entries = malloc(((size_t)id_count + 1) * sizeof(*entries));

    if (v == NULL || entries == NULL) {
        free(v);
        free(entries);
        return FAIL(STATUS_NO_MEMORY, "vocabulary");
    }
    *v = (grammar_vocabulary_t){
        .tokenizer = tokenizer, .id_count = id_count, .words = (id_count + 63) / 64};
    v->usable = calloc(v->words + 1, sizeof(*v->usable));
    status_t status = v->usable == NULL          ? FAIL(STATUS_NO_MEMORY, "vocabulary")
                      : id_count > TRIE_NO_TOKEN ? FAIL(STATUS_TOO_LARGE, "%u tokens", id_count)
                                                 : fill(v, entries);
    free(entries);
    if (status != STATUS_OK) {
        grammar_vocabulary_close(v);
        return status;
    }
    *vocabulary = v;
    return STATUS_OK;
}

void grammar_vocabulary_close(grammar_vocabulary_t *v)
{
    if (v == NULL)
        return;
    free(v->usable);
    free(v->tokens.nodes);
    free(v->twins);
    for (unsigned slice = 0; slice < SLICE_COUNT; slice++)
        free(v->slices[slice]);
    for (uint32_t k = 1; k <= SHORT_CHARACTERS_MAX; k++)
        free(v->short_slices[k]);
    free(v->long_tokens);
    free(v->closers.nodes);
    free(v->rests.nodes);
    free(v->rest_tokens);
    free(v->rest_ids);
    free(v);
}

uint64_t grammar_vocabulary_digest(const grammar_vocabulary_t *v)
{
    return v->digest;
}

uint32_t grammar_vocabulary_words(const grammar_vocabulary_t *v)
{
    return v->words;
}

size_t grammar_vocabulary_bytes(const grammar_vocabulary_t *v)
{
    return v->bytes;
}

const char *grammar_vocabulary_token(const grammar_vocabulary_t *v, uint32_t token, size_t *length)
{
    if (token >= v->id_count || !token_bit(v->usable, token)) {
        *length = 0;
        return "";
    }
    return tokenizer_piece(v->tokenizer, token, length);
}
