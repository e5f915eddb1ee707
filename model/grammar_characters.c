/* grammar_characters.c - characters as terms over bytes; see grammar_pattern.h.
 *
 * A range of characters is cut where the length of UTF-8 changes and where a continuation byte does
 * not run through all its values, so each part is a product of byte ranges.
 */
#include <stdio.h>
#include <string.h>

#include "model/grammar_pattern.h"
#include "model/utf8.h"

enum { SURROGATE_FIRST = 0xd800, SURROGATE_LAST = 0xdfff, CODE_LAST = 0x10ffff };

/* first and last have the same number of bytes and agree in all but what follows one place. */
static uint32_t product(regex_store_t *s, uint32_t first, uint32_t last)
{
    char low[UTF8_BYTES_MAX], high[UTF8_BYTES_MAX];
    unsigned length = utf8_write(first, low);
    uint32_t term = REGEX_EMPTY;

    utf8_write(last, high);
    for (unsigned i = length; i-- > 0;)
        term = regex_cat(s, regex_range(s, (unsigned char)low[i], (unsigned char)high[i]), term);
    return term;
}

static uint32_t utf8_range(regex_store_t *s, uint32_t first, uint32_t last)
{
    static const uint32_t ends[] = {0x7f, 0x7ff, SURROGATE_FIRST - 1, SURROGATE_LAST, 0xffff};

    if (first > last)
        return REGEX_NOTHING;
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        if (first <= ends[i] && last > ends[i])
            return regex_or(s, utf8_range(s, first, ends[i]), utf8_range(s, ends[i] + 1, last));
    }
    if (first >= SURROGATE_FIRST && last <= SURROGATE_LAST)
        return REGEX_NOTHING;
    for (unsigned bits = 6; last > 0x7f && bits <= 18; bits += 6) {
        uint32_t mask = BIT(bits) - 1;
        if ((first & ~mask) == (last & ~mask))
            break;
        if ((first & mask) != 0)
            return regex_or(s, utf8_range(s, first, first | mask),
                            utf8_range(s, (first | mask) + 1, last));
        if ((last & mask) != mask)
            return regex_or(s, utf8_range(s, first, (last & ~mask) - 1),
                            utf8_range(s, last & ~mask, last));
    }
    return product(s, first, last);
}

/* How json.dumps writes a character that it does not write as it is; 0 if it does. */
static unsigned escape_of(uint32_t code, char *out, size_t room)
{
    static const char short_codes[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    const char *at = code == 0 || code > 0x7f ? NULL : strchr(short_codes, (int)code);

    if (at != NULL)
        return (unsigned)snprintf(out, room, "\\%c", letters[at - short_codes]);
    return code < 0x20 ? (unsigned)snprintf(out, room, "\\u%04x", code) : 0;
}

static uint32_t one_range(regex_store_t *s, pattern_form_t form, uint32_t first, uint32_t last)
{
    uint32_t term = REGEX_NOTHING;
    uint32_t from = first;

    if (last > CODE_LAST)
        last = CODE_LAST;
    if (form == PATTERN_PLAIN)
        return utf8_range(s, first, last);
    for (uint32_t code = first; code <= last && code <= '\\'; code++) {
        char text[8];
        unsigned length = escape_of(code, text, sizeof(text));
        if (length == 0)
            continue;
        if (code > from)
            term = regex_or(s, term, utf8_range(s, from, code - 1));
        term = regex_or(s, term, regex_text(s, text, length));
        from = code + 1;
    }
    return from > last ? term : regex_or(s, term, utf8_range(s, from, last));
}

uint32_t pattern_characters(regex_store_t *store, pattern_form_t form,
                            const pattern_range_t *ranges, size_t count)
{
    uint32_t term = REGEX_NOTHING;

    for (size_t i = 0; i < count; i++)
        term = regex_or(store, term, one_range(store, form, ranges[i].first, ranges[i].last));
    regex_mark_character(store, term);
    return term;
}

uint32_t pattern_any(regex_store_t *store, pattern_form_t form)
{
    uint32_t term = one_range(store, form, 0, CODE_LAST);

    regex_mark_character(store, term);
    return term;
}

uint32_t pattern_text(regex_store_t *store, pattern_form_t form, const char *text, size_t length)
{
    uint32_t term = REGEX_EMPTY;
    size_t end = length;

    if (form == PATTERN_PLAIN)
        return regex_text(store, text, length);
    while (end > 0) { /* from behind: concatenation leans to the right */
        char escape[8];
        unsigned escaped = escape_of((unsigned char)text[end - 1], escape, sizeof(escape));
        term = regex_cat(store,
                         escaped > 0 ? regex_text(store, escape, escaped)
                                     : regex_text(store, text + end - 1, 1),
                         term);
        end--;
    }
    return term;
}
