/* grammar_schema_number.c - numbers as Python writes them, between bounds and with divisors.
 *
 * Integers have any number of digits. A fraction has at most 15 significant digits and no needless
 * zero, because exactly those are what Python writes for the float that it reads; very small and very
 * large ones have an exponent of at least two digits. Bounds are compared digit by digit, so they are
 * exact, except that a bound inside the range of exponents cuts at its power of ten.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/grammar_schema.h"

enum { DIGITS_MAX = 400, DIVISOR_MAX = 100000 };

/* A decimal number: the sign, then whole and fraction without needless zeros ("" is 0). */
typedef struct {
    bool negative;
    char whole[DIGITS_MAX + 8], fraction[DIGITS_MAX + 8];
} decimal_t;

static uint32_t parse(regex_store_t *s, const char *pattern)
{
    uint32_t term = REGEX_NOTHING;
    status_t status = pattern_parse(s, PATTERN_PLAIN, false, pattern, strlen(pattern), "", &term);

    if (status != STATUS_OK && s->status == STATUS_OK)
        s->status = status;
    return term;
}

/* False: it has too many digits. */
static bool read_decimal(const schema_t *s, uint32_t node, decimal_t *out)
{
    const document_node_t *n = &s->document.nodes[node];
    const char *text = s->document.text + n->start;
    char digits[2 * DIGITS_MAX + 8];
    size_t length = n->end - n->start, count = 0, at = 0;
    long point = -1, exponent = 0;

    *out = (decimal_t){.negative = text[0] == '-'};
    for (at = out->negative; at < length && text[at] != 'e' && text[at] != 'E'; at++) {
        if (text[at] == '.')
            point = (long)count;
        else if (count < DIGITS_MAX)
            digits[count++] = text[at];
        else
            return false;
    }
    if (at < length)
        exponent = strtol(text + at + 1, NULL, 10);
    point = (point < 0 ? (long)count : point) + exponent;
    if (exponent > DIGITS_MAX || exponent < -DIGITS_MAX)
        return false;
    size_t whole = 0, fraction = 0;
    for (long i = 0; i < point && whole < DIGITS_MAX + 7; i++) {
        char digit = i < (long)count ? digits[i] : '0';
        if (whole > 0 || digit != '0')
            out->whole[whole++] = digit;
    }
    for (long i = point; i < (long)count && fraction < DIGITS_MAX + 7; i++)
        out->fraction[fraction++] = i < 0 ? '0' : digits[i];
    while (fraction > 0 && out->fraction[fraction - 1] == '0')
        fraction--;
    out->whole[whole] = out->fraction[fraction] = '\0';
    if (whole == 0 && fraction == 0)
        out->negative = false;
    return point <= DIGITS_MAX;
}

static uint32_t digit_range(regex_store_t *s, int first, int last)
{
    return first > last ? REGEX_NOTHING : regex_range(s, (unsigned)first, (unsigned)last);
}

static uint32_t digits(regex_store_t *s, uint32_t min, uint32_t max)
{
    return regex_repeat(s, regex_range(s, '0', '9'), min, max);
}

/* As many digits as `bound`, and more (or less) than it; `equal`: or the same. */
static uint32_t compare_digits(regex_store_t *s, const char *bound, bool more, bool equal)
{
    uint32_t term = equal ? REGEX_EMPTY : REGEX_NOTHING;
    size_t length = strlen(bound);

    for (size_t i = length; i-- > 0;) {
        int digit = bound[i];
        uint32_t beyond = more ? digit_range(s, digit + 1, '9') : digit_range(s, '0', digit - 1);
        uint32_t rest = digits(s, (uint32_t)(length - 1 - i), (uint32_t)(length - 1 - i));
        term = regex_or(s, regex_cat(s, beyond, rest),
                        regex_cat(s, digit_range(s, digit, digit), term));
    }
    return term;
}

/* Whole numbers without sign, in their usual form: more (or less) than `whole`, or equal to it. */
static uint32_t compare_whole(regex_store_t *s, const char *whole, bool more, bool equal)
{
    const char *bound = *whole == '\0' ? "0" : whole;
    uint32_t length = (uint32_t)strlen(bound);
    uint32_t usual = parse(s, "0|[1-9][0-9]*");
    uint32_t term = compare_digits(s, bound, more, equal);

    if (more)
        term = regex_or(s, term, digits(s, length + 1, REGEX_NO_END));
    else if (length > 1)
        term = regex_or(s, term, digits(s, 1, length - 1));
    return regex_and(s, term, usual);
}

/* Digits behind a point, which go on without end as zeros: more (or less) than `fraction`. */
static uint32_t compare_fraction(regex_store_t *s, const char *fraction, bool more, bool equal)
{
    uint32_t any = digits(s, 0, REGEX_NO_END);
    uint32_t some = regex_cat(s, any, regex_cat(s, digit_range(s, '1', '9'), any));
    uint32_t zeros = regex_repeat(s, digit_range(s, '0', '0'), 0, REGEX_NO_END);
    uint32_t term = more ? (equal ? any : some) : (equal ? zeros : REGEX_NOTHING);

    for (size_t i = strlen(fraction); i-- > 0;) {
        int digit = fraction[i];
        uint32_t beyond = more ? digit_range(s, digit + 1, '9') : digit_range(s, '0', digit - 1);
        term = regex_or(s, regex_cat(s, beyond, any),
                        regex_cat(s, digit_range(s, digit, digit), term));
        if (!more) /* the text ends: all further digits are 0, and the bound's are not */
            term = regex_or(s, term, REGEX_EMPTY);
    }
    return term;
}

/* Numbers without sign of a type that lie on one side of a bound without sign. */
static uint32_t side_integer(regex_store_t *s, const decimal_t *bound, bool more, bool equal)
{
    bool cut = bound->fraction[0] != '\0'; /* no integer equals the bound */

    return compare_whole(s, bound->whole, more, cut ? !more : equal);
}

/* The power of ten of the first digit; bound is not 0. */
static int power_of(const decimal_t *bound)
{
    size_t zeros = strspn(bound->fraction, "0");

    return bound->whole[0] != '\0' ? (int)strlen(bound->whole) - 1 : -(int)zeros - 1;
}

/* Exponents from first to last, of at least two digits and without needless zeros. */
static uint32_t exponents(regex_store_t *s, char sign, int first, int last)
{
    uint32_t low, high;
    char text[16], end[16];

    if (first > last)
        return REGEX_NOTHING;
    snprintf(text, sizeof(text), "%d", first);
    snprintf(end, sizeof(end), "%d", last);
    low = regex_and(s, compare_whole(s, text, true, true), compare_whole(s, end, false, true));
    high = regex_cat(s, digit_range(s, '0', '0'), regex_and(s, low, digits(s, 1, 1)));
    low = regex_or(s, high, regex_and(s, low, digits(s, 2, 3)));
    return regex_cat(s, regex_text(s, sign == '+' ? "e+" : "e-", 2), low);
}

static uint32_t mantissa(regex_store_t *s)
{
    return parse(s, "[1-9](\\.[0-9]{0,13}[1-9])?");
}

enum { LARGE_FIRST = 16, LARGE_LAST = 307, SMALL_FIRST = 5, SMALL_LAST = 306 };

/* Very large and very small numbers on one side of a bound, which counts by its power of ten. */
static uint32_t side_exponents(regex_store_t *s, const decimal_t *bound, bool more)
{
    bool zero = bound->whole[0] == '\0' && bound->fraction[0] == '\0';
    int power = zero ? -1000 : power_of(bound);
    uint32_t large, small;

    if (more) {
        large = exponents(s, '+', power + 1 > LARGE_FIRST ? power + 1 : LARGE_FIRST, LARGE_LAST);
        small = exponents(s, '-', SMALL_FIRST, -power - 1 < SMALL_LAST ? -power - 1 : SMALL_LAST);
    } else {
        large = exponents(s, '+', LARGE_FIRST, power - 1 < LARGE_LAST ? power - 1 : LARGE_LAST);
        small = exponents(s, '-', -power + 1 > SMALL_FIRST ? -power + 1 : SMALL_FIRST, SMALL_LAST);
    }
    return regex_cat(s, mantissa(s), regex_or(s, large, small));
}

static uint32_t side_fraction(regex_store_t *s, const decimal_t *bound, bool more, bool equal)
{
    uint32_t point = regex_text(s, ".", 1), any = digits(s, 1, REGEX_NO_END);
    uint32_t beyond = compare_whole(s, bound->whole, more, false);
    const char *whole = bound->whole[0] == '\0' ? "0" : bound->whole;
    uint32_t same =
        regex_cat(s, regex_text(s, whole, strlen(whole)),
                  regex_cat(s, point, compare_fraction(s, bound->fraction, more, equal)));

    return regex_or(s, side_exponents(s, bound, more),
                    regex_or(s, regex_cat(s, beyond, regex_cat(s, point, any)), same));
}

/* All numbers of a type, without sign, as Python writes them. */
static uint32_t usual(regex_store_t *s, uint32_t type)
{
    if (type == SCHEMA_INTEGER)
        return parse(s, "0|[1-9][0-9]*");
    if (type == SCHEMA_WHOLE)
        return regex_or(s, parse(s, "(?:0|[1-9][0-9]{0,14})\\.0"),
                        regex_cat(s, mantissa(s), exponents(s, '+', LARGE_FIRST, LARGE_LAST)));
    uint32_t plain = regex_and(s, parse(s, "[1-9][0-9]*\\.[0-9]*[1-9]"), parse(s, ".{3,16}"));
    uint32_t small = parse(s, "0\\.0{0,3}[1-9]([0-9]{0,13}[1-9])?");
    return regex_or(s, regex_or(s, plain, small),
                    regex_cat(s, mantissa(s), exponents(s, '-', SMALL_FIRST, SMALL_LAST)));
}

/* On the side of the bound where numbers with this sign may be: REGEX_ANY if all of them are. */
static uint32_t side(schema_t *s, const bound_list_t *at, uint32_t type, bool negative)
{
    regex_store_t *r = &s->build.regexes;
    decimal_t bound;
    bool more = at->upper == negative, equal = !at->bound.exclusive;

    if (!read_decimal(s, at->bound.node, &bound)) {
        schema_refuse(s, STATUS_TOO_LARGE, at->bound.node, at->upper ? "maximum" : "minimum",
                      "more than %d digits", DIGITS_MAX);
        return REGEX_NOTHING;
    }
    bool zero = bound.whole[0] == '\0' && bound.fraction[0] == '\0';
    if (bound.negative != negative && !(zero && negative))
        return at->upper == negative ? REGEX_ANY : REGEX_NOTHING;
    return type == SCHEMA_INTEGER ? side_integer(r, &bound, more, equal)
                                  : side_fraction(r, &bound, more, equal);
}

static uint32_t gcd(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Numbers of a type that are multiples of what a node says. */
static uint32_t multiples(schema_t *s, uint32_t node, uint32_t type)
{
    regex_store_t *r = &s->build.regexes;
    decimal_t divisor;
    char text[32];
    uint64_t scaled, power = 1;

    if (!read_decimal(s, node, &divisor) || divisor.negative ||
        strlen(divisor.whole) + strlen(divisor.fraction) > 9) {
        schema_refuse(s, STATUS_UNSUPPORTED, node, "multipleOf", "it has too many digits");
        return REGEX_NOTHING;
    }
    snprintf(text, sizeof(text), "%.10s%.10s", divisor.whole, divisor.fraction);
    scaled = strtoull(text, NULL, 10);
    for (size_t i = 0; i < strlen(divisor.fraction); i++)
        power *= 10;
    if (scaled == 0) {
        schema_refuse(s, STATUS_INVALID, node, "multipleOf", "it is 0");
        return REGEX_NOTHING;
    }
    uint32_t whole = (uint32_t)scaled / gcd((uint32_t)scaled, (uint32_t)power);
    if (whole > DIVISOR_MAX) {
        schema_refuse(s, STATUS_TOO_LARGE, node, "multipleOf", "at most %d", DIVISOR_MAX);
        return REGEX_NOTHING;
    }
    uint32_t multiple = regex_multiple(r, whole, 0);
    if (type == SCHEMA_INTEGER)
        return multiple;
    if (type == SCHEMA_WHOLE)
        return regex_cat(r, multiple, regex_text(r, ".0", 2));
    if (power == 1)
        return REGEX_NOTHING; /* no fraction is */
    if (scaled != 1) {
        schema_refuse(s, STATUS_UNSUPPORTED, node, "multipleOf",
                      "of a fraction, only 0.1, 0.01 and so on");
        return REGEX_NOTHING;
    }
    return regex_cat(
        r, digits(r, 1, REGEX_NO_END),
        regex_cat(r, regex_text(r, ".", 1), digits(r, 1, (uint32_t)strlen(divisor.fraction))));
}

/* Numbers that `not` names as constants, as they are written. */
static uint32_t excluded_numbers(schema_t *s, const shape_t *shape)
{
    const document_t *d = &s->document;
    regex_store_t *r = &s->build.regexes;
    uint32_t term = REGEX_NOTHING;

    for (const element_list_t *at = shape->not_constants; at != NULL; at = at->next) {
        uint32_t values = at->element >> 1;
        bool many = document_kind(d, values) == DOCUMENT_ARRAY;
        uint32_t value =
            many ? document_next(d, values, DOCUMENT_NONE) : schema_member(s, values, "const");
        for (; value != DOCUMENT_NONE;
             value = many ? document_next(d, values, value) : DOCUMENT_NONE) {
            decimal_t decimal;
            char text[2 * DIGITS_MAX + 32];
            if (document_kind(d, value) != DOCUMENT_NUMBER || !read_decimal(s, value, &decimal))
                continue;
            const char *sign = decimal.negative ? "-" : "";
            const char *whole = decimal.whole[0] == '\0' ? "0" : decimal.whole;
            if (decimal.fraction[0] == '\0') {
                snprintf(text, sizeof(text), "%s%s", sign, whole);
                term = regex_or(r, term, regex_text(r, text, strlen(text)));
            }
            snprintf(text, sizeof(text), "%s%s.%s", sign, whole,
                     decimal.fraction[0] == '\0' ? "0" : decimal.fraction);
            term = regex_or(r, term, regex_text(r, text, strlen(text)));
        }
    }
    return term;
}

uint32_t schema_number_term(schema_t *s, const shape_t *shape, uint32_t type)
{
    regex_store_t *r = &s->build.regexes;
    uint32_t all = REGEX_NOTHING;

    for (unsigned negative = 0; negative < 2; negative++) {
        uint32_t term = usual(r, type);
        if (negative && type == SCHEMA_INTEGER)
            term = regex_and(r, term, parse(r, "[1-9][0-9]*")); /* not -0 */
        for (const bound_list_t *at = shape->bounds; at != NULL; at = at->next)
            term = regex_and(r, term, side(s, at, type, negative));
        for (const element_list_t *at = shape->multiples; at != NULL; at = at->next) {
            uint32_t multiple = multiples(s, at->element >> 1, type);
            term = regex_and(r, term, at->element & 1 ? regex_not(r, multiple) : multiple);
        }
        all = regex_or(r, all, negative ? regex_cat(r, regex_text(r, "-", 1), term) : term);
    }
    uint32_t without = excluded_numbers(s, shape);
    return without == REGEX_NOTHING ? all : regex_and(r, all, regex_not(r, without));
}

void schema_write_number(schema_t *s, const shape_t *shape, uint32_t from, uint32_t to)
{
    uint32_t term = REGEX_NOTHING, types = shape->types & SCHEMA_NUMBER;

    if (shape->bounds == NULL && shape->multiples == NULL && shape->not_constants == NULL &&
        (types == SCHEMA_INTEGER || types == SCHEMA_NUMBER)) {
        build_edge_standard(&s->build, from, to,
                            types == SCHEMA_NUMBER ? STANDARD_NUMBER : STANDARD_INTEGER, NULL, 0);
        return;
    }
    for (uint32_t type = SCHEMA_INTEGER; type <= SCHEMA_WHOLE; type *= 2) {
        if (types & type)
            term = regex_or(&s->build.regexes, term, schema_number_term(s, shape, type));
    }
    build_edge_term(&s->build, from, to, term);
}
