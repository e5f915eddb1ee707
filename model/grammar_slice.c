/* grammar_slice.c - see grammar_slice.h: small automata by hand. */
#include "model/grammar_slice.h"

/* States of SLICE_STRING and SLICE_LINE: 1 between characters, 2..7 inside UTF-8, 8.. inside an escape. */
enum {
    ONE_MORE = 2,
    TWO_MORE,
    THREE_MORE,
    AFTER_E0,
    AFTER_ED,
    AFTER_F0,
    AFTER_F4,
    ESCAPE,
    ESCAPE_U,
    ESCAPE_0,
    ESCAPE_00,
    ESCAPE_000,
    ESCAPE_001,
    AFTER_E2, /* these two in SLICE_LINE only */
    AFTER_E2_80
};

static bool in(unsigned byte, unsigned first, unsigned last)
{
    return byte >= first && byte <= last;
}

static uint32_t string_start(unsigned byte)
{
    if (byte == '\\')
        return ESCAPE;
    if (byte < 0x80)
        return byte < 0x20 || byte == '"' ? SLICE_STATE_DEAD : SLICE_STATE_START;
    if (in(byte, 0xc2, 0xdf))
        return ONE_MORE;
    if (in(byte, 0xe0, 0xef))
        return byte == 0xe0 ? AFTER_E0 : byte == 0xed ? AFTER_ED : TWO_MORE;
    if (in(byte, 0xf0, 0xf4))
        return byte == 0xf0 ? AFTER_F0 : byte == 0xf4 ? AFTER_F4 : THREE_MORE;
    return SLICE_STATE_DEAD;
}

static bool is_one_of(unsigned byte, const char *bytes)
{
    while (*bytes != '\0' && (unsigned char)*bytes != byte)
        bytes++;
    return *bytes != '\0';
}

/* Control characters have a short escape or \u00 and two digits. */
static uint32_t string_escape(uint32_t state, unsigned byte)
{
    bool last;

    switch (state) {
    case ESCAPE:
        return byte == 'u' ? ESCAPE_U : is_one_of(byte, "bfnrt\"\\") ? SLICE_STATE_START : 0;
    case ESCAPE_U:
        return byte == '0' ? ESCAPE_0 : SLICE_STATE_DEAD;
    case ESCAPE_0:
        return byte == '0' ? ESCAPE_00 : SLICE_STATE_DEAD;
    case ESCAPE_00:
        return byte == '0' ? ESCAPE_000 : byte == '1' ? ESCAPE_001 : SLICE_STATE_DEAD;
    case ESCAPE_000: /* not 8 9 a c d, which are short */
        last = in(byte, '0', '7') || is_one_of(byte, "bef");
        return last ? SLICE_STATE_START : SLICE_STATE_DEAD;
    default:
        last = in(byte, '0', '9') || in(byte, 'a', 'f');
        return last ? SLICE_STATE_START : SLICE_STATE_DEAD;
    }
}

static uint32_t string_step(uint32_t state, unsigned byte)
{
    switch (state) {
    case SLICE_STATE_START:
        return string_start(byte);
    case ONE_MORE:
        return in(byte, 0x80, 0xbf) ? SLICE_STATE_START : SLICE_STATE_DEAD;
    case TWO_MORE:
        return in(byte, 0x80, 0xbf) ? ONE_MORE : SLICE_STATE_DEAD;
    case THREE_MORE:
        return in(byte, 0x80, 0xbf) ? TWO_MORE : SLICE_STATE_DEAD;
    case AFTER_E0:
        return in(byte, 0xa0, 0xbf) ? ONE_MORE : SLICE_STATE_DEAD;
    case AFTER_ED:
        return in(byte, 0x80, 0x9f) ? ONE_MORE : SLICE_STATE_DEAD;
    case AFTER_F0:
        return in(byte, 0x90, 0xbf) ? TWO_MORE : SLICE_STATE_DEAD;
    case AFTER_F4:
        return in(byte, 0x80, 0x8f) ? TWO_MORE : SLICE_STATE_DEAD;
    default:
        return string_escape(state, byte);
    }
}

/* Not \n and \r, and not U+2028 and U+2029, which are e2 80 a8 and e2 80 a9. */
static uint32_t line_step(uint32_t state, unsigned byte)
{
    if (state == SLICE_STATE_START && byte == 0xe2)
        return AFTER_E2;
    if (state == AFTER_E2)
        return byte == 0x80 ? AFTER_E2_80 : in(byte, 0x81, 0xbf) ? ONE_MORE : SLICE_STATE_DEAD;
    if (state == AFTER_E2_80)
        return in(byte, 0x80, 0xbf) && byte != 0xa8 && byte != 0xa9 ? SLICE_STATE_START : 0;
    if (state == ESCAPE && (byte == 'n' || byte == 'r'))
        return SLICE_STATE_DEAD;
    return string_step(state, byte);
}

uint32_t slice_bound(slice_t slice)
{
    return slice == SLICE_DIGIT ? 3 : slice == SLICE_WORD || slice == SLICE_LOWER ? 16 : 0;
}

uint32_t slice_step(slice_t slice, uint32_t state, unsigned byte)
{
    bool lower = in(byte, 'a', 'z'), digit = in(byte, '0', '9');

    switch (slice) {
    case SLICE_STRING:
        return state == SLICE_STATE_DEAD ? SLICE_STATE_DEAD : string_step(state, byte);
    case SLICE_LINE:
        return state == SLICE_STATE_DEAD ? SLICE_STATE_DEAD : line_step(state, byte);
    case SLICE_WORD:
        return state != 0 && (lower || digit || in(byte, 'A', 'Z'));
    case SLICE_LOWER:
        return state != 0 && lower;
    case SLICE_DIGIT:
        return state != 0 && digit;
    case SLICE_COUNT:
        break;
    }
    return SLICE_STATE_DEAD;
}
