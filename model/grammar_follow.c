/* grammar_follow.c - see grammar_follow.h.
 *
 * Pairs of a state and a state of a slice hold until a byte is found that the slice has and the
 * automaton has not, or that leads to a pair that does not hold: a greatest fixed point. Bytes that
 * neither tells apart are looked at once.
 */
#include "model/grammar_follow.h"

#include <stdlib.h>
#include <string.h>

#include "model/grammar_block.h"
#include "model/grammar_slice.h"

enum { FREE_PAIRS_MAX = 32, KINDS_MAX = 64, BODY_PARTS = 16, LINE_PARTS = 18 };

typedef struct {
    const regex_automaton_t *a;
    uint8_t samples[256]; /* a byte of each class that neither automaton nor slices tell apart */
    uint32_t sample_count;
    uint32_t *held; /* of each state: the slice states with which it holds */
} following_t;

static uint32_t step(slice_t slice, uint32_t part, unsigned byte)
{
    static _Thread_local uint8_t table[SLICE_COUNT][SLICE_STATES][256];
    static _Thread_local bool made;

    if (!made) {
        for (unsigned s = 0; s < SLICE_COUNT; s++) {
            for (uint32_t p = 0; p < SLICE_STATES; p++) {
                for (unsigned b = 0; b < 256; b++)
                    table[s][p][b] = (uint8_t)slice_step((slice_t)s, p, b);
            }
        }
        made = true;
    }
    return table[slice][part][byte];
}

static void find_samples(following_t *f)
{
    static _Thread_local uint8_t kinds[256]; /* bytes that no slice tells apart have one number */
    static _Thread_local uint32_t kind_count;
    static _Thread_local bool made;
    uint8_t taken[256][KINDS_MAX] = {{0}};

    for (unsigned byte = 0; byte < 256 && !made; byte++) {
        unsigned other = 0;
        for (; other < byte; other++) {
            bool same = true;
            for (unsigned s = 0; s < SLICE_COUNT && same; s++) {
                for (uint32_t p = 1; p < SLICE_STATES && same; p++)
                    same = step((slice_t)s, p, byte) == step((slice_t)s, p, other);
            }
            if (same && (byte == '"') == (other == '"'))
                break;
        }
        kinds[byte] = other < byte ? kinds[other] : (uint8_t)kind_count++;
    }
    made = true;
    ASSERT(kind_count <= KINDS_MAX);
    for (unsigned byte = 0; byte < 256; byte++) {
        uint8_t *mark = &taken[f->a->classes[byte]][kinds[byte]];
        if (!*mark)
            f->samples[f->sample_count++] = (uint8_t)byte;
        *mark = 1;
    }
}

/* Does a pair hold, by what holds so far? `strict`: nothing but the slice and quotes may follow. */
static bool holds(const following_t *f, slice_t slice, uint32_t state, uint32_t part, bool strict)
{
    const uint16_t *row = f->a->next + (size_t)state * f->a->class_count;

    for (uint32_t i = 0; i < f->sample_count; i++) {
        unsigned byte = f->samples[i];
        uint32_t next = row[f->a->classes[byte]], next_part = step(slice, part, byte);
        if (next_part == SLICE_STATE_DEAD) {
            if (strict && next != 0 && !(part == SLICE_STATE_START && byte == '"'))
                return false;
        } else if (next == 0 || !(f->held[next] >> next_part & 1)) {
            return false;
        }
    }
    return true;
}

/* Leaves in `held` the pairs that hold. States are numbered outwards, so from behind it ends soon. */
static void settle(following_t *f, slice_t slice, bool strict)
{
    uint32_t parts = slice == SLICE_STRING ? BODY_PARTS - 1
                     : slice == SLICE_LINE ? LINE_PARTS - 1
                                           : 1;

    for (uint32_t state = 0; state < f->a->state_count; state++)
        f->held[state] = 0xffffffff;
    for (bool again = true; again;) {
        again = false;
        for (uint32_t state = f->a->state_count; state-- > 1;) {
            for (uint32_t part = 1; part <= parts; part++) {
                if (!(f->held[state] >> part & 1) || holds(f, slice, state, part, strict))
                    continue;
                f->held[state] &= (uint16_t) ~(1u << part);
                again = true;
            }
        }
    }
}

/* Only so many characters of this slice follow. */
static void settle_bounded(following_t *f, slice_t slice)
{
    uint32_t bound = slice_bound(slice);

    for (uint32_t state = 0; state < f->a->state_count; state++)
        f->held[state] = 0xffffffff;
    for (uint32_t count = 0; count < bound; count++) { /* bit n: any n characters may follow */
        for (uint32_t state = 1; state < f->a->state_count; state++) {
            for (uint32_t i = 0; i < f->sample_count; i++) {
                uint32_t next = regex_automaton_step(f->a, state, f->samples[i]);
                if (step(slice, SLICE_STATE_START, f->samples[i]) != SLICE_STATE_DEAD &&
                    (next == 0 || !(f->held[next] >> count & 1)))
                    f->held[state] &= ~(2u << count);
            }
        }
    }
    for (uint32_t state = 1; state < f->a->state_count; state++)
        f->held[state] = (f->held[state] >> bound & 1) << SLICE_STATE_START;
}

/* A quote behind any body leads to one state; the few pairs in between are walked. */
static bool is_free(const following_t *f, uint32_t start)
{
    uint32_t pairs[FREE_PAIRS_MAX], count = 1, target = 0;

    pairs[0] = start * SLICE_STATES + SLICE_STATE_START;
    for (uint32_t used = 0; used < count; used++) {
        uint32_t state = pairs[used] / SLICE_STATES, part = pairs[used] % SLICE_STATES;
        if (part == SLICE_STATE_START) {
            uint32_t closed = regex_automaton_step(f->a, state, '"');
            if (closed == 0 || (target != 0 && closed != target))
                return false;
            target = closed;
        }
        for (uint32_t i = 0; i < f->sample_count; i++) {
            uint32_t next_part = step(SLICE_STRING, part, f->samples[i]), at = 0;
            uint32_t pair =
                regex_automaton_step(f->a, state, f->samples[i]) * SLICE_STATES + next_part;
            if (next_part == SLICE_STATE_DEAD)
                continue;
            while (at < count && pairs[at] != pair)
                at++;
            if (at == FREE_PAIRS_MAX)
                return false;
            pairs[at] = pair;
            count = at == count ? count + 1 : count;
        }
    }
    return true;
}

/* States from which a cycle is reached: those that are left when ends are taken away again and again.
 */
static void find_endless(const following_t *f, uint32_t *flags)
{
    const regex_automaton_t *a = f->a;

    memset(f->held, 0xff, a->state_count * sizeof(*f->held));
    for (bool again = true; again;) {
        again = false;
        for (uint32_t state = a->state_count; state-- > 1;) {
            const uint16_t *row = a->next + (size_t)state * a->class_count;
            bool goes_on = false;
            for (uint32_t class = 0; class < a->class_count && !goes_on; class ++)
                goes_on = row[class] != 0 && f->held[row[class]] != 0;
            again = again || (!goes_on && f->held[state] != 0);
            f->held[state] = goes_on ? f->held[state] : 0;
        }
    }
    for (uint32_t state = 1; state < a->state_count; state++)
        flags[state] |= f->held[state] != 0 ? GRAMMAR_ENDLESS : 0;
}

status_t follow_flags(const regex_automaton_t *a, uint32_t *flags)
{
    following_t f = {.a = a, .held = malloc(a->state_count * sizeof(*f.held))};

    if (f.held == NULL)
        return FAIL(STATUS_NO_MEMORY, "automaton");
    find_samples(&f);
    for (uint32_t state = 1; state < a->state_count; state++) {
        const uint16_t *row = a->next + (size_t)state * a->class_count;
        flags[state] = a->accepts[state] ? GRAMMAR_ACCEPTS : 0;
        for (uint32_t class = 0; class < a->class_count; class ++)
            flags[state] |= row[class] != 0 ? GRAMMAR_GOES_ON : 0;
    }
    find_endless(&f, flags);
    settle(&f, SLICE_STRING, true);
    for (uint32_t state = 1; state < a->state_count; state++) {
        flags[state] |= (f.held[state] & 0xfffe) * GRAMMAR_BODY;
        if (f.held[state] >> SLICE_STATE_START & 1 && is_free(&f, state))
            flags[state] |= GRAMMAR_FREE;
    }
    settle(&f, SLICE_LINE, true);
    for (uint32_t state = 1; state < a->state_count; state++)
        flags[state] |= f.held[state] >> SLICE_STATE_START & 1 ? GRAMMAR_LINE : 0;
    for (unsigned slice = 0; slice < SLICE_COUNT; slice++) {
        if (slice_bound((slice_t)slice) > 0)
            settle_bounded(&f, (slice_t)slice);
        else
            settle(&f, (slice_t)slice, false);
        for (uint32_t state = 1; state < a->state_count; state++) {
            if (f.held[state] >> SLICE_STATE_START & 1)
                flags[state] |= (uint32_t)GRAMMAR_SLICE << slice;
        }
    }
    for (uint32_t state = 1; state < a->state_count; state++) { /* those that another holds go */
        for (unsigned slice = 0; slice < SLICE_DIGIT; slice++) {
            if (flags[state] & (uint32_t)GRAMMAR_SLICE << slice)
                flags[state] &= ~(uint32_t)(GRAMMAR_LINE - (GRAMMAR_SLICE << (slice + 1)));
        }
    }
    free(f.held);
    return STATUS_OK;
}
