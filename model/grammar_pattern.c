/* grammar_pattern.c - see grammar_pattern.h.
 *
 * The text is parsed into a small tree, because a lookahead needs to know what follows it: a tree is
 * built from right to left, each part with the term for all that comes behind. An anchor at an end of
 * the whole is dropped together with the text that a search would allow there; any other anchor becomes
 * a byte that no UTF-8 has, which regex_inside takes away again.
 */
#include "model/grammar_pattern.h"

#include <stdlib.h>
#include <string.h>

#include "model/utf8.h"

typedef enum {
    TREE_EMPTY,
    TREE_TERM,
    TREE_CAT,
    TREE_OR,
    TREE_REPEAT,
    TREE_BEGIN,
    TREE_END,
    TREE_AHEAD,
    TREE_NOT_AHEAD
} tree_kind_t;

typedef struct {
    tree_kind_t kind;
    uint32_t first, second; /* trees; of TREE_TERM: the term */
    uint32_t min, max;
} tree_t;

enum { TREES_MAX = 1 << 17, RANGES_MAX = 4096 };

typedef struct {
    regex_store_t *store;
    pattern_form_t form;
    const char *text;
    size_t length, at;
    bool fold, dot_all; /* flags i and s */
    bool anchors;       /* one is left inside */
    tree_t *trees;
    uint32_t tree_count, tree_room;
    pattern_range_t *ranges; /* of the class that is read */
    uint32_t range_count;
    uint32_t depth;
} reading_t;

#define REFUSE(r, status, ...) FAIL(status, "pattern, byte %zu: " __VA_ARGS__)

static status_t add_tree(reading_t *r, tree_kind_t kind, uint32_t first, uint32_t second,
                         uint32_t *tree)
{
    if (r->tree_count == r->tree_room) {
        uint32_t room = r->tree_room == 0 ? 64 : 2 * r->tree_room;
        tree_t *trees = room > TREES_MAX ? NULL : realloc(r->trees, room * sizeof(*trees));
        if (trees == NULL)
            return FAIL(STATUS_TOO_LARGE, "a pattern of more than %u parts", r->tree_room);
        r->trees = trees;
        r->tree_room = room;
    }
    *tree = r->tree_count++;
    r->trees[*tree] = (tree_t){.kind = kind, .first = first, .second = second};
    return STATUS_OK;
}

static int peek(const reading_t *r)
{
    return r->at < r->length ? (unsigned char)r->text[r->at] : -1;
}

static bool take(reading_t *r, const char *word)
{
    size_t length = strlen(word);

    if (r->length - r->at < length || memcmp(r->text + r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

static status_t add_range(reading_t *r, uint32_t first, uint32_t last)
{
    if (r->range_count == RANGES_MAX)
        return REFUSE(r, STATUS_TOO_LARGE, "a class of more than %d ranges", r->at, RANGES_MAX);
    r->ranges[r->range_count++] = (pattern_range_t){first, last};
    return STATUS_OK;
}

static int compare_ranges(const void *a, const void *b)
{
    const pattern_range_t *x = a, *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

/* Ranges from `begin` on, sorted and joined; negated if asked for. */
static status_t settle_ranges(reading_t *r, uint32_t begin, bool negated)
{
    uint32_t kept = begin, next = 0;

    qsort(r->ranges + begin, r->range_count - begin, sizeof(*r->ranges), compare_ranges);
    for (uint32_t i = begin; i < r->range_count; i++) {
        pattern_range_t range = r->ranges[i];
        if (kept > begin && range.first <= r->ranges[kept - 1].last + 1) {
            if (range.last > r->ranges[kept - 1].last)
                r->ranges[kept - 1].last = range.last;
        } else {
            r->ranges[kept++] = range;
        }
    }
    r->range_count = kept;
    if (!negated)
        return STATUS_OK;
    uint32_t end = r->range_count;
    for (uint32_t i = begin; i < end; i++) {
        pattern_range_t range = r->ranges[i];
        if (range.first > next)
            TRY(add_range(r, next, range.first - 1));
        next = range.last + 1;
    }
    if (next <= 0x10ffff)
        TRY(add_range(r, next, 0x10ffff));
    memmove(r->ranges + begin, r->ranges + end, (r->range_count - end) * sizeof(*r->ranges));
    r->range_count -= end - begin;
    return STATUS_OK;
}

/* \d \w \s, or what no dialect counts among them. */
static status_t add_class(reading_t *r, int letter)
{
    static const pattern_range_t digit[] = {{'0', '9'}},
                                 word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                                 space[] = {{9, 13},          {' ', ' '},       {0xa0, 0xa0},
                                            {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029},
                                            {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}},
                                 other_space[] = {{0x1c, 0x1f},
                                                  {0x85, 0x85},
                                                  {0xfeff, 0xfeff},
                                                  {0x180e, 0x180e}};
    bool negated = letter < 'a';
    uint32_t begin = r->range_count;
    const pattern_range_t *ranges = letter == 'd' || letter == 'D'   ? digit
                                    : letter == 'w' || letter == 'W' ? word
                                                                     : space;
    size_t count = ranges == digit ? 1 : ranges == word ? 4 : COUNT_OF(space);

    for (size_t i = 0; i < count; i++)
        TRY(add_range(r, ranges[i].first, ranges[i].last));
    for (size_t i = 0; negated && ranges == space && i < COUNT_OF(other_space); i++)
        TRY(add_range(r, other_space[i].first, other_space[i].last));
    if (negated && ranges != space) /* other alphabets have letters and digits too */
        TRY(add_range(r, 0x80, 0x10ffff));
    return settle_ranges(r, begin, negated);
}

static status_t read_hex(reading_t *r, unsigned digits, uint32_t *code)
{
    *code = 0;
    for (unsigned i = 0; i < digits; i++, r->at++) {
        int c = peek(r);
        int value = c >= '0' && c <= '9'                 ? c - '0'
                    : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                         : -1;
        if (c < 0 || value < 0)
            return REFUSE(r, STATUS_INVALID, "%u hexadecimal digits are needed", r->at, digits);
        *code = *code << 4 | (uint32_t)value;
    }
    return STATUS_OK;
}

static status_t read_code_point(reading_t *r, uint32_t *code)
{
    if (!take(r, "{"))
        return read_hex(r, 4, code);
    *code = 0;
    while (peek(r) != '}') {
        uint32_t digit;
        TRY(read_hex(r, 1, &digit));
        *code = *code << 4 | digit;
        if (*code > 0x10ffff)
            return REFUSE(r, STATUS_INVALID, "no character has this number", r->at);
    }
    r->at++;
    return STATUS_OK;
}

/* Behind a backslash: one character, or *is_class with its ranges added. */
static status_t read_escape(reading_t *r, uint32_t *code, bool *is_class)
{
    static const char letters[] = "tnrfva0e", values[] = "\t\n\r\f\v\a\0\x1b";
    int c = peek(r);

    *is_class = false;
    if (c < 0)
        return REFUSE(r, STATUS_INVALID, "it ends behind a backslash", r->at);
    if (strchr("dDwWsS", c) != NULL) {
        r->at++;
        *is_class = true;
        return add_class(r, c);
    }
    if (c >= 0x80) {
        utf8_step_t step = utf8_step(r->text + r->at, r->length - r->at);
        r->at += step.bytes;
        *code = step.code;
        return STATUS_OK;
    }
    r->at++;
    const char *letter = memchr(letters, c, sizeof(letters) - 1);
    if (letter != NULL) {
        *code = (unsigned char)values[letter - letters];
        return STATUS_OK;
    }
    if (c == 'x')
        return take(r, "{") ? (r->at--, read_code_point(r, code)) : read_hex(r, 2, code);
    if (c == 'u' || c == 'U')
        return c == 'U' ? read_hex(r, 8, code) : read_code_point(r, code);
    if (c == 'c' && peek(r) > 0) {
        *code = (uint32_t)peek(r) & 31;
        r->at++;
        return STATUS_OK;
    }
    if (strchr("bBAzZpPkGgQE123456789", c) != NULL || (c | 32) >= 'a')
        if ((c | 32) >= 'a' ? (c | 32) <= 'z' : c >= '0' && c <= '9')
            return REFUSE(r, STATUS_UNSUPPORTED, "\\%c is not supported", r->at - 2, c);
    *code = (uint32_t)c;
    return STATUS_OK;
}

static status_t read_character(reading_t *r, uint32_t *code)
{
    utf8_step_t step = utf8_step(r->text + r->at, r->length - r->at);

    if (step.kind != UTF8_WHOLE)
        return REFUSE(r, STATUS_INVALID, "not UTF-8", r->at);
    r->at += step.bytes;
    *code = step.code;
    return STATUS_OK;
}

/* [...], behind the bracket. */
static status_t read_class(reading_t *r, uint32_t begin)
{
    bool negated = take(r, "^"), first = true;

    for (;; first = false) {
        uint32_t low, high;
        bool is_class = false;
        int c = peek(r);
        if (c < 0)
            return REFUSE(r, STATUS_INVALID, "a class does not end", r->at);
        if (c == ']' && (!first || r->form == PATTERN_JSON))
            break;
        if (c == '[' && r->at + 1 < r->length && r->text[r->at + 1] == ':')
            return REFUSE(r, STATUS_UNSUPPORTED, "[: :] is not supported", r->at);
        if (take(r, "\\b")) {
            low = '\b';
        } else if (take(r, "\\")) {
            TRY(read_escape(r, &low, &is_class));
        } else {
            TRY(read_character(r, &low));
        }
        if (is_class)
            continue;
        high = low;
        if (peek(r) == '-' && r->at + 1 < r->length && r->text[r->at + 1] != ']') {
            r->at++;
            if (take(r, "\\"))
                TRY(read_escape(r, &high, &is_class));
            else
                TRY(read_character(r, &high));
            if (is_class) { /* [a-\d]: the minus stands for itself */
                TRY(add_range(r, '-', '-'));
                high = low;
            }
            if (high < low)
                return REFUSE(r, STATUS_INVALID, "a range that goes down", r->at);
        }
        TRY(add_range(r, low, high));
    }
    r->at++;
    return settle_ranges(r, begin, negated);
}

static status_t add_ranges_tree(reading_t *r, uint32_t begin, uint32_t *tree)
{
    uint32_t end = r->range_count;

    for (uint32_t i = begin; r->fold && i < end; i++) { /* ASCII letters only, as far as they go */
        for (uint32_t code = 'a'; code <= 'z'; code++) {
            pattern_range_t range = r->ranges[i];
            if (code >= range.first && code <= range.last)
                TRY(add_range(r, code - 32, code - 32));
            if (code - 32 >= range.first && code - 32 <= range.last)
                TRY(add_range(r, code, code));
        }
    }
    uint32_t term =
        pattern_characters(r->store, r->form, r->ranges + begin, r->range_count - begin);
    r->range_count = begin;
    return add_tree(r, TREE_TERM, term, 0, tree);
}

static status_t read_or(reading_t *r, uint32_t *tree);

/* (...), behind the parenthesis. */
static status_t read_group(reading_t *r, uint32_t *tree)
{
    tree_kind_t kind = TREE_CAT;

    if (take(r, "?=")) {
        kind = TREE_AHEAD;
    } else if (take(r, "?!")) {
        kind = TREE_NOT_AHEAD;
    } else if (take(r, "?<=") || take(r, "?<!")) {
        return REFUSE(r, STATUS_UNSUPPORTED, "lookbehind is not supported", r->at);
    } else if (take(r, "?P<") || take(r, "?<")) {
        while (peek(r) >= 0 && peek(r) != '>')
            r->at++;
        if (!take(r, ">"))
            return REFUSE(r, STATUS_INVALID, "a name does not end", r->at);
    } else if (!take(r, "?:") && peek(r) == '?') {
        return REFUSE(r, STATUS_UNSUPPORTED, "this kind of group is not supported", r->at);
    }
    if (++r->depth > PATTERN_DEPTH_MAX)
        return REFUSE(r, STATUS_TOO_LARGE, "nested more than %d deep", r->at, PATTERN_DEPTH_MAX);
    TRY(read_or(r, tree));
    r->depth--;
    if (!take(r, ")"))
        return REFUSE(r, STATUS_INVALID, "a group does not end", r->at);
    return kind == TREE_CAT ? STATUS_OK : add_tree(r, kind, *tree, 0, tree);
}

static status_t read_atom(reading_t *r, uint32_t *tree)
{
    uint32_t begin = r->range_count, code = 0;
    bool is_class = false;
    int c = peek(r);

    if (take(r, "("))
        return read_group(r, tree);
    if (take(r, "^") || take(r, "\\A")) {
        r->anchors = true;
        return add_tree(r, TREE_BEGIN, 0, 0, tree);
    }
    if (take(r, "$") || take(r, "\\Z") || take(r, "\\z")) {
        r->anchors = true;
        return add_tree(r, TREE_END, 0, 0, tree);
    }
    if (c == '*' || c == '+' || c == '?')
        return REFUSE(r, STATUS_INVALID, "nothing to repeat", r->at);
    if (take(r, ".")) {
        for (const char *end = r->dot_all ? "" : "\n\r"; *end != '\0'; end++)
            TRY(add_range(r, (uint32_t)*end, (uint32_t)*end));
        if (!r->dot_all)
            TRY(add_range(r, 0x2028, 0x2029));
        TRY(settle_ranges(r, begin, true));
        return add_ranges_tree(r, begin, tree);
    }
    if (take(r, "[")) {
        TRY(read_class(r, begin));
        return add_ranges_tree(r, begin, tree);
    }
    if (take(r, "\\"))
        TRY(read_escape(r, &code, &is_class));
    else
        TRY(read_character(r, &code));
    if (!is_class)
        TRY(add_range(r, code, code));
    return add_ranges_tree(r, begin, tree);
}

/* {m}, {m,}, {m,n} and Python's {,n}; anything else is text. */
static bool read_count(reading_t *r, uint32_t *min, uint32_t *max)
{
    size_t start = r->at++;
    uint64_t values[2] = {0, REGEX_NO_END};
    bool comma = false;

    for (unsigned i = 0; i < 2; i++) {
        size_t from = r->at;
        uint64_t value = 0;
        for (; peek(r) >= '0' && peek(r) <= '9'; r->at++)
            value = value > REGEX_NO_END ? value : value * 10 + (uint64_t)(peek(r) - '0');
        if (r->at > from)
            values[i] = value >= REGEX_NO_END ? REGEX_NO_END - 1 : value;
        if (i == 0 && peek(r) == '}' && r->at > from)
            values[1] = values[0];
        if (i == 0 && peek(r) == ',') {
            comma = true;
            r->at++;
        } else if (i == 0) {
            break;
        }
    }
    if (peek(r) != '}' || r->at == start + 1 || (comma && r->at == start + 2)) {
        r->at = start;
        return false;
    }
    r->at++;
    *min = (uint32_t)values[0];
    *max = (uint32_t)values[1];
    return true;
}

static status_t read_repeat(reading_t *r, uint32_t *tree)
{
    TRY(read_atom(r, tree));
    for (;;) {
        uint32_t min, max = REGEX_NO_END;
        int c = peek(r);
        if (c == '*' || c == '+' || c == '?') {
            r->at++;
            min = c == '+';
            max = c == '?' ? 1 : REGEX_NO_END;
        } else if (c != '{' || !read_count(r, &min, &max)) {
            return STATUS_OK;
        }
        if (min > max)
            return REFUSE(r, STATUS_INVALID, "a count that goes down", r->at);
        if (!take(r, "?") && peek(r) == '+')
            return REFUSE(r, STATUS_UNSUPPORTED, "possessive counts are not supported", r->at);
        TRY(add_tree(r, TREE_REPEAT, *tree, 0, tree));
        r->trees[*tree].min = min;
        r->trees[*tree].max = max;
    }
}

/* Leans to the left: from the last part on it is built without recursion. */
static status_t read_cat(reading_t *r, uint32_t *tree)
{
    bool any = false;

    TRY(add_tree(r, TREE_EMPTY, 0, 0, tree));
    while (peek(r) >= 0 && peek(r) != '|' && peek(r) != ')') {
        uint32_t next;
        TRY(read_repeat(r, &next));
        if (any)
            TRY(add_tree(r, TREE_CAT, *tree, next, &next));
        *tree = next;
        any = true;
    }
    return STATUS_OK;
}

static status_t read_or(reading_t *r, uint32_t *tree)
{
    TRY(read_cat(r, tree));
    while (take(r, "|")) {
        uint32_t next;
        TRY(read_cat(r, &next));
        TRY(add_tree(r, TREE_OR, *tree, next, tree));
    }
    return STATUS_OK;
}

typedef struct {
    reading_t *r;
    uint32_t all; /* any text */
    bool kept_anchors;
    status_t status;
} building_t;

static bool has_ahead(const reading_t *r, uint32_t tree)
{
    const tree_t *t = &r->trees[tree];

    switch (t->kind) {
    case TREE_AHEAD:
    case TREE_NOT_AHEAD:
        return true;
    case TREE_CAT:
    case TREE_OR:
        return has_ahead(r, t->second) || has_ahead(r, t->first);
    case TREE_REPEAT:
        return has_ahead(r, t->first);
    default:
        return false;
    }
}

static uint32_t build(building_t *b, uint32_t tree, uint32_t behind);

static uint32_t build_repeat(building_t *b, const tree_t *t, uint32_t behind)
{
    regex_store_t *s = b->r->store;

    if (!has_ahead(b->r, t->first))
        return regex_cat(s, regex_repeat(s, build(b, t->first, REGEX_EMPTY), t->min, t->max),
                         behind);
    if (t->max > 4) {
        if (b->status == STATUS_OK)
            b->status = FAIL(STATUS_UNSUPPORTED, "pattern: lookahead inside a repeat is not "
                                                 "supported");
        return REGEX_NOTHING;
    }
    uint32_t term = t->min == t->max ? REGEX_NOTHING : behind;
    uint32_t copy = behind;
    for (uint32_t i = 1; i <= t->max; i++) {
        copy = build(b, t->first, copy);
        if (i >= t->min)
            term = regex_or(s, term, copy);
    }
    return t->min == 0 ? regex_or(s, term, behind) : term;
}

static uint32_t build(building_t *b, uint32_t tree, uint32_t behind)
{
    regex_store_t *s = b->r->store;
    const tree_t t = b->r->trees[tree];

    if (b->status != STATUS_OK || s->status != STATUS_OK)
        return REGEX_NOTHING;
    switch (t.kind) {
    case TREE_EMPTY:
        return behind;
    case TREE_TERM:
        return regex_cat(s, t.first, behind);
    case TREE_CAT:
        return build(b, t.first, build(b, t.second, behind));
    case TREE_OR:
        return regex_or(s, build(b, t.first, behind), build(b, t.second, behind));
    case TREE_REPEAT:
        return build_repeat(b, &t, behind);
    case TREE_BEGIN:
    case TREE_END:
        b->kept_anchors = true;
        return regex_cat(s,
                         regex_range(s, t.kind == TREE_BEGIN ? REGEX_BEGIN_BYTE : REGEX_END_BYTE,
                                     t.kind == TREE_BEGIN ? REGEX_BEGIN_BYTE : REGEX_END_BYTE),
                         behind);
    case TREE_AHEAD:
        return regex_and(s, behind, build(b, t.first, b->all));
    case TREE_NOT_AHEAD:
        return regex_and(s, behind, regex_not(s, build(b, t.first, b->all)));
    }
    UNREACHABLE("every kind returns");
}

/* Takes an anchor off the front (or back) of a branch; true if one was there. */
static bool drop_anchor(reading_t *r, uint32_t *tree, tree_kind_t anchor)
{
    tree_t *t = &r->trees[*tree];

    if (t->kind == anchor) {
        *t = (tree_t){.kind = TREE_EMPTY};
        return true;
    }
    return t->kind == TREE_CAT &&
           drop_anchor(r, anchor == TREE_BEGIN ? &t->first : &t->second, anchor);
}

/* One branch of the whole: what a search allows in front and behind is put there. */
static uint32_t build_branch(building_t *b, uint32_t tree, bool search)
{
    regex_store_t *s = b->r->store;
    bool begins = drop_anchor(b->r, &tree, TREE_BEGIN) || !search;
    bool ends = drop_anchor(b->r, &tree, TREE_END) || !search;
    uint32_t term;

    b->kept_anchors = false;
    b->all = pattern_any(s, b->r->form);
    b->all = regex_repeat(s, b->all, 0, REGEX_NO_END);
    uint32_t all = b->all;
    uint32_t end = regex_range(s, REGEX_END_BYTE, REGEX_END_BYTE);
    uint32_t begin = regex_range(s, REGEX_BEGIN_BYTE, REGEX_BEGIN_BYTE);
    term = build(b, tree, ends ? REGEX_EMPTY : all);
    if (!b->kept_anchors)
        return begins ? term : regex_cat(s, all, term);
    /* Once more, over texts with a byte at each end. */
    b->all = regex_cat(s, all, regex_or(s, end, REGEX_EMPTY));
    term = build(b, tree, ends ? end : regex_or(s, regex_cat(s, all, end), REGEX_EMPTY));
    term = regex_cat(s, begins ? begin : regex_or(s, regex_cat(s, begin, all), REGEX_EMPTY), term);
    return regex_inside(s, term);
}

static status_t build_whole(reading_t *r, uint32_t tree, bool search, uint32_t *term)
{
    building_t b = {.r = r};
    uint32_t result = REGEX_NOTHING;

    for (;;) {
        const tree_t t = r->trees[tree];
        uint32_t branch = build_branch(&b, t.kind == TREE_OR ? t.second : tree, search);
        result = regex_or(r->store, result, branch);
        if (t.kind != TREE_OR)
            break;
        tree = t.first;
    }
    *term = result;
    if (b.status != STATUS_OK)
        return b.status;
    return r->store->status;
}

status_t pattern_parse(regex_store_t *store, pattern_form_t form, bool search, const char *text,
                       size_t length, const char *flags, uint32_t *term)
{
    reading_t r = {.store = store,
                   .form = form,
                   .text = text,
                   .length = length,
                   .fold = strchr(flags, 'i') != NULL,
                   .dot_all = strchr(flags, 's') != NULL};
    uint32_t tree;
    status_t status;

    if (length > PATTERN_BYTES_MAX)
        return FAIL(STATUS_TOO_LARGE, "a pattern of %zu bytes, at most %d", length,
                    PATTERN_BYTES_MAX);
    r.ranges = malloc(RANGES_MAX * sizeof(*r.ranges));
    if (r.ranges == NULL)
        return FAIL(STATUS_NO_MEMORY, "pattern");
    if (take(&r, "(?i)"))
        r.fold = true;
    status = read_or(&r, &tree);
    if (status == STATUS_OK && r.at < length)
        status = REFUSE(&r, STATUS_INVALID, "a parenthesis that closes nothing", r.at);
    if (status == STATUS_OK)
        status = build_whole(&r, tree, search, term);
    free(r.trees);
    free(r.ranges);
    return status;
}
