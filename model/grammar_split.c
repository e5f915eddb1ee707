/* grammar_split.c - see grammar_split.h: reads a pattern into steps, and runs them.
 *
 * A step that would look at the end of a text that goes on notes that: what was found then could be
 * another thing, so it is not given. Choices are tried in the order of the pattern, the last one first
 * out, as PCRE does.
 */
#include "model/grammar_split.h"

#include <string.h>

enum { STEP_SET, STEP_CHOICE, STEP_JUMP, STEP_NOT_AHEAD, STEP_DONE };
enum { COPIES_MAX = 16, NESTED_MAX = 16, PENDING_MAX = 2048, STEPS_RUN_MAX = 1 << 16 };

typedef struct {
    grammar_split_t *split;
    const char *text;
    size_t length, at;
    bool fold, failed;
    unsigned depth;
} reading_t;

static void put_range(uint64_t *set, unsigned first, unsigned last)
{
    for (unsigned c = first; c <= last && c < 128; c++)
        set[c / 64] |= (uint64_t)1 << c % 64;
}

static void put_list(uint64_t *set, const char *list)
{
    for (; *list != '\0'; list++)
        put_range(set, (unsigned char)*list, (unsigned char)*list);
}

static void put_letters(uint64_t *set)
{
    put_range(set, 'a', 'z');
    put_range(set, 'A', 'Z');
}

/* \p{X}, \s and so on; false if it is none of those. */
static bool put_class(reading_t *r, uint64_t *set, int letter)
{
    uint64_t one[2] = {0, 0};
    bool negated = letter == 'P' || letter == 'S' || letter == 'D' || letter == 'W';

    if (letter == 'p' || letter == 'P') {
        const char *end = r->at < r->length && r->text[r->at] == '{'
                              ? memchr(r->text + r->at, '}', r->length - r->at)
                              : NULL;
        if (end == NULL)
            return false;
        switch (r->text[r->at + 1]) {
        case 'L':
            put_letters(one);
            break;
        case 'N':
            put_range(one, '0', '9');
            break;
        case 'P':
            put_list(one, "!\"#%&'()*,-./:;?@[\\]_{}");
            break;
        case 'S':
            put_list(one, "$+<=>^`|~");
            break;
        case 'Z':
            put_range(one, ' ', ' ');
            break;
        case 'M':
            break;
        default:
            return false;
        }
        if (r->text[r->at + 2] != '}') /* a part of one, such as Lu */
            return false;
        r->at = (size_t)(end - r->text) + 1;
    } else if (letter == 's' || letter == 'S') {
        put_list(one, " \t\n\v\f\r");
    } else if (letter == 'd' || letter == 'D') {
        put_range(one, '0', '9');
    } else if (letter == 'w' || letter == 'W') {
        put_letters(one);
        put_range(one, '0', '9');
        put_range(one, '_', '_');
    } else {
        return false;
    }
    set[0] |= negated ? ~one[0] : one[0];
    set[1] |= negated ? ~one[1] : one[1];
    return true;
}

/* A character behind a backslash that stands for itself or for a control character. */
static unsigned escaped(int letter)
{
    switch (letter) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    default:
        return (unsigned)letter;
    }
}

/* One character of a class or by itself; 128 for any beyond ASCII. */
static unsigned read_character(reading_t *r)
{
    unsigned c = (unsigned char)r->text[r->at++];

    if (c < 128)
        return c;
    while (r->at < r->length && ((unsigned char)r->text[r->at] & 0xc0) == 0x80)
        r->at++;
    return 128;
}

static void read_set(reading_t *r, uint64_t *set)
{
    bool negated = r->at < r->length && r->text[r->at] == '^';

    r->at += negated;
    while (r->at < r->length && r->text[r->at] != ']' && !r->failed) {
        unsigned first, last;
        if (r->text[r->at] == '[')
            r->failed = true;
        first = read_character(r);
        if (first == '\\' && r->at < r->length) {
            int letter = r->text[r->at++];
            if (put_class(r, set, letter))
                continue;
            r->failed = r->failed || (letter >= 'A' && letter <= 'Z') || letter == 'p';
            first = escaped(letter);
        }
        last = first;
        if (r->at + 1 < r->length && r->text[r->at] == '-' && r->text[r->at + 1] != ']') {
            r->at++;
            last = read_character(r);
            if (last == '\\' && r->at < r->length)
                last = escaped(r->text[r->at++]);
        }
        put_range(set, first, last);
    }
    r->failed = r->failed || r->at >= r->length;
    r->at++;
    if (negated) {
        set[0] = ~set[0];
        set[1] = ~set[1];
    }
}

static uint16_t add_step(reading_t *r, uint8_t kind)
{
    grammar_split_t *s = r->split;

    if (s->step_count == GRAMMAR_SPLIT_STEPS) {
        r->failed = true;
        return 0;
    }
    s->steps[s->step_count] =
        (grammar_split_step_t){.kind = kind, .next = (uint16_t)(s->step_count + 1)};
    return (uint16_t)s->step_count++;
}

static void add_set(reading_t *r, uint8_t kind, const uint64_t *set)
{
    grammar_split_t *s = r->split;
    uint16_t step = add_step(r, kind);

    if (s->set_count == GRAMMAR_SPLIT_SETS) {
        r->failed = true;
        return;
    }
    memcpy(s->sets[s->set_count], set, sizeof(s->sets[0]));
    for (unsigned c = 'a'; r->fold && c <= 'z'; c++) {
        bool either = (set[1] >> (c - 64) & 1) || (set[1] >> (c - 32 - 64) & 1);
        if (either) {
            put_range(s->sets[s->set_count], c, c);
            put_range(s->sets[s->set_count], c - 32, c - 32);
        }
    }
    s->steps[step].set = (uint8_t)s->set_count++;
}

static void read_choices(reading_t *r);

/* A set, a character or a class: into `set`; false if it is a group. */
static bool read_one(reading_t *r, uint64_t *set)
{
    unsigned c = read_character(r);

    if (c == '(' || c == '^' || c == '$' || c == '*' || c == '+' || c == '?' || c == '{') {
        r->at--;
        return false;
    }
    if (c == '[') {
        read_set(r, set);
    } else if (c == '.') {
        put_range(set, 0, 127);
        set[0] &= ~((uint64_t)1 << '\n');
    } else if (c == '\\' && r->at < r->length) {
        int letter = r->text[r->at++];
        if (!put_class(r, set, letter)) {
            r->failed = r->failed || (letter >= 'A' && letter <= 'Z') || letter == 'p' ||
                        letter == 'b' || (letter >= '0' && letter <= '9');
            put_range(set, escaped(letter), escaped(letter));
        }
    } else {
        put_range(set, c, c);
    }
    return true;
}

static bool take(reading_t *r, const char *word)
{
    size_t length = strlen(word);

    if (r->length - r->at < length || memcmp(r->text + r->at, word, length) != 0)
        return false;
    r->at += length;
    return true;
}

static void read_group(reading_t *r)
{
    uint64_t set[2] = {0, 0};
    bool fold = r->fold;

    if (take(r, "(?!")) {
        if (!read_one(r, set))
            r->failed = true;
        add_set(r, STEP_NOT_AHEAD, set);
    } else {
        if (take(r, "(?i:"))
            r->fold = true;
        else if (!take(r, "(?:") && (!take(r, "(") || (r->at < r->length && r->text[r->at] == '?')))
            r->failed = true;
        if (++r->depth > NESTED_MAX)
            r->failed = true;
        if (!r->failed)
            read_choices(r);
        r->depth--;
        r->fold = fold;
    }
    if (!take(r, ")"))
        r->failed = true;
}

static void read_atom(reading_t *r)
{
    uint64_t set[2] = {0, 0};

    if (read_one(r, set))
        add_set(r, STEP_SET, set);
    else if (r->at < r->length && r->text[r->at] == '(')
        read_group(r);
    else
        r->failed = true;
}

static unsigned read_number(reading_t *r)
{
    unsigned value = 0;

    while (r->at < r->length && r->text[r->at] >= '0' && r->text[r->at] <= '9' && value < 1000)
        value = value * 10 + (unsigned)(r->text[r->at++] - '0');
    return value;
}

/* How often an atom comes; max 0: no bound. */
static void read_count(reading_t *r, unsigned *min, unsigned *max)
{
    *min = *max = 1;
    if (take(r, "*")) {
        *min = *max = 0;
    } else if (take(r, "+")) {
        *max = 0;
    } else if (take(r, "?")) {
        *min = 0;
    } else if (take(r, "{")) {
        *min = *max = read_number(r);
        if (take(r, ","))
            *max = read_number(r);
        if (!take(r, "}") || *max > COPIES_MAX || *min > COPIES_MAX || (*max > 0 && *max < *min))
            r->failed = true;
    } else {
        return;
    }
    if (r->at < r->length && (r->text[r->at] == '+' || r->text[r->at] == '?'))
        r->failed = true; /* possessive or lazy */
}

static void read_repeated(reading_t *r)
{
    size_t start = r->at;
    uint32_t first_step = r->split->step_count, first_set = r->split->set_count;
    unsigned min, max;

    read_atom(r); /* once to find its count, then again as often as that says */
    if (r->failed)
        return;
    read_count(r, &min, &max);
    size_t end = r->at;
    r->split->step_count = first_step;
    r->split->set_count = first_set;
    uint16_t choices[COPIES_MAX], choice_count = 0, loop = 0;
    unsigned copies = max == 0 ? min + 1 : max;
    for (unsigned i = 0; i < copies && !r->failed; i++) {
        if (i >= min) {
            loop = add_step(r, STEP_CHOICE);
            choices[choice_count++] = loop;
        }
        r->at = start;
        read_atom(r);
    }
    if (max == 0 && !r->failed)
        r->split->steps[add_step(r, STEP_JUMP)].next = loop;
    for (uint16_t i = 0; i < choice_count; i++)
        r->split->steps[choices[i]].other = (uint16_t)r->split->step_count;
    r->at = end;
}

static void read_choices(reading_t *r)
{
    uint16_t ends[GRAMMAR_SPLIT_SETS], end_count = 0;

    for (;;) {
        /* The choice is only needed if another branch follows; it is harmless if its other is taken
         * out below. */
        uint16_t choice = add_step(r, STEP_CHOICE);
        while (r->at < r->length && r->text[r->at] != '|' && r->text[r->at] != ')' && !r->failed)
            read_repeated(r);
        if (r->failed)
            return;
        if (!take(r, "|")) {
            r->split->steps[choice].kind = STEP_JUMP;
            break;
        }
        if (end_count == GRAMMAR_SPLIT_SETS) {
            r->failed = true;
            return;
        }
        ends[end_count++] = add_step(r, STEP_JUMP);
        r->split->steps[choice].other = (uint16_t)r->split->step_count;
    }
    for (uint16_t i = 0; i < end_count; i++)
        r->split->steps[ends[i]].next = (uint16_t)r->split->step_count;
}

bool grammar_split_read(grammar_split_t *split, const char *pattern, size_t length)
{
    reading_t r = {.split = split, .text = pattern, .length = length};

    *split = (grammar_split_t){.step_count = 0};
    read_choices(&r);
    add_step(&r, STEP_DONE);
    return !r.failed && r.at == length;
}

typedef struct {
    const grammar_split_t *splits;
    uint32_t split_count;
    const char *text;
    grammar_word_t *word;
    void *context;
    bool stopped;
} splitting_t;

/* A match that begins at `start` of [.., end). *looked: the end of a text that goes on was looked at. */
static bool match(const splitting_t *p, const grammar_split_t *s, uint32_t start, uint32_t end,
                  bool open, uint32_t *match_end, bool *looked)
{
    struct {
        uint16_t step, at;
    } pending[PENDING_MAX];
    uint32_t count = 0, run = 0, at = start, step = 0;

    for (;;) {
        const grammar_split_step_t *now = &s->steps[step];
        bool goes_on = true;
        step = now->next;
        if (now->kind == STEP_DONE) {
            *match_end = at;
            return true;
        }
        if (now->kind == STEP_CHOICE) {
            if (count == PENDING_MAX || at > UINT16_MAX)
                break;
            pending[count].step = now->other;
            pending[count++].at = (uint16_t)at;
        } else if (now->kind != STEP_JUMP) {
            unsigned c = at < end ? (unsigned char)p->text[at] : 0;
            bool in = at < end && s->sets[now->set][c / 64 & 1] >> c % 64 & 1;
            *looked = *looked || (at == end && open);
            goes_on = in == (now->kind == STEP_SET);
            at += goes_on && now->kind == STEP_SET;
        }
        if (!goes_on) {
            if (count == 0)
                return false;
            step = pending[--count].step;
            at = pending[count].at;
        }
        if (++run > STEPS_RUN_MAX)
            break;
    }
    *looked = true; /* not known */
    return false;
}

/* Text [start, end) from split `level` on; with `open` its end is not certain. */
static void split_level(splitting_t *p, uint32_t level, uint32_t start, uint32_t end, bool open)
{
    if (p->stopped || (start == end && !open))
        return;
    if (level == p->split_count) {
        if (open || !p->word(p->context, start, end))
            p->stopped = true;
        return;
    }
    uint32_t at = start, from = start;
    while (from < end && !p->stopped) {
        bool looked = false;
        uint32_t match_end;
        bool found = match(p, &p->splits[level], from, end, open, &match_end, &looked);
        if (looked) {
            split_level(p, level + 1, at, from, true);
            p->stopped = true;
        } else if (found && match_end > from) {
            split_level(p, level + 1, at, from, false);
            split_level(p, level + 1, from, match_end, false);
            at = from = match_end;
        } else {
            from++;
        }
    }
    split_level(p, level + 1, at, end, open);
    p->stopped = p->stopped || open;
}

void grammar_split_words(const grammar_split_t *splits, uint32_t split_count, const char *text,
                         uint32_t length, bool whole, grammar_word_t *word, void *context)
{
    splitting_t p = {splits, split_count, text, word, context, false};

    split_level(&p, 0, 0, length, !whole);
}
